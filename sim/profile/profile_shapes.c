/* A call may issue several kernels (a product split over k and the sum of its parts): its time is that of all of them
 * that are of its kind. Shapes come from the sizes that PyTorch records with record_shapes=True. */
#include "profile_shapes.h"

#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

#include "kernel_cost.h"
#include "precision.h"
#include "sort_doubles.h"
#include "text_report.h"
#include "units.h"

/* --- what a call was --- */

enum { MOST_SIZES = 8 };

typedef struct {
  gint64 size[MOST_SIZES];
  int n; /* dimensions; 0: no tensor */
} Sizes;

/* Of input `i`, of a list of lists of integers. */
static Sizes sizes_of(JsonNode *lists, guint i) {
  Sizes sizes = {.n = 0};
  JsonArray *all = lists != NULL && JSON_NODE_HOLDS_ARRAY(lists) ? json_node_get_array(lists) : NULL;
  JsonNode *own = all != NULL && i < json_array_get_length(all) ? json_array_get_element(all, i) : NULL;
  if (own == NULL || !JSON_NODE_HOLDS_ARRAY(own))
    return sizes;
  JsonArray *list = json_node_get_array(own);
  for (guint d = 0; d < json_array_get_length(list) && d < MOST_SIZES; d++) {
    JsonNode *node = json_array_get_element(list, d);
    if (!JSON_NODE_HOLDS_VALUE(node) || json_node_get_value_type(node) != G_TYPE_INT64)
      return (Sizes){.n = 0};
    sizes.size[sizes.n++] = json_node_get_int(node);
  }
  return sizes;
}

static const char *text_at(JsonNode *list, guint i) {
  JsonArray *all = list != NULL && JSON_NODE_HOLDS_ARRAY(list) ? json_node_get_array(list) : NULL;
  JsonNode *own = all != NULL && i < json_array_get_length(all) ? json_array_get_element(all, i) : NULL;
  return own != NULL && JSON_NODE_HOLDS_VALUE(own) && json_node_get_value_type(own) == G_TYPE_STRING
             ? json_node_get_string(own)
             : NULL;
}

/* TF32 is a float whose kernel says so. */
static gboolean number_of(const char *type, const char *kernel, guint8 *number) {
  static const struct {
    const char *type;
    Number number;
  } known[] = {{"c10::BFloat16", NUMBER_BF16},
               {"c10::Half", NUMBER_FP16},
               {"c10::Float8_e4m3fn", NUMBER_FP8},
               {"c10::Float8_e5m2", NUMBER_FP8},
               {"float", NUMBER_FP32}};
  for (gsize i = 0; type != NULL && i < G_N_ELEMENTS(known); i++)
    if (g_str_equal(known[i].type, type)) {
      const gboolean is_tf32 =
          known[i].number == NUMBER_FP32 && (strstr(kernel, "s1688") != NULL || strstr(kernel, "tf32") != NULL);
      *number = (guint8)(is_tf32 ? NUMBER_TF32 : known[i].number);
      return TRUE;
    }
  return FALSE;
}

typedef struct {
  JsonNode *dims, *types, *strides, *values; /* NULL: not recorded; owned */
} Inputs;

static void inputs_clear(Inputs *inputs) {
  g_clear_pointer(&inputs->dims, json_node_unref);
  g_clear_pointer(&inputs->types, json_node_unref);
  g_clear_pointer(&inputs->strides, json_node_unref);
  g_clear_pointer(&inputs->values, json_node_unref);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Inputs, inputs_clear)

static JsonNode *parse(const char *text) {
  return text != NULL ? json_from_string(text, NULL) : NULL;
}

/* Rows of a matrix that lie behind each other, as BLAS's "n" in its own order. */
static gboolean is_transposed(const Sizes *strides) {
  return strides->n >= 2 && strides->size[strides->n - 1] != 1 && strides->size[strides->n - 2] == 1;
}

/* As a GPU file's tables take them. */
static gboolean is_sized(const WorkItem *item) {
  static const gint64 most = 1000000000;
  const gint64 sizes[] = {item->batch, item->m, item->n, item->k};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    if (sizes[i] < 1 || sizes[i] > most)
      return FALSE;
  return TRUE;
}

static void set_product(WorkItem *item, gint64 batch, gint64 m, gint64 n, gint64 k) {
  const double bytes = number_bytes((Number)item->number);
  item->name = "product";
  item->kind = ITEM_MATMUL;
  item->batch = batch;
  item->m = m;
  item->n = n;
  item->k = k;
  item->flops = 2.0 * (double)batch * (double)m * (double)n * (double)k;
  item->bytes = (double)batch * ((double)m * (double)k + (double)k * (double)n) * bytes +
                (double)batch * (double)m * (double)n * MAX(bytes, 2);
}

