/* A cluster with several kinds of GPU: every rank computes at the pace of its own GPU, and where ranks meet
 * (collectives, sends, the optimizer's barrier) they wait for the slowest. Such a run is simulated rank by rank. */
#pragma once
#include "cluster.h"
#include "workload.h"

/* Whether all of the plan's GPUs are of the cluster's first kind. */
gboolean mixed_gpus_is_uniform(const Workload *workload, const Cluster *cluster);
/* Multiplies speed[n_ranks of the layout] by each rank's factor: the time its GPU takes for the kernels of a layer,
 * forward and backward, relative to the cluster's first kind. Host launches stay those of the first kind. */
void mixed_gpus_scale(const Workload *workload, const Cluster *cluster, double *speed);
/* The mean over the plan's GPUs. */
double mixed_gpus_peak_flops(const Workload *workload, const Cluster *cluster);
/* The kind among the plan's GPUs that leaves the least memory to the model (borrowed from the cluster), and how much
 * that is. */
const Gpu *mixed_gpus_smallest(const Workload *workload, const Cluster *cluster);
double mixed_gpus_room_bytes(const Workload *workload, const Cluster *cluster);
/* "h100-sxm5-80gb", or "h100-sxm5-80gb and a100-sxm4-80gb (nodes 16 to 31)". Owned by the caller. */
char *mixed_gpus_names(const Workload *workload, const Cluster *cluster);
