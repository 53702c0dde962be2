/* One function per algorithm gives its times. One table maps operations to algorithms, another maps algorithms to
 * functions. */
#include "collective_algorithms.h"

#include <math.h>

static const AlgorithmTime no_such_protocol = {.wire_s = INFINITY};

/* Messages per sender (rooted: of the root) that leave an enclosure of `members` out of n. */
static double messages_to_outsiders(double n, double members) {
  return n - members;
}

static double messages_to_neighbour(double n, double members) {
  return 1;
}

/* n pushes come in, n answers go out; the server is not one of the n. */
static double messages_of_server(double n, double members) {
  return 2 * n;
}

enum {
  RING = 1 << ALGORITHM_RING,
  TREE = 1 << ALGORITHM_TREE,
  NVLS = 1 << ALGORITHM_NVLS,
  NVLS_TREE = 1 << ALGORITHM_NVLS_TREE,
  PAT = 1 << ALGORITHM_PAT,
  HIERARCHICAL = 1 << ALGORITHM_HIERARCHICAL,
  NAIVE = 1 << ALGORITHM_NAIVE,
  PAIRWISE = 1 << ALGORITHM_PAIRWISE,
  DIRECT = 1 << ALGORITHM_DIRECT,
};

typedef struct {
  guint algorithms;
  int ring_laps; /* RING: times round the ring; an all-reduce is a reduce-scatter and an all-gather */
  double (*messages)(double n, double members); /* DIRECT */
  gboolean message_is_part;                     /* DIRECT: a message is S/n; otherwise S */
  gboolean rooted;                              /* DIRECT: one rank's link carries everything; otherwise all members'
                                                   do */
  gboolean passes_all_on;                       /* RING: each member receives everything that it sends */
} CollectiveTraits;

static const CollectiveTraits traits_of[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = {RING | TREE | NVLS | NVLS_TREE | HIERARCHICAL | NAIVE, .ring_laps = 2},
    [COLLECTIVE_ALL_GATHER] = {RING | NVLS | PAT | HIERARCHICAL, .ring_laps = 1},
    [COLLECTIVE_REDUCE_SCATTER] = {RING | NVLS | PAT | HIERARCHICAL, .ring_laps = 1},
    [COLLECTIVE_BROADCAST] = {RING, .ring_laps = 1, .passes_all_on = TRUE},
    [COLLECTIVE_REDUCE] = {RING, .ring_laps = 1, .passes_all_on = TRUE},
    [COLLECTIVE_ALL_TO_ALL] = {DIRECT | PAIRWISE, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = FALSE},
    [COLLECTIVE_GATHER] = {DIRECT, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = TRUE},
    [COLLECTIVE_SCATTER] = {DIRECT, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = TRUE},
    [COLLECTIVE_SEND_RECV] = {DIRECT, 0, messages_to_neighbour, .message_is_part = FALSE, .rooted = TRUE},
    [COLLECTIVE_PARAMETER_SERVER] = {DIRECT, 0, messages_of_server, .message_is_part = FALSE, .rooted = TRUE},
};

/* The inputs of one call. */
typedef struct {
  const Cluster *cluster;
  const CollectiveLibrary *library;
  const CollectiveTraits *traits;
  Collective collective;
  const GroupShape *shape;
  double bytes;
  Protocol protocol;
} Case;

/* One step inside a domain, and one between two. In a ring over domains the inner steps are posted to the network as
 * well. */
static double inner_hop_s(const Case *c, Algorithm table) {
  const double hop_s = c->library->hop_s[scale_up_link(c->cluster)][table][c->protocol];
  const gboolean is_posted = table == ALGORITHM_RING && c->shape->n_domains > 1;
  return is_posted ? MAX(hop_s, c->library->net_overhead_s[c->protocol]) : hop_s;
}

static double outer_hop_s(const Case *c, Algorithm table) {
  const double lone_s = c->library->lone_hop_s[c->protocol];
  const gboolean is_lone = table == ALGORITHM_RING && c->shape->max_per_domain == 1 && lone_s > 0;
  return MAX(is_lone ? lone_s : c->library->hop_s[LINK_NET][table][c->protocol], c->cluster->nic_step_s);
}