/* aten::mm(A, B), aten::addmm(C, A, B) and the like. FALSE: not understood. */
static gboolean read_product(const ProfileOperator *op, const Inputs *inputs, const char *kernel, WorkItem *item) {
  const gboolean adds = g_str_equal(op->name, "aten::addmm") || g_str_equal(op->name, "aten::baddbmm");
  if (!adds && !g_str_equal(op->name, "aten::mm") && !g_str_equal(op->name, "aten::bmm") &&
      !g_str_equal(op->name, "aten::_scaled_mm"))
    return FALSE;
  const guint first = adds ? 1 : 0;
  const Sizes a = sizes_of(inputs->dims, first), b = sizes_of(inputs->dims, first + 1),
              a_strides = sizes_of(inputs->strides, first), b_strides = sizes_of(inputs->strides, first + 1);
  const int d = a.n - 2;
  if (a.n < 2 || a.n > 3 || b.n != a.n || a.size[d + 1] != b.size[d] || (d == 1 && a.size[0] != b.size[0]) ||
      !number_of(text_at(inputs->types, first), kernel, &item->number))
    return FALSE;
  item->layout = is_transposed(&a_strides) ? LAYOUT_NT : is_transposed(&b_strides) ? LAYOUT_TN : LAYOUT_NN;
  set_product(item, d == 1 ? a.size[0] : 1, a.size[d], b.size[d + 1], a.size[d + 1]);
  return is_sized(item);
}

/* (sequences, heads, length, width) of queries, and heads of the keys before they are shared: q, k, v lie as (sequence,
 * head, token, column) in scaled_dot_product's operators, as (sequence, token, head, column) in flash's own. */
static gboolean read_attention(const ProfileOperator *op, const Inputs *inputs, const char *kernel, WorkItem *item,
                               gboolean *is_causal) {
  static const struct {
    const char *name;
    guint first;
    int token, causal; /* dimension; which input, if it is among the plain values */
    gboolean backward;
  } known[] = {{"aten::_flash_attention_forward", 0, 1, 8, FALSE},
               {"aten::_flash_attention_backward", 1, 1, 10, TRUE},
               {"aten::_scaled_dot_product_flash_attention", 0, 2, 4, FALSE},
               {"aten::_scaled_dot_product_flash_attention_backward", 1, 2, 11, TRUE},
               {"aten::_scaled_dot_product_cudnn_attention", 0, 2, 6, FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(known); i++) {
    if (!g_str_equal(op->name, known[i].name))
      continue;
    const Sizes q = sizes_of(inputs->dims, known[i].first), k = sizes_of(inputs->dims, known[i].first + 1),
                v = sizes_of(inputs->dims, known[i].first + 2);
    const char *causal = text_at(inputs->values, (guint)known[i].causal);
    const int token = known[i].token;
    if (q.n != 4 || k.n != 4 || v.n != 4 || causal == NULL ||
        !number_of(text_at(inputs->types, known[i].first), kernel, &item->number))
      return FALSE;
    const gint64 queries = q.size[token], keys = k.size[token];
    *item = (WorkItem){.number = item->number, .after = -1, .batch = 1, .m = queries, .n = keys, .k = q.size[3]};
    const WorkItem heads = {.batch = q.size[0], .m = q.size[3 - token], .n = v.size[3], .k = 1};
    if (!is_sized(item) || !is_sized(&heads) || q.size[0] > G_MAXINT32 / q.size[3 - token])
      return FALSE;
    *is_causal = g_str_equal(causal, "True") && queries == keys;
    item->name = "attention";
    item->kind = ITEM_ATTENTION;
    item->backward = known[i].backward;
    item->batch = q.size[0] * q.size[3 - token];
    item->m = queries;
    item->n = keys;
    item->k = q.size[3];
    item->v_dim = (gint32)(v.size[3] != q.size[3] ? v.size[3] : 0);
    const double pairs = *is_causal ? measured_attention_pairs(queries, keys) : (double)queries * (double)keys;
    item->flops = (double)item->batch * pairs * measured_attention_pair_flops(item->backward, item->k, v.size[3]);
    return TRUE;
  }
  return FALSE;
}

/* --- all calls --- */

typedef struct {
  GArray *times_s; /* of double; owned */
  const char *kernel;
} Calls;

static void calls_free(gpointer data) {
  Calls *calls = data;
  g_array_unref(calls->times_s);
  g_free(calls);
}

/* Operator's index + 1 → Calls. */
static GHashTable *calls_of(const Profile *profile, gint64 *n_unknown) {
  GHashTable *all = g_hash_table_new_full(NULL, NULL, NULL, calls_free);
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    g_autoptr(GHashTable) last = g_hash_table_new(NULL, NULL); /* call + 1 → place of its time + 1 */
    for (guint i = 0; i < rank->activities->len; i++) {
      const ProfileActivity *activity = profile_activity(rank, i);
      if (activity->kind != PROFILE_PRODUCT && activity->kind != PROFILE_ATTENTION)
        continue;
      if (activity->operator_index < 0) {
        ++*n_unknown;
        continue;
      }
      const gpointer key = GINT_TO_POINTER(activity->operator_index + 1), call = GINT_TO_POINTER(activity->call + 1);
      Calls *calls = g_hash_table_lookup(all, key);
      if (calls == NULL) {
        calls = g_new(Calls, 1);
        *calls = (Calls){g_array_new(FALSE, FALSE, sizeof(double)), activity->name};
        g_hash_table_insert(all, key, calls);
      }
      const guint place = GPOINTER_TO_UINT(g_hash_table_lookup(last, call));
      const double time_s = (double)(activity->end_ns - activity->start_ns) * 1e-9;
      if (place > 0) {
        g_array_index(calls->times_s, double, place - 1) += time_s;
        continue;
      }
      g_array_append_val(calls->times_s, time_s);
      g_hash_table_insert(last, call, GUINT_TO_POINTER(calls->times_s->len));
    }
  }
  return all;
}

