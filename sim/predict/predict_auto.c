/* What auto stands for: an order made for the predicted times, or a schedule of the table that is faster. */
#include "predict_parts.h"

#include "error.h"
#include "units.h"

enum { MOST_TRIES = 6 }; /* of making its order under a cap */

/* Bytes a GPU may hold in all. */
static double most_bytes(const Plan *plan, const Cluster *cluster) {
  return plan->memory_cap > 0 ? plan->memory_cap : gpu_room_bytes(&cluster->gpu);
}

static gboolean holds(const Prediction *prediction, double bytes) {
  return prediction->memory->peak_bytes <= bytes;
}

/* Without what makes ranks differ, which no order is made for. */
static Plan *plan_of_equal_ranks(const Plan *plan) {
  Plan *equal = plan_copy(plan);
  equal->fold = TRUE;
  equal->jitter = 0;
  g_array_set_size(equal->slow_ranks, 0);
  return equal;
}

/* auto's order, predicted. It is made for what is known of memory before it is lowered; what it then holds too much is
 * taken off what it is made for, plan->order_cap, and it is made again. NULL when none found holds at most `bytes`. */
static Prediction *predict_made(PredictScratch *scratch, const Model *model, const Cluster *cluster, Plan *plan,
                                double bytes, GError **error) {
  for (int i = 0; i < MOST_TRIES; i++) {
    g_autoptr(Prediction) prediction = predict_as_named(scratch, model, cluster, plan, error);
    if (prediction == NULL || holds(prediction, bytes))
      return g_steal_pointer(&prediction);
    plan->order_cap = (i > 0 ? plan->order_cap : bytes) - (prediction->memory->peak_bytes - bytes);
    if (plan->order_cap < 1)
      break;
  }
  g_autofree char *text = units_format(bytes, UNIT_BYTES);
  fail_impossible(error, "schedule auto: no order found that holds at most %s", text);
  return NULL;
}

/* The fastest schedule of the table that fits, where it is faster than `made`, auto's order (NULL: there is none);
 * NULL: none. An order made for F, I and W knows neither what a whole backward hides that I alone does not, nor another
 * placement of its chunks. `opened`: what the plan leaves open is as auto has it. */
static const char *faster_of_table(PredictScratch *scratch, const Model *model, const Cluster *cluster,
                                   const Plan *opened, const Prediction *made) {
  const char *best = NULL;
  const double bytes = most_bytes(opened, cluster);
  gint64 least_ns = made != NULL ? made->metrics->step_ns : G_MAXINT64;
  for (const char *const *name = schedule_names(); *name != NULL; name++) {
    const ScheduleInfo *info = schedule_find(*name, NULL);
    if (info->placement == PLACEMENT_BIDIRECTIONAL || !schedule_check_chunks(info, opened->chunks, NULL))
      continue;
    g_autoptr(Plan) plan = plan_of_equal_ranks(opened);
    g_free(plan->schedule);
    plan->schedule = g_strdup(*name);
    g_autoptr(Prediction) prediction = predict_numbers_as_named(scratch, model, cluster, plan, NULL);
    if (prediction == NULL || !holds(prediction, bytes) || prediction->metrics->step_ns >= least_ns)
      continue;
    least_ns = prediction->metrics->step_ns;
    best = *name;
  }
  return best;
}

Plan *predict_settled(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                      GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Plan) opened = plan_copy(plan);
  if (!plan_order_open(&choice, opened, error))
    return NULL;
  if (!plan_order_is_auto(&choice))
    return plan_copy(plan);
  g_autoptr(Plan) equal = plan_of_equal_ranks(opened);
  g_autoptr(GError) reason = NULL;
  g_autoptr(Prediction) made = predict_made(scratch, model, cluster, equal, most_bytes(opened, cluster), &reason);
  const char *faster = faster_of_table(scratch, model, cluster, opened, made);
  if (made == NULL && faster == NULL) {
    g_propagate_error(error, g_steal_pointer(&reason));
    return NULL;
  }
  opened->order_cap = equal->order_cap;
  if (faster != NULL) {
    g_free(opened->schedule);
    opened->schedule = g_strdup(faster);
  }
  return g_steal_pointer(&opened);
}
