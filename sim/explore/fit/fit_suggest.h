/* Which runs to do next: of plans like those that ran, the ones after which all of them are known best. */
#pragma once
#include "fit.h"

typedef struct {
  const MeasuredRow *like; /* the run whose model, batch and other fields it has; borrowed */
  int gpus, tp, pp;
  gint64 micro_batch;
  double predicted_s;
  double spread_before, spread_after; /* 80 % of plans are known to within this after it, in ln */
  int tells;                          /* the unknown that it narrows most */
} Suggestion;

/* At most `n`, one after another the best beside those before it, on at most as many GPUs as the runs had. GArray of
 * Suggestion, owned by the caller. */
GArray *fit_suggest(const Fit *fit, int n, int n_threads);
