#include "topology_check.h"

#include <math.h>
#include <string.h>

#include "link_facts.h"
#include "units.h"

#define SLOW_UPLINK 16.0   /* oversubscription under one switch above which its uplink looks like a mistake */
#define MOST_NIC_BPS 200e9 /* of a port: twice the fastest that is sold, 800 Gb/s (2025) */

typedef struct {
  const Topology *topology;
  const Cluster *cluster;
  GArray *findings;
} Checker;

static void clear_finding(gpointer finding) {
  g_free(((Finding *)finding)->what);
  g_free(((Finding *)finding)->advice);
}

/* Takes ownership of `what`. */
static void add(Checker *c, gboolean is_error, char *what, const char *advice) {
  Finding finding = {is_error, what, g_strdup(advice)};
  g_array_append_val(c->findings, finding);
}

/* Reach. */

static void flood(const Topology *t, int from, gboolean *seen) {
  g_autoptr(GArray) queue = g_array_new(FALSE, FALSE, sizeof(int));
  g_array_append_val(queue, from);
  seen[from] = TRUE;
  for (guint at = 0; at < queue->len; at++) {
    int vertex = g_array_index(queue, int, at);
    for (int i = t->first_end[vertex]; i < t->first_end[vertex + 1]; i++) {
      const TopologyLink *link = &t->links[t->link_ends[i]];
      int next = topology_far_end(link, vertex);
      if (link->factor == 0 || seen[next])
        continue;
      seen[next] = TRUE;
      g_array_append_val(queue, next);
    }
  }
}

static void check_reach(Checker *c) {
  const Topology *t = c->topology;
  g_autofree gboolean *seen = g_new0(gboolean, t->n_vertices);
  flood(t, 0, seen);
  int n_cut_off = 0, first = -1;
  for (int gpu = t->n_gpus - 1; gpu >= 0; gpu--)
    if (!seen[gpu]) {
      n_cut_off++;
      first = gpu;
    }
  if (n_cut_off == 0)
    return;
  g_autofree char *name = topology_vertex_name(t, first);
  add(c, TRUE,
      g_strdup_printf("%d of %d GPUs cannot be reached from node0/gpu0, the first of them %s", n_cut_off, t->n_gpus,
                      name),
      "wire them in node.scale_up.mesh or node.pcie, or take their dead links out of faults");
}

/* A NIC without a live network link, or without a live link into its node, is useless. */
static gboolean is_live_nic(const Topology *t, int nic) {
  gboolean has_net = FALSE, has_host = FALSE;
  for (int i = t->first_end[nic]; i < t->first_end[nic + 1]; i++) {
    const TopologyLink *link = &t->links[t->link_ends[i]];
    *(link->kind == CABLE_NET ? &has_net : &has_host) |= link->factor > 0;
  }
  return has_net && has_host;
}

static void check_live_nics(Checker *c) {
  const Topology *t = c->topology;
  const NodeTopology *node = &c->cluster->node;
  if (c->cluster->faults == NULL || node->n_nics == 0)
    return;
  for (int gpu = 0; gpu < t->n_gpus; gpu++) {
    int n_nics = 0, n_live = 0;
    for (int i = 0; i < node->n_rails; i++) {
      if (node->rails[i].gpu != t->vertices[gpu].index)
        continue;
      n_nics++;
      n_live += is_live_nic(t, t->n_gpus + t->vertices[gpu].owner * node->n_nics + node->rails[i].nic);
    }
    if (n_nics == 0 || n_live > 0)
      continue;
    g_autofree char *name = topology_vertex_name(t, gpu);
    add(c, FALSE, g_strdup_printf("%s has no live NIC: all that serve it are dead", name),
        "its traffic can only leave through another GPU's NIC; repair it, or give it another NIC in node.rails");
  }
}

/* Rails. */

static gboolean has_nic_on(const NodeTopology *node, int socket) {
  for (int nic = 0; nic < node->n_nics; nic++)
    if (node->nic_ports[nic].socket == socket)
      return TRUE;
  return FALSE;
}

