/* Data as a stream: a step takes what readers need where that is longer, and otherwise what it takes without. */
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "verify.h"

#include <math.h>

/* Micro-batches of one sequence of 512 tokens. */
static Prediction *predict_with(const char *options, const char *data) {
  g_autoptr(Plan) plan = plan_said("--seq-len 512 --steps 3 --global-batch 16 %s --data %s", options, data);
  return predict_plan(&llama, shipped_cluster("selene"), plan);
}

static void assert_step_s(const Prediction *prediction, double expected_s) {
  ck_assert_msg(fabs(prediction->step_time_s - expected_s) < 1e-8, "%.17g s", prediction->step_time_s);
}

static double other_s(const Prediction *prediction) {
  return prediction->metrics->mean_s[BREAKDOWN_OTHER];
}

/* 16 sequences of 1 GB: 16 s at 1 GB/s, whichever rank reads them; none of a replica's ranks waits for anything else
 * but its kernels, its own gradients and the host's reading of the loss. */
TEST(storage_that_is_slower_than_a_step_sets_its_time) {
  g_autoptr(Prediction) alone = predict_with("--dp 4", "none");
  g_autoptr(Prediction) late = predict_with("--dp 4", "1GB+storage=1GB/s");
  assert_step_s(late, 16);
  ck_assert_double_gt(other_s(late), 16 - alone->step_time_s - 1e-3);
  ck_assert_double_lt(other_s(late), 16);
}

/* 4 micro-batches a replica; 3 s for each of two readers: one every 1.5 s. With six readers, every 0.5 s. */
TEST(readers_share_the_samples_of_their_rank) {
  g_autoptr(Prediction) two = predict_with("--dp 4", "1kB+time=3s+storage=1GB/s");
  assert_step_s(two, 6);
  g_autoptr(Prediction) six = predict_with("--dp 4", "1kB+readers=6+time=3s+storage=1GB/s");
  assert_step_s(six, 2);
}

/* First and last stage both read all of it: 32 GB. */
TEST(both_ends_of_a_pipeline_read) {
  g_autoptr(Prediction) late = predict_with("--pp 2 --schedule 1f1b", "1GB+storage=2GB/s");
  assert_step_s(late, 16);
}

/* gpipe takes 16 micro-batches in a row, of which 2 stand in one reader's queue, and none while it goes back: the
 * others are late although a step is long enough for all 16. */
TEST(forwards_in_a_row_outrun_readers_that_would_keep_up_with_others) {
  g_autoptr(Prediction) alone = predict_with("--pp 2 --schedule gpipe", "none");
  g_autofree char *data = g_strdup_printf("1kB+readers=1+time=%.9fs+storage=100GB/s", alone->step_time_s / 17);
  g_autoptr(Prediction) all_first = predict_with("--pp 2 --schedule gpipe", data);
  g_autoptr(Prediction) in_turn = predict_with("--pp 2 --schedule 1f1b", data);
  ck_assert_double_gt(all_first->step_time_s, 1.2 * alone->step_time_s);
  ck_assert_double_lt(in_turn->step_time_s, 1.1 * alone->step_time_s);
}

TEST(data_that_is_there_in_time_changes_nothing) {
  static const char *const plans[] = {"--dp 4 --zero 3", "--pp 2 --schedule 1f1b",
                                      "--pp 2 --chunks 2 --schedule interleaved", "--pp 2 --schedule dualpipe",
                                      "--tp 2 --dp 2 --fold off"};
  for (gsize i = 0; i < G_N_ELEMENTS(plans); i++) {
    g_autoptr(Prediction) alone = predict_with(plans[i], "none");
    g_autoptr(Prediction) read = predict_with(plans[i], "1kB+storage=100GB/s");
    ck_assert_msg(fabs(read->step_time_s - alone->step_time_s) < 1e-7, "%s: %.17g s, without %.17g s", plans[i],
                  read->step_time_s, alone->step_time_s);
  }
}

TEST(ranks_apart_wait_as_folded_ones_do) {
  g_autoptr(Prediction) folded = predict_with("--pp 2 --dp 2", "1GB+storage=2GB/s");
  g_autoptr(Prediction) apart = predict_with("--pp 2 --dp 2 --fold off", "1GB+storage=2GB/s");
  ck_assert_double_eq(apart->step_time_s, folded->step_time_s);
  ck_assert_double_eq(other_s(apart), other_s(folded));
}

/* 3 nodes' GPUs: 8 ranks of a node read at most 1 GB/s together, an eighth each: 2 micro-batches of 1 GB in 16 s. */
TEST(a_node_reads_no_more_than_it_can) {
  g_autoptr(Cluster) cluster = read_cluster("selene");
  cluster->storage = (Storage){.read_Bps = 1e12, .node_read_Bps = 1e9};
  g_autoptr(Plan) plan = plan_said("--seq-len 512 --dp 16 --global-batch 32 --data 1GB");
  g_autoptr(Prediction) prediction = predict_plan(&llama, cluster, plan);
  ck_assert_int_eq(prediction->workload->method->steps, 3); /* unless said otherwise: the first begins with no data */
  assert_step_s(prediction, 16);
}

TEST(its_program_is_proved_and_read_back) {
  g_autoptr(Prediction) prediction = predict_with("--pp 2 --chunks 2 --schedule interleaved", "1GB+storage=2GB/s");
  GError *error = NULL;
  ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "?");
  g_autofree char *text = program_to_text(prediction->program);
  g_autoptr(Program) again = program_from_text(text, "again", &error);
  ck_assert_msg(again != NULL, "%s", error != NULL ? error->message : "?");
  g_autofree char *other = program_to_text(again);
  ck_assert_str_eq(text, other);
}

int main(void) {
  return run_tests();
}
