/* What there is by name. How far it is validated is counted from the published steps that intervals come from
 * (interval.h): nothing here is a list of its own. An item is written member by member, each of which is a member of a
 * JSON object or a cell of a line; the first item's keys are the heading. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster_words.h"
#include "command.h"
#include "data_path.h"
#include "error.h"
#include "framework_releases.h"
#include "json_values.h"
#include "model.h"
#include "parser.h"
#include "schedules.h"
#include "suggest.h"

enum { MOST_CELLS = 16 };

/* Errors of published steps with one framework. */
typedef struct {
  int n_known; /* steps whose error is known */
  double sum;  /* of |predicted / measured − 1| */
} Errors;

/* Published steps, and their errors by framework: each counts once, so that the source with most rows does not decide
 * alone (1220 odd layouts with one framework are half of what is known of H100s). */
typedef struct {
  int n_rows;
  GHashTable *errors; /* by name → Errors */
} Validated;

static void validated_free(gpointer data) {
  Validated *validated = data;
  g_hash_table_unref(validated->errors);
  g_free(validated);
}

typedef struct {
  JsonBuilder *builder;  /* NULL: text */
  GArray *seen;          /* of SeenRows */
  GHashTable *validated; /* by the names of the kind that is listed → Validated */
  GStrvBuilder *heading, *cells;
  GPtrArray *rows; /* of GStrv */
} Listing;

/* --- members --- */

static void begin(Listing *l) {
  if (l->builder != NULL)
    json_begin_object(l->builder, NULL);
  else
    l->cells = g_strv_builder_new();
}

static void end(Listing *l) {
  if (l->builder != NULL) {
    json_builder_end_object(l->builder);
    return;
  }
  if (l->rows->len == 0)
    g_ptr_array_add(l->rows, g_strv_builder_end(l->heading));
  g_ptr_array_add(l->rows, g_strv_builder_end(l->cells));
  g_strv_builder_unref(l->cells);
}

/* A key as a heading: without its unit, as the cell has that. */
static void add_cell(Listing *l, const char *key, const char *text) {
  g_autofree char *name = g_strdelimit(g_strndup(key, strlen(key) - (g_str_has_suffix(key, "_Bps") ? 4 : 0)), "_", ' ');
  if (l->rows->len == 0)
    g_strv_builder_add(l->heading, name);
  g_strv_builder_add(l->cells, text);
}

static void add_text(Listing *l, const char *key, const char *text) {
  if (l->builder != NULL)
    json_add_text(l->builder, key, text);
  else
    add_cell(l, key, text != NULL ? text : "");
}

/* 0 is none. */
static void add_count(Listing *l, const char *key, gint64 n) {
  g_autofree char *text = n > 0 ? g_strdup_printf("%" G_GINT64_FORMAT, n) : g_strdup("");
  if (l->builder != NULL)
    json_add_count(l->builder, key, n);
  else
    add_cell(l, key, text);
}

static void add_large(Listing *l, const char *key, gint64 n) {
  g_autofree char *text = units_format_count((double)n);
  if (l->builder != NULL)
    json_add_count(l->builder, key, n);
  else
    add_cell(l, key, text);
}

static void add_quantity(Listing *l, const char *key, double value, UnitKind unit) {
  g_autofree char *text = value > 0 ? units_format(value, unit) : g_strdup("");
  if (l->builder != NULL)
    json_add_number(l->builder, key, value);
  else
    add_cell(l, key, text);
}

/* --- what is validated --- */

static void count(Listing *l, const char *name, const SeenRows *rows) {
  Validated *validated = g_hash_table_lookup(l->validated, name);
  if (validated == NULL) {
    validated = g_new0(Validated, 1);
    validated->errors = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    g_hash_table_insert(l->validated, g_strdup(name), validated);
  }
  validated->n_rows += rows->n_rows;
  if (rows->error <= 0)
    return;
  Errors *errors = g_hash_table_lookup(validated->errors, rows->framework);
  if (errors == NULL)
    g_hash_table_insert(validated->errors, g_strdup(rows->framework), errors = g_new0(Errors, 1));
  errors->sum += rows->error * rows->n_rows;
  errors->n_known += rows->n_rows;
}

