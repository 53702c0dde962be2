/* Traces written, read back and compared. Numbers are derived beside each assertion. */
#include "compare.h"
#include "run_suite.h"

#include "chrome_fixture.h"
#include "compare_plot.h"
#include "compare_text.h"
#include "error.h"
#include "hand_trace.h"
#include "json_report.h"
#include "trace_fixture.h"
#include <math.h>
#include <string.h>

/* Two traces and their comparison. */
typedef struct {
  ChromeTrace *predicted, *measured;
  Compare *compare;
} Both;

static Both both_new(const Trace *predicted, const Trace *measured) {
  Both both = {read_back(predicted), read_back(measured), NULL};
  g_autoptr(GError) error = NULL;
  both.compare = compare_new(both.predicted, both.measured, &error);
  ck_assert_msg(both.compare != NULL, "%s", error ? error->message : "");
  return both;
}

static void both_clear(Both *both) {
  compare_free(both->compare);
  chrome_trace_free(both->predicted);
  chrome_trace_free(both->measured);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Both, both_clear)

static const CompareKind *kind_of(const Compare *compare, const char *name) {
  for (guint i = 0; i < compare->kinds->len; i++) {
    const CompareKind *kind = &g_array_index(compare->kinds, CompareKind, i);
    if (strcmp(g_quark_to_string(kind->name), name) == 0)
      return kind;
  }
  ck_abort_msg("no kind %s", name);
}

static void assert_near(double found, double expected) {
  ck_assert_msg(fabs(found - expected) < 1e-12, "found %.17g, expected %.17g", found, expected);
}

/* Every error of the comparison, of what took time at all. */
static void assert_errors(const Compare *compare, double expected) {
  assert_near(compare_error(compare->predicted.step_s, compare->measured.step_s), expected);
  for (guint i = 0; i < compare->kinds->len; i++) {
    const CompareKind *kind = &g_array_index(compare->kinds, CompareKind, i);
    ck_assert_int_eq(kind->n_predicted, kind->n_measured);
    if (kind->measured_ns > 0)
      assert_near(compare_error((double)kind->predicted_ns, (double)kind->measured_ns), expected);
  }
  for (int row = 0; row < compare->n_rows; row++) {
    const RankTimes *predicted = &compare->predicted.ranks[compare->rows[row].predicted];
    const RankTimes *measured = &compare->measured.ranks[compare->rows[row].measured];
    assert_near(compare_error(predicted->busy_s, measured->busy_s), expected);
    for (int phase = 0; phase < N_COMPARE_PHASES; phase++)
      if (measured->phase_s[phase] > 0)
        assert_near(compare_error(predicted->phase_s[phase], measured->phase_s[phase]), expected);
  }
}

static const FixtureTimes times = {.compute_ns = {[ACTION_F] = 1000, [ACTION_B] = 2000}, .send_ns = 100};

/* --- comparing --------------------------------------------------------------------------------------------------- */

static void scale(const Trace *trace, gint64 factor, gint64 divisor) {
  for (gsize i = 0; i < trace->first[trace->n_ranks]; i++) {
    trace->start_ns[i] = trace->start_ns[i] * factor / divisor;
    trace->end_ns[i] = trace->end_ns[i] * factor / divisor;
  }
}

TEST(a_trace_against_itself_has_no_error) {
  g_auto(Fixture) fixture = fixture_new("interleaved", 4, 2, 8, &times);
  g_auto(Both) both = both_new(fixture.trace, fixture.trace);
  assert_errors(both.compare, 0);
  ck_assert_int_eq(both.compare->n_inversions, 0);
  ck_assert_int_eq(both.compare->n_violations, 0);
  ck_assert_uint_eq(both.compare->pairs->len, fixture.trace->first[4]);
}

