/* Times interpolated from tables as cost/kernels/measured_cost.h says, with numbers derived by hand. The toy model is
 * smooth: one FLOP per picosecond, one byte per nanosecond. */
#include "measured_cost.h"
#include "run_suite.h"

#include <math.h>

#include "measured_fixture.h"

static double toy_model_s(const Gpu *gpu, const WorkItem *item) {
  return item->kind == ITEM_MEMORY ? item->bytes * 1e-9 : item->flops * 1e-12;
}

static double bytes_model_s(const Gpu *gpu, const WorkItem *item) {
  return item->bytes * 1e-9;
}

static WorkItem product_item(MatmulLayout layout, gboolean accumulate, gint64 batch, gint64 m, gint64 n, gint64 k) {
  return (WorkItem){.kind = ITEM_MATMUL,
                    .number = NUMBER_BF16,
                    .layout = layout,
                    .accumulate = accumulate != 0,
                    .batch = batch,
                    .m = m,
                    .n = n,
                    .k = k,
                    .flops = 2.0 * batch * m * n * k};
}

static WorkItem forward(gint64 m, gint64 n, gint64 k) {
  return product_item(LAYOUT_TN, FALSE, 1, m, n, k);
}

static void assert_cost(const Gpu *gpu, WorkItem item, double expected_s, CostSource expected_source) {
  CostSource source;
  double found_s = measured_cost_s(gpu, &item, toy_model_s, &source);
  ck_assert_int_eq(source, expected_source);
  ck_assert_double_eq_tol(found_s / expected_s, 1, 1e-12);
}

/* Seconds the toy model gives to m × n × k. */
static double toy_s(double m, double n, double k) {
  return 2 * m * n * k * 1e-12;
}

TEST(a_measured_product_takes_its_time) {
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, m: 1024, n: 1024, k: 1024, time: 5 ms}\n"
                     "    - {number: bf16, layout: tn, batch: 4, m: 256, n: 1024, k: 1024, time: 6 ms}\n"
                     "    - {number: bf16, layout: nt, m: 1024, n: 1024, k: 1024, time: 7 ms}\n"
                     "    - {number: bf16, layout: nt, accumulate: yes, m: 1024, n: 1024, k: 1024, time: 8 ms}\n"
                     "    - {number: fp32, layout: tn, m: 1024, n: 1024, k: 1024, time: 9 ms}\n");
  assert_cost(&gpu, forward(1024, 1024, 1024), 5e-3, COST_MEASURED);
  assert_cost(&gpu, product_item(LAYOUT_TN, FALSE, 4, 256, 1024, 1024), 6e-3, COST_MEASURED);
  assert_cost(&gpu, product_item(LAYOUT_NT, FALSE, 1, 1024, 1024, 1024), 7e-3, COST_MEASURED);
  assert_cost(&gpu, product_item(LAYOUT_NT, TRUE, 1, 1024, 1024, 1024), 8e-3, COST_MEASURED);
  WorkItem single = forward(1024, 1024, 1024);
  single.number = NUMBER_FP32;
  assert_cost(&gpu, single, 9e-3, COST_MEASURED);
  gpu_clear(&gpu);
}

TEST(one_neighbour_lends_its_ratio) {
  /* 2·1024³ FLOP are 2.147483648 ms of the toy model; measured 3 times that */
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, m: 1024, n: 1024, k: 1024, time: 6442.450944 us}\n");
  assert_cost(&gpu, forward(2048, 1024, 1024), 3 * toy_s(2048, 1024, 1024), COST_INTERPOLATED);
  assert_cost(&gpu, forward(1024, 600, 700), 3 * toy_s(1024, 600, 700), COST_INTERPOLATED);
  /* two octaves away the model is alone: log2 4 = 2 = R in one dimension, √3·log2 2.25 = 2.03 in all three */
  assert_cost(&gpu, forward(4096, 1024, 1024), toy_s(4096, 1024, 1024), COST_MODELLED);
  assert_cost(&gpu, forward(2304, 2304, 2304), toy_s(2304, 2304, 2304), COST_MODELLED);
  assert_cost(&gpu, forward(2304, 2304, 2048), 3 * toy_s(2304, 2304, 2048), COST_INTERPOLATED);
  /* and other formats are other things */
  WorkItem single = forward(2048, 1024, 1024);
  single.number = NUMBER_FP32;
  assert_cost(&gpu, single, toy_s(2048, 1024, 1024), COST_MODELLED);
  gpu_clear(&gpu);
}

