#include "order_search.h"

/* Sums of memory are rounded, and return only approximately to 0. */
static const double ROUNDING = 1e-10;

/* Memory to take one micro-batch from its F on a stage to the end, with each W right after its I: what the stage
 * holds, plus either the most that an I adds or what the rank's later chunks need. */
static void set_needs(FlatProblem *flat) {
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    double later = 0;
    for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++)
      later = MAX(later, -flat->stages[flat->stage_at[slot]].i_drops);
    for (int slot = flat->first_slot[rank + 1] - 1; slot >= flat->first_slot[rank]; slot--) {
      int stage = flat->stage_at[slot];
      later += flat->stages[stage].f_holds;
      flat->need[stage] = later;
    }
  }
}

static double *copy_cap(const OrderProblem *problem) {
  if (problem->cap == NULL)
    return NULL;
  double *cap = g_new(double, problem->placement->n_ranks);
  for (int rank = 0; rank < problem->placement->n_ranks; rank++)
    cap[rank] = problem->cap[rank] * (1 + ROUNDING);
  return cap;
}

void flat_problem_init(FlatProblem *flat, const OrderProblem *problem) {
  const Placement *placement = problem->placement;
  gsize n_ranks = (gsize)placement->n_ranks, n_stages = (gsize)placement->n_stages;
  *flat = (FlatProblem){.n_ranks = placement->n_ranks,
                        .n_stages = placement->n_stages,
                        .n_micro_batches = problem->n_micro_batches,
                        .send_ns = problem->send_ns,
                        .stages = problem->stages,
                        .cap = copy_cap(problem),
                        .by_makespan = problem->by_makespan,
                        .rank_of = placement->stage_rank,
                        .first_slot = g_new0(int, n_ranks + 1),
                        .stage_at = g_new(int, n_stages),
                        .wire_ns = g_new0(gint64, n_stages + 1),
                        .need = g_new(double, n_stages),
                        .work_ns = g_new0(gint64, n_ranks)};
  for (int stage = 0; stage < flat->n_stages; stage++) {
    int rank = flat->rank_of[stage];
    flat->first_slot[rank + 1]++;
    flat->work_ns[rank] += flat->stages[stage].f_ns + flat->stages[stage].i_ns + flat->stages[stage].w_ns;
    if (stage > 0 && flat->rank_of[stage - 1] != rank)
      flat->wire_ns[stage] = flat->send_ns;
  }
  for (int rank = 0; rank < flat->n_ranks; rank++)
    flat->first_slot[rank + 1] += flat->first_slot[rank];
  g_autofree int *filled = g_memdup2(flat->first_slot, sizeof(int) * n_ranks);
  for (int stage = 0; stage < flat->n_stages; stage++)
    flat->stage_at[filled[flat->rank_of[stage]]++] = stage;
  set_needs(flat);
}

void flat_problem_clear(FlatProblem *flat) {
  g_free(flat->cap);
  g_free(flat->first_slot);
  g_free(flat->stage_at);
  g_free(flat->wire_ns);
  g_free(flat->need);
  g_free(flat->work_ns);
  *flat = (FlatProblem){0};
}

void flat_order_init(FlatOrder *order, const FlatProblem *flat) {
  *order = (FlatOrder){.actions = g_new(Action, flat_first(flat, flat->n_ranks))};
}

void flat_order_clear(FlatOrder *order) {
  g_clear_pointer(&order->actions, g_free);
}

gboolean flat_order_is_better(const FlatProblem *flat, const FlatOrder *a, const FlatOrder *b) {
  if (a->excess != b->excess)
    return a->excess < b->excess;
  gint64 a_ns = flat_objective(flat, a), b_ns = flat_objective(flat, b);
  if (a_ns != b_ns)
    return a_ns < b_ns;
  return a->span_ns + a->makespan_ns < b->span_ns + b->makespan_ns;
}
