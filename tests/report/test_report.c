/* Printed reports: keys and numbers of the JSON objects, sections of the text, traffic. */
#include <check.h>
#include <json-glib/json-glib.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "hand_trace.h"
#include "json_report.h"
#include "method_of.h"
#include "plan.h"
#include "run_suite.h"
#include "sample_report.h"
#include "text_report.h"

static JsonNode *parse(const char *text) {
  g_autoptr(GError) error = NULL;
  JsonNode *root = json_from_string(text, &error);
  ck_assert_msg(root != NULL, "%s", error ? error->message : "");
  return root;
}

/* The object has exactly these keys, in this order. */
static void check_keys(JsonObject *object, const char *keys) {
  g_autoptr(GList) members = json_object_get_members(object);
  g_autoptr(GString) found = g_string_new(NULL);
  for (GList *m = members; m; m = m->next)
    g_string_append_printf(found, "%s%s", found->len ? " " : "", (const char *)m->data);
  ck_assert_str_eq(found->str, keys);
}

TEST(a_step_has_the_documented_keys) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  g_autofree char *text = json_report_step(&report);
  g_autoptr(JsonNode) root = parse(text);
  JsonObject *object = json_node_get_object(root);
  check_keys(object,
             "step_time_s tokens_per_s tokens_per_s_per_gpu tflops_per_gpu mfu hfu flops_convention gpu_energy_Wh "
             "bubble_fraction bubble_overhead breakdown_s memory links bounding_link kernels engine warnings");
  check_keys(json_object_get_object_member(object, "breakdown_s"),
             "compute recompute tp pp cp ep dp bubble optimizer host offload other");
  check_keys(json_object_get_object_member(object, "memory"),
             "peak_bytes total_bytes allocator_bytes device_bytes capacity_bytes fits worst_rank weights_bytes "
             "gradients_bytes optimizer_bytes "
             "activations_bytes buffers_bytes");
  check_keys(json_object_get_object_member(object, "kernels"), "measured interpolated modelled");
  check_keys(json_object_get_object_member(object, "engine"), "events ranks_simulated wall_s");
  ck_assert_str_eq(json_object_get_string_member(object, "flops_convention"), "causal");
  ck_assert_int_eq(json_object_get_int_member(json_object_get_object_member(object, "engine"), "events"), 1234);
  JsonObject *memory = json_object_get_object_member(object, "memory");
  ck_assert(json_object_get_boolean_member(memory, "fits"));
  ck_assert_double_eq(json_object_get_double_member(memory, "buffers_bytes"), 1e9);
}

TEST(numbers_survive_writing_and_reading) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  const double values[] = {0.1, 1.0 / 3, 1e-8, 1e22, 0, 5, 1e-300, 123456789012345678.0, 1.7976931348623157e308};
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++) {
    report.step_time_s = values[i];
    g_autofree char *text = json_report_step(&report);
    g_autoptr(JsonNode) root = parse(text);
    ck_assert(json_object_get_double_member(json_node_get_object(root), "step_time_s") == values[i]);
  }
}

TEST(what_is_not_a_number_is_null) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.mfu = NAN;
  report.bubble_overhead = INFINITY;
  report.breakdown_s[BREAKDOWN_CP] = -INFINITY;
  g_autofree char *text = json_report_step(&report);
  ck_assert_ptr_null(strstr(text, "nan"));
  ck_assert_ptr_null(strstr(text, "inf"));
  g_autoptr(JsonNode) root = parse(text);
  ck_assert(json_object_get_null_member(json_node_get_object(root), "mfu"));
  ck_assert(json_object_get_null_member(json_node_get_object(root), "bubble_overhead"));
}

TEST(a_schedule_has_the_documented_keys) {
  int in_flight[] = {3, 2, 1};
  double peak_memory[] = {3, 2, 1};
  ScheduleReport report = {.makespan = 15,
                           .span = 15,
                           .bubble_time = 6,
                           .bubble_fraction = 0.4,
                           .bubble_overhead = 6.0 / 9,
                           .closed_form_bubble = NAN,
                           .in_flight = in_flight,
                           .peak_memory = peak_memory,
                           .n_ranks = 3,
                           .n_actions = 18};
  g_autofree char *text = json_report_schedule(&report);
  g_autoptr(JsonNode) root = parse(text);
  JsonObject *object = json_node_get_object(root);
  check_keys(object,
             "makespan step_time span bubble_time bubble_fraction bubble_overhead makespan_bubble_time "
             "makespan_bubble_fraction makespan_bubble_overhead closed_form_bubble closed_form_is_exact in_flight "
             "peak_memory actions sends");
  JsonArray *array = json_object_get_array_member(object, "in_flight");
  ck_assert_uint_eq(json_array_get_length(array), 3);
  ck_assert_int_eq(json_array_get_int_element(array, 0), 3);
  ck_assert_int_eq(json_object_get_int_member(object, "actions"), 18);
}