TEST(a_prediction_ten_percent_too_long_is_so_everywhere) {
  /* All times are multiples of 100 ns, so 1.1 of each is a whole number. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 4, 1, 6, &times);
  g_auto(Fixture) longer = fixture_new("1f1b", 4, 1, 6, &times);
  scale(longer.trace, 11, 10);
  g_auto(Both) both = both_new(longer.trace, fixture.trace);
  assert_errors(both.compare, 0.1);
}

/* Whatever the host's first launch takes, it is part of the step. */
TEST(a_step_is_as_long_as_the_metrics_say) {
  static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "interleaved"};
  for (guint i = 0; i < 40; i++) {
    g_auto(Fixture) fixture = fixture_new(schedules[i % 4], 1 + (int)i % 5, i % 4 == 3 ? 2 : 1, 2 + (int)i % 7, &times);
    const gint64 launch_ns = 700 * (gint64)i;
    for (gsize k = 0; k < fixture.trace->first[fixture.trace->n_ranks]; k++) {
      fixture.trace->start_ns[k] += launch_ns;
      fixture.trace->end_ns[k] += launch_ns;
    }
    g_auto(Both) both = both_new(fixture.trace, fixture.trace);
    g_autoptr(Metrics) metrics = metrics_new(fixture.trace);
    assert_near(both.compare->measured.step_s, 1e-9 * (double)metrics->step_ns);
    assert_near(both.compare->predicted.mean_step_s, 1e-9 * (double)metrics->step_ns);
    g_autofree char *csv = compare_csv(both.compare, 0),
                    *first = g_strdup_printf("\n0,compute,\"0F0\",0,%d,%d,%d,%d\n", (int)launch_ns,
                                             (int)launch_ns + 1000, (int)launch_ns, (int)launch_ns + 1000);
    ck_assert_msg(i % 4 == 3 || strstr(csv, first) != NULL, "%s%s", first, csv);
    ck_assert_ptr_null(strstr(csv, "\n1,"));
  }
}

TEST(two_ops_that_changed_places_are_one_inversion) {
  /* planned F0 F1 B0, 10 ns each; executed F0 B0 F1 */
  g_auto(Hand) planned = hand_new(1, 2), executed = hand_new(1, 2);
  static const gint64 starts_ns[2][3] = {{0, 10, 20}, {0, 20, 10}};
  Hand *hands[] = {&planned, &executed};
  for (int i = 0; i < 2; i++) {
    hand_add(hands[i], 0, hand_compute(hands[i], 0, PHASE_F, ACTION_F, 0), 0, starts_ns[i][0], starts_ns[i][0] + 10);
    hand_add(hands[i], 0, hand_compute(hands[i], 0, PHASE_F, ACTION_F, 1), 0, starts_ns[i][1], starts_ns[i][1] + 10);
    hand_add(hands[i], 0, hand_compute(hands[i], 0, PHASE_B, ACTION_B, 0), 0, starts_ns[i][2], starts_ns[i][2] + 10);
  }
  g_auto(Both) both = both_new(hand_finish(&planned), hand_finish(&executed));
  ck_assert_int_eq(both.compare->n_inversions, 1);
  ck_assert_uint_eq(both.compare->inversions->len, 1);
  ck_assert_str_eq(g_ptr_array_index(both.compare->inversions, 0), "rank 0 compute: 0B0 ran before 0F1");
}

TEST(one_order_run_as_another_is_counted_in_inversions) {
  /* p = 2, m = 3. Rank 0: F0 F1 B0 F2 B1 B2 against F0 F1 F2 B0 B1 B2: B0 and F2.
   * Rank 1: F0 B0 F1 B1 F2 B2 against the same: B0 and F1, B0 and F2, B1 and F2. */
  g_auto(Fixture) planned = fixture_new("1f1b", 2, 1, 3, &times);
  g_auto(Fixture) executed = fixture_new("gpipe", 2, 1, 3, &times);
  g_auto(Both) both = both_new(planned.trace, executed.trace);
  ck_assert_int_eq(both.compare->n_inversions, 4);
  ck_assert_str_eq(g_ptr_array_index(both.compare->inversions, 0), "rank 0 compute: 0F2 ran before 0B0");
  ck_assert_int_eq(both.compare->n_violations, 0);
}

