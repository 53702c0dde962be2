/* Metrics of a run that omits groups equal those of the full run: small hand-written traces. */
#include "metrics.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#include "hand_trace.h"

enum { PERIOD_NS = 10, OPTIMIZER_NS = 5 };

static const Group dp_group = {
    .name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};

static Op of_step(int step, Op op) {
  op.step = step;
  return op;
}

/* A group, from k·10:     compute  B 0–6
 *                         dp           reduce 4–10, which the next group waits for
 * and behind the last an optimizer of 5. Everything is issued when the step begins, or each B just before it starts. */
static void add_step(Hand *hand, int step, int n_groups, gboolean is_late) {
  const gint64 begin_ns = step * (n_groups * PERIOD_NS + OPTIMIZER_NS), end_ns = begin_ns + n_groups * PERIOD_NS;
  gint32 reduce = -1;
  for (int k = 0; k < n_groups; k++) {
    const gint64 at_ns = begin_ns + k * PERIOD_NS;
    const Op backward = hand_compute(hand, 0, PHASE_B, ACTION_B, k);
    hand_add(hand, 0, of_step(step, is_late || reduce < 0 ? backward : hand_after(backward, reduce)),
             is_late ? at_ns : begin_ns, at_ns, at_ns + 6);
    reduce = hand_add(hand, 0, of_step(step, hand_collective(hand, &dp_group, STREAM_DP, ACTION_REDUCE_GRAD, 1e6)),
                      begin_ns, at_ns + 4, at_ns + PERIOD_NS);
  }
  const Op optimizer = hand_after(hand_compute(hand, 0, PHASE_OPTIMIZER, ACTION_OPTIMIZER, -1), reduce);
  hand_add(hand, 0, of_step(step, optimizer), begin_ns, end_ns, end_ns + OPTIMIZER_NS);
}

static Hand run_of(int n_steps, int n_groups, gboolean is_late) {
  Hand hand = hand_new(1, n_groups);
  hand.program->n_steps = n_steps;
  for (int step = 0; step < n_steps; step++)
    add_step(&hand, step, n_groups, is_late);
  hand_finish(&hand);
  return hand;
}

/* Of steps of six groups three are left out, of which each does what ended in (36, 46] of the step: the fourth's
 * reduction, the fifth's B. NULL: not known. */
static Metrics *metrics_of_six(int n_steps, gboolean is_late, gint32 n_early) {
  g_auto(Hand) six = run_of(n_steps, 6, is_late);
  RepeatedOps lists[] = {{.first = 0, .end = 10, .n_ops = 2}, {.first = 13, .end = 23, .n_ops = 2}};
  const ProgramRepeats repeats = {.program = six.program, .n_micro_batches = 1, .lists = lists};
  g_autoptr(Omitted) omitted = omitted_new(&repeats, 3);
  for (int step = 0; step < n_steps; step++) {
    OmittedPeriod *period = &omitted->periods[step];
    period->begin_ns = step * (6 * PERIOD_NS + OPTIMIZER_NS) + 3 * PERIOD_NS + 6;
    period->end_ns = period->begin_ns + PERIOD_NS;
    period->n_early[0] = n_early;
  }
  Metrics *metrics = metrics_new_with(six.trace, omitted);
  return metrics;
}

static void check_same(const Metrics *a, const Metrics *b) {
  ck_assert_int_eq(a->step_ns, b->step_ns);
  ck_assert_int_eq(a->span_ns, b->span_ns);
  ck_assert_int_eq(a->span_bubble_ns, b->span_bubble_ns);
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    ck_assert_int_eq(a->ranks[0].ns[kind], b->ranks[0].ns[kind]);
  for (int axis = 0; axis < N_AXES; axis++)
    ck_assert_int_eq(a->ranks[0].hidden_ns[axis], b->ranks[0].hidden_ns[axis]);
  ck_assert_mem_eq(a->mean_s, b->mean_s, sizeof a->mean_s);
}

TEST(what_is_left_out_is_charged_as_often_as_it_comes_about) {
  /* Nine groups of 6 compute and 4 of dp, 2 of whose 6 are hidden, and 5 of the optimizer; the span is from 0 to the
   * last B's end, 86, of which 54 are work. */
  g_auto(Hand) nine = run_of(1, 9, FALSE);
  g_autoptr(Metrics) expected = metrics_new(nine.trace);
  g_autoptr(Metrics) found = metrics_of_six(1, FALSE, 13); /* all are issued early, and nothing rests on it */
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(found->step_ns, 95);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_COMPUTE], 54);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_DP], 36);
  ck_assert_int_eq(found->ranks[0].hidden_ns[AXIS_DP], 18);
  ck_assert_int_eq(found->span_ns, 86);
  ck_assert_int_eq(found->span_bubble_ns, 32);
  check_same(expected, found);
}

TEST(what_rests_on_a_launch_is_known_only_if_launches_repeat_too) {
  g_auto(Hand) nine = run_of(1, 9, TRUE);
  g_autoptr(Metrics) expected = metrics_new(nine.trace);
  g_autoptr(Metrics) found = metrics_of_six(1, TRUE, 0);
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_HOST], 8 * 4); /* before each B but the first */
  check_same(expected, found);
  ck_assert_ptr_null(metrics_of_six(1, TRUE, 13));
  /* the first four groups are issued early: the fourth's B ended in the period before */
  ck_assert_ptr_null(metrics_of_six(1, TRUE, 8));
  /* the first two: all that ended before it */
  g_autoptr(Metrics) early = metrics_of_six(1, TRUE, 4);
  ck_assert_ptr_nonnull(early);
  check_same(expected, early);
}

/* Of two steps one behind the other the second counts: what is left out of the first is none of it. */
TEST(of_several_steps_the_last_is_charged) {
  g_auto(Hand) nine = run_of(2, 9, FALSE);
  g_autoptr(Metrics) expected = metrics_new(nine.trace);
  g_autoptr(Metrics) found = metrics_of_six(2, FALSE, 0);
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(found->step_ns, 95);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_COMPUTE], 54);
  ck_assert_int_eq(found->span_ns, 86);
  check_same(expected, found);
}

int main(void) {
  return run_tests();
}
