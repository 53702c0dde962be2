/* A matrix product is a set of output tiles dealt out to the SMs in waves; the last wave is charged in full however
 * few tiles it has:
 *
 *      SM 0 | tile 0 | tile 4 | tile 8 |          9 tiles on 4 SMs: 3 waves, 9/12 of the GPU used
 *      SM 1 | tile 1 | tile 5 |   ·    |
 *      SM 2 | tile 2 | tile 6 |   ·    |
 *      SM 3 | tile 3 | tile 7 |   ·    |
 *
 * A small tile quantises better but reaches less of the peak; splitting k makes more, shorter tiles but adds a pass
 * that sums the slices in fp32. All tiles are tried with all splits, as a library's heuristic does, and the fastest
 * is used. Products of a group, one for each expert, share the waves. Fused attention is dealt out in the same way, a
 * block of query rows of one head at a time. */
#include "kernel_cost.h"

#include <math.h>

/* Rows of queries (backward: keys) one thread block of a fused attention kernel owns. Source: FlashAttention-2, arXiv
 * 2307.08691 §3.3 (block sizes 64 and 128; 128 for the head sizes of large models), kept by FlashAttention-3. */
enum { ATTENTION_BLOCK_ROWS = 128 };
/* Splits of k that libraries offer, and the shortest slice they leave: below it a slice is all prologue and epilogue.
 * Source: CUTLASS documentation, "Efficient GEMM", parallelised reductions. */
static const int split_counts[] = {1, 2, 4, 8, 16};
enum { SPLIT_LEAST_K = 256 };

static double ceil_div(double value, double by) {
  return ceil(value / by);
}

static double peak_flops(const Gpu *gpu, Number number) {
  g_assert(number < N_NUMBERS && gpu->peak_flops[number] > 0); /* plan_complete() has refused the plan otherwise */
  return gpu->peak_flops[number];
}

static double sustained_flops(const Gpu *gpu, Number number) {
  g_assert(gpu->sustained[number] > 0); /* gpu_read() requires one beside each peak */
  double left = gpu->under_load_of[number] > 0 ? gpu->under_load_of[number] : gpu->under_load;
  return peak_flops(gpu, number) * gpu->sustained[number] * left * gpu->rate;
}

static double hbm_s(const Gpu *gpu, double bytes) {
  return bytes / (gpu->hbm_Bps * gpu->hbm_efficiency);
}

/* Prologue and epilogue take the same time in all formats, and so more elements of k in the faster ones. */
static double ramp_elements(const Gpu *gpu, Number number) {
  const double *peaks = gpu->peak_flops, of_16_bits = MAX(peaks[NUMBER_BF16], peaks[NUMBER_FP16]);
  return number_bytes(number) < 2 && of_16_bits > 0 ? gpu->k_ramp * peaks[number] / of_16_bits : gpu->k_ramp;
}

/* The matrix unit's time with one tile shape and slices of `k` elements, their ramp included. */
static double tiled_s(const Gpu *gpu, const GpuTile *tile, double sm_flops, double slices, double k) {
  double waves = ceil_div(slices, gpu->n_sms);
  double tile_flops = 2.0 * tile->m * tile->n * k;
  return waves * tile_flops / (sm_flops * tile->efficiency);
}

/* The least over all tiles and splits. */
static double arithmetic_s(const Gpu *gpu, Number number, gint64 batch, gint64 m, gint64 n, gint64 k) {
  g_assert(batch > 0 && m > 0 && n > 0 && k > 0 && gpu->n_tiles > 0);
  double sm_flops = sustained_flops(gpu, number) / gpu->n_sms;
  double elements = (double)batch * (double)m * (double)n;
  double ramp = ramp_elements(gpu, number);
  double best = INFINITY;
  for (int t = 0; t < gpu->n_tiles; t++) {
    const GpuTile *tile = &gpu->tiles[t];
    double tiles = (double)batch * ceil_div((double)m, tile->m) * ceil_div((double)n, tile->n);
    for (guint i = 0; i < G_N_ELEMENTS(split_counts); i++) {
      int split = split_counts[i];
      if (split > 1 && (tiles >= gpu->n_sms || k / split < SPLIT_LEAST_K))
        break;
      /* each slice writes its C in fp32, and the extra pass reads it again */
      double reduce_s = split > 1 ? hbm_s(gpu, split * elements * sizeof(float) * 2) : 0;
      best = MIN(best, tiled_s(gpu, tile, sm_flops, tiles * split, ceil_div((double)k, split) + ramp) + reduce_s);
    }
  }
  return best;
}

/* The largest power of two, in bytes, that divides the starts of rows of `n` elements. */
static double row_alignment(gint64 n, double element_bytes) {
  return (double)(n & -n) * element_bytes;
}

/* Row lengths as stored: A has k in TN and NN, m in NT; B has k in TN, n in NN and NT; C always n, with elements of
 * 16 bits if those of A and B are narrower. The worst alignment decides. */
