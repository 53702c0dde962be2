/* A call may issue several kernels (a product split over k and the sum of its parts): its time is that of all of them
 * that are of its kind. Shapes come from the sizes that PyTorch records with record_shapes=True. */
#include "profile_shapes.h"

#include <math.h>
#include <string.h>

#include "kernel_cost.h"
#include "operator_inputs.h"
#include "passes.h"
#include "precision.h"
#include "sort_doubles.h"

/* --- what a call was --- */

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

/* Rows of a matrix that lie behind each other, as BLAS's "n" in its own order. */
static gboolean is_transposed(const Sizes *strides) {
  return strides->n >= 2 && strides->size[strides->n - 1] != 1 && strides->size[strides->n - 2] == 1;
}

/* To which rows that lie so are aligned, up to 16 bytes; 0: not told. */
static guint8 aligned_to(const Sizes *strides, double bytes) {
  enum { WHOLE = 16 };
  gint64 row = 0;
  for (int d = MAX(strides->n - 2, 0); d < strides->n; d++)
    row = MAX(row, strides->size[d]);
  const double aligned = (double)(row & -row) * bytes;
  return (guint8)(row > 0 ? CLAMP(aligned, 1, WHOLE) : 0);
}

/* "…s1688gemm_128x256_32x3_nt_align1": how operands lie, in BLAS's letters, and to how many elements they are aligned;
 * older recordings have no strides. */
