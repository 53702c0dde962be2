#include "mixed_gpus.h"

#include "kernel_cost.h"

/* The kernels of one layer and micro-batch; F and B cover them all, whether or not a schedule splits B. */
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

/* The range of the cluster's other kinds that rank's GPU is in; NULL: it is of the first kind. */
static const GpuRange *range_of(const Workload *workload, const Cluster *cluster, int rank) {
  const int node = layout_gpu(&workload->layout, rank) / cluster->gpus_per_node;
  for (guint i = 0; cluster->other_gpus != NULL && i < cluster->other_gpus->len; i++) {
    const GpuRange *range = &g_array_index(cluster->other_gpus, GpuRange, i);
    if (node >= range->first_node && node <= range->last_node)
      return range;
  }
  return NULL;
}

/* [other kinds of the cluster] the plan's ranks on each; owned by the caller. NULL: there are no other kinds. */
static int *ranks_of_kinds(const Workload *workload, const Cluster *cluster) {
  if (cluster->other_gpus == NULL)
    return NULL;
  int *n_ranks = g_new0(int, cluster->other_gpus->len);
  for (int rank = 0; rank < workload->layout.n_ranks; rank++) {
    const GpuRange *range = range_of(workload, cluster, rank);
    if (range != NULL)
      n_ranks[range - (const GpuRange *)(const void *)cluster->other_gpus->data]++;
  }
  return n_ranks;
}

/* The i-th other kind of the cluster; NULL if the plan has no rank on it. */
static const GpuRange *kind_used(const Cluster *cluster, const int *n_ranks, guint i) {
  return n_ranks[i] > 0 ? &g_array_index(cluster->other_gpus, GpuRange, i) : NULL;
}

static guint n_kinds(const Cluster *cluster) {
  return cluster->other_gpus != NULL ? cluster->other_gpus->len : 0;
}

gboolean mixed_gpus_is_uniform(const Workload *workload, const Cluster *cluster) {
  g_autofree int *n_ranks = ranks_of_kinds(workload, cluster);
  for (guint i = 0; i < n_kinds(cluster); i++)
    if (n_ranks[i] > 0)
      return FALSE;
  return TRUE;
}

void mixed_gpus_scale(const Workload *workload, const Cluster *cluster, double *speed) {
  g_autofree int *n_ranks = ranks_of_kinds(workload, cluster);
  g_autofree double *factors = g_new(double, n_kinds(cluster) + 1);
  const double usual_s = n_kinds(cluster) > 0 ? layer_s(workload, &cluster->gpu) : 0;
  for (guint i = 0; i < n_kinds(cluster); i++) {
    const GpuRange *range = kind_used(cluster, n_ranks, i);
    factors[i] = range != NULL && usual_s > 0 ? layer_s(workload, &range->gpu) / usual_s : 1;
  }
  for (int rank = 0; rank < workload->layout.n_ranks; rank++) {
    const GpuRange *range = range_of(workload, cluster, rank);
    if (range != NULL)
      speed[rank] *= factors[range - (const GpuRange *)(const void *)cluster->other_gpus->data];
  }
}

double mixed_gpus_peak_flops(const Workload *workload, const Cluster *cluster) {
  const Number number = precision_info(workload->method->precision)->linear;
  g_autofree int *n_ranks = ranks_of_kinds(workload, cluster);
  double excess = 0; /* relative to all being of the first kind */
  for (guint i = 0; i < n_kinds(cluster); i++) {
    const GpuRange *range = kind_used(cluster, n_ranks, i);
    if (range != NULL)
      excess += n_ranks[i] * (range->gpu.peak_flops[number] - cluster->gpu.peak_flops[number]);
  }
  return cluster->gpu.peak_flops[number] + excess / workload->layout.n_ranks;
}

const Gpu *mixed_gpus_smallest(const Workload *workload, const Cluster *cluster) {
  const Gpu *smallest = &cluster->gpu;
  g_autofree int *n_ranks = ranks_of_kinds(workload, cluster);
  for (guint i = 0; i < n_kinds(cluster); i++) {
    const GpuRange *range = kind_used(cluster, n_ranks, i);
    if (range != NULL && gpu_room_bytes(&range->gpu) < gpu_room_bytes(smallest))
      smallest = &range->gpu;
  }
  return smallest;
}

double mixed_gpus_room_bytes(const Workload *workload, const Cluster *cluster) {
  return gpu_room_bytes(mixed_gpus_smallest(workload, cluster));
}

char *mixed_gpus_names(const Workload *workload, const Cluster *cluster) {
  GString *names = g_string_new(cluster->gpu.name);
  g_autofree int *n_ranks = ranks_of_kinds(workload, cluster);
  for (guint i = 0; i < n_kinds(cluster); i++) {
    const GpuRange *range = kind_used(cluster, n_ranks, i);
    if (range != NULL)
      g_string_append_printf(names, " and %s (nodes %d to %d)", range->gpu.name, range->first_node, range->last_node);
  }
  return g_string_free(names, FALSE);
}
