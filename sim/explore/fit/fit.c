/* θ, with an entry for each unknown that is looked for, is in units of the priors' spreads: value = median · e^(spread
 * · θ), so that a prior is a residual θ of its own. */
#include "fit.h"

#include <gsl/gsl_blas.h>
#include <gsl/gsl_errno.h>
#include <gsl/gsl_linalg.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <math.h>
#include <string.h>

#include "error.h"
#include "parallel.h"
#include "predict.h"
#include "sort_doubles.h"

/* With few runs none of them is taken to be odd: there is no rest that it would not fit. */
static const double cauchy_c = 2, cauchy_c_of_few = 20;
enum { FEW_RUNS = 5, LEAST_RUNS = 4, MOST_FOLDS = 40 };
/* Runs of one machine that are predicted well differ by a few percent from day to day. */
static const double prior_noise = 0.06, prior_noise_weight = 6, first_noise = 0.1;
static const double least_step_s = 1e-6;
static const double theta_step = 0.05, near_enough = 0.3, most_step = 1.5, arrived = 0.03;
static const double least_narrowed = 0.1; /* below, the runs are taken to say nothing */
static const double least_moved = 0.5;    /* spreads */
static const double least_error = 0.04;
static const double odd_deviation = 4; /* in units of the noise */
static const double told_apart = 0.9;  /* correlation from which two are not */
static const double much_left = 0.5;   /* cost per run, with the first noise */
enum { MOST_ITERATIONS = 100, MOST_ROUNDS = 8, MOST_HALVINGS = 3, NOISE_ROUNDS = 3 };

typedef struct {
  const Cluster *base;
  const MeasuredRow **rows; /* [n] */
  double *ln_measured;      /* [n] */
  int *gpus;                /* [n] */
  int *fold_of;             /* [n]: runs of one fold are left out together; the same run measured again is in one */
  int n, n_threads;
  int n_known;             /* unknowns of which the runs say something */
  int n_distinct, n_folds; /* runs that differ */
  int left_out;            /* a fold; −1: none */
  const FitPrior *priors;  /* [unknowns_count()] */
  int *active;             /* [p] indices of unknowns */
  int p;
  Predictor **predictors; /* [n_threads]; what was remembered is the same for all copies of the cluster */
  double noise;
  GArray *pairs;       /* of UnknownPair; the Fit's */
  gboolean *has_slope; /* [unknowns_count()], as the next two: where slopes were found */
  double *slopes_at;   /* θ */
  double *slopes;      /* [unknowns_count()][n] */
} Problem;

/* --- predictions --- */

/* The base with the values of θ. */
static Cluster cluster_at(const Problem *problem, const double *theta) {
  Cluster copy = *problem->base;
  for (int j = 0; j < problem->p; j++) {
    const int i = problem->active[j];
    unknown_set(&copy, i, problem->priors[i].median * exp(problem->priors[i].spread * theta[j]));
  }
  return copy;
}

typedef struct {
  const Problem *problem;
  const Cluster *cluster;
  double *ln_s; /* [n]; unset for those left out */
} Predicting;

static double ln_predicted(Predictor *predictor, const MeasuredRow *row, const Cluster *cluster) {
  StepPrediction step;
  return predict_step(predictor, row->model, cluster, row->plan, &step, NULL) ? log(step.step_time_s) : NAN;
}

static void predict_one(gint64 i, int thread, gpointer data) {
  const Predicting *predicting = data;
  const Problem *problem = predicting->problem;
  if (problem->fold_of[i] != problem->left_out)
    predicting->ln_s[i] = ln_predicted(problem->predictors[thread], problem->rows[i], predicting->cluster);
}

static void predict_all(const Problem *problem, const Cluster *cluster, double *ln_s) {
  Predicting predicting = {problem, cluster, ln_s};
  parallel_for(problem->n, problem->n_threads, predict_one, &predicting, NULL);
}

static void predict_at(const Problem *problem, const double *theta, double *ln_s) {
  const Cluster cluster = cluster_at(problem, theta);
  predict_all(problem, &cluster, ln_s);
}

/* --- residuals --- */

static double cauchy(double x, double c) {
  const double y = x / c;
  return copysign(c * sqrt(log1p(y * y)), x);
}

static double cauchy_slope(double x, double c) {
  const double y = x / c;
  return fabs(y) < 1e-4 ? 1 : fabs(y) / ((1 + y * y) * sqrt(log1p(y * y)));
}

static double c_of_runs(const Problem *problem) {
  return problem->n_distinct < FEW_RUNS ? cauchy_c_of_few : cauchy_c;
}

