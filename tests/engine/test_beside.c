/* Collectives between kernels beside other transfers, computed by hand: each slows the other while both move. A folded
 * run follows the tape until they meet, and a clock from there; an unfolded one has the clock alone. Times in
 * nanoseconds. */
#include "engine_fixture.h"
#include "run_suite.h"

static const Group tp_group = {.name = "tp", .axes = AXIS_BIT(AXIS_TP), .pp_first = -1, .pp_last = -1};

enum { KERNEL_NS = 10, LATENCY_NS = 1 };

/* A kernel (of KERNEL_NS) that waits for the collective before it (−1: none), and tp's behind it, which moves for
 * `moves_ns` after LATENCY_NS. Returns the collective; the kernel stands before it. */
static int add_layer(Hand *hand, int rank, int before, gint64 moves_ns) {
  const int kernel = hand_compute(hand, rank, hand_kernel(KERNEL_NS));
  if (before >= 0)
    hand_after(hand, rank, kernel, before);
  const int collective = hand_collective(hand, rank, STREAM_TP, tp_group, hand_kernel(LATENCY_NS + moves_ns));
  hand_after(hand, rank, collective, kernel);
  return collective;
}

/* Gradients' collective, of so long in all; without a latency unless its load has one. */
static int add_dp(Hand *hand, int rank, gint64 moves_ns) {
  return hand_collective(hand, rank, STREAM_DP, dp_group, hand_kernel(moves_ns));
}

typedef struct {
  int rank, op;
  gint64 start_ns, end_ns;
} Expected;

/* On every rank that the pipeline rank stands for. */
static void check_runs(Hand *hand, const Expected *expected, int n) {
  const Layout layout = layout_of(2, 2, hand->program->n_ranks);
  const Simulation runs[] = {{.folded = TRUE, .eager_bytes = -1}, {.layout = &layout, .eager_bytes = -1}};
  for (gsize i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autoptr(Trace) trace = hand_run(hand, runs[i], NULL);
    for (int rank = 0; rank < trace->n_ranks; rank++)
      for (int k = 0; k < n; k++)
        if (trace->pipeline_rank[rank] == expected[k].rank)
          ASSERT_RECORD(trace, rank, expected[k].op, expected[k].start_ns, expected[k].end_ns);
  }
}

/* tp's 10 take 20 at half the link, and dp's 1000 so much longer.
 *
 *     compute  0 █ 10         31 █ 41         62 █ 72
 *     tp          10 ░▒▒▒▒▒ 31   41 ░▒▒▒▒▒ 62    72 ░▒▒▒▒▒ 93
 *     dp       0 ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ … 1030      */
TEST(layers_beside_a_gradient_reduction_share_its_link) {
  g_auto(Hand) hand = hand_of(1);
  const int first = add_layer(&hand, 0, -1, 10), second = add_layer(&hand, 0, first, 10),
            third = add_layer(&hand, 0, second, 10), reduction = add_dp(&hand, 0, 1000);
  const Expected expected[] = {{0, first, 10, 31}, {0, second, 41, 62}, {0, third, 72, 93}, {0, reduction, 0, 1030}};
  hand_load(&hand, 0, first, NIC, 1000, LATENCY_NS);
  hand_load(&hand, 0, reduction, NIC, 1000, 0);
  check_runs(&hand, expected, G_N_ELEMENTS(expected));
}

/* dp's begin and end in the middle of tp's. Of tp's first 30 from 11 on, 9 are through at 20, when dp's first 20 begin
 * to move; these take 40, and leave 1 of tp's. dp's second begins then, and moves from 65 on: 7 of its 10 are through
 * at 72, the other 3 take 6, as tp's second does, of which 27 are left.
 *
 *     compute  0 █ 10                                       61 █ 71
 *     tp          10 ░███▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒█ 61         71 ░▒▒▒█████████ 105
 *     dp       0 ░░░░░░░ 20 ▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒ 60 ░░ 65 ████ 72 ▒▒▒ 78 */
