/* Check what a plan offloads against the rest of the plan and against what the cluster file states. */
#include "error.h"
#include "plan.h"

static gboolean check_weights(const Plan *plan, GError **error) {
  const char *where = offload_names()[plan->offload.weights];
  if (plan->offload.weights == TIER_GPU)
    return TRUE;
  if (plan->offload.share > 0)
    return fail_impossible(
        error,
        "offload-weights %s and offload-optimizer %s clash: what the GPU updates would have to be "
        "written back to its shard off the GPU, which is not modelled; expected host of all parameters",
        where, offload_optimizer_text(&plan->offload));
  if (!zero_shards_weights(plan->zero))
    return fail_impossible(error,
                           "offload-weights %s needs --zero 3, found zero %d: only there a layer's weights are brought "
                           "together before each use and let go after it",
                           where, plan->zero);
  return plan->offload.optimizer != TIER_GPU ||
         fail_impossible(
             error,
             "offload-weights %s needs --offload-optimizer host or nvme: %g bytes a parameter would leave a "
             "GPU that goes on holding its master copy and moments, and every update would cross twice",
             where, plan->recipe.weights);
}

static gboolean fail_missing(const Cluster *cluster, const char *what, const char *add, GError **error) {
  return fail_impossible(error, "%s does not state %s, which offloading needs: add %s to its node", cluster->file, what,
                         add);
}

static gboolean check_cluster(const Offload *offload, const Cluster *cluster, GError **error) {
  const Host *host = &cluster->host;
  if (host->link_efficiency == 0)
    return fail_missing(cluster, "how fast its host is",
                        "\"base: hgx-h100\" or another of topologies/hosts, or \"host: {link: 63 GB/s, "
                        "link_efficiency: 0.8, memory_bandwidth: 614 GB/s, update_efficiency: 0.4}\"",
                        error);
  if (host_link_Bps(host, &cluster->node, 1) == 0)
    return fail_missing(cluster, "the link between a GPU and its host", "\"link: 63 GB/s\" to the key host", error);
  if (cluster->host_memory_bytes == 0)
    return fail_missing(cluster, "the host memory of a node", "\"host_memory: 2 TB\"", error);
  return !offload_uses(offload, TIER_NVME) || host->nvme_bytes > 0 ||
         fail_missing(cluster, "NVMe drives", "\"nvme: {capacity: 30 TB, read: 50 GB/s, write: 32 GB/s}\"", error);
}

gboolean plan_check_offload(const Plan *plan, const Cluster *cluster, GError **error) {
  if (!offload_is_any(&plan->offload))
    return TRUE;
  return check_weights(plan, error) && (cluster == NULL || check_cluster(&plan->offload, cluster, error));
}
