/* The advice in a report: the largest parts of a step, and what would change them. */
#include <check.h>
#include <string.h>

#include "advice.h"
#include "run_suite.h"
#include "sample_report.h"

/* Of every test, anew. */
static Plan plan;
static StepReport report;

static void set_up(void) {
  plan = sample_plan();
  report = sample_report(&plan);
}

/* 30 + 2 GB on 24. */
static void leave_no_room(void) {
  report.capacity_bytes = 24e9;
  report.fits = FALSE;
}

static char *advice_text(void) {
  g_autoptr(GPtrArray) advice = advice_new(&report);
  GString *all = g_string_new(NULL);
  for (guint i = 0; i < advice->len; i++)
    g_string_append_printf(all, "%s\n", (const char *)advice->pdata[i]);
  return g_string_free(all, FALSE);
}

static void check_said(gboolean is_said, const char *const *parts) {
  g_autofree char *text = advice_text();
  for (; *parts != NULL; parts++)
    ck_assert_msg((strstr(text, *parts) != NULL) == is_said, "\"%s\": %s", *parts, text);
}
#define says(...) check_said(TRUE, (const char *const[]){__VA_ARGS__, NULL})
#define says_not(...) check_said(FALSE, (const char *const[]){__VA_ARGS__, NULL})

TEST(a_large_bubble_is_met_with_numbers) {
  /* Bubble 0.4 of 2 s: twice the micro-batches leave 0.2 / (1.6 + 0.2) = 11.1 %. For 1F1B with p, m and equal stages
   * that is the closed form: (p−1)/(m+p−1) = 0.2 at p−1 = 1, m = 4; 1/9 at m = 8. */
  says("20.0 % of the step", "16 micro-batches", "11.1 %");
}

TEST(more_micro_batches_do_not_help_against_uneven_stages) {
  /* Of 0.4 of 2 s ranks wait 0.3 s for the fullest of them, which twice the micro-batches keep: (0.3 + 0.05) /
   * (1.6 + 0.35) = 17.9 %. */
  report.uneven_s = 0.3;
  says("15.0 % because stages are unequal", "17.9 %");
}

/* Hosts and gathers are waited for in every micro-batch, zb-v is not full yet, loops are waited for whole: less, but no
 * number of it. */
TEST(no_number_is_said_of_a_bubble_that_is_not_the_order_s) {
  const struct {
    const char *schedule;
    double host_s;
    int zero;
  } cases[] = {{"1f1b", 0.1, 1}, {"1f1b", 0, 3}, {"zb-v", 0, 1}, {"looped-bfs", 0, 1}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    plan.schedule = (char *)cases[i].schedule;
    plan.zero = cases[i].zero;
    report.breakdown_s[BREAKDOWN_HOST] = cases[i].host_s;
    says("16 micro-batches", " would leave less.");
  }
}

/* What is refused when it is typed: sequences that tp does not divide, every other product kept with experts. */
TEST(what_would_be_refused_is_not_advised) {
  report.breakdown_s[BREAKDOWN_TP] = 0.6;
  says("--sequence-parallel on");
  plan.seq_len = 2046;
  says_not("--sequence-parallel on");
  plan.recompute = RECOMPUTE_FULL;
  report.breakdown_s[BREAKDOWN_RECOMPUTE] = 0.6;
  says("--recompute selective");
  plan.memory.selective = SELECTIVE_PRODUCTS;
  plan.ep = 2;
  says_not("--recompute selective");
  plan.recompute = RECOMPUTE_NONE;
  report.fits = FALSE;
  report.peak_bytes = 90e9;
  report.memory_bytes[MEMORY_ACTIVATIONS] = 69e9; /* the most of it */
  says("--recompute full");
  says_not("--recompute-modules");
}

/* (p−1)(F+I+W)/v of interleaved is more than zb-h1's (p−1)(F+I−W) at v = 2 and F = I = W: two chunks would wait longer.
 * One micro-batch on two ranks waits as long on two chunks as on one. */
TEST(chunks_are_advised_where_they_make_the_bubble_shorter) {
  report.n_layers = 32;
  says("or --schedule interleaved --chunks 2 would leave about 11.1 %");
  report.n_layers = 27; /* on 4 stages: 7, 7, 7 and 6 */
  says_not("interleaved");
  report.n_layers = 32;
  plan.schedule = (char *)"zb-h1";
  says("16 micro-batches");
  says_not("interleaved");
  plan.schedule = (char *)"1f1b";
  plan.pipeline_layout = (char *)"embedding";
  says_not("interleaved");
  plan.pipeline_layout = NULL;
  plan.n_micro_batches = 1;
  says_not("interleaved");
}

