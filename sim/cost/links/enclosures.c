/*     ┌ pod (tier) ─────────────────────────────────┐
 *     │ ┌ domain ───────┐ ┌ domain ───────┐         │      boundary of    members in it    bandwidth out of it
 *     │ │ GPU GPU … GPU │ │ GPU GPU … GPU │   …     │ →    GPU            1                scale-up rate
 *     │ └───────────────┘ └───────────────┘         │      domain         m                m · NIC share
 *     └─────────────────────────────────────────────┘      pod            M                M · NIC share / x
 *
 * with x the tier's oversubscription. A fabric whose first tier is oversubscribed above described leaves has their
 * groups as enclosures between domain and pod (cluster_level): who stays in a group does not use the thin uplinks.
 * Without leaves they begin at the domain.
 *
 * The NIC share of a member is its node's NICs divided by its node's GPUs: beside this group, the other groups of the
 * same axis use the GPUs that are not its members. A pod of P GPUs has uplinks for P·share/oversubscription, and P/M
 * such groups lie in it, which leaves M·share/oversubscription to each.
 *
 * Scale-up rate and NIC share are what the file states times what the described inside of a node leaves of it
 * (wiring.h), times what faults leave of that (link_health.h). */
#include "enclosures.h"

#include <math.h>

#include "wiring.h"

LinkKind scale_up_link(const Cluster *cluster) {
  return cluster->scale_up == SCALE_UP_PCIE ? LINK_PCIE : LINK_NVLINK;
}

double scale_up_Bps(const Cluster *cluster) {
  return cluster->scale_up_Bps * cluster->scale_up_efficiency *
         (cluster->health != NULL ? cluster->health->scale_up : 1);
}

double group_scale_up_Bps(const Cluster *cluster, const GroupShape *shape, gboolean is_direct) {
  return scale_up_Bps(cluster) * wiring_group_share(cluster->wiring, shape->max_per_domain, shape->gap, is_direct);
}

double send_scale_up_Bps(const Cluster *cluster, int from, int to) {
  return scale_up_Bps(cluster) * wiring_send_share(cluster->wiring, from, to);
}

double nic_Bps(const Cluster *cluster) {
  g_assert(cluster->nics_per_node > 0); /* plan_complete() refuses several domains without NICs */
  return cluster->nic_Bps * cluster->nic_efficiency;
}

double nic_share_Bps(const Cluster *cluster) {
  return nic_Bps(cluster) / cluster->node_egress_gpus;
}

double domain_health(const Cluster *cluster, int members, int gap) {
  if (cluster->health == NULL)
    return 1;
  const int n = cluster->domain_gpus, row = (CLAMP(members, 1, n) - 1) * n;
  return cluster->health->domain[row + (gap >= 1 && gap < n ? gap : 0)];
}

double domain_share(const Cluster *cluster, int members, int gap) {
  return wiring_egress_share(cluster->wiring) * domain_health(cluster, members, gap);
}

double level_health(const Cluster *cluster, int level) {
  return cluster->health != NULL ? cluster->health->levels[level] : 1;
}

int enclosures_find(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, Boundary out[MAX_BOUNDARIES]) {
  int n_out = 0;
  if (shape->max_per_domain > 1)
    out[n_out++] = (Boundary){1, group_scale_up_Bps(cluster, shape, is_direct), 1, scale_up_link(cluster)};
  if (shape->n_domains < 2)
    return n_out;
  double member_Bps = nic_share_Bps(cluster);
  const int n_levels = cluster_n_levels(cluster);
  if (n_levels > 0)
    member_Bps /= cluster_level(cluster, 0).oversubscription;
  const double left = domain_share(cluster, is_direct ? 1 : shape->min_per_domain, shape->gap);
  out[n_out++] =
      (Boundary){shape->min_per_domain, shape->min_per_domain * member_Bps * left, shape->root_per_domain, LINK_NET};
  for (int i = 1; i < n_levels; i++) {
    const LevelShape *below = &shape->levels[i - 1];
    if (below->n_spans < 2)
      break;
    /* uplinks thin out level by level: what level i carries is a part of what level i − 1 does */
    member_Bps /= cluster_level(cluster, i).oversubscription;
    out[n_out++] =
        (Boundary){below->fewest, below->fewest * member_Bps * level_health(cluster, i), below->with_root, LINK_NET};
  }
  return n_out;
}

double least_net_Bps(const Cluster *cluster, const GroupShape *shape) {
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(cluster, shape, FALSE, boundaries);
  double least = INFINITY;
  for (int i = 0; i < n_boundaries; i++)
    if (boundaries[i].link == LINK_NET)
      least = MIN(least, boundaries[i].Bps);
  return least;
}

double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest) {
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(cluster, shape, FALSE, boundaries);
  Boundary least = {1, scale_up_Bps(cluster), 1, scale_up_link(cluster)};
  for (int i = 0; i < n_boundaries; i++)
    if (i == 0 || boundaries[i].Bps < least.Bps)
      least = boundaries[i];
  if (slowest)
    *slowest = least.link;
  return least.Bps;
}
