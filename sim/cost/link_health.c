#include "link_health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "flows.h"
#include "topology_network.h"

/* Far more than moves before anyone looks. */
static const double endless_bytes = 1e30;

/* The graph with or without its faults. */
typedef struct {
  Cluster cluster; /* borrows all; the topology refers to it */
  Topology *topology;
  Network *network;
} Graph;

typedef struct {
  const Cluster *cluster;
  GArray *domains;   /* of int, ascending: those the job is on */
  int n_gpus;        /* of the graph: whole domains */
  guint8 *is_member; /* [n_gpus] of the job: theirs are the rates that count */
  Graph faulty, sound;
  int *target;                  /* [n_gpus] of the pattern at hand; −1: sends nothing */
  double *left_Bps, *sound_Bps; /* [n_gpus] each sender's rate */
} Survey;

static gboolean graph_init(Graph *graph, const Cluster *cluster, gboolean with_faults, int n_gpus, GError **error) {
  graph->cluster = *cluster;
  if (!with_faults)
    graph->cluster.faults = NULL;
  graph->topology = topology_new(&graph->cluster, n_gpus, error);
  graph->network = graph->topology != NULL ? network_of_topology(graph->topology, error) : NULL;
  return graph->network != NULL;
}

static void graph_clear(Graph *graph) {
  network_free(graph->network);
  topology_free(graph->topology);
}

/* --- one flow --- */

/* Links of a way, each once, with how often it is passed. */
typedef struct {
  GArray *links, *counts; /* of gint32, of gint64 */
} WayLinks;

static void add_link(WayLinks *way, gint32 link) {
  for (guint i = 0; i < way->links->len; i++)
    if (g_array_index(way->links, gint32, i) == link) {
      g_array_index(way->counts, gint64, i)++;
      return;
    }
  const gint64 once = 1;
  g_array_append_val(way->links, link);
  g_array_append_val(way->counts, once);
}

static gboolean add_route(WayLinks *way, const Topology *topology, int from, int to, GError **error) {
  g_autoptr(Route) route = route_new(topology, from, to, error);
  if (route == NULL)
    return FALSE;
  for (int i = 0; i < route->n_hops; i++)
    add_link(way, network_link_of_hop(topology, &route->hops[i]));
  return TRUE;
}

static gboolean add_over(WayLinks *way, const Topology *topology, int from, int to, int shift) {
  const int per_node = topology->cluster->gpus_per_node;
  const int peer = from / per_node * per_node + (from + shift) % per_node;
  const int partner = to / per_node * per_node + (to + shift) % per_node;
  g_array_set_size(way->links, 0);
  g_array_set_size(way->counts, 0);
  return (peer == from || add_route(way, topology, from, peer, NULL)) &&
         add_route(way, topology, peer, partner, NULL) &&
         (partner == to || add_route(way, topology, partner, to, NULL));
}

/* The library's way, or over the nearest neighbours that have one. */
static gboolean find_way(WayLinks *way, const Topology *topology, int from, int to, GError **error) {
  const gboolean is_inside = from / topology->cluster->domain_gpus == to / topology->cluster->domain_gpus;
  const int n_shifts = is_inside ? 1 : topology->cluster->gpus_per_node;
  for (int shift = 0; shift < n_shifts; shift++)
    if (add_over(way, topology, from, to, shift))
      return TRUE;
  g_array_set_size(way->links, 0);
  return add_route(way, topology, from, to, error); /* which says why not */
}

/* --- a pattern --- */

/* What each sender has while all send. INFINITY: nothing on its way has a stated bandwidth. */
static gboolean rates_of(const Survey *survey, const Graph *graph, double *rates_Bps, GError **error) {
  g_autoptr(Flows) flows = flows_new(graph->network);
  g_autoptr(GArray) links = g_array_new(FALSE, FALSE, sizeof(gint32));
  g_autoptr(GArray) counts = g_array_new(FALSE, FALSE, sizeof(gint64));
  WayLinks way = {links, counts};
  for (int gpu = 0; gpu < survey->n_gpus; gpu++) {
    if (survey->target[gpu] < 0)
      continue;
    if (!find_way(&way, graph->topology, gpu, survey->target[gpu], error))
      return FALSE;
    const FlowRequest request = {.route = {.links = (const gint32 *)(void *)links->data, .n_links = (gint32)links->len},
                                 .counts = (const gint64 *)(void *)counts->data,
                                 .weight = 1,
                                 .bytes = endless_bytes,
                                 .cap_Bps = INFINITY,
                                 .tag = (guint64)gpu};
    flows_start(flows, 0, &request);
  }
  flows_advance(flows, 0);
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    rates_Bps[gpu] = INFINITY;
  flows_rates(flows, rates_Bps, (guint64)survey->n_gpus);
  return TRUE;
}