static int compare_doubles(gconstpointer a, gconstpointer b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The frameworks' mean errors' mean; NAN: none is known. Summed by size, as a hash table has no order. */
static double mean_of_frameworks(const Validated *validated) {
  g_autoptr(GArray) means = g_array_new(FALSE, FALSE, sizeof(double));
  GHashTableIter iter;
  gpointer value;
  g_hash_table_iter_init(&iter, validated->errors);
  while (g_hash_table_iter_next(&iter, NULL, &value)) {
    const Errors *errors = value;
    const double mean = errors->sum / errors->n_known;
    g_array_append_val(means, mean);
  }
  g_array_sort(means, compare_doubles);
  double sum = 0;
  for (guint i = 0; i < means->len; i++)
    sum += g_array_index(means, double, i);
  return means->len > 0 ? sum / means->len : NAN;
}

static const SeenRows *nth(const Listing *l, guint i) {
  return &g_array_index(l->seen, SeenRows, i);
}

/* By the GPU of the rows' clusters, of which those that cannot be read count for none. */
static void count_gpus(Listing *l) {
  const char *name = NULL;
  g_autoptr(Cluster) cluster = NULL;
  for (guint i = 0; i < l->seen->len; i++) {
    if (g_strcmp0(name, nth(l, i)->cluster) != 0) {
      g_clear_pointer(&cluster, cluster_free);
      name = nth(l, i)->cluster;
      cluster = cluster_read(name, NULL);
    }
    if (cluster != NULL)
      count(l, cluster->gpu.name, nth(l, i));
  }
}

static void add_validated(Listing *l, const char *name, const char *heading) {
  const Validated *found = g_hash_table_lookup(l->validated, name);
  const double error = found != NULL ? 100 * mean_of_frameworks(found) : NAN;
  g_autofree char *n = found != NULL ? g_strdup_printf("%d", found->n_rows) : g_strdup("not validated"),
                  *off = isnan(error) ? g_strdup("") : g_strdup_printf("%.1f %%", error);
  if (l->builder != NULL) {
    json_add_count(l->builder, "published_steps", found != NULL ? found->n_rows : 0);
    json_add_number(l->builder, "mape", error);
    return;
  }
  add_cell(l, "published_steps", n);
  add_cell(l, heading, off);
}

/* --- kinds --- */

static const char of_frameworks[] = "mape, mean of frameworks";

static gboolean list_models(Listing *l, GError **error) {
  g_auto(GStrv) names = data_path_list("models", ".json");
  for (char **name = names; *name != NULL; name++) {
    g_autoptr(Model) model = model_read(*name, error);
    if (model == NULL)
      return FALSE;
    begin(l);
    add_text(l, "name", *name);
    add_large(l, "parameters", model_parameters(model));
    add_large(l, "active_parameters", model_active_parameters(model));
    add_count(l, "layers", model->n_layers);
    add_count(l, "hidden", model->hidden);
    add_count(l, "experts", model->experts.n);
    end(l);
  }
  return TRUE;
}

static gboolean list_clusters(Listing *l, GError **error) {
  g_auto(GStrv) names = data_path_list("topologies", ".yaml");
  for (guint i = 0; i < l->seen->len; i++)
    count(l, nth(l, i)->cluster, nth(l, i));
  for (char **name = names; *name != NULL; name++) {
    g_autoptr(Cluster) cluster = cluster_read(*name, error);
    if (cluster == NULL)
      return FALSE;
    begin(l);
    add_text(l, "name", *name);
    add_text(l, "gpu", cluster->gpu.name);
    add_count(l, "gpus_per_node", cluster->gpus_per_node);
    add_count(l, "domain_gpus", cluster->domain_gpus);
    add_quantity(l, "scale_up_Bps", cluster->scale_up_Bps, UNIT_BYTES_PER_SECOND);
    add_count(l, "nics_per_node", cluster->nics_per_node);
    add_quantity(l, "nic_Bps", cluster->nic_Bps, UNIT_BYTES_PER_SECOND);
    add_validated(l, *name, of_frameworks);
    end(l);
  }
  return TRUE;
}

/* NULL: nowhere that is known. */
static const char *usual_cluster(const GArray *usual, const char *gpu) {
  for (guint i = 0; i < usual->len; i++)
    if (strcmp(g_array_index(usual, UsualCluster, i).gpu, gpu) == 0)
      return g_array_index(usual, UsualCluster, i).cluster;
  return NULL;
}

static gboolean list_gpus(Listing *l, GError **error) {
  g_auto(GStrv) names = data_path_list("topologies/gpus", ".yaml");
  g_autoptr(GArray) usual = usual_clusters_read(error);
  if (usual == NULL)
    return FALSE;
  count_gpus(l);
  for (char **name = names; *name != NULL; name++) {
    g_autofree char *path = data_path_find("topologies/gpus", *name, ".yaml", error);
    Gpu gpu = {0};
    if (path == NULL || !gpu_read(path, &gpu, error))
      return FALSE;
    begin(l);
    add_text(l, "name", *name);
    add_quantity(l, "peak_16_bits_flops", MAX(gpu.peak_flops[NUMBER_BF16], gpu.peak_flops[NUMBER_FP16]),
                 UNIT_FLOPS_PER_SECOND);
    add_quantity(l, "memory_bytes", gpu.hbm_bytes, UNIT_BYTES);
    add_quantity(l, "memory_Bps", gpu.hbm_Bps, UNIT_BYTES_PER_SECOND);
    add_text(l, "usual_cluster", usual_cluster(usual, *name));
    add_validated(l, gpu.name, of_frameworks);
    end(l);
    gpu_clear(&gpu);
  }
  return TRUE;
}

static void list_framework(Listing *l, const char *name, const char *file) {
  begin(l);
  add_text(l, "name", name);
  add_text(l, "file", file);
  add_validated(l, file, "mape");
  end(l);
}

/* As it is now, and its older releases that have a file of their own: "deepspeed", "deepspeed@0.11". */
static gboolean list_product(Listing *l, const FrameworkProduct *product, GHashTable *listed, GError **error) {
  g_auto(FrameworkChoice) now = {0};
  if (!framework_choose(product->name, &now, error))
    return FALSE;
  const char *newer = now.file;
  list_framework(l, product->name, now.file);
  g_hash_table_add(listed, g_strdup(now.file));
  for (guint i = product->releases->len; i-- > 0;) {
    const FrameworkRelease *row = &g_array_index(product->releases, FrameworkRelease, i);
    if (row->file == NULL || strcmp(row->file, newer) == 0)
      continue;
    g_autofree char *older = g_strconcat(product->name, "@", row->release != NULL ? row->release : row->since, NULL);
    list_framework(l, older, row->file);
    g_hash_table_add(listed, g_strdup(row->file));
    newer = row->file;
  }
  return TRUE;
}

/* By the names of --framework: products, and files that are nobody's release. */
static gboolean list_frameworks(Listing *l, GError **error) {
  g_autoptr(FrameworkReleases) releases = framework_releases_read(error);
  if (releases == NULL)
    return FALSE;
  g_auto(GStrv) names = framework_choices();
  g_autoptr(GHashTable) listed = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < l->seen->len; i++)
    count(l, nth(l, i)->framework, nth(l, i));
  for (guint i = 0; i < releases->products->len; i++)
    if (!list_product(l, releases->products->pdata[i], listed, error))
      return FALSE;
  for (char **name = names; *name != NULL; name++)
    if (framework_product_find(releases, *name) == NULL && !g_hash_table_contains(listed, *name))
      list_framework(l, *name, *name);
  return TRUE;
}

