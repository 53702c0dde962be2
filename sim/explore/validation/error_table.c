/* Three predictions of every row, its error in each; then weighted quantiles of sets of these errors. A fit is to all
 * rows or to some, so that the others can say how many of them lie in it.
 *
 *     row   machine, framework            alike   as it is   first look   undescribed
 *      0    selene, megatron-lm           dense     +0.06       +0.11        +0.02
 *      1    …
 */
#include "error_table.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "json_values.h"
#include "splitmix.h"

/* Of 4, 8 and 12 none is better: with halves of the published rows 80 to 81 % of the other halves lie inside, with a
 * source left out 79 to 82 % of its rows. */
enum { PRIOR_ROWS = 8, N_HALVINGS = 10 };
static const double tail = (1 - INTERVAL_LEVEL) / 2, unseen_sources = 0.5;

/* Ways to predict a row. */
typedef enum { AS_IT_IS, AS_FIRST_LOOK, AS_UNDESCRIBED, N_WAYS } Way;

typedef struct {
  const char *source; /* interned */
  int pair;           /* index into pairs; −1: no framework is described */
  ErrorClass alike;
  int n_gpus;
  double errors[N_WAYS]; /* NAN: not known */
  const char *choice;    /* interned; the same for plans that one may choose between */
  double predicted_s;    /* as it is */
} Row;

typedef struct {
  const char *cluster, *framework; /* interned */
  ErrorClass alike;
  guint n_rows;
} Pair;

struct ErrorTable {
  GArray *rows;     /* of Row: those with an error as they are */
  GArray *pairs;    /* of Pair, in order of appearance */
  GPtrArray *gpus;  /* names of kinds of GPU, interned, sorted */
  GPtrArray *files; /* their base names; owned */
};

static const Row *nth(const ErrorTable *table, guint i) {
  return &g_array_index(table->rows, Row, i);
}

/* --- quantiles --- */

typedef struct {
  double value, weight;
} Weighted;

static GArray *weighted_new(void) {
  return g_array_new(FALSE, FALSE, sizeof(Weighted));
}

static void add(GArray *values, double value, double weight) {
  const Weighted weighted = {value, weight};
  g_array_append_val(values, weighted);
}

static int compare_weighted(gconstpointer a, gconstpointer b) {
  const Weighted *x = a, *y = b;
  return (x->value > y->value) - (x->value < y->value);
}

/* The least value with `share` of all weight up to it, `beyond` of weight being above all values; the largest if there
 * is none. Sorts them. */
static double quantile(GArray *values, double share, double beyond) {
  double total = beyond, passed = 0;
  g_array_sort(values, compare_weighted);
  for (guint i = 0; i < values->len; i++)
    total += g_array_index(values, Weighted, i).weight;
  guint i = 0;
  for (; i + 1 < values->len; i++) {
    passed += g_array_index(values, Weighted, i).weight;
    if (passed >= share * total * (1 - 1e-12)) /* sums of many thirds and sevenths */
      break;
  }
  return g_array_index(values, Weighted, i).value;
}

typedef struct {
  double low, high; /* of errors; low ≤ 0 ≤ high */
} Span;

static void mirror(GArray *values) {
  for (guint i = 0; i < values->len; i++)
    g_array_index(values, Weighted, i).value *= -1;
}

/* Share of all weight below 0. */
static double share_below(const GArray *values, double beyond) {
  double total = beyond, below = 0;
  for (guint i = 0; i < values->len; i++) {
    const Weighted *value = &g_array_index(values, Weighted, i);
    total += value->weight;
    below += value->value < 0 ? value->weight : 0;
  }
  return below / total;
}

/* As much beyond either end; where a tail does not reach 0, the end is there, and the other tail has the rest. */
static Span span_of(GArray *values, double beyond) {
  const double below = MIN(share_below(values, beyond), tail);
  mirror(values);
  const double above = MIN(share_below(values, beyond), tail);
  const double low = -quantile(values, INTERVAL_LEVEL + above, beyond);
  mirror(values);
  const double high = quantile(values, INTERVAL_LEVEL + below, beyond);
  return (Span){below < tail ? 0 : MIN(low, 0), above < tail ? 0 : MAX(high, 0)};
}

