/* Networks shared by the tests, the benchmark and the comparison with SimGrid. Hosts are vertices 0 … n − 1, each its
 * own node; only the hosts' links have latency, so every route has 2 × latency_s. */
#pragma once
#include "network.h"

/* Every host on one switch by a full-duplex cable (shared: one capacity both ways). */
Network *crossbar_new(gint32 n_hosts, double Bps, double latency_s, gboolean is_shared);
/* Two levels: n_leaves × n_per_leaf hosts, n_spines spines, each joined to every leaf by a cable of uplink_Bps. */
Network *fat_tree_new(gint32 n_leaves, gint32 n_per_leaf, gint32 n_spines, double Bps, double uplink_Bps,
                      double latency_s);
