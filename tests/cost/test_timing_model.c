/* A toy cluster of 8-GPU nodes, and either transfers between the ranks of a bare layout or GPT-2 lowered to a Program.
 */
#include "run_suite.h"
#include "schedules.h"
#include "timing_model.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "bare_times.h"
#include "collective_cost.h"
#include "kernel_cost.h"
#include "method_of.h"
#include "passes.h"
#include "plan.h"

static const double MB = 1e6;

static Cluster toy_cluster(void) {
  Cluster cluster = {
      .gpus_per_node = 8,
      .domain_gpus = 8,
      .scale_up = SCALE_UP_NVSWITCH,
      .scale_up_Bps = 200e9,
      .scale_up_efficiency = 1,
      .scale_up_latency_s = 2e-6,
      .nics_per_node = 8,
      .nic_Bps = 20e9,
      .nic_efficiency = 1,
      .nic_latency_s = 5e-6,
      .node_egress_gpus = 1,
  };
  cluster.gpu = (Gpu){
      .n_sms = 100,
      .peak_flops = {[NUMBER_BF16] = 300e12},
      .sustained = {[NUMBER_BF16] = 0.9},
      .under_load = 1,
      .rate = 1,
      .hbm_Bps = 2e12,
      .hbm_efficiency = 0.8,
      .tiles = {{128, 128, 0.9}, {64, 64, 0.7}},
      .n_tiles = 2,
      .k_ramp = 64,
      .kernel_latency_s = 2e-6,
      .attention_forward = 0.5,
      .attention_backward = 0.4,
      .host_launch_s = 4e-6,
  };
  for (int p = 0; p < N_PROTOCOLS; p++)
    cluster.collectives.bandwidth_share[ALGORITHM_RING][p] = 1.0 / (N_PROTOCOLS - p);
  cluster.collectives.base_s[ALGORITHM_RING][PROTOCOL_SIMPLE] = 7e-6;
  return cluster;
}

/* A workload of nothing but a layout. */
typedef struct {
  Plan *plan;
  Workload workload;
  Cluster cluster;
} Bare;

static void bare_init(Bare *bare, int tp, int dp, int pp) {
  *bare = (Bare){.plan = plan_new(), .cluster = toy_cluster()};
  bare->plan->tp = tp;
  bare->plan->dp = dp;
  bare->plan->pp = pp;
  bare->plan->gpus = tp * dp * pp;
  bare->workload.method = method_of(bare->plan);
  layout_init(&bare->workload.layout, bare->workload.method);
}

/* Time of one transfer in a program that has only this one; `group` NULL: a send. */
static OpTime bare_time(const Bare *bare, Transfer transfer, const Group *group) {
  g_autoptr(Program) program = program_new(bare->plan->pp, bare->plan->pp, 1);
  transfer.group = group ? program_group(program, group) : -1;
  program_transfer(program, &transfer);
  g_autoptr(Timing) timing = timing_model(program, &bare->workload, &bare->cluster, NULL);
  ck_assert_int_eq(timing->n_transfers, 1);
  return timing->transfers[0];
}

