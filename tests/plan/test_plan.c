#include "error.h"
#include "plan.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* 12 layers, 32 heads over 8 key-value heads, 4,096 hidden, 14,336 MLP, 8,192 rotary positions. */
static const Model model = {.name = (char *)"toy",
                            .n_layers = 12,
                            .hidden = 4096,
                            .n_heads = 32,
                            .n_kv_heads = 8,
                            .head_dim = 128,
                            .ffn_hidden = 14336,
                            .vocab = 32000,
                            .max_positions = 8192,
                            .n_norms_per_layer = 2,
                            .gated = TRUE,
                            .norm = NORM_RMSNORM,
                            .positions = POSITIONS_ROTARY};

/* Nodes of 8 with NICs, bf16 and fp16 only, 1,024 GPUs. */
static Cluster toy_cluster(void) {
  Cluster cluster = {.name = (char *)"farm",
                     .gpus_per_node = 8,
                     .domain_gpus = 8,
                     .nics_per_node = 8,
                     .max_gpus = 1024,
                     .gpu = {.name = (char *)"chip"}};
  cluster.gpu.peak_flops[NUMBER_BF16] = cluster.gpu.peak_flops[NUMBER_FP16] = 1e15;
  return cluster;
}

static void assert_complete(Plan *plan) {
  g_autoptr(GError) error = NULL;
  const Cluster cluster = toy_cluster();
  gboolean complete = plan_complete(plan, &model, &cluster, &error);
  ck_assert_msg(complete, "%s", error == NULL ? "" : error->message);
}

/* Refused with `code`, and the message holds every one of the NULL-terminated `parts`. */
static void assert_refused(Plan *plan, const Model *of, const Cluster *on, StepsimError code,
                           const char *const *parts) {
  g_autoptr(GError) error = NULL;
  ck_assert(!plan_complete(plan, of, on, &error));
  ck_assert_msg(g_error_matches(error, STEPSIM_ERROR, code), "%s", error->message);
  for (int i = 0; parts[i] != NULL; i++)
    ck_assert_msg(strstr(error->message, parts[i]) != NULL, "\"%s\" is not in: %s", parts[i], error->message);
}

/* Changes one new plan by `change` and expects the toy model on the toy cluster to be refused. */
#define ASSERT_REFUSED(code, change, ...)                                                                              \
  do {                                                                                                                 \
    g_autoptr(Plan) plan = plan_new();                                                                                 \
    Cluster cluster = toy_cluster();                                                                                   \
    change;                                                                                                            \
    assert_refused(plan, &model, &cluster, code, (const char *const[]){__VA_ARGS__, NULL});                            \
  } while (0)
#define ASSERT_IMPOSSIBLE(change, ...) ASSERT_REFUSED(STEPSIM_ERROR_IMPOSSIBLE, change, __VA_ARGS__)
#define ASSERT_INPUT(change, ...) ASSERT_REFUSED(STEPSIM_ERROR_INPUT, change, __VA_ARGS__)

TEST(a_new_plan_is_one_of_everything) {
  g_autoptr(Plan) plan = plan_new();
  assert_complete(plan);
  ck_assert_int_eq(plan->gpus, 1);
  ck_assert_int_eq(plan->dp, 1);
  ck_assert_int_eq(plan->micro_batch, 1);
  ck_assert_int_eq(plan->global_batch, 1);
  ck_assert_int_eq(plan->n_micro_batches, 1);
  ck_assert_int_eq(plan->seq_len, 4096); /* 8,192 positions, capped */
  ck_assert_str_eq(plan->schedule, "1f1b");
  ck_assert_str_eq(plan->recipe.name, "bf16+master");
  ck_assert_int_eq(plan->bucket_parameters, 40000000);
  ck_assert(plan->fold && plan->overlap_grad && plan->overlap_param && !plan->sequence_parallel);
}

