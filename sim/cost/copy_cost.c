#include "copy_cost.h"

#include <math.h>

int copy_cost_sharing(const Layout *layout, const Cluster *cluster) {
  const int per_node = cluster->gpus_per_node;
  if (layout->gpu_of_rank == NULL)
    return MIN(layout->n_ranks, per_node);
  g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
  int most = 0;
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    gpointer node = GINT_TO_POINTER(layout_gpu(layout, rank) / per_node);
    const int n = GPOINTER_TO_INT(g_hash_table_lookup(counts, node)) + 1;
    g_hash_table_insert(counts, node, GINT_TO_POINTER(n));
    most = MAX(most, n);
  }
  return most;
}

static double copy_Bps(const Cluster *cluster, int n_sharing, guint route) {
  const Host *host = &cluster->host;
  double least_Bps = host->memory_Bps / n_sharing;
  if (route & (ROUTE_LINK_IN | ROUTE_LINK_OUT))
    least_Bps = MIN(least_Bps, host_link_Bps(host, &cluster->node, n_sharing));
  if (route & ROUTE_NVME_READ)
    least_Bps = MIN(least_Bps, host->nvme_read_Bps / n_sharing);
  if (route & ROUTE_NVME_WRITE)
    least_Bps = MIN(least_Bps, host->nvme_write_Bps / n_sharing);
  return least_Bps;
}

double copy_cost_s(const Cluster *cluster, int n_sharing, guint route, double bytes) {
  return bytes / copy_Bps(cluster, n_sharing, route);
}

/* tp's first rank, of the first and the last stage. */
static gboolean has_readers(const Layout *layout, int rank) {
  const Coordinates at = layout_coordinates(layout, rank);
  return at.at[AXIS_TP] == 0 && (at.at[AXIS_PP] == 0 || at.at[AXIS_PP] == layout->size[AXIS_PP] - 1);
}

double copy_cost_data_Bps(const DataStream *data, const Layout *layout, const Cluster *cluster) {
  if (data->sample_bytes == 0)
    return 0;
  g_autoptr(GHashTable) counts = g_hash_table_new(NULL, NULL);
  int n = 0, most = 0;
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    if (!has_readers(layout, rank))
      continue;
    gpointer node = GINT_TO_POINTER(layout_gpu(layout, rank) / cluster->gpus_per_node);
    const int on_node = GPOINTER_TO_INT(g_hash_table_lookup(counts, node)) + 1;
    g_hash_table_insert(counts, node, GINT_TO_POINTER(on_node));
    most = MAX(most, on_node);
    n++;
  }
  double Bps = (data->storage_Bps > 0 ? data->storage_Bps : cluster->storage.read_Bps) / n;
  if (cluster->storage.node_read_Bps > 0)
    Bps = MIN(Bps, cluster->storage.node_read_Bps / most);
  return data->sample_s > 0 ? MIN(Bps, data->readers * data->sample_bytes / data->sample_s) : Bps;
}

void copy_way_load(const Cluster *cluster, int n_sharing, guint route, WayLoad *load) {
  const double share = copy_Bps(cluster, n_sharing, route) / (cluster->host.memory_Bps / n_sharing);
  load->share[TIMING_HOST_WAY] = (guint16)CLAMP(lround(share * TIMING_WHOLE_WAY), 1, TIMING_WHOLE_WAY);
}

double copy_cost_update_s(const Cluster *cluster, int n_sharing, double bytes) {
  return bytes / (cluster->host.memory_Bps * cluster->host.update_efficiency / n_sharing);
}
