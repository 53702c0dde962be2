/* The way of each pair of GPUs of a domain is found once, as a list of directed links. A pattern is then a list of
 * flows, each a list of such links; its rates take a count of passes and a division. The fabric is removed from the
 * cluster first, so that only the inside of nodes and their NICs can limit. */
#include "wiring.h"

#include <math.h>
#include <string.h>

#include "route.h"
#include "units.h"

/* Flows over the links of a topology, each a run of consecutive hops. */
typedef struct {
  GArray *hops; /* of int: 2·link, + 1 against the link's direction; owned */
  GArray *ends; /* of guint: where each flow's hops end; owned */
} FlowList;

static FlowList flow_list_new(void) {
  return (FlowList){g_array_new(FALSE, FALSE, sizeof(int)), g_array_new(FALSE, FALSE, sizeof(guint))};
}

static void flow_list_clear(FlowList *list) {
  g_clear_pointer(&list->hops, g_array_unref);
  g_clear_pointer(&list->ends, g_array_unref);
}

static void flow_list_empty(FlowList *list) {
  g_array_set_size(list->hops, 0);
  g_array_set_size(list->ends, 0);
}

/* Append a route, which is freed, to the current flow. FALSE if it is NULL. */
static gboolean flow_list_add_route(FlowList *list, const Topology *topology, Route *route) {
  for (int i = 0; route != NULL && i < route->n_hops; i++) {
    const int hop = 2 * route->hops[i].link + (route->hops[i].from != topology->links[route->hops[i].link].a);
    g_array_append_val(list->hops, hop);
  }
  const gboolean is_there = route != NULL;
  route_free(route);
  return is_there;
}

/* Complete the current flow. */
static void flow_list_end(FlowList *list) {
  g_array_append_val(list->ends, list->hops->len);
}

/* The hops of a flow; borrowed, until the list grows. */
static const int *flow_list_get(const FlowList *list, int flow, int *n_hops) {
  const guint first = flow > 0 ? g_array_index(list->ends, guint, flow - 1) : 0;
  *n_hops = (int)(g_array_index(list->ends, guint, flow) - first);
  return &g_array_index(list->hops, int, first);
}

/* Bandwidth left of the hop's link. INFINITY: not stated. */
static double flow_list_hop_Bps(const Topology *topology, int hop) {
  return topology_link_left_Bps(&topology->links[hop / 2]);
}

/* `passes` [2·links]: how many flows pass each hop. */
static void flow_list_count_passes(const FlowList *list, const Topology *topology, int *passes) {
  memset(passes, 0, sizeof *passes * 2 * (gsize)topology->n_links);
  for (guint i = 0; i < list->hops->len; i++)
    passes[g_array_index(list->hops, int, i)]++;
}

/* Rate of a flow: each link divides what it has left evenly among the flows that pass it, and the flow gets the
 * smallest such part along its way. `limit`: the limiting hop, unchanged if none limits it. INFINITY: no link on its
 * way has a stated bandwidth. */
static double flow_list_rate_Bps(const FlowList *list, const Topology *topology, const int *passes, int flow,
                                 int *limit) {
  int n_hops;
  const int *hops = flow_list_get(list, flow, &n_hops);
  double least_Bps = INFINITY;
  for (int i = 0; i < n_hops; i++) {
    const double Bps = flow_list_hop_Bps(topology, hops[i]) / passes[hops[i]];
    if (Bps < least_Bps) {
      least_Bps = Bps;
      *limit = hops[i];
    }
  }
  return least_Bps;
}

/* The same for the slowest flow; counts the passes first. `limit` −1: none. */
static double flow_list_slowest_Bps(const FlowList *list, const Topology *topology, int *passes, int *limit) {
  double least_Bps = INFINITY;
  *limit = -1;
  flow_list_count_passes(list, topology, passes);
  for (guint i = 0; i < list->ends->len; i++) {
    int own_limit = -1;
    const double Bps = flow_list_rate_Bps(list, topology, passes, (int)i, &own_limit);
    if (Bps < least_Bps) {
      least_Bps = Bps;
      *limit = own_limit;
    }
  }
  return least_Bps;
}

/* Sums of doubles; smaller differences count as equal to what is stated. */
static const double noise = 1e-9;

typedef struct {
  Cluster cluster; /* a shallow copy: borrows everything */
  Topology *topology;
  int n;          /* GPUs of a domain */
  FlowList ways;  /* [n²] within the first domain */
  FlowList flows; /* of the current pattern */
  int *passes;    /* [2·links] */
  int limit;      /* link that limits the last slowest flow; −1: none */
  NodeWiring *wiring;
} Survey;

