/* Which GPU of the cluster each global rank runs on, if not simply rank r on GPU r. GPUs are numbered node by node:
 * GPU g of node k is number k · gpus_per_node + g.
 *
 * A file takes one of three forms. Empty lines and text after # are ignored; node3 and 3, gpu2 and 2 are the same.
 *
 *     0,8,16,24..27        one line: the GPUs of ranks 0, 1, 2 …, ranges with .. (spaces around commas and dots
 *                          are ignored)
 *
 *     rank,node,gpu        a table with these columns, in any order: one line per rank, in any order
 *     0,node0,0
 *     1,node1,0
 *
 *     node4 slots=8        hosts, as in MPI's hostfiles: the next ranks run on the next free GPUs of that node, one
 *     node2:4              per slot (all free ones if it does not say), or on the listed ones
 *     node2 gpus=6,7 */
#pragma once
#include "cluster.h"

/* Array of int: the GPU of each rank; owned by the caller. NULL with INPUT (file:line) for none of the three forms, a
 * duplicate rank or GPU, a missing rank, a node or GPU that the cluster does not have. */
GArray *rank_map_read(const char *file, const Cluster *cluster, GError **error);
/* IMPOSSIBLE if `map` does not have `gpus` ranks, or joins GPUs without a network between them. `cluster` may be
 * NULL. */
gboolean rank_map_check(const GArray *map, int gpus, const Cluster *cluster, GError **error);
/* One more than the highest GPU of the first `n_ranks` ranks. `map` NULL: rank r is on GPU r. */
gint64 rank_map_extent(const GArray *map, int n_ranks);
