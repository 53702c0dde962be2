/* Latency and wire time of every algorithm, in closed form. S: full buffer, n: members, m of them in each of N domains,
 * B: bus bandwidth times what the protocol carries, α: the library's hop on the kind of link crossed, between nodes no
 * less than the cluster file's step of a NIC; every one has the library's base latency besides.
 *
 *     ring           laps·(n−1)·α + factor·S/B, laps 2 for all-reduce, else 1; laps·(N−1) of the steps between domains;
 *                    behind one switch besides x·S/(n·B) + start + laps·(n−1)·hop
 *     tree           2·((m−1)·α_in + log2(N)·α_net) + 2·S/B
 *     nvls           α_in + the longer of (1 + 1/n)·S/B_nvls (all-reduce: a GPU's link carries its part in for the
 *                    switch to reduce, and all of the result) and S over the search's n channels; all-gather and
 *                    reduce-scatter n/(n−1)·S/B_nvls, the library's own reckoning
 *     nvls_tree      α_in + 2·log2(N)·α_net + the longer of (1 + 1/m)·S/B_nvls and, over the NICs of a domain, S/B_net
 *                    for two domains, 2·S/B_net for more (a double binary tree: each domain is a leaf of one tree,
 *                    which sends S/2, and an inner node of the other, which sends 3·S/2)
 *     pat            log2(N)·share·α_net + n·t + (n−1)/n·S/B
 *     hierarchical   reduce-scatter in the domain, all-reduce of S/m over domains, all-gather in the domain:
 *                    2(m−1)·α_in + 2(m−1)/m·S/B_in + 2(N−1)·α_net + 2(N−1)/N·S/B_net; all-gather and reduce-scatter
 *                    half of it
 *     direct         messages inside a domain·α_in + α_net + (messages to others − 1)·o + the longest of what crosses
 *                    each boundary, over its bandwidth; o: what posting to the network takes; LL up to a size
 *     pairwise       (n−1)·α + the sum over rounds of S/n over the slowest boundary that the round crosses
 *
 * Gather and scatter have a root: what crosses a boundary is what goes to or comes from the members outside the root's
 * own enclosure, all of it through the root's links. A broadcast or reduction is a ring through all members, each of
 * which passes on all of S, so that it does not matter which of them is the root. Over nodes it takes besides what
 * fills the ring: hops·step/B of a channel, n−2 hops of Simple's steps, N−1 of those of LL and LL128, which the
 * library's tuner leaves out when it chooses; NVLS and NVLSTree two rounds of their chunks.
 *
 * Behind one switch the tuner leaves out too what rings of LL128 and Simple were measured to take: in the last step of
 * a loop nothing is sent, which costs the share x of a step, so that bus bandwidth grows with n as 1/(1 +
 * x/(laps·(n−1))); a start and a hop's delay by GPU generation. An all-to-all there takes x·S/(n·B) more, for the part
 * that a GPU keeps.
 *
 * Over nodes a channel carries so much and no more (the library's tables): trees and LL128 are held to that times the
 * channels, NVLSTree to 2(n−1)/n·S over it.
 *
 * B_nvls is the scale-up rate times the generation's share. Ring, tree and PAT cross every boundary with all their
 * channels, so their B is the least of the bandwidths; oversubscription binds them only when it exceeds the members of
 * a pod over those of a domain. Sources: NCCL v2.30.7 src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005; Sanders
 * et al., Parallel Computing 35(12), 2009 (two trees); Jeaugey, "PAT", 2025; Calculon's in-switch all-reduce, 2023. */
#pragma once
#include "collective.h"
#include "enclosures.h"

typedef struct {
  double latency_s, wire_s; /* time is the sum of all four; wire_s +∞: no such protocol */
  double fill_s, start_s;   /* with bytes, and without; which the library does not reckon with when it chooses */
} AlgorithmTime;

/* n > 1, an algorithm that collective_algorithm_exists() for. */
AlgorithmTime collective_algorithm_time(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                        double bytes, Algorithm algorithm, Protocol protocol);

/* As bits 1 << Algorithm: those that an operation can use at all. */
guint collective_algorithms(Collective collective);
/* The one that needs nothing of the machine: ring, or plain sends. */
Algorithm collective_plain_algorithm(Collective collective);
/* Whether the library chooses it by itself. */
gboolean collective_algorithm_is_automatic(Algorithm algorithm);
/* What an algorithm of the operation lacks on that machine and group; NULL: nothing. */
const char *collective_algorithm_lacks(const Cluster *cluster, const GroupShape *shape, Algorithm algorithm);
/* Of the operation, and nothing lacking. */
gboolean collective_algorithm_exists(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                     Algorithm algorithm);
/* Channels that the library's search finds for rings and trees over nodes (NCCL 2.30.7 src/graph/search.cc:
 * ncclTopoCompute, ncclTopoDupChannels); 0: inside a domain, where none of its limits per channel binds. */
int collective_ring_channels(const Cluster *cluster, const GroupShape *shape);
/* SMs that its channels take, one each; 0: not known. */
int collective_algorithm_sms(const Cluster *cluster, const GroupShape *shape, double bytes, Algorithm algorithm,
                             Protocol protocol);
