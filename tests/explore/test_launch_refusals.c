/* Plans that a framework cannot run are refused with the reason; where it differs from the prediction, a note says so.
 */
#include "launch_fixture.h"
#include "plan_with.h"
#include "run_suite.h"

#include <glib/gstdio.h>
#include <string.h>

static void set_schedule(Plan *plan, const char *schedule) {
  g_free(plan->schedule);
  plan->schedule = g_strdup(schedule);
}

static void spoil_nothing(Plan *plan) {
}
static void spoil_schedule(Plan *plan) {
  set_schedule(plan, "zb-h1");
}
static void spoil_zero_1(Plan *plan) {
  plan->zero = 1;
}
static void spoil_zero_2(Plan *plan) {
  plan->zero = 2;
}
static void spoil_modules(Plan *plan) {
  plan->zero = 2;
  plan->sequence_parallel = TRUE;
  plan->recompute = RECOMPUTE_SELECTIVE;
  plan->recompute_modules = MODULE_BIT(MODULE_LAYERNORM);
}
static void spoil_sends(Plan *plan) {
  plan->overlap_p2p = TRUE;
}
static void spoil_one_gpus_modules(Plan *plan) {
  spoil_modules(plan);
  plan->tp = plan->pp = 1;
  plan->sequence_parallel = FALSE;
}
static void spoil_sequence(Plan *plan) {
  plan->zero = 2;
  plan->sequence_parallel = FALSE;
}

static void spoil_layers(Plan *plan, Recompute recompute) {
  plan->zero = 2;
  plan->recompute = recompute;
  plan->recompute_layers = 2;
}
static void spoil_group(Plan *plan) {
  spoil_layers(plan, RECOMPUTE_FULL);
}
static void spoil_block(Plan *plan) {
  spoil_layers(plan, RECOMPUTE_BLOCK);
}
static void spoil_every(Plan *plan) {
  spoil_layers(plan, RECOMPUTE_EVERY);
}
static void spoil_sums(Plan *plan) {
  plan->sequence_parallel = FALSE;
  plan->compression = (GradCompression){.kind = COMPRESS_ONEBIT};
}

static void spoil_training(Plan *plan) {
  plan->zero = 2;
  plan->training.rank = 16;
}

static void spoil_heads(Plan *plan) {
  plan->tp = plan->pp = plan->dp = 1;
  plan->sequence_parallel = FALSE;
  plan->cp = 16;
  plan->seq_len = 4096;
  plan->cp_comm = CP_ULYSSES;
}
static void spoil_no_heads(Plan *plan) {
  spoil_heads(plan);
  plan->cp = 8;
}

static char *offloading_text(LaunchFramework framework, int zero, Offload offload) { /* or why not */
  g_autoptr(Plan) plan = plan_new();
  plan->dp = 2, plan->zero = zero, plan->offload = offload;
  g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) launch = launch_new(framework, workload, 8, &error);
  return g_strdup(launch != NULL ? launch->text : error->message);
}

