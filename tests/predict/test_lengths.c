/* Steps of unequal micro-batches: equal ones are a plan's without lengths, to the nanosecond; pipelines by their closed
 * forms; and ranks of dp wait for the slowest. */
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "text_file.h"

#include <math.h>

/* llama with few words, so that stages are nearly equal. */
static Prediction *predict_with(const char *options) {
  g_autoptr(Plan) plan = plan_said("%s", options);
  Model model = llama;
  model.vocab = 1024;
  return predict_plan(&model, shipped_cluster("selene"), plan);
}

/* With lengths from a file. */
static Prediction *predict_lengths(const char *lengths, const char *options) {
  char *path = text_file_new(".txt", lengths, -1);
  g_autofree char *all = g_strdup_printf("%s --seq-lengths %s", options, path);
  Prediction *prediction = predict_with(all);
  text_file_drop(path);
  return prediction;
}

static void assert_same_step(const Prediction *a, const Prediction *b) {
  ck_assert_int_eq(a->metrics->step_ns, b->metrics->step_ns);
  ck_assert_double_eq(a->memory->peak_bytes, b->memory->peak_bytes);
}

static const char *const plans[] = {
    "--dp 4 --zero 3",
    "--dp 2 --tp 2 --sequence-parallel on --zero 1",
    "--dp 2 --pp 4 --schedule 1f1b",
    "--dp 2 --pp 2 --chunks 2 --schedule interleaved",
    "--pp 4 --schedule zb-h1",
    "--pp 4 --schedule dualpipe",
    "--dp 2 --cp 2",
    "--dp 2 --cp 4 --cp-comm all_gather",
    "--dp 2 --cp 2 --cp-comm ulysses --recompute full",
};

/* All of 512 tokens: padded to their own length, packed in rows of it, or without rows. */
LOOP_TEST(equal_lengths_are_those_of_a_plan_without, G_N_ELEMENTS(plans)) {
  static const char *const ways[] = {"--seq-len 1024 --batching longest", "--seq-len 512 --batching packed",
                                     "--seq-len 512 --batching concatenated", "--seq-len 1024 --batching balanced",
                                     "--seq-len 512 --batching padded"};
  g_autofree char *without = g_strdup_printf("%s --global-batch 32 --seq-len 512", plans[_i]);
  g_autoptr(Prediction) plain = predict_with(without);
  for (gsize i = 0; i < G_N_ELEMENTS(ways); i++) {
    g_autofree char *with =
        g_strdup_printf("%s --global-batch 32 %s --seq-lengths uniform:512-512", plans[_i], ways[i]);
    g_autoptr(Prediction) equal = predict_with(with);
    assert_same_step(plain, equal);
    ck_assert_double_eq(plain->mfu, equal->mfu);
  }
}

/* Padding costs what tokens do. */
LOOP_TEST(padded_sequences_take_as_long_as_whole_ones, G_N_ELEMENTS(plans)) {
  g_autofree char *without = g_strdup_printf("%s --global-batch 32 --seq-len 512", plans[_i]);
  g_autofree char *with = g_strconcat(without, " --seq-lengths uniform:256-256", NULL);
  g_autoptr(Prediction) plain = predict_with(without);
  g_autoptr(Prediction) padded = predict_with(with);
  assert_same_step(plain, padded);
  ck_assert_double_eq(padded->tokens_per_s * 2, plain->tokens_per_s);
}

/* One rank of dp for those of tp and cp, or all of them. */
LOOP_TEST(ranks_of_tp_and_cp_do_what_one_does, 4) {
  static const char *const cuts[] = {"--dp 4 --tp 2 --pp 2", "--dp 4 --cp 2 --zero 3", "--dp 2 --cp 2 --tp 2 --zero 1",
                                     "--dp 2 --tp 2 --pp 2 --order pp-tp-dp-cp-ep"};
  g_autofree char *folded = g_strdup_printf("%s --global-batch 16 --seq-len 512 --seq-lengths uniform:64-512 "
                                            "--batching longest",
                                            cuts[_i]);
  g_autofree char *all = g_strconcat(folded, " --fold off", NULL);
  g_autoptr(Prediction) few = predict_with(folded);
  g_autoptr(Prediction) every = predict_with(all);
  assert_same_step(few, every);
  ck_assert_int_lt(few->engine.n_ranks, every->engine.n_ranks);
  ck_assert_int_eq(few->memory->worst_first, every->memory->worst_first);
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    ck_assert_double_eq_tol(few->metrics->mean_s[kind], every->metrics->mean_s[kind], 1e-9);
}