static gint compare_shapes(gconstpointer a, gconstpointer b) {
  const ProfileShape *x = a, *y = b;
  const double p = x->median_s * (double)x->n, q = y->median_s * (double)y->n;
  return (p < q) - (p > q);
}

/* As it runs by itself. */
static Gpu gpu_alone(const Gpu *gpu) {
  Gpu alone = *gpu;
  alone.under_load = 1;
  for (int number = 0; number < N_NUMBERS; number++)
    alone.under_load_of[number] = 0;
  return alone;
}

ProfileShapes *profile_shapes_new(const Profile *profile, const Gpu *gpu) {
  ProfileShapes *shapes = g_new0(ProfileShapes, 1);
  shapes->shapes = g_array_new(FALSE, FALSE, sizeof(ProfileShape));
  g_autoptr(GHashTable) all = calls_of(profile, &shapes->n_unknown);
  const Gpu alone = gpu_alone(gpu);
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init(&iter, all);
  while (g_hash_table_iter_next(&iter, &key, &value)) {
    const Calls *calls = value;
    const ProfileOperator *op = &g_array_index(profile->operators, ProfileOperator, GPOINTER_TO_INT(key) - 1);
    g_auto(Inputs) inputs = {parse(op->dims), parse(op->types), parse(op->strides), parse(op->values)};
    ProfileShape shape = {.n = calls->times_s->len};
    shape.item.after = -1;
    if ((!read_product(op, &inputs, calls->kernel, &shape.item) &&
         !read_attention(op, &inputs, calls->kernel, &shape.item, &shape.is_causal)) ||
        gpu->peak_flops[shape.item.number] <= 0) {
      shapes->n_unknown += shape.n;
      continue;
    }
    g_array_sort(calls->times_s, sort_doubles_compare);
    shape.median_s = g_array_index(calls->times_s, double, calls->times_s->len / 2);
    shape.alone_s = kernel_cost_model_s(&alone, &shape.item);
    shape.in_step_s = kernel_cost_model_s(gpu, &shape.item);
    g_array_append_val(shapes->shapes, shape);
  }
  g_array_sort(shapes->shapes, compare_shapes);
  return shapes;
}

void profile_shapes_free(ProfileShapes *shapes) {
  if (shapes == NULL)
    return;
  g_array_unref(shapes->shapes);
  g_free(shapes);
}

/* --- what is printed --- */

static char *shape_text(const WorkItem *item) {
  const char *number = number_name((Number)item->number);
  if (item->kind == ITEM_ATTENTION)
    return g_strdup_printf("%s %s, %" INT64 " heads, %" INT64 " by %" INT64 " tokens, %" INT64 " wide", number,
                           item->backward ? "backward" : "forward", item->batch, item->m, item->n, item->k);
  return item->batch > 1 ? g_strdup_printf("%s %" INT64 " of %" INT64 " x %" INT64 " x %" INT64, number, item->batch,
                                           item->m, item->n, item->k)
                         : g_strdup_printf("%s %" INT64 " x %" INT64 " x %" INT64, number, item->m, item->n, item->k);
}

/* Median over the shapes that take some time of |model / measured − 1|, by calls' time alone; NaN: there are none. */
static double median_error(const ProfileShapes *shapes, double least_flops) {
  g_autoptr(GArray) errors = g_array_new(FALSE, FALSE, sizeof(double));
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    const double error = fabs(shape->alone_s / shape->median_s - 1);
    if (shape->item.flops >= least_flops)
      g_array_append_val(errors, error);
  }
  g_array_sort(errors, sort_doubles_compare);
  return errors->len > 0 ? g_array_index(errors, double, errors->len / 2) : NAN;
}

