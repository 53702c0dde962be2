/* The search for the best plan against trying every configuration. */
#include "error.h" /* ahead of Check, which has a macro fail() */
#include "parallel.h"
#include "plan_bound.h"
#include "plan_order.h"
#include "plan_space.h"
#include "planner_report.h"

#include <check.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>

/* Small enough to try all, with plans that do not fit: 8 and 16 GPUs. */
static const struct {
  const char *model, *cluster, *gpus, *batch;
} cases[] = {
    {"llama-3-8b", "dgx-h100", "8", "32"},    {"llama-3-8b", "a100-pcie", "4", "8"},
    {"llama-3-8b", "selene", "16", "16"},     {"megatron-3.6b", "dgx-h100", "8", "16"},
    {"megatron-3.6b", "a100-pcie", "8", "8"}, {"megatron-3.6b", "selene", "8", "32"},
    {"gpt2", "dgx-h100", "8", "64"},          {"gpt2", "a100-pcie", "8", "32"},
    {"gpt2", "selene", "16", "32"},
};

typedef struct {
  const char *name, *text;
} Given;

static Space *space_of(const Given *given) {
  g_autoptr(GError) error = NULL;
  Space *space = space_new();
  gboolean ok = TRUE;
  for (; ok && given->name != NULL; given++)
    ok = space_set(space, given->name, given->text, &error);
  ok = ok && plan_space_fill(space, &error) && space_finish(space, &error);
  ck_assert_msg(ok, "%s", error != NULL ? error->message : "");
  return space;
}

static Space *space_of_case(gsize i) {
  const Given given[] = {{"model", cases[i].model},
                         {"cluster", cases[i].cluster},
                         {"gpus", cases[i].gpus},
                         {"global-batch", cases[i].batch},
                         {"seq-len", "1024"},
                         {"cp", i == 2 ? "1,2" : "1"},
                         {"micro-batch", i % 2 == 0 ? "1,4" : "2"},
                         {"schedule", "1f1b,interleaved,zb-h1"},
                         {"chunks", "1,2"},
                         {"zero", i % 3 == 0 ? "0,1,3" : "0,3"},
                         {"recompute", i == 0 ? "none,selective,full" : "none,full"},
                         {NULL}};
  return space_of(given);
}

static PlannerRequest request_of(const Space *space) {
  return (PlannerRequest){.space = space,
                          .scoring = {OBJECTIVE_TOKENS_PER_S, -1},
                          .n_kept = 5,
                          .framework = PLANNER_ANY_FRAMEWORK,
                          .n_threads = 1};
}

static PlannerResult *search(const PlannerRequest *request) {
  g_autoptr(GError) error = NULL;
  PlannerResult *result = planner_search(request, NULL, &error);
  ck_assert_msg(result != NULL, "%s", error != NULL ? error->message : "");
  return result;
}

/* --- the exhaustive way --- */

typedef struct {
  gint64 n_impossible, n_out_of_memory, n_same;
  gint64 least_same_ns;
  GArray *steps_ns; /* of what fits, ascending */
} Exhaustive;

static int by_ns(gconstpointer a, gconstpointer b) {
  gint64 x = *(const gint64 *)a, y = *(const gint64 *)b;
  return (x > y) - (x < y);
}

/* The bound may not be above what the simulation says. */
static void check_bound(const Prediction *prediction) {
  const Workload *workload = prediction->workload;
  gint64 bound_ns = plan_bound_step_ns(workload, prediction->cluster);
  if (bound_ns <= 0 || bound_ns > prediction->metrics->step_ns)
    ck_abort_msg("bound %g s, step %g s", 1e-9 * (double)bound_ns, prediction->step_time_s);
}

/* The space has sequence parallelism off, ZeRO 0, no recomputation and 1f1b too. */
static gboolean is_same(const Plan *plan) {
  return (plan->tp == 1 && plan->sequence_parallel) || (plan_data_ranks(plan) == 1 && plan->zero > 0) ||
         plan->recompute == RECOMPUTE_SELECTIVE || /* with flash attention, the default */
         (plan->chunks == 1 && strcmp(plan->schedule, "interleaved") == 0);
}

