#include "far_gathers.h"

gint64 far_gathers_span(const Plan *plan, gint64 ranks) {
  const gint64 sizes[N_AXES] = {
      [AXIS_TP] = plan->tp, [AXIS_CP] = plan->cp, [AXIS_EP] = 1, [AXIS_DP] = 1, [AXIS_PP] = plan->pp};
  gint64 gpus = ranks / plan->cp;
  for (int i = 0; i < N_AXES && plan->order[i] != AXIS_DP; i++)
    gpus *= sizes[plan->order[i]];
  return gpus;
}

/* The most ranks up to those compared that a set of shards of this plan may span, on whole nodes; 0: none. */
static int fewer_ranks(const Plan *plan, int gpus_per_node) {
  Plan tried = *plan; /* borrows what the plan owns */
  for (tried.zero_ranks = GATHERING_RANKS_COMPARED; tried.zero_ranks > 1; tried.zero_ranks--)
    if (plan_data_ranks(plan) % tried.zero_ranks == 0 && tried.zero_ranks % plan->cp == 0 &&
        far_gathers_span(plan, tried.zero_ranks) % gpus_per_node == 0 && plan_check_experts(&tried, NULL, NULL))
      return tried.zero_ranks;
  return 0;
}

char *far_gathers_warning(const Plan *plan, int gpus_per_node) {
  if (!zero_shards_weights(plan->zero) || plan->zero_ranks <= GATHERING_RANKS_COMPARED)
    return NULL;
  int fewer = fewer_ranks(plan, MAX(gpus_per_node, 1));
  const gboolean is_whole_nodes = fewer > 0 && gpus_per_node > 1;
  fewer = fewer > 0 ? fewer : fewer_ranks(plan, 1);
  g_autofree char *advice =
      fewer > 0 ? g_strdup_printf("; --zero-ranks %d keeps gathers within as many%s, if larger shards fit in memory",
                                  fewer, is_whole_nodes ? ", on whole nodes" : "")
                : g_strdup("");
  return g_strdup_printf(
      "%d ranks gather each layer's weights (ZeRO-3), more than the %d of any published run compared "
      "here: from 128 to 2,048 H100 one lost 37 %% a GPU, most of which is not predicted (arXiv "
      "2411.13055)%s",
      plan->zero_ranks, GATHERING_RANKS_COMPARED, advice);
}
