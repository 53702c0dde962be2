/* topologies/imports/links.yaml: facts that a dump of a node leaves out. */
#pragma once
#include <glib.h>

typedef struct {
  char *name, *gpu; /* owned */
  int sm;           /* lowest compute capability × 10 */
  double nvlink_Bps;
  int nvlinks; /* per GPU; 0: none */
  double pcie_Bps;
  double nic_slot_Bps;          /* 0: as pcie_Bps */
  double efficiency, latency_s; /* of NVLink */
} Generation;

typedef struct {
  char *vendor; /* owned */
  int model;
  double Bps;
} SocketFact;

/* What transfers over a kind of link reach. */
typedef struct {
  double efficiency, latency_s;
} LinkReached;

typedef struct {
  GArray *generations; /* of Generation, by sm; owned */
  GArray *sockets;     /* of SocketFact; owned */
  LinkReached pcie, nic;
} LinkFacts;

LinkFacts *link_facts_read(GError **error);
void link_facts_free(LinkFacts *facts);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LinkFacts, link_facts_free)

/* The generation of that name (INPUT with the nearest), or, if `name` is NULL, the last whose sm is at most `sm`;
 * NULL with INPUT. */
const Generation *link_facts_generation(const LinkFacts *facts, const char *name, int sm, GError **error);
/* Bandwidth between two sockets with such CPUs; `vendor` may be NULL. */
double link_facts_socket_Bps(const LinkFacts *facts, const char *vendor, int model);
