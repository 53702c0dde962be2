/* topologies/imports/links.yaml: what a dump of a node does not say. */
#pragma once
#include <glib.h>

typedef struct {
  char *name, *gpu; /* owned */
  int sm;           /* from this compute capability × 10 on */
  double nvlink_Bps;
  int nvlinks; /* of a GPU; 0: it has none */
  double pcie_Bps;
  double efficiency, latency_s; /* of NVLink */
} Generation;

typedef struct {
  char *vendor; /* owned */
  int model;
  double Bps;
} SocketFact;

typedef struct {
  GArray *generations; /* of Generation, by sm; owned */
  GArray *sockets;     /* of SocketFact; owned */
  double pcie_efficiency, pcie_latency_s, nic_efficiency, nic_latency_s;
} LinkFacts;

LinkFacts *link_facts_read(GError **error);
void link_facts_free(LinkFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LinkFacts, link_facts_free)

/* By name (INPUT naming the nearest), or without one the last that `sm` reaches; NULL with INPUT. */
const Generation *link_facts_generation(const LinkFacts *facts, const char *name, int sm, GError **error);
/* Between two sockets of such CPUs; `vendor` may be NULL. */
double link_facts_socket_Bps(const LinkFacts *facts, const char *vendor, int model);