TEST(dp_is_what_is_left_of_the_gpus) {
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = 512, plan->tp = 4, plan->pp = 2;
  assert_complete(plan);
  ck_assert_int_eq(plan->dp, 64); /* 512 / (4·2) */
  ck_assert_int_eq(plan->bucket_parameters, 64000000);
  ck_assert_int_eq(plan->zero_ranks, 64);
}

TEST(gpus_are_the_product_when_open) {
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 4, plan->pp = 2, plan->dp = 3;
  assert_complete(plan);
  ck_assert_int_eq(plan->gpus, 24);
}

TEST(the_default_batch_fills_a_pipeline_four_times) {
  g_autoptr(Plan) plan = plan_new();
  plan->pp = 4, plan->dp = 2, plan->micro_batch = 3;
  assert_complete(plan);
  ck_assert_int_eq(plan->global_batch, 3 * 2 * 4 * 4);
  ck_assert_int_eq(plan->n_micro_batches, 16);
}

TEST(chunks_make_the_default_schedule_interleaved) {
  g_autoptr(Plan) plan = plan_new();
  plan->pp = 4, plan->chunks = 3;
  assert_complete(plan);
  ck_assert_str_eq(plan->schedule, "interleaved");
  g_autoptr(Plan) single = plan_new();
  single->pp = 4, single->schedule = g_strdup("interleaved");
  assert_complete(single);
}

TEST(the_default_sequence_follows_the_model) {
  Model small = model;
  g_autoptr(Plan) plan = plan_new();
  g_autoptr(Plan) unsaid = plan_new();
  small.max_positions = 1024;
  ck_assert(plan_complete(plan, &small, NULL, NULL));
  ck_assert_int_eq(plan->seq_len, 1024);
  small.max_positions = 0;
  ck_assert(plan_complete(unsaid, &small, NULL, NULL));
  ck_assert_int_eq(unsaid->seq_len, 2048);
}

TEST(completing_twice_changes_nothing) {
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = 64, plan->tp = 4, plan->pp = 2, plan->zero = 1;
  assert_complete(plan);
  g_autoptr(Plan) again = plan_copy(plan);
  assert_complete(again);
  ck_assert_int_eq(again->dp, plan->dp);
  ck_assert_int_eq(again->global_batch, plan->global_batch);
  ck_assert_int_eq(again->zero_ranks, plan->zero_ranks);
  ck_assert_str_eq(again->schedule, plan->schedule);
}

/* What a plan says of kernels and loss takes the place of its framework's, with what that holds; what the framework
 * does already leaves its numbers as they are. */
TEST(a_plan_says_which_kernels_and_loss_run) {
  static const struct {
    int kernels, loss;
    FrameworkMemory expected; /* kernels, norm_bytes, logits, logit_bytes */
  } cases[] = {
      {-1, -1, {.kernels = FRAMEWORK_KERNELS_PLAIN, .norm_bytes = 4, .logits = LOGITS_REPLICATED, .logit_bytes = 24}},
      {FRAMEWORK_KERNELS_PLAIN,
       LOSS_PLAIN,
       {.kernels = FRAMEWORK_KERNELS_PLAIN, .norm_bytes = 4, .logits = LOGITS_REPLICATED, .logit_bytes = 24}},
      {FRAMEWORK_KERNELS_FUSED, LOSS_FUSED, {.kernels = FRAMEWORK_KERNELS_FUSED, .logits = LOGITS_SPLIT}},
      {-1, LOSS_CHUNKED, {.kernels = FRAMEWORK_KERNELS_PLAIN, .norm_bytes = 4, .logits = LOGITS_SPLIT}},
  };
  const Framework framework = {.memory = cases[0].expected,
                               .time = {.kernels = FRAMEWORK_KERNELS_PLAIN, .loss = LOSS_PLAIN}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_new();
    plan_set_framework(plan, "plain", &framework);
    plan->layer_kernels = cases[i].kernels;
    plan->loss = cases[i].loss;
    assert_complete(plan);
    ck_assert_int_eq(plan->memory.kernels, cases[i].expected.kernels);
    ck_assert_double_eq(plan->memory.norm_bytes, cases[i].expected.norm_bytes);
    ck_assert_int_eq(plan->memory.logits, cases[i].expected.logits);
    ck_assert_double_eq(plan->memory.logit_bytes, cases[i].expected.logit_bytes);
    ck_assert_int_eq(plan->time.kernels, plan->memory.kernels);
    ck_assert_int_eq(plan->norm_kernel, plan->layer_kernels);
    ck_assert_int_eq(plan->time.loss, cases[i].loss < 0 ? LOSS_PLAIN : cases[i].loss);
  }
  g_autoptr(Plan) whole = plan_new();
  whole->loss = LOSS_PLAIN;
  whole->layer_kernels = FRAMEWORK_KERNELS_PLAIN;
  whole->norm_kernel = FRAMEWORK_KERNELS_FUSED;
  assert_complete(whole);
  ck_assert_int_eq(whole->memory.logits, LOGITS_WHOLE);
  ck_assert_int_eq(whole->norm_kernel, FRAMEWORK_KERNELS_FUSED);
}

