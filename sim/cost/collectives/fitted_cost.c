/* A file has a few tens of rows: the nearest group is found by scanning all of them, then its rows are tried in
 * turn. */
#include "fitted_cost.h"

#include <math.h>

#include "measured_links_cost.h"

static Algorithm algorithm_of(const FittedCollective *fit) {
  return fit->algorithm >= 0 ? (Algorithm)fit->algorithm : collective_plain_algorithm((Collective)fit->op);
}

static gboolean serves(const FittedCollective *fit, Collective collective, int algorithm) {
  return fit->op == (int)collective && (algorithm < 0 || (int)algorithm_of(fit) == algorithm);
}

/* NULL: none. The first of equally near ones. */
static const FittedCollective *nearest_fit(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                           int algorithm) {
  const FittedCollective *nearest = NULL;
  double least = INFINITY;
  for (guint i = 0; i < cluster->fitted->collectives->len; i++) {
    const FittedCollective *fit = &g_array_index(cluster->fitted->collectives, FittedCollective, i);
    if (!serves(fit, collective, algorithm))
      continue;
    GroupShape group = measured_group_shape(cluster, fit->gpus, fit->nodes);
    double distance = measured_group_distance(shape, &group);
    if (distance >= least)
      continue;
    least = distance;
    nearest = fit;
  }
  return nearest;
}

static AlgorithmTime modelled(const Cluster *cluster, const FittedCollective *fit, const GroupShape *wanted,
                              const GroupShape *shape, double bytes) {
  Algorithm algorithm = algorithm_of(fit);
  Collective collective = (Collective)fit->op;
  GroupShape group = measured_group_shape(cluster, fit->gpus, fit->nodes);
  gboolean both = collective_algorithm_exists(cluster, collective, wanted, algorithm) &&
                  collective_algorithm_exists(cluster, collective, &group, algorithm);
  Algorithm by = both ? algorithm : collective_plain_algorithm(collective);
  AlgorithmTime time = collective_algorithm_time(cluster, collective, shape, bytes, by, (Protocol)fit->protocol);
  return isfinite(time.wire_s) ? time
                               : collective_algorithm_time(cluster, collective, shape, bytes, by, PROTOCOL_SIMPLE);
}

static double fit_s(const Cluster *cluster, const FittedCollective *fit, const GroupShape *shape, double bytes) {
  double wire_s = bytes * collective_bus_factor((Collective)fit->op, fit->gpus) / fit->busbw_Bps;
  if (fit->gpus == shape->n && (fit->nodes == shape->n_nodes || shape->n_domains == 1))
    return fit->alpha_s + wire_s;
  GroupShape group = measured_group_shape(cluster, fit->gpus, fit->nodes);
  AlgorithmTime there = modelled(cluster, fit, shape, &group, bytes);
  AlgorithmTime here = modelled(cluster, fit, shape, shape, bytes);
  const double here_s = here.latency_s + here.start_s, there_s = there.latency_s + there.start_s;
  const double alpha_s = fit->alpha_s >= there_s ? fit->alpha_s - there_s + here_s : fit->alpha_s * here_s / there_s;
  return alpha_s + (bytes > 0 ? wire_s * (here.wire_s + here.fill_s) / (there.wire_s + there.fill_s) : 0);
}

static gboolean same_group(const FittedCollective *a, const FittedCollective *b) {
  return a->op == b->op && a->gpus == b->gpus && a->nodes == b->nodes;
}

gboolean fitted_collective(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                           int algorithm, FittedTime *fitted) {
  const FittedCollective *nearest = cluster->fitted != NULL ? nearest_fit(cluster, collective, shape, algorithm) : NULL;
  if (nearest == NULL)
    return FALSE;
  fitted->time_s = INFINITY;
  for (guint i = 0; i < cluster->fitted->collectives->len; i++) {
    const FittedCollective *fit = &g_array_index(cluster->fitted->collectives, FittedCollective, i);
    if (!same_group(fit, nearest) || !serves(fit, collective, algorithm))
      continue;
    double time_s = fit_s(cluster, fit, shape, bytes);
    if (time_s < fitted->time_s)
      *fitted = (FittedTime){time_s, algorithm_of(fit), (Protocol)fit->protocol};
  }
  return TRUE;
}