static gboolean holds(const Span *span, double error) {
  return error >= span->low && error <= span->high;
}

/* --- by source --- */

/* To each source of `sources` (interned texts) its weight: all weigh the same, shared by their occurrences. Owned by
 * the caller. */
static double *weights_by_source(const GPtrArray *sources, guint *n_sources) {
  g_autoptr(GHashTable) n_of = g_hash_table_new(NULL, NULL);
  for (guint i = 0; i < sources->len; i++) {
    const int n = GPOINTER_TO_INT(g_hash_table_lookup(n_of, sources->pdata[i]));
    g_hash_table_insert(n_of, sources->pdata[i], GINT_TO_POINTER(n + 1));
  }
  double *weights = g_new(double, MAX(sources->len, 1));
  for (guint i = 0; i < sources->len; i++)
    weights[i] = 1.0 / GPOINTER_TO_INT(g_hash_table_lookup(n_of, sources->pdata[i]));
  *n_sources = g_hash_table_size(n_of);
  return weights;
}

/* --- a fit --- */

typedef struct {
  const ErrorTable *table;
  const gboolean *taken;               /* [rows]; NULL: all */
  Span spans[N_WAYS][N_ERROR_CLASSES]; /* but of AS_IT_IS */
  guint n_sources[N_WAYS][N_ERROR_CLASSES];
  guint n_rows[N_WAYS][N_ERROR_CLASSES];
  GArray *priors[N_ERROR_CLASSES]; /* of Weighted, PRIOR_ROWS in sum; owned */
} Fit;

static gboolean is_taken(const Fit *fit, guint i) {
  return fit->taken == NULL || fit->taken[i];
}

/* A framework that is not described has no first look. */
static gboolean counts(const Row *row, Way way, ErrorClass alike) {
  return row->alike == alike && isfinite(row->errors[way]) && (way == AS_UNDESCRIBED || row->pair >= 0);
}

static void fit_class(Fit *fit, Way way, ErrorClass alike) {
  g_autoptr(GPtrArray) sources = g_ptr_array_new();
  GArray *values = weighted_new();
  for (guint i = 0; i < fit->table->rows->len; i++) {
    const Row *row = nth(fit->table, i);
    if (!is_taken(fit, i) || !counts(row, way, alike))
      continue;
    add(values, row->errors[way], 1);
    g_ptr_array_add(sources, (gpointer)row->source);
  }
  guint *n_sources = &fit->n_sources[way][alike];
  g_autofree double *weights = weights_by_source(sources, n_sources);
  for (guint i = 0; i < values->len; i++)
    g_array_index(values, Weighted, i).weight = way == AS_IT_IS ? weights[i] * PRIOR_ROWS / *n_sources : weights[i];
  fit->n_rows[way][alike] = values->len;
  if (way == AS_IT_IS) {
    fit->priors[alike] = values;
    return;
  }
  if (values->len > 0)
    fit->spans[way][alike] = span_of(values, unseen_sources);
  g_array_unref(values);
}

static void fit_init(Fit *fit, const ErrorTable *table, const gboolean *taken) {
  *fit = (Fit){.table = table, .taken = taken};
  for (int way = 0; way < N_WAYS; way++)
    for (int alike = 0; alike < N_ERROR_CLASSES; alike++)
      fit_class(fit, (Way)way, (ErrorClass)alike);
}

static void fit_clear(Fit *fit) {
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++)
    g_clear_pointer(&fit->priors[alike], g_array_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fit, fit_clear)

