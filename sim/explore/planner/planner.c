/* Three passes over the space: screen every configuration (in parallel, each on its own), sort what is left by bound,
 * simulate in that order. Screening does not begin with the first values of all axes but takes blocks of configurations
 * from all over the space, and now and then the most promising one so far is simulated, so that a plan can be shown
 * that is not far from the best before all are screened.
 *
 *     candidates   0  1  2  3  4  5  6  7 …       least bound first
 *     waiting            2  0  4                  those whose bound may be less than the next one's, tightened
 *     taken        1  3                           by threads: the one that waits with the least bound, if the next
 *                                                 candidate's is not less
 *     settled      ■                              in order, as soon as those before are: kept, or why not
 *     ahead           ■                           under way or waiting for those before
 *
 * When the bound of the first that is not settled is above the score of the last plan kept, nothing from there on can
 * be kept: what was simulated ahead of that is dropped and not counted, so that threads change nothing but the time. */
#include "planner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "parallel.h"
#include "plan_family.h"
#include "plan_screen.h"
#include "plan_shards.h"
#include "progress_line.h"
#include "units.h"
#include "warnings.h"

enum { MOST_REASONS = 2 };
/* Configurations that stand next to each other are read faster one after the other; small spaces are screened before
 * anything could be shown. */
enum { BLOCK = 64, LEAST_BLOCKS = 16 };

typedef struct {
  gint64 index;
  double bound; /* score */
} Candidate;

/* A candidate simulated. */
typedef struct {
  gint64 index;
  gboolean is_done;
  gboolean is_beaten;   /* by its family: it was not simulated */
  PlanOutcome *outcome; /* owned; NULL: `error` or is_beaten */
  GError *error;        /* owned */
} Trial;

/* What is not kept is counted when the best is known. */
typedef struct {
  double breakdown_s[N_BREAKDOWN];
} Loser;

typedef struct {
  const PlannerRequest *request;
  PlanScreen screen;
  PlanRules *rules;
  PlanScreener *screeners;     /* [threads] */
  Predictor **predictors;      /* [threads] */
  GHashTable **reasons;        /* [threads] */
  guint8 *screened;            /* [configurations]: Screened */
  double *numbers;             /* [configurations]: as plan_screen() says */
  gint64 n_blocks, block_step; /* how far apart blocks are that are screened one after the other */
  int zero_axis;               /* of the space; −1: none */
  Candidate least;             /* by bound, of those screened since one was simulated; index −1: none */
  gboolean is_least_loose;     /* nothing but loose bounds was found */
  GArray *early;               /* of Trial: before all were screened; its contents are owned */
  GArray *candidates;          /* of Candidate, by bound */
  guint n_tightened;           /* of them, from the first on */
  GSequence *waiting;          /* of Candidate, by a tighter bound: not taken yet */
  GArray *taken;               /* of Candidate: to be simulated, in this order */
  Trial *trials;               /* [candidates]: of those taken */
  GHashTable *families;        /* plan_family_key() → double: the best score of those settled; NULL: not asked for */
  guint n_settled;             /* of those taken, from the first on */
  PlannerResult *result;
  GArray *losers;    /* of Loser */
  GError *problem;   /* the first mistake in a configuration */
  gint64 problem_at; /* its index */
  GMutex lock; /* of `problem`, least and early; while simulating, of trials, n_settled, result, losers, reasons[0] */
  GMutex best_lock; /* of what follows */
  double best_score;
  char *best;           /* the best simulated so far, in words; NULL: none; owned */
  gboolean is_news;     /* not shown yet */
  Interrupt *interrupt; /* NULL: nobody looks on */
  Progress progress;
  ProgressLine line;
} Search;

/* --- looking on --- */

static gboolean look(gint64 n_done, gpointer data) {
  Search *search = data;
  Progress progress = search->progress;
  g_mutex_lock(&search->best_lock);
  g_autofree char *best = g_strdup(search->best);
  progress.is_news = search->is_news;
  search->is_news = FALSE;
  g_mutex_unlock(&search->best_lock);
  progress.n_now += n_done;
  progress.detail = best;
  progress_line_show(&search->line, &progress);
  return interrupt_poll(search->interrupt) == 0;
}

