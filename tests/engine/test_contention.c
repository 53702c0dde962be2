/* Transfers that share a rank's links, computed by hand. Times in nanoseconds. */
#include "link_use.h"
#include "loaded_program.h"
#include "plan.h"
#include "plan_cases.h"
#include "run_suite.h"

/* 100 and 300 of bytes' time over one NIC, after 10 and 10: halves until 210, when the first has moved its 100; the
 * second has 200 left and the NIC to itself, until 410. */
TEST(sends_of_one_link_share_it) {
  Loaded loaded;
  hand_two_sends(&loaded, 110, 310);
  load(&loaded, 0, 0, NIC, 1000, 10);
  load(&loaded, 0, 1, NIC, 1000, 10);
  g_autoptr(Trace) trace = run(&loaded, &folded);
  ASSERT_RECORD(trace, 0, 0, 0, 210);
  ASSERT_RECORD(trace, 1, 0, 0, 210);
  ASSERT_RECORD(trace, 0, 1, 0, 410);
  ASSERT_RECORD(trace, 2, 0, 0, 410);
  hand_clear(&loaded.hand);
}

TEST(sends_on_links_of_different_kinds_do_not_meet) {
  Loaded loaded;
  hand_two_sends(&loaded, 110, 310);
  load(&loaded, 0, 0, NIC, 1000, 10);
  load(&loaded, 0, 1, SCALE_UP, 1000, 10);
  g_autoptr(Trace) trace = run(&loaded, &folded);
  ASSERT_RECORD(trace, 0, 0, 0, 110);
  ASSERT_RECORD(trace, 0, 1, 0, 310);
  hand_clear(&loaded.hand);
}

/* One that takes no more than 0.3 of the link keeps it; the other has 0.7: 140 of bytes' time take 200. */
TEST(what_one_leaves_the_other_takes) {
  Loaded loaded;
  hand_two_sends(&loaded, 1000, 140);
  load(&loaded, 0, 0, NIC, 300, 0);
  load(&loaded, 0, 1, NIC, 1000, 0);
  g_autoptr(Trace) trace = run(&loaded, &folded);
  ASSERT_RECORD(trace, 0, 0, 0, 1000);
  ASSERT_RECORD(trace, 0, 1, 0, 200);
  hand_clear(&loaded.hand);
}

/* Latency comes first and takes nothing of the link: from 90 on halves. The first has moved 90 of 100 by then: 20 more;
 * then the second, which has moved 10, has 90 left. */
TEST(latency_takes_no_part_of_a_link) {
  Loaded loaded;
  hand_two_sends(&loaded, 100, 190);
  load(&loaded, 0, 0, NIC, 1000, 0);
  load(&loaded, 0, 1, NIC, 1000, 90);
  g_autoptr(Trace) trace = run(&loaded, &folded);
  ASSERT_RECORD(trace, 0, 0, 0, 110);
  ASSERT_RECORD(trace, 0, 1, 0, 200);
  hand_clear(&loaded.hand);
}

/* Links are full duplex: what leaves a rank does not disturb what arrives. */
TEST(the_two_directions_of_a_link_do_not_meet) {
  Loaded loaded = {.loads = {{0}}};
  hand_init(&loaded.hand, 2);
  int out = hand_send(&loaded.hand, 0, 1, 0, 100, hand_kernel(50));
  int in = hand_receive(&loaded.hand, 0, 1, 1, 100, hand_kernel(70));
  hand_receive(&loaded.hand, 1, 0, 0, 100, hand_kernel(50));
  int back = hand_send(&loaded.hand, 1, 0, 1, 100, hand_kernel(70));
  hand_finish(&loaded.hand);
  load(&loaded, 0, out, NIC, 1000, 0);
  load(&loaded, 1, back, NIC, 1000, 0);
  g_autoptr(Trace) trace = run(&loaded, &folded);
  ASSERT_RECORD(trace, 0, out, 0, 50);
  ASSERT_RECORD(trace, 0, in, 0, 70);
  /* in a step of 70 the fuller direction of either NIC is in use all the time, and no more */
  loaded.hand.timing.loads = loaded.loads;
  g_autoptr(Metrics) metrics = metrics_new(trace);
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(trace, metrics, NULL, uses));
  ck_assert_double_eq_tol(uses[NIC].most, 1, 1e-12);
  ck_assert_double_eq_tol(uses[NIC].mean, 1, 1e-12);
  loaded.hand.timing.loads = NULL;
  hand_clear(&loaded.hand);
}

/* A rank's collective of 100 from 0 and a send of 60 that begins at 20: halves from 20 to 140, when the send is
 * through; the collective has moved 20 + 60 then, and ends at 160. Its other ranks see the same, folded or not. */
