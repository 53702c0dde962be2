/* A measured step beside the predicted one, and what would make up the difference: the run otherwise than described, an
 * option at a time; or a cost so many times as long as predicted, each alone. What takes least of it is what to look at
 * first. */
#pragma once
#include <json-glib/json-glib.h>

#include "predict.h"

/* The plan with one option otherwise, where it still fits in memory. */
typedef struct {
  const char *option, *value; /* static: "--overlap-grad", "off" */
  double step_time_s;
} GapOption;

enum { GAP_MOST_TIMES = 32, GAP_MOST_RANKS = 512 };

typedef struct {
  guint of;     /* bits 1 << WhatIf; 0: the kernels of one rank alone; 1 << N_WHAT_IFS: rows of the ep rank that has
                   most, over their mean */
  int rank;     /* that one: of those that compute longest the first */
  double times; /* so many times as long they make the step the measured one; NAN: none up to `tried` does */
  double tried; /* where `times` is NAN: 0 (away; products and attention at the peak) for a measured step that is
                   shorter, else the most: GAP_MOST_TIMES, of experts' rows no more than ep */
  double step_time_s; /* with `times`, or else `tried` */
} GapCost;

typedef struct {
  double predicted_s, measured_s;
  char *origin; /* what the measured time was worked out from, to print beside it; owned; NULL: it was given */
  gboolean has_framework;
  GArray *options; /* of GapOption that bring the step nearer to the measured one or past it, the nearest first */
  GArray *costs;   /* of GapCost, those that change the step: nearest to 1 first, NAN last */
} MeasuredGap;

/* `plan` as the prediction was asked for; `measured_s` > 0. What an option is worth is not known, and left out, where
 * the plan cannot have it. One rank is slowed only of up to GAP_MOST_RANKS ranks, and only where none is slow already.
 */
MeasuredGap *measured_gap_new(const Prediction *prediction, const Plan *plan, double measured_s, int n_threads);
void measured_gap_free(MeasuredGap *gap);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(MeasuredGap, measured_gap_free)
/* "kernels of all GPUs", "tp communication", … */
const char *gap_cost_name(const GapCost *cost);
/* "--slow-rank 0=1.4": the option that predicts such a step; owned by the caller; NULL: there is none. */
char *gap_cost_option(const GapCost *cost);
/* Of experts' rows, which are more and take no longer each. */
gboolean gap_cost_is_of_rows(const GapCost *cost);
/* Has products and attention, which take no less than the peak allows where they are tried at 0. */
gboolean gap_cost_has_peak(const GapCost *cost);

void measured_gap_text(GString *out, const MeasuredGap *gap);
/* The member `measured`. */
void measured_gap_json(JsonBuilder *builder, const MeasuredGap *gap);
