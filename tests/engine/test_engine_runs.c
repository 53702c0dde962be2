/* Whole engine runs: closed forms, folding, differences between ranks, and a plain reference on random programs.
 * All times in nanoseconds. */
#include "engine_fixture.h"
#include "engine_reference.h"
#include "run_suite.h"

#include <math.h>
#include <string.h>

/* makespan = (m + p − 1)·(F + B), and stage s idles (p − 1 − s)·(F + B) at most */
TEST(one_f_one_b_meets_its_closed_form) {
  static const int shapes[][2] = {{1, 1}, {1, 5}, {2, 2}, {4, 8}, {4, 2}, {8, 32}};
  for (gsize i = 0; i < G_N_ELEMENTS(shapes); i++) {
    int p = shapes[i][0], m = shapes[i][1];
    for (gint64 eager_bytes = -1; eager_bytes <= 0; eager_bytes++) {
      g_auto(Hand) hand = hand_of(p);
      hand_1f1b(&hand, m, 100, 200);
      g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE, .eager_bytes = eager_bytes}, NULL);
      ck_assert_int_eq(trace_end(trace), (m + p - 1) * (100 + 200));
    }
  }
}

/* 1F1B followed by a dp collective and the world's, so that every kind of op but the host's is there. */
static Hand hand_step(int p, int m) {
  Hand hand = hand_of(p);
  hand_1f1b(&hand, m, 100, 190);
  for (int rank = 0; rank < p; rank++) {
    int last = hand.ops[rank]->len - 1;
    while (hand_op(&hand, rank, last)->kind != OP_COMPUTE)
      last--;
    int reduced = hand_collective(&hand, rank, STREAM_DP, dp_group, (OpTime){.run_ns = 77, .host_ns = 3});
    hand_after(&hand, rank, reduced, last);
    int norm = hand_collective(&hand, rank, STREAM_DP, world_group, (OpTime){.run_ns = 11, .host_ns = 3});
    int adam = hand_compute(&hand, rank, (OpTime){.run_ns = 50, .tail_ns = 60, .host_ns = 10});
    hand_after(&hand, rank, adam, norm);
    hand_after(&hand, rank, hand_host(&hand, rank), adam);
    hand_compute(&hand, rank, (OpTime){.run_ns = 5, .tail_ns = 9, .host_ns = 4});
  }
  return hand;
}

TEST(folded_and_unfolded_runs_agree) {
  for (int dp = 1; dp <= 8; dp++) {
    g_auto(Hand) hand = hand_step(4, 6);
    Layout layout = layout_of(2, dp, 4);
    g_autoptr(Trace) unfolded = hand_run(&hand, (Simulation){.layout = &layout, .eager_bytes = -1}, NULL),
                     folded = run_rendezvous(&hand);
    for (int rank = 0; rank < unfolded->n_ranks; rank++) {
      gsize first = folded->first[unfolded->pipeline_rank[rank]];
      for (int op = 0; op < trace_list(unfolded, rank)->n_ops; op++) {
        ASSERT_RECORD(unfolded, rank, op, folded->start_ns[first + op], folded->end_ns[first + op]);
        ck_assert_int_eq(issue_of(unfolded, rank, op), folded->issue_ns[first + op]);
      }
    }
  }
}

TEST(slow_rank_computes_longer_by_its_factor) {
  /* run 15 → round(15·1.3) = 20 (19.5 up); tail 18 → 18 + 5 */
  g_auto(Hand) hand = hand_of(1);
  hand_compute(&hand, 0, (OpTime){.run_ns = 15, .tail_ns = 18, .host_ns = 3});
  hand_compute(&hand, 0, (OpTime){.run_ns = 15, .tail_ns = 18, .host_ns = 3});
  Layout layout = layout_of(1, 2, 1);
  double speed[] = {1.0, 1.3};
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.layout = &layout, .speed = speed}, NULL);
  ASSERT_RECORD(trace, 0, 0, 0, 18);
  ASSERT_RECORD(trace, 0, 1, 18, 33);
  ASSERT_RECORD(trace, 1, 0, 0, 23);
  ASSERT_RECORD(trace, 1, 1, 23, 43);
}

TEST(scaled_times_stay_in_range) {
  gint64 run_ns = 10, tail_ns = 12;
  variation_scale(-1.0, &run_ns, &tail_ns);
  ck_assert_int_eq(run_ns, 0);
  ck_assert_int_eq(tail_ns, 2);
  run_ns = G_MAXINT64 / 2;
  tail_ns = G_MAXINT64 - 1;
  variation_scale(1e6, &run_ns, &tail_ns);
  ck_assert_int_eq(run_ns, G_MAXINT64);
  ck_assert_int_eq(tail_ns, G_MAXINT64);
}

