/* A rank's link use over time, computed by hand. Times in nanoseconds. */
#include "run_suite.h"

#include <math.h>
#include <string.h>

#include "engine_fixture.h"
#include "link_plot.h"
#include "link_use.h"
#include "plan.h"
#include "plan_cases.h"

/* A kernel of 100 and, beside it, a collective of 10 latency and 100 of bytes' time on the NICs, which takes half of
 * the scale-up links; a kernel of 90 waits for both:
 *
 *     kernels    0 ───────────── 100      110 ── 200
 *     bytes         10 ──────────────── 110
 */
static Hand reduce_beside_kernel(void) {
  Hand hand = hand_of(1);
  hand_compute(&hand, 0, hand_kernel(100));
  const int reduce = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(110));
  const int last = hand_compute(&hand, 0, hand_kernel(90));
  hand_after(&hand, 0, last, reduce);
  hand_load(&hand, 0, reduce, NIC, 1000, 10);
  hand_load(&hand, 0, reduce, SCALE_UP, 500, 10);
  return hand;
}

static void assert_moment(const GArray *moments, guint i, gint64 time_ns, gboolean computes, double nic) {
  ck_assert_uint_lt(i, moments->len);
  const LinkMoment *moment = &g_array_index(moments, LinkMoment, i);
  ck_assert_int_eq(moment->time_ns, time_ns);
  ck_assert_int_eq(moment->computes, computes);
  ck_assert_double_eq_tol(moment->used[NIC], nic, 1e-12);
  ck_assert_double_eq_tol(moment->used[SCALE_UP], nic / 2, 1e-12);
}

TEST(moments_say_what_runs_and_what_moves) {
  g_auto(Hand) hand = reduce_beside_kernel();
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  g_autoptr(GArray) moments = link_timeline_of(trace, metrics, 0);
  ck_assert_uint_eq(moments->len, 5);
  assert_moment(moments, 0, 0, TRUE, 0);
  assert_moment(moments, 1, 10, TRUE, 1);
  assert_moment(moments, 2, 100, FALSE, 1);
  assert_moment(moments, 3, 110, TRUE, 0);
  assert_moment(moments, 4, 200, FALSE, 0);
}

TEST(the_bounding_link_is_the_one_in_use_while_nothing_runs) {
  g_auto(Hand) hand = reduce_beside_kernel();
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  const BoundingLink bounding = bounding_link_of(trace, metrics);
  ck_assert_int_eq(bounding.way, NIC); /* from 100 to 110; the scale-up links for half of that */
  ck_assert_int_eq(bounding.rank, 0);
  ck_assert_double_eq_tol(bounding.wait_s, 10e-9, 1e-18);
  ck_assert_double_eq_tol(bounding.busy_s, 10e-9, 1e-18);
  ck_assert_double_eq_tol(bounding.idle_s, 10e-9, 1e-18);
}

/* As in test_contention: 100 and 300 of bytes share the NIC until 210, each at half its pace, 1 together. */
TEST(slowed_transfers_take_less_of_a_link_for_longer) {
  g_auto(Hand) hand = hand_two_sends(110, 310);
  hand_load(&hand, 0, 0, NIC, 1000, 10);
  hand_load(&hand, 0, 1, NIC, 1000, 10);
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  g_autoptr(GArray) moments = link_timeline_of(trace, metrics, 1); /* the receiver of the first */
  ck_assert_int_eq(g_array_index(moments, LinkMoment, 1).time_ns, 10);
  ck_assert_double_eq_tol(g_array_index(moments, LinkMoment, 1).used[NIC], 0.5, 1e-9);
  ck_assert_int_eq(g_array_index(moments, LinkMoment, 2).time_ns, 210);
  g_autoptr(GArray) sender = link_timeline_of(trace, metrics, 0);
  double sum_ns = 0; /* 400 of bytes' time in all, however they were shared */
  for (guint i = 0; i + 1 < sender->len; i++) {
    const LinkMoment *moment = &g_array_index(sender, LinkMoment, i);
    sum_ns += moment->used[NIC] * (double)(moment[1].time_ns - moment->time_ns);
  }
  ck_assert_double_eq_tol(sum_ns, 400, 1);
}

