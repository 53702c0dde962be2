/* Mistakes in a described cluster that the reader cannot find key by key because they show only in the whole. */
#pragma once
#include "topology.h"

typedef struct {
  gboolean is_error; /* it cannot work as described; FALSE: it can, but hardly as intended */
  char *what;        /* owned */
  char *advice;      /* what to do about it; owned */
} Finding;

/* Array of Finding, errors and warnings in the order of the checks below; owned by the caller.
 *
 *   reach       GPUs that no live path joins to the first one; GPUs left without a live NIC
 *   rails       NICs that serve no GPU, GPUs without a NIC, a NIC on another socket than its GPU although the GPU's
 *               socket has one
 *   uplinks     of PCIe switches: faster than everything that feeds them, or below a sixteenth of it
 *   slots       a NIC faster than the PCIe path it is plugged into; without a tree, than such nodes' slots
 *   spans       tiers and sizes that do not divide into the blocks below, leaves and tiers that do not divide into
 *               scale-up domains
 *   mesh        NVLinks of a GPU that do not add up to the stated bandwidth
 *   magnitudes  bandwidths beyond what such links have (bits taken for bytes), NVLink slower than the NICs
 *   direction   NVLinks of a GPU of a known generation (link_facts.h) with more than their one-way bandwidth */
GArray *topology_check(const Topology *topology);

/* What that finds in two scale-up domains of the cluster, for a verb that only uses it: a line for each kind of
 * finding, of which the first is shown. May be empty. Array of owned texts, owned by the caller. */
GPtrArray *topology_notices(const Cluster *cluster);
