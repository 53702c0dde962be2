/* What the described inside of a node leaves of the bandwidths stated per GPU and per NIC: GPUs in a mesh have few
 * links to any one of them, PCIe uplinks and sockets are shared, what is staged in host memory passes them twice. Each
 * is the equal part that every flow of a pattern gets of the link that is narrowest for it,
 *
 *     min over its links of  capacity left / times that flows of the pattern pass it,
 *
 * which for the slowest flow is its max-min fair rate. Patterns are those of the costs:
 *
 *     ring   m members, every `gap` GPUs, to the next: all such groups of the domain at once. In a mesh, what rings
 *            along all links can carry: the narrowest cut of the links among the members (every ring crosses every cut
 *            at least once each way)
 *     all    each member to all others, all groups at once; what a GPU sends in all
 *     send   GPU i to i + d for all i at once; over NVLinks alone, one by itself
 *     egress every GPU to its place in another domain and back, over all NICs that serve it. A step waits for the
 *            slowest, so this counts for all
 *
 * Halving a link never raises any of them, as long as ways stay: these are chosen by route.h. Links of the fabric are
 * not looked at (tiers stand for them), nor domains of more than WIRING_MOST_GPUS without a switch. */
#pragma once
#include "topology.h"

enum { WIRING_MOST_GPUS = 64 };

/* Shares in (0, 1] of the stated bandwidths times their efficiency. */
struct NodeWiring {
  int n_gpus;         /* of a domain */
  double *ring, *all; /* [n_gpus²] at (members − 1)·n_gpus + gap; gap 0: the slowest of all gaps. Owned; NULL: all 1 */
  double *send;       /* [n_gpus²] at from·n_gpus + to; owned; NULL: all 1 */
  double egress;      /* of nic_Bps·nics_per_node/gpus_per_node */
  char *no_path;      /* owned; NULL: every GPU reaches every other. Else why not, and no share holds */
  char *text;         /* owned: what is less than stated, and the link that limits it */
};

/* NULL: the node is not described, or carries all that is stated. `cluster` without faults. */
NodeWiring *wiring_new(const Cluster *cluster);
void wiring_free(NodeWiring *wiring);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NodeWiring, wiring_free)

/* Of a ring or an exchange of all with all (is_all) among so many GPUs of a domain, `gap` apart; gap < 1: unevenly.
 * 1 where `wiring` is NULL. */
double wiring_group_share(const NodeWiring *wiring, int members, int gap, gboolean is_all);
/* GPUs of the domain. */
double wiring_send_share(const NodeWiring *wiring, int from, int to);
double wiring_egress_share(const NodeWiring *wiring);
