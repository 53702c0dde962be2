/* Plans one change away from the best plan. */
#include "planner_fixture.h"
#include "run_suite.h"

#include "plan_with.h"
#include "planner_report.h"
#include "step_report.h"

static const Variant *find_step(const GArray *steps, const char *option, const char *to) {
  for (guint i = 0; i < steps->len; i++) {
    const Variant *step = &g_array_index(steps, Variant, i);
    if (strcmp(step->option, option) == 0 && strcmp(step->to, to) == 0)
      return step;
  }
  return NULL;
}

TEST(each_step_changes_one_option_and_what_must_follow) {
  g_autoptr(Space) space = NULL;
  PlannerRequest request;
  g_autoptr(PlannerResult) result = search_one_plan(&space, &request);
  const PlanOutcome *best = result->kept->pdata[0];
  g_autoptr(GArray) steps = sensitivity_new(best, &request);
  static const struct {
    const char *option, *to, *schedule;
    int tp, pp, dp, chunks, zero;
    gint64 micro_batch, global_batch;
  } expected[] = {
      {"--tp", "1", "interleaved", 1, 4, 4, 2, 1, 1, 32},
      {"--pp", "8", "interleaved", 2, 8, 1, 2, 1, 1, 32},
      {"--chunks", "1", "1f1b", 2, 4, 2, 1, 1, 1, 32},
      {"--chunks", "4", "interleaved", 2, 4, 2, 4, 1, 1, 32},
      {"--micro-batch", "2", "interleaved", 2, 4, 2, 2, 1, 2, 32},
      {"--global-batch", "64", "interleaved", 2, 4, 2, 2, 1, 1, 64},
      {"--zero", "0", "interleaved", 2, 4, 2, 2, 0, 1, 32},
      {"--zero", "2", "interleaved", 2, 4, 2, 2, 2, 1, 32},
      {"--schedule", "zb-v", "zb-v", 2, 4, 2, 2, 1, 1, 32},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++) {
    const Variant *step = find_step(steps, expected[i].option, expected[i].to);
    ck_assert_msg(step != NULL, "%s to %s", expected[i].option, expected[i].to);
    ck_assert_msg(step->outcome != NULL, "%s: %s", expected[i].option,
                  step->problem != NULL ? step->problem->message : "");
    const Plan *plan = step->outcome->completed;
    ck_assert_msg(plan->tp == expected[i].tp && plan->pp == expected[i].pp && plan->dp == expected[i].dp &&
                      plan->chunks == expected[i].chunks && plan->zero == expected[i].zero &&
                      plan->micro_batch == expected[i].micro_batch && plan->global_batch == expected[i].global_batch,
                  "%s to %s", expected[i].option, expected[i].to);
    ck_assert_str_eq(plan->schedule, expected[i].schedule);
    ck_assert_int_eq(plan->gpus, 16);
    ck_assert(plan->sequence_parallel);
  }
  ck_assert_ptr_null(find_step(steps, "--micro-batch", "0"));
  ck_assert_ptr_null(find_step(steps, "--recompute", "full")); /* two steps away */
}

/* megatron-core computes on while a stage of several chunks sends. One chunk alone would not; but then two options
 * would change at once. */
TEST(what_a_framework_decided_stays_through_a_step) {
  static const char given[] = "model=llama-3-8b cluster=dgx-h100 gpus=16 framework=megatron-core tp=2 pp=4 chunks=2 "
                              "micro-batch=1 global-batch=32 seq-len=2048 zero=1 recompute=none sequence-parallel=on "
                              "schedule=interleaved";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  const PlanOutcome *best = result->kept->pdata[0];
  ck_assert_int_eq(best->completed->overlap_p2p, TRUE);
  g_autoptr(GArray) steps = sensitivity_new(best, &request);
  const Variant *one_chunk = find_step(steps, "--chunks", "1"), *off = find_step(steps, "--overlap-p2p", "off");
  ck_assert(one_chunk != NULL && one_chunk->outcome != NULL && off != NULL && off->outcome != NULL);
  ck_assert_int_eq(one_chunk->outcome->completed->overlap_p2p, TRUE);
  ck_assert_int_eq(off->outcome->completed->overlap_p2p, FALSE);
}

/* 16 GPUs: interleaved takes two chunks, and with one pipeline of 8 each of the 2 of dp gets one sequence. */
TEST(what_was_left_open_is_stepped_from_what_it_came_to) {
  g_autoptr(Model) model = model_read("llama-3-8b", NULL);
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  g_autoptr(Plan) plan = plan_with("pp=8 dp=2");
  plan->chunks = 0;
  plan->schedule = g_strdup("interleaved");
  const PlannerRequest request = {.scoring = {OBJECTIVE_TOKENS_PER_S, -1}, .n_threads = 1};
  g_autoptr(GError) error = NULL;
  PlanOutcome *outcome = plan_outcome_new(NULL, model, cluster, plan, &request.scoring, &error);
  ck_assert_msg(outcome != NULL, "%s", error != NULL ? error->message : "");
  const Plan *completed = outcome->completed;
  ck_assert_int_eq(completed->chunks, 2);
  g_autoptr(GArray) steps = sensitivity_new(outcome, &request);
  const Variant *fewer = find_step(steps, "--chunks", "1"), *more = find_step(steps, "--chunks", "4");
  ck_assert(fewer != NULL && more != NULL);
  ck_assert_str_eq(fewer->from, "2");
  g_autofree char *doubled = g_strdup_printf("%" G_GINT64_FORMAT, 2 * completed->global_batch);
  ck_assert_ptr_nonnull(find_step(steps, "--global-batch", doubled));
  const Variant *two = find_step(steps, "--micro-batch", "2");
  ck_assert_ptr_nonnull(two);
  ck_assert_str_eq(two->from, "1");
  const Variant *wider = find_step(steps, "--tp", "2"); /* the same GPUs: dp follows */
  const Variant *shorter = find_step(steps, "--pp", "4");
  ck_assert(wider != NULL && wider->outcome != NULL && shorter != NULL && shorter->outcome != NULL);
  ck_assert_int_eq(wider->outcome->completed->dp, 1);
  ck_assert_int_eq(shorter->outcome->completed->dp, 4);
  plan_outcome_free(outcome);
}