TEST(a_copy_is_equal_and_apart) {
  g_autoptr(Plan) plan = plan_new();
  plan->schedule = g_strdup("gpipe");
  g_array_append_val(plan->slow_ranks, ((SlowRank){.rank = 3, .factor = 2}));
  g_autoptr(Plan) copy = plan_copy(plan);
  g_array_set_size(plan->slow_ranks, 0);
  ck_assert_str_eq(copy->schedule, "gpipe");
  ck_assert_ptr_ne(copy->schedule, plan->schedule);
  ck_assert_uint_eq(copy->slow_ranks->len, 1);
  plan_free(NULL);
}

TEST(ranks_have_to_multiply_to_the_gpus) {
  ASSERT_IMPOSSIBLE((plan->gpus = 16, plan->tp = 4, plan->pp = 3), "gpus 16", "tp 4 × pp 3 = 12");
  ASSERT_IMPOSSIBLE((plan->gpus = 16, plan->tp = 4, plan->dp = 2), "tp 4 × pp 1 × dp 2 = 8", "gpus 16");
  ASSERT_IMPOSSIBLE((plan->gpus = 4, plan->tp = 8), "gpus 4", "tp 8");
  ASSERT_IMPOSSIBLE((plan->tp = 1 << 24, plan->pp = 1 << 24, plan->dp = 1 << 24), "at most 16777216");
}

TEST(context_parallelism_cuts_what_it_can) {
  ASSERT_IMPOSSIBLE((plan->gpus = 16, plan->tp = 4, plan->cp = 3), "gpus 16", "tp 4 × cp 3 × pp 1 = 12");
  ASSERT_IMPOSSIBLE((plan->gpus = 16, plan->cp = 4, plan->dp = 2), "tp 1 × cp 4 × pp 1 × dp 2 = 8", "gpus 16");
  /* one early and one late piece for each of 4 ranks: multiples of 8 */
  ASSERT_IMPOSSIBLE((plan->cp = 4, plan->seq_len = 4100), "seq-len 4100", "2 × cp 4");
  ASSERT_IMPOSSIBLE((plan->cp = 2, plan->attention = ATTENTION_UNFUSED), "cp 2", "--attention flash");
  ASSERT_IMPOSSIBLE((plan->cp = 64, plan->tp = 8, plan->sequence_parallel = TRUE, plan->seq_len = 128), "tp 8",
                    "128 / cp 64 = 2");
  ASSERT_IMPOSSIBLE((plan->cp = 64, plan->seq_len = 8192, plan->cp_comm = CP_ULYSSES), "ulysses", "cp 64", "32 heads");
  g_autoptr(Plan) plan = plan_new();
  plan->cp = 8, plan->tp = 2, plan->gpus = 64, plan->seq_len = 8192;
  assert_complete(plan);
  ck_assert_int_eq(plan->dp, 4);
  ck_assert_int_eq(plan_data_ranks(plan), 32);
  ck_assert_int_eq(plan->zero_ranks, 32);
  ck_assert_int_eq(plan->n_micro_batches, 1); /* dp alone deals out sequences */
}

