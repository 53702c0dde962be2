/* What interrupts a long job on a cluster, how often, and what that costs; and the storage that checkpoints go to.
 *
 *     failures:
 *       source: The Llama 3 Herd of Models, section 3.3.4 (2024)
 *       gpu_mtbf: 50680 h            # between interruptions caused by one GPU and everything that belongs to it
 *       node_mtbf: 20000 h           # the same for a node; one of the two is required, the rates of both add up
 *       restart: 10 min              # from an interruption until training continues from a checkpoint
 *       kinds:                       # of interruption; without them all are alike and take a node out
 *         - {kind: faulty GPU, share: 148}
 *         - {kind: cable, share: 35, nodes: 0, detection: 2 min}
 *         - {kind: corruption, share: 6, silent: on, detection: 1 d}
 *       repair: 1 d                  # until a node that was taken out can be used again
 *       maintenance: {every: 27.6 h, takes: 10 min}
 *       reconfigure: 3 min           # until the others go on where nodes leave an elastic job without a restart
 *     storage: {write: 2 TB/s, read: 2 TB/s, node_write: 4 GB/s}
 *
 * Interruptions are independent of each other and of the job's age. Those of the rates are unplanned; maintenance is
 * planned: a checkpoint is written before. */
#pragma once
#include "yaml_node.h"

typedef struct {
  char *name;         /* owned */
  double share;       /* of the interruptions, relative to those of the other kinds */
  int nodes;          /* that it takes out until they are repaired; 0: none */
  double detection_s; /* until it is noticed, while nothing is trained; silent: time between two checks that would
                         notice it, until which what is trained is lost */
  double restart_s;   /* < 0: that of all kinds */
  gboolean is_silent; /* training goes on with wrong numbers */
} FailureKind;

typedef struct {
  char *source;                   /* owned */
  double gpu_mtbf_s, node_mtbf_s; /* 0: not stated */
  double restart_s;
  double checkpoint_Bps; /* of all nodes together; 0: the storage's */
  GArray *kinds;         /* of FailureKind, at least one; owned */
  double repair_s;
  double maintenance_every_s; /* 0: there is none */
  double maintenance_s;       /* < 0: restart_s */
  double reconfigure_s;
} Failures;

/* NULL with INPUT (file:line): missing or unknown keys, values out of range. */
Failures *failures_read(YamlNode node, GError **error);
/* For a cluster that states none: interruptions of one kind, as often as the caller sets gpu_mtbf_s or node_mtbf_s. */
Failures *failures_new(void);
void failures_free(Failures *failures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Failures, failures_free)
/* Mean time between interruptions, in seconds, of a job on that many GPUs and nodes. */
double failures_job_mtbf_s(const Failures *failures, int n_gpus, int n_nodes);
/* Mean over the kinds of what an interruption costs besides the work since the last checkpoint, in seconds, if a restart
 * takes `restart_s` where a kind has no time of its own: until it is noticed, and the restart. */
double failures_mean_restart_s(const Failures *failures, double restart_s);

/* Storage that all nodes share. 0: not stated. */
typedef struct {
  double write_Bps, read_Bps;           /* of all nodes together; they read as they write if that alone is stated */
  double node_write_Bps, node_read_Bps; /* most of one node */
} Storage;

/* Bytes per second that `n_writers` of a job's `n_nodes` nodes write and read together. Where nothing is stated, of
 * NVIDIA's DGX SuperPOD: storage_is_assumed(). */
double storage_write_Bps(const Storage *storage, int n_writers, int n_nodes);
double storage_read_Bps(const Storage *storage, int n_nodes);
gboolean storage_is_assumed(const Storage *storage);