static Trace *run_jittered(Hand *hand, double jitter, guint64 seed) {
  Layout layout = layout_of(1, 2, 4);
  return hand_run(hand, (Simulation){.layout = &layout, .eager_bytes = -1, .jitter = jitter, .seed = seed}, NULL);
}

TEST(same_seed_gives_the_same_records) {
  g_auto(Hand) hand = hand_step(4, 6);
  g_autoptr(Trace) once = run_jittered(&hand, 0.05, 1), twice = run_jittered(&hand, 0.05, 1),
                   other = run_jittered(&hand, 0.05, 2), none = run_jittered(&hand, 0.0, 1);
  ck_assert(same_records(once, twice));
  ck_assert(!same_records(once, other));
  ck_assert(!same_records(once, none));
}

TEST(jitter_of_an_op_does_not_depend_on_when_it_runs) {
  /* The same program on streams loaded otherwise: rank 1's kernel takes the same time though it starts later. */
  gint64 lengths_ns[2];
  for (int i = 0; i < 2; i++) {
    g_auto(Hand) hand = hand_of(2);
    hand_send(&hand, 0, 1, 0, 1, hand_kernel(500 * i));
    hand_receive(&hand, 1, 0, 0, 1, hand_kernel(500 * i));
    hand_after(&hand, 1, hand_compute(&hand, 1, hand_kernel(1000000)), 0);
    g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE, .jitter = 0.1, .seed = 42}, NULL);
    ck_assert_int_eq(trace->start_ns[trace->first[1] + 1], 500 * i);
    lengths_ns[i] = trace->end_ns[trace->first[1] + 1] - trace->start_ns[trace->first[1] + 1];
  }
  ck_assert_int_eq(lengths_ns[0], lengths_ns[1]);
  ck_assert_int_ne(lengths_ns[0], 1000000);
}

TEST(jitter_is_normal_and_cut_at_three) {
  /* Over n = 10⁵ samples the mean has deviation 1/√n = 0.003 and the variance √(2/n) = 0.0045; allow five of each. Cut
   * at ±3, the variance of a normal is 0.9973 or less. Within ±1: 68.3 %, with deviation 0.15 %. */
  enum { N = 100000 };
  double sum = 0, squares = 0, extreme = 0;
  int within_one = 0;
  for (int i = 0; i < N; i++) {
    double sample = variation_normal(7, i % 100, i / 100);
    sum += sample;
    squares += sample * sample;
    extreme = MAX(extreme, fabs(sample));
    within_one += fabs(sample) <= 1;
  }
  ck_assert_double_eq_tol(sum / N, 0, 0.016);
  ck_assert_double_eq_tol(squares / N, 0.9973, 0.023);
  ck_assert_double_eq_tol(within_one / (double)N, 0.683, 0.01);
  ck_assert_double_eq(extreme, 3.0);
}

TEST(absurd_durations_end_at_the_end_of_time) {
  g_auto(Hand) hand = hand_of(1);
  for (int i = 0; i < 4; i++)
    hand_compute(&hand, 0, (OpTime){G_MAXINT64 / 2, G_MAXINT64 / 2, G_MAXINT64 / 2});
  hand_after(&hand, 0, hand_collective(&hand, 0, STREAM_DP, dp_group, (OpTime){G_MAXINT64, 0, G_MAXINT64}), 3);
  g_autoptr(Trace) trace = run_folded(&hand);
  ck_assert_int_eq(trace_end(trace), G_MAXINT64);
}

TEST(empty_lists_run) {
  g_auto(Hand) hand = hand_of(2);
  EngineStats stats;
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE}, &stats);
  ck_assert_int_eq(trace_end(trace), 0);
  ck_assert_uint_eq(stats.n_events, 0);
}

TEST(steps_of_a_trace_are_told_apart) {
  g_auto(Hand) hand = hand_of(1);
  for (int step = 0; step < 3; step++)
    hand_op(&hand, 0, hand_compute(&hand, 0, hand_kernel(10 + step)))->step = step;
  g_autoptr(Trace) trace = run_folded(&hand);
  ck_assert_int_eq(trace_step_end(trace, 0), 10);
  ck_assert_int_eq(trace_step_end(trace, 1), 21);
  ck_assert_int_eq(trace_step_end(trace, 2), trace_end(trace));
}

