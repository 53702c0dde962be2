/* Effect of a changed machine on a fixed plan: slower links, faster GPUs, a slow rank, jitter.
 *
 * A program's times are maxima and sums of durations: every op starts when the last of its dependencies has ended, in
 * an order independent of times. So a longer duration never ends anything earlier, and scaling all durations by c
 * scales all end times by c. The bounds below follow from that; each rounded duration may add half a nanosecond. */
#include "plan_cases.h"
#include "run_suite.h"

#include <math.h>

enum { N_PLANS = 200, MAX_GPUS = 64 };

/* Without fits: what was measured does not change with the figures beside it. */
static Cluster *const *unfitted_clusters(void) {
  for (int i = 0; i < N_CASE_CLUSTERS; i++)
    g_clear_pointer(&case_clusters()[i]->fitted, fitted_links_free);
  return case_clusters();
}

/* --- links and GPUs --- */

/* So many times as much; 0: as it was. */
typedef struct {
  const char *name;
  double scale_up, nics, gpu;
  double oversubscription; /* of what leaves a node: whoever stays under one leaf would not notice */
  gboolean launches_at_once;
} Change;

enum { HALF_SCALE_UP, HALF_NICS, OVERSUBSCRIBED, N_SLOWER, DOUBLE_SCALE_UP = N_SLOWER, DOUBLE_NICS, DOUBLE_GPU };
static const Change changes[] = {
    [HALF_SCALE_UP] = {"half the scale-up bandwidth", .scale_up = 0.5},
    [HALF_NICS] = {"half the NIC bandwidth", .nics = 0.5},
    [OVERSUBSCRIBED] = {"twice the oversubscription", .oversubscription = 2},
    [DOUBLE_SCALE_UP] = {"twice the scale-up bandwidth", .scale_up = 2},
    [DOUBLE_NICS] = {"twice the NIC bandwidth", .nics = 2},
    [DOUBLE_GPU] = {"twice the GPU", .gpu = 2},
};

static void multiply(double *value, double factor) {
  *value *= factor > 0 ? factor : 1;
}

static Prediction *predict_changed(const Case *drawn, const Change *change) {
  Cluster changed = *drawn->cluster; /* shares what it points to */
  multiply(&changed.scale_up_Bps, change->scale_up);
  multiply(&changed.nic_Bps, change->nics);
  multiply(&changed.gpu.hbm_Bps, change->gpu);
  for (int number = 0; number < N_NUMBERS; number++)
    multiply(&changed.gpu.peak_flops[number], change->gpu);
  if (change->launches_at_once)
    changed.gpu.host_launch_s = 0;
  if (change->oversubscription > 0) {
    changed.leaves.n_nodes = 0;
    if (changed.n_tiers == 0)
      changed.tiers[changed.n_tiers++] = (FabricTier){.span_gpus = 1 << 20, .oversubscription = 1};
    for (int i = 0; i < changed.n_tiers; i++)
      multiply(&changed.tiers[i].oversubscription, change->oversubscription);
  }
  Prediction *prediction = predict_on(drawn, &changed, drawn->plan);
  prediction->cluster = NULL; /* it ends here */
  return prediction;
}

/* The library chooses its algorithms by an estimate that errs, but that never makes faster links the slower ones. */
TEST(slower_links_never_shorten_a_step_and_faster_ones_never_lengthen_it) {
  int n_longer[G_N_ELEMENTS(changes)] = {0};
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, unfitted_clusters(), MAX_GPUS);
    drawn.plan->contention = FALSE; /* shares follow who meets whom, which times do change */
    g_autoptr(Prediction) before = predict_case(&drawn);
    for (gsize i = 0; i < G_N_ELEMENTS(changes); i++) {
      g_autoptr(Prediction) after = predict_changed(&drawn, &changes[i]);
      gint64 longer_ns = after->metrics->step_ns - before->metrics->step_ns;
      CASE_ASSERT(&drawn, i < N_SLOWER ? longer_ns >= 0 : longer_ns <= 0, "%s: %d ns longer", changes[i].name,
                  (int)longer_ns);
      n_longer[i] += longer_ns != 0;
    }
  }
  for (gsize i = 0; i < G_N_ELEMENTS(changes); i++) /* or the property would be empty */
    ck_assert_msg(n_longer[i] > N_PLANS / 10, "%s changed only %d plans", changes[i].name, n_longer[i]);
}

static gint64 step_with_overlap(const Case *drawn, gboolean overlaps, const Change *change) {
  Case other = *drawn;
  g_autoptr(Plan) plan = other.plan = plan_copy(drawn->plan);
  plan->overlap_grad = overlaps;
  g_autoptr(Prediction) prediction = predict_changed(&other, change);
  return prediction->metrics->step_ns;
}

/* Gradients that are reduced beside the backward lengthen a step only by slowing down other transfers, because several
 * small collectives take longer than a large one, or as they are launched before the kernels behind them. */