TEST(a_send_slows_the_collective_beside_it) {
  Loaded loaded = {.loads = {{0}}};
  hand_init(&loaded.hand, 2);
  int collective = hand_collective(&loaded.hand, 0, STREAM_DP, dp_group, hand_kernel(100));
  int before = hand_compute(&loaded.hand, 0, hand_kernel(20));
  int send = hand_send(&loaded.hand, 0, 1, 0, 100, hand_kernel(60));
  hand_after(&loaded.hand, 0, send, before);
  int receive = hand_receive(&loaded.hand, 1, 0, 0, 100, hand_kernel(60));
  hand_finish(&loaded.hand);
  load(&loaded, 0, collective, NIC, 1000, 0);
  load(&loaded, 0, send, NIC, 1000, 0);
  Layout layout = layout_of(1, 2, 2);
  const Simulation all = {.layout = &layout, .eager_bytes = -1}, eager = {.folded = TRUE, .eager_bytes = 1 << 20};
  const Simulation *runs[] = {&folded, &all, &eager};
  for (gsize i = 0; i < G_N_ELEMENTS(runs); i++) {
    g_autoptr(Trace) trace = run(&loaded, runs[i]);
    for (int rank = 0; rank < trace->n_ranks; rank++)
      if (trace->pipeline_rank[rank] == 0) {
        ASSERT_RECORD(trace, rank, collective, 0, 160);
        ASSERT_RECORD(trace, rank, send, 20, 140);
      } else
        ASSERT_RECORD(trace, rank, receive, 0, 140);
  }
  hand_clear(&loaded.hand);
}

/* The same with a kernel of 200 beside both: it loses half of the 160 in which something is under way. One
 * beside the receive loses half of its 120. */
TEST(a_kernel_is_taxed_while_a_slowed_transfer_lasts) {
  Loaded loaded = {.loads = {{0}}};
  hand_init(&loaded.hand, 2);
  int collective = hand_collective(&loaded.hand, 0, STREAM_DP, dp_group, hand_kernel(100));
  int kernel = hand_compute(&loaded.hand, 0, hand_kernel(200));
  int send = hand_send(&loaded.hand, 0, 1, 0, 100, hand_kernel(60));
  hand_receive(&loaded.hand, 1, 0, 0, 100, hand_kernel(60));
  int beside_receive = hand_compute(&loaded.hand, 1, hand_kernel(200));
  hand_finish(&loaded.hand);
  load(&loaded, 0, collective, NIC, 1000, 0);
  load(&loaded, 0, send, NIC, 1000, 0);
  double taxes[] = {0.5, 0.5, 0.5};
  ck_assert_int_le(loaded.hand.timing.n_transfers, 3);
  loaded.hand.timing.taxes = taxes;
  const Simulation taxed = {.folded = TRUE, .eager_bytes = -1};
  g_autoptr(Trace) trace = run(&loaded, &taxed);
  ASSERT_RECORD(trace, 0, send, 0, 120);       /* halves: 60 take 120 */
  ASSERT_RECORD(trace, 0, collective, 0, 160); /* and its other 40 */
  ASSERT_RECORD(trace, 0, kernel, 0, 280);
  ASSERT_RECORD(trace, 1, beside_receive, 0, 260);
  hand_clear(&loaded.hand);
}

/* Of a step of 200, rank 0's NIC sends for 60 and reduces for 100; rank 1's is taken for 60, inwards.
 * Latency counts as nothing. */
TEST(a_link_is_in_use_while_bytes_have_it) {
  Loaded loaded = {.loads = {{0}}};
  hand_init(&loaded.hand, 2);
  int collective = hand_collective(&loaded.hand, 0, STREAM_DP, dp_group, hand_kernel(110));
  int send = hand_send(&loaded.hand, 0, 1, 0, 100, hand_kernel(60));
  hand_receive(&loaded.hand, 1, 0, 0, 100, hand_kernel(60));
  hand_compute(&loaded.hand, 1, hand_kernel(200)); /* so long is the step */
  hand_finish(&loaded.hand);
  load(&loaded, 0, collective, NIC, 1000, 10);
  load(&loaded, 0, send, NIC, 1000, 0);
  loaded.loads[loaded.hand.program->ranks[1].ops[0].work] = loaded.loads[loaded.hand.program->ranks[0].ops[send].work];
  g_autoptr(Trace) trace = run(&loaded, &folded);
  loaded.hand.timing.loads = loaded.loads;
  g_autoptr(Metrics) metrics = metrics_new(trace);
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(trace, metrics, NULL, uses));
  ck_assert_int_eq(metrics->step_ns, 200);
  ck_assert_double_eq_tol(uses[NIC].most, 160.0 / 200, 1e-12);
  ck_assert_int_eq(uses[NIC].busiest, 0);
  ck_assert_double_eq_tol(uses[NIC].mean, (160.0 + 60.0) / 2 / 200, 1e-12);
  ck_assert_int_eq(uses[NIC + 1].busiest, -1); /* an uplink, which none takes */
  loaded.hand.timing.loads = NULL;
  ck_assert(!link_use_of(trace, metrics, NULL, uses));
  hand_clear(&loaded.hand);
}

/* Where nothing meets, nothing changes; folded or not, it is the same step; and transfers only ever end later, op by op
 * against the same program with times of their own, while nothing but transfers waits for transfers. */
