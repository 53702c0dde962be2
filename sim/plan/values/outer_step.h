/* Local SGD and DiLoCo: dp is split into islands (Settings.islands), each of which trains on its own, summing gradients
 * inside every step. After local_steps of them the islands' parameters differ; their mean difference from where all
 * began is the outer gradient, and an outer optimizer takes a step along it:
 *
 *     outer gradient   Δ = mean over islands of (anchor − parameters)
 *     momentum         m = momentum · m + Δ
 *     anchor           anchor − lr · (Δ + momentum · m)          Nesterov; mean: anchor − Δ, the islands' mean
 *
 * and every island goes on from the new anchor. With fragments each part of the parameters has its turn, local_steps
 * / fragments after the one before it, and what a sum brings may be applied some steps after it began, beside which the
 * sum runs: the parameters then become the mean of the anchor and their own values (Streaming DiLoCo's α = 1/2).
 *
 *     nesterov+lr=0.7+momentum=0.9      arXiv 2311.08105 (DiLoCo), its values
 *     mean                              arXiv 1805.09767 (local SGD)
 *     nesterov+bytes=0.5+fragments=3+delay=1     arXiv 2501.18512 (Streaming DiLoCo): 4 bits, overlapped */
#pragma once
#include <glib.h>

enum { MOST_FRAGMENTS = 1 << 16 };

typedef struct {
  gboolean has_momentum; /* nesterov; else mean */
  double lr, momentum;   /* nesterov's; mean: 1 and 0 */
  double bytes;          /* of a parameter's difference, as it is sent */
  int fragments;         /* that take turns */
  int delay;             /* steps from the begin of a sum until it is applied; 0: nothing runs beside it */
} OuterStep;

/* Anchor and momentum, in fp32: bytes per parameter of a rank's part. */
static inline double outer_step_state_bytes(const OuterStep *outer) {
  return outer->has_momentum ? 8 : 4;
}

/* INPUT. */
gboolean outer_step_parse(const char *what, const char *text, OuterStep *outer, GError **error);
/* Static. */
const char *outer_step_text(const OuterStep *outer);
