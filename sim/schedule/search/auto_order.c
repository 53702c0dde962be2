/* The search. A start is a source of a guide, or none, and a rule (auto_list.h):
 *
 *     screen    every start once, on a step of fewer micro-batches if that is cheaper: the ramps, where orders differ,
 *               are as long there
 *     descend   the best starts, one setting of the rule after the other, while steps are left
 *     settle    the best ones found at full length, then descend there from the best
 *
 * What a pass costs is counted in actions looked at, so that the same problem always gets the same search. */
#include "auto_order.h"
#include "auto_list.h"
#include "auto_pattern.h"
#include "error.h"
#include <string.h>

/* Steps of the search: at least so many, and at least so many passes at full length. About 25 ns each. */
static const gint64 LEAST_STEPS = 650000, LEAST_PASSES = 70;
enum { N_KEPT = 6, N_STARTS = 3, N_FIXED = 3, NO_PATTERN = -1, THE_BEST = -2, MAX_PATTERNS = 12 };

typedef struct {
  const ScheduleInfo *schedule; /* the guide is this schedule's order; or NULL */
  int pattern;                  /* or this pattern; NO_PATTERN; or THE_BEST order so far */
} Source;

typedef struct {
  Source source;
  ListRule rule; /* its guide is set when it is tried */
  gint64 objective;
} Trial;

/* One length of the problem, with room to work. */
typedef struct {
  FlatProblem flat; /* borrows its arrays */
  ListScheduler *list;
  FlatTimer timer;
  FlatOrder guide, trial, best;
  Source guide_source; /* what `guide` holds */
  Trial kept[N_KEPT];  /* best first, no two of one objective */
  int n_kept;
  gboolean has_best;
} Length;

/* A schedule of the table, and what it is as it stands. */
typedef struct {
  const ScheduleInfo *schedule;
  double excess;
  gint64 objective, other;
} Fixed;

typedef struct {
  const OrderProblem *problem;
  GArray *patterns;     /* of VPattern */
  Fixed fixed[N_FIXED]; /* the best ones, best first, no two alike */
  int n_fixed;
  gint64 bound_ns, steps_left;
} Search;

static void length_init(Length *length, const FlatProblem *flat, int n_micro_batches) {
  *length = (Length){.flat = *flat, .guide_source = {NULL, NO_PATTERN}};
  length->flat.n_micro_batches = n_micro_batches;
  length->list = list_scheduler_new(&length->flat);
  flat_timer_init(&length->timer, &length->flat);
  flat_order_init(&length->guide, &length->flat);
  flat_order_init(&length->trial, &length->flat);
  flat_order_init(&length->best, &length->flat);
}

static void length_clear(Length *length) {
  list_scheduler_free(length->list);
  flat_timer_clear(&length->timer);
  flat_order_clear(&length->guide);
  flat_order_clear(&length->trial);
  flat_order_clear(&length->best);
}

/* --- what was found --- */