/* FALSE: no row of the pair is taken. */
static gboolean fit_pair(const Fit *fit, int pair, Span *span) {
  g_autoptr(GArray) values = weighted_new();
  for (guint i = 0; i < fit->table->rows->len; i++)
    if (is_taken(fit, i) && nth(fit->table, i)->pair == pair)
      add(values, nth(fit->table, i)->errors[AS_IT_IS], 1);
  if (values->len == 0)
    return FALSE;
  const GArray *prior = fit->priors[g_array_index(fit->table->pairs, Pair, pair).alike];
  g_array_append_vals(values, prior->data, prior->len);
  *span = span_of(values, 0);
  return TRUE;
}

/* --- ratios --- */

typedef struct {
  const char *source;
  double difference; /* |ln| of how far the ratio is off */
} TwoPlans;

static gint by_choice(gconstpointer a, gconstpointer b) {
  const Row *x = *(const Row *const *)a, *y = *(const Row *const *)b;
  return x->choice != y->choice ? strcmp(x->choice, y->choice) : (x > y) - (x < y);
}

/* All pairs of plans of that class that one may choose between and that are predicted to differ: of TwoPlans. Owned by
 * the caller. */
static GArray *two_plans(const ErrorTable *table, ErrorClass alike) {
  GArray *twos = g_array_new(FALSE, FALSE, sizeof(TwoPlans));
  g_autoptr(GPtrArray) sorted = g_ptr_array_new();
  for (guint i = 0; i < table->rows->len; i++)
    if (nth(table, i)->alike == alike)
      g_ptr_array_add(sorted, (gpointer)nth(table, i));
  g_ptr_array_sort(sorted, by_choice);
  for (guint i = 0; i < sorted->len; i++)
    for (guint k = i + 1; k < sorted->len; k++) {
      const Row *x = sorted->pdata[i], *y = sorted->pdata[k];
      if (x->choice != y->choice)
        break;
      const TwoPlans two = {x->source, fabs(x->errors[AS_IT_IS] - y->errors[AS_IT_IS])};
      if (fabs(log(x->predicted_s / y->predicted_s)) > 1e-9)
        g_array_append_val(twos, two);
    }
  return twos;
}

/* Without those of a source; NULL: of all. NAN: there are none. */
static double ratio_without(const GArray *twos, const char *left_out, guint *n_sources) {
  g_autoptr(GArray) values = weighted_new();
  g_autoptr(GPtrArray) sources = g_ptr_array_new();
  for (guint i = 0; i < twos->len; i++) {
    const TwoPlans *two = &g_array_index(twos, TwoPlans, i);
    if (two->source == left_out)
      continue;
    add(values, two->difference, 1);
    g_ptr_array_add(sources, (gpointer)two->source);
  }
  g_autofree double *weights = weights_by_source(sources, n_sources);
  for (guint i = 0; i < values->len; i++)
    g_array_index(values, Weighted, i).weight = weights[i];
  return values->len > 0 ? quantile(values, INTERVAL_LEVEL, unseen_sources) : NAN;
}

/* --- reading the rows --- */

/* Where a kind of GPU was run. */
typedef struct {
  const Cluster *machine;
  GHashTable *sources; /* owned */
} Use;

static void use_clear(gpointer use) {
  g_hash_table_unref(((Use *)use)->sources);
}

static GArray *uses_of(const MeasuredRows *rows) {
  GArray *uses = g_array_new(FALSE, FALSE, sizeof(Use));
  g_array_set_clear_func(uses, use_clear);
  for (guint i = 0; i < rows->rows->len; i++) {
    const MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    guint k = 0;
    while (k < uses->len && g_array_index(uses, Use, k).machine != row->machine)
      k++;
    if (k == uses->len) {
      const Use use = {row->machine, g_hash_table_new(g_str_hash, g_str_equal)};
      g_array_append_val(uses, use);
    }
    g_hash_table_add(g_array_index(uses, Use, k).sources, (gpointer)measured_row_cell(row, "source"));
  }
  return uses;
}

