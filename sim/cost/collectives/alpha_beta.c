/* One piece: weighted least squares in two unknowns, with weights updated from the residuals. Several pieces: every
 * way to cut the sizes into ranges is fitted (on a grid of at most MAX_CUTS places), and each is refined by giving
 * every point to the piece that is the minimum there. */
#include "alpha_beta.h"

#include "sort_doubles.h"

#include <math.h>
#include <string.h>

enum { MAX_CUTS = 24, ABSOLUTE_ROUNDS = 40, BIWEIGHT_ROUNDS = 20, REFINE_ROUNDS = 6 };
static const double biweight_width = 4.685; /* 95 % efficient on normal errors (Holland and Welsch, 1977) */
static const double noise_floor = 5e-3;     /* relative: the least by which repeats of one measurement differ */
static const double outlier = 0.1;          /* relative: larger errors count as this when pieces are compared */
static const double ll_ratio = 0.7;         /* LL carries 1/2 of Simple, LL128 0.92 */

typedef struct {
  double alpha_s, s_per_byte;
} Line;

static double line_s(const Line *line, double bytes) {
  return line->alpha_s + line->s_per_byte * bytes;
}

static double error_of(const Line *line, const CurvePoint *point) {
  return line_s(line, point->size_bytes) / point->time_s - 1;
}

/* Minimises Σ w·(α + β·S − t)² with α ≥ 0. FALSE: no positive slope. */
static gboolean solve(const CurvePoint *points, const double *weights, int n, Line *line) {
  double w = 0, ws = 0, wss = 0, wt = 0, wst = 0;
  for (int i = 0; i < n; i++) {
    double s = points[i].size_bytes, t = points[i].time_s, weight = weights[i];
    w += weight;
    ws += weight * s;
    wss += weight * s * s;
    wt += weight * t;
    wst += weight * s * t;
  }
  double determinant = w * wss - ws * ws;
  if (!(determinant > 1e-12 * w * wss)) /* a single size */
    return FALSE;
  *line = (Line){(wt * wss - wst * ws) / determinant, (w * wst - ws * wt) / determinant};
  if (line->alpha_s < 0)
    *line = (Line){0, wst / wss};
  return line->s_per_byte > 0;
}

static double median_error(const CurvePoint *points, int n, const Line *line, double *scratch) {
  for (int i = 0; i < n; i++)
    scratch[i] = fabs(error_of(line, &points[i]));
  sort_doubles(scratch, (gsize)n);
  return scratch[n / 2];
}

static double biweight(double error, double width) {
  double u = error / width;
  return fabs(u) >= 1 ? 0 : (1 - u * u) * (1 - u * u);
}

/* `scratch`: room for 2n. FALSE: no line with a positive slope. */
static gboolean fit_line(const CurvePoint *points, int n, double *scratch, Line *line) {
  double *weights = scratch, *errors = scratch + n;
  for (int i = 0; i < n; i++)
    weights[i] = 1 / (points[i].time_s * points[i].time_s);
  if (!solve(points, weights, n, line))
    return FALSE;
  for (int round = 0; round < ABSOLUTE_ROUNDS + BIWEIGHT_ROUNDS; round++) {
    gboolean absolute = round < ABSOLUTE_ROUNDS;
    double scale = MAX(1.4826 * median_error(points, n, line, errors), 1e-6);
    for (int i = 0; i < n; i++) {
      double error = error_of(line, &points[i]);
      double trust = absolute ? 1 / MAX(fabs(error), 1e-6) : biweight(error, biweight_width * scale);
      weights[i] = trust / (points[i].time_s * points[i].time_s);
    }
    Line next;
    if (!solve(points, weights, n, &next))
      return absolute ? FALSE : TRUE; /* only one size is left without the outliers: keep the last line */
    *line = next;
  }
  return TRUE;
}

/* A cut of all points into ranges, and the line of each. */
typedef struct {
  int n_pieces;
  int first[MAX_PIECES + 1]; /* of each range; then n */
  Line lines[MAX_PIECES];
} Pieces;

static double least_s(const Pieces *pieces, double bytes) {
  double least = INFINITY;
  for (int k = 0; k < pieces->n_pieces; k++)
    least = MIN(least, line_s(&pieces->lines[k], bytes));
  return least;
}

static int n_sizes(const CurvePoint *points, int n) {
  int different = n > 0;
  for (int i = 1; i < n; i++)
    different += points[i].size_bytes != points[i - 1].size_bytes;
  return different;
}

/* FALSE: a range is too small, or no real choice: latency must rise and time per byte fall. */
static gboolean fit_pieces(const CurvePoint *points, double *scratch, Pieces *pieces) {
  for (int k = 0; k < pieces->n_pieces; k++) {
    int first = pieces->first[k], count = pieces->first[k + 1] - first;
    if (n_sizes(points + first, count) < LEAST_FIT_POINTS ||
        !fit_line(points + first, count, scratch, &pieces->lines[k]))
      return FALSE;
    if (k > 0 && (pieces->lines[k].alpha_s <= pieces->lines[k - 1].alpha_s ||
                  pieces->lines[k].s_per_byte >= pieces->lines[k - 1].s_per_byte))
      return FALSE;
  }
  return TRUE;
}

