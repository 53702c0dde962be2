/* Several recorded ranks: each meets its own partners; spans of stages. */
#include "arrivals.h"
#include "metrics_fixture.h"
#include "run_suite.h"

/* dp 2 × pp 2, all four ranks recorded. Default order: rank = dp + 2·pp. */
static Layout two_by_two(void) {
  Layout layout = {.size = {1, 1, 1, 2, 2}, .dp_shard = 2, .n_ranks = 4};
  const int stride[N_AXES] = {[AXIS_TP] = 1, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = 1, [AXIS_PP] = 2};
  for (int axis = 0; axis < N_AXES; axis++)
    layout.stride[axis] = stride[axis];
  return layout;
}

/* By its own clock a receive ended at 40; by the sender's, which is ahead, the send began at 50. Whatever the clocks
 * say, a transfer was ready between its start and its end. */
TEST(a_partner_of_another_clock_is_there_by_the_end) {
  g_auto(Hand) hand = hand_new(2, 1);
  hand_add(&hand, 0, hand_send(&hand, 0, 1, 0, TRUE), 0, 50, 60);
  hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 10, 40);
  Arrivals *arrivals = arrivals_new(hand_finish(&hand));
  gint64 ready_ns[2];
  arrivals_of_rank(arrivals, 0, ready_ns);
  arrivals_of_rank(arrivals, 1, ready_ns + 1);
  ck_assert_int_eq(ready_ns[0], 50);
  ck_assert_int_eq(ready_ns[1], 40);
  arrivals_free(arrivals);
}

TEST(unfolded_ranks_meet_their_own_partners) {
  /* Pipelines 0 → 2 and 1 → 3; the second is slower. Then rank 2 and 3 reduce: 2 is there at 16, 3 at 25, end 30.
   * rank 0   F 0–5,  send 5–8        rank 2   receive 0–8,  F 8–16,  reduce 16–30, optimizer 30–31
   * rank 1   F 0–9,  send 9–12       rank 3   receive 0–12, F 12–25, reduce 25–30, optimizer 30–31 */
  g_auto(Hand) hand = hand_new(2, 1);
  gint32 f = hand_add(&hand, 0, forward(&hand, 0, 0), 0, 0, 0);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), f), 0, 0, 0);
  gint32 receive = hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 0, 0);
  f = hand_add(&hand, 1, hand_after(forward(&hand, 1, 0), receive), 0, 0, 0);
  gint32 reduce = hand_add(&hand, 1, hand_after(reduce_grad(&hand), f), 0, 0, 0);
  hand_add(&hand, 1, hand_after(optimizer(&hand, 1), reduce), 0, 0, 0);

  Layout layout = two_by_two();
  g_autoptr(Trace) trace = trace_new(hand.program, &layout, FALSE);
  const gint64 start[] = {0, 5, 0, 9, 0, 8, 16, 30, 0, 12, 25, 30};
  const gint64 end[] = {5, 8, 9, 12, 8, 16, 30, 31, 12, 25, 30, 31};
  for (int i = 0; i < 12; i++) {
    trace->start_ns[i] = start[i];
    trace->end_ns[i] = end[i];
    trace->issue_ns[i] = 0;
  }
  g_autoptr(Metrics) metrics = metrics_new(trace);
  check_ns(metrics, 2,
           (RankBreakdown){.ns[BREAKDOWN_BUBBLE] = 5,
                           .ns[BREAKDOWN_PP] = 3,
                           .ns[BREAKDOWN_COMPUTE] = 8,
                           .ns[BREAKDOWN_DP] = 14, /* the straggler's lateness is a wait of the dp group */
                           .ns[BREAKDOWN_OPTIMIZER] = 1});
  check_ns(metrics, 3,
           (RankBreakdown){.ns[BREAKDOWN_BUBBLE] = 9,
                           .ns[BREAKDOWN_PP] = 3,
                           .ns[BREAKDOWN_COMPUTE] = 13,
                           .ns[BREAKDOWN_DP] = 5,
                           .ns[BREAKDOWN_OPTIMIZER] = 1});
}

