#include "faster_hardware.h"

/* A part made faster; FALSE: nothing would follow from that. `of_pcie`: its name where GPUs of a node meet over PCIe.
 */
typedef struct {
  const char *what, *of_pcie;
  gboolean (*quicken)(Cluster *cluster);
} Part;

static gboolean has_known_links(const Cluster *cluster) {
  return cluster->measured == NULL && cluster->fitted == NULL;
}

static gboolean quicken_nics(Cluster *cluster) {
  cluster->nic_Bps *= FASTER_TIMES;
  return has_known_links(cluster) && cluster->nics_per_node > 0;
}

static gboolean quicken_scale_up(Cluster *cluster) {
  cluster->scale_up_Bps *= FASTER_TIMES;
  return has_known_links(cluster) && cluster->domain_gpus > 1;
}

static gboolean quicken_memory(Cluster *cluster) {
  cluster->gpu.hbm_Bps *= FASTER_TIMES;
  return cluster->gpu.measured == NULL;
}

static gboolean quicken_products(Cluster *cluster) {
  for (int number = 0; number < N_NUMBERS; number++)
    cluster->gpu.peak_flops[number] *= FASTER_TIMES;
  return cluster->gpu.measured == NULL;
}

static const Part parts[] = {
    {"NICs and their slots twice as fast", NULL, quicken_nics},
    {"scale-up links twice as fast", "a node's PCIe twice as fast", quicken_scale_up},
    {"GPU memory twice as fast", NULL, quicken_memory},
    {"matrix units twice as fast", NULL, quicken_products},
};

GArray *faster_hardware_new(const Prediction *prediction, const Plan *plan) {
  GArray *steps = g_array_new(FALSE, FALSE, sizeof(FasterStep));
  const Workload *workload = prediction->workload;
  g_autoptr(Plan) same = plan_copy(plan);
  same->gpus = workload->plan->gpus;
  same->global_batch = workload->plan->global_batch;
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++) {
    g_autoptr(Cluster) cluster = cluster_read(prediction->cluster->file, NULL);
    if (cluster == NULL || !parts[i].quicken(cluster))
      continue;
    g_autoptr(Prediction) faster = predict_numbers(workload->model, cluster, same, NULL);
    if (faster == NULL || faster->step_time_s == prediction->step_time_s)
      continue;
    const gboolean is_pcie = cluster->scale_up == SCALE_UP_PCIE && parts[i].of_pcie != NULL;
    const FasterStep step = {is_pcie ? parts[i].of_pcie : parts[i].what, faster->step_time_s};
    g_array_append_val(steps, step);
  }
  return steps;
}