/* Of 48 heads and 8 of keys and values: 16 ranks have each of these twice, 4 ranks two; of 12 each would have another
 * share. Of 4 that tp 8 holds twice a rank has one. */
TEST(ulysses_deals_out_key_value_heads_or_repeats_them) {
  static const struct {
    int cp, tp, kv_heads;
    gboolean is_possible;
  } cases[] = {{4, 1, 8, TRUE}, {16, 1, 8, TRUE}, {8, 2, 8, TRUE}, {12, 1, 8, FALSE}, {6, 8, 4, TRUE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Model many = model;
    many.n_heads = 48;
    many.n_kv_heads = cases[i].kv_heads;
    g_autoptr(Plan) plan = plan_new();
    plan->cp = cases[i].cp, plan->tp = cases[i].tp, plan->seq_len = 96 * 32, plan->cp_comm = CP_ULYSSES;
    plan->gpus = plan->cp * plan->tp;
    g_autoptr(GError) error = NULL;
    const gboolean is_possible = plan_complete(plan, &many, NULL, &error);
    ck_assert_msg(is_possible == cases[i].is_possible, "case %d: %s", (int)i, error != NULL ? error->message : "");
    if (!is_possible)
      ck_assert_msg(strstr(error->message, "48 heads") && strstr(error->message, "8 key-value heads"), "%s",
                    error->message);
  }
}

TEST(shards_span_the_ranks_of_cp_first) {
  ASSERT_IMPOSSIBLE((plan->cp = 4, plan->dp = 4, plan->zero = 1, plan->zero_ranks = 2), "zero-ranks 2", "cp 4");
  ASSERT_IMPOSSIBLE((plan->cp = 4, plan->dp = 4, plan->zero = 1, plan->zero_ranks = 12), "zero-ranks 12", "dp × cp 16");
  g_autoptr(Plan) plan = plan_new();
  plan->cp = 4, plan->dp = 4, plan->zero = 1, plan->zero_ranks = 8;
  assert_complete(plan);
}

/* The toy with 64 experts of 512 columns and a shared one of 1,024. */
static Model with_experts(void) {
  Model experts = model;
  experts.experts = (ModelExperts){.n = 64, .per_token = 4, .ffn_hidden = 512, .shared_ffn_hidden = 1024, .every = 1};
  return experts;
}

static void assert_experts_refused(int ep, int tp, int expert_tp, gboolean sequence_parallel, const char *part) {
  const Model experts = with_experts();
  g_autoptr(Plan) plan = plan_new();
  plan->ep = ep, plan->tp = tp, plan->expert_tp = expert_tp, plan->dp = 12;
  plan->sequence_parallel = sequence_parallel;
  assert_refused(plan, &experts, NULL, STEPSIM_ERROR_IMPOSSIBLE, (const char *const[]){part, NULL});
}

TEST(experts_have_to_divide_and_to_be_there) {
  ASSERT_IMPOSSIBLE((plan->ep = 8, plan->dp = 8), "ep 8", "model toy has no experts");
  ASSERT_IMPOSSIBLE((plan->tp = 2, plan->expert_tp = 1), "expert-tp 1", "model toy has no experts");
  assert_experts_refused(8, 1, 0, FALSE, "ep 8 does not fit into cp 1 × dp 12");
  assert_experts_refused(3, 1, 0, FALSE, "ep 3 does not divide the experts 64");
  assert_experts_refused(4, 2, 0, FALSE, "--sequence-parallel on");
  assert_experts_refused(4, 4, 2, TRUE, "expert-tp 2: experts are cut by tp 4 or not at all");
}

TEST(ep_is_made_of_ranks_of_dp_and_takes_none_of_its_own) {
  const Model experts = with_experts();
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = 64, plan->tp = 2, plan->pp = 2, plan->ep = 16, plan->sequence_parallel = TRUE;
  ck_assert(plan_complete(plan, &experts, NULL, NULL));
  ck_assert_int_eq(plan->dp, 16);
}

TEST(the_batch_has_to_divide) {
  ASSERT_IMPOSSIBLE((plan->dp = 8, plan->micro_batch = 2, plan->global_batch = 24), "global-batch 24",
                    "micro-batch 2 × dp 8 = 16");
  ASSERT_IMPOSSIBLE((plan->dp = 8, plan->global_batch = 4), "global-batch 4", "dp 8");
  ASSERT_IMPOSSIBLE(plan->global_batch = 1000001, "global-batch 1000001", "at most 1000000");
  ASSERT_IMPOSSIBLE((plan->micro_batch = 1 << 20, plan->seq_len = 4096), "micro-batch 1048576 × seq-len 4096");
}

TEST(stages_need_a_layer_each) {
  ASSERT_IMPOSSIBLE((plan->pp = 4, plan->chunks = 4), "pp 4 × chunks 4 = 16 stages", "12 layers");
  ASSERT_IMPOSSIBLE(plan->pp = 13, "pp 13", "12 layers of model toy");
  g_autoptr(Plan) uneven = plan_new();
  uneven->pp = 5;
  ck_assert(plan_complete(uneven, &model, NULL, NULL));
  g_autoptr(Plan) ends_alone = plan_new();
  ends_alone->pp = 14;
  ck_assert(plan_complete(ends_alone, &model, NULL, NULL));
}

TEST(tp_has_to_cut_every_matrix) {
  ASSERT_IMPOSSIBLE(plan->tp = 3, "tp 3", "attention heads 32 of model toy");
  Model narrow = model;
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 8;
  narrow.ffn_hidden = 11004;
  assert_refused(plan, &narrow, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"tp 8", "MLP hidden size 11004", NULL});
  narrow = model;
  narrow.hidden = 4100;
  assert_refused(plan, &narrow, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"tp 8", "hidden size 4100", NULL});
}

