#include "way_load.h"

#include <math.h>
#include <string.h>

G_STATIC_ASSERT((int)TIMING_HOST_WAY > (int)CLUSTER_MAX_LEVELS); /* the ways below it are links */

/* A link in use has a share of at least 1. */
static guint16 whole_share(double share) {
  return (guint16)CLAMP(lround(share * TIMING_WHOLE_WAY), 1, TIMING_WHOLE_WAY);
}

void collective_way_load(const Cluster *cluster, const GroupShape *shape, gboolean is_direct, WayLoad *load) {
  memset(load->share, 0, sizeof load->share);
  if (shape->n < 2)
    return;
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(cluster, shape, is_direct, boundaries), net_way = 1;
  double least_Bps = collective_bus_Bps(cluster, shape, NULL);
  for (int i = 0; i < n_boundaries; i++) {
    int way = boundaries[i].link == LINK_NET ? net_way++ : 0;
    load->share[way] = whole_share(is_direct ? 1 : least_Bps / boundaries[i].Bps);
  }
}

double send_way_load(const Cluster *cluster, int from, int to, WayLoad *load) {
  memset(load->share, 0, sizeof load->share);
  if (from == to)
    return 0;
  if (from / cluster->domain_gpus == to / cluster->domain_gpus) {
    load->share[0] = TIMING_WHOLE_WAY;
    return cluster->scale_up_latency_s;
  }
  /* the narrowest level crossed sets the rate */
  const int n_levels = cluster_n_levels(cluster);
  int n_ways = 1;
  for (; n_ways < n_levels; n_ways++) {
    const gint64 span = cluster_level(cluster, n_ways - 1).span_gpus;
    if (from / span == to / span)
      break;
  }
  double share = 1;
  for (int way = n_ways; way >= 1; way--) {
    load->share[way] = whole_share(share);
    share /= way > 1 ? cluster_level(cluster, way - 1).oversubscription : 1;
  }
  return cluster->nic_latency_s;
}