/* Of the current pattern. */
static double slowest_rate(Survey *survey) {
  return flow_list_slowest_Bps(&survey->flows, survey->topology, survey->passes, &survey->limit);
}

/* --- inside a domain --- */

static gboolean find_ways(Survey *survey, GError **error) {
  for (int from = 0; from < survey->n; from++)
    for (int to = 0; to < survey->n; to++) {
      if (!flow_list_add_route(&survey->ways, survey->topology, route_new(survey->topology, from, to, error)))
        return FALSE;
      flow_list_end(&survey->ways);
    }
  return TRUE;
}

static void add_way(Survey *survey, int from, int to) {
  int n_hops;
  const int *hops = flow_list_get(&survey->ways, from * survey->n + to, &n_hops);
  g_array_append_vals(survey->flows.hops, hops, (guint)n_hops);
  flow_list_end(&survey->flows);
}

/* The members of a group: first, first + gap, … */
typedef struct {
  int first, gap, members;
} Group;

static double pair_Bps(const Survey *survey, const Group *group, int i, int j) {
  const int link = topology_find_link(survey->topology, group->first + i * group->gap, group->first + j * group->gap);
  return link >= 0 ? topology_link_left_Bps(&survey->topology->links[link]) : 0;
}

/* The narrowest cut of an undirected graph (Stoer and Wagner, "A simple min-cut algorithm", JACM 44, 1997): vertices
 * are added in order of their total weight to those already added; the last one's links are a cut; it is then merged
 * with the one before it. `weights` [n·n] is overwritten. */
static double narrowest_cut(double *weights, int n) {
  double least = INFINITY;
  g_autofree double *joined = g_new(double, n);
  g_autofree gboolean *is_taken = g_new(gboolean, n), *is_merged = g_new0(gboolean, n);
  for (int left = n; left > 1; left--) {
    int before = -1, last = -1;
    memset(joined, 0, sizeof *joined * (gsize)n);
    memcpy(is_taken, is_merged, sizeof *is_taken * (gsize)n);
    for (int step = 0; step < left; step++) {
      int most = -1;
      for (int v = 0; v < n; v++)
        if (!is_taken[v] && (most < 0 || joined[v] > joined[most]))
          most = v;
      is_taken[most] = TRUE;
      before = last;
      last = most;
      for (int v = 0; v < n; v++)
        joined[v] += is_taken[v] ? 0 : weights[most * n + v];
    }
    least = MIN(least, joined[last]);
    is_merged[last] = TRUE;
    for (int v = 0; v < n; v++) {
      weights[before * n + v] += weights[last * n + v];
      weights[v * n + before] = weights[before * n + v];
    }
  }
  return least;
}

/* 0: the members' NVLinks do not join all of them. */
static double mesh_ring_Bps(const Survey *survey, const Group *group) {
  const int n = group->members;
  g_autofree double *weights = g_new(double, (gsize)n *n);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      weights[i * n + j] = i != j ? pair_Bps(survey, group, i, j) : 0;
  return narrowest_cut(weights, n);
}

static void add_group(Survey *survey, const Group *group, gboolean is_all) {
  const int n = group->members;
  for (int i = 0; i < n; i++)
    for (int step = 1; step < (is_all ? n : 2); step++)
      add_way(survey, group->first + i * group->gap, group->first + (i + step) % n * group->gap);
}

/* All groups of this shape in the domain at once. */
static double pattern_Bps(Survey *survey, int members, int gap, gboolean is_all) {
  const gboolean is_mesh = survey->cluster.scale_up == SCALE_UP_NVLINK_MESH && !is_all;
  double mesh_Bps = INFINITY;
  flow_list_empty(&survey->flows);
  for (int base = 0; base + members * gap <= survey->n; base += members * gap)
    for (int i = 0; i < gap; i++) {
      const Group group = {base + i, gap, members};
      const double Bps = is_mesh ? mesh_ring_Bps(survey, &group) : 0;
      if (Bps > 0)
        mesh_Bps = MIN(mesh_Bps, Bps);
      else
        add_group(survey, &group, is_all);
    }
  const double routed_Bps = slowest_rate(survey) * (is_all ? members - 1 : 1);
  if (mesh_Bps < routed_Bps)
    survey->limit = -1;
  return MIN(mesh_Bps, routed_Bps);
}

