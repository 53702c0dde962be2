#include "row_rules.h"

#include <string.h>

#include "data_path.h"
#include "yaml_node.h"

/* Llama's 32,000 and what pads it to a multiple of 128 on each of 8 ranks of tp; Llama 3's are 128,256. */
enum { LLAMA_2_MOST_WORDS = 32768, MOST_RULES = 256, MOST_NOTES = 16 };

typedef enum { MODELS_ALL, MODELS_GATED, MODELS_UNGATED, MODELS_LLAMA_2, MODELS_LLAMA_3, MODELS_MIXTRAL } RuleModels;
static const char *const models_names[] = {"all", "gated", "ungated", "llama_2", "llama_3", "mixtral", NULL};

typedef struct {
  char *framework; /* owned, as are the texts below; NULL: any */
  char *read_as;   /* NULL: the rule says nothing about it */
  char *source;
  YamlNode notes;  /* list of texts; absent: any */
  int precision;   /* Precision, −1: any */
  int models;      /* RuleModels */
  int gpus;        /* GpuArchitecture; ARCHITECTURE_OTHER: any */
  int norm_kernel; /* FrameworkKernels; −1: the rule says nothing about it */
  int memory_of;   /* ShownMemory; −1: the rule says nothing about it */
} Rule;

struct RowRules {
  YamlFile *yaml;
  GArray *rules; /* of Rule */
};

static void rule_clear(gpointer data) {
  Rule *rule = data;
  g_free(rule->framework);
  g_free(rule->read_as);
  g_free(rule->source);
}

static gboolean check_notes(YamlNode notes, GError **error) {
  if (!yaml_is_present(notes))
    return TRUE;
  if (yaml_list_length(notes, MOST_NOTES, error) < 0)
    return FALSE;
  for (YamlNode text = yaml_list_item(notes, 0); yaml_is_present(text); text = yaml_list_next(text))
    if (yaml_text(text, error) == NULL)
      return FALSE;
  return TRUE;
}

static gboolean read_rule(YamlNode node, Rule *rule, GError **error) {
  const YamlField fields[] = {
      {"framework", FIELD_TEXT, FALSE, offsetof(Rule, framework)},
      {"models", FIELD_CHOICE, FALSE, offsetof(Rule, models), .names = models_names},
      {"gpus", FIELD_CHOICE, FALSE, offsetof(Rule, gpus), .names = architecture_names},
      {"precision", FIELD_CHOICE, FALSE, offsetof(Rule, precision), .names = precision_names()},
      {"notes", FIELD_NODE, FALSE, offsetof(Rule, notes)},
      {"read_as", FIELD_TEXT, FALSE, offsetof(Rule, read_as)},
      {"norm_kernel", FIELD_CHOICE, FALSE, offsetof(Rule, norm_kernel), .names = kernels_names()},
      {"memory_of", FIELD_CHOICE, FALSE, offsetof(Rule, memory_of), .names = shown_memory_names()},
      {"source", FIELD_TEXT, TRUE, offsetof(Rule, source)},
  };
  if (!yaml_map_read(node, fields, G_N_ELEMENTS(fields), rule, error) || !check_notes(rule->notes, error))
    return FALSE;
  if (rule->read_as == NULL || framework_is_described(rule->read_as))
    return TRUE;
  g_autofree char *path = data_path_find("topologies/frameworks", rule->read_as, ".yaml", error);
  g_assert(path == NULL);
  return yaml_prefix(yaml_map_value(node, "read_as"), error);
}

RowRules *row_rules_read(GError **error) {
  g_autofree char *path = data_path_find("topologies/published", "rows", ".yaml", error);
  if (path == NULL)
    return NULL;
  g_autoptr(RowRules) rules = g_new0(RowRules, 1);
  rules->rules = g_array_new(FALSE, FALSE, sizeof(Rule));
  g_array_set_clear_func(rules->rules, rule_clear);
  rules->yaml = yaml_file_read(path, error);
  const YamlNode list = rules->yaml != NULL ? yaml_file_root(rules->yaml) : (YamlNode){0};
  if (rules->yaml == NULL || yaml_list_length(list, MOST_RULES, error) < 0)
    return NULL;
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    Rule rule = {.precision = -1, .norm_kernel = -1, .memory_of = -1};
    const gboolean ok = read_rule(item, &rule, error);
    g_array_append_val(rules->rules, rule);
    if (!ok)
      return NULL;
  }
  return g_steal_pointer(&rules);
}

