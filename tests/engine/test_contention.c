/* Transfers that share a rank's links, computed by hand. Times in nanoseconds. */
#include "engine_fixture.h"
#include "link_use.h"
#include "plan_cases.h"
#include "run_suite.h"

/* Two sends of rank 0, each of so many ns in all, of which latency comes first; the first is on the NIC, the second
 * there or on the scale-up links. */
TEST(sends_of_a_rank_share_their_link) {
  static const struct {
    gint64 first_ns, second_ns;
    int first_share, second_way; /* of a link: thousandths; the second may take all of its own */
    gint64 first_latency_ns, second_latency_ns, first_end_ns, second_end_ns;
  } cases[] = {
      /* 100 and 300 of bytes' time over one NIC, after 10 and 10: halves until 210, when the first has moved its 100;
       * the second has 200 left and the NIC to itself, until 410 */
      {110, 310, 1000, NIC, 10, 10, 210, 410},
      /* links of different kinds */
      {110, 310, 1000, SCALE_UP, 10, 10, 110, 310},
      /* one that takes no more than 0.3 of the link keeps it; the other has 0.7: 140 of bytes' time take 200 */
      {1000, 140, 300, NIC, 0, 0, 1000, 200},
      /* latency takes nothing of the link: from 90 on halves. The first has moved 90 of 100 by then: 20 more; then the
       * second, which has moved 10, has 90 left */
      {100, 190, 1000, NIC, 0, 90, 110, 200},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_auto(Hand) hand = hand_two_sends(cases[i].first_ns, cases[i].second_ns);
    hand_load(&hand, 0, 0, NIC, cases[i].first_share, cases[i].first_latency_ns);
    hand_load(&hand, 0, 1, cases[i].second_way, 1000, cases[i].second_latency_ns);
    g_autoptr(Trace) trace = run_rendezvous(&hand);
    ASSERT_RECORD(trace, 0, 0, 0, cases[i].first_end_ns);
    ASSERT_RECORD(trace, 1, 0, 0, cases[i].first_end_ns);
    ASSERT_RECORD(trace, 0, 1, 0, cases[i].second_end_ns);
    ASSERT_RECORD(trace, 2, 0, 0, cases[i].second_end_ns);
  }
}

/* Links are full duplex: what leaves a rank does not disturb what arrives. */
TEST(the_two_directions_of_a_link_do_not_meet) {
  g_auto(Hand) hand = hand_of(2);
  int out = hand_send(&hand, 0, 1, 0, 100, hand_kernel(50));
  int in = hand_receive(&hand, 0, 1, 1, 100, hand_kernel(70));
  hand_receive(&hand, 1, 0, 0, 100, hand_kernel(50));
  int back = hand_send(&hand, 1, 0, 1, 100, hand_kernel(70));
  hand_load(&hand, 0, out, NIC, 1000, 0);
  hand_load(&hand, 1, back, NIC, 1000, 0);
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  ASSERT_RECORD(trace, 0, out, 0, 50);
  ASSERT_RECORD(trace, 0, in, 0, 70);
  /* in a step of 70 the fuller direction of either NIC is in use all the time, and no more */
  g_autoptr(Metrics) metrics = metrics_new(trace);
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(trace, metrics, NULL, uses));
  ck_assert_double_eq_tol(uses[NIC].most, 1, 1e-12);
  ck_assert_double_eq_tol(uses[NIC].mean, 1, 1e-12);
}

/* A rank's collective of 100 from 0 and a send of 60 that begins at 20: halves from 20 to 140, when the send is
 * through; the collective has moved 20 + 60 then, and ends at 160. Its other ranks see the same, folded or not. */
TEST(a_send_slows_the_collective_beside_it) {
  g_auto(Hand) hand = hand_of(2);
  int collective = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(100));
  int before = hand_compute(&hand, 0, hand_kernel(20));
  int send = hand_send(&hand, 0, 1, 0, 100, hand_kernel(60));
  hand_after(&hand, 0, send, before);
  int receive = hand_receive(&hand, 1, 0, 0, 100, hand_kernel(60));
  hand_load(&hand, 0, collective, NIC, 1000, 0);
  hand_load(&hand, 0, send, NIC, 1000, 0);
  Layout layout = layout_of(1, 2, 2);
  const Simulation runs[] = {{.folded = TRUE, .eager_bytes = -1},
                             {.layout = &layout, .eager_bytes = -1},
                             {.folded = TRUE, .eager_bytes = 1 << 20}};
  for (gsize i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autoptr(Trace) trace = hand_run(&hand, runs[i], NULL);
    for (int rank = 0; rank < trace->n_ranks; rank++)
      if (trace->pipeline_rank[rank] == 0) {
        ASSERT_RECORD(trace, rank, collective, 0, 160);
        ASSERT_RECORD(trace, rank, send, 20, 140);
      } else
        ASSERT_RECORD(trace, rank, receive, 0, 140);
  }
}

/* The same with a kernel of 200 beside both: it loses half of the 160 in which something is under way. One
 * beside the receive loses half of its 120. */
TEST(a_kernel_is_taxed_while_a_slowed_transfer_lasts) {
  g_auto(Hand) hand = hand_of(2);
  int collective = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(100));
  int kernel = hand_compute(&hand, 0, hand_kernel(200));
  int send = hand_send(&hand, 0, 1, 0, 100, hand_kernel(60));
  hand_receive(&hand, 1, 0, 0, 100, hand_kernel(60));
  int beside_receive = hand_compute(&hand, 1, hand_kernel(200));
  hand_load(&hand, 0, collective, NIC, 1000, 0);
  hand_load(&hand, 0, send, NIC, 1000, 0);
  double taxes[] = {0.5, 0.5, 0.5};
  ck_assert_int_le(hand.program->transfers->len, 3);
  hand.timing.taxes = taxes;
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  ASSERT_RECORD(trace, 0, send, 0, 120);       /* halves: 60 take 120 */
  ASSERT_RECORD(trace, 0, collective, 0, 160); /* and its other 40 */
  ASSERT_RECORD(trace, 0, kernel, 0, 280);
  ASSERT_RECORD(trace, 1, beside_receive, 0, 260);
}

