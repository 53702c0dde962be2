/* A cluster file combines three: itself, its GPU's file, and the constants of its collective library.
 *
 *     topologies/llama3-h100.yaml ──┬── gpus/h100-sxm5-80gb.yaml
 *                                   └── nccl/2.30.yaml
 *
 * Every mapping is one table of keys, targets, ranges and units. After each table, its values are checked against
 * each other (a domain is whole nodes, tiers widen, NICs are described). */
#include "cluster.h"

#include <math.h>
#include <string.h>

#include "cluster_words.h"
#include "data_path.h"
#include "error.h"
#include "wiring.h"
#include "yaml_base.h"

static const char *const scale_up_names[] = {
    [SCALE_UP_NVSWITCH] = "nvswitch", [SCALE_UP_NVLINK_MESH] = "nvlink_mesh", [SCALE_UP_PCIE] = "pcie", NULL};

typedef struct {
  Cluster cluster;
  YamlNode gpu, collectives, tiers, tax, measured, fitted, as_run, other_gpus, faults, failures;
  NodeTopologyKeys inside;
} Draft;

#define IN_CLUSTER(member) offsetof(Draft, cluster.member)

static const YamlField scale_up_fields[] = {
    {"kind", FIELD_CHOICE, TRUE, IN_CLUSTER(scale_up), .names = scale_up_names},
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_CLUSTER(scale_up_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(scale_up_efficiency), 1e-3, 1,
     .what = "share of the bandwidth that a large transfer reaches, such as 0.78"},
    {"latency", FIELD_QUANTITY, TRUE, IN_CLUSTER(scale_up_latency_s), 0, 1, UNIT_SECONDS},
    {"domain", FIELD_INT, FALSE, IN_CLUSTER(domain_gpus), 1, 65536},
    {"segment", FIELD_INT, FALSE, IN_CLUSTER(segment_gpus), 1, 65536},
    {"mesh", FIELD_NODE, FALSE, offsetof(Draft, inside.mesh)},
};

static const YamlField nic_fields[] = {
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_CLUSTER(nic_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(nic_efficiency), 1e-3, 1,
     .what = "share of the bandwidth that a large transfer reaches, such as 0.93"},
    {"latency", FIELD_QUANTITY, TRUE, IN_CLUSTER(nic_latency_s), 0, 1, UNIT_SECONDS},
    {"step", FIELD_QUANTITY, FALSE, IN_CLUSTER(nic_step_s), 0, 1, UNIT_SECONDS},
    {"gpudirect", FIELD_CHOICE, FALSE, IN_CLUSTER(node.gpudirect), .names = gpudirect_names},
};