/* The other machine with that kind of GPU that most sources ran on, the first in the tables of several; the same if
 * there is no other. */
static const Cluster *general_machine(const GArray *uses, const Cluster *machine) {
  const Use *best = NULL;
  for (guint i = 0; i < uses->len; i++) {
    const Use *use = &g_array_index(uses, Use, i);
    if (use->machine != NULL && use->machine != machine && strcmp(use->machine->gpu.name, machine->gpu.name) == 0 &&
        (best == NULL || g_hash_table_size(use->sources) > g_hash_table_size(best->sources)))
      best = use;
  }
  return best != NULL ? best->machine : machine;
}

static void move_to_general_machines(MeasuredRows *rows) {
  g_autoptr(GArray) uses = uses_of(rows);
  for (guint i = 0; i < rows->rows->len; i++) {
    MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (row->machine != NULL)
      row->machine = general_machine(uses, row->machine);
  }
}

/* What was not timed has no error, and is not predicted again. */
static void leave_untimed(MeasuredRows *rows) {
  for (guint i = 0; i < rows->rows->len; i++) {
    MeasuredRow *row = &g_array_index(rows->rows, MeasuredRow, i);
    if (!isfinite(row->step_time_s) && row->problem == NULL)
      row->problem = g_strdup("not timed");
  }
}

static Validation *predict_rows(const Validation *as_it_is, char **files, int n_files, Way way, GError **error) {
  static const char *const without[N_WAYS] = {[AS_FIRST_LOOK] = "host,rates", [AS_UNDESCRIBED] = "framework"};
  Parts parts;
  const gboolean are_parts = parts_parse(without[way], &parts, NULL);
  g_assert(are_parts);
  MeasuredRows *rows = measured_rows_read(files, n_files, &as_it_is->rows->as, error);
  if (rows == NULL)
    return NULL;
  measured_rows_take_away(rows, parts);
  move_to_general_machines(rows);
  leave_untimed(rows);
  return validation_run(rows, NULL, as_it_is->n_threads, error);
}

static int compare_pairs(gconstpointer a, gconstpointer b) {
  const Pair *x = a, *y = b;
  const int by_cluster = strcmp(x->cluster, y->cluster), by_framework = strcmp(x->framework, y->framework);
  return by_cluster != 0 ? by_cluster : by_framework != 0 ? by_framework : (int)x->alike - (int)y->alike;
}

/* What one may choose between: plans of a source for the same model and batch, on as many GPUs of a machine, in the
 * same format, with the same framework. Interned. */
static const char *choice_of(const MeasuredRow *row, const RowPrediction *prediction) {
  const Model *model = row->model;
  g_autofree char *text = g_strdup_printf(
      "%s\n%s\n%s\n%s\n%" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %d %" G_GINT64_FORMAT " %d",
      measured_row_cell(row, "source"), row->cluster, row->framework, measured_row_cell(row, "model_name"),
      model->n_layers, model->hidden, row->plan->seq_len, prediction->gpus, prediction->global_batch,
      (int)row->plan->precision);
  return g_intern_string(text);
}

static double error_of(const Validation *validation, guint i) {
  return -log1p(validation->predictions[i].error); /* NAN stays NAN */
}

static void add_gpu(ErrorTable *table, const char *name) {
  const char *interned = g_intern_string(name);
  if (!g_ptr_array_find(table->gpus, interned, NULL))
    g_ptr_array_add(table->gpus, (gpointer)interned);
}

/* Its number; they are not sorted yet. */
static int add_to_pair(ErrorTable *table, const MeasuredRow *row, ErrorClass alike) {
  const Pair pair = {g_intern_string(row->cluster), g_intern_string(row->read_as), alike, 1};
  for (guint i = 0; i < table->pairs->len; i++)
    if (compare_pairs(&g_array_index(table->pairs, Pair, i), &pair) == 0) {
      g_array_index(table->pairs, Pair, i).n_rows++;
      return (int)i;
    }
  g_array_append_val(table->pairs, pair);
  return (int)table->pairs->len - 1;
}