/* `steps` one after another, `net_steps` of them between domains. */
static double latency_s(const Case *c, Algorithm table, double steps, double net_steps) {
  return c->library->base_s[table][c->protocol] + (steps - net_steps) * inner_hop_s(c, table) +
         net_steps * outer_hop_s(c, table);
}

static double share_of(const Case *c, Algorithm table) {
  double inside = c->shape->n_domains == 1 ? c->library->one_node_share[table][c->protocol] : 0;
  return inside > 0 ? inside : c->library->bandwidth_share[table][c->protocol];
}

/* 0: no limit */
static double ll_limit_Bps(const Case *c) {
  if (c->shape->n_domains == 1)
    return c->library->by_architecture[c->cluster->gpu.architecture].ll_Bps;
  return c->shape->n_domains == 2 ? c->library->two_nodes_ll_Bps : c->library->more_nodes_ll_Bps;
}

/* The limit of `n` channels over domains together; INFINITY: none. */
static double channels_limit_Bps(const Case *c, ChannelLimit limit, int n) {
  const OverNodes *most = &c->library->by_architecture[c->cluster->gpu.architecture].channel_max[limit];
  const double Bps = c->shape->n_domains == 2 ? most->two_nodes_Bps : most->more_nodes_Bps;
  return c->shape->n_domains > 1 && Bps > 0 ? n * Bps : INFINITY;
}

/* What the channels carry of `bus_Bps`: limited for trees with any protocol, and for LL128 with rings and trees. */
static double through_channels_Bps(const Case *c, Algorithm table, double bus_Bps) {
  const int n = collective_ring_channels(c->cluster, c->shape);
  double Bps = bus_Bps * share_of(c, table);
  if (table == ALGORITHM_TREE) {
    const double simple = c->library->bandwidth_share[ALGORITHM_TREE][PROTOCOL_SIMPLE];
    Bps = MIN(Bps, channels_limit_Bps(c, CHANNEL_TREE, n) * share_of(c, table) / simple);
  }
  if (c->protocol == PROTOCOL_LL128 && table <= ALGORITHM_TREE)
    Bps = MIN(Bps, channels_limit_Bps(c, table == ALGORITHM_TREE ? CHANNEL_TREE_LL128 : CHANNEL_RING_LL128, n));
  return Bps;
}

/* What the protocol carries of `bus_Bps`. */
static double carried_Bps(const Case *c, Algorithm table, double bus_Bps) {
  double Bps = through_channels_Bps(c, table, bus_Bps);
  double limit_Bps = c->protocol == PROTOCOL_LL ? ll_limit_Bps(c) : 0;
  return limit_Bps > 0 ? MIN(Bps, limit_Bps) : Bps;
}

static double bus_Bps(const Case *c) {
  return collective_bus_Bps(c->cluster, c->shape, NULL);
}

/* The factor for large rings over nodes; NCCL's condition is 64 bytes for each rank's part of a channel. */
static double plateau(const Case *c) {
  const CollectiveLibrary *library = c->library;
  int channels = MAX(library->by_architecture[c->cluster->gpu.architecture].channels, 1);
  gboolean is_on_it = library->ring_plateau > 0 && c->collective == COLLECTIVE_ALL_REDUCE &&
                      c->protocol == PROTOCOL_SIMPLE && c->shape->n_domains > 1 &&
                      c->bytes >= 64.0 * channels * c->shape->n;
  return is_on_it ? library->ring_plateau : 1;
}

/* One over each NIC, as many as the search may find; 0: inside a domain. */
static int nic_channels(const Cluster *cluster, const GroupShape *shape) {
  const int most = cluster->collectives.ring_channels > 0 ? cluster->collectives.ring_channels : G_MAXINT;
  return shape->n_domains < 2 ? 0 : CLAMP((int)(shape->min_per_domain / cluster->node_egress_gpus), 1, most);
}

/* The time to fill the ring when everything passes every member, each of which passes on a channel's part once it has
 * a step of it: the last member gets its first step after all others had it. Only over nodes, where the network takes
 * whole steps; inside a node LL and LL128 pass on each line. The halves of a split channel count as taking turns. */
static double passing_on_s(const Case *c, double Bps) {
  const int channels = nic_channels(c->cluster, c->shape);
  if (!c->traits->passes_all_on || channels == 0)
    return 0;
  const double hops = c->protocol == PROTOCOL_SIMPLE ? c->shape->n - 2 : c->shape->n_domains - 1;
  return hops * MIN(c->library->step_bytes[c->protocol], c->bytes / channels) / (Bps / channels);
}