static void aim_at_none(Survey *survey) {
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    survey->target[gpu] = -1;
}

static int nth_base(const Survey *survey, int i) {
  return g_array_index(survey->domains, int, i) * survey->cluster->domain_gpus;
}

/* End of the run of domains from the i-th on that lie in one block of so many GPUs. */
static int end_of_block(const Survey *survey, int i, gint64 block) {
  int end = i + 1;
  while (end < (int)survey->domains->len && nth_base(survey, end) / block == nth_base(survey, i) / block)
    end++;
  return end;
}

/* Every GPU to its place in the next block of so many GPUs, round and round; where that has fewer of the job's domains,
 * several to one. FALSE: there is one block. */
static gboolean aim_out(Survey *survey, gint64 block) {
  const int n = (int)survey->domains->len, size = survey->cluster->domain_gpus;
  if (end_of_block(survey, 0, block) == n)
    return FALSE;
  aim_at_none(survey);
  for (int first = 0, end; first < n; first = end) {
    end = end_of_block(survey, first, block);
    const int next = end % n, n_next = end_of_block(survey, next, block) - next;
    for (int i = first; i < end; i++)
      for (int gpu = 0; gpu < size; gpu++)
        survey->target[nth_base(survey, i) + gpu] = nth_base(survey, next + (i - first) % n_next) + gpu;
  }
  return TRUE;
}

static void aim_inside(Survey *survey) {
  const int size = survey->cluster->domain_gpus;
  aim_at_none(survey);
  for (int i = 0; i < (int)survey->domains->len; i++)
    for (int gpu = 0; gpu < size && size > 1; gpu++)
      survey->target[nth_base(survey, i) + gpu] = nth_base(survey, i) + (gpu + 1) % size;
}

static gboolean measure(Survey *survey, GError **error) {
  return rates_of(survey, &survey->faulty, survey->left_Bps, error) &&
         rates_of(survey, &survey->sound, survey->sound_Bps, error);
}

/* --- shares --- */

static double share_left(double left_Bps, double sound_Bps) {
  return isfinite(sound_Bps) && sound_Bps > 0 ? MIN(left_Bps / sound_Bps, 1) : 1;
}

static void take_slowest(const Survey *survey, double *share) {
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    if (survey->target[gpu] >= 0 && (survey->is_member[gpu] || survey->is_member[survey->target[gpu]]))
      *share = MIN(*share, share_left(survey->left_Bps[gpu], survey->sound_Bps[gpu]));
}

