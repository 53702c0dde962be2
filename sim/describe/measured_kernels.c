/* Each list is read in three steps: rows as they stand in the file, the rows sorted by their keys (so that a key found
 * twice stands beside itself), and the rows laid out as the cost model searches them. A row begins with the node it was
 * read from, for the line of the error. */
#include "measured_kernels.h"

#include <math.h>
#include <string.h>

enum { MAX_ROWS = 1 << 16 }; /* of a list; a file's limit of nodes is reached before */

static const char *const layout_names[] = {"tn", "nn", "nt", NULL};
static const char *const no_yes[] = {"no", "yes", NULL};
static const char generic_name[] = "memory";
G_STATIC_ASSERT(G_N_ELEMENTS(layout_names) == N_MEASURED_LAYOUTS + 1);

typedef struct {
  MeasuredKernels *measured;
  YamlNode products, kernels, attention;
  const double *peak_flops;
  const char *number_names[N_NUMBERS + 1];
} Draft;

typedef struct {
  char *source; /* owned until handed over */
  double under_load;
  YamlNode products, kernels, attention;
} Top;

typedef struct {
  YamlNode node;
  MeasuredProduct product;
} ProductRow;

typedef struct {
  YamlNode node;
  char *name; /* owned */
  CurvePoint point;
} KernelRow;

typedef struct {
  YamlNode node;
  MeasuredAttention attention;
} AttentionRow;

static const YamlField top_fields[] = {
    {"source", FIELD_TEXT, TRUE, offsetof(Top, source)},
    {"under_load", FIELD_NUMBER, FALSE, offsetof(Top, under_load), 0.05, 1},
    {"products", FIELD_NODE, FALSE, offsetof(Top, products)},
    {"kernels", FIELD_NODE, FALSE, offsetof(Top, kernels)},
    {"attention", FIELD_NODE, FALSE, offsetof(Top, attention)},
};

#define IN_PRODUCT(member) offsetof(ProductRow, product.member)
#define IN_ATTENTION(member) offsetof(AttentionRow, attention.member)

/* The names of number formats are filled in by number_field(). */
static const YamlField product_fields[] = {
    {"number", FIELD_CHOICE, TRUE, IN_PRODUCT(number)},
    {"layout", FIELD_CHOICE, TRUE, IN_PRODUCT(layout), .names = layout_names},
    {"accumulate", FIELD_CHOICE, FALSE, IN_PRODUCT(accumulate), .names = no_yes},
    {"batch", FIELD_INT64, FALSE, IN_PRODUCT(batch), 1, 1e9},
    {"m", FIELD_INT64, TRUE, IN_PRODUCT(m), 1, 1e9},
    {"n", FIELD_INT64, TRUE, IN_PRODUCT(n), 1, 1e9},
    {"k", FIELD_INT64, TRUE, IN_PRODUCT(k), 1, 1e9},
    {"time", FIELD_QUANTITY, TRUE, IN_PRODUCT(time_s), 1e-9, 1e4, UNIT_SECONDS},
};

static const YamlField kernel_fields[] = {
    {"name", FIELD_TEXT, TRUE, offsetof(KernelRow, name)},
    {"bytes", FIELD_QUANTITY, TRUE, offsetof(KernelRow, point.size_bytes), 1, 1e15, UNIT_BYTES},
    {"time", FIELD_QUANTITY, TRUE, offsetof(KernelRow, point.time_s), 1e-9, 1e4, UNIT_SECONDS},
};

static const YamlField attention_fields[] = {
    {"number", FIELD_CHOICE, TRUE, IN_ATTENTION(number)},
    {"backward", FIELD_CHOICE, TRUE, IN_ATTENTION(backward), .names = no_yes},
    {"batch", FIELD_INT64, TRUE, IN_ATTENTION(batch), 1, 1e9},
    {"seq_len", FIELD_INT64, TRUE, IN_ATTENTION(seq_len), 1, 1e9},
    {"head_dim", FIELD_INT64, TRUE, IN_ATTENTION(head_dim), 1, 1e6},
    {"time", FIELD_QUANTITY, TRUE, IN_ATTENTION(time_s), 1e-9, 1e4, UNIT_SECONDS},
};

int measured_group(int number, int layout, int accumulate) {
  return (number * N_MEASURED_LAYOUTS + layout) * 2 + accumulate;
}

static int product_group(const MeasuredProduct *product) {
  return measured_group(product->number, product->layout, product->accumulate);
}

static int compare_keys(const gint64 *a, const gint64 *b, int n) {
  int i = 0;
  while (i < n - 1 && a[i] == b[i])
    i++;
  return (a[i] > b[i]) - (a[i] < b[i]);
}

