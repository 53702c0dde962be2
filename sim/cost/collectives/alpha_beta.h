/* Fits latency and bandwidth to measured times: t = α + β·S, in as many pieces as the times show protocols.
 *
 * A library changes its protocol with size, so times follow the minimum of a few straight lines: low latency and
 * bandwidth (LL, LL128) for small sizes, high (Simple) for large ones. One to three pieces are fitted, each to its
 * own range of sizes. A further piece is accepted only if it pays (Bayesian information criterion, Schwarz, Annals of
 * Statistics 6(2), 1978, with a floor under the error so that rounding is not fitted). Errors are relative, as times
 * of 20 us and of 20 ms are measured equally well. Outliers are suppressed: first least absolute deviations, then
 * Tukey's biweight (Beaton and Tukey, Technometrics 16(2), 1974), both by reweighted least squares. */
#pragma once
#include "cluster.h"

enum { MAX_PIECES = 3, LEAST_FIT_POINTS = 3 };

typedef struct {
  double alpha_s, s_per_byte;
  Protocol
      protocol; /* the last is Simple; one before it LL, if it has less than 0.7 of the next one's rate, else LL128 */
  double from_bytes; /* smallest measured size at which this piece is the minimum */
} AlphaBetaPiece;

typedef struct {
  AlphaBetaPiece pieces[MAX_PIECES]; /* by rising latency, and so by rising rate */
  int n_pieces;
  double mean_error, largest_error; /* |fitted / measured − 1| */
} AlphaBetaFit;

/* `points`: ascending sizes > 0, with repeats allowed; times > 0. FALSE: fewer than LEAST_FIT_POINTS distinct sizes,
 * or times that do not grow with size. */
gboolean alpha_beta_fit(const CurvePoint *points, int n, AlphaBetaFit *fit);
/* The minimum of the pieces. */
double alpha_beta_s(const AlphaBetaFit *fit, double bytes);
