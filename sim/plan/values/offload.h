/* Which memory holds what does not fit on a GPU: its node's host memory, or the node's NVMe drives.
 *
 * Optimizer: master copy and moments leave the GPU, each reduced gradient follows them, and the node's CPUs update
 * (ZeRO-Offload, arXiv 2101.06840; DeepSpeed's CPU Adam, FSDP's CPUOffloadPolicy, Megatron-LM's
 * --optimizer-cpu-offload); of a share of the parameters, while the GPU updates the others (ZeRO-Offload++'s Twin-Flow,
 * DeepSpeed's offload_optimizer.ratio, Megatron-LM's --optimizer-offload-fraction). Weights: a ZeRO-3 shard is fetched
 * before each gather (ZeRO-Infinity, arXiv 2104.07857). Activations: what a layer saves for backward is moved out after
 * its forward and fetched before its backward. */
#pragma once
#include <glib.h>

typedef enum { TIER_GPU, TIER_HOST, TIER_NVME, N_TIERS } MemoryTier;

typedef struct {
  MemoryTier optimizer, weights, activations;
  double share; /* of the parameters whose optimizer is offloaded, if it is; 0 stands for 1, all */
} Offload;

/* Values of the options, NULL-terminated in enum order: none, host, nvme; for activations: none, host. */
const char *const *offload_names(void);
const char *const *offload_activations_names(void);

/* "host:0.3": 0.3 of the parameters on the host. INPUT naming `what`. */
gboolean offload_parse_optimizer(const char *what, const char *text, Offload *offload, GError **error);
/* Static. */
const char *offload_optimizer_text(const Offload *offload);

/* Shares of a rank's parameters whose optimizer is off the GPU, and on it. */
double offload_share(const Offload *offload);
double offload_kept_share(const Offload *offload);

gboolean offload_is_any(const Offload *offload);
/* Whether the plan offloads anything to `tier`. */
gboolean offload_uses(const Offload *offload, MemoryTier tier);
