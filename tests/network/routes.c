/* A route between two nodes is cut where it enters and leaves the fabric:
 *
 *        from ──► inside ─way out─► fabric ─► … ─► fabric ─way in─► inside ──► to
 *         |  distances from `from`  |  distances to the   |  distances to `to`   |
 *         |  within its node        |  last fabric vertex |  within its node     |
 *
 * Each part has its own table of distances (Dijkstra, confined to the node or to the fabric), made when first needed.
 * The route uses the pair of a way out and a way in with the smallest sum. Each part is then walked downhill through
 * its table; where several arcs lead to the same distance, the rule picks one. Distances are integer sums, so ties are
 * exact. Two vertices of one node are joined inside it unless the way over the fabric is shorter. */
#include "routes.h"

#include "error.h"
#include "event_queue.h"
#include "route_graph.h"

enum { MAX_VERTICES = 1 << 24 };
#define FAR (G_MAXINT64 / 4)

typedef struct {
  gint32 inside; /* the last vertex of the node; −1: the end is itself in the fabric */
  gint32 link;   /* from inside to fabric or back; −1 likewise */
  gint32 fabric;
  gint64 cost; /* between the end and the fabric vertex, this link included */
} Way;

typedef struct {
  gint32 first, n_links; /* in Routes.links */
  gint64 latency_ticks;
} Kept;

struct Routes {
  const Network *network;
  RouteGraph *graph; /* owned */
  gint32 n_vertices;
  RouteOrder order;
  RouteRule rule;
  gint64 **away; /* [vertices] distances from it to the members of its group, by `local`; NULL until asked for */
  gint64 **back; /* [vertices] from the members to it */
  GArray *links; /* gint32 */
  GArray *kept;  /* Kept */
  GHashTable *by_pair;
  GArray *ways_out, *ways_in; /* Way; of the question at hand */
  GArray *ties;               /* gint32; ways or arcs to pick from */
};

/* The question at hand. */
typedef struct {
  gint32 from, to;
  guint16 label;
  guint32 digits; /* ROUTE_BY_RAIL: what is left of the destination's place */
} Ask;

static guint hash_pair(gconstpointer key) {
  return (guint)(((guint64)GPOINTER_TO_SIZE(key) * 0x9E3779B97F4A7C15u) >> 32);
}

Routes *routes_new(const Network *network, RouteOrder order, RouteRule rule) {
  gint32 n = network_n_vertices(network);
  g_assert(n <= MAX_VERTICES);
  Routes *routes = g_new0(Routes, 1);
  *routes = (Routes){network, route_graph_new(network), n, order, rule, g_new0(gint64 *, n), g_new0(gint64 *, n)};
  routes->links = g_array_new(FALSE, FALSE, sizeof(gint32));
  routes->kept = g_array_new(FALSE, FALSE, sizeof(Kept));
  routes->by_pair = g_hash_table_new(hash_pair, NULL);
  routes->ways_out = g_array_new(FALSE, FALSE, sizeof(Way));
  routes->ways_in = g_array_new(FALSE, FALSE, sizeof(Way));
  routes->ties = g_array_new(FALSE, FALSE, sizeof(gint32));
  return routes;
}

void routes_free(Routes *routes) {
  if (routes == NULL)
    return;
  for (gint32 i = 0; i < routes->n_vertices; i++) {
    g_free(routes->away[i]);
    g_free(routes->back[i]);
  }
  route_graph_free(routes->graph);
  g_free(routes->away);
  g_free(routes->back);
  g_array_free(routes->links, TRUE);
  g_array_free(routes->kept, TRUE);
  g_hash_table_unref(routes->by_pair);
  g_array_free(routes->ways_out, TRUE);
  g_array_free(routes->ways_in, TRUE);
  g_array_free(routes->ties, TRUE);
  g_free(routes);
}

static inline gint64 cost_of(const Routes *routes, gint32 link) {
  gint64 latency_ticks = network_link(routes->network, link)->latency_ticks; /* ≤ 1 s = 2^42 */
  return routes->order == ROUTE_BY_LATENCY ? latency_ticks * 1024 + 1 : latency_ticks + ((gint64)1 << 48);
}

