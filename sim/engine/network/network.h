/* The network as vertices and links, for flows on them (flows.h).
 *
 * Vertices are grouped: those of a node carry its number; what joins nodes (leaves, spines, an NVSwitch that several
 * nodes share) carries NETWORK_FABRIC.
 *
 * A link has one capacity. A full-duplex cable is two links, one each way, which do not affect each other; a shared
 * one is one link used in both directions. A dead link (factor 0) stays in the list and carries nothing. */
#pragma once
#include "ticks.h"

enum { NETWORK_FABRIC = -1 };

typedef enum {
  NET_GPU,    /* an endpoint of transfers; forwards nothing */
  NET_HOST,   /* a CPU socket; forwards (host-staged and inter-socket paths) */
  NET_NIC,    /* forwards */
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
  gint32 node; /* NETWORK_FABRIC: belongs to no node */
} NetVertex;

typedef struct {
  char *name; /* owned */
  gint32 a, b;
  gboolean is_both_ways; /* one capacity for both directions; otherwise only from a to b */
  double capacity_Bps;   /* usable: bandwidth × factor. INFINITY: never the bottleneck; 0: dead */
  gint64 latency_ticks;
} NetLink;

/* The links that a transfer crosses. */
typedef struct {
  const gint32 *links; /* in the order they are crossed; borrowed */
  gint32 n_links;
  gint64 latency_ticks; /* sum over the links */
} NetRoute;

typedef struct Network Network;

Network *network_new(void);
void network_free(Network *network);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Network, network_free)

/* Returns the vertex: 0, 1, … `name` is copied; `node` ≥ 0 or NETWORK_FABRIC. */
gint32 network_add_vertex(Network *network, const char *name, NetKind kind, gint32 node);

/* bandwidth_Bps > 0, per direction when full duplex, may be INFINITY; latency_s in [0, 1]; factor in [0, 1]: the
 * share of the bandwidth that is left, 0 = dead; `name` NULL: "a>b" of the vertices' names, "a-b" when shared. */
typedef struct {
  const char *name;
  double bandwidth_Bps, latency_s, factor;
  Duplex duplex;
} NetCable;

/* Returns the first link, −1 on error (INPUT, naming the cable: a missing vertex, a vertex joined to itself, a number
 * out of range). For a full-duplex cable the way back is the next link. */
gint32 network_add_link(Network *network, gint32 a, gint32 b, const NetCable *cable, GError **error);

gint32 network_n_vertices(const Network *network);
gint32 network_n_links(const Network *network);
const NetVertex *network_vertex(const Network *network, gint32 vertex);
const NetLink *network_link(const Network *network, gint32 link);
