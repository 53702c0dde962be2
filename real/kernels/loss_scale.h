/* Loss scaling: gradients in fp16 underflow below 6e-8, so the loss's gradient is multiplied by a large number and what
 * the optimizer sees is divided by it again (P. Micikevicius et al., arXiv 1710.03740 §3.2). The number finds itself:
 *
 *     Σ g² finite     the step is made; after `window` such steps in a row the scale doubles
 *     not finite      the step is skipped: weights, master copy and moments stay, gradients become 0; the scale halves
 *     … and scale 1   no lower scale can help: nothing is touched, for the host to find the number and end the run
 *
 * The state of a step is data on the device, made from the step's before by a kernel, so that no host waits to decide;
 * every rank makes the same from the same global norm. */
#pragma once
#include <math.h>

/* One step's. All doubles, for arrays of them. */
typedef struct {
  double scale;          /* of the loss's gradient */
  double window;         /* steps until it doubles; 0: it is constant, and no step is skipped */
  double n_good;         /* steps in a row that were made with it */
  double n_skipped;      /* steps before this one that were skipped */
  double power1, power2; /* β₁ᵗ, β₂ᵗ of Adam: t counts steps that were made, this one among them */
} LossScale;

#ifdef __CUDACC__
#define LOSS_SCALE_FUNCTION __host__ __device__ static inline
#else
#define LOSS_SCALE_FUNCTION static inline
#endif

/* Whether a step whose gradients' Σ g² is `norm_squared` is skipped; with a sum that is not finite and no skip the run
 * has to end. */
LOSS_SCALE_FUNCTION int loss_scale_skips(const LossScale *step, double norm_squared) {
  return !isfinite(norm_squared) && step->window > 0 && step->scale > 1;
}

LOSS_SCALE_FUNCTION LossScale loss_scale_next(const LossScale *step, double norm_squared, double beta1, double beta2) {
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
    next.scale = step->scale < 0x1p126 ? step->scale * 2 : step->scale; /* a float holds it and its inverse */
    next.n_good = 0;
  }
  return next;
}