TEST(key_value_heads_are_cut_or_replicated) {
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 32; /* 8 key-value heads, each on 4 ranks */
  ck_assert(plan_complete(plan, &model, NULL, NULL));
  Model odd = model;
  odd.n_kv_heads = 6;
  odd.n_heads = 24;
  g_autoptr(Plan) clash = plan_new();
  clash->tp = 4;
  assert_refused(clash, &odd, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"tp 4", "key-value heads 6 of model toy", NULL});
}

TEST(sequences_have_limits) {
  ASSERT_IMPOSSIBLE((plan->tp = 8, plan->sequence_parallel = TRUE, plan->seq_len = 4100), "sequence-parallel", "tp 8",
                    "seq-len 4100");
  Model learned = model, windowed = model, mixed = model;
  learned.positions = POSITIONS_LEARNED;
  windowed.window = mixed.window = 4096;
  mixed.some_windowed = TRUE;
  g_autoptr(Plan) plan = plan_new();
  plan->seq_len = 8193;
  assert_refused(plan, &learned, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"seq-len 8193", "8192 learned positions", NULL});
  assert_refused(plan, &mixed, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"seq-len 8193", "window 4096", "some layers", NULL});
  ck_assert(plan_complete(plan, &windowed, NULL, NULL));
  ck_assert(plan_complete(plan, &model, NULL, NULL)); /* rotary positions may be stretched */
  g_autoptr(Plan) cut = plan_new(), ulysses = plan_new();
  cut->seq_len = ulysses->seq_len = 8192;
  cut->cp = ulysses->cp = cut->dp = ulysses->dp = 2;
  ulysses->cp_comm = CP_ULYSSES;
  assert_refused(cut, &windowed, NULL, STEPSIM_ERROR_IMPOSSIBLE,
                 (const char *const[]){"cp-comm ring", "window 4096", "all_gather or ulysses", NULL});
  ck_assert(plan_complete(ulysses, &windowed, NULL, NULL));
}

