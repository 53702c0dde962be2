#include "published_releases.h"

#include "cluster.h"
#include "data_path.h"
#include "framework.h"
#include "yaml_node.h"

/* Llama's 32,000 and what pads it to a multiple of 128 on each of 8 ranks of tp; Llama 3's are 128,256. */
enum { LLAMA_2_MOST_WORDS = 32768, MOST_RULES = 256 };

typedef enum { MODELS_ALL, MODELS_GATED, MODELS_UNGATED, MODELS_LLAMA_2, MODELS_LLAMA_3 } RuleModels;
static const char *const models_names[] = {"all", "gated", "ungated", "llama_2", "llama_3", NULL};

typedef struct {
  char *framework, *read_as, *source; /* owned */
  char *precision;                    /* likewise; NULL: any */
  Precision number;                   /* that one */
  int models;                         /* RuleModels */
  int gpus;                           /* GpuArchitecture; ARCHITECTURE_OTHER: any */
} Rule;

struct PublishedReleases {
  GArray *rules;             /* of Rule */
  GHashTable *architectures; /* cluster → GpuArchitecture, of those that were asked for */
};

static void rule_clear(gpointer data) {
  Rule *rule = data;
  g_free(rule->framework);
  g_free(rule->read_as);
  g_free(rule->source);
  g_free(rule->precision);
}

static gboolean read_rule(YamlNode node, Rule *rule, GError **error) {
  const YamlField fields[] = {
      {"framework", FIELD_TEXT, TRUE, offsetof(Rule, framework)},
      {"models", FIELD_CHOICE, TRUE, offsetof(Rule, models), .names = models_names},
      {"gpus", FIELD_CHOICE, FALSE, offsetof(Rule, gpus), .names = architecture_names()},
      {"precision", FIELD_TEXT, FALSE, offsetof(Rule, precision)},
      {"read_as", FIELD_TEXT, TRUE, offsetof(Rule, read_as)},
      {"source", FIELD_TEXT, TRUE, offsetof(Rule, source)},
  };
  if (!yaml_map_read(node, fields, G_N_ELEMENTS(fields), rule, error))
    return FALSE;
  if (rule->precision != NULL && !precision_parse(rule->precision, &rule->number, error))
    return yaml_prefix(yaml_map_value(node, "precision"), error);
  g_autofree char *path = data_path_find("topologies/frameworks", rule->read_as, ".yaml", error);
  return path != NULL || yaml_prefix(yaml_map_value(node, "read_as"), error);
}

PublishedReleases *published_releases_read(GError **error) {
  g_autofree char *path = data_path_find("topologies/published", "releases", ".yaml", error);
  g_autoptr(YamlFile) yaml = path != NULL ? yaml_file_read(path, error) : NULL;
  const YamlNode list = yaml != NULL ? yaml_file_root(yaml) : (YamlNode){0};
  if (yaml == NULL || yaml_list_length(list, MOST_RULES, error) < 0)
    return NULL;
  g_autoptr(PublishedReleases) releases = g_new0(PublishedReleases, 1);
  releases->rules = g_array_new(FALSE, FALSE, sizeof(Rule));
  g_array_set_clear_func(releases->rules, rule_clear);
  releases->architectures = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    Rule rule = {0};
    const gboolean ok = read_rule(item, &rule, error);
    g_array_append_val(releases->rules, rule);
    if (!ok)
      return NULL;
  }
  return g_steal_pointer(&releases);
}

void published_releases_free(PublishedReleases *releases) {
  if (releases == NULL)
    return;
  g_array_unref(releases->rules);
  g_hash_table_unref(releases->architectures);
  g_free(releases);
}

/* ARCHITECTURE_OTHER of a cluster that cannot be read. */
static GpuArchitecture architecture_of(PublishedReleases *releases, const char *name) {
  gpointer known;
  if (g_hash_table_lookup_extended(releases->architectures, name, NULL, &known))
    return GPOINTER_TO_INT(known);
  g_autoptr(Cluster) cluster = cluster_read(name, NULL);
  const GpuArchitecture found = cluster != NULL ? (GpuArchitecture)cluster->gpu.architecture : ARCHITECTURE_OTHER;
  g_hash_table_insert(releases->architectures, g_strdup(name), GINT_TO_POINTER((int)found));
  return found;
}

/* Of dense models with a gate. A row that has Llama 3's words and does not say how many key-value heads is not taken
 * for one that has all. */
static gboolean is_like_llama_2(const RowCells *cells) {
  const gboolean few_words = cells->vocab != CELL_UNKNOWN && cells->vocab <= LLAMA_2_MOST_WORDS;
  const gboolean all_heads =
      cells->kv_heads != CELL_UNKNOWN ? cells->kv_heads == cells->heads : cells->vocab == CELL_UNKNOWN;
  return few_words || all_heads;
}

/* As far as columns tell, with what holds without them. */
static gboolean is_of_models(const RowCells *cells, const Model *shipped, RuleModels models) {
  const gboolean is_gated = or_else(cells->gated, cells->positions == POSITIONS_ROTARY) > 0;
  const gboolean has_experts = cells->experts > 1 || (shipped != NULL && model_has_experts(shipped));
  if (models == MODELS_ALL || models == MODELS_GATED || models == MODELS_UNGATED)
    return models == MODELS_ALL || is_gated == (models == MODELS_GATED);
  return is_gated && !has_experts && is_like_llama_2(cells) == (models == MODELS_LLAMA_2);
}

const char *published_releases_find(PublishedReleases *releases, const char *framework, const MeasuredRow *row,
                                    const RowCells *cells, const Model *shipped) {
  for (guint i = 0; i < releases->rules->len; i++) {
    const Rule *rule = &g_array_index(releases->rules, Rule, i);
    if (g_strcmp0(rule->framework, framework) == 0 && is_of_models(cells, shipped, rule->models) &&
        (rule->precision == NULL || or_else(cells->precision, PRECISION_BF16) == (gint64)rule->number) &&
        (rule->gpus == ARCHITECTURE_OTHER || architecture_of(releases, row->cluster) <= (GpuArchitecture)rule->gpus))
      return rule->read_as;
  }
  return framework;
}
