/* A file has a few tens of curves, so the nearest is found by scanning all. A curve's group is a shape on the machine
 * like any other, which the model can cost. */
#include "measured_links_cost.h"

#include <math.h>

#include "curve.h"

G_STATIC_ASSERT((int)N_COLLECTIVES == (int)N_MEASURED_OPS);

static const double node_share_in_domain = 1e-3; /* of a distance: the number of nodes only breaks ties between equal
                                                    sizes */

static double last_slope(const CurvePoint *points, int n) {
  const CurvePoint *last = &points[n - 1];
  if (n == 1)
    return last->time_s / last->size_bytes;
  const CurvePoint *before = last - 1;
  return MAX(last->time_s - before->time_s, 0) / (last->size_bytes - before->size_bytes); /* times may fall with size
                                                                                             because of noise */
}

static double link_curve_s(const CurvePoint *points, int n, double bytes) {
  const CurvePoint *last = &points[n - 1];
  if (bytes <= points[0].size_bytes)
    return points[0].time_s;
  if (bytes > last->size_bytes)
    return last->time_s + (bytes - last->size_bytes) * last_slope(points, n);
  return curve_between_s(points, n, bytes);
}

static int ceil_div(int value, int by) {
  return (value + by - 1) / by;
}

/* For consecutive nodes, all equally full but the last. */
static LevelShape consecutive_in(gint64 span_nodes, const GroupShape *shape) {
  LevelShape level = {.n_spans = (int)((shape->n_nodes + span_nodes - 1) / span_nodes)};
  gint64 full = span_nodes * shape->max_per_node;
  level.fewest = (int)CLAMP(shape->n - (level.n_spans - 1) * full, 1, full);
  level.with_root = (int)MIN(shape->n, full);
  return level;
}

GroupShape measured_group_shape(const Cluster *cluster, int gpus, int nodes) {
  int per_node = ceil_div(gpus, nodes);
  int nodes_per_domain = cluster->domain_gpus / cluster->gpus_per_node;
  GroupShape shape = {.n = gpus, .n_nodes = nodes, .max_per_node = per_node};
  shape.n_domains = ceil_div(nodes, nodes_per_domain);
  shape.max_per_domain = (int)MIN((gint64)per_node * nodes_per_domain, gpus);
  shape.root_per_domain = shape.max_per_domain;
  shape.min_per_domain = (int)MAX(gpus - (gint64)(shape.n_domains - 1) * shape.max_per_domain, 1);
  shape.gap = shape.max_per_domain > 1 ? 1 : 0;
  shape.span = (gint64)(nodes - 1) * cluster->gpus_per_node + per_node;
  for (int i = 0; i + 1 < cluster_n_levels(cluster); i++)
    shape.levels[i] = consecutive_in(MAX(cluster_level(cluster, i).span_gpus / cluster->gpus_per_node, 1), &shape);
  return shape;
}

/* In octaves; infinite when one stays inside a domain and the other does not. */
static double distance_of(const GroupShape *wanted, double log2_gpus, double log2_nodes, double other_log2_gpus,
                          double other_log2_nodes, const GroupShape *shape) {
  if ((wanted->n_domains == 1) != (shape->n_domains == 1))
    return INFINITY;
  double share = wanted->n_domains == 1 ? node_share_in_domain : 1;
  return fabs(log2_gpus - other_log2_gpus) + share * fabs(log2_nodes - other_log2_nodes);
}

double measured_group_distance(const GroupShape *wanted, const GroupShape *group) {
  return distance_of(wanted, log2(wanted->n), log2(wanted->n_nodes), log2(group->n), log2(group->n_nodes), group);
}

/* NULL: none. The smallest of equally near ones. */
static const MeasuredCollective *nearest_collective(const Cluster *cluster, Collective collective,
                                                    const GroupShape *wanted) {
  const MeasuredLinks *measured = cluster->measured;
  double log2_gpus = log2(wanted->n), log2_nodes = log2(wanted->n_nodes), least = INFINITY;
  const MeasuredCollective *nearest = NULL;
  for (int i = 0; i < measured->n_collectives; i++) {
    const MeasuredCollective *curve = &measured->collectives[i];
    if (curve->op != (int)collective)
      continue;
    GroupShape shape = measured_group_shape(cluster, curve->gpus, curve->nodes);
    double distance = distance_of(wanted, log2_gpus, log2_nodes, curve->log2_gpus, curve->log2_nodes, &shape);
    if (distance >= least)
      continue;
    nearest = curve;
    least = distance;
  }
  return nearest;
}

double measured_collective_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                             CollectiveModel model, CostSource *source) {
  const MeasuredCollective *curve = cluster->measured != NULL ? nearest_collective(cluster, collective, shape) : NULL;
  *source = COST_MODELLED;
  if (curve == NULL)
    return model(cluster, collective, shape, bytes);
  const CurvePoint *points = &cluster->measured->points[curve->span.first_point];
  double measured_s = link_curve_s(points, curve->span.n_points, bytes);
  *source = COST_MEASURED;
  if (curve->gpus == shape->n && (curve->nodes == shape->n_nodes || shape->n_domains == 1))
    return measured_s;
  *source = COST_INTERPOLATED;
  GroupShape measured_shape = measured_group_shape(cluster, curve->gpus, curve->nodes);
  double measured_model_s = model(cluster, collective, &measured_shape, bytes);
  if (measured_model_s <= 0) /* no bytes, and a library without latency: no ratio */
    return measured_s;
  return model(cluster, collective, shape, bytes) * (measured_s / measured_model_s);
}

/* 0 points: neither that link nor the similar one was measured. */
static CurveSpan send_curve(const MeasuredLinks *measured, SendLink link) {
  static const SendLink alike[N_SEND_LINKS] = {
      [SEND_IN_NODE] = SEND_IN_DOMAIN, [SEND_IN_DOMAIN] = SEND_IN_NODE, [SEND_OVER_FABRIC] = SEND_OVER_FABRIC};
  return measured->sends[measured->sends[link].n_points > 0 ? link : alike[link]];
}

double measured_send_s(const Cluster *cluster, SendLink link, double bytes, double model_s, double first_level_s) {
  if (cluster->measured == NULL)
    return model_s;
  CurveSpan span = send_curve(cluster->measured, link);
  if (span.n_points == 0)
    return model_s;
  double curve_s = link_curve_s(&cluster->measured->send_points[span.first_point], span.n_points, bytes);
  return model_s == first_level_s ? curve_s : curve_s * model_s / first_level_s;
}