static void add_row(ErrorTable *table, const Validation *const ways[N_WAYS], guint i) {
  const MeasuredRow *measured = validation_row(ways[AS_IT_IS], i);
  const RowPrediction *prediction = &ways[AS_IT_IS]->predictions[i];
  if (!isfinite(prediction->error))
    return;
  Row row = {.source = g_intern_string(measured_row_cell(measured, "source")),
             .pair = -1,
             .alike = error_class_of(measured->machine, prediction->gpus, model_has_experts(measured->model)),
             .n_gpus = prediction->gpus,
             .choice = choice_of(measured, prediction),
             .predicted_s = prediction->step_time_s};
  for (int way = 0; way < N_WAYS; way++)
    row.errors[way] = error_of(ways[way], i);
  if (*measured->read_as != '\0')
    row.pair = add_to_pair(table, measured, row.alike);
  add_gpu(table, measured->machine->gpu.name);
  g_array_append_val(table->rows, row);
}

static gboolean check_classes(const ErrorTable *table, GError **error) {
  g_auto(Fit) fit;
  fit_init(&fit, table, NULL);
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++) {
    g_autoptr(GArray) twos = two_plans(table, (ErrorClass)alike);
    for (int way = AS_FIRST_LOOK; way < N_WAYS; way++)
      if (fit.n_rows[way][alike] == 0)
        return fail_impossible(error,
                               "no row of class %s has a measured time and a framework that a file describes: there is "
                               "nothing to make intervals from",
                               error_class_names()[alike]);
    if (twos->len == 0)
      return fail_impossible(error,
                             "no two rows of class %s are plans to choose between: same source, model, batch, "
                             "machine and number of GPUs",
                             error_class_names()[alike]);
  }
  return TRUE;
}

static gint compare_texts(gconstpointer a, gconstpointer b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

ErrorTable *error_table_new(const Validation *as_it_is, char **files, int n_files, GError **error) {
  g_autoptr(Validation) first_look = predict_rows(as_it_is, files, n_files, AS_FIRST_LOOK, error);
  g_autoptr(Validation) undescribed =
      first_look != NULL ? predict_rows(as_it_is, files, n_files, AS_UNDESCRIBED, error) : NULL;
  if (undescribed == NULL)
    return NULL;
  const Validation *const ways[N_WAYS] = {
      [AS_IT_IS] = as_it_is, [AS_FIRST_LOOK] = first_look, [AS_UNDESCRIBED] = undescribed};
  g_autoptr(ErrorTable) table = g_new0(ErrorTable, 1);
  table->rows = g_array_new(FALSE, FALSE, sizeof(Row));
  table->pairs = g_array_new(FALSE, FALSE, sizeof(Pair));
  table->gpus = g_ptr_array_new();
  table->files = g_ptr_array_new_with_free_func(g_free);
  for (int i = 0; i < n_files; i++)
    g_ptr_array_add(table->files, g_path_get_basename(files[i]));
  for (guint i = 0; i < as_it_is->n_rows; i++)
    add_row(table, ways, i);
  g_ptr_array_sort(table->gpus, compare_texts);
  return check_classes(table, error) ? g_steal_pointer(&table) : NULL;
}

void error_table_free(ErrorTable *table) {
  if (table == NULL)
    return;
  g_array_unref(table->rows);
  g_array_unref(table->pairs);
  g_ptr_array_unref(table->gpus);
  g_ptr_array_unref(table->files);
  g_free(table);
}

/* --- as a file --- */

static void append_text(GString *out, const char *text) {
  if (*text != '\0' && text[strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "-_.")] == '\0')
    g_string_append(out, text);
  else
    json_append_string(out, text);
}

/* Of errors, as bounds of measured / predicted. */
static void append_span(GString *out, const Span *span) {
  g_string_append_printf(out, "low: %.3f, high: %.3f", exp(span->low), exp(span->high));
}