TEST(reductions_begin_and_end_beside_collectives) {
  enum { FIRST_LATENCY_NS = 20, SECOND_LATENCY_NS = 5 };
  g_auto(Hand) hand = hand_of(1);
  const int first = add_layer(&hand, 0, -1, 30), second = add_layer(&hand, 0, first, 30);
  const int reduction = add_dp(&hand, 0, FIRST_LATENCY_NS + 20), next = add_dp(&hand, 0, SECOND_LATENCY_NS + 10);
  hand_load(&hand, 0, first, NIC, 1000, LATENCY_NS);
  hand_load(&hand, 0, reduction, NIC, 1000, FIRST_LATENCY_NS);
  hand_load(&hand, 0, next, NIC, 1000, SECOND_LATENCY_NS);
  const Expected expected[] = {{0, first, 10, 61}, {0, reduction, 0, 60}, {0, next, 60, 78}, {0, second, 71, 105}};
  check_runs(&hand, expected, G_N_ELEMENTS(expected));
}

/* A send and dp's first share the NIC until the send has moved its 50, at 100: then 50 of dp's are left, which end at
 * 150, not at 200 as long as both were there. At 100 a layer begins whose collectives are on other links, as dp's
 * second: of the 60 that tp's second moves from 122 on, 28 are through at 150, 20 in the 40 in which both are there.
 *
 *     send, NIC        0 ▒▒▒▒▒▒▒▒▒▒ 100
 *     dp, NIC          0 ▒▒▒▒▒▒▒▒▒▒ 100 █████ 150
 *     dp, scale-up                            150 ▒▒▒▒ 190
 *     tp, scale-up                  100 █ 111    121 █▒▒▒▒█ 202 */
TEST(a_transfer_left_alone_by_a_send_ends_sooner) {
  g_auto(Hand) hand = hand_of(2);
  const int send = hand_send(&hand, 0, 1, 0, 100, hand_kernel(50));
  const int receive = hand_receive(&hand, 1, 0, 0, 100, hand_kernel(50));
  const int on_nic = add_dp(&hand, 0, 100), on_scale_up = add_dp(&hand, 0, 20);
  const int first = hand_collective(&hand, 0, STREAM_TP, tp_group, hand_kernel(LATENCY_NS + 10));
  hand_after(&hand, 0, first, send);
  const int second = add_layer(&hand, 0, first, 60);
  hand_load(&hand, 0, send, NIC, 1000, 0);
  hand_load(&hand, 0, on_nic, NIC, 1000, 0);
  hand_load(&hand, 0, on_scale_up, SCALE_UP, 1000, 0);
  hand_load(&hand, 0, first, SCALE_UP, 1000, LATENCY_NS);
  hand_load(&hand, 0, second, SCALE_UP, 1000, LATENCY_NS);
  const Expected expected[] = {{0, send, 0, 100},          {1, receive, 0, 100}, {0, on_nic, 0, 150},
                               {0, on_scale_up, 150, 190}, {0, first, 100, 111}, {0, second, 121, 202}};
  check_runs(&hand, expected, G_N_ELEMENTS(expected));
  g_autoptr(Trace) trace = hand_run(&hand, (Simulation){.folded = TRUE, .eager_bytes = 100}, NULL);
  ASSERT_RECORD(trace, 0, second, 121, 202);
}

/* Rank 0 sends once its kernel of 55 has ended, which runs from 36 on. Up to
 * then rank 1, whose receive waits, has its NIC to itself. Of the 20 of the third, 18 are through when the send begins
 * to move at 91; the other 2 take 4. The fourth moves from 106 on: of the send's 30, 2 and 11 are through by then, and
 * the other 17 take 34; it has 3 left at 140.
 *
 *     kernel, rank 0             36 █████████████ 91
 *     receive                                     91 ▒█▒▒▒▒ 140
 *     tp       10 ███ 31   41 ███ 62   72 ██████████▒ 95  105 ▒▒▒▒█ 143 */
