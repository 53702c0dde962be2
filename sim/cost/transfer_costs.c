/* Costs of a Program's sends and collectives. A folded run stands for all ranks of a stage, so a transfer takes as
 * long as the worst-placed of them (worst_placement.h). */
#include "costing.h"

#include "copy_cost.h"
#include "expert_exchange.h"
#include "framework_cost.h"
#include "transfer_tax.h"

CollectiveCost costing_collective(const Costing *costing, Axis axis, Collective collective, const GroupShape *group,
                                  double bytes) {
  const Workload *workload = costing->workload;
  if (axis == AXIS_EP && collective == COLLECTIVE_ALL_TO_ALL && workload->method->dispatches_once)
    return expert_exchange_cost(costing->cluster, &workload->model->experts, group, bytes);
  return collective_cost(costing->cluster, collective, group, bytes, -1);
}

/* The all-gather after a send of parts: the receiver waits for it, but the send has left its ways. */
static double parts_gather_s(const Costing *costing) {
  const GroupShape *group = &costing->groups[AXIS_TP];
  if (!costing->workload->method->splits_stage_tensors)
    return 0;
  const double bytes = group->n * costing->workload->boundary_bytes;
  return collective_cost(costing->cluster, COLLECTIVE_ALL_GATHER, group, bytes, -1).time_s;
}

int costing_block_gpus(const Cluster *cluster) {
  for (int i = 0; i < cluster_n_levels(cluster); i++)
    if (cluster_level(cluster, i).span_gpus % cluster->domain_gpus != 0)
      return 1;
  return cluster->domain_gpus;
}

gboolean costing_next_place(const Costing *costing, const Transfer *transfer, SendPlace *place) {
  const Layout *layout = &costing->workload->layout;
  const int stride = layout->stride[AXIS_PP], block = costing->block_gpus;
  while (place->next < costing->ranks->len) {
    const SendPlace last = *place;
    const int rank = g_array_index(costing->ranks, int, place->next++);
    place->from = layout_gpu(layout, rank + transfer->source * stride);
    place->to = layout_gpu(layout, rank + transfer->target * stride);
    if (last.next == 0 || last.from / block == last.to / block || place->from / block != last.from / block ||
        place->to / block != last.to / block)
      return TRUE;
  }
  return FALSE;
}

double costing_send_s(const Costing *costing, const Transfer *transfer, WayLoad *load, double *tax) {
  const double gather_s = parts_gather_s(costing);
  double worst_s = -1;
  for (SendPlace at = {0}; costing_next_place(costing, transfer, &at);) {
    double time_s = send_cost_s(costing->cluster, at.from, at.to, transfer->bytes);
    if (time_s <= worst_s)
      continue;
    worst_s = time_s;
    load->latency_ns = ns_of(MIN(time_s, send_way_load(costing->cluster, at.from, at.to, load)) + gather_s);
    *tax = send_tax(costing->cluster, at.from, at.to);
  }
  return worst_s + gather_s;
}

gboolean costing_is_tp_alone(const Group *group) {
  return !group->spans_pp && group->axes == AXIS_BIT(AXIS_TP);
}

/* For collectives made from lists of tensors: the passes over memory on the data they move. */
static double list_passes_s(const Costing *costing, const Transfer *transfer) {
  if (transfer->n_calls == 0)
    return 0;
  return kernel_cost_memory_s(&costing->gpu, costing->workload->method->time.zero3.memory_passes * transfer->bytes);
}

/* A small cache: whether tp's collectives meet others is decided from the same costs before they are timed. */
static CollectiveCost grouped_cost(const Costing *costing, Axis axis, Collective collective, const GroupShape *shape,
                                   double bytes) {
  enum { MOST_GROUPED = 16 };
  GArray *grouped = costing->grouped;
  for (guint i = grouped->len; i-- > 0;) {
    const GroupCollective *known = &g_array_index(grouped, GroupCollective, i);
    if (known->shape == shape && known->axis == axis && known->collective == collective && known->bytes == bytes)
      return known->cost;
  }
  const GroupCollective found = {shape, axis, collective, bytes,
                                 costing_collective(costing, axis, collective, shape, bytes)};
  if (grouped->len == MOST_GROUPED)
    g_array_set_size(grouped, 0);
  g_array_append_val(grouped, found);
  return found.cost;
}

double costing_collective_s(const Costing *costing, const Program *program, const Transfer *transfer, WayLoad *load,
                            double *tax) {
  const GroupShape *shape = &costing->shapes[transfer->group];
  const Group *group = &g_array_index(program->groups, Group, transfer->group);
  if (group->route != 0) { /* uses no link of another rank; copies of one direction run one after another */
    copy_way_load(costing->cluster, costing->n_sharing, group->route, load);
    return copy_cost_s(costing->cluster, costing->n_sharing, group->route, transfer->bytes);
  }
  const gboolean is_of_experts = transfer->is_item && group->charge == AXIS_EP;
  const Axis axis = is_of_experts || group->axes == AXIS_BIT(AXIS_EP) ? AXIS_EP : N_AXES;
  const int n_calls = MAX(transfer->n_calls, 1);
  CollectiveCost cost = grouped_cost(costing, axis, transfer->collective, shape, transfer->bytes / n_calls);
  if (costing->tp_meets || !costing_is_tp_alone(group))
    collective_way_load(costing->cluster, shape, cost.algorithm == ALGORITHM_DIRECT, load);
  const double time_s = costing_is_tp_alone(group) && transfer->is_item
                            ? framework_collective_s(&costing->workload->method->time, cost.time_s, shape->n)
                            : n_calls * cost.time_s + list_passes_s(costing, transfer);
  load->latency_ns = ns_of(MIN(n_calls * cost.latency_s, time_s));
  *tax = collective_tax(costing->cluster, &cost);
  return time_s;
}

/* A collective that was an item of a piece is issued like one. */
static gint64 transfer_launch_ns(const Costing *costing, const Transfer *transfer) {
  const FrameworkTime *framework = &costing->workload->method->time;
  if (costing->workload->method->cuda_graphs == CUDA_GRAPHS_FULL)
    return 0;
  if (transfer->n_calls > 0)
    return transfer->n_calls *
           (costing->launch_ns + ns_of(framework->zero3.list_entry_s * costing->shapes[transfer->group].n));
  if (transfer->is_item && transfer->piece == PIECE_LAYER && model_has_experts(costing->workload->model) &&
      framework->expert_host.is_stated)
    return ns_of(framework_expert_collective_s(framework, 1e-9 * (double)costing->launch_ns));
  return transfer->is_item && framework->host.is_stated ? ns_of(framework->host.collective_s) : costing->launch_ns;
}

void costing_time_transfers(const Costing *costing, const Program *program, Timing *timing) {
  timing->n_transfers = (int)program->transfers->len;
  timing->transfers = g_new0(OpTime, timing->n_transfers);
  timing->loads = g_new0(WayLoad, timing->n_transfers + 1); /* non-NULL even without transfers: the loads are known */
  g_autofree double *taxes = g_new0(double, timing->n_transfers);
  for (int i = 0; i < timing->n_transfers; i++) {
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, i);
    WayLoad *load = &timing->loads[i];
    double time_s = transfer->group < 0 ? costing_send_s(costing, transfer, load, &taxes[i])
                                        : costing_collective_s(costing, program, transfer, load, &taxes[i]);
    timing->transfers[i] = launched(time_s, transfer_launch_ns(costing, transfer));
  }
  timing->taxes = transfer_tax_is_stated(costing->cluster) ? g_steal_pointer(&taxes) : NULL;
}