TEST(zero_shards_within_dp) {
  ASSERT_IMPOSSIBLE((plan->dp = 8, plan->zero = 3, plan->zero_ranks = 3), "zero-ranks 3", "dp 8");
  ASSERT_IMPOSSIBLE((plan->dp = 8, plan->zero = 3, plan->zero_ranks = 16), "zero-ranks 16", "dp 8");
  ASSERT_IMPOSSIBLE((plan->dp = 8, plan->zero_ranks = 4), "zero-ranks 4", "zero 0");
  g_autoptr(Plan) plan = plan_new();
  plan->dp = 16, plan->zero = 3, plan->zero_ranks = 8;
  assert_complete(plan);
  ck_assert_int_eq(plan->zero_ranks, 8);
}

TEST(shards_may_overlap_whatever_is_asked) {
  for (int zero = 2; zero <= 3; zero++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 2;
    plan->zero = zero;
    plan->overlap_grad = plan->overlap_param = FALSE;
    plan->time.data_parallel = DP_SHARDS_BESIDE;
    ck_assert(plan_complete(plan, &model, NULL, NULL));
    ck_assert(plan->overlap_grad == (zero == 3) && plan->overlap_param == (zero == 3));
  }
}

TEST(gpus_have_to_lie_on_the_cluster) {
  ASSERT_IMPOSSIBLE(plan->gpus = 12, "gpus 12", "cluster farm has 8 GPUs per node");
  ASSERT_IMPOSSIBLE(plan->gpus = 2048, "gpus 2048", "1024 GPUs of cluster farm");
  ASSERT_IMPOSSIBLE((plan->gpus = 16, cluster.nics_per_node = 0), "gpus 16", "no NICs");
  g_autoptr(Plan) part = plan_new();
  part->gpus = 3;
  assert_complete(part);
  g_autoptr(Plan) domain = plan_new();
  Cluster wide = toy_cluster();
  wide.domain_gpus = 72, wide.nics_per_node = 0;
  domain->gpus = 64;
  ck_assert(plan_complete(domain, &model, &wide, NULL));
}

TEST(the_gpu_has_to_know_the_precision) {
  ASSERT_IMPOSSIBLE(plan->precision = PRECISION_FP8, "precision fp8", "GPU chip of cluster farm");
  ASSERT_IMPOSSIBLE(plan->precision = PRECISION_FP32, "precision fp32", "fp32");
  g_autoptr(Plan) plan = plan_new();
  plan->precision = PRECISION_FP16;
  assert_complete(plan);
}

TEST(disturbed_ranks_are_not_folded) {
  g_autoptr(Plan) jitter = plan_new();
  jitter->jitter = 0.02;
  assert_complete(jitter);
  ck_assert(!jitter->fold);
  g_autoptr(Plan) slow = plan_new();
  slow->dp = 4;
  g_array_append_val(slow->slow_ranks, ((SlowRank){.rank = 3, .factor = 2}));
  assert_complete(slow);
  ck_assert(!slow->fold);
  ASSERT_IMPOSSIBLE(g_array_append_val(plan->slow_ranks, ((SlowRank){.rank = 1, .factor = 2})), "slow-rank 1",
                    "gpus 1");
  ASSERT_IMPOSSIBLE(g_array_append_val(plan->slow_ranks, ((SlowRank){.rank = -1, .factor = 2})), "slow-rank -1");
  ASSERT_INPUT(g_array_append_val(plan->slow_ranks, ((SlowRank){.rank = 0, .factor = NAN})), "factor nan");
  ASSERT_INPUT(g_array_append_val(plan->slow_ranks, ((SlowRank){.rank = 0, .factor = 0})), "factor 0", "0.1 to 100");
}

