/* The engine against hand-computed times. All times in nanoseconds. */
#include "engine_fixture.h"
#include "event_queue.h"
#include "run_suite.h"

TEST(ops_of_a_stream_follow_one_another) {
  g_auto(Hand) hand = hand_of(1);
  hand_compute(&hand, 0, hand_kernel(3));
  hand_compute(&hand, 0, hand_kernel(0));
  hand_compute(&hand, 0, hand_kernel(4));
  g_autoptr(Trace) trace = run_folded(&hand);
  ASSERT_RECORD(trace, 0, 0, 0, 3);
  ASSERT_RECORD(trace, 0, 1, 3, 3);
  ASSERT_RECORD(trace, 0, 2, 3, 7);
  ck_assert_int_eq(trace_end(trace), 7);
}

TEST(op_waits_for_all_it_names_on_other_streams) {
  g_auto(Hand) hand = hand_of(1);
  int a = hand_compute(&hand, 0, hand_kernel(5));
  int b = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(9));
  int c = hand_collective(&hand, 0, STREAM_EP, dp_group, hand_kernel(7));
  int d = hand_collective(&hand, 0, STREAM_TP, dp_group, hand_kernel(1));
  int e = hand_compute(&hand, 0, hand_kernel(2));
  hand_after(&hand, 0, c, a);
  hand_after(&hand, 0, d, a);
  hand_after(&hand, 0, d, b);
  hand_after(&hand, 0, d, c);
  hand_after(&hand, 0, e, d);
  g_autoptr(Trace) trace = run_folded(&hand);
  ASSERT_RECORD(trace, 0, b, 0, 9);
  ASSERT_RECORD(trace, 0, c, 5, 12);
  ASSERT_RECORD(trace, 0, d, 12, 13); /* max(5, 9, 12) */
  ASSERT_RECORD(trace, 0, e, 13, 15);
}

/* Rank 0 computes 10, then sends; rank 1 computes 4, then receives, or the other way round in time. */
static Hand hand_one_transfer(gint64 before_send_ns, gint64 before_receive_ns, gint64 wire_ns) {
  Hand hand = hand_of(2);
  hand_compute(&hand, 0, hand_kernel(before_send_ns));
  hand_send(&hand, 0, 1, 0, 100, hand_kernel(wire_ns));
  hand_after(&hand, 0, 1, 0);
  hand_compute(&hand, 1, hand_kernel(before_receive_ns));
  hand_receive(&hand, 1, 0, 0, 100, hand_kernel(wire_ns));
  hand_after(&hand, 1, 1, 0);
  return hand;
}

TEST(rendezvous_starts_when_the_later_side_is_there) {
  static const gint64 cases[][4] = {
      /* before send, before receive, wire, end of both = max(before) + wire */
      {10, 4, 7, 17},
      {4, 10, 7, 17},
      {6, 6, 0, 6},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(Hand) hand = hand_one_transfer(cases[i][0], cases[i][1], cases[i][2]);
    g_autoptr(Trace) trace = run_rendezvous(&hand);
    ASSERT_RECORD(trace, 0, 1, cases[i][0], cases[i][3]);
    ASSERT_RECORD(trace, 1, 1, cases[i][1], cases[i][3]);
  }
}

TEST(eager_send_does_not_wait_for_its_receive) {
  static const gint64 cases[][5] = {
      /* before send, before receive, wire, end of send = before + wire, end of receive = max(that, before receive) */
      {10, 4, 7, 17, 17},
      {4, 10, 7, 11, 11},
      {4, 30, 7, 11, 30},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(Hand) hand = hand_one_transfer(cases[i][0], cases[i][1], cases[i][2]);
    g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE, .eager_bytes = 100}, NULL);
    ASSERT_RECORD(trace, 0, 1, cases[i][0], cases[i][3]);
    ASSERT_RECORD(trace, 1, 1, cases[i][1], cases[i][4]);
    /* one byte more than eager sends may have: rendezvous */
    g_autoptr(Trace) rendezvous = hand_run(&hand, (Simulation){.folded = TRUE, .eager_bytes = 99}, NULL);
    ASSERT_RECORD(rendezvous, 0, 1, cases[i][0], MAX(cases[i][0], cases[i][1]) + cases[i][2]);
  }
}

/* Both hosts launch for 50: the send is on the wire from 50 to 57 and the receive is there. Or the receiving host first
 * issues a kernel for 30: its receive is there at 80, after the data. */