/* Of a run that is off by x times the noise; 0 while it is left out. */
static double residual_of(const Problem *problem, int i, double x) {
  return problem->fold_of[i] == problem->left_out ? 0 : cauchy(x, c_of_runs(problem));
}

static double slope_weight(const Problem *problem, int i, double x) {
  return problem->fold_of[i] == problem->left_out ? 0 : cauchy_slope(x, c_of_runs(problem));
}

/* A row per unknown, also of those that are not looked for: how ln(predicted) grows with θ. Predictions are nearly
 * log-linear in θ, so slopes found nearby serve as well. */
static gboolean has_slopes_near(const Problem *problem, const double *theta) {
  for (int j = 0; j < problem->p; j++) {
    const int i = problem->active[j];
    if (!problem->has_slope[i] || fabs(theta[j] - problem->slopes_at[i]) > near_enough)
      return FALSE;
  }
  return TRUE;
}

typedef struct {
  Problem *problem;
  const double *theta, *at; /* [p], [n] */
  Cluster *beside;          /* [p] */
} Sloping;

/* The network is of no use to a run inside a domain. */
static gboolean can_matter(const Problem *problem, int row, int unknown) {
  return !unknown_at(unknown)->of_network || problem->gpus[row] > problem->base->domain_gpus;
}

static void find_slope(gint64 index, int thread, gpointer data) {
  const Sloping *sloping = data;
  const Problem *problem = sloping->problem;
  const int row = (int)(index / problem->p), j = (int)(index % problem->p), i = problem->active[j];
  double *slope = &problem->slopes[(gsize)i * (gsize)problem->n + (gsize)row];
  *slope =
      can_matter(problem, row, i)
          ? (ln_predicted(problem->predictors[thread], problem->rows[row], &sloping->beside[j]) - sloping->at[row]) /
                theta_step
          : 0;
}

static void find_slopes(Problem *problem, const double *theta, const double *at) {
  g_autofree double *moved = g_memdup2(theta, (gsize)problem->p * sizeof *moved);
  g_autofree Cluster *beside = g_new(Cluster, problem->p);
  for (int j = 0; j < problem->p; j++) {
    moved[j] += theta_step;
    beside[j] = cluster_at(problem, moved);
    moved[j] -= theta_step;
    problem->slopes_at[problem->active[j]] = theta[j];
    problem->has_slope[problem->active[j]] = TRUE;
  }
  Sloping sloping = {problem, theta, at, beside};
  parallel_for((gint64)problem->n * problem->p, problem->n_threads, find_slope, &sloping, NULL);
}

/* --- solving --- */

typedef struct {
  double *theta;    /* [p] */
  double *ln_s;     /* [n] predicted there */
  gsl_matrix *J;    /* [n + p][p] there: of residuals and priors */
  gsl_matrix *left; /* [p][p] covariance of θ */
  double cost;
} Solution;

static void solution_clear(Solution *solution) {
  g_free(solution->theta);
  g_free(solution->ln_s);
  gsl_matrix_free(solution->J);
  gsl_matrix_free(solution->left);
  *solution = (Solution){0};
}

/* Predictions as they grow from a point: costs nothing to solve. */
typedef struct {
  const Problem *problem;
  const double *theta, *ln_s; /* there */
} Tangent;

static const double *slope_of(const Problem *problem, int j) {
  return &problem->slopes[(gsize)problem->active[j] * (gsize)problem->n];
}

static double tangent_off(const Tangent *tangent, const gsl_vector *theta, int i) {
  const Problem *problem = tangent->problem;
  double ln_s = tangent->ln_s[i];
  for (int j = 0; j < problem->p; j++)
    ln_s += slope_of(problem, j)[i] * (gsl_vector_get(theta, (gsize)j) - tangent->theta[j]);
  return (ln_s - problem->ln_measured[i]) / problem->noise;
}

static int residuals(const gsl_vector *theta, void *data, gsl_vector *f) {
  const Tangent *tangent = data;
  const int n = tangent->problem->n;
  for (int i = 0; i < n; i++)
    gsl_vector_set(f, (gsize)i, residual_of(tangent->problem, i, tangent_off(tangent, theta, i)));
  for (int j = 0; j < tangent->problem->p; j++)
    gsl_vector_set(f, (gsize)(n + j), cauchy(gsl_vector_get(theta, (gsize)j), cauchy_c));
  return GSL_SUCCESS;
}