/* Stages in line, each taking t of a micro-batch: the last ends p − 1 of the longest later than the sum of all (flow
 * shop of proportional times). So in gpipe one long micro-batch among m costs p of 1 + … + 1 + (p − 1) = m + p − 1
 * parts of what all of them would, wherever it is; stages are not quite equal, hence 4 %. */
LOOP_TEST(one_long_micro_batch_costs_each_stage_of_gpipe, 2) {
  static const char *const lengths[] = {"16384\n4096\n4096\n4096\n4096\n4096\n4096\n4096\n",
                                        "4096\n4096\n4096\n16384\n4096\n4096\n4096\n4096\n"};
  const char *const options = "--pp 4 --schedule gpipe --global-batch 8 --seq-len 16384 --batching longest";
  g_autoptr(Prediction) of_short = predict_lengths("4096\n", options);
  g_autoptr(Prediction) of_long = predict_lengths("16384\n", options);
  g_autoptr(Prediction) one = predict_lengths(lengths[_i], options);
  const double share = (one->step_time_s - of_short->step_time_s) / (of_long->step_time_s - of_short->step_time_s);
  ck_assert_msg(fabs(share / (4. / (8 + 4 - 1)) - 1) < 0.04, "%g", share);
}

/* Of a pipeline no schedule hides it: from its own time on a stage to that on all, forward and back. */
LOOP_TEST(one_long_micro_batch_holds_up_every_schedule, 5) {
  static const char *const schedules[] = {"--schedule 1f1b", "--schedule interleaved --chunks 2", "--schedule zb-h1",
                                          "--schedule zb-v", "--schedule dualpipe"};
  g_autofree char *options =
      g_strdup_printf("--pp 4 --global-batch 16 --seq-len 2048 --batching longest --steps 1 %s", schedules[_i]);
  g_autoptr(Prediction) of_short = predict_lengths("512\n", options);
  g_autoptr(Prediction) of_long = predict_lengths("2048\n", options);
  g_autoptr(Prediction) one =
      predict_lengths("512\n512\n512\n512\n512\n512\n512\n2048\n512\n512\n512\n512\n512\n512\n512\n512\n", options);
  const double each_s = (of_long->step_time_s - of_short->step_time_s) / (16 + 3);
  const double more_s = one->step_time_s - of_short->step_time_s;
  ck_assert_double_gt(more_s, each_s);
  ck_assert_double_lt(more_s, 2 * 4 * each_s);
}

/* Without overlap ranks of dp meet once, when their gradients are there: a step is the slowest rank's. */
TEST(a_step_is_as_long_as_the_slowest_ranks) {
  const char *const options = "--dp 2 --zero 1 --overlap-grad off --overlap-param off --global-batch 8 --seq-len 1024 "
                              "--batching longest";
  g_autoptr(Prediction) slow = predict_lengths("1024\n", options);
  g_autoptr(Prediction) one = predict_lengths("256\n256\n256\n256\n1024\n1024\n1024\n1024\n", options);
  assert_same_step(one, slow);
  ck_assert_int_eq(one->memory->worst_first, 1);
}

/* Each rank has a long and three short micro-batches in another place: with gathers of weights at every layer each of
 * the four takes as long as the long one. */
TEST(sharded_ranks_wait_for_each_others_long_micro_batches) {
  const char *const apart = "1024\n128\n128\n128\n128\n1024\n128\n128\n128\n128\n1024\n128\n128\n128\n128\n1024\n",
                    *const together = "1024\n128\n128\n128\n";
  const char *const options = "--dp 4 --global-batch 16 --seq-len 1024 --batching longest --zero";
  g_autofree char *sharded = g_strconcat(options, " 3", NULL), *whole = g_strconcat(options, " 0", NULL);
  g_autoptr(Prediction) all_long = predict_lengths("1024\n", sharded);
  g_autoptr(Prediction) sharded_apart = predict_lengths(apart, sharded);
  g_autoptr(Prediction) whole_apart = predict_lengths(apart, whole);
  g_autoptr(Prediction) whole_together = predict_lengths(together, whole);
  ck_assert_double_gt(sharded_apart->step_time_s, 0.9 * all_long->step_time_s);
  ck_assert_double_lt(whole_apart->step_time_s, 1.1 * whole_together->step_time_s);
}