static inline gint32 node_of(const Routes *routes, gint32 vertex) {
  return network_vertex(routes->network, vertex)->node;
}

static inline RoutePlace place_of(const Routes *routes, gint32 vertex) {
  return route_graph_place(routes->graph, vertex);
}

static inline gboolean passes_on(const Routes *routes, gint32 vertex) {
  return network_vertex(routes->network, vertex)->kind != NET_GPU;
}

static gint64 *measure(const Routes *routes, gint32 start, gboolean is_into) {
  const gint32 node = node_of(routes, start), origin = place_of(routes, start).local;
  gint32 n_members;
  const gint32 *members = route_graph_members(routes->graph, node, &n_members);
  gint64 *distances = g_new(gint64, n_members);
  EventQueue queue;
  event_queue_init(&queue, n_members);
  for (gint32 i = 0; i < n_members; i++)
    distances[i] = FAR;
  distances[origin] = 0;
  event_queue_add(&queue, 0, origin);
  for (gint32 local; (local = event_queue_take(&queue)) >= 0;) {
    gint32 vertex = members[local], n_arcs;
    if (vertex != start && !passes_on(routes, vertex))
      continue;
    const RouteArc *arcs = route_graph_arcs(routes->graph, vertex, is_into, &n_arcs);
    for (gint32 i = 0; i < n_arcs; i++) {
      const gint32 next = place_of(routes, arcs[i].to).local;
      gint64 distance = distances[local] + cost_of(routes, arcs[i].link);
      if (node_of(routes, arcs[i].to) != node || distance >= distances[next])
        continue;
      if (distances[next] < FAR)
        event_queue_remove(&queue, next);
      distances[next] = distance;
      event_queue_add(&queue, distance, next);
    }
  }
  event_queue_clear(&queue);
  return distances;
}

static const gint64 *away_from(Routes *routes, gint32 vertex) {
  if (routes->away[vertex] == NULL)
    routes->away[vertex] = measure(routes, vertex, FALSE);
  return routes->away[vertex];
}

static const gint64 *back_to(Routes *routes, gint32 vertex) {
  if (routes->back[vertex] == NULL)
    routes->back[vertex] = measure(routes, vertex, TRUE);
  return routes->back[vertex];
}

/* Which of n equally short alternatives; `where` tells the decisions of one route apart. */
static gint32 pick(const Routes *routes, Ask *ask, gint32 n, gint32 where, guint32 number) {
  if (n == 1)
    return 0;
  if (routes->rule == ROUTE_BY_RAIL)
    return number % n;
  guint64 mixed = ((guint64)ask->from << 40 ^ (guint64)ask->to << 16 ^ ask->label) * 0x9E3779B97F4A7C15u;
  mixed = (mixed ^ mixed >> 29 ^ (guint64)where) * 0xBF58476D1CE4E5B9u; /* as splitmix64 ends */
  mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EBu;
  return (mixed >> 33) % n;
}

/* Downhill from `at` to where the distance is 0, appending the links passed. */
static void walk(Routes *routes, Ask *ask, gint32 at, const gint64 *distances, gboolean is_into) {
  const gint32 node = node_of(routes, at);
  for (gint32 here; distances[here = place_of(routes, at).local] > 0;) {
    gint32 n_arcs;
    const RouteArc *arcs = route_graph_arcs(routes->graph, at, is_into, &n_arcs);
    g_array_set_size(routes->ties, 0);
    for (gint32 i = 0; i < n_arcs; i++) {
      gint64 rest = node_of(routes, arcs[i].to) == node ? distances[place_of(routes, arcs[i].to).local] : FAR;
      if (rest == FAR)
        continue;
      if (rest + cost_of(routes, arcs[i].link) == distances[here] && (rest == 0 || passes_on(routes, arcs[i].to)))
        g_array_append_val(routes->ties, i);
    }
    gint32 n_ties = routes->ties->len;
    g_assert(n_ties > 0);
    const RouteArc *arc = &arcs[g_array_index(routes->ties, gint32, pick(routes, ask, n_ties, at, ask->digits))];
    ask->digits /= n_ties;
    g_array_append_val(routes->links, arc->link);
    at = arc->to;
  }
}