/* Lower is better: the criterion, then, where the noise floor hides the difference, the error itself. */
typedef struct {
  double criterion, error;
} Score;

static Score score(const CurvePoint *points, int n, const Pieces *pieces) {
  double sum = 0;
  for (int i = 0; i < n; i++) {
    double error = MIN(fabs(least_s(pieces, points[i].size_bytes) / points[i].time_s - 1), outlier);
    sum += error * error;
  }
  int n_parameters = 3 * pieces->n_pieces - 1; /* two per line, and the cuts */
  return (Score){n * log(MAX(sum / n, noise_floor * noise_floor)) + n_parameters * log(n), sum};
}

static gboolean is_better(Score a, Score b) {
  return a.criterion < b.criterion - 1e-9 || (a.criterion <= b.criterion && a.error < b.error);
}

/* Moves each cut to the first measured size at which the next line is the minimum. */
static void move_cuts(const CurvePoint *points, int n, Pieces *pieces) {
  for (int k = 1; k < pieces->n_pieces; k++) {
    int at = pieces->first[k - 1];
    while (at < n &&
           line_s(&pieces->lines[k], points[at].size_bytes) > line_s(&pieces->lines[k - 1], points[at].size_bytes))
      at++;
    pieces->first[k] = at;
  }
}

static void keep_better(const CurvePoint *points, int n, double *scratch, Pieces pieces, Pieces *best,
                        Score *best_score) {
  for (int round = 0; round <= REFINE_ROUNDS; round++) {
    if (!fit_pieces(points, scratch, &pieces))
      return;
    Score found = score(points, n, &pieces);
    if (is_better(found, *best_score)) {
      *best_score = found;
      *best = pieces;
    }
    move_cuts(points, n, &pieces);
  }
}

static void try_cuts(const CurvePoint *points, int n, double *scratch, Pieces *best, Score *best_score) {
  int step = MAX(1, (n + MAX_CUTS - 1) / MAX_CUTS);
  for (int first = step; first < n; first += step) {
    keep_better(points, n, scratch, (Pieces){2, {0, first, n}, {{0}}}, best, best_score);
    for (int second = first + step; second < n; second += step)
      keep_better(points, n, scratch, (Pieces){3, {0, first, second, n}, {{0}}}, best, best_score);
  }
}

static void name_protocols(AlphaBetaFit *fit) {
  for (int k = fit->n_pieces - 1; k >= 0; k--) {
    AlphaBetaPiece *piece = &fit->pieces[k];
    gboolean is_last = k == fit->n_pieces - 1, is_first_of_three = fit->n_pieces == MAX_PIECES && k == 0;
    double ratio = is_last ? 1 : fit->pieces[k + 1].s_per_byte / piece->s_per_byte;
    piece->protocol = is_last                                  ? PROTOCOL_SIMPLE
                      : is_first_of_three                      ? PROTOCOL_LL
                      : ratio < ll_ratio && fit->n_pieces == 2 ? PROTOCOL_LL
                                                               : PROTOCOL_LL128;
  }
}

double alpha_beta_s(const AlphaBetaFit *fit, double bytes) {
  double least = INFINITY;
  for (int k = 0; k < fit->n_pieces; k++)
    least = MIN(least, fit->pieces[k].alpha_s + fit->pieces[k].s_per_byte * bytes);
  return least;
}

static void describe(const CurvePoint *points, int n, const Pieces *pieces, AlphaBetaFit *fit) {
  *fit = (AlphaBetaFit){.n_pieces = pieces->n_pieces};
  for (int k = 0; k < pieces->n_pieces; k++)
    fit->pieces[k] = (AlphaBetaPiece){.alpha_s = pieces->lines[k].alpha_s,
                                      .s_per_byte = pieces->lines[k].s_per_byte,
                                      .from_bytes = points[MIN(pieces->first[k], n - 1)].size_bytes};
  name_protocols(fit);
  for (int i = 0; i < n; i++) {
    double error = fabs(alpha_beta_s(fit, points[i].size_bytes) / points[i].time_s - 1);
    fit->mean_error += error / n;
    fit->largest_error = MAX(fit->largest_error, error);
  }
}

gboolean alpha_beta_fit(const CurvePoint *points, int n, AlphaBetaFit *fit) {
  if (n_sizes(points, n) < LEAST_FIT_POINTS)
    return FALSE;
  g_autofree double *scratch = g_new(double, 2 * (gsize)n);
  Pieces best = {1, {0, n}, {{0}}};
  if (!fit_line(points, n, scratch, &best.lines[0]))
    return FALSE;
  Score best_score = score(points, n, &best);
  try_cuts(points, n, scratch, &best, &best_score);
  move_cuts(points, n, &best);
  describe(points, n, &best, fit);
  return TRUE;
}
