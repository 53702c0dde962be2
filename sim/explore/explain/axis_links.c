/* A transfer's share of each way out of a GPU (WayLoad, timing.h) shows its route: the way it takes whole sets its
 * rate. Tensor- and context-parallel collectives lie inside pieces of whole programs: their ways are those of their
 * group. */
#include "axis_links.h"

#include "link_use.h"
#include "step_report.h"
#include "way_load.h"

#include <string.h>

static gboolean is_of_axis(const Program *program, const Transfer *transfer, Axis axis) {
  if (transfer->group < 0)
    return axis == AXIS_PP;
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  return group->charge == axis && group->route == 0 &&
         strcmp(group->name, "world") != 0; /* one number, over all axes */
}

static void add_ways(AxisLinks *links, const WayLoad *load) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    if (load->share[way] > 0)
      links->ways |= 1u << way;
    if (load->share[way] == TIMING_WHOLE_WAY)
      links->narrowest = MAX(links->narrowest, way);
  }
}

static void add_transfers(AxisLinks *links, const Prediction *prediction) {
  const Program *program = prediction->program;
  const Timing *timing = prediction->timing;
  for (int i = 0; i < timing->n_transfers && timing->loads != NULL; i++)
    if (is_of_axis(program, &g_array_index(program->transfers, Transfer, i), links->axis))
      add_ways(links, &timing->loads[i]);
}

/* tp and cp. */
static void add_group(AxisLinks *links, const Prediction *prediction) {
  WayLoad load = {0};
  GroupShape shape = layout_group_shape(&prediction->workload->layout, prediction->cluster, AXIS_BIT(links->axis));
  collective_way_load(prediction->cluster, &shape, FALSE, &load);
  add_ways(links, &load);
}

/* Of an op, alone; a send counts where it is sent. */
static gint64 transfer_ns(const Prediction *prediction, const Op *op, Axis axis) {
  const Program *program = prediction->program;
  gint64 latency_ns;
  if (op->kind == OP_COMPUTE)
    return timing_collectives_ns(prediction->timing, &g_array_index(program->works, Work, op->work), axis, &latency_ns);
  if (op->kind != OP_SEND && op->kind != OP_COLLECTIVE)
    return 0;
  const gboolean is_own = is_of_axis(program, &g_array_index(program->transfers, Transfer, op->work), axis);
  return is_own ? prediction->timing->transfers[op->work].run_ns : 0;
}

/* Of the last step. */
static double transfer_s(const Prediction *prediction, Axis axis) {
  const Program *program = prediction->program;
  double sum_ns = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].step == program->n_steps - 1)
        sum_ns += (double)transfer_ns(prediction, &list->ops[i], axis);
  }
  return 1e-9 * sum_ns / program->n_ranks;
}

/* Levels of the fabric divide what the NICs have. */
static double way_Bps(const Cluster *cluster, int way) {
  if (way == 0)
    return cluster->scale_up_Bps;
  double Bps = cluster->nic_Bps * cluster->nics_per_node / cluster->gpus_per_node;
  for (int level = 1; level < way && level < cluster_n_levels(cluster); level++)
    Bps /= cluster_level(cluster, level).oversubscription;
  return Bps;
}

static AxisLinks links_of(const Prediction *prediction, const StepReport *traffic, Axis axis) {
  AxisLinks links = {.axis = axis,
                     .size = layout_group_size(&prediction->workload->layout, AXIS_BIT(axis)),
                     .sent_bytes = traffic->traffic_bytes[axis],
                     .hidden_s = prediction->metrics->hidden_s[axis],
                     .exposed_s = prediction->metrics->exposed_s[axis]};
  add_transfers(&links, prediction);
  gboolean is_inside = axis == AXIS_TP || axis == AXIS_CP || axis == AXIS_EP; /* pieces */
  if (is_inside)
    add_group(&links, prediction);
  links.link_Bps = way_Bps(prediction->cluster, links.narrowest);
  links.transfer_s = transfer_s(prediction, axis);
  return links;
}

GArray *axis_links_new(const Prediction *prediction) {
  GArray *axes = g_array_new(FALSE, FALSE, sizeof(AxisLinks));
  StepReport traffic = {0};
  step_report_set_traffic(&traffic, prediction->program, prediction->workload);
  for (int axis = 0; axis < N_AXES; axis++) {
    if (layout_group_size(&prediction->workload->layout, AXIS_BIT(axis)) == 1)
      continue;
    AxisLinks links = links_of(prediction, &traffic, (Axis)axis);
    g_array_append_val(axes, links);
  }
  return axes;
}

char *axis_links_names(const Cluster *cluster, guint ways) {
  GString *names = g_string_new(NULL);
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    if ((ways & (1u << way)) == 0)
      continue;
    g_autofree char *name = link_use_name(cluster, way);
    gboolean is_last = (ways >> way) == 1;
    g_string_append_printf(names, "%s%s", names->len == 0 ? "" : is_last ? " and " : ", ", name);
  }
  return g_string_free(names, FALSE);
}
