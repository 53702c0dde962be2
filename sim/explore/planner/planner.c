/* Three passes over the space: screen every configuration (in parallel, each on its own), sort what is left by bound,
 * simulate in that order, batch by batch. A batch has the same configurations whatever the number of threads, and what
 * is kept is settled between batches, so that threads change nothing but the time. */
#include "planner.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "memory_bound.h"
#include "mixed_gpus.h"
#include "parallel.h"
#include "plan_bound.h"
#include "plan_order.h"

#define INT64 G_GINT64_FORMAT

enum { BATCH = 32 };

typedef enum { SCREENED_CANDIDATE, SCREENED_IMPOSSIBLE, SCREENED_SAME, SCREENED_TOO_LARGE, SCREENED_LATE } Screened;

typedef struct {
  gint64 index;
  double bound; /* score */
} Candidate;

typedef struct {
  const PlannerRequest *request;
  SpaceReader **readers; /* [threads] */
  GHashTable **reasons;  /* [threads] char * → count */
  guint8 *screened;      /* [configurations]: Screened */
  /* [configurations]: a candidate's score, excess bytes of one too large, tokens/s of a late one */
  double *bounds;
  GArray *candidates;     /* of Candidate, by bound */
  PlanOutcome **outcomes; /* [candidates]; NULL: not simulated, impossible, or not kept */
  guint first;            /* of the batch */
  /* the space does: where doing without a thing and doing the thing for nothing are the same */
  gboolean has_no_sequence_parallel, has_no_zero, has_1f1b, has_no_recompute;
  GError *problem;   /* the first mistake in a configuration */
  gint64 problem_at; /* its index */
  GMutex lock;       /* of `problem` */
} Search;

/* --- scores --- */

static double price_of(const PlannerRequest *request, const Cluster *cluster) {
  return request->dollars_per_gpu_hour >= 0 ? request->dollars_per_gpu_hour : cluster->dollars_per_gpu_hour;
}

/* A score is a step's seconds times this. */
static double weight_of(const PlannerRequest *request, const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  double tokens = (double)plan->global_batch * (double)plan->seq_len, price = price_of(request, cluster);
  if (request->objective == OBJECTIVE_COST)
    return plan->gpus * (price > 0 ? price / 3600 : 1) / tokens;
  if (request->objective == OBJECTIVE_MFU)
    return plan->gpus * mixed_gpus_peak_flops(workload, cluster) / workload_model_flops(workload);
  return 1 / tokens;
}

static double tokens_per_s(const Plan *plan, gint64 step_ns) {
  return (double)plan->global_batch * (double)plan->seq_len / (1e-9 * (double)step_ns);
}

/* --- one plan --- */

static PlanOutcome *outcome_of(const Prediction *prediction, const Model *model, const Plan *plan,
                               const PlannerRequest *request) {
  PlanOutcome *outcome = g_new0(PlanOutcome, 1);
  const Workload *workload = prediction->workload;
  double reserved_bytes = prediction->cluster->gpu.reserved_bytes;
  outcome->index = -1;
  outcome->model = model;
  outcome->cluster = prediction->cluster;
  outcome->plan = plan_copy(plan);
  outcome->completed = plan_copy(workload->plan);
  outcome->score = 1e-9 * (double)prediction->metrics->step_ns * weight_of(request, workload, prediction->cluster);
  outcome->step_time_s = prediction->step_time_s;
  outcome->tokens_per_s = prediction->tokens_per_s;
  outcome->mfu = prediction->mfu;
  memcpy(outcome->breakdown_s, prediction->metrics->mean_s, sizeof outcome->breakdown_s);
  outcome->peak_bytes = prediction->memory->peak_bytes + reserved_bytes;
  outcome->capacity_bytes = mixed_gpus_room_bytes(workload, prediction->cluster) + reserved_bytes;
  outcome->fits = prediction->fits;
  outcome->dollars_per_gpu_hour = price_of(request, prediction->cluster);
  return outcome;
}

PlanOutcome *plan_outcome_new(const Model *model, const Cluster *cluster, const Plan *plan,
                              const PlannerRequest *request, GError **error) {
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, error);
  return prediction != NULL ? outcome_of(prediction, model, plan, request) : NULL;
}

void plan_outcome_free(PlanOutcome *outcome) {
  if (outcome == NULL)
    return;
  plan_free(outcome->plan);
  plan_free(outcome->completed);
  g_free(outcome);
}

/* --- reasons --- */

