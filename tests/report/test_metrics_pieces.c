/* The contents of an op are charged the same whether it is a whole layer or a run of its kernels; an action split into
 * several ops counts as one. */
#include "metrics_fixture.h"
#include "run_suite.h"

#include "overlap.h"

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

TEST(whole_pieces_are_split_by_what_they_do_inside) {
  /* Two layers, host ahead: each 16 of kernels, 5 recomputed, 4 waiting for tp: 50 in all. */
  g_auto(Hand) hand = hand_new(1, 1);
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
}

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

TEST(expanded_runs_are_charged_as_the_whole_piece_is) {
  /* Launches of 7 from t = 0: issued at 7, 14, 21, 28. Kernel 7–17, collective 17–21, kernel 21–27, recompute 28–33.
   * Idle: 0–7 launch, 17–21 tp, 27–28 launch. The expanded ops carry their own launch: begun at 0, 7, 14, 21. */
  g_auto(Hand) whole = hand_new(1, 1), runs = hand_new(1, 1);
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
}

/* Kernels of rank 0's first op that run beside a transfer in [move_start, move_end), the op known from from_ns on. */
static gint64 hidden_beside(const Trace *trace, gint64 from_ns, gint64 kernels_ns, gboolean host_is_ahead,
                            gint64 move_start_ns, gint64 move_end_ns) {
  g_autoptr(Overlap) overlap = overlap_new(trace);
  gint64 hidden_ns[N_MOVERS] = {0};
  Running running[] = {{from_ns, trace->end_ns[0], 0, 0, host_is_ahead}, {.clock_ns = kernels_ns}};
  Moving moving = {move_start_ns, move_end_ns, 0, STREAM_DP, AXIS_DP};
  overlap_add_hidden(overlap, 0, &(OverlapRecords){running, &moving, 1, 1}, NULL, hidden_ns);
  return hidden_ns[AXIS_DP];
}

/* A head of 30, then two layers: kernels 0–40, 44–55, 55–65, 69–80. From 42 on, where a step begins, 32 of them. */
TEST(a_transfer_is_hidden_by_the_kernels_of_the_part_of_an_op_that_it_meets) {
  g_auto(Hand) hand = hand_new(1, 1);
  TimedItem items[4], head = {.duration_ns = 30, .after = -1};
  Timing timing = {0};
  fill_layer(items, &timing.lists[PIECE_LAYER][PHASE_B], 0);
  timing.lists[PIECE_HEAD][PHASE_B] = (TimedList){.items = &head, .n_items = 1};
  timed_list_finish(&timing.lists[PIECE_HEAD][PHASE_B]);
  Work work = two_layers;
  work.n_head = 1;
  Op op = backward(&hand, 0, 0);
  op.work = program_work(hand.program, &work);
  hand_add(&hand, 0, op, 0, 0, 80);
  hand_finish(&hand);
  hand.trace->timing = &timing;
  ck_assert_int_eq(hidden_beside(hand.trace, 0, 72, TRUE, 0, 32), 32);
  ck_assert_int_eq(hidden_beside(hand.trace, 0, 72, TRUE, 35, 70), 5 + 11 + 10 + 1);
  ck_assert_int_eq(hidden_beside(hand.trace, 42, 32, TRUE, 30, 60), 11 + 5);
  ck_assert_int_eq(hidden_beside(hand.trace, 42, 32, TRUE, 46, 90), 9 + 10 + 11);
}

/* The launches of 7 above: kernels 7–17, 21–27 and 28–33. */
TEST(a_transfer_beside_an_op_that_waits_for_launches_is_hidden_by_its_kernels) {
  g_auto(Hand) hand = hand_new(1, 1);
  TimedItem items[4];
  Timing timing = {0};
  fill_layer(items, &timing.lists[PIECE_LAYER][PHASE_B], 7);
  Work one_layer = two_layers;
  one_layer.n_layers = 1;
  Op op = backward(&hand, 0, 0);
  op.work = program_work(hand.program, &one_layer);
  hand_add(&hand, 0, op, 0, 0, 33);
  hand_finish(&hand);
  hand.trace->timing = &timing;
  ck_assert_int_eq(hidden_beside(hand.trace, 0, 21, FALSE, 5, 19), 10);
  ck_assert_int_eq(hidden_beside(hand.trace, 0, 21, FALSE, 15, 30), 2 + 6 + 2);
}

