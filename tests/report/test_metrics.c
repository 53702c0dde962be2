/* Attribution of idle time: small hand-written traces, with the charges read off the picture, and random ones, whose
 * charges sum to the step. */
#include "metrics_fixture.h"
#include "run_suite.h"

TEST(a_wait_for_a_stage_is_bubble_until_the_sender_is_ready_then_pp) {
  /* rank 0   F 0–10, send 10–14
   * rank 1   receive there from 0, F 14–24
   * Rank 1 waits 10 for the work and 4 for the wire. Rank 0's last communication ends at 14, then nothing but bubble.
   */
  g_auto(Hand) hand = hand_new(2, 1);
  gint32 f = hand_add(&hand, 0, forward(&hand, 0, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), f), 0, 10, 14);
  gint32 receive = hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 0, 14);
  hand_add(&hand, 1, hand_after(forward(&hand, 1, 0), receive), 0, 14, 24);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  ck_assert_int_eq(metrics->step_ns, 24);
  check_ns(metrics, 0, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 10, .ns[BREAKDOWN_PP] = 4, .ns[BREAKDOWN_BUBBLE] = 10});
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 10, .ns[BREAKDOWN_PP] = 4, .ns[BREAKDOWN_BUBBLE] = 10});
  ck_assert_double_eq_tol(metrics->bubble_fraction, 10.0 / 24, 1e-15);
  ck_assert_double_eq_tol(metrics->bubble_overhead, 10.0 / 14, 1e-15);
  ck_assert_double_eq_tol(metrics->mean_s[BREAKDOWN_PP], 4e-9, 1e-20);
  ck_assert_int_eq(metrics->ranks[1].exposed_ns[AXIS_PP], 4);
  ck_assert_int_eq(metrics->ranks[1].hidden_ns[AXIS_PP], 0);
}

TEST(a_sender_ready_before_the_gap_makes_all_of_it_pp) {
  /* rank 1 computes 0–12 while the sender is ready at 10; the wire takes until 15. Only 12–15 is exposed; 10–12 ran
   * beside kernels. */
  g_auto(Hand) hand = hand_new(2, 2);
  gint32 f = hand_add(&hand, 0, forward(&hand, 0, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), f), 0, 10, 15);
  hand_add(&hand, 1, forward(&hand, 1, 1), 0, 0, 12);
  gint32 receive = hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 0, 15);
  hand_add(&hand, 1, hand_after(forward(&hand, 1, 0), receive), 0, 15, 20);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 17, .ns[BREAKDOWN_PP] = 3});
  ck_assert_int_eq(metrics->ranks[1].hidden_ns[AXIS_PP], 2);
  ck_assert_int_eq(metrics->ranks[0].hidden_ns[AXIS_PP], 0); /* counted where it arrives */
}

TEST(gradient_collectives_cost_dp_only_where_nothing_runs) {
  /* compute  B 0–10, B 10–20, optimizer 32–37
   * dp       reduce 10–18, reduce 20–32 */
  g_auto(Hand) hand = hand_new(1, 2);
  gint32 first = hand_add(&hand, 0, backward(&hand, 0, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(reduce_grad(&hand), first), 0, 10, 18);
  gint32 second = hand_add(&hand, 0, backward(&hand, 0, 1), 0, 10, 20);
  gint32 reduce = hand_add(&hand, 0, hand_after(reduce_grad(&hand), second), 0, 20, 32);
  hand_add(&hand, 0, hand_after(optimizer(&hand, 0), reduce), 0, 32, 37);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0,
           (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 20, .ns[BREAKDOWN_DP] = 12, .ns[BREAKDOWN_OPTIMIZER] = 5});
  ck_assert_int_eq(metrics->ranks[0].hidden_ns[AXIS_DP], 8);
  ck_assert_int_eq(metrics->ranks[0].exposed_ns[AXIS_DP], 12);
}