TEST(partner_of_a_rank_has_the_same_other_coordinates) {
  g_auto(Hand) hand = hand_of(3);
  Layout layout = layout_of(2, 4, 3); /* rank = tp + 2·dp + 8·pp */
  g_autoptr(Trace) unfolded = trace_new(hand.program, &layout, FALSE);
  ck_assert_int_eq(trace_partner(unfolded, 8 + 2 * 3 + 1, 2), 16 + 2 * 3 + 1);
  ck_assert_int_eq(trace_partner(unfolded, 8 + 2 * 3 + 1, 0), 2 * 3 + 1);
  g_autoptr(Trace) folded = trace_new(hand.program, NULL, TRUE);
  ck_assert_int_eq(trace_partner(folded, 1, 2), 2);
}

static OpTime random_time(guint64 *state, gint64 longest_ns) {
  gint64 run_ns = random_up_to(state, longest_ns), host_ns = random_up_to(state, 60);
  return (OpTime){run_ns, random_up_to(state, run_ns + host_ns + 1), host_ns};
}

/* Append, after compute op `computed`, a batch of two dp collectives on two streams; later computing waits for one. */
static int add_random_collectives(Hand *hand, guint64 *state, int rank, int computed, int batch) {
  Group replica_group = {.name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1};
  int dp = hand_collective(hand, rank, STREAM_DP, dp_group, random_time(state, 400));
  int tp = hand_collective(hand, rank, STREAM_TP, replica_group, random_time(state, 400));
  hand_after(hand, rank, dp, computed);
  hand_op(hand, rank, dp)->batch = hand_op(hand, rank, tp)->batch = batch;
  return random_up_to(state, 2) == 0 ? dp : tp;
}

/* 1F1B with random times, and among it dp and tp collectives, host ops and meetings of all stages. */
static Hand hand_random(guint64 *state, int p, int m) {
  Hand hand = hand_of(p);
  hand_1f1b(&hand, m, 1, 1);
  for (int rank = 0; rank < p; rank++) {
    GArray *plain = hand.ops[rank];
    g_autofree int *moved = g_new(int, plain->len);
    int last_collective = -1, last_compute = -1;
    hand.ops[rank] = g_array_new(FALSE, FALSE, sizeof(Op));
    for (guint i = 0; i < plain->len; i++) {
      Op op = g_array_index(plain, Op, i);
      if (op.after[0] >= 0)
        op.after[0] = moved[op.after[0]];
      if (op.kind == OP_COMPUTE) {
        op.work = hand_work(&hand, random_time(state, 300));
        op_add_after(&op, last_collective);
      }
      moved[i] = hand_add(&hand, rank, op);
      if (op.kind != OP_COMPUTE)
        continue;
      last_compute = moved[i];
      if (random_up_to(state, 4) == 0)
        last_collective = add_random_collectives(&hand, state, rank, last_compute, moved[i]);
      if (random_up_to(state, 8) == 0)
        hand_after(&hand, rank, hand_host(&hand, rank), last_compute);
    }
    g_array_unref(plain);
    hand_after(&hand, rank, hand_collective(&hand, rank, STREAM_DP, world_group, hand_kernel(1000)), last_compute);
  }
  hand_finish(&hand);
  hand.timing.host_sync.run_ns = random_up_to(state, 100);
  hand.timing.step_ns = random_up_to(state, 100);
  for (int i = 0; i < hand.timing.n_transfers; i++)
    if (g_array_index(hand.program->transfers, Transfer, i).group < 0)
      hand.timing.transfers[i] = random_time(state, 200);
  return hand;
}

TEST(random_programs_run_as_the_semantics_say) {
  guint64 state = 20;
  for (int i = 0; i < 40; i++) {
    int p = 1 + random_up_to(&state, 4), m = 1 + random_up_to(&state, 4);
    Layout layout = layout_of(1 + random_up_to(&state, 2), 1 + random_up_to(&state, 3), p);
    double speed[32];
    for (int rank = 0; rank < layout.n_ranks; rank++)
      speed[rank] = random_up_to(&state, 3) == 0 ? 1.7 : 1.0;
    g_auto(Hand) hand = hand_random(&state, p, m);
    Simulation simulation = {.program = hand.program,
                             .timing = &hand.timing,
                             .layout = &layout,
                             .folded = i % 2,
                             .eager_bytes = random_up_to(&state, 2) - 1,
                             .speed = i % 2 ? NULL : speed,
                             .jitter = 0.2,
                             .seed = i};
    g_autoptr(Trace) expected = run_reference(&simulation);
    g_autoptr(Trace) trace = engine_run(&simulation, NULL);
    ck_assert(same_records(trace, expected));
  }
}

int main(void) {
  return run_tests();
}
