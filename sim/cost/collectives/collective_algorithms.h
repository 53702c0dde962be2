/* Latency and wire time of every algorithm, in closed form. S: full buffer; n: members, m of them in each of N
 * domains; B: bus bandwidth times the share that the protocol carries; α: the library's hop on the kind of link
 * crossed, between nodes at least the cluster file's step of a NIC. The library's base latency is added to each.
 *
 *     ring           laps·(n−1)·α + factor·S/B, laps 2 for all-reduce, else 1; laps·(N−1) of the steps are between
 *                    domains; behind one switch also x·S/(n·B) + start + laps·(n−1)·hop
 *     tree           2·((m−1)·α_in + log2(N)·α_net) + 2·S/B
 *     nvls           α_in + the longer of (1 + 1/n)·S/B_nvls (all-reduce: a GPU's link carries its part in for the
 *                    switch to reduce, and all of the result) and S over the search's n channels; all-gather and
 *                    reduce-scatter n/(n−1)·S/B_nvls, by the library's own estimate
 *     nvls_tree      α_in + 2·log2(N)·α_net + the longer of (1 + 1/m)·S/B_nvls and, over the NICs of a domain,
 *                    S/B_net for two domains, 2·S/B_net for more (a double binary tree: each domain is a leaf of one
 *                    tree, which sends S/2, and an inner node of the other, which sends 3·S/2)
 *     pat            log2(N)·share·α_net + n·t + (n−1)/n·S/B
 *     hierarchical   reduce-scatter in the domain, all-reduce of S/m over domains, all-gather in the domain:
 *                    2(m−1)·α_in + 2(m−1)/m·S/B_in + 2(N−1)·α_net + 2(N−1)/N·S/B_net; all-gather and reduce-scatter
 *                    half of it
 *     naive          2(n−1)·α + 2(n−1)·S/B: one member adds the others' buffers one by one and sends each the sum; its
 *                    messages to members of its domain at the rate inside, to others at that of its NIC
 *     direct         messages inside a domain·α_in + α_net + (messages to others − 1)·o + the longest, over all
 *                    boundaries, of the bytes that cross it over its bandwidth; o: the time to post to the
 *                    network; LL up to a size
 *     pairwise       (n−1)·α + the sum over rounds of S/n over the slowest boundary that the round crosses
 *
 * Gather and scatter have a root: the bytes that cross a boundary are those to or from the members outside the root's
 * enclosure, and all of them use the root's links. A broadcast or reduction is a ring through all members, each of
 * which passes on all of S, so it does not matter which one is the root. Over nodes these also take the time to fill
 * the ring: hops·step/B of a channel, with n−2 hops of Simple's steps, or N−1 of those of LL and LL128. The library's
 * tuner leaves that out when it chooses. NVLS and NVLSTree add two rounds of their chunks.
 *
 * Behind one switch the tuner also leaves out what rings of LL128 and Simple were measured to take: in the last step
 * of a loop nothing is sent, which costs the share x of a step, so that bus bandwidth grows with n as 1/(1 +
 * x/(laps·(n−1))); and a start and a hop's delay by GPU generation. An all-to-all there takes x·S/(n·B) more, for the
 * part that a GPU keeps.
 *
 * Over nodes a channel's bandwidth is limited (the library's tables): trees and LL128 get at most that times the
 * channels, NVLSTree takes 2(n−1)/n·S over it.
 *
 * B_nvls is the scale-up rate times the generation's share. Ring, tree and PAT cross every boundary with all their
 * channels, so their B is the least of the bandwidths; oversubscription binds them only when it exceeds the members
 * of a pod over those of a domain. Sources: NCCL v2.30.7 src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005;
 * Sanders et al., Parallel Computing 35(12), 2009 (two trees); Jeaugey, "PAT", 2025; Calculon's in-switch all-reduce,
 * 2023. */
#pragma once
#include "collective.h"
#include "enclosures.h"

typedef struct {
  double latency_s, wire_s; /* time is the sum of all four; wire_s +∞: no such protocol */
  double fill_s, start_s;   /* depends on bytes, and does not; the library ignores both when it chooses */
} AlgorithmTime;

/* n > 1; collective_algorithm_exists() must hold. */
AlgorithmTime collective_algorithm_time(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                        double bytes, Algorithm algorithm, Protocol protocol);

/* Bits 1 << Algorithm: those that an operation can use at all. */
guint collective_algorithms(Collective collective);
/* The one that needs no special hardware: ring, or plain sends. */
Algorithm collective_plain_algorithm(Collective collective);
/* Whether the library chooses it by itself. */
gboolean collective_algorithm_is_automatic(Algorithm algorithm);
/* What an algorithm of the operation is missing on that machine and group; NULL: nothing. */
const char *collective_algorithm_lacks(const Cluster *cluster, const GroupShape *shape, Algorithm algorithm);
/* The operation can use the algorithm, and nothing is missing. */
gboolean collective_algorithm_exists(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                     Algorithm algorithm);
/* The channels that the library's search finds for rings and trees over nodes (NCCL 2.30.7 src/graph/search.cc:
 * ncclTopoCompute, ncclTopoDupChannels); 0: inside a domain, where none of its limits per channel binds. */
int collective_ring_channels(const Cluster *cluster, const GroupShape *shape);
/* The SMs that its channels occupy, one each; 0: not known. */
int collective_algorithm_sms(const Cluster *cluster, const GroupShape *shape, double bytes, Algorithm algorithm,
                             Protocol protocol);