static void append_head(GString *out, const ErrorTable *table) {
  g_string_append(out,
                  "# How far off predictions of published steps are: the bounds that hold four of five of measured / "
                  "predicted. How they\n# are made is told in sim/explore/validation/error_table.h. Made by\n"
                  "#\n#     stepsim validate");
  for (guint i = 0; i < table->files->len; i++)
    g_string_append_printf(out, " %s", (const char *)table->files->pdata[i]);
  g_string_append(out, " --intervals topologies/published/" INTERVAL_FILE ".yaml\n\ngpus: # of the rows\n");
  for (guint i = 0; i < table->gpus->len; i++) {
    append_text(g_string_append(out, "  - "), table->gpus->pdata[i]);
    g_string_append_c(out, '\n');
  }
}

static void append_ratios(GString *out, const ErrorTable *table) {
  g_string_append(out, "ratio: # of two plans: four of five are off by no larger share\n");
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++) {
    guint n_sources;
    g_autoptr(GArray) twos = two_plans(table, (ErrorClass)alike);
    const double off = ratio_without(twos, NULL, &n_sources);
    g_string_append_printf(out, "  %s: %.3f # %u pairs of %u sources\n", error_class_names()[alike], expm1(off),
                           twos->len, n_sources);
  }
}

static void append_classes(GString *out, const Fit *fit, Way way, const char *key) {
  g_string_append_printf(out, "%s:\n", key);
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++) {
    g_string_append_printf(out, "  %s: {", error_class_names()[alike]);
    append_span(out, &fit->spans[way][alike]);
    g_string_append_printf(out, "} # %u rows of %u sources\n", fit->n_rows[way][alike], fit->n_sources[way][alike]);
  }
}

static gint by_pair(gconstpointer a, gconstpointer b, gpointer pairs) {
  return compare_pairs(&g_array_index((GArray *)pairs, Pair, *(const int *)a),
                       &g_array_index((GArray *)pairs, Pair, *(const int *)b));
}

/* Mean of |predicted / measured − 1| of a pair's rows. */
static double mean_error(const ErrorTable *table, int pair) {
  double sum = 0;
  guint n = 0;
  for (guint i = 0; i < table->rows->len; i++)
    if (nth(table, i)->pair == pair) {
      sum += fabs(expm1(-nth(table, i)->errors[AS_IT_IS]));
      n++;
    }
  return sum / n;
}

static void append_seen(GString *out, const Fit *fit) {
  GArray *pairs = fit->table->pairs;
  g_autofree int *order = g_new(int, pairs->len + 1);
  for (guint i = 0; i < pairs->len; i++)
    order[i] = (int)i;
  g_qsort_with_data(order, (int)pairs->len, sizeof *order, by_pair, pairs);
  g_string_append(out, "seen:\n");
  for (guint i = 0; i < pairs->len; i++) {
    const Pair *pair = &g_array_index(pairs, Pair, order[i]);
    Span span;
    fit_pair(fit, order[i], &span);
    append_text(g_string_append(out, "  - {cluster: "), pair->cluster);
    append_text(g_string_append(out, ", framework: "), pair->framework);
    g_string_append_printf(out, ", models: %s, rows: %u, error: %.3f, ", error_class_names()[pair->alike], pair->n_rows,
                           mean_error(fit->table, order[i]));
    append_span(out, &span);
    g_string_append(out, "}\n");
  }
}

char *error_table_yaml(const ErrorTable *table) {
  g_auto(Fit) fit;
  fit_init(&fit, table, NULL);
  GString *out = g_string_new(NULL);
  append_head(out, table);
  append_ratios(out, table);
  append_classes(out, &fit, AS_FIRST_LOOK, "first_look");
  append_classes(out, &fit, AS_UNDESCRIBED, "undescribed");
  append_seen(out, &fit);
  return g_string_free(out, FALSE);
}

/* --- how many lie inside --- */

