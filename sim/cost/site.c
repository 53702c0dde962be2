#include "site.h"

#include <string.h>

#include "copy_cost.h"
#include "expert_exchange.h"
#include "framework_cost.h"
#include "way_load.h"
#include "worst_placement.h"

OpTime site_launched(double run_s, gint64 launch_ns) {
  const gint64 run_ns = site_ns(run_s);
  return (OpTime){.run_ns = run_ns, .tail_ns = launch_ns + run_ns, .host_ns = launch_ns};
}

typedef struct {
  gsize of;
  Cluster cluster;   /* without health */
  LinkHealth health; /* without the list of domains, which is the key's body */
  FrameworkTime time;
  gsize has_framework;
} MachineKey;

static const Machine *machine_of(Costs *costs, const Cluster *cluster, const Method *method) {
  const LinkHealth *health = cluster->health;
  const gsize n_domain = health != NULL ? (gsize)cluster->domain_gpus * (gsize)cluster->domain_gpus : 0;
  MachineKey key;
  key.of = COST_OF_MACHINE;
  key.cluster = *cluster;
  key.cluster.health = NULL;
  key.health = health != NULL ? *health : (LinkHealth){0};
  key.health.domain = NULL;
  key.time = method->time;
  key.has_framework = method->framework != NULL;
  const CostKey all = {&key, sizeof key, health != NULL ? health->domain : NULL, n_domain * sizeof(double)};
  gboolean is_new;
  Machine *machine = costs_at(costs, all, sizeof *machine, &is_new);
  if (is_new) {
    const Gpu gpu = measured_cost_gpu(&key.cluster.gpu, key.has_framework != 0);
    *machine = (Machine){.gpu = framework_gpu(&key.time, &gpu), .launch_ns = site_ns(gpu.host_launch_s)};
  }
  machine->cluster = cluster;
  machine->time = &method->time;
  return machine;
}

static const ItemGroups *groups_of(Costs *costs, const ItemGroups *wanted) {
  const struct {
    gsize of;
    ItemGroups groups;
  } key = {COST_OF_GROUPS, *wanted};
  gboolean is_new;
  ItemGroups *groups = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *groups, &is_new);
  *groups = *wanted;
  return groups;
}

typedef struct {
  gsize of;
  const Machine *machine;
  Layout layout; /* without the map of ranks, which is the key's body */
  ModelExperts experts;
  gsize dispatches_once, spans_ep_and_tp, replays_all;
  double data_Bps;
  ServerSite servers;
  gsize are_apart;
} SiteKey;

static const ItemGroups *find_groups(Costs *costs, const SiteKey *key, const Layout *layout) {
  const Cluster *cluster = key->machine->cluster;
  ItemGroups groups = {.machine = key->machine, .experts = key->experts, .dispatches_once = key->dispatches_once};
  for (int axis = 0; axis < N_ITEM_AXES; axis++) /* for a group of one rank only tp's shape is used */
    if (axis == AXIS_TP || layout_group_size(layout, AXIS_BIT(axis)) > 1)
      groups.of_axis[axis] = layout_group_shape(layout, cluster, AXIS_BIT(axis));
  if (key->spans_ep_and_tp)
    groups.ep_and_tp = layout_group_shape(layout, cluster, AXIS_BIT(AXIS_EP) | AXIS_BIT(AXIS_TP));
  return groups_of(costs, &groups);
}

static void fill_site(Costs *costs, const SiteKey *key, const Layout *layout, Site *site) {
  const Cluster *cluster = key->machine->cluster;
  g_autoptr(GArray) ranks = worst_placement_ranks(layout, cluster);
  int *kept = costs_alloc(costs, ranks->len * sizeof *kept);
  memcpy(kept, ranks->data, ranks->len * sizeof *kept);
  *site = (Site){.machine = key->machine,
                 .groups = find_groups(costs, key, layout),
                 .ranks = kept,
                 .n_ranks = (int)ranks->len,
                 .data_Bps = key->data_Bps,
                 .servers = key->servers,
                 .are_apart = key->are_apart != 0,
                 .n_sharing = copy_cost_sharing(layout, cluster),
                 .has_experts = key->experts.n > 0,
                 .replays_all = key->replays_all != 0};
  collective_way_load(cluster, &site->groups->of_axis[AXIS_TP], FALSE, &site->tp);
}

const Site *site_of(Costs *costs, const Workload *workload, const Cluster *cluster) {
  const Method *method = workload->method;
  const Layout *layout = &workload->layout;
  const gsize n_mapped = layout->gpu_of_rank != NULL ? (gsize)layout->n_ranks : 0;
  SiteKey key = {COST_OF_SITE,
                 machine_of(costs, cluster, method),
                 *layout,
                 workload->model != NULL ? workload->model->experts : (ModelExperts){0},
                 method->dispatches_once,
                 method->gathers_tokens && method->ep > 1 && method->expert_tp > 1,
                 method->cuda_graphs == CUDA_GRAPHS_FULL,
                 copy_cost_data_Bps(&method->data, layout, cluster),
                 server_site(method, layout, cluster),
                 !method->fold && method->contention};
  key.layout.gpu_of_rank = NULL;
  gboolean is_new;
  const CostKey all = {&key, sizeof key, layout->gpu_of_rank, n_mapped * sizeof(int)};
  Site *site = costs_at(costs, all, sizeof *site, &is_new);
  if (is_new)
    fill_site(costs, &key, layout, site);
  site->layout = layout;
  return site;
}

typedef struct {
  gsize of;
  const Machine *machine;
  GroupShape shape;
  ModelExperts experts; /* of an exchange by DeepEP's kernels; otherwise unset */
  gsize is_exchange, collective;
  double bytes;
} CollectiveKey;

CollectiveCost site_collective(Costs *costs, const ItemGroups *groups, Axis axis, Collective collective,
                               const GroupShape *shape, double bytes) {
  const gboolean is_exchange = axis == AXIS_EP && collective == COLLECTIVE_ALL_TO_ALL && groups->dispatches_once;
  const CollectiveKey key = {
      COST_OF_COLLECTIVE, groups->machine, *shape, is_exchange ? groups->experts : (ModelExperts){0},
      (gsize)is_exchange, collective,      bytes};
  const Cluster *cluster = groups->machine->cluster;
  gboolean is_new;
  CollectiveCost *cost = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *cost, &is_new);
  if (is_new)
    *cost = is_exchange ? expert_exchange_cost(cluster, &key.experts, shape, bytes)
                        : collective_cost(cluster, collective, shape, bytes, -1);
  return *cost;
}