static Exhaustive try_all(const Space *space) {
  Exhaustive all = {.steps_ns = g_array_new(FALSE, FALSE, sizeof(gint64)), .least_same_ns = G_MAXINT64};
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  for (gint64 i = 0; i < space_count(space); i++) {
    SpacePoint point;
    ck_assert(space_reader_read(reader, i, &point, NULL));
    g_autoptr(Prediction) prediction = predict(point.model, point.cluster, point.plan, NULL);
    gboolean is_possible = prediction != NULL && (point.plan->pp > 1 || prediction->workload->plan->chunks == 1);
    all.n_impossible += !is_possible;
    if (!is_possible)
      continue;
    check_bound(prediction);
    if (is_same(prediction->workload->plan)) {
      all.n_same++;
      all.least_same_ns = prediction->fits ? MIN(all.least_same_ns, prediction->metrics->step_ns) : all.least_same_ns;
      continue;
    }
    all.n_out_of_memory += !prediction->fits;
    if (prediction->fits)
      g_array_append_val(all.steps_ns, prediction->metrics->step_ns);
  }
  g_array_sort(all.steps_ns, by_ns);
  return all;
}

START_TEST(the_search_keeps_what_trying_everything_would_keep) {
  gint64 n_left_out = 0, n_out_of_memory = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Space) space = space_of_case(i);
    Exhaustive all = try_all(space);
    PlannerRequest request = request_of(space);
    g_autoptr(PlannerResult) result = search(&request);
    ck_assert_uint_eq(result->kept->len, 5);
    for (guint k = 0; k < result->kept->len; k++) {
      const PlanOutcome *kept = g_ptr_array_index(result->kept, k);
      ck_assert_int_eq(llround(kept->step_time_s * 1e9), g_array_index(all.steps_ns, gint64, k));
    }
    ck_assert_int_eq(result->n_configurations, space_count(space));
    /* what the bound left out may have been impossible to lay out, or out of memory */
    ck_assert_int_le(result->n_impossible, all.n_impossible);
    ck_assert_int_le(result->n_out_of_memory, all.n_out_of_memory);
    ck_assert_int_eq(result->n_same, all.n_same);
    ck_assert_int_ge(all.least_same_ns, g_array_index(all.steps_ns, gint64, 0));
    ck_assert_int_eq(result->n_configurations, result->n_same + result->n_impossible + result->n_out_of_memory +
                                                   result->n_late + result->n_beaten_by_bound + result->n_slower +
                                                   result->kept->len);
    n_left_out += result->n_beaten_by_bound;
    n_out_of_memory += result->n_out_of_memory;
    g_array_unref(all.steps_ns);
  }
  ck_assert_int_gt(n_left_out, 0); /* or the bound does nothing */
  ck_assert_int_gt(n_out_of_memory, 0);
}
END_TEST

/* --- published choices --- */

/* Megatron-LM's plans for 530B and a trillion parameters on A100 (arXiv 2104.04473, tables 1 and 2), among all plans
 * its runtime of 2021 could have run. Whoever chose them tried them; a planner that finds them much slower than
 * another, or does not find them, is wrong about one of the two. */
START_TEST(published_plans_are_the_best_or_nearly) {
  static const struct {
    const char *model, *gpus, *batch;
    int tp, pp;
  } published[] = {{"megatron-530b", "2240", "2240", 8, 35}, {"megatron-1t", "3072", "3072", 8, 64}};
  for (gsize i = 0; i < G_N_ELEMENTS(published); i++) {
    const Given given[] = {{"model", published[i].model},
                           {"cluster", "selene"},
                           {"gpus", published[i].gpus},
                           {"global-batch", published[i].batch},
                           {"seq-len", "2048"},
                           {"precision", "fp16"},
                           {"recipe", "megatron"},
                           {"attention", "unfused"},
                           {"recompute", "full"},
                           {"zero", "0"},
                           {"sequence-parallel", "off"},
                           {"overlap-grad", "off"},
                           {"overlap-param", "off"},
                           {"micro-batch", "1"},
                           {NULL}};
    g_autoptr(Space) space = space_of(given);
    PlannerRequest request = request_of(space);
    request.n_kept = 2;
    request.n_threads = 2;
    g_autoptr(PlannerResult) result = search(&request);
    const PlanOutcome *best = result->kept->pdata[0], *found = NULL;
    for (guint k = 0; k < result->kept->len && found == NULL; k++) {
      const Plan *plan = ((PlanOutcome *)result->kept->pdata[k])->completed;
      if (plan->tp == published[i].tp && plan->pp == published[i].pp)
        found = result->kept->pdata[k];
    }
    ck_assert_msg(found != NULL && found->step_time_s < 1.02 * best->step_time_s, "%s on %s", published[i].model,
                  published[i].gpus);
  }
}
END_TEST

