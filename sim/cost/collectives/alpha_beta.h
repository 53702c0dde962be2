/* Latency and bandwidth from measured times: t = α + β·S, in as many pieces as the times show protocols.
 *
 * A library changes its protocol with size, so times follow the least of a few straight lines: little latency and
 * bandwidth (LL, LL128) below, more of both (Simple) above. Between one and three pieces are fitted, each to its own
 * range of sizes; a further piece is taken only where it pays (Bayesian information criterion, Schwarz, Annals of
 * Statistics 6(2), 1978, with a floor under the error so that rounding is not fitted). Errors are relative, as a time
 * of 20 us and one of 20 ms are measured alike. Outliers do not count: least absolute deviations to begin with, then
 * Tukey's biweight (Beaton and Tukey, Technometrics 16(2), 1974), both by reweighted least squares. */
#pragma once
#include "cluster.h"

enum { MAX_PIECES = 3, LEAST_FIT_POINTS = 3 };

typedef struct {
  double alpha_s, s_per_byte;
  Protocol
      protocol; /* the last is Simple; one before it LL, if it has less than 0.7 of the next one's rate, else LL128 */
  double from_bytes; /* smallest measured size at which it is the least */
} AlphaBetaPiece;

typedef struct {
  AlphaBetaPiece pieces[MAX_PIECES]; /* by latency; rates rise with it */
  int n_pieces;
  double mean_error, largest_error; /* |fitted / measured − 1| */
} AlphaBetaFit;

/* `points`: ascending sizes > 0, a size may stand there more than once; times > 0. FALSE: fewer than LEAST_FIT_POINTS
 * different sizes, or times that do not grow with size. */
gboolean alpha_beta_fit(const CurvePoint *points, int n, AlphaBetaFit *fit);
/* The least of the pieces. */
double alpha_beta_s(const AlphaBetaFit *fit, double bytes);
