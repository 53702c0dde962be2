#include "transfer_cost.h"

#include "copy_cost.h"
#include "framework_cost.h"
#include "kernel_cost.h"
#include "transfer_tax.h"
#include "way_load.h"
#include "worst_placement.h"

/* The GPUs of a send, for one of the representative ranks. */
typedef struct {
  int from, to;
} SendEnds;

struct TransferKind {
  const Site *site;
  Transfer transfer;    /* that it is one of, without what does not matter */
  Group group;          /* unset for a send */
  GroupShape shape;     /* of a group of ranks */
  const SendEnds *ends; /* [n_ends] of a send */
  int n_ends;
  double bytes, gathered_bytes;
  const TransferCost *latest; /* of these bytes; most transfers of a kind in a program are equal */
};

/* --- places of sends --- */

/* How the spans of the fabric's levels lie. */
typedef enum { LEVELS_ANYHOW, LEVELS_OF_DOMAINS, LEVELS_NESTED } LevelOrder;

static LevelOrder level_order(const Cluster *cluster) {
  LevelOrder order = LEVELS_NESTED;
  gint64 below = cluster->domain_gpus;
  for (int i = 0; i < cluster_n_levels(cluster); i++) {
    const gint64 span = cluster_level(cluster, i).span_gpus;
    if (span % cluster->domain_gpus != 0)
      return LEVELS_ANYHOW;
    if (span % below != 0)
      order = LEVELS_OF_DOMAINS;
    below = span;
  }
  return order;
}

/* Ends between which a send costs the same: in the same places of the first domain, or, from one domain to another,
 * as many levels apart. The last level spans everything. */
static SendEnds usual_ends(const Cluster *cluster, LevelOrder order, SendEnds at) {
  const int domain_gpus = cluster->domain_gpus;
  if (order == LEVELS_ANYHOW)
    return at;
  if (at.from / domain_gpus == at.to / domain_gpus)
    return (SendEnds){at.from % domain_gpus, at.to % domain_gpus};
  if (order == LEVELS_OF_DOMAINS)
    return (SendEnds){at.from / domain_gpus * domain_gpus, at.to / domain_gpus * domain_gpus};
  int apart = domain_gpus;
  for (int i = 0; i + 1 < cluster_n_levels(cluster); i++) {
    const int span = (int)cluster_level(cluster, i).span_gpus;
    if (at.from / span != at.to / span)
      apart = span;
  }
  return (SendEnds){0, apart};
}

/* The distinct ones, in the order of the ranks; `ends` has room for all ranks. Returns their number. */
static int find_ends(const Site *site, const Transfer *send, SendEnds *ends) {
  const Cluster *cluster = site->machine->cluster;
  const LevelOrder order = level_order(cluster);
  const int stride = site->layout->stride[AXIS_PP];
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  int n = 0;
  for (int i = 0; i < site->n_ranks; i++) {
    const SendEnds at = usual_ends(cluster, order,
                                   (SendEnds){layout_gpu(site->layout, site->ranks[i] + send->source * stride),
                                              layout_gpu(site->layout, site->ranks[i] + send->target * stride)});
    if (g_hash_table_add(seen, GSIZE_TO_POINTER((gsize)at.from << 32 | (gsize)at.to)))
      ends[n++] = at;
  }
  return n;
}

/* The all-gather after a send of parts: the receiver waits for it, but the send has left its ways. */
static double parts_gather_s(Costs *costs, const Site *site, double bytes) {
  if (bytes < 0)
    return 0;
  return site_collective(costs, site->groups, AXIS_TP, COLLECTIVE_ALL_GATHER, &site->groups->of_axis[AXIS_TP], bytes)
      .time_s;
}

/* --- the links of tp's collectives, which are inside compute ops --- */

static gboolean shares_ways(const WayLoad *load, const WayLoad *tp) {
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (tp->share[way] > 0 && load->share[way] > 0)
      return TRUE;
  return FALSE;
}

static gboolean collective_may_share(const Site *site, const GroupShape *shape) {
  for (int direct = 0; direct < 2; direct++) {
    WayLoad load = {0};
    collective_way_load(site->machine->cluster, shape, direct, &load);
    if (shares_ways(&load, &site->tp))
      return TRUE;
  }
  return FALSE;
}