static double share_of(double Bps, double stated_Bps) {
  const double share = Bps / stated_Bps;
  return share < 1 - noise ? share : 1;
}

static double stated_scale_up_Bps(const Survey *survey) {
  return survey->cluster.scale_up_Bps * survey->cluster.scale_up_efficiency;
}

static void survey_groups(Survey *survey, double *shares, gboolean is_all) {
  const int n = survey->n;
  for (int i = 0; i < n * n; i++)
    shares[i] = 1;
  for (int members = 2; members <= n; members++) {
    double *row = shares + (members - 1) * n;
    for (int gap = 1; gap * members <= n; gap++) {
      row[gap] = share_of(pattern_Bps(survey, members, gap, is_all), stated_scale_up_Bps(survey));
      row[0] = MIN(row[0], row[gap]);
    }
    for (int gap = n / members + 1; gap < n; gap++)
      row[gap] = row[0];
  }
}

static gboolean is_nvlink(const Survey *survey, int from, int to) {
  int n_hops;
  const int *hops = flow_list_get(&survey->ways, from * survey->n + to, &n_hops);
  for (int i = 0; i < n_hops; i++)
    if (survey->topology->links[hops[i] / 2].kind != CABLE_NVLINK)
      return FALSE;
  return TRUE;
}

/* GPU i to i + d for all i; the pairs without NVLink send at once. */
static void survey_sends(Survey *survey, int d) {
  const int n = survey->n, first = MAX(0, -d), end = MIN(n, n - d);
  double *shares = survey->wiring->send;
  flow_list_empty(&survey->flows);
  for (int i = first; i < end; i++)
    if (!is_nvlink(survey, i, i + d))
      add_way(survey, i, i + d);
  flow_list_count_passes(&survey->flows, survey->topology, survey->passes);
  for (int i = first, flow = 0; i < end; i++) {
    int n_hops, limit;
    const int *hops = flow_list_get(&survey->ways, i * n + i + d, &n_hops);
    double Bps = INFINITY;
    if (!is_nvlink(survey, i, i + d))
      Bps = flow_list_rate_Bps(&survey->flows, survey->topology, survey->passes, flow++, &limit);
    else
      for (int hop = 0; hop < n_hops; hop++)
        Bps = MIN(Bps, flow_list_hop_Bps(survey->topology, hops[hop]));
    shares[i * n + i + d] = share_of(Bps, stated_scale_up_Bps(survey));
  }
}

/* --- out of a domain --- */

/* `gpu`, or the next GPU of its node that a NIC serves. */
static int gpu_with_rail(const Survey *survey, int gpu) {
  const NodeTopology *node = &survey->cluster.node;
  const int base = gpu / node->n_gpus * node->n_gpus;
  for (int shift = 0; shift < node->n_gpus; shift++)
    for (int i = 0; i < node->n_rails; i++)
      if (node->rails[i].gpu == (gpu - base + shift) % node->n_gpus)
        return base + node->rails[i].gpu;
  return gpu;
}

/* One flow: from a GPU to its counterpart in the other domain, through one of its own NICs or its peer's. */
static gboolean add_egress(Survey *survey, int from, int to, int peer, int nic, GError **error) {
  const Topology *t = survey->topology;
  FlowList *flows = &survey->flows;
  const int partner = to - from + peer;
  const gboolean found = flow_list_add_route(flows, t, route_new(t, from, peer, error)) &&
                         flow_list_add_route(flows, t, route_over_nics(t, peer, partner, nic, error)) &&
                         flow_list_add_route(flows, t, route_new(t, partner, to, error));
  flow_list_end(flows);
  return found;
}

/* The smallest bandwidth of a GPU over all its NICs: their number times its slowest flow, since data is spread
 * evenly. < 0: no path. */
