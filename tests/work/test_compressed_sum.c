/* What is sent and kept instead of gradients: closed forms, and what papers print. */
#include "compressed_sum.h"
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"

static GradCompression compression(const char *text) {
  GradCompression how;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(grad_compression_parse("--compress-grad", text, &how, &error), "%s",
                error != NULL ? error->message : "");
  ck_assert_str_eq(grad_compression_text(&how), text);
  return how;
}

static double sent(const char *text, double elements, double gradient_bytes, int n_ranks) {
  const GradCompression how = compression(text);
  const CompressedSum sum = {elements, {0}};
  return compressed_sent_bytes(&how, &sum, gradient_bytes, n_ranks);
}

static double kept(const char *text, double elements, double gradient_bytes, int n_ranks) {
  const GradCompression how = compression(text);
  const CompressedSum sum = {elements, {0}};
  return compressed_state_bytes(&how, &sum, gradient_bytes, n_ranks);
}

/* A ring's 2·(N − 1)/N of 4 bytes, or of 2; (N − 1)/N of what all N have. */
TEST(bytes_are_the_closed_forms) {
  ck_assert_double_eq(sent("none", 1e6, 4, 8), 2 * 7. / 8 * 4e6);
  ck_assert_double_eq(sent("bf16", 1e6, 4, 8), 2 * 7. / 8 * 2e6);
  ck_assert_double_eq(sent("topk:0.01", 1e6, 4, 8), 7 * 1e4 * (4 + 4));
  ck_assert_double_eq(sent("topk:0.01", 1e6, 2, 8), 7 * 1e4 * (2 + 4));
  ck_assert_double_eq(sent("topk:0.1", 1000, 4, 2), 100 * 8); /* not 101, as 0.1 is a little more than a tenth */
  ck_assert_double_eq(sent("topk:0.01", 101, 4, 2), 2 * 8);   /* the hundredth and one more */
  ck_assert_double_eq(sent("onebit", 64e6, 4, 8), 2 * 7. / 8 * (64e6 / 8 + 8 * 4));
  ck_assert_double_eq(sent("onebit", 1, 4, 8), 2 * 7. / 8 * (8 + 8 * 4)); /* a byte for each rank */
}

TEST(errors_are_kept_and_nothing_on_a_single_rank) {
  ck_assert_double_eq(kept("topk:0.5", 1e6, 4, 8), 4e6);
  ck_assert_double_eq(kept("topk:0.5", 1e6, 2, 8), 2e6);
  ck_assert_double_eq(kept("onebit", 1e6, 2, 8), 4e6 + 4e6 / 8);
  ck_assert_double_eq(kept("bf16", 1e6, 4, 8), 0);
  ck_assert_double_eq(kept("onebit", 1e6, 4, 1), 0);
  ck_assert_double_eq(sent("onebit", 1e6, 4, 1), 0);
}

/* Table 3 of PowerSGD (arXiv 1905.13727, 2019) and its appendix: an LSTM with 28,869 words, three layers of 650 whose
 * four gates each have a matrix for the input and one for the state, and their biases; the output's bias. Sent: 310,
 * 203 and 120 times less than gradients. */
TEST(powersgd_sends_what_its_paper_says_of_an_lstm) {
  static const struct {
    int rank;
    double times_less;
  } rows[] = {{1, 310}, {2, 203}, {4, 120}};
  for (gsize i = 0; i < G_N_ELEMENTS(rows); i++) {
    g_autofree char *text = g_strdup_printf("powersgd:%d", rows[i].rank);
    const GradCompression how = compression(text), none = {0};
    CompressedSum sum = {28869 + 3 * 2 * 2600, {0}};
    low_rank_add(&sum.low_rank, 1, 28869, 650, how.rank);
    low_rank_add(&sum.low_rank, 6, 2600, 650, how.rank);
    sum.elements += sum.low_rank.elements;
    const double times = compressed_sent_bytes(&none, &sum, 4, 16) / compressed_sent_bytes(&how, &sum, 4, 16);
    ck_assert_msg(fabs(times - rows[i].times_less) < 0.6, "rank %d: %g", rows[i].rank, times);
  }
}

TEST(a_rank_is_at_most_that_of_the_matrix) {
  LowRank sum = {0};
  low_rank_add(&sum, 2, 8, 100, 16);
  ck_assert_double_eq(sum.rows, 2 * 8 * 8);
  ck_assert_double_eq(sum.columns, 2 * 8 * 100);
  ck_assert_double_eq(sum.elements, 2 * 800);
}

static Workload *compressing(const Model *model, int tp, const char *options) {
  g_autoptr(Plan) plan = plan_of(tp, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan_say(plan, "%s", options);
  return workload_new(model, plan, NULL);
}

/* llama: hidden 1024, Q of 1024 columns, K and V of 512, an MLP of 2816, on 2 tp ranks. What is in no matrix are its
 * two norms. */
TEST(a_layers_matrices_are_those_that_it_multiplies_by) {
  g_autoptr(Workload) workload = compressing(&llama, 2, "--dp 2 --compress-grad powersgd:4");
  const LowRank *layer = &workload->low_rank[PIECE_LAYER];
  ck_assert_double_eq(layer->n, 4);
  ck_assert_double_eq(layer->rows + layer->columns, 4 * ((1024 + 1024) + (1024 + 512) + (1024 + 2816) + (1024 + 1408)));
  ck_assert_double_eq((double)workload->trained[PIECE_LAYER] - layer->elements, 2 * 1024);
  /* the head's matrix, and its norm */
  ck_assert_double_eq((double)workload->trained[PIECE_HEAD] - workload->low_rank[PIECE_HEAD].elements, 1024);
}

/* 4 bytes of gradients: the errors, and P and Q. */
TEST(a_ranks_optimizer_state_has_them) {
  g_autoptr(Workload) plain = compressing(&llama, 1, "--dp 2 --recipe megatron");
  g_autoptr(Workload) powersgd = compressing(&llama, 1, "--dp 2 --recipe megatron --compress-grad powersgd:4");
  g_autoptr(Workload) onebit = compressing(&llama, 1, "--dp 2 --recipe megatron --compress-grad onebit");
  const double n = (double)plain->stages[0].trained, before = workload_stage_state(plain, 0, 0).optimizer_bytes;
  double sides = 0;
  for (int piece = 0; piece < N_PIECES; piece++) {
    const int count =
        piece == PIECE_LAYER ? plain->stages[0].layers.n_layers : piece == PIECE_EMBEDDING || piece == PIECE_HEAD;
    sides += count * (powersgd->low_rank[piece].rows + powersgd->low_rank[piece].columns);
  }
  ck_assert_double_gt(sides, 0);
  ck_assert_double_eq(workload_stage_state(powersgd, 0, 0).optimizer_bytes, before + 4 * (n + sides));
  ck_assert_double_eq(workload_stage_state(onebit, 0, 0).optimizer_bytes, before + 4 * (n + n / 2));
}

int main(void) {
  return run_tests();
}
