/* Why a step takes as long as it does: which axis uses which link, where the time goes, what would limit it next. */
#pragma once
#include "axis_links.h"
#include "measured_gap.h"
#include "planner_report.h"
#include "scaling.h"
#include "step_report.h"
#include "what_if.h"

enum { EXPLAIN_BATCH_FACTOR = 8 };

typedef struct {
  const Prediction *prediction; /* borrowed */
  const StepReport *step;       /* borrowed: the same prediction */
  const Scaling *scaling;       /* borrowed; NULL: one size */
  gboolean is_weak;             /* of the scaling */
  const MeasuredGap *gap;       /* borrowed; NULL: no measured step was given */
  GArray *axes;                 /* of AxisLinks; owned */
  GArray *each, *chain;         /* of WhatIfStep; owned */
  gint64 no_bubble_ns;
  GArray *faster;       /* of FasterStep; owned; NULL if ranks run apart, or with scaling */
  PlanOutcome *outcome; /* owned: the same step, scored by throughput; NULL if ranks run apart, or with scaling */
  GArray *steps;        /* of Variant, derived from it; owned; NULL likewise */
  double large_batch_s; /* time for the tokens of one step, at EXPLAIN_BATCH_FACTOR times the global batch; 0:
                           impossible */
  double even_ranks_s;  /* the step without slow ranks and jitter; 0: there are none */
} Explanation;

/* `plan` as passed to predict(), not completed. `scaling` stays the caller's; NULL: one size. `n_threads` ≥ 1:
 * threads for predicting steps. */
Explanation *explanation_new(const Prediction *prediction, const StepReport *step, const Plan *plan,
                             const Scaling *scaling, int n_threads);
void explanation_free(Explanation *explanation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Explanation, explanation_free)

void explain_text(GString *out, const Explanation *explanation);
/* One object and a newline; owned by the caller. */
char *explain_json(const Explanation *explanation);