TEST(a_memory_report_has_the_documented_keys) {
  StateReport report = {.stages = {{.impossible = "why"}, {.weights_bytes = 14e9, .gradients_bytes = 28e9}},
                        .zero = 1,
                        .min_gpus = 2,
                        .bubble_overhead = 3. / 8,
                        .max_micro_batch = 3,
                        .parameters = 7e9};
  g_autofree char *text = json_report_memory(&report);
  g_autoptr(JsonNode) root = parse(text);
  JsonObject *object = json_node_get_object(root);
  check_keys(object,
             "state_bytes_per_gpu weights_bytes gradients_bytes optimizer_bytes activations_bytes buffers_bytes "
             "reserved_bytes total_bytes sent_bytes fits min_gpus max_micro_batch max_seq_len parameters bubble_fraction "
             "bubble_overhead zero_stages");
  ck_assert_double_eq(json_object_get_double_member(object, "bubble_fraction"), 3. / 11);
  ck_assert_double_eq(json_object_get_double_member(object, "state_bytes_per_gpu"), 42e9);
  JsonArray *stages = json_object_get_array_member(object, "zero_stages");
  ck_assert_uint_eq(json_array_get_length(stages), N_ZERO_STAGES);
  ck_assert_str_eq(json_object_get_string_member(json_array_get_object_element(stages, 0), "impossible"), "why");
  ck_assert(!json_object_has_member(json_array_get_object_element(stages, 0), "fits"));
  ck_assert(json_object_get_null_member(json_array_get_object_element(stages, 1), "impossible"));
  ck_assert_int_eq(json_object_get_int_member(object, "max_micro_batch"), 3);
  ck_assert_int_eq(json_object_get_int_member(object, "max_seq_len"), 0);
  ck_assert_int_eq(json_object_get_int_member(object, "min_gpus"), 2);
  ck_assert(!json_object_get_boolean_member(object, "fits"));
  ck_assert_int_eq(json_object_get_int_member(object, "parameters"), 7000000000);

  report.min_gpus = INFINITY;
  report.max_micro_batch = -1;
  report.stages[1].fits = TRUE; /* in nobody knows how much */
  g_autofree char *unknown = json_report_memory(&report);
  g_autoptr(JsonNode) other = parse(unknown);
  ck_assert(json_object_get_null_member(json_node_get_object(other), "min_gpus"));
  ck_assert(json_object_get_null_member(json_node_get_object(other), "fits"));
  ck_assert(json_object_get_null_member(json_node_get_object(other), "max_micro_batch"));
}

/* The line of `text` that starts with `label` after two spaces; owned by the caller. */
static char *line_of(const char *text, const char *label) {
  g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
  g_autofree char *prefix = g_strconcat("  ", label, " ", NULL);
  for (int i = 0; lines[i]; i++)
    if (g_str_has_prefix(lines[i], prefix))
      return g_strdup(lines[i]);
  ck_abort_msg("no line \"%s\"", label);
}

static char *render(const StepReport *report, gboolean colour) {
  GString *out = g_string_new(NULL);
  text_report_step(out, report, colour);
  return g_string_free(out, FALSE);
}

/* A config names heads that predict a token further; they are not modelled, and the report says so. */
TEST(heads_that_are_left_out_are_named) {
  const Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  g_autoptr(GString) without = g_string_new(NULL), with = g_string_new(NULL), trained = g_string_new(NULL);
  text_report_step(without, &report, FALSE);
  report.n_next_layers = 1;
  text_report_step(with, &report, FALSE);
  report.trains_next_layers = TRUE;
  text_report_step(trained, &report, FALSE);
  ck_assert_ptr_null(strstr(without->str, "left out"));
  ck_assert_ptr_nonnull(strstr(with->str, "1 multi-token prediction layer, not counted in time or memory\n"));
  ck_assert_ptr_nonnull(strstr(trained->str, "or memory (--mtp-layers)\n"));
}