/* `may_share`: in some place or by some algorithm it uses a way of tp's collectives. */
static double taken_of_tp_s(const Site *site, double time_s, const WayLoad *load, gboolean may_share) {
  int taken = 0;
  for (int way = 0; way < TIMING_MAX_WAYS && may_share; way++)
    if (site->tp.share[way] > 0)
      taken = MAX(taken, load->share[way]);
  return time_s * taken / TIMING_WHOLE_WAY;
}

/* --- times --- */

/* Seconds of a send; load and tax are those of the worst-placed one. */
static double send_s(Costs *costs, const TransferKind *kind, double bytes, double gathered_bytes, TransferCost *cost) {
  const Site *site = kind->site;
  const Cluster *cluster = site->machine->cluster;
  const double gather_s = parts_gather_s(costs, site, gathered_bytes);
  gboolean may_share = FALSE;
  double worst_s = -1;
  for (int i = 0; i < kind->n_ends; i++) {
    const SendEnds at = kind->ends[i];
    const double time_s = send_cost_s(cluster, at.from, at.to, bytes);
    WayLoad load;
    const double latency_s = send_way_load(cluster, at.from, at.to, &load);
    may_share |= shares_ways(&load, &site->tp);
    if (time_s <= worst_s)
      continue;
    worst_s = time_s;
    load.latency_ns = site_ns(MIN(time_s, latency_s) + gather_s);
    cost->load = load;
    cost->tax = send_tax(cluster, at.from, at.to);
  }
  cost->taken_s = taken_of_tp_s(site, worst_s + gather_s, &cost->load, may_share);
  return worst_s + gather_s;
}

/* Whether the group is one of tp without pp. */
static gboolean is_tp_alone(const Group *group) {
  return !group->spans_pp && group->axes == AXIS_BIT(AXIS_TP);
}

/* For collectives made from lists of tensors: the passes over memory on the data they move. */
static double list_passes_s(const TransferKind *kind, double bytes) {
  const Machine *machine = kind->site->machine;
  const FrameworkZero3 *zero3 = &machine->time->zero3;
  if (kind->transfer.n_listed == 0)
    return 0;
  const gboolean is_gather = kind->transfer.collective == COLLECTIVE_ALL_GATHER;
  const double passes = is_gather || zero3->reduction_passes == 0 ? zero3->memory_passes : zero3->reduction_passes;
  return kernel_cost_memory_s(&machine->gpu, passes * bytes);
}

/* To, by or from parameter servers. Those on the workers' nodes use NICs of these both ways, like a collective. */
static double served_s(const TransferKind *kind, double bytes, TransferCost *cost) {
  const Site *site = kind->site;
  const guint route = kind->group.route;
  const gboolean is_flow = site->are_apart && site->servers.servers_Bps > 0 && kind->group.axes == 0;
  if (route != ROUTE_SERVE)
    cost->load.latency_ns = site_ns(site->servers.latency_s);
  if (route != ROUTE_SERVE && site->servers.servers_Bps == 0)
    cost->load.share[1] = TIMING_WHOLE_WAY;
  cost->server_route = is_flow ? route : 0;
  return server_cost_s(&site->servers, route, bytes, is_flow);
}

/* Uses no link of another rank; copies of one direction run one after another. */
static double copy_s(const TransferKind *kind, double bytes, TransferCost *cost) {
  const Site *site = kind->site;
  if (kind->group.route == ROUTE_STORAGE)
    return bytes / site->data_Bps;
  if (kind->group.route & ROUTES_OF_SERVERS)
    return served_s(kind, bytes, cost);
  copy_way_load(site->machine->cluster, site->n_sharing, kind->group.route, &cost->load);
  const double time_s = copy_cost_s(site->machine->cluster, site->n_sharing, kind->group.route, bytes);
  cost->taken_s = taken_of_tp_s(site, time_s, &cost->load, TRUE);
  return time_s;
}

static double collective_s(Costs *costs, const TransferKind *kind, double bytes, TransferCost *cost) {
  const Site *site = kind->site;
  const Transfer *transfer = &kind->transfer;
  const gboolean is_of_experts = transfer->is_item && kind->group.charge == AXIS_EP;
  const Axis axis = is_of_experts || kind->group.axes == AXIS_BIT(AXIS_EP) ? AXIS_EP : N_AXES;
  const int n_calls = MAX(transfer->n_calls, 1);
  const CollectiveCost each =
      site_collective(costs, site->groups, axis, transfer->collective, &kind->shape, bytes / n_calls);
  const double time_s = is_tp_alone(&kind->group) && transfer->is_item
                            ? framework_collective_s(site->machine->time, each.time_s, kind->shape.n)
                            : n_calls * each.time_s + list_passes_s(kind, bytes);
  collective_way_load(site->machine->cluster, &kind->shape, each.algorithm == ALGORITHM_DIRECT, &cost->load);
  cost->load.latency_ns = site_ns(MIN(n_calls * each.latency_s, time_s));
  cost->tax = collective_tax(site->machine->cluster, &each);
  cost->taken_s = taken_of_tp_s(site, time_s, &cost->load, collective_may_share(site, &kind->shape));
  return time_s;
}

