#include "far_gathers.h"

char *far_gathers_warning(const Plan *plan) {
  if (plan->zero < 3 || plan->zero_ranks <= GATHERING_RANKS_COMPARED)
    return NULL;
  return g_strdup_printf(
      "%d ranks gather each layer's weights (ZeRO-3), more than the %d of any published run compared "
      "here: from 128 to 2,048 H100 one lost 37 %% a GPU where 2 %% are predicted (arXiv "
      "2411.13055); --zero-ranks 128 keeps gathers within as many",
      plan->zero_ranks, GATHERING_RANKS_COMPARED);
}
