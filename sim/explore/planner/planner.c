/* Three passes over the space: screen every configuration (in parallel, each on its own), sort what is left by bound,
 * simulate in that order.
 *
 *     candidates   0  1  2  3  4  5  6  7 …       least bound first; threads take the next one
 *     settled      ■  ■  ■                        in order, as soon as those before are: kept, or why not
 *     ahead                 ·  ■  ·               under way or waiting for those before
 *
 * When the bound of the first that is not settled is above the score of the last plan kept, nothing from there on can
 * be kept: what was simulated ahead of that is dropped and not counted, so that threads change nothing but the time. */
#include "planner.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "warnings.h"
#include "units.h"
#include "parallel.h"
#include "plan_screen.h"
#include "progress_line.h"

enum { MOST_REASONS = 2, WIDER = 2 };

typedef struct {
  gint64 index;
  double bound; /* score */
} Candidate;

/* A candidate simulated. */
typedef struct {
  gboolean is_done;
  PlanOutcome *outcome; /* owned; NULL: `error` */
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
  SpaceReader **readers; /* [threads] */
  ShortOrder **orders;   /* [threads] */
  GHashTable **reasons;  /* [threads] */
  guint8 *screened;      /* [configurations]: Screened */
  double *numbers;       /* [configurations]: as plan_screen() says */
  GArray *candidates;    /* of Candidate, by bound */
  Trial *trials;         /* [candidates] */
  guint n_settled;       /* of them, from the first on */
  gint is_over;          /* atomic: the rest cannot be kept */
  PlannerResult *result;
  GArray *losers;       /* of Loser */
  GError *problem;      /* the first mistake in a configuration */
  gint64 problem_at;    /* its index */
  GMutex lock;          /* of `problem`; while simulating, of trials, n_settled, result, losers and reasons[0] */
  Interrupt *interrupt; /* NULL: nobody looks on */
  Progress progress;
  ProgressLine line;
} Search;

/* --- looking on --- */