static gint64 send_ns(int tp, int dp, int pp, int source, int target) {
  Bare bare;
  bare_init(&bare, tp, dp, pp);
  Transfer send = {.source = source, .target = target, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
  OpTime time = bare_time(&bare, send, NULL);
  plan_free(bare.plan);
  return time.run_ns;
}

/* 20 MB: 2 us + 100 us in a node, 5 us + 1000 us between nodes */
static const gint64 near_ns = 102000, far_ns = 1005000;

TEST(a_send_inside_a_node_uses_its_links) {
  ck_assert_int_eq(send_ns(4, 1, 3, 0, 1), near_ns); /* ranks 0–3 → 4–7 */
  ck_assert_int_eq(send_ns(4, 1, 3, 1, 0), near_ns);
  ck_assert_int_eq(send_ns(4, 1, 3, 1, 2), far_ns); /* 4–7 → 8–11 */
}

TEST(the_worst_placed_pair_of_two_stages_counts) {
  /* tp 2, dp 3: stage 0 is ranks 0–5, stage 1 is 6–11. 0→6 and 1→7 stay in the node, 2→8 … 5→11 leave it. */
  ck_assert_int_eq(send_ns(2, 3, 2, 0, 1), far_ns);
  /* tp 1, dp 3: ranks 0–2 → 3–5 → 6–8: the last pair, 5→8, leaves the node */
  ck_assert_int_eq(send_ns(1, 3, 3, 0, 1), near_ns);
  ck_assert_int_eq(send_ns(1, 3, 3, 1, 2), far_ns);
}

TEST(a_tier_between_the_ends_of_two_stages_counts) {
  /* tp 8, dp 2: stage 0 is ranks 0–15, stage 1 is 16–31. In pods of 24 only 8–15 → 24–31 leave theirs, at 1/4. */
  Bare bare;
  bare_init(&bare, 8, 2, 2);
  bare.cluster.tiers[0] = (FabricTier){24, 1};
  bare.cluster.tiers[1] = (FabricTier){96, 4};
  bare.cluster.n_tiers = 2;
  Transfer send = {.source = 0, .target = 1, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
  ck_assert_int_eq(bare_time(&bare, send, NULL).run_ns, 4005000);
  plan_free(bare.plan);
  /* dp 3: ranks 0–23 and 24–47. In pods of 40 only the last of dp, 16–23 → 40–47, leave theirs. */
  bare.cluster.tiers[0].span_gpus = 40;
  Cluster podded = bare.cluster;
  bare_init(&bare, 8, 3, 2);
  bare.cluster = podded;
  ck_assert_int_eq(bare_time(&bare, send, NULL).run_ns, 4005000);
  plan_free(bare.plan);
}

TEST(a_tier_that_cuts_nodes_counts) {
  /* tp 8: ranks 0–7 → 8–15. In pods of 12 the first four of them stay in theirs, 4–7 → 12–15 leave it, at 1/4. */
  Bare bare;
  bare_init(&bare, 8, 1, 2);
  bare.cluster.tiers[0] = (FabricTier){12, 1};
  bare.cluster.tiers[1] = (FabricTier){96, 4};
  bare.cluster.n_tiers = 2;
  Transfer send = {.source = 0, .target = 1, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
  ck_assert_int_eq(bare_time(&bare, send, NULL).run_ns, 4005000);
  plan_free(bare.plan);
}

TEST(a_tier_between_stages_that_are_not_outermost_counts) {
  /* Order tp-pp-dp, tp 8, pp 3: a pipeline is 24 neighbouring ranks. In pods of 64 the third one of five, ranks 48–71,
   * has its stages 1 and 2 (56–63, 64–71) in two of them; the first and the last, 0–23 and 96–119, do not. */
  Bare bare;
  bare_init(&bare, 8, 5, 3);
  ck_assert(plan_parse_order(bare.plan, "tp-cp-ep-pp-dp", NULL));
  bare.workload.method = method_of(bare.plan);
  layout_init(&bare.workload.layout, bare.workload.method);
  bare.cluster.tiers[0] = (FabricTier){64, 1};
  bare.cluster.tiers[1] = (FabricTier){128, 4};
  bare.cluster.n_tiers = 2;
  Transfer send = {.source = 1, .target = 2, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
  ck_assert_int_eq(bare_time(&bare, send, NULL).run_ns, 4005000);
  plan_free(bare.plan);
}

/* Tiers that hold whole domains and each other, or whole domains, or neither; ranks in any order. */
static void draw_send(Bare *bare, GRand *rand) {
  static const char *const orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp", "dp-pp-tp-cp-ep"};
  static const gint64 spans[][2] = {{16, 64}, {24, 40}, {12, 20}, {32, 32}};
  bare_init(bare, 1 << g_rand_int_range(rand, 0, 4), g_rand_int_range(rand, 1, 7), g_rand_int_range(rand, 2, 7));
  ck_assert(plan_parse_order(bare->plan, orders[g_rand_int_range(rand, 0, G_N_ELEMENTS(orders))], NULL));
  bare->workload.method = method_of(bare->plan);
  layout_init(&bare->workload.layout, bare->workload.method);
  const gint64 *span = spans[g_rand_int_range(rand, 0, G_N_ELEMENTS(spans))];
  bare->cluster.tiers[0] = (FabricTier){span[0], 1.5};
  bare->cluster.tiers[1] = (FabricTier){span[1], 2};
  bare->cluster.tiers[2] = (FabricTier){1024, 3};
  bare->cluster.n_tiers = 3;
}

TEST(a_send_takes_as_long_as_that_of_the_worst_placed_rank) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (int trial = 0; trial < 500; trial++) {
    Bare bare;
    draw_send(&bare, rand);
    const Layout *layout = &bare.workload.layout;
    const int pp = layout->size[AXIS_PP], source = g_rand_int_range(rand, 0, pp), target = (source + 1) % pp;
    double worst_s = 0;
    for (int rank = 0; rank < layout->n_ranks; rank++)
      if (layout_coordinates(layout, rank).at[AXIS_PP] == source)
        worst_s =
            MAX(worst_s, send_cost_s(&bare.cluster, rank, rank + (target - source) * layout->stride[AXIS_PP], 20 * MB));
    const Transfer send = {.source = source, .target = target, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
    const gint64 run_ns = bare_time(&bare, send, NULL).run_ns;
    ck_assert_msg(run_ns == (gint64)ceil(worst_s * 1e9 * (1 - 1e-14)), "trial %d: %d ns, expected %.1f", trial,
                  (int)run_ns, worst_s * 1e9);
    plan_free(bare.plan);
  }
}

TEST(transfers_are_launched_by_the_host) {
  Bare bare;
  bare_init(&bare, 8, 1, 2);
  Transfer send = {.source = 0, .target = 1, .collective = COLLECTIVE_SEND_RECV, .bytes = 20 * MB};
  OpTime time = bare_time(&bare, send, NULL);
  ck_assert_int_eq(time.host_ns, 4000);
  ck_assert_int_eq(time.tail_ns, 4000 + far_ns);
  plan_free(bare.plan);
}

static gint64 all_reduce_ns(int tp, int dp, int pp, Group group) {
  Bare bare;
  bare_init(&bare, tp, dp, pp);
  OpTime time = bare_time(&bare, (Transfer){.collective = COLLECTIVE_ALL_REDUCE, .bytes = 20 * MB}, &group);
  plan_free(bare.plan);
  return time.run_ns;
}

TEST(a_group_over_stages_spans_them_on_the_machine) {
  /* the tied embedding: first and last of 3 stages, for one tp rank. 2·1/2·20 MB at 200 GB/s or one NIC of 20 GB/s,
   * and 7 us. tp 1: ranks 0 and 2, one node. tp 8: ranks 0 and 16. tp 3: ranks 0, 6 … 2, 8, the last one apart. */
  Group ends = {.name = "embedding", .spans_pp = TRUE, .pp_first = 0, .pp_last = 2, .charge = AXIS_PP};
  ck_assert_int_eq(all_reduce_ns(1, 1, 3, ends), 107000);
  ck_assert_int_eq(all_reduce_ns(8, 1, 3, ends), 1007000);
  ck_assert_int_eq(all_reduce_ns(3, 1, 3, ends), 1007000);
  /* tp and the ends together: 2·(16 − 1)/16·20 MB at 160 GB/s = 234.375 us */
  ends.axes = AXIS_BIT(AXIS_TP);
  ck_assert_int_eq(all_reduce_ns(8, 1, 3, ends), 7000 + 234375);
  /* all stages and tp: 24 ranks on 3 nodes: 2·23/24·20 MB at 160 GB/s = 239583.3 ns, rounded up */
  Group world = {.name = "world", .axes = AXIS_BIT(AXIS_TP), .spans_pp = TRUE, .pp_first = -1, .pp_last = -1};
  ck_assert_int_eq(all_reduce_ns(8, 1, 3, world), 7000 + 239584);
  /* dp alone: 2 ranks a node apart have one NIC */
  Group dp = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  ck_assert_int_eq(all_reduce_ns(8, 2, 1, dp), 1007000);
}

TEST(bare_orders_take_the_given_times) {
  g_autoptr(Program) program = program_new(2, 2, 1);
  const Phase phases[] = {PHASE_F, PHASE_I, PHASE_W, PHASE_B};
  for (int stage = 0; stage < 2; stage++)
    for (guint i = 0; i < G_N_ELEMENTS(phases); i++) {
      Work work = {.phase = phases[i], .piece = -1, .first_item = -1, .last_item = -1, .stage = stage};
      ck_assert_int_eq(program_work(program, &work), 4 * stage + (int)i);
    }
  program_transfer(program, &(Transfer){.group = -1, .source = 0, .target = 1});
  Group dp = {.name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  program_transfer(program, &(Transfer){.group = program_group(program, &dp), .source = -1, .target = -1});
  const gint64 f_ns[] = {10, 11}, i_ns[] = {20, 21}, w_ns[] = {30, 31};
  g_autoptr(Timing) timing = timing_of_bare_times(program, &(BareTimes){f_ns, i_ns, w_ns, .send_ns = 7});
  const gint64 expected_ns[] = {10, 20, 30, 50, 11, 21, 31, 52}; /* B = I + W */
  ck_assert_int_eq(timing->n_works, 8);
  for (int i = 0; i < 8; i++) {
    ck_assert_int_eq(timing->works[i].run_ns, expected_ns[i]);
    ck_assert_int_eq(timing->works[i].tail_ns, expected_ns[i]);
    ck_assert_int_eq(timing->works[i].host_ns, 0);
  }
  ck_assert_int_eq(timing->transfers[0].run_ns, 7);
  ck_assert_int_eq(timing->transfers[0].host_ns, 0);
  ck_assert_int_eq(timing->transfers[1].run_ns, 0);
  ck_assert_int_eq(timing->host_sync.run_ns, 0);
}

/* F = 10, I = 20, W = 30, the pair 47: F takes ⌊47 · 10/60 + ½⌋ = 8, B the 39 left; alone they take 10 and 50. */
TEST(a_pair_shares_out_its_time) {
  g_autoptr(Program) program = program_new(1, 1, 1);
  const struct {
    Phase phase;
    guint8 overlapped;
    gint64 expected_ns;
  } cases[] = {{PHASE_F, FALSE, 10}, {PHASE_F, TRUE, 8}, {PHASE_B, TRUE, 39}, {PHASE_B, FALSE, 50}};
  for (int i = 0; i < (int)G_N_ELEMENTS(cases); i++) {
    Work work = {
        .phase = cases[i].phase, .overlapped = cases[i].overlapped, .piece = -1, .first_item = -1, .last_item = -1};
    ck_assert_int_eq(program_work(program, &work), i);
  }
  const gint64 f_ns = 10, i_ns = 20, w_ns = 30, pair_ns = 47;
  g_autoptr(Timing) timing = timing_of_bare_times(program, &(BareTimes){&f_ns, &i_ns, &w_ns, &pair_ns});
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    ck_assert_int_eq(timing->works[i].run_ns, cases[i].expected_ns);
}

/* GPT-2 on tp 2 × dp 2 × pp 2. */
typedef struct {
  Cluster cluster;
  Model *model;
  Plan *plan;
  Workload *workload;
  Program *program;
  Timing *timing;
} Lowered;

static void lowered_init(Lowered *lowered) {
  *lowered = (Lowered){.cluster = toy_cluster(), .model = model_read("gpt2", NULL), .plan = plan_new()};
  ck_assert_ptr_nonnull(lowered->model);
  lowered->plan->tp = lowered->plan->dp = lowered->plan->pp = 2;
  lowered->plan->gpus = 8;
  lowered->plan->global_batch = 8;
  ck_assert(plan_complete(lowered->plan, lowered->model, NULL, NULL));
  lowered->workload = workload_new(lowered->model, lowered->plan, NULL);
  g_autoptr(Order) order = order_new(schedule_find("1f1b", NULL), (OrderShape){2, 1, 4, 0}, NULL);
  Lowering lowering = {.order = order, .workload = lowered->workload, .n_steps = 1};
  lowered->program = lower(&lowering, NULL, NULL, NULL);
  ck_assert_ptr_nonnull(lowered->program);
  lowered->timing = timing_model(lowered->program, lowered->workload, &lowered->cluster, NULL);
}

static void lowered_clear(Lowered *lowered) {
  timing_free(lowered->timing);
  program_free(lowered->program);
  workload_free(lowered->workload);
  plan_free(lowered->plan);
  model_free(lowered->model);
}

static double item_s(const Lowered *lowered, const WorkItem *item) {
  if (item->kind != ITEM_COLLECTIVE)
    return kernel_cost_s(&lowered->cluster.gpu, item, NULL);
  GroupShape tp = layout_shape_of(&lowered->cluster, (const int[]){0, 1}, 2);
  return collective_cost(&lowered->cluster, item->collective, &tp, item->bytes, -1).time_s;
}

/* To the next whole nanosecond, give or take the noise of floating point. */
static void assert_rounded_up(gint64 ns, double seconds) {
  ck_assert_double_ge((double)ns, seconds * 1e9 - 1e-3);
  ck_assert_double_lt((double)ns, seconds * 1e9 + 1);
}

TEST(every_item_is_costed_and_rounded_up_once) {
  Lowered lowered;
  lowered_init(&lowered);
  int n_items = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++) {
      const WorkList *work = &lowered.workload->work[piece][phase];
      const TimedList *list = &lowered.timing->lists[piece][phase];
      ck_assert_int_eq(list->n_items, work->n_items);
      for (int i = 0; i < work->n_items; i++, n_items++) {
        assert_rounded_up(list->items[i].duration_ns, item_s(&lowered, &work->items[i]));
        ck_assert_int_eq(list->items[i].launch_ns, 4000);
        ck_assert_int_eq(list->items[i].after, work->items[i].after);
        ck_assert_int_eq(list->items[i].is_collective, work->items[i].kind == ITEM_COLLECTIVE);
        ck_assert_str_eq(list->items[i].name, work->items[i].name);
      }
      ck_assert_int_eq(list->time.host_ns, 4000 * (gint64)work->n_items); /* finished: one launch each */
    }
  ck_assert_int_gt(n_items, 40);
  lowered_clear(&lowered);
}

TEST(works_are_joined_from_their_pieces) {
  Lowered lowered;
  lowered_init(&lowered);
  int n_optimizer = 0;
  for (int i = 0; i < lowered.timing->n_works; i++) {
    const Work *work = &g_array_index(lowered.program->works, Work, i);
    OpTime expected = {0};
    if (work->phase == PHASE_OPTIMIZER) {
      WorkItem adam = workload_optimizer_item(lowered.workload, work->parameters);
      assert_rounded_up(lowered.timing->works[i].run_ns, kernel_cost_memory_s(&lowered.cluster.gpu, adam.bytes));
      expected.run_ns = lowered.timing->works[i].run_ns;
      expected.host_ns = 4000;
      expected.tail_ns = expected.run_ns + 4000;
      n_optimizer++;
    } else {
      expected = timing_of_work(lowered.timing, work);
    }
    ck_assert_int_eq(lowered.timing->works[i].run_ns, expected.run_ns);
    ck_assert_int_eq(lowered.timing->works[i].tail_ns, expected.tail_ns);
    ck_assert_int_eq(lowered.timing->works[i].host_ns, expected.host_ns);
  }
  ck_assert_int_gt(n_optimizer, 0);
  lowered_clear(&lowered);
}

static gboolean same_product(const WorkItem *a, const WorkItem *b) {
  return a->number == b->number && a->batch == b->batch && a->m == b->m && a->n == b->n && a->k == b->k &&
         a->layout == b->layout && a->accumulate == b->accumulate && a->bytes == b->bytes;
}

TEST(each_distinct_product_is_counted_as_modelled) {
  Lowered lowered;
  lowered_init(&lowered);
  g_autoptr(GPtrArray) distinct = g_ptr_array_new();
  int n_products = 0;
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
      for (int i = 0; i < lowered.workload->work[piece][phase].n_items; i++) {
        WorkItem *item = &lowered.workload->work[piece][phase].items[i];
        if (item->kind != ITEM_MATMUL)
          continue;
        guint known = 0;
        while (known < distinct->len && !same_product(distinct->pdata[known], item))
          known++;
        if (known == distinct->len)
          g_ptr_array_add(distinct, item);
        n_products++;
      }
  ck_assert_int_eq(lowered.timing->n_modelled, (int)distinct->len);
  ck_assert_int_eq(lowered.timing->n_measured + lowered.timing->n_interpolated, 0);
  ck_assert_int_gt(n_products, (int)distinct->len); /* I and W appear again in B */
  lowered_clear(&lowered);
}

TEST(expanded_collectives_take_what_their_items_take) {
  Lowered lowered;
  lowered_init(&lowered);
  g_autoptr(Program) expanded = program_expand(lowered.program, lowered.workload);
  g_autoptr(Timing) timing = timing_model(expanded, lowered.workload, &lowered.cluster, NULL);
  int n_tp = 0;
  for (int t = 0; t < timing->n_transfers; t++) {
    const Transfer *transfer = &g_array_index(expanded->transfers, Transfer, t);
    if (transfer->group < 0 || strcmp(g_array_index(expanded->groups, Group, transfer->group).name, "tp") != 0)
      continue;
    gboolean found = FALSE;
    for (int piece = 0; piece < N_PIECES; piece++)
      for (int phase = 0; phase < PHASE_OPTIMIZER; phase++)
        for (int i = 0; i < timing->lists[piece][phase].n_items; i++) {
          const WorkItem *item = &lowered.workload->work[piece][phase].items[i];
          if (item->kind != ITEM_COLLECTIVE || item->collective != transfer->collective ||
              item->bytes != transfer->bytes)
            continue;
          ck_assert_int_eq(timing->transfers[t].run_ns, timing->lists[piece][phase].items[i].duration_ns);
          ck_assert_int_eq(timing->transfers[t].host_ns, timing->lists[piece][phase].items[i].launch_ns);
          found = TRUE;
        }
    ck_assert(found);
    n_tp++;
  }
  ck_assert_int_gt(n_tp, 0);
  lowered_clear(&lowered);
}

TEST(a_slower_gpu_or_link_never_shortens_anything) {
  Lowered lowered;
  lowered_init(&lowered);
  for (int what = 0; what < 4; what++) {
    Cluster slower = lowered.cluster;
    slower.gpu.sustained[NUMBER_BF16] /= what == 0 ? 2 : 1;
    slower.gpu.hbm_Bps /= what == 1 ? 2 : 1;
    slower.scale_up_Bps /= what == 2 ? 2 : 1;
    slower.gpu.host_launch_s *= what == 3 ? 2 : 1;
    g_autoptr(Timing) timing = timing_model(lowered.program, lowered.workload, &slower, NULL);
    gint64 slower_ns = 0, before_ns = 0;
    for (int i = 0; i < timing->n_works; i++) {
      ck_assert_int_ge(timing->works[i].run_ns, lowered.timing->works[i].run_ns);
      ck_assert_int_ge(timing->works[i].tail_ns, lowered.timing->works[i].tail_ns);
      slower_ns += timing->works[i].tail_ns;
      before_ns += lowered.timing->works[i].tail_ns;
    }
    ck_assert_int_gt(slower_ns, before_ns);
  }
  lowered_clear(&lowered);
}

static void assert_same_timing(const Timing *a, const Timing *b) {
  ck_assert_int_eq(a->n_works, b->n_works);
  ck_assert_int_eq(a->n_transfers, b->n_transfers);
  ck_assert_mem_eq(a->works, b->works, sizeof *a->works * (gsize)a->n_works);
  ck_assert_mem_eq(a->transfers, b->transfers, sizeof *a->transfers * (gsize)a->n_transfers);
  ck_assert_mem_eq(a->loads, b->loads, sizeof *a->loads * ((gsize)a->n_transfers + 1));
  ck_assert_int_eq(a->n_modelled, b->n_modelled);
}

/* In a node of 8 all are on its links; in nodes of 2 tp is alone there. */
TEST(a_program_is_timed_where_collectives_of_tp_meet_nothing) {
  for (int i = 0; i < 3; i++) {
    Lowered lowered;
    lowered_init(&lowered);
    lowered.plan->contention = lowered.workload->plan->contention = i > 0;
    method_settle(lowered.workload->method);
    if (i == 2)
      lowered.cluster.gpus_per_node = lowered.cluster.domain_gpus = lowered.cluster.nics_per_node = 2;
    g_autofree gboolean *met = NULL;
    g_autoptr(Timing) whole = timing_model(lowered.program, lowered.workload, &lowered.cluster, NULL);
    Timing *timing = timing_model_unless_met(lowered.program, NULL, 0, lowered.workload, &lowered.cluster, NULL, &met);
    ck_assert_int_eq(met != NULL, i == 1);
    ck_assert_int_eq(timing == NULL, i == 1);
    if (timing != NULL)
      assert_same_timing(timing, whole);
    timing_free(timing);
    lowered_clear(&lowered);
  }
}

int main(void) {
  return run_tests();
}