/* gpipe holds all: what a micro-batch leaves is in proportion to its tokens. The last one begins backward, and its
 * transients are those of the same length. */
TEST(memory_is_that_of_the_micro_batches_in_flight) {
  const char *const options = "--pp 2 --schedule gpipe --global-batch 4 --seq-len 1024 --batching longest";
  g_autoptr(Prediction) of_short = predict_lengths("256\n", options);
  g_autoptr(Prediction) of_long = predict_lengths("1024\n", options);
  g_autoptr(Prediction) mixed = predict_lengths("1024\n256\n1024\n256\n", options);
  const double low = of_short->memory->peak_bytes, high = of_long->memory->peak_bytes;
  ck_assert_double_eq_tol((mixed->memory->peak_bytes - low) / (high - low), 0.5, 0.08);
}

/* A rank's own sizes, in its own program: the last rank of dp has the long ones. */
TEST(memory_is_that_of_the_fullest_rank_of_dp) {
  const char *const options = "--dp 2 --pp 2 --schedule 1f1b --global-batch 8 --seq-len 1024 --batching longest";
  g_autoptr(Prediction) of_long = predict_lengths("1024\n", options);
  g_autoptr(Prediction) one = predict_lengths("256\n256\n256\n256\n1024\n1024\n1024\n1024\n", options);
  ck_assert_double_eq(one->memory->peak_bytes, of_long->memory->peak_bytes);
}

/* Short documents take less than one of the same row, in kernels of attention alone. */
TEST(packed_rows_take_less_than_whole_ones) {
  g_autoptr(Prediction) packed =
      predict_with("--global-batch 4 --seq-len 8192 --seq-lengths uniform:512-512 --batching packed");
  g_autoptr(Prediction) whole = predict_with("--global-batch 4 --seq-len 8192");
  ck_assert_double_lt(packed->step_time_s, 0.9 * whole->step_time_s);
  ck_assert_double_eq(packed->memory->peak_bytes, whole->memory->peak_bytes);
}

TEST(the_program_says_whose_lengths_it_has) {
  g_autoptr(Prediction) prediction =
      predict_with("--pp 2 --global-batch 4 --seq-len 512 --seq-lengths uniform:64-512 --batching longest");
  g_autofree char *text = program_to_text(prediction->program);
  g_autoptr(GError) error = NULL;
  g_autoptr(Program) read = program_from_text(text, "again", &error);
  ck_assert_msg(read != NULL, "%s", error != NULL ? error->message : "");
  g_autofree char *again = program_to_text(read);
  ck_assert_str_eq(text, again);
  ck_assert_ptr_nonnull(strstr(text, "lengths=4"));
}

TEST(what_is_not_modelled_is_refused) {
  static const struct {
    const char *options, *why;
  } refused[] = {
      {"--batching packed", "batching packed needs sequences of unequal lengths: give --seq-lengths"},
      {"--seq-lengths uniform:9-99 --batching packed --attention unfused", "--attention unfused"},
      {"--seq-lengths uniform:9-99 --batching longest --offload-optimizer host", "offloading"},
      {"--seq-lengths uniform:9-99 --batching longest --cuda-graphs full", "--cuda-graphs"},
      {"--seq-lengths uniform:9-99 --batching longest --global-batch 131072", "at most 65536 are simulated"},
      {"--seq-lengths uniform:1-3 --batching packed --global-batch 16384 --seq-len 4096",
       "about 3.36e+07 sequences in a step, and at most 16777216 are drawn"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Plan) plan = plan_said("%s", refused[i].options);
    g_autoptr(Prediction) prediction = predict(&llama, shipped_cluster("selene"), plan, &error);
    ck_assert_ptr_null(prediction);
    ck_assert_msg(strstr(error->message, refused[i].why) != NULL, "%s", error->message);
  }
}

int main(void) {
  return run_tests();
}
