/* A cut through the middle of the cluster goes through half of the links of every level; the level with the least in
 * all is what two halves have between them. */
#include "topology_report.h"

#include <math.h>

/* Links of the level above a NIC, a leaf or a tier's block, all of the level together. */
static int level_of(const Topology *t, const TopologyLink *link) {
  const TopologyVertex *below = &t->vertices[link->a];
  return below->kind == VERTEX_NIC ? 0 : below->kind == VERTEX_LEAF ? 1 : 2 + below->owner;
}

static double bisection_Bps(const Topology *t) {
  double level_Bps[CLUSTER_MAX_TIERS + 3] = {0};
  for (int i = 0; i < t->n_links; i++) {
    const TopologyLink *link = &t->links[i];
    if (link->kind == CABLE_NET)
      level_Bps[level_of(t, link)] += link->Bps * link->factor;
  }
  double least_Bps = INFINITY;
  for (gsize i = 0; i < G_N_ELEMENTS(level_Bps); i++)
    if (level_Bps[i] > 0)
      least_Bps = MIN(least_Bps, level_Bps[i]);
  return isinf(least_Bps) ? 0 : least_Bps / 2;
}

TopologyTotals topology_totals(const Topology *t) {
  const Cluster *cluster = t->cluster;
  double node_net_Bps = cluster->nics_per_node * cluster->nic_Bps;
  return (TopologyTotals){.node_scale_up_Bps = cluster->gpus_per_node * cluster->scale_up_Bps,
                          .node_net_Bps = node_net_Bps,
                          .gpu_net_Bps = node_net_Bps / cluster->gpus_per_node,
                          .bisection_Bps = t->n_nodes > 1 ? bisection_Bps(t) : 0};
}