/* The NIC is on another socket although the GPU's own socket has one. */
static gboolean crosses_sockets_needlessly(const NodeTopology *node, const Rail *rail) {
  const int socket = node->n_sockets > 0 ? node->gpu_ports[rail->gpu].socket : 0;
  return node->n_sockets > 0 && socket != node->nic_ports[rail->nic].socket && has_nic_on(node, socket);
}

static void check_rails(Checker *c) {
  const NodeTopology *node = &c->cluster->node;
  g_autofree int *of_nic = g_new0(int, node->n_nics + 1), *of_gpu = g_new0(int, node->n_gpus + 1);
  for (int i = 0; i < node->n_rails; i++) {
    const Rail *rail = &node->rails[i];
    of_nic[rail->nic]++;
    of_gpu[rail->gpu]++;
    if (crosses_sockets_needlessly(node, rail))
      add(c, FALSE,
          g_strdup_printf("NIC %d serves GPU %d of another socket: all its traffic passes between the sockets",
                          rail->nic, rail->gpu),
          node->has_rails ? "let it serve a GPU of its own socket in node.rails"
                          : "say in node.rails which NIC serves which GPU");
  }
  for (int nic = 0; nic < node->n_nics; nic++)
    if (of_nic[nic] == 0)
      add(c, FALSE, g_strdup_printf("NIC %d serves no GPU", nic), "add it to node.rails, or lower node.nics");
  for (int gpu = 0; gpu < node->n_gpus && node->n_nics > 0; gpu++)
    if (of_gpu[gpu] == 0)
      add(c, TRUE, g_strdup_printf("GPU %d is served by no NIC", gpu), "add it to a NIC of node.rails");
}

/* PCIe. */

static void check_uplinks(Checker *c) {
  const NodeTopology *node = &c->cluster->node;
  g_autofree double *feed_Bps = g_new0(double, node->n_switches + 1);
  for (int i = 0; i < node->n_gpus && node->n_sockets > 0; i++)
    if (node->gpu_ports[i].pcie_switch >= 0)
      feed_Bps[node->gpu_ports[i].pcie_switch] += node->gpu_ports[i].Bps;
  for (int i = 0; i < node->n_nics && node->n_sockets > 0; i++)
    if (node->nic_ports[i].pcie_switch >= 0)
      feed_Bps[node->nic_ports[i].pcie_switch] += node->nic_ports[i].Bps;
  for (int i = node->n_switches - 1; i >= 0; i--)
    if (node->switches[i].parent >= 0)
      feed_Bps[node->switches[i].parent] += node->switches[i].uplink_Bps;
  for (int i = 0; i < node->n_switches; i++) {
    double uplink_Bps = node->switches[i].uplink_Bps;
    g_autofree char *uplink = units_format(uplink_Bps, UNIT_BYTES_PER_SECOND),
                    *feed = units_format(feed_Bps[i], UNIT_BYTES_PER_SECOND);
    if (feed_Bps[i] == 0)
      add(c, FALSE, g_strdup_printf("PCIe switch %d has nothing below it", i),
          "list its gpus and nics, or leave it out");
    else if (uplink_Bps > feed_Bps[i] * 1.001)
      add(c, FALSE,
          g_strdup_printf("the uplink of PCIe switch %d, %s, is faster than all that feeds it, %s", i, uplink, feed),
          "check whether the uplink is that of another generation or width, or both directions together");
    else if (uplink_Bps * SLOW_UPLINK < feed_Bps[i])
      add(c, FALSE,
          g_strdup_printf("the uplink of PCIe switch %d, %s, is below a sixteenth of what feeds it, %s", i, uplink,
                          feed),
          "check its unit: Gb/s are bits, GB/s bytes");
  }
}

/* The kind of GPU's links by topologies/imports/links.yaml; NULL: not known. */
static const Generation *generation_of(const Cluster *cluster, const LinkFacts *facts) {
  return facts != NULL ? link_facts_generation(facts, architecture_names[cluster->gpu.architecture], 0, NULL) : NULL;
}