TEST(overlapping_gradients_costs_by_contention_buckets_and_launches_only) {
  const Change none = {.scale_up = 1}, launch_at_once = {.launches_at_once = TRUE};
  int n_longer = 0;
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_auto(Case) drawn = random_case(seed, unfitted_clusters(), MAX_GPUS);
    draw_schedule(rand, &drawn);
    n_longer += step_with_overlap(&drawn, TRUE, &none) > step_with_overlap(&drawn, FALSE, &none);
    plan_say(drawn.plan, "--contention off --bucket 1000000000000");
    const gint64 with_ns = step_with_overlap(&drawn, TRUE, &launch_at_once),
                 without_ns = step_with_overlap(&drawn, FALSE, &launch_at_once);
    CASE_ASSERT(&drawn, with_ns <= without_ns, "%d ns longer", (int)(with_ns - without_ns));
  }
  ck_assert_int_gt(n_longer, 0);
  ck_assert_int_lt(n_longer, N_PLANS / 4);
}

/* With contention a step may lose more to it: a gather of ZeRO-3 that goes over NICs twice as fast takes twice the
 * share of the scale-up links from collectives of tp, which kernels wait for, and no longer runs beside kernels. That
 * costs less than contention costs with the faster links, and a few per cent at most. */
TEST(faster_links_lengthen_a_step_by_no_more_than_contention) {
  static const double most_longer = 0.05;
  int n_contended = 0;
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, unfitted_clusters(), MAX_GPUS);
    if (drawn.plan->dp == 1 || drawn.plan->tp == 1)
      continue;
    plan_say(drawn.plan, "--zero 3 --zero-ranks 0 --sequence-parallel on");
    g_autoptr(Prediction) before = predict_case(&drawn);
    for (int i = DOUBLE_SCALE_UP; i <= DOUBLE_NICS; i++) {
      drawn.plan->contention = TRUE;
      g_autoptr(Prediction) after = predict_changed(&drawn, &changes[i]);
      drawn.plan->contention = FALSE;
      g_autoptr(Prediction) alone = predict_changed(&drawn, &changes[i]);
      const gint64 before_ns = before->metrics->step_ns, after_ns = after->metrics->step_ns,
                   alone_ns = alone->metrics->step_ns;
      CASE_ASSERT(&drawn, alone_ns <= before_ns && (double)after_ns <= (1 + most_longer) * (double)before_ns,
                  "%d ns, with faster links %d ns, and %d without contention", (int)before_ns, (int)after_ns,
                  (int)alone_ns);
      n_contended += alone_ns < after_ns;
    }
  }
  ck_assert_int_gt(n_contended, 20);
}

/* One large gradient all-reduce over `gpus` at the end of the step, nothing beside it. */
static Case one_all_reduce(int gpus) {
  return (Case){gpt, unfitted_clusters()[0],
                plan_said("--gpus %d --seq-len 64 --overlap-grad off --bucket 1000000000000", gpus)};
}

/* Exposed time of dp is α + x/B with x/B ≫ α, so with B/2 it comes close to twice as much; nothing else changes, and
 * the step grows by the same nanoseconds. 8 GPUs of selene are one node, 64 are eight. */
TEST(a_communication_bound_step_grows_by_what_its_link_lost) {
  const struct { int gpus, change; } bounds[] = {{8, HALF_SCALE_UP}, {64, HALF_NICS}, {64, OVERSUBSCRIBED}};
  for (gsize i = 0; i < G_N_ELEMENTS(bounds); i++) {
    g_auto(Case) bound = one_all_reduce(bounds[i].gpus);
    g_autoptr(Prediction) before = predict_case(&bound);
    g_autoptr(Prediction) after = predict_changed(&bound, &changes[bounds[i].change]);
    gint64 before_ns = before->metrics->ranks[0].ns[BREAKDOWN_DP], after_ns = after->metrics->ranks[0].ns[BREAKDOWN_DP];
    double ratio = (double)after_ns / (double)before_ns;
    ck_assert_msg(ratio > 1.8 && ratio < 2, "%d GPUs: dp %g times as long", bounds[i].gpus, ratio);
    ck_assert_int_eq(after->metrics->step_ns - before->metrics->step_ns, after_ns - before_ns);
  }
}

TEST(a_link_that_is_not_used_does_not_matter) {
  g_auto(Case) one_node = one_all_reduce(8);
  g_autoptr(Prediction) before = predict_case(&one_node);
  g_autoptr(Prediction) after = predict_changed(&one_node, &changes[HALF_NICS]);
  ck_assert_int_eq(after->metrics->step_ns, before->metrics->step_ns);
}

/* --- ranks that differ --- */

static const double SLOW = 1.4;

static Prediction *predict_slow(const Case *drawn, int rank) {
  g_autoptr(Plan) plan = plan_say(plan_copy(drawn->plan), "--slow-rank %d=%g", rank, SLOW);
  return predict_on(drawn, drawn->cluster, plan);
}

/* Of all ranks of a pipeline. */
static gint64 n_compute_ops(const Prediction *prediction) {
  gint64 n = 0;
  for (int pp = 0; pp < prediction->program->n_ranks; pp++)
    for (int i = 0; i < prediction->program->ranks[pp].n_ops; i++)
      n += prediction->program->ranks[pp].ops[i].kind == OP_COMPUTE;
  return n;
}