/* dualpipe has two chunks and no others; three of interleaved have no half. */
TEST(fewer_chunks_are_advised_where_there_can_be_fewer) {
  report.breakdown_s[BREAKDOWN_PP] = 0.4;
  const struct {
    const char *schedule;
    int chunks;
    gboolean is_advised;
  } cases[] = {{"interleaved", 4, TRUE}, {"looped-bfs", 2, TRUE}, {"interleaved", 3, FALSE}, {"dualpipe", 2, FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    plan.schedule = (char *)cases[i].schedule;
    plan.chunks = cases[i].chunks;
    g_autofree char *text = advice_text();
    ck_assert_ptr_nonnull(strstr(text, "pipeline transfers: 20.0 %"));
    ck_assert_msg((strstr(text, "sends half as often") != NULL) == cases[i].is_advised, "%s", text);
  }
}

/* tp 2 on 16 GPUs is dp 4, to which 32 sequences are dealt out by 2, but not 36. */
TEST(half_of_tp_is_advised_where_the_batch_divides) {
  report.breakdown_s[BREAKDOWN_TP] = 0.5;
  says("--tp 2 would send less");
  plan.global_batch = 36;
  says("tensor parallelism: 25.0 %");
  says_not("--tp 2");
}

/* v-half's ranks wait in every micro-batch, so twice as many wait twice as long. */
TEST(more_micro_batches_are_not_advised_where_each_waits) {
  plan.schedule = (char *)"v-half";
  plan.chunks = 2;
  says("20.0 % of the step");
  says_not("16 micro-batches");
}

/* Of 72 GPUs two groups of 32 leave 8: the third group lies in two domains. 64, the greatest multiple of 32 (and of a
 * node's 8) up to 72, is the segment to take; groups of 24 or of 8 fill the domain, a job of 64 has one domain, and in
 * another order groups are not of neighbours. */
TEST(experts_whose_groups_cut_domains_are_told_of_segments) {
  static const struct {
    int ep, gpus, segment, leaf_nodes;
    Axis third;
    const char *said; /* of segments; NULL: nothing */
    gboolean are_cut;
  } cases[] = {
      {32, 1024, 72, 0, AXIS_EP, "`segment: 64` in the cluster's scale_up", TRUE},
      {32, 1024, 72, 36, AXIS_EP, "`segment: 64` in the cluster's scale_up", TRUE}, /* leaves of four domains */
      {32, 288, 72, 0, AXIS_EP, "`segment: 32` in the cluster's scale_up", TRUE},   /* no whole 64 */
      {32, 1024, 64, 0, AXIS_EP, "The cluster's segment of 64 is not taken", TRUE},
      {32, 1024, 72, 32, AXIS_EP, NULL, TRUE}, /* leaves cut domains */
      {24, 1152, 72, 0, AXIS_EP, NULL, FALSE},
      {8, 1024, 72, 0, AXIS_EP, NULL, FALSE},
      {32, 64, 72, 0, AXIS_EP, NULL, FALSE},
      {32, 1024, 72, 0, AXIS_DP, NULL, FALSE},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Cluster cluster = {.gpus_per_node = 8,
                             .nics_per_node = 8,
                             .domain_gpus = 72,
                             .segment_gpus = cases[i].segment,
                             .leaves.n_nodes = cases[i].leaf_nodes};
    plan.tp = plan.expert_tp = 1;
    plan.ep = cases[i].ep;
    plan.gpus = cases[i].gpus;
    plan.order[2] = cases[i].third;
    report.cluster = &cluster;
    report.domain_gpus = cluster.domain_gpus;
    report.breakdown_s[BREAKDOWN_EP] = 1;
    g_autofree char *text = advice_text();
    ck_assert_ptr_nonnull(strstr(text, "experts: "));
    ck_assert_int_eq(strstr(text, "do not divide the 72 GPUs") != NULL, cases[i].are_cut);
    ck_assert(strstr(text, cases[i].said != NULL ? cases[i].said : "experts: ") != NULL);
    ck_assert_int_eq(strstr(text, "segment") != NULL, cases[i].said != NULL);
  }
}

TEST(graphs_of_the_whole_step_are_not_advised_twice) {
  report.breakdown_s[BREAKDOWN_HOST] = 0.5;
  says("--cuda-graphs");
  plan.cuda_graphs = CUDA_GRAPHS_FULL;
  says("host: 25.0 %");
  says_not("--cuda-graphs");
}

/* Ranks that wait 3, 1 and 2 ns: on the mean one longer than the least. */
TEST(what_ranks_wait_longer_than_the_fullest_is_unevenness) {
  RankBreakdown ranks[3] = {
      {.ns = {[BREAKDOWN_BUBBLE] = 3}}, {.ns = {[BREAKDOWN_BUBBLE] = 1}}, {.ns = {[BREAKDOWN_BUBBLE] = 2}}};
  const Metrics metrics = {.step_ns = 9, .ranks = ranks, .n_ranks = 3, .mean_s = {[BREAKDOWN_BUBBLE] = 2e-9}};
  StepReport of_ranks = {0};
  step_report_set_metrics(&of_ranks, &metrics);
  ck_assert_double_eq_tol(of_ranks.uneven_s, 1e-9, 1e-20);
}

TEST(what_a_framework_cannot_do_is_not_advised) {
  report.breakdown_s[BREAKDOWN_DP] = 1.0;
  plan.overlap_grad = FALSE;
  says("--overlap-grad on");
  plan.framework = (char *)"megatron-deepspeed";
  plan.time.data_parallel = DP_ALONE;
  says("megatron-deepspeed does not overlap its collectives");
  says_not("--overlap-grad on");
}

/* Kernels run 1.5 s of 2 s at an HFU of 0.3, which is 0.4 of the peak. Where the fullest rank has twice the mean's work
 * that is 0.8 of what it does: larger products would not help. */
TEST(an_uneven_load_is_not_taken_for_small_products) {
  report.breakdown_s[BREAKDOWN_COMPUTE] = 1.5;
  report.breakdown_s[BREAKDOWN_RECOMPUTE] = 0;
  report.hfu = 0.3;
  says("products are small");
  plan.expert_load = 2;
  says("2 times the mean's work");
  says_not("products are small");
}

/* Kernels at 0.4 of the peak. Of 10 ms in a layer products take 6, 3.6 of them at their peak: 60 %, so that attention's
 * 3 ms are what is slow, and larger products are not advised; with 2.4 of 6, 40 %, they are. */
TEST(slow_attention_is_not_taken_for_small_products) {
  report.breakdown_s[BREAKDOWN_COMPUTE] = 1.5;
  report.breakdown_s[BREAKDOWN_RECOMPUTE] = 0;
  report.hfu = 0.3;
  report.layer_kernels =
      (LayerKernels){.total_s = 10e-3, .products_s = 6e-3, .products_at_peak_s = 3.6e-3, .attention_s = 3e-3};
  says("products take 60 % of the time at 60 % of their peak, attention 30 %, "
       "memory-bound kernels 10 %");
  says_not("makes products larger");
  report.layer_kernels.products_at_peak_s = 2.4e-3;
  says("at 40 % of their peak", "A larger --micro-batch", "makes products larger");
  report.fits = FALSE; /* larger ones would hold more */
  says_not("makes products larger");
}

TEST(the_largest_part_comes_first) {
  report.breakdown_s[BREAKDOWN_COMPUTE] = 0.2;
  report.breakdown_s[BREAKDOWN_TP] = 1.0;
  report.breakdown_s[BREAKDOWN_DP] = 0.4;
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert(g_str_has_prefix(advice->pdata[0], "tensor parallelism: 50.0 %"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--sequence-parallel on"));
  plan.sequence_parallel = TRUE;
  report.domain_gpus = 2; /* tp 4 leaves the domain */
  says("beyond the 2 GPUs");
  says_not("--sequence-parallel on");
}

TEST(exposed_exchange_with_experts_is_named_with_its_reach) {
  /* experts cut by tp 4, over 4 ranks of dp: 16 ranks next to each other, on domains of 8 */
  plan.ep = 4;
  report.breakdown_s[BREAKDOWN_EP] = 1.0;
  report.domain_gpus = 8;
  says("experts: 50.0 %", "beyond the 8 GPUs", "--schedule dualpipe");
  says_not("--expert-tp 1"); /* how many experts there are is not known */
  report.n_experts = 32;
  report.domain_gpus = 16;
  says("--expert-tp 1 --ep 16 keeps experts whole");
  report.n_experts = 8; /* fewer than ranks */
  says_not("--expert-tp 1");
  report.n_experts = 32;
  plan.expert_tp = 1; /* whole ones: 4 ranks */
  plan.schedule = (char *)"dualpipe-v";
  says("experts: 50.0 %");
  says_not("beyond", "--expert-tp 1", "--schedule dualpipe");
}

TEST(launches_are_made_fewer_by_graphs_that_the_model_has) {
  report.breakdown_s[BREAKDOWN_HOST] = 1.0;
  says("--cuda-graphs full makes launches fewer");
  plan.ep = 4;
  says("--cuda-graphs full or attention makes launches fewer");
}

TEST(exposed_exchange_of_keys_is_named_with_its_reach) {
  /* tp 4 × cp 4 = 16 ranks next to each other, on domains of 8 */
  plan.cp = 4;
  plan.cp_comm = CP_ALL_GATHER;
  report.breakdown_s[BREAKDOWN_CP] = 1.0;
  report.domain_gpus = 8;
  says("context parallelism: 50.0 %", "(cp 4, all_gather)", "tp × cp = 16 reaches beyond the 8 GPUs", "--cp-comm ring");
  plan.cp_comm = CP_RING;
  report.domain_gpus = 16;
  says("(cp 4, ring)");
  says_not("beyond", "--cp-comm ring");
}

TEST(memory_that_does_not_fit_comes_before_all) {
  /* 30 + 2 GB on 24: 8 too many. Over dp 2, ZeRO-1 halves 12 GB of optimizer state; ZeRO-2 also 4 GB of gradients. */
  leave_no_room();
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert(g_str_has_prefix(advice->pdata[0], "memory: does not fit, 8.0 GB too much on rank 1."));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--zero 1 saves 6.0 GB"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--zero 2 saves up to 8.0 GB"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--micro-batch 1 saves 4.5 GB")); /* half of 9 GB of activations */
}

/* Where layers are recomputed already half of each sequence is left to drop: of 9 GB of activations 4.5. With dp 1
 * there are no ranks to cut it. */
TEST(half_of_each_sequence_is_advised_where_all_is_recomputed) {
  plan.recompute = RECOMPUTE_FULL;
  leave_no_room();
  says(" --cp 2 saves 4.5 GB, as a rank has half of each sequence.");
  report.window = 128; /* a ring has none */
  says(" --cp 2 --cp-comm all_gather saves 4.5 GB");
  plan.schedule = "gpipe"; /* holds twice the micro-batches of half the dp */
  says_not("--cp 2");
  plan.schedule = "1f1b";
  plan.dp = 1;
  says_not("--cp 2");
}

/* Experts dealt out over all of dp have no other ranks that hold the same: what ZeRO saves of them is not said. */
TEST(no_number_is_said_of_what_experts_save) {
  plan.ep = 2;
  leave_no_room();
  says("A --zero above 0 splits more");
  says_not("--zero 1 saves");
}

/* gpipe holds all 8 micro-batches, and 16 of half the size as well. 1f1b holds 2 in either case. */
TEST(smaller_micro_batches_save_nothing_where_all_are_held) {
  leave_no_room();
  const int all[2] = {8, 8}, few[2] = {2, 1};
  report.in_flight = few;
  says("--micro-batch 1 saves 4.5 GB");
  report.in_flight = all;
  says_not("--micro-batch 1");
}

/* 12 GB of optimizer, and under ZeRO-2 the 4 GB of reduced gradients with it. */
TEST(reduced_gradients_leave_with_the_optimizer) {
  const Cluster cluster = {.host = {.link_efficiency = 0.8}};
  report.cluster = &cluster;
  leave_no_room();
  says("--offload-optimizer host saves 12.0 GB");
  plan.zero = 2;
  says("--offload-optimizer host saves 16.0 GB");
}

TEST(what_the_host_updates_may_stay_where_there_is_room) {
  /* a node of 8 GPUs has 8 × 14 GB of it, and each GPU 7 GB left: half may stay */
  const Cluster cluster = {.gpus_per_node = 8};
  report.cluster = &cluster;
  report.breakdown_s[BREAKDOWN_OPTIMIZER] = 1;
  report.capacity_bytes = report.peak_bytes + report.reserved_bytes + 7e9;
  report.tiers[TIER_HOST].held[MEMORY_OPTIMIZER] = 8 * 12e9;
  report.tiers[TIER_HOST].held[MEMORY_GRADIENTS] = 8 * 2e9;
  says_not("have room");
  plan.gpus = 16;
  plan.offload = (Offload){.optimizer = TIER_HOST};
  says("room for more of it: --offload-optimizer host:0.5.");
  report.capacity_bytes += 7e9;
  says("room for all of it: --offload-optimizer none");
  plan.offload.share = 0.5; /* of which the node has as much: a quarter of all is left when half of that stays */
  report.capacity_bytes -= 7e9;
  says("host:0.25.");
}

TEST(options_already_taken_are_not_advised) {
  plan.zero = 3;
  plan.recompute = RECOMPUTE_FULL;
  plan.micro_batch = 1;
  plan.sequence_parallel = TRUE;
  leave_no_room();
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert_ptr_null(strstr(advice->pdata[0], "--zero"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--recompute"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--micro-batch"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--sequence-parallel"));
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, NULL);
  return run_tests();
}
