/* A group is seen as nested enclosures: a GPU, the scale-up domain around it, the fabric tiers around that. What limits
 * a collective is what it must carry across each enclosure's boundary, so one list of boundaries serves all algorithms:
 *
 *     ┌ pod (tier) ─────────────────────────────────┐
 *     │ ┌ domain ───────┐ ┌ domain ───────┐         │      boundary of    members in it    bandwidth out of it
 *     │ │ GPU GPU … GPU │ │ GPU GPU … GPU │   …     │ →    GPU            1                scale-up rate
 *     │ └───────────────┘ └───────────────┘         │      domain         m                m · NIC share
 *     └─────────────────────────────────────────────┘      pod            M                M · NIC share /
 * oversubscription
 *
 * The NIC share of a member is its node's NICs divided by its node's GPUs: beside this group, the other groups of the
 * same axis use the GPUs that are not its members. A pod of P GPUs has uplinks for P·share/oversubscription, and P/M
 * such groups lie in it, which leaves M·share/oversubscription to each.
 *
 *   Ring and tree  cross every boundary once with all their channels, at the rate B of the bus. So B is the least of
 *                  the bandwidths above, and oversubscription binds only when it exceeds M/m: the other members of the
 *                  pod leave the uplinks alone.
 *   Direct         all-to-all: each of the M members sends the (n − M)/n of its buffer that is meant for others out of
 *                  the enclosure. Rooted operations and plain sends: one rank's own link carries all.
 *
 * Time is latency (library constants per step and kind of link, as NCCL's tuner counts the steps of a ring and a tree)
 * plus bytes over bandwidth. Sources: NCCL v2.30.7 src/graph/tuning.cc; Thakur et al., IJHPCA 19(1), 2005. */
#include "collective_cost.h"

#include <math.h>

#include "measured_links_cost.h"

static const char *const algorithm_name_list[] = {"ring", "tree", "direct", NULL};
static const char *const protocol_name_list[] = {"LL", "LL128", "Simple", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(algorithm_name_list) == ALGORITHM_DIRECT + 2);
G_STATIC_ASSERT(G_N_ELEMENTS(protocol_name_list) == N_PROTOCOLS + 1);

const char *const *algorithm_names(void) {
  return algorithm_name_list;
}

const char *const *protocol_names(void) {
  return protocol_name_list;
}

/* Messages that leave an enclosure of `members` out of n, per sender (rooted: of the root). */
static double messages_to_outsiders(double n, double members) {
  return n - members;
}

static double messages_to_neighbour(double n, double members) {
  return 1;
}

/* n pushes come in, n answers go out; the server itself is none of the n. */
static double messages_of_server(double n, double members) {
  return 2 * n;
}

enum {
  RING = 1 << ALGORITHM_RING,
  TREE = 1 << ALGORITHM_TREE,
  DIRECT = 1 << ALGORITHM_DIRECT,
};

typedef struct {
  guint algorithms;
  int ring_laps; /* RING: times round: all-reduce is a reduce-scatter and an all-gather */
  double (*messages)(double n, double members); /* DIRECT */
  gboolean message_is_part;                     /* DIRECT: a message is S/n; else S */
  gboolean rooted;                              /* DIRECT: one rank's link carries all; else all members' do */
} CollectiveTraits;

static const CollectiveTraits traits_of[N_COLLECTIVES] = {
    [COLLECTIVE_ALL_REDUCE] = {RING | TREE, .ring_laps = 2},
    [COLLECTIVE_ALL_GATHER] = {RING, .ring_laps = 1},
    [COLLECTIVE_REDUCE_SCATTER] = {RING, .ring_laps = 1},
    [COLLECTIVE_BROADCAST] = {RING, .ring_laps = 1},
    [COLLECTIVE_REDUCE] = {RING, .ring_laps = 1},
    [COLLECTIVE_ALL_TO_ALL] = {DIRECT, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = FALSE},
    [COLLECTIVE_GATHER] = {DIRECT, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = TRUE},
    [COLLECTIVE_SCATTER] = {DIRECT, 0, messages_to_outsiders, .message_is_part = TRUE, .rooted = TRUE},
    [COLLECTIVE_SEND_RECV] = {DIRECT, 0, messages_to_neighbour, .message_is_part = FALSE, .rooted = TRUE},
    [COLLECTIVE_PARAMETER_SERVER] = {DIRECT, 0, messages_of_server, .message_is_part = FALSE, .rooted = TRUE},
};