/* "best so far 14.45 s, tp 4, pp 2 × 5 chunks, dp 32" */
static char *best_text(const PlanOutcome *outcome) {
  const Plan *plan = outcome->completed;
  GString *text = g_string_new("best so far ");
  g_autofree char *time = units_format(outcome->step_time_s, UNIT_SECONDS);
  g_string_append_printf(text, "%s, tp %d, pp %d", time, plan->tp, plan->pp);
  if (plan->chunks > 1)
    g_string_append_printf(text, " × %d chunks", plan->chunks);
  if (plan->cp > 1)
    g_string_append_printf(text, ", cp %d", plan->cp);
  if (plan->ep > 1)
    g_string_append_printf(text, ", ep %d", plan->ep);
  g_string_append_printf(text, ", dp %d", plan->dp);
  return g_string_free(text, FALSE);
}

/* If it is one. */
static void tell_best(Search *search, const PlanOutcome *outcome) {
  if (!outcome->fits || plan_outcome_kept_tokens_per_s(outcome) < search->request->least_tokens_per_s)
    return;
  g_mutex_lock(&search->best_lock);
  if (search->best == NULL || outcome->score < search->best_score) {
    g_free(search->best);
    search->best = best_text(outcome);
    search->best_score = outcome->score;
    search->is_news = TRUE;
  }
  g_mutex_unlock(&search->best_lock);
}

static int signal_of(const Search *search) {
  return search->interrupt != NULL ? search->interrupt->signal : 0;
}

static void visit_all(Search *search, gint64 n, void (*visit)(gint64 index, int thread, gpointer data)) {
  const ParallelWatch watch = {look, search};
  parallel_for(n, search->request->n_threads, visit, search, search->interrupt != NULL ? &watch : NULL);
}

/* --- screening --- */

/* Impossible is counted, anything else stops the search: the mistake of the lowest index is told. The lock is held.
 * Takes the error. */
static void take_error(Search *search, GHashTable *reasons, gint64 index, GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
    reasons_add(reasons, error->message, 1);
    g_error_free(error);
  } else if (search->problem == NULL || index < search->problem_at) {
    g_clear_error(&search->problem);
    search->problem = error;
    search->problem_at = index;
  } else {
    g_error_free(error);
  }
}

/* Reasons are the thread's own, and most errors are: they wait for no lock. */
static void take_screened(Search *search, int thread, gint64 index, GError *error) {
  const gboolean is_shared = !g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE);
  if (is_shared)
    g_mutex_lock(&search->lock);
  take_error(search, search->reasons[thread], index, error);
  if (is_shared)
    g_mutex_unlock(&search->lock);
}

/* Blocks follow each other a golden ratio of all apart, so that any number of them is spread over the space. */
static gint64 nth_screened(const Search *search, gint64 at) {
  const gint64 block = at / BLOCK;
  if (block >= search->n_blocks)
    return at;
  return block * search->block_step % search->n_blocks * BLOCK + at % BLOCK;
}

static gint64 common_divisor(gint64 a, gint64 b) {
  return b == 0 ? a : common_divisor(b, a % b);
}

static void spread_blocks(Search *search, gint64 n) {
  static const double golden_ratio = 0.6180339887498949;
  search->n_blocks = n / BLOCK >= LEAST_BLOCKS ? n / BLOCK : 0;
  search->block_step = (gint64)(golden_ratio * (double)search->n_blocks) | 1;
  while (search->n_blocks > 0 && common_divisor(search->n_blocks, search->block_step) > 1)
    search->block_step += 2;
}