static int jacobian(const gsl_vector *theta, void *data, gsl_matrix *J) {
  const Tangent *tangent = data;
  const Problem *problem = tangent->problem;
  gsl_matrix_set_zero(J);
  for (int i = 0; i < problem->n; i++) {
    const double weight = slope_weight(problem, i, tangent_off(tangent, theta, i)) / problem->noise;
    for (int j = 0; j < problem->p; j++)
      gsl_matrix_set(J, (gsize)i, (gsize)j, weight * slope_of(problem, j)[i]);
  }
  for (int j = 0; j < problem->p; j++)
    gsl_matrix_set(J, (gsize)(problem->n + j), (gsize)j, cauchy_slope(gsl_vector_get(theta, (gsize)j), cauchy_c));
  return GSL_SUCCESS;
}

/* The least of the tangent's cost, no unknown further than `most_step` from where it touches. */
static void solve_tangent(Tangent *tangent, double *theta) {
  const gsize n = (gsize)(tangent->problem->n + tangent->problem->p), p = (gsize)tangent->problem->p;
  gsl_multifit_nlinear_parameters parameters = gsl_multifit_nlinear_default_parameters();
  gsl_multifit_nlinear_workspace *work = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &parameters, n, p);
  gsl_multifit_nlinear_fdf fdf = {.f = residuals, .df = jacobian, .n = n, .p = p, .params = tangent};
  gsl_vector_const_view from = gsl_vector_const_view_array(tangent->theta, p);
  int reason;
  gsl_multifit_nlinear_init(&from.vector, &fdf, work);
  gsl_multifit_nlinear_driver(MOST_ITERATIONS, 1e-6, 1e-6, 1e-9, NULL, NULL, &reason, work);
  for (gsize j = 0; j < p; j++)
    theta[j] = tangent->theta[j] + CLAMP(gsl_vector_get(work->x, j) - tangent->theta[j], -most_step, most_step);
  gsl_multifit_nlinear_free(work);
}

static double cost_of(const Problem *problem, const double *theta, const double *ln_s) {
  double cost = 0;
  for (int i = 0; i < problem->n; i++) {
    const double x = residual_of(problem, i, (ln_s[i] - problem->ln_measured[i]) / problem->noise);
    cost += x * x;
  }
  for (int j = 0; j < problem->p; j++) {
    const double x = cauchy(theta[j], cauchy_c);
    cost += x * x;
  }
  return cost;
}

static double furthest(const double *a, const double *b, int p) {
  double most = 0;
  for (int j = 0; j < p; j++)
    most = MAX(most, fabs(a[j] - b[j]));
  return most;
}

/* Moves towards `theta` as far as that is better than `ln_s` at `from`, halving what is not. FALSE: nothing is. */
static gboolean move(const Problem *problem, double *theta, double *ln_s, const double *from) {
  g_autofree double *moved_ln_s = g_new(double, problem->n);
  const double cost = cost_of(problem, from, ln_s);
  for (int halving = 0; halving < MOST_HALVINGS; halving++) {
    predict_at(problem, theta, moved_ln_s);
    if (cost_of(problem, theta, moved_ln_s) < cost) {
      memcpy(ln_s, moved_ln_s, (gsize)problem->n * sizeof *ln_s);
      return TRUE;
    }
    for (int j = 0; j < problem->p; j++)
      theta[j] = (theta[j] + from[j]) / 2;
  }
  return FALSE;
}

static void finish(Problem *problem, Solution *solution) {
  const gsize p = (gsize)problem->p;
  const Tangent tangent = {problem, solution->theta, solution->ln_s};
  const gsl_vector_const_view theta = gsl_vector_const_view_array(solution->theta, p);
  solution->J = gsl_matrix_alloc((gsize)problem->n + p, p);
  solution->left = gsl_matrix_alloc(p, p);
  jacobian(&theta.vector, (void *)&tangent, solution->J);
  gsl_multifit_nlinear_covar(solution->J, 0, solution->left);
  solution->cost = cost_of(problem, solution->theta, solution->ln_s);
}

static Solution solve_from(Problem *problem, const double *start) {
  const gsize p = (gsize)problem->p * sizeof *start;
  Solution solution = {.theta = g_memdup2(start, p), .ln_s = g_new(double, problem->n)};
  g_autofree double *theta = g_new(double, problem->p);
  predict_at(problem, start, solution.ln_s);
  for (int round = 0; round < MOST_ROUNDS; round++) {
    if (!has_slopes_near(problem, solution.theta))
      find_slopes(problem, solution.theta, solution.ln_s);
    Tangent tangent = {problem, solution.theta, solution.ln_s};
    solve_tangent(&tangent, theta);
    if (furthest(theta, solution.theta, problem->p) < arrived || !move(problem, theta, solution.ln_s, solution.theta))
      break;
    memcpy(solution.theta, theta, p);
  }
  if (!has_slopes_near(problem, solution.theta))
    find_slopes(problem, solution.theta, solution.ln_s);
  finish(problem, &solution);
  return solution;
}

