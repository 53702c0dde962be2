/* A try is one pass of list scheduling under a rule, with or without a guide. Steps are counted where they are spent:
 * the search is only deterministic because of this. */
#include "auto_trial.h"
#include <string.h>

void length_init(Length *length, const OrderProblem *problem, const FlatProblem *flat, int n_micro_batches) {
  OrderProblem own = *problem;
  own.n_micro_batches = n_micro_batches;
  *length = (Length){.flat = *flat, .guide_pattern = NO_PATTERN};
  length->flat.n_micro_batches = n_micro_batches;
  length->list = list_scheduler_new(&length->flat, order_lower_bound(&own));
  flat_timer_init(&length->timer, &length->flat);
  flat_order_init(&length->guide, &length->flat);
  flat_order_init(&length->trial, &length->flat);
  flat_order_init(&length->best, &length->flat);
}

void length_clear(Length *length) {
  list_scheduler_free(length->list);
  flat_timer_clear(&length->timer);
  flat_order_clear(&length->guide);
  for (int n = 0; n < N_FIXED; n++)
    flat_order_clear(&length->fixed[n]);
  flat_order_clear(&length->trial);
  flat_order_clear(&length->best);
}

/* --- results --- */

void length_keep_best(Length *length) {
  if (length->has_best && !flat_order_is_better(&length->flat, &length->trial, &length->best))
    return;
  FlatOrder was = length->best;
  length->best = length->trial;
  length->trial = was;
  length->has_best = TRUE;
}

static void keep_trial(Length *length, const Trial *trial) {
  int at = length->n_kept;
  while (at > 0 && trial->objective < length->kept[at - 1].objective)
    at--;
  if (at == N_KEPT || (at > 0 && trial->objective == length->kept[at - 1].objective))
    return;
  length->n_kept = MIN(length->n_kept + 1, N_KEPT);
  memmove(&length->kept[at + 1], &length->kept[at], sizeof(Trial) * (gsize)(length->n_kept - at - 1));
  length->kept[at] = *trial;
}

gboolean search_is_over(const Search *search, const Length *length) {
  return search->steps_left <= 0 ||
         (length->flat.n_micro_batches == search->problem->n_micro_batches && length->has_best &&
          length->best.excess == 0 && flat_objective(&length->flat, &length->best) <= search->bound_ns);
}

/* --- guides --- */

static gboolean has_placement(const ScheduleFacts *schedule, const Placement *placement) {
  int n_ranks = placement->n_ranks, n_chunks = placement->n_stages / n_ranks;
  if (schedule->placement == PLACEMENT_BIDIRECTIONAL || placement->n_stages != n_ranks * n_chunks)
    return FALSE;
  g_autoptr(Placement) own = placement_new(schedule->placement, n_ranks, n_chunks);
  return memcmp(own->stage_rank, placement->stage_rank, sizeof(int) * (gsize)placement->n_stages) == 0;
}

/* FALSE if the schedule refuses these counts. */
static gboolean make_order(Search *search, const Length *length, const ScheduleFacts *schedule, FlatOrder *into) {
  const Placement *placement = search->problem->placement;
  OrderShape shape = {placement->n_ranks, placement->n_stages / placement->n_ranks, length->flat.n_micro_batches, 0};
  g_autoptr(Order) order = order_new(schedule, shape, NULL);
  if (order == NULL)
    return FALSE;
  flat_order_of(&length->flat, order, into);
  search->steps_left -= (gint64)flat_first(&length->flat, length->flat.n_ranks) / 4;
  return TRUE;
}

/* The order of Search.fixed[n]; NULL if the schedule refuses this length. */
static const FlatOrder *fixed_guide(Search *search, Length *length, int n) {
  FlatOrder *guide = &length->fixed[n];
  if (guide->actions != NULL)
    return guide;
  flat_order_init(guide, &length->flat);
  if (!make_order(search, length, search->fixed[n].schedule, guide))
    flat_order_clear(guide);
  return guide->actions != NULL ? guide : NULL;
}

static const FlatOrder *guide_of(Search *search, Length *length, const Source *source) {
  for (int n = 0; n < search->n_fixed; n++)
    if (search->fixed[n].schedule == source->schedule)
      return fixed_guide(search, length, n);
  if (source->pattern != length->guide_pattern) {
    v_pattern_fill(&length->flat, &g_array_index(search->patterns, VPattern, source->pattern), &length->guide);
    search->steps_left -= (gint64)flat_first(&length->flat, length->flat.n_ranks) / 4;
  }
  length->guide_pattern = source->pattern;
  return &length->guide;
}

void length_guide_by_best(Length *length) {
  memcpy(length->guide.actions, length->best.actions, sizeof(Action) * flat_first(&length->flat, length->flat.n_ranks));
  length->guide_pattern = THE_BEST;
}

/* --- trying --- */

gboolean search_make(Search *search, Length *length, gint64 limit_ns, Trial *trial) {
  const Source *source = &trial->source;
  gint64 n_steps = 0;
  trial->rule.guide = NULL;
  if (source->schedule != NULL || source->pattern != NO_PATTERN) {
    trial->rule.guide = guide_of(search, length, source);
    if (trial->rule.guide == NULL)
      return FALSE;
  }
  gboolean is_complete = list_schedule(length->list, &trial->rule, limit_ns, &length->trial, &n_steps);
  search->steps_left -= n_steps + length->flat.n_stages;
  return is_complete;
}

void search_try(Search *search, Length *length, gint64 limit_ns, Trial *trial) {
  trial->objective = G_MAXINT64;
  if (!search_make(search, length, limit_ns, trial))
    return;
  trial->objective = flat_objective(&length->flat, &length->trial);
  if (trial->source.pattern != THE_BEST) /* the best order will change */
    keep_trial(length, trial);
  length_keep_best(length);
}

static int compare_fixed(const Fixed *a, const Fixed *b) {
  if (a->excess != b->excess)
    return a->excess < b->excess ? -1 : 1;
  if (a->objective != b->objective)
    return a->objective < b->objective ? -1 : 1;
  return (a->other > b->other) - (a->other < b->other);
}

static void keep_fixed(Search *search, const Length *length, const ScheduleFacts *schedule) {
  gint64 objective = flat_objective(&length->flat, &length->trial);
  gint64 other = length->trial.span_ns + length->trial.makespan_ns - objective;
  Fixed one = {schedule, length->trial.excess, objective, other};
  int at = search->n_fixed;
  while (at > 0 && compare_fixed(&one, &search->fixed[at - 1]) < 0)
    at--;
  if (at == N_FIXED || (at > 0 && compare_fixed(&one, &search->fixed[at - 1]) == 0))
    return;
  search->n_fixed = MIN(search->n_fixed + 1, N_FIXED);
  memmove(&search->fixed[at + 1], &search->fixed[at], sizeof(Fixed) * (gsize)(search->n_fixed - at - 1));
  search->fixed[at] = one;
}

void search_try_schedules(Search *search, Length *length) {
  for (const char *const *name = schedule_names(); *name; name++) {
    const ScheduleFacts *schedule = schedule_find(*name, NULL);
    if (!has_placement(schedule, search->problem->placement) || !make_order(search, length, schedule, &length->trial) ||
        !flat_order_time(&length->flat, &length->timer, &length->trial))
      continue;
    keep_fixed(search, length, schedule);
    length_keep_best(length);
  }
}