typedef struct {
  double n, n_inside, half_width; /* half_width: ln, of intervals around their middles, summed up */
} Count;

static void count(Count *into, const Span *span, double error, double weight) {
  into->n += weight;
  into->n_inside += weight * holds(span, error);
  into->half_width += weight * (span->high - span->low) / 2;
}

/* Sizes of jobs, in GPUs. */
static const int sizes[] = {8, 64, 512, G_MAXINT};
enum { N_SIZES = G_N_ELEMENTS(sizes) };

typedef struct {
  Count alike[N_ERROR_CLASSES], size[N_SIZES], all;
} Counts;

static int size_of(const Row *row) {
  int i = 0;
  while (row->n_gpus > sizes[i])
    i++;
  return i;
}

static void count_row(Counts *counts, const Row *row, const Span *span, double error, double weight) {
  Count *const into[] = {&counts->alike[row->alike], &counts->size[size_of(row)], &counts->all};
  for (gsize i = 0; i < G_N_ELEMENTS(into); i++)
    count(into[i], span, error, weight);
}

/* Rows that are not taken, of pairs that have some that are; each weighs as much as that, or with `by_source` they
 * weigh 1 together. */
static void count_seen(const Fit *fit, gboolean by_source, Counts *counts) {
  const ErrorTable *table = fit->table;
  g_autofree gboolean *is_asked = g_new0(gboolean, table->pairs->len + 1),
                      *is_seen = g_new0(gboolean, table->pairs->len + 1);
  g_autofree Span *spans = g_new(Span, table->pairs->len + 1);
  guint n = 0;
  for (guint i = 0; i < table->rows->len; i++) {
    const Row *row = nth(table, i);
    if (fit->taken[i] || row->pair < 0)
      continue;
    if (!is_asked[row->pair])
      is_seen[row->pair] = fit_pair(fit, row->pair, &spans[row->pair]);
    is_asked[row->pair] = TRUE;
    n += is_seen[row->pair];
  }
  for (guint i = 0; i < table->rows->len; i++) {
    const Row *row = nth(table, i);
    if (!fit->taken[i] && row->pair >= 0 && is_seen[row->pair])
      count_row(counts, row, &spans[row->pair], row->errors[AS_IT_IS], by_source ? 1.0 / n : 1);
  }
}

static void count_halves(const ErrorTable *table, Counts *seen) {
  g_autofree gboolean *taken = g_new(gboolean, table->rows->len);
  for (guint64 half = 0; half < 2 * N_HALVINGS; half++) {
    for (guint i = 0; i < table->rows->len; i++)
      taken[i] = (splitmix(half / 2 << 32 | i) & 1) == half % 2;
    g_auto(Fit) fit;
    fit_init(&fit, table, taken);
    count_seen(&fit, FALSE, seen);
  }
}

/* The source's rows, as if it were the next one: a source weighs 1. */
static void count_class(const Fit *fit, const char *source, Way way, Counts *counts_of_way) {
  const ErrorTable *table = fit->table;
  guint n = 0;
  for (guint i = 0; i < table->rows->len; i++)
    for (int alike = 0; alike < N_ERROR_CLASSES; alike++)
      n += nth(table, i)->source == source && counts(nth(table, i), way, (ErrorClass)alike);
  for (guint i = 0; i < table->rows->len; i++) {
    const Row *row = nth(table, i);
    if (row->source == source && counts(row, way, row->alike))
      count_row(counts_of_way, row, &fit->spans[way][row->alike], row->errors[way], 1.0 / n);
  }
}

