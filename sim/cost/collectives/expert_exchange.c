#include "expert_exchange.h"

static double exchange_latency_s(const Cluster *cluster, const GroupShape *shape) {
  const CollectiveLibrary *library = &cluster->collectives;
  double latency_s = library->base_s[ALGORITHM_RING][PROTOCOL_SIMPLE];
  if (shape->max_per_domain > 1)
    latency_s += library->hop_s[scale_up_link(cluster)][ALGORITHM_RING][PROTOCOL_SIMPLE];
  if (shape->n_domains > 1)
    latency_s += MAX(library->hop_s[LINK_NET][ALGORITHM_RING][PROTOCOL_SIMPLE], cluster->nic_step_s);
  return latency_s;
}

/* The share of S that each member puts through its part of a boundary. */
static double share_through(const ModelExperts *experts, const GroupShape *shape, const Boundary *boundary) {
  const double n = shape->n, in_domain = shape->min_per_domain;
  if (boundary->link != LINK_NET)
    return (shape->max_per_domain - 1.0) / shape->max_per_domain;
  const double once = model_expert_places(experts, shape->n_domains) / model_expert_places(experts, shape->n);
  return once * (n - MAX(boundary->members, in_domain)) / n;
}

CollectiveCost expert_exchange_cost(const Cluster *cluster, const ModelExperts *experts, const GroupShape *shape,
                                    double bytes) {
  CollectiveCost cost = {.algorithm = ALGORITHM_DIRECT, .protocol = PROTOCOL_SIMPLE, .source = COST_MODELLED};
  if (shape->n < 2)
    return cost;
  Boundary boundaries[MAX_BOUNDARIES];
  const int n_boundaries = enclosures_find(cluster, shape, TRUE, boundaries);
  double longest_s = 0;
  for (int i = 0; i < n_boundaries; i++) {
    const double member_Bps = boundaries[i].Bps / boundaries[i].members;
    const double wire_s = bytes * share_through(experts, shape, &boundaries[i]) / member_Bps;
    if (wire_s > longest_s || i == 0) {
      longest_s = wire_s;
      cost.link = boundaries[i].link;
      cost.bus_Bps = member_Bps;
    }
  }
  cost.latency_s = exchange_latency_s(cluster, shape);
  cost.time_s = cost.latency_s + longest_s;
  cost.algbw_Bps = bytes / cost.time_s;
  cost.busbw_Bps = cost.algbw_Bps * collective_bus_factor(COLLECTIVE_ALL_TO_ALL, shape->n);
  return cost;
}
