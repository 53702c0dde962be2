/* Tables of measured times in GPU files: a valid one is read completely, sorted; a broken one is refused with its line,
 * whatever the bytes. */
#include "broken_text.h"
#include "measured_fixture.h"
#include "run_suite.h"
#include "work_item.h"

/* What the reader makes of tables. */

TEST(every_table_arrives_sorted) {
  Gpu gpu = {0};
  ck_assert(read_gpu(gpu_text, &gpu, NULL));
  const MeasuredKernels *measured = gpu.measured;
  ck_assert_ptr_nonnull(measured);
  ck_assert_str_eq(measured->source, "made up");
  ck_assert_double_eq(measured->under_load, 0.9);
  ck_assert_int_eq(measured->n_products, 3);
  /* fp32 comes before bf16 */
  const MeasuredProduct *product = &measured->products[0];
  ck_assert(product->number == NUMBER_FP32 && product->layout == LAYOUT_NN && !product->accumulate);
  ck_assert(product->batch == 1 && product->m == 2048 && product->n == 1024 && product->k == 512);
  ck_assert_double_eq_tol(product->time_s, 90e-6, 1e-15);
  ck_assert_double_eq(product->log2_rows, 11);
  product = &measured->products[2];
  ck_assert(product->number == NUMBER_BF16 && product->layout == LAYOUT_NT && product->accumulate);
  int group = measured_group(NUMBER_BF16, LAYOUT_NT, TRUE);
  ck_assert_int_eq(measured->group_first[group], 2);
  ck_assert_int_eq(measured->group_first[group + 1], 3);
  ck_assert_int_eq(measured->n_curves, 2);
  ck_assert_str_eq(measured->curves[measured->generic_curve].name, "memory");
  ck_assert_str_eq(measured->curves[1].name, "norm");
  const CurvePoint *norm = &measured->points[measured->curves[1].span.first_point];
  ck_assert_int_eq(measured->curves[1].span.n_points, 2);
  ck_assert(norm[0].size_bytes == 1048576 && norm[1].size_bytes == 4194304);
  ck_assert_int_eq(measured->n_attention, 2);
  ck_assert(!measured->attention[0].backward && measured->attention[1].backward);
  ck_assert(measured->attention[0].seq_len == 1024 &&
            measured->attention[0].keys == 1024); /* as many, where none are told */
  ck_assert_int_eq(measured->attention[0].v_head_dim, measured->attention[0].head_dim); /* as wide */
  gpu_clear(&gpu);
  ck_assert_ptr_null(gpu.measured);
}

/* Of a pair: forward 2·96 and 2·64; backward three products of 96 and two of 64. */
TEST(flops_of_a_pair_follow_from_both_widths) {
  ck_assert_double_eq(measured_attention_pair_flops(FALSE, 96, 64), 320);
  ck_assert_double_eq(measured_attention_pair_flops(TRUE, 96, 64), 832);
}

/* Of 4 queries: to themselves 1 + 2 + 3 + 4 pairs; to 3 keys before them 4·3; as a half of 8, which have 36 among them,
 * 18. */
TEST(pairs_follow_from_queries_and_keys) {
  ck_assert_double_eq(measured_attention_pairs(4, 4), 10);
  ck_assert_double_eq(measured_attention_pairs(4, 3), 12);
  ck_assert_double_eq(measured_attention_pairs(4, 8), 18);
}

TEST(a_file_without_tables_has_none) {
  Gpu gpu = {0};
  ck_assert(read_gpu(bare_text, &gpu, NULL));
  ck_assert_ptr_null(gpu.measured);
  gpu_clear(&gpu);
}

