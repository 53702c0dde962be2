/* The search. A start is a rule (auto_list.h) plus a source of a guide, or none:
 *
 *     screen    every start once, on a step of fewer micro-batches if that is cheaper: the ramps, where orders
 *               differ, are just as long there
 *     descend   from the best starts, one setting of the rule after another, while steps are left
 *     settle    the best ones found at full length, then descend there from the best
 *     improve   the best order as a guide to a better one
 *     polish    the best order, then the results of other good rules: moves of single actions (order_polish.h)
 *
 * The cost of a pass is counted in actions looked at, so that the same problem always gets the same search. */
#include "auto_order.h"
#include "auto_trial.h"
#include "error.h"
#include "order_polish.h"
#include "units.h"

/* Steps of the search: at least LEAST_STEPS, and at least LEAST_PASSES passes at full length; likewise for the
 * polish, which also has a maximum. A step takes about 25 ns. */
static const gint64 LEAST_STEPS = 430000, LEAST_PASSES = 35;
static const gint64 LEAST_POLISH = 150000, POLISH_PASSES = 18, MOST_POLISH = 2000000;
enum { MAX_PATTERNS = 12 };

/* --- starts --- */

static const ListRule free_rules[] = {{.patience = 0},
                                      {.patience = 0.5},
                                      {.depth = 1.35, .patience = 0.5, .forward_first = TRUE},
                                      {.depth = 2.45, .patience = 0}};
/* The first is also for patterns: it keeps their steady state and shortens their ramps. */
static const ListRule guided_rules[] = {
    {.guidance = GUIDE_RAMP, .follows_w = TRUE, .frees_tail = TRUE, .patience = 2.5, .forward_first = TRUE},
    {.guidance = GUIDE_STRICT, .patience = 0},
    {.guidance = GUIDE_STRICT, .patience = 0.25},
    {.guidance = GUIDE_LOOSE, .patience = 0}};

/* As good as the worst of the starts that the search will continue with. */
static gint64 limit_of_screening(const Length *length) {
  return length->n_kept < N_STARTS ? G_MAXINT64 : length->kept[N_STARTS - 1].objective;
}

static void screen_free(Search *search, Length *length, gsize first, gsize end) {
  for (gsize i = first; i < end && !search_is_over(search, length); i++)
    search_try(search, length, limit_of_screening(length), &(Trial){{NULL, NO_PATTERN}, free_rules[i], 0});
}

/* The simplest rule goes first: with plenty of memory it is as good as any, and its result ends many later passes
 * early. */
static void screen(Search *search, Length *length) {
  screen_free(search, length, 0, 1);
  for (int n = 0; n < MIN((int)search->patterns->len, MAX_PATTERNS) && !search_is_over(search, length); n++)
    search_try(search, length, limit_of_screening(length), &(Trial){{NULL, n}, guided_rules[0], 0});
  for (int n = 0; n < search->n_fixed; n++)
    for (gsize i = 0; i < G_N_ELEMENTS(guided_rules) && !search_is_over(search, length); i++)
      search_try(search, length, limit_of_screening(length),
                 &(Trial){{search->fixed[n].schedule, NO_PATTERN}, guided_rules[i], 0});
  screen_free(search, length, 1, G_N_ELEMENTS(free_rules));
}

/* --- polishing --- */

/* Polishes one of the length's orders with a share of the steps left. */
static void polish_one(Search *search, Length *length, OrderPolish *polish, FlatOrder *order, int part) {
  gint64 n_steps = 0, most_steps = MAX(0, search->steps_left / part);
  order_polish_run(polish, &length->timer, search->bound_ns, most_steps, order, &n_steps);
  search->steps_left -= n_steps;
}

/* Polishes the best order, then the results of the rules kept, except of the one that made the best. */
static void polish_all(Search *search, Length *length) {
  g_autoptr(OrderPolish) polish = order_polish_new(&length->flat);
  gint64 before = flat_objective(&length->flat, &length->best);
  polish_one(search, length, polish, &length->best, 1);
  for (int n = 0; n < length->n_kept && !search_is_over(search, length); n++) {
    Trial trial = length->kept[n];
    if (trial.objective == before || !search_make(search, length, G_MAXINT64, &trial))
      continue;
    polish_one(search, length, polish, &length->trial, length->n_kept - n);
    length_keep_best(length);
  }
}

/* --- the whole --- */