int measured_product_compare(const MeasuredProduct *a, const MeasuredProduct *b) {
  const gint64 key[] = {product_group(a), a->batch * a->m, a->n, a->k, a->batch};
  const gint64 other[] = {product_group(b), b->batch * b->m, b->n, b->k, b->batch};
  return compare_keys(key, other, G_N_ELEMENTS(key));
}

static int compare_attention(const MeasuredAttention *a, const MeasuredAttention *b) {
  const gint64 key[] = {a->number, a->backward, a->head_dim, a->seq_len, a->batch};
  const gint64 other[] = {b->number, b->backward, b->head_dim, b->seq_len, b->batch};
  return compare_keys(key, other, G_N_ELEMENTS(key));
}

static int compare_product_rows(gconstpointer a, gconstpointer b) {
  return measured_product_compare(&((const ProductRow *)a)->product, &((const ProductRow *)b)->product);
}

static int compare_kernel_rows(gconstpointer a, gconstpointer b) {
  const KernelRow *row = a, *other = b;
  int by_name = strcmp(row->name, other->name);
  if (by_name != 0)
    return by_name;
  return (row->point.size_bytes > other->point.size_bytes) - (row->point.size_bytes < other->point.size_bytes);
}

static int compare_attention_rows(gconstpointer a, gconstpointer b) {
  return compare_attention(&((const AttentionRow *)a)->attention, &((const AttentionRow *)b)->attention);
}

/* Sort the rows; a key found twice fails at the later of the two lines. The sort is stable. */
static gboolean sort_rows(GArray *rows, GCompareFunc compare, GError **error) {
  g_array_sort(rows, compare);
  guint size = g_array_get_element_size(rows);
  for (guint i = 1; i < rows->len; i++) {
    const char *row = rows->data + (gsize)i * size, *before = row - size;
    if (compare(before, row) == 0)
      return yaml_fail(*(const YamlNode *)row, error, "the same was measured twice, first in line %d",
                       yaml_line(*(const YamlNode *)before));
  }
  return TRUE;
}

/* Rows of `list`, each filled by the fields after being set to `blank`; NULL with the error set. Texts in rows read so
 * far are freed by the array's clear function. */
static GArray *read_rows(YamlNode list, const YamlField *fields, int n_fields, gconstpointer blank, guint row_size,
                         GDestroyNotify clear, GError **error) {
  int n_rows = yaml_list_length(list, MAX_ROWS, error);
  if (n_rows < 0)
    return NULL;
  g_autoptr(GArray) rows = g_array_sized_new(FALSE, TRUE, row_size, (guint)n_rows);
  g_array_set_clear_func(rows, clear);
  for (YamlNode item = yaml_list_item(list, 0); yaml_is_present(item); item = yaml_list_next(item)) {
    g_array_append_vals(rows, blank, 1);
    char *row = rows->data + (gsize)(rows->len - 1) * row_size;
    *(YamlNode *)row = item;
    if (!yaml_map_read(item, fields, n_fields, row, error))
      return NULL;
  }
  return g_steal_pointer(&rows);
}

/* `fields` with the names of number formats for its first field. */
static void number_field(const Draft *draft, YamlField *fields, const YamlField *pattern, gsize n_bytes) {
  memcpy(fields, pattern, n_bytes);
  fields[0].names = draft->number_names;
}

static gboolean check_number(const Draft *draft, YamlNode node, int number, GError **error) {
  return draft->peak_flops[number] > 0 ||
         yaml_fail(node, error, "found number %s, which peak lacks", number_name((Number)number));
}

/* products */

static void index_groups(MeasuredKernels *measured) {
  int product = 0;
  for (int group = 0; group < (int)G_N_ELEMENTS(measured->group_first); group++) {
    while (product < measured->n_products && product_group(&measured->products[product]) < group)
      product++;
    measured->group_first[group] = product;
  }
}

static void lay_out_products(MeasuredKernels *measured, const GArray *rows) {
  measured->n_products = (int)rows->len;
  measured->products = g_new(MeasuredProduct, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    MeasuredProduct *product = &measured->products[i];
    *product = g_array_index(rows, ProductRow, i).product;
    product->log2_rows = log2((double)(product->batch * product->m));
    product->log2_n = log2((double)product->n);
    product->log2_k = log2((double)product->k);
  }
}

static gboolean read_products(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->products))
    return TRUE;
  static const ProductRow blank = {.product.batch = 1};
  YamlField fields[G_N_ELEMENTS(product_fields)];
  number_field(draft, fields, product_fields, sizeof product_fields);
  g_autoptr(GArray) rows = read_rows(draft->products, fields, G_N_ELEMENTS(fields), &blank, sizeof blank, NULL, error);
  if (rows == NULL)
    return FALSE;
  for (guint i = 0; i < rows->len; i++) {
    const ProductRow *row = &g_array_index(rows, ProductRow, i);
    if (!check_number(draft, row->node, row->product.number, error))
      return FALSE;
  }
  if (!sort_rows(rows, compare_product_rows, error))
    return FALSE;
  lay_out_products(draft->measured, rows);
  return TRUE;
}

