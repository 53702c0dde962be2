/* What auto stands for: an order made for the predicted times, or a built-in schedule that is faster. */
#include "predict_parts.h"

#include "error.h"
#include "units.h"

/* The search for the cap under which auto's order fits. The cap first drops by the excess, or by 1 / COARSE of the
 * GPU if that is more, and by twice as much each time; then the interval is halved until it is 1 / FINE of the
 * GPU. */
enum { MOST_TRIES = 20, COARSE = 512, FINE = 128 };

/* The bytes a GPU may hold in all. */
static double most_bytes(const Plan *plan, const Cluster *cluster) {
  return plan->memory_cap > 0 ? plan->memory_cap : gpu_room_bytes(&cluster->gpu);
}

static gboolean holds(const Prediction *prediction, double bytes) {
  return prediction->memory->peak_bytes <= bytes;
}

/* The plan without anything that makes ranks differ: no order is made for that. */
static Plan *plan_of_equal_ranks(const Plan *plan) {
  Plan *equal = plan_copy(plan);
  equal->fold = TRUE;
  equal->jitter = 0;
  g_array_set_size(equal->slow_ranks, 0);
  return equal;
}

/* The search for an order that holds at most `bytes`. */
typedef struct {
  PredictScratch *scratch;
  const Model *model;
  const Cluster *cluster;
  Plan *plan; /* its order_cap is that of the try */
  double bytes;
  double low, high; /* caps: at `low` an order that fits was found or none can be made (< 0: neither yet); at `high`
                       it holds too much */
  Prediction *best; /* owned; the fastest that holds at most `bytes` */
  double best_cap;
} CapSearch;

static void try_cap(CapSearch *search, double cap) {
  search->plan->order_cap = cap;
  g_autoptr(Prediction) made = predict_as_named(search->scratch, search->model, search->cluster, search->plan, NULL);
  const double excess = made != NULL ? made->memory->peak_bytes - search->bytes : 0;
  if (excess > 0) {
    search->high = cap;
    return;
  }
  search->low = cap;
  if (made == NULL || (search->best != NULL && search->best->metrics->step_ns <= made->metrics->step_ns))
    return;
  prediction_free(search->best);
  search->best = g_steal_pointer(&made);
  search->best_cap = cap;
}

static void search_caps(CapSearch *search, double excess) {
  double step = MAX(excess, search->bytes / COARSE);
  for (int i = 0; i < MOST_TRIES; i++) {
    const double cap = search->low < 0 ? MAX(search->high - step, 0) : (search->low + search->high) / 2;
    if (search->low >= 0 && search->high - search->low < search->bytes / FINE)
      return;
    if (cap < 1) { /* 0 would mean no cap */
      search->low = 0;
      continue;
    }
    try_cap(search, cap);
    step *= 2;
  }
}

/* Predicts auto's order. The order is made from what is known of memory before lowering, so it may turn out to hold
 * more. Orders hold whole micro-batches, so one made for a slightly smaller cap is often the same. NULL when no order
 * found holds at most `bytes`. */
static Prediction *predict_made(PredictScratch *scratch, const Model *model, const Cluster *cluster, Plan *plan,
                                double bytes, GError **error) {
  g_autoptr(Prediction) prediction = predict_as_named(scratch, model, cluster, plan, error);
  if (prediction == NULL || holds(prediction, bytes))
    return g_steal_pointer(&prediction);
  CapSearch search = {scratch, model, cluster, plan, bytes, -1, bytes, NULL, 0};
  search_caps(&search, prediction->memory->peak_bytes - bytes);
  plan->order_cap = search.best_cap;
  if (search.best != NULL)
    return search.best;
  g_autofree char *text = units_format(bytes, UNIT_BYTES);
  fail_impossible(error, "schedule auto: no order found that holds at most %s", text);
  return NULL;
}

/* The fastest built-in schedule that fits and is faster than `made`, auto's order (NULL: there is none); NULL: there
 * is no such schedule. An order made for F, I and W accounts neither for what a whole backward hides and I alone does
 * not, nor for another placement of its chunks. `opened`: the plan with its open choices made as for auto. */
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