/* A collective that was an item of a piece is issued like one. */
static double item_launch_s(const TransferKind *kind) {
  const Machine *machine = kind->site->machine;
  const FrameworkTime *framework = machine->time;
  const double each_s = 1e-9 * (double)machine->launch_ns;
  const gboolean is_of_experts = piece_family((Piece)kind->transfer.piece) == PIECE_LAYER && kind->site->has_experts;
  const double launch_s = is_of_experts && framework->expert_host.is_stated
                              ? framework_expert_collective_s(framework, each_s)
                          : framework->host.is_stated ? framework->host.collective_s
                                                      : each_s;
  return launch_s + (is_tp_alone(&kind->group) ? framework->collective_member_s * kind->shape.n : 0);
}

static gint64 launch_ns(const TransferKind *kind) {
  const Transfer *transfer = &kind->transfer;
  const Machine *machine = kind->site->machine;
  const FrameworkTime *framework = machine->time;
  if (kind->site->replays_all || (kind->group.route & (ROUTE_STORAGE | ROUTES_OF_SERVERS)) != 0)
    return 0;
  if (transfer->n_calls > 0)
    return transfer->n_calls * machine->launch_ns +
           transfer->n_listed * site_ns(framework->zero3.list_entry_s * kind->shape.n);
  return transfer->is_item ? site_ns(item_launch_s(kind)) : machine->launch_ns;
}

static gboolean is_send(const TransferKind *kind) {
  return kind->group.name == NULL;
}

static const TransferCost *find_cost(Costs *costs, const TransferKind *kind, double bytes, double gathered_bytes) {
  const struct {
    gsize of;
    const TransferKind *kind;
    double bytes, gathered_bytes;
  } key = {COST_OF_TRANSFER, kind, bytes, is_send(kind) ? gathered_bytes : -1};
  gboolean is_new;
  TransferCost *cost = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *cost, &is_new);
  if (!is_new)
    return cost;
  *cost = (TransferCost){.is_of_tp_alone = !is_send(kind) && is_tp_alone(&kind->group)};
  const double time_s = is_send(kind)            ? send_s(costs, kind, bytes, gathered_bytes, cost)
                        : kind->group.route != 0 ? copy_s(kind, bytes, cost)
                                                 : collective_s(costs, kind, bytes, cost);
  cost->time = site_launched(time_s, launch_ns(kind));
  return cost;
}

const TransferCost *transfer_cost(Costs *costs, TransferKind *kind, double bytes, double gathered_bytes) {
  if (kind->latest == NULL || kind->bytes != bytes || kind->gathered_bytes != gathered_bytes) {
    kind->latest = find_cost(costs, kind, bytes, gathered_bytes);
    kind->bytes = bytes;
    kind->gathered_bytes = gathered_bytes;
  }
  return kind->latest;
}

/* Links are used between kernels: what these take counts as time before bytes move. While it is under way, kernels of
 * its own keep others from running. */
static void cost_compressed(Costs *costs, const TransferKind *kind, const Compressed *compressed, TransferCost *cost) {
  const Cluster *cluster = kind->site->machine->cluster;
  const CompressionCost sum = compression_cost(costs, kind->site, &kind->shape, compressed);
  const double run_ns = (double)sum.time.run_ns, calls_ns = run_ns - (double)sum.kernels_ns;
  *cost = (TransferCost){.time = sum.time, .kernels_ns = sum.kernels_ns};
  collective_way_load(cluster, &kind->shape, FALSE, &cost->load);
  cost->load.latency_ns = MIN(sum.kernels_ns + sum.latency_ns, sum.time.run_ns);
  cost->tax = run_ns > 0 ? ((double)sum.kernels_ns + sum.tax * calls_ns) / run_ns : 0;
  cost->taken_s =
      taken_of_tp_s(kind->site, 1e-9 * calls_ns, &cost->load, collective_may_share(kind->site, &kind->shape));
}