TEST(a_norm_over_stages_is_explained_back_through_the_reduction_before_it) {
  /* rank 0   B 0–10, reduce 10–16, norm there 16–22, optimizer 22–25
   * rank 1   B 0–12, reduce 12–20, norm there 20–22, optimizer 22–25
   * Rank 0: 6 for its own reduction, 4 until rank 1 came, 2 for the norm itself. Rank 1: 8 and 2. */
  g_auto(Hand) hand = hand_new(2, 1);
  gint64 compute_end[2] = {10, 12}, reduce_end[2] = {16, 20};
  for (int r = 0; r < 2; r++) {
    gint32 b = hand_add(&hand, r, backward(&hand, r, 0), 0, 0, compute_end[r]);
    hand_add(&hand, r, hand_after(reduce_grad(&hand), b), 0, compute_end[r], reduce_end[r]);
    gint32 n = hand_add(&hand, r, hand_after(norm(&hand), b), 0, reduce_end[r], 22);
    hand_add(&hand, r, hand_after(optimizer(&hand, r), n), 0, 22, 25);
  }
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0,
           (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 10,
                           .ns[BREAKDOWN_DP] = 6,
                           .ns[BREAKDOWN_BUBBLE] = 4,
                           .ns[BREAKDOWN_OTHER] = 2,
                           .ns[BREAKDOWN_OPTIMIZER] = 3});
  check_ns(
      metrics, 1,
      (RankBreakdown){
          .ns[BREAKDOWN_COMPUTE] = 12, .ns[BREAKDOWN_DP] = 8, .ns[BREAKDOWN_OTHER] = 2, .ns[BREAKDOWN_OPTIMIZER] = 3});
}

TEST(a_late_launch_is_host) {
  g_auto(Hand) hand = hand_new(1, 2);
  hand_add(&hand, 0, forward(&hand, 0, 0), 2, 2, 10);
  hand_add(&hand, 0, forward(&hand, 0, 1), 13, 13, 20);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 15, .ns[BREAKDOWN_HOST] = 5});
}

TEST(a_host_sync_is_host_and_what_it_waited_for_keeps_its_own_name) {
  /* optimizer 0–10, gather 10–15, sync 15–17 (waits for the gather), the next F is issued at 18: dp 5, host 3. */
  g_auto(Hand) hand = hand_new(1, 1);
  gint32 step = hand_add(&hand, 0, optimizer(&hand, 0), 0, 0, 10);
  Op gather = hand_collective(&hand, &dp_group, STREAM_DP, ACTION_UNSHARD, 1e6);
  gint32 gathered = hand_add(&hand, 0, hand_after(gather, step), 0, 10, 15);
  Op sync = op_new(OP_HOST, STREAM_HOST, ACTION_SYNC, -1, -1);
  hand_add(&hand, 0, hand_after(hand_after(sync, step), gathered), 0, 15, 17);
  hand_add(&hand, 0, forward(&hand, 0, 0), 18, 18, 28);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(
      metrics, 0,
      (RankBreakdown){
          .ns[BREAKDOWN_COMPUTE] = 10, .ns[BREAKDOWN_OPTIMIZER] = 10, .ns[BREAKDOWN_DP] = 5, .ns[BREAKDOWN_HOST] = 3});
}

TEST(the_tail_is_the_last_communication_then_bubble) {
  /* rank 0: optimizer 0–10, gather 10–14; rank 1: optimizer 0–30. */
  g_auto(Hand) hand = hand_new(2, 1);
  gint32 step = hand_add(&hand, 0, optimizer(&hand, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(reduce_grad(&hand), step), 0, 10, 14);
  hand_add(&hand, 1, optimizer(&hand, 1), 0, 0, 30);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0,
           (RankBreakdown){.ns[BREAKDOWN_OPTIMIZER] = 10, .ns[BREAKDOWN_DP] = 4, .ns[BREAKDOWN_BUBBLE] = 16});
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_OPTIMIZER] = 30});
}

