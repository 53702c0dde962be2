/* ZeRO's shards over part of the ranks: smaller groups gather and sum over nearer links, and hold more.
 *
 *     2 GPUs │ 4 │ … │ one node's │ two nodes' │ 4 nodes' │ … │ all     shards span so many, replicas stand beside
 *                                                                     each other
 *
 * A plan of a search stands for all of these: the bound of its step (plan_bound.h) holds for each, as it counts neither
 * gradients nor gathers, and what does not fit with shards over all ranks does not with larger ones. */
#pragma once
#include "planner.h"

/* The best by its score, of those that fit and that the request's framework can run, of `whole` (taken; with shards
 * over all ranks) and the same with shards over fewer; owned by the caller. `whole` itself where the request does not
 * seek others, under ZeRO-0 to 2, and where its score would not be below `most` if its ranks waited for nothing of data
 * parallelism, which is all that is taken to be won. A domain of GPUs wider than a node counts
 * as one, where whole nodes of it divide the job; of a node's, or its, GPUs the halves, quarters … are tried. */
PlanOutcome *plan_shards_best(const PlannerRequest *request, ScratchPool *scratches, PlanOutcome *whole, double most);