/* Without a tree a NIC's slot is at least such as the GPUs have, or as fast as their links to the host: a switch may
 * join GPUs and NICs of a later PCIe than the host's. NVLink-C2C is faster than any NIC. */
static void check_slots_unseen(Checker *c) {
  const Cluster *cluster = c->cluster;
  g_autoptr(LinkFacts) facts = link_facts_read(NULL);
  const Generation *generation = generation_of(cluster, facts);
  const double slot_Bps =
      MAX(cluster->host.link_Bps, generation != NULL ? MAX(generation->pcie_Bps, generation->nic_slot_Bps) : 0);
  if (slot_Bps == 0 || cluster->nics_per_node == 0 || cluster->nic_Bps <= slot_Bps || cluster->nic_Bps > MOST_NIC_BPS)
    return; /* beyond all NICs is found by its magnitude */
  g_autofree char *slot = units_format(slot_Bps, UNIT_BYTES_PER_SECOND),
                  *Bps = units_format(cluster->nic_Bps, UNIT_BYTES_PER_SECOND);
  add(c, FALSE, g_strdup_printf("a NIC carries %s, more than the %s of a PCIe slot of such nodes", Bps, slot),
      "check the unit of node.nic.bandwidth (Gb/s are bits, GB/s bytes); faster slots go into node.pcie");
}

static void check_slots(Checker *c) {
  const Cluster *cluster = c->cluster;
  const NodeTopology *node = &cluster->node;
  if (node->n_sockets == 0)
    check_slots_unseen(c);
  for (int nic = 0; nic < node->n_nics && node->n_sockets > 0; nic++) {
    if (cluster->nic_Bps <= node->nic_ports[nic].Bps)
      continue;
    g_autofree char *slot = units_format(node->nic_ports[nic].Bps, UNIT_BYTES_PER_SECOND),
                    *Bps = units_format(cluster->nic_Bps, UNIT_BYTES_PER_SECOND);
    add(c, FALSE, g_strdup_printf("NIC %d carries %s, more than the %s of its PCIe slot", nic, Bps, slot),
        "check node.nic.bandwidth and node.pcie.bandwidth; a faster slot goes into node.pcie.slots");
  }
}

/* Spans. */

static void check_multiple(Checker *c, const char *what, gint64 span, gint64 below, const char *of) {
  if (span % below == 0)
    return;
  add(c, TRUE, g_strdup_printf("%s %" INT64 " is not a multiple of the %" INT64 " GPUs of %s", what, span, below, of),
      "blocks would be cut in the middle: make it a multiple");
}

/* The larger of a block and a scale-up domain must be a multiple of the smaller. Jobs use segments of domains only if
 * blocks are whole domains (cluster_job_domain()). */
static void check_domains(Checker *c, const char *what, gint64 span) {
  const Cluster *cluster = c->cluster;
  const int domain_gpus = cluster->domain_gpus;
  const gboolean is_larger = span > domain_gpus;
  if (domain_gpus <= cluster->gpus_per_node || (is_larger ? span % domain_gpus : domain_gpus % span) == 0)
    return;
  add(c, FALSE,
      is_larger
          ? g_strdup_printf("%s %" INT64 " GPUs, no whole number of scale-up domains of %d", what, span, domain_gpus)
          : g_strdup_printf("%s %" INT64 " GPUs, of which a scale-up domain of %d is no whole number", what, span,
                            domain_gpus),
      is_larger && cluster->segment_gpus < domain_gpus
          ? "jobs then take all GPUs of a domain, not its segment: give leaves and tiers whole domains"
          : "domains would be cut in the middle: give leaves and tiers whole domains");
}