static Hand sending_hand(gint64 send_start_ns, gint64 send_end_ns, gint64 recv_start_ns, gint64 recv_end_ns) {
  Hand hand = hand_new(2, 1);
  hand_add(&hand, 0, hand_compute(&hand, 0, PHASE_F, ACTION_F, 0), 0, 0, 100);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), 0), 0, send_start_ns, send_end_ns);
  gint32 receive = hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, recv_start_ns, recv_end_ns);
  hand_add(&hand, 1, hand_after(hand_compute(&hand, 1, PHASE_F, ACTION_F, 0), receive), 0, 140, 200);
  hand_finish(&hand);
  return hand;
}

TEST(a_wait_for_the_other_side_is_no_transfer) {
  /* The receive is there from 40, the send from 100, both end at 130: the receive waits 60, both move data for 30. */
  g_auto(Hand) hand = sending_hand(100, 130, 40, 130);
  g_auto(Both) both = both_new(hand.trace, hand.trace);
  const CompareKind *send = kind_of(both.compare, "send"), *receive = kind_of(both.compare, "recv");
  ck_assert(send->is_communication && receive->is_communication);
  ck_assert_int_eq(send->measured_ns, 30);
  ck_assert_int_eq(send->measured_wait_ns, 0);
  ck_assert_int_eq(receive->measured_ns, 30);
  ck_assert_int_eq(receive->measured_wait_ns, 60);
}

TEST(a_buffered_send_waited_for_nobody) {
  /* The send is through before the receive is there; the receive then takes 130 − 125. */
  g_auto(Hand) hand = sending_hand(100, 120, 125, 130);
  g_auto(Both) both = both_new(hand.trace, hand.trace);
  ck_assert_int_eq(kind_of(both.compare, "send")->measured_ns, 20);
  ck_assert_int_eq(kind_of(both.compare, "recv")->measured_ns, 5);
  ck_assert_int_eq(kind_of(both.compare, "recv")->measured_wait_ns, 0);
  ck_assert_int_eq(both.compare->n_violations, 0);
}

TEST(what_ran_before_what_it_needs_is_named) {
  /* Measured, the receive ends at 60, the send begins at 90, and the forward it takes from ends at 100. */
  g_auto(Hand) planned = sending_hand(100, 130, 40, 130), executed = sending_hand(90, 130, 40, 60);
  g_auto(Both) both = both_new(planned.trace, executed.trace);
  ck_assert_int_eq(both.compare->n_violations, 2);
  ck_assert_str_eq(g_ptr_array_index(both.compare->violations, 0),
                   "rank 0: send F 0 · mb 0 began 10 ns before 0F0 ended");
  ck_assert_str_eq(g_ptr_array_index(both.compare->violations, 1),
                   "rank 1: recv F 1 · mb 0 ended 30 ns before rank 0's send F 0 · mb 0 began");
}