static void count_ratios(const ErrorTable *table, const GPtrArray *sources, Counts *ratios) {
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++) {
    g_autoptr(GArray) twos = two_plans(table, (ErrorClass)alike);
    for (guint s = 0; s < sources->len; s++) {
      guint n_others, n = 0;
      const double off = ratio_without(twos, sources->pdata[s], &n_others);
      const Span span = {-off, off};
      for (guint i = 0; i < twos->len; i++)
        n += g_array_index(twos, TwoPlans, i).source == sources->pdata[s];
      for (guint i = 0; i < twos->len && n_others > 0; i++) {
        const TwoPlans *two = &g_array_index(twos, TwoPlans, i);
        if (two->source != sources->pdata[s])
          continue;
        count(&ratios->alike[alike], &span, two->difference, 1.0 / n);
        count(&ratios->all, &span, two->difference, 1.0 / n);
      }
    }
  }
}

static GPtrArray *sources_of(const ErrorTable *table) {
  GPtrArray *sources = g_ptr_array_new();
  for (guint i = 0; i < table->rows->len; i++)
    if (!g_ptr_array_find(sources, nth(table, i)->source, NULL))
      g_ptr_array_add(sources, (gpointer)nth(table, i)->source);
  return sources;
}

static void count_left_out(const ErrorTable *table, Counts *seen, Counts of_ways[N_WAYS], Counts *ratios) {
  g_autoptr(GPtrArray) sources = sources_of(table);
  g_autofree gboolean *taken = g_new(gboolean, table->rows->len);
  for (guint s = 0; s < sources->len; s++) {
    for (guint i = 0; i < table->rows->len; i++)
      taken[i] = nth(table, i)->source != sources->pdata[s];
    g_auto(Fit) fit;
    fit_init(&fit, table, taken);
    count_seen(&fit, TRUE, seen);
    count_class(&fit, sources->pdata[s], AS_FIRST_LOOK, &of_ways[AS_FIRST_LOOK]);
    count_class(&fit, sources->pdata[s], AS_UNDESCRIBED, &of_ways[AS_UNDESCRIBED]);
  }
  count_ratios(table, sources, ratios);
}

static void append_share(GString *out, const Count *counted) {
  if (counted->n > 0)
    g_string_append_printf(out, " %.1f | %.0f |", 100 * counted->n_inside / counted->n,
                           100 * expm1(counted->half_width / counted->n));
  else
    g_string_append(out, " - | - |");
}

static void append_counts(GString *out, const char *what, const Counts *counts) {
  g_string_append_printf(out, "| %s |", what);
  for (int alike = 0; alike < N_ERROR_CLASSES; alike++)
    append_share(out, &counts->alike[alike]);
  append_share(out, &counts->all);
  g_string_append_c(out, '\n');
}

static void append_sizes(GString *out, const char *what, const Counts *counts) {
  g_string_append_printf(out, "| %s |", what);
  for (int i = 0; i < N_SIZES; i++)
    append_share(out, &counts->size[i]);
  g_string_append_c(out, '\n');
}

void error_table_coverage(const ErrorTable *table, GString *out) {
  Counts halves = {0}, seen = {0}, of_ways[N_WAYS] = {0}, ratios = {0};
  count_halves(table, &halves);
  count_left_out(table, &seen, of_ways, &ratios);
  g_string_append(out, "\n| in intervals made without them, % | dense, one domain | ± % | dense, several | ± % | "
                       "experts | ± % | all | ± % |\n"
                       "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  append_counts(out, "seen machine and framework: the other half of the rows", &halves);
  append_counts(out, "likewise: sources left out", &seen);
  append_counts(out, "first look: sources left out", &of_ways[AS_FIRST_LOOK]);
  append_counts(out, "undescribed: sources left out", &of_ways[AS_UNDESCRIBED]);
  append_counts(out, "ratios of two plans: sources left out", &ratios);
  g_string_append(out, "\n| by GPUs of the job | to 8 | ± % | to 64 | ± % | to 512 | ± % | above | ± % |\n"
                       "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
  append_sizes(out, "seen machine and framework: the other half of the rows", &halves);
  append_sizes(out, "first look: sources left out", &of_ways[AS_FIRST_LOOK]);
  append_sizes(out, "undescribed: sources left out", &of_ways[AS_UNDESCRIBED]);
}