static gint64 kernels_in(const Timing *timing, const Work *work, const Record *record, gint64 from_ns, gint64 to_ns) {
  ChargeSplit split = {0};
  from_ns = MAX(from_ns, record->start_ns);
  to_ns = MIN(to_ns, record->end_ns);
  if (to_ns > from_ns)
    timing_charge_part(timing, work, record->start_ns, record->issue_ns, from_ns, to_ns, &split);
  return split.charged_ns[CHARGE_COMPUTE] + split.charged_ns[CHARGE_RECOMPUTE];
}

enum { N_OPS = 24, N_WORKS = 3 };

/* Ops of a few works, each issued in time or late by one of a few amounts, some longer than their replay, with
 * reductions beside and between them. */
TEST(charges_are_those_of_replaying_every_op) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(3);
  for (int round = 0; round < 300; round++) {
    g_auto(Hand) hand = hand_new(1, 1);
    TimedItem items[4];
    Timing timing = {0};
    fill_layer(items, &timing.lists[PIECE_LAYER][PHASE_B], g_rand_int_range(rand, 0, 9));
    Record ran[N_OPS], moved[N_OPS];
    gint32 works[N_OPS];
    gint64 at_ns = 0, moved_ns = 0;
    for (int k = 0; k < N_OPS; k++) {
      Work work = two_layers;
      work.n_layers = 1 + g_rand_int_range(rand, 0, N_WORKS);
      Op op = backward(&hand, 0, 0);
      works[k] = op.work = program_work(hand.program, &work);
      const OpTime time = timing_of_work(&timing, &work);
      const gint64 start_ns = at_ns + 9 * g_rand_int_range(rand, 0, 2);
      const gint64 issue_ns = start_ns - 50 * g_rand_int_range(rand, 0, 4);
      const gint64 longer_ns = g_rand_int_range(rand, 0, 4) == 0 ? 3 : 0;
      at_ns = MAX(start_ns + time.run_ns, issue_ns + time.tail_ns) + longer_ns;
      ran[k] = (Record){issue_ns, start_ns, at_ns};
      hand_add(&hand, 0, op, issue_ns, start_ns, at_ns);
      const gint64 meant_ns = start_ns + g_rand_int_range(rand, -20, 60), begin_ns = MAX(moved_ns, meant_ns);
      moved_ns = begin_ns + g_rand_int_range(rand, 0, 90);
      moved[k] = (Record){begin_ns, begin_ns, moved_ns};
      hand_add(&hand, 0, reduce_grad(&hand), begin_ns, begin_ns, moved_ns);
    }
    hand_finish(&hand);
    timing.works = times_of_works(&timing, hand.program);
    hand.trace->timing = &timing;
    ChargeSplit expected = {0};
    gint64 hidden_ns = 0;
    for (int k = 0; k < N_OPS; k++) {
      const Work *work = &g_array_index(hand.program->works, Work, works[k]);
      timing_charge(&timing, work, ran[k].start_ns, ran[k].issue_ns, ran[k].end_ns, &expected);
      for (int m = 0; m < N_OPS; m++)
        hidden_ns += kernels_in(&timing, work, &ran[k], moved[m].start_ns, moved[m].end_ns);
    }
    g_autoptr(Metrics) metrics = metrics_new(hand.trace);
    ck_assert_int_eq(metrics->ranks[0].ns[BREAKDOWN_COMPUTE], expected.charged_ns[CHARGE_COMPUTE]);
    ck_assert_int_eq(metrics->ranks[0].ns[BREAKDOWN_RECOMPUTE], expected.charged_ns[CHARGE_RECOMPUTE]);
    ck_assert_int_eq(metrics->ranks[0].ns[BREAKDOWN_TP], expected.charged_ns[CHARGE_TP]);
    ck_assert_int_eq(metrics->ranks[0].hidden_ns[AXIS_TP], expected.hidden_ns[AXIS_TP]);
    ck_assert_int_eq(metrics->ranks[0].hidden_ns[AXIS_DP], hidden_ns);
    g_free(timing.works);
  }
}

TEST(an_action_cut_into_several_ops_holds_one_micro_batch) {
  /* F0 F0' B0 F1 F1' B0' …: F1 comes before the last part of B0, so two are held; with W apart, W gives back. */
  g_auto(Hand) hand = hand_new(1, 3);
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
}

int main(void) {
  return run_tests();
}
