#include "far_gathers.h"

/* The most ranks up to those compared that a set of shards of this plan may span, 1 if no more than one. */
static int fewer_ranks(const Plan *plan) {
  Plan tried = *plan; /* borrows what the plan owns */
  for (tried.zero_ranks = GATHERING_RANKS_COMPARED; tried.zero_ranks > 1; tried.zero_ranks--)
    if (plan_data_ranks(plan) % tried.zero_ranks == 0 && tried.zero_ranks % plan->cp == 0 &&
        plan_check_experts(&tried, NULL, NULL))
      break;
  return tried.zero_ranks;
}

char *far_gathers_warning(const Plan *plan) {
  if (plan->zero < 3 || plan->zero_ranks <= GATHERING_RANKS_COMPARED)
    return NULL;
  const int fewer = fewer_ranks(plan);
  g_autofree char *advice =
      fewer > 1
          ? g_strdup_printf("; --zero-ranks %d keeps gathers within as many, if larger shards fit in memory", fewer)
          : g_strdup("");
  return g_strdup_printf(
      "%d ranks gather each layer's weights (ZeRO-3), more than the %d of any published run compared "
      "here: from 128 to 2,048 H100 one lost 37 %% a GPU, most of which is not predicted (arXiv "
      "2411.13055)%s",
      plan->zero_ranks, GATHERING_RANKS_COMPARED, advice);
}