TEST(steps_of_plans_are_the_same_folded_and_unfolded) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  int n_slowed = 0;
  for (guint seed = 0; seed < 60; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 32);
    g_autoptr(Prediction) contended = predict_case(&drawn);
    drawn.plan->fold = FALSE;
    g_autoptr(Prediction) all = predict_case(&drawn);
    drawn.plan->contention = FALSE;
    g_autoptr(Prediction) alone = predict_case(&drawn);
    g_autofree char *text = case_text(&drawn);
    ck_assert_msg(contended->metrics->step_ns == all->metrics->step_ns, "%s\nstep %g and %g", text,
                  contended->step_time_s, all->step_time_s);
    n_slowed += all->metrics->step_ns > alone->metrics->step_ns;
    if (drawn.plan->pp == 1 && drawn.plan->tp == 1)
      ck_assert_int_eq(all->metrics->step_ns, alone->metrics->step_ns);
  }
  ck_assert_int_gt(n_slowed, 5);
  free_case_clusters(clusters);
}

/* tp 4, dp 2 of a layer's worth on 8 GPUs of one node: the gradients' collective and tp's are on the same scale-up
 * links. tp 8 on a node and dp over nodes: they are not, and the folded program stays whole. */
static Prediction *predict_cut(Case *drawn, int tp, int dp) {
  drawn->plan->tp = tp;
  drawn->plan->dp = dp;
  drawn->plan->gpus = tp * dp;
  drawn->plan->global_batch = 2 * dp;
  return predict_case(drawn);
}

TEST(collectives_of_tp_share_links_with_those_of_gradients) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  Case drawn = {.model = llama, .cluster = clusters[1], .plan = plan_new()}; /* dgx-h100 */
  drawn.plan->seq_len = 2048;
  drawn.plan->sequence_parallel = TRUE; /* tp's collectives are on the way of the kernels */
  drawn.plan->bucket_parameters = 1;    /* gradients go beside the backward pass */
  g_autoptr(Prediction) together = predict_cut(&drawn, 4, 2);
  drawn.plan->fold = FALSE;
  g_autoptr(Prediction) apart = predict_case(&drawn);
  drawn.plan->contention = FALSE;
  g_autoptr(Prediction) alone = predict_case(&drawn);
  ck_assert_int_eq(together->metrics->step_ns, apart->metrics->step_ns);
  ck_assert_int_gt(together->metrics->step_ns, alone->metrics->step_ns);
  ck_assert_int_eq(together->program->expansion, EXPANSION_BESIDE);
  drawn.plan->fold = drawn.plan->contention = TRUE;
  g_autoptr(Prediction) other_links = predict_cut(&drawn, 8, 2);
  ck_assert_int_eq(other_links->program->expansion, EXPANSION_NONE);
  case_clear(&drawn);
  free_case_clusters(clusters);
}

/* tp 16 over two nodes and the send to the next stage leave by the same NICs. */
TEST(collectives_of_tp_over_nodes_share_nics_with_sends) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  Case drawn = {.model = gpt, .cluster = clusters[1], .plan = plan_new()};
  drawn.model.n_layers = 4;
  drawn.plan->pp = 2;
  drawn.plan->tp = 16;
  drawn.plan->gpus = 32;
  drawn.plan->global_batch = 8;
  drawn.plan->seq_len = 1024;
  drawn.plan->overlap_p2p = TRUE;
  drawn.plan->chunks = 2;
  drawn.plan->schedule = g_strdup("interleaved");
  g_autoptr(Prediction) together = predict_case(&drawn);
  drawn.plan->fold = FALSE;
  g_autoptr(Prediction) apart = predict_case(&drawn);
  drawn.plan->contention = FALSE;
  g_autoptr(Prediction) alone = predict_case(&drawn);
  ck_assert_int_eq(together->metrics->step_ns, apart->metrics->step_ns);
  ck_assert_int_gt(together->metrics->step_ns, alone->metrics->step_ns);
  case_clear(&drawn);
  free_case_clusters(clusters);
}

/* What a framework adds to tp's collectives and their launches they have as ops of their own, too. */
TEST(a_framework_is_the_same_folded_and_unfolded) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  Case drawn = {.model = llama, .cluster = clusters[1], .plan = plan_new()};
  drawn.plan->sequence_parallel = TRUE;
  drawn.plan->seq_len = 1024;
  drawn.plan->time = (FrameworkTime){
      .host = {.is_stated = TRUE, .layer_forward_s = 50e-6, .layer_backward_s = 100e-6, .collective_s = 8e-6},
      .arrival_spread_s = 30e-6};
  g_autoptr(Prediction) whole = predict_cut(&drawn, 8, 2);
  drawn.plan->fold = FALSE;
  g_autoptr(Prediction) apart = predict_case(&drawn);
  ck_assert_int_eq(whole->program->expansion, EXPANSION_NONE);
  ck_assert_int_eq(whole->metrics->step_ns, apart->metrics->step_ns);
  case_clear(&drawn);
  free_case_clusters(clusters);
}

int main(void) {
  return run_tests();
}
