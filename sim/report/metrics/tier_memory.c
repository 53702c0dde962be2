/* Each pipeline rank is examined once: state from the workload, the largest copies from the Program, activations by
 * walking its records' copies out and in by time. Then every rank of the plan adds its pipeline rank's amounts to
 * its node. */
#include "tier_memory.h"

#include <string.h>

typedef struct {
  double held[N_TIERS][N_MEMORY];
} RankTiers;

/* Chunks of what passes through host memory, each of the largest size. */
static int chunks_passing(ActionKind action) {
  switch (action) {
  case ACTION_STATE_READ: /* one on its way in, one that is updated, one on its way out */
    return 3;
  case ACTION_WEIGHTS_BACK:
  case ACTION_WEIGHTS_STORE:
    return 2;
  default:
    return 0;
  }
}

static guint route_of(const Program *program, const Op *op) {
  if (op->kind != OP_COLLECTIVE)
    return 0;
  const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
  return g_array_index(program->groups, Group, transfer->group).route & ROUTES_OF_HOST;
}

static double buffer_bytes(const Program *program, const OpList *list) {
  double largest[N_ACTIONS] = {0}, crossing[N_ACTIONS] = {0}, sum = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    const guint route = route_of(program, op);
    if (route == 0)
      continue;
    const double bytes = g_array_index(program->transfers, Transfer, op->work).bytes;
    largest[op->action] = MAX(largest[op->action], bytes);
    if ((route & (ROUTE_LINK_IN | ROUTE_LINK_OUT)) && (route & (ROUTE_NVME_READ | ROUTE_NVME_WRITE)))
      crossing[op->action] = MAX(crossing[op->action], bytes); /* between GPU and drives, with two buffers */
  }
  for (int action = 0; action < N_ACTIONS; action++)
    sum += chunks_passing((ActionKind)action) * largest[action] + 2 * crossing[action];
  return sum;
}

/* Peak activation bytes of a recorded rank that are offloaded at once: from the start of the copy out to the end of
 * the copy back. */
static double most_out(const Trace *trace, int rank) {
  const OpList *list = trace_list(trace, rank);
  const gint64 *start_ns = trace->start_ns + trace->first[rank], *end_ns = trace->end_ns + trace->first[rank];
  double held = 0, most = 0;
  int back = 0; /* the next copy in that may have ended; both streams are in order */
  for (int out = 0; out < list->n_ops; out++) {
    const Op *op = &list->ops[out];
    if (op->action != ACTION_SAVED_OUT || end_ns[out] < 0)
      continue;
    for (; back < list->n_ops; back++) {
      if (list->ops[back].action != ACTION_SAVED_IN)
        continue;
      if (end_ns[back] < 0 || end_ns[back] > start_ns[out])
        break;
      held -= g_array_index(trace->program->transfers, Transfer, list->ops[back].work).bytes;
    }
    held += g_array_index(trace->program->transfers, Transfer, op->work).bytes;
    most = MAX(most, held);
  }
  return most;
}

static void add_state(const Workload *workload, int stage, RankTiers *rank) {
  StateBytes tiers[N_TIERS];
  workload_stage_tiers(workload, stage, tiers);
  for (int tier = TIER_HOST; tier < N_TIERS; tier++) {
    rank->held[tier][MEMORY_WEIGHTS] += tiers[tier].weights_bytes;
    rank->held[tier][MEMORY_GRADIENTS] += tiers[tier].gradients_bytes;
    rank->held[tier][MEMORY_OPTIMIZER] += tiers[tier].optimizer_bytes;
  }
}

/* [pipeline ranks]; owned by the caller. */
static RankTiers *pipeline_ranks(const Trace *trace, const Workload *workload) {
  const Program *program = trace->program;
  RankTiers *ranks = g_new0(RankTiers, program->n_ranks);
  for (int stage = 0; stage < workload->n_stages; stage++)
    add_state(workload, stage, &ranks[workload->placement->stage_rank[stage]]);
  for (int pp = 0; pp < program->n_ranks; pp++)
    ranks[pp].held[TIER_HOST][MEMORY_BUFFERS] = buffer_bytes(program, &program->ranks[pp]);
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    double *activations = &ranks[trace->pipeline_rank[rank]].held[TIER_HOST][MEMORY_ACTIVATIONS];
    *activations = MAX(*activations, most_out(trace, rank));
  }
  return ranks;
}

static double sum_of(const double held[N_MEMORY]) {
  double sum = 0;
  for (int category = 0; category < N_MEMORY; category++)
    sum += held[category];
  return sum;
}

/* The fullest node's; `nodes`: [n_nodes]. */
static void take_fullest(const RankTiers *nodes, int n_nodes, MemoryTier tier, TierUse *use) {
  for (int node = 0; node < n_nodes; node++) {
    const double bytes = sum_of(nodes[node].held[tier]);
    if (bytes <= use->bytes)
      continue;
    use->bytes = bytes;
    use->node = node;
    memcpy(use->held, nodes[node].held[tier], sizeof use->held);
  }
}

void tier_memory_of(const Trace *trace, const Workload *workload, const Cluster *cluster, TierUse uses[N_TIERS]) {
  const Offload *offload = &workload->method->offload;
  const Layout *layout = &workload->layout;
  const double capacity[N_TIERS] = {[TIER_HOST] = cluster->host_memory_bytes, [TIER_NVME] = cluster->host.nvme_bytes};
  for (int tier = 0; tier < N_TIERS; tier++)
    uses[tier] = (TierUse){.fits = TRUE, .capacity_bytes = capacity[tier]};
  if (!offload_is_any(offload))
    return;
  g_autofree RankTiers *ranks = pipeline_ranks(trace, workload);
  int n_nodes = 0;
  for (int rank = 0; rank < layout->n_ranks; rank++)
    n_nodes = MAX(n_nodes, layout_gpu(layout, rank) / cluster->gpus_per_node + 1);
  g_autofree RankTiers *nodes = g_new0(RankTiers, n_nodes);
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    RankTiers *node = &nodes[layout_gpu(layout, rank) / cluster->gpus_per_node];
    const RankTiers *own = &ranks[layout_coordinates(layout, rank).at[AXIS_PP]];
    for (int tier = TIER_HOST; tier < N_TIERS; tier++)
      for (int category = 0; category < N_MEMORY; category++)
        node->held[tier][category] += own->held[tier][category];
  }
  for (int tier = TIER_HOST; tier < N_TIERS; tier++) {
    TierUse *use = &uses[tier];
    take_fullest(nodes, n_nodes, (MemoryTier)tier, use);
    use->is_used = tier == TIER_HOST || offload_uses(offload, TIER_NVME);
    use->fits = use->bytes <= use->capacity_bytes;
  }
}
