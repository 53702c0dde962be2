/* What auto stands for: of its candidates (plan_candidates()) that a GPU can hold, the one with the shortest step
 * as predicted; the first of equal ones. An order is made for F, I and W of a folded run and accounts neither for what
 * a whole backward hides and I alone does not, nor for another placement of its chunks, nor for what differs between
 * ranks: so schedules of the table may be faster, or hold less. */

#include "error.h"
#include "memory_bound.h"
#include "mixed_gpus.h"
#include "plan_run.h"
#include "plan_schedule.h"
#include "units.h"

/* The search for the cap under which auto's order fits. The cap first drops by the excess, or by 1 / COARSE of the
 * GPU if that is more, and by twice as much each time; then the interval is halved until it is 1 / FINE of the
 * GPU. */
enum { MOST_TRIES = 20, COARSE = 512, FINE = 128 };

/* The bytes that a rank may hold. */
static double most_bytes(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return plan->memory_cap > 0 ? plan->memory_cap : mixed_gpus_room_bytes(workload, cluster);
}

static gboolean holds(const Prediction *prediction) {
  return prediction->memory->peak_bytes <= most_bytes(prediction->workload, prediction->cluster);
}

static Prediction *run_plan(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  Workload *workload = workload_complete(model, cluster, plan, error);
  return workload != NULL ? plan_run(NULL, workload, cluster, RUN_NUMBERS, error) : NULL;
}

/* The search for an order that holds at most `bytes`. */
typedef struct {
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
  g_autoptr(Prediction) made = run_plan(search->model, search->cluster, search->plan, NULL);
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
 * more. Orders hold whole micro-batches, so one made for a slightly smaller cap is often the same. Sets the plan's
 * order_cap. NULL when no order found holds at most what a rank may. */
static Prediction *search_made(const Model *model, const Cluster *cluster, Plan *plan, GError **error) {
  g_autoptr(Prediction) prediction = run_plan(model, cluster, plan, error);
  if (prediction == NULL || holds(prediction))
    return g_steal_pointer(&prediction);
  const double bytes = most_bytes(prediction->workload, cluster);
  CapSearch search = {model, cluster, plan, bytes, -1, bytes, NULL, 0};
  search_caps(&search, prediction->memory->peak_bytes - bytes);
  plan->order_cap = search.best_cap;
  if (search.best != NULL)
    return search.best;
  g_autofree char *text = units_format(bytes, UNIT_BYTES);
  fail_impossible(error, "schedule auto: no order found that holds at most %s", text);
  return NULL;
}

/* With slow ranks and jitter a run takes as many times longer as there are ranks beside a folded one's: the cap is
 * searched for without them, as they hardly matter to memory, and again only if they do. */
static Prediction *predict_made(const Model *model, const Cluster *cluster, Plan *plan, GError **error) {
  if (plan->jitter == 0 && plan->slow_ranks->len == 0)
    return search_made(model, cluster, plan, error);
  g_autoptr(Plan) equal = plan_copy(plan);
  equal->jitter = 0;
  g_array_set_size(equal->slow_ranks, 0);
  g_autoptr(Prediction) undisturbed = search_made(model, cluster, equal, error);
  if (undisturbed == NULL)
    return NULL;
  plan->order_cap = equal->order_cap;
  g_autoptr(Prediction) prediction = run_plan(model, cluster, plan, error);
  if (prediction == NULL || holds(prediction))
    return g_steal_pointer(&prediction);
  plan->order_cap = 0;
  return search_made(model, cluster, plan, error);
}

/* Predicts a schedule of the table. NULL: it is impossible, or known to hold too much. */
static Prediction *predict_named(const Model *model, const Cluster *cluster, const Plan *plan, ShortOrder *kept) {
  g_autoptr(Workload) workload = workload_outline(model, cluster, plan, NULL);
  MemoryBound bound;
  if (workload == NULL)
    return NULL;
  memory_bound_fits(workload, cluster, kept, &bound);
  return memory_bound_is_within(&bound, most_bytes(workload, cluster))
             ? plan_run(NULL, g_steal_pointer(&workload), cluster, RUN_NUMBERS, NULL)
             : NULL;
}

/* Of two that hold what they may (NULL: none yet). The cap may be beyond the GPU, and other tiers too small. */
static gboolean is_better(const Prediction *prediction, const Prediction *best) {
  if (best == NULL || prediction->fits != best->fits)
    return best == NULL || prediction->fits;
  return prediction->metrics->step_ns < best->metrics->step_ns;
}

Workload *predict_settle(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  if (!schedule_is_auto(plan->schedule))
    return workload_complete(model, cluster, plan, error);
  g_autoptr(GPtrArray) candidates = plan_candidates(plan);
  g_autoptr(ShortOrder) kept = short_order_new();
  g_autoptr(Prediction) best = NULL;
  g_autoptr(GError) reason = NULL; /* why the first of them, an order to be made, is not */
  Plan *settled = NULL;
  for (guint i = 0; i < candidates->len; i++) {
    Plan *candidate = candidates->pdata[i];
    candidate->fold = TRUE; /* the same numbers sooner; completing the plan undoes it where ranks differ */
    g_autoptr(Prediction) prediction = schedule_is_auto(candidate->schedule)
                                           ? predict_made(model, cluster, candidate, i == 0 ? &reason : NULL)
                                           : predict_named(model, cluster, candidate, kept);
    if (prediction == NULL || !holds(prediction) || !is_better(prediction, best))
      continue;
    prediction_free(best);
    best = g_steal_pointer(&prediction);
    settled = candidate;
  }
  if (settled == NULL) {
    g_propagate_error(error, g_steal_pointer(&reason));
    return NULL;
  }
  settled->fold = plan->fold;
  return workload_complete(model, cluster, settled, error);
}
