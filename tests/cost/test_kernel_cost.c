/* A toy GPU whose times can be added up by hand: 4 SMs of 1 TFLOP/s each, HBM of 1 TB/s at efficiency 0.5, kernels of
 * at least 1 us. */
#include "kernel_cost.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { RANDOM_SHAPES = 2000 };

static const double latency_s = 1e-6, hbm_Bps = 0.5e12, sm_flops = 1e12;

static Gpu toy_gpu(void) {
  return (Gpu){
      .n_sms = 4,
      .rate = 1,
      .peak_flops = {[NUMBER_BF16] = 8e12, [NUMBER_FP8] = 16e12},
      .sustained = {[NUMBER_BF16] = 0.5},
      .under_load = 1,
      .hbm_Bps = 1e12,
      .hbm_efficiency = 0.5,
      .tiles = {{16, 16, 1.0}},
      .n_tiles = 1,
      .kernel_latency_s = 1e-6,
      .attention_forward = 0.4,
      .attention_backward = 0.2,
  };
}

/* The shape and what of it is not bf16 or none. */
static double product_of_s(const Gpu *gpu, WorkItem item) {
  item.kind = ITEM_MATMUL;
  return kernel_cost_model_s(gpu, &item);
}

static double product_s(const Gpu *gpu, gint64 batch, gint64 m, gint64 n, gint64 k) {
  return product_of_s(gpu, (WorkItem){.number = NUMBER_BF16, .batch = batch, .m = m, .n = n, .k = k});
}

static void assert_close(double found, double expected) {
  ck_assert_double_eq_tol(found / expected, 1, 1e-12);
}

TEST(a_full_wave_runs_at_the_sustained_rate) {
  Gpu gpu = toy_gpu();
  /* 32 × 32 × 100000 in 16 × 16 tiles: 4 tiles on 4 SMs. 2·32·32·1e5 FLOP over 8e12·0.5 FLOP/s = 51.2 us. */
  assert_close(product_s(&gpu, 1, 32, 32, 100000), 2.0 * 32 * 32 * 1e5 / (4 * sm_flops) + latency_s);
}

TEST(the_last_wave_is_charged_whole) {
  Gpu gpu = toy_gpu();
  /* 48 × 48: 9 tiles on 4 SMs are 3 waves of 2·16·16·k FLOP at 1e12 FLOP/s. 8 tiles (32 × 64) are 2. */
  double wave_s = 2.0 * 16 * 16 * 5000 / sm_flops;
  assert_close(product_s(&gpu, 1, 48, 48, 5000), 3 * wave_s + latency_s);
  assert_close(product_s(&gpu, 1, 32, 64, 5000), 2 * wave_s + latency_s);
}

TEST(a_tile_partly_outside_the_matrix_costs_a_whole_one) {
  Gpu gpu = toy_gpu();
  assert_close(product_s(&gpu, 1, 33, 33, 5000), product_s(&gpu, 1, 48, 48, 5000));
}

TEST(batches_share_waves) {
  Gpu gpu = toy_gpu();
  /* 3 products of 4 tiles each: 12 tiles, 3 waves. */
  assert_close(product_s(&gpu, 3, 32, 32, 5000), 3 * 2.0 * 16 * 16 * 5000 / sm_flops + latency_s);
}

TEST(the_ramp_lengthens_every_wave) {
  Gpu gpu = toy_gpu();
  gpu.k_ramp = 100;
  assert_close(product_s(&gpu, 1, 32, 64, 400), 2 * 2.0 * 16 * 16 * 500 / sm_flops + latency_s);
}

TEST(the_ramp_takes_the_same_time_in_a_faster_format) {
  Gpu gpu = toy_gpu();
  gpu.k_ramp = 100;
  gpu.sustained[NUMBER_FP8] = gpu.sustained[NUMBER_BF16];
  /* fp8 has twice the peak: a wave is 400 elements and a ramp of 200 at twice the rate; of bf16 400 and 100. */
  WorkItem item = {.number = NUMBER_FP8, .batch = 1, .m = 32, .n = 64, .k = 400};
  assert_close(product_of_s(&gpu, item), 2 * 2.0 * 16 * 16 * 600 / (2 * sm_flops) + latency_s);
}

