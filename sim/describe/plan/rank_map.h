/* Which GPU of the cluster each global rank is on, where that is not simply rank r on GPU r. GPUs are counted node by
 * node: GPU g of node k is number k · gpus_per_node + g.
 *
 * A file says so in one of three ways. Text after # and empty lines count for nothing; node3 and 3, gpu2 and 2 are the
 * same.
 *
 *     0,8,16,24..27        one line: the GPUs of ranks 0, 1, 2 …, ranges with .. (spaces beside commas and dots count
 *                          for nothing)
 *
 *     rank,node,gpu        a table with these columns, in any order: a line for each rank, in any order
 *     0,node0,0
 *     1,node1,0
 *
 *     node4 slots=8        hosts, as MPI's hostfiles: the next ranks are on the next free GPUs of that node, as many as
 *     node2:4              it has slots (all free ones where it does not say), or on those listed
 *     node2 gpus=6,7 */
#pragma once
#include "cluster.h"

/* Of int: the GPU of each rank; owned by the caller. NULL with INPUT set (file:line): none of the three forms, a rank
 * or a GPU that is there twice, a rank left out, a node or a GPU that the cluster does not have. */
GArray *rank_map_read(const char *file, const Cluster *cluster, GError **error);
/* IMPOSSIBLE when `map` is not of `gpus` ranks, or joins GPUs that have no network between them. `cluster` may be
 * NULL. */
gboolean rank_map_check(const GArray *map, int gpus, const Cluster *cluster, GError **error);
/* One more than the last GPU that `n_ranks` ranks are on. `map` NULL: rank r is on GPU r. */
gint64 rank_map_extent(const GArray *map, int n_ranks);
