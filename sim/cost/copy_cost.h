/* The time of a rank's copies to and from its node's memory and drives, and of an Adam step on the node's processors.
 * All of the plan's GPUs on a node do the same at the same time, like the ranks of a folded run, so each gets its
 * part of the PCIe switches above it (host_link_Bps()), of the memory's bandwidth and of the drives. A copy over
 * several of these goes block by block, at the rate of the slowest.
 *
 * Each time is that of a copy alone at the memory. A copy takes a share of the memory (a way of the rank, WayLoad),
 * so that copies out and in slow each other if together they exceed what it carries (on a DGX H100 8 · 2 · 54.8 GB/s,
 * of 614.4). The update is no transfer: it and copies do not slow each other, nor do copies and collectives that use
 * the same PCIe switches. */
#pragma once
#include "layout.h"
#include "program.h"
#include "timing.h"

/* The largest number of the plan's GPUs on one node. */
int copy_cost_sharing(const Layout *layout, const Cluster *cluster);
/* Seconds of a copy along `route` (CopyRoute) while n_sharing GPUs of the node copy as much. The cluster must state
 * the bandwidths on the route (plan_check_offload()). */
double copy_cost_s(const Cluster *cluster, int n_sharing, guint route, double bytes);
/* What the same copy takes of its GPU's part of the memory while it is alone there. */
void copy_way_load(const Cluster *cluster, int n_sharing, guint route, WayLoad *load);
/* Bytes per second that readers bring to each rank that needs data, where most of these are on one node; 0: data is
 * always there. Storage is divided evenly, and so is what it gives a node. */
double copy_cost_data_Bps(const DataStream *data, const Layout *layout, const Cluster *cluster);
/* Seconds in which the processors read and write `bytes` of model state for one of n_sharing GPUs. */
double copy_cost_update_s(const Cluster *cluster, int n_sharing, double bytes);
