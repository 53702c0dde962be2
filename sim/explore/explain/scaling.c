/* GPU time per token is what MFU is the inverse of: FLOPs per token and peak stay. So the parts of the step, times GPUs
 * over tokens, add up to it at each size, and what they grew by adds up to what MFU lost. */
#include "scaling.h"

#include "error.h"
#include "units.h"

static ScalingSize size_of(const PlanOutcome *outcome) {
  const Plan *plan = outcome->completed;
  ScalingSize size = {.gpus = plan->gpus,
                      .global_batch = plan->global_batch,
                      .n_micro_batches = plan->n_micro_batches,
                      .dp = plan->dp,
                      .step_time_s = outcome->step_time_s,
                      .interval = outcome->interval,
                      .tokens_per_s = outcome->tokens_per_s,
                      .mfu = outcome->mfu,
                      .fits = outcome->fits};
  const double tokens = plan->seq_lengths != NULL ? outcome->tokens_per_s * outcome->step_time_s
                                                  : (double)plan->global_batch * (double)plan->seq_len;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    size.gpu_s_per_token[kind] = outcome->breakdown_s[kind] * plan->gpus / tokens;
  return size;
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

/* With whole sequences per GPU ratio, or an error of the plan's own when it does not divide. */
static GArray *variants_of(const SpacePoint *point, const GArray *gpus, gboolean is_weak, GError **error) {
  g_autoptr(GArray) sizes = variants_new();
  const gint64 first = g_array_index(gpus, gint64, 0), batch = point->plan->global_batch;
  for (guint i = 0; i < gpus->len; i++) {
    const gint64 n = g_array_index(gpus, gint64, i);
    if (n > G_MAXINT) {
      fail_input(error, "--gpus: found %" G_GINT64_FORMAT ", expected below 2147483648", n);
      return NULL;
    }
    variants_add(sizes, point->model, point->cluster, vary_size(point->plan, n, is_weak ? batch * n / first : batch));
  }
  return g_steal_pointer(&sizes);
}

Scaling *scaling_new(const SpacePoint *point, const GArray *gpus, gboolean is_weak, GError **error) {
  g_assert(gpus->len >= 2);
  g_autoptr(GArray) sizes = variants_of(point, gpus, is_weak, error);
  if (sizes == NULL)
    return NULL;
  g_autoptr(Scaling) scaling = g_new0(Scaling, 1);
  scaling->sizes = g_array_new(FALSE, FALSE, sizeof(ScalingSize));
  variants_predict(sizes, &(VaryHow){0}, NULL);
  for (guint i = 0; i < sizes->len; i++) {
    Variant *variant = variants_get(sizes, i);
    if (variant->problem != NULL) {
      g_propagate_prefixed_error(error, g_steal_pointer(&variant->problem), "on %d GPUs: ", variant->plan->gpus);
      return NULL;
    }
    const ScalingSize size = size_of(variant->outcome);
    g_array_append_val(scaling->sizes, size);
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

/* --- the verdict --- */

/* What is wrong at the larger size: the parts of the step by how much they grew, each with why that follows from the
 * plan and what to look at. */

/* Of the GPU time per token that was added. */
static const double least_share = 0.1;

typedef struct {
  const ScalingSize *first, *last;
  const Plan *plan;
  int domain_gpus;
} Ends;

static void say_bubble(const Ends *ends, GString *out) {
  const Plan *plan = ends->plan;
  if (plan->pp == 1) {
    g_string_append(out, ": with one stage this is ranks waiting for the slowest one.");
    return;
  }
  double per_work = (double)(plan->pp - 1) / plan->chunks;
  g_string_append_printf(
      out,
      ": a pipeline has %" INT64 " micro-batch%s where it had %" INT64 ", so with equal stages "
      "waiting adds %.1f %% to the work where it added %.1f %%. More micro-batches (a larger "
      "--global-batch, a smaller --micro-batch) or more --chunks help, more GPUs per pipeline do not.",
      ends->last->n_micro_batches, ends->last->n_micro_batches == 1 ? "" : "es", ends->first->n_micro_batches,
      100 * per_work / (double)ends->last->n_micro_batches, 100 * per_work / (double)ends->first->n_micro_batches);
}

static void say_dp(const Ends *ends, GString *out) {
  g_string_append_printf(out,
                         ": gradients are summed over dp %d instead of %d, over the network once a group is wider than "
                         "a domain of %d GPUs, beside %" INT64 " micro-batch%s of work instead of %" INT64
                         ". More work "
                         "per step (--global-batch), overlap or a faster network help.",
                         ends->last->dp, ends->first->dp, ends->domain_gpus, ends->last->n_micro_batches,
                         ends->last->n_micro_batches == 1 ? "" : "es", ends->first->n_micro_batches);
}

static void say_tp(const Ends *ends, GString *out) {
  if (ends->plan->tp > ends->domain_gpus)
    g_string_append_printf(out, ": tp %d crosses the network, beyond domains of %d GPUs. Keep it inside one.",
                           ends->plan->tp, ends->domain_gpus);
  else
    g_string_append_printf(out, ": tp %d itself stays inside a domain of %d GPUs at every size.", ends->plan->tp,
                           ends->domain_gpus);
}

/* Where pp is outermost, data parallel ranks lie between neighbouring stages. */
static void say_pp(const Ends *ends, GString *out) {
  const Plan *plan = ends->plan;
  g_string_append(out, ": sends between stages are waited for");
  if (plan->order[N_AXES - 1] == AXIS_PP)
    g_string_append_printf(out, ", whose neighbours are %d GPUs apart instead of %d (a domain has %d)",
                           ends->last->gpus / plan->pp, ends->first->gpus / plan->pp, ends->domain_gpus);
  g_string_append(out,
                  ". --overlap-p2p on hides them, fewer --chunks send less, another --order brings stages together.");
}

static void say_once_a_step(const Ends *ends, GString *out) {
  g_string_append(out, ": it is done once a step, and a step has less work per GPU.");
}

static const struct {
  BreakdownKind kind;
  void (*say)(const Ends *ends, GString *out);
} causes[] = {{BREAKDOWN_BUBBLE, say_bubble},
              {BREAKDOWN_DP, say_dp},
              {BREAKDOWN_TP, say_tp},
              {BREAKDOWN_PP, say_pp},
              {BREAKDOWN_OPTIMIZER, say_once_a_step},
              {BREAKDOWN_HOST, say_once_a_step}};

static char *cause(const Ends *ends, BreakdownKind kind, double grew, double added) {
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "%.0f %% of it is %s", 100 * grew / added, breakdown_name(kind));
  gsize i = 0;
  while (i < G_N_ELEMENTS(causes) && causes[i].kind != kind)
    i++;
  if (i < G_N_ELEMENTS(causes))
    causes[i].say(ends, out);
  else
    g_string_append_c(out, '.');
  return g_string_free(out, FALSE);
}

GPtrArray *scaling_verdict(const Scaling *scaling, const Plan *plan, int domain_gpus) {
  const Ends ends = {&g_array_index(scaling->sizes, ScalingSize, 0),
                     &g_array_index(scaling->sizes, ScalingSize, scaling->sizes->len - 1), plan, domain_gpus};
  GPtrArray *verdict = g_ptr_array_new_with_free_func(g_free);
  double added = scaling->factor - 1;
  g_ptr_array_add(verdict,
                  g_strdup_printf("MFU goes from %.2f %% on %d GPUs to %.2f %% on %d: a token takes %.3f times the GPU "
                                  "time.",
                                  100 * ends.first->mfu, ends.first->gpus, 100 * ends.last->mfu, ends.last->gpus,
                                  scaling->factor));
  for (int i = 0; i < N_BREAKDOWN && added > 0; i++) {
    int kind = scaling->order[i];
    if (scaling->grew[kind] >= least_share * added)
      g_ptr_array_add(verdict, cause(&ends, (BreakdownKind)kind, scaling->grew[kind], added));
  }
  return verdict;
}