static gboolean is_behind_switch(const Case *c) {
  return c->shape->n_domains == 1 && c->cluster->scale_up == SCALE_UP_NVSWITCH;
}

/* The time that a GPU's block spends on the GPU's own part, apart from sending: `steps` steps. */
static double own_part_s(const Case *c, double steps, double Bps) {
  return steps * c->bytes / c->shape->n / Bps;
}

static const ArchitectureLimits *limits_of(const Case *c) {
  return &c->library->by_architecture[c->cluster->gpu.architecture];
}

/* Whether the ring takes time that the library ignores. Not with LL; for operations that pass everything on it is not
 * known. */
static gboolean is_ring_behind_switch(const Case *c) {
  return is_behind_switch(c) && !c->traits->passes_all_on && c->protocol != PROTOCOL_LL;
}

static double ring_start_s(const Case *c) {
  const ArchitectureLimits *limits = limits_of(c);
  const int hops = c->traits->ring_laps * (c->shape->n - 1);
  return is_ring_behind_switch(c) && c->bytes > 0 ? limits->ring_start_s + hops * limits->ring_hop_s : 0;
}

/* A ring carries factor·S over each link, by the definition of bus bandwidth. The blocks of a channel go through a
 * loop's steps one after another: the last step only receives and copies data to its destination, and nothing is sent
 * meanwhile. */
static AlgorithmTime ring_time(const Case *c) {
  int laps = c->traits->ring_laps, n = c->shape->n;
  const double Bps = carried_Bps(c, ALGORITHM_RING, bus_Bps(c));
  const double last_step_s = is_ring_behind_switch(c) ? own_part_s(c, c->library->ring_last_step, Bps) : 0;
  return (AlgorithmTime){plateau(c) * latency_s(c, ALGORITHM_RING, laps * (n - 1), laps * (c->shape->n_domains - 1)),
                         c->bytes * collective_bus_factor(c->collective, n) / Bps, passing_on_s(c, Bps) + last_step_s,
                         ring_start_s(c)};
}

/* By size; linear in log size between two entries. */
static double tree_correction(const Case *c) {
  const BandwidthCorrection *rows = c->library->tree_corrections;
  int n = c->library->n_tree_corrections, i = 0;
  if (n == 0)
    return 1;
  while (i < n && rows[i].bytes < c->bytes)
    i++;
  if (i == 0 || i == n)
    return rows[MIN(i, n - 1)].share[c->protocol];
  double from = rows[i - 1].share[c->protocol], to = rows[i].share[c->protocol];
  return from + (to - from) * log(c->bytes / rows[i - 1].bytes) / log(rows[i].bytes / rows[i - 1].bytes);
}

/* Every link carries S each way, and half of the bus is lost to the turn (NCCL's ratio of bus to algorithm bandwidth
 * for trees). */
static AlgorithmTime tree_time(const Case *c) {
  double chain_steps = 2.0 * (c->shape->max_per_domain - 1), tree_steps = 2 * log2(c->shape->n_domains);
  double Bps = carried_Bps(c, ALGORITHM_TREE, bus_Bps(c)) * tree_correction(c);
  return (AlgorithmTime){latency_s(c, ALGORITHM_TREE, chain_steps + tree_steps, tree_steps), 2 * c->bytes / Bps};
}

static double nvls_Bps(const Case *c, Algorithm table) {
  return carried_Bps(c, table, scale_up_Bps(c->cluster)) *
         c->library->by_architecture[c->cluster->gpu.architecture].nvls_share;
}

/* The bytes under way at once. `halvings` ends with 0. */
static double nvls_round_bytes(const Case *c, double chunk_bytes, const int *halvings) {
  const double lanes =
      (double)c->library->by_architecture[c->cluster->gpu.architecture].nvls_channels * c->shape->max_per_domain;
  for (int i = 0; halvings[i] > 0 && c->bytes < halvings[i] * lanes * chunk_bytes; i++)
    chunk_bytes /= 2;
  return MIN(lanes * chunk_bytes, c->bytes);
}

