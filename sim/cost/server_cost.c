#include "server_cost.h"

static int n_nodes(const Layout *layout, const Cluster *cluster) {
  int last = 0;
  for (int rank = 0; rank < layout->n_ranks; rank++)
    last = MAX(last, layout_gpu(layout, rank) / cluster->gpus_per_node);
  return last + 1;
}

ServerSite server_site(const Method *method, const Layout *layout, const Cluster *cluster) {
  const Servers *servers = &method->servers;
  if (!servers_are_used(servers))
    return (ServerSite){0};
  const int nodes = n_nodes(layout, cluster), n = servers->on_workers ? nodes : servers->n;
  const double node_Bps = cluster->nics_per_node * cluster->nic_Bps;
  const double server_Bps = servers->nic_Bps > 0 ? servers->nic_Bps : node_Bps;
  const double memory_Bps =
      servers->memory_Bps > 0 ? servers->memory_Bps : cluster->host.memory_Bps * cluster->host.update_efficiency;
  const double sum_bytes = sizeof(float);
  return (ServerSite){
      .rank_Bps = cluster->nic_efficiency * node_Bps / MIN(cluster->gpus_per_node, layout->n_ranks),
      .servers_Bps = servers->on_workers ? 0 : cluster->nic_efficiency * n * server_Bps,
      .memory_Bps = n * memory_Bps,
      .leaving = servers->on_workers ? (nodes - 1.0) / nodes : 1,
      .latency_s = cluster->nic_latency_s,
      .n_ranks = layout->n_ranks,
      .n_updates = servers->is_async ? layout->n_ranks : layout->n_ranks / (method->dp / servers->local),
      .push_passes = servers->is_async ? 0 : 1 + 2 * sum_bytes / method->gradient_sum_bytes,
  };
}

/* Of all servers together, for what comes or goes. */
static double all_Bps(const ServerSite *site, guint route) {
  double Bps = site->servers_Bps > 0 ? site->servers_Bps : site->n_ranks * site->rank_Bps / MAX(site->leaving, 1e-9);
  if (route == ROUTE_PUSH && site->push_passes > 0)
    Bps = MIN(Bps, site->memory_Bps / site->push_passes);
  return Bps;
}

double server_cost_s(const ServerSite *site, guint route, double bytes, gboolean is_alone) {
  if (route == ROUTE_SERVE)
    return bytes * (is_alone ? 1 : site->n_updates) / site->memory_Bps;
  const double share_Bps = all_Bps(site, route) / (is_alone ? 1 : site->n_ranks);
  return site->latency_s + bytes * MAX(site->leaving / site->rank_Bps, 1 / share_Bps);
}

double server_capacity(const ServerSite *site, guint route) {
  if (route == ROUTE_SERVE)
    return 1;
  return MAX(1, all_Bps(site, route) * site->leaving / site->rank_Bps);
}

/* Per parameter: master copy and moments, the sum of gradients, and the weights that are pulled. */
static double held_bytes(const Recipe *recipe) {
  return recipe_optimizer_bytes(recipe) + sizeof(float) + recipe->weights;
}

ServerUse server_use(const Workload *workload, const Cluster *cluster, double step_s) {
  const Method *method = workload->method;
  const Servers *servers = &method->servers;
  if (!servers_are_used(servers))
    return (ServerUse){.fits = TRUE};
  const ServerSite site = server_site(method, &workload->layout, cluster);
  double parameters = 0; /* of a rank */
  for (int stage = 0; stage < workload->n_stages; stage++)
    parameters += (double)workload->stages[stage].trained;
  const double part = parameters / servers->local, pushed = part * method->gradient_sum_bytes,
               pulled = part * method->recipe.weights;
  const double each_way = site.servers_Bps > 0 ? MAX(pushed, pulled) * site.n_ranks / site.servers_Bps
                                               : (pushed + pulled) * site.leaving / site.rank_Bps;
  const double moved =
      site.push_passes * pushed * site.n_ranks + site.n_updates * workload_optimizer_item(workload, part).bytes;
  const int n = servers->on_workers ? n_nodes(&workload->layout, cluster) : servers->n;
  ServerUse use = {.n = n,
                   .bytes = parameters * method->tp * held_bytes(&method->recipe) / n,
                   .capacity_bytes = cluster->host_memory_bytes,
                   .network = each_way / step_s,
                   .memory = moved / site.memory_Bps / step_s};
  use.fits = use.capacity_bytes == 0 || use.bytes <= use.capacity_bytes;
  return use;
}
