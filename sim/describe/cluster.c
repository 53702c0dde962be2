/* A cluster file joins three: itself, the GPU it is made of and the constants of the collective library it runs.
 *
 *     topologies/llama3-h100.yaml ──┬── gpus/h100-sxm5-80gb.yaml
 *                                   └── nccl/2.30.yaml
 *
 * Every mapping is one table of keys, targets, ranges and units; what follows a table checks values against each other
 * (a domain is whole nodes, tiers widen, NICs have a description). */
#include "cluster.h"

#include <string.h>

#include "data_path.h"
#include "error.h"
#include "yaml_node.h"

static const char *const scale_up_names[] = {
    [SCALE_UP_NVSWITCH] = "nvswitch", [SCALE_UP_NVLINK_MESH] = "nvlink_mesh", [SCALE_UP_PCIE] = "pcie", NULL};

typedef struct {
  Cluster cluster;
  YamlNode gpu, collectives, node, scale_up, nic, fabric, tiers, measured, fitted;
} Draft;

#define IN_CLUSTER(member) offsetof(Draft, cluster.member)

static const YamlField top_fields[] = {
    {"name", FIELD_TEXT, TRUE, IN_CLUSTER(name)},
    {"source", FIELD_TEXT, TRUE, IN_CLUSTER(source)},
    {"gpu", FIELD_NODE, TRUE, offsetof(Draft, gpu)},
    {"collectives", FIELD_NODE, TRUE, offsetof(Draft, collectives)},
    {"node", FIELD_NODE, TRUE, offsetof(Draft, node)},
    {"fabric", FIELD_NODE, FALSE, offsetof(Draft, fabric)},
    {"max_gpus", FIELD_INT64, FALSE, IN_CLUSTER(max_gpus), 1, 1e9},
    {"transfer_tax", FIELD_NUMBER, FALSE, IN_CLUSTER(transfer_tax), 0, 10},
    {"measured", FIELD_NODE, FALSE, offsetof(Draft, measured)},
    {"fitted", FIELD_NODE, FALSE, offsetof(Draft, fitted)},
    {"price", FIELD_QUANTITY, FALSE, IN_CLUSTER(dollars_per_gpu_hour), 1e-3, 1e6, UNIT_DOLLARS_PER_HOUR},
};

static const YamlField node_fields[] = {
    {"gpus", FIELD_INT, TRUE, IN_CLUSTER(gpus_per_node), 1, 4096},
    {"scale_up", FIELD_NODE, TRUE, offsetof(Draft, scale_up)},
    {"nics", FIELD_INT, TRUE, IN_CLUSTER(nics_per_node), 0, 4096},
    {"nic", FIELD_NODE, FALSE, offsetof(Draft, nic)},
    {"host_memory", FIELD_QUANTITY, FALSE, IN_CLUSTER(host_memory_bytes), 1e6, 1e16, UNIT_BYTES},
};

static const YamlField scale_up_fields[] = {
    {"kind", FIELD_CHOICE, TRUE, IN_CLUSTER(scale_up), .names = scale_up_names},
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_CLUSTER(scale_up_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(scale_up_efficiency), 1e-3, 1},
    {"latency", FIELD_QUANTITY, TRUE, IN_CLUSTER(scale_up_latency_s), 0, 1, UNIT_SECONDS},
    {"domain", FIELD_INT, FALSE, IN_CLUSTER(domain_gpus), 1, 65536},
};

