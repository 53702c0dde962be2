/* How much of the bandwidths stated per GPU and per NIC a node's described wiring lets through: GPUs in a mesh have
 * few links to any one peer, PCIe uplinks and sockets are shared, and data staged in host memory passes them twice.
 * For each pattern of flows this is the rate of the slowest one if every link is divided evenly,
 *
 *     min over its links of  capacity left / times that flows of the pattern pass it,
 *
 * which is that flow's max-min fair rate. The patterns are those the cost model asks for:
 *
 *     ring   m members, `gap` GPUs apart, each to the next; all such groups of the domain at once. In a mesh: what
 *            rings over all links can carry, the narrowest cut of the links among the members (every ring crosses
 *            every cut at least once each way)
 *     all    each member to all others, all groups at once; total that a GPU sends
 *     send   GPU i to i + d for all i at once; a pair whose route is only NVLinks is rated by itself
 *     egress every GPU to its counterpart in another domain and back, over all NICs that serve it. A step waits for
 *            the slowest GPU, so its share counts for all
 *
 * Halving a link never raises any of them as long as routes (route.h) stay the same. Links of the fabric are ignored
 * (the tiers model them), and so are domains of more than WIRING_MOST_GPUS without a switch. */
#pragma once
#include "topology.h"

enum { WIRING_MOST_GPUS = 64 };

/* Shares in (0, 1] of the stated bandwidth × efficiency. */
struct NodeWiring {
  int n_gpus;         /* of a domain */
  double *ring, *all; /* [n_gpus²] at (members − 1)·n_gpus + gap; gap 0: the slowest of all gaps. Owned; NULL: all 1 */
  double *send;       /* [n_gpus²] at from·n_gpus + to; owned; NULL: all 1 */
  double egress;      /* of nic_Bps·nics_per_node/gpus_per_node */
  char *no_path;      /* owned; NULL: every GPU reaches every other; else the reason why not, and no share is valid */
  char *text;         /* owned: what is slower than stated, and the link that limits it */
};

/* NULL: the node's wiring is not described, or carries everything stated. Faults, leaves and tiers of `cluster` are
 * ignored. */
NodeWiring *wiring_new(const Cluster *cluster);
void wiring_free(NodeWiring *wiring);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NodeWiring, wiring_free)

/* Share of a ring, or of an exchange of all with all (is_all), among `members` GPUs of a domain, `gap` apart; gap <
 * 1: unevenly spaced. 1 if `wiring` is NULL. */
double wiring_group_share(const NodeWiring *wiring, int members, int gap, gboolean is_all);
/* `from` and `to` are GPUs of the domain. */
double wiring_send_share(const NodeWiring *wiring, int from, int to);
double wiring_egress_share(const NodeWiring *wiring);