static double unaligned_share(const Gpu *gpu, const WorkItem *item) {
  static const double below[N_UNALIGNED] = {[UNALIGNED_2] = 4, [UNALIGNED_4] = 8, [UNALIGNED_8] = 16};
  const double *shares = item->batch > 1 ? gpu->unaligned_batched : gpu->unaligned;
  const double bytes = number_bytes(item->number);
  const gint64 a = item->layout == LAYOUT_NT ? item->m : item->k, b = item->layout == LAYOUT_TN ? item->k : item->n;
  const double operands = item->aligned > 0 ? item->aligned : MIN(row_alignment(a, bytes), row_alignment(b, bytes));
  const double alignment = MIN(operands, row_alignment(item->n, MAX(bytes, 2)));
  if (item->number == NUMBER_TF32 && gpu->unaligned_tf32 > 0)
    return alignment < below[UNALIGNED_8] ? gpu->unaligned_tf32 : 1;
  for (int i = 0; i < N_UNALIGNED && item->number != NUMBER_FP32; i++)
    if (alignment < below[i])
      return shares[i] > 0 ? shares[i] : 1;
  return 1;
}

/* Alignment reduces the rate. An accumulated C is also read and written, and part of that is exposed: the first tiles
 * wait until it is read, and it is written only after the last ones. In a group, where each product is short, more is
 * exposed. */
static double matmul_s(const Gpu *gpu, const WorkItem *item) {
  const gboolean is_of_weights = item->accumulate && number_bytes(item->number) < 2 && gpu->weight_gradient_rate > 0;
  const double share = unaligned_share(gpu, item) * (is_of_weights ? gpu->weight_gradient_rate : 1);
  const double product_s = arithmetic_s(gpu, item->number, item->batch, item->m, item->n, item->k) / share;
  const double exposed = item->batch == 1 ? gpu->accumulate_exposed : gpu->grouped_exposed;
  const double shown_s = item->accumulate ? exposed * hbm_s(gpu, item->result_bytes) : 0;
  return MAX(product_s + shown_s, hbm_s(gpu, item->bytes)) + gpu->kernel_latency_s;
}

double kernel_cost_memory_s(const Gpu *gpu, double bytes) {
  g_assert(bytes >= 0);
  return hbm_s(gpu, bytes) + gpu->kernel_latency_s;
}

/* batch = sequences × local heads, m = queries: the share of SM time in use, the last wave included. */
static double attention_fill(const Gpu *gpu, const WorkItem *item) {
  double blocks = (double)item->batch * ceil_div((double)item->m, ATTENTION_BLOCK_ROWS);
  return blocks / (ceil_div(blocks, gpu->n_sms) * gpu->n_sms);
}

/* Computed elements of a head for each real one. */
static double attention_padding(const Gpu *gpu, const WorkItem *item) {
  const int multiple = MAX(gpu->attention_head_multiple, 1);
  return ceil_div((double)item->k, multiple) * multiple / (double)item->k;
}

/* The work before the first and after the last key of each block of queries, as the FLOPs of additional keys. */
static double attention_ramp_flops(const Gpu *gpu, const WorkItem *item) {
  const double d = (double)item->k, v = (double)work_item_v_dim(item);
  const double pair_flops = item->backward ? 6 * d + 4 * v : 2 * (d + v); /* as item_list_attention() counts */
  const double ramp = item->backward ? gpu->attention_ramp_backward : gpu->attention_ramp_forward;
  return ramp * (double)item->batch * (double)item->m * pair_flops;
}

static double attention_s(const Gpu *gpu, const WorkItem *item) {
  g_assert(item->batch > 0 && item->m > 0 && item->k > 0);
  double share = gpu->rate * (item->backward ? gpu->attention_backward : gpu->attention_forward);
  if (item->k > work_item_v_dim(item) && gpu->attention_wide > 0)
    share *= gpu->attention_wide;
  if (item->k <= gpu->attention_narrow_head)
    share *= gpu->attention_narrow;
  double flops_per_s = peak_flops(gpu, item->number) * share * attention_fill(gpu, item);
  double flops = (item->flops + attention_ramp_flops(gpu, item)) * attention_padding(gpu, item);
  return MAX(flops / flops_per_s, hbm_s(gpu, item->bytes)) + gpu->kernel_latency_s;
}

double kernel_cost_model_s(const Gpu *gpu, const WorkItem *item) {
  switch ((ItemKind)item->kind) {
  case ITEM_MATMUL:
    return matmul_s(gpu, item);
  case ITEM_ATTENTION:
    return attention_s(gpu, item);
  case ITEM_MEMORY:
    return kernel_cost_memory_s(gpu, item->bytes) + MAX(item->n_launches - 1, 0) * gpu->kernel_latency_s;
  case ITEM_COLLECTIVE:
    break;
  }
  g_assert_not_reached();
}

double kernel_cost_s(const Gpu *gpu, const WorkItem *item, CostSource *source) {
  CostSource ignored;
  WorkItem slowed = *item; /* slower operations, expressed as more bytes */
  if (item->is_plain && gpu->norm_rate > 0)
    slowed.bytes /= gpu->norm_rate;
  if (gpu->strided_rate > 0)
    slowed.bytes += (1 / gpu->strided_rate - 1) * item->strided_bytes;
  const double behind_s = item->behind_bytes > 0 ? kernel_cost_memory_s(gpu, item->behind_bytes) : 0;
  return measured_cost_s(gpu, &slowed, kernel_cost_model_s, source != NULL ? source : &ignored) + behind_s;
}
