/* ZeRO shards over part of the ranks: smaller groups gather and reduce over nearer links, and hold more per GPU.
 *
 *     2 GPUs │ 4 │ … │ one node's │ two nodes' │ 4 nodes' │ … │ all     shards span so many, replicas stand beside
 *                                                                     each other
 *
 * One plan of a search represents all of these: its step-time bound (plan_bound.h) holds for each, since it counts
 * neither gradients nor gathers, and a plan that does not fit with shards over all ranks does not fit with larger
 * shards either. */
#pragma once
#include "planner.h"

/* The best by score of `whole` (taken over; shards over all ranks) and its variants with shards over fewer ranks,
 * among those that fit and that the request's framework can run; owned by the caller. `whole` itself is returned if
 * the request does not ask for variants, under ZeRO-0 to 2, and if its score would not be below `most` even if its
 * ranks never waited for data parallelism, which is all that can be gained. A scale-up domain larger than a node
 * counts as a node if whole domains divide the job; halves, quarters … of a node's or domain's GPUs are tried. */
PlanOutcome *plan_shards_best(const PlannerRequest *request, PlanOutcome *whole, double most);
