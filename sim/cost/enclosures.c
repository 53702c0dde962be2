/*     ┌ pod (tier) ─────────────────────────────────┐
 *     │ ┌ domain ───────┐ ┌ domain ───────┐         │      boundary of    members in it    bandwidth out of it
 *     │ │ GPU GPU … GPU │ │ GPU GPU … GPU │   …     │ →    GPU            1                scale-up rate
 *     │ └───────────────┘ └───────────────┘         │      domain         m                m · NIC share
 *     └─────────────────────────────────────────────┘      pod            M                M · NIC share /
 * oversubscription
 *
 * The NIC share of a member is its node's NICs divided by its node's GPUs: beside this group, the other groups of the
 * same axis use the GPUs that are not its members. A pod of P GPUs has uplinks for P·share/oversubscription, and P/M
 * such groups lie in it, which leaves M·share/oversubscription to each. */
#include "enclosures.h"

#include <math.h>

LinkKind scale_up_link(const Cluster *cluster) {
  return cluster->scale_up == SCALE_UP_PCIE ? LINK_PCIE : LINK_NVLINK;
}

double scale_up_Bps(const Cluster *cluster) {
  return cluster->scale_up_Bps * cluster->scale_up_efficiency *
         (cluster->health != NULL ? cluster->health->scale_up : 1);
}

double nic_Bps(const Cluster *cluster) {
  g_assert(cluster->nics_per_node > 0); /* plan_complete() refuses several domains without NICs */
  return cluster->nic_Bps * cluster->nic_efficiency;
}

double nic_share_Bps(const Cluster *cluster) {
  return nic_Bps(cluster) / cluster->node_egress_gpus;
}

double domain_health(const Cluster *cluster, int members) {
  return cluster->health != NULL ? cluster->health->domain[CLAMP(members, 1, cluster->domain_gpus) - 1] : 1;
}

double tier_health(const Cluster *cluster, int tier) {
  return cluster->health != NULL ? cluster->health->tiers[tier] : 1;
}

int enclosures_find(const Cluster *cluster, const GroupShape *shape, Boundary out[MAX_BOUNDARIES]) {
  int n_out = 0;
  if (shape->max_per_domain > 1)
    out[n_out++] = (Boundary){1, scale_up_Bps(cluster), scale_up_link(cluster)};
  if (shape->n_domains < 2)
    return n_out;
  double member_Bps = nic_share_Bps(cluster);
  if (cluster->n_tiers > 0)
    member_Bps /= cluster->tiers[0].oversubscription;
  out[n_out++] =
      (Boundary){shape->min_per_domain,
                 shape->min_per_domain * member_Bps * domain_health(cluster, shape->min_per_domain), LINK_NET};
  for (int i = 1; i < cluster->n_tiers; i++) {
    const TierShape *below = &shape->tiers[i - 1];
    if (below->n_spans < 2)
      break;
    /* uplinks thin out tier by tier: what tier i carries is a part of what tier i − 1 does */
    member_Bps /= cluster->tiers[i].oversubscription;
    out[n_out++] = (Boundary){below->fewest, below->fewest * member_Bps * tier_health(cluster, i), LINK_NET};
  }
  return n_out;
}

double least_net_Bps(const Cluster *cluster, const GroupShape *shape) {
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(cluster, shape, boundaries);
  double least = INFINITY;
  for (int i = 0; i < n_boundaries; i++)
    if (boundaries[i].link == LINK_NET)
      least = MIN(least, boundaries[i].Bps);
  return least;
}

double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest) {
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(cluster, shape, boundaries);
  Boundary least = {1, scale_up_Bps(cluster), scale_up_link(cluster)};
  for (int i = 0; i < n_boundaries; i++)
    if (i == 0 || boundaries[i].Bps < least.Bps)
      least = boundaries[i];
  if (slowest)
    *slowest = least.link;
  return least.Bps;
}