static void take_better(Solution *best, Solution other) {
  if (best->theta == NULL || other.cost < best->cost) {
    solution_clear(best);
    *best = other;
  } else {
    solution_clear(&other);
  }
}

/* Where the file's machine is far from the user's, as a rule its network or its hosts are. What is hidden behind
 * kernels on the one may decide all on the other, and no slope leads from here to there: other machines are looked at,
 * and the best of them are starts, too. */
static const struct {
  const char *key;
  double thetas[4];
} elsewhere[] = {{"node.nic.efficiency", {0, -1.2, -2.5, -4}},
                 {"node.nic.step", {0, 2.5}},
                 {"as_run.host_time", {0, 1}},
                 {"as_run.collective_host", {0, 4}},
                 {"as_run.collective_host_beside_sends", {0, 4}}};
enum { N_STARTS = 4, MOST_PLACES = 4 * 2 * 2 * 2 * 2 };

/* Fills in the k-th combination. FALSE: it is that of another k, as some of the unknowns are not looked for. */
static gboolean fill_place(const Problem *problem, int k, double *theta) {
  gboolean is_own = TRUE;
  for (int j = 0; j < problem->p; j++)
    theta[j] = 0;
  for (guint i = 0; i < G_N_ELEMENTS(elsewhere); i++) {
    const int n = i == 0 ? 4 : 2, choice = k % n;
    int at = -1;
    for (int j = 0; j < problem->p; j++)
      if (strcmp(elsewhere[i].key, unknown_at(problem->active[j])->key) == 0)
        at = j;
    if (at >= 0)
      theta[at] = elsewhere[i].thetas[choice];
    is_own &= at >= 0 || choice == 0;
    k /= n;
  }
  return is_own;
}

typedef struct {
  double cost;
  int place;
} Place;

static int compare_places(gconstpointer a, gconstpointer b) {
  const Place *x = a, *y = b;
  return x->cost != y->cost ? (x->cost > y->cost) - (x->cost < y->cost) : x->place - y->place;
}

/* The places but the first, the best first. */
static int look_around(const Problem *problem, Place *places) {
  g_autofree double *theta = g_new(double, problem->p), *ln_s = g_new(double, problem->n);
  int n = 0;
  for (int k = 1; k < MOST_PLACES; k++) {
    if (!fill_place(problem, k, theta))
      continue;
    predict_at(problem, theta, ln_s);
    places[n++] = (Place){cost_of(problem, theta, ln_s), k};
  }
  qsort(places, (gsize)n, sizeof *places, compare_places);
  return n;
}