TEST(neighbours_weigh_by_distance) {
  /* model(512, 1024, 1024) = 1073.741824 us, measured ×2; model(2048, 1024, 1024) = 4294.967296 us, measured ×8.
   * In the middle, an octave from either: ×√(2·8) = ×4. */
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, m: 512, n: 1024, k: 1024, time: 2147.483648 us}\n"
                     "    - {number: bf16, layout: tn, m: 2048, n: 1024, k: 1024, time: 34359.738368 us}\n");
  assert_cost(&gpu, forward(1024, 1024, 1024), 4 * toy_s(1024, 1024, 1024), COST_INTERPOLATED);
  gpu_clear(&gpu);
  /* ×2 an octave away (w = 1 − 1/2) and ×8 an octave away in each of two dimensions (d = √2, w = 1/√2 − 1/2):
   * ×2^((0.5·1 + 0.2071068·3) / 0.7071068) = ×2^1.5857864. */
  gpu = gpu_with("  products:\n"
                 "    - {number: bf16, layout: tn, m: 512, n: 1024, k: 1024, time: 2147.483648 us}\n"
                 "    - {number: bf16, layout: tn, m: 2048, n: 2048, k: 1024, time: 68719.476736 us}\n");
  double exponent = (0.5 + 3 * (sqrt(0.5) - 0.5)) / sqrt(0.5);
  ck_assert_double_eq_tol(exponent, 1.5857864, 1e-7);
  assert_cost(&gpu, forward(1024, 1024, 1024), exp2(exponent) * toy_s(1024, 1024, 1024), COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(one_row_more_than_measured_takes_nearly_the_measured_time) {
  /* ×2 at 2048 rows, ×4 an octave to either side. A row is log2(2049/2048) = 7.04e-4 octaves: w = 1420 against 1/2 for
   * each of the others, so ×2^(1 + 1/1421): half a thousandth more. */
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, m: 2048, n: 1024, k: 1024, time: 8589.934592 us}\n"
                     "    - {number: bf16, layout: tn, m: 4096, n: 1024, k: 1024, time: 34359.738368 us}\n"
                     "    - {number: bf16, layout: tn, m: 1024, n: 1024, k: 1024, time: 8589.934592 us}\n");
  for (int rows = 2047; rows <= 2049; rows++) {
    WorkItem item = forward(rows, 1024, 1024);
    CostSource source;
    double ratio = measured_cost_s(&gpu, &item, toy_model_s, &source) / toy_s(rows, 1024, 1024);
    ck_assert_double_eq_tol(ratio, 2, 1.1e-3);
    ck_assert_int_eq(source, rows == 2048 ? COST_MEASURED : COST_INTERPOLATED);
  }
  gpu_clear(&gpu);
}

TEST(time_grows_with_size_between_measured_sizes) {
  /* ratios that fall from ×2 to ×1 over two octaves of rows, less steeply than the work grows */
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, m: 1024, n: 1024, k: 1024, time: 4294.967296 us}\n"
                     "    - {number: bf16, layout: tn, m: 2048, n: 1024, k: 1024, time: 6000 us}\n"
                     "    - {number: bf16, layout: tn, m: 4096, n: 1024, k: 1024, time: 8589.934592 us}\n");
  double before_s = 0;
  for (int rows = 1024; rows <= 4096; rows += 8) {
    WorkItem item = forward(rows, 1024, 1024);
    CostSource source;
    double time_s = measured_cost_s(&gpu, &item, toy_model_s, &source);
    ck_assert_msg(time_s > before_s, "%d rows: %g after %g", rows, time_s, before_s);
    before_s = time_s;
  }
  gpu_clear(&gpu);
}

