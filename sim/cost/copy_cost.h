/* What a rank's copies to and from its node's memory and drives take, and an Adam step on the node's processors. All
 * GPUs that the plan has on a node do the same at the same time, as a folded run's ranks do, so each has its part: of
 * the PCIe switches above it (host_link_Bps()), of the memory's bandwidth, of the drives. A copy over several of them
 * goes block by block, at the rate of the slowest.
 *
 * Each is reckoned as alone at the memory. Copies take a share of it (a way of the rank, WayLoad), so that out and in
 * slow each other where they meet and together pass what it carries (on a DGX H100 8 · 2 · 54.8 GB/s, of 614.4). The
 * update is no transfer: it and copies do not slow each other, nor do copies and collectives that pass the same PCIe
 * switches. */
#pragma once
#include "layout.h"
#include "program.h"
#include "timing.h"

/* Most GPUs of a plan on one node. */
int copy_cost_sharing(const Layout *layout, const Cluster *cluster);
/* Seconds of a copy along `route` (CopyRoute) while so many GPUs of the node copy as much. The cluster states what the
 * route passes (plan_check_offload()). */
double copy_cost_s(const Cluster *cluster, int n_sharing, guint route, double bytes);
/* What the same copy takes of its GPU's part of the memory while it has it to itself. */
void copy_way_load(const Cluster *cluster, int n_sharing, guint route, WayLoad *load);
/* Seconds in which the processors read and write so many bytes of model state for one of n_sharing GPUs. */
double copy_cost_update_s(const Cluster *cluster, int n_sharing, double bytes);
