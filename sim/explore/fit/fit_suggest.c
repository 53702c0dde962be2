/* Plans are candidates; with slopes s of ln(predicted) over the unknowns, a run of one with noise ν turns the
 * unknowns' covariance C into C − C s sᵀ C / (ν² + sᵀ C s). What is known of a plan k is then s_kᵀ C s_k. The next run
 * is the one that takes most of the sum of these over all candidates (I-optimal, one by one). */
#include "fit_suggest.h"

#include <math.h>
#include <string.h>

#include "parallel.h"
#include "predict.h"

static const double theta_step = 0.2;
enum { MOST_CANDIDATES = 200, MOST_TP = 16, MOST_PP = 8, MOST_MICRO_BATCH = 4 };

typedef struct {
  Suggestion run;
  Plan *plan;
  gboolean is_possible;
  double *slopes; /* [unknowns_count()] */
} Candidate;

static void candidate_clear(gpointer data) {
  Candidate *candidate = data;
  g_clear_pointer(&candidate->plan, plan_free);
  g_free(candidate->slopes);
}

static void add_candidate(GArray *candidates, const MeasuredRow *like, int gpus, int tp, int pp, gint64 micro_batch) {
  const gint64 shards = (gint64)tp * pp * like->plan->cp;
  if (candidates->len >= MOST_CANDIDATES || gpus % shards != 0 || like->model->n_layers % pp != 0)
    return;
  Candidate candidate = {.run = {.like = like, .gpus = gpus, .tp = tp, .pp = pp, .micro_batch = micro_batch},
                         .plan = plan_copy(like->plan),
                         .slopes = g_new0(double, unknowns_count())};
  candidate.plan->gpus = gpus;
  candidate.plan->tp = tp;
  candidate.plan->pp = pp;
  candidate.plan->dp = 0;
  candidate.plan->chunks = pp > 1 ? candidate.plan->chunks : 1;
  candidate.plan->micro_batch = micro_batch;
  g_array_append_val(candidates, candidate);
}

/* The run on the most GPUs. */
static const FittedRun *largest_run(const Fit *fit) {
  const FittedRun *largest = &g_array_index(fit->runs, FittedRun, 0);
  for (guint i = 1; i < fit->runs->len; i++) {
    const FittedRun *run = &g_array_index(fit->runs, FittedRun, i);
    largest = run->gpus > largest->gpus ? run : largest;
  }
  return largest;
}

/* On one domain, and from there to as many GPUs as there were, doubling. */
static GArray *make_candidates(const Fit *fit) {
  GArray *candidates = g_array_new(FALSE, FALSE, sizeof(Candidate));
  g_array_set_clear_func(candidates, candidate_clear);
  const int most = largest_run(fit)->gpus;
  const MeasuredRow *like = largest_run(fit)->row;
  for (int gpus = MIN(fit->base->gpus_per_node, most); gpus <= most; gpus *= 2)
    for (int tp = 1; tp <= MIN(fit->base->domain_gpus, MIN(MOST_TP, gpus)); tp *= 2)
      for (int pp = 1; pp <= MIN(MOST_PP, gpus / tp); pp *= 2)
        for (gint64 micro_batch = 1; micro_batch <= MOST_MICRO_BATCH; micro_batch *= 4)
          add_candidate(candidates, like, gpus, tp, pp, micro_batch);
  return candidates;
}

typedef struct {
  const Fit *fit;
  GArray *candidates;
  Predictor **predictors;
} Suggesting;

static void find_slopes(gint64 index, int thread, gpointer data) {
  const Suggesting *suggesting = data;
  const Cluster *cluster = suggesting->fit->cluster;
  Predictor *predictor = suggesting->predictors[thread];
  Candidate *candidate = &g_array_index(suggesting->candidates, Candidate, index);
  const Model *model = candidate->run.like->model;
  StepPrediction step, beside;
  if (!predict_step(predictor, model, cluster, candidate->plan, &step, NULL) || !step.fits)
    return;
  candidate->run.predicted_s = step.step_time_s;
  candidate->is_possible = TRUE;
  for (int i = 0; i < unknowns_count(); i++) {
    if (!unknown_applies(cluster, i) || (unknown_at(i)->of_network && step.gpus <= cluster->domain_gpus))
      continue;
    Cluster moved = *cluster;
    unknown_set(&moved, i, unknown_median(cluster, i) * exp(unknown_at(i)->spread * theta_step));
    if (predict_step(predictor, model, &moved, candidate->plan, &beside, NULL))
      candidate->slopes[i] = log(beside.step_time_s / step.step_time_s) / theta_step;
  }
}

