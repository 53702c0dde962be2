/* Micro-batches of sequences of drawn lengths: how full they are, by closed forms where there are any, and what
 * attention within documents takes. */
#include "run_suite.h"
#include "small_workloads.h"
#include "text_file.h"

#include <math.h>

/* llama; micro-batches of 2 rows. */
static Workload *workload_with(const char *options) {
  g_autoptr(Plan) plan =
      plan_said("--gpus 1 --tp 1 --dp 1 --pp 1 --chunks 1 --micro-batch 2 --seq-len 512 %s", options);
  plan->n_micro_batches = plan->global_batch / plan->micro_batch / plan->dp;
  plan->gpus = plan->tp * plan->cp * plan->dp * plan->pp;
  return workload_new(&llama, plan, NULL);
}

/* The same with lengths from a file. */
static Workload *workload_with_file(const char *lengths, const char *options) {
  char *path = text_file_new(".txt", lengths, -1);
  g_autofree char *all = g_strdup_printf("%s --seq-lengths %s", options, path);
  Workload *workload = workload_with(all);
  text_file_drop(path);
  return workload;
}

static double padding_share(const Batch *batch) {
  return 1 - (double)batch->tokens / (double)batch->computed;
}

/* Of uniform lengths 1 … L the mean is (L + 1)/2, and of the longer of two (4L + 1)(L + 1)/(6L): with L = 512
 * padding to L wastes 49.9 %, and to the longer 1 − 256.5/341.8 = 25.0 %. */
TEST(padding_has_its_closed_form) {
  g_autoptr(Workload) all = workload_with("--global-batch 8192 --seq-lengths uniform:1-512 --batching padded");
  g_autoptr(Workload) longest = workload_with("--global-batch 8192 --seq-lengths uniform:1-512 --batching longest");
  ck_assert_double_eq_tol(padding_share(all->batch), 0.499, 0.01);
  ck_assert_double_eq_tol(padding_share(longest->batch), 0.250, 0.01);
  ck_assert_ptr_null(all->micro_batches);
  ck_assert_double_eq(workload_tokens(all), (double)longest->batch->tokens);
}

static void assert_rows_hold(const Batch *batch, gint64 room) {
  for (int m = 0; m < batch->n_micro_batches; m++) {
    const MicroBatch *own = batch_at(batch, 0, m);
    gint32 i = 0;
    for (gint64 row = 0; row < own->rows; row++) {
      gint64 tokens = 0;
      for (; i < own->row_ends[row]; i++)
        tokens += batch_padded(batch, own->lengths[i]);
      ck_assert_int_le(tokens, room);
      ck_assert_int_gt(tokens, 0);
    }
    ck_assert_int_eq(i, own->n_sequences);
  }
}

TEST(packed_rows_hold_what_they_can) {
  g_autoptr(Workload) packed = workload_with("--global-batch 256 --seq-lengths lognormal:100+1 --batching packed");
  assert_rows_hold(packed->batch, 512);
  ck_assert_double_lt(padding_share(packed->batch), 0.01);
  g_autoptr(Workload) whole = workload_with("--global-batch 256 --seq-lengths lognormal:100+1 --batching concatenated");
  assert_rows_hold(whole->batch, 512);
  ck_assert_double_eq(padding_share(whole->batch), 0);
}

/* First-fit decreasing of 400, 300, 200, 100: |400 100|, |300 200|; where drawing stops one may be missing. */
TEST(documents_are_packed_longest_first) {
  g_autoptr(Workload) workload =
      workload_with_file("100\n200\n300\n400\n", "--global-batch 1024 --batching packed --micro-batch 1");
  int n_full = 0;
  for (int m = 0; m < 1024; m++) {
    const MicroBatch *own = batch_at(workload->batch, 0, m);
    n_full += own->n_sequences == 2 && own->lengths[0] + own->lengths[1] == 500;
  }
  ck_assert_int_ge(n_full, 1022);
}

/* 512 cuts 700 | 400: |512|, |188 324|, |76 436|: of the next 700. */
TEST(documents_go_on_in_the_next_row) {
  g_autoptr(Workload) workload =
      workload_with_file("700\n400\n", "--global-batch 3 --batching concatenated --micro-batch 1");
  const gint64 expected[] = {512, 188, 324, 76, 436};
  ck_assert_int_eq(workload->batch->n_sequences, 5);
  for (int i = 0; i < 5; i++)
    ck_assert_int_eq(g_array_index(workload->batch->lengths, gint64, i), expected[i]);
  ck_assert_int_eq(workload->batch->n_cut, 3);
}

/* 8, 7, 6, 5, 4, 3, 2, 1 to two ranks, four each: 8 5 4 1 and 7 6 3 2; to two micro-batches each: 8 1 | 5 4, 7 2 |
 * 6 3. */
