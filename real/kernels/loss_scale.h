/* Loss scaling: fp16 gradients underflow below 6e-8, so the loss's gradient is multiplied by a large scale and the
 * optimizer divides by it again (P. Micikevicius et al., arXiv 1710.03740 §3.2). The scale adapts itself:
 *
 *     Σ g² finite     the step is made; after `window` such steps in a row the scale doubles
 *     not finite      the step is skipped: weights, master copy and moments stay, gradients become 0; the scale halves
 *     … and scale 1   no lower scale can help: nothing is touched; the host finds the value and ends the run
 *
 * A step's state is data on the device. A kernel computes it from the previous step's state, so the host never waits
 * to decide; every rank computes the same state from the same global norm. */
#pragma once
#include "host_device.h"

#include <math.h>

/* The state of one step. All doubles, so that arrays of it can be copied as doubles. */
typedef struct {
  double scale;          /* factor of the loss's gradient */
  double window;         /* good steps until the scale doubles; 0: constant, and no step is skipped */
  double n_good;         /* steps in a row made with this scale */
  double n_skipped;      /* earlier steps that were skipped */
  double power1, power2; /* β₁ᵗ, β₂ᵗ of Adam: t counts the steps made, including this one */
} LossScale;

/* Whether a step with Σ g² = `norm_squared` is skipped. If the sum is not finite and the step is not skipped, the run
 * must end. */
HOST_DEVICE int loss_scale_skips(const LossScale *step, double norm_squared) {
  return !isfinite(norm_squared) && step->window > 0 && step->scale > 1;
}

HOST_DEVICE LossScale loss_scale_next(const LossScale *step, double norm_squared, double beta1, double beta2) {
  LossScale next = *step;
  if (loss_scale_skips(step, norm_squared)) {
    next.scale = step->scale > 2 ? step->scale / 2 : 1;
    next.n_good = 0;
    next.n_skipped = step->n_skipped + 1;
    return next;
  }
  next.power1 = step->power1 * beta1;
  next.power2 = step->power2 * beta2;
  next.n_good = step->n_good + 1;
  if (step->window > 0 && next.n_good >= step->window) {
    next.scale = step->scale < 0x1p126 ? step->scale * 2 : step->scale; /* a float can hold it and its inverse */
    next.n_good = 0;
  }
  return next;
}