/* Of a step of 200, rank 0's NIC sends for 60 and reduces for 100; rank 1's is taken for 60, inwards.
 * Latency counts as nothing. */
TEST(a_link_is_in_use_while_bytes_have_it) {
  g_auto(Hand) hand = hand_of(2);
  int collective = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(110));
  int send = hand_send(&hand, 0, 1, 0, 100, hand_kernel(60));
  const int receive = hand_receive(&hand, 1, 0, 0, 100, hand_kernel(60));
  hand_compute(&hand, 1, hand_kernel(200)); /* so long is the step */
  hand_load(&hand, 0, collective, NIC, 1000, 10);
  hand_load(&hand, 0, send, NIC, 1000, 0);
  hand_load(&hand, 1, receive, NIC, 1000, 0);
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(trace, metrics, NULL, uses));
  ck_assert_int_eq(metrics->step_ns, 200);
  ck_assert_double_eq_tol(uses[NIC].most, 160.0 / 200, 1e-12);
  ck_assert_int_eq(uses[NIC].busiest, 0);
  ck_assert_double_eq_tol(uses[NIC].mean, (160.0 + 60.0) / 2 / 200, 1e-12);
  ck_assert_int_eq(uses[NIC + 1].busiest, -1); /* an uplink, which none takes */
  hand.timing.loads = NULL;
  ck_assert(!link_use_of(trace, metrics, NULL, uses));
}

/* Where nothing meets, nothing changes; folded or not, it is the same step; and transfers only ever end later, op by op
 * against the same program with times of their own, while nothing but transfers waits for transfers. */
TEST(steps_of_plans_are_the_same_folded_and_unfolded) {
  int n_slowed = 0;
  for (guint seed = 0; seed < 60; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), 32);
    g_autoptr(Prediction) contended = predict_case(&drawn), all = predict_unfolded(&drawn);
    drawn.plan->contention = FALSE;
    g_autoptr(Prediction) alone = predict_unfolded(&drawn);
    assert_same_metrics(&drawn, contended, all);
    n_slowed += all->metrics->step_ns > alone->metrics->step_ns;
    if (drawn.plan->pp == 1 && drawn.plan->tp == 1)
      ck_assert_int_eq(all->metrics->step_ns, alone->metrics->step_ns);
  }
  ck_assert_int_gt(n_slowed, 5);
}

/* On dgx-h100, folded; unfolded it is the same. `is_slowed`: longer than without contention. */
static Prediction *predict_both(Model model, Plan *plan, gboolean is_slowed) {
  const Case both = {.model = model, .cluster = case_clusters()[1], .plan = plan};
  g_autoptr(Prediction) together = predict_case(&both), apart = predict_unfolded(&both);
  plan->contention = FALSE;
  g_autoptr(Prediction) alone = predict_unfolded(&both);
  plan->contention = TRUE;
  ck_assert_int_eq(together->metrics->step_ns, apart->metrics->step_ns);
  ck_assert_int_eq(together->metrics->step_ns > alone->metrics->step_ns, is_slowed);
  return g_steal_pointer(&together);
}

/* tp 4, dp 2 of a layer's worth on 8 GPUs of one node: the gradients' collective and tp's are on the same scale-up
 * links. tp 8 on a node and dp over nodes: they are not, and the folded program stays whole. Gradients go beside the
 * backward pass, and tp's collectives are on the way of the kernels. */
TEST(collectives_of_tp_share_links_with_those_of_gradients) {
  for (int tp = 4; tp <= 8; tp += 4) {
    g_autoptr(Plan) plan =
        plan_said("--tp %d --dp 2 --global-batch 4 --seq-len 2048 --sequence-parallel on --bucket 1", tp);
    g_autoptr(Prediction) prediction = predict_both(llama, plan, tp == 4);
    ck_assert_int_eq(prediction->program->expansion, tp == 4 ? EXPANSION_BESIDE : EXPANSION_NONE);
  }
}

/* tp 16 over two nodes and the send to the next stage leave by the same NICs. */
TEST(collectives_of_tp_over_nodes_share_nics_with_sends) {
  Model model = gpt;
  model.n_layers = 4;
  g_autoptr(Plan) plan = plan_said("--tp 16 --pp 2 --chunks 2 --schedule interleaved --overlap-p2p on --global-batch 8 "
                                   "--seq-len 1024");
  g_autoptr(Prediction) prediction = predict_both(model, plan, TRUE);
}

/* What a framework adds to tp's collectives and their launches they have as ops of their own, too. */
TEST(a_framework_is_the_same_folded_and_unfolded) {
  g_autoptr(Plan) plan = plan_said("--tp 8 --dp 2 --global-batch 4 --seq-len 1024 --sequence-parallel on");
  plan->time = (FrameworkTime){
      .host = {.is_stated = TRUE, .layer_forward_s = 50e-6, .layer_backward_s = 100e-6, .collective_s = 8e-6},
      .arrival_spread_s = 30e-6};
  g_autoptr(Prediction) prediction = predict_both(llama, plan, FALSE);
  ck_assert_int_eq(prediction->program->expansion, EXPANSION_NONE);
}

int main(void) {
  return run_tests();
}