/* The ways between an end and the fabric. Returns the least cost. */
static gint64 find_ways(Routes *routes, gint32 end, gint32 other_end, gboolean is_into, GArray *ways) {
  const gint32 node = node_of(routes, end);
  g_array_set_size(ways, 0);
  if (node == NETWORK_FABRIC) {
    Way way = {-1, -1, end, 0};
    g_array_append_val(ways, way);
    return 0;
  }
  const gint64 *distances = is_into ? back_to(routes, end) : away_from(routes, end);
  gint32 n_members;
  gint64 least = FAR;
  const gint32 *members = route_graph_members(routes->graph, node, &n_members);
  for (gint32 m = 0; m < n_members; m++) {
    if (distances[m] == FAR || (members[m] != end && !passes_on(routes, members[m])))
      continue;
    gint32 n_arcs;
    const RouteArc *arcs = route_graph_arcs(routes->graph, members[m], is_into, &n_arcs);
    for (gint32 i = 0; i < n_arcs; i++) {
      Way way = {members[m], arcs[i].link, arcs[i].to, distances[m] + cost_of(routes, arcs[i].link)};
      if (node_of(routes, way.fabric) != NETWORK_FABRIC || (way.fabric != other_end && !passes_on(routes, way.fabric)))
        continue;
      g_array_append_val(ways, way);
      least = MIN(least, way.cost);
    }
  }
  return least;
}

static gint64 cost_over(Routes *routes, const Way *out, const Way *in) {
  gint64 between = back_to(routes, in->fabric)[place_of(routes, out->fabric).local];
  return between == FAR ? FAR : out->cost + between + in->cost;
}

/* The least cost over the fabric, FAR if there is no way; fills both lists of ways. */
static gint64 cost_over_fabric(Routes *routes, const Ask *ask) {
  gint64 least = FAR;
  gint64 least_out = find_ways(routes, ask->from, ask->to, FALSE, routes->ways_out);
  gint64 least_in = find_ways(routes, ask->to, ask->from, TRUE, routes->ways_in);
  if (least_out == FAR || least_in == FAR)
    return FAR;
  for (guint o = 0; o < routes->ways_out->len; o++) {
    const Way *out = &g_array_index(routes->ways_out, Way, o);
    for (guint i = 0; i < routes->ways_in->len && out->cost + least_in < least; i++) {
      const Way *in = &g_array_index(routes->ways_in, Way, i);
      if (out->cost + in->cost < least)
        least = MIN(least, cost_over(routes, out, in));
    }
  }
  return least;
}

/* The ways out (`out` NULL), or the ways in that go with `out`, that are part of a route of cost `least`: `ties`. */
static void tie_ways(Routes *routes, const Way *out, gint64 least) {
  GArray *ties = routes->ties;
  g_array_set_size(ties, 0);
  if (out != NULL) {
    for (guint i = 0; i < routes->ways_in->len; i++)
      if (cost_over(routes, out, &g_array_index(routes->ways_in, Way, i)) == least)
        g_array_append_val(ties, i);
    return;
  }
  for (guint o = 0; o < routes->ways_out->len; o++)
    for (guint i = 0; i < routes->ways_in->len; i++) {
      const Way *in = &g_array_index(routes->ways_in, Way, i);
      out = &g_array_index(routes->ways_out, Way, o);
      if (out->cost + in->cost <= least && cost_over(routes, out, in) == least) {
        g_array_append_val(ties, o);
        break;
      }
    }
}

static const Way *pick_way(Routes *routes, Ask *ask, GArray *ways, gint32 end) {
  gint32 index = pick(routes, ask, routes->ties->len, end, place_of(routes, end).number);
  return &g_array_index(ways, Way, g_array_index(routes->ties, gint32, index));
}

static void reverse(GArray *links, guint first) {
  for (guint i = first, j = links->len; i + 1 < j; i++, j--) {
    gint32 link = g_array_index(links, gint32, i);
    g_array_index(links, gint32, i) = g_array_index(links, gint32, j - 1);
    g_array_index(links, gint32, j - 1) = link;
  }
}

