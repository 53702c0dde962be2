/* Time of an exchange with experts by DeepEP's kernels: a token goes over NICs once to each node that has some of its
 * experts, to the GPU of its own place there, and from that over the node's links to each rank that has; all of it at
 * once, in pieces. With T tokens of r bytes, R and D ranks and nodes that have some of a token's experts
 * (model_expert_places()), S = T·R·r, and n ranks, m in each of N nodes:
 *
 *     α + the longer of  S·(m−1)/m / B_in  and  S·(D/R)·(N−1)/N / B_net
 *
 * B: what a rank has of each; behind the NICs a tier with M ranks inside carries S·(D/R)·(n−M)/n. α: a launch of the
 * library's Simple protocol and a hop of each kind, as there is no measurement of small ones that says otherwise.
 * Sources: DeepEP, csrc/kernels/internode.cu and README.md (2025), whose table of 8 to 64 H800 this meets within a
 * tenth; DeepSeek-V3, arXiv 2412.19437 §3.2.2; HybridEP, the same repository's branch hybrid-ep (2025). */
#pragma once
#include "collective_cost.h"
#include "model.h"

/* `bytes`: S. The group's members must be as many in every domain, or the fewest are taken for all. n = 1: zero time.
 */
CollectiveCost expert_exchange_cost(const Cluster *cluster, const ModelExperts *experts, const GroupShape *shape,
                                    double bytes);