/* Of all compute ops of a pipeline rank, each times `factor` and rounded as a clock rounds. */
static gint64 compute_ns(const Prediction *prediction, int pp, double factor) {
  const OpList *list = &prediction->program->ranks[pp];
  gint64 sum_ns = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE)
      sum_ns += llround((double)prediction->timing->works[list->ops[i].work].run_ns * factor);
  return sum_ns;
}

/* One GPU, large kernels: the step is the first launch, the kernels one after the other, and the host's read. Only the
 * kernels grow. */
TEST(a_lone_slow_rank_takes_that_much_longer_to_compute) {
  g_auto(Case) alone = {gpt, unfitted_clusters()[0], plan_said("--micro-batch 4 --global-batch 16")};
  g_autoptr(Prediction) even = predict_unfolded(&alone);
  g_autoptr(Prediction) slow = predict_slow(&alone, 0);
  ck_assert_int_eq(slow->metrics->step_ns - even->metrics->step_ns, compute_ns(even, 0, SLOW) - compute_ns(even, 0, 1));
  ck_assert_double_eq_tol(slow->step_time_s / even->step_time_s, SLOW, 1e-4);
}

TEST(one_slow_rank_of_four_holds_all_back_by_its_factor) {
  Cluster free_links = *unfitted_clusters()[0];
  free_links.scale_up_Bps = free_links.nic_Bps = 1e18;
  for (int rank = 0; rank < 4; rank++) {
    g_auto(Case) four = {gpt, &free_links, plan_said("--dp 4 --micro-batch 4 --global-batch 64")};
    g_autoptr(Prediction) even = predict_unfolded(&four);
    g_autoptr(Prediction) slow = predict_slow(&four, rank);
    ck_assert_double_eq_tol(slow->step_time_s / even->step_time_s, SLOW, 1e-3);
  }
}

/* Stage 2 of 4 works all the while once it began: at least its work times 1.4, and no more than all stages slow. */
TEST(a_slow_stage_costs_at_least_its_share_and_at_most_the_factor) {
  g_auto(Case) pipeline = {gpt, unfitted_clusters()[0], plan_said("--pp 4 --micro-batch 4 --global-batch 64")};
  g_autoptr(Prediction) even = predict_unfolded(&pipeline);
  for (int rank = 0; rank < 4; rank++) {
    g_autoptr(Prediction) slow = predict_slow(&pipeline, rank);
    ck_assert_int_ge(slow->metrics->step_ns, compute_ns(even, rank, SLOW));
    ck_assert_int_gt(slow->metrics->step_ns, even->metrics->step_ns);
    ck_assert_int_le(slow->metrics->step_ns, (gint64)(SLOW * (double)even->metrics->step_ns) + n_compute_ops(even));
  }
}

TEST(a_slow_rank_never_speeds_anything_up) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = random_case(seed, unfitted_clusters(), 32);
    g_autoptr(Prediction) even = predict_case(&drawn);
    g_autoptr(Prediction) slow = predict_slow(&drawn, (int)(seed % (guint)drawn.plan->gpus));
    gint64 most_ns = (gint64)(SLOW * (double)even->metrics->step_ns) + n_compute_ops(slow);
    CASE_ASSERT(&drawn, slow->metrics->step_ns >= even->metrics->step_ns && slow->metrics->step_ns <= most_ns,
                "%d ns, with a slow rank %d ns", (int)even->metrics->step_ns, (int)slow->metrics->step_ns);
  }
}

/* --- jitter --- */

static gint64 jittered_ns(const Case *drawn, double jitter, guint64 seed) {
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  plan->jitter = jitter;
  plan->seed = seed;
  g_autoptr(Prediction) prediction = predict_on(drawn, drawn->cluster, plan);
  return prediction->metrics->step_ns;
}

TEST(jitter_follows_its_seed) {
  for (guint seed = 0; seed < 20; seed++) {
    g_auto(Case) drawn = random_case(seed, unfitted_clusters(), 32);
    gint64 once_ns = jittered_ns(&drawn, 0.1, 7);
    ck_assert_int_eq(jittered_ns(&drawn, 0.1, 7), once_ns);
    ck_assert_int_ne(jittered_ns(&drawn, 0.1, 8), once_ns);
  }
}

/* Ranks that wait for each other wait for the slowest: the mean over seeds grows with the deviation. */
TEST(the_mean_step_grows_with_jitter) {
  g_auto(Case) drawn = {gpt, unfitted_clusters()[0], plan_said("--tp 2 --pp 2 --dp 4 --seq-len 1024")};
  const double jitters[] = {0, 0.03, 0.1, 0.3};
  double before_ns = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(jitters); i++) {
    double mean_ns = 0;
    for (guint64 seed = 1; seed <= 8; seed++)
      mean_ns += (double)jittered_ns(&drawn, jitters[i], seed) / 8;
    ck_assert_msg(mean_ns > before_ns, "jitter %g: %g ns, with less %g ns", jitters[i], mean_ns, before_ns);
    before_ns = mean_ns;
  }
}

int main(void) {
  return run_tests();
}