/* C s */
static void times(const double *covariance, const double *slopes, double *product) {
  const int n = unknowns_count();
  for (int i = 0; i < n; i++) {
    product[i] = 0;
    for (int k = 0; k < n; k++)
      product[i] += covariance[i * n + k] * slopes[k];
  }
}

static double dot(const double *a, const double *b) {
  double sum = 0;
  for (int i = 0; i < unknowns_count(); i++)
    sum += a[i] * b[i];
  return sum;
}

/* Of all that are possible: the mean of s_kᵀ C s_k. */
static double mean_variance(const GArray *candidates, const double *covariance) {
  g_autofree double *product = g_new(double, unknowns_count());
  double sum = 0;
  int n = 0;
  for (guint k = 0; k < candidates->len; k++) {
    const Candidate *candidate = &g_array_index(candidates, Candidate, k);
    if (!candidate->is_possible)
      continue;
    times(covariance, candidate->slopes, product);
    sum += dot(candidate->slopes, product);
    n++;
  }
  return n > 0 ? sum / n : 0;
}

static void learn(double *covariance, const double *slopes, double noise) {
  const int n = unknowns_count();
  g_autofree double *product = g_new(double, n);
  times(covariance, slopes, product);
  const double variance = noise * noise + dot(slopes, product);
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      covariance[i * n + k] -= product[i] * product[k] / variance;
}

static int most_narrowed(const double *before, const double *after) {
  const int n = unknowns_count();
  int most = 0;
  double least = INFINITY;
  for (int i = 0; i < n; i++) {
    const double left = after[i * n + i] / before[i * n + i];
    if (left < least) {
      least = left;
      most = i;
    }
  }
  return most;
}

/* FALSE: none is possible. */
static gboolean take_best(const Fit *fit, GArray *candidates, double *covariance, Suggestion *best) {
  const gsize size = (gsize)unknowns_count() * (gsize)unknowns_count() * sizeof *covariance;
  g_autofree double *before = g_memdup2(covariance, size), *after = g_memdup2(covariance, size);
  const Candidate *chosen = NULL;
  double least = INFINITY;
  for (guint k = 0; k < candidates->len; k++) {
    const Candidate *candidate = &g_array_index(candidates, Candidate, k);
    if (!candidate->is_possible)
      continue;
    memcpy(after, before, size);
    learn(after, candidate->slopes, fit->noise);
    const double left = mean_variance(candidates, after);
    if (left < least) {
      least = left;
      chosen = candidate;
      memcpy(covariance, after, size);
    }
  }
  if (chosen == NULL)
    return FALSE;
  *best = chosen->run;
  const double noise2 = fit->noise * fit->noise;
  best->spread_before = likely_80 * sqrt(mean_variance(candidates, before) + noise2);
  best->spread_after = likely_80 * sqrt(least + noise2);
  best->tells = most_narrowed(before, covariance);
  return TRUE;
}

GArray *fit_suggest(const Fit *fit, int n, int n_threads) {
  GArray *suggestions = g_array_new(FALSE, FALSE, sizeof(Suggestion));
  g_autoptr(GArray) candidates = make_candidates(fit);
  g_autofree Predictor **predictors = g_new(Predictor *, n_threads);
  for (int i = 0; i < n_threads; i++)
    predictors[i] = predictor_new();
  Suggesting suggesting = {fit, candidates, predictors};
  parallel_for(candidates->len, n_threads, find_slopes, &suggesting, NULL);
  for (int i = 0; i < n_threads; i++)
    predictor_free(predictors[i]);
  g_autofree double *covariance =
      g_memdup2(fit->covariance, (gsize)unknowns_count() * (gsize)unknowns_count() * sizeof *covariance);
  Suggestion best;
  while ((int)suggestions->len < n && take_best(fit, candidates, covariance, &best))
    g_array_append_val(suggestions, best);
  return suggestions;
}
