/* Three tables of the same shape (base, hop, bandwidth_share: algorithm → protocol → number), and values of other
 * shapes: limits by GPU generation, corrections by size. Rows of ring and tree are required; any other row is in all
 * three tables or in none. */
#include "collective_library.h"

#include <string.h>

#include "yaml_node.h"

static const char *const link_keys[N_LINKS] = {[LINK_NVLINK] = "nvlink", [LINK_PCIE] = "pcie", [LINK_NET] = "net"};
static const char *const algorithm_name_list[] = {
    [ALGORITHM_RING] = "ring",     [ALGORITHM_TREE] = "tree",
    [ALGORITHM_NVLS] = "nvls",     [ALGORITHM_NVLS_TREE] = "nvls_tree",
    [ALGORITHM_PAT] = "pat",       [ALGORITHM_HIERARCHICAL] = "hierarchical",
    [ALGORITHM_NAIVE] = "naive",   [ALGORITHM_PAIRWISE] = "pairwise",
    [ALGORITHM_DIRECT] = "direct", NULL};
static const char *const protocol_name_list[] = {"LL", "LL128", "Simple", NULL};
static const char *const protocol_key_list[] = {"ll", "ll128", "simple", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(algorithm_name_list) == ALGORITHM_DIRECT + 2);
G_STATIC_ASSERT(G_N_ELEMENTS(protocol_name_list) == N_PROTOCOLS + 1);
G_STATIC_ASSERT(G_N_ELEMENTS(protocol_key_list) == N_PROTOCOLS + 1);

const char *const *algorithm_names(void) {
  return algorithm_name_list;
}

const char *const *protocol_names(void) {
  return protocol_name_list;
}

const char *const *protocol_keys(void) {
  return protocol_key_list;
}

typedef struct {
  CollectiveLibrary library;
  gint64 eager_bytes;
  char *source;
  YamlNode base, hop, share, one_node, pat, tree_corrections, ring_search;
} Draft;

#define IN_LIBRARY(member) offsetof(Draft, library.member)

static const YamlField bytes = {.type = FIELD_QUANTITY, .required = TRUE, .min = 1, .max = 1e12, .unit = UNIT_BYTES};
static const YamlField seconds = {.type = FIELD_QUANTITY, .required = TRUE, .max = 1, .unit = UNIT_SECONDS};

#define PER_PROTOCOL(pattern) .names = protocol_key_list, .fields = &(pattern), .stride = sizeof(double)