TEST(balanced_micro_batches_have_equal_tokens) {
  g_autoptr(Workload) workload =
      workload_with_file("1\n2\n3\n4\n5\n6\n7\n8\n", "--global-batch 8 --batching balanced --dp 2");
  for (int dp = 0; dp < 2; dp++)
    for (int m = 0; m < 2; m++) {
      ck_assert_int_eq(batch_at(workload->batch, dp, m)->rows, 1);
      ck_assert_int_eq(batch_at(workload->batch, dp, m)->row_tokens, 9);
    }
  ck_assert(!batch_ranks_are_alike(workload->batch));
}

TEST(longer_sequences_are_cut) {
  g_autoptr(Workload) workload = workload_with_file("900\n512\n513\n1\n", "--global-batch 4 --batching longest");
  ck_assert_int_eq(workload->batch->n_cut, 2);
  ck_assert_int_eq(workload->batch->tokens, 512 + 512 + 512 + 1);
}

static double attention_flops(const Workload *workload, gint32 lengths, Phase phase) {
  const WorkList *list = workload_list(workload, lengths, PIECE_LAYER, phase);
  double flops = 0;
  for (int i = 0; i < list->n_items; i++)
    flops += list->items[i].kind == ITEM_ATTENTION ? list->items[i].flops : 0;
  return flops;
}

/* Σ l(l + 1)/2 pairs in each of 16 heads, at 2·(64 + 64) FLOPs forward and 10·64 backward; the products are those of
 * full rows. */
TEST(attention_is_that_of_documents) {
  g_autoptr(Workload) workload =
      workload_with_file("200\n112\n150\n50\n400\n12\n100\n", "--global-batch 4 --batching concatenated");
  const gint64 first[] = {200, 112, 150, 50, 400, 12, 100}; /* two rows of 512 */
  double pairs = 0;
  for (int i = 0; i < 7; i++)
    pairs += (double)first[i] * (double)(first[i] + 1) / 2;
  ck_assert_double_eq_tol(attention_flops(workload, 1, PHASE_F), 16 * pairs * 2 * (64 + 64), 1);
  ck_assert_double_eq_tol(attention_flops(workload, 1, PHASE_B), 16 * pairs * 10 * 64, 1);
  const WorkItem *qkv = find(workload_list(workload, 1, PIECE_LAYER, PHASE_F), "qkv"),
                 *whole = find(&workload->work[PIECE_LAYER][PHASE_F], "qkv");
  ck_assert_double_eq(qkv->flops, whole->flops);
  ck_assert_double_eq(workload->micro_batches[0].boundary_bytes, workload->boundary_bytes);
  ck_assert_double_eq(workload->micro_batches[0].memory[PIECE_LAYER].saved_bytes,
                      workload->memory[PIECE_LAYER].saved_bytes);
}

/* Quarters of a row of 512 with documents of 384 and 128, q = 128: pairs T, q² + T, 2q² + T and T with T = q(q + 1)/2.
 * An all-gather's ranks have the first and last, and the others: 2T and 3q² + 2T. In a ring a rank has half of each
 * document: (3T' + T'')/…, the same on both. */
TEST(documents_unbalance_rows_that_are_cut_but_not_a_ring) {
  const char *const options = "--global-batch 2 --micro-batch 1 --cp 2 --batching concatenated --cp-comm";
  const double q = 128, triangle = q * (q + 1) / 2, pair_flops = 16 * 2 * (64 + 64);
  g_autofree char *of_gather = g_strdup_printf("%s all_gather", options),
                  *of_ring = g_strdup_printf("%s ring", options), *of_heads = g_strdup_printf("%s ulysses", options);
  g_autoptr(Workload) gather = workload_with_file("384\n128\n", of_gather);
  ck_assert_double_eq_tol(attention_flops(gather, 1, PHASE_F), (3 * q * q + 2 * triangle) * pair_flops, 1);
  g_autoptr(Workload) ring = workload_with_file("384\n128\n", of_ring);
  const double ring_pairs = 192 * 193 / 2. + 192 * 96 + 64 * 65 / 2. + 64 * 32;
  ck_assert_double_eq_tol(attention_flops(ring, 1, PHASE_F), ring_pairs * pair_flops, 1);
  g_autoptr(Workload) heads = workload_with_file("384\n128\n", of_heads);
  ck_assert_double_eq_tol(attention_flops(heads, 1, PHASE_F), (384 * 385 / 2. + 128 * 129 / 2.) * pair_flops / 2, 1);
}

/* 6 FLOPs a parameter of a product and token, 12·q a pair; tokens without padding. */
TEST(model_flops_count_tokens_without_padding) {
  g_autoptr(Workload) padded = workload_with_file("512\n256\n", "--global-batch 4 --batching padded");
  g_autoptr(Workload) plain = workload_with("--global-batch 4");
  const double pairs = 2 * (512 * 513 / 2. + 256 * 257 / 2.), of_plain = 4 * 512 * 513 / 2.;
  const double attention = 3. * 8 * 4 * 1024; /* layers, 4·q */
  ck_assert_double_eq_tol(workload_model_flops(padded) - attention * pairs,
                          (workload_model_flops(plain) - attention * of_plain) * 0.75, 1e3);
}

int main(void) {
  return run_tests();
}