static void keep_best(Length *length) {
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

static gboolean is_over(const Search *search, const Length *length) {
  return search->steps_left <= 0 ||
         (length->flat.n_micro_batches == search->problem->n_micro_batches && length->has_best &&
          length->best.excess == 0 && flat_objective(&length->flat, &length->best) <= search->bound_ns);
}

/* --- guides --- */

static OrderShape shape_of(const Search *search, const Length *length) {
  const Placement *placement = search->problem->placement;
  return (OrderShape){placement->n_ranks, placement->n_stages / placement->n_ranks, length->flat.n_micro_batches, 0};
}

static gboolean has_placement(const ScheduleInfo *schedule, const Placement *placement) {
  int n_ranks = placement->n_ranks, n_chunks = placement->n_stages / n_ranks;
  if (schedule->placement == PLACEMENT_BIDIRECTIONAL || placement->n_stages != n_ranks * n_chunks)
    return FALSE;
  g_autoptr(Placement) own = placement_new(schedule->placement, n_ranks, n_chunks);
  return memcmp(own->stage_rank, placement->stage_rank, sizeof(int) * (gsize)placement->n_stages) == 0;
}

/* FALSE when the schedule refuses these counts. */
static gboolean make_guide(Search *search, Length *length, const Source *source) {
  if (source->schedule == length->guide_source.schedule && source->pattern == length->guide_source.pattern)
    return TRUE;
  if (source->schedule != NULL) {
    g_autoptr(Order) order = order_new(source->schedule, shape_of(search, length), NULL);
    if (order == NULL)
      return FALSE;
    flat_order_of(&length->flat, order, &length->guide);
  } else
    v_pattern_fill(&length->flat, &g_array_index(search->patterns, VPattern, source->pattern), &length->guide);
  length->guide_source = *source;
  search->steps_left -= (gint64)flat_first(&length->flat, length->flat.n_ranks) / 4;
  return TRUE;
}

/* --- trying --- */

/* Fills in the objective; G_MAXINT64 where the trial leads to no order as short as `limit_ns`. */
static void try_one(Search *search, Length *length, gint64 limit_ns, Trial *trial) {
  gboolean guided = trial->source.schedule != NULL || trial->source.pattern != NO_PATTERN;
  trial->objective = G_MAXINT64;
  trial->rule.guide = guided ? &length->guide : NULL;
  gint64 n_steps = 0;
  if (guided && !make_guide(search, length, &trial->source))
    return;
  gboolean is_complete = list_schedule(length->list, &trial->rule, limit_ns, &length->trial, &n_steps);
  search->steps_left -= n_steps + length->flat.n_stages;
  if (!is_complete)
    return;
  trial->objective = flat_objective(&length->flat, &length->trial);
  keep_trial(length, trial);
  keep_best(length);
}

static int compare_fixed(const Fixed *a, const Fixed *b) {
  if (a->excess != b->excess)
    return a->excess < b->excess ? -1 : 1;
  if (a->objective != b->objective)
    return a->objective < b->objective ? -1 : 1;
  return (a->other > b->other) - (a->other < b->other);
}

static void keep_fixed(Search *search, const Length *length, const ScheduleInfo *schedule) {
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

/* The table's schedules as they are. */
static void try_schedules(Search *search, Length *length) {
  for (const char *const *name = schedule_names(); *name; name++) {
    Source source = {schedule_find(*name, NULL), NO_PATTERN};
    if (!has_placement(source.schedule, search->problem->placement) || !make_guide(search, length, &source))
      continue;
    memcpy(length->trial.actions, length->guide.actions,
           sizeof(Action) * flat_first(&length->flat, length->flat.n_ranks));
    if (!flat_order_time(&length->flat, &length->timer, &length->trial))
      continue;
    keep_fixed(search, length, source.schedule);
    keep_best(length);
  }
}

static const ListRule free_rules[] = {{.patience = 0},
                                      {.patience = 0.5},
                                      {.depth = 1.35, .patience = 0.5, .forward_first = TRUE},
                                      {.depth = 2.45, .patience = 0}};
/* The first one is also for patterns: their steady state as it is, its ramps made shorter. */
static const ListRule guided_rules[] = {
    {.guidance = GUIDE_RAMP, .follows_w = TRUE, .frees_tail = TRUE, .patience = 2.5, .forward_first = TRUE},
    {.guidance = GUIDE_STRICT, .patience = 0},
    {.guidance = GUIDE_STRICT, .patience = 0.25},
    {.guidance = GUIDE_LOOSE, .patience = 0}};

/* As good as the starts that will be gone on with. */
static gint64 limit_of_screening(const Length *length) {
  return length->n_kept < N_STARTS ? G_MAXINT64 : length->kept[N_STARTS - 1].objective;
}

static void screen(Search *search, Length *length) {
  for (int n = 0; n < MIN((int)search->patterns->len, MAX_PATTERNS) && !is_over(search, length); n++)
    try_one(search, length, limit_of_screening(length), &(Trial){{NULL, n}, guided_rules[0], 0});
  for (int n = 0; n < search->n_fixed; n++)
    for (gsize i = 0; i < G_N_ELEMENTS(guided_rules) && !is_over(search, length); i++)
      try_one(search, length, limit_of_screening(length),
              &(Trial){{search->fixed[n].schedule, NO_PATTERN}, guided_rules[i], 0});
  for (gsize i = 0; i < G_N_ELEMENTS(free_rules) && !is_over(search, length); i++)
    try_one(search, length, limit_of_screening(length), &(Trial){{NULL, NO_PATTERN}, free_rules[i], 0});
}

/* --- settings of a rule, one after the other --- */

typedef enum {
  SET_PATIENCE,
  SET_DEPTH,
  SET_GUIDANCE,
  SET_TAIL,
  SET_W,
  SET_FORWARD,
  SET_ARRIVAL,
  SET_PACE,
  N_SETTINGS
} Setting;

static const double depths[] = {0, 1, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.15, 2.3, 2.4, 2.5, 2.55, 2.6, 2.7, 2.8, 3};
static const double patiences[] = {0, 0.01, 0.03, 0.07, 0.15, 0.25, 0.35, 0.5, 0.75, 1, 1.5, 2.5, 1e9};
static const double paces[] = {0, 0.25, 0.5, 1, 1.02};

static int n_values(const Length *length, const Trial *trial, Setting setting) {
  gboolean guided = trial->rule.guide != NULL;
  gboolean has_chunks = length->flat.n_stages > length->flat.n_ranks;
  switch (setting) {
  case SET_GUIDANCE:
    return guided ? N_GUIDANCES : 0;
  case SET_DEPTH:
    return guided ? 0 : G_N_ELEMENTS(depths);
  case SET_PATIENCE:
    return G_N_ELEMENTS(patiences);
  case SET_TAIL:
  case SET_W:
    return guided ? 2 : 0;
  case SET_FORWARD:
    return !guided || trial->rule.frees_tail ? 2 : 0;
  case SET_ARRIVAL:
    return has_chunks && (!guided || trial->rule.frees_tail) ? 2 : 0;
  case SET_PACE:
    return guided || !has_chunks ? 0 : G_N_ELEMENTS(paces);
  default:
    return 0;
  }
}

static void set_value(ListRule *rule, Setting setting, int value) {
  switch (setting) {
  case SET_GUIDANCE:
    rule->guidance = (Guidance)value;
    break;
  case SET_DEPTH:
    rule->depth = depths[value];
    break;
  case SET_PATIENCE:
    rule->patience = patiences[value];
    break;
  case SET_TAIL:
    rule->frees_tail = value;
    break;
  case SET_W:
    rule->follows_w = value;
    break;
  case SET_FORWARD:
    rule->forward_first = value;
    break;
  case SET_ARRIVAL:
    rule->by_arrival = value;
    break;
  default:
    rule->pace = paces[value];
    break;
  }
}

static gboolean rules_equal(const ListRule *a, const ListRule *b) {
  return a->guidance == b->guidance && a->follows_w == b->follows_w && a->frees_tail == b->frees_tail &&
         a->depth == b->depth && a->pace == b->pace && a->patience == b->patience &&
         a->forward_first == b->forward_first && a->by_arrival == b->by_arrival;
}

static void descend(Search *search, Length *length, Trial trial, gint64 n_steps) {
  gint64 stop_at = MAX(0, search->steps_left - n_steps), before;
  do {
    before = trial.objective;
    for (int setting = 0; setting < N_SETTINGS; setting++) {
      Trial from = trial;
      for (int value = 0; value < n_values(length, &from, setting); value++) {
        Trial next = from;
        set_value(&next.rule, setting, value);
        if (is_over(search, length) || search->steps_left <= stop_at)
          return;
        if (!rules_equal(&next.rule, &from.rule))
          try_one(search, length, trial.objective, &next);
        if (next.objective < trial.objective)
          trial = next;
      }
    }
  } while (trial.objective < before);
}

static void descend_from_kept(Search *search, Length *length) {
  Trial starts[N_KEPT];
  int n = MIN(N_STARTS, length->n_kept);
  memcpy(starts, length->kept, sizeof starts);
  for (int i = 0; i < n; i++)
    descend(search, length, starts[i], search->steps_left / (n - i));
}

/* The best order as a guide to a better one, as long as that goes on. */
static void improve(Search *search, Length *length) {
  static const ListRule rules[] = {{.guidance = GUIDE_STRICT},
                                   {.guidance = GUIDE_LOOSE},
                                   {.guidance = GUIDE_RESERVE, .frees_tail = TRUE, .forward_first = TRUE},
                                   {.guidance = GUIDE_ROOM}};
  gint64 before;
  do {
    before = flat_objective(&length->flat, &length->best);
    memcpy(length->guide.actions, length->best.actions,
           sizeof(Action) * flat_first(&length->flat, length->flat.n_ranks));
    length->guide_source = (Source){NULL, THE_BEST};
    for (gsize i = 0; i < G_N_ELEMENTS(rules); i++)
      for (gsize n = 0; n < G_N_ELEMENTS(patiences) && !is_over(search, length); n++) {
        Trial trial = {length->guide_source, rules[i], 0};
        trial.rule.patience = patiences[n];
        try_one(search, length, flat_objective(&length->flat, &length->best), &trial);
      }
  } while (flat_objective(&length->flat, &length->best) < before);
}

/* --- the whole --- */

/* Micro-batches of a step whose ramps are a full one's, and which has steady state between them: what fits into a
 * rank's memory, at least one a rank, and some more. */
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
  Length length;
  gint64 kept_back = search->steps_left / 2;
  length_init(&length, flat, short_length(flat));
  search->steps_left -= kept_back;
  screen(search, &length);
  descend_from_kept(search, &length);
  search->steps_left = MAX(0, search->steps_left) + kept_back;
  for (int i = 0; i < length.n_kept && !is_over(search, full); i++)
    try_one(search, full, limit_of_screening(full), &length.kept[i]);
  length_clear(&length);
}

static void search_all(Search *search, const FlatProblem *flat, Length *full) {
  gint64 n_actions = (gint64)flat_first(flat, flat->n_ranks);
  search->steps_left = MAX(LEAST_STEPS, LEAST_PASSES * n_actions);
  try_schedules(search, full);
  v_patterns_find(flat, search->patterns);
  if (n_actions * 100 > search->steps_left && short_length(flat) < flat->n_micro_batches)
    search_short(search, flat, full);
  else
    screen(search, full);
  gint64 kept_back = search->steps_left / 3;
  search->steps_left -= kept_back;
  descend_from_kept(search, full);
  search->steps_left = MAX(0, search->steps_left) + kept_back;
  improve(search, full);
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
static gboolean try_sequence(Length *length, GError **error) {
  const FlatProblem *flat = &length->flat;
  flat_order_in_sequence(flat, &length->trial);
  for (int rank = 0; flat->cap && rank < flat->n_ranks; rank++) {
    double least = flat_order_peak(flat, &length->trial, rank);
    if (least > flat->cap[rank])
      return fail_impossible(error,
                             "no order fits: rank %d holds at least %.9g for one micro-batch, its memory is %.9g", rank,
                             least, flat->cap[rank]);
  }
  if (flat_order_time(flat, &length->timer, &length->trial))
    keep_best(length);
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
  Length full;
  length_init(&full, &flat, problem->n_micro_batches);
  Order *order = NULL;
  if (try_sequence(&full, error)) {
    search_all(&search, &flat, &full);
    order = order_of_flat(&flat, &full.best, problem->placement);
    if (cost != NULL && !order_evaluate(order, problem, cost, error))
      g_clear_pointer(&order, order_free);
  }
  length_clear(&full);
  return order;
}