static void check_spans(Checker *c) {
  const Cluster *cluster = c->cluster;
  gint64 below = cluster->gpus_per_node;
  const char *of = "a node";
  if (cluster->leaves.n_nodes > 0) {
    below *= cluster->leaves.n_nodes;
    of = "a group of leaves";
    check_domains(c, "a group of leaves has", below);
  }
  for (int i = 0; i < cluster->n_tiers; i++) {
    g_autofree char *what = g_strdup_printf("tier %d: span", i);
    check_multiple(c, what, cluster->tiers[i].span_gpus, below, of);
    check_domains(c, what, cluster->tiers[i].span_gpus);
    below = cluster->tiers[i].span_gpus;
    of = "a block of the tier below";
  }
  if (cluster->max_gpus > 0)
    check_multiple(c, "max_gpus", cluster->max_gpus, cluster->gpus_per_node, "a node");
}

/* The mesh. */

static void check_mesh(Checker *c) {
  const Cluster *cluster = c->cluster;
  const NodeTopology *node = &cluster->node;
  g_autofree int *n_links = g_new0(int, cluster->domain_gpus);
  for (int i = 0; i < node->n_pairs; i++) {
    n_links[node->pairs[i].a] += node->pairs[i].n_links;
    n_links[node->pairs[i].b] += node->pairs[i].n_links;
  }
  for (int gpu = 0; gpu < cluster->domain_gpus && node->n_pairs > 0; gpu++) {
    double Bps = n_links[gpu] * node->mesh_link_Bps;
    if (fabs(Bps - cluster->scale_up_Bps) <= 0.01 * cluster->scale_up_Bps)
      continue;
    g_autofree char *sum = units_format(Bps, UNIT_BYTES_PER_SECOND),
                    *stated = units_format(cluster->scale_up_Bps, UNIT_BYTES_PER_SECOND);
    add(c, FALSE,
        g_strdup_printf("the %d NVLinks of GPU %d carry %s, the node states %s per GPU", n_links[gpu], gpu, sum,
                        stated),
        "make node.scale_up.bandwidth the sum of a GPU's links, per direction");
  }
}

/* Magnitudes. */

typedef struct {
  const char *what, *key;
  double Bps;
  double least_Bps, most_Bps; /* range of such links, with a margin on both sides */
} Magnitude;

static void check_magnitude(Checker *c, const Magnitude *m) {
  if (m->Bps == 0 || (m->Bps >= m->least_Bps && m->Bps <= m->most_Bps))
    return;
  g_autofree char *found = units_format(m->Bps, UNIT_BYTES_PER_SECOND),
                  *least = units_format(m->least_Bps, UNIT_BYTES_PER_SECOND),
                  *most = units_format(m->most_Bps, UNIT_BYTES_PER_SECOND),
                  *advice = g_strdup_printf(
                      "check the unit of %s (Gb/s are bits, GB/s bytes) and that it counts one direction", m->key);
  add(c, FALSE, g_strdup_printf("%s of %s: such links have %s to %s", m->what, found, least, most), advice);
}

/* From the slowest still found in training nodes (NVLink 1, PCIe 3.0 x4, 10 Gb/s) to twice what has been announced
 * (NVLink 6 1.8 TB/s each way, PCIe 7.0 x16 242 GB/s; vendors' pages, 2025; MOST_NIC_BPS). */
static void check_magnitudes(Checker *c) {
  const Cluster *cluster = c->cluster;
  const NodeTopology *node = &cluster->node;
  gboolean is_pcie = cluster->scale_up == SCALE_UP_PCIE;
  double slot_Bps = node->n_sockets > 0 ? node->gpu_ports[0].Bps : 0;
  const Magnitude magnitudes[] = {
      {"scale-up over NVLink", "node.scale_up.bandwidth", is_pcie ? 0 : cluster->scale_up_Bps, 20e9, 3.6e12},
      {"scale-up over PCIe", "node.scale_up.bandwidth", is_pcie ? cluster->scale_up_Bps : 0, 2e9, 256e9},
      {"one NVLink", "node.scale_up.mesh.link", node->mesh_link_Bps, 10e9, 200e9},
      {"a PCIe slot", "node.pcie.bandwidth", slot_Bps, 3e9, 256e9},
      {"the link between sockets", "node.pcie.inter_socket", node->inter_socket_Bps, 5e9, 1e12},
      {"a NIC", "node.nic.bandwidth", cluster->nic_Bps, 1e9, MOST_NIC_BPS},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(magnitudes); i++)
    check_magnitude(c, &magnitudes[i]);
  double nics_Bps = cluster->nics_per_node * cluster->nic_Bps / cluster->gpus_per_node;
  if (!is_pcie && cluster->gpus_per_node > 1 && nics_Bps > cluster->scale_up_Bps) {
    g_autofree char *nvlink = units_format(cluster->scale_up_Bps, UNIT_BYTES_PER_SECOND),
                    *nics = units_format(nics_Bps, UNIT_BYTES_PER_SECOND);
    add(c, FALSE, g_strdup_printf("NVLink carries %s per GPU, less than its share of the NICs, %s", nvlink, nics),
        "check the units of node.scale_up.bandwidth and node.nic.bandwidth");
  }
}

