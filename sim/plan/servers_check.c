/* What parameter servers go with: data parallelism, and tensor parallelism that shares every parameter out. */
#include "error.h"
#include "plan.h"

/* What of the plan is not modelled with them, and how it should be instead; NULL: all is. */
static const char *why_not(const Plan *plan) {
  if (plan->pp > 1)
    return "--pp 1";
  if (plan->cp > 1)
    return "--cp 1";
  if (plan->ep > 1)
    return "--ep 1";
  if (zero_shards_optimizer(plan->zero))
    return "--zero 0: servers hold what ZeRO would share out";
  if (plan->islands > 1)
    return "--islands 1";
  if (plan->sequence_parallel && plan->tp > 1)
    return "--sequence-parallel off, under which tp sums the gradients of norms once more";
  if (offload_is_any(&plan->offload))
    return "nothing offloaded: servers hold what the host would";
  return NULL;
}

static gboolean check_plan(const Plan *plan, GError **error) {
  const Servers *servers = &plan->servers;
  const char *expected = why_not(plan);
  if (expected != NULL)
    return fail_impossible(error, "parameter-servers %s: expected %s", servers_text(servers), expected);
  if (plan->dp % servers->local != 0)
    return fail_impossible(error, "parameter-servers %s: %d that sum first do not divide dp %d", servers_text(servers),
                           servers->local, plan->dp);
  return plan->dp / servers->local > 1 ||
         fail_impossible(error,
                         "parameter-servers %s: a single worker has nobody to share with; expected dp %d or more",
                         servers_text(servers), 2 * servers->local);
}

static gboolean check_cluster(const Plan *plan, const Cluster *cluster, GError **error) {
  const Servers *servers = &plan->servers;
  if (cluster->nics_per_node == 0)
    return fail_impossible(error, "parameter-servers %s: the nodes of %s have no NICs to reach them",
                           servers_text(servers), cluster->name);
  return servers->memory_Bps > 0 || (cluster->host.memory_Bps > 0 && cluster->host.update_efficiency > 0) ||
         fail_impossible(error,
                         "%s does not state how fast a server's memory is: add +memory=200GB/s to --parameter-servers, "
                         "or to its node \"host: {link_efficiency: 0.8, memory_bandwidth: 614 GB/s, update_efficiency: "
                         "0.4}\"",
                         cluster->file);
}

gboolean plan_check_servers(const Plan *plan, const Cluster *cluster, GError **error) {
  return !servers_are_used(&plan->servers) ||
         (check_plan(plan, error) && (cluster == NULL || check_cluster(plan, cluster, error)));
}