TEST(a_group_over_stages_waits_for_its_last_member_wherever_that_is) {
  /* All four ranks of dp 2 × pp 2 in one group: there at 10, 12, 14 and 20, done at 22. */
  g_auto(Hand) hand = hand_new(2, 1);
  Group everyone = world_group;
  everyone.axes = AXIS_BIT(AXIS_DP);
  for (int pp = 0; pp < 2; pp++) {
    gint32 b = hand_add(&hand, pp, backward(&hand, pp, 0), 0, 0, 0);
    Op all = hand_collective(&hand, &everyone, STREAM_DP, ACTION_NORM, 4);
    gint32 n = hand_add(&hand, pp, hand_after(all, b), 0, 0, 0);
    hand_add(&hand, pp, hand_after(optimizer(&hand, pp), n), 0, 0, 0);
  }
  Layout layout = two_by_two();
  g_autoptr(Trace) trace = trace_new(hand.program, &layout, FALSE);
  const gint64 there[] = {10, 12, 14, 20};
  for (int r = 0; r < 4; r++) {
    const gint64 start[] = {0, there[r], 22}, end[] = {there[r], 22, 25};
    for (int i = 0; i < 3; i++) {
      trace->start_ns[trace->first[r] + i] = start[i];
      trace->end_ns[trace->first[r] + i] = end[i];
      trace->issue_ns[trace->first[r] + i] = 0;
    }
  }
  g_autoptr(Metrics) metrics = metrics_new(trace);
  for (int r = 0; r < 4; r++)
    check_ns(metrics, r,
             (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = there[r],
                             .ns[BREAKDOWN_BUBBLE] = 20 - there[r],
                             .ns[BREAKDOWN_OTHER] = 2,
                             .ns[BREAKDOWN_OPTIMIZER] = 3});
}

TEST(a_straggler_keeps_the_others_reduction_from_counting_as_hidden) {
  /* Rank 2's reduction is there at 10 while it computes until 20; rank 3 comes at 14; data moves 14–18: 4 hidden. */
  g_auto(Hand) hand = hand_new(2, 1);
  hand_add(&hand, 0, forward(&hand, 0, 0), 0, 0, 0);
  gint32 b = hand_add(&hand, 1, backward(&hand, 1, 0), 0, 0, 0);
  hand_add(&hand, 1, hand_after(reduce_grad(&hand), b), 0, 0, 0);
  hand_add(&hand, 1, backward(&hand, 1, 0), 0, 0, 0);
  Layout layout = two_by_two();
  g_autoptr(Trace) trace = trace_new(hand.program, &layout, FALSE);
  const gint64 start[] = {0, 0, 0, 10, 10, 0, 14, 14}, end[] = {1, 1, 10, 18, 20, 14, 18, 24};
  for (int i = 0; i < 8; i++) {
    trace->start_ns[i] = start[i];
    trace->end_ns[i] = end[i];
    trace->issue_ns[i] = 0;
  }
  g_autoptr(Metrics) metrics = metrics_new(trace);
  ck_assert_int_eq(metrics->ranks[2].hidden_ns[AXIS_DP], 4);
  ck_assert_int_eq(metrics->ranks[3].hidden_ns[AXIS_DP], 4);
}

TEST(the_span_runs_from_first_start_to_last_end_of_the_longest_stage) {
  /* 1F1B, p = 2, m = 2, F = 1, B = 2, free sends: (p−1)(F+B) = 3 of bubble on each stage's span.
   * rank 0   F 0–1  F 1–2  ·  B 4–6  ·  B 7–9        span 9, work 6
   * rank 1   F 1–2  B 2–4  F 4–5  B 5–7               span 6, work 6 */
  g_auto(Hand) hand = hand_new(2, 2);
  const gint64 start0[] = {0, 1, 4, 7}, end0[] = {1, 2, 6, 9}, start1[] = {1, 2, 4, 5}, end1[] = {2, 4, 5, 7};
  Op first[4] = {forward(&hand, 0, 0), forward(&hand, 0, 1), backward(&hand, 0, 0), backward(&hand, 0, 1)};
  Op second[4] = {forward(&hand, 1, 0), backward(&hand, 1, 0), forward(&hand, 1, 1), backward(&hand, 1, 1)};
  for (int i = 0; i < 4; i++) {
    hand_add(&hand, 0, first[i], 0, start0[i], end0[i]);
    hand_add(&hand, 1, second[i], 0, start1[i], end1[i]);
  }
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  ck_assert_int_eq(metrics->span_ns, 9);
  ck_assert_int_eq(metrics->span_bubble_ns, 3);
  int peak[2];
  metrics_in_flight(hand.trace, peak); /* min(p − s, m) */
  ck_assert_int_eq(peak[0], 2);
  ck_assert_int_eq(peak[1], 1);
}

int main(void) {
  return run_tests();
}
