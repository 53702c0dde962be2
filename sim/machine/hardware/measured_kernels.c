/* Each list is read as rows sorted by key, then laid out the way the cost model searches it. */
#include "measured_kernels.h"

#include <math.h>
#include <string.h>

#include "yaml_node.h"

static const char *const layout_names[] = {"tn", "nn", "nt", NULL};
static const char *const no_yes[] = {"no", "yes", NULL};
static const char generic_name[] = "memory";
static const char *const origin_names[] = {"any", "stepreal", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(origin_names) == N_ORIGINS + 1);
G_STATIC_ASSERT(G_N_ELEMENTS(layout_names) == N_MEASURED_LAYOUTS + 1);

typedef struct {
  MeasuredKernels measured;
  YamlNode products, kernels, attention;
  const double *peak_flops;
} Draft;

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
    {"source", FIELD_TEXT, TRUE, offsetof(Draft, measured.source)},
    {"under_load", FIELD_NUMBER, FALSE, offsetof(Draft, measured.under_load), 0.05, 1},
    {"origin", FIELD_CHOICE, FALSE, offsetof(Draft, measured.origin), .names = origin_names},
    {"kernel", FIELD_QUANTITY, FALSE, offsetof(Draft, measured.kernel_s), 1e-9, 1, UNIT_SECONDS},
    {"host_launch", FIELD_QUANTITY, FALSE, offsetof(Draft, measured.host_launch_s), 1e-9, 1, UNIT_SECONDS},
    {"products", FIELD_NODE, FALSE, offsetof(Draft, products)},
    {"kernels", FIELD_NODE, FALSE, offsetof(Draft, kernels)},
    {"attention", FIELD_NODE, FALSE, offsetof(Draft, attention)},
};

#define IN_PRODUCT(member) offsetof(ProductRow, product.member)
#define IN_ATTENTION(member) offsetof(AttentionRow, attention.member)

static const YamlField product_fields[] = {
    {"number", FIELD_CHOICE, TRUE, IN_PRODUCT(number), .names = number_names},
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
    {"number", FIELD_CHOICE, TRUE, IN_ATTENTION(number), .names = number_names},
    {"backward", FIELD_CHOICE, TRUE, IN_ATTENTION(backward), .names = no_yes},
    {"batch", FIELD_INT64, TRUE, IN_ATTENTION(batch), 1, 1e9},
    {"seq_len", FIELD_INT64, TRUE, IN_ATTENTION(seq_len), 1, 1e9},
    {"keys", FIELD_INT64, FALSE, IN_ATTENTION(keys), 1, 1e9},
    {"head_dim", FIELD_INT64, TRUE, IN_ATTENTION(head_dim), 1, 1e6},
    {"v_head_dim", FIELD_INT64, FALSE, IN_ATTENTION(v_head_dim), 1, 1e6},
    {"time", FIELD_QUANTITY, TRUE, IN_ATTENTION(time_s), 1e-9, 1e4, UNIT_SECONDS},
};

int measured_group(int number, int layout, int accumulate) {
  return (number * N_MEASURED_LAYOUTS + layout) * 2 + accumulate;
}

static int product_group(const MeasuredProduct *product) {
  return measured_group(product->number, product->layout, product->accumulate);
}

int measured_product_compare(const MeasuredProduct *a, const MeasuredProduct *b) {
  const gint64 key[] = {product_group(a), a->batch * a->m, a->n, a->k, a->batch};
  const gint64 other[] = {product_group(b), b->batch * b->m, b->n, b->k, b->batch};
  return yaml_rows_compare(key, other, G_N_ELEMENTS(key));
}

double measured_attention_pair_flops(gboolean backward, gint64 head_dim, gint64 v_head_dim) {
  return backward ? 6.0 * head_dim + 4.0 * v_head_dim : 2.0 * (head_dim + v_head_dim);
}

double measured_attention_pairs(gint64 queries, gint64 keys) {
  if (keys < queries)
    return (double)queries * keys;
  return (double)queries * (keys + 1.0) / 2; /* a share of the queries has the same share of all pairs */
}

/* The row's keys; seq_len if it does not say. */
static gint64 keys_of(const MeasuredAttention *attention) {
  return attention->keys > 0 ? attention->keys : attention->seq_len;
}

static gint64 v_head_dim_of(const MeasuredAttention *attention) {
  return attention->v_head_dim > 0 ? attention->v_head_dim : attention->head_dim;
}

