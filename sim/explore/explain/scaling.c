/* GPU time per token is what MFU is the inverse of: FLOPs per token and peak stay. So the parts of the step, times GPUs
 * over tokens, add up to it at each size, and what they grew by adds up to what MFU lost. */
#include "scaling.h"

#include "error.h"

static ScalingSize size_of(const Prediction *prediction) {
  const Plan *plan = prediction->workload->plan;
  ScalingSize size = {.gpus = plan->gpus,
                      .global_batch = plan->global_batch,
                      .n_micro_batches = plan->n_micro_batches,
                      .dp = plan->dp,
                      .step_time_s = prediction->step_time_s,
                      .tokens_per_s = prediction->tokens_per_s,
                      .mfu = prediction->mfu,
                      .fits = prediction->fits};
  double tokens = (double)plan->global_batch * (double)plan->seq_len;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    size.gpu_s_per_token[kind] = prediction->metrics->mean_s[kind] * plan->gpus / tokens;
  return size;
}

/* Whole sequences per GPU ratio, or an error of the plan's own when it does not divide. */
static gint64 batch_at(const Plan *plan, gint64 gpus, gint64 first_gpus, gboolean is_weak) {
  return is_weak ? plan->global_batch * gpus / first_gpus : plan->global_batch;
}

static gboolean add_size(Scaling *scaling, const SpacePoint *point, gint64 gpus, gint64 global_batch, GError **error) {
  g_autoptr(Plan) sized = plan_copy(point->plan);
  sized->gpus = (int)gpus;
  sized->dp = 0;
  sized->global_batch = global_batch;
  g_autoptr(Prediction) prediction = predict_numbers(point->model, point->cluster, sized, error);
  if (prediction == NULL) {
    g_prefix_error(error, "on %" G_GINT64_FORMAT " GPUs: ", gpus);
    return FALSE;
  }
  ScalingSize size = size_of(prediction);
  g_array_append_val(scaling->sizes, size);
  return TRUE;
}

static double per_token(const ScalingSize *size) {
  return size->gpus / size->tokens_per_s;
}

static gint by_growth(gconstpointer a, gconstpointer b, gpointer data) {
  const double *grew = data;
  double x = grew[*(const int *)a], y = grew[*(const int *)b];
  return x != y ? (x > y ? -1 : 1) : *(const int *)a - *(const int *)b;
}

static void compare_ends(Scaling *scaling) {
  const ScalingSize *first = &g_array_index(scaling->sizes, ScalingSize, 0);
  const ScalingSize *last = &g_array_index(scaling->sizes, ScalingSize, scaling->sizes->len - 1);
  scaling->factor = per_token(last) / per_token(first);
  for (int kind = 0; kind < N_BREAKDOWN; kind++) {
    scaling->grew[kind] = (last->gpu_s_per_token[kind] - first->gpu_s_per_token[kind]) / per_token(first);
    scaling->order[kind] = kind;
  }
  g_qsort_with_data(scaling->order, N_BREAKDOWN, sizeof *scaling->order, by_growth, scaling->grew);
}

Scaling *scaling_new(const SpacePoint *point, const GArray *gpus, gboolean is_weak, GError **error) {
  g_assert(gpus->len >= 2);
  g_autoptr(Scaling) scaling = g_new0(Scaling, 1);
  scaling->sizes = g_array_new(FALSE, FALSE, sizeof(ScalingSize));
  gint64 first_gpus = g_array_index(gpus, gint64, 0);
  for (guint i = 0; i < gpus->len; i++) {
    gint64 n = g_array_index(gpus, gint64, i);
    if (n > G_MAXINT) {
      fail_input(error, "--gpus: found %" G_GINT64_FORMAT ", expected below 2147483648", n);
      return NULL;
    }
    if (!add_size(scaling, point, n, batch_at(point->plan, n, first_gpus, is_weak), error))
      return NULL;
  }
  compare_ends(scaling);
  return g_steal_pointer(&scaling);
}

void scaling_free(Scaling *scaling) {
  if (scaling == NULL)
    return;
  g_array_unref(scaling->sizes);
  g_free(scaling);
}