START_TEST(threads_change_nothing) {
  g_autoptr(Space) space = space_of_case(0);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) one = search(&request);
  request.n_threads = 3;
  g_autoptr(PlannerResult) three = search(&request);
  ck_assert_int_eq(one->n_simulated, three->n_simulated);
  ck_assert_int_eq(one->n_impossible, three->n_impossible);
  ck_assert_mem_eq(one->n_slower_by, three->n_slower_by, sizeof one->n_slower_by);
  ck_assert_uint_eq(one->reasons->len, three->reasons->len);
  for (guint k = 0; k < one->kept->len; k++)
    ck_assert_int_eq(((PlanOutcome *)one->kept->pdata[k])->index, ((PlanOutcome *)three->kept->pdata[k])->index);
}
END_TEST

/* --- objectives and limits --- */

/* More GPUs train faster and cost more: strong scaling never gains more than the GPUs it adds. */
START_TEST(speed_takes_all_gpus_and_cost_the_fewest) {
  const Given given[] = {{"model", "llama-3-8b"}, {"cluster", "dgx-h100"}, {"gpus", "16,32,64"}, {"pp", "1"},
                         {"global-batch", "64"},  {"micro-batch", "1"},    {"zero", "1,3"},      {NULL}};
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) fast = search(&request);
  request.scoring.objective = OBJECTIVE_COST;
  g_autoptr(PlannerResult) cheap = search(&request);
  request.scoring.objective = OBJECTIVE_MFU;
  g_autoptr(PlannerResult) efficient = search(&request);
  ck_assert_int_eq(((PlanOutcome *)fast->kept->pdata[0])->completed->gpus, 64);
  ck_assert_int_eq(((PlanOutcome *)cheap->kept->pdata[0])->completed->gpus, 16);
  const PlanOutcome *best = efficient->kept->pdata[0];
  ck_assert_double_eq_tol(1 / best->score, best->mfu, 1e-9);
}
END_TEST

START_TEST(slower_plans_than_asked_for_are_late) {
  g_autoptr(Space) space = space_of_case(8);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) any = search(&request);
  const PlanOutcome *best = any->kept->pdata[0], *last = any->kept->pdata[4];
  ck_assert_double_gt(best->tokens_per_s, last->tokens_per_s);
  request.least_tokens_per_s = (best->tokens_per_s + last->tokens_per_s) / 2;
  g_autoptr(PlannerResult) in_time = search(&request);
  ck_assert_uint_lt(in_time->kept->len, 5);
  ck_assert_int_eq(((PlanOutcome *)in_time->kept->pdata[0])->index, best->index);
  ck_assert_int_gt(in_time->n_late, 0);
  request.least_tokens_per_s = 2 * best->tokens_per_s;
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(planner_search(&request, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, "deadline") != NULL, "%s", error->message);
}
END_TEST

START_TEST(a_framework_is_given_only_plans_it_can_run) {
  g_autoptr(Space) space = space_of_case(0);
  PlannerRequest request = request_of(space);
  request.framework = LAUNCH_DEEPSPEED;
  g_autoptr(PlannerResult) result = search(&request);
  for (guint k = 0; k < result->kept->len; k++) {
    const Plan *plan = ((PlanOutcome *)result->kept->pdata[k])->completed;
    ck_assert(plan->pp == 1 || strcmp(plan->schedule, "1f1b") == 0);
    ck_assert(plan->tp == 1 || !plan->sequence_parallel);
  }
  gboolean is_told = FALSE;
  for (guint i = 0; i < result->reasons->len; i++)
    is_told |= g_str_has_prefix(g_array_index(result->reasons, PlannerReason, i).text, "deepspeed: ");
  ck_assert(is_told);
}
END_TEST

/* --- one step from the best --- */

static const SensitivityStep *find_step(const GArray *steps, const char *option, const char *to) {
  for (guint i = 0; i < steps->len; i++) {
    const SensitivityStep *step = &g_array_index(steps, SensitivityStep, i);
    if (strcmp(step->option, option) == 0 && strcmp(step->to, to) == 0)
      return step;
  }
  return NULL;
}

/* llama-3-8b has 32 layers: over pp 4 and 2 chunks 8 stages of 4; the even cuts beside it are 4 and 16 stages. */
static PlannerResult *search_one_plan(Space **space, PlannerRequest *request) {
  const Given given[] = {{"model", "llama-3-8b"},
                         {"cluster", "dgx-h100"},
                         {"gpus", "16"},
                         {"tp", "2"},
                         {"pp", "4"},
                         {"chunks", "2"},
                         {"micro-batch", "1"},
                         {"global-batch", "32"},
                         {"seq-len", "2048"},
                         {"zero", "1"},
                         {"recompute", "none"},
                         {"sequence-parallel", "on"},
                         {"schedule", "interleaved"},
                         {NULL}};
  *space = space_of(given);
  *request = request_of(*space);
  return search(request);
}

