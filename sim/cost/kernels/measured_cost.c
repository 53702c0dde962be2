/* Products are sorted by group (number, layout, accumulate), then by rows = batch·m. One bisection finds an equal
 * one; another finds the first of the group within the radius in rows, from where the products near in rows are
 * scanned:
 *
 *     group      ├──────────────┤═══════════╪═══════════┤─────────┤      rows ascending
 *                            rows/4       rows        4·rows
 *
 * The eight nearest so far are kept in order of distance, with the ninth after them. */
#include "measured_cost.h"

#include <math.h>
#include <string.h>

#include "curve.h"

enum { N_NEAREST = 8 };
static const double radius = 2;                 /* log2: a factor of 4 along one dimension */
static const double faded_share = 1.1;          /* of the ninth's distance: where the weights of the eight reach
                                                   zero */
static const double other_head_distance2 = 1e6; /* more than any two batches and lengths are apart */
static const double same_place = 1e-6;          /* different batches can have equal rows: distance 0, but not equal */

G_STATIC_ASSERT((int)LAYOUT_TN == 0 && (int)LAYOUT_NN == 1 && (int)LAYOUT_NT == N_MEASURED_LAYOUTS - 1);

typedef struct {
  const Gpu *gpu;
  const WorkItem *item;
  KernelModel model;
} Wanted;

/* products */

typedef struct {
  double distance2; /* squared */
  const MeasuredProduct *product;
} Near;

typedef struct {
  double log2_rows, log2_n, log2_k;
  Near near[N_NEAREST + 1]; /* ascending */
  int n;
} Neighbourhood;