/* kernels */

static void clear_kernel_row(gpointer row) {
  g_clear_pointer(&((KernelRow *)row)->name, g_free);
}

static void lay_out_curves(MeasuredKernels *measured, const GArray *rows) {
  measured->points = g_new(CurvePoint, rows->len);
  measured->curves = g_new0(MeasuredCurve, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    const KernelRow *row = &g_array_index(rows, KernelRow, i);
    MeasuredCurve *curve = measured->n_curves > 0 ? &measured->curves[measured->n_curves - 1] : NULL;
    if (curve == NULL || strcmp(curve->name, row->name) != 0) {
      curve = &measured->curves[measured->n_curves++];
      *curve = (MeasuredCurve){g_strdup(row->name), {.first_point = (int)i}};
    }
    if (strcmp(row->name, generic_name) == 0)
      measured->generic_curve = measured->n_curves - 1;
    measured->points[i] = row->point;
    curve->span.n_points++;
  }
}

static gboolean read_kernels(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->kernels))
    return TRUE;
  static const KernelRow blank = {.name = NULL};
  g_autoptr(GArray) rows = read_rows(draft->kernels, kernel_fields, G_N_ELEMENTS(kernel_fields), &blank, sizeof blank,
                                     clear_kernel_row, error);
  if (rows == NULL || !sort_rows(rows, compare_kernel_rows, error))
    return FALSE;
  lay_out_curves(draft->measured, rows);
  return TRUE;
}

/* attention */

static void lay_out_attention(MeasuredKernels *measured, const GArray *rows) {
  measured->n_attention = (int)rows->len;
  measured->attention = g_new(MeasuredAttention, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    MeasuredAttention *attention = &measured->attention[i];
    *attention = g_array_index(rows, AttentionRow, i).attention;
    attention->log2_batch = log2((double)attention->batch);
    attention->log2_seq_len = log2((double)attention->seq_len);
  }
}

static gboolean read_attention(Draft *draft, GError **error) {
  if (!yaml_is_present(draft->attention))
    return TRUE;
  static const AttentionRow blank = {.attention.number = 0};
  YamlField fields[G_N_ELEMENTS(attention_fields)];
  number_field(draft, fields, attention_fields, sizeof attention_fields);
  g_autoptr(GArray) rows = read_rows(draft->attention, fields, G_N_ELEMENTS(fields), &blank, sizeof blank, NULL, error);
  if (rows == NULL)
    return FALSE;
  for (guint i = 0; i < rows->len; i++) {
    const AttentionRow *row = &g_array_index(rows, AttentionRow, i);
    if (!check_number(draft, row->node, row->attention.number, error))
      return FALSE;
  }
  if (!sort_rows(rows, compare_attention_rows, error))
    return FALSE;
  lay_out_attention(draft->measured, rows);
  return TRUE;
}

static gboolean read_top(YamlNode map, Draft *draft, GError **error) {
  Top top = {.under_load = 1};
  gboolean ok = yaml_map_read(map, top_fields, G_N_ELEMENTS(top_fields), &top, error);
  draft->measured->source = top.source;
  draft->measured->under_load = top.under_load;
  draft->products = top.products;
  draft->kernels = top.kernels;
  draft->attention = top.attention;
  if (ok && !yaml_is_present(top.products) && !yaml_is_present(top.kernels) && !yaml_is_present(top.attention))
    return yaml_fail(map, error, "found no table, expected at least one of products, kernels, attention");
  return ok;
}

MeasuredKernels *measured_kernels_read(YamlNode map, const double peak_flops[N_NUMBERS], GError **error) {
  g_autoptr(MeasuredKernels) measured = g_new0(MeasuredKernels, 1);
  measured->generic_curve = -1;
  Draft draft = {.measured = measured, .peak_flops = peak_flops};
  for (int i = 0; i < N_NUMBERS; i++)
    draft.number_names[i] = number_name((Number)i);
  if (!read_top(map, &draft, error) || !read_products(&draft, error) || !read_kernels(&draft, error) ||
      !read_attention(&draft, error))
    return NULL;
  index_groups(measured);
  return g_steal_pointer(&measured);
}

void measured_kernels_free(MeasuredKernels *measured) {
  if (measured == NULL)
    return;
  for (int i = 0; i < measured->n_curves; i++)
    g_free(measured->curves[i].name);
  g_free(measured->source);
  g_free(measured->products);
  g_free(measured->curves);
  g_free(measured->points);
  g_free(measured->attention);
  g_free(measured);
}