START_TEST(each_step_changes_one_option_and_what_must_follow) {
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
    const SensitivityStep *step = find_step(steps, expected[i].option, expected[i].to);
    ck_assert_msg(step != NULL, "%s to %s", expected[i].option, expected[i].to);
    ck_assert_msg(step->outcome != NULL, "%s: %s", expected[i].option, step->problem);
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
END_TEST

/* tp 32 of 32 GPUs and 32 heads: 64 is too many for either. */
START_TEST(an_impossible_step_says_why) {
  const Given given[] = {{"model", "llama-3-8b"}, {"cluster", "dgx-h100"}, {"gpus", "32"}, {"tp", "32"}, {"pp", "1"},
                         {"global-batch", "32"},  {"micro-batch", "1"},    {"zero", "1"},  {NULL}};
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  g_autoptr(GArray) steps = sensitivity_new(result->kept->pdata[0], &request);
  const SensitivityStep *step = find_step(steps, "--tp", "64");
  ck_assert_ptr_nonnull(step);
  ck_assert_ptr_null(step->outcome);
  ck_assert_msg(strstr(step->problem, "tp 64") != NULL, "%s", step->problem);
}
END_TEST

/* --- for scripts --- */

static JsonObject *member(JsonObject *object, const char *name) {
  ck_assert_msg(json_object_has_member(object, name), "no %s", name);
  return json_object_get_object_member(object, name);
}

START_TEST(the_json_object_has_what_the_text_has) {
  g_autoptr(Space) space = NULL;
  PlannerRequest request;
  g_autoptr(PlannerResult) result = search_one_plan(&space, &request);
  const PlanOutcome *best = result->kept->pdata[0];
  g_autoptr(GArray) steps = sensitivity_new(best, &request);
  TrainingCost cost = training_cost_of(1e12, best->tokens_per_s, 16, 2);
  const PlannerReport report = {.request = &request, .result = result, .sensitivity = steps, .cost = &cost};
  g_autofree char *text = planner_json(&report);
  g_autoptr(JsonNode) root = json_from_string(text, NULL);
  ck_assert_ptr_nonnull(root);
  JsonObject *object = json_node_get_object(root), *shown = member(object, "best");
  ck_assert_double_eq(json_object_get_double_member(shown, "step_time_s"), best->step_time_s);
  ck_assert_int_eq(json_object_get_int_member(member(shown, "plan"), "pp"), 4);
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
END_TEST

/* What is shown of the best plans can be typed again: the same steps come out. */
static void assert_typed_again(const Given *given) {
  g_autoptr(Space) space = space_of(given);
  PlannerRequest request = request_of(space);
  g_autoptr(PlannerResult) result = search(&request);
  for (guint k = 0; k < result->kept->len; k++) {
    const PlanOutcome *kept = result->kept->pdata[k];
    g_autofree char *options = planner_options(kept);
    g_autoptr(Space) typed = space_new();
    ck_assert(space_set(typed, "model", cases[2].model, NULL) && space_set(typed, "cluster", cases[2].cluster, NULL));
    g_auto(GStrv) words = g_strsplit(options, " ", -1);
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

START_TEST(the_options_shown_give_the_step_shown) {
  const Given given[] = {{"model", cases[2].model},
                         {"cluster", cases[2].cluster},
                         {"gpus", "16"},
                         {"global-batch", "16"},
                         {"seq-len", "1024"},
                         {"precision", "fp16"},
                         {"recipe", "megatron"},
                         {"framework", "megatron-deepspeed"},
                         {"order", "tp-cp-ep-pp-dp"},
                         {"prefetch", "2"},
                         {"bucket", "1000000"},
                         {"zero-ranks", "2"},
                         {"grad-norm-barrier", "off"},
                         {"contention", "off"},
                         {"flops", "megatron"},
                         {"steps", "2"},
                         {"jitter", "0.01"},
                         {"seed", "7"},
                         {"tp", "2"},
                         {"pp", "2"},
                         {"zero", "1,3"},
                         {"recompute", "none,full"},
                         {"attention", "unfused"},
                         {"overlap-grad", "off"},
                         {"overlap-param", "off"},
                         {"overlap-p2p", "on"},
                         {"micro-batch", "1"},
                         {NULL}};
  assert_typed_again(given);
  /* a schedule of the table stands for auto, and runs as auto does */
  const Given left_to_auto[] = {{"model", cases[2].model},
                                {"cluster", cases[2].cluster},
                                {"gpus", "16"},
                                {"global-batch", "16"},
                                {"seq-len", "1024"},
                                {"schedule", "auto"},
                                {"pp", "2"},
                                {"tp", "2"},
                                {"chunks", "17"},
                                {"sequence-parallel", "on"},
                                {"zero", "1"},
                                {"recompute", "none"},
                                {"micro-batch", "1"},
                                {NULL}};
  assert_typed_again(left_to_auto);
}
END_TEST

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

/* 32 layers, 32 heads, 8 key-value heads; 12 GPUs are no whole nodes, on which the lists do not depend. tp: 1, 2, 4
 * divide 12 and the heads, 3 does not divide the heads. pp: all that divide 12. chunks v with p·v | 32 or 34 for p in
 * 2, 3, 4, 6, 12: of 32 with p = 2: 1 2 4 8 16, of 34 with p = 2: 17. */
START_TEST(open_lists_follow_from_model_and_cluster) {
  const Given given[] = {
      {"model", "llama-3-8b"}, {"cluster", "dgx-h100"}, {"gpus", "12"}, {"global-batch", "12"}, {NULL}};
  g_autoptr(Space) space = space_of(given);
  ck_assert(holds(space, "tp", "1,2,4"));
  ck_assert(holds(space, "pp", "1,2,3,4,6,12"));
  ck_assert(holds(space, "chunks", "1,2,4,8,16,17"));
  ck_assert(holds(space, "zero", "0,1,2,3"));
}
END_TEST

START_TEST(what_must_be_given_is_asked_for) {
  static const struct {
    Given given[4];
    const char *missing;
  } incomplete[] = {{{{"model", "gpt2"}, {"cluster", "selene"}, {"gpus", "8"}}, "--global-batch"},
                    {{{"model", "gpt2"}, {"cluster", "selene"}, {"global-batch", "8"}}, "--gpus"},
                    {{{"cluster", "selene"}, {"gpus", "8"}, {"global-batch", "8"}}, "--model"}};
  for (gsize i = 0; i < G_N_ELEMENTS(incomplete); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Space) space = space_new();
    for (const Given *given = incomplete[i].given; given->name != NULL; given++)
      ck_assert(space_set(space, given->name, given->text, NULL));
    ck_assert(!plan_space_fill(space, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, incomplete[i].missing) != NULL, "%s", error->message);
  }
}
END_TEST

/* 86.4e9 tokens at 1e6 a second: 86,400 s, a day; on 10 GPUs 240 GPU-hours, at 2 $ an hour 480 $. */
START_TEST(cost_is_time_times_gpus_times_price) {
  TrainingCost cost = training_cost_of(86.4e9, 1e6, 10, 2);
  ck_assert_double_eq_tol(cost.days, 1, 1e-12);
  ck_assert_double_eq_tol(cost.gpu_hours, 240, 1e-9);
  ck_assert_double_eq_tol(cost.dollars, 480, 1e-9);
}
END_TEST

static void visit(gint64 index, int thread, gpointer data) {
  ((guint8 *)data)[index]++; /* each index has a byte of its own */
}

START_TEST(every_index_is_visited_once) {
  for (gint64 n = 0; n < 700; n += 69) {
    g_autofree guint8 *visits = g_new0(guint8, n + 1);
    parallel_for(n, 4, visit, visits, NULL);
    gint64 n_once = 0;
    for (gint64 i = 0; i < n; i++)
      n_once += visits[i] == 1;
    ck_assert_int_eq(n_once, n);
  }
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("planner");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, the_search_keeps_what_trying_everything_would_keep);
  tcase_add_test(tcase, published_plans_are_the_best_or_nearly);
  tcase_add_test(tcase, threads_change_nothing);
  tcase_add_test(tcase, speed_takes_all_gpus_and_cost_the_fewest);
  tcase_add_test(tcase, slower_plans_than_asked_for_are_late);
  tcase_add_test(tcase, a_framework_is_given_only_plans_it_can_run);
  tcase_add_test(tcase, each_step_changes_one_option_and_what_must_follow);
  tcase_add_test(tcase, an_impossible_step_says_why);
  tcase_add_test(tcase, the_json_object_has_what_the_text_has);
  tcase_add_test(tcase, the_options_shown_give_the_step_shown);
  tcase_add_test(tcase, open_lists_follow_from_model_and_cluster);
  tcase_add_test(tcase, what_must_be_given_is_asked_for);
  tcase_add_test(tcase, cost_is_time_times_gpus_times_price);
  tcase_add_test(tcase, every_index_is_visited_once);
  Suite *suite = suite_create("planner");
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failures = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failures != 0;
}
