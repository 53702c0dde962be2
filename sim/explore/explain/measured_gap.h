/* A measured step against the predicted one, and what could explain the difference: one option set differently, or
 * one cost a factor longer than predicted, each on its own. The explanation that takes the smallest change is the
 * first to check. */
#pragma once
#include <json-glib/json-glib.h>

#include "predict.h"
#include "profile_compare.h"
#include "step_report.h"

/* The plan with one option changed; only if it still fits in memory. */
typedef struct {
  const char *option, *value; /* static: "--overlap-grad", "off" */
  double step_time_s;
} GapOption;

enum { GAP_MOST_TIMES = 32, GAP_MOST_RANKS = 512 };

typedef struct {
  guint of;           /* bits 1 << WhatIf; 0: the kernels of one rank only; 1 << N_WHAT_IFS: rows of the fullest ep
                         rank, over their mean */
  int rank;           /* that rank: the first of those that compute longest */
  double times;       /* factor of four digits at which the step takes the measured time, or if it jumps past that,
                         nearly; NAN: no factor up to `tried` makes it as long */
  double tried;       /* if `times` is NAN: 0 (removed; products and attention at peak) if the measured step is
                         shorter, else the largest factor: GAP_MOST_TIMES, for experts' rows at most ep */
  double step_time_s; /* with factor `times`, or else `tried` */
} GapCost;

typedef struct {
  double predicted_s, measured_s;
  Interval interval; /* of predicted_s */
  char *origin;      /* how the measured time was derived, to print beside it; owned; NULL: it was given */
  gboolean has_framework;
  GArray *options; /* of GapOption: those that bring the step closer to the measured one or past it, closest first */
  GArray *costs;   /* of GapCost: those that change the step; factor nearest to 1 first, NAN last */
  const ProfileCompare *kinds; /* borrowed; NULL: the step was given as a number, not recorded by a profiler */
} MeasuredGap;

/* `plan` as passed to predict(); `measured_s` > 0. Options the plan cannot have are left out. A single slow rank is
 * tried only if the plan has 2 to GAP_MOST_RANKS ranks, none of them slow already. */
MeasuredGap *measured_gap_new(const Prediction *prediction, const Plan *plan, double measured_s, int n_threads);
void measured_gap_free(MeasuredGap *gap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredGap, measured_gap_free)
/* "kernels of all GPUs", "tp communication", … */
const char *gap_cost_name(const GapCost *cost);
/* "--slow-rank 0=1.4": the option that reproduces the cost; owned by the caller; NULL: there is none. */
char *gap_cost_option(const GapCost *cost);

void measured_gap_text(GString *out, const MeasuredGap *gap);
/* The member `measured`. */
void measured_gap_json(JsonBuilder *builder, const MeasuredGap *gap);

/* What is known of a run's step: its time, or another number that logs print and the time follows from. */

typedef enum {
  MEASURED_TIME,           /* "21s" */
  MEASURED_MFU,            /* "38%" */
  MEASURED_FLOPS,          /* "375 TFLOP/s": model FLOPs per GPU */
  MEASURED_TOKENS,         /* "61.5k tokens/s": all GPUs together */
  MEASURED_TOKENS_PER_GPU, /* "961 tokens/s/GPU" */
} MeasuredKind;

typedef struct {
  MeasuredKind kind;
  double value; /* > 0: s, share of peak, FLOP/s, tokens/s */
} MeasuredStep;

/* INPUT listing the accepted forms if `text` matches none of them, or if the number is not above 0 (for an MFU: or
 * above 100 %). */
gboolean measured_step_parse(const char *text, MeasuredStep *measured, GError **error);
/* The step time in s, for the same batch as `predicted`; the run is assumed to count model FLOPs by the same
 * convention and against the same peak. */
double measured_step_time_s(const MeasuredStep *measured, const StepReport *predicted);
/* How the time was derived: `38.00 % MFU of 989.4 TFLOP/s, model FLOPs by convention "causal"`. Owned by the caller;
 * NULL: it was given. */
char *measured_step_origin(const MeasuredStep *measured, const StepReport *predicted);