/* Chunks pass in, through the switch and out: two rounds have begun before the first has ended. */
static double nvls_fill_s(const Case *c, double wire_s) {
  if (c->bytes <= 0)
    return 0;
  return 2 * nvls_round_bytes(c, c->library->nvls_chunk_bytes, c->library->nvls_halvings) / c->bytes * wire_s;
}

/* From four domains on a chunk starts half as large (NCCL_NVLSTREE_MAX_CHUNKSIZE). */
static double nvls_tree_fill_s(const Case *c, double wire_s) {
  const gboolean is_half = c->shape->n_domains >= 4;
  const double chunk_bytes = c->library->nvls_chunk_bytes / (is_half ? 2 : 1);
  if (c->bytes <= 0)
    return 0;
  return 2 * nvls_round_bytes(c, chunk_bytes, c->library->nvls_tree_halvings + (is_half ? 1 : 0)) / c->bytes * wire_s;
}

/* All-gathers and reduce-scatters by the library's estimate, which makes it choose rings for large ones. An
 * all-reduce has one channel of the search for each GPU. */
static double nvls_wire_s(const Case *c) {
  const ArchitectureLimits *limits = &c->library->by_architecture[c->cluster->gpu.architecture];
  const double n = c->shape->n, Bps = nvls_Bps(c, ALGORITHM_NVLS);
  if (c->collective != COLLECTIVE_ALL_REDUCE)
    return c->bytes * n / (n - 1) / Bps;
  const double channels_Bps = n * limits->nvls_channel_Bps * limits->nvls_share;
  return MAX(c->bytes * (1 + 1 / n) / Bps, channels_Bps > 0 ? c->bytes / channels_Bps : 0);
}

static AlgorithmTime nvls_time(const Case *c) {
  const double wire_s = nvls_wire_s(c);
  return (AlgorithmTime){latency_s(c, ALGORITHM_NVLS, 1, 0), wire_s, nvls_fill_s(c, wire_s)};
}

static AlgorithmTime nvls_tree_time(const Case *c) {
  double tree_steps = 2 * log2(c->shape->n_domains), net_share = c->shape->n_domains == 2 ? 1 : 2;
  double inside_s = c->bytes * (1 + 1.0 / c->shape->max_per_domain) / nvls_Bps(c, ALGORITHM_NVLS_TREE);
  double net_s = c->bytes * net_share / carried_Bps(c, ALGORITHM_NVLS_TREE, least_net_Bps(c->cluster, c->shape));
  /* one channel per GPU of a domain, which pulls its part through the switch */
  double bus_Bps = channels_limit_Bps(c, CHANNEL_NVLS_TREE, c->shape->max_per_domain);
  double channels_s = c->bytes * collective_bus_factor(c->collective, c->shape->n) / bus_Bps;
  const double wire_s = MAX(MAX(inside_s, net_s), channels_s);
  return (AlgorithmTime){latency_s(c, ALGORITHM_NVLS_TREE, 1 + tree_steps, tree_steps), wire_s,
                         nvls_tree_fill_s(c, wire_s)};
}

static AlgorithmTime pat_time(const Case *c) {
  double steps = log2(c->shape->n) * c->library->pat_step_share;
  double net_steps = c->shape->n_domains > 1 ? steps : 0;
  return (AlgorithmTime){latency_s(c, ALGORITHM_PAT, steps, net_steps) + c->shape->n * c->library->pat_per_rank_s,
                         c->bytes * collective_bus_factor(c->collective, c->shape->n) /
                             carried_Bps(c, ALGORITHM_PAT, bus_Bps(c))};
}

/* The m rings over domains run side by side, each with S/m and an m-th of the domain's NICs: together S over all. */
static AlgorithmTime hierarchical_time(const Case *c) {
  double m = c->shape->max_per_domain, domains = c->shape->n_domains, laps = c->traits->ring_laps;
  GroupShape domain = *c->shape; /* its rings are those of a single domain */
  domain.n_domains = 1;
  Case inside = *c;
  inside.shape = &domain;
  double inside_Bps = carried_Bps(&inside, ALGORITHM_RING, group_scale_up_Bps(c->cluster, c->shape, FALSE));
  double net_Bps = carried_Bps(c, ALGORITHM_RING, least_net_Bps(c->cluster, c->shape));
  double phases = laps + 1; /* each is a separate collective */
  double steps_s = latency_s(c, ALGORITHM_RING, laps * (m - 1 + domains - 1), laps * (domains - 1));
  return (AlgorithmTime){steps_s + (phases - 1) * c->library->base_s[ALGORITHM_RING][c->protocol],
                         laps * c->bytes * ((m - 1) / m / inside_Bps + (domains - 1) / domains / net_Bps)};
}