static double egress_Bps(Survey *survey, GError **error) {
  const NodeTopology *node = &survey->cluster.node;
  g_autoptr(GArray) n_flows = g_array_new(FALSE, FALSE, sizeof(int)); /* for each flow, flows of its GPU */
  flow_list_empty(&survey->flows);
  for (int from = 0; from < 2 * survey->n; from++) {
    const int peer = gpu_with_rail(survey, from), before = (int)survey->flows.ends->len;
    for (int i = 0; i < node->n_rails; i++)
      if (node->rails[i].gpu == peer % node->n_gpus &&
          !add_egress(survey, from, (from + survey->n) % (2 * survey->n), peer, node->rails[i].nic, error))
        return -1;
    const int n = (int)survey->flows.ends->len - before;
    for (int i = 0; i < n; i++)
      g_array_append_val(n_flows, n);
  }
  double least_Bps = INFINITY;
  flow_list_count_passes(&survey->flows, survey->topology, survey->passes);
  for (guint i = 0; i < n_flows->len; i++) {
    int limit = -1;
    const double Bps = flow_list_rate_Bps(&survey->flows, survey->topology, survey->passes, (int)i, &limit) *
                       g_array_index(n_flows, int, i);
    if (Bps < least_Bps) {
      least_Bps = Bps;
      survey->limit = limit;
    }
  }
  return least_Bps;
}

/* --- in words --- */

static char *rate_text(double Bps) {
  return units_format(Bps, UNIT_BYTES_PER_SECOND);
}

/* For groups of 2, 4, 8 … and all GPUs of a domain; returns the size of the slowest. */
static int append_rings(const Survey *survey, GString *text) {
  const double stated_Bps = stated_scale_up_Bps(survey);
  const int n = survey->n;
  int slowest = n;
  g_autofree char *stated = rate_text(stated_Bps);
  g_string_append_printf(text, "of %s a GPU rings inside a node get", stated);
  for (int members = 2; members <= n; members = members == n ? n + 1 : MIN(2 * members, n)) {
    const double share = wiring_group_share(survey->wiring, members, 1, FALSE);
    g_autofree char *rate = rate_text(stated_Bps * share);
    g_string_append_printf(text, "%s %s among %d", members > 2 ? "," : "", rate, members);
    if (share < wiring_group_share(survey->wiring, slowest, 1, FALSE))
      slowest = members;
  }
  return slowest;
}

static void append_limit(const Survey *survey, GString *text) {
  if (survey->limit < 0) {
    g_string_append(text, "; that is what the NVLinks among them carry");
    return;
  }
  const TopologyLink *link = &survey->topology->links[survey->limit / 2];
  g_autofree char *a = topology_vertex_name(survey->topology, link->a),
                  *b = topology_vertex_name(survey->topology, link->b),
                  *rate = rate_text(flow_list_hop_Bps(survey->topology, survey->limit));
  const int passes = survey->passes[survey->limit];
  g_string_append_printf(text, "; the %s link %s - %s, %s, %s", cable_kind_name(link->kind), a, b, rate,
                         passes > 1 ? "is shared" : "limits them");
  if (passes > 1)
    g_string_append_printf(text, " by %d flows", passes);
}

static gboolean has_less(const double *shares, int n) {
  for (int i = 0; i < n * n; i++)
    if (shares[i] < 1)
      return TRUE;
  return FALSE;
}

/* --- all of it --- */

/* Build the graph of `n_gpus` GPUs in domains of `domain_gpus` for the surveys that follow. */
static gboolean open_graph(Survey *survey, int domain_gpus, int n_gpus, GError **error) {
  topology_free(survey->topology);
  g_free(survey->passes);
  survey->passes = NULL;
  survey->cluster.domain_gpus = domain_gpus;
  survey->topology = topology_new(&survey->cluster, n_gpus, error);
  if (survey->topology == NULL)
    return FALSE;
  survey->n = domain_gpus;
  survey->passes = g_new0(int, 2 * (gsize)survey->topology->n_links);
  return TRUE;
}

static void survey_patterns(Survey *survey) {
  NodeWiring *wiring = survey->wiring;
  const gsize n = (gsize)survey->n;
  wiring->ring = g_new(double, n *n);
  wiring->all = g_new(double, n *n);
  wiring->send = g_new(double, n *n);
  survey_groups(survey, wiring->ring, FALSE);
  survey_groups(survey, wiring->all, TRUE);
  for (int from = 0; from < survey->n; from++)
    wiring->send[from * survey->n + from] = 1;
  for (int d = 1; d < survey->n; d++) {
    survey_sends(survey, d);
    survey_sends(survey, -d);
  }
}

static void describe_inside(Survey *survey, GString *text) {
  const NodeWiring *wiring = survey->wiring;
  const int n = survey->n;
  if (!has_less(wiring->ring, n) && !has_less(wiring->all, n) && !has_less(wiring->send, n))
    return;
  const int slowest = append_rings(survey, text);
  if (wiring_group_share(wiring, slowest, 1, FALSE) < 1) {
    pattern_Bps(survey, slowest, 1, FALSE);
    append_limit(survey, text);
  }
}