void row_rules_free(RowRules *rules) {
  if (rules == NULL)
    return;
  g_array_unref(rules->rules);
  yaml_file_free(rules->yaml);
  g_free(rules);
}

static gboolean has_few_words(const ModelCells *cells) {
  return cells->vocab != CELL_UNKNOWN && cells->vocab <= LLAMA_2_MOST_WORDS;
}

/* Of dense models with a gate. A row that has Llama 3's words and does not say how many key-value heads is not taken
 * for one that has all. */
static gboolean is_like_llama_2(const ModelCells *cells) {
  const gboolean all_heads =
      cells->kv_heads != CELL_UNKNOWN ? cells->kv_heads == cells->heads : cells->vocab == CELL_UNKNOWN;
  return has_few_words(cells) || all_heads;
}

/* As far as columns tell, with what holds without them. */
static gboolean is_of_models(const RowFacts *facts, RuleModels models) {
  const ModelCells *cells = facts->cells;
  const gboolean is_gated = or_else(cells->gated, cells->positions == POSITIONS_ROTARY) > 0;
  const gboolean has_experts = cells->experts > 1 || (facts->shipped != NULL && model_has_experts(facts->shipped));
  if (models == MODELS_ALL || models == MODELS_GATED || models == MODELS_UNGATED)
    return models == MODELS_ALL || is_gated == (models == MODELS_GATED);
  if (models == MODELS_MIXTRAL)
    return is_gated && has_experts && has_few_words(cells);
  return is_gated && !has_experts && is_like_llama_2(cells) == (models == MODELS_LLAMA_2);
}

/* A machine that is not known may be of any time. */
static gboolean is_of_gpus(const Cluster *machine, int gpus) {
  const int architecture = machine != NULL ? machine->gpu.architecture : ARCHITECTURE_OTHER;
  return gpus == ARCHITECTURE_OTHER || architecture <= gpus;
}

static gboolean has_notes(const char *notes, YamlNode wanted) {
  if (!yaml_is_present(wanted))
    return TRUE;
  for (YamlNode text = yaml_list_item(wanted, 0); yaml_is_present(text); text = yaml_list_next(text)) {
    g_autofree char *lower = g_ascii_strdown(yaml_text(text, NULL), -1);
    if (strstr(notes, lower) == NULL)
      return FALSE;
  }
  return TRUE;
}

/* `notes`: the row's in lower case. */
static gboolean holds(const Rule *rule, const RowFacts *facts, const char *notes) {
  return (rule->framework == NULL || strcmp(rule->framework, facts->framework) == 0) &&
         (rule->precision < 0 || (int)facts->precision == rule->precision) && is_of_models(facts, rule->models) &&
         is_of_gpus(facts->machine, rule->gpus) && has_notes(notes, rule->notes);
}

RowReading row_rules_apply(const RowRules *rules, const RowFacts *facts) {
  RowReading reading = {.norm_kernel = -1, .memory_of = -1};
  g_autofree char *notes = g_ascii_strdown(facts->notes, -1);
  for (guint i = 0; i < rules->rules->len; i++) {
    const Rule *rule = &g_array_index(rules->rules, Rule, i);
    if (!holds(rule, facts, notes))
      continue;
    reading.read_as = reading.read_as != NULL ? reading.read_as : rule->read_as;
    reading.norm_kernel = reading.norm_kernel >= 0 ? reading.norm_kernel : rule->norm_kernel;
    reading.memory_of = reading.memory_of >= 0 ? reading.memory_of : rule->memory_of;
  }
  return reading;
}
