/* What a run prints. */
#pragma once
#include "metrics.h"
#include "model.h"
#include "numerics.h"

typedef struct {
  const Workload *workload;
  const Metrics *metrics;
  const char *device, *comm, *device_name; /* "cpu", "mpi", what the processor calls itself */
  double clock_Hz;                         /* 0: not known */
  double peak_flops;                       /* of one processor; 0: not known */
  const gint64 *steps_ns;
  const double *losses;
  const LossScale *scales; /* [n_steps + 1] of fp16; NULL: none */
  int n_steps;
  gint64 median_ns;
  const char *attention;    /* what ran the fused one; NULL or "": nothing to tell */
  const CheckReport *check; /* NULL: not asked for */
} MeasuredReport;

char *measured_report_text(const MeasuredReport *report);
/* The keys of `stepsim simulate --json` that can be measured, `step_times_s`, `losses`, `loss_scales`, `check`. Owned
 * by the caller.
 */
char *measured_report_json(const MeasuredReport *report);