/* The group's members inside the enclosure that a sender's messages leave: the root's, or without a root the one with
 * the fewest, as most of its messages go out. */
static double members_inside(const Case *c, const Boundary *boundary) {
  return c->traits->rooted ? boundary->with_root : boundary->members;
}

/* The rate at which one sender's messages leave an enclosure. A rooted operation has its root's single NIC (or its
 * share of several), but not more than the group may put through the boundary. */
static double sender_Bps(const Case *c, const Boundary *boundary) {
  const double member_Bps = boundary->Bps / boundary->members;
  if (!c->traits->rooted || boundary->link != LINK_NET)
    return member_Bps;
  const double own_Bps = MAX(nic_Bps(c->cluster), nic_share_Bps(c->cluster)) * domain_health(c->cluster, 1, 0);
  return MIN(member_Bps * boundary->with_root, own_Bps);
}

/* A sender's messages to other domains. */
static double net_messages(const Case *c) {
  const double beside = c->traits->rooted ? c->shape->root_per_domain : c->shape->min_per_domain;
  return c->shape->n_domains > 1 ? c->traits->messages(c->shape->n, beside) : 0;
}

/* A message inside a domain costs a ring's hop there. */
static double send_hop_s(const Case *c) {
  const double more_s = c->protocol == PROTOCOL_SIMPLE && is_behind_switch(c) ? limits_of(c)->ring_hop_s : 0;
  return c->library->hop_s[scale_up_link(c->cluster)][ALGORITHM_RING][c->protocol] + more_s;
}

/* Messages inside a domain are written one after another, with Simple several at once; those to others are posted to
 * the network one after another, and then travel together. */
static double sends_latency_s(const Case *c) {
  const double posted = net_messages(c), written = c->traits->messages(c->shape->n, 1) - posted;
  const double at_once = c->protocol == PROTOCOL_SIMPLE ? MAX(c->library->sends_at_once, 1) : 1;
  const double on_way_s = posted > 0 ? outer_hop_s(c, ALGORITHM_RING) : 0;
  return c->library->base_s[ALGORITHM_RING][c->protocol] + ceil(written / at_once) * send_hop_s(c) + on_way_s +
         MAX(posted - 1, 0) * c->library->net_overhead_s[c->protocol];
}

/* A sender starts its messages one after another; they overlap on the wires of the different enclosures. */
static AlgorithmTime direct_time(const Case *c) {
  double n = c->shape->n, message_bytes = c->traits->message_is_part ? c->bytes / n : c->bytes;
  const double ll_bytes = c->library->send_ll_bytes;
  if (c->protocol == PROTOCOL_LL && (ll_bytes <= 0 || message_bytes > ll_bytes))
    return no_such_protocol;
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(c->cluster, c->shape, TRUE, boundaries);
  double wire_s = 0;
  for (int i = 0; i < n_boundaries; i++) {
    double out_bytes = c->traits->messages(n, members_inside(c, &boundaries[i])) * message_bytes;
    wire_s = MAX(wire_s, out_bytes / sender_Bps(c, &boundaries[i]));
  }
  /* a GPU copies its own part to itself */
  const gboolean has_own = c->collective == COLLECTIVE_ALL_TO_ALL && is_behind_switch(c);
  const double own_steps = limits_of(c)->own_part > 0 ? limits_of(c)->own_part : c->library->ring_last_step;
  return (AlgorithmTime){sends_latency_s(c), wire_s / share_of(c, ALGORITHM_RING),
                         has_own ? own_part_s(c, own_steps, carried_Bps(c, ALGORITHM_RING, bus_Bps(c))) : 0};
}