TEST(without_loads_nothing_is_known) {
  g_auto(Hand) hand = reduce_beside_kernel();
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  hand.timing.loads = NULL;
  g_autoptr(Metrics) metrics = metrics_new(trace);
  ck_assert_ptr_null(link_timeline_of(trace, metrics, 0));
  ck_assert_int_eq(bounding_link_of(trace, metrics).way, -1);
}

TEST(the_picture_has_a_lane_for_kernels_and_each_way_in_use) {
  g_auto(Hand) hand = reduce_beside_kernel();
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  const Cluster cluster = {.n_tiers = 0};
  g_autoptr(Picture) picture = link_plot_picture(trace, metrics, &cluster, 0, NULL, NULL);
  ck_assert_ptr_nonnull(
      strstr(picture->variables->str, "lanes='3'; names='\"kernels\" \"scale-up links\" \"NICs\"'; "));
  double sums[3] = {0};
  g_auto(GStrv) lanes = g_strsplit(picture->data->str, "\n\n\n", -1);
  for (int lane = 0; lane < 3; lane++) {
    g_auto(GStrv) lines = g_strsplit(lanes[lane], "\n", -1);
    int n = 0;
    for (char **line = lines; *line != NULL; line++)
      if (**line != '#' && **line != '\0' && n++ % 2 == 0) /* stairs: every second point begins a slot */
        sums[lane] += g_ascii_strtod(strchr(*line, ' '), NULL) * 200 / 1600;
  }
  ck_assert_double_eq_tol(sums[0], 190, 0.01); /* kernels of 100 and 90 */
  ck_assert_double_eq_tol(sums[1], 50, 0.01);
  ck_assert_double_eq_tol(sums[2], 100, 0.01);
}

static gboolean is_near(double a, double b) {
  return fabs(a - b) <= 1e-8 + 1e-6 * fabs(b);
}

TEST(the_same_link_bounds_folded_and_unfolded_steps) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  int n_bound = 0;
  for (guint seed = 100; seed < 160; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 32);
    g_autoptr(Prediction) one = predict_case(&drawn);
    drawn.plan->fold = FALSE;
    g_autoptr(Prediction) all = predict_case(&drawn);
    const BoundingLink a = bounding_link_of(one->trace, one->metrics), b = bounding_link_of(all->trace, all->metrics);
    g_autofree char *text = case_text(&drawn);
    if (!is_near(a.wait_s, b.wait_s))
      ck_abort_msg("%s\nwaits %g and %g s", text, a.wait_s, b.wait_s);
    const gboolean is_same_stage = a.rank == all->trace->pipeline_rank[b.rank];
    if (is_same_stage && (a.way != b.way || a.first_rank != b.first_rank || !is_near(a.busy_s, b.busy_s)))
      ck_abort_msg("%s\nway %d of rank %d for %g s and %d of rank %d for %g s", text, a.way, a.first_rank, a.busy_s,
                   b.way, b.first_rank, b.busy_s);
    n_bound += a.way >= 0;
  }
  ck_assert_int_gt(n_bound, 30);
  free_case_clusters(clusters);
}

/* One GPU has no other to wait for: what it waits for are its copies. */
TEST(a_rank_that_waits_for_copies_is_bound_by_host_memory) {
  g_autoptr(Plan) plan = plan_new();
  plan->global_batch = 4;
  plan->offload.activations = TIER_HOST;
  g_autoptr(Model) model = model_read("megatron-1.7b", NULL);
  g_autoptr(Cluster) cluster = cluster_read("selene", NULL);
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
  ck_assert_ptr_nonnull(prediction);
  const BoundingLink bounding = bounding_link_of(prediction->trace, prediction->metrics);
  ck_assert_int_eq(bounding.way, TIMING_HOST_WAY);
  ck_assert_double_gt(bounding.wait_s, 0);
  ck_assert_double_eq_tol(bounding.wait_s, prediction->metrics->mean_s[BREAKDOWN_OFFLOAD], 1e-12);
  ck_assert_double_le(bounding.busy_s, bounding.wait_s);
}

