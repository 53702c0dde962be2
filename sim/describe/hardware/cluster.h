/* A cluster: GPUs in nodes (or wider NVLink domains), NICs, a fabric of tiers, and how collectives behave on them.
 * Read from topologies/<name>.yaml. Bandwidths are per GPU (or per NIC) and per direction. A file may also carry curves
 * of measured times (measured_links.h) and latencies and bandwidths fitted to such (fitted_links.h), which then go
 * before the constants, curves before fits; and how often a job on it is interrupted (failures.h). */
#pragma once
#include "collective_library.h"
#include "exceptions.h"
#include "failures.h"
#include "fitted_links.h"
#include "host.h"
#include "measured_links.h"

enum { CLUSTER_MAX_TIERS = 6, CLUSTER_MAX_LEVELS = CLUSTER_MAX_TIERS + 1 };

typedef enum { SCALE_UP_NVSWITCH, SCALE_UP_NVLINK_MESH, SCALE_UP_PCIE } ScaleUpKind;
/* A switch tier of the fabric: full bisection among `span_gpus` consecutive GPUs, times 1/oversubscription for what
 * leaves it. */
typedef struct {
  gint64 span_gpus;
  double oversubscription; /* ≥ 1: uplink bandwidth out of the tier below is divided by this */
  double latency_s;        /* that climbing to it adds to a path, on top of the NICs' */
  char *name;              /* of a block, "pod"; owned; NULL: none */
} FabricTier;

/* The switches NICs are plugged into, where the file describes them (`fabric.leaves`). Below tier 0. */
typedef enum {
  LEAVES_RAIL_OPTIMISED, /* NIC k of every node of a group meets the others' in leaf k: a leaf per NIC of a node */
  LEAVES_CLASSIC,        /* all NICs of a group's nodes in one leaf */
} LeafKind;
typedef struct {
  LeafKind kind;
  int n_nodes;      /* of a group; 0: leaves are not described */
  double latency_s; /* that a path through one adds */
} FabricLeaves;

/* What costs see of leaves and tiers: who is inside a level's span shares no oversubscribed uplink of it. */
typedef struct {
  gint64 span_gpus;
  double oversubscription; /* of what leaves the level below; of level 0: a scale-up domain */
} FabricLevel;

/* What a file's faults leave of the bandwidths of a job's links, as shares (worked out by cost/links/link_health.h). */
typedef struct {
  double scale_up;
  double *domain; /* [domain_gpus²] of what a group carries out of a domain, at (members − 1)·domain_gpus + gap, GPUs
                     from one member to the next; gap 0: the slowest of all gaps. Owned */
  double levels[CLUSTER_MAX_LEVELS]; /* [i ≥ 1] out of a span of level i − 1 */
} LinkHealth;
void link_health_free(LinkHealth *health);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LinkHealth, link_health_free)

/* Seconds of kernels lost per second of a transfer of their GPU beside them (cost/collectives/transfer_tax.h). */
typedef struct {
  double of_link[N_LINKS]; /* by the slowest link that the transfer crosses; 0: none */
  gboolean by_channels;    /* instead: SMs of its channels over those of the GPU */
} TransferTax;

/* What the described inside of a node leaves of them (topology/wiring.h). */
typedef struct NodeWiring NodeWiring;

