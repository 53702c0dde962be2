/* What is known of a run's step: its time, or a number that logs print in its place and that the time follows from. */
#pragma once
#include "step_report.h"

typedef enum {
  MEASURED_TIME,           /* "21s" */
  MEASURED_MFU,            /* "38%" */
  MEASURED_FLOPS,          /* "375 TFLOP/s": model FLOPs of one GPU */
  MEASURED_TOKENS,         /* "61.5k tokens/s": of all GPUs */
  MEASURED_TOKENS_PER_GPU, /* "961 tokens/s/GPU" */
} MeasuredKind;

typedef struct {
  MeasuredKind kind;
  double value; /* above 0: s, a share of the peak, FLOP/s, tokens/s */
} MeasuredStep;

/* INPUT naming the forms when `text` has none of them, or the number is not above 0 (of an MFU: not up to 100 %). */
gboolean measured_step_parse(const char *text, MeasuredStep *measured, GError **error);
/* The time, in s, of a step of the same batch as `predicted`, whose peak and convention of model FLOPs are the run's.
 */
double measured_step_time_s(const MeasuredStep *measured, const StepReport *predicted);
/* What the time was worked out from: `38.00 % MFU of 989.4 TFLOP/s, model FLOPs by convention "causal"`. Owned by the
 * caller; NULL: it was given. */
char *measured_step_origin(const MeasuredStep *measured, const StepReport *predicted);
