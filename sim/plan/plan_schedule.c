#include "plan_schedule.h"
#include "error.h"
#include "order_read.h"

static gboolean open_file(Plan *plan, const char *file, GError **error) {
  if (plan->file_order == NULL)
    plan->file_order = order_read_csv(file, error);
  if (plan->file_order == NULL)
    return FALSE;
  const Placement *placement = plan->file_order->placement;
  int n_chunks = placement->n_stages / placement->n_ranks;
  if (placement->n_ranks != plan->pp)
    return fail_impossible(error, "%s is an order for %d pipeline ranks, the plan has pp %d", file, placement->n_ranks,
                           plan->pp);
  if (plan->chunks != 0 && plan->chunks != n_chunks)
    return fail_impossible(error, "%s is an order for %d chunks per pipeline rank, the plan has chunks %d", file,
                           n_chunks, plan->chunks);
  plan->chunks = n_chunks;
  plan->n_pipes = placement->n_pipes;
  return TRUE;
}

static gboolean open_named(Plan *plan, GError **error) {
  if (!schedule_check_name(plan->schedule, error))
    return FALSE;
  const ScheduleFacts *facts = plan_schedule(plan);
  if (plan->chunks == 0)
    plan->chunks = schedule_is_auto(plan->schedule) ? 1 : schedule_default_chunks(facts, plan->pp);
  plan->n_pipes = schedule_placement(facts, plan->chunks) == PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  if (!schedule_check_chunks(facts, plan->chunks, error))
    return FALSE;
  return plan->pp != 1 || plan->chunks == 1 ||
         fail_impossible(error,
                         "schedule %s with %d chunks on pp 1: a pipeline of one rank has no chunks to interleave",
                         plan->schedule, plan->chunks);
}

/* A schedule whose own runtime overlaps does so under any framework. */
static gboolean framework_overlaps(const Plan *plan, gboolean of_schedule) {
  switch ((FrameworkP2P)plan->time.overlap_p2p) {
  case P2P_ALWAYS:
    return TRUE;
  case P2P_CHUNKS:
    return of_schedule || plan->chunks > 1;
  case P2P_OF_SCHEDULE:
    break;
  }
  return of_schedule;
}

gboolean plan_open_schedule(Plan *plan, GError **error) {
  plan_default_schedule(plan);
  const char *file = schedule_file(plan->schedule);
  if (file != NULL ? !open_file(plan, file, error) : !open_named(plan, error))
    return FALSE;
  if (plan->overlap_p2p < 0)
    plan->overlap_p2p = framework_overlaps(plan, plan_schedule(plan)->overlaps_p2p);
  if (plan->grad_norm_barrier < 0)
    plan->grad_norm_barrier =
        plan->pp == 1 || plan->islands > 1 || plan->local_steps > 1 || !plan_schedule(plan)->runs_on;
  return TRUE;
}

/* Whether the schedule is an order from a file that runs pairs as one. A file that cannot be read is reported where
 * it is needed. */
static gboolean has_pairs(const char *schedule) {
  const char *file = schedule_file(schedule);
  g_autoptr(Order) order = file != NULL ? order_read_csv(file, NULL) : NULL;
  for (int rank = 0; order != NULL && rank < order->placement->n_ranks; rank++)
    for (guint i = 0; i < order->actions[rank]->len; i++)
      if (g_array_index(order->actions[rank], Action, i).overlaps_next)
        return TRUE;
  return FALSE;
}

gboolean plan_check_turns(const Plan *plan, GError **error) {
  const char *schedule = plan->schedule != NULL ? plan->schedule : schedule_default(plan->chunks);
  const ScheduleFacts *facts = schedule_facts(schedule);
  if (plan->overlap_experts == 0 && plan->ep > 1 && (facts->has_pairs || has_pairs(schedule)))
    return fail_impossible(error,
                           "--overlap-experts off: schedule %s runs a forward and a backward as one, which hide each "
                           "other's exchanges; expected it left out, or another schedule",
                           schedule);
  if (plan->overlap_experts > 0 && plan_gathers_tokens(plan) && !facts->has_pairs)
    return fail_impossible(error,
                           "--overlap-experts on with --expert-dispatch all_gather: rounds of a forward and a backward "
                           "hide exchanges of other kinds alone; expected all_to_all or deepep");
  const gboolean has_rounds = plan->pp == 1 || (facts->has_rounds && plan->chunks != 1);
  if (plan->overlap_experts <= 0 || facts->has_pairs || has_rounds ||
      plan->time.expert_overlap == EXPERT_OVERLAP_ROUNDS)
    return TRUE;
  return fail_impossible(error,
                         "--overlap-experts on: schedule %s with pp %d%s has no rounds of a forward and a backward; "
                         "expected interleaved%s, or pp 1",
                         schedule, plan->pp, plan->chunks == 1 ? " and 1 chunk" : "",
                         plan->chunks == 1 ? " with chunks" : "");
}

static void add_candidate(GPtrArray *plans, Plan *plan) {
  if (plan_open_schedule(plan, NULL) && plan_check_turns(plan, NULL))
    g_ptr_array_add(plans, plan);
  else
    plan_free(plan);
}

/* As under its own name, then as auto runs, which makes a difference only between stages. */
static void add_schedule(GPtrArray *plans, const Plan *asked, const char *name) {
  Plan *own = plan_copy(asked);
  plan_set_schedule(own, name);
  const guint n_before = plans->len;
  add_candidate(plans, own);
  const Plan *as_auto = plans->pdata[0];
  if (plans->len == n_before || own->pp == 1 ||
      (own->overlap_p2p == as_auto->overlap_p2p && own->grad_norm_barrier == as_auto->grad_norm_barrier))
    return;
  Plan *other = plan_copy(own);
  other->overlap_p2p = as_auto->overlap_p2p;
  other->grad_norm_barrier = as_auto->grad_norm_barrier;
  g_ptr_array_add(plans, other);
}

GPtrArray *plan_candidates(const Plan *plan) {
  GPtrArray *plans = g_ptr_array_new_with_free_func((GDestroyNotify)plan_free);
  if (!schedule_is_auto(plan->schedule)) {
    g_ptr_array_add(plans, plan_copy(plan));
    return plans;
  }
  g_ptr_array_add(plans, plan_copy(plan));
  if (!plan_open_schedule(plans->pdata[0], NULL))
    return plans; /* impossible under any schedule: who completes it will hear why */
  if (plan->chunks == 0 && plan->pp > 1) {
    Plan *other = plan_copy(plan);
    other->chunks = AUTO_CHUNKS;
    add_candidate(plans, other);
  }
  for (const char *const *name = schedule_names(); *name != NULL; name++)
    add_schedule(plans, plan, *name);
  return plans;
}

Placement *plan_placement(const Plan *plan) {
  if (plan->file_order != NULL)
    return placement_copy(plan->file_order->placement);
  return placement_new(schedule_placement(plan_schedule(plan), plan->chunks), plan->pp, plan->chunks);
}
