#include "interval.h"

#include <math.h>
#include <string.h>

#include "data_path.h"
#include "yaml_node.h"

enum { MOST_PAIRS = 4096, MOST_GPUS = 256, MOST_ROWS = 100000000 };

/* Bounds of measured / predicted. */
typedef struct {
  double low, high;
} Span;

/* Published steps on a machine with a framework. */
typedef struct {
  YamlNode node;
  char *cluster, *framework; /* owned */
  int alike;                 /* ErrorClass */
  int n_rows;
  double error; /* as in SeenRows */
  Span span;
} Pair;

typedef struct {
  YamlNode gpus, seen;
  Span first_look[N_ERROR_CLASSES], undescribed[N_ERROR_CLASSES];
  double ratio[N_ERROR_CLASSES];
  YamlFile *yaml;
  GHashTable *gpu_names; /* of texts of `yaml` */
  GArray *pairs;         /* of Pair */
  GHashTable *by_key;    /* → Pair */
} Table;

static const char *const class_names[N_ERROR_CLASSES + 1] = {
    [ERRORS_DENSE_NEAR] = "dense_in_a_domain", [ERRORS_DENSE_FAR] = "dense_over_domains", [ERRORS_EXPERTS] = "experts"};

const char *const *error_class_names(void) {
  return class_names;
}

ErrorClass error_class_of(const Cluster *cluster, int n_gpus, gboolean has_experts) {
  return has_experts ? ERRORS_EXPERTS : n_gpus > cluster->domain_gpus ? ERRORS_DENSE_FAR : ERRORS_DENSE_NEAR;
}

/* --- the file --- */

static const double most_factor = 1000;

#define SPAN(type, member)                                                                                             \
  {"low", FIELD_NUMBER, TRUE, offsetof(type, member.low), 1 / most_factor, 1}, {                                       \
    "high", FIELD_NUMBER, TRUE, offsetof(type, member.high), 1, most_factor                                            \
  }

static int compare_pairs(gconstpointer a, gconstpointer b) {
  const Pair *x = a, *y = b;
  const int by_cluster = strcmp(x->cluster, y->cluster), by_framework = strcmp(x->framework, y->framework);
  return by_cluster != 0 ? by_cluster : by_framework != 0 ? by_framework : x->alike - y->alike;
}

static void pair_clear(gpointer data) {
  Pair *pair = data;
  g_free(pair->cluster);
  g_free(pair->framework);
}

static gboolean read_pairs(Table *table, GError **error) {
  static const Pair blank = {.n_rows = 0};
  const YamlField fields[] = {
      {"cluster", FIELD_TEXT, TRUE, offsetof(Pair, cluster)},
      {"framework", FIELD_TEXT, TRUE, offsetof(Pair, framework)},
      {"models", FIELD_CHOICE, TRUE, offsetof(Pair, alike), .names = class_names},
      {"rows", FIELD_INT, TRUE, offsetof(Pair, n_rows), 1, MOST_ROWS},
      {"error", FIELD_NUMBER, FALSE, offsetof(Pair, error), 0, most_factor},
      SPAN(Pair, span),
  };
  const YamlRowType type = {sizeof(Pair), fields, G_N_ELEMENTS(fields), &blank, pair_clear, compare_pairs};
  table->pairs = yaml_rows_read(table->seen, &type, error);
  return table->pairs != NULL;
}