static const Group dp_group = {
    .name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
static const Layout dp_layout = {.size = {1, 1, 1, 2, 1}, .stride = {1, 1, 1, 1, 2}, .dp_shard = 2, .n_ranks = 2};

TEST(a_collective_begins_when_its_last_member_is_there) {
  /* Two members, ready at 0 and 50, done at 80: waits 50 and 0, transfers 30 and 30. A folded prediction of 40. */
  g_auto(Hand) hand = hand_new(1, 1);
  hand_add(&hand, 0, hand_collective(&hand, &dp_group, STREAM_DP, ACTION_REDUCE_GRAD, 8), 0, 0, 40);
  hand_finish(&hand);
  hand.trace->layout = dp_layout;
  g_autoptr(Trace) measured = trace_new(hand.program, &dp_layout, FALSE);
  measured->start_ns[1] = 50;
  measured->start_ns[0] = 0;
  measured->end_ns[0] = measured->end_ns[1] = 80;
  g_auto(Both) both = both_new(hand.trace, measured);
  const CompareKind *kind = kind_of(both.compare, "reduce_grad");
  ck_assert_int_eq(kind->n_predicted, 2);
  ck_assert_int_eq(kind->predicted_ns, 80);
  ck_assert_int_eq(kind->measured_ns, 60);
  ck_assert_int_eq(kind->measured_wait_ns, 50);
  /* (40 − 30) ns in a step of one rank */
  assert_near(kind->predicted_in_step_s - kind->measured_in_step_s, 1e-8);
}

TEST(each_rank_is_compared_with_the_one_that_stands_for_it) {
  /* pp 2 · dp 2, dp innermost: ranks 0 and 1 are pipeline rank 0, 2 and 3 pipeline rank 1. */
  static const Layout layout = {.size = {1, 1, 1, 2, 2}, .stride = {1, 1, 1, 1, 2}, .dp_shard = 2, .n_ranks = 4};
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 4, &times);
  fixture.trace->layout = layout;
  g_autoptr(Trace) apart = trace_new(fixture.program, &layout, FALSE);
  for (int rank = 0; rank < 4; rank++) {
    gsize n = apart->first[rank + 1] - apart->first[rank], from = fixture.trace->first[rank / 2];
    memcpy(apart->start_ns + apart->first[rank], fixture.trace->start_ns + from, n * sizeof(gint64));
    memcpy(apart->end_ns + apart->first[rank], fixture.trace->end_ns + from, n * sizeof(gint64));
  }
  Both both = both_new(fixture.trace, apart);
  ck_assert_int_eq(both.compare->n_rows, 4);
  ck_assert_int_eq(both.compare->rows[3].predicted, 1);
  assert_errors(both.compare, 0);
  both_clear(&both);
  both = both_new(apart, fixture.trace); /* or the other way round */
  assert_errors(both.compare, 0);
  ck_assert_int_eq(both.compare->rows[2].measured, 1);
  both_clear(&both);
}

static void add_run(Hand *hand, gboolean is_tp, gint64 start_ns, gint64 end_ns) {
  static const Group tp = {.name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1, .charge = AXIS_TP};
  Op op = is_tp ? hand_collective(hand, &tp, STREAM_TP, ACTION_F, 8) : hand_compute(hand, 0, PHASE_F, ACTION_F, 0);
  op.stage = op.micro_batch = 0;
  hand_add(hand, 0, op, 0, start_ns, end_ns);
}

TEST(a_whole_op_is_compared_with_its_runs) {
  /* Predicted, one F from 100 with kernels inside: qkv 10, all_reduce 4, mlp 20. Measured, the same as three records.
   */
  TimedItem items[] = {{.name = "qkv", .duration_ns = 10, .after = -1},
                       {.name = "all_reduce", .duration_ns = 4, .after = 0, .is_collective = TRUE},
                       {.name = "mlp", .duration_ns = 20, .after = 1}};
  Timing timing = {0};
  timing.lists[PIECE_LAYER][PHASE_F] = (TimedList){.items = items, .n_items = 3};
  timed_list_finish(&timing.lists[PIECE_LAYER][PHASE_F]);
  g_auto(Hand) whole = hand_new(1, 1), runs = hand_new(1, 1);
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_F, 0, 0);
  Work work = {.phase = PHASE_F, .n_layers = 1, .piece = -1, .first_item = -1, .last_item = -1, .stage = -1};
  op.work = program_work(whole.program, &work);
  hand_add(&whole, 0, op, 100, 100, 134);
  hand_finish(&whole);
  whole.trace->timing = &timing;
  add_run(&runs, FALSE, 100, 110);
  add_run(&runs, TRUE, 110, 114);
  add_run(&runs, FALSE, 114, 134);
  g_auto(Both) both = both_new(whole.trace, hand_finish(&runs));
  const CompareKind *forward = kind_of(both.compare, "F"), *tp = kind_of(both.compare, "tp");
  ck_assert_int_eq(forward->n_predicted, 1);
  ck_assert_int_eq(forward->predicted_ns, 34);
  ck_assert_int_eq(tp->predicted_ns, 4);
  ck_assert(tp->is_inner);
  assert_errors(both.compare, 0);
}