/* "Megatron-LM, PyTorch". */
static char *runtimes_of(const ScheduleFacts *facts) {
  const char *const all[] = {facts->in_megatron ? "Megatron-LM" : NULL, facts->in_deepspeed ? "DeepSpeed" : NULL,
                             facts->in_pytorch != NULL ? "PyTorch" : NULL};
  g_autoptr(GString) out = g_string_new(NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i] != NULL)
      g_string_append_printf(out, "%s%s", out->len > 0 ? ", " : "", all[i]);
  return g_string_free(g_steal_pointer(&out), FALSE);
}

static gboolean list_schedules(Listing *l, GError **error) {
  (void)error;
  for (const char *const *name = schedule_choices(); *name != NULL; name++) {
    const ScheduleFacts *facts = schedule_facts(*name);
    g_autofree char *runtimes = runtimes_of(facts);
    begin(l);
    add_text(l, "name", *name);
    add_count(l, "least_chunks", facts->least_chunks);
    add_text(l, "had_by", runtimes);
    add_text(l, "summary", facts->summary);
    end(l);
  }
  return TRUE;
}

static const struct {
  const char *name, *note; /* printed behind it; NULL: nothing */
  gboolean (*list)(Listing *, GError **);
} kinds[] = {
    {"models", "any Hugging Face config.json is one, too (--model FILE)", list_models},
    {"clusters",
     "words are one, too: --cluster \"8x h100, 400 Gb/s x 8\"; mape: mean error of the published steps, of those "
     "that constants were fitted to as of others (docs/validation.md), each framework's mean counted once",
     list_clusters},
    {"gpus", "usual cluster: what a cluster in words takes where it says nothing", list_gpus},
    {"frameworks", "what they are is told in docs/frameworks.md", list_frameworks},
    {"schedules", NULL, list_schedules},
};

/* --- the verb --- */