/* Micro-batches of a short step whose ramps are as long as a full one's, with a steady state between them: as many as
 * a rank's memory holds, at least one per rank, and some more. */
static int short_length(const FlatProblem *flat) {
  double fit = 2.0 * flat->n_ranks;
  for (int rank = 0; flat->cap && rank < flat->n_ranks; rank++) {
    double holds = 0;
    for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++)
      holds += flat->stages[flat->stage_at[slot]].f_holds;
    fit = MIN(fit, holds > 0 ? flat->cap[rank] / holds : fit);
  }
  return (int)MIN(flat->n_micro_batches, 8 + 1.25 * MAX(fit, flat->n_ranks));
}

static void search_short(Search *search, const FlatProblem *flat, Length *full) {
  g_auto(Length) length = {0};
  gint64 kept_back = search->steps_left / 2;
  length_init(&length, search->problem, flat, short_length(flat));
  search->steps_left -= kept_back;
  screen(search, &length);
  search_descend(search, &length);
  search->steps_left = MAX(0, search->steps_left) + kept_back;
  for (int i = 0; i < length.n_kept && !search_is_over(search, full); i++)
    search_try(search, full, limit_of_screening(full), &length.kept[i]);
}

static void search_all(Search *search, const FlatProblem *flat, Length *full) {
  gint64 n_actions = (gint64)flat_first(flat, flat->n_ranks);
  search->steps_left = MAX(LEAST_STEPS, LEAST_PASSES * n_actions);
  search_try_schedules(search, full);
  v_patterns_find(flat, search->patterns);
  if (n_actions * 100 > search->steps_left && short_length(flat) < flat->n_micro_batches)
    search_short(search, flat, full);
  else
    screen(search, full);
  gint64 kept_back = search->steps_left / 3;
  search->steps_left -= kept_back;
  search_descend(search, full);
  search->steps_left = MAX(0, search->steps_left) + kept_back;
  search_improve(search, full);
  search->steps_left = MAX(0, search->steps_left) + CLAMP(POLISH_PASSES * n_actions, LEAST_POLISH, MOST_POLISH);
  polish_all(search, full);
}

static Order *order_of_flat(const FlatProblem *flat, const FlatOrder *from, const Placement *placement) {
  Order *order = order_new_empty(placement_copy(placement), flat->n_micro_batches);
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    gsize first = flat_first(flat, rank);
    g_array_append_vals(order->actions[rank], from->actions + first, (guint)(flat_first(flat, rank + 1) - first));
  }
  return order;
}

static gboolean fail_memory(const OrderProblem *problem, int rank, double least, double cap, GError **error) {
  if (!problem->is_in_bytes)
    return fail_impossible(error, "no order fits: rank %d holds at least %.9g for one micro-batch, its memory is %.9g",
                           rank, least, cap);
  g_autofree char *held = units_format(least, UNIT_BYTES), *left = units_format(cap, UNIT_BYTES);
  return fail_impossible(
      error,
      "no order fits: pipeline rank %d holds at least %s of activations for one micro-batch, and has "
      "%s left for them",
      rank, held, left);
}

/* Tries the order with the least memory, or explains why not even that fits. */
static gboolean try_sequence(Length *length, const OrderProblem *problem, GError **error) {
  const FlatProblem *flat = &length->flat;
  flat_order_in_sequence(flat, &length->trial);
  for (int rank = 0; flat->cap && rank < flat->n_ranks; rank++) {
    double least = flat_order_peak(flat, &length->trial, rank);
    if (least > flat->cap[rank])
      return fail_memory(problem, rank, least, flat->cap[rank], error);
  }
  if (flat_order_time(flat, &length->timer, &length->trial))
    length_keep_best(length);
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
  g_autoptr(GArray) patterns = g_array_new(FALSE, FALSE, sizeof(VPattern));
  Search search = {.problem = problem, .patterns = patterns, .bound_ns = order_lower_bound(problem)};
  g_auto(Length) full = {0};
  length_init(&full, problem, &flat, problem->n_micro_batches);
  if (!try_sequence(&full, problem, error))
    return NULL;
  search_all(&search, &flat, &full);
  g_autoptr(Order) order = order_of_flat(&flat, &full.best, problem->placement);
  if (cost != NULL && !order_evaluate(order, problem, cost, error))
    return NULL;
  return g_steal_pointer(&order);
}