/* From and to each other member, never two messages at once. */
static AlgorithmTime naive_time(const Case *c) {
  Case rooted = *c;
  rooted.traits = &traits_of[COLLECTIVE_GATHER];
  double n = c->shape->n, slowest_Bps = INFINITY, wire_s = 0;
  Boundary boundaries[MAX_BOUNDARIES];
  const int n_boundaries = enclosures_find(c->cluster, c->shape, TRUE, boundaries);
  for (int i = 0; i < n_boundaries; i++) {
    const double beyond = i + 1 < n_boundaries ? n - boundaries[i + 1].with_root : 0;
    slowest_Bps = MIN(slowest_Bps, sender_Bps(&rooted, &boundaries[i]));
    wire_s += 2 * (n - boundaries[i].with_root - beyond) * c->bytes / slowest_Bps;
  }
  return (AlgorithmTime){latency_s(c, ALGORITHM_RING, 2 * (n - 1), 2 * net_messages(&rooted)),
                         wire_s / share_of(c, ALGORITHM_RING)};
}

/* A round's partners lie inside some enclosure and outside the one below it; all members send in the round at
 * once. */
static AlgorithmTime pairwise_time(const Case *c) {
  double n = c->shape->n, slowest_Bps = INFINITY, wire_s = 0;
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = enclosures_find(c->cluster, c->shape, TRUE, boundaries);
  for (int i = 0; i < n_boundaries; i++) {
    double beyond = i + 1 < n_boundaries ? messages_to_outsiders(n, boundaries[i + 1].members) : 0;
    double rounds = messages_to_outsiders(n, boundaries[i].members) - beyond;
    slowest_Bps = MIN(slowest_Bps, sender_Bps(c, &boundaries[i]));
    wire_s += rounds * c->bytes / n / slowest_Bps;
  }
  /* one message after another, each a step of the ring */
  return (AlgorithmTime){latency_s(c, ALGORITHM_RING, c->traits->messages(n, 1), net_messages(c)),
                         wire_s / share_of(c, ALGORITHM_RING)};
}

enum { ANY_PROTOCOL = (1 << N_PROTOCOLS) - 1 };

typedef struct {
  AlgorithmTime (*time)(const Case *c);
  Algorithm table; /* row of the library's tables */
  gboolean automatic;
  guint protocols; /* bits 1 << Protocol, among those in the library's tables */
  gboolean sends;  /* made of plain sends, whose channels are not known */
} AlgorithmTraits;

static const AlgorithmTraits algorithms[] = {
    [ALGORITHM_RING] = {ring_time, ALGORITHM_RING, TRUE, ANY_PROTOCOL},
    [ALGORITHM_TREE] = {tree_time, ALGORITHM_TREE, TRUE, ANY_PROTOCOL},
    [ALGORITHM_NVLS] = {nvls_time, ALGORITHM_NVLS, TRUE, ANY_PROTOCOL},
    [ALGORITHM_NVLS_TREE] = {nvls_tree_time, ALGORITHM_NVLS_TREE, TRUE, ANY_PROTOCOL},
    [ALGORITHM_PAT] = {pat_time, ALGORITHM_PAT, TRUE, ANY_PROTOCOL},
    [ALGORITHM_HIERARCHICAL] = {hierarchical_time, ALGORITHM_RING, FALSE, ANY_PROTOCOL},
    [ALGORITHM_NAIVE] = {naive_time, ALGORITHM_RING, FALSE, 1 << PROTOCOL_SIMPLE, .sends = TRUE},
    [ALGORITHM_PAIRWISE] = {pairwise_time, ALGORITHM_RING, FALSE, 1 << PROTOCOL_SIMPLE, .sends = TRUE},
    [ALGORITHM_DIRECT] = {direct_time, ALGORITHM_RING, TRUE, 1 << PROTOCOL_SIMPLE | 1 << PROTOCOL_LL, .sends = TRUE},
};

AlgorithmTime collective_algorithm_time(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                        double bytes, Algorithm algorithm, Protocol protocol) {
  const AlgorithmTraits *traits = &algorithms[algorithm];
  const Case c = {cluster, &cluster->collectives, &traits_of[collective], collective, shape, bytes, protocol};
  if (cluster->collectives.bandwidth_share[traits->table][protocol] <= 0 || (traits->protocols & 1u << protocol) == 0)
    return no_such_protocol;
  return traits->time(&c);
}

guint collective_algorithms(Collective collective) {
  g_assert(collective < N_COLLECTIVES);
  return traits_of[collective].algorithms;
}