TEST(receive_launched_late_keeps_the_data_waiting) {
  for (int late = 0; late < 2; late++) {
    g_auto(Hand) hand = hand_of(2);
    if (late)
      hand_compute(&hand, 1, (OpTime){.run_ns = 1, .tail_ns = 31, .host_ns = 30});
    const int receive = hand_receive(&hand, 1, 0, 0, 8, (OpTime){.run_ns = 7, .host_ns = 50});
    hand_send(&hand, 0, 1, 0, 8, (OpTime){.run_ns = 7, .host_ns = 50});
    g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE, .eager_bytes = 8}, NULL);
    ASSERT_RECORD(trace, 0, 0, 50, 57);
    ASSERT_RECORD(trace, 1, receive, late ? 80 : 50, late ? 80 : 57);
    ck_assert_int_eq(issue_of(trace, 1, receive), late ? 30 : 0);
  }
}

TEST(transfers_match_by_tag_when_their_orders_differ) {
  /* Rank 0 sends tag 5 (at 0, 3 long), then tag 6 on its other lane (2 long); rank 1 receives 6 first, then 5. */
  g_auto(Hand) hand = hand_of(2);
  hand_send(&hand, 0, 1, 5, 1, hand_kernel(3));
  hand_send(&hand, 0, 1, 6, 2, hand_kernel(2));
  hand_op(&hand, 0, 1)->stream = STREAM_SEND_B;
  hand_receive(&hand, 1, 0, 6, 2, hand_kernel(2));
  hand_receive(&hand, 1, 0, 5, 1, hand_kernel(3));
  hand_op(&hand, 1, 1)->stream = STREAM_RECV_B;
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  ASSERT_RECORD(trace, 0, 0, 0, 3);
  ASSERT_RECORD(trace, 0, 1, 0, 2);
  ASSERT_RECORD(trace, 1, 0, 0, 2);
  ASSERT_RECORD(trace, 1, 1, 0, 3);
}

TEST(batch_starts_when_its_last_op_could) {
  /* Rank 0 exchanges with rank 1 in one batch; its send could go at 0, its receive only after 9 of computing. So the
   * send to rank 1, who is there at 0, starts at 9 as well, and all end at 9 + 2. */
  g_auto(Hand) hand = hand_of(2);
  int computed = hand_compute(&hand, 0, hand_kernel(9));
  int sent = hand_send(&hand, 0, 1, 0, 1, hand_kernel(2));
  int received = hand_receive(&hand, 0, 1, 0, 1, hand_kernel(2));
  hand_after(&hand, 0, received, computed);
  hand_op(&hand, 0, sent)->batch = hand_op(&hand, 0, received)->batch = 0;
  hand_send(&hand, 1, 0, 0, 1, hand_kernel(2));
  hand_receive(&hand, 1, 0, 0, 1, hand_kernel(2));
  hand_op(&hand, 1, 0)->batch = hand_op(&hand, 1, 1)->batch = 7;
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  ASSERT_RECORD(trace, 0, sent, 9, 11);
  ASSERT_RECORD(trace, 0, received, 9, 11);
  ASSERT_RECORD(trace, 1, 0, 0, 11);
  ASSERT_RECORD(trace, 1, 1, 0, 11);
}

TEST(batch_members_on_one_stream_follow_one_another) {
  /* Two sends of a batch share the stream: the second follows the first and does not hold the batch back. */
  g_auto(Hand) hand = hand_of(2);
  for (int i = 0; i < 2; i++) {
    hand_op(&hand, 0, hand_send(&hand, 0, 1, i, 1, hand_kernel(4)))->batch = 3;
    hand_receive(&hand, 1, 0, i, 1, hand_kernel(4));
  }
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  ASSERT_RECORD(trace, 0, 0, 0, 4);
  ASSERT_RECORD(trace, 0, 1, 4, 8);
}

TEST(host_bound_kernels_run_at_the_pace_of_launches) {
  /* 3 kernels of 2 us, each launched for 10 us: kernel i is issued at 10·i, there at 10·(i + 1), done 2 later. The
   * record starts when the stream is free and the host has begun to issue it. */
  g_auto(Hand) hand = hand_of(1);
  for (int i = 0; i < 3; i++)
    hand_compute(&hand, 0, (OpTime){.run_ns = 2000, .tail_ns = 12000, .host_ns = 10000});
  g_autoptr(Trace) trace = run_folded(&hand);
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(issue_of(trace, 0, i), 10000 * i);
    ck_assert_int_eq(trace->end_ns[i], 10000 * (i + 1) + 2000);
  }
  ASSERT_RECORD(trace, 0, 1, 12000, 22000); /* free at 12000, later than its issue at 10000 */
}

TEST(host_runs_ahead_of_long_kernels) {
  /* 3 kernels of 20, launched for 5: only the first launch shows. 5 + 20, then 20 each. */
  g_auto(Hand) hand = hand_of(1);
  for (int i = 0; i < 3; i++)
    hand_compute(&hand, 0, (OpTime){.run_ns = 20, .tail_ns = 25, .host_ns = 5});
  g_autoptr(Trace) trace = run_folded(&hand);
  ck_assert_int_eq(trace->end_ns[0], 25);
  ck_assert_int_eq(trace->end_ns[1], 45);
  ck_assert_int_eq(trace_end(trace), 65);
}