TEST(numbers_out_of_all_sense_are_bad_input) {
  ASSERT_INPUT(plan->tp = 0, "tp: found 0, expected 1");
  ASSERT_INPUT(plan->tp = G_MAXINT, "tp: found 2147483647");
  ASSERT_INPUT(plan->gpus = -8, "gpus: found -8");
  ASSERT_INPUT(plan->gpus = (1 << 24) + 1, "gpus: found 16777217");
  ASSERT_INPUT(plan->dp = -1, "dp: found -1");
  ASSERT_INPUT(plan->pp = G_MININT, "pp: found -2147483648");
  ASSERT_INPUT(plan->chunks = -1, "chunks: found -1");
  ASSERT_INPUT(plan->micro_batch = -1, "micro-batch: found -1");
  ASSERT_INPUT(plan->micro_batch = G_MAXINT64, "micro-batch: found 9223372036854775807");
  ASSERT_INPUT(plan->global_batch = G_MAXINT64, "global-batch");
  ASSERT_INPUT(plan->seq_len = G_MAXINT64, "seq-len");
  ASSERT_INPUT(plan->zero = 4, "zero: found 4, expected 0 to 3");
  ASSERT_INPUT(plan->zero_ranks = -1, "zero-ranks");
  ASSERT_INPUT(plan->bucket_parameters = -1, "bucket");
  ASSERT_INPUT(plan->prefetch = -1, "prefetch");
  ASSERT_INPUT(plan->steps = -1, "steps: found -1, expected 1 to 1000");
  ASSERT_INPUT(plan->steps = 1001, "steps: found 1001");
  ASSERT_INPUT(plan->jitter = 0.6, "jitter: found 0.6");
  ASSERT_INPUT(plan->jitter = NAN, "jitter: found nan");
}

/* Whatever the numbers: completed with all its promises kept, or refused with a message. */
TEST(random_plans_are_completed_or_refused) {
  const int values[] = {G_MININT, -1, 0, 1, 2, 3, 4, 8, 12, 16, 64, 1 << 16, 1 << 24, G_MAXINT};
  const Cluster cluster = toy_cluster();
  g_autoptr(GRand) random = g_rand_new_with_seed(7);
  int n_complete = 0;
  for (int i = 0; i < 50000; i++) {
    g_autoptr(Plan) plan = plan_new();
    int *const fields[] = {&plan->gpus, &plan->tp, &plan->dp, &plan->pp, &plan->chunks, &plan->zero, &plan->zero_ranks};
    for (size_t f = 0; f < G_N_ELEMENTS(fields); f++)
      if (g_rand_int(random) % 3 == 0)
        *fields[f] = values[g_rand_int(random) % G_N_ELEMENTS(values)];
    if (g_rand_int(random) % 2 == 0)
      plan->global_batch = values[g_rand_int(random) % G_N_ELEMENTS(values)];
    g_autoptr(GError) error = NULL;
    gboolean complete = plan_complete(plan, &model, i % 2 == 0 ? &cluster : NULL, &error);
    ck_assert(complete == (error == NULL));
    if (!complete)
      continue;
    n_complete++;
    ck_assert_int_eq((gint64)plan->tp * plan->pp * plan->dp, plan->gpus);
    ck_assert_int_eq(plan->n_micro_batches * plan->micro_batch * plan->dp, plan->global_batch);
    ck_assert_int_ge(plan->n_micro_batches, 1);
    ck_assert_int_eq(plan->dp % plan->zero_ranks, 0);
  }
  ck_assert_int_gt(n_complete, 500);
}

int main(void) {
  return run_tests();
}