void profile_shapes_text(GString *out, const ProfileShapes *shapes, const Gpu *gpu, gboolean colour) {
  static const double large_flops = 10e9;
  g_autofree char *heading = g_strdup_printf("Products and attention beside the model of %s", gpu->name);
  text_report_heading(out, heading, colour);
  g_string_append_printf(out, "  %7s %11s %9s %11s %8s %8s\n", "calls", "median", "TFLOP/s", "model", "alone",
                         "in step");
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    g_autofree char *text = shape_text(&shape->item), *median = units_format(shape->median_s, UNIT_SECONDS),
                    *alone = units_format(shape->alone_s, UNIT_SECONDS);
    g_string_append_printf(out, "  %7" INT64 " %11s %9.1f %11s %+7.1f%% %+7.1f%%  %s\n", shape->n, median,
                           shape->item.flops / shape->median_s * 1e-12, alone,
                           100 * (shape->alone_s / shape->median_s - 1), 100 * (shape->in_step_s / shape->median_s - 1),
                           text);
  }
  if (shapes->shapes->len == 0)
    g_string_append(out, "  none has its sizes in the trace (record with record_shapes=True)\n");
  else if (isfinite(median_error(shapes, large_flops)))
    g_string_append_printf(out, "  of those of 10 GFLOP and more, run alone, the median is %.1f %% off\n",
                           100 * median_error(shapes, large_flops));
  if (shapes->n_unknown > 0)
    g_string_append_printf(out,
                           "  %" INT64 " kernels more have no sizes, or are of operators that are not understood\n",
                           shapes->n_unknown);
}

static void append_seconds(GString *out, double seconds) {
  units_append_exact(out, round(seconds * 1e12) / 1e6); /* picoseconds are beyond what was measured */
  g_string_append(out, " us");
}

static void append_product(GString *out, const ProfileShape *shape) {
  static const char *const layouts[] = {[LAYOUT_TN] = "tn", [LAYOUT_NN] = "nn", [LAYOUT_NT] = "nt"};
  const WorkItem *item = &shape->item;
  g_string_append_printf(
      out, "    - {number: %s, layout: %s, batch: %" INT64 ", m: %" INT64 ", n: %" INT64 ", k: %" INT64 ", time: ",
      number_name((Number)item->number), layouts[item->layout], item->batch, item->m, item->n, item->k);
  append_seconds(out, shape->median_s);
  g_string_append(out, "}\n");
}

static void append_attention(GString *out, const ProfileShape *shape) {
  const WorkItem *item = &shape->item;
  g_string_append_printf(out, "    - {number: %s, backward: %s, batch: %" INT64 ", seq_len: %" INT64,
                         number_name((Number)item->number), item->backward ? "yes" : "no", item->batch, item->m);
  if (item->n != item->m)
    g_string_append_printf(out, ", keys: %" INT64, item->n);
  g_string_append_printf(out, ", head_dim: %" INT64 ", time: ", item->k);
  append_seconds(out, shape->median_s);
  g_string_append(out, "}\n");
}

/* Each key once: of calls that are alike but for their operator the one with the most time counts. The file knows
 * attention of as many keys as queries as causal only. */
static void append_list(GString *out, const ProfileShapes *shapes, int kind, const char *title,
                        void (*append)(GString *out, const ProfileShape *shape)) {
  g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < shapes->shapes->len; i++) {
    const ProfileShape *shape = &g_array_index(shapes->shapes, ProfileShape, i);
    const WorkItem *item = &shape->item;
    if (item->kind != kind || shape->median_s <= 0 || (kind == ITEM_ATTENTION && !shape->is_causal))
      continue;
    if (!g_hash_table_add(seen,
                          g_strdup_printf("%d %d %" INT64 " %" INT64 " %" INT64 " %" INT64, item->number,
                                          item->layout + 4 * item->backward, item->batch, item->m, item->n, item->k)))
      continue;
    if (g_hash_table_size(seen) == 1)
      g_string_append_printf(out, "  %s:\n", title);
    append(out, shape);
  }
}

char *profile_shapes_yaml(const ProfileShapes *shapes, const Profile *profile, const Gpu *gpu, const char *base) {
  GString *out = g_string_new("# Written by stepsim trace. Products and attention as the trace has them.\n");
  g_string_append_printf(
      out, "name: %s-measured\nbase: %s\nmeasured:\n  source: >-\n    %s, %s: medians over the calls of each shape.\n",
      gpu->name, base, profile->source, profile_rank(profile, 0)->file);
  append_list(out, shapes, ITEM_MATMUL, "products", append_product);
  append_list(out, shapes, ITEM_ATTENTION, "attention", append_attention);
  return g_string_free(out, FALSE);
}