TEST(the_fastest_tile_is_taken) {
  Gpu gpu = toy_gpu();
  gpu.tiles[1] = (GpuTile){32, 32, 1.25};
  gpu.n_tiles = 2;
  /* 64 × 64: four 32-tiles fill the SMs once: 2·32·32·k/1.25e12; sixteen 16-tiles take 4·2·16·16·k/1e12: slower. */
  assert_close(product_s(&gpu, 1, 64, 64, 1e5), 2.0 * 32 * 32 * 1e5 / (1.25 * sm_flops) + latency_s);
  /* 32 × 32: one 32-tile leaves three SMs idle; four 16-tiles take a quarter of its FLOP each, at 1/1.25 its rate. */
  assert_close(product_s(&gpu, 1, 32, 32, 200), 2.0 * 16 * 16 * 200 / sm_flops + latency_s);
}

TEST(a_long_k_with_few_tiles_is_split) {
  Gpu gpu = toy_gpu();
  /* One tile, k = 2^20, on 4 SMs: 4 slices of k/4, and each slice's C (16·16·4 bytes) written and read:
   * 4·256·4·2 = 8192 bytes. More slices do not use more SMs. */
  double k = 1 << 20;
  assert_close(product_s(&gpu, 1, 16, 16, 1 << 20), 2.0 * 16 * 16 * (k / 4) / sm_flops + 8192 / hbm_Bps + latency_s);
}

TEST(a_full_gpu_is_not_split) {
  Gpu gpu = toy_gpu();
  /* 5 tiles (80 × 16) take 2 waves; slices would fill the second one, but libraries split only to fill the first. */
  assert_close(product_s(&gpu, 1, 80, 16, 1 << 20), 2 * 2.0 * 16 * 16 * (1 << 20) / sm_flops + latency_s);
}

TEST(a_short_k_is_not_split) {
  Gpu gpu = toy_gpu();
  gpu.hbm_Bps = 1e30; /* the pass over the slices is free: only the length of a slice forbids it */
  assert_close(product_s(&gpu, 1, 16, 16, 511), 2.0 * 16 * 16 * 511 / sm_flops + latency_s);
  assert_close(product_s(&gpu, 1, 16, 16, 512), 2.0 * 16 * 16 * 256 / sm_flops + latency_s);
}

TEST(a_product_is_never_faster_than_its_traffic) {
  Gpu gpu = toy_gpu();
  const WorkItem heavy = {.number = NUMBER_BF16, .batch = 1, .m = 16, .n = 16, .k = 16, .bytes = 1e9};
  assert_close(product_of_s(&gpu, heavy), 1e9 / hbm_Bps + latency_s);
}

/* A framework's own kernels for weight gradients: those of few bits alone are its own. */
TEST(weight_gradients_of_few_bits_have_a_rate_of_their_own) {
  Gpu gpu = toy_gpu();
  gpu.sustained[NUMBER_FP8] = gpu.sustained[NUMBER_BF16];
  WorkItem item = {.kind = ITEM_MATMUL, .number = NUMBER_FP8, .batch = 1, .m = 32, .n = 32, .k = 100000, .bytes = 1};
  const double product_s = kernel_cost_model_s(&gpu, &item);
  gpu.weight_gradient_rate = 0.5;
  assert_close(kernel_cost_model_s(&gpu, &item), product_s);
  item.accumulate = TRUE;
  assert_close(kernel_cost_model_s(&gpu, &item), 2 * (product_s - latency_s) + latency_s);
  item.number = NUMBER_BF16;
  const double of_16_bits_s = kernel_cost_model_s(&gpu, &item);
  gpu.weight_gradient_rate = 0;
  assert_close(kernel_cost_model_s(&gpu, &item), of_16_bits_s);
}

/* 4 experts of 32 × 32, k 100,000: 16 tiles are 4 waves of 51.2 us; their gradients, read and written, are 80 MB, of
 * which half is exposed: 80 us of HBM at 0.5 TB/s. Where the traffic of all, 150 MB, takes longer than both, that
 * counts. A lone product has a share of its own, and products that accumulate nothing hide their results. */