static double median_of(double *values, int n) {
  sort_doubles(values, (guint)n);
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Where all runs are off by the same factor: GPUs at another rate. */
static void start_at_rate(const Problem *problem, const double *ln_s, double *theta) {
  g_autofree double *off = g_new(double, problem->n);
  for (int i = 0; i < problem->n; i++)
    off[i] = ln_s[i] - problem->ln_measured[i];
  for (int j = 0; j < problem->p; j++)
    if (problem->active[j] == UNKNOWN_RATE)
      theta[j] += median_of(off, problem->n) / problem->priors[UNKNOWN_RATE].spread;
}

/* From `start`; from there at another rate; and from other machines, where that leaves much. */
static Solution solve(Problem *problem, const double *start) {
  g_autofree double *theta = g_memdup2(start, (gsize)problem->p * sizeof *start), *ln_s = g_new(double, problem->n);
  Place places[MOST_PLACES];
  Solution best = solve_from(problem, start);
  predict_at(problem, start, ln_s);
  start_at_rate(problem, ln_s, theta);
  take_better(&best, solve_from(problem, theta));
  const int n = best.cost > much_left * problem->n ? look_around(problem, places) : 0;
  for (int i = 0; i < MIN(n, N_STARTS - 1); i++) {
    fill_place(problem, places[i].place, theta);
    take_better(&best, solve_from(problem, theta));
  }
  return best;
}

/* From the median of what is left, which few odd runs do not move; what the unknowns took up is given back. One run or
 * two say nothing of it. */
static double estimate_noise(const Problem *problem, const Solution *solution) {
  const int n = problem->n;
  g_autofree double *off = g_new(double, n);
  double n_taken = 0;
  for (int i = 0; i < n; i++)
    off[i] = fabs(solution->ln_s[i] - problem->ln_measured[i]);
  for (int j = 0; j < problem->p; j++)
    n_taken += 1 - MIN(gsl_matrix_get(solution->left, (gsize)j, (gsize)j), 1);
  const double seen = 1.4826 * median_of(off, n), given_back = n / MAX(n - n_taken, n / 4.0), weight = MAX(n - 2, 0);
  return sqrt((weight * seen * seen * given_back + prior_noise_weight * prior_noise * prior_noise) /
              (weight + prior_noise_weight));
}

static Solution settle_noise(Problem *problem, Solution solution) {
  for (int round = 0; round < NOISE_ROUNDS; round++) {
    problem->noise = estimate_noise(problem, &solution);
    Solution next = solve_from(problem, solution.theta);
    solution_clear(&solution);
    solution = next;
  }
  return solution;
}

/* What looks alike with much noise may not with the noise that is left. */
static Solution solve_with_noise(Problem *problem) {
  g_autofree double *start = g_new0(double, problem->p);
  problem->noise = first_noise;
  Solution rough = settle_noise(problem, solve(problem, start)), fine = solve(problem, rough.theta);
  solution_clear(&rough);
  return settle_noise(problem, fine);
}

/* At the last solution, with all that was looked for at first: what the runs say little of is not known for certain,
 * which the ranges of the others should show. Its slopes are from nearby. */
static void widen(Problem *problem, Solution *solution, int *all, int n_all) {
  int *const active = problem->active;
  const int p = problem->p;
  g_autofree double *theta = g_new0(double, n_all);
  for (int j = 0; j < p; j++)
    for (int k = 0; k < n_all; k++)
      if (all[k] == active[j])
        theta[k] = solution->theta[j];
  problem->active = all;
  problem->p = n_all;
  Solution wide = {.theta = theta, .ln_s = solution->ln_s};
  finish(problem, &wide);
  problem->active = active;
  problem->p = p;
  for (int j = 0; j < p; j++)
    for (int k = 0; k < p; k++) {
      int at_j = 0, at_k = 0;
      for (int i = 0; i < n_all; i++) {
        at_j = all[i] == active[j] ? i : at_j;
        at_k = all[i] == active[k] ? i : at_k;
      }
      gsl_matrix_set(solution->left, (gsize)j, (gsize)k, gsl_matrix_get(wide.left, (gsize)at_j, (gsize)at_k));
    }
  gsl_matrix_free(wide.J);
  gsl_matrix_free(wide.left);
}

static double narrowed(const Solution *solution, int j) {
  return 1 - sqrt(MIN(gsl_matrix_get(solution->left, (gsize)j, (gsize)j), 1));
}

/* While all are looked for: of two that are one to the runs, one may be dropped later. */
static void note_pairs(const Problem *problem, const Solution *solution) {
  for (int j = 0; j < problem->p; j++)
    for (int k = 0; k < j; k++) {
      const double jj = gsl_matrix_get(solution->left, (gsize)j, (gsize)j);
      const double kk = gsl_matrix_get(solution->left, (gsize)k, (gsize)k);
      const double r = gsl_matrix_get(solution->left, (gsize)j, (gsize)k) / sqrt(jj * kk);
      const UnknownPair pair = {problem->active[k], problem->active[j], r};
      if (fabs(r) >= told_apart)
        g_array_append_val(problem->pairs, pair);
    }
}

static gboolean tells_of(const Problem *problem, const Solution *solution, int j) {
  return narrowed(solution, j) >= least_narrowed || problem->priors[problem->active[j]].source != NULL;
}

static gboolean is_any_told(const Problem *problem, const Solution *solution) {
  gboolean is_told = FALSE;
  for (int j = 0; j < problem->p; j++)
    is_told |= tells_of(problem, solution, j);
  return is_told;
}

/* Solves for the unknowns of which the runs say something; if they say too little to tell which is the reason, for the
 * likeliest alone. */
static Solution solve_for_known(Problem *problem) {
  Solution solution = solve_with_noise(problem);
  note_pairs(problem, &solution);
  const int n_all = problem->p;
  g_autofree int *all = g_memdup2(problem->active, (gsize)n_all * sizeof *all);
  g_autofree double *start = g_new(double, problem->p);
  int n_left = 0, furthest_j = 0;
  for (int j = 0; j < n_all; j++)
    if (fabs(solution.theta[j]) > fabs(solution.theta[furthest_j]))
      furthest_j = j;
  const gboolean is_told = is_any_told(problem, &solution);
  for (int j = 0; j < n_all; j++)
    if (is_told ? tells_of(problem, &solution, j) : j == furthest_j && fabs(solution.theta[j]) > least_moved) {
      start[n_left] = solution.theta[j];
      problem->active[n_left++] = problem->active[j];
    }
  problem->n_known = n_left;
  if (n_left == problem->p || n_left == 0)
    return solution;
  problem->p = n_left;
  solution_clear(&solution);
  solution = settle_noise(problem, solve_from(problem, start));
  widen(problem, &solution, all, n_all);
  return solution;
}

/* --- each run from the others --- */

/* Every run as the others predict it, from where all of them lead: only which unknowns are looked for, and the noise,
 * are as with all. */
static void predict_without(Problem *problem, const Solution *solution, double *ln_s) {
  for (int fold = 0; fold < problem->n_folds; fold++) {
    problem->left_out = fold;
    Solution others = solve_from(problem, solution->theta);
    problem->left_out = -1;
    const Cluster cluster = cluster_at(problem, others.theta);
    for (int i = 0; i < problem->n; i++)
      if (problem->fold_of[i] == fold)
        ln_s[i] = ln_predicted(problem->predictors[0], problem->rows[i], &cluster);
    solution_clear(&others);
  }
}

/* The least bound that holds for a new run with 80 %, were it like these (split conformal), but no less than such runs
 * differ by from day to day. */
static double conformal_error(const Problem *problem, const GArray *runs) {
  const int n = (int)runs->len, at = (int)ceil(0.8 * (n + 1));
  g_autofree double *off = g_new(double, n);
  for (int i = 0; i < n; i++) {
    const FittedRun *run = &g_array_index(runs, FittedRun, i);
    off[i] = fabs(log(run->without_s / run->row->step_time_s));
  }
  sort_doubles(off, (guint)n);
  return at <= n && problem->n_distinct >= LEAST_RUNS ? MAX(off[at - 1], least_error) : INFINITY;
}

/* --- the result --- */

static double rounded(int i, double value) {
  g_autofree char *text = unknown_text(i, value);
  double read = value;
  if (unknown_at(i)->unit < 0)
    return g_ascii_strtod(text, NULL);
  return units_parse(text, (UnitKind)unknown_at(i)->unit, &read, NULL) ? read : value;
}

static void fill_unknowns(const Problem *problem, const Solution *solution, Fit *fit) {
  const int n = unknowns_count();
  fit->unknowns = g_new(FoundUnknown, n);
  fit->covariance = g_new0(double, n *n);
  for (int i = 0; i < n; i++) {
    const FitPrior *prior = &problem->priors[i];
    const double value = unknown_applies(fit->base, i) ? unknown_value(fit->base, i) : NAN;
    fit->unknowns[i] = (FoundUnknown){value, unknown_within(i, prior->median * exp(-likely_80 * prior->spread)),
                                      unknown_within(i, prior->median * exp(likely_80 * prior->spread))};
    fit->covariance[i * n + i] = 1;
  }
  for (int j = 0; j < problem->p; j++) {
    const int i = problem->active[j];
    FoundUnknown *found = &fit->unknowns[i];
    const double spread = problem->priors[i].spread,
                 value = problem->priors[i].median * exp(spread * solution->theta[j]);
    const double left = likely_80 * spread * (1 - narrowed(solution, j));
    found->narrowed = narrowed(solution, j);
    found->is_found = problem->n_known > 0;
    found->low = unknown_within(i, value * exp(-left));
    found->high = unknown_within(i, value * exp(left));
    if (found->is_found)
      found->value = unknown_set(fit->cluster, i, rounded(i, value));
    for (int k = 0; k < problem->p; k++)
      fit->covariance[i * n + problem->active[k]] = gsl_matrix_get(solution->left, (gsize)j, (gsize)k);
  }
}

static void fill_runs(Problem *problem, const Solution *solution, const double *before, Fit *fit) {
  g_autofree double *after = g_new(double, problem->n),
                    *without = g_memdup2(before, (gsize)problem->n * sizeof *without);
  predict_all(problem, fit->cluster, after);
  if (problem->n_distinct > 1)
    predict_without(problem, solution, without);
  for (int i = 0; i < problem->n; i++) {
    const FittedRun run = {
        .row = problem->rows[i],
        .gpus = problem->gpus[i],
        .before_s = exp(before[i]),
        .predicted_s = exp(after[i]),
        .without_s = exp(without[i]),
        .is_odd = problem->n_distinct >= FEW_RUNS &&
                  fabs(after[i] - problem->ln_measured[i]) > odd_deviation * problem->noise,
    };
    g_array_append_val(fit->runs, run);
  }
}

/* What the GPUs held beyond what is predicted without as_run.memory. */
static double memory_beyond(const MeasuredRow *row, const Cluster *base) {
  StepPrediction step;
  if (row->problem != NULL || isnan(row->memory_bytes) || !predict_step(NULL, row->model, base, row->plan, &step, NULL))
    return NAN;
  const double own = row->memory_of == SHOWN_DEVICE ? base->as_run.memory_bytes : 0;
  return row->memory_bytes - step.shown_bytes[row->memory_of] + own;
}

static gboolean fill_memory(const MeasuredRows *rows, Fit *fit, GError **error) {
  g_autoptr(GArray) beyond = g_array_new(FALSE, FALSE, sizeof(double));
  for (guint i = 0; i < rows->rows->len; i++) {
    const double bytes = memory_beyond(&g_array_index(rows->rows, MeasuredRow, i), fit->base);
    if (!isnan(bytes))
      g_array_append_val(beyond, bytes);
  }
  fit->n_memory = (int)beyond->len;
  fit->memory_bytes = beyond->len > 0 ? median_of((double *)(void *)beyond->data, fit->n_memory) : NAN;
  if (fit->n_memory == 0 || fit->memory_bytes < gpu_room_bytes(&fit->base->gpu))
    return TRUE;
  return fail_input(
      error,
      "memory_gb: found %.4g GB more than predicted in the median, expected GB = 1e9 bytes of a GPU that has %.4g",
      fit->memory_bytes / 1e9, fit->base->gpu.hbm_bytes / 1e9);
}

/* --- the rows --- */

static void leave_out(Fit *fit, const MeasuredRow *row, const char *why) {
  g_autofree char *place = measured_row_place(row);
  g_ptr_array_add(fit->unused, g_strdup_printf("%s: %s", place, why));
}

/* A time in another unit is off by its factor from a run like it, which the others say. */
static const struct {
  double factor;
  const char *unit;
} units[] = {{1e3, "milliseconds"}, {1e6, "microseconds"}, {1.0 / 60, "minutes"}, {1.0 / 3600, "hours"}};

const char *fit_unit_of(double ratio) {
  for (guint i = 0; i < G_N_ELEMENTS(units); i++)
    if (fabs(log(ratio / units[i].factor)) < 0.7)
      return units[i].unit;
  return NULL;
}

/* Whether step times are in seconds: predictions are off by less than a factor of 60 as they come. */
static gboolean check_units(const Problem *problem, const double *before, GError **error) {
  g_autofree double *ratios = g_new(double, problem->n);
  for (int i = 0; i < problem->n; i++)
    ratios[i] = exp(problem->ln_measured[i] - before[i]);
  const double middle = median_of(ratios, problem->n);
  const char *unit = fit_unit_of(middle);
  if (unit == NULL)
    return TRUE;
  return fail_input(error, "%s: step_time_s: found times %.3g times those predicted, as if in %s, expected seconds",
                    problem->rows[0]->table->file, middle, unit);
}

static void problem_clear(Problem *problem) {
  g_free(problem->rows);
  g_free(problem->ln_measured);
  g_free(problem->gpus);
  g_free(problem->fold_of);
  g_free(problem->active);
  g_free(problem->has_slope);
  g_free(problem->slopes_at);
  g_free(problem->slopes);
  for (int i = 0; i < problem->n_threads && problem->predictors != NULL; i++)
    predictor_free(problem->predictors[i]);
  g_free(problem->predictors);
}

/* The same run, measured again, is one that differs from the others. */
static void take_folds(Problem *problem) {
  g_autoptr(GHashTable) known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL); /* to index + 1 */
  problem->fold_of = g_new(int, problem->n);
  for (int i = 0; i < problem->n; i++) {
    char *run = measured_row_run(problem->rows[i]);
    int index = GPOINTER_TO_INT(g_hash_table_lookup(known, run)) - 1;
    if (index < 0)
      index = problem->n_distinct++;
    g_hash_table_replace(known, run, GINT_TO_POINTER(index + 1));
    problem->fold_of[i] = index % MOST_FOLDS;
  }
  problem->n_folds = MIN(problem->n_distinct, MOST_FOLDS);
}

