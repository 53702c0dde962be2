/* What is known of a run's step: its time, or another number that logs print and the time follows from. */
#pragma once
#include "step_report.h"

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