static Trial try_plan(Search *search, gint64 index, int thread) {
  Trial trial = {.index = index, .is_done = TRUE};
  SpacePoint point;
  if (space_reader_read(search->screeners[thread].reader, index, &point, &trial.error))
    trial.outcome = plan_outcome_new(search->predictors[thread], point.model, point.cluster, point.plan,
                                     &search->request->scoring, &trial.error);
  if (trial.outcome != NULL)
    trial.outcome->index = index;
  return trial;
}

/* Once a sixteenth is screened, and a quarter. */
static void try_early(Search *search, gint64 at, int thread) {
  if (search->n_blocks == 0 || (at != search->n_blocks / 16 * BLOCK && at != search->n_blocks / 4 * BLOCK))
    return;
  g_mutex_lock(&search->lock);
  const Candidate least = search->least;
  search->least.index = -1;
  g_mutex_unlock(&search->lock);
  if (least.index < 0)
    return;
  const Trial trial = try_plan(search, least.index, thread);
  if (trial.outcome != NULL)
    tell_best(search, trial.outcome);
  g_mutex_lock(&search->lock);
  g_array_append_val(search->early, trial);
  g_mutex_unlock(&search->lock);
}

static int by_bound(gconstpointer a, gconstpointer b, gpointer unused) {
  const Candidate *x = a, *y = b;
  if (x->bound != y->bound)
    return x->bound < y->bound ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Whether the bound will be tightened (plan_screen_tighter()): until then it promises too much. */
static gboolean is_loose(const Search *search, gint64 index) {
  const PlannerRequest *request = search->request;
  return request->seeks_shards && search->zero_axis >= 0 &&
         zero_shards_weights(atoi(space_axis_value(request->space, search->zero_axis, index)));
}

static void note_candidate(Search *search, gint64 index) {
  const Candidate candidate = {index, search->numbers[index]};
  const gboolean loose = is_loose(search, index);
  g_mutex_lock(&search->lock);
  const gboolean is_less = loose == search->is_least_loose && by_bound(&candidate, &search->least, NULL) < 0;
  if (search->least.index < 0 || is_less || (search->is_least_loose && !loose)) {
    search->least = candidate;
    search->is_least_loose = loose;
  }
  g_mutex_unlock(&search->lock);
}

static void screen(gint64 at, int thread, gpointer data) {
  Search *search = data;
  const gint64 index = nth_screened(search, at);
  GError *error = NULL;
  try_early(search, at, thread);
  search->screened[index] = (guint8)plan_rules_ask(search->rules, search->screeners[thread].reader, index);
  if (search->screened[index] != SCREENED_CANDIDATE)
    return;
  search->screened[index] =
      (guint8)plan_screen(&search->screen, &search->screeners[thread], index, &search->numbers[index], &error);
  if (error != NULL)
    take_screened(search, thread, index, error);
  else if (search->screened[index] == SCREENED_CANDIDATE)
    note_candidate(search, index);
}

/* How far what cannot be kept is from it. */
static void note_miss(PlannerResult *result, Screened screened, double by) {
  if (screened == SCREENED_TOO_LARGE)
    result->least_excess_bytes = MIN(result->least_excess_bytes, by);
  else if (screened == SCREENED_LATE)
    result->most_late_tokens_per_s = MAX(result->most_late_tokens_per_s, by);
}

static void screen_all(Search *search, gint64 n) {
  spread_blocks(search, n);
  search->progress = (Progress){.doing = "screening plans: ", .n_wanted = n};
  progress_line_init(&search->line);
  visit_all(search, n, screen);
  progress_line_end(&search->line);
}

static void collect_candidates(Search *search, PlannerResult *result) {
  gint64 *counts[] = {[SCREENED_IMPOSSIBLE] = &result->n_impossible,
                      [SCREENED_SAME] = &result->n_same,
                      [SCREENED_TOO_LARGE] = &result->n_too_large,
                      [SCREENED_LATE] = &result->n_late};
  for (gint64 i = 0; i < result->n_configurations; i++) {
    if (search->screened[i] == SCREENED_CANDIDATE) {
      Candidate candidate = {i, search->numbers[i]};
      g_array_append_val(search->candidates, candidate);
    } else {
      ++*counts[search->screened[i]];
      note_miss(result, (Screened)search->screened[i], search->numbers[i]);
    }
  }
  result->n_out_of_memory = result->n_too_large;
  g_array_sort_with_data(search->candidates, by_bound, NULL);
}

/* --- ZeRO over part of the ranks --- */

static gboolean is_run_by_framework(const PlannerRequest *request, const PlanOutcome *whole, const Plan *plan) {
  if (request->framework == PLANNER_ANY_FRAMEWORK)
    return TRUE;
  g_autoptr(Workload) workload = workload_complete(whole->model, whole->cluster, plan, NULL);
  return workload != NULL && launch_check((LaunchFramework)request->framework, workload, NULL);
}

/* Whether there is something to win that counts. */
static gboolean is_worth_it(const PlanOutcome *whole, double most) {
  const double waits = whole->breakdown_s[BREAKDOWN_DP] / whole->step_time_s;
  return waits > 0 && whole->score * (1 - waits) < most;
}

/* The best by score of `whole` (taken over; shards over all ranks) and its variants with shards over fewer ranks,
 * among those that fit and that the request's framework can run; owned by the caller. `whole` itself is returned if
 * the request does not ask for variants, under ZeRO-0 to 2, and if its score would not be below `most` even if its
 * ranks never waited for data parallelism, which is all that can be gained. A scale-up domain larger than a node
 * counts as a node if whole domains divide the job; halves, quarters … of a node's or domain's GPUs are tried. */
static PlanOutcome *best_shards(const PlannerRequest *request, PlanOutcome *whole, double most) {
  const Plan *plan = whole->completed;
  if (!request->seeks_shards || !zero_shards_weights(plan->zero) || !whole->fits || !is_worth_it(whole, most))
    return whole;
  g_autoptr(PlanOutcome) best = whole;
  g_autoptr(GArray) narrower = plan_shards_narrower(plan, whole->cluster);
  for (guint i = 0; i < narrower->len; i++) {
    g_autoptr(Plan) tried = plan_copy(best->plan);
    tried->zero_ranks = g_array_index(narrower, int, i);
    g_autoptr(PlanOutcome) outcome =
        is_run_by_framework(request, best, tried)
            ? plan_outcome_new(NULL, best->model, best->cluster, tried, &request->scoring, NULL)
            : NULL;
    if (outcome == NULL || !outcome->fits || outcome->score >= best->score)
      continue;
    outcome->index = best->index;
    PlanOutcome *beaten = best;
    best = g_steal_pointer(&outcome);
    if (beaten != whole)
      plan_outcome_free(beaten);
  }
  if (best != whole)
    plan_outcome_free(whole);
  return g_steal_pointer(&best);
}

/* --- simulating --- */

static void add_loser(const PlanOutcome *outcome, GArray *losers) {
  Loser loser;
  memcpy(loser.breakdown_s, outcome->breakdown_s, sizeof loser.breakdown_s);
  g_array_append_val(losers, loser);
}

static void drop_last(PlannerResult *result, GArray *losers) {
  add_loser(g_ptr_array_index(result->kept, result->kept->len - 1), losers);
  g_ptr_array_set_size(result->kept, (int)result->kept->len - 1);
}

static char *key_of(const PlannerRequest *request, const PlanOutcome *outcome) {
  return plan_family_key(outcome->model, outcome->cluster, outcome->plan, request->compared);
}

/* Index among the kept of the one of its family; −1: none is kept. */
static int find_family(const PlannerRequest *request, const GPtrArray *kept, const char *key) {
  for (guint i = 0; request->compared != NULL && i < kept->len; i++) {
    g_autofree char *other = key_of(request, kept->pdata[i]);
    if (strcmp(other, key) == 0)
      return (int)i;
  }
  return -1;
}

/* Takes the outcome. */
static void keep(const PlannerRequest *request, PlanOutcome *outcome, PlannerResult *result, GArray *losers) {
  g_autofree char *key = key_of(request, outcome);
  const int at = find_family(request, result->kept, key);
  PlanOutcome **of_family = at >= 0 ? (PlanOutcome **)&result->kept->pdata[at] : NULL;
  if (of_family == NULL) {
    g_ptr_array_add(result->kept, outcome);
  } else {
    PlanOutcome *slower = outcome;
    if (plan_outcome_compare(&outcome, of_family) < 0) {
      slower = *of_family;
      *of_family = outcome;
    }
    add_loser(slower, losers);
    g_ptr_array_add(result->neighbours, slower);
  }
  g_ptr_array_sort(result->kept, plan_outcome_compare);
  if (result->kept->len > (guint)request->n_kept)
    drop_last(result, losers);
}

/* Takes the outcome. */
static void settle_outcome(const PlannerRequest *request, PlanOutcome *outcome, PlannerResult *result, GArray *losers) {
  result->n_simulated++;
  const double kept_tokens_per_s = plan_outcome_kept_tokens_per_s(outcome);
  gboolean late = kept_tokens_per_s < request->least_tokens_per_s;
  if (!outcome->fits || late) {
    ++*(outcome->fits ? &result->n_late : &result->n_out_of_memory);
    note_miss(result, outcome->fits ? SCREENED_LATE : SCREENED_TOO_LARGE,
              outcome->fits ? kept_tokens_per_s : outcome->excess_bytes);
    plan_outcome_free(outcome);
    return;
  }
  keep(request, outcome, result, losers);
}

/* Whether the best of its family that was settled on is as good as the candidate can be. The lock is held. */
static gboolean is_beaten_by_family(Search *search, int thread, const Candidate *candidate) {
  SpacePoint point;
  if (search->families == NULL || !space_reader_read(search->screeners[thread].reader, candidate->index, &point, NULL))
    return FALSE;
  g_autofree char *key = plan_family_key(point.model, point.cluster, point.plan, search->request->compared);
  const double *best = g_hash_table_lookup(search->families, key);
  return best != NULL && *best <= candidate->bound;
}

static void note_family(Search *search, const PlanOutcome *outcome) {
  if (search->families == NULL || !outcome->fits ||
      plan_outcome_kept_tokens_per_s(outcome) < search->request->least_tokens_per_s)
    return;
  char *key = key_of(search->request, outcome);
  const double *best = g_hash_table_lookup(search->families, key);
  if (best == NULL || outcome->score < *best)
    g_hash_table_replace(search->families, key, g_memdup2(&outcome->score, sizeof outcome->score));
  else
    g_free(key);
}

/* Candidates are settled on in their order, so that what is tried beside them is the same on any number of threads; so
 * is what their families beat, whether a thread knew it in time or not. */
static void settle(Search *search, const Candidate *candidate, Trial *trial, int thread) {
  const gint64 index = candidate->index;
  if (trial->is_beaten || (trial->outcome != NULL && is_beaten_by_family(search, thread, candidate))) {
    search->result->n_beaten_by_bound++;
    return;
  }
  if (trial->outcome != NULL) {
    const GPtrArray *kept = search->result->kept;
    const gboolean is_full = kept->len >= (guint)search->request->n_kept;
    const PlanOutcome *last = is_full ? g_ptr_array_index(kept, kept->len - 1) : NULL;
    PlanOutcome *whole = g_steal_pointer(&trial->outcome);
    PlanOutcome *best = best_shards(search->request, whole, last != NULL ? last->score : INFINITY);
    tell_best(search, best);
    note_family(search, best);
    settle_outcome(search->request, best, search->result, search->losers);
    return;
  }
  search->result->n_impossible++;
  take_error(search, search->reasons[0], index, g_steal_pointer(&trial->error));
}

static const Candidate *next_waiting(const Search *search) {
  GSequenceIter *first = g_sequence_get_begin_iter(search->waiting);
  return g_sequence_iter_is_end(first) ? NULL : g_sequence_get(first);
}

static const Candidate *next_candidate(const Search *search) {
  return search->n_tightened < search->candidates->len
             ? &g_array_index(search->candidates, Candidate, search->n_tightened)
             : NULL;
}

/* INFINITY: there is none. */
static double next_bound(const Search *search) {
  if (search->n_settled < search->taken->len)
    return g_array_index(search->taken, Candidate, search->n_settled).bound;
  const Candidate *waiting = next_waiting(search), *candidate = next_candidate(search);
  return fmin(waiting != NULL ? waiting->bound : INFINITY, candidate != NULL ? candidate->bound : INFINITY);
}

/* Takes the one with the least bound, once that of none which may be less is left to be tightened. The lock is held.
 * Returns its place among those taken; −1: there is none. */
static gint64 take_next(Search *search, int thread) {
  for (;;) {
    const Candidate *waiting = next_waiting(search), *candidate = next_candidate(search);
    if (waiting != NULL && (candidate == NULL || by_bound(waiting, candidate, NULL) < 0)) {
      g_array_append_vals(search->taken, waiting, 1);
      g_sequence_remove(g_sequence_get_begin_iter(search->waiting));
      return search->taken->len - 1;
    }
    if (candidate == NULL)
      return -1;
    Candidate *tightened = g_memdup2(candidate, sizeof *candidate);
    tightened->bound =
        plan_screen_tighter(&search->screen, &search->screeners[thread], candidate->index, candidate->bound);
    g_sequence_insert_sorted(search->waiting, tightened, by_bound, NULL);
    search->n_tightened++;
  }
}

/* No candidate from the first that is not settled on can be kept, or is asked for. */
static gboolean is_over(const Search *search) {
  const GPtrArray *kept = search->result->kept;
  const double bound = next_bound(search);
  if (bound == INFINITY || search->problem != NULL)
    return TRUE;
  if (kept->len < (guint)search->request->n_kept)
    return FALSE;
  const PlanOutcome *last = g_ptr_array_index(kept, kept->len - 1);
  return bound > last->score;
}

/* All that nothing before it is missing of. The lock is held. */
static void settle_ready(Search *search, int thread) {
  for (; !is_over(search); search->n_settled++) {
    if (search->n_settled == search->taken->len || !search->trials[search->n_settled].is_done)
      return;
    settle(search, &g_array_index(search->taken, Candidate, search->n_settled), &search->trials[search->n_settled],
           thread);
  }
}

/* What was simulated early is not simulated again. The lock is held. */
static gboolean take_early(Search *search, gint64 index, Trial *trial) {
  for (guint i = 0; i < search->early->len; i++) {
    Trial *early = &g_array_index(search->early, Trial, i);
    if (early->index != index)
      continue;
    *trial = *early;
    *early = (Trial){.index = -1};
    return TRUE;
  }
  return FALSE;
}

static void simulate(gint64 unused, int thread, gpointer data) {
  Search *search = data;
  Trial trial;
  g_mutex_lock(&search->lock);
  const gint64 at = is_over(search) ? -1 : take_next(search, thread);
  const gint64 index = at >= 0 ? g_array_index(search->taken, Candidate, at).index : -1;
  const gboolean is_beaten =
      at >= 0 && is_beaten_by_family(search, thread, &g_array_index(search->taken, Candidate, at));
  const gboolean is_known = at >= 0 && !is_beaten && take_early(search, index, &trial);
  g_mutex_unlock(&search->lock);
  if (at < 0)
    return;
  if (is_beaten)
    trial = (Trial){.index = index, .is_done = TRUE, .is_beaten = TRUE};
  else if (!is_known)
    trial = try_plan(search, index, thread);
  g_mutex_lock(&search->lock);
  search->trials[at] = trial;
  settle_ready(search, thread);
  g_mutex_unlock(&search->lock);
}

static void simulate_candidates(Search *search) {
  const guint n = search->candidates->len;
  search->trials = g_new0(Trial, n + 1);
  search->progress = (Progress){.doing = "simulating plans: ", .n_wanted = n, .is_most = TRUE};
  progress_line_init(&search->line);
  visit_all(search, n, simulate);
  progress_line_end(&search->line);
  search->result->n_beaten_by_bound += n - search->n_settled;
}

/* --- the result --- */

static void count_losers(const GArray *losers, PlannerResult *result) {
  const PlanOutcome *best = g_ptr_array_index(result->kept, 0);
  result->n_slower = losers->len;
  for (guint i = 0; i < losers->len; i++) {
    const double *lost_s = g_array_index(losers, Loser, i).breakdown_s;
    int most = 0;
    for (int kind = 1; kind < N_BREAKDOWN; kind++)
      if (lost_s[kind] - best->breakdown_s[kind] > lost_s[most] - best->breakdown_s[most])
        most = kind;
    result->n_slower_by[most]++;
  }
}

/* "; 12 are impossible: 7 because …, 3 because …, the rest for 2 other reasons". */
static void append_reasons(GString *why, const PlannerResult *result) {
  const guint n = result->reasons->len;
  g_string_append_printf(why, "; %" INT64 " are impossible", result->n_impossible);
  for (guint i = 0; i < MIN(n, MOST_REASONS); i++) {
    const Reason *reason = &g_array_index(result->reasons, Reason, i);
    g_string_append(why, i == 0 ? ": " : ", ");
    if (n > 1)
      g_string_append_printf(why, "%" INT64 " because ", reason->n);
    g_string_append(why, reason->text);
  }
  if (n > MOST_REASONS)
    g_string_append_printf(why, ", the rest for %u other reason%s", n - MOST_REASONS, n == MOST_REASONS + 1 ? "" : "s");
}

/* Nothing was said of offloading, and the cluster's file says what it needs. */
static gboolean may_offload(const Space *space) {
  return space_given(space, "offload-optimizer") == NULL && space_cluster(space, 0)->host.link_efficiency > 0;
}

/* What came nearest comes first. */
static gboolean fail_without_plan(const PlannerRequest *request, const PlannerResult *result, GError **error) {
  g_autoptr(GString) why = g_string_new(NULL);
  if (result->n_late > 0)
    g_string_append_printf(why,
                           "; %" INT64 " are too slow for the deadline: the fastest trains on at most %.4g tokens/s, "
                           "%.4g are needed",
                           result->n_late, result->most_late_tokens_per_s, request->least_tokens_per_s);
  if (result->n_out_of_memory > 0)
    g_string_append_printf(why, "; %" INT64 " do not fit in memory: the smallest needs at least %.2f GB more",
                           result->n_out_of_memory, result->least_excess_bytes / 1e9);
  if (result->n_out_of_memory > 0 && may_offload(request->space))
    g_string_append(why, " (--offload-optimizer none,host tries the nodes' memory too)");
  if (result->reasons->len > 0)
    append_reasons(why, result);
  return fail_impossible(error, "none of %" INT64 " plans can be had%s", result->n_configurations, why->str);
}

/* --- all of it --- */

static void search_init(Search *search, const PlannerRequest *request, Interrupt *interrupt, PlannerResult *result) {
  *search = (Search){.request = request, .screen = plan_screen_of(request), .interrupt = interrupt, .result = result};
  search->rules = plan_rules_new(&search->screen);
  search->screeners = g_new0(PlanScreener, request->n_threads);
  search->predictors = g_new0(Predictor *, request->n_threads);
  search->reasons = g_new0(GHashTable *, request->n_threads);
  for (int thread = 0; thread < request->n_threads; thread++) {
    search->predictors[thread] = predictor_new();
    search->screeners[thread] = (PlanScreener){space_reader_new(request->space), short_order_new(),
                                               predictor_costs(search->predictors[thread])};
    search->reasons[thread] = reasons_new();
  }
  search->screened = g_new0(guint8, result->n_configurations);
  search->numbers = g_new0(double, result->n_configurations);
  search->zero_axis = space_n_axes(request->space) - 1;
  while (search->zero_axis >= 0 && strcmp(space_axis_name(request->space, search->zero_axis), "zero") != 0)
    search->zero_axis--;
  search->least.index = -1;
  search->early = g_array_new(FALSE, FALSE, sizeof(Trial));
  search->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  search->waiting = g_sequence_new(g_free);
  search->taken = g_array_new(FALSE, FALSE, sizeof(Candidate));
  search->losers = g_array_new(FALSE, FALSE, sizeof(Loser));
  search->families = request->compared != NULL ? g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free) : NULL;
  g_mutex_init(&search->lock);
  g_mutex_init(&search->best_lock);
}