static double most_used(const Prediction *prediction, double *asked) {
  LinkUse uses[TIMING_MAX_WAYS];
  const BoundingLink bounding = bounding_link_of(prediction->trace, prediction->metrics);
  g_autoptr(GArray) moments = link_timeline_of(prediction->trace, prediction->metrics, bounding.rank);
  double most = 0;
  ck_assert(link_use_of(prediction->trace, prediction->metrics, NULL, uses));
  ck_assert_double_le(bounding.busy_s, bounding.idle_s * (1 + 1e-9));
  *asked = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    *asked = MAX(*asked, uses[way].asked);
    most = MAX(most, MAX(uses[way].most, uses[way].mean));
    for (guint i = 0; i < moments->len; i++)
      most = MAX(most, g_array_index(moments, LinkMoment, i).used[way]);
  }
  return most;
}

/* Plans with much communication beside collectives of tp: ZeRO-3 and short sequences. Without contention transfers may
 * ask for more than there is, which no link is said to give. */
TEST(no_link_is_used_more_than_whole) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  int n_full = 0, n_overfull = 0;
  for (guint seed = 0; seed < 500; seed++) {
    g_auto(Case) drawn = random_case(seed, clusters, 32);
    Plan *plan = drawn.plan;
    if (plan->tp == 1 || plan->dp == 1)
      continue;
    plan->zero = 3;
    plan->zero_ranks = 0;
    plan->overlap_grad = plan->overlap_param = plan->sequence_parallel = TRUE;
    plan->global_batch *= 4;
    plan->contention = seed % 2;
    if (!plan_complete(plan, &drawn.model, drawn.cluster, NULL))
      continue;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autofree char *text = case_text(&drawn);
    double asked;
    const double most = most_used(prediction, &asked);
    if (most > 1 + 1e-9 || (plan->contention && asked > 1))
      ck_abort_msg("%s\ncontention %d: a link is used %.9g, asked for %.9g", text, plan->contention, most, asked);
    n_full += most > 0.999;
    n_overfull += asked > 1;
  }
  ck_assert_int_gt(n_full, 20);
  ck_assert_int_gt(n_overfull, 0);
  free_case_clusters(clusters);
}

/* Of the scale-up links by megatron-1.7b's ranks, the most of any. Takes the plan over. */
static double most_of_links(Plan *taken) {
  g_autoptr(Plan) plan = taken;
  g_autoptr(Model) model = model_read("megatron-1.7b", NULL);
  g_autoptr(Cluster) cluster = cluster_read("selene", NULL);
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
  ck_assert_ptr_nonnull(prediction);
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(prediction->trace, prediction->metrics, NULL, uses));
  return uses[SCALE_UP].most;
}

/* Gathers of ZeRO-3 run beside collectives of tp and slow them: those are under way for longer than what they take. */
TEST(no_link_is_in_use_for_longer_than_the_step) {
  Plan *plan = plan_new();
  plan->tp = plan->cp = 2;
  plan->cp_comm = CP_ALL_GATHER;
  plan->zero = 3;
  plan->seq_len = 96;
  plan->global_batch = 8;
  const double most = most_of_links(plan);
  ck_assert_double_gt(most, 0.8);
  ck_assert_double_le(most, 1);
}