static gboolean survey_inside(Survey *survey, GString *text, GError **error) {
  const Cluster *cluster = &survey->cluster;
  const int n = cluster->domain_gpus;
  const gboolean is_stated = (cluster->scale_up == SCALE_UP_NVLINK_MESH && cluster->node.n_pairs > 0) ||
                             (cluster->scale_up == SCALE_UP_PCIE && cluster->node.n_sockets > 0);
  if (!is_stated || n < 2)
    return TRUE;
  if (n > WIRING_MOST_GPUS) {
    g_string_append_printf(text,
                           "%d GPUs without a switch are more than the %d whose links are looked at: all carry "
                           "what is stated",
                           n, WIRING_MOST_GPUS);
    return TRUE;
  }
  if (!open_graph(survey, n, n, error) || !find_ways(survey, error))
    return FALSE;
  survey_patterns(survey);
  describe_inside(survey, text);
  return TRUE;
}

/* Between two nodes is enough: wider domains do not change their NICs. */
static gboolean survey_egress(Survey *survey, GString *text, GError **error) {
  const Cluster *cluster = &survey->cluster;
  if (cluster->nics_per_node == 0)
    return TRUE;
  if (!open_graph(survey, cluster->gpus_per_node, 2 * cluster->gpus_per_node, error))
    return FALSE;
  const double stated_Bps = cluster->nic_Bps * cluster->nic_efficiency / cluster->node_egress_gpus;
  const double Bps = egress_Bps(survey, error);
  if (Bps < 0)
    return FALSE;
  survey->wiring->egress = share_of(Bps, stated_Bps);
  if (survey->wiring->egress == 1)
    return TRUE;
  g_autofree char *rate = rate_text(Bps), *stated = rate_text(stated_Bps);
  g_string_append_printf(text, "%sNICs carry %s of %s a GPU", text->len > 0 ? "; " : "", rate, stated);
  append_limit(survey, text);
  return TRUE;
}

static gboolean is_described(const Cluster *cluster) {
  return cluster->node.n_pairs > 0 || cluster->node.n_sockets > 0 || cluster->node.has_rails;
}

NodeWiring *wiring_new(const Cluster *cluster) {
  if (!is_described(cluster))
    return NULL;
  NodeWiring *wiring = g_new0(NodeWiring, 1);
  *wiring = (NodeWiring){.n_gpus = cluster->domain_gpus, .egress = 1};
  Survey survey = {
      .cluster = *cluster, .ways = flow_list_new(), .flows = flow_list_new(), .limit = -1, .wiring = wiring};
  survey.cluster.faults = NULL;
  survey.cluster.n_tiers = survey.cluster.leaves.n_nodes = 0;
  survey.cluster.max_gpus = 0;
  g_autoptr(GError) error = NULL;
  GString *text = g_string_new(NULL);
  if (!survey_inside(&survey, text, &error) || !survey_egress(&survey, text, &error))
    wiring->no_path = g_strdup(error->message);
  wiring->text = g_string_free(text, FALSE);
  topology_free(survey.topology);
  flow_list_clear(&survey.ways);
  flow_list_clear(&survey.flows);
  g_free(survey.passes);
  if (wiring->no_path == NULL && wiring->text[0] == '\0')
    g_clear_pointer(&wiring, wiring_free);
  return wiring;
}

void wiring_free(NodeWiring *wiring) {
  if (wiring == NULL)
    return;
  g_free(wiring->ring);
  g_free(wiring->all);
  g_free(wiring->send);
  g_free(wiring->no_path);
  g_free(wiring->text);
  g_free(wiring);
}

double wiring_group_share(const NodeWiring *wiring, int members, int gap, gboolean is_all) {
  if (wiring == NULL || wiring->ring == NULL || members < 2)
    return 1;
  const int n = wiring->n_gpus, row = (MIN(members, n) - 1) * n;
  return (is_all ? wiring->all : wiring->ring)[row + (gap >= 1 && gap < n ? gap : 0)];
}

double wiring_send_share(const NodeWiring *wiring, int from, int to) {
  return wiring != NULL && wiring->send != NULL
             ? wiring->send[from % wiring->n_gpus * wiring->n_gpus + to % wiring->n_gpus]
             : 1;
}

double wiring_egress_share(const NodeWiring *wiring) {
  return wiring != NULL ? wiring->egress : 1;
}