static int compare_rates(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* shares[m − 1] is lowered to what the m slowest of `n` rates have together. */
static void take_sums(double *left_Bps, double *sound_Bps, int n, double *shares) {
  double left = 0, sound = 0;
  qsort(left_Bps, (gsize)n, sizeof *left_Bps, compare_rates);
  qsort(sound_Bps, (gsize)n, sizeof *sound_Bps, compare_rates);
  for (int m = 0; m < n; m++) {
    left += left_Bps[m];
    sound += sound_Bps[m];
    shares[m] = MIN(shares[m], share_left(left, sound));
  }
}

/* Rates of the flows that a block of `size` GPUs sends (side 0) or receives; returns how many there are. */
static int rates_of_block(const Survey *survey, gint64 size, int block, int side, double *left_Bps, double *sound_Bps) {
  int n = 0;
  for (int gpu = 0; gpu < survey->n_gpus; gpu++) {
    const int end = side == 0 ? gpu : survey->target[gpu];
    if (survey->target[gpu] < 0 || end / size != block || !survey->is_member[end])
      continue;
    left_Bps[n] = survey->left_Bps[gpu];
    sound_Bps[n++] = survey->sound_Bps[gpu];
  }
  return n;
}

/* For m members of a domain, that of the m slowest. */
static void take_domains(const Survey *survey, double *shares) {
  const int size = survey->cluster->domain_gpus;
  g_autofree double *left_Bps = g_new(double, survey->n_gpus), *sound_Bps = g_new(double, survey->n_gpus);
  for (guint i = 0; i < survey->domains->len; i++)
    for (int side = 0; side < 2; side++) {
      const int domain = g_array_index(survey->domains, int, i);
      const int n = rates_of_block(survey, size, domain, side, left_Bps, sound_Bps);
      take_sums(left_Bps, sound_Bps, MIN(n, size), shares);
    }
}

/* For all that lies in a span together. */
static void take_spans(const Survey *survey, gint64 span, double *share) {
  const int n_blocks = (int)((survey->n_gpus + span - 1) / span);
  g_autofree double *left_Bps = g_new(double, survey->n_gpus), *sound_Bps = g_new(double, survey->n_gpus);
  for (int block = 0; block < n_blocks; block++)
    for (int side = 0; side < 2; side++) {
      const int n = rates_of_block(survey, span, block, side, left_Bps, sound_Bps);
      double left = 0, sound = 0;
      for (int k = 0; k < n; k++) {
        left += left_Bps[k];
        sound += sound_Bps[k];
      }
      *share = MIN(*share, n > 0 ? share_left(left, sound) : 1);
    }
}

static gboolean survey_domains(Survey *survey, LinkHealth *health, GError **error) {
  const Cluster *cluster = survey->cluster;
  const gint64 blocks[] = {cluster->domain_gpus, (gint64)cluster->leaves.n_nodes * cluster->gpus_per_node};
  for (gsize i = 0; i < G_N_ELEMENTS(blocks); i++) {
    if (blocks[i] < cluster->domain_gpus || !aim_out(survey, blocks[i]))
      continue;
    if (!measure(survey, error))
      return FALSE;
    take_domains(survey, health->domain);
  }
  return TRUE;
}

static gboolean survey_tiers(Survey *survey, LinkHealth *health, GError **error) {
  const Cluster *cluster = survey->cluster;
  for (int tier = 1; tier < cluster->n_tiers; tier++) {
    const gint64 span = cluster->tiers[tier - 1].span_gpus;
    if (!aim_out(survey, span))
      return TRUE;
    if (!measure(survey, error))
      return FALSE;
    take_spans(survey, span, &health->tiers[tier]);
  }
  return TRUE;
}

/* Fill domains and n_gpus. */
static void find_domains(Survey *survey, const int *gpus, int n) {
  const int size = survey->cluster->domain_gpus;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  survey->domains = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < n; i++) {
    const int domain = (gpus != NULL ? gpus[i] : i) / size;
    if (!g_hash_table_add(seen, GINT_TO_POINTER(domain)))
      continue;
    g_array_append_val(survey->domains, domain);
    survey->n_gpus = MAX(survey->n_gpus, (domain + 1) * size);
  }
}

static int compare_domains(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

static gboolean survey_all(Survey *survey, LinkHealth *health, GError **error) {
  if (!graph_init(&survey->faulty, survey->cluster, TRUE, survey->n_gpus, error) ||
      !graph_init(&survey->sound, survey->cluster, FALSE, survey->n_gpus, error))
    return FALSE;
  aim_inside(survey);
  if (!measure(survey, error))
    return FALSE;
  take_slowest(survey, &health->scale_up);
  return survey->domains->len < 2 || (survey_domains(survey, health, error) && survey_tiers(survey, health, error));
}

LinkHealth *link_health_new(const Cluster *cluster, const int *gpus, int n, GError **error) {
  Survey survey = {.cluster = cluster};
  find_domains(&survey, gpus, n);
  g_array_sort(survey.domains, compare_domains);
  survey.is_member = g_new0(guint8, survey.n_gpus);
  for (int i = 0; i < n; i++)
    survey.is_member[gpus != NULL ? gpus[i] : i] = TRUE;
  survey.target = g_new(int, survey.n_gpus);
  survey.left_Bps = g_new(double, survey.n_gpus);
  survey.sound_Bps = g_new(double, survey.n_gpus);
  LinkHealth *health = g_new0(LinkHealth, 1);
  health->scale_up = 1;
  health->domain = g_new(double, cluster->domain_gpus);
  for (int m = 0; m < cluster->domain_gpus; m++)
    health->domain[m] = 1;
  for (int tier = 0; tier < CLUSTER_MAX_TIERS; tier++)
    health->tiers[tier] = 1;
  if (!survey_all(&survey, health, error))
    g_clear_pointer(&health, link_health_free);
  graph_clear(&survey.faulty);
  graph_clear(&survey.sound);
  g_array_unref(survey.domains);
  g_free(survey.is_member);
  g_free(survey.target);
  g_free(survey.left_Bps);
  g_free(survey.sound_Bps);
  return health;
}

Cluster *link_health_cluster(const Cluster *cluster, const int *gpus, int n, GError **error) {
  LinkHealth *health = link_health_new(cluster, gpus, n, error);
  if (health == NULL)
    return NULL;
  Cluster *worn = g_memdup2(cluster, sizeof *cluster);
  worn->health = health;
  return worn;
}

void link_health_cluster_free(Cluster *cluster) {
  if (cluster == NULL)
    return;
  link_health_free(cluster->health);
  g_free(cluster);
}