TEST(a_group_that_accumulates_shows_part_of_its_results_traffic) {
  Gpu gpu = toy_gpu();
  gpu.grouped_exposed = 0.5;
  WorkItem item = {.kind = ITEM_MATMUL,
                   .number = NUMBER_BF16,
                   .accumulate = TRUE,
                   .batch = 4,
                   .m = 32,
                   .n = 32,
                   .k = 100000,
                   .bytes = 100e6,
                   .result_bytes = 80e6};
  const double arithmetic_s = 4 * 2.0 * 32 * 32 * 1e5 / (4 * sm_flops);
  assert_close(kernel_cost_model_s(&gpu, &item), arithmetic_s + 0.5 * 80e6 / hbm_Bps + latency_s);
  item.bytes = 150e6;
  assert_close(kernel_cost_model_s(&gpu, &item), 150e6 / hbm_Bps + latency_s);
  item.bytes = 100e6, item.accumulate = FALSE;
  assert_close(kernel_cost_model_s(&gpu, &item), arithmetic_s + latency_s);
  item.accumulate = TRUE, item.batch = 1, item.bytes = 1e6;
  assert_close(kernel_cost_model_s(&gpu, &item), arithmetic_s / 4 + latency_s);
  gpu.accumulate_exposed = 0.25;
  assert_close(kernel_cost_model_s(&gpu, &item), arithmetic_s / 4 + 0.25 * 80e6 / hbm_Bps + latency_s);
  item.accumulate = FALSE;
  assert_close(kernel_cost_model_s(&gpu, &item), arithmetic_s / 4 + latency_s);
}

/* 1e6 bytes of a kernel of its own: their time at the HBM's rate and its latency, behind the product. */
TEST(a_sum_apart_takes_a_kernel_more) {
  const Gpu gpu = toy_gpu();
  WorkItem item = {.kind = ITEM_MATMUL, .number = NUMBER_BF16, .batch = 1, .m = 32, .n = 32, .k = 100000, .bytes = 1e6};
  const double product_s = kernel_cost_s(&gpu, &item, NULL);
  item.behind_bytes = 1e6;
  assert_close(kernel_cost_s(&gpu, &item, NULL), product_s + 1e6 / hbm_Bps + latency_s);
}

/* In bf16 rows of 28 and 60 elements start at multiples of 8 bytes, of 26 and 62 at 4, of 27 and 63 at 2. Rows run
 * along n in C, and in A and B along what the layout says; the third dimension does not count. */
TEST(rows_that_start_at_odd_places_slow_a_product_down) {
  Gpu gpu = toy_gpu();
  const Gpu even = toy_gpu(); /* all rows are alike to it */
  const double shares[N_UNALIGNED] = {0.2, 0.4, 0.8};
  memcpy(gpu.unaligned, shares, sizeof shares);
  const struct {
    int layout, m, n, k;
    double share;
  } rows[] = {
      {LAYOUT_TN, 32, 28, 64, 0.8}, {LAYOUT_TN, 32, 26, 64, 0.4}, {LAYOUT_TN, 32, 27, 64, 0.2},
      {LAYOUT_TN, 32, 32, 64, 1},   {LAYOUT_TN, 27, 32, 64, 1},   {LAYOUT_TN, 32, 32, 62, 0.4},
      {LAYOUT_NN, 27, 32, 64, 1},   {LAYOUT_NN, 32, 32, 60, 0.8}, {LAYOUT_NN, 32, 27, 64, 0.2},
      {LAYOUT_NT, 27, 32, 64, 0.2}, {LAYOUT_NT, 32, 32, 63, 1},   {LAYOUT_NT, 32, 28, 64, 0.8},
  };
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    WorkItem item = {.kind = ITEM_MATMUL, .number = NUMBER_BF16, .batch = 1, .layout = (guint8)rows[i].layout};
    item.m = rows[i].m, item.n = rows[i].n, item.k = rows[i].k;
    const double aligned_s = product_s(&even, 1, item.m, item.n, item.k) - latency_s;
    assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, aligned_s / rows[i].share);
  }
}

/* Rows of 20 elements of fp8 start at multiples of 4 bytes; of 28 of C, which has 16 bits, of 8. A batch has shares
 * of its own. fp32 runs on CUDA cores. */
