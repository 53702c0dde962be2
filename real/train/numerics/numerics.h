/* Are the numbers right? A Program is run for its steps on all ranks, then the same model on one rank without any
 * parallelism, which at every step takes over the weights that the ranks have: so each step is compared by itself, and
 * what one's rounding does to the next does not count.
 *
 *     losses      of each step: the one-rank run's
 *     gradients   of each step, tensor by tensor: ‖g − g₁‖ / ‖g₁‖, g₁ the one-rank run's. A tensor whose gradient is
 *                 but noise (a key bias moves no softmax) is measured against a share of the model's mean gradient
 *     updates     of each step, tensor by tensor: ‖ΔW − ΔW′‖ / ‖ΔW′‖, ΔW′ what Adam makes of the gradients that the
 *                 ranks have shown, computed here in double; what rounding a weight may do does not count
 *
 * The bounds stand in numerics_report.c. In bf16 and fp16 those of losses and gradients widen to three times what
 * rounding does, as a third run tells: the one rank in fp32. It is run where they are not kept without it.
 *
 * What is wrong of one micro-batch of many may do less than rounding: one sum over tp left out of 16 micro-batches is
 * not seen in bf16. So a Program in bf16 or fp16 is run in fp32, too, on the ranks and on one, under fp32's bounds.
 *
 * Gradients of fp16 are compared without the loss's scale; a step that one skips the other has to skip.
 *
 * The weights of the first step are equal bit by bit, and so are the copies of one number on several ranks. */
#pragma once
#include "executor.h"

typedef struct {
  double loss, reference_loss;         /* of the global batch */
  double gradient_error, update_error; /* worst over tensors */
  char gradient_worst[64], update_worst[64];
  double gradient_share;  /* worst over tensors: of what a tensor may be off */
  double scale;           /* of the loss; 0: it has none */
  gboolean is_skipped;    /* by the ranks: gradients are not compared, and nothing may have moved */
  gboolean scales_differ; /* among ranks or from the one rank's, or only one of both has skipped the step */
  gboolean skips_differ;  /* the latter: gradients are not compared, as one side's are not finite */
} CheckedStep;

typedef struct CheckReport CheckReport;
struct CheckReport {
  int n_steps;
  CheckedStep *steps;                                          /* owned */
  double loss_tolerance, gradient_tolerance, update_tolerance; /* relative */
  double noise;                /* of the model's mean gradient: tensors are measured against no less */
  gboolean knows_rounding;     /* the one rank has run in fp32, too, */
  double loss_rounding;        /* from whose losses it is so far off, */
  double gradient_rounding;    /* and from whose gradients so far in the worst tensor */
  double timed_loss_error;     /* of the run after, check_timed_losses() */
  gboolean is_timed;           /* there was one; else times are of the checked run, which waits in every step */
  gint64 n_tensors, n_missing; /* tensors compared; elements no rank has shown */
  gboolean is_passed;
  CheckReport *in_fp32; /* of the same Program in fp32; NULL: it was not run again; owned */
};

/* The bounds of a plan's precision and number of tokens, and room for the steps. */
void check_report_init(CheckReport *report, int n_steps, const Plan *plan);
/* A tensor's error of a step; `rounding`: what the one rank's was off from fp32, 0 where that is not known. */
void check_report_note_gradient(CheckReport *report, int step, const char *name, double error, double rounding);
/* What the one rank's loss of a step was off from fp32's. */
void check_report_note_exact_loss(CheckReport *report, int step, double exact);
/* Whether all that has been compared is within its bounds. */
void check_report_judge(CheckReport *report);
/* Collective over the world; the report is filled on rank 0. The plan's steps are run. `also_in_fp32`: of a plan in
 * bf16 or fp16. `result`: what came of the checked run, the caller's to clear; NULL: nobody asks; nothing of it after
 * an error. */
gboolean check_numerics(const Execution *execution, gboolean also_in_fp32, CheckReport *report, ExecutionResult *result,
                        GError **error);
/* The checked run waits before every optimizer step, where it is written down. The losses [n_steps] of one that does
 * not must be the same as its: what the Program forgot to wait for shows here, if at all. On rank 0. */
void check_timed_losses(CheckReport *report, const double *losses);
void check_report_clear(CheckReport *report);
/* For people, several lines. */
void check_report_print(const CheckReport *report, GString *out);