TEST(host_op_holds_back_what_comes_after_it) {
  /* Kernel a: launched 5, runs 100, ends 105. The host op waits for it, takes 7: 105 to 112. Kernel b is then issued at
   * 112, there at 117, ends 147. Collective c comes after b in the list: issued at 117, there at 121, though its stream
   * and all it names were free at 0. */
  g_auto(Hand) hand = hand_of(1);
  hand.timing.host_sync.run_ns = 7;
  int a = hand_compute(&hand, 0, (OpTime){.run_ns = 100, .tail_ns = 105, .host_ns = 5});
  int sync = hand_host(&hand, 0);
  hand_after(&hand, 0, sync, a);
  int b = hand_compute(&hand, 0, (OpTime){.run_ns = 30, .tail_ns = 35, .host_ns = 5});
  int c = hand_collective(&hand, 0, STREAM_DP, dp_group, (OpTime){.run_ns = 10, .host_ns = 4});
  g_autoptr(Trace) trace = run_folded(&hand);
  ASSERT_RECORD(trace, 0, sync, 105, 112);
  ck_assert_int_eq(issue_of(trace, 0, b), 112);
  ASSERT_RECORD(trace, 0, b, 112, 147);
  ck_assert_int_eq(issue_of(trace, 0, c), 117);
  ASSERT_RECORD(trace, 0, c, 121, 131);
}

TEST(host_op_waits_until_everything_before_it_is_issued) {
  /* Nothing to wait for on the device, but 3 launches of 10 stand before it. */
  g_auto(Hand) hand = hand_of(1);
  hand.timing.host_sync.run_ns = 1;
  for (int i = 0; i < 3; i++)
    hand_compute(&hand, 0, (OpTime){.run_ns = 1, .tail_ns = 11, .host_ns = 10});
  int sync = hand_host(&hand, 0), again = hand_host(&hand, 0);
  g_autoptr(Trace) trace = run_folded(&hand);
  ASSERT_RECORD(trace, 0, sync, 30, 31);
  ASSERT_RECORD(trace, 0, again, 31, 32);
}

TEST(collective_waits_for_its_last_member) {
  /* dp = 3: rank r computes 10, then all-reduces for 4; rank 1 is twice, rank 2 three times as slow. All end at 34. */
  g_auto(Hand) hand = hand_of(1);
  int computed = hand_compute(&hand, 0, hand_kernel(10));
  int reduced = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(4));
  hand_after(&hand, 0, reduced, computed);
  Layout layout = layout_of(1, 3, 1);
  double speed[] = {1.0, 2.0, 3.0};
  EngineStats stats;
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.layout = &layout, .speed = speed}, &stats);
  ck_assert_int_eq(stats.n_ranks, 3);
  ck_assert_uint_eq(stats.n_events, 4); /* three kernels and one collective */
  for (int rank = 0; rank < 3; rank++) {
    ASSERT_RECORD(trace, rank, computed, 0, 10 * (rank + 1));
    ASSERT_RECORD(trace, rank, reduced, 10 * (rank + 1), 34);
  }
}

TEST(groups_of_one_axis_do_not_wait_for_each_other) {
  /* tp = 2, dp = 2: ranks 0 1 | 2 3. dp groups {0, 2} and {1, 3}; rank 3 is slow, so only rank 1 waits for it. */
  g_auto(Hand) hand = hand_of(1);
  hand_compute(&hand, 0, hand_kernel(10));
  hand_after(&hand, 0, hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(4)), 0);
  Layout layout = layout_of(2, 2, 1);
  double speed[] = {1.0, 1.0, 1.0, 5.0};
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.layout = &layout, .speed = speed}, NULL);
  ASSERT_RECORD(trace, 0, 1, 10, 14);
  ASSERT_RECORD(trace, 2, 1, 10, 14);
  ASSERT_RECORD(trace, 1, 1, 10, 54);
  ASSERT_RECORD(trace, 3, 1, 50, 54);
}

TEST(collectives_of_a_group_may_be_open_on_two_streams) {
  /* One group, first on dp, then on ep, nothing between: both run side by side, each with its own time. */
  g_auto(Hand) hand = hand_of(1);
  int first = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(20));
  int second = hand_collective(&hand, 0, STREAM_EP, dp_group, hand_kernel(3));
  Layout layout = layout_of(1, 4, 1);
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.layout = &layout}, NULL);
  for (int rank = 0; rank < 4; rank++) {
    ASSERT_RECORD(trace, rank, first, 0, 20);
    ASSERT_RECORD(trace, rank, second, 0, 3);
  }
}

/* Three stages that compute 5, 10, 15, then meet: in all of "world", then first and last as "embedding", the last on
 * another stream than the first. */
