/* A cluster: GPUs in nodes (or wider NVLink domains), NICs, a fabric of tiers, and how collectives behave on them.
 * Read from topologies/<name>.yaml. Bandwidths are per GPU (or per NIC) and per direction. A file may also have
 * curves of measured times (measured_links.h) and latencies and bandwidths fitted to such times (there too):
 * curves take precedence over fits, and fits over the constants. It may also state how often a job is interrupted
 * (failures.h). */
#pragma once
#include "as_run.h"
#include "collective_library.h"
#include "exceptions.h"
#include "failures.h"
#include "measured_links.h"
#include "node_topology.h"
#include "yaml_node.h"

enum { CLUSTER_MAX_TIERS = 6, CLUSTER_MAX_LEVELS = CLUSTER_MAX_TIERS + 1 };

typedef enum { SCALE_UP_NVSWITCH, SCALE_UP_NVLINK_MESH, SCALE_UP_PCIE } ScaleUpKind;
/* A switch tier of the fabric, which joins `span_gpus` consecutive GPUs; the bandwidth that each block of the tier
 * below has into it is divided by the oversubscription (1: full bisection). */
typedef struct {
  gint64 span_gpus;
  double oversubscription; /* ≥ 1: divides the uplink bandwidth out of the tier below */
  double latency_s;        /* added to a path that climbs to this tier, on top of the NICs' latency */
  char *name;              /* of a block, "pod"; owned; NULL: none */
} FabricTier;

/* The switches that NICs are plugged into, if described (`fabric.leaves`). Below tier 0. */
typedef enum {
  LEAVES_RAIL_OPTIMISED, /* NIC k of every node of a group connects to leaf k: one leaf per NIC of a node */
  LEAVES_CLASSIC,        /* all NICs of a group's nodes connect to one leaf */
} LeafKind;
typedef struct {
  LeafKind kind;
  int n_nodes;      /* per group; 0: leaves are not described */
  double latency_s; /* added to a path through a leaf */
} FabricLeaves;

/* Leaves and tiers as the cost model sees them: traffic within a level's span does not use the uplinks out of it. */
typedef struct {
  gint64 span_gpus;
  double oversubscription; /* of the uplinks of the level below; level 0: of a scale-up domain */
} FabricLevel;

/* Shares of the job's link bandwidths that are left after the file's faults (computed by
 * cost/links/link_health.h). */
typedef struct {
  double scale_up;
  double *domain; /* [domain_gpus²] of what a group sends out of a domain, at (members − 1)·domain_gpus + gap, with
                     members `gap` GPUs apart; gap 0: the slowest of all gaps. Owned */
  double levels[CLUSTER_MAX_LEVELS]; /* [i ≥ 1] out of a span of level i − 1 */
} LinkHealth;
void link_health_free(LinkHealth *health);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(LinkHealth, link_health_free)

/* Seconds of kernel time lost per second of a transfer that the GPU runs beside them
 * (cost/collectives/transfer_tax.h). */
typedef struct {
  double of_link[N_LINKS]; /* by the slowest link the transfer crosses; 0: none */
  gboolean by_channels;    /* instead: SMs of its channels / SMs of the GPU */
} TransferTax;

/* How much of the stated bandwidth the node's described wiring lets through (topology/wiring.h). */
typedef struct NodeWiring NodeWiring;

