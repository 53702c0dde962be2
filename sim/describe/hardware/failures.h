/* How often a long job on a cluster is interrupted, and what that costs it:
 *
 *     failures:
 *       source: The Llama 3 Herd of Models, section 3.3.4 (2024)
 *       gpu_mtbf: 50680 h            # between interruptions that one GPU, with all that belongs to it, causes
 *       node_mtbf: 20000 h           # the same of a node; one of the two is needed, with both their rates add up
 *       restart: 10 min              # from an interruption until training goes on from a checkpoint
 *       checkpoint_bandwidth: 2 TB/s # of all nodes together, to storage that survives a node
 *
 * Interruptions come independently of each other and of the job's age. Planned ones are none. */
#pragma once
#include "yaml_node.h"

typedef struct {
  char *source;                   /* owned */
  double gpu_mtbf_s, node_mtbf_s; /* 0: not stated */
  double restart_s;
  double checkpoint_Bps;
} Failures;

/* NULL with INPUT (file:line): keys missing, unknown or out of range. */
Failures *failures_read(YamlNode node, GError **error);
void failures_free(Failures *failures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Failures, failures_free)
/* Mean time between interruptions, in seconds, of a job on so many GPUs and nodes. */
double failures_job_mtbf_s(const Failures *failures, int n_gpus, int n_nodes);