static int compare_attention(const MeasuredAttention *a, const MeasuredAttention *b) {
  const gint64 key[] = {a->number, a->backward, a->head_dim, v_head_dim_of(a), a->seq_len, keys_of(a), a->batch};
  const gint64 other[] = {b->number, b->backward, b->head_dim, v_head_dim_of(b), b->seq_len, keys_of(b), b->batch};
  return yaml_rows_compare(key, other, G_N_ELEMENTS(key));
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

/* The rows of a list that may be absent, each of a number format (an int at `offset`; 0: none) that has a peak. */
static GArray *read_rows(const Draft *draft, YamlNode list, const YamlRowType *type, gsize offset, GError **error) {
  g_autoptr(GArray) rows = yaml_rows_read(list, type, error);
  for (guint i = 0; rows != NULL && offset > 0 && i < rows->len; i++) {
    const char *row = rows->data + (gsize)i * type->size;
    const int number = *(const int *)(const void *)(row + offset);
    if (draft->peak_flops[number] > 0)
      continue;
    yaml_fail(*(const YamlNode *)(const void *)row, error, "found number %s, which peak lacks", number_names[number]);
    return NULL;
  }
  return g_steal_pointer(&rows);
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
  static const ProductRow blank = {.product.batch = 1};
  static const YamlRowType type = {sizeof blank, product_fields, G_N_ELEMENTS(product_fields),
                                   &blank,       NULL,           compare_product_rows};
  g_autoptr(GArray) rows = read_rows(draft, draft->products, &type, IN_PRODUCT(number), error);
  if (rows != NULL)
    lay_out_products(&draft->measured, rows);
  return rows != NULL;
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
  static const KernelRow blank = {.name = NULL};
  static const YamlRowType type = {sizeof blank, kernel_fields,    G_N_ELEMENTS(kernel_fields),
                                   &blank,       clear_kernel_row, compare_kernel_rows};
  g_autoptr(GArray) rows = read_rows(draft, draft->kernels, &type, 0, error);
  if (rows != NULL)
    lay_out_curves(&draft->measured, rows);
  return rows != NULL;
}

/* attention */

static void lay_out_attention(MeasuredKernels *measured, const GArray *rows) {
  measured->n_attention = (int)rows->len;
  measured->attention = g_new(MeasuredAttention, rows->len);
  for (guint i = 0; i < rows->len; i++) {
    MeasuredAttention *attention = &measured->attention[i];
    *attention = g_array_index(rows, AttentionRow, i).attention;
    attention->keys = keys_of(attention);
    attention->v_head_dim = v_head_dim_of(attention);
    attention->log2_batch = log2((double)attention->batch);
    attention->log2_seq_len = log2((double)attention->seq_len);
    attention->log2_keys = log2((double)attention->keys);
  }
}

static gboolean read_attention(Draft *draft, GError **error) {
  static const AttentionRow blank = {.attention.number = 0};
  static const YamlRowType type = {sizeof blank, attention_fields,      G_N_ELEMENTS(attention_fields), &blank,
                                   NULL,         compare_attention_rows};
  g_autoptr(GArray) rows = read_rows(draft, draft->attention, &type, IN_ATTENTION(number), error);
  if (rows != NULL)
    lay_out_attention(&draft->measured, rows);
  return rows != NULL;
}

static gboolean has_table(YamlNode map, const Draft *draft, GError **error) {
  return yaml_is_present(draft->products) || yaml_is_present(draft->kernels) || yaml_is_present(draft->attention) ||
         yaml_fail(map, error, "found no table, expected at least one of products, kernels, attention");
}

MeasuredKernels *measured_kernels_read(YamlNode map, const double peak_flops[N_NUMBERS], GError **error) {
  Draft draft = {.measured = {.generic_curve = -1, .under_load = 1}, .peak_flops = peak_flops};
  const gboolean ok = yaml_map_read(map, top_fields, G_N_ELEMENTS(top_fields), &draft, error) &&
                      has_table(map, &draft, error) && read_products(&draft, error) && read_kernels(&draft, error) &&
                      read_attention(&draft, error);
  g_autoptr(MeasuredKernels) measured = g_memdup2(&draft.measured, sizeof draft.measured);
  index_groups(measured);
  return ok ? g_steal_pointer(&measured) : NULL;
}

gboolean measured_kernels_are_of(const MeasuredKernels *measured, gboolean has_framework) {
  return measured->origin == ORIGIN_ANY || !has_framework;
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
