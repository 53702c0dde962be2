/* Every algorithm that the operation, the machine and the group allow is tried with every protocol, and what NCCL's
 * tuner would choose by its own estimate is used. The estimate leaves out part of the times (fill_s, start_s), so the
 * choice may be wrong: 4 A100 gather 2 MiB in 53 us, as Simple is chosen, 8 in 33, by LL
 * (measurements/collectives.csv). It would also make faster links the slower ones: 2 A100 gather 1 MiB by LL in 13 us,
 * and with links twice as fast Simple is chosen, 34 us. That is not followed:
 *
 *     time(B) = least of the times of what is chosen with links of B, B/2, B/4 …, each at that rate
 *
 * so that it falls with B where B is doubled, and nowhere rises without the tuner being wrong there. It differs from
 * the tuner's choice only where that is not the fastest. A machine's fits replace the model, and its measured curves
 * replace both. */
#include "collective_cost.h"

#include <math.h>

#include "fitted_cost.h"
#include "measured_links_cost.h"
#include "wiring.h"

/* Returns the library's estimate of what it chooses. `algorithm` −1: any that it chooses by itself. */
static double choose(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                     int algorithm, CollectiveChoice *choice) {
  double least_s = INFINITY;
  choice->fastest.time_s = INFINITY;
  for (Algorithm a = ALGORITHM_RING; a <= ALGORITHM_DIRECT; a++) {
    if (!(algorithm < 0 ? collective_algorithm_is_automatic(a) : (int)a == algorithm) ||
        !collective_algorithm_exists(cluster, collective, shape, a))
      continue;
    for (Protocol p = PROTOCOL_LL; p < N_PROTOCOLS; p++) {
      const AlgorithmTime time = collective_algorithm_time(cluster, collective, shape, bytes, a, p);
      const double estimate_s = time.latency_s + time.wire_s;
      const CollectiveWay way = {a, p, estimate_s + time.fill_s + time.start_s};
      if (way.time_s < choice->fastest.time_s)
        choice->fastest = way;
      if (estimate_s < least_s) {
        choice->estimated = way;
        least_s = estimate_s;
      }
    }
  }
  g_assert(isfinite(least_s)); /* the library's data gives every algorithm a protocol */
  return least_s;
}

/* What links inside the nodes leave of the NICs stays the same. */
static void halve_nics(Cluster *cluster, NodeWiring *wiring) {
  cluster->nic_Bps /= 2;
  wiring->egress = MIN(2 * wiring->egress, 1);
}

/* The least time with scale-up links and NICs of this cluster's rates, halved any number of times. Slower links never
 * lower an estimate, and no time is below the library's estimate: once that reaches the best time, nothing is gained
 * any more. */
static CollectiveWay least_of_slower(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                     double bytes, int algorithm, CollectiveWay best) {
  enum { MOST_HALVINGS = 64 };
  const int most_inside = shape->max_per_domain > 1 ? MOST_HALVINGS : 1,
            most_between = shape->n_domains > 1 ? MOST_HALVINGS : 1;
  Cluster slower = *cluster;
  for (int i = 0; i < most_inside; i++, slower.scale_up_Bps /= 2) {
    NodeWiring wiring = cluster->wiring != NULL ? *cluster->wiring : (NodeWiring){0};
    slower.wiring = cluster->wiring != NULL ? &wiring : NULL;
    slower.nic_Bps = cluster->nic_Bps;
    for (int j = 0; j < most_between; j++, halve_nics(&slower, &wiring)) {
      CollectiveChoice there;
      if (choose(&slower, collective, shape, bytes, algorithm, &there) >= best.time_s) {
        if (j == 0)
          return best;
        break;
      }
      if (there.estimated.time_s < best.time_s)
        best = there.estimated;
    }
  }
  return best;
}

/* The model alone: time, algorithm and protocol, and what there was to choose from. */
static CollectiveCost modelled_cost(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                    double bytes, int algorithm) {
  CollectiveCost cost = {.source = COST_MODELLED};
  choose(cluster, collective, shape, bytes, algorithm, &cost.choice);
  CollectiveWay way = cost.choice.estimated;
  if (way.time_s > cost.choice.fastest.time_s)
    way = least_of_slower(cluster, collective, shape, bytes, algorithm, way);
  cost.time_s = way.time_s;
  cost.algorithm = way.algorithm;
  cost.protocol = way.protocol;
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
  CollectiveCost cost = {.algorithm = collective_plain_algorithm(collective), .protocol = PROTOCOL_SIMPLE};
  if (shape->n > 1) {
    int by = algorithm >= 0 && collective_algorithm_exists(cluster, collective, shape, algorithm) ? algorithm : -1;
    cost = estimated_cost(cluster, collective, shape, bytes, by);
  }
  if (algorithm < 0 && shape->n > 1 && cluster->measured != NULL) {
    CostSource source;
    cost.time_s = measured_collective_s(cluster, collective, shape, bytes, fastest_s, &source);
    if (source != COST_MODELLED) {
      cost.source = source;
      cost.choice = (CollectiveChoice){0};
    }
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