static void read_name(const char *kernel, WorkItem *item) {
  static const struct {
    const char *text;
    MatmulLayout layout;
  } layouts[] = {{"_tn_", LAYOUT_TN}, {"_nn_", LAYOUT_NN}, {"_nt_", LAYOUT_NT}};
  static const char align[] = "_align";
  for (gsize i = 0; i < G_N_ELEMENTS(layouts); i++)
    if (strstr(kernel, layouts[i].text) != NULL)
      item->layout = layouts[i].layout;
  const char *at = strstr(kernel, align);
  if (at != NULL && g_ascii_isdigit(at[strlen(align)]))
    item->aligned = (guint8)MIN(16, (at[strlen(align)] - '0') * number_bytes((Number)item->number));
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
static gboolean read_product(const ProfileOperator *op, const OperatorInputs *inputs, const char *kernel,
                             WorkItem *item) {
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
  if (a_strides.n > 0 && b_strides.n > 0)
    item->aligned = MIN(aligned_to(&a_strides, number_bytes((Number)item->number)),
                        aligned_to(&b_strides, number_bytes((Number)item->number)));
  else
    read_name(kernel, item);
  set_product(item, d == 1 ? a.size[0] : 1, a.size[d], b.size[d + 1], a.size[d + 1]);
  return is_sized(item);
}

/* (sequences, heads, length, width) of queries, and heads of the keys before they are shared: q, k, v lie as (sequence,
 * head, token, column) in scaled_dot_product's operators, as (sequence, token, head, column) in flash's own. */
static gboolean read_attention(const ProfileOperator *op, const OperatorInputs *inputs, const char *kernel,
                               WorkItem *item, gboolean *is_causal) {
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

/* What a kernel counts as: one call may issue kernels of several. */
typedef enum { COUNTS_NOT, COUNTS_PRODUCT, COUNTS_ATTENTION, COUNTS_PASS, N_COUNTS } Counts;

static Counts counts_as(ProfileKind kind) {
  static const Counts counts[N_PROFILE_KINDS] = {
      [PROFILE_PRODUCT] = COUNTS_PRODUCT, [PROFILE_ATTENTION] = COUNTS_ATTENTION, [PROFILE_NORM] = COUNTS_PASS,
      [PROFILE_SOFTMAX] = COUNTS_PASS,    [PROFILE_ELEMENTWISE] = COUNTS_PASS,    [PROFILE_OPTIMIZER] = COUNTS_PASS,
      [PROFILE_COPY] = COUNTS_PASS};
  return counts[kind];
}

typedef struct {
  const ProfileOperator *op;
  const char *kernel; /* one of its */
  ProfileKind kind;
  Counts counts;
  GArray *times_s;  /* of double, one a call; owned */
  gint64 n_kernels; /* of all calls */
} Calls;

static void calls_free(gpointer data) {
  Calls *calls = data;
  g_array_unref(calls->times_s);
  g_free(calls);
}

/* Of the operator and of what its kernels count as; made if it is not there. */
static Calls *calls_of(GHashTable *all, const Profile *profile, const ProfileActivity *activity, Counts counts) {
  const gpointer key = GINT_TO_POINTER(activity->operator_index * (gint)N_COUNTS + (gint)counts);
  Calls *calls = g_hash_table_lookup(all, key);
  if (calls != NULL)
    return calls;
  calls = g_new(Calls, 1);
  *calls = (Calls){.op = &g_array_index(profile->operators, ProfileOperator, activity->operator_index),
                   .kernel = activity->name,
                   .kind = activity->kind,
                   .counts = counts,
                   .times_s = g_array_new(FALSE, FALSE, sizeof(double))};
  g_hash_table_insert(all, key, calls);
  return calls;
}

/* Of the call that it is of: the first kernel of its kind in that call adds a time, others add to it. */
static void add_kernel(GHashTable *places, Calls *calls, const ProfileActivity *activity) {
  const double time_s = (double)(activity->end_ns - activity->start_ns) * 1e-9;
  const gint64 key = (gint64)activity->call * N_COUNTS + calls->counts;
  const guint place = activity->call < 0 ? 0 : GPOINTER_TO_UINT(g_hash_table_lookup(places, &key));
  calls->n_kernels++;
  if (place > 0) {
    g_array_index(calls->times_s, double, place - 1) += time_s;
    return;
  }
  g_array_append_val(calls->times_s, time_s);
  if (activity->call >= 0)
    g_hash_table_insert(places, g_memdup2(&key, sizeof key), GUINT_TO_POINTER(calls->times_s->len));
}

/* Copies from and to the host are not the GPU's memory's. */
static gboolean is_of_host(const ProfileActivity *activity) {
  return activity->kind == PROFILE_COPY && activity->operator_index < 0;
}

/* Values are Calls. */
static GHashTable *all_calls(const Profile *profile, ProfileShapes *shapes) {
  GHashTable *all = g_hash_table_new_full(NULL, NULL, NULL, calls_free);
  for (guint r = 0; r < profile->ranks->len; r++) {
    const ProfileRank *rank = profile_rank(profile, r);
    g_autoptr(GHashTable) places = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    for (guint i = 0; i < rank->activities->len; i++) {
      const ProfileActivity *activity = profile_activity(rank, i);
      const Counts counts = counts_as(activity->kind);
      if (counts == COUNTS_NOT || is_of_host(activity))
        continue;
      if (activity->operator_index >= 0)
        add_kernel(places, calls_of(all, profile, activity, counts), activity);
      else
        ++*(counts == COUNTS_PASS ? &shapes->n_unknown_passes : &shapes->n_unknown);
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

/* Of products and attention. FALSE: not understood, or in a format that the GPU lacks. */
static gboolean read_shape(const Calls *calls, const Gpu *gpu, ProfileShape *shape) {
  g_auto(OperatorInputs) inputs = operator_inputs_parse(calls->op);
  return (read_product(calls->op, &inputs, calls->kernel, &shape->item) ||
          read_attention(calls->op, &inputs, calls->kernel, &shape->item, &shape->is_causal)) &&
         gpu->peak_flops[shape->item.number] > 0;
}

/* "flash_fwd_kernel", "flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel"; version 3 spells out FlashAttnFwdSm90. */
static gboolean is_flash_2(const char *kernel) {
  return strstr(kernel, "flash_fwd_") != NULL || strstr(kernel, "flash_bwd_") != NULL;
}

static void set_times(ProfileShape *shape, GArray *times_s, const Gpu *gpu) {
  const Gpu alone = gpu_alone(gpu);
  g_array_sort(times_s, sort_doubles_compare);
  shape->n = times_s->len;
  shape->median_s = g_array_index(times_s, double, times_s->len / 2);
  shape->alone_s = kernel_cost_model_s(&alone, &shape->item);
  shape->in_step_s = kernel_cost_model_s(gpu, &shape->item);
}

/* Passes of one operator over as many bytes are the same, however their tensors lie. */
static guint hash_pass(gconstpointer data) {
  const ProfileShape *shape = data;
  return g_str_hash(shape->operator_name) ^ g_double_hash(&shape->item.bytes) ^ (guint)shape->item.n_launches;
}

static gboolean same_pass(gconstpointer a, gconstpointer b) {
  const ProfileShape *x = a, *y = b;
  return g_str_equal(x->operator_name, y->operator_name) && x->item.bytes == y->item.bytes &&
         x->item.n_launches == y->item.n_launches;
}

/* `passes`: ProfileShape → GArray of double, both owned. FALSE: not understood. */
static gboolean add_pass(const Calls *calls, GHashTable *passes) {
  ProfileShape shape = {.kind = calls->kind, .operator_name = calls->op->name};
  if (!pass_read(calls->op, calls->kernel, &shape.item))
    return FALSE;
  shape.item.n_launches = (gint32)MAX(calls->n_kernels / calls->times_s->len, 1);
  GArray *times_s = g_hash_table_lookup(passes, &shape);
  if (times_s == NULL) {
    times_s = g_array_new(FALSE, FALSE, sizeof(double));
    g_hash_table_insert(passes, g_memdup2(&shape, sizeof shape), times_s);
  }
  g_array_append_vals(times_s, calls->times_s->data, calls->times_s->len);
  return TRUE;
}

static void array_free(gpointer data) {
  g_array_unref(data);
}

static void add_calls(ProfileShapes *shapes, const Calls *calls, const Gpu *gpu, GHashTable *passes) {
  ProfileShape shape = {.item.after = -1, .kind = calls->kind, .operator_name = calls->op->name};
  if (calls->counts == COUNTS_PASS) {
    shapes->n_unknown_passes += add_pass(calls, passes) ? 0 : calls->n_kernels;
  } else if (read_shape(calls, gpu, &shape)) {
    const Gpu of_kernel = is_flash_2(calls->kernel) ? gpu_of_flash_2(gpu) : *gpu;
    set_times(&shape, calls->times_s, &of_kernel);
    g_array_append_val(shapes->shapes, shape);
  } else {
    shapes->n_unknown += calls->times_s->len;
  }
}

ProfileShapes *profile_shapes_new(const Profile *profile, const Gpu *gpu) {
  ProfileShapes *shapes = g_new0(ProfileShapes, 1);
  shapes->shapes = g_array_new(FALSE, FALSE, sizeof(ProfileShape));
  shapes->passes = g_array_new(FALSE, FALSE, sizeof(ProfileShape));
  g_autoptr(GHashTable) all = all_calls(profile, shapes);
  g_autoptr(GHashTable) passes = g_hash_table_new_full(hash_pass, same_pass, g_free, array_free);
  GHashTableIter iter;
  gpointer key, value;
  g_hash_table_iter_init(&iter, all);
  while (g_hash_table_iter_next(&iter, NULL, &value))
    add_calls(shapes, value, gpu, passes);
  g_hash_table_iter_init(&iter, passes);
  while (g_hash_table_iter_next(&iter, &key, &value)) {
    ProfileShape pass = *(const ProfileShape *)key;
    set_times(&pass, value, gpu);
    g_array_append_val(shapes->passes, pass);
  }
  g_array_sort(shapes->shapes, compare_shapes);
  g_array_sort(shapes->passes, compare_shapes);
  return shapes;
}

void profile_shapes_free(ProfileShapes *shapes) {
  if (shapes == NULL)
    return;
  g_array_unref(shapes->shapes);
  g_array_unref(shapes->passes);
  g_free(shapes);
}