static void take_rows(const MeasuredRows *rows, Problem *problem, Fit *fit) {
  problem->rows = g_new(const MeasuredRow *, rows->rows->len);
  problem->ln_measured = g_new(double, rows->rows->len);
  problem->gpus = g_new(int, rows->rows->len);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    g_autoptr(GError) why = NULL;
    StepPrediction step;
    if (row->problem != NULL)
      leave_out(fit, row, row->problem);
    else if (isnan(row->step_time_s))
      leave_out(fit, row, "no step_time_s: it ended out of memory");
    else if (row->step_time_s < least_step_s)
      leave_out(fit, row, "step_time_s: found less than a microsecond");
    else if (!predict_step(problem->predictors[0], row->model, problem->base, row->plan, &step, &why))
      leave_out(fit, row, why->message);
    else {
      problem->ln_measured[problem->n] = log(row->step_time_s);
      problem->gpus[problem->n] = step.gpus;
      problem->rows[problem->n++] = row;
    }
  }
}

static gboolean matters(const Problem *problem, int unknown) {
  for (int row = 0; row < problem->n; row++)
    if (can_matter(problem, row, unknown))
      return TRUE;
  return FALSE;
}

static void take_unknowns(Problem *problem) {
  const gsize n = (gsize)unknowns_count();
  problem->active = g_new(int, n);
  for (int i = 0; i < (int)n; i++)
    if (unknown_applies(problem->base, i) && matters(problem, i))
      problem->active[problem->p++] = i;
  problem->has_slope = g_new0(gboolean, n);
  problem->slopes_at = g_new(double, n);
  problem->slopes = g_new(double, n *(gsize)problem->n);
}