static const YamlField host_fields[] = {
    {"link", FIELD_QUANTITY, FALSE, IN_CLUSTER(host.link_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"links_together", FIELD_QUANTITY, FALSE, IN_CLUSTER(host.links_together_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"link_efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(host.link_efficiency), 1e-3, 1},
    {"memory_bandwidth", FIELD_QUANTITY, TRUE, IN_CLUSTER(host.memory_Bps), 1e6, 1e16, UNIT_BYTES_PER_SECOND},
    {"update_efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(host.update_efficiency), 1e-3, 1},
};

static const YamlField nvme_fields[] = {
    {"capacity", FIELD_QUANTITY, TRUE, IN_CLUSTER(host.nvme_bytes), 1e6, 1e18, UNIT_BYTES},
    {"read", FIELD_QUANTITY, TRUE, IN_CLUSTER(host.nvme_read_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"write", FIELD_QUANTITY, TRUE, IN_CLUSTER(host.nvme_write_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
};

static const YamlField node_fields[] = {
    {"gpus", FIELD_INT, TRUE, IN_CLUSTER(gpus_per_node), 1, 4096},
    {"scale_up", FIELD_MAP, TRUE, YAML_FIELDS(scale_up_fields)},
    {"nics", FIELD_INT, TRUE, IN_CLUSTER(nics_per_node), 0, 4096},
    {"nic", FIELD_MAP, FALSE, YAML_FIELDS(nic_fields)},
    {"pcie", FIELD_NODE, FALSE, offsetof(Draft, inside.pcie)},
    {"rails", FIELD_NODE, FALSE, offsetof(Draft, inside.rails)},
    {"host_memory", FIELD_QUANTITY, FALSE, IN_CLUSTER(host_memory_bytes), 1e6, 1e16, UNIT_BYTES},
    {"host", FIELD_MAP, FALSE, YAML_FIELDS(host_fields)},
    {"nvme", FIELD_MAP, FALSE, YAML_FIELDS(nvme_fields)},
};

static const YamlField storage_fields[] = {
    {"write", FIELD_QUANTITY, FALSE, IN_CLUSTER(storage.write_Bps), 1e6, 1e16, UNIT_BYTES_PER_SECOND},
    {"read", FIELD_QUANTITY, FALSE, IN_CLUSTER(storage.read_Bps), 1e6, 1e16, UNIT_BYTES_PER_SECOND},
    {"node_write", FIELD_QUANTITY, FALSE, IN_CLUSTER(storage.node_write_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"node_read", FIELD_QUANTITY, FALSE, IN_CLUSTER(storage.node_read_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
};

static const char *const leaf_kind_names[] = {
    [LEAVES_RAIL_OPTIMISED] = "rail_optimised", [LEAVES_CLASSIC] = "classic", NULL};

static const YamlField leaf_fields[] = {
    {"kind", FIELD_CHOICE, TRUE, IN_CLUSTER(leaves.kind), .names = leaf_kind_names},
    {"nodes", FIELD_INT, TRUE, IN_CLUSTER(leaves.n_nodes), 1, 1e6},
    {"latency", FIELD_QUANTITY, FALSE, IN_CLUSTER(leaves.latency_s), 0, 1, UNIT_SECONDS},
};

static const YamlField fabric_fields[] = {
    {"leaves", FIELD_MAP, FALSE, YAML_FIELDS(leaf_fields)},
    {"tiers", FIELD_NODE, FALSE, offsetof(Draft, tiers)},
};

static const YamlField tier_fields[] = {
    {"span", FIELD_INT64, TRUE, offsetof(FabricTier, span_gpus), 1, 1e9},
    {"oversubscription", FIELD_NUMBER, TRUE, offsetof(FabricTier, oversubscription), 1, 1e4},
    {"latency", FIELD_QUANTITY, FALSE, offsetof(FabricTier, latency_s), 0, 1, UNIT_SECONDS},
    {"name", FIELD_TEXT, FALSE, offsetof(FabricTier, name)},
};

static const YamlField top_fields[] = {
    {"name", FIELD_TEXT, TRUE, IN_CLUSTER(name)},
    {"source", FIELD_TEXT, TRUE, IN_CLUSTER(source), .what = "where the numbers come from, in words"},
    {"gpu", FIELD_NODE, TRUE, offsetof(Draft, gpu),
     .what = "a GPU file, or a name in topologies/gpus such as h100-sxm5-80gb"},
    {"collectives", FIELD_NODE, TRUE, offsetof(Draft, collectives),
     .what = "constants of the collective library, a file or a name in topologies/nccl such as 2.30"},
    {"node", FIELD_MAP, TRUE, YAML_FIELDS(node_fields)},
    {"fabric", FIELD_MAP, FALSE, YAML_FIELDS(fabric_fields)},
    {"other_gpus", FIELD_NODE, FALSE, offsetof(Draft, other_gpus)},
    {"faults", FIELD_NODE, FALSE, offsetof(Draft, faults)},
    {"storage", FIELD_MAP, FALSE, YAML_FIELDS(storage_fields)},
    {"failures", FIELD_NODE, FALSE, offsetof(Draft, failures)},
    {"max_gpus", FIELD_INT64, FALSE, IN_CLUSTER(max_gpus), 1, 1e9},
    {"transfer_tax", FIELD_NODE, FALSE, offsetof(Draft, tax)},
    {"measured", FIELD_NODE, FALSE, offsetof(Draft, measured)},
    {"fitted", FIELD_NODE, FALSE, offsetof(Draft, fitted)},
    {"as_run", FIELD_NODE, FALSE, offsetof(Draft, as_run)},
    {"price", FIELD_QUANTITY, FALSE, IN_CLUSTER(dollars_per_gpu_hour), 1e-3, 1e6, UNIT_DOLLARS_PER_HOUR},
};

/* The cluster's own file. */

/* The file that `node` names. Owned by the caller; NULL with the error set. */
static char *find_named(YamlNode node, const char *subdir, GError **error) {
  const char *name = yaml_text(node, error);
  char *found = name != NULL ? data_path_find_beside(yaml_path(node), subdir, name, ".yaml", error) : NULL;
  if (name != NULL && found == NULL)
    yaml_prefix(node, error);
  return found;
}

static char *find_gpu(YamlNode name, GError **error) {
  return find_named(name, "topologies/gpus", error);
}

static gboolean read_parts(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  g_autofree char *gpu = find_gpu(draft->gpu, error);
  if (gpu == NULL || !gpu_read(gpu, &cluster->gpu, error))
    return FALSE;
  g_autofree char *library = find_named(draft->collectives, "topologies/nccl", error);
  return library != NULL && collective_library_read(library, &cluster->collectives, &cluster->eager_bytes, error);
}

/* One number for all kinds of links, one per kind, or by channels. */
static gboolean read_tax(Draft *draft, GError **error) {
  static const YamlField kinds[] = {{"nvlink", FIELD_NUMBER, FALSE, offsetof(TransferTax, of_link[LINK_NVLINK]), 0, 10},
                                    {"pcie", FIELD_NUMBER, FALSE, offsetof(TransferTax, of_link[LINK_PCIE]), 0, 10},
                                    {"net", FIELD_NUMBER, FALSE, offsetof(TransferTax, of_link[LINK_NET]), 0, 10}};
  TransferTax *tax = &draft->cluster.transfer_tax;
  if (!yaml_is_present(draft->tax))
    return TRUE;
  if (yaml_is_map(draft->tax))
    return yaml_map_read(draft->tax, kinds, G_N_ELEMENTS(kinds), tax, error);
  const char *text = yaml_text(draft->tax, error);
  if (text == NULL)
    return FALSE;
  tax->by_channels = strcmp(text, "channels") == 0;
  if (tax->by_channels)
    return TRUE;
  char *end;
  const double number = g_ascii_strtod(text, &end);
  if (*end != '\0' || !(number >= 0 && number <= 10))
    return yaml_fail(draft->tax, error,
                     "found \"%.80s\", expected a number from 0 to 10, numbers by kind of link ({nvlink: 0.15, net: "
                     "0.02}) or channels",
                     text);
  for (int link = 0; link < N_LINKS; link++)
    tax->of_link[link] = number;
  return TRUE;
}

static gboolean complete_scale_up(Cluster *cluster, YamlNode node, GError **error) {
  const YamlNode scale_up = yaml_map_value(node, "scale_up");
  if (cluster->domain_gpus == 0)
    cluster->domain_gpus = cluster->gpus_per_node;
  if (cluster->domain_gpus % cluster->gpus_per_node != 0)
    return yaml_fail(scale_up, error, "found domain %d, expected a multiple of the node's %d GPUs",
                     cluster->domain_gpus, cluster->gpus_per_node);
  if (cluster->segment_gpus == 0)
    cluster->segment_gpus = cluster->domain_gpus;
  if (cluster->segment_gpus % cluster->gpus_per_node != 0 || cluster->segment_gpus > cluster->domain_gpus)
    return yaml_fail(scale_up, error,
                     "found segment %d, expected a multiple of the node's %d GPUs, at most the domain's %d",
                     cluster->segment_gpus, cluster->gpus_per_node, cluster->domain_gpus);
  return TRUE;
}

static gboolean complete_nics(Cluster *cluster, YamlNode node, GError **error) {
  const YamlNode nic = yaml_map_value(node, "nic");
  if (cluster->nics_per_node == 0)
    return !yaml_is_present(nic) || yaml_fail(nic, error, "found a description, but nics is 0");
  cluster->node_egress_gpus = (double)cluster->gpus_per_node / cluster->nics_per_node;
  return yaml_is_present(nic) ||
         yaml_fail(node, error, "the key \"nic\" is missing, as nics is %d", cluster->nics_per_node);
}

/* Blocks are named by this and a number: pod0, pod1 … */
static gboolean check_tier_name(YamlNode item, const Cluster *cluster, int tier, GError **error) {
  const char *name = cluster->tiers[tier].name;
  if (name == NULL)
    return TRUE;
  if (strspn(name, "abcdefghijklmnopqrstuvwxyz_-") != strlen(name) || strlen(name) > 32)
    return yaml_fail(item, error, "found name \"%.80s\", expected up to 32 small letters, such as pod", name);
  static const char *const taken[] = {"leaf", "core", "tier", "node", "domain", NULL};
  gboolean is_taken = g_strv_contains(taken, name);
  for (int i = 0; i < tier; i++)
    is_taken |= g_strcmp0(cluster->tiers[i].name, name) == 0;
  return !is_taken || yaml_fail(item, error, "found name \"%s\", which is taken by others", name);
}

/* The first tier is above leaves or nodes, each other one above the tier before it. */
static gboolean fail_span(YamlNode item, const Cluster *cluster, int tier, gint64 below, GError **error) {
  const int n_nodes = cluster->leaves.n_nodes;
  g_autofree char *of_leaf = g_strdup_printf("%d nodes under a leaf (leaves: {nodes: N} says how many are)", n_nodes);
  return yaml_fail(item, error,
                   "found span %" G_GINT64_FORMAT ", expected more than the %" G_GINT64_FORMAT " GPUs of the %s",
                   cluster->tiers[tier].span_gpus, below,
                   tier > 0      ? "tier before it"
                   : n_nodes > 0 ? of_leaf
                                 : "node");
}

static gboolean read_tier(Draft *draft, YamlNode item, int i, gint64 below, GError **error) {
  Cluster *cluster = &draft->cluster;
  FabricTier *tier = &cluster->tiers[i];
  cluster->n_tiers = i + 1; /* owns a name from here on */
  if (!yaml_map_read(item, tier_fields, G_N_ELEMENTS(tier_fields), tier, error) ||
      !check_tier_name(item, cluster, i, error))
    return FALSE;
  return tier->span_gpus > below || fail_span(item, cluster, i, below, error);
}

static gboolean read_tiers(Draft *draft, YamlNode fabric, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (!yaml_is_present(draft->tiers))
    return !yaml_is_present(fabric) || cluster->leaves.n_nodes > 0 ||
           yaml_fail(fabric, error, "the key \"tiers\" is missing");
  int n_tiers = yaml_list_length(draft->tiers, CLUSTER_MAX_TIERS, error);
  gint64 below = (gint64)cluster->gpus_per_node * MAX(cluster->leaves.n_nodes, 1);
  for (int i = 0; i < n_tiers; i++) {
    if (!read_tier(draft, yaml_list_item(draft->tiers, i), i, below, error))
      return FALSE;
    below = cluster->tiers[i].span_gpus;
  }
  return n_tiers >= 1;
}

/* The mesh spans a whole domain, everything else one node. */
static gboolean read_inside(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (yaml_is_present(draft->inside.mesh) && cluster->scale_up != SCALE_UP_NVLINK_MESH)
    return yaml_fail(draft->inside.mesh, error, "found pairs of NVLinks, but kind is %s, expected nvlink_mesh",
                     scale_up_names[cluster->scale_up]);
  cluster->node.n_gpus = cluster->gpus_per_node;
  cluster->node.n_nics = cluster->nics_per_node;
  return node_topology_read(&cluster->node, &draft->inside, cluster->domain_gpus, error);
}

static gboolean read_measured(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  const LinkReach reach = {.gpus_per_node = cluster->gpus_per_node,
                           .nodes_per_domain = cluster->domain_gpus / cluster->gpus_per_node,
                           .has_nics = cluster->nics_per_node > 0};
  if (yaml_is_present(draft->measured)) {
    cluster->measured = measured_links_read(draft->measured, &reach, error);
    if (cluster->measured == NULL)
      return FALSE;
  }
  if (yaml_is_present(draft->fitted)) {
    cluster->fitted = fitted_links_read(draft->fitted, &reach, error);
    if (cluster->fitted == NULL)
      return FALSE;
  }
  return TRUE;
}

static gboolean complete_storage(Storage *storage, YamlNode node, GError **error) {
  if (storage->read_Bps == 0)
    storage->read_Bps = storage->write_Bps;
  return !yaml_is_present(node) || storage->read_Bps > 0 || yaml_fail(node, error, "expected \"write\" or \"read\"");
}

static gboolean read_exceptions(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (yaml_is_present(draft->other_gpus)) {
    cluster->other_gpus = gpu_ranges_read(draft->other_gpus, find_gpu, error);
    if (cluster->other_gpus == NULL)
      return FALSE;
  }
  if (yaml_is_present(draft->faults))
    cluster->faults = link_faults_read(draft->faults, error);
  if (yaml_is_present(draft->failures))
    cluster->failures = failures_read(draft->failures, error);
  return (!yaml_is_present(draft->faults) || cluster->faults != NULL) &&
         (!yaml_is_present(draft->failures) || cluster->failures != NULL);
}

static gboolean read_as_run(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (!as_run_read(draft->as_run, &cluster->as_run, error))
    return FALSE;
  gboolean ok = as_run_apply(&as_run_none, &cluster->as_run, &cluster->gpu, error);
  for (guint i = 0; ok && cluster->other_gpus != NULL && i < cluster->other_gpus->len; i++)
    ok = as_run_apply(&as_run_none, &cluster->as_run, &g_array_index(cluster->other_gpus, GpuRange, i).gpu, error);
  return ok || yaml_prefix(draft->as_run, error);
}

static gboolean read_draft(YamlNode root, Draft *draft, GError **error) {
  if (!yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), draft, error))
    return FALSE;
  const YamlNode node = yaml_map_value(root, "node");
  return complete_scale_up(&draft->cluster, node, error) && complete_nics(&draft->cluster, node, error) &&
         read_tiers(draft, yaml_map_value(root, "fabric"), error) && read_inside(draft, error) &&
         read_tax(draft, error) && read_measured(draft, error) && read_parts(draft, error) &&
         complete_storage(&draft->cluster.storage, yaml_map_value(root, "storage"), error) &&
         read_exceptions(draft, error) && read_as_run(draft, error);
}

static const YamlBases bases_of_clusters = {"topologies", "node", "topologies/hosts"};

/* Takes `own`. */
static Cluster *read_yaml(YamlFile *own, const char *file, GError **error) {
  g_autoptr(GPtrArray) bases = g_ptr_array_new_with_free_func(g_free);
  g_autoptr(YamlFile) yaml = own != NULL ? yaml_over_bases(own, &bases_of_clusters, bases, error) : NULL;
  if (yaml == NULL)
    return NULL;
  Draft draft = {.cluster.file = g_strdup(file)};
  gboolean ok = read_draft(yaml_file_root(yaml), &draft, error) || yaml_prefix_over_base(yaml, error);
  g_autoptr(Cluster) cluster = g_new(Cluster, 1);
  *cluster = draft.cluster;
  cluster->bases = g_steal_pointer(&bases);
  if (ok)
    cluster->wiring = wiring_new(cluster);
  return ok ? g_steal_pointer(&cluster) : NULL;
}

char *cluster_text_of_words(const char *words, GError **error) {
  return cluster_words_yaml(words, &bases_of_clusters, error);
}

char *cluster_notice_of_words(const char *file) {
  return cluster_words_are(file) ? cluster_words_notice(file, &bases_of_clusters) : NULL;
}

Cluster *cluster_read(const char *file, GError **error) {
  g_autofree char *text = NULL;
  if (cluster_words_are(file))
    return (text = cluster_text_of_words(file, error)) != NULL ? cluster_parse(file, text, error) : NULL;
  g_autofree char *path = cluster_words_check(file, error) ? data_path_find("topologies", file, ".yaml", error) : NULL;
  return path != NULL ? read_yaml(yaml_file_read(path, error), path, error) : NULL;
}

Cluster *cluster_parse(const char *name, const char *text, GError **error) {
  return read_yaml(yaml_file_parse(name, text, strlen(text), error), name, error);
}

void link_health_free(LinkHealth *health) {
  if (health == NULL)
    return;
  g_free(health->domain);
  g_free(health);
}

static gint64 leaf_group_gpus(const Cluster *cluster) {
  return (gint64)cluster->leaves.n_nodes * cluster->gpus_per_node;
}

static gboolean leaves_are_a_level(const Cluster *cluster) {
  return cluster->n_tiers > 0 && cluster->tiers[0].oversubscription > 1 &&
         leaf_group_gpus(cluster) > cluster->domain_gpus;
}

int cluster_n_levels(const Cluster *cluster) {
  return cluster->n_tiers + leaves_are_a_level(cluster);
}

FabricLevel cluster_level(const Cluster *cluster, int level) {
  const int tier = level - leaves_are_a_level(cluster);
  g_assert(tier < cluster->n_tiers);
  if (tier < 0)
    return (FabricLevel){leaf_group_gpus(cluster), 1};
  return (FabricLevel){cluster->tiers[tier].span_gpus, cluster->tiers[tier].oversubscription};
}

void cluster_free(Cluster *cluster) {
  if (cluster == NULL)
    return;
  g_free(cluster->name);
  g_free(cluster->source);
  g_free(cluster->file);
  g_clear_pointer(&cluster->bases, g_ptr_array_unref);
  gpu_clear(&cluster->gpu);
  collective_library_clear(&cluster->collectives);
  measured_links_free(cluster->measured);
  fitted_links_free(cluster->fitted);
  for (int i = 0; i < cluster->n_tiers; i++)
    g_free(cluster->tiers[i].name);
  node_topology_clear(&cluster->node);
  wiring_free(cluster->wiring);
  g_clear_pointer(&cluster->other_gpus, g_array_unref);
  g_clear_pointer(&cluster->faults, g_array_unref);
  link_health_free(cluster->health);
  failures_free(cluster->failures);
  g_free(cluster);
}

gboolean cluster_check_joined(const Cluster *cluster, GError **error) {
  return cluster->wiring == NULL || cluster->wiring->no_path == NULL ||
         fail_impossible(error, "%s: %s", cluster->file, cluster->wiring->no_path);
}

gboolean cluster_check_sound(const Cluster *cluster, GError **error) {
  if (!cluster_check_joined(cluster, error))
    return FALSE;
  return cluster->faults == NULL || cluster->health != NULL ||
         fail_impossible(error,
                         "%s lists faults, and times are those of sound links: take the faults out to predict without "
                         "them, or see what they do with stepsim topology",
                         cluster->file);
}

/* GPUs of the job in a block of `gpus`, if it uses `taken` of each domain; −1: the block cuts through domains. */
static gint64 taken_of_block(const Cluster *cluster, gint64 gpus, int taken) {
  if (gpus <= cluster->domain_gpus)
    return MIN(gpus, taken);
  return gpus % cluster->domain_gpus == 0 ? gpus / cluster->domain_gpus * taken : -1;
}

static gboolean blocks_have_whole_domains(const Cluster *cluster) {
  gboolean are_whole = taken_of_block(cluster, leaf_group_gpus(cluster), cluster->segment_gpus) >= 0;
  for (int i = 0; i < cluster->n_tiers; i++)
    are_whole &= taken_of_block(cluster, cluster->tiers[i].span_gpus, cluster->segment_gpus) >= 0;
  return are_whole;
}

/* Whether there are domains for `n` segments. */
static gboolean has_segments(const Cluster *cluster, gint64 n) {
  return cluster->nics_per_node > 0 &&
         (cluster->max_gpus == 0 || (n - 1) * cluster->domain_gpus + cluster->segment_gpus <= cluster->max_gpus);
}

int cluster_job_domain(const Cluster *cluster, gint64 n_gpus) {
  const int segment = cluster->segment_gpus;
  const gboolean is_placed = cluster->faults != NULL || cluster->other_gpus != NULL || cluster->wiring != NULL;
  return segment > 0 && !is_placed && n_gpus > cluster->domain_gpus && n_gpus % segment == 0 &&
                 has_segments(cluster, n_gpus / segment) && blocks_have_whole_domains(cluster)
             ? segment
             : cluster->domain_gpus;
}

static double network_left(const Cluster *cluster, gint64 n_gpus) {
  const double n_nodes = ceil((double)n_gpus / cluster->gpus_per_node);
  return n_nodes > 2 ? pow(n_nodes / 2, -cluster->as_run.network_falls) : 1;
}

static int job_domain(const Cluster *cluster, gint64 n_gpus, gboolean is_chosen) {
  return is_chosen ? cluster->domain_gpus : cluster_job_domain(cluster, n_gpus);
}

gboolean cluster_is_placed(const Cluster *cluster, gint64 n_gpus, gboolean is_chosen) {
  return job_domain(cluster, n_gpus, is_chosen) != cluster->domain_gpus || network_left(cluster, n_gpus) != 1;
}

void cluster_place_job(Cluster *cluster, gint64 n_gpus, gboolean is_chosen) {
  const int taken = job_domain(cluster, n_gpus, is_chosen);
  cluster->nic_efficiency *= network_left(cluster, n_gpus);
  if (taken == cluster->domain_gpus)
    return;
  cluster->leaves.n_nodes = (int)(taken_of_block(cluster, leaf_group_gpus(cluster), taken) / cluster->gpus_per_node);
  for (int i = 0; i < cluster->n_tiers; i++)
    cluster->tiers[i].span_gpus = taken_of_block(cluster, cluster->tiers[i].span_gpus, taken);
  cluster->domain_gpus = taken;
}

int cluster_other_gpus(const Cluster *cluster, gint64 n_gpus) {
  int n = 0, n_ranges = cluster->other_gpus != NULL ? (int)cluster->other_gpus->len : 0;
  while (n < n_ranges &&
         (gint64)g_array_index(cluster->other_gpus, GpuRange, n).first_node * cluster->gpus_per_node < n_gpus)
    n++;
  return n;
}

double cluster_checkpoint_Bps(const Cluster *cluster, int n_writers, int n_nodes) {
  Storage storage = cluster->storage;
  if (cluster->failures != NULL && cluster->failures->checkpoint_Bps > 0)
    storage.write_Bps = cluster->failures->checkpoint_Bps;
  return storage_write_Bps(&storage, n_writers, n_nodes);
}
