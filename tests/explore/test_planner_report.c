/* The report of the best plan, as JSON and as options; and which plans are tried for open options. */
#include "planner_fixture.h"
#include "run_suite.h"

#include "planner_report.h"
#include "step_report.h"

#include <json-glib/json-glib.h>

/* --- for scripts --- */

static JsonObject *member(JsonObject *object, const char *name) {
  ck_assert_msg(json_object_has_member(object, name), "no %s", name);
  return json_object_get_object_member(object, name);
}

TEST(the_json_object_has_what_the_text_has) {
  g_autoptr(Space) space = NULL;
  PlannerRequest request;
  g_autoptr(PlannerResult) result = search_one_plan(&space, &request);
  const PlanOutcome *best = result->kept->pdata[0];
  g_autoptr(GArray) steps = sensitivity_new(best, &request);
  TrainingCost cost = training_cost_of(1e12, best->tokens_per_s, 16, 2, 0, NULL);
  const PlannerReport report = {.request = &request, .result = result, .sensitivity = steps, .cost = &cost};
  g_autofree char *text = planner_json(&report);
  g_autoptr(JsonNode) root = json_from_string(text, NULL);
  ck_assert_ptr_nonnull(root);
  JsonObject *object = json_node_get_object(root), *shown = member(object, "best");
  ck_assert_double_eq(json_object_get_double_member(shown, "step_time_s"), best->step_time_s);
  ck_assert_int_eq(json_object_get_int_member(member(shown, "plan"), "pp"), 4);
  ck_assert_int_eq(json_object_get_int_member(member(shown, "plan"), "ep"), 1);
  ck_assert_int_eq(json_object_get_int_member(member(shown, "plan"), "expert_tp"), 2); /* as tp */
  ck_assert_str_eq(json_object_get_string_member(member(shown, "plan"), "cp_comm"), "ring");
  ck_assert_str_eq(json_object_get_string_member(member(shown, "plan"), "expert_dispatch"), "all_to_all");
  ck_assert_str_eq(json_object_get_string_member(member(shown, "plan"), "attention"), "flash");
  ck_assert_int_eq(json_object_get_boolean_member(member(shown, "plan"), "overlap_p2p"), best->completed->overlap_p2p);
  JsonObject *breakdown = member(shown, "breakdown_s");
  double sum_s = 0;
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    sum_s += json_object_get_double_member(breakdown, breakdown_name((BreakdownKind)kind));
  ck_assert_double_eq_tol(sum_s, best->step_time_s, 1e-8);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "sensitivity")), steps->len);
  ck_assert_uint_eq(json_array_get_length(json_object_get_array_member(object, "runners_up")), 0);
  ck_assert_double_eq(json_object_get_double_member(member(object, "training"), "gpu_hours"), cost.gpu_hours);
  ck_assert_int_eq(json_object_get_int_member(member(object, "search"), "configurations"), 1);
}

