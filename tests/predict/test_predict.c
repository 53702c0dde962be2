/* Properties of whole predictions: times that add up, same input same output, chained steps, programs as text. */
#include "chrome_trace.h"
#include "engine_fixture.h"
#include "error.h"
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "text_file.h"

#include <math.h>

enum { N_PLANS = 200, MAX_GPUS = 64 };

/* --- breakdown --- */

static void assert_breakdown_sums_up(const Case *drawn, const Prediction *prediction) {
  const Metrics *metrics = prediction->metrics;
  double mean_s = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    mean_s += metrics->mean_s[kind];
  for (int rank = 0; rank < metrics->n_ranks; rank++) {
    gint64 sum_ns = 0;
    for (int kind = 0; kind < N_BREAKDOWN; kind++) {
      sum_ns += metrics->ranks[rank].ns[kind];
      CASE_ASSERT(drawn, metrics->ranks[rank].ns[kind] >= 0, "rank %d: negative %s", rank, breakdown_name(kind));
    }
    CASE_ASSERT(drawn, sum_ns == metrics->step_ns, "rank %d: %d of %d ns", rank, (int)sum_ns, (int)metrics->step_ns);
  }
  CASE_ASSERT(drawn, fabs(mean_s - prediction->step_time_s) < 1e-9, "mean %.12g of %.12g s", mean_s,
              prediction->step_time_s);
}

TEST(breakdown_of_every_rank_sums_to_the_step) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), MAX_GPUS);
    drawn.plan->steps = seed % 2 == 0 ? 1 : 2;
    drawn.plan->fold = seed % 4 < 2;
    drawn.plan->jitter = seed % 8 == 7 ? 0.1 : 0;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    assert_breakdown_sums_up(&drawn, prediction);
  }
}

TEST(rates_follow_from_the_step_time) {
  g_auto(Case) drawn = random_case(1, case_clusters(), MAX_GPUS);
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  const Plan *plan = prediction->workload->plan;
  double tokens = (double)plan->global_batch * (double)plan->seq_len, step_s = prediction->step_time_s;
  ck_assert_double_eq_tol(step_s, (double)prediction->metrics->step_ns * 1e-9, 1e-15);
  ck_assert_double_eq_tol(prediction->tokens_per_s * step_s / tokens, 1, 1e-12);
  ck_assert_double_eq_tol(prediction->tokens_per_s_per_gpu * plan->gpus / prediction->tokens_per_s, 1, 1e-12);
  ck_assert_double_eq_tol(prediction->mfu * prediction->peak_flops / (prediction->tflops_per_gpu * 1e12), 1, 1e-12);
  ck_assert_double_ge(prediction->hfu, prediction->mfu);
}

/* --- same input, same output --- */

/* The bytes of the Chrome trace; owned by the caller. */
static char *chrome_bytes(const Prediction *prediction, gsize *length) {
  g_autofree char *bytes = NULL;
  char *file = text_file_new(".json", "", 0);
  ck_assert(chrome_trace_write(prediction->trace, file, NULL));
  ck_assert(g_file_get_contents(file, &bytes, length, NULL));
  text_file_drop(file);
  return g_steal_pointer(&bytes);
}

static void assert_same_output(const Case *drawn, const Prediction *a, const Prediction *b) {
  CASE_ASSERT(drawn, same_records(a->trace, b->trace), "other times");
  gsize a_length, b_length;
  g_autofree char *a_bytes = chrome_bytes(a, &a_length), *b_bytes = chrome_bytes(b, &b_length);
  CASE_ASSERT(drawn, a_length == b_length && memcmp(a_bytes, b_bytes, a_length) == 0, "other bytes");
}

TEST(same_input_gives_the_same_trace_and_the_same_bytes) {
  for (guint seed = 0; seed < 24; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), 16),
                 unrelated = random_case(seed + 1000, case_clusters(), MAX_GPUS);
    drawn.plan->fold = seed % 2 == 0;
    drawn.plan->jitter = seed % 4 == 3 ? 0.05 : 0;
    g_autoptr(Prediction) first = predict_case(&drawn), second = predict_case(&drawn),
                          between = predict_case(&unrelated), third = predict_case(&drawn);
    ck_assert_ptr_nonnull(between);
    assert_same_output(&drawn, first, second);
    assert_same_output(&drawn, first, third);
  }
}

/* --- chained steps --- */

static gint64 step_ns(const Case *drawn, int n_steps) {
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  plan->steps = n_steps;
  g_autoptr(Prediction) prediction = predict_on(drawn, drawn->cluster, plan);
  return prediction->metrics->step_ns;
}

/* Steps behind the first, where no transfer slows another. */
static gboolean is_shorter_uncontended(const Case *drawn) {
  const gboolean contention = drawn->plan->contention;
  drawn->plan->contention = FALSE;
  const gint64 one_ns = step_ns(drawn, 1), later_ns = MAX(step_ns(drawn, 2), step_ns(drawn, 3));
  drawn->plan->contention = contention;
  return contention && later_ns <= one_ns;
}

/* The host reads the loss at the end of every step and issues nothing of the next before that. Step k + 1 begins when
 * the last rank has read step k's, so at the latest then all ranks begin as in a first step: a steady step is no longer
 * than the first, but for what transfers of ranks that began earlier take of others' on links they share, less than a
 * thousandth of it.
 *
 * One pipeline rank: all ranks read at once, with every stream at rest. Each step is the first again, its own read
 * included, to the nanosecond.
 *
 * Several, and a gradient norm over all of them: the norm ends everywhere at once; from there to the read is the same
 * in every step, and a rank's read is all that its next step depends on. So all steps but the first are equal. */