/* More than all NVLinks of such a GPU carry one way: probably a data sheet's sum of both directions. */
static void check_direction(Checker *c) {
  const Cluster *cluster = c->cluster;
  g_autoptr(LinkFacts) facts = cluster->scale_up == SCALE_UP_PCIE ? NULL : link_facts_read(NULL);
  const Generation *generation = generation_of(cluster, facts);
  const double all_Bps = generation != NULL ? generation->nvlinks * generation->nvlink_Bps : G_MAXDOUBLE;
  if (cluster->scale_up_Bps <= 1.01 * all_Bps)
    return;
  g_autofree char *stated = units_format(cluster->scale_up_Bps, UNIT_BYTES_PER_SECOND),
                  *all = units_format(all_Bps, UNIT_BYTES_PER_SECOND);
  add(c, FALSE,
      g_strdup_printf("scale-up of %s per GPU: the %d NVLinks of such a GPU (%s) carry %s per direction", stated,
                      generation->nvlinks, architecture_names[cluster->gpu.architecture], all),
      "node.scale_up.bandwidth is that of one direction; data sheets print both together");
}

GArray *topology_check(const Topology *topology) {
  Checker c = {topology, topology->cluster, g_array_new(FALSE, FALSE, sizeof(Finding))};
  g_array_set_clear_func(c.findings, clear_finding);
  check_reach(&c);
  check_live_nics(&c);
  check_rails(&c);
  check_uplinks(&c);
  check_slots(&c);
  check_spans(&c);
  check_mesh(&c);
  check_magnitudes(&c);
  check_direction(&c);
  return c.findings;
}

/* How many findings from `first` on have the advice of that one. */
static int count_alike(const GArray *findings, guint first) {
  int n = 0;
  for (guint i = first; i < findings->len; i++)
    n += strcmp(g_array_index(findings, Finding, i).advice, g_array_index(findings, Finding, first).advice) == 0;
  return n;
}

static gboolean is_first_alike(const GArray *findings, guint at) {
  for (guint i = 0; i < at; i++)
    if (strcmp(g_array_index(findings, Finding, i).advice, g_array_index(findings, Finding, at).advice) == 0)
      return FALSE;
  return TRUE;
}

GPtrArray *topology_notices(const Cluster *cluster) {
  GPtrArray *notices = g_ptr_array_new_with_free_func(g_free);
  const int n_domains = cluster->nics_per_node > 0 ? 2 : 1;
  g_autoptr(Topology) topology = topology_new(cluster, (gint64)n_domains * cluster->domain_gpus, NULL);
  if (topology == NULL) /* whoever needs the graph says why */
    return notices;
  g_autoptr(GArray) findings = topology_check(topology);
  for (guint i = 0; i < findings->len; i++) {
    const Finding *finding = &g_array_index(findings, Finding, i);
    const int n = count_alike(findings, i);
    if (!is_first_alike(findings, i))
      continue;
    g_autofree char *more = n > 1 ? g_strdup_printf(" (and %d more like it)", n - 1) : g_strdup("");
    g_ptr_array_add(notices, g_strdup_printf("%s: %s%s: %s", cluster->file, finding->what, more, finding->advice));
  }
  return notices;
}