TEST(of_several_steps_the_last_is_measured_from_the_end_of_the_one_before) {
  /* rank 0   step 0: F 0–10     step 1: F 15–35
   * rank 1   step 0: F 0–20     step 1: F 22–30
   * Step 0 ends at 20, step 1 at 35: the window is 20–35. Rank 0 runs all of it (5 of its 20 lie before); rank 1 waits
   * 2 for its launch, runs 8 and idles 5. */
  g_auto(Hand) hand = hand_new(2, 1);
  hand.program->n_steps = 2;
  const gint64 start[2][2] = {{0, 15}, {0, 22}}, end[2][2] = {{10, 35}, {20, 30}};
  for (int r = 0; r < 2; r++) {
    for (int step = 0; step < 2; step++) {
      Op op = forward(&hand, r, 0);
      op.step = step;
      hand_add(&hand, r, op, start[r][step], start[r][step], end[r][step]);
    }
  }
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  ck_assert_int_eq(metrics->step_ns, 15);
  check_ns(metrics, 0, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 15});
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_HOST] = 2, .ns[BREAKDOWN_COMPUTE] = 8, .ns[BREAKDOWN_BUBBLE] = 5});
  ck_assert_int_eq(metrics->span_ns, 20); /* of the last step, uncut: 15–35 */
  ck_assert_int_eq(metrics->span_bubble_ns, 0);
}

/* A random program on `n` ranks; records keep nothing but each stream's order, as a measured trace with bad clocks may.
 */
static void fill_at_random(Hand *hand, int n, GRand *rand) {
  g_autofree gint64(*free_ns)[N_STREAMS] = g_malloc0_n((gsize)n, sizeof *free_ns);
  for (int i = 0; i < 60; i++) {
    int r = g_rand_int_range(rand, 0, n), kind = g_rand_int_range(rand, 0, 6);
    Op ops[2];
    int ranks[2] = {r, r}, n_ops = 1;
    if (kind == 0 && n > 1) {
      ranks[1] = (r + 1) % n;
      ops[0] = hand_send(hand, r, ranks[1], i, TRUE);
      ops[1] = hand_send(hand, r, ranks[1], i, FALSE);
      n_ops = 2;
    } else if (kind == 1) {
      ops[0] = reduce_grad(hand);
    } else if (kind == 2) {
      ops[0] = op_new(OP_HOST, STREAM_HOST, ACTION_SYNC, -1, -1);
    } else {
      ops[0] = kind == 3 ? optimizer(hand, r) : forward(hand, r, 0);
    }
    for (int k = 0; k < n_ops; k++) {
      int n_before = hand->program->ranks[ranks[k]].n_ops;
      if (n_before > 0 && g_rand_boolean(rand)) {
        gint32 after = g_rand_int_range(rand, 0, n_before);
        if (hand->program->ranks[ranks[k]].ops[after].stream != ops[k].stream)
          op_add_after(&ops[k], after);
      }
      gint64 *stream_ns = &free_ns[ranks[k]][ops[k].stream];
      ops[k].step = i >= 30;
      gint64 start = *stream_ns + g_rand_int_range(rand, 0, 20), end = start + g_rand_int_range(rand, 0, 20);
      *stream_ns = end;
      hand_add(hand, ranks[k], ops[k], g_rand_int_range(rand, 0, 1 + (int)start), start, end);
    }
  }
}

TEST(charges_sum_to_the_step_on_every_rank_of_any_trace) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(20240117);
  for (int round = 0; round < 2000; round++) {
    int n = g_rand_int_range(rand, 1, 5);
    g_auto(Hand) hand = hand_new(n, 1);
    hand.program->n_steps = g_rand_int_range(rand, 1, 3);
    fill_at_random(&hand, n, rand);
    g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
    for (int r = 0; r < n; r++) {
      gint64 sum = 0;
      for (int kind = 0; kind < N_BREAKDOWN; kind++) {
        ck_assert_int_ge(metrics->ranks[r].ns[kind], 0);
        sum += metrics->ranks[r].ns[kind];
      }
      ck_assert_int_eq(sum, metrics->step_ns);
      for (int axis = 0; axis < N_AXES; axis++)
        ck_assert_int_ge(metrics->ranks[r].hidden_ns[axis], 0);
    }
  }
}

TEST(an_empty_trace_gives_zeros) {
  g_auto(Hand) hand = hand_new(2, 1);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  ck_assert_int_eq(metrics->step_ns, 0);
  ck_assert(metrics->bubble_fraction == 0 && metrics->bubble_overhead == 0);
  int peak[2] = {7, 7};
  metrics_in_flight(hand.trace, peak);
  ck_assert(peak[0] == 0 && peak[1] == 0);
}

int main(void) {
  return run_tests();
}
