/* How a collective library turns link rates into time: constants of its own tuning model, tagged with its version.
 * Read from topologies/nccl/<version>.yaml; every constant there has its source.
 *
 * Ring and tree must be there in all three protocols. An algorithm or protocol that the file leaves out does not exist
 * in that version. */
#pragma once
#include "gpu.h"

typedef enum { LINK_NVLINK, LINK_PCIE, LINK_NET, N_LINKS } LinkKind;

/* The first N_ALGORITHMS have rows in the library's tables. The others are made of the ring's steps. */
typedef enum {
  ALGORITHM_RING,
  ALGORITHM_TREE,      /* double binary tree over nodes, a chain inside each */
  ALGORITHM_NVLS,      /* the switch of a scale-up domain reduces and multicasts */
  ALGORITHM_NVLS_TREE, /* that inside domains, a double binary tree over them */
  ALGORITHM_PAT,       /* parallel aggregated trees: logarithmic gather and scatter, one GPU a node */
  N_ALGORITHMS,
  ALGORITHM_HIERARCHICAL = N_ALGORITHMS, /* rings inside domains, then rings of equal members over domains */
  ALGORITHM_PAIRWISE,                    /* all-to-all in n − 1 rounds, each GPU with one partner a round */
  ALGORITHM_DIRECT,                      /* plain sends, all under way at once */
} Algorithm;
typedef enum { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, N_PROTOCOLS } Protocol;

/* NULL-terminated, in the order of the enums. */
const char *const *algorithm_names(void);
const char *const *protocol_names(void); /* as the library prints them: LL, LL128, Simple */
const char *const *protocol_keys(void);  /* as our files spell them: ll, ll128, simple */

enum { MAX_CORRECTIONS = 64, MAX_HALVINGS = 3 };

typedef struct {
  double bytes;
  double share[N_PROTOCOLS];
} BandwidthCorrection;

/* What one channel carries at most over nodes, in the library's own tables. */
typedef enum {
  CHANNEL_RING_LL128,
  CHANNEL_TREE, /* before what LL and LL128 take of it */
  CHANNEL_TREE_LL128,
  CHANNEL_NVLS_TREE, /* bus bandwidth */
  N_CHANNEL_LIMITS
} ChannelLimit;

/* 0: not stated */
typedef struct {
  double two_nodes_Bps, more_nodes_Bps;
} OverNodes;

/* What differs between GPU generations. */
typedef struct {
  double ll_Bps;     /* most that LL carries inside one node; 0: not stated */
  double nvls_share; /* of the bus bandwidth that in-switch reduction reaches; 0: the generation has none */
  int channels;      /* most that one collective uses, each on an SM of its own; 0: not stated */
  int nvls_channels;
  double nvls_channel_Bps; /* most that a channel of the search for in-switch reduction has, one for each GPU; 0: any */
  /* Of LL128 and Simple rings behind one switch, beyond the tables' latency: of a call and of each hop, and of a hop of
     plain sends there. */
  double ring_start_s, ring_hop_s;
  double own_part; /* of a step, that a GPU's own part of an all-to-all behind one switch takes; 0: ring_last_step */
  OverNodes channel_max[N_CHANNEL_LIMITS];
} ArchitectureLimits;

/* Channels that the search for rings lays over the NICs of a node, one over each. The library splits always up to
 * compute capability 8.0: here Volta, Ampere (of which 8.6 is not told apart) and GPUs of no stated architecture. All 0
 * where the file says `ring_search: none`. */
typedef struct {
  double rate_share;    /* of a NIC's rate that its channel has, a ratio for common NICs; 0: all of it */
  double split_Bps;     /* a channel of this and more is split into two; 0: never */
  int split_channels;   /* since Hopper only where there are at most so many */
  double split_any_Bps; /* or where they have this and more: over nodes only Blackwell's may */
} RingSearch;

typedef struct {
  char *version, *file;                              /* owned */
  double base_s[N_ALGORITHMS][N_PROTOCOLS];          /* fixed cost of a collective */
  double hop_s[N_LINKS][N_ALGORITHMS][N_PROTOCOLS];  /* per step over that kind of link */
  double bandwidth_share[N_ALGORITHMS][N_PROTOCOLS]; /* of bus bandwidth that the protocol carries; 0: no such thing */
  double one_node_share[N_ALGORITHMS][N_PROTOCOLS];  /* the same inside one node; 0: no different */
  ArchitectureLimits by_architecture[N_ARCHITECTURES];
  int ring_channels; /* most that the search finds over nodes; 0: any number */
  RingSearch ring_search;
  double two_nodes_ll_Bps, more_nodes_ll_Bps; /* most that LL carries over nodes; 0: not stated */
  double net_overhead_s[N_PROTOCOLS];         /* a step inside a node of a ring over nodes takes no less; 0: any */
  double lone_hop_s[N_PROTOCOLS];             /* a ring's step between nodes with one member each; 0: as others */
  int sends_at_once;                          /* plain sends by Simple under way together inside a domain; 0: 1 */
  double send_ll_bytes;                       /* a plain send of at most this goes by LL; 0: none */
  double step_bytes[N_PROTOCOLS];             /* what a channel hands on at once; 0: little by little */
  double nvls_chunk_bytes;                    /* most that a channel hands to one reducer at once; 0: not stated */
  /* A chunk is halved for each of these in turn, where the buffer is less than so many times what all channels have
     under way for all GPUs of a domain; the first 0 ends them. */
  int nvls_halvings[MAX_HALVINGS + 1], nvls_tree_halvings[MAX_HALVINGS + 1];
  double send_channel_Bps; /* a plain send has a channel for each of this; 0: not stated */
  double ring_last_step;   /* of a step, that rings behind one switch take longer: the last one's link idles */
  double ring_plateau;     /* factor on the latency of Simple ring all-reduces over nodes; 0: 1 */
  double pat_step_share, pat_per_rank_s; /* share of a hop that a step costs; time per rank beside the steps */
  double channel_bytes[N_PROTOCOLS];     /* least that a channel is opened for; 0: not stated */
  BandwidthCorrection tree_corrections[MAX_CORRECTIONS]; /* factor on a tree's bandwidth, by size, ascending */
  int n_tree_corrections;
} CollectiveLibrary;

/* Fill `library` and the largest send that ends without its receiver. Unknown, missing and duplicate keys, missing
 * units, absurd numbers: INPUT with file:line; then `library` still needs collective_library_clear(). */
gboolean collective_library_read(const char *file, CollectiveLibrary *library, gint64 *eager_bytes, GError **error);
void collective_library_clear(CollectiveLibrary *library);
