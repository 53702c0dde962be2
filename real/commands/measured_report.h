/* The report that `stepreal run` prints. */
#pragma once
#include "measured_trace.h"
#include "metrics.h"
#include "model.h"
#include "numerics.h"

typedef struct {
  const Workload *workload;
  const Metrics *metrics;
  const char *device, *comm, *device_name; /* "cpu", "mpi", the processor's own name */
  double clock_Hz;                         /* 0: unknown */
  double peak_flops;                       /* of one processor; 0: unknown */
  int n_sharers;                           /* ranks on the processor that most share; 1: each has its own */
  const char *shared;                      /* the name of that processor */
  const gint64 *steps_ns;
  const double *losses;
  const LossScale *scales; /* [n_steps + 1] of fp16; NULL: none */
  int n_steps;
  gint64 median_ns;
  HostLead lead;
  const char *attention;    /* what ran fused attention; NULL or "": nothing to report */
  const CheckReport *check; /* NULL: no check was asked for */
} MeasuredReport;

char *measured_report_text(const MeasuredReport *report);
/* The keys of `stepsim simulate --json` that can be measured, and `step_times_s`, `losses`, `loss_scales`, `check`.
 * Owned by the caller. */
char *measured_report_json(const MeasuredReport *report);
