#include "mixed_gpus.h"

#include "kernel_cost.h"

/* Kernels of one layer and micro-batch; F and B are all there is, whether or not a schedule cuts B in two. */
static double layer_s(const Workload *workload, const Gpu *gpu) {
  static const Phase phases[] = {PHASE_F, PHASE_B};
  double time_s = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(phases); i++) {
    const WorkList *list = &workload->work[PIECE_LAYER][phases[i]];
    for (int k = 0; k < list->n_items; k++)
      if (list->items[k].kind != ITEM_COLLECTIVE)
        time_s += kernel_cost_s(gpu, &list->items[k], NULL);
  }
  return time_s;
}

/* The plan's ranks in a range: [*first, result). */
static int ranks_of(const Workload *workload, const Cluster *cluster, const GpuRange *range, int *first) {
  gint64 n_ranks = workload->layout.n_ranks, per_node = cluster->gpus_per_node;
  *first = (int)MIN(range->first_node * per_node, n_ranks);
  return (int)MIN((range->last_node + 1) * per_node, n_ranks);
}

void mixed_gpus_scale(const Workload *workload, const Cluster *cluster, double *speed) {
  int n_ranges = cluster_other_gpus(cluster, workload->layout.n_ranks);
  double usual_s = n_ranges > 0 ? layer_s(workload, &cluster->gpu) : 0;
  for (int i = 0; i < n_ranges && usual_s > 0; i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    double factor = layer_s(workload, &range->gpu) / usual_s;
    int rank, end = ranks_of(workload, cluster, range, &rank);
    for (; rank < end; rank++)
      speed[rank] *= factor;
  }
}

double mixed_gpus_peak_flops(const Workload *workload, const Cluster *cluster) {
  Number number = precision_info(workload->plan->precision)->linear;
  int n_ranks = workload->layout.n_ranks;
  double excess = 0; /* over all being of the first kind */
  for (int i = 0; i < cluster_other_gpus(cluster, n_ranks); i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    int first, end = ranks_of(workload, cluster, range, &first);
    excess += (end - first) * (range->gpu.peak_flops[number] - cluster->gpu.peak_flops[number]);
  }
  return cluster->gpu.peak_flops[number] + excess / n_ranks;
}

double mixed_gpus_room_bytes(const Workload *workload, const Cluster *cluster) {
  double room_bytes = cluster->gpu.hbm_bytes - cluster->gpu.reserved_bytes;
  for (int i = 0; i < cluster_other_gpus(cluster, workload->layout.n_ranks); i++) {
    const Gpu *gpu = &g_array_index(cluster->other_gpus, GpuRange, i).gpu;
    room_bytes = MIN(room_bytes, gpu->hbm_bytes - gpu->reserved_bytes);
  }
  return room_bytes;
}

char *mixed_gpus_names(const Workload *workload, const Cluster *cluster) {
  GString *names = g_string_new(cluster->gpu.name);
  for (int i = 0; i < cluster_other_gpus(cluster, workload->layout.n_ranks); i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    g_string_append_printf(names, " and %s (nodes %d to %d)", range->gpu.name, range->first_node, range->last_node);
  }
  return g_string_free(names, FALSE);
}