static const YamlField nic_fields[] = {
    {"bandwidth", FIELD_QUANTITY, TRUE, IN_CLUSTER(nic_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"efficiency", FIELD_NUMBER, TRUE, IN_CLUSTER(nic_efficiency), 1e-3, 1},
    {"latency", FIELD_QUANTITY, TRUE, IN_CLUSTER(nic_latency_s), 0, 1, UNIT_SECONDS},
};

static const YamlField fabric_fields[] = {
    {"tiers", FIELD_NODE, TRUE, offsetof(Draft, tiers)},
};

static const YamlField tier_fields[] = {
    {"span", FIELD_INT64, TRUE, offsetof(FabricTier, span_gpus), 1, 1e9},
    {"oversubscription", FIELD_NUMBER, TRUE, offsetof(FabricTier, oversubscription), 1, 1e4},
};

/* The cluster's own file. */

/* Owned by the caller; NULL with the error set. */
static char *find_beside(YamlNode node, const char *cluster_file, const char *subdir, GError **error) {
  const char *name = yaml_text(node, error);
  if (name == NULL)
    return NULL;
  g_autofree char *folder = g_path_get_dirname(cluster_file);
  g_autofree char *beside = g_path_is_absolute(name) ? g_strdup(name) : g_build_filename(folder, name, NULL);
  if (g_file_test(beside, G_FILE_TEST_EXISTS))
    return g_steal_pointer(&beside);
  char *found = data_path_find(subdir, name, ".yaml", error);
  if (found == NULL)
    yaml_prefix(node, error);
  return found;
}

static gboolean read_parts(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  g_autofree char *gpu = find_beside(draft->gpu, cluster->file, "topologies/gpus", error);
  if (gpu == NULL || !gpu_read(gpu, &cluster->gpu, error))
    return FALSE;
  g_autofree char *library = find_beside(draft->collectives, cluster->file, "topologies/nccl", error);
  return library != NULL && collective_library_read(library, &cluster->collectives, &cluster->eager_bytes, error);
}

static gboolean read_scale_up(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (!yaml_map_read(draft->scale_up, scale_up_fields, G_N_ELEMENTS(scale_up_fields), draft, error))
    return FALSE;
  if (cluster->domain_gpus == 0)
    cluster->domain_gpus = cluster->gpus_per_node;
  if (cluster->domain_gpus % cluster->gpus_per_node != 0)
    return yaml_fail(draft->scale_up, error, "found domain %d, expected a multiple of the node's %d GPUs",
                     cluster->domain_gpus, cluster->gpus_per_node);
  return TRUE;
}

static gboolean read_nics(Draft *draft, GError **error) {
  Cluster *cluster = &draft->cluster;
  if (cluster->nics_per_node == 0)
    return !yaml_is_present(draft->nic) || yaml_fail(draft->nic, error, "found a description, but nics is 0");
  if (!yaml_is_present(draft->nic))
    return yaml_fail(draft->node, error, "the key \"nic\" is missing, as nics is %d", cluster->nics_per_node);
  cluster->node_egress_gpus = (double)cluster->gpus_per_node / cluster->nics_per_node;
  return yaml_map_read(draft->nic, nic_fields, G_N_ELEMENTS(nic_fields), draft, error);
}

static gboolean read_fabric(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->fabric))
    return TRUE;
  Cluster *cluster = &draft->cluster;
  if (!yaml_map_read(draft->fabric, fabric_fields, G_N_ELEMENTS(fabric_fields), draft, error))
    return FALSE;
  int n_tiers = yaml_list_length(draft->tiers, CLUSTER_MAX_TIERS, error);
  gint64 below = cluster->gpus_per_node;
  for (int i = 0; i < n_tiers; i++) {
    YamlNode item = yaml_list_item(draft->tiers, i);
    FabricTier *tier = &cluster->tiers[i];
    if (!yaml_map_read(item, tier_fields, G_N_ELEMENTS(tier_fields), tier, error))
      return FALSE;
    if (tier->span_gpus <= below)
      return yaml_fail(item, error,
                       "found span %" G_GINT64_FORMAT ", expected more than the %" G_GINT64_FORMAT " below",
                       tier->span_gpus, below);
    below = tier->span_gpus;
  }
  cluster->n_tiers = n_tiers;
  return n_tiers >= 1;
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

static gboolean read_draft(YamlNode root, Draft *draft, GError **error) {
  return yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), draft, error) &&
         yaml_map_read(draft->node, node_fields, G_N_ELEMENTS(node_fields), draft, error) &&
         read_scale_up(draft, error) && read_nics(draft, error) && read_fabric(draft, error) &&
         read_measured(draft, error) && read_parts(draft, error);
}

Cluster *cluster_read(const char *file, GError **error) {
  g_autofree char *path = data_path_find("topologies", file, ".yaml", error);
  if (path == NULL)
    return NULL;
  g_autoptr(YamlFile) yaml = yaml_file_read(path, error);
  if (yaml == NULL)
    return NULL;
  Draft draft = {.cluster.file = g_steal_pointer(&path)};
  gboolean ok = read_draft(yaml_file_root(yaml), &draft, error);
  g_autoptr(Cluster) cluster = g_new(Cluster, 1);
  *cluster = draft.cluster;
  return ok ? g_steal_pointer(&cluster) : NULL;
}

void cluster_free(Cluster *cluster) {
  if (cluster == NULL)
    return;
  g_free(cluster->name);
  g_free(cluster->source);
  g_free(cluster->file);
  gpu_clear(&cluster->gpu);
  collective_library_clear(&cluster->collectives);
  measured_links_free(cluster->measured);
  fitted_links_free(cluster->fitted);
  g_free(cluster);
}