/* What is shown of the best plans can be typed again: the same steps come out. */
static void assert_typed_again(const char *given) {
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  for (guint k = 0; k < result->kept->len; k++) {
    const PlanOutcome *kept = result->kept->pdata[k];
    g_autofree char *options = plan_outcome_options(kept);
    g_autoptr(Space) typed = space_new();
    ck_assert(space_set(typed, "model", "llama-3-8b", NULL) && space_set(typed, "cluster", "selene", NULL));
    g_auto(GStrv) words = NULL;
    ck_assert(g_shell_parse_argv(options, NULL, &words, NULL));
    for (char **word = words; word[0] != NULL; word += 2)
      ck_assert(space_set(typed, word[0] + 2, word[1], NULL));
    ck_assert(space_finish(typed, NULL));
    g_autoptr(SpaceReader) reader = space_reader_new(typed);
    SpacePoint point;
    ck_assert(space_reader_read(reader, 0, &point, NULL));
    g_autoptr(Prediction) prediction = predict(point.model, point.cluster, point.plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    ck_assert_double_eq(prediction->step_time_s, kept->step_time_s);
    ck_assert_double_eq(prediction->mfu, kept->mfu);
  }
}

TEST(the_options_shown_give_the_step_shown) {
  static const char given[] =
      "model=llama-3-8b cluster=selene gpus=16 global-batch=16 seq-len=1024 precision=fp16 "
      "recipe=megatron framework=megatron-deepspeed order=tp-cp-ep-pp-dp prefetch=2 bucket=1000000 "
      "zero-ranks=2 grad-norm-barrier=off contention=off flops=megatron steps=2 jitter=0.01 seed=7 tp=2 "
      "pp=2 zero=1,3 recompute=none,full attention=unfused overlap-grad=off overlap-param=off "
      "overlap-p2p=on micro-batch=1";
  assert_typed_again(given);
  /* a schedule of the table stands for auto, and runs as auto does */
  static const char left_to_auto[] =
      "model=llama-3-8b cluster=selene gpus=16 global-batch=16 seq-len=1024 schedule=auto pp=2 tp=2 "
      "chunks=17 recompute=selective recompute-modules=layernorm+mlp sequence-parallel=on zero=1 "
      "micro-batch=1";
  assert_typed_again(left_to_auto);
}

/* Interleaved has two chunks where none are said, which this layout of four stages would not fit. */
TEST(one_chunk_of_interleaved_is_shown) {
  static const char one_chunk[] =
      "model=llama-3-8b cluster=selene gpus=8 global-batch=32 seq-len=1024 schedule=interleaved "
      "chunks=1 pipeline-layout=auto,balanced pp=4 tp=1 zero=1 micro-batch=1";
  assert_typed_again(one_chunk);
}

/* --- what is open --- */

static gboolean holds(const Space *space, const char *name, const char *expected) {
  for (int axis = 0; axis < space_n_axes(space); axis++) {
    if (strcmp(space_axis_name(space, axis), name) != 0)
      continue;
    g_autofree char *text = space_text(space), *line = g_strdup_printf("%s=%s\n", name, expected);
    return strstr(text, line) != NULL;
  }
  return FALSE;
}

/* The same space, its names spelled otherwise, leaves out the same. */
TEST(spelling_changes_nothing) {
  gint64 n_same[2], n_impossible[2], n_configurations[2];
  for (int other = 0; other < 2; other++) {
    g_autofree char *given = g_strdup_printf(
        "model=gpt2 cluster=dgx-h100 gpus=5 global-batch=20 pp=5 schedule=%s seq-len=1024 micro-batch=1 "
        "sequence-parallel=%s recompute=%s zero=0",
        other ? "1F1B,Interleaved,ZB_V" : "1f1b,interleaved,zb-v", other ? "ON,OFF" : "on,off",
        other ? "None,Selective" : "none,selective");
    g_autoptr(Space) space = space_of(given);
    const PlannerRequest request = request_of(space);
    g_autoptr(PlannerResult) result = search(&request);
    n_same[other] = result->n_same;
    n_impossible[other] = result->n_impossible;
    n_configurations[other] = result->n_configurations;
  }
  ck_assert_int_gt(n_same[0], 0);
  ck_assert_int_eq(n_configurations[1], n_configurations[0]);
  ck_assert_int_eq(n_same[1], n_same[0]);
  ck_assert_int_eq(n_impossible[1], n_impossible[0]);
}

/* gpt2 is the faster by far, and has LayerNorms, of which --norm-kernel plain says nothing: what simulate refuses is no
 * plan. */
TEST(models_that_options_say_nothing_of_are_impossible) {
  static const char given[] =
      "model=gpt2,llama-3-8b cluster=dgx-h100 gpus=8 tp=1 pp=1 global-batch=8 micro-batch=1 zero=3 "
      "recompute=full norm-kernel=plain seq-len=1024";
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  ck_assert_uint_eq(result->kept->len, 1);
  g_autofree char *options = plan_outcome_options(result->kept->pdata[0]);
  ck_assert_int_gt(result->n_impossible, 0);
  ck_assert_ptr_nonnull(strstr(options, "--norm-kernel plain"));
}

/* 32 layers, 32 heads, 8 key-value heads; 12 GPUs are no whole nodes, on which the lists do not depend. tp: 1, 2, 4
 * divide 12 and the heads, 3 does not divide the heads. pp: all that divide 12. chunks v with p·v | 32 or 34 for p in
 * 2, 3, 4, 6, 12: of 32 with p = 2: 1 2 4 8 16, of 34 with p = 2: 17. */
TEST(open_lists_follow_from_model_and_cluster) {
  static const char given[] = "model=llama-3-8b cluster=dgx-h100 gpus=12 global-batch=12";
  g_autoptr(Space) space = space_of(given);
  ck_assert(holds(space, "tp", "1,2,4"));
  ck_assert(holds(space, "pp", "1,2,3,4,6,12"));
  ck_assert(holds(space, "chunks", "1,2,4,8,16,17"));
  ck_assert(holds(space, "zero", "0,1,2,3"));
  ck_assert_ptr_null(space_given(space, "expert-tp"));
  static const char experts[] = "model=mixtral-8x7b cluster=dgx-h100 gpus=8 global-batch=8";
  g_autoptr(Space) of_experts = space_of(experts);
  ck_assert(holds(of_experts, "expert-tp", "0,1"));
  ck_assert(holds(of_experts, "ep", "1,2,4,8"));
}

TEST(what_must_be_given_is_asked_for) {
  static const struct {
    const char *given, *missing;
  } incomplete[] = {{"model=gpt2\ncluster=selene\ngpus=8", "--global-batch"},
                    {"model=gpt2\ncluster=selene\nglobal-batch=8", "--gpus"},
                    {"cluster=selene\ngpus=8\nglobal-batch=8", "--model"}};
  for (gsize i = 0; i < G_N_ELEMENTS(incomplete); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Space) space = space_new();
    ck_assert(space_set_text(space, incomplete[i].given, NULL));
    ck_assert(!plan_space_fill(space, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, incomplete[i].missing) != NULL, "%s", error->message);
  }
}

/* 86.4e9 tokens at 1e6 a second: 86,400 s, a day; on 10 GPUs 240 GPU-hours, at 2 $ an hour 480 $, at 700 W 168 kWh. */
TEST(cost_is_time_times_gpus_times_price) {
  TrainingCost cost = training_cost_of(86.4e9, 1e6, 10, 2, 700, NULL);
  ck_assert(fabs(cost.days - 1) < 1e-12 && fabs(cost.gpu_hours - 240) < 1e-9);
  ck_assert_double_eq_tol(cost.dollars, 480, 1e-9);
  ck_assert_double_eq_tol(cost.gpu_energy_Wh, 168e3, 1e-6);
}

int main(void) {
  return run_tests();
}