/* Products of 1024 columns and depth, at `rows[i]`, measured at ratios[i] of the toy model. */
static Gpu gpu_with_rows(const int *rows, const double *ratios, int n) {
  GString *tables = g_string_new("  products:\n");
  for (int i = 0; i < n; i++)
    g_string_append_printf(tables, "    - {number: bf16, layout: tn, m: %d, n: 1024, k: 1024, time: %.6f us}\n",
                           rows[i], ratios[i] * toy_s(rows[i], 1024, 1024) * 1e6);
  Gpu gpu = gpu_with(tables->str);
  g_string_free(tables, TRUE);
  return gpu;
}

TEST(only_the_nearest_eight_have_a_say) {
  /* Nine near 1024 rows at ×2, the ninth (1124, the furthest) and a tenth at ×100. */
  const int rows[] = {980, 990, 1000, 1010, 1040, 1050, 1060, 1070, 1124, 2000};
  const double ratios[] = {2, 2, 2, 2, 2, 2, 2, 2, 100, 100};
  Gpu gpu = gpu_with_rows(rows, ratios, 10);
  WorkItem item = forward(1024, 1024, 1024);
  CostSource source;
  double ratio = measured_cost_s(&gpu, &item, toy_model_s, &source) / toy_s(1024, 1024, 1024);
  ck_assert_double_eq_tol(ratio, 2, 1e-6); /* times are written to a picosecond */
  gpu_clear(&gpu);
  gpu = gpu_with_rows(rows, ratios, 8);
  ratio = measured_cost_s(&gpu, &item, toy_model_s, &source) / toy_s(1024, 1024, 1024);
  ck_assert_double_eq_tol(ratio, 2, 1e-6);
  gpu_clear(&gpu);
}