static Hand hand_meetings(void) {
  static const Group embedding = {.name = "embedding", .spans_pp = TRUE, .pp_first = 0, .pp_last = 2};
  Hand hand = hand_of(3);
  for (int rank = 0; rank < 3; rank++) {
    int computed = hand_compute(&hand, rank, hand_kernel(5 * (rank + 1)));
    int met = hand_collective(&hand, rank, STREAM_DP, world_group, hand_kernel(2));
    hand_after(&hand, rank, met, computed);
    if (rank == 1)
      continue;
    int tied = hand_collective(&hand, rank, rank == 0 ? STREAM_DP : STREAM_EP, embedding, hand_kernel(3));
    hand_after(&hand, rank, tied, computed);
  }
  return hand;
}

static void assert_meetings(const Trace *trace) {
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    int stage = trace->pipeline_rank[rank];
    ASSERT_RECORD(trace, rank, 1, 5 * (stage + 1), 17); /* max(5, 10, 15) + 2 */
    if (stage == 0)
      ASSERT_RECORD(trace, rank, 2, 17, 20); /* its stream is free at 17 */
    if (stage == 2)
      ASSERT_RECORD(trace, rank, 2, 15, 20); /* on a stream of its own, there at 15; 17 + 3 */
  }
}

TEST(groups_over_stages_wait_for_all_their_stages) {
  g_auto(Hand) hand = hand_meetings();
  g_autoptr(Trace) folded = run_folded(&hand);
  assert_meetings(folded);
  Layout layout = layout_of(2, 2, 3);
  g_autoptr(Trace) unfolded = hand_run(&hand, (Simulation){.layout = &layout}, NULL);
  ck_assert_int_eq(unfolded->n_ranks, 12);
  assert_meetings(unfolded);
}

TEST(kth_collective_of_stages_may_be_on_different_streams) {
  /* The first of the group takes 10, the second 3; rank 1 puts them on each other's streams and is there at 5. */
  g_auto(Hand) hand = hand_of(2);
  for (int rank = 0; rank < 2; rank++) {
    int computed = hand_compute(&hand, rank, hand_kernel(5 * rank));
    int first = hand_collective(&hand, rank, rank == 0 ? STREAM_DP : STREAM_EP, world_group, hand_kernel(10));
    int second = hand_collective(&hand, rank, rank == 0 ? STREAM_EP : STREAM_DP, world_group, hand_kernel(3));
    hand_after(&hand, rank, first, computed);
    hand_after(&hand, rank, second, computed);
  }
  g_autoptr(Trace) trace = run_folded(&hand);
  for (int rank = 0; rank < 2; rank++) {
    ASSERT_RECORD(trace, rank, 1, 5 * rank, 15);
    ASSERT_RECORD(trace, rank, 2, 5 * rank, 8);
  }
}

/* Against a plain search for the earliest, of equal times the first added, over random times, many of them equal; some
 * are removed before their time. */
TEST(queue_is_ordered_by_time_then_sequence) {
  enum { N_IDS = 64, N_TURNS = 20000 };
  gint64 times_ns[N_IDS];
  guint64 sequences[N_IDS], next_sequence = 0, state = 1;
  gboolean is_in[N_IDS] = {FALSE};
  EventQueue queue;
  event_queue_init(&queue, N_IDS);
  for (int turn = 0; turn < N_TURNS; turn++) {
    int id = random_up_to(&state, N_IDS);
    if (!is_in[id]) {
      gint64 ahead_ns = random_up_to(&state, 4) == 0 ? random_up_to(&state, 1000000) : random_up_to(&state, 8);
      times_ns[id] = queue.now + ahead_ns;
      sequences[id] = next_sequence++;
      is_in[id] = TRUE;
      event_queue_add(&queue, times_ns[id], id);
    }
    id = random_up_to(&state, N_IDS);
    if (is_in[id] && random_up_to(&state, 4) == 0) {
      event_queue_remove(&queue, id);
      is_in[id] = FALSE;
    }
    if (random_up_to(&state, 2) == 0)
      continue;
    int earliest = -1;
    for (int i = 0; i < N_IDS; i++)
      if (is_in[i] && (earliest < 0 || times_ns[i] < times_ns[earliest] ||
                       (times_ns[i] == times_ns[earliest] && sequences[i] < sequences[earliest])))
        earliest = i;
    ck_assert(event_queue_next(&queue) == (earliest < 0 ? G_MAXINT64 : times_ns[earliest]));
    ck_assert_int_eq(event_queue_take(&queue), earliest);
    if (earliest >= 0) {
      ck_assert_int_eq(queue.now, times_ns[earliest]);
      is_in[earliest] = FALSE;
    }
  }
  event_queue_clear(&queue);
}

int main(void) {
  return run_tests();
}
