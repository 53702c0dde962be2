/* ZeRO-3 over part of the ranks.
 *
 *     2 GPUs │ 4 │ … │ one node's │ two nodes' │ 4 nodes' │ … │ all     shards span so many, replicas stand beside
 *                                                                     each other
 *
 * Smaller groups gather and reduce over nearer links, and hold more per GPU. One plan of a search, with shards over all
 * ranks, represents all of these: one that does not fit does not fit with larger shards either. */
#pragma once
#include "cluster.h"
#include "plan.h"

/* The zero-ranks to try for a completed plan besides all of them, ascending: GArray of int. A scale-up domain larger
 * than a node counts as a node if whole domains divide the job; halves, quarters … of a node's or domain's GPUs are
 * among them. */
GArray *plan_shards_narrower(const Plan *plan, const Cluster *cluster);
