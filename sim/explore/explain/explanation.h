/* Why a step takes as long as it does: which axis crosses which link, where the time goes, what would be next. */
#pragma once
#include "axis_links.h"
#include "faster_hardware.h"
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
  const MeasuredGap *gap;       /* borrowed; NULL: no measured step is known */
  GArray *axes;                 /* of AxisLinks; owned */
  GArray *each, *chain;         /* of WhatIfStep; owned */
  gint64 no_bubble_ns;
  GArray *faster;       /* of FasterStep; owned; NULL where ranks run apart, or with scaling */
  PlanOutcome *outcome; /* owned: the same step, scored by throughput; NULL where ranks run apart, or with scaling */
  GArray *steps;        /* of SensitivityStep, from it; owned; NULL as that */
  double large_batch_s; /* per step of the same tokens, at EXPLAIN_BATCH_FACTOR times the global batch; 0: impossible */
  double even_ranks_s;  /* the step without slow ranks and jitter; 0: there are none */
} Explanation;

/* `plan` as the prediction was asked for: not completed. `scaling` stays the caller's; NULL: one size. `n_threads` ≥ 1,
 * for steps. */
Explanation *explanation_new(const Prediction *prediction, const StepReport *step, const Plan *plan,
                             const Scaling *scaling, int n_threads);
void explanation_free(Explanation *explanation);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Explanation, explanation_free)

void explain_text(GString *out, const Explanation *explanation);
/* One object and a newline; owned by the caller. */
char *explain_json(const Explanation *explanation);
/* Of the size at which MFU is lowest, a sentence on what grew and one on each of the greatest causes. Of char *, owned
 * by the caller. */
GPtrArray *explain_scaling_verdict(const Scaling *scaling, const Plan *plan, int domain_gpus);
