/* How a collective library turns link rates into time: the constants of its own tuning model, by version. Read from
 * topologies/nccl/<version>.yaml, where every constant has its source.
 *
 * Ring and tree are required in all three protocols. An algorithm or protocol that the file leaves out does not exist
 * in that version. */
#pragma once
#include "gpu.h"

typedef enum { LINK_NVLINK, LINK_PCIE, LINK_NET, N_LINKS } LinkKind;

/* The first N_ALGORITHMS have rows in the library's tables. The others are built from ring steps. */
typedef enum {
  ALGORITHM_RING,
  ALGORITHM_TREE,      /* double binary tree over nodes, a chain inside each */
  ALGORITHM_NVLS,      /* the switch of a scale-up domain reduces and multicasts */
  ALGORITHM_NVLS_TREE, /* NVLS inside domains, a double binary tree over them */
  ALGORITHM_PAT,       /* parallel aggregated trees: logarithmic gather and scatter, one GPU per node */
  N_ALGORITHMS,
  ALGORITHM_HIERARCHICAL = N_ALGORITHMS, /* rings inside domains, then rings of corresponding members over domains */
  ALGORITHM_NAIVE,                       /* one GPU adds what the others send it one by one, then sends each the sum */
  ALGORITHM_PAIRWISE,                    /* all-to-all in n − 1 rounds, each GPU with one partner per round */
  ALGORITHM_DIRECT,                      /* plain sends, all at once */
} Algorithm;
typedef enum { PROTOCOL_LL, PROTOCOL_LL128, PROTOCOL_SIMPLE, N_PROTOCOLS } Protocol;

/* NULL-terminated, in the order of the enums. */
const char *const *algorithm_names(void);
const char *const *protocol_names(void); /* as the library prints them: LL, LL128, Simple */
const char *const *protocol_keys(void);  /* as our files write them: ll, ll128, simple */

enum { MAX_CORRECTIONS = 64, MAX_HALVINGS = 3 };

typedef struct {
  double bytes;
  double share[N_PROTOCOLS];
} BandwidthCorrection;

/* Most that one channel carries between nodes, in the library's own tables. */
typedef enum {
  CHANNEL_RING_LL128,
  CHANNEL_TREE, /* before LL and LL128 reduce it */
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
  double ll_Bps;     /* most that LL carries inside a node; 0: not stated */
  double nvls_share; /* share of the bus bandwidth that in-switch reduction reaches; 0: the generation has none */
  int channels;      /* most that one collective uses, one SM each; 0: not stated */
  int nvls_channels;
  double nvls_channel_Bps; /* most per channel in the search for in-switch reduction, which has one channel per GPU;
                              0: no limit */
  /* LL128 and Simple rings behind one switch, on top of the tables' latency: per call, and per hop, which also
   * applies to plain sends there. */
  double ring_start_s, ring_hop_s;
  double own_part; /* share of a step that a GPU's own part of an all-to-all behind one switch takes; if 0, it takes
                      ring_last_step */
  OverNodes channel_max[N_CHANNEL_LIMITS];
} ArchitectureLimits;

/* How the ring search lays channels over a node's NICs, one each. The library always splits them up to compute
 * capability 8.0: here Volta, Ampere (8.6 is not distinguished) and GPUs of no stated architecture. All 0 if the file
 * says `ring_search: none`. */
typedef struct {
  double rate_share;    /* share of a NIC's rate that its channel gets, a ratio for common NICs; 0: all of it */
  double split_Bps;     /* a channel of at least this rate is split into two; 0: never */
  int split_channels;   /* since Hopper: only if there are at most this many channels */
  double split_any_Bps; /* or if they have at least this rate: between nodes only Blackwell's can */
} RingSearch;

typedef struct {
  char *version, *file;                              /* owned */
  double base_s[N_ALGORITHMS][N_PROTOCOLS];          /* fixed cost of a collective */
  double hop_s[N_LINKS][N_ALGORITHMS][N_PROTOCOLS];  /* per step over that kind of link */
  double bandwidth_share[N_ALGORITHMS][N_PROTOCOLS]; /* share of bus bandwidth that the protocol carries; 0: none */
  double one_node_share[N_ALGORITHMS][N_PROTOCOLS];  /* the same inside one node; 0: no different */
  ArchitectureLimits by_architecture[N_ARCHITECTURES];
  int ring_channels; /* most that the search finds between nodes; 0: no limit */
  RingSearch ring_search;
  double two_nodes_ll_Bps, more_nodes_ll_Bps; /* most that LL carries between nodes; 0: not stated */
  double net_overhead_s[N_PROTOCOLS];         /* least time of a step inside a node, in a ring over nodes; 0: none */
  double lone_hop_s[N_PROTOCOLS];             /* step of a ring with one member per node; 0: the same as others */
  int sends_at_once;                          /* plain Simple sends that run at the same time inside a domain; 0: 1 */
  double send_ll_bytes;                       /* largest plain send that uses LL; 0: none */
  double step_bytes[N_PROTOCOLS];             /* what a channel passes on at once; 0: streams */
  double nvls_chunk_bytes;                    /* most that a channel passes to one reducer at once; 0: not stated */
  /* The chunk is halved for each of these factors in turn if the buffer is smaller than the factor times what all
   * channels have in flight for all GPUs of a domain; ends with 0. */
  int nvls_halvings[MAX_HALVINGS + 1], nvls_tree_halvings[MAX_HALVINGS + 1];
  double send_channel_Bps; /* a plain send gets a channel per this much rate; 0: not stated */
  double ring_last_step;   /* share of a step that rings behind one switch take longer: the last step's link idles */
  double ring_plateau;     /* latency factor of Simple ring all-reduces between nodes; 0: 1 */
  double pat_step_share, pat_per_rank_s; /* share of a hop that a step costs; time per rank on top of the steps */
  double channel_bytes[N_PROTOCOLS];     /* least bytes for which a channel is opened; 0: not stated */
  BandwidthCorrection tree_corrections[MAX_CORRECTIONS]; /* factors on a tree's bandwidth, by ascending size */
  int n_tree_corrections;
} CollectiveLibrary;

/* Fill `library`, and *eager_bytes with the largest send that completes without its receiver. INPUT with file:line
 * for unknown, missing and duplicate keys, missing units and absurd numbers; `library` still needs
 * collective_library_clear() then. */
gboolean collective_library_read(const char *file, CollectiveLibrary *library, gint64 *eager_bytes, GError **error);
void collective_library_clear(CollectiveLibrary *library);
