/* The network as vertices and links, for flows on them (flows.h).
 *
 * Vertices are grouped: those of a node have its number, what joins nodes (leaves, spines, an NVSwitch that several
 * nodes share) has none, NETWORK_FABRIC.
 *
 * A link carries one capacity. A full-duplex cable is two links, one each way, which do not disturb one another; a
 * shared one is one link used in both directions. A dead link (factor 0) stays in the list and carries nothing. */
#pragma once
#include "ticks.h"

enum { NETWORK_FABRIC = -1 };

typedef enum {
  NET_GPU,    /* an end of transfers; passes nothing on */
  NET_HOST,   /* a CPU socket: passes on (host-staged and inter-socket paths) */
  NET_NIC,    /* passes on */
  NET_SWITCH, /* PCIe switch, NVSwitch, leaf, spine */
  N_NET_KINDS
} NetKind;

typedef enum {
  DUPLEX_FULL,    /* two links: a to b, then b to a */
  DUPLEX_SHARED,  /* one link, both ways */
  DUPLEX_ONE_WAY, /* one link, a to b */
} Duplex;

typedef struct {
  char *name; /* owned */
  NetKind kind;
  gint32 node; /* NETWORK_FABRIC: of no node */
} NetVertex;

typedef struct {
  char *name; /* owned */
  gint32 a, b;
  gboolean is_both_ways; /* one capacity for a to b and back; else from a to b */
  double capacity_Bps;   /* what is left of it: bandwidth × factor. INFINITY: never the bottleneck; 0: dead */
  gint64 latency_ticks;
} NetLink;

/* The links that a transfer passes. */
typedef struct {
  const gint32 *links; /* in the order they are passed; somebody else's */
  gint32 n_links;
  gint64 latency_ticks; /* of all of them */
} NetRoute;

typedef struct Network Network;

Network *network_new(void);
void network_free(Network *network);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Network, network_free)

/* Returns the vertex: 0, 1, … `name` is copied; `node` ≥ 0 or NETWORK_FABRIC. */
gint32 network_add_vertex(Network *network, const char *name, NetKind kind, gint32 node);

/* bandwidth_Bps > 0, per direction when full duplex, may be INFINITY; latency_s in [0, 1]; factor in [0, 1]: what is
 * left of the bandwidth, 0 = dead; `name` NULL: "a>b" of the vertices' names. */
typedef struct {
  const char *name;
  double bandwidth_Bps, latency_s, factor;
  Duplex duplex;
} NetCable;

/* Returns the first link, −1 on error (INPUT, which names the cable: a vertex that is not there, an end joined to
 * itself, a number out of its range). Of a full-duplex cable the way back is the link after it. */
gint32 network_add_link(Network *network, gint32 a, gint32 b, const NetCable *cable, GError **error);

gint32 network_n_vertices(const Network *network);
gint32 network_n_links(const Network *network);
const NetVertex *network_vertex(const Network *network, gint32 vertex);
const NetLink *network_link(const Network *network, gint32 link);
