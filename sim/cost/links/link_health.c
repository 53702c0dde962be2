#include "link_health.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "flows.h"
#include "topology_network.h"

/* Rounding noise of binary sums; smaller differences count as equal. */
static const double noise = 1e-9;

/* Far more than moves before the rates are read. */
static const double endless_bytes = 1e30;

/* A sender's rate while all send, and the NICs through which its flow leaves and enters; −1: none on its way. */
typedef struct {
  double Bps; /* INFINITY: nothing on its way has a stated bandwidth */
  int nic[2]; /* vertices */
} Flow;

/* The graph with or without its faults. */
typedef struct {
  Cluster cluster; /* borrows everything; the topology refers to it */
  Topology *topology;
  Network *network;
} Graph;

typedef struct {
  const Cluster *cluster;
  GArray *domains;   /* of int, ascending: those the job is on */
  int n_gpus;        /* in the graph: whole domains */
  guint8 *is_member; /* [n_gpus] of the job: only these rates count */
  Graph faulty, sound;
  int *target;        /* [n_gpus] of the current pattern; −1: sends nothing */
  Flow *left, *whole; /* [n_gpus] of each sender, with the faults and without */
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

/* The links of a path, each once, with the number of times it is passed. */
typedef struct {
  GArray *links, *counts; /* of gint32, of gint64 */
  int nic[2];             /* the first and the last one passed; −1: none */
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

static gboolean find_way(WayLinks *way, const Topology *topology, int from, int to, GError **error) {
  g_autoptr(Route) route = route_new(topology, from, to, error);
  if (route == NULL)
    return FALSE;
  g_array_set_size(way->links, 0);
  g_array_set_size(way->counts, 0);
  way->nic[0] = way->nic[1] = -1;
  for (int i = 0; i < route->n_hops; i++) {
    const int at = route->hops[i].to;
    add_link(way, network_link_of_hop(topology, &route->hops[i]));
    if (topology->vertices[at].kind != VERTEX_NIC)
      continue;
    way->nic[0] = way->nic[0] < 0 ? at : way->nic[0];
    way->nic[1] = at;
  }
  return TRUE;
}

/* --- a pattern --- */

static gboolean rates_of(const Survey *survey, const Graph *graph, Flow *rates, GError **error) {
  g_autoptr(Flows) flows = flows_new(graph->network);
  g_autoptr(GArray) links = g_array_new(FALSE, FALSE, sizeof(gint32));
  g_autoptr(GArray) counts = g_array_new(FALSE, FALSE, sizeof(gint64));
  g_autofree double *rates_Bps = g_new(double, survey->n_gpus);
  WayLinks way = {.links = links, .counts = counts};
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
    rates[gpu] = (Flow){INFINITY, {way.nic[0], way.nic[1]}};
  }
  flows_advance(flows, 0);
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    rates_Bps[gpu] = INFINITY;
  flows_rates(flows, rates_Bps, (guint64)survey->n_gpus);
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    rates[gpu].Bps = rates_Bps[gpu];
  return TRUE;
}

static void aim_at_none(Survey *survey) {
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    survey->target[gpu] = -1;
}

static int nth_base(const Survey *survey, int i) {
  return g_array_index(survey->domains, int, i) * survey->cluster->domain_gpus;
}

/* The end of the run of domains, starting at the i-th, that lie in one block of `block` GPUs. */
static int end_of_block(const Survey *survey, int i, gint64 block) {
  int end = i + 1;
  while (end < (int)survey->domains->len && nth_base(survey, end) / block == nth_base(survey, i) / block)
    end++;
  return end;
}

/* Aims every GPU at its place in the next block of `block` GPUs, cyclically; if that block has fewer of the job's
 * domains, several aim at one. FALSE: there is only one block. */
static gboolean aim_out(Survey *survey, gint64 block) {
  const int n = (int)survey->domains->len, domain_gpus = survey->cluster->domain_gpus;
  if (end_of_block(survey, 0, block) == n)
    return FALSE;
  aim_at_none(survey);
  for (int first = 0, end; first < n; first = end) {
    end = end_of_block(survey, first, block);
    const int next = end % n, n_next = end_of_block(survey, next, block) - next;
    for (int i = first; i < end; i++)
      for (int gpu = 0; gpu < domain_gpus; gpu++)
        survey->target[nth_base(survey, i) + gpu] = nth_base(survey, next + (i - first) % n_next) + gpu;
  }
  return TRUE;
}

static void aim_inside(Survey *survey) {
  const int domain_gpus = survey->cluster->domain_gpus;
  aim_at_none(survey);
  for (int i = 0; i < (int)survey->domains->len; i++)
    for (int gpu = 0; gpu < domain_gpus && domain_gpus > 1; gpu++)
      survey->target[nth_base(survey, i) + gpu] = nth_base(survey, i) + (gpu + 1) % domain_gpus;
}

static gboolean measure(Survey *survey, GError **error) {
  return rates_of(survey, &survey->faulty, survey->left, error) &&
         rates_of(survey, &survey->sound, survey->whole, error);
}

/* --- shares --- */

static double share_left(double left_Bps, double sound_Bps) {
  return isfinite(sound_Bps) && sound_Bps > 0 ? MIN(left_Bps / sound_Bps, 1) : 1;
}

static void take_slowest(const Survey *survey, double *share) {
  for (int gpu = 0; gpu < survey->n_gpus; gpu++)
    if (survey->target[gpu] >= 0 && (survey->is_member[gpu] || survey->is_member[survey->target[gpu]]))
      *share = MIN(*share, share_left(survey->left[gpu].Bps, survey->whole[gpu].Bps));
}

/* --- what groups carry out of a domain --- */

/* What leaves or enters a domain at one of its GPUs. */
typedef struct {
  double left_Bps, sound_Bps; /* sum over its flows; sound 0: there are none */
  int channel, own_channel;   /* NIC of the domain that they use, and that they would use without faults */
  gboolean is_member;
} End;

typedef struct {
  End *ends; /* [n] */
  int n, n_channels;
  double *whole_Bps;                        /* [n_channels] all ends, without faults */
  double *left_Bps, *passing_Bps, *own_Bps; /* [n_channels] of the current group: what is left; and without faults, of
                                               the ends that use the channel and of those whose own channel it is */
} Domain;

static void domain_init(Domain *domain, const Cluster *cluster) {
  *domain = (Domain){.n = cluster->domain_gpus,
                     .n_channels = cluster->domain_gpus / cluster->gpus_per_node * cluster->nics_per_node};
  const gsize n = (gsize)domain->n_channels;
  domain->ends = g_new(End, domain->n);
  domain->whole_Bps = g_new(double, n);
  domain->left_Bps = g_new(double, n);
  domain->passing_Bps = g_new(double, n);
  domain->own_Bps = g_new(double, n);
}

static void domain_clear(Domain *domain) {
  g_free(domain->ends);
  g_free(domain->whole_Bps);
  g_free(domain->left_Bps);
  g_free(domain->passing_Bps);
  g_free(domain->own_Bps);
}

/* What domain number `at` sends (side 0) or receives (side 1) in the current pattern. */
static void fill_domain(Domain *domain, const Survey *survey, int at, int side) {
  const Cluster *cluster = survey->cluster;
  const int first_gpu = at * domain->n, first_node = first_gpu / cluster->gpus_per_node;
  memset(domain->ends, 0, sizeof *domain->ends * (gsize)domain->n);
  memset(domain->whole_Bps, 0, sizeof *domain->whole_Bps * (gsize)domain->n_channels);
  for (int gpu = 0; gpu < survey->n_gpus; gpu++) {
    const int place = (side == 0 ? gpu : survey->target[gpu]) - first_gpu;
    if (survey->target[gpu] < 0 || place < 0 || place >= domain->n)
      continue;
    End *end = &domain->ends[place];
    end->left_Bps += survey->left[gpu].Bps;
    end->sound_Bps += survey->whole[gpu].Bps;
    end->channel = survey->left[gpu].nic[side] - survey->faulty.topology->n_gpus - first_node * cluster->nics_per_node;
    end->own_channel =
        survey->whole[gpu].nic[side] - survey->sound.topology->n_gpus - first_node * cluster->nics_per_node;
    end->is_member = survey->is_member[first_gpu + place];
    domain->whole_Bps[end->own_channel] += survey->whole[gpu].Bps;
  }
}

static gboolean is_sound(const Domain *domain) {
  for (int i = 0; i < domain->n; i++) {
    const End *end = &domain->ends[i];
    if (end->channel != end->own_channel || share_left(end->left_Bps, end->sound_Bps) < 1 - noise)
      return FALSE;
  }
  return TRUE;
}

static void empty_channels(Domain *domain) {
  const gsize n_bytes = sizeof(double) * (gsize)domain->n_channels;
  memset(domain->left_Bps, 0, n_bytes);
  memset(domain->passing_Bps, 0, n_bytes);
  memset(domain->own_Bps, 0, n_bytes);
}

/* The share of `members` GPUs starting at `first`, `gap` apart. −1: not all belong to the job. */
static double share_of_group(Domain *domain, int first, int gap, int members) {
  double sound_Bps = 0, carried_Bps = 0, slowest = 1;
  empty_channels(domain);
  for (int i = 0; i < members; i++) {
    const End *end = &domain->ends[first + i * gap];
    if (!end->is_member || end->sound_Bps == 0)
      return -1;
    domain->left_Bps[end->channel] += end->left_Bps;
    domain->passing_Bps[end->channel] += end->sound_Bps;
    domain->own_Bps[end->own_channel] += end->sound_Bps;
    sound_Bps += end->sound_Bps;
  }
  for (int c = 0; c < domain->n_channels; c++) {
    if (domain->passing_Bps[c] == 0)
      continue;
    const double most_Bps = domain->whole_Bps[c] > 0 ? domain->whole_Bps[c] : INFINITY;
    const double part_Bps = domain->own_Bps[c] > 0 ? domain->own_Bps[c] : MIN(domain->passing_Bps[c], most_Bps);
    slowest = MIN(slowest, share_left(domain->left_Bps[c], part_Bps));
    carried_Bps += part_Bps;
  }
  return share_left(slowest * carried_Bps, sound_Bps);
}

/* Groups that divide the domain evenly start where such divisions do; others start anywhere. */
static void take_groups(Domain *domain, int members, int gap, double *shares) {
  const int n = domain->n, length = members * gap;
  double *row = shares + (members - 1) * n;
  for (int first = 0; first + (members - 1) * gap < n; first++) {
    if (n % length == 0 && first % length >= gap)
      continue;
    const double share = share_of_group(domain, first, gap, members);
    if (share < 0)
      continue;
    row[gap % n] = MIN(row[gap % n], share);
    row[0] = MIN(row[0], share);
  }
}

static void take_domain(Domain *domain, double *shares) {
  for (int members = 1; members <= domain->n; members++)
    for (int gap = 1; gap == 1 || (members > 1 && (members - 1) * gap < domain->n); gap++)
      take_groups(domain, members, gap, shares);
}

static void take_domains(const Survey *survey, double *shares) {
  Domain domain;
  domain_init(&domain, survey->cluster);
  for (guint i = 0; i < survey->domains->len; i++)
    for (int side = 0; side < 2; side++) {
      fill_domain(&domain, survey, g_array_index(survey->domains, int, i), side);
      if (!is_sound(&domain))
        take_domain(&domain, shares);
    }
  domain_clear(&domain);
}

/* For everything in a span together. */
static void take_spans(const Survey *survey, gint64 span, double *share) {
  const int n_blocks = (int)((survey->n_gpus + span - 1) / span);
  for (int side = 0; side < 2; side++) {
    g_autofree double *left_Bps = g_new0(double, n_blocks), *sound_Bps = g_new0(double, n_blocks);
    for (int gpu = 0; gpu < survey->n_gpus; gpu++) {
      const int end = side == 0 ? gpu : survey->target[gpu];
      if (survey->target[gpu] < 0 || !survey->is_member[end])
        continue;
      left_Bps[end / span] += survey->left[gpu].Bps;
      sound_Bps[end / span] += survey->whole[gpu].Bps;
    }
    for (int block = 0; block < n_blocks; block++)
      *share = MIN(*share, share_left(left_Bps[block], sound_Bps[block]));
  }
}

static gboolean survey_domains(Survey *survey, LinkHealth *health, GError **error) {
  const Cluster *cluster = survey->cluster;
  const gboolean leaves_are_a_level = cluster_n_levels(cluster) > cluster->n_tiers; /* survey_levels() covers them
                                                                                       then */
  const gint64 leaf_gpus = leaves_are_a_level ? 0 : (gint64)cluster->leaves.n_nodes * cluster->gpus_per_node;
  const gint64 blocks[] = {cluster->domain_gpus, leaf_gpus};
  for (gsize i = 0; i < G_N_ELEMENTS(blocks); i++) {
    if (blocks[i] < cluster->domain_gpus || !aim_out(survey, blocks[i]))
      continue;
    if (!measure(survey, error))
      return FALSE;
    take_domains(survey, health->domain);
  }
  return TRUE;
}

static gboolean survey_levels(Survey *survey, LinkHealth *health, GError **error) {
  const Cluster *cluster = survey->cluster;
  for (int level = 1; level < cluster_n_levels(cluster); level++) {
    const gint64 span = cluster_level(cluster, level - 1).span_gpus;
    if (!aim_out(survey, span))
      return TRUE;
    if (!measure(survey, error))
      return FALSE;
    take_spans(survey, span, &health->levels[level]);
  }
  return TRUE;
}

/* Fills in domains and n_gpus. */
static void find_domains(Survey *survey, const int *gpus, int n) {
  const int domain_gpus = survey->cluster->domain_gpus;
  g_autoptr(GHashTable) seen = g_hash_table_new(NULL, NULL);
  survey->domains = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < n; i++) {
    const int domain = (gpus != NULL ? gpus[i] : i) / domain_gpus;
    if (!g_hash_table_add(seen, GINT_TO_POINTER(domain)))
      continue;
    g_array_append_val(survey->domains, domain);
    survey->n_gpus = MAX(survey->n_gpus, (domain + 1) * domain_gpus);
  }
}