static gboolean look(gint64 n_done, gpointer data) {
  Search *search = data;
  Progress progress = search->progress;
  progress.n_now += n_done;
  progress_line_show(&search->line, &progress);
  return interrupt_poll(search->interrupt) == 0;
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

static void screen(gint64 index, int thread, gpointer data) {
  Search *search = data;
  GError *error = NULL;
  search->screened[index] = (guint8)plan_rules_ask(search->rules, search->readers[thread], index);
  if (search->screened[index] != SCREENED_CANDIDATE)
    return;
  search->screened[index] = (guint8)plan_screen(&search->screen, search->readers[thread], search->orders[thread], index,
                                                &search->numbers[index], &error);
  if (error != NULL)
    take_screened(search, thread, index, error);
}

static int by_bound(gconstpointer a, gconstpointer b) {
  const Candidate *x = a, *y = b;
  if (x->bound != y->bound)
    return x->bound < y->bound ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* How far what cannot be kept is from it. */
static void note_miss(PlannerResult *result, Screened screened, double by) {
  if (screened == SCREENED_TOO_LARGE)
    result->least_excess_bytes = MIN(result->least_excess_bytes, by);
  else if (screened == SCREENED_LATE)
    result->most_late_tokens_per_s = MAX(result->most_late_tokens_per_s, by);
}

static void screen_all(Search *search, gint64 n) {
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
  g_array_sort(search->candidates, by_bound);
}

/* --- ZeRO over part of the ranks --- */

/* Smaller groups gather and reduce over nearer links, and hold more per GPU.
 *
 *     2 GPUs │ 4 │ … │ one node's │ two nodes' │ 4 nodes' │ … │ all     shards span so many, replicas stand beside
 *                                                                     each other
 *
 * One plan of a search represents all of these: its step-time bound (plan_bound.h) holds for each, since it counts
 * neither gradients nor gathers, and a plan that does not fit with shards over all ranks does not fit with larger
 * shards either. */

/* Whole nodes of a domain that divide the job, at least one node's GPUs; all of the job where none do. */
static gint64 near_gpus(const Cluster *cluster, gint64 gpus) {
  const gint64 node = cluster->gpus_per_node;
  for (gint64 n = MAX(cluster->domain_gpus, node) / node * node; n > 0; n -= node)
    if (gpus % n == 0)
      return n;
  return gpus;
}

/* These, halved while that goes: an odd number, or two. */
static gint64 least_gpus(const Cluster *cluster, gint64 gpus) {
  gint64 least = near_gpus(cluster, gpus);
  while (least % WIDER == 0 && least > WIDER)
    least /= WIDER;
  return least;
}

/* Ranks of a set of shards over so many GPUs; 0: none are. */
static gint64 ranks_over(const Plan *plan, gint64 gpus) {
  const gint64 span = far_gathers_span(plan, plan->cp), ranks = gpus / span * plan->cp;
  return gpus % span == 0 && ranks > 1 && plan_data_ranks(plan) % ranks == 0 ? ranks : 0;
}

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
  for (gint64 gpus = least_gpus(whole->cluster, plan->gpus); gpus < plan->gpus; gpus *= WIDER) {
    const gint64 ranks = ranks_over(plan, gpus);
    if (ranks == 0 || ranks >= plan_data_ranks(plan))
      continue;
    g_autoptr(Plan) tried = plan_copy(best->plan);
    tried->zero_ranks = (int)ranks;
    g_autoptr(PlanOutcome) outcome = is_run_by_framework(request, best, tried)
                                         ? plan_outcome_new(best->model, best->cluster, tried, &request->scoring, NULL)
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

static void drop_last(PlannerResult *result, GArray *losers) {
  const PlanOutcome *last = g_ptr_array_index(result->kept, result->kept->len - 1);
  Loser loser;
  memcpy(loser.breakdown_s, last->breakdown_s, sizeof loser.breakdown_s);
  g_array_append_val(losers, loser);
  g_ptr_array_set_size(result->kept, (int)result->kept->len - 1);
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
  g_ptr_array_add(result->kept, outcome);
  g_ptr_array_sort(result->kept, plan_outcome_compare);
  if (result->kept->len > (guint)request->n_kept)
    drop_last(result, losers);
}

/* Candidates are settled on in their order, so that what is tried beside them is the same on any number of threads. */
static void settle(Search *search, gint64 index, Trial *trial) {
  if (trial->outcome != NULL) {
    const GPtrArray *kept = search->result->kept;
    const gboolean is_full = kept->len >= (guint)search->request->n_kept;
    const PlanOutcome *last = is_full ? g_ptr_array_index(kept, kept->len - 1) : NULL;
    PlanOutcome *whole = g_steal_pointer(&trial->outcome);
    PlanOutcome *best = best_shards(search->request, whole, last != NULL ? last->score : INFINITY);
    settle_outcome(search->request, best, search->result, search->losers);
    return;
  }
  search->result->n_impossible++;
  take_error(search, search->reasons[0], index, g_steal_pointer(&trial->error));
}

/* No candidate from the first that is not settled on can be kept, or is asked for. */
static gboolean is_over(const Search *search) {
  const GPtrArray *kept = search->result->kept;
  if (search->n_settled == search->candidates->len || search->problem != NULL)
    return TRUE;
  if (kept->len < (guint)search->request->n_kept)
    return FALSE;
  const PlanOutcome *last = g_ptr_array_index(kept, kept->len - 1);
  return g_array_index(search->candidates, Candidate, search->n_settled).bound > last->score;
}

/* All that nothing before it is missing of. The lock is held. */
static void settle_ready(Search *search) {
  for (; !is_over(search); search->n_settled++) {
    if (!search->trials[search->n_settled].is_done)
      return;
    settle(search, g_array_index(search->candidates, Candidate, search->n_settled).index,
           &search->trials[search->n_settled]);
  }
  g_atomic_int_set(&search->is_over, TRUE);
}

static void simulate(gint64 at, int thread, gpointer data) {
  Search *search = data;
  const gint64 index = g_array_index(search->candidates, Candidate, at).index;
  Trial trial = {.is_done = TRUE};
  SpacePoint point;
  if (g_atomic_int_get(&search->is_over))
    return;
  if (space_reader_read(search->readers[thread], index, &point, &trial.error))
    trial.outcome = plan_outcome_new(point.model, point.cluster, point.plan, &search->request->scoring, &trial.error);
  if (trial.outcome != NULL)
    trial.outcome->index = index;
  g_mutex_lock(&search->lock);
  search->trials[at] = trial;
  settle_ready(search);
  g_mutex_unlock(&search->lock);
}

static void simulate_candidates(Search *search) {
  const guint n = search->candidates->len;
  search->trials = g_new0(Trial, n + 1);
  search->progress = (Progress){.doing = "simulating plans: ", .n_wanted = n, .is_most = TRUE};
  progress_line_init(&search->line);
  visit_all(search, n, simulate);
  progress_line_end(&search->line);
  search->result->n_beaten_by_bound = n - search->n_settled;
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
  search->readers = g_new0(SpaceReader *, request->n_threads);
  search->orders = g_new0(ShortOrder *, request->n_threads);
  search->reasons = g_new0(GHashTable *, request->n_threads);
  for (int thread = 0; thread < request->n_threads; thread++) {
    search->readers[thread] = space_reader_new(request->space);
    search->orders[thread] = short_order_new();
    search->reasons[thread] = reasons_new();
  }
  search->screened = g_new0(guint8, result->n_configurations);
  search->numbers = g_new0(double, result->n_configurations);
  search->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  search->losers = g_array_new(FALSE, FALSE, sizeof(Loser));
  g_mutex_init(&search->lock);
}

static void search_clear(Search *search) {
  plan_rules_free(search->rules);
  for (int thread = 0; thread < search->request->n_threads; thread++) {
    space_reader_free(search->readers[thread]);
    short_order_free(search->orders[thread]);
    g_hash_table_unref(search->reasons[thread]);
  }
  for (guint i = 0; search->trials != NULL && i < search->candidates->len; i++) { /* what was not settled */
    plan_outcome_free(search->trials[i].outcome);
    g_clear_error(&search->trials[i].error);
  }
  g_free(search->readers);
  g_free(search->orders);
  g_free(search->reasons);
  g_free(search->screened);
  g_free(search->numbers);
  g_free(search->trials);
  g_array_unref(search->candidates);
  g_array_unref(search->losers);
  g_clear_error(&search->problem);
  g_mutex_clear(&search->lock);
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
  g_free(result);
}