guint collective_algorithms(Collective collective) {
  g_assert(collective < N_COLLECTIVES);
  return traits_of[collective].algorithms;
}

typedef struct {
  double members; /* of the group inside one enclosure */
  double Bps;     /* out of the enclosure, for all of them together */
  LinkKind link;
} Boundary;

enum { MAX_BOUNDARIES = 2 + CLUSTER_MAX_TIERS };

static LinkKind scale_up_link(const Cluster *cluster) {
  return cluster->scale_up == SCALE_UP_PCIE ? LINK_PCIE : LINK_NVLINK;
}

static double scale_up_Bps(const Cluster *cluster) {
  return cluster->scale_up_Bps * cluster->scale_up_efficiency;
}

static double nic_Bps(const Cluster *cluster) {
  g_assert(cluster->nics_per_node > 0); /* plan_complete() refuses several domains without NICs */
  return cluster->nic_Bps * cluster->nic_efficiency;
}

/* Of all its node's NICs, while every GPU of the node uses them. */
static double nic_share_Bps(const Cluster *cluster) {
  return nic_Bps(cluster) / cluster->node_egress_gpus;
}

/* Members in `span_gpus` consecutive GPUs, for evenly spaced members: span = (n − 1)·stride + 1. */
static double members_in_span(const GroupShape *shape, double span_gpus) {
  double stride = (double)(shape->span - 1) / (shape->n - 1);
  return CLAMP(span_gpus / stride, shape->min_per_domain, shape->n);
}

/* From the innermost enclosure to the outermost; returns how many there are (none for n = 1). */
static int find_boundaries(const Cluster *cluster, const GroupShape *shape, Boundary *out) {
  int n_out = 0;
  if (shape->max_per_domain > 1)
    out[n_out++] = (Boundary){1, scale_up_Bps(cluster), scale_up_link(cluster)};
  if (shape->n_domains < 2)
    return n_out;
  double member_Bps = nic_share_Bps(cluster);
  double members = shape->min_per_domain;
  if (cluster->n_tiers > 0)
    member_Bps /= cluster->tiers[0].oversubscription;
  out[n_out++] = (Boundary){members, members * member_Bps, LINK_NET};
  for (int i = 1; i < cluster->n_tiers; i++) {
    if (shape->span <= cluster->tiers[i - 1].span_gpus)
      break;
    /* uplinks thin out tier by tier: what tier i carries is a part of what tier i − 1 does */
    member_Bps /= cluster->tiers[i].oversubscription;
    members = members_in_span(shape, (double)cluster->tiers[i - 1].span_gpus);
    out[n_out++] = (Boundary){members, members * member_Bps, LINK_NET};
  }
  return n_out;
}

double collective_bus_Bps(const Cluster *cluster, const GroupShape *shape, LinkKind *slowest) {
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = find_boundaries(cluster, shape, boundaries);
  Boundary least = {1, scale_up_Bps(cluster), scale_up_link(cluster)};
  for (int i = 0; i < n_boundaries; i++)
    if (i == 0 || boundaries[i].Bps < least.Bps)
      least = boundaries[i];
  if (slowest)
    *slowest = least.link;
  return least.Bps;
}