typedef struct {
  char *name, *source, *file; /* owned */
  GPtrArray *bases;           /* owned, of owned paths: its `base:`, that one's, and so on */
  Gpu gpu;
  int gpus_per_node;

  ScaleUpKind scale_up;
  int domain_gpus;            /* GPUs reaching each other over the scale-up links; ≥ gpus_per_node (72 for NVL72) */
  int segment_gpus;           /* that a job of several domains takes of each (64 for NVL72); domain_gpus: all */
  double scale_up_Bps;        /* per GPU per direction, as specified */
  double scale_up_efficiency; /* share of it that a bandwidth-bound transfer reaches */
  double scale_up_latency_s;  /* one send, software included */

  int nics_per_node; /* 0: a single node */
  double nic_Bps, nic_efficiency, nic_latency_s;
  double nic_step_s;       /* that a step of a collective between nodes takes at least; 0: as the library has it */
  double node_egress_gpus; /* (computed) GPUs sharing one NIC = gpus_per_node / nics_per_node; 0 without NICs */
  FabricLeaves leaves;
  FabricTier tiers[CLUSTER_MAX_TIERS];
  int n_tiers; /* 0: full bisection everywhere */

  NodeTopology node;  /* the inside of a node; derived where the file has no optional keys about it */
  NodeWiring *wiring; /* (computed) owned; NULL: the node carries all that is stated, or is not described */
  GArray *other_gpus; /* owned, of GpuRange; NULL: all nodes have `gpu` */
  GArray *faults;     /* owned, of LinkFault; NULL: none */
  LinkHealth *health; /* owned; NULL: all links are sound, or faults have not been looked at */

  CollectiveLibrary collectives;
  gint64 eager_bytes; /* sends up to this are buffered; larger ones rendezvous */
  TransferTax transfer_tax;
  gint64 max_gpus;             /* 0 = not stated */
  double host_memory_bytes;    /* per node; 0 = not stated */
  Host host;                   /* its processors, drives and the GPUs' ways there */
  double dollars_per_gpu_hour; /* 0 = not stated */
  Failures *failures;          /* owned; NULL: not stated */

  MeasuredLinks *measured; /* owned; NULL: the file has no curves */
  FittedLinks *fitted;     /* owned; NULL: the file has no fits */
} Cluster;

/* Read `file`, over its base where it has one (yaml_base.h); a bare name `x` also means topologies/x.yaml (searched as
 * model_read() does). The `gpu:` and `collectives:` keys name other files relative to this one, or else as they are
 * found in topologies/gpus and topologies/nccl, with or without that last folder: a copy of a shipped file reads as the
 * file does. Unknown, missing and duplicate keys, missing units, absurd numbers: INPUT with file:line. */
Cluster *cluster_read(const char *file, GError **error);
/* The same from a text in memory, which errors call `name`; other files are looked for beside a file of that name. */
Cluster *cluster_parse(const char *name, const char *text, GError **error);
void cluster_free(Cluster *cluster);
/* The tiers, and below them, as level 0, the groups of leaves where the file describes them and their uplinks are
 * oversubscribed: what stays in a group does not use these. Levels from 0 on. */
int cluster_n_levels(const Cluster *cluster);
FabricLevel cluster_level(const Cluster *cluster, int level);
/* IMPOSSIBLE when the node's links as described do not join its GPUs. */
gboolean cluster_check_joined(const Cluster *cluster, GError **error);
/* IMPOSSIBLE as that, and when links are degraded or dead and `health` does not say what is left of them: times would
 * be those of sound ones, and too short. */
gboolean cluster_check_sound(const Cluster *cluster, GError **error);
/* How many GPUs of each scale-up domain a job of `n_gpus` takes, placed on consecutive nodes: segment_gpus when the job
 * needs several domains and divides into segments, as batch systems place it on request (Slurm's --segment); else
 * domain_gpus. It is domain_gpus, too, where the file says what is where (faults, other kinds of GPU, a described
 * wiring), where max_gpus has too few domains, and where a group of leaves or a tier holds no whole number of domains
 * (topology_check() warns of it). */
int cluster_job_domain(const Cluster *cluster, gint64 n_gpus);
/* Shrink the cluster to what that job has of it: domains, groups of leaves and spans of tiers then count the job's GPUs
 * alone. */
void cluster_place_job(Cluster *cluster, gint64 n_gpus);
/* How many of the ranges in `other_gpus`, from the first on, have nodes among the first `n_gpus` GPUs. */
int cluster_other_gpus(const Cluster *cluster, gint64 n_gpus);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Cluster, cluster_free)
