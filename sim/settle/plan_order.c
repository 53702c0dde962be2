#include "plan_order.h"
#include "error.h"
#include "order_read.h"
#include "suggest.h"

/* With two chunks per rank, auto makes a V: the shortest bubbles need the first and last stage on one rank. */
static PlacementShape shape_of(const PlanOrder *choice, int n_chunks) {
  if (choice->info != NULL)
    return choice->info->placement;
  return n_chunks == 2 ? PLACEMENT_V : PLACEMENT_LOOP;
}

static gboolean open_file(PlanOrder *choice, Plan *plan, const char *file, GError **error) {
  choice->read = order_read_csv(file, error);
  if (choice->read == NULL)
    return FALSE;
  const Placement *placement = choice->read->placement;
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

gboolean plan_order_find(PlanOrder *choice, const char *name, GError **error) {
  *choice = (PlanOrder){0};
  if (schedule_is_auto(name))
    return TRUE;
  choice->info = schedule_find(name, NULL);
  if (choice->info != NULL)
    return TRUE;
  g_autofree char *hint = suggest_message(name, schedule_choices());
  return fail_input(error, "unknown schedule \"%.80s\", no file:orders.csv either: %s", name, hint);
}

static gboolean find_schedule(PlanOrder *choice, Plan *plan, GError **error) {
  const char *file = schedule_file(plan->schedule);
  if (file != NULL)
    return open_file(choice, plan, file, error);
  if (!plan_order_find(choice, plan->schedule, error))
    return FALSE;
  if (plan->chunks == 0)
    plan->chunks = choice->info != NULL ? schedule_default_chunks(choice->info, plan->pp) : 1;
  plan->n_pipes = shape_of(choice, plan->chunks) == PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  if (choice->info != NULL && !schedule_check_chunks(choice->info, plan->chunks, error))
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

gboolean plan_order_open(PlanOrder *choice, Plan *plan, GError **error) {
  *choice = (PlanOrder){0};
  plan_default_schedule(plan);
  if (!find_schedule(choice, plan, error))
    return FALSE;
  if (plan->overlap_p2p < 0)
    plan->overlap_p2p = framework_overlaps(plan, plan_schedule(plan)->overlaps_p2p);
  if (plan->grad_norm_barrier < 0)
    plan->grad_norm_barrier = plan->pp == 1 || !plan_schedule(plan)->runs_on;
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

gboolean plan_order_check_turns(const Plan *plan, GError **error) {
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
  g_auto(PlanOrder) choice = {0};
  if (plan_order_open(&choice, plan, NULL) && plan_order_check_turns(plan, NULL))
    g_ptr_array_add(plans, plan);
  else
    plan_free(plan);
}

/* As under its own name, then as auto runs, which makes a difference only between stages. */
static void add_schedule(GPtrArray *plans, const Plan *asked, const char *name) {
  Plan *own = plan_copy(asked);
  g_free(own->schedule);
  own->schedule = g_strdup(name);
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

GPtrArray *plan_order_candidates(const Plan *plan) {
  GPtrArray *plans = g_ptr_array_new_with_free_func((GDestroyNotify)plan_free);
  if (!schedule_is_auto(plan->schedule)) {
    g_ptr_array_add(plans, plan_copy(plan));
    return plans;
  }
  g_auto(PlanOrder) choice = {0};
  g_ptr_array_add(plans, plan_copy(plan));
  if (!plan_order_open(&choice, plans->pdata[0], NULL))
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

void plan_order_clear(PlanOrder *choice) {
  g_clear_pointer(&choice->read, order_free);
}

Placement *plan_order_auto_placement(int n_ranks, int n_chunks) {
  const PlanOrder automatic = {0};
  return placement_new(shape_of(&automatic, n_chunks), n_ranks, n_chunks);
}

/* The placement of the plan's stages. Owned by the caller. */
static Placement *placement_of(const PlanOrder *choice, const Plan *plan) {
  if (choice->read != NULL)
    return placement_copy(choice->read->placement);
  return placement_new(shape_of(choice, plan->chunks), plan->pp, plan->chunks);
}

gboolean plan_order_complete(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                             GError **error) {
  return plan_order_open(choice, plan, error) && plan_complete(plan, model, cluster, error);
}

Workload *plan_order_place(const PlanOrder *choice, const Model *model, const Plan *plan) {
  g_autoptr(Placement) placement = placement_of(choice, plan);
  return workload_new(model, plan, placement);
}

Workload *plan_order_workload(PlanOrder *choice, const Model *model, const Cluster *cluster, Plan *plan,
                              GError **error) {
  return plan_order_complete(choice, model, cluster, plan, error) ? plan_order_place(choice, model, plan) : NULL;
}

gboolean plan_order_is_auto(const PlanOrder *choice) {
  return choice->info == NULL && choice->read == NULL;
}

Order *plan_order_make(PlanOrder *choice, const Method *method, GError **error) {
  g_assert(!plan_order_is_auto(choice));
  if (choice->read == NULL) {
    OrderShape shape = {method->pp, method->chunks, (int)method->n_micro_batches, method->group, method->takes_turns};
    return order_new(choice->info, shape, error);
  }
  if (choice->read->n_micro_batches == method->n_micro_batches)
    return g_steal_pointer(&choice->read);
  fail_impossible(error,
                  "%s is an order for %d micro-batches, the plan has %" G_GINT64_FORMAT
                  " (global-batch / (micro-batch × dp))",
                  schedule_file(method->schedule), choice->read->n_micro_batches, method->n_micro_batches);
  return NULL;
}

gint64 plan_order_group(const PlanOrder *choice, const Method *method) {
  if (choice->info == NULL || method->n_micro_batches > G_MAXINT)
    return 0;
  return schedule_repeats(choice->info,
                          (OrderShape){method->pp, method->chunks, (int)method->n_micro_batches, method->group});
}