/* `steps` one after another, `net_steps` of them between domains. */
static double latency_s(const Cluster *cluster, Algorithm algorithm, Protocol protocol, double steps,
                        double net_steps) {
  const CollectiveLibrary *library = &cluster->collectives;
  return library->base_s[algorithm][protocol] +
         (steps - net_steps) * library->hop_s[scale_up_link(cluster)][algorithm][protocol] +
         net_steps * library->hop_s[LINK_NET][algorithm][protocol];
}

/* A ring carries factor·S over each link, by what "bus bandwidth" means. */
static double ring_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                     Protocol protocol) {
  int laps = traits_of[collective].ring_laps;
  double share = cluster->collectives.bandwidth_share[ALGORITHM_RING][protocol];
  double bus = collective_bus_Bps(cluster, shape, NULL) * share;
  return latency_s(cluster, ALGORITHM_RING, protocol, laps * (shape->n - 1), laps * (shape->n_domains - 1)) +
         bytes * collective_bus_factor(collective, shape->n) / bus;
}

/* Up and down again: a chain inside each domain, a binary tree over domains; every link carries S each way, and half
 * of the bus is lost to the turn (NCCL's ratio of bus to algorithm bandwidth for trees). */
static double tree_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                     Protocol protocol) {
  double chain_steps = 2.0 * (shape->max_per_domain - 1);
  double tree_steps = 2 * log2(shape->n_domains);
  double share = cluster->collectives.bandwidth_share[ALGORITHM_TREE][protocol];
  double bus = collective_bus_Bps(cluster, shape, NULL) * share;
  return latency_s(cluster, ALGORITHM_TREE, protocol, chain_steps + tree_steps, tree_steps) + 2 * bytes / bus;
}

/* Rate at which one sender's messages leave an enclosure. A rooted operation has its root's one NIC (or its share of
 * several), and not more than the group may put through the boundary. */
static double sender_Bps(const Cluster *cluster, const CollectiveTraits *traits, const Boundary *boundary) {
  if (!traits->rooted)
    return boundary->Bps / boundary->members;
  if (boundary->link != LINK_NET)
    return boundary->Bps;
  return MIN(boundary->Bps, MAX(nic_Bps(cluster), nic_share_Bps(cluster)));
}

/* Messages start one after another at their sender and overlap on the wires of the different enclosures. They are plain
 * sends of the library: the ring's Simple protocol, one step each. */
static double direct_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                       Protocol protocol) {
  const CollectiveTraits *traits = &traits_of[collective];
  double n = shape->n, message_bytes = traits->message_is_part ? bytes / n : bytes;
  Boundary boundaries[MAX_BOUNDARIES];
  int n_boundaries = find_boundaries(cluster, shape, boundaries);
  double wire_s = 0;
  for (int i = 0; i < n_boundaries; i++) {
    double out_bytes = traits->messages(n, boundaries[i].members) * message_bytes;
    wire_s = MAX(wire_s, out_bytes / sender_Bps(cluster, traits, &boundaries[i]));
  }
  double share = cluster->collectives.bandwidth_share[ALGORITHM_RING][protocol];
  double net_messages = shape->n_domains > 1 ? traits->messages(n, shape->min_per_domain) : 0;
  return latency_s(cluster, ALGORITHM_RING, protocol, traits->messages(n, 1), net_messages) + wire_s / share;
}

typedef struct {
  double (*time_s)(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                   Protocol protocol);
  Algorithm table; /* row of the library's tables */
  Protocol first_protocol;
} AlgorithmInfo;

static const AlgorithmInfo algorithm_info[] = {
    [ALGORITHM_RING] = {ring_s, ALGORITHM_RING, PROTOCOL_LL},
    [ALGORITHM_TREE] = {tree_s, ALGORITHM_TREE, PROTOCOL_LL},
    [ALGORITHM_DIRECT] = {direct_s, ALGORITHM_RING, PROTOCOL_SIMPLE},
};

