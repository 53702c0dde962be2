/* Time of an exchange with experts by DeepEP's kernels. A token crosses NICs once for each node that holds some of
 * its experts, to the GPU of the same place there, and from that GPU the node's links to each rank that holds any;
 * everything overlaps, in pieces. With T tokens of r bytes, R ranks and D nodes that hold some of a token's experts
 * (model_expert_places()), S = T·R·r, and n ranks, m in each of N nodes:
 *
 *     α + the longer of  S·(m−1)/m / B_in  and  S·(D/R)·(N−1)/N / B_net
 *
 * B: a rank's bandwidth on each; beyond the NICs a tier with M ranks inside carries S·(D/R)·(n−M)/n. α: a launch of
 * the library's Simple protocol and a hop of each kind, as no measurement of small exchanges says otherwise. Sources:
 * DeepEP, csrc/kernels/internode.cu and README.md (2025), whose table of 8 to 64 H800 this matches within a tenth;
 * DeepSeek-V3, arXiv 2412.19437 §3.2.2; HybridEP, the same repository's branch hybrid-ep (2025). */
#pragma once
#include "collective_cost.h"
#include "model.h"

/* `bytes`: S. If domains have different numbers of members, the smallest is used for all. n = 1: zero time. */
CollectiveCost expert_exchange_cost(const Cluster *cluster, const ModelExperts *experts, const GroupShape *shape,
                                    double bytes);
