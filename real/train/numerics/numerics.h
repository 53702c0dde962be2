/* Are the numbers right? The Program runs on all ranks; then the same model runs on one rank without any parallelism.
 * At every step the one-rank run takes over the ranks' weights, so each step is compared on its own and rounding
 * errors do not carry over from step to step.
 *
 *     losses      of each step: against the one-rank run's
 *     gradients   of each step, tensor by tensor: ‖g − g₁‖ / ‖g₁‖, g₁ the one-rank run's. A tensor whose gradient is
 *                 only noise (softmax cancels a key bias) is measured against a share of the model's mean gradient
 *     updates     of each step, tensor by tensor: ‖ΔW − ΔW′‖ / ‖ΔW′‖, ΔW′ what Adam makes of the gradients that the
 *                 ranks recorded, computed here in double; what rounding a weight may do does not count
 *
 * The bounds are in numerics_report.c. In bf16, fp16 and fp8, the bounds of losses and gradients widen to three times
 * the effect of rounding, which a third run measures: the one rank in fp32, or for fp8 in bf16. It runs only if the
 * bounds are exceeded without it; in fp8 always, and what it measures has bounds of its own, so that fp8 that is wrong
 * on all ranks alike is noticed.
 *
 * Islands of local SGD are compared one by one, each with a run of its own on its part of the batch; what an outer step
 * makes of them is compared with what it should (outer_step.h), of Adam's steps on all islands, computed here in
 * double.
 *
 * An error in one micro-batch of many may be smaller than rounding: one sum over tp left out of 16 micro-batches
 * cannot be seen in bf16. So such a Program is also run in fp32, on the ranks and on one, under the fp32 bounds. One in
 * fp8 then makes the same copies for its products, in fp32.
 *
 * fp16 gradients are compared with the loss scale divided out; a step that one side skips the other must skip too.
 *
 * The weights of the first step must be equal bit by bit, and so must the copies of a value on several ranks. */
#pragma once
#include "executor.h"

typedef struct {
  double loss, reference_loss;         /* of the global batch */
  double gradient_error, update_error; /* worst over tensors */
  char gradient_worst[64], update_worst[64];
  double gradient_share;  /* worst over tensors: error / allowed error */
  double scale;           /* loss scale; 0: none */
  gboolean is_skipped;    /* by the ranks: gradients are not compared, and no weight may have changed */
  gboolean scales_differ; /* among the ranks or from the one rank's, or only one side skipped the step */
  gboolean skips_differ;  /* only one side skipped: gradients are not compared, as one side's are not finite */
} CheckedStep;

typedef struct CheckReport CheckReport;
struct CheckReport {
  int n_steps;
  CheckedStep *steps;                                          /* owned */
  double loss_tolerance, gradient_tolerance, update_tolerance; /* relative */
  double noise;          /* share of the model's mean gradient: tensors are measured against no less */
  const char *wider;     /* precision in which the one-rank run is repeated to measure rounding */
  double mean_tolerance; /* of rounding itself, the mean over tensors, and of the loss; 0: any */
  double mean_loss_tolerance;
  gboolean knows_rounding;     /* the one-rank run was repeated; if so: */
  double loss_rounding;        /* error of the one-rank losses against it, */
  double gradient_rounding;    /* and of its gradients, in the worst tensor; */
  double mean_rounding;        /* the mean over tensors, in the worst step */
  double timed_loss_error;     /* of the later timed run, check_timed_losses() */
  gboolean is_timed;           /* there was one; else times are of the checked run, which waits in every step */
  gint64 n_tensors, n_missing; /* tensors compared; elements no rank recorded */
  gboolean is_passed;
  CheckReport *in_fp32; /* the same Program in fp32; NULL: not run again; owned */
};

/* Sets the bounds for the plan's precision and number of tokens, and makes room for the steps. */
void check_report_init(CheckReport *report, int n_steps, const Method *method);
/* Records a step's mean over tensors of the one-rank run's own error against the wider one. */
void check_report_note_rounding(CheckReport *report, double mean);
/* Records a tensor's error in a step. `rounding`: the one-rank run's own error against the wider one; 0: unknown. */
void check_report_note_gradient(CheckReport *report, int step, const char *name, double error, double rounding);
/* Records the wider run's loss of a step, for the one-rank loss's rounding error. */
void check_report_note_exact_loss(CheckReport *report, int step, double exact);
/* What is beyond its bounds, or was not compared, a sentence each; the fp32 check's too, with "in fp32: " in front.
 * Owned by the caller. */
GPtrArray *check_report_reasons(const CheckReport *report);
/* Sets is_passed: there is no reason why not. */
void check_report_judge(CheckReport *report);
/* Runs the plan's steps and compares. Collective over the world; the report is filled on rank 0. `also_in_fp32`:
 * repeats a plan that is not in fp32 in it. `result`: the checked run's, cleared by the caller; may be NULL; empty
 * after an error. */
gboolean check_numerics(const Execution *execution, gboolean also_in_fp32, CheckReport *report, ExecutionResult *result,
                        GError **error);
/* The checked run waits before every optimizer step to record its state. A run that does not wait must give the same
 * losses [n_steps]: a dependency missing from the Program shows up here, if anywhere. On rank 0. */
void check_timed_losses(CheckReport *report, const double *losses);
void check_report_clear(CheckReport *report);
/* Human-readable, several lines. */
void check_report_print(const CheckReport *report, GString *out);