/* Of exchanges with experts that ep 1 does not have: what was asked for, not what the framework does of itself. */
TEST(only_what_was_asked_for_is_said_to_have_no_effect) {
  Plan plan = sample_plan();
  plan.ep = 1;
  plan.expert_dispatch = DISPATCH_DEEPEP;
  plan.overlap_experts = 1;
  const StepReport report = sample_report(&plan);
  g_autofree char *asked = render(&report, FALSE);
  g_autofree char *both = line_of(asked, "no effect");
  ck_assert_ptr_nonnull(strstr(both, "--expert-dispatch deepep, --overlap-experts on: with ep 1"));
  plan.time.expert_dispatch = DISPATCH_DEEPEP;
  g_autofree char *dispatched = render(&report, FALSE);
  g_autofree char *one = line_of(dispatched, "no effect");
  ck_assert_ptr_null(strstr(one, "--expert-dispatch"));
  ck_assert_ptr_nonnull(strstr(one, "--overlap-experts on: with ep 1"));
  plan.time.expert_overlap = EXPERT_OVERLAP_ROUNDS;
  g_autofree char *neither = render(&report, FALSE);
  ck_assert_ptr_null(strstr(neither, "no effect"));
}

TEST(the_text_names_conventions_and_units) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  const int in_flight[] = {2, 1};
  report.in_flight = in_flight;
  g_autofree char *text = render(&report, FALSE);
  ck_assert(g_utf8_validate(text, -1, NULL));
  ck_assert_ptr_null(strchr(text, '\033'));
  ck_assert_ptr_nonnull(strstr(text, "tiny \"quoted\" on 16 × GPU-X (testbed)"));
  g_autofree char *mfu = line_of(text, "MFU");
  ck_assert_ptr_nonnull(strstr(mfu, "41.10 %"));
  ck_assert_ptr_nonnull(strstr(mfu, "bf16 peak"));
  ck_assert_ptr_nonnull(strstr(mfu, "\"causal\""));
  ck_assert_ptr_nonnull(strstr(text, "bubble_fraction 20.00 % (idle / step), bubble_overhead 25.00 % (idle / ideal)"));
  ck_assert_ptr_nonnull(strstr(text, "fullest rank, 1 (GB = 1e9 bytes)"));
  g_autofree char *total = line_of(text, "total"); /* 30 + 2 of 80 */
  ck_assert_ptr_nonnull(strstr(total, "32.00 GB"));
  ck_assert_ptr_nonnull(strstr(total, "40.00 %"));
  g_autofree char *capacity = line_of(text, "capacity");
  ck_assert_ptr_nonnull(strstr(capacity, "fits, 48.00 GB left"));
  g_autofree char *held = line_of(text, "in flight");
  ck_assert(g_str_has_suffix(held, ": 2 1"));
  report.capacity_bytes = 24e9; /* for 30 + 2 */
  report.fits = FALSE;
  g_autofree char *crowded = render(&report, FALSE);
  ck_assert_ptr_nonnull(strstr(crowded, "does not fit, 8.00 GB too much"));
}

TEST(bars_are_in_proportion) {
  /* 24 columns: 75 % is 18 full blocks, 5 % is 1.2 columns: to an eighth one block and ▎ (2/8). */
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  g_autofree char *text = render(&report, FALSE);
  g_autofree char *compute = line_of(text, "compute"), *tp = line_of(text, "tp");
  int n = 0;
  for (const char *at = compute; (at = strstr(at, "█")); at += strlen("█"))
    n++;
  ck_assert_int_eq(n, 18);
  ck_assert(g_str_has_suffix(tp, "█▎"));
  ck_assert_ptr_null(strstr(text, "  recompute ")); /* nothing to show */
}

/* `text` without ANSI escapes. */
static char *strip(const char *text) {
  g_autoptr(GRegex) escapes = g_regex_new("\033\\[[0-9]*m", 0, 0, NULL);
  return g_regex_replace_literal(escapes, text, -1, 0, "", 0, NULL);
}

TEST(colour_changes_nothing_but_colour) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  g_autofree char *plain = render(&report, FALSE), *coloured = render(&report, TRUE), *stripped = strip(coloured);
  ck_assert_ptr_nonnull(strchr(coloured, '\033'));
  ck_assert_str_eq(plain, stripped);
}

TEST(only_a_terminal_wants_colour) {
  int ends[2];
  ck_assert_int_eq(pipe(ends), 0);
  ck_assert(!text_report_wants_colour(ends[1]));
  close(ends[0]);
  close(ends[1]);
}