/* Lower cost->time_s to that of the algorithm's fastest protocol; a protocol that carries nothing does not exist. */
static void try_algorithm(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                          Algorithm algorithm, CollectiveCost *cost) {
  const AlgorithmInfo *info = &algorithm_info[algorithm];
  for (Protocol p = info->first_protocol; p < N_PROTOCOLS; p++) {
    if (cluster->collectives.bandwidth_share[info->table][p] <= 0)
      continue;
    double time_s = info->time_s(cluster, collective, shape, bytes, p);
    if (time_s >= cost->time_s)
      continue;
    cost->time_s = time_s;
    cost->algorithm = algorithm;
    cost->protocol = p;
  }
}

/* Of the model alone; time, algorithm and protocol. */
static CollectiveCost modelled_cost(const Cluster *cluster, Collective collective, const GroupShape *shape,
                                    double bytes, int algorithm) {
  guint allowed = traits_of[collective].algorithms;
  if (algorithm >= 0 && (allowed & 1u << algorithm))
    allowed = 1u << algorithm;
  CollectiveCost cost = {.time_s = INFINITY, .protocol = PROTOCOL_SIMPLE};
  cost.algorithm = allowed & DIRECT ? ALGORITHM_DIRECT : ALGORITHM_RING;
  if (shape->n == 1) {
    cost.time_s = 0;
    return cost;
  }
  for (Algorithm a = ALGORITHM_RING; a <= ALGORITHM_DIRECT; a++)
    if (allowed & 1u << a)
      try_algorithm(cluster, collective, shape, bytes, a, &cost);
  g_assert(isfinite(cost.time_s)); /* the library's data gives every algorithm a protocol */
  return cost;
}

static double fastest_s(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes) {
  return modelled_cost(cluster, collective, shape, bytes, -1).time_s;
}

CollectiveCost collective_cost(const Cluster *cluster, Collective collective, const GroupShape *shape, double bytes,
                               int algorithm) {
  g_assert(collective < N_COLLECTIVES && shape->n > 0 && bytes >= 0);
  CollectiveCost cost = modelled_cost(cluster, collective, shape, bytes, algorithm);
  cost.bus_Bps = collective_bus_Bps(cluster, shape, &cost.link);
  if (algorithm < 0 && shape->n > 1 && cluster->measured != NULL)
    cost.time_s = measured_collective_s(cluster, collective, shape, bytes, fastest_s, &cost.source);
  if (cost.time_s > 0) {
    cost.algbw_Bps = bytes / cost.time_s;
    cost.busbw_Bps = cost.algbw_Bps * collective_bus_factor(collective, shape->n);
  }
  return cost;
}

static double fabric_send_s(const Cluster *cluster, int from, int to, double bytes) {
  double model_s = 0, first_tier_s = 0;
  double Bps = nic_Bps(cluster) / MAX(1, cluster->node_egress_gpus);
  for (int i = 0; i < MAX(cluster->n_tiers, 1); i++) {
    gint64 span = i > 0 ? cluster->tiers[i - 1].span_gpus : cluster->domain_gpus;
    if (cluster->n_tiers > 0 && from / span != to / span)
      Bps /= cluster->tiers[i].oversubscription;
    model_s = cluster->nic_latency_s + bytes / Bps;
    if (i == 0)
      first_tier_s = model_s;
  }
  return measured_send_s(cluster, SEND_OVER_FABRIC, bytes, model_s, first_tier_s);
}

double send_cost_s(const Cluster *cluster, int from, int to, double bytes) {
  if (from == to)
    return 0;
  if (from / cluster->domain_gpus != to / cluster->domain_gpus)
    return fabric_send_s(cluster, from, to, bytes);
  gboolean in_node = from / cluster->gpus_per_node == to / cluster->gpus_per_node;
  double model_s = cluster->scale_up_latency_s + bytes / scale_up_Bps(cluster);
  return measured_send_s(cluster, in_node ? SEND_IN_NODE : SEND_IN_DOMAIN, bytes, model_s, model_s);
}