static gboolean fit_problem(Problem *problem, Fit *fit, GError **error) {
  g_autofree double *before = g_new(double, problem->n);
  predict_all(problem, problem->base, before);
  if (!check_units(problem, before, error))
    return FALSE;
  gsl_error_handler_t *handler = gsl_set_error_handler_off();
  Solution solution = solve_for_known(problem);
  fit->noise = problem->noise;
  fill_unknowns(problem, &solution, fit);
  fill_runs(problem, &solution, before, fit);
  gsl_set_error_handler(handler);
  fit->error = conformal_error(problem, fit->runs);
  solution_clear(&solution);
  return TRUE;
}

FitPrior *fit_priors(const Cluster *base) {
  FitPrior *priors = g_new0(FitPrior, unknowns_count());
  for (int i = 0; i < unknowns_count(); i++)
    priors[i] = (FitPrior){unknown_median(base, i), unknown_at(i)->spread};
  return priors;
}

Fit *fit_new(const MeasuredRows *rows, Cluster *base, const FitPrior *priors, int n_threads, GError **error) {
  g_autoptr(Fit) fit = g_new0(Fit, 1);
  fit->base = base;
  fit->cluster = g_memdup2(base, sizeof *base);
  fit->runs = g_array_new(FALSE, FALSE, sizeof(FittedRun));
  fit->pairs = g_array_new(FALSE, FALSE, sizeof(UnknownPair));
  fit->unused = g_ptr_array_new_with_free_func(g_free);
  Problem problem = {.base = base,
                     .priors = priors,
                     .n_threads = n_threads,
                     .left_out = -1,
                     .pairs = fit->pairs,
                     .predictors = g_new(Predictor *, n_threads)};
  for (int i = 0; i < n_threads; i++)
    problem.predictors[i] = predictor_new();
  take_rows(rows, &problem, fit);
  take_folds(&problem);
  take_unknowns(&problem);
  gboolean is_fitted = problem.n > 0
                           ? fit_problem(&problem, fit, error)
                           : fail_input(error, "no run can be used: %s",
                                        fit->unused->len > 0 ? (char *)fit->unused->pdata[0] : "there is none");
  is_fitted = is_fitted && fill_memory(rows, fit, error);
  problem_clear(&problem);
  return is_fitted ? g_steal_pointer(&fit) : NULL;
}

void fit_free(Fit *fit) {
  if (fit == NULL)
    return;
  g_free(fit->cluster);
  g_free(fit->unknowns);
  g_free(fit->covariance);
  g_clear_pointer(&fit->runs, g_array_unref);
  g_clear_pointer(&fit->pairs, g_array_unref);
  g_clear_pointer(&fit->unused, g_ptr_array_unref);
  g_free(fit);
}