/* The same bytes in a step that takes more than twice as long. */
TEST(waiting_for_a_straggler_uses_no_link) {
  double most[2];
  for (int i = 0; i < 2; i++) {
    const SlowRank rank = {.rank = 1, .factor = i == 0 ? 1 : 10};
    Plan *plan = plan_new();
    plan->tp = 8;
    plan->seq_len = 512;
    plan->global_batch = 8;
    plan->fold = FALSE;
    g_array_append_val(plan->slow_ranks, rank);
    most[i] = most_of_links(plan);
  }
  ck_assert_double_gt(most[0], 0.2);
  ck_assert_double_lt(most[1], most[0] / 2);
}

/* Of reduce_beside_kernel()'s 200 ns the first kernel is made the step before's, the last two layers with a collective
 * of tp of 4 in each and one of cp of 3. tp is under way for 5 + 6, which is longer than it takes alone. So the NICs
 * are in use for 100, the scale-up links for 50 + 8. */
TEST(links_are_used_by_what_the_last_step_moves) {
  g_auto(Hand) hand = reduce_beside_kernel();
  g_autoptr(Trace) trace = run_rendezvous(&hand);
  Program *program = hand.program;
  program->n_steps = 2;
  program->expansion = EXPANSION_BESIDE;
  for (int i = 1; i < program->ranks[0].n_ops; i++)
    program->ranks[0].ops[i].step = 1;
  for (guint i = 0; i < program->works->len; i++)
    g_array_index(program->works, Work, i) = (Work){.phase = PHASE_F, .piece = -1, .n_layers = 2};
  TimedItem items[] = {{.duration_ns = 4, .is_collective = TRUE, .axis = AXIS_TP},
                       {.duration_ns = 3, .is_collective = TRUE, .axis = AXIS_CP}};
  hand.timing.lists[PIECE_LAYER][PHASE_F] = (TimedList){.items = items, .n_items = 2};
  hand.timing.tp.share[SCALE_UP] = TIMING_WHOLE_WAY;
  RankBreakdown rank = {.hidden_ns[AXIS_TP] = 5, .exposed_ns[AXIS_TP] = 6};
  Metrics metrics = {.step_ns = 200, .ranks = &rank, .n_ranks = 1};
  LinkUse uses[TIMING_MAX_WAYS];
  ck_assert(link_use_of(trace, &metrics, NULL, uses));
  ck_assert_double_eq_tol(uses[NIC].most, 100.0 / 200, 1e-12);
  ck_assert_double_eq_tol(uses[SCALE_UP].most, 58.0 / 200, 1e-12);
  metrics.step_ns = 0;
  ck_assert(!link_use_of(trace, &metrics, NULL, uses));
  hand.timing.lists[PIECE_LAYER][PHASE_F] = (TimedList){0};
}

static BoundingLink bounding_with(Case *drawn, int n_micro_batches) {
  drawn->plan->global_batch = n_micro_batches;
  g_autoptr(Prediction) prediction = predict_case(drawn);
  return bounding_link_of(prediction->trace, prediction->metrics);
}

/* tp alone, so that every micro-batch is like the one before. Some 2.5 million kernels are summed up op by op, a tenth
 * of them one by one: what tp leaves exposed is as long for each micro-batch, and on the same links for no shorter, as
 * latency counts too when ops are summed up. */
TEST(very_many_kernels_are_summed_up_op_by_op) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  Case drawn = {.model = llama, .cluster = clusters[1], .plan = plan_new()};
  drawn.model.n_layers = 2;
  drawn.plan->tp = 8;
  drawn.plan->seq_len = 2048;
  const BoundingLink fine = bounding_with(&drawn, 3000), coarse = bounding_with(&drawn, 30000);
  ck_assert_int_eq(fine.way, SCALE_UP);
  ck_assert_int_eq(coarse.way, SCALE_UP);
  ck_assert_double_eq_tol(coarse.wait_s / fine.wait_s, 10, 0.1);
  ck_assert_double_ge(coarse.busy_s, 9.9 * fine.busy_s);
  ck_assert_double_le(coarse.busy_s, 1.001 * coarse.wait_s);
  case_clear(&drawn);
  free_case_clusters(clusters);
}

int main(void) {
  return run_tests();
}
