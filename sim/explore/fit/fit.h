/* A machine from runs on it: the unknowns (unknowns.h) for which what is predicted of the runs comes nearest to what
 * was measured,
 *
 *     minimise  Σ ρ(ln(predicted / measured) / noise)  +  Σ (ln(value / median) / spread)²
 *               runs                                      unknowns
 *
 * with Cauchy's ρ(x) = c² ln(1 + (x/c)²), c = 2, in place of the squares, too: a run that does not fit the rest counts
 * little (but with few runs each is taken at its word), and a machine that is far from its file is not ruled out. The
 * noise of runs is estimated from what is left, about a prior of 6 %. Predictions are nearly log-linear, so tangents
 * are solved by Levenberg and Marquardt's method (GSL), from several starts. From one run on: what the runs say nothing
 * of stays as the file has it. */
#pragma once
#include "measured_rows.h"
#include "unknowns.h"

static const double likely_80 = 1.2816; /* standard deviations that 80 % are within */

typedef struct {
  double value;      /* as in the file that is written: of four digits */
  double low, high;  /* 80 % of what is likely */
  double narrowed;   /* 1 − (spread left / spread of the prior) */
  gboolean is_found; /* the runs say something of it; if not, it is left as the file has it */
} FoundUnknown;

/* What is known of an unknown before the runs are looked at. */
typedef struct {
  double median, spread; /* as in Unknown */
  const char *source;    /* where else that is from, in words; NULL: unknowns.h. Borrowed */
} FitPrior;

typedef struct {
  const MeasuredRow *row; /* borrowed */
  int gpus;
  double before_s;    /* predicted on the cluster as its file has it */
  double predicted_s; /* with what was found */
  double without_s;   /* with what was found from the other runs */
  gboolean is_odd;    /* does not fit the rest */
} FittedRun;

/* Two that the runs do not tell apart, by what is likely. */
typedef struct {
  int a, b;
  double correlation;
} UnknownPair;

typedef struct {
  Cluster *base;          /* borrowed */
  Cluster *cluster;       /* a copy, sharing all with base but the numbers; owned (g_free()) */
  FoundUnknown *unknowns; /* [unknowns_count()]; NAN where one does not apply; owned */
  double *covariance;     /* [unknowns_count()²] of ln(value) / spread; owned */
  GArray *runs;           /* of FittedRun, those with a time, in order */
  GArray *pairs;          /* of UnknownPair */
  GPtrArray *unused;      /* of texts: rows that were not used, and why */
  double noise;           /* standard deviation of ln(measured / predicted) */
  double error;           /* 80 % of the runs are within it, each predicted from the others: |ln(measured / predicted)|,
                             conformal; INFINITY: too few runs to say */
  double memory_bytes;    /* the median of what the fullest GPUs held beyond what is predicted; NAN: nothing known */
  int n_memory;           /* from as many runs */
} Fit;

/* Takes the rows' problems as reasons not to use a row. INPUT if no row can be used, and where step times are not in
 * seconds. */
Fit *fit_new(const MeasuredRows *rows, Cluster *base, const FitPrior *priors, int n_threads, GError **error);
/* [unknowns_count()]: as unknowns.h says. Owned by the caller. */
FitPrior *fit_priors(const Cluster *base);
/* The unit in which a time of `ratio` times what is expected in seconds seems to be: "milliseconds"; NULL: seconds. */
const char *fit_unit_of(double ratio);
void fit_free(Fit *fit);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Fit, fit_free)