static Hand stepping_hand(const gint64 *lengths_ns, int n) {
  Hand hand = hand_new(1, 1);
  hand.program->n_steps = n;
  gint64 at_ns = 0;
  for (int step = 0; step < n; step++) {
    Op op = hand_compute(&hand, 0, PHASE_F, ACTION_F, 0);
    op.step = step;
    hand_add(&hand, 0, op, 0, at_ns, at_ns + lengths_ns[step]);
    at_ns += lengths_ns[step];
  }
  hand_finish(&hand);
  return hand;
}

TEST(of_many_steps_the_first_warms_up_and_the_median_counts) {
  static const gint64 measured_ns[] = {900, 10, 40, 12, 20}, predicted_ns[] = {15, 20, 20, 20, 20};
  static const struct {
    int n;
    double predicted_s, measured_s;
    const char *words;
  } cases[] = {{1, 15e-9, 900e-9, "the only step"},
               {2, 20e-9, 10e-9, "the second of 2"},
               {4, 20e-9, 12e-9, "median of the last 3 of 4"},  /* of 10, 12, 40 */
               {5, 20e-9, 16e-9, "median of the last 4 of 5"}}; /* of 10, 12, 20, 40 */
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(Hand) predicted = stepping_hand(predicted_ns, cases[i].n), measured = stepping_hand(measured_ns, cases[i].n);
    g_auto(Both) both = both_new(predicted.trace, measured.trace);
    g_autofree char *steps = compare_steps_text(both.compare);
    assert_near(both.compare->predicted.step_s * 1e6, cases[i].predicted_s * 1e6);
    assert_near(both.compare->measured.step_s * 1e6, cases[i].measured_s * 1e6);
    ck_assert_ptr_nonnull(strstr(steps, cases[i].words));
  }
}

TEST(a_step_has_four_phases) {
  /*    0  F0  10  F1  20 .. 25  B0  45  F2  55  B1  75  B2  95 .. 100 optimizer 110
   *    warm-up until 25, steady until 55, cool-down until 95, the rest until 110; busy 10·3 + 20·3 + 10 */
  static const struct {
    Phase phase;
    ActionKind action;
    int micro_batch;
    gint64 start_ns, end_ns;
  } ops[] = {{PHASE_F, ACTION_F, 0, 0, 10},
             {PHASE_F, ACTION_F, 1, 10, 20},
             {PHASE_B, ACTION_B, 0, 25, 45},
             {PHASE_F, ACTION_F, 2, 45, 55},
             {PHASE_B, ACTION_B, 1, 55, 75},
             {PHASE_B, ACTION_B, 2, 75, 95},
             {PHASE_OPTIMIZER, ACTION_OPTIMIZER, -1, 100, 110}};
  g_auto(Hand) hand = hand_new(1, 3);
  for (guint i = 0; i < G_N_ELEMENTS(ops); i++)
    hand_add(&hand, 0, hand_compute(&hand, 0, ops[i].phase, ops[i].action, ops[i].micro_batch), 0, ops[i].start_ns,
             ops[i].end_ns);
  hand_finish(&hand);
  g_auto(Both) both = both_new(hand.trace, hand.trace);
  const RankTimes *found = &both.compare->measured.ranks[0];
  static const double expected_s[N_COMPARE_PHASES] = {25e-9, 30e-9, 40e-9, 15e-9};
  for (int phase = 0; phase < N_COMPARE_PHASES; phase++)
    assert_near(found->phase_s[phase] * 1e6, expected_s[phase] * 1e6);
  assert_near(found->busy_s * 1e6, 100e-9 * 1e6);
}