TEST(a_receive_is_undisturbed_until_its_sender_has_computed) {
  g_auto(Hand) hand = hand_of(2);
  const int before = add_layer(&hand, 0, -1, 25);
  const int kernel = hand_compute(&hand, 0, hand_kernel(55));
  hand_after(&hand, 0, kernel, before);
  const int send = hand_send(&hand, 0, 1, 0, 100, hand_kernel(30));
  hand_after(&hand, 0, send, kernel);
  const int receive = hand_receive(&hand, 1, 0, 0, 100, hand_kernel(30));
  const int first = add_layer(&hand, 1, -1, 20), second = add_layer(&hand, 1, first, 20),
            third = add_layer(&hand, 1, second, 20), fourth = add_layer(&hand, 1, third, 20);
  hand_load(&hand, 0, before, NIC, 1000, LATENCY_NS);
  hand_load(&hand, 0, send, NIC, 1000, 0);
  hand_load(&hand, 1, first, NIC, 1000, LATENCY_NS);
  const Expected expected[] = {{0, before, 10, 36}, {0, send, 91, 140}, {1, receive, 0, 140}, {1, first, 10, 31},
                               {1, second, 41, 62}, {1, third, 72, 95}, {1, fourth, 105, 143}};
  check_runs(&hand, expected, G_N_ELEMENTS(expected));
}

/* dp's waits for tp's second, which ends at 42; the third takes 20 for its 10, and dp's
 * 110 for its 100. */
TEST(a_reduction_that_waits_for_a_collective_meets_those_behind_it) {
  g_auto(Hand) hand = hand_of(1);
  const int first = add_layer(&hand, 0, -1, 10), second = add_layer(&hand, 0, first, 10),
            third = add_layer(&hand, 0, second, 10), reduction = add_dp(&hand, 0, 100);
  hand_after(&hand, 0, reduction, second);
  hand_load(&hand, 0, first, NIC, 1000, LATENCY_NS);
  hand_load(&hand, 0, reduction, NIC, 1000, 0);
  const Expected expected[] = {{0, first, 10, 21}, {0, second, 31, 42}, {0, third, 52, 73}, {0, reduction, 42, 152}};
  check_runs(&hand, expected, G_N_ELEMENTS(expected));
}

/* dp's waits for the last kernel. That one waits for tp's second of 30: it runs from 72 on. Or it does not, and runs
 * from 41 to 51: tp's has moved 9 by then, and the other 21 take 42; of dp's 100, 21 are through at 93. tp's first ends
 * long before the kernels up to the last one can have. */
TEST(a_reduction_that_waits_for_a_kernel_meets_what_runs_beside_it) {
  for (int waits = 0; waits < 2; waits++) {
    g_auto(Hand) hand = hand_of(1);
    const int first = add_layer(&hand, 0, -1, 10);
    const int behind = hand_compute(&hand, 0, hand_kernel(KERNEL_NS));
    hand_after(&hand, 0, behind, first);
    const int second = add_layer(&hand, 0, -1, 30);
    const int last = hand_compute(&hand, 0, hand_kernel(KERNEL_NS));
    if (waits)
      hand_after(&hand, 0, last, second);
    const int reduction = add_dp(&hand, 0, 100);
    hand_after(&hand, 0, reduction, last);
    hand_load(&hand, 0, first, NIC, 1000, LATENCY_NS);
    hand_load(&hand, 0, second, NIC, 1000, LATENCY_NS);
    hand_load(&hand, 0, reduction, NIC, 1000, 0);
    const Expected expected[][3] = {{{0, first, 10, 21}, {0, second, 41, 93}, {0, reduction, 51, 172}},
                                    {{0, first, 10, 21}, {0, second, 41, 72}, {0, reduction, 82, 182}}};
    check_runs(&hand, expected[waits], 3);
  }
}

int main(void) {
  return run_tests();
}