typedef struct {
  char *name, *source, *file; /* owned */
  GPtrArray *bases;           /* owned, of owned paths: its base, that one's base, and so on */
  Gpu gpu;
  int gpus_per_node;

  ScaleUpKind scale_up;
  int domain_gpus;            /* GPUs that reach each other over scale-up links; ≥ gpus_per_node (72 for NVL72) */
  int segment_gpus;           /* GPUs that a job of several domains uses of each (64 for NVL72); domain_gpus: all */
  double scale_up_Bps;        /* per GPU per direction, as specified */
  double scale_up_efficiency; /* share of it that bandwidth-bound transfers reach */
  double scale_up_latency_s;  /* of one send, software included */

  int nics_per_node; /* 0: a single node */
  double nic_Bps, nic_efficiency, nic_latency_s;
  double nic_step_s;       /* least time of a step of a collective between nodes; 0: the library's */
  double node_egress_gpus; /* (computed) GPUs sharing one NIC = gpus_per_node / nics_per_node; 0 without NICs */
  FabricLeaves leaves;
  FabricTier tiers[CLUSTER_MAX_TIERS];
  int n_tiers; /* 0: full bisection everywhere */

  NodeTopology node;  /* the inside of a node; derived if the file does not describe it */
  NodeWiring *wiring; /* (computed) owned; NULL: the node carries everything stated, or is not described */
  GArray *other_gpus; /* owned, of GpuRange; NULL: all nodes have `gpu` */
  GArray *faults;     /* owned, of LinkFault; NULL: none */
  LinkHealth *health; /* owned; NULL: all links are sound, or faults have not been evaluated */

  CollectiveLibrary collectives;
  gint64 eager_bytes; /* sends up to this are buffered; larger ones rendezvous */
  TransferTax transfer_tax;
  gint64 max_gpus;             /* 0 = not stated */
  double host_memory_bytes;    /* per node; 0 = not stated */
  Host host;                   /* its CPUs, drives, and the GPUs' links to them */
  Storage storage;             /* that checkpoints go to and data is read from; zeroed: not stated */
  double dollars_per_gpu_hour; /* 0 = not stated */
  Failures *failures;          /* owned; NULL: not stated */

  MeasuredLinks *measured; /* owned; NULL: the file has no curves */
  FittedLinks *fitted;     /* owned; NULL: the file has no fits */
  AsRun as_run;            /* its GPUs are as it says */
} Cluster;

/* Read `file`, merged over its base if it has one (yaml_base.h). A bare name `x` also means topologies/x.yaml
 * (searched as by model_read()). The keys `gpu:` and `collectives:` name other files, relative to this one or
 * found in topologies/gpus and topologies/nccl, with or without that last folder, so that a copy of a shipped file
 * reads like the original. INPUT with file:line for unknown, missing and duplicate keys, missing units and absurd
 * numbers. Words such as "8x h100, 400 Gb/s x 8" are a cluster too (cluster_words.h), whose `file` they are. */
Cluster *cluster_read(const char *file, GError **error);
/* The same for text in memory, which errors call `name`; other files are looked for beside a file of that name. */
Cluster *cluster_parse(const char *name, const char *text, GError **error);
/* The file that such words stand for. Owned by the caller; NULL with INPUT. */
char *cluster_text_of_words(const char *words, GError **error);
/* What is probably meant otherwise in such words (cluster_words_notice()). Owned by the caller; NULL: nothing, or
 * `file` is no such words. */
char *cluster_notice_of_words(const char *file);
void cluster_free(Cluster *cluster);
/* Levels from 0: the tiers and, if described and with oversubscribed uplinks, the groups of leaves as level 0 below
 * them. Traffic within a group does not use its uplinks. */
int cluster_n_levels(const Cluster *cluster);
FabricLevel cluster_level(const Cluster *cluster, int level);
/* IMPOSSIBLE if the node's described links do not join its GPUs. */
gboolean cluster_check_joined(const Cluster *cluster, GError **error);
/* IMPOSSIBLE likewise, and if links are degraded or dead while `health` is not set: times would be those of sound
 * links, and too short. */
gboolean cluster_check_sound(const Cluster *cluster, GError **error);
/* How many GPUs of each scale-up domain a job of `n_gpus` on consecutive nodes uses: segment_gpus if it needs several
 * domains and divides into segments, as batch systems place it on request (Slurm's --segment); else domain_gpus. Also
 * domain_gpus if the file describes particular places (faults, other kinds of GPU, wiring), if max_gpus has too few
 * domains, or if a group of leaves or a tier is not a whole number of domains (topology_check() warns of that). */
int cluster_job_domain(const Cluster *cluster, gint64 n_gpus);
/* Reduce the cluster to the part that such a job uses: domains, groups of leaves and spans of tiers then count only
 * the job's GPUs, and NICs reach what they do in a job over as many nodes. `is_chosen`: the job says which GPUs it has,
 * and domains stay as they are. */
void cluster_place_job(Cluster *cluster, gint64 n_gpus, gboolean is_chosen);
/* Whether that changes anything. */
gboolean cluster_is_placed(const Cluster *cluster, gint64 n_gpus, gboolean is_chosen);
/* How many ranges of `other_gpus`, from the first, have nodes among the first `n_gpus` GPUs. */
int cluster_other_gpus(const Cluster *cluster, gint64 n_gpus);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Cluster, cluster_free)
/* Bytes per second that `n_writers` of a job's `n_nodes` nodes write a checkpoint with. */
double cluster_checkpoint_Bps(const Cluster *cluster, int n_writers, int n_nodes);