TEST(how_a_row_is_aligned_depends_on_its_format) {
  Gpu gpu = toy_gpu();
  gpu.sustained[NUMBER_FP8] = gpu.sustained[NUMBER_FP32] = 0.5;
  gpu.peak_flops[NUMBER_FP32] = 8e12;
  gpu.unaligned[UNALIGNED_4] = 0.4, gpu.unaligned[UNALIGNED_8] = 0.8;
  gpu.unaligned_batched[UNALIGNED_8] = 0.1;
  WorkItem item = {.kind = ITEM_MATMUL, .number = NUMBER_FP8, .layout = LAYOUT_TN, .batch = 1, .m = 32, .n = 32};
  item.k = 20;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 2.0 * 16 * 16 * 20 / (2 * sm_flops) / 0.4);
  item.k = 32, item.n = 28;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 2.0 * 16 * 16 * 32 / (2 * sm_flops) / 0.8);
  item.number = NUMBER_BF16, item.batch = 4;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 4 * 2.0 * 16 * 16 * 32 / sm_flops / 0.1);
  item.number = NUMBER_FP32, item.n = 27;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 4 * 2.0 * 16 * 16 * 32 / sm_flops);
  item.number = NUMBER_BF16, item.n = 32, item.aligned = 8; /* as was measured: rows that are parts of longer ones */
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 4 * 2.0 * 16 * 16 * 32 / sm_flops / 0.1);
  gpu.peak_flops[NUMBER_TF32] = gpu.peak_flops[NUMBER_BF16], gpu.sustained[NUMBER_TF32] = gpu.sustained[NUMBER_BF16];
  item.number = NUMBER_TF32, item.aligned = 0;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 4 * 2.0 * 16 * 16 * 32 / sm_flops);
  gpu.unaligned_tf32 = 0.5, item.k = 30; /* 8 bytes */
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, 4 * 2.0 * 16 * 16 * 30 / sm_flops / 0.5);
}

TEST(each_format_has_its_own_rate) {
  Gpu gpu = toy_gpu();
  const WorkItem of_8_bits = {.number = NUMBER_FP8, .batch = 1, .m = 32, .n = 32, .k = 1000};
  gpu.sustained[NUMBER_FP8] = 0.25;
  /* fp8: 16e12 · 0.25 over 4 SMs is what bf16 has too; at 0.5 it is twice that */
  assert_close(product_of_s(&gpu, of_8_bits), product_s(&gpu, 1, 32, 32, 1000));
  gpu.sustained[NUMBER_FP8] = 0.5;
  assert_close(product_of_s(&gpu, of_8_bits), 2.0 * 16 * 16 * 1000 / (2 * sm_flops) + latency_s);
}

TEST(a_memory_kernel_takes_bytes_over_hbm) {
  Gpu gpu = toy_gpu();
  assert_close(kernel_cost_memory_s(&gpu, 1e9), 2e-3 + latency_s);
  assert_close(kernel_cost_memory_s(&gpu, 0), latency_s);
  WorkItem item = {.kind = ITEM_MEMORY, .bytes = 1e9};
  assert_close(kernel_cost_s(&gpu, &item, NULL), kernel_cost_memory_s(&gpu, 1e9));
  item.n_launches = 5; /* of as many bytes together */
  assert_close(kernel_cost_s(&gpu, &item, NULL), 2e-3 + 5 * latency_s);
}

TEST(attention_runs_at_its_own_rates) {
  Gpu gpu = toy_gpu();
  /* 8 heads × 1 block of 128 rows: 2 full waves on 4 SMs. 8e12·0.4 forward, 8e12·0.2 backward. */
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 8, .m = 128, .n = 128, .k = 64};
  item.flops = 1e9;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 1e9 / 3.2e12 + latency_s);
  item.backward = TRUE;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 1e9 / 1.6e12 + latency_s);
}

/* Kernels made for multiples of 32 elements: 80 take what 96 do; made for any size, what 80 do. */
TEST(attention_computes_heads_of_a_size_it_knows) {
  Gpu gpu = toy_gpu();
  gpu.attention_head_multiple = 32;
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 8, .m = 128, .n = 128, .k = 80};
  item.flops = 80e7;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 96e7 / 3.2e12 + latency_s);
  item.k = 96;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 80e7 / 3.2e12 + latency_s);
  item.k = 80;
  gpu.attention_head_multiple = 1;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 80e7 / 3.2e12 + latency_s);
}

/* Heads of Q and K wider than V's at 0.8 of the rate; the same heads at all of it. */
TEST(wide_keys_slow_attention_down) {
  Gpu gpu = toy_gpu();
  gpu.attention_wide = 0.8;
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 4, .m = 128, .k = 96, .flops = 1e12};
  const double plain_s = kernel_cost_model_s(&gpu, &item) - latency_s;
  item.v_dim = 64;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, plain_s / 0.8);
}

/* Heads of up to 64, where the GPU file has that, at half of the rate that those of 65 have, per FLOP. */
TEST(narrow_heads_slow_attention_down) {
  Gpu gpu = toy_gpu();
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 4, .m = 128, .k = 64, .flops = 1e12};
  const double plain_s = kernel_cost_model_s(&gpu, &item) - latency_s;
  gpu.attention_narrow = 0.5;
  gpu.attention_narrow_head = 64;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, plain_s / 0.5);
  item.k = 65;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, plain_s);
  gpu.attention_narrow_head = 128;
  assert_close(kernel_cost_model_s(&gpu, &item) - latency_s, plain_s / 0.5);
}