TEST(steps_in_a_row_take_the_time_of_one) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), MAX_GPUS);
    gint64 one_ns = step_ns(&drawn, 1), two_ns = step_ns(&drawn, 2), three_ns = step_ns(&drawn, 3);
    gboolean as_derived = MAX(two_ns, three_ns) <= one_ns ||
                          (MAX(two_ns, three_ns) <= one_ns + one_ns / 1000 && is_shorter_uncontended(&drawn));
    if (drawn.plan->pp == 1)
      as_derived = two_ns == one_ns && three_ns == one_ns;
    else if (drawn.plan->grad_norm_barrier)
      as_derived = as_derived && three_ns == two_ns;
    CASE_ASSERT(&drawn, as_derived, "steps of %d, %d and %d ns", (int)one_ns, (int)two_ns, (int)three_ns);
  }
}

/* --- programs as text --- */

static Prediction *predict_text(const Case *drawn, const char *text) {
  g_autoptr(GError) error = NULL;
  Program *program = program_from_text(text, "text", &error);
  ck_assert_msg(program != NULL, "%s", error != NULL ? error->message : "");
  Prediction *prediction = predict_program(&drawn->model, drawn->cluster, drawn->plan, program, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

TEST(a_program_written_and_read_runs_as_before) {
  for (guint seed = 0; seed < 60; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), 16);
    drawn.plan->fold = seed % 2 == 0;
    drawn.plan->steps = seed % 3 == 0 ? 2 : 1;
    g_autoptr(Prediction) direct = predict_case(&drawn);
    g_autofree char *text = program_to_text(direct->program);
    g_autoptr(Prediction) read = predict_text(&drawn, text);
    g_autofree char *text_again = program_to_text(read->program);
    ck_assert_int_eq((direct->program->expansion == EXPANSION_ALL) || drawn.plan->fold, TRUE);
    ck_assert_str_eq(text_again, text);
    ck_assert(same_records(direct->trace, read->trace));
    ck_assert(direct->memory->peak_bytes == read->memory->peak_bytes);
  }
}

/* Whole or expanded before it was written, folded or not when it runs: the same step. */
TEST(a_program_may_be_expanded_before_or_after_it_is_written) {
  for (guint seed = 0; seed < 40; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), 16);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    g_autofree char *whole = program_to_text(folded->program);
    drawn.plan->fold = FALSE;
    g_autoptr(Prediction) all = predict_text(&drawn, whole);
    g_autofree char *expanded = program_to_text(all->program);
    drawn.plan->fold = TRUE;
    g_autoptr(Prediction) folded_runs = predict_text(&drawn, expanded);
    ck_assert_int_eq(all->metrics->step_ns, folded->metrics->step_ns);
    ck_assert_int_eq(folded_runs->metrics->step_ns, folded->metrics->step_ns);
    ck_assert_int_eq(folded_runs->trace->n_ranks, drawn.plan->pp);
  }
}

TEST(a_program_of_another_plan_is_refused) {
  g_auto(Case) drawn = random_case(3, case_clusters(), MAX_GPUS);
  g_autoptr(Prediction) direct = predict_case(&drawn);
  g_autofree char *text = program_to_text(direct->program);
  drawn.plan->global_batch += drawn.plan->micro_batch * drawn.plan->dp; /* one micro-batch more */
  g_autoptr(GError) error = NULL;
  Program *program = program_from_text(text, "text", NULL);
  ck_assert_ptr_null(predict_program(&drawn.model, drawn.cluster, drawn.plan, program, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "micro-batches"));
}

/* --- what does not fit, and what cannot be --- */

TEST(a_plan_that_does_not_fit_is_predicted_all_the_same) {
  const Model *model = shipped_model("llama-3-70b");
  g_autoptr(Plan) plan = plan_said("--tp 8");
  g_autoptr(Prediction) prediction = predict_plan(model, case_clusters()[0], plan);
  /* 70.6e9 parameters · 16 bytes / 8 = 141 GB of state alone, on 80 GiB = 86 GB */
  ck_assert(!prediction->fits);
  ck_assert_double_gt(prediction->memory->peak_bytes, 141e9);
  ck_assert_double_gt(prediction->step_time_s, 0);
  plan_say(plan, "--pp 4");
  g_autoptr(Prediction) spread = predict_plan(model, case_clusters()[0], plan);
  ck_assert(spread->fits);
}

static void raise_buffers(gint64 time_ns, const MemorySample *sample, gpointer most) {
  *(double *)most = MAX(*(double *)most, sample->bytes[MEMORY_BUFFERS]);
}

TEST(gradients_do_not_pile_up_before_a_slow_network) {
  /* Llama-2-7B, ZeRO-2: a layer of 202,383,360 parameters, 2 bytes each, fills a bucket; two may wait. */
  g_autoptr(Cluster) cluster = read_cluster("selene");
  cluster->scale_up_Bps /= 1000;
  for (int overlap = 0; overlap < 2; overlap++) {
    g_autoptr(Plan) plan = plan_said("--dp 8 --zero 2 --global-batch 16 --seq-len 512");
    plan->overlap_grad = overlap;
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("llama-2-7b"), cluster, plan);
    double most = 0;
    memory_profile_visit(prediction->trace, 0, raise_buffers, &most);
    ck_assert_double_gt(most, 0);
    ck_assert_double_le(most, 2 * 202383360.0 * 2);
  }
}

TEST(an_impossible_plan_is_refused) {
  g_auto(Case) drawn = random_case(5, case_clusters(), MAX_GPUS);
  drawn.plan->pp = 11; /* more stages than layers */
  drawn.plan->gpus = 0;
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(predict(&drawn.model, drawn.cluster, drawn.plan, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
}

int main(void) {
  return run_tests();
}