const TransferCost *transfer_compressed_cost(Costs *costs, TransferKind *kind, const Compressed *compressed) {
  const struct {
    gsize of;
    const TransferKind *kind;
    Compressed compressed;
  } key = {COST_OF_COMPRESSED, kind, *compressed};
  gboolean is_new;
  TransferCost *cost = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *cost, &is_new);
  if (is_new)
    cost_compressed(costs, kind, compressed, cost);
  return cost;
}

/* --- kinds --- */

typedef struct {
  gsize of;
  const Site *site;
  Transfer transfer;
  Group group;
} KindKey;

static void fill_kind(const KindKey *key, const SendEnds *ends, int n_ends, TransferKind *kind) {
  const Site *site = key->site;
  *kind = (TransferKind){site, key->transfer, key->group, .ends = ends, .n_ends = n_ends};
  if (!is_send(kind) && key->group.route == 0)
    kind->shape = worst_placement_shape(site->layout, site->machine->cluster, site->ranks, site->n_ranks, &key->group);
}

static TransferKind *find_kind(Costs *costs, const KindKey *key, const SendEnds *ends, int n_ends) {
  const gsize ends_size = (gsize)n_ends * sizeof *ends;
  gboolean is_new;
  TransferKind *kind = costs_at(costs, (CostKey){key, sizeof *key, ends, ends_size}, sizeof *kind, &is_new);
  if (is_new)
    fill_kind(key, n_ends > 0 ? memcpy(costs_alloc(costs, ends_size), ends, ends_size) : NULL, n_ends, kind);
  return kind;
}

/* Most sends of a pipeline go as far as each other. */
static TransferKind *kind_of_send(Costs *costs, const Site *site, const Transfer *send) {
  const struct {
    gsize of;
    const Site *site;
    gint64 source, target;
  } key = {COST_OF_SEND, site, send->source, send->target};
  gboolean is_new;
  TransferKind **kind = costs_at(costs, (CostKey){&key, sizeof key}, sizeof *kind, &is_new);
  if (is_new) {
    g_autofree SendEnds *ends = g_new(SendEnds, site->n_ranks);
    const int n_ends = find_ends(site, send, ends);
    *kind = find_kind(costs, &(KindKey){.of = COST_OF_TRANSFER_KIND, .site = site}, ends, n_ends);
  }
  return *kind;
}

/* Without its size, and what else its time does not depend on. */
static TransferKind *kind_of_collective(Costs *costs, const Site *site, const Transfer *transfer, const Group *group) {
  const KindKey key = {.of = COST_OF_TRANSFER_KIND,
                       .site = site,
                       .transfer = {.collective = transfer->collective,
                                    .n_calls = transfer->n_calls,
                                    .n_listed = transfer->n_listed,
                                    .is_item = transfer->is_item,
                                    .piece = transfer->is_item ? transfer->piece : -1},
                       .group = *group};
  return find_kind(costs, &key, NULL, 0);
}

/* Programs with equal transfers, whatever their sizes, have equal kinds. */
TransferKind *const *transfer_kinds(Costs *costs, const Site *site, const Program *program) {
  const int n_groups = (int)program->groups->len, n = (int)program->transfers->len;
  const struct {
    gsize of;
    const Site *site;
  } key = {COST_OF_PROGRAM, site};
  const gsize groups_size = (gsize)n_groups * sizeof(Group), size = groups_size + (gsize)n * sizeof(Transfer);
  guint8 *body = costs_scratch(costs, size);
  Group *groups = (Group *)body;
  Transfer *transfers = (Transfer *)(body + groups_size);
  for (int i = 0; i < n_groups; i++)
    groups[i] = g_array_index(program->groups, Group, i);
  for (int i = 0; i < n; i++) {
    transfers[i] = g_array_index(program->transfers, Transfer, i);
    transfers[i].bytes = 0;
  }
  gboolean is_new;
  TransferKind **kinds = costs_at(costs, (CostKey){&key, sizeof key, body, size}, (gsize)n * sizeof *kinds, &is_new);
  for (int i = 0; i < n && is_new; i++)
    kinds[i] = transfers[i].group < 0 ? kind_of_send(costs, site, &transfers[i])
                                      : kind_of_collective(costs, site, &transfers[i], &groups[transfers[i].group]);
  return kinds;
}