static void assert_refused(const Trace *predicted, const Trace *measured, const char *words) {
  g_autoptr(ChromeTrace) a = read_back(predicted);
  g_autoptr(ChromeTrace) b = read_back(measured);
  g_autoptr(GError) error = NULL;
  g_autoptr(Compare) compare = compare_new(a, b, &error);
  ck_assert_ptr_null(compare);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, words) != NULL, "%s", error->message);
}

TEST(traces_of_two_programs_are_refused_with_the_first_difference) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_auto(Fixture) ranks = fixture_new("1f1b", 4, 1, 2, &times);
  g_auto(Fixture) stages = fixture_new("interleaved", 2, 2, 2, &times);
  g_auto(Fixture) batches = fixture_new("1f1b", 2, 1, 3, &times);
  assert_refused(fixture.trace, ranks.trace, "ranks 2");
  assert_refused(fixture.trace, stages.trace, "stages 2");
  assert_refused(fixture.trace, batches.trace, "micro-batches 2");
  g_auto(Fixture) stopped = fixture_new("1f1b", 2, 1, 2, &times);
  stopped.trace->start_ns[0] = stopped.trace->end_ns[0] = -1; /* 0F0 of rank 0 */
  assert_refused(fixture.trace, stopped.trace, "rank 0, step 0, stream compute:");
  assert_refused(stopped.trace, fixture.trace, "has \"0F0\"");
  static const Timing timing;
  g_auto(Fixture) simulated = fixture_new("1f1b", 2, 1, 2, &times);
  simulated.trace->timing = &timing;
  assert_refused(fixture.trace, simulated.trace, "the predicted trace is given first");
}

/* --- printing ---------------------------------------------------------------------------------------------------- */

TEST(a_picture_has_two_lanes_for_each_rank) {
  /* p = 2, m = 1: rank 0's F 0–1 us, its send from 1 us on; measured twice as long. */
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 1, &times);
  g_auto(Fixture) longer = fixture_new("1f1b", 2, 1, 1, &times);
  scale(longer.trace, 2, 1);
  g_auto(Both) both = both_new(fixture.trace, longer.trace);
  g_autoptr(Picture) all = compare_picture(both.compare, -1), single = compare_picture(both.compare, 1);
  const char *data = all->data->str, *one = single->data->str;
  ck_assert_ptr_nonnull(strstr(data, "0 0 10 0 6.2 0 -1\n0 0 0 0 1 0 0\n"));
  ck_assert_ptr_nonnull(strstr(data, "0 1 10 0 12.4 0 -1\n0 1 0 0 2 0 0\n"));
  ck_assert_ptr_nonnull(strstr(data, "0 0 9 1 1.1 0 -1\n"));
  ck_assert_ptr_nonnull(strstr(data, "\n1 1 10"));
  ck_assert_ptr_nonnull(strstr(one, "\n0 1 10"));
  ck_assert_ptr_null(strstr(one, "\n1 "));
}

TEST(the_report_names_errors_in_percent) {
  g_auto(Fixture) fixture = fixture_new("1f1b", 2, 1, 2, &times);
  g_auto(Fixture) longer = fixture_new("1f1b", 2, 1, 2, &times);
  scale(longer.trace, 11, 10);
  g_auto(Both) both = both_new(longer.trace, fixture.trace);
  g_autoptr(GString) out = g_string_new(NULL);
  compare_text(out, both.compare, -1, FALSE);
  ck_assert_ptr_nonnull(strstr(out->str, "measured, error   +10.00 %"));
  ck_assert_ptr_nonnull(strstr(out->str, "every stream ran its ops in the planned order"));
  g_autofree char *json = json_report_compare(both.compare, 1);
  ck_assert_ptr_nonnull(strstr(json, "\"kind\" : \"B\""));
  ck_assert_ptr_nonnull(strstr(json, "\"rank\" : 1"));
  ck_assert_ptr_null(strstr(json, "\"rank\" : 0"));
}

int main(void) {
  folder = g_dir_make_tmp("stepsim-test-XXXXXX", NULL);
  const int failed = run_tests();
  g_rmdir(folder);
  g_free(folder);
  return failed;
}