static gboolean read_gpus(Table *table, GError **error) {
  table->gpu_names = g_hash_table_new(g_str_hash, g_str_equal);
  if (yaml_list_length(table->gpus, MOST_GPUS, error) < 0)
    return FALSE;
  for (YamlNode item = yaml_list_item(table->gpus, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    const char *name = yaml_text(item, error);
    if (name == NULL)
      return FALSE;
    g_hash_table_add(table->gpu_names, (gpointer)name);
  }
  return TRUE;
}

/* A machine is its shipped file: a copy of it, or a file over it, is another. */
static char *key_of(const char *path, const char *framework, ErrorClass alike) {
  return g_strdup_printf("%s\n%s\n%d", path, framework, alike);
}

static void find_pairs(Table *table) {
  table->by_key = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  const char *cluster = "";
  g_autofree char *path = NULL;
  for (guint i = 0; i < table->pairs->len; i++) {
    Pair *pair = &g_array_index(table->pairs, Pair, i);
    if (strcmp(cluster, pair->cluster) != 0) { /* they are sorted by it */
      g_free(path);
      cluster = pair->cluster;
      path = data_path_find("topologies", cluster, ".yaml", NULL);
    }
    if (path != NULL)
      g_hash_table_insert(table->by_key, key_of(path, pair->framework, (ErrorClass)pair->alike), pair);
  }
}

static gboolean read_root(Table *table, GError **error) {
  static const YamlField span[] = {SPAN(
      struct { Span span; }, span)};
  static const YamlField spans[] = {{.type = FIELD_MAP, .required = TRUE, YAML_FIELDS(span)}};
  static const YamlField ratio[] = {{.type = FIELD_NUMBER, .required = TRUE, .min = 0, .max = 10}};
  const YamlField fields[] = {
      {"gpus", FIELD_NODE, TRUE, offsetof(Table, gpus)},
      {"ratio", FIELD_EACH, TRUE, offsetof(Table, ratio), .names = class_names, YAML_FIELDS(ratio),
       .stride = sizeof(double)},
      {"first_look", FIELD_EACH, TRUE, offsetof(Table, first_look), .names = class_names, YAML_FIELDS(spans),
       .stride = sizeof(Span)},
      {"undescribed", FIELD_EACH, TRUE, offsetof(Table, undescribed), .names = class_names, YAML_FIELDS(spans),
       .stride = sizeof(Span)},
      {"seen", FIELD_NODE, FALSE, offsetof(Table, seen)},
  };
  return yaml_map_read(yaml_file_root(table->yaml), fields, G_N_ELEMENTS(fields), table, error) &&
         read_gpus(table, error) && read_pairs(table, error);
}

static void table_free(Table *table) {
  g_clear_pointer(&table->by_key, g_hash_table_unref);
  g_clear_pointer(&table->gpu_names, g_hash_table_unref);
  g_clear_pointer(&table->pairs, g_array_unref);
  g_clear_pointer(&table->yaml, yaml_file_free);
  g_free(table);
}

char *interval_file(GError **error) {
  return data_path_find("topologies/published", INTERVAL_FILE, ".yaml", error);
}

static Table *table_read(GError **error) {
  g_autofree char *path = interval_file(error);
  if (path == NULL)
    return NULL;
  Table *table = g_new0(Table, 1);
  table->yaml = yaml_file_read(path, error);
  if (table->yaml == NULL || !read_root(table, error)) {
    table_free(table);
    return NULL;
  }
  find_pairs(table);
  return table;
}

/* Read once, for the process. */
static const Table *table_of_process(GError **error) {
  static gsize is_read;
  static Table *table;
  static GError *problem;
  if (g_once_init_enter(&is_read)) {
    table = table_read(&problem);
    g_once_init_leave(&is_read, 1);
  }
  if (table == NULL)
    g_propagate_error(error, g_error_copy(problem));
  return table;
}

GArray *interval_seen(GError **error) {
  const Table *table = table_of_process(error);
  if (table == NULL)
    return NULL;
  GArray *seen = g_array_new(FALSE, FALSE, sizeof(SeenRows));
  for (guint i = 0; i < table->pairs->len; i++) {
    const Pair *pair = &g_array_index(table->pairs, Pair, i);
    const SeenRows rows = {pair->cluster, pair->framework, pair->n_rows, pair->error};
    g_array_append_val(seen, rows);
  }
  return seen;
}

/* --- a prediction's --- */

static const Pair *find_pair(const Table *table, const IntervalCase *predicted, ErrorClass alike) {
  g_autofree char *key = key_of(predicted->cluster->file, predicted->framework, alike);
  return g_hash_table_lookup(table->by_key, key);
}

static Span span_of(const Table *table, const IntervalCase *predicted, ErrorClass alike, Interval *interval) {
  const gboolean is_described = predicted->framework != NULL;
  const Pair *pair = is_described ? find_pair(table, predicted, alike) : NULL;
  const double of_runs = predicted->cluster->as_run.error; /* |ln(measured / predicted)| */
  if (of_runs > 0) {
    interval->basis = INTERVAL_OF_RUNS;
    return (Span){exp(-of_runs), exp(of_runs)};
  }
  if (pair != NULL) {
    interval->basis = INTERVAL_OF_ROWS;
    interval->n_rows = pair->n_rows;
    return pair->span;
  }
  const gboolean is_new = !g_hash_table_contains(table->gpu_names, predicted->cluster->gpu.name);
  interval->basis = is_new ? INTERVAL_NEW_GPU : is_described ? INTERVAL_FIRST_LOOK : INTERVAL_UNDESCRIBED;
  return interval->basis == INTERVAL_FIRST_LOOK ? table->first_look[alike] : table->undescribed[alike];
}

/* If runs say how far off times are, two plans' ratio is no further off than if their errors had nothing in common. */
static double ratio_of(const Table *table, const IntervalCase *predicted, ErrorClass alike) {
  const double of_runs = predicted->cluster->as_run.error;
  return of_runs > 0 ? MIN(table->ratio[alike], expm1(G_SQRT2 * of_runs)) : table->ratio[alike];
}

gboolean interval_find(const IntervalCase *predicted, Interval *interval, GError **error) {
  const Table *table = table_of_process(error);
  if (table == NULL)
    return FALSE;
  const ErrorClass alike = error_class_of(predicted->cluster, predicted->n_gpus, predicted->has_experts);
  *interval = (Interval){.ratio = ratio_of(table, predicted, alike)};
  const Span span = span_of(table, predicted, alike, interval);
  interval->low_s = predicted->step_time_s * span.low;
  interval->high_s = predicted->step_time_s * span.high;
  return TRUE;
}

/* --- as text --- */

/* To three digits: an interval's ends are not known better. */
char *interval_end_text(double seconds) {
  char digits[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(digits, sizeof digits, "%.2e", seconds);
  g_autofree char *text = units_format(g_ascii_strtod(digits, NULL), UNIT_SECONDS);
  const char *unit = strchr(text, ' ');
  const double number = g_ascii_strtod(text, NULL);
  return g_strdup_printf("%.3g%s", number, unit);
}

void interval_append_range(GString *out, const Interval *interval) {
  g_autofree char *low = interval_end_text(interval->low_s), *high = interval_end_text(interval->high_s);
  char *unit = strchr(low, ' ');
  if (strcmp(unit, strchr(high, ' ')) == 0)
    *unit = '\0';
  g_string_append_printf(out, "%s to %s", low, high);
}

char *interval_basis_text(const Interval *interval) {
  switch (interval->basis) {
  case INTERVAL_OF_RUNS:
    return g_strdup("runs of this cluster");
  case INTERVAL_OF_ROWS:
    return g_strdup_printf("%d published step%s of this machine and framework", interval->n_rows,
                           interval->n_rows == 1 ? "" : "s");
  case INTERVAL_FIRST_LOOK:
    return g_strdup("a machine new to this framework");
  case INTERVAL_UNDESCRIBED:
    return g_strdup("no framework, its overheads are left out");
  case INTERVAL_NEW_GPU:
    return g_strdup("a GPU without published steps, assumed to be no worse");
  default:
    return NULL;
  }
}

void interval_append(GString *out, const Interval *interval) {
  g_autofree char *basis = interval_basis_text(interval);
  if (basis == NULL)
    return;
  interval_append_range(g_string_append(out, " ("), interval);
  g_string_append_printf(out, " in four of five cases like this: %s)", basis);
}