Algorithm collective_plain_algorithm(Collective collective) {
  return collective_algorithms(collective) & DIRECT ? ALGORITHM_DIRECT : ALGORITHM_RING;
}

gboolean collective_algorithm_is_automatic(Algorithm algorithm) {
  return algorithms[algorithm].automatic;
}

static const char *nvls_lacks(const Cluster *cluster, const GroupShape *shape) {
  if (cluster->scale_up != SCALE_UP_NVSWITCH)
    return "GPUs behind NVSwitches";
  if (cluster->collectives.by_architecture[cluster->gpu.architecture].nvls_share <= 0)
    return "switches that reduce (NVSwitch of Hopper and later: nvls_share of the GPU's architecture in the library)";
  return shape->max_per_domain > 1 ? NULL : "several members in one scale-up domain";
}

const char *collective_algorithm_lacks(const Cluster *cluster, const GroupShape *shape, Algorithm algorithm) {
  const char *over_domains = shape->n_domains > 1 ? NULL : "members in several scale-up domains";
  const AlgorithmTraits *traits = &algorithms[algorithm];
  if (cluster->collectives.bandwidth_share[traits->table][PROTOCOL_SIMPLE] <= 0)
    return "a row in the collective library's tables";
  switch (algorithm) {
  case ALGORITHM_NVLS:
    return shape->n_domains > 1 ? "all members in one scale-up domain" : nvls_lacks(cluster, shape);
  case ALGORITHM_NVLS_TREE:
    return over_domains != NULL ? over_domains : nvls_lacks(cluster, shape);
  case ALGORITHM_PAT:
    if (shape->max_per_node > 1)
      return "one member a node";
    return shape->n_nodes > 1 ? NULL : "members on several nodes";
  case ALGORITHM_HIERARCHICAL:
    if (over_domains != NULL)
      return over_domains;
    return shape->min_per_domain == shape->max_per_domain && shape->max_per_domain > 1
               ? NULL
               : "as many members, and several, in every scale-up domain";
  default:
    return NULL;
  }
}

gboolean collective_algorithm_exists(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                     Algorithm algorithm) {
  return (collective_algorithms(collective) & 1u << algorithm) != 0 &&
         collective_algorithm_lacks(cluster, shape, algorithm) == NULL;
}

/* One channel per NIC, at the highest of the search's rates that the NIC reaches. If the rate is high enough, each is
 * split into two: always before Hopper (up to compute capability 8.0) and where no architecture is stated; later only
 * if channels are few or the rate is higher still. Never more than the search may find. */
int collective_ring_channels(const Cluster *cluster, const GroupShape *shape) {
  const RingSearch *search = &cluster->collectives.ring_search;
  const int most = cluster->collectives.ring_channels > 0 ? cluster->collectives.ring_channels : G_MAXINT;
  const int n = nic_channels(cluster, shape);
  const double Bps = cluster->nic_Bps * (search->rate_share > 0 ? search->rate_share : 1);
  const gboolean is_split =
      search->split_Bps > 0 && Bps >= search->split_Bps &&
      (cluster->gpu.architecture <= ARCHITECTURE_AMPERE || n <= search->split_channels || Bps >= search->split_any_Bps);
  return is_split ? MIN(2 * n, most) : n;
}

int collective_algorithm_sms(const Cluster *cluster, const GroupShape *shape, double bytes, Algorithm algorithm,
                             Protocol protocol) {
  const CollectiveLibrary *library = &cluster->collectives;
  const ArchitectureLimits *limits = &library->by_architecture[cluster->gpu.architecture];
  gboolean is_nvls = algorithm == ALGORITHM_NVLS || algorithm == ALGORITHM_NVLS_TREE;
  int most = algorithms[algorithm].sends ? 0 : is_nvls ? limits->nvls_channels : limits->channels;
  if (most > 0 && !is_nvls && shape->n_domains > 1)
    most = MIN(most, 2 * collective_ring_channels(cluster, shape)); /* each exists twice, for two trees */
  if (most == 0 || shape->n == 1)
    return 0;
  double least_bytes = library->channel_bytes[protocol];
  if (algorithm == ALGORITHM_RING && protocol == PROTOCOL_LL)
    least_bytes *= shape->n;
  return least_bytes > 0 ? (int)CLAMP(bytes / least_bytes, 1, most) : most;
}
