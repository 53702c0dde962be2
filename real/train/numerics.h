/* Are the numbers right? A Program is run for its steps on all ranks, then the same model on one rank without any
 * parallelism; losses, every gradient of every step and every weight update are compared, tensor by tensor.
 *
 * The error of a gradient is ‖g − g₁‖ / ‖g₁‖ over a whole tensor, g₁ the one-rank run's. A tensor whose gradient is but
 * noise (a key bias moves no softmax) is measured against a thousandth of the model's mean gradient instead. Updates
 * W_k − W_0 are held to a looser bound: Adam's first steps are signs of gradients, which noise turns where they are near
 * zero; where a whole tensor's gradient is noise, its updates are not judged. */
#pragma once
#include "executor.h"

typedef struct {
  double loss, reference_loss; /* of the global batch */
  double gradient_error, update_error; /* worst over tensors; update of the steps before this one */
  char gradient_worst[64], update_worst[64];
} CheckedStep;

typedef struct {
  int n_steps;
  CheckedStep *steps; /* owned */
  double loss_tolerance, gradient_tolerance, update_tolerance; /* relative */
  gint64 n_tensors, n_missing; /* tensors compared; elements no rank has shown */
  gboolean is_passed;
} CheckReport;

/* Collective over the world; the report is filled on rank 0. The plan's steps are run. */
gboolean check_numerics(const Execution *execution, CheckReport *report, GError **error);
void check_report_clear(CheckReport *report);
/* For people, several lines. */
void check_report_print(const CheckReport *report, GString *out);