/* tp 32 of 32 GPUs and 32 heads: 64 is too many for either. */
TEST(an_impossible_step_says_why) {
  static const char given[] =
      "model=llama-3-8b cluster=dgx-h100 gpus=32 tp=32 pp=1 global-batch=32 micro-batch=1 zero=1";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  g_autoptr(GArray) steps = sensitivity_new(result->kept->pdata[0], &request);
  const Variant *step = find_step(steps, "--tp", "64");
  ck_assert_ptr_nonnull(step);
  ck_assert_ptr_null(step->outcome);
  ck_assert_msg(strstr(step->problem->message, "tp 64") != NULL, "%s", step->problem->message);
}

/* Experts step too, over twice and half the ranks; beside tp they want sequence parallelism, which follows. */
TEST(experts_step_and_tp_beside_them_is_possible) {
  static const char given[] =
      "model=mixtral-8x7b cluster=dgx-h100 gpus=16 tp=1 pp=1 ep=4 zero=3 global-batch=16 micro-batch=1 "
      "seq-len=2048";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  g_autoptr(GArray) steps = sensitivity_new(result->kept->pdata[0], &request);
  const char *const expected[][2] = {{"--ep", "2"}, {"--ep", "8"}, {"--tp", "2"}};
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++) {
    const Variant *step = find_step(steps, expected[i][0], expected[i][1]);
    ck_assert_msg(step != NULL, "%s to %s", expected[i][0], expected[i][1]);
    ck_assert_msg(step->outcome != NULL, "%s: %s", expected[i][0], step->problem != NULL ? step->problem->message : "");
    ck_assert_int_eq(step->outcome->completed->sequence_parallel != 0, step->outcome->completed->tp > 1);
  }
}

/* 8 experts in whole and cut in two: both are tried where --expert-tp is left open, and are one step apart. */
TEST(experts_are_left_whole_beside_tp_too) {
  static const char given[] =
      "model=mixtral-8x7b cluster=dgx-h100 gpus=16 tp=1,2 pp=2 ep=4 chunks=1 pipeline-layout=auto "
      "schedule=1f1b zero=1 recompute=full global-batch=16 micro-batch=1 seq-len=2048";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  /* tp 1 whole and cut are one; sequence parallelism off beside tp 2 is impossible, on beside tp 1 the same as off */
  ck_assert_int_eq(result->n_configurations, 8);
  ck_assert_int_eq(result->n_same, 3);
  ck_assert_int_eq(result->n_impossible, 2);
  ck_assert_uint_eq(result->kept->len, 3);
  const PlanOutcome *whole = NULL;
  for (guint i = 0; i < result->kept->len; i++) {
    const PlanOutcome *kept = result->kept->pdata[i];
    if (kept->completed->tp == 2 && kept->completed->expert_tp == 1)
      whole = kept;
  }
  ck_assert_ptr_nonnull(whole);
  g_autofree char *options = plan_outcome_options(whole);
  ck_assert_msg(strstr(options, "--expert-tp 1") != NULL, "%s", options);
  g_autofree char *line = step_report_plan_line(whole->completed);
  ck_assert_msg(g_str_has_prefix(line, "tp 2, pp 2, ep 4, experts whole, dp 4, "), "%s", line);
  g_autoptr(GArray) steps = sensitivity_new(whole, &request);
  const Variant *cut = find_step(steps, "--expert-tp", "2");
  ck_assert(cut != NULL && cut->outcome != NULL);
  ck_assert_int_eq(plan_expert_tp(cut->outcome->completed), 2);
  ck_assert_double_ne(cut->outcome->step_time_s, whole->step_time_s);
}

/* A step is what the same options would be: without rounds of a forward and a backward nothing takes turns. */
TEST(a_step_that_simulate_refuses_is_impossible) {
  static const char given[] =
      "model=olmoe-1b-7b cluster=selene gpus=16 tp=1 pp=1 ep=4 overlap-experts=on schedule=1f1b zero=1 "
      "recompute=none global-batch=32 micro-batch=1 seq-len=1024";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  g_autoptr(GArray) steps = sensitivity_new(result->kept->pdata[0], &request);
  const Variant *pipeline = find_step(steps, "--pp", "2");
  ck_assert(pipeline != NULL && pipeline->outcome == NULL);
  ck_assert_ptr_nonnull(strstr(pipeline->problem->message, "--overlap-experts on: schedule 1f1b with pp 2"));
  const Variant *sharded = find_step(steps, "--zero", "2");
  ck_assert(sharded != NULL && sharded->outcome != NULL);
}

int main(void) {
  return run_tests();
}