static const MeasuredProduct *equal_product(const MeasuredKernels *measured, const WorkItem *item) {
  const MeasuredProduct wanted = {.number = item->number,
                                  .layout = item->layout,
                                  .accumulate = item->accumulate,
                                  .batch = item->batch,
                                  .m = item->m,
                                  .n = item->n,
                                  .k = item->k};
  int group = measured_group(item->number, item->layout, item->accumulate);
  int low = measured->group_first[group], high = measured->group_first[group + 1];
  while (low < high) {
    int middle = low + (high - low) / 2;
    int order = measured_product_compare(&measured->products[middle], &wanted);
    if (order == 0)
      return &measured->products[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

static void keep_nearest(Neighbourhood *around, double distance2, const MeasuredProduct *product) {
  int place = around->n < N_NEAREST + 1 ? around->n++ : N_NEAREST;
  for (; place > 0 && around->near[place - 1].distance2 > distance2; place--)
    around->near[place] = around->near[place - 1];
  around->near[place] = (Near){distance2, product};
}

/* Squared distance beyond which a product cannot be among the nearest. */
static double reach2(const Neighbourhood *around) {
  return around->n == N_NEAREST + 1 ? around->near[N_NEAREST].distance2 : radius * radius;
}

static int first_in_rows(const MeasuredKernels *measured, int group, double log2_rows) {
  int low = measured->group_first[group], high = measured->group_first[group + 1];
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (measured->products[middle].log2_rows < log2_rows)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void look_around(Neighbourhood *around, const MeasuredKernels *measured, int group) {
  int end = measured->group_first[group + 1];
  for (int i = first_in_rows(measured, group, around->log2_rows - radius); i < end; i++) {
    const MeasuredProduct *product = &measured->products[i];
    double rows = product->log2_rows - around->log2_rows, n = product->log2_n - around->log2_n;
    double k = product->log2_k - around->log2_k;
    if (rows > radius)
      break;
    double distance2 = rows * rows + n * n + k * k;
    if (distance2 < reach2(around))
      keep_nearest(around, distance2, product);
  }
}

/* Searches the item's group, or if that has none near, all groups of its number. */
static void find_neighbours(Neighbourhood *around, const MeasuredKernels *measured, const WorkItem *item) {
  *around = (Neighbourhood){.log2_rows = log2((double)(item->batch * item->m)),
                            .log2_n = log2((double)item->n),
                            .log2_k = log2((double)item->k)};
  look_around(around, measured, measured_group(item->number, item->layout, item->accumulate));
  if (around->n > 0)
    return;
  for (int group = measured_group(item->number, 0, 0); group < measured_group(item->number + 1, 0, 0); group++)
    look_around(around, measured, group);
}

/* Elements of A, B and C that pass through HBM. */
static double product_elements(const WorkItem *item) {
  double m = item->m, n = item->n, k = item->k;
  return item->batch * (m * k + k * n + (item->accumulate ? 2 : 1) * m * n);
}

/* ln(measured / model) of a measured product, assuming its operands are stored like those of the wanted one. */
static double product_correction(const Wanted *wanted, const MeasuredProduct *product) {
  WorkItem item = *wanted->item;
  item.layout = (guint8)product->layout;
  item.accumulate = (guint8)product->accumulate;
  item.batch = product->batch;
  item.m = product->m;
  item.n = product->n;
  item.k = product->k;
  item.flops = 2.0 * item.batch * item.m * item.n * item.k;
  item.bytes *= product_elements(&item) / product_elements(wanted->item);
  return log(product->time_s / wanted->model(wanted->gpu, &item));
}

static double interpolated_s(const Wanted *wanted, const Neighbourhood *around) {
  double end = radius;
  if (around->n == N_NEAREST + 1)
    end = MIN(end, faded_share * MAX(sqrt(around->near[N_NEAREST].distance2), same_place));
  double sum = 0, weights = 0;
  for (int i = 0; i < MIN(around->n, N_NEAREST); i++) {
    double weight = 1 / MAX(sqrt(around->near[i].distance2), same_place) - 1 / end;
    sum += weight * product_correction(wanted, around->near[i].product);
    weights += weight;
  }
  return wanted->model(wanted->gpu, wanted->item) * exp(sum / weights);
}

static double product_s(const Wanted *wanted, CostSource *source) {
  const MeasuredKernels *measured = wanted->gpu->measured;
  const MeasuredProduct *equal = equal_product(measured, wanted->item);
  if (equal != NULL) {
    *source = COST_MEASURED;
    return equal->time_s / (measured->under_load * wanted->gpu->rate);
  }
  Neighbourhood around;
  find_neighbours(&around, measured, wanted->item);
  if (around.n == 0)
    return wanted->model(wanted->gpu, wanted->item);
  *source = COST_INTERPOLATED;
  return interpolated_s(wanted, &around) / (measured->under_load * wanted->gpu->rate);
}

/* memory-bound kernels */

/* −1: none */
static int named_curve(const MeasuredKernels *measured, const char *name) {
  int low = 0, high = measured->n_curves;
  while (low < high && name != NULL) {
    int middle = low + (high - low) / 2, order = strcmp(measured->curves[middle].name, name);
    if (order == 0)
      return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return -1;
}

static double memory_s(const Wanted *wanted, CostSource *source) {
  const MeasuredKernels *measured = wanted->gpu->measured;
  int curve = named_curve(measured, wanted->item->name);
  if (curve < 0)
    curve = measured->generic_curve;
  if (curve < 0 || wanted->gpu->without_curves)
    return wanted->model(wanted->gpu, wanted->item);
  const CurveSpan *span = &measured->curves[curve].span;
  const CurvePoint *points = &measured->points[span->first_point], *first = points, *last = points + span->n_points - 1;
  double bytes = wanted->item->bytes;
  if (bytes >= first->size_bytes && bytes <= last->size_bytes) {
    *source = COST_MEASURED;
    return curve_between_s(points, span->n_points, bytes);
  }
  *source = COST_INTERPOLATED;
  if (bytes > last->size_bytes)
    return last->time_s * (bytes / last->size_bytes);
  double latency_s = MIN(wanted->gpu->kernel_latency_s, first->time_s);
  return latency_s + (first->time_s - latency_s) * (bytes / first->size_bytes);
}

/* attention */

static double attention_pair_flops(const WorkItem *item) {
  return measured_attention_pair_flops(item->backward, item->k, work_item_v_dim(item));
}

/* Pairs of query and key over all heads. For a block with another number of keys, or with a window, they follow from
 * its FLOPs. */
static double attention_pairs(const WorkItem *item) {
  if (item->n != item->m || item->windowed)
    return item->flops / attention_pair_flops(item);
  return item->batch * measured_attention_pairs(item->m, item->n);
}

/* Elements of Q and K, V and O: HBM traffic is proportional to them. */
static double attention_elements(const WorkItem *item) {
  return (double)item->batch * (item->m + item->n) * (item->k + work_item_v_dim(item));
}

static double attention_correction(const Wanted *wanted, const MeasuredAttention *attention) {
  WorkItem item = *wanted->item;
  item.batch = attention->batch;
  item.m = attention->seq_len;
  item.n = attention->keys;
  item.k = attention->head_dim;
  item.v_dim = (gint32)attention->v_head_dim;
  item.windowed = FALSE;
  const double pairs = item.batch * measured_attention_pairs(item.m, item.n);
  item.flops *=
      pairs * attention_pair_flops(&item) / (attention_pairs(wanted->item) * attention_pair_flops(wanted->item));
  item.bytes *= attention_elements(&item) / attention_elements(wanted->item);
  return attention->time_s / wanted->model(wanted->gpu, &item);
}

static gboolean has_heads_of(const MeasuredAttention *attention, const WorkItem *item) {
  return attention->head_dim == item->k && attention->v_head_dim == work_item_v_dim(item);
}

/* The nearest entry of the item's number and direction, preferring those with its head sizes; NULL when there is
 * none. */
static const MeasuredAttention *nearest_attention(const MeasuredKernels *measured, const WorkItem *item) {
  const double log2_batch = log2((double)item->batch), log2_queries = log2((double)item->m);
  const double log2_keys = log2((double)item->n);
  const MeasuredAttention *nearest = NULL;
  double least2 = INFINITY;
  for (int i = 0; i < measured->n_attention; i++) {
    const MeasuredAttention *attention = &measured->attention[i];
    if (attention->number != item->number || attention->backward != item->backward)
      continue;
    double batch = attention->log2_batch - log2_batch, queries = attention->log2_seq_len - log2_queries;
    double keys = attention->log2_keys - log2_keys, head = has_heads_of(attention, item) ? 0 : other_head_distance2;
    double distance2 = batch * batch + queries * queries + keys * keys + head;
    if (distance2 >= least2)
      continue;
    nearest = attention;
    least2 = distance2;
  }
  return nearest;
}

static double attention_s(const Wanted *wanted, CostSource *source) {
  const WorkItem *item = wanted->item;
  const MeasuredAttention *nearest = nearest_attention(wanted->gpu->measured, item);
  if (nearest == NULL)
    return wanted->model(wanted->gpu, item);
  gboolean is_equal = nearest->batch == item->batch && nearest->seq_len == item->m && nearest->keys == item->n &&
                      !item->windowed && has_heads_of(nearest, item);
  *source = is_equal ? COST_MEASURED : COST_INTERPOLATED;
  return is_equal ? nearest->time_s : wanted->model(wanted->gpu, item) * attention_correction(wanted, nearest);
}

Gpu measured_cost_gpu(const Gpu *gpu, gboolean has_framework) {
  const MeasuredKernels *measured = gpu->measured;
  Gpu seen = *gpu;
  seen.without_curves = measured != NULL && !measured_kernels_are_of(measured, has_framework);
  if (measured == NULL || seen.without_curves)
    return seen;
  if (measured->kernel_s > 0)
    seen.kernel_latency_s = measured->kernel_s;
  if (measured->host_launch_s > 0)
    seen.host_launch_s = measured->host_launch_s;
  return seen;
}

double measured_cost_s(const Gpu *gpu, const WorkItem *item, KernelModel model, CostSource *source) {
  *source = COST_MODELLED;
  const Wanted wanted = {gpu, item, model};
  if (gpu->measured == NULL)
    return model(gpu, item);
  switch ((ItemKind)item->kind) {
  case ITEM_MATMUL:
    return product_s(&wanted, source);
  case ITEM_ATTENTION:
    return attention_s(&wanted, source);
  case ITEM_MEMORY:
    return memory_s(&wanted, source);
  case ITEM_COLLECTIVE:
    break;
  }
  g_assert_not_reached();
}