TEST(other_layouts_serve_where_the_own_one_is_far) {
  /* nn at the very shape ×3; tn four octaves away ×7: the former serves. tn an octave away: that one. */
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: nn, m: 1024, n: 1024, k: 1024, time: 6442.450944 us}\n"
                     "    - {number: bf16, layout: tn, m: 16384, n: 1024, k: 1024, time: 240518.168576 us}\n");
  assert_cost(&gpu, forward(1024, 1024, 1024), 3 * toy_s(1024, 1024, 1024), COST_INTERPOLATED);
  assert_cost(&gpu, product_item(LAYOUT_NT, TRUE, 1, 1024, 1024, 1024), 3 * toy_s(1024, 1024, 1024), COST_INTERPOLATED);
  assert_cost(&gpu, forward(8192, 1024, 1024), 7 * toy_s(8192, 1024, 1024), COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(a_batch_of_as_many_rows_is_near) {
  Gpu gpu = gpu_with("  products:\n"
                     "    - {number: bf16, layout: tn, batch: 4, m: 256, n: 1024, k: 1024, time: 6442.450944 us}\n");
  assert_cost(&gpu, forward(1024, 1024, 1024), 3 * toy_s(1024, 1024, 1024), COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(a_neighbours_traffic_is_in_proportion) {
  /* A, B, C of 1024² elements each in 6 MiB: 2 bytes an element. At 2048 rows they have 2 + 1 + 2 M: 10 MiB. A model
   * of a nanosecond a byte gives 10485.76 us; measured ×2. */
  Gpu gpu =
      gpu_with("  products:\n"
               "    - {number: bf16, layout: tn, m: 2048, n: 1024, k: 1024, time: 20971.52 us}\n"
               "    - {number: bf16, layout: nt, accumulate: yes, m: 2048, n: 1024, k: 1024, time: 29360.128 us}\n");
  WorkItem item = forward(1024, 1024, 1024);
  item.bytes = 6 << 20;
  CostSource source;
  ck_assert_double_eq_tol(measured_cost_s(&gpu, &item, bytes_model_s, &source) / (2 * item.bytes * 1e-9), 1, 1e-12);
  /* accumulated, C counts twice: 4 M elements in 8 MiB, and 7 M in 14 MiB at 2048 rows: 14680.064 us, measured ×2 */
  item = product_item(LAYOUT_NT, TRUE, 1, 1024, 1024, 1024);
  item.bytes = 8 << 20;
  ck_assert_double_eq_tol(measured_cost_s(&gpu, &item, bytes_model_s, &source) / (2 * item.bytes * 1e-9), 1, 1e-12);
  gpu_clear(&gpu);
}

TEST(a_table_of_a_cool_gpu_says_so) {
  Gpu gpu = gpu_with("  under_load: 0.8\n"
                     "  products:\n"
                     "    - {number: bf16, layout: tn, m: 1024, n: 1024, k: 1024, time: 6442.450944 us}\n"
                     "  kernels:\n"
                     "    - {name: norm, bytes: 1 kB, time: 40 us}\n"
                     "  attention:\n"
                     "    - {number: bf16, backward: no, batch: 8, seq_len: 256, head_dim: 64, time: 50 us}\n");
  assert_cost(&gpu, forward(1024, 1024, 1024), 6442.450944e-6 / 0.8, COST_MEASURED);
  assert_cost(&gpu, forward(2048, 1024, 1024), 3 / 0.8 * toy_s(2048, 1024, 1024), COST_INTERPOLATED);
  assert_cost(&gpu, forward(8192, 1024, 1024), toy_s(8192, 1024, 1024), COST_MODELLED);
  /* products alone: the power limit hardly touches the others */
  assert_cost(&gpu, (WorkItem){.kind = ITEM_MEMORY, .name = "norm", .bytes = 1000}, 40e-6, COST_MEASURED);
  WorkItem attention = {.kind = ITEM_ATTENTION, .number = NUMBER_BF16, .batch = 8, .m = 256, .n = 256, .k = 64};
  assert_cost(&gpu, attention, 50e-6, COST_MEASURED);
  gpu_clear(&gpu);
}

static const char curves[] = "  kernels:\n"
                             "    - {name: norm, bytes: 1 MB, time: 10 us}\n"
                             "    - {name: norm, bytes: 2 MB, time: 14 us}\n"
                             "    - {name: norm, bytes: 8 MB, time: 50 us}\n";

static void assert_memory_cost(const Gpu *gpu, const char *name, double bytes, double expected_s, CostSource source) {
  assert_cost(gpu, (WorkItem){.kind = ITEM_MEMORY, .name = name, .bytes = bytes}, expected_s, source);
}

TEST(a_memory_kernel_follows_its_curve) {
  Gpu gpu = gpu_with(curves);
  assert_memory_cost(&gpu, "norm", 1e6, 10e-6, COST_MEASURED);
  assert_memory_cost(&gpu, "norm", 1.5e6, 12e-6, COST_MEASURED); /* half way from 10 to 14 */
  assert_memory_cost(&gpu, "norm", 2e6, 14e-6, COST_MEASURED);
  assert_memory_cost(&gpu, "norm", 4e6, 26e-6, COST_MEASURED); /* a third of the way from 14 to 50 */
  assert_memory_cost(&gpu, "norm", 8e6, 50e-6, COST_MEASURED);
  /* above: 50 us per 8 MB. Below: the fixture's kernels take 3 us at least, so 3 + (10 − 3)/2 at half of 1 MB. */
  assert_memory_cost(&gpu, "norm", 16e6, 100e-6, COST_INTERPOLATED);
  assert_memory_cost(&gpu, "norm", 0.5e6, 6.5e-6, COST_INTERPOLATED);
  assert_memory_cost(&gpu, "norm", 0, 3e-6, COST_INTERPOLATED);
  /* others have no curve here */
  assert_memory_cost(&gpu, "gelu", 3e6, 3e-3, COST_MODELLED);
  assert_memory_cost(&gpu, "norm.backward", 3e6, 3e-3, COST_MODELLED);
  gpu_clear(&gpu);
}

TEST(a_first_point_below_the_latency_is_the_floor) {
  Gpu gpu = gpu_with("  kernels:\n    - {name: norm, bytes: 1 MB, time: 2 us}\n"); /* the file's latency: 3 us */
  assert_memory_cost(&gpu, "norm", 0.25e6, 2e-6, COST_INTERPOLATED);
  assert_memory_cost(&gpu, "norm", 3e6, 6e-6, COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(a_kernel_without_a_curve_takes_the_generic_one) {
  g_autofree char *tables = g_strconcat(curves, "    - {name: memory, bytes: 1 MB, time: 20 us}\n", NULL);
  Gpu gpu = gpu_with(tables);
  assert_memory_cost(&gpu, "norm", 1e6, 10e-6, COST_MEASURED);
  assert_memory_cost(&gpu, "adam", 1e6, 20e-6, COST_MEASURED);
  assert_memory_cost(&gpu, NULL, 3e6, 60e-6, COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(a_memory_kernel_never_gets_faster_with_size) {
  Gpu gpu = gpu_with(curves);
  double before_s = 0;
  for (double bytes = 1; bytes < 1e9; bytes *= 1.01) {
    WorkItem item = {.kind = ITEM_MEMORY, .name = "norm", .bytes = bytes};
    CostSource source;
    double time_s = measured_cost_s(&gpu, &item, toy_model_s, &source);
    ck_assert_double_ge(time_s, before_s);
    before_s = time_s;
  }
  gpu_clear(&gpu);
}

/* `flops` as the workload counts them: batch·s(s+1)/2 pairs, 4·d each. */
static WorkItem attention_item(gboolean backward, gint64 batch, gint64 s, gint64 d) {
  return (WorkItem){.kind = ITEM_ATTENTION,
                    .number = NUMBER_BF16,
                    .backward = backward != 0,
                    .batch = batch,
                    .m = s,
                    .n = s,
                    .k = d,
                    .flops = batch * (s * (s + 1.0) / 2) * 4 * d};
}

TEST(attention_takes_the_nearest_ones_ratio) {
  /* Toy model: 8·(256·257/2)·4·64 FLOP = 67.371008 us, measured ×2; 32·(1024·1025/2)·4·64 = 4299.161600 us, ×4;
   * backward ×10; head size 128 at 8 × 300 tokens, ×9. */
  Gpu gpu = gpu_with("  attention:\n"
                     "    - {number: bf16, backward: no, batch: 8, seq_len: 256, head_dim: 64, time: 134.742016 us}\n"
                     "    - {number: bf16, backward: no, batch: 32, seq_len: 1024, head_dim: 64, time: 17196.6464 us}\n"
                     "    - {number: bf16, backward: yes, batch: 8, seq_len: 256, head_dim: 64, time: 673.71008 us}\n"
                     "    - {number: bf16, backward: no, batch: 8, seq_len: 300, head_dim: 128, time: 1664.4096 us}\n");
  assert_cost(&gpu, attention_item(FALSE, 8, 256, 64), 134.742016e-6, COST_MEASURED);
  WorkItem item = attention_item(FALSE, 16, 300, 64); /* 1.02 octaves from the first, 2.04 from the second */
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_INTERPOLATED);
  item = attention_item(FALSE, 16, 1024, 64); /* 1 from the second */
  assert_cost(&gpu, item, 4 * item.flops * 1e-12, COST_INTERPOLATED);
  item = attention_item(FALSE, 8, 300, 64); /* head size 128 was measured right there, 64 is preferred */
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_INTERPOLATED);
  item = attention_item(TRUE, 32, 1024, 64);
  assert_cost(&gpu, item, 10 * item.flops * 1e-12, COST_INTERPOLATED);
  item = attention_item(FALSE, 8, 300, 96); /* no such head size: the nearest in batch and length */
  assert_cost(&gpu, item, 1664.4096e-6 / (8 * (300 * 301.0 / 2) * 4 * 128e-12) * item.flops * 1e-12, COST_INTERPOLATED);
  item.number = NUMBER_FP32; /* another format is another kernel */
  assert_cost(&gpu, item, item.flops * 1e-12, COST_MODELLED);
  item = attention_item(FALSE, 8, 256, 64); /* all pairs of 256 queries and 2048 keys are not what was measured */
  item.n = 2048;
  item.flops = 8 * 256 * 2048 * 4 * 64.0;
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_INTERPOLATED);
  item = attention_item(FALSE, 8, 256, 64); /* nor are those that a window leaves */
  item.windowed = TRUE;
  item.flops /= 4;
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_INTERPOLATED);
  gpu_clear(&gpu);
}

/* 8 heads of 64: 256 queries to themselves 67.371008 us, measured ×2; to 128 before them 8·256·128·4·64 = 67.108864 us,
 * ×3; as a share of 1024 tokens 8·256·1025/2·4·64 = 268.6976 us, ×5. */
TEST(attention_to_fewer_or_more_keys_is_a_kernel_of_its_own) {
#define BLOCK "    - {number: bf16, backward: no, batch: 8, head_dim: 64, seq_len: 256, "
  Gpu gpu = gpu_with("  attention:\n" BLOCK "time: 134.742016 us}\n" BLOCK "keys: 128, time: 201.326592 us}\n" BLOCK
                     "keys: 1024, time: 1343.488 us}\n");
  static const gint64 cases[][3] = {{256, 256, 2}, {256, 128, 3}, {256, 1024, 5}, {512, 1024, 5}, {128, 64, 3}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    WorkItem item = attention_item(FALSE, 8, cases[i][0], 64);
    item.flops = 8 * measured_attention_pairs(item.m, item.n = cases[i][1]) * 4 * 64;
    assert_cost(&gpu, item, cases[i][2] * item.flops * 1e-12, i < 3 ? COST_MEASURED : COST_INTERPOLATED);
  }
  gpu_clear(&gpu);
}

/* 8 heads of 256 tokens, 192 columns of Q and K, 128 of V: 8·(256·257/2)·2·(192 + 128) = 168.427520 us, measured ×2;
 * 192 of V, too: ×7. */
TEST(heads_of_v_with_their_own_width_are_a_kernel_of_its_own) {
#define HEADS "    - {number: bf16, backward: no, batch: 8, seq_len: 256, head_dim: 192, "
  Gpu gpu = gpu_with("  attention:\n" HEADS "v_head_dim: 128, time: 336.85504 us}\n" HEADS "time: 1414.791168 us}\n");
  WorkItem item = attention_item(FALSE, 8, 256, 192);
  assert_cost(&gpu, item, 7 * item.flops * 1e-12, COST_MEASURED);
  item.v_dim = 128;
  item.flops *= (192.0 + 128) / (2 * 192);
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_MEASURED);
  item.batch *= 2;
  item.flops *= 2;
  assert_cost(&gpu, item, 2 * item.flops * 1e-12, COST_INTERPOLATED);
  gpu_clear(&gpu);
}

TEST(without_tables_the_model_is_alone) {
  Gpu gpu = {0};
  ck_assert(read_gpu(bare_text, &gpu, NULL));
  assert_cost(&gpu, forward(1024, 1024, 1024), toy_s(1024, 1024, 1024), COST_MODELLED);
  assert_memory_cost(&gpu, "norm", 3e6, 3e-3, COST_MODELLED);
  WorkItem item = attention_item(FALSE, 8, 256, 64);
  assert_cost(&gpu, item, item.flops * 1e-12, COST_MODELLED);
  gpu_clear(&gpu);
}

int main(void) {
  TCase *cases = listed_tests();
  tcase_add_checked_fixture(cases, set_up, tear_down);
  return run_case("measured_cost", cases);
}