static const BrokenText breaks[] = {
    {"measured:", "measure:", "did you mean \"measured\"?"},
    {"  under_load: 0.9", "  under_load: 0", "expected a number from 0.05 to 1"},
    {"  under_load: 0.9", "  origin: megatron", "expected one of any, stepreal"},
    {"  under_load: 0.9", "  host_launch: 0 us", "expected 1.000 ns to"},
    {"  products:", "  product:", "did you mean \"products\"?"},
    {"layout: nn", "layout: nnn", "expected one of tn, nn, nt"},
    {"number: fp32", "number: pf32", "did you mean \"fp32\"?"},
    {"number: fp32", "number: fp16", "found number fp16, which peak lacks"},
    {"accumulate: yes", "accumulate: true", "found \"true\", expected one of no, yes"},
    {"m: 512, n: 1024", "m: 0, n: 1024", "expected a whole number from 1 to 1000000000"},
    {"m: 512, n: 1024", "m: 512", "the key \"n\" is missing"},
    {"time: 90 us", "time: 90", "without a unit"},
    {"time: 90 us", "time: 0 us", "expected 1.000 ns to"},
    {"- {number: fp32, layout: nn, m: 2048, n: 1024, k: 512, time: 90 us}",
     "- {number: bf16, layout: tn, m: 2048, n: 512, k: 1024, time: 90 us}",
     "the same was measured twice, first in line"},
    {"bytes: 4194304 B", "bytes: 4194304", "without a unit"},
    {"bytes: 4194304 B", "bytes: 1048576 B", "the same was measured twice", 2},
    {"name: memory", "name: \"\"", "found nothing"},
    {"backward: yes", "backward: no", "the same was measured twice"},
    {"backward: yes, ", "", "the key \"backward\" is missing"},
    {"- {number: bf16, backward: yes, batch: 32, seq_len: 1024, head_dim: 64,",
     "- {number: bf16, backward: no, batch: 32, seq_len: 1024, keys: 1024, head_dim: 64,",
     "the same was measured twice"},
    {"batch: 32, seq_len: 1024, head_dim: 64, time: 40 us",
     "batch: 32, seq_len: 1024, keys: 0, head_dim: 64, time: 40 us", "expected a whole number from 1"},
    {"batch: 32, seq_len: 1024, head_dim: 64, time: 40 us", "batch: 32, seq_len: 1k, head_dim: 64, time: 40 us",
     "found \"1k\""},
};

TEST(broken_tables_are_refused_with_their_line) {
  for (guint i = 0; i < G_N_ELEMENTS(breaks); i++) {
    int line;
    g_autofree char *text = broken_text(gpu_text, &breaks[i], &line);
    g_autoptr(GError) error = NULL;
    Gpu gpu = {0};
    read_gpu(text, &gpu, &error);
    assert_refused(error, path, line, &breaks[i]);
  }
}

TEST(a_mapping_without_a_table_is_refused) {
  const char *tables[] = {"", "  products: []\n", "  kernels: {}\n", "  attention: 7\n"};
  const char *expected[] = {"at least one of products", "found 0 items", "expected a list", "expected a list"};
  for (guint i = 0; i < G_N_ELEMENTS(tables); i++) {
    g_autofree char *text = g_strconcat(bare_text, "measured:\n  source: this test\n", tables[i], NULL);
    g_autoptr(GError) error = NULL;
    Gpu gpu = {0};
    ck_assert(!read_gpu(text, &gpu, &error));
    ck_assert_msg(strstr(error->message, expected[i]) != NULL, "\"%s\"", error->message);
  }
}

/* Whatever the bytes, the reader either returns a GPU or says why not. */
static void assert_answers(const char *text) {
  g_autoptr(GError) error = NULL;
  Gpu gpu = {0};
  gboolean ok = read_gpu(text, &gpu, &error);
  ck_assert(ok == (error == NULL));
  gpu_clear(&gpu);
}

TEST(tables_cut_anywhere_are_read_or_refused) {
  for (gsize length = strlen(bare_text); length < strlen(gpu_text); length++) {
    g_autofree char *text = g_strndup(gpu_text, length);
    assert_answers(text);
  }
}

TEST(tables_with_changed_bytes_are_read_or_refused) {
  gint32 first = (gint32)strlen(bare_text), end = (gint32)strlen(gpu_text);
  g_autoptr(GRand) random = g_rand_new_with_seed(3);
  static const char bytes[] = "{}[]:,-\n 0129abky";
  for (int round = 0; round < 1000; round++) {
    g_autofree char *text = g_strdup(gpu_text);
    for (int i = 0; i < 2; i++)
      text[g_rand_int_range(random, first, end)] = bytes[g_rand_int_range(random, 0, (gint32)sizeof bytes - 1)];
    assert_answers(text);
  }
}

TEST(three_thousand_products_are_read) {
  GString *tables = g_string_new("  products:\n");
  for (int i = 0; i < 3000; i++)
    g_string_append_printf(tables,
                           "    - {number: bf16, layout: tn, accumulate: no, batch: 1, m: %d, n: 512, k: 512, time: "
                           "%d us}\n",
                           3000 - i, i + 1);
  Gpu gpu = gpu_with(tables->str);
  g_string_free(tables, TRUE);
  ck_assert_int_eq(gpu.measured->n_products, 3000);
  for (int i = 0; i < 3000; i++)
    ck_assert_int_eq(gpu.measured->products[i].m, i + 1);
  gpu_clear(&gpu);
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