static int compare_domains(gconstpointer a, gconstpointer b) {
  return *(const int *)a - *(const int *)b;
}

/* Groups not surveyed are either all sound, or uneven; the latter get the share of the slowest group with fewer
 * members. */
static void fill_in_groups(double *shares, int n) {
  for (int members = 1; members <= n; members++) {
    double *row = shares + (members - 1) * n;
    if (isinf(row[0]))
      row[0] = members > 1 ? row[-n] : 1;
    for (int gap = 1; gap < n; gap++)
      row[gap] = isinf(row[gap]) ? row[0] : row[gap];
  }
}

static gboolean survey_all(Survey *survey, LinkHealth *health, GError **error) {
  if (!graph_init(&survey->faulty, survey->cluster, TRUE, survey->n_gpus, error) ||
      !graph_init(&survey->sound, survey->cluster, FALSE, survey->n_gpus, error))
    return FALSE;
  aim_inside(survey);
  if (!measure(survey, error))
    return FALSE;
  take_slowest(survey, &health->scale_up);
  return survey->domains->len < 2 || (survey_domains(survey, health, error) && survey_levels(survey, health, error));
}

LinkHealth *link_health_new(const Cluster *cluster, const int *gpus, int n, GError **error) {
  Survey survey = {.cluster = cluster};
  find_domains(&survey, gpus, n);
  g_array_sort(survey.domains, compare_domains);
  survey.is_member = g_new0(guint8, survey.n_gpus);
  for (int i = 0; i < n; i++)
    survey.is_member[gpus != NULL ? gpus[i] : i] = TRUE;
  survey.target = g_new(int, survey.n_gpus);
  survey.left = g_new(Flow, survey.n_gpus);
  survey.whole = g_new(Flow, survey.n_gpus);
  LinkHealth *health = g_new0(LinkHealth, 1);
  health->scale_up = 1;
  health->domain = g_new(double, (gsize)cluster->domain_gpus * cluster->domain_gpus);
  for (int i = 0; i < cluster->domain_gpus * cluster->domain_gpus; i++)
    health->domain[i] = INFINITY; /* no such group surveyed yet */
  for (int level = 0; level < CLUSTER_MAX_LEVELS; level++)
    health->levels[level] = 1;
  if (survey_all(&survey, health, error))
    fill_in_groups(health->domain, cluster->domain_gpus);
  else
    g_clear_pointer(&health, link_health_free);
  graph_clear(&survey.faulty);
  graph_clear(&survey.sound);
  g_array_unref(survey.domains);
  g_free(survey.is_member);
  g_free(survey.target);
  g_free(survey.left);
  g_free(survey.whole);
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
