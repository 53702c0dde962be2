/* Every algorithm that the operation, the machine and the group allow is tried with every protocol, and the fastest
 * is used, as NCCL's tuner chooses by its own estimate. A machine's fits replace the model, and its measured curves
 * replace both. */
#include "collective_cost.h"

#include <math.h>

#include "fitted_cost.h"
#include "measured_links_cost.h"

static CollectiveCost nothing_yet(Collective collective) {
  return (CollectiveCost){
      .time_s = INFINITY, .algorithm = collective_plain_algorithm(collective), .protocol = PROTOCOL_SIMPLE};
}

/* Lowers cost->time_s to that of the algorithm's fastest protocol, if that is faster. */
static void try_algorithm(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                          Algorithm algorithm, CollectiveCost *cost) {
  for (Protocol p = PROTOCOL_LL; p < N_PROTOCOLS; p++) {
    AlgorithmTime time = collective_algorithm_time(cluster, collective, shape, bytes, algorithm, p);
    double time_s = time.latency_s + time.wire_s;
    if (time_s >= cost->time_s)
      continue;
    cost->time_s = time_s;
    cost->algorithm = algorithm;
    cost->protocol = p;
  }
}

/* The model alone: time, algorithm and protocol. `algorithm` −1: the fastest. */
static CollectiveCost modelled_cost(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                    double bytes, int algorithm) {
  CollectiveCost cost = nothing_yet(collective);
  for (Algorithm a = ALGORITHM_RING; a <= ALGORITHM_DIRECT; a++)
    if ((algorithm < 0 ? collective_algorithm_is_automatic(a) : (int)a == algorithm) &&
        collective_algorithm_exists(cluster, collective, shape, a))
      try_algorithm(cluster, collective, shape, bytes, a, &cost);
  g_assert(isfinite(cost.time_s)); /* the library's data gives every algorithm a protocol */
  const AlgorithmTime time =
      collective_algorithm_time(cluster, collective, shape, bytes, cost.algorithm, cost.protocol);
  cost.time_s += time.fill_s + time.start_s;
  return cost;
}

/* Where the machine's fits apply, they replace the whole model. */
static CollectiveCost estimated_cost(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                     double bytes, int algorithm) {
  FittedTime fitted;
  if (!fitted_collective(cluster, collective, shape, bytes, algorithm, &fitted))
    return modelled_cost(cluster, collective, shape, bytes, algorithm);
  return (CollectiveCost){
      .time_s = fitted.time_s, .algorithm = fitted.algorithm, .protocol = fitted.protocol, .source = COST_INTERPOLATED};
}

static double fastest_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes) {
  return estimated_cost(cluster, collective, shape, bytes, -1).time_s;
}

static CollectiveCost cost_of(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                              int algorithm) {
  g_assert(collective < N_COLLECTIVES && shape->n > 0 && bytes >= 0);
  CollectiveCost cost = nothing_yet(collective);
  cost.time_s = 0;
  if (shape->n > 1) {
    int by = algorithm >= 0 && collective_algorithm_exists(cluster, collective, shape, algorithm) ? algorithm : -1;
    cost = estimated_cost(cluster, collective, shape, bytes, by);
  }
  if (algorithm < 0 && shape->n > 1 && cluster->measured != NULL) {
    CostSource source;
    cost.time_s = measured_collective_s(cluster, collective, shape, bytes, fastest_s, &source);
    cost.source = source != COST_MODELLED ? source : cost.source;
  }
  if (shape->n > 1)
    cost.latency_s =
        MIN(cost.time_s,
            collective_algorithm_time(cluster, collective, shape, bytes, cost.algorithm, cost.protocol).latency_s);
  cost.bus_Bps = collective_bus_Bps(cluster, shape, &cost.link);
  cost.sms = collective_algorithm_sms(cluster, shape, bytes, cost.algorithm, cost.protocol);
  if (cost.time_s > 0) {
    cost.algbw_Bps = bytes / cost.time_s;
    cost.busbw_Bps = cost.algbw_Bps * collective_bus_factor(collective, shape->n);
  }
  return cost;
}

/* Measurements and fits were made on sound links: they are stretched by the ratio that the model gives with and
 * without the faults. */
static CollectiveCost cost_with_faults(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                       double bytes, int algorithm) {
  Cluster sound = *cluster, bare = *cluster;
  sound.health = NULL;
  bare.measured = NULL;
  bare.fitted = NULL;
  CollectiveCost model = cost_of(&bare, collective, shape, bytes, algorithm);
  CollectiveCost cost = cost_of(&sound, collective, shape, bytes, algorithm);
  if (cost.source == COST_MODELLED)
    return model;
  bare.health = NULL;
  const double slow_down = model.time_s / cost_of(&bare, collective, shape, bytes, algorithm).time_s;
  cost.time_s *= slow_down;
  cost.algbw_Bps /= slow_down;
  cost.busbw_Bps /= slow_down;
  cost.bus_Bps = model.bus_Bps;
  cost.link = model.link;
  return cost;
}

CollectiveCost collective_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                               int algorithm) {
  const gboolean has_faults = cluster->health != NULL && shape->n > 1;
  return (has_faults ? cost_with_faults : cost_of)(cluster, collective, shape, bytes, algorithm);
}

/* A send by the model alone; `first_level_s`: over the first level of the fabric alone (on other links the same). */
static double modelled_send_s(const Cluster *cluster, int from, int to, double bytes, double *first_level_s) {
  if (from / cluster->domain_gpus == to / cluster->domain_gpus)
    return *first_level_s = cluster->scale_up_latency_s + bytes / send_scale_up_Bps(cluster, from, to);
  double model_s = 0, left = domain_share(cluster, 1, 0);
  double Bps = nic_Bps(cluster) / MAX(1, cluster->node_egress_gpus);
  const int n_levels = cluster_n_levels(cluster);
  for (int i = 0; i < MAX(n_levels, 1); i++) {
    gint64 span = i > 0 ? cluster_level(cluster, i - 1).span_gpus : cluster->domain_gpus;
    if (n_levels > 0 && from / span != to / span) {
      Bps /= cluster_level(cluster, i).oversubscription;
      left = MIN(left, level_health(cluster, i));
    }
    model_s = cluster->nic_latency_s + bytes / (Bps * left);
    if (i == 0)
      *first_level_s = model_s;
  }
  return model_s;
}

static SendLink link_between(const Cluster *cluster, int from, int to) {
  if (from / cluster->domain_gpus != to / cluster->domain_gpus)
    return SEND_OVER_FABRIC;
  return from / cluster->gpus_per_node == to / cluster->gpus_per_node ? SEND_IN_NODE : SEND_IN_DOMAIN;
}

double send_cost_s(const Cluster *cluster, int from, int to, double bytes) {
  if (from == to)
    return 0;
  const SendLink link = link_between(cluster, from, to);
  double first_level_s, model_s = modelled_send_s(cluster, from, to, bytes, &first_level_s);
  if (cluster->health == NULL)
    return measured_send_s(cluster, link, bytes, model_s, first_level_s);
  Cluster sound = *cluster; /* measurements were made on sound links */
  sound.health = NULL;
  double sound_s = modelled_send_s(&sound, from, to, bytes, &first_level_s);
  return measured_send_s(cluster, link, bytes, sound_s, first_level_s) * (model_s / sound_s);
}
