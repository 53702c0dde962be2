/* Mistakes in a described cluster: what the reader cannot refuse key by key, because it takes the whole to see it. */
#pragma once
#include "topology.h"

typedef struct {
  gboolean is_error; /* it cannot work as described; else it can, but hardly as meant */
  char *what;        /* owned */
  char *advice;      /* what to do about it; owned */
} Finding;

/* Of Finding, errors and warnings in the order of the checks below; owned by the caller.
 *
 *   reach       GPUs that no live path joins to the first one; GPUs left without a live NIC
 *   rails       NICs that serve no GPU, GPUs served by none, a NIC on another socket than its GPU, whose own has one
 *   uplinks     of PCIe switches: faster than all that feeds them, or below a sixteenth of it
 *   slots       a NIC faster than the PCIe path it hangs on
 *   spans       tiers and sizes that do not divide into the blocks below, leaves and tiers into scale-up domains
 *   mesh        NVLinks of a GPU that do not add up to the stated bandwidth
 *   magnitudes  bandwidths beyond what such links have (bits taken for bytes), NVLink slower than the NICs
 *   direction   NVLinks of a GPU of a known generation (link_facts.h) that carry more than they do one way */
GArray *topology_check(const Topology *topology);