TEST(attention_over_few_keys_reaches_less) {
  Gpu gpu = toy_gpu();
  gpu.attention_ramp_forward = gpu.attention_ramp_backward = 300;
  /* 4 heads of 64, 128 queries that meet 100 keys each: 4·128·100 pairs of 4·64 FLOP at 100/400 of 3.2e12 FLOP/s; the
   * backward kernel does 10·64 for each at half of that rate. */
  const double pairs = 4.0 * 128 * 100;
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 4, .m = 128, .k = 64};
  item.flops = pairs * 4 * 64;
  assert_close(kernel_cost_s(&gpu, &item, NULL), pairs * 4 * 64 / (3.2e12 / 4) + latency_s);
  item.backward = TRUE;
  item.flops = pairs * 10 * 64;
  assert_close(kernel_cost_s(&gpu, &item, NULL), pairs * 10 * 64 / (1.6e12 / 4) + latency_s);
}

TEST(attention_with_few_blocks_leaves_sms_idle) {
  Gpu gpu = toy_gpu();
  /* 3 blocks on 4 SMs: 3/4 of the rate; 129 rows are 2 blocks a head, so 3 heads are 6 blocks in 2 waves: 6/8. */
  WorkItem item = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 3, .m = 100, .n = 100, .k = 64};
  item.flops = 1e9;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 1e9 / (3.2e12 * 0.75) + latency_s);
  item.m = item.n = 129;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 1e9 / (3.2e12 * 0.75) + latency_s);
  item.batch = 2;
  assert_close(kernel_cost_s(&gpu, &item, NULL), 1e9 / 3.2e12 + latency_s);
}

/* A GPU with H100-like numbers and several tiles. */
static Gpu large_gpu(void) {
  Gpu gpu = toy_gpu();
  gpu.n_sms = 132;
  gpu.peak_flops[NUMBER_BF16] = 989e12;
  gpu.hbm_Bps = 3.35e12;
  gpu.k_ramp = 64;
  gpu.tiles[0] = (GpuTile){64, 64, 0.6};
  gpu.tiles[1] = (GpuTile){128, 128, 0.9};
  gpu.tiles[2] = (GpuTile){256, 128, 1.0};
  gpu.n_tiles = 3;
  return gpu;
}

TEST(more_work_never_takes_less_time) {
  Gpu gpu = large_gpu();
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    gint64 batch = g_rand_int_range(random, 1, 20), m = g_rand_int_range(random, 1, 5000);
    gint64 n = g_rand_int_range(random, 1, 5000), k = g_rand_int_range(random, 1, 20000);
    double time_s = product_s(&gpu, batch, m, n, k);
    gint64 more = g_rand_int_range(random, 1, 300);
    ck_assert(product_s(&gpu, batch + more, m, n, k) >= time_s);
    ck_assert(product_s(&gpu, batch, m + more, n, k) >= time_s);
    ck_assert(product_s(&gpu, batch, m, n + more, k) >= time_s);
  }
}

TEST(no_product_beats_the_sustained_peak) {
  Gpu gpu = large_gpu();
  g_autoptr(GRand) random = g_rand_new_with_seed(8);
  for (int i = 0; i < RANDOM_SHAPES; i++) {
    gint64 batch = g_rand_int_range(random, 1, 4), m = g_rand_int_range(random, 1, 9000);
    gint64 n = g_rand_int_range(random, 1, 9000), k = g_rand_int_range(random, 1, 20000);
    double flops = 2.0 * (double)batch * (double)m * (double)n * (double)k;
    ck_assert_double_ge(product_s(&gpu, batch, m, n, k), flops / (989e12 * 0.5) + latency_s);
  }
  /* and a very large one comes within 2 % of it: 2^14 cubed is 64·128 tiles of 256 × 128 on 132 SMs, 62.06 of 63 waves
   */
  double flops = 2 * pow(1 << 14, 3);
  double share = flops / (989e12 * 0.5) / product_s(&gpu, 1, 1 << 14, 1 << 14, 1 << 14);
  ck_assert_double_ge(share, 8192.0 / (63 * 132) * (1 << 14) / ((1 << 14) + 64) - 1e-3);
}

int main(void) {
  return run_tests();
}
