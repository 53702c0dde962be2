#include "auto_order.h"
#include "auto_list.h"
#include "error.h"
#include <string.h>

typedef struct {
  const FlatProblem *flat;
  FlatTimer timer;
  FlatOrder best, trial;
  gboolean has_best;
} Search;

static void take_trial(Search *search) {
  if (search->has_best && !flat_order_is_better(search->flat, &search->trial, &search->best))
    return;
  FlatOrder was = search->best;
  search->best = search->trial;
  search->trial = was;
  search->has_best = TRUE;
}

static void try_timed(Search *search) {
  if (flat_order_time(search->flat, &search->timer, &search->trial))
    take_trial(search);
}

static gboolean has_placement(const ScheduleInfo *schedule, const Placement *placement) {
  int n_ranks = placement->n_ranks, n_chunks = placement->n_stages / n_ranks;
  if (schedule->placement == PLACEMENT_BIDIRECTIONAL || placement->n_stages != n_ranks * n_chunks)
    return FALSE;
  g_autoptr(Placement) own = placement_new(schedule->placement, n_ranks, n_chunks);
  return memcmp(own->stage_rank, placement->stage_rank, sizeof(int) * (gsize)placement->n_stages) == 0;
}

/* The schedules of the table; those that refuse these counts are left out. */
static void try_schedules(Search *search, const OrderProblem *problem) {
  const Placement *placement = problem->placement;
  OrderShape shape = {placement->n_ranks, placement->n_stages / placement->n_ranks, problem->n_micro_batches, 0};
  for (const char *const *name = schedule_names(); *name; name++) {
    const ScheduleInfo *schedule = schedule_find(*name, NULL);
    if (!has_placement(schedule, placement))
      continue;
    g_autoptr(Order) order = order_new(schedule, shape, NULL);
    if (order == NULL)
      continue;
    flat_order_of(search->flat, order, &search->trial);
    try_timed(search);
  }
}

static void try_rule(Search *search, ListScheduler *list, const ListRule *rule) {
  if (list_schedule(list, rule, &search->trial))
    take_trial(search);
}

static void try_rules(Search *search) {
  static const double depths[] = {0, 1, 1.2, 1.5, 2, 2.5}, budgets[] = {0, 0.05, 0.2};
  g_autoptr(ListScheduler) list = list_scheduler_new(search->flat);
  gint64 work_ns = 0;
  for (int rank = 0; rank < search->flat->n_ranks; rank++)
    work_ns = MAX(work_ns, search->flat->work_ns[rank] * search->flat->n_micro_batches);
  for (gsize d = 0; d < G_N_ELEMENTS(depths); d++)
    for (gsize b = 0; b < G_N_ELEMENTS(budgets); b++)
      for (int forward_first = 0; forward_first < 2; forward_first++)
        try_rule(search, list,
                 &(ListRule){depths[d], 0, (gint64)(budgets[b] * (double)work_ns), (gboolean)forward_first, FALSE});
}

static Order *order_of_flat(const FlatProblem *flat, const FlatOrder *from, const Placement *placement) {
  Order *order = order_new_empty(placement_copy(placement), flat->n_micro_batches);
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    gsize first = flat_first(flat, rank);
    g_array_append_vals(order->actions[rank], from->actions + first, (guint)(flat_first(flat, rank + 1) - first));
  }
  return order;
}

/* The order of least memory, or why not even that fits. */
static gboolean try_sequence(Search *search, GError **error) {
  flat_order_in_sequence(search->flat, &search->trial);
  for (int rank = 0; search->flat->cap && rank < search->flat->n_ranks; rank++) {
    double least = flat_order_peak(search->flat, &search->trial, rank);
    if (least > search->flat->cap[rank])
      return fail_impossible(error,
                             "no order fits: rank %d holds at least %.12g for one micro-batch, its memory is %.12g",
                             rank, least, search->flat->cap[rank]);
  }
  try_timed(search);
  return TRUE;
}

Order *auto_order_new(const OrderProblem *problem, OrderCost *cost, GError **error) {
  if (!order_problem_check(problem, error))
    return NULL;
  if (problem->placement->n_pipes != 1) {
    fail_input(error, "an order is found for a placement of one pipe: found %d", problem->placement->n_pipes);
    return NULL;
  }
  g_auto(FlatProblem) flat = {0};
  flat_problem_init(&flat, problem);
  Search search = {.flat = &flat};
  flat_timer_init(&search.timer, &flat);
  flat_order_init(&search.best, &flat);
  flat_order_init(&search.trial, &flat);
  Order *order = NULL;
  if (try_sequence(&search, error)) {
    try_schedules(&search, problem);
    try_rules(&search);
    order = order_of_flat(&flat, &search.best, problem->placement);
    if (cost != NULL && !order_evaluate(order, problem, cost, error))
      g_clear_pointer(&order, order_free);
  }
  flat_order_clear(&search.best);
  flat_order_clear(&search.trial);
  flat_timer_clear(&search.timer);
  return order;
}