/* "tp 3 does not divide …" and "tp 5 does not divide …" are one reason. Numbers inside names stay. */
static char *without_numbers(const char *message) {
  g_autoptr(GRegex) number = g_regex_new("(?<![\\w.-])\\d+(\\.\\d+)?(e[+-]?\\d+)?(?![\\w-])", 0, 0, NULL);
  return g_regex_replace_literal(number, message, -1, 0, "…", 0, NULL);
}

static void count_reason(GHashTable *reasons, char *text, gint64 n) {
  gint64 *count = g_hash_table_lookup(reasons, text);
  if (count == NULL) {
    count = g_new0(gint64, 1);
    g_hash_table_insert(reasons, text, count);
  } else {
    g_free(text);
  }
  *count += n;
}

/* Impossible is counted, anything else stops the search: the mistake of the lowest index is told. */
static void take_error(Search *search, int thread, gint64 index, GError *error) {
  if (g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
    count_reason(search->reasons[thread], without_numbers(error->message), 1);
    g_error_free(error);
    return;
  }
  g_mutex_lock(&search->lock);
  if (search->problem == NULL || index < search->problem_at) {
    g_clear_error(&search->problem);
    search->problem = error;
    search->problem_at = index;
  } else {
    g_error_free(error);
  }
  g_mutex_unlock(&search->lock);
}

/* --- screening --- */

static gboolean check_can_run(const PlannerRequest *request, const Workload *workload, GError **error) {
  if (workload->plan->pp == 1 && workload->plan->chunks > 1)
    return fail_impossible(error, "chunks %d: a pipeline of one rank has no chunks to interleave",
                           workload->plan->chunks);
  return request->framework == PLANNER_ANY_FRAMEWORK ||
         launch_check((LaunchFramework)request->framework, workload, error);
}

static Workload *make_workload(const SpacePoint *point, PlanOrder *choice, GError **error) {
  g_autoptr(Plan) completed = plan_copy(point->plan);
  return plan_order_workload(choice, point->model, point->cluster, completed, error);
}

/* Does what another configuration of the space does. */
static gboolean is_same(const Search *search, const Plan *plan) {
  return (search->has_no_sequence_parallel && plan->sequence_parallel && plan->tp == 1) ||
         (search->has_no_zero && plan->zero > 0 && plan_data_ranks(plan) == 1) ||
         (search->has_no_recompute && plan->recompute == RECOMPUTE_SELECTIVE && plan->attention == ATTENTION_FLASH) ||
         (search->has_1f1b && plan->chunks == 1 && strcmp(plan->schedule, "interleaved") == 0);
}

static Screened screen_workload(Search *search, gint64 index, const Workload *workload, PlanOrder *choice,
                                const Cluster *cluster) {
  MemoryBound memory;
  if (is_same(search, workload->plan))
    return SCREENED_SAME;
  if (!memory_bound_fits(workload, choice, cluster, &memory)) {
    search->bounds[index] = memory.least_bytes - memory.room_bytes;
    return SCREENED_TOO_LARGE;
  }
  gint64 bound_ns = plan_bound_step_ns(workload, cluster);
  search->bounds[index] = tokens_per_s(workload->plan, bound_ns);
  if (search->bounds[index] < search->request->least_tokens_per_s)
    return SCREENED_LATE;
  search->bounds[index] = 1e-9 * (double)bound_ns * weight_of(search->request, workload, cluster);
  return SCREENED_CANDIDATE;
}