static void print_rows(const GPtrArray *rows) {
  int widths[MOST_CELLS] = {0};
  for (guint i = 0; i < rows->len; i++)
    for (int k = 0; ((GStrv)rows->pdata[i])[k] != NULL; k++)
      widths[k] = MAX(widths[k], (int)strlen(((GStrv)rows->pdata[i])[k]));
  for (guint i = 0; i < rows->len; i++) {
    char **cells = rows->pdata[i];
    g_autoptr(GString) line = g_string_new(NULL);
    for (int k = 0; cells[k] != NULL; k++)
      g_string_append_printf(line, "%-*s  ", widths[k], cells[k]);
    puts(g_strchomp(line->str));
  }
}

static void listing_clear(Listing *l) {
  g_clear_object(&l->builder);
  g_array_unref(l->seen);
  g_hash_table_unref(l->validated);
  g_strv_builder_unref(l->heading);
  g_ptr_array_unref(l->rows);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Listing, listing_clear)

/* What the kind has, in rows or, with a builder, in the object that is open there. Takes the builder and `seen`. */
static Listing listing_of(JsonBuilder *builder, GArray *seen) {
  return (Listing){builder,
                   seen,
                   g_hash_table_new_full(g_str_hash, g_str_equal, g_free, validated_free),
                   g_strv_builder_new(),
                   NULL,
                   g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev)};
}

static void print_json(JsonBuilder *builder) {
  g_autofree char *text = json_finish(json_builder_end_object(builder));
  fputs(text, stdout);
}

static gboolean list_kind(gsize kind, gboolean is_json, GError **error) {
  GArray *seen = interval_seen(error);
  if (seen == NULL)
    return FALSE;
  g_auto(Listing) l = listing_of(is_json ? json_builder_new() : NULL, seen);
  if (is_json) {
    json_begin_object(l.builder, NULL);
    json_begin_list(l.builder, kinds[kind].name);
  }
  if (!kinds[kind].list(&l, error))
    return FALSE;
  if (is_json) {
    json_builder_end_array(l.builder);
    print_json(g_steal_pointer(&l.builder));
    return TRUE;
  }
  print_rows(l.rows);
  if (kinds[kind].note != NULL)
    printf("\n%s\n", kinds[kind].note);
  return TRUE;
}

/* How many there are of the kind; −1 with the error set. */
static int count_kind(gsize kind, GError **error) {
  GArray *seen = interval_seen(error);
  if (seen == NULL)
    return -1;
  g_auto(Listing) l = listing_of(NULL, seen);
  return kinds[kind].list(&l, error) ? (int)l.rows->len - 1 : -1; /* below the heading */
}

/* Of every kind how many there are, and how they are listed. */
static gboolean list_kinds(gboolean is_json, GError **error) {
  int n[G_N_ELEMENTS(kinds)];
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if ((n[i] = count_kind(i, error)) < 0)
      return FALSE;
  if (!is_json) {
    for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
      printf("%4d %-10s  stepsim list %s\n", n[i], kinds[i].name, kinds[i].name);
    return TRUE;
  }
  JsonBuilder *builder = json_builder_new();
  json_begin_object(builder, NULL);
  json_begin_list(builder, "kinds");
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
    json_begin_object(builder, NULL);
    json_add_text(builder, "name", kinds[i].name);
    json_add_count(builder, "n", n[i]);
    json_builder_end_object(builder);
  }
  json_builder_end_array(builder);
  print_json(builder);
  return TRUE;
}

static gboolean find_kind(int argc, char **argv, gsize *kind, GError **error) {
  const char *names[G_N_ELEMENTS(kinds) + 1] = {NULL};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    names[i] = kinds[i].name;
  const int found = argc == 2 ? suggest_same(argv[1], names) : -1;
  g_autofree char *expected = suggest_message(argv[1], names);
  if (argc != 2)
    return fail_input(error, "found %d names of what to list, %s", argc - 1, expected);
  if (found < 0)
    return fail_input(error, "found \"%.80s\", %s", argv[1], expected);
  *kind = (gsize)found;
  return TRUE;
}

int command_list(int argc, char **argv, GError **error) {
  gboolean is_json = FALSE;
  gsize kind = 0;
  g_autoptr(Parser) parser = parser_new(
      "[models|clusters|gpus|frameworks|schedules]",
      "Lists what there is by name, and on how many published steps it was compared with what error; without a kind, "
      "how many there are of each.",
      "Examples:\n  stepsim list clusters\n  stepsim list gpus --json\n\nExit status: 0 done, 2 bad usage or input.");
  const GOptionEntry entries[] = {{"json", 0, 0, G_OPTION_ARG_NONE, &is_json, "print one JSON object", NULL},
                                  G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, &argc, &argv, TRUE, error) &&
                 (argc == 1 ? list_kinds(is_json, error)
                            : find_kind(argc, argv, &kind, error) && list_kind(kind, is_json, error))
             ? 0
             : 2;
}