static const YamlField ll_fields[] = {
    {"two", FIELD_QUANTITY, TRUE, IN_LIBRARY(two_nodes_ll_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"more", FIELD_QUANTITY, TRUE, IN_LIBRARY(more_nodes_ll_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
};

static const YamlField ring_search_fields[] = {
    {"rate_share", FIELD_NUMBER, TRUE, IN_LIBRARY(ring_search.rate_share), 1e-3, 1},
    {"split_from", FIELD_QUANTITY, TRUE, IN_LIBRARY(ring_search.split_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"split_channels", FIELD_INT, TRUE, IN_LIBRARY(ring_search.split_channels), 0, 1024},
    {"split_any_from", FIELD_QUANTITY, TRUE, IN_LIBRARY(ring_search.split_any_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
};

static const YamlField pat_fields[] = {
    {"step_share", FIELD_NUMBER, TRUE, IN_LIBRARY(pat_step_share), 0, 10},
    {"per_rank", FIELD_QUANTITY, TRUE, IN_LIBRARY(pat_per_rank_s), 0, 1, UNIT_SECONDS},
};

/* Without these keys chunks are never halved. */
static const YamlField halving_fields[MAX_HALVINGS] = {{"first", FIELD_INT, TRUE, 0, 1, 65536},
                                                       {"second", FIELD_INT, TRUE, sizeof(int), 1, 65536},
                                                       {"third", FIELD_INT, FALSE, 2 * sizeof(int), 1, 65536}};

static const YamlField over_nodes_fields[] = {
    {"two", FIELD_QUANTITY, TRUE, offsetof(OverNodes, two_nodes_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"more", FIELD_QUANTITY, TRUE, offsetof(OverNodes, more_nodes_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
};
static const YamlField over_nodes = {.type = FIELD_MAP, YAML_FIELDS(over_nodes_fields)};

static const char *const channel_limit_keys[N_CHANNEL_LIMITS + 1] = {[CHANNEL_RING_LL128] = "ring_ll128",
                                                                     [CHANNEL_TREE] = "tree",
                                                                     [CHANNEL_TREE_LL128] = "tree_ll128",
                                                                     [CHANNEL_NVLS_TREE] = "nvls_tree"};

#define IN_LIMITS(member) offsetof(ArchitectureLimits, member)

static const YamlField architecture_fields[] = {
    {"ll_max", FIELD_QUANTITY, FALSE, IN_LIMITS(ll_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"nvls_share", FIELD_NUMBER, FALSE, IN_LIMITS(nvls_share), 1e-3, 1},
    {"channels", FIELD_INT, FALSE, IN_LIMITS(channels), 1, 1024},
    {"nvls_channels", FIELD_INT, FALSE, IN_LIMITS(nvls_channels), 1, 1024},
    {"nvls_channel", FIELD_QUANTITY, FALSE, IN_LIMITS(nvls_channel_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"ring_start", FIELD_QUANTITY, FALSE, IN_LIMITS(ring_start_s), 0, 1, UNIT_SECONDS},
    {"ring_hop", FIELD_QUANTITY, FALSE, IN_LIMITS(ring_hop_s), 0, 1, UNIT_SECONDS},
    {"own_part", FIELD_NUMBER, FALSE, IN_LIMITS(own_part), 0, 1},
    {"channel_max", FIELD_EACH, FALSE, IN_LIMITS(channel_max), .names = channel_limit_keys, .fields = &over_nodes,
     .stride = sizeof(OverNodes)},
};
static const YamlField architecture = {.type = FIELD_MAP, YAML_FIELDS(architecture_fields)};

static const YamlField top_fields[] = {
    {"version", FIELD_TEXT, TRUE, IN_LIBRARY(version)},
    {"source", FIELD_TEXT, TRUE, offsetof(Draft, source)},
    {"eager", FIELD_BYTES, TRUE, offsetof(Draft, eager_bytes), 0, 1e12, UNIT_BYTES},
    {"base", FIELD_NODE, TRUE, offsetof(Draft, base)},
    {"hop", FIELD_NODE, TRUE, offsetof(Draft, hop)},
    {"bandwidth_share", FIELD_NODE, TRUE, offsetof(Draft, share)},
    {"bandwidth_share_one_node", FIELD_NODE, FALSE, offsetof(Draft, one_node)},
    {"by_architecture", FIELD_EACH, FALSE, IN_LIBRARY(by_architecture), .names = architecture_names,
     .fields = &architecture, .stride = sizeof(ArchitectureLimits)},
    {"ll_over_nodes", FIELD_MAP, FALSE, YAML_FIELDS(ll_fields)},
    {"net_overhead", FIELD_EACH, FALSE, IN_LIBRARY(net_overhead_s), PER_PROTOCOL(seconds)},
    {"lone_member_hop", FIELD_EACH, FALSE, IN_LIBRARY(lone_hop_s), PER_PROTOCOL(seconds)},
    {"send_channel", FIELD_QUANTITY, FALSE, IN_LIBRARY(send_channel_Bps), 1e6, 1e14, UNIT_BYTES_PER_SECOND},
    {"sends_at_once", FIELD_INT, FALSE, IN_LIBRARY(sends_at_once), 1, 1024},
    {"send_ll", FIELD_QUANTITY, FALSE, IN_LIBRARY(send_ll_bytes), 0, 1e12, UNIT_BYTES},
    {"nvls_chunk", FIELD_QUANTITY, FALSE, IN_LIBRARY(nvls_chunk_bytes), 1, 1e12, UNIT_BYTES},
    {"nvls_halvings", FIELD_MAP, FALSE, IN_LIBRARY(nvls_halvings), YAML_FIELDS(halving_fields)},
    {"nvls_tree_halvings", FIELD_MAP, FALSE, IN_LIBRARY(nvls_tree_halvings), YAML_FIELDS(halving_fields)},
    {"step_bytes", FIELD_EACH, FALSE, IN_LIBRARY(step_bytes), PER_PROTOCOL(bytes)},
    {"ring_channels", FIELD_INT, FALSE, IN_LIBRARY(ring_channels), 1, 1024},
    {"ring_search", FIELD_NODE, TRUE, offsetof(Draft, ring_search),
     .what = "expected how channels are laid over NICs, such as {rate_share: 0.96, split_from: 25 GB/s, "
             "split_channels: 4, split_any_from: 50 GB/s}, or none: one over each, never split"},
    {"ring_last_step", FIELD_NUMBER, FALSE, IN_LIBRARY(ring_last_step), 0, 1},
    {"ring_plateau", FIELD_NUMBER, FALSE, IN_LIBRARY(ring_plateau), 1, 10},
    {"pat", FIELD_NODE, FALSE, offsetof(Draft, pat)},
    {"channel_bytes", FIELD_EACH, FALSE, IN_LIBRARY(channel_bytes), PER_PROTOCOL(bytes)},
    {"tree_correction", FIELD_NODE, FALSE, offsetof(Draft, tree_corrections)},
};

/* Read a mapping from the `n` names to a node each. The first `n_required` are required. */
static gboolean read_children(YamlNode map, const char *const *names, int n, int n_required, YamlNode *children,
                              GError **error) {
  YamlField fields[MAX((int)N_LINKS, (int)N_ALGORITHMS)];
  g_assert(n <= (int)G_N_ELEMENTS(fields));
  for (int i = 0; i < n; i++)
    fields[i] = (YamlField){names[i], FIELD_NODE, i < n_required, (size_t)i * sizeof *children};
  return yaml_map_read(map, fields, n, children, error);
}

/* protocol → a double of the kind that `pattern` describes. Required: all protocols if `all`, else only Simple. */
static gboolean read_protocols(YamlNode row, const YamlField *pattern, gboolean all, double *values, GError **error) {
  YamlField fields[N_PROTOCOLS];
  for (int protocol = 0; protocol < N_PROTOCOLS; protocol++) {
    fields[protocol] = *pattern;
    fields[protocol].key = protocol_key_list[protocol];
    fields[protocol].offset = (size_t)protocol * sizeof *values;
    fields[protocol].required = pattern->required && (all || protocol == PROTOCOL_SIMPLE);
  }
  return yaml_map_read(row, fields, N_PROTOCOLS, values, error);
}

/* algorithm → protocol → a double. `present` holds the rows of the first table; the others must have the same. */
static gboolean read_table(YamlNode map, const YamlField *pattern, double values[N_ALGORITHMS][N_PROTOCOLS],
                           guint *present, GError **error) {
  YamlNode rows[N_ALGORITHMS] = {{0}};
  int n_required = pattern->required ? ALGORITHM_TREE + 1 : 0;
  if (!read_children(map, algorithm_name_list, N_ALGORITHMS, n_required, rows, error))
    return FALSE;
  guint found = 0;
  for (int a = 0; a < N_ALGORITHMS; a++) {
    if (!yaml_is_present(rows[a]))
      continue;
    found |= 1u << a;
    if (!read_protocols(rows[a], pattern, a <= ALGORITHM_TREE, values[a], error))
      return FALSE;
  }
  if (*present == 0)
    *present = found;
  guint odd = pattern->required ? found ^ *present : found & ~*present;
  if (odd == 0)
    return TRUE;
  const char *name = algorithm_name_list[g_bit_nth_lsf(odd, -1)];
  return yaml_fail(map, error, "found %s row of %s, expected it in base, hop and bandwidth_share alike",
                   found & odd ? "a" : "no", name);
}

static gboolean read_hops(Draft *draft, guint *present, GError **error) {
  YamlNode links[N_LINKS];
  if (!read_children(draft->hop, link_keys, N_LINKS, N_LINKS, links, error))
    return FALSE;
  for (int link = 0; link < N_LINKS; link++)
    if (!read_table(links[link], &seconds, draft->library.hop_s[link], present, error))
      return FALSE;
  return TRUE;
}

static gboolean read_tables(Draft *draft, GError **error) {
  static const YamlField share = {.type = FIELD_NUMBER, .required = TRUE, .min = 1e-3, .max = 1};
  static const YamlField odd_share = {.type = FIELD_NUMBER, .min = 1e-3, .max = 1};
  CollectiveLibrary *library = &draft->library;
  guint present = 0;
  return read_table(draft->base, &seconds, library->base_s, &present, error) &&
         read_table(draft->share, &share, library->bandwidth_share, &present, error) &&
         read_hops(draft, &present, error) &&
         (!yaml_is_present(draft->one_node) ||
          read_table(draft->one_node, &odd_share, library->one_node_share, &present, error));
}

static gboolean read_correction(YamlNode item, BandwidthCorrection *correction, GError **error) {
  static const YamlField fields[] = {
      {"bytes", FIELD_QUANTITY, TRUE, offsetof(BandwidthCorrection, bytes), 1, 1e15, UNIT_BYTES},
      {"ll", FIELD_NUMBER, TRUE, offsetof(BandwidthCorrection, share[PROTOCOL_LL]), 1e-3, 10},
      {"ll128", FIELD_NUMBER, TRUE, offsetof(BandwidthCorrection, share[PROTOCOL_LL128]), 1e-3, 10},
      {"simple", FIELD_NUMBER, TRUE, offsetof(BandwidthCorrection, share[PROTOCOL_SIMPLE]), 1e-3, 10},
  };
  return yaml_map_read(item, fields, G_N_ELEMENTS(fields), correction, error);
}

static gboolean read_corrections(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->tree_corrections))
    return TRUE;
  CollectiveLibrary *library = &draft->library;
  int n = yaml_list_length(draft->tree_corrections, MAX_CORRECTIONS, error);
  for (int i = 0; i < n; i++) {
    YamlNode item = yaml_list_item(draft->tree_corrections, i);
    if (!read_correction(item, &library->tree_corrections[i], error))
      return FALSE;
    if (i > 0 && library->tree_corrections[i].bytes <= library->tree_corrections[i - 1].bytes)
      return yaml_fail(item, error, "found bytes %.0f after %.0f, expected ascending sizes",
                       library->tree_corrections[i].bytes, library->tree_corrections[i - 1].bytes);
  }
  library->n_tree_corrections = n;
  return n > 0;
}

/* "none" or a mapping. */
static gboolean read_ring_search(Draft *draft, GError **error) {
  const YamlNode node = draft->ring_search;
  if (yaml_is_map(node) || yaml_is_list(node))
    return yaml_map_read(node, ring_search_fields, G_N_ELEMENTS(ring_search_fields), draft, error);
  const char *text = yaml_text(node, error);
  if (text == NULL)
    return FALSE;
  return strcmp(text, "none") == 0 || yaml_fail(node, error, "found \"%.80s\", expected a mapping or none", text);
}

/* The tables say whether the version has PAT; if so, its two constants are required. */
static gboolean read_pat(Draft *draft, YamlNode root, GError **error) {
  if (yaml_is_present(draft->pat))
    return yaml_map_read(draft->pat, pat_fields, G_N_ELEMENTS(pat_fields), draft, error);
  if (draft->library.bandwidth_share[ALGORITHM_PAT][PROTOCOL_SIMPLE] > 0)
    return yaml_fail(root, error, "the key \"pat\" is missing, as the tables have rows of pat");
  return TRUE;
}

gboolean collective_library_read(const char *file, CollectiveLibrary *library, gint64 *eager_bytes, GError **error) {
  g_autoptr(YamlFile) yaml = yaml_file_read(file, error);
  if (yaml == NULL)
    return FALSE;
  Draft draft = {0};
  YamlNode root = yaml_file_root(yaml);
  gboolean ok = yaml_map_read(root, top_fields, G_N_ELEMENTS(top_fields), &draft, error) &&
                read_tables(&draft, error) && read_corrections(&draft, error) && read_ring_search(&draft, error) &&
                read_pat(&draft, root, error);
  *library = draft.library;
  library->file = g_strdup(file);
  *eager_bytes = draft.eager_bytes;
  g_free(draft.source); /* required for human readers, not used */
  return ok;
}

void collective_library_clear(CollectiveLibrary *library) {
  g_clear_pointer(&library->version, g_free);
  g_clear_pointer(&library->file, g_free);
}