/* What was not settled. */
static void trials_clear(Trial *trials, guint n) {
  for (guint i = 0; trials != NULL && i < n; i++) {
    plan_outcome_free(trials[i].outcome);
    g_clear_error(&trials[i].error);
  }
}

static void search_clear(Search *search) {
  plan_rules_free(search->rules);
  for (int thread = 0; thread < search->request->n_threads; thread++) {
    space_reader_free(search->screeners[thread].reader);
    short_order_free(search->screeners[thread].order);
    predictor_free(search->predictors[thread]);
    g_hash_table_unref(search->reasons[thread]);
  }
  trials_clear(search->trials, search->candidates->len);
  trials_clear((Trial *)(gpointer)search->early->data, search->early->len);
  g_free(search->screeners);
  g_free(search->predictors);
  g_free(search->reasons);
  g_free(search->screened);
  g_free(search->numbers);
  g_free(search->trials);
  g_free(search->best);
  g_array_unref(search->early);
  g_array_unref(search->candidates);
  g_sequence_free(search->waiting);
  g_array_unref(search->taken);
  g_array_unref(search->losers);
  g_clear_pointer(&search->families, g_hash_table_unref);
  g_clear_error(&search->problem);
  g_mutex_clear(&search->lock);
  g_mutex_clear(&search->best_lock);
}