static void screen(gint64 index, int thread, gpointer data) {
  Search *search = data;
  GError *error = NULL;
  SpacePoint point;
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = NULL;
  if (space_reader_read(search->readers[thread], index, &point, &error))
    workload = make_workload(&point, &choice, &error);
  if (workload == NULL || !check_can_run(search->request, workload, &error)) {
    search->screened[index] = SCREENED_IMPOSSIBLE;
    take_error(search, thread, index, error);
    return;
  }
  search->screened[index] = (guint8)screen_workload(search, index, workload, &choice, point.cluster);
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

static void collect_candidates(Search *search, PlannerResult *result) {
  gint64 *counts[] = {[SCREENED_IMPOSSIBLE] = &result->n_impossible,
                      [SCREENED_SAME] = &result->n_same,
                      [SCREENED_TOO_LARGE] = &result->n_too_large,
                      [SCREENED_LATE] = &result->n_late};
  for (gint64 i = 0; i < result->n_configurations; i++) {
    if (search->screened[i] == SCREENED_CANDIDATE) {
      Candidate candidate = {i, search->bounds[i]};
      g_array_append_val(search->candidates, candidate);
    } else {
      ++*counts[search->screened[i]];
      note_miss(result, (Screened)search->screened[i], search->bounds[i]);
    }
  }
  result->n_out_of_memory = result->n_too_large;
  g_array_sort(search->candidates, by_bound);
}

/* --- simulating --- */

static void simulate(gint64 at, int thread, gpointer data) {
  Search *search = data;
  guint candidate = search->first + (guint)at;
  gint64 index = g_array_index(search->candidates, Candidate, candidate).index;
  GError *error = NULL;
  SpacePoint point;
  if (space_reader_read(search->readers[thread], index, &point, &error))
    search->outcomes[candidate] = plan_outcome_new(point.model, point.cluster, point.plan, search->request, &error);
  if (search->outcomes[candidate] != NULL)
    search->outcomes[candidate]->index = index;
  else
    take_error(search, thread, index, error);
}

static int by_score(gconstpointer a, gconstpointer b) {
  const PlanOutcome *x = *(PlanOutcome *const *)a, *y = *(PlanOutcome *const *)b;
  if (x->score != y->score)
    return x->score < y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* What is not kept is counted when the best is known. */
typedef struct {
  double breakdown_s[N_BREAKDOWN];
} Loser;

static void drop_last(PlannerResult *result, GArray *losers) {
  const PlanOutcome *last = g_ptr_array_index(result->kept, result->kept->len - 1);
  Loser loser;
  memcpy(loser.breakdown_s, last->breakdown_s, sizeof loser.breakdown_s);
  g_array_append_val(losers, loser);
  g_ptr_array_set_size(result->kept, (int)result->kept->len - 1);
}

/* Takes the outcome. */
static void settle(const PlannerRequest *request, PlanOutcome *outcome, PlannerResult *result, GArray *losers) {
  if (outcome == NULL) {
    result->n_impossible++;
    return;
  }
  result->n_simulated++;
  gboolean late = outcome->tokens_per_s < request->least_tokens_per_s;
  if (!outcome->fits || late) {
    ++*(outcome->fits ? &result->n_late : &result->n_out_of_memory);
    note_miss(result, outcome->fits ? SCREENED_LATE : SCREENED_TOO_LARGE,
              outcome->fits ? outcome->tokens_per_s : outcome->peak_bytes - outcome->capacity_bytes);
    plan_outcome_free(outcome);
    return;
  }
  g_ptr_array_add(result->kept, outcome);
  g_ptr_array_sort(result->kept, by_score);
  if (result->kept->len > (guint)request->n_kept)
    drop_last(result, losers);
}

/* No candidate from `first` on can be kept. */
static gboolean is_settled(const Search *search, const PlannerResult *result, guint first) {
  if (result->kept->len < (guint)search->request->n_kept)
    return FALSE;
  const PlanOutcome *last = g_ptr_array_index(result->kept, result->kept->len - 1);
  return g_array_index(search->candidates, Candidate, first).bound > last->score;
}

static void simulate_candidates(Search *search, PlannerResult *result, GArray *losers) {
  guint n = search->candidates->len;
  search->outcomes = g_new0(PlanOutcome *, n + 1);
  for (search->first = 0; search->first < n && !is_settled(search, result, search->first); search->first += BATCH) {
    guint in_batch = MIN(BATCH, n - search->first);
    parallel_for(in_batch, search->request->n_threads, simulate, search);
    for (guint i = 0; i < in_batch; i++)
      settle(search->request, g_steal_pointer(&search->outcomes[search->first + i]), result, losers);
  }
  result->n_beaten_by_bound = n - MIN(search->first, n);
}

/* --- the result --- */

static void reason_clear(gpointer data) {
  g_free(((PlannerReason *)data)->text);
}

static int by_count(gconstpointer a, gconstpointer b) {
  const PlannerReason *x = a, *y = b;
  return x->n != y->n ? (x->n > y->n ? -1 : 1) : strcmp(x->text, y->text);
}

static void collect_reasons(const Search *search, PlannerResult *result) {
  for (int thread = 1; thread < search->request->n_threads; thread++) {
    GHashTableIter at;
    gpointer text, count;
    g_hash_table_iter_init(&at, search->reasons[thread]);
    while (g_hash_table_iter_next(&at, &text, &count))
      count_reason(search->reasons[0], g_strdup(text), *(gint64 *)count);
  }
  GHashTableIter at;
  gpointer text, count;
  g_hash_table_iter_init(&at, search->reasons[0]);
  while (g_hash_table_iter_next(&at, &text, &count)) {
    PlannerReason reason = {g_strdup(text), *(gint64 *)count};
    g_array_append_val(result->reasons, reason);
  }
  g_array_sort(result->reasons, by_count);
}

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
  if (result->reasons->len > 0)
    g_string_append_printf(why, "; %" INT64 " are impossible, most of them: %s", result->n_impossible,
                           g_array_index(result->reasons, PlannerReason, 0).text);
  return fail_impossible(error, "none of %" INT64 " plans can be had%s", result->n_configurations, why->str);
}

/* --- all of it --- */

/* Whether an axis has a value; one that is not given has its default. */
static gboolean has_value(const Space *space, const char *name, const char *value, gboolean is_default) {
  if (space_given(space, name) == NULL)
    return is_default;
  for (int axis = 0; axis < space_n_axes(space); axis++)
    for (int i = 0; i < space_axis_n_values(space, axis) && strcmp(space_axis_name(space, axis), name) == 0; i++)
      if (strcmp(space_axis_nth(space, axis, i), value) == 0)
        return TRUE;
  return FALSE;
}

static void search_init(Search *search, const PlannerRequest *request, gint64 n) {
  *search = (Search){.request = request};
  search->readers = g_new0(SpaceReader *, request->n_threads);
  search->reasons = g_new0(GHashTable *, request->n_threads);
  for (int thread = 0; thread < request->n_threads; thread++) {
    search->readers[thread] = space_reader_new(request->space);
    search->reasons[thread] = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
  }
  search->has_no_sequence_parallel = has_value(request->space, "sequence-parallel", "off", TRUE);
  search->has_no_recompute = has_value(request->space, "recompute", "none", TRUE);
  search->has_1f1b = has_value(request->space, "schedule", "1f1b", FALSE);
  search->has_no_zero = has_value(request->space, "zero", "0", TRUE);
  search->screened = g_new0(guint8, n);
  search->bounds = g_new0(double, n);
  search->candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  g_mutex_init(&search->lock);
}

static void search_clear(Search *search) {
  for (int thread = 0; thread < search->request->n_threads; thread++) {
    space_reader_free(search->readers[thread]);
    g_hash_table_unref(search->reasons[thread]);
  }
  g_free(search->readers);
  g_free(search->reasons);
  g_free(search->screened);
  g_free(search->bounds);
  g_free(search->outcomes);
  g_array_unref(search->candidates);
  g_clear_error(&search->problem);
  g_mutex_clear(&search->lock);
}

static gboolean run(Search *search, PlannerResult *result, GError **error) {
  g_autoptr(GArray) losers = g_array_new(FALSE, FALSE, sizeof(Loser));
  parallel_for(result->n_configurations, search->request->n_threads, screen, search);
  collect_candidates(search, result);
  if (search->problem == NULL)
    simulate_candidates(search, result, losers);
  if (search->problem != NULL) {
    g_propagate_error(error, g_steal_pointer(&search->problem));
    return FALSE;
  }
  collect_reasons(search, result);
  if (result->kept->len == 0)
    return fail_without_plan(search->request, result, error);
  count_losers(losers, result);
  return TRUE;
}

PlannerResult *planner_search(const PlannerRequest *request, GError **error) {
  gint64 n = space_count(request->space), before_us = g_get_monotonic_time();
  if (n > PLANNER_MOST_CONFIGURATIONS) {
    fail_input(error, "%" INT64 " configurations, at most %d are searched: give some options fewer values", n,
               PLANNER_MOST_CONFIGURATIONS);
    return NULL;
  }
  g_autoptr(PlannerResult) result = g_new0(PlannerResult, 1);
  result->n_configurations = n;
  result->least_excess_bytes = INFINITY;
  result->reasons = g_array_new(FALSE, FALSE, sizeof(PlannerReason));
  g_array_set_clear_func(result->reasons, reason_clear);
  result->kept = g_ptr_array_new_with_free_func((GDestroyNotify)plan_outcome_free);
  Search search;
  search_init(&search, request, n);
  gboolean ok = run(&search, result, error);
  search_clear(&search);
  result->wall_s = 1e-6 * (double)(g_get_monotonic_time() - before_us);
  return ok ? g_steal_pointer(&result) : NULL;
}

void planner_result_free(PlannerResult *result) {
  if (result == NULL)
    return;
  g_array_unref(result->reasons);
  g_ptr_array_unref(result->kept);
  g_free(result);
}