TEST(offloading_is_told_as_each_framework_has_it) {
  const Offload optimizer = {.optimizer = TIER_HOST}, drives = {.optimizer = TIER_NVME, .weights = TIER_NVME},
                both = {.optimizer = TIER_HOST, .weights = TIER_HOST}, saved = {.activations = TIER_HOST},
                part = {.optimizer = TIER_HOST, .share = 0.25};
  const struct {
    LaunchFramework framework;
    int zero;
    Offload offload;
    const char *words;
  } cases[] = {
      {LAUNCH_DEEPSPEED, 2, optimizer, "\"device\" : \"cpu\""},
      {LAUNCH_DEEPSPEED, 3, drives, "\"nvme_path\""},
      {LAUNCH_DEEPSPEED, 2, {.optimizer = TIER_NVME}, "optimizer state on NVMe with zero 3 alone, found zero 2"},
      {LAUNCH_DEEPSPEED, 2, saved, "recompute none, expected full"},
      {LAUNCH_DEEPSPEED, 3, drives, "\"device\" : \"nvme\""},
      {LAUNCH_MEGATRON, 1, optimizer, "--optimizer-cpu-offload --optimizer-offload-fraction 1.0"},
      {LAUNCH_MEGATRON, 3, both, "--offload-optimizer host alone, found optimizer host, weights host"},
      {LAUNCH_DEEPSPEED, 3, part, "\"ratio\" : 0.25"},
      {LAUNCH_DEEPSPEED, 3, part, "\"sub_group_size\" : "},
      {LAUNCH_DEEPSPEED, 2, part, "a part of the optimizer with zero 3 alone, found zero 2"},
      {LAUNCH_MEGATRON, 1, part, "--optimizer-cpu-offload --optimizer-offload-fraction 0.25 "},
      {LAUNCH_TORCHTITAN, 3, both, "enable_cpu_offload = true"},
      {LAUNCH_TORCHTITAN, 2, optimizer, "together, and no activations: found optimizer host, weights none"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = offloading_text(cases[i].framework, cases[i].zero, cases[i].offload);
    ck_assert_ptr_nonnull(strstr(text, cases[i].words));
  }
}

/* Layers recomputed two at a time, the first two of a stage, and every second. */
TEST(frameworks_are_told_which_layers_to_recompute) {
  static const struct {
    LaunchFramework framework;
    Recompute recompute;
    int pp;
    const char *words;
  } told[] = {
      {LAUNCH_MEGATRON, RECOMPUTE_FULL, 2, "full --recompute-method uniform --recompute-num-layers 2\n"},
      {LAUNCH_MEGATRON, RECOMPUTE_BLOCK, 2, "full --recompute-method block --recompute-num-layers 2\n"},
      {LAUNCH_DEEPSPEED, RECOMPUTE_FULL, 2, "\"activation_checkpoint_interval\" : 2"},
      {LAUNCH_TORCHTITAN, RECOMPUTE_EVERY, 1, "mode = \"selective\"\nselective_ac_option = \"2\"\n"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(told); i++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 2, plan->pp = told[i].pp, plan->global_batch = 8;
    plan->zero = told[i].framework == LAUNCH_TORCHTITAN ? 3 : told[i].framework == LAUNCH_DEEPSPEED ? 1 : 0;
    plan->recompute = told[i].recompute, plan->recompute_layers = 2;
    g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(told[i].framework, workload, 8, &error);
    ck_assert_msg(launch != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_msg(strstr(launch->text, told[i].words) != NULL, "%s", launch->text);
  }
}

/* Kept activations go to the host, cut over tp where there is one. */
TEST(deepspeed_cuts_what_it_keeps_over_tp) {
  for (int tp = 1; tp <= 2; tp++) {
    g_autoptr(Plan) plan = plan_new();
    plan->tp = tp, plan->dp = 2, plan->zero = 2;
    plan->recompute = RECOMPUTE_FULL;
    plan->offload = (Offload){.activations = TIER_HOST};
    g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(LAUNCH_DEEPSPEED, workload, 8, &error);
    ck_assert_msg(launch != NULL, "%s", error != NULL ? error->message : "");
    g_autofree char *cut = g_strdup_printf("\"partition_activations\" : %s", tp > 1 ? "true" : "false");
    ck_assert_msg(strstr(launch->text, cut) != NULL, "tp %d: %s", tp, launch->text);
    ck_assert_ptr_nonnull(strstr(launch->text, "\"cpu_checkpointing\" : true"));
  }
}

TEST(what_a_framework_cannot_run_is_refused_with_the_reason) {
  static const struct {
    LaunchFramework framework;
    void (*spoil)(Plan *plan);
    const char *reason;
  } cases[] = {
      {LAUNCH_MEGATRON, spoil_nothing, NULL},
      {LAUNCH_MEGATRON, spoil_schedule, "zb-h1"},
      {LAUNCH_MEGATRON, spoil_modules, NULL},
      {LAUNCH_MEGATRON, spoil_sends, "waits for its sends under 1f1b, found overlap-p2p on"},
      {LAUNCH_MEGATRON, spoil_heads, "repeats no key-value heads for a2a, found cp 16 with 8 of them"},
      {LAUNCH_MEGATRON, spoil_no_heads, NULL},
      {LAUNCH_DEEPSPEED, spoil_one_gpus_modules, "recompute-modules layernorm"},
      {LAUNCH_TORCHTITAN, spoil_modules, "recompute-modules layernorm"},
      {LAUNCH_DEEPSPEED, spoil_nothing, "sequence-parallel"},
      {LAUNCH_DEEPSPEED, spoil_schedule, "zb-h1"},
      {LAUNCH_DEEPSPEED, spoil_zero_2, "zero 2 with pp 2"},
      {LAUNCH_TORCHTITAN, spoil_zero_2, NULL},
      {LAUNCH_TORCHTITAN, spoil_zero_1, "zero 1"},
      {LAUNCH_TORCHTITAN, spoil_schedule, "zb-h1"},
      {LAUNCH_TORCHTITAN, spoil_sequence, "sequence-parallel off"},
      {LAUNCH_MEGATRON, spoil_group, NULL},
      {LAUNCH_MEGATRON, spoil_block, NULL},
      {LAUNCH_MEGATRON, spoil_every, "found recompute every"},
      {LAUNCH_TORCHTITAN, spoil_every, NULL},
      {LAUNCH_TORCHTITAN, spoil_group, "found recompute full with recompute-num-layers 2"},
      {LAUNCH_TORCHTITAN, spoil_block, "found recompute block"},
      {LAUNCH_MEGATRON, spoil_training, "trains all weights, found train lora:16"},
      {LAUNCH_TORCHTITAN, spoil_training, "trains all weights"},
      {LAUNCH_MEGATRON, spoil_sums, "found compress-grad onebit"},
      {LAUNCH_TORCHTITAN, spoil_sums, "found compress-grad onebit"},
      {LAUNCH_DEEPSPEED, spoil_sums, NULL},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_with("tp=2 pp=2 dp=2 global-batch=16 sequence-parallel=on");
    cases[i].spoil(plan);
    g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(cases[i].framework, workload, 8, &error);
    ck_assert_int_eq(launch != NULL, cases[i].reason == NULL);
    if (launch == NULL)
      ck_assert_msg(strstr(error->message, cases[i].reason) != NULL, "%s", error->message);
  }
}

/* Gemma's gated GELU has no option; its --swiglu would train another model. */
TEST(megatron_is_told_of_the_activation_or_refuses) {
  static const struct {
    const char *model, *told, *not_told; /* told: of the reason where it is refused */
  } cases[] = {{"llama-3-8b", "    --swiglu\n", "geglu"},
               {"gpt3-175b", "--normalization LayerNorm\n", "lu\n"},
               {"nemotron-8b", "    --squared-relu\n", "--swiglu"},
               {"gpt-oss-20b", "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0", "--swiglu"},
               {"gemma-7b", "gemma-7b has GELU with a gate in its MLPs", "--swiglu"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) model = model_read(cases[i].model, NULL);
    g_autoptr(Plan) plan = plan_with("tp=8 sequence-parallel=on global-batch=1 seq-len=2048");
    g_autoptr(Workload) workload = planned(model, clusters[1], plan);
    g_autoptr(GError) error = NULL;
    g_autoptr(Launch) launch = launch_new(LAUNCH_MEGATRON, workload, 8, &error);
    const char *text = launch != NULL ? launch->text : error->message;
    ck_assert_msg(strstr(text, cases[i].told) != NULL, "%s", text);
    ck_assert_msg(strstr(text, cases[i].not_told) == NULL, "%s", text);
  }
}

/* Models of 4 heads of 16 by a config's text. */
static char *megatron_text_of(const char *config, int n_layers) { /* or why not */
  g_autofree char *folder = g_dir_make_tmp("stepsim-launch-XXXXXX", NULL), *file = g_build_filename(folder, "m", NULL);
  g_autofree char *text = g_strdup_printf("{\"hidden_size\": 64, \"num_attention_heads\": 4, \"vocab_size\": 128, "
                                          "\"num_key_value_heads\": 2, \"intermediate_size\": 128, "
                                          "\"num_hidden_layers\": %d, %s}",
                                          n_layers, config);
  ck_assert(g_file_set_contents(file, text, -1, NULL));
  g_autoptr(GError) error = NULL;
  g_autoptr(Model) model = model_read(file, &error);
  ck_assert_msg(model != NULL, "%s", error != NULL ? error->message : "");
  ck_assert(g_remove(file) == 0 && g_rmdir(folder) == 0);
  g_autoptr(Plan) plan = plan_with("dp=1 global-batch=1 seq-len=4096");
  g_autoptr(Workload) workload = planned(model, clusters[1], plan);
  g_autoptr(Launch) launch = launch_new(LAUNCH_MEGATRON, workload, 8, &error);
  return g_strdup(launch != NULL ? launch->text : error->message);
}

/* Its number N gives every N-th layer all keys, or no rotation; other orders of layers are lists. */
TEST(megatron_is_told_of_single_layers_and_of_rates) {
#define FULL "\"full_attention\", "
#define SLIDING "\"sliding_attention\", "
  static const struct {
    int n_layers;
    const char *config, *told;
  } cases[] = {
      {6,
       "\"model_type\": \"mistral\", \"sliding_window\": 1024, \"layer_types\": [" FULL FULL SLIDING FULL FULL
       "\"sliding_attention\"]",
       "--window-attn-skip-freq '[0,0,1,0,0,1]'"},
      {6,
       "\"model_type\": \"mistral\", \"sliding_window\": 1024, \"layer_types\": [" FULL SLIDING SLIDING FULL SLIDING
       "\"sliding_attention\"]",
       "--window-attn-skip-freq '[0,1,1,0,1,1]'"},
      {5, "\"model_type\": \"smollm3\"", "--no-rope-freq '[0,0,0,1,0]'"},
      {2, "\"model_type\": \"smollm3\", \"no_rope_layers\": [0, 1]", "--no-rope-freq '[1,0]'"},
      {2, "\"model_type\": \"glm\", \"head_dim\": 16", "--rotary-percent 0.5"},
      {2, "\"model_type\": \"llama\", \"partial_rotary_factor\": 0.25", "--rotary-percent 0.25"},
      {2, "\"model_type\": \"llama\", \"rope_theta\": 500000.0", "--rotary-base 500000\n"},
      {2, "\"model_type\": \"qwen3\", \"head_dim\": 16, \"rope_parameters\": {\"rope_theta\": 1e6}",
       "--rotary-base 1000000\n"},
      {2, "\"model_type\": \"mixtral\"", "--rotary-base 1000000\n"},
      {2, "\"model_type\": \"llama\", \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0}",
       "--use-rope-scaling --rope-scaling-factor 32\n"},
      {2, "\"model_type\": \"llama\", \"rope_scaling\": {\"type\": \"yarn\", \"factor\": 4.0}",
       "stretches its rotation for longer sequences"},
      {2, "\"model_type\": \"glm\", \"head_dim\": 16", "--rotary-interleaved --no-rope-fusion\n"},
      {4, "\"model_type\": \"gpt_oss\", \"head_dim\": 16", "--softmax-type learnable\n"},
      {4, "\"model_type\": \"gpt_oss\", \"head_dim\": 16", "--rotary-base 150000\n"},
      {2, "\"model_type\": \"llama\"", "--hidden-dropout 0 --attention-dropout 0\n"},
      {2, "\"model_type\": \"granite\", \"attention_dropout\": 0.1", "--hidden-dropout 0 --attention-dropout 0.1\n"},
      {2, "\"model_type\": \"granite\", \"residual_dropout\": 0.2, \"embedding_dropout\": 0",
       "drops 0 of the embedding, Megatron-LM as much as of hidden states, 0.2"},
      {2, "\"model_type\": \"granite\", \"logits_scaling\": 16",
       "multiplies its embedding, scores, branches or logits"},
      {2, "\"model_type\": \"olmo2\"", "norms behind its branches in place of before them"},
      {4, "\"model_type\": \"olmo3\"", "norms behind its branches in place of before them"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = megatron_text_of(cases[i].config, cases[i].n_layers);
    ck_assert_msg(strstr(text, cases[i].told) != NULL, "%s", text);
  }
  g_autofree char *plain = megatron_text_of("\"model_type\": \"granite\", \"attention_multiplier\": 0.25", 2);
  static const char *const unsaid[] = {
      "--rotary-percent", "--rotary-base",  "--rotary-interleaved",    "--use-rope-scaling", "stretches",
      "--softmax-type",   "--no-rope-freq", "--window-attn-skip-freq", "multiplies"};
  for (gsize i = 0; i < G_N_ELEMENTS(unsaid); i++)
    ck_assert_msg(strstr(plain, unsaid[i]) == NULL, "%s", plain);
}

/* No comment can stand in JSON: the notice stands beside it. */
TEST(what_is_done_otherwise_is_noticed) {
  g_autoptr(Plan) plan = plan_with("dp=4 global-batch=16 zero=1 recompute=selective");
  g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
  g_autoptr(Launch) deepspeed = launch_of(LAUNCH_DEEPSPEED, workload);
  /* parameters gathered at the end; attention recomputed by the model; no framework */
  ck_assert_uint_eq(deepspeed->notices->len, 3);
  plan->cuda_graphs = CUDA_GRAPHS_FULL;
  g_autoptr(Workload) replayed = planned(&llama, clusters[0], plan);
  g_autoptr(Launch) graphs = launch_of(LAUNCH_DEEPSPEED, replayed);
  ck_assert_uint_eq(graphs->notices->len, 4);
  plan->zero = 2; /* as torchtitan has it */
  g_autoptr(Workload) sharded = planned(&llama, clusters[0], plan);
  g_autoptr(Launch) torchtitan = launch_of(LAUNCH_TORCHTITAN, sharded);
  ck_assert_ptr_nonnull(strstr(torchtitan->text, "# notice: predicted with --cuda-graphs full: torchtitan's"));
  plan->cuda_graphs = CUDA_GRAPHS_NONE;
  plan->zero = 1;
  g_free(plan->schedule);
  plan->schedule = NULL;
  plan->pp = 4;
  g_autoptr(Workload) pipeline = planned(&llama, clusters[0], plan);
  g_autoptr(Launch) megatron = launch_of(LAUNCH_MEGATRON, pipeline);
  ck_assert_uint_eq(megatron->notices->len, 2); /* and no epsilon of its norms */
  ck_assert_ptr_nonnull(strstr(megatron->text, "# notice: predicted without --framework megatron-core"));
}

/* What is predicted is what the framework's own files, or one built on them, say; of another product's it is told. */
TEST(a_prediction_of_another_framework_is_noticed) {
  static const struct {
    LaunchFramework started;
    const char *predicted, *advised; /* NULL: it is this one's */
  } cases[] = {{LAUNCH_MEGATRON, "megatron-core", NULL},
               {LAUNCH_MEGATRON, "nemo-tp-apart", "--framework megatron-core has"},
               {LAUNCH_MEGATRON, "nemo", "runs Megatron Core with overheads of its own"},
               {LAUNCH_MEGATRON, "megatron-lm-2023", NULL},
               {LAUNCH_MEGATRON, "torchtitan", "--framework megatron-core has"},
               {LAUNCH_MEGATRON, "megatron-deepspeed", "--framework megatron-core has"},
               {LAUNCH_MEGATRON, "gpt-neox", "--framework megatron-core has"},
               {LAUNCH_MEGATRON, "megatron-llama", NULL},
               {LAUNCH_DEEPSPEED, "deepspeed-transformers", NULL},
               {LAUNCH_DEEPSPEED, "megatron-deepspeed", NULL},
               {LAUNCH_DEEPSPEED, "gpt-neox", NULL},
               {LAUNCH_DEEPSPEED, "nemo", "--framework deepspeed has"},
               {LAUNCH_TORCHTITAN, "torchtitan-compile-async-tp", NULL},
               {LAUNCH_TORCHTITAN, "megatron-core", "--framework torchtitan has"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_new();
    Framework framework;
    ck_assert(framework_read(cases[i].predicted, &framework, NULL));
    plan_set_framework(plan, cases[i].predicted, &framework);
    plan->dp = 4;
    plan->global_batch = 16;
    plan->zero = cases[i].started == LAUNCH_TORCHTITAN ? 2 : 1;
    g_autoptr(Workload) workload = planned(&llama, clusters[0], plan);
    g_autoptr(Launch) launch = launch_of(cases[i].started, workload);
    const char *first = launch->notices->len > 0 ? g_ptr_array_index(launch->notices, 0) : "";
    ck_assert_msg(g_str_has_prefix(first, "predicted with --framework") == (cases[i].advised != NULL), "%s", first);
    ck_assert(cases[i].advised == NULL || strstr(first, cases[i].advised) != NULL);
  }
}

static char *mixtral_text(LaunchFramework framework, Plan plan) { /* on 16 GPUs; or why not */
  g_autoptr(Model) model = read_model("mixtral-8x7b");
  g_autoptr(Plan) made = plan_with("gpus=16 global-batch=64 seq-len=4096 sequence-parallel=on");
  made->tp = plan.tp, made->zero = plan.zero, made->recompute = plan.recompute, made->cuda_graphs = plan.cuda_graphs;
  made->recompute_modules = plan.recompute_modules;
  made->overlap_experts = plan.overlap_experts;
  made->expert_dispatch = plan.expert_dispatch;
  made->ep = plan.ep, made->expert_tp = plan.tp > 1 ? 1 : 0;
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  g_autoptr(Workload) workload = planned(model, cluster, made);
  g_autoptr(GError) error = NULL;
  g_autoptr(Launch) launch = launch_new(framework, workload, 8, &error);
  return g_strdup(launch != NULL ? launch->text : error->message);
}

/* Where validate_args() and TransformerConfig of Megatron-LM (2026-08-22) would end the run. */
TEST(megatron_gets_what_its_checks_insist_on) {
  static const struct {
    Plan plan;
    const char *told, *not_told;
  } cases[] = {
      {{.tp = 2, .ep = 1}, "export CUDA_DEVICE_MAX_CONNECTIONS=1 ", "fsdp"},
      {{.tp = 1, .ep = 8}, "MEGATRON_ARGS", "CUDA_DEVICE_MAX_CONNECTIONS"},
      {{.tp = 2, .ep = 1, .zero = 3}, "\nunset CUDA_DEVICE_MAX_CONNECTIONS", "export"},
      {{.tp = 1, .ep = 1, .zero = 2}, "--ckpt-format fsdp_dtensor --no-gradient-accumulation-fusion\n", "export"},
      {{.tp = 1, .ep = 8, .overlap_experts = TRUE}, "export CUDA_DEVICE_MAX_CONNECTIONS=32 ", "unset"},
      {{.tp = 1, .ep = 8, .overlap_experts = TRUE, .recompute = RECOMPUTE_FULL}, "found recompute full", "ARGS"},
      {{.tp = 1,
        .ep = 8,
        .overlap_experts = TRUE,
        .recompute = RECOMPUTE_SELECTIVE,
        .recompute_modules = MODULE_BIT(MODULE_MOE)},
       "found recompute-modules with moe",
       "ARGS"},
      {{.tp = 1, .ep = 8, .recompute = RECOMPUTE_FULL}, "--recompute-granularity full", "export"},
      {{.tp = 1, .ep = 1, .cuda_graphs = CUDA_GRAPHS_FULL}, " --no-check-for-nan-in-loss-and-grad ", "export"},
      {{.tp = 16, .ep = 1, .cuda_graphs = CUDA_GRAPHS_FULL}, "--cuda-graph-impl full_iteration", "overlap-grad"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = mixtral_text(LAUNCH_MEGATRON, cases[i].plan);
    ck_assert_msg(strstr(text, cases[i].told) != NULL, "case %zu: %s", i, text);
    ck_assert_msg(strstr(text, cases[i].not_told) == NULL, "case %zu: %s", i, text);
  }
}

TEST(exchanges_that_torchtitan_has_no_key_for_are_noticed) {
  g_autofree char *gathered =
      mixtral_text(LAUNCH_TORCHTITAN, (Plan){.tp = 1, .ep = 8, .zero = 2, .expert_dispatch = DISPATCH_ALL_GATHER});
  ck_assert_ptr_nonnull(strstr(gathered, "expert_parallel_degree = 8\nexpert_tensor_parallel_degree = 1\n"));
  ck_assert_ptr_nonnull(strstr(gathered, "predicted with --expert-dispatch all_gather: torchtitan's keys here have"));
  g_autofree char *sent = mixtral_text(LAUNCH_TORCHTITAN, (Plan){.tp = 1, .ep = 8, .zero = 2});
  ck_assert_ptr_null(strstr(sent, "--expert-dispatch"));
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