TEST(a_report_of_nothing_prints) {
  Plan plan = sample_plan();
  StepReport report = {.model_name = "m", .cluster_name = "c", .gpu_name = "g", .plan = &plan, .peak_number = "bf16"};
  g_autofree char *text = render(&report, FALSE), *json = json_report_step(&report);
  ck_assert_ptr_null(strstr(text, "nan"));
  g_autoptr(JsonNode) root = parse(json);
  ck_assert(JSON_NODE_HOLDS_OBJECT(root));
}

/* A layer with two tp all-reduces of 8 MB in F. */
static void fill_workload(Workload *workload, const Plan *plan, WorkItem items[2]) {
  *workload = (Workload){0};
  layout_init(&workload->layout, method_of(plan));
  for (int i = 0; i < 2; i++)
    items[i] = (WorkItem){.kind = ITEM_COLLECTIVE, .collective = COLLECTIVE_ALL_REDUCE, .bytes = 8e6, .after = -1};
  workload->work[PIECE_LAYER][PHASE_F] = (WorkList){.items = items, .n_items = 2};
}

TEST(traffic_is_what_each_gpu_sends_per_step) {
  /* tp: 3 layers × 2 all-reduces on rank 0 only: 6 · 2·(3/4)·8 MB = 72 MB, mean of two pipeline ranks 36 MB.
   * pp: one send of 2²⁰ B from rank 0: mean 2¹⁹. dp: an all-reduce of 4 MB over dp 2 on rank 1: 2·(1/2)·4 = 4 MB, mean
   * 2 MB. */
  Plan plan = sample_plan();
  Workload workload;
  WorkItem items[2];
  fill_workload(&workload, &plan, items);
  g_auto(Hand) hand = hand_new(2, 1);
  Op f = hand_compute(&hand, 0, PHASE_F, ACTION_F, 0);
  Work work = {.phase = PHASE_F, .n_layers = 3, .piece = -1, .first_item = -1, .last_item = -1, .stage = -1};
  f.work = program_work(hand.program, &work);
  hand_add(&hand, 0, f, 0, 0, 1);
  hand_add(&hand, 0, hand_send(&hand, 0, 1, 0, TRUE), 0, 1, 2);
  hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 1, 2);
  Group group = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  hand_add(&hand, 1, hand_collective(&hand, &group, STREAM_DP, ACTION_REDUCE_GRAD, 4e6), 0, 2, 3);

  StepReport report = {0};
  step_report_set_traffic(&report, hand.program, &workload);
  ck_assert_double_eq_tol(report.traffic_bytes[AXIS_TP], 36e6, 1);
  ck_assert_double_eq_tol(report.traffic_bytes[AXIS_PP], 524288, 1e-6);
  ck_assert_double_eq_tol(report.traffic_bytes[AXIS_DP], 2e6, 1e-6);

  hand.program->n_steps = 2; /* the same ops over two steps: half per step */
  step_report_set_traffic(&report, hand.program, &workload);
  ck_assert_double_eq_tol(report.traffic_bytes[AXIS_TP], 18e6, 1);
}

TEST(metrics_and_memory_arrive_in_the_report) {
  g_auto(Hand) hand = hand_new(1, 1);
  Op op = hand_compute(&hand, 0, PHASE_F, ACTION_F, 0);
  Effect effect = {.hold[MEMORY_ACTIVATIONS] = 5e9};
  op.effect = program_effect(hand.program, &effect);
  hand_add(&hand, 0, op, 10, 10, 40);
  const Trace *trace = hand_finish(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  g_autoptr(MemoryProfile) profile = memory_profile_new(trace);
  StepReport report = {0};
  step_report_set_metrics(&report, metrics);
  ck_assert_double_eq_tol(report.breakdown_s[BREAKDOWN_COMPUTE], 30e-9, 1e-20);
  ck_assert_double_eq_tol(report.breakdown_s[BREAKDOWN_HOST], 10e-9, 1e-20);
  step_report_set_memory(&report, profile, 2e9, 7e9);
  ck_assert(report.fits);
  step_report_set_memory(&report, profile, 2e9, 6.9e9);
  ck_assert(!report.fits);
  ck_assert_double_eq(report.memory_bytes[MEMORY_ACTIVATIONS], 5e9);
}

int main(void) {
  return run_tests();
}
