/* Attribution of idle time: small traces written down by hand, with the charges read off the picture. */
#include "metrics.h"

#include <check.h>
#include <math.h>

#include "hand_trace.h"

static const Group dp_group = {
    .name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
static const Group tp_group = {
    .name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1, .charge = AXIS_TP};
static const Group world_group = {.name = "world", .spans_pp = TRUE, .pp_first = -1, .pp_last = -1, .charge = AXIS_PP};

/* Every charge of a rank, in the order of BreakdownKind; those not named must be 0. */
static void check_ns(const Metrics *metrics, int rank, RankBreakdown expected) {
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    ck_assert_msg(metrics->ranks[rank].ns[kind] == expected.ns[kind],
                  "rank %d, %s: %" G_GINT64_FORMAT " ns, not %" G_GINT64_FORMAT, rank, breakdown_name(kind),
                  metrics->ranks[rank].ns[kind], expected.ns[kind]);
}

static Op forward(Hand *hand, int rank, int micro_batch) {
  return hand_compute(hand, rank, PHASE_F, ACTION_F, micro_batch);
}

static Op backward(Hand *hand, int rank, int micro_batch) {
  return hand_compute(hand, rank, PHASE_B, ACTION_B, micro_batch);
}

static Op optimizer(Hand *hand, int rank) {
  return hand_compute(hand, rank, PHASE_OPTIMIZER, ACTION_OPTIMIZER, -1);
}

static Op reduce_grad(Hand *hand) {
  return hand_collective(hand, &dp_group, STREAM_DP, ACTION_REDUCE_GRAD, 1e6);
}

static Op norm(Hand *hand) {
  return hand_collective(hand, &world_group, STREAM_DP, ACTION_NORM, 4);
}

START_TEST(a_wait_for_a_stage_is_bubble_until_the_sender_is_ready_then_pp) {
  /* rank 0   F 0–10, send 10–14
   * rank 1   receive there from 0, F 14–24
   * Rank 1 waits 10 for the work and 4 for the wire. Rank 0's last communication ends at 14, then nothing but bubble.
   */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(a_sender_ready_before_the_gap_makes_all_of_it_pp) {
  /* rank 1 computes 0–12 while the sender is ready at 10; the wire takes until 15. Only 12–15 is exposed; 10–12 ran
   * beside kernels. */
  Hand hand = hand_new(2, 2);
  gint32 f = hand_add(&hand, 0, forward(&hand, 0, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(hand_send(&hand, 0, 1, 0, TRUE), f), 0, 10, 15);
  hand_add(&hand, 1, forward(&hand, 1, 1), 0, 0, 12);
  gint32 receive = hand_add(&hand, 1, hand_send(&hand, 0, 1, 0, FALSE), 0, 0, 15);
  hand_add(&hand, 1, hand_after(forward(&hand, 1, 0), receive), 0, 15, 20);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 17, .ns[BREAKDOWN_PP] = 3});
  ck_assert_int_eq(metrics->ranks[1].hidden_ns[AXIS_PP], 2);
  ck_assert_int_eq(metrics->ranks[0].hidden_ns[AXIS_PP], 0); /* counted where it arrives */
  hand_clear(&hand);
}
END_TEST

START_TEST(gradient_collectives_cost_dp_only_where_nothing_runs) {
  /* compute  B 0–10, B 10–20, optimizer 32–37
   * dp       reduce 10–18, reduce 20–32 */
  Hand hand = hand_new(1, 2);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(a_norm_over_stages_is_explained_back_through_the_reduction_before_it) {
  /* rank 0   B 0–10, reduce 10–16, norm there 16–22, optimizer 22–25
   * rank 1   B 0–12, reduce 12–20, norm there 20–22, optimizer 22–25
   * Rank 0: 6 for its own reduction, 4 until rank 1 came, 2 for the norm itself. Rank 1: 8 and 2. */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(a_late_launch_is_host) {
  Hand hand = hand_new(1, 2);
  hand_add(&hand, 0, forward(&hand, 0, 0), 2, 2, 10);
  hand_add(&hand, 0, forward(&hand, 0, 1), 13, 13, 20);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0, (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 15, .ns[BREAKDOWN_HOST] = 5});
  hand_clear(&hand);
}
END_TEST

START_TEST(a_host_sync_is_host_and_what_it_waited_for_keeps_its_own_name) {
  /* optimizer 0–10, gather 10–15, sync 15–17 (waits for the gather), the next F is issued at 18: dp 5, host 3. */
  Hand hand = hand_new(1, 1);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(the_tail_is_the_last_communication_then_bubble) {
  /* rank 0: optimizer 0–10, gather 10–14; rank 1: optimizer 0–30. */
  Hand hand = hand_new(2, 1);
  gint32 step = hand_add(&hand, 0, optimizer(&hand, 0), 0, 0, 10);
  hand_add(&hand, 0, hand_after(reduce_grad(&hand), step), 0, 10, 14);
  hand_add(&hand, 1, optimizer(&hand, 1), 0, 0, 30);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  check_ns(metrics, 0,
           (RankBreakdown){.ns[BREAKDOWN_OPTIMIZER] = 10, .ns[BREAKDOWN_DP] = 4, .ns[BREAKDOWN_BUBBLE] = 16});
  check_ns(metrics, 1, (RankBreakdown){.ns[BREAKDOWN_OPTIMIZER] = 30});
  hand_clear(&hand);
}
END_TEST

START_TEST(of_several_steps_the_last_is_measured_from_the_end_of_the_one_before) {
  /* rank 0   step 0: F 0–10     step 1: F 15–35
   * rank 1   step 0: F 0–20     step 1: F 22–30
   * Step 0 ends at 20, step 1 at 35: the window is 20–35. Rank 0 runs all of it (5 of its 20 lie before); rank 1 waits
   * 2 for its launch, runs 8 and idles 5. */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

/* One layer: kernel 10, collective 4 behind it, kernel 6 that needs it, kernel 5 recomputed; launches of `launch`. */
static void fill_layer(TimedItem items[4], TimedList *list, gint64 launch) {
  const TimedItem layer[4] = {{.duration_ns = 10, .launch_ns = launch, .after = -1},
                              {.duration_ns = 4, .launch_ns = launch, .after = 0, .is_collective = TRUE},
                              {.duration_ns = 6, .launch_ns = launch, .after = 1},
                              {.duration_ns = 5, .launch_ns = launch, .after = -1, .recompute = TRUE}};
  for (int i = 0; i < 4; i++)
    items[i] = layer[i];
  list->items = items;
  list->n_items = 4;
  timed_list_finish(list);
}

/* As a timing model fills it. */
static OpTime *times_of_works(const Timing *timing, const Program *program) {
  OpTime *works = g_new0(OpTime, program->works->len);
  for (guint w = 0; w < program->works->len; w++)
    works[w] = timing_of_work(timing, &g_array_index(program->works, Work, w));
  return works;
}

static const Work two_layers = {
    .phase = PHASE_B, .n_layers = 2, .piece = -1, .first_item = -1, .last_item = -1, .stage = -1};

START_TEST(whole_pieces_are_split_by_what_they_do_inside) {
  /* Two layers, host ahead: each 16 of kernels, 5 recomputed, 4 waiting for tp: 50 in all. */
  Hand hand = hand_new(1, 1);
  TimedItem items[4];
  Timing timing = {0};
  fill_layer(items, &timing.lists[PIECE_LAYER][PHASE_B], 0);
  Op op = backward(&hand, 0, 0);
  op.work = program_work(hand.program, &two_layers);
  hand_add(&hand, 0, op, 0, 0, 50);
  hand_finish(&hand);
  g_autofree OpTime *works = times_of_works(&timing, hand.program);
  timing.works = works;
  hand.trace->timing = &timing;
  g_autoptr(Metrics) metrics = metrics_new(hand.trace);
  check_ns(metrics, 0,
           (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 32, .ns[BREAKDOWN_RECOMPUTE] = 10, .ns[BREAKDOWN_TP] = 8});
  ck_assert_int_eq(metrics->ranks[0].exposed_ns[AXIS_TP], 8);
  hand_clear(&hand);
}
END_TEST

/* The runs of a layer as pass `expand` cuts them: [kernel 0], collective, [kernel 2], [kernel 3]. */
static void add_expanded_layer(Hand *hand, const gint64 issue[4], const gint64 start[4], const gint64 end[4]) {
  gint32 last = -1;
  for (int i = 0; i < 4; i++) {
    Op op;
    if (i == 1) {
      op = hand_collective(hand, &tp_group, STREAM_TP, ACTION_B, 1e6);
    } else {
      op = backward(hand, 0, 0);
      Work work = {.phase = PHASE_B, .piece = PIECE_LAYER, .first_item = i, .last_item = i, .stage = -1};
      work.recompute = i == 3;
      op.work = program_work(hand->program, &work);
    }
    if (i == 1 || i == 2)
      op_add_after(&op, last);
    last = hand_add(hand, 0, op, issue[i], start[i], end[i]);
  }
}

START_TEST(expanded_runs_are_charged_as_the_whole_piece_is) {
  /* Launches of 7 from t = 0: issued at 7, 14, 21, 28. Kernel 7–17, collective 17–21, kernel 21–27, recompute 28–33.
   * Idle: 0–7 launch, 17–21 tp, 27–28 launch. The expanded ops carry their own launch: begun at 0, 7, 14, 21. */
  Hand whole = hand_new(1, 1), runs = hand_new(1, 1);
  TimedItem items[4];
  Timing timing = {0};
  fill_layer(items, &timing.lists[PIECE_LAYER][PHASE_B], 7);

  Op op = backward(&whole, 0, 0);
  Work one_layer = two_layers;
  one_layer.n_layers = 1;
  op.work = program_work(whole.program, &one_layer);
  hand_add(&whole, 0, op, 0, 0, 33);
  hand_finish(&whole);
  g_autofree OpTime *times = times_of_works(&timing, whole.program);
  timing.works = times;
  whole.trace->timing = &timing;
  g_autoptr(Metrics) of_whole = metrics_new(whole.trace);
  check_ns(
      of_whole, 0,
      (RankBreakdown){
          .ns[BREAKDOWN_COMPUTE] = 16, .ns[BREAKDOWN_RECOMPUTE] = 5, .ns[BREAKDOWN_TP] = 4, .ns[BREAKDOWN_HOST] = 8});

  runs.program->expansion = EXPANSION_ALL;
  add_expanded_layer(&runs, (gint64[]){0, 7, 14, 21}, (gint64[]){0, 17, 21, 27}, (gint64[]){17, 21, 27, 33});
  g_autofree OpTime *works = times_of_works(&timing, runs.program);
  timing.works = works;
  hand_finish(&runs);
  runs.trace->timing = &timing;
  g_autoptr(Metrics) of_runs = metrics_new(runs.trace);
  check_ns(of_runs, 0, of_whole->ranks[0]);
  ck_assert_int_eq(of_runs->ranks[0].hidden_ns[AXIS_TP], of_whole->ranks[0].hidden_ns[AXIS_TP]);

  /* Measured: the same records without a Timing; what is inside a record is its kernels'. */
  runs.trace->timing = NULL;
  g_autoptr(Metrics) measured = metrics_new(runs.trace);
  check_ns(measured, 0,
           (RankBreakdown){.ns[BREAKDOWN_COMPUTE] = 23, .ns[BREAKDOWN_RECOMPUTE] = 6, .ns[BREAKDOWN_TP] = 4});
  hand_clear(&whole);
  hand_clear(&runs);
}
END_TEST

/* dp 2 × pp 2, all four ranks recorded. Default order: rank = dp + 2·pp. */
static Layout two_by_two(void) {
  Layout layout = {.size = {1, 1, 1, 2, 2}, .dp_shard = 2, .n_ranks = 4};
  const int stride[N_AXES] = {[AXIS_TP] = 1, [AXIS_CP] = 1, [AXIS_EP] = 1, [AXIS_DP] = 1, [AXIS_PP] = 2};
  for (int axis = 0; axis < N_AXES; axis++)
    layout.stride[axis] = stride[axis];
  return layout;
}

START_TEST(unfolded_ranks_meet_their_own_partners) {
  /* Pipelines 0 → 2 and 1 → 3; the second is slower. Then rank 2 and 3 reduce: 2 is there at 16, 3 at 25, end 30.
   * rank 0   F 0–5,  send 5–8        rank 2   receive 0–8,  F 8–16,  reduce 16–30, optimizer 30–31
   * rank 1   F 0–9,  send 9–12       rank 3   receive 0–12, F 12–25, reduce 25–30, optimizer 30–31 */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(a_group_over_stages_waits_for_its_last_member_wherever_that_is) {
  /* All four ranks of dp 2 × pp 2 in one group: there at 10, 12, 14 and 20, done at 22. */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(a_straggler_keeps_the_others_reduction_from_counting_as_hidden) {
  /* Rank 2's reduction is there at 10 while it computes until 20; rank 3 comes at 14; data moves 14–18: 4 hidden. */
  Hand hand = hand_new(2, 1);
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
  hand_clear(&hand);
}
END_TEST

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

START_TEST(charges_sum_to_the_step_on_every_rank_of_any_trace) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(20240117);
  for (int round = 0; round < 2000; round++) {
    int n = g_rand_int_range(rand, 1, 5);
    Hand hand = hand_new(n, 1);
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
    hand_clear(&hand);
  }
}
END_TEST

START_TEST(an_empty_trace_gives_zeros) {
  Hand hand = hand_new(2, 1);
  g_autoptr(Metrics) metrics = metrics_new(hand_finish(&hand));
  ck_assert_int_eq(metrics->step_ns, 0);
  ck_assert(metrics->bubble_fraction == 0 && metrics->bubble_overhead == 0);
  int peak[2] = {7, 7};
  metrics_in_flight(hand.trace, peak);
  ck_assert(peak[0] == 0 && peak[1] == 0);
  hand_clear(&hand);
}
END_TEST

START_TEST(the_span_runs_from_first_start_to_last_end_of_the_longest_stage) {
  /* 1F1B, p = 2, m = 2, F = 1, B = 2, free sends: (p−1)(F+B) = 3 of bubble on each stage's span.
   * rank 0   F 0–1  F 1–2  ·  B 4–6  ·  B 7–9        span 9, work 6
   * rank 1   F 1–2  B 2–4  F 4–5  B 5–7               span 6, work 6 */
  Hand hand = hand_new(2, 2);
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
  hand_clear(&hand);
}
END_TEST

START_TEST(an_action_cut_into_several_ops_holds_one_micro_batch) {
  /* F0 F0' B0 F1 F1' B0' …: F1 comes before the last part of B0, so two are held; with W apart, W gives back. */
  Hand hand = hand_new(1, 3);
  Op ops[] = {forward(&hand, 0, 0),
              forward(&hand, 0, 0),
              backward(&hand, 0, 0),
              forward(&hand, 0, 1),
              forward(&hand, 0, 1),
              backward(&hand, 0, 0),
              hand_compute(&hand, 0, PHASE_I, ACTION_I, 1),
              hand_compute(&hand, 0, PHASE_W, ACTION_W, 1),
              forward(&hand, 0, 2)};
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
    hand_add(&hand, 0, ops[i], 0, (gint64)i, (gint64)i + 1);
  hand_finish(&hand);
  int peak;
  metrics_in_flight(hand.trace, &peak);
  ck_assert_int_eq(peak, 2);
  hand_clear(&hand);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("metrics");
  TCase *tcase = tcase_create("attribution");
  tcase_add_test(tcase, a_wait_for_a_stage_is_bubble_until_the_sender_is_ready_then_pp);
  tcase_add_test(tcase, a_sender_ready_before_the_gap_makes_all_of_it_pp);
  tcase_add_test(tcase, gradient_collectives_cost_dp_only_where_nothing_runs);
  tcase_add_test(tcase, a_norm_over_stages_is_explained_back_through_the_reduction_before_it);
  tcase_add_test(tcase, a_late_launch_is_host);
  tcase_add_test(tcase, a_host_sync_is_host_and_what_it_waited_for_keeps_its_own_name);
  tcase_add_test(tcase, the_tail_is_the_last_communication_then_bubble);
  tcase_add_test(tcase, of_several_steps_the_last_is_measured_from_the_end_of_the_one_before);
  tcase_add_test(tcase, whole_pieces_are_split_by_what_they_do_inside);
  tcase_add_test(tcase, expanded_runs_are_charged_as_the_whole_piece_is);
  tcase_add_test(tcase, unfolded_ranks_meet_their_own_partners);
  tcase_add_test(tcase, a_group_over_stages_waits_for_its_last_member_wherever_that_is);
  tcase_add_test(tcase, a_straggler_keeps_the_others_reduction_from_counting_as_hidden);
  tcase_add_test(tcase, charges_sum_to_the_step_on_every_rank_of_any_trace);
  tcase_add_test(tcase, an_empty_trace_gives_zeros);
  tcase_add_test(tcase, the_span_runs_from_first_start_to_last_end_of_the_longest_stage);
  tcase_add_test(tcase, an_action_cut_into_several_ops_holds_one_micro_batch);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