static gboolean run(Search *search, GError **error) {
  PlannerResult *result = search->result;
  screen_all(search, result->n_configurations);
  if (signal_of(search) == 0 && search->problem == NULL) {
    collect_candidates(search, result);
    simulate_candidates(search);
  }
  if (search->problem != NULL) {
    g_propagate_error(error, g_steal_pointer(&search->problem));
    return FALSE;
  }
  plan_rules_count(search->rules, search->reasons[0]);
  result->reasons = reasons_collect(search->reasons, search->request->n_threads);
  result->signal = signal_of(search);
  if (result->kept->len == 0)
    return result->signal != 0 || fail_without_plan(search->request, result, error);
  count_losers(search->losers, result);
  return TRUE;
}

PlannerResult *planner_search(const PlannerRequest *request, Interrupt *interrupt, GError **error) {
  gint64 n = space_count(request->space), before_us = g_get_monotonic_time();
  if (n > PLANNER_MOST_CONFIGURATIONS) {
    fail_input(error, "%" INT64 " configurations, at most %d are searched: give some options fewer values", n,
               PLANNER_MOST_CONFIGURATIONS);
    return NULL;
  }
  g_autoptr(PlannerResult) result = g_new0(PlannerResult, 1);
  result->n_configurations = n;
  result->least_excess_bytes = INFINITY;
  result->kept = g_ptr_array_new_with_free_func((GDestroyNotify)plan_outcome_free);
  result->neighbours = g_ptr_array_new_with_free_func((GDestroyNotify)plan_outcome_free);
  Search search;
  search_init(&search, request, interrupt, result);
  gboolean ok = run(&search, error);
  search_clear(&search);
  result->wall_s = 1e-6 * (double)(g_get_monotonic_time() - before_us);
  return ok ? g_steal_pointer(&result) : NULL;
}

void planner_result_free(PlannerResult *result) {
  if (result == NULL)
    return;
  g_clear_pointer(&result->reasons, g_array_unref);
  g_ptr_array_unref(result->kept);
  g_ptr_array_unref(result->neighbours);
  g_free(result);
}