/* Backwards from `at` to the start, within its node. */
static void walk_from_start(Routes *routes, Ask *ask, gint32 at) {
  guint first = routes->links->len;
  walk(routes, ask, at, away_from(routes, ask->from), TRUE);
  reverse(routes->links, first);
}

static void walk_over_fabric(Routes *routes, Ask *ask, gint64 least) {
  tie_ways(routes, NULL, least);
  const Way *out = pick_way(routes, ask, routes->ways_out, ask->from);
  tie_ways(routes, out, least);
  const Way *in = pick_way(routes, ask, routes->ways_in, ask->to);
  const gint32 node = node_of(routes, ask->to);
  if (out->link >= 0) {
    walk_from_start(routes, ask, out->inside);
    g_array_append_val(routes->links, out->link);
  }
  ask->digits = node == NETWORK_FABRIC ? place_of(routes, ask->to).local : node;
  walk(routes, ask, out->fabric, back_to(routes, in->fabric), FALSE);
  if (in->link >= 0) {
    g_array_append_val(routes->links, in->link);
    ask->digits = place_of(routes, ask->to).number;
    walk(routes, ask, in->inside, back_to(routes, ask->to), FALSE);
  }
}

static gboolean append_links(Routes *routes, Ask *ask, GError **error) {
  const NetVertex *from = network_vertex(routes->network, ask->from), *to = network_vertex(routes->network, ask->to);
  gint64 inside = from->node == to->node ? away_from(routes, ask->from)[place_of(routes, ask->to).local] : FAR;
  gint64 least = from->node == to->node && from->node == NETWORK_FABRIC ? FAR : cost_over_fabric(routes, ask);
  if (inside == FAR && least == FAR)
    return fail_impossible(error, "no way leads from %s to %s: every path is missing or dead", from->name, to->name);
  ask->digits = place_of(routes, ask->from).number;
  if (inside <= least)
    walk_from_start(routes, ask, ask->to);
  else
    walk_over_fabric(routes, ask, least);
  return TRUE;
}

gint32 routes_find(Routes *routes, gint32 from, gint32 to, guint16 label, GError **error) {
  gint32 n = routes->n_vertices;
  if (from < 0 || from >= n || to < 0 || to >= n) {
    fail_input(error, "route from vertex %d to %d: expected 0 … %d", from, to, n - 1);
    return -1;
  }
  guint64 pair = (guint64)from << 40 | (guint64)to << 16 | (routes->rule == ROUTE_HASHED ? label : 0);
  gpointer found = g_hash_table_lookup(routes->by_pair, GSIZE_TO_POINTER(pair));
  if (found != NULL)
    return GPOINTER_TO_INT(found) - 1;
  Ask ask = {.from = from, .to = to, .label = label};
  Kept kept = {.first = routes->links->len};
  if (from != to && !append_links(routes, &ask, error))
    return -1;
  kept.n_links = routes->links->len - kept.first;
  for (gint32 i = 0; i < kept.n_links; i++)
    kept.latency_ticks +=
        network_link(routes->network, g_array_index(routes->links, gint32, kept.first + i))->latency_ticks;
  g_array_append_val(routes->kept, kept);
  g_hash_table_insert(routes->by_pair, GSIZE_TO_POINTER(pair), GINT_TO_POINTER(routes->kept->len));
  return routes->kept->len - 1;
}

NetRoute routes_get(const Routes *routes, gint32 route) {
  g_assert(route >= 0 && (guint)route < routes->kept->len);
  const Kept *kept = &g_array_index(routes->kept, Kept, route);
  return (NetRoute){&g_array_index(routes->links, gint32, kept->first), kept->n_links, kept->latency_ticks};
}

char *routes_text(const Routes *routes, gint32 route) {
  NetRoute kept = routes_get(routes, route);
  GString *text = g_string_new(NULL);
  for (gint32 i = 0; i < kept.n_links; i++)
    g_string_append_printf(text, "%s%s", i == 0 ? "" : ", ", network_link(routes->network, kept.links[i])->name);
  return g_string_free(text, FALSE);
}
