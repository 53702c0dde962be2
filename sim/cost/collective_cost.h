/* Time of collectives and sends: α–β per algorithm and protocol on the links a group spans.
 *
 *     ring all-reduce        2(n−1)·α + 2(n−1)/n · S/B      all-gather, reduce-scatter: half of it
 *     tree all-reduce        2·((members per node − 1)·α_in + log2(nodes)·α_out) + 2·S/B_tree
 *     all-to-all, pairwise   (n−1)·α + (n−1)/n · S/B
 *     parameter server       ingress n·S, egress n·S at the server's link
 *
 * α of a step is the library's hop latency on the kind of link crossed; a ring over N nodes crosses 2(N−1) of its
 * 2(n−1) steps between nodes. B is the bus bandwidth of the slowest link class: inside a domain the scale-up rate;
 * between nodes the share of the node's NICs that this group has while all groups of the same axis run beside it,
 * divided by the oversubscription of the tiers its span leaves.
 *
 * That is the model. On a cluster whose file has curves of measured times, times come from them where they reach, as
 * measured_links_cost.h says. */
#pragma once
#include "layout.h"
#include "measured_cost.h"
#include "work_item.h"

typedef struct {
  double time_s;
  double algbw_Bps, busbw_Bps; /* 0 bytes: 0 */
  Algorithm algorithm;
  Protocol protocol;
  double bus_Bps;    /* bus bandwidth before protocol */
  LinkKind link;     /* slowest link class */
  CostSource source; /* of time_s */
} CollectiveCost;

/* Bus bandwidth for a group of `shape` when all groups of its axis run at once. */
double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest);
/* `algorithm` −1: the fastest, by measured times where there are any (then algorithm and protocol are those that the
 * model would take); else that algorithm, by the model; protocols: always the fastest. n = 1: zero time.
 * IMPOSSIBLE-free: an algorithm that does not exist for an operation falls back to the one that does (ALGORITHM_DIRECT
 * for all-to-all, gather, scatter, send and parameter server, which have no other). */
CollectiveCost collective_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                               int algorithm);
const char *const *algorithm_names(void); /* NULL-terminated, enum order */
const char *const *protocol_names(void);
/* Algorithms an operation can use, as bits 1 << Algorithm. */
guint collective_algorithms(Collective collective);

/* One send from rank a to rank b, by placement: scale-up links inside a domain, else one NIC share, tiers included. */
double send_cost_s(const Cluster *cluster, int from, int to, double bytes);
