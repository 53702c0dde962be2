/* How often a long job on a cluster is interrupted, and what that costs:
 *
 *     failures:
 *       source: The Llama 3 Herd of Models, section 3.3.4 (2024)
 *       gpu_mtbf: 50680 h            # between interruptions caused by one GPU and everything that belongs to it
 *       node_mtbf: 20000 h           # the same for a node; one of the two is required, the rates of both add up
 *       restart: 10 min              # from an interruption until training continues from a checkpoint
 *       checkpoint_bandwidth: 2 TB/s # of all nodes together, to storage that survives the loss of a node
 *
 * Interruptions are independent of each other and of the job's age. Planned ones do not count. */
#pragma once
#include "yaml_node.h"

typedef struct {
  char *source;                   /* owned */
  double gpu_mtbf_s, node_mtbf_s; /* 0: not stated */
  double restart_s;
  double checkpoint_Bps;
} Failures;

/* NULL with INPUT (file:line): missing or unknown keys, values out of range. */
Failures *failures_read(YamlNode node, GError **error);
void failures_free(Failures *failures);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Failures, failures_free)
/* Mean time between interruptions, in seconds, of a job on that many GPUs and nodes. */
double failures_job_mtbf_s(const Failures *failures, int n_gpus, int n_nodes);
