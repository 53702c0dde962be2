/* Megatron-LM's arguments, as a Bash array. Its schedules are 1F1B and interleaved 1F1B, its distributed optimizer is
 * ZeRO-1, its own FSDP ZeRO-2 and 3.
 *
 * Stages need not have equal numbers of layers here. Megatron-LM cuts evenly, or evenly with embedding, loss or both
 * counted as a layer, or evenly but for the first and the last rank of a pipeline without chunks, or as a layout says
 * stage by stage, "Et|tt|tL": the first of these that is the plan's cut is written. */
#include "launch_case.h"

#include "error.h"
#include "local_sizes.h"
#include "plan.h"
#include "units.h"

/* What Megatron-LM cannot start, and what of a plan decides it. */

static gboolean check_schedule(const LaunchCase *c, GError **error) {
  if (c->plan->pp == 1)
    return TRUE;
  if (!schedule_facts(c->schedule)->in_megatron)
    return fail_impossible(error, "megatron: Megatron-LM runs the schedules 1f1b and interleaved, found %s",
                           c->schedule);
  return c->plan->chunks > 1 || !c->plan->overlap_p2p ||
         fail_impossible(error, "megatron: Megatron-LM waits for its sends under 1f1b, found overlap-p2p on");
}

/* What names an MLP's activation there, "" for its default; NULL: nothing does (arguments.py, 2026-08). --quick-geglu
 * is x·σ(1.702·x), which is how GPT-OSS approximates GELU (examples/gptoss). */
static const char *activation(const Model *model) {
  static const char *const plain[N_ACTIVATIONS] = {
      [ACTIVATION_GELU] = "", [ACTIVATION_SQUARED_RELU] = "--squared-relu"};
  static const char *const gated[N_ACTIVATIONS] = {
      [ACTIVATION_SILU] = "--swiglu",
      [ACTIVATION_BOUNDED_GELU] = "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0"};
  return (model->gated ? gated : plain)[model_activation(model)];
}

static gboolean check_activation(const LaunchCase *c, GError **error) {
  return activation(c->model) != NULL ||
         fail_impossible(error,
                         "megatron: model %s has %s%s in its MLPs, Megatron-LM's options have GELU and squared ReLU, "
                         "and SiLU with a gate",
                         c->model->name, model_activation_name(model_activation(c->model)),
                         c->model->gated ? " with a gate" : "");
}

static gboolean check_model(const LaunchCase *c, GError **error) {
  if (c->model->parallel_block)
    return fail_impossible(error,
                           "megatron: model %s computes attention and MLP side by side, Megatron-LM's GPT does not",
                           c->model->name);
  if (c->model->norms_behind)
    return fail_impossible(error,
                           "megatron: model %s has norms behind its branches in place of before them, Megatron-LM's "
                           "GPT has them before",
                           c->model->name);
  if (c->model->post_norms)
    return fail_impossible(error, "megatron: model %s has norms behind its branches, Megatron-LM's GPT has none",
                           c->model->name);
  if (c->model->positions == POSITIONS_ALIBI)
    return fail_impossible(error, "megatron: model %s has ALiBi positions, Megatron-LM has none", c->model->name);
  return check_activation(c, error);
}

/* Orders that Megatron-LM lays ranks out in. */
static gboolean order_is(const Plan *plan, const Axis *order) {
  for (int i = 0, j = 0; i < N_AXES; i++) {
    gint64 size[N_AXES] = {plan->tp, plan->cp, 1, plan->dp, plan->pp}; /* ep has no ranks of its own */
    if (size[plan->order[i]] == 1)
      continue; /* stands anywhere */
    while (j < N_AXES && order[j] != plan->order[i])
      j++;
    if (j == N_AXES)
      return FALSE;
  }
  return TRUE;
}

static const Axis default_order[N_AXES] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_DP, AXIS_PP};
static const Axis pp_before_dp[N_AXES] = {AXIS_TP, AXIS_CP, AXIS_EP, AXIS_PP, AXIS_DP};

/* Its ranks of experts are numbered tp-ep-pp-dp then, which has other pipelines but where ep takes no more than cp. */
static gboolean check_expert_order(const LaunchCase *c, GError **error) {
  if (order_is(c->plan, default_order) || c->plan->ep == 1)
    return TRUE;
  return fail_impossible(error, "megatron: with ep %d Megatron-LM orders ranks tp-cp-ep-dp-pp, found another --order",
                         c->plan->ep);
}

static gboolean check_order(const LaunchCase *c, GError **error) {
  if (order_is(c->plan, default_order) || order_is(c->plan, pp_before_dp))
    return check_expert_order(c, error);
  return fail_impossible(error,
                         "megatron: Megatron-LM orders ranks tp-cp-ep-dp-pp or tp-cp-ep-pp-dp, found another --order");
}

static gboolean check_offload(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  const Offload *offload = &plan->offload;
  if (offload_uses(offload, TIER_NVME) || offload->weights != TIER_GPU || offload->activations != TIER_GPU)
    return fail_impossible(error,
                           "megatron: of a plan's offloading Megatron-LM takes --offload-optimizer host alone, found "
                           "optimizer %s, weights %s, activations %s",
                           offload_names()[offload->optimizer], offload_names()[offload->weights],
                           offload_names()[offload->activations]);
  return offload->optimizer == TIER_GPU || plan->zero == 1 ||
         fail_impossible(error, "megatron: Megatron-LM offloads its distributed optimizer, zero 1, found zero %d",
                         plan->zero);
}

static gboolean overlaps_experts(const Plan *plan) {
  return plan_takes_turns(plan) && (plan->chunks > 1 || plan->pp == 1);
}

/* What is run again in backward is in no graph but that of a whole step (transformer_config.py of core 0.17, 2026). */
static gboolean check_graphs(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (plan->cuda_graphs == CUDA_GRAPHS_NONE || plan->cuda_graphs == CUDA_GRAPHS_FULL)
    return TRUE;
  if (recompute_is_of_layers(plan->recompute))
    return fail_impossible(error,
                           "megatron: Megatron-LM recomputes whole layers under --cuda-graphs full or none, found %s",
                           cuda_graphs_names()[plan->cuda_graphs]);
  return (plan_recompute_modules(plan) & MODULE_BIT(MODULE_MOE)) == 0 ||
         fail_impossible(error,
                         "megatron: Megatron-LM recomputes layers of experts under --cuda-graphs full or none, "
                         "found %s and recompute-modules with moe",
                         cuda_graphs_names()[plan->cuda_graphs]);
}

/* Of core/transformer/transformer_config.py (2026-08): what --overlap-moe-expert-parallel-comm does not go with. */
static gboolean check_overlapped_experts(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (!overlaps_experts(plan))
    return TRUE;
  if (recompute_is_of_layers(plan->recompute))
    return fail_impossible(error,
                           "megatron: with --overlap-experts on Megatron-LM recomputes no whole layers, found "
                           "recompute %s",
                           recompute_names()[plan->recompute]);
  if (plan->recompute == RECOMPUTE_SELECTIVE && (plan_recompute_modules(plan) & MODULE_BIT(MODULE_MOE)) != 0)
    return fail_impossible(error, "megatron: with --overlap-experts on Megatron-LM recomputes no whole layers of "
                                  "experts, found recompute-modules with moe");
  return plan->precision != PRECISION_FP32 ||
         fail_impossible(error, "megatron: Megatron-LM overlaps experts in bf16 and fp16, found precision fp32");
}

/* Transformer Engine (context_parallel.py, 2026-08) sends K and V as they are. */
static gboolean check_context(const LaunchCase *c, GError **error) {
  g_autoptr(Method) method = method_new(c->plan);
  return local_sizes_of(c->model, method).kv_copies == 1 ||
         fail_impossible(error,
                         "megatron: Transformer Engine repeats no key-value heads for a2a, found cp %d with %" INT64
                         " of them",
                         c->plan->cp, MAX(1, c->model->n_kv_heads / c->plan->tp));
}

/* validate_args() until core 0.15: "GroupedGEMM for MoE only supports bf16 dtype". */
static gboolean check_grouped(const LaunchCase *c, GError **error) {
  const Precision precision = c->plan->precision;
  return !model_has_experts(c->model) || !launch_is_before(c, "0.16") ||
         (precision != PRECISION_FP16 && precision != PRECISION_FP32) ||
         fail_impossible(error,
                         "megatron: Megatron Core %s multiplies experts together in bf16 alone, found precision %s: "
                         "release 0.16 has others",
                         c->release, precision_info(precision)->name);
}

/* TransformerConfig until core 0.15; later, tp may also be a multiple of them. */
static gboolean check_key_heads(const LaunchCase *c, GError **error) {
  return !launch_is_before(c, "0.16") || c->model->latent.kv_rank > 0 || c->model->n_kv_heads % c->plan->tp == 0 ||
         fail_impossible(error,
                         "megatron: Megatron Core %s cuts no key-value heads: tp %d does not divide the %" INT64
                         " of model %s, which release 0.16 takes",
                         c->release, c->plan->tp, c->model->n_kv_heads, c->model->name);
}

static gboolean has_default_order(const Plan *plan) {
  return order_is(plan, default_order);
}

/* Of heads that predict a token further it recomputes one layer at a time, or none with block
 * (multi_token_prediction.py of core 0.14, 2025). */
static gboolean check_recompute(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (plan->recompute == RECOMPUTE_EVERY)
    return fail_impossible(error, "megatron: Megatron-LM recomputes all layers (full) or a stage's first ones (block), "
                                  "found recompute every");
  return plan->recompute != RECOMPUTE_FULL || plan->recompute_layers <= 1 || plan->mtp_layers == 0 ||
         fail_impossible(error,
                         "megatron: with mtp-layers Megatron-LM recomputes layers one at a time, found "
                         "recompute-num-layers %d",
                         plan->recompute_layers);
}

gboolean launch_megatron_check(const LaunchCase *c, GError **error) {
  return launch_check_training(c, "megatron", "Megatron-LM", error) &&
         launch_check_compression(c, "megatron", "Megatron-LM", error) && check_recompute(c, error) &&
         check_offload(c, error) && check_schedule(c, error) && check_model(c, error) && check_order(c, error) &&
         check_context(c, error) && check_overlapped_experts(c, error) && check_graphs(c, error) &&
         check_grouped(c, error) && check_key_heads(c, error);
}

/* Its FSDP starts in a pipeline; no test, example or page of Megatron-LM's has that (2026-08-22). */
gboolean launch_megatron_check_tried(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (!zero_shards_gradients(plan->zero) || plan->pp == 1 || plan_data_ranks(plan) == 1)
    return TRUE;
  return fail_impossible(error,
                         "megatron: no test of Megatron-LM's runs its FSDP in a pipeline, found zero %d with pp "
                         "%d; where --zero is given it is tried nevertheless",
                         plan->zero, plan->pp);
}

/* --- what it is told --- */

/* Newest first, as the message names the first that is missing. Megatron-LM's parser at the tags core_v0.9.0 to
 * core_v0.19.0; what is older than 0.9 is not told apart. Where an older release has another option for the same, that
 * is written (add_graphs(), add_dispatch()). tests/data/launch/megatron.txt has all options of these releases. */
const LaunchOption launch_megatron_options[] = {
    {"--cuda-graph-impl", "0.16"},
    {"--activation-func-clamp-value", "0.15"},
    {"--fp4-format", "0.15"},
    {"--glu-linear-offset", "0.15"},
    {"--quick-geglu", "0.15"},
    {"--softmax-type", "0.15"},
    {"--window-attn-skip-freq", "0.15"},
    {"--window-size", "0.15"},
    {"--overlap-moe-expert-parallel-comm", "0.14"},
    {"--use-megatron-fsdp", "0.14"},
    {"--no-rope-freq", "0.13"},
    {"--pipeline-model-parallel-layout", "0.13"},
    {"--qk-l2-norm", "0.13"},
    {"--cross-entropy-fusion-impl", "0.12"},
    {"--data-parallel-sharding-strategy", "0.12"},
    {"--fp8-recipe", "0.12"},
    {"--grad-reduce-in-bf16", "0.12"},
    {"--moe-token-dispatcher-type flex", "0.12"},
    {"--mtp-num-layers", "0.12"},
    {"--optimizer-cpu-offload", "0.12"},
    {"--recompute-modules", "0.12"},
    {"--account-for-embedding-in-pipeline-split", "0.11"},
    {"--account-for-loss-in-pipeline-split", "0.11"},
    {"--attention-backend", "0.11"},
    {"--moe-router-enable-expert-bias", "0.11"},
    {"--moe-router-group-topk", "0.11"},
    {"--moe-router-topk-scaling-factor", "0.11"},
    {"--num-virtual-stages-per-pipeline-rank", "0.11"},
    {"--rope-scaling-factor", "0.11"},
    {"--use-precision-aware-optimizer", "0.11"},
    {"--cp-comm-type", "0.10"},
    {"--expert-tensor-parallel-size", "0.10"},
    {"--microbatch-group-size-per-virtual-pipeline-stage", "0.10"},
    {"--moe-layer-freq", "0.10"},
    {"--moe-ffn-hidden-size", "0.10"},
    {"--moe-shared-expert-intermediate-size", "0.10"},
    {"--multi-latent-attention", "0.10"},
    {"--num-distributed-optimizer-instances", "0.10"},
    {"--use-rope-scaling", "0.10"},
    {NULL, NULL},
};

static void add(GString *out, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void add(GString *out, const char *format, ...) {
  g_string_append(out, "    ");
  va_list arguments;
  va_start(arguments, format);
  g_string_append_vprintf(out, format, arguments);
  va_end(arguments);
  g_string_append_c(out, '\n');
}

static void add_flag(GString *out, gboolean is_set, const char *flag) {
  if (is_set)
    add(out, "%s", flag);
}

static void add_latent(const Model *model, GString *out) {
  const ModelLatent *latent = &model->latent;
  add(out, "--num-attention-heads %" INT64 " --multi-latent-attention --qk-layernorm", model->n_heads);
  if (latent->q_rank > 0)
    add(out, "--q-lora-rank %" INT64, latent->q_rank);
  add(out, "--kv-lora-rank %" INT64 " --qk-head-dim %" INT64 " --qk-pos-emb-head-dim %" INT64 " --v-head-dim %" INT64,
      latent->kv_rank, model->head_dim - latent->rope_dim, latent->rope_dim, latent->v_head_dim);
}

/* Which layers have experts: "([0]*3+[1]*58)" of leading dense ones, a number where every so-manieth has. */
static void add_expert_layers(const LaunchCase *c, GString *out) {
  const ModelExperts *experts = &c->model->experts;
  const gint64 n_leading = MIN(experts->n_leading, c->model->n_layers);
  if (model_dense_layers(c->model, 0, c->model->n_layers) == 0)
    return;
  if (experts->every == 1) {
    add(out, "--moe-layer-freq '([0]*%" INT64 "+[1]*%" INT64 ")'", n_leading, c->model->n_layers - n_leading);
    return;
  }
  g_autoptr(GString) layers = g_string_new("[");
  for (gint64 i = 0; i < c->model->n_layers; i++)
    g_string_append_printf(layers, "%s%d", i > 0 ? "," : "", model_dense_layers(c->model, i, 1) == 0);
  add(out, "--moe-layer-freq '%s]'", layers->str);
}

static void add_dispatch(const LaunchCase *c, GString *out) {
  const char *const deepep =
      launch_is_before(c, "0.16") ? "flex --moe-enable-deepep" : "flex --moe-flex-dispatcher-backend deepep";
  add(out, "--moe-grouped-gemm%s --moe-token-dispatcher-type %s",
      launch_is_before(c, "0.11") ? "" : " --moe-permute-fusion",
      plan_dispatches_once(c->plan)  ? deepep
      : plan_gathers_tokens(c->plan) ? "allgather"
                                     : "alltoall");
}

static void add_experts(const LaunchCase *c, GString *out) {
  const ModelExperts *experts = &c->model->experts;
  add(out, "--num-experts %" INT64 " --moe-router-topk %" INT64 " --moe-ffn-hidden-size %" INT64, experts->n,
      experts->per_token, experts->ffn_hidden);
  if (experts->shared_ffn_hidden > 0)
    add(out, "--moe-shared-expert-intermediate-size %" INT64, experts->shared_ffn_hidden);
  if (experts->shared_gate)
    launch_notice(c, "model %s weights its shared expert by a gate, which is to be set where your version has one",
                  c->model->name);
  if (experts->groups_per_token > 0)
    add(out, "--moe-router-num-groups %" INT64 " --moe-router-group-topk %" INT64, experts->n_groups,
        experts->groups_per_token);
  if (experts->biased_scores)
    add(out, "--moe-router-score-function sigmoid --moe-router-enable-expert-bias");
  if (experts->softmax_scores)
    launch_notice(c, "model %s chooses experts by a softmax and biases, Megatron-LM has biases with a sigmoid alone",
                  c->model->name);
  if (c->model->factors.experts > 0) /* of a softmax only where that is over all experts, as DeepSeek-V2's is */
    add(out, "%s--moe-router-topk-scaling-factor %g", experts->biased_scores ? "" : "--moe-router-pre-softmax ",
        c->model->factors.experts);
  add_expert_layers(c, out);
  add_dispatch(c, out);
  add(out, "--expert-model-parallel-size %d --expert-tensor-parallel-size %d", c->plan->ep, plan_expert_tp(c->plan));
  add_flag(out, overlaps_experts(c->plan), "--overlap-moe-expert-parallel-comm");
  if (c->plan->mtp_layers > 0)
    add(out, "--mtp-num-layers %d", c->plan->mtp_layers);
  else if (c->model->n_next_layers > 0)
    launch_notice(c, "predicted without the head of model %s that predicts a token further (--mtp-num-layers)",
                  c->model->name);
}

/* A whole step is a way of its own to capture since core 0.18, when modules got their name. */
static void add_graphs(const LaunchCase *c, GString *out) {
  const gboolean is_old = launch_is_before(c, "0.18");
  const char *const modules = is_old ? "scope" : "modules";
  /* insisted on with experts over several ranks, though it is of inference (validate_args() of core 0.16 and 0.17) */
  const char *const padded = c->plan->ep > 1 ? " --moe-pad-experts-for-cuda-graph-inference" : "";
  const char *const whole = is_old ? "local --cuda-graph-scope full_iteration" : "full_iteration";
  if (c->plan->cuda_graphs == CUDA_GRAPHS_FULL)
    add(out, "--cuda-graph-impl %s%s --no-check-for-nan-in-loss-and-grad --te-rng-tracker", whole,
        is_old ? padded : "");
  else if (c->plan->cuda_graphs > CUDA_GRAPHS_NONE)
    add(out, "--cuda-graph-impl transformer_engine --cuda-graph-%s%s moe_router moe_preprocess --te-rng-tracker",
        modules, c->plan->cuda_graphs == CUDA_GRAPHS_ATTENTION ? " attn" : "");
}

/* "[1,1,0]": of each layer what `marks` says of it. */
static void add_layers(GString *out, const char *flag, const char *marks, gint64 n_layers) {
  g_autoptr(GString) list = g_string_new("[");
  for (gint64 i = 0; i < n_layers; i++)
    g_string_append_printf(list, "%s%c", i > 0 ? "," : "", marks[i]);
  add(out, "%s '%s]'", flag, list->str);
}

/* Its fused kernel turns pairs from Transformer Engine 2.3 on: without the fusion every version does. What YaRN's
 * options are follows the version. */
static void add_rotation(const LaunchCase *c, GString *out) {
  const Model *model = c->model;
  if (model->positions != POSITIONS_ROTARY)
    return;
  if (model->unrotated_layers != NULL)
    add_layers(out, "--no-rope-freq", model->unrotated_layers, model->n_layers);
  if (model->rotary_share > 0)
    add(out, "--rotary-percent %g", model->rotary_share);
  if (model->rotary_base > 0)
    add(out, "--rotary-base %.0f", model->rotary_base);
  add_flag(out, model->rotates_pairs, "--rotary-interleaved --no-rope-fusion");
  if (model->llama3_rope_factor > 0)
    add(out, "--use-rope-scaling --rope-scaling-factor %g", model->llama3_rope_factor);
  if (model->scales_rope)
    launch_notice(c, "model %s stretches its rotation for longer sequences, which is to be set as your version has it",
                  model->name);
}

/* What Megatron-LM's options cannot say of the model's linears, norms and dropout. */
static void tell_of_layers(const LaunchCase *c) {
  const Model *model = c->model;
  if ((model->dropout_rate.embedding > 0) != (model->dropout_rate.hidden > 0))
    launch_notice(c, "model %s drops %g of the embedding, Megatron-LM as much as of hidden states, %g", model->name,
                  model->dropout_rate.embedding, model->dropout_rate.hidden);
  if (model->qk_norms == QK_NORMS_WHOLE)
    launch_notice(c, "model %s normalises q and k over all heads, Megatron-LM's --qk-layernorm each head: left out",
                  model->name);
  if (model->is_chunked && model_window(model, c->plan->seq_len) > 0)
    launch_notice(c,
                  "model %s attends within chunks of %" INT64 " tokens, Megatron-LM's options know windows: left out",
                  model->name, model->window);
  if (model->norms_rotated && !model->fixed_qk_norms)
    launch_notice(c, "model %s normalises q and k behind their rotation, Megatron-LM's --qk-layernorm before it",
                  model->name);
  if (model->head_bias)
    launch_notice(c, "model %s has a bias on its logits, Megatron-LM's GPT has none", model->name);
  if (model->lone_bias != LONE_BIAS_NONE)
    launch_notice(
        c, "model %s has biases on %s, Megatron-LM's options on all linears, on Q, K and V, or on none: left out",
        model->name,
        model->lone_bias == LONE_BIAS_MLP ? "its MLPs' products alone"
        : model->qkv_bias                 ? "attention's output beside Q, K and V alone"
                                          : "attention's output alone");
  if (model->linear_bias && !model->qkv_bias)
    launch_notice(c, "model %s has no bias on Q, K and V, Megatron-LM has one there where other linears have",
                  model->name);
  if (model->qk_norms == QK_NORMS_OWN)
    launch_notice(c,
                  "model %s has weights of its own for each head's norm of q and k, Megatron-LM's --qk-layernorm the "
                  "same for all: left out",
                  model->name);
  if (model_has_factors(model))
    launch_notice(c,
                  "model %s multiplies its embedding, scores, branches or logits by numbers of its own, Megatron-LM's "
                  "GPT does not",
                  model->name);
  if (model->bare_norms)
    launch_notice(c, "model %s has LayerNorms without a shift, Megatron-LM's have one", model->name);
  if (model->fixed_norms)
    launch_notice(c, "model %s has LayerNorms without scale and shift, Megatron-LM's have both", model->name);
}

static void add_model(const LaunchCase *c, GString *out) {
  const Model *model = c->model;
  static const char *const positions[] = {
      [POSITIONS_ROTARY] = "rope", [POSITIONS_LEARNED] = "learned_absolute", [POSITIONS_NONE] = "none"};
  add(out, "--num-layers %" INT64 " --hidden-size %" INT64 " --ffn-hidden-size %" INT64, model->n_layers, model->hidden,
      model->ffn_hidden);
  if (model->latent.kv_rank > 0)
    add_latent(model, out);
  else
    add(out, "--num-attention-heads %" INT64 " --kv-channels %" INT64, model->n_heads, model->head_dim);
  const gint64 window = model->is_chunked ? 0 : model_window(model, c->plan->seq_len);
  if (window > 0) /* keys before the query's own, and behind it */
    add(out, "--window-size %" INT64 ",0", window - 1);
  if (window > 0 && model->windowed_layers != NULL)
    add_layers(out, "--window-attn-skip-freq", model->windowed_layers, model->n_layers);
  add_rotation(c, out);
  add_flag(out, model->has_sinks, "--softmax-type learnable");
  add_flag(out, model->qk_norms == QK_NORMS_HEADS, model->fixed_qk_norms ? "--qk-l2-norm" : "--qk-layernorm");
  if (model->n_kv_heads != model->n_heads)
    add(out, "--group-query-attention --num-query-groups %" INT64, model->n_kv_heads);
  add(out, "--vocab-size %" INT64, model->vocab);
  add(out, "--seq-length %" INT64 " --max-position-embeddings %" INT64, c->plan->seq_len,
      MAX(model->max_positions, c->plan->seq_len));
  add(out, "--position-embedding-type %s", positions[model->positions]);
  add(out, "--normalization %s", model->norm == NORM_RMSNORM ? "RMSNorm" : "LayerNorm");
  if (model->norm_epsilon > 0)
    add(out, "--norm-epsilon %g", model->norm_epsilon);
  else
    launch_notice(c, "the file of model %s does not say rms_norm_eps: without --norm-epsilon Megatron-LM takes 1e-5",
                  model->name);
  add_flag(out, activation(model)[0] != '\0', activation(model));
  add_flag(out, !model->tied, "--untie-embeddings-and-output-weights");
  add_flag(out, !model->linear_bias, "--disable-bias-linear");
  add_flag(out, model->qkv_bias && !model->linear_bias, "--add-qkv-bias");
  add(out, "--hidden-dropout %g --attention-dropout %g", model->dropout_rate.hidden, model->dropout_rate.attention);
  tell_of_layers(c);
}

typedef struct {
  gboolean embedding, loss;
} Counted;

/* All stages have as many layers, with what is counted as one more. */
static gboolean is_even(const Workload *workload, Counted counted) {
  const StageWork *stages = workload->stages;
  const int last = workload->n_stages - 1, n = stages[0].layers.n_layers + counted.embedding;
  for (int stage = 1; stage <= last; stage++)
    if (stages[stage].layers.n_layers + (stage == last && counted.loss) != n)
      return FALSE;
  return TRUE;
}

/* All stages but the first and the last have as many layers; they have some of their own. */
static gboolean is_even_within(const Workload *workload) {
  const StageWork *stages = workload->stages;
  const int last = workload->n_stages - 1;
  for (int stage = 2; stage < last; stage++)
    if (stages[stage].layers.n_layers != stages[1].layers.n_layers)
      return FALSE;
  return last >= 2 && stages[0].layers.n_layers > 0 && stages[last].layers.n_layers > 0;
}

/* A head that predicts a token further is a letter of its own. */
static void add_layout(const Workload *workload, GString *out) {
  g_autoptr(GString) layout = g_string_new(NULL);
  for (int stage = 0; stage < workload->n_stages; stage++) {
    const StageLayers *layers = &workload->stages[stage].layers;
    g_string_append(layout, stage > 0 ? "|" : "");
    g_string_append(layout, layers->has_embedding ? "E" : "");
    for (gint64 i = 0; i < layers->n_layers; i++)
      g_string_append_c(layout, 't');
    for (int i = 0; i < workload->plan->mtp_layers && layers->has_head; i++)
      g_string_append_c(layout, 'm');
    g_string_append(layout, layers->has_head ? "L" : "");
  }
  add(out, "--pipeline-model-parallel-layout '%s'", layout->str);
}

/* FALSE: none of Megatron-LM's even cuts is the plan's. */
static gboolean add_even_cut(const Workload *workload, GString *out) {
  static const Counted cuts[] = {{FALSE, FALSE}, {TRUE, TRUE}, {TRUE, FALSE}, {FALSE, TRUE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cuts); i++) {
    if (!is_even(workload, cuts[i]))
      continue;
    add_flag(out, cuts[i].embedding, "--account-for-embedding-in-pipeline-split");
    add_flag(out, cuts[i].loss, "--account-for-loss-in-pipeline-split");
    return TRUE;
  }
  const gboolean is_within = workload->plan->chunks == 1 && is_even_within(workload);
  if (is_within)
    add(out, "--decoder-first-pipeline-num-layers %d --decoder-last-pipeline-num-layers %d",
        workload->stages[0].layers.n_layers, workload->stages[workload->n_stages - 1].layers.n_layers);
  return is_within;
}

static void add_stages(const LaunchCase *c, GString *out) {
  if (c->plan->mtp_layers > 0 || !add_even_cut(c->workload, out))
    add_layout(c->workload, out); /* says the chunks too */
  else if (c->plan->chunks > 1)
    add(out, "--num-virtual-stages-per-pipeline-rank %d", c->plan->chunks);
}

static void add_pipeline(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  if (plan->pp == 1)
    return;
  add_stages(c, out);
  if (plan->chunks == 1)
    return;
  if (plan->group > 0)
    add(out, "--microbatch-group-size-per-virtual-pipeline-stage %d", plan->group);
  if (!plan->overlap_p2p && plan->pp > 2)
    add(out, "--no-overlap-p2p-communication");
  else if (!plan->overlap_p2p)
    launch_notice(c, "predicted with --overlap-p2p off: Megatron-LM needs it on with chunks on pp 2");
}

static void add_parallelism(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  add(out, "--tensor-model-parallel-size %d --pipeline-model-parallel-size %d", plan->tp, plan->pp);
  if (plan->cp > 1)
    add(out, "--context-parallel-size %d --cp-comm-type %s", plan->cp, cp_comm_engine_names()[plan->cp_comm]);
  add_flag(out, plan->tp > 1 && plan->sequence_parallel, "--sequence-parallel");
  add_flag(out, !has_default_order(plan), "--use-tp-pp-dp-mapping");
  add_pipeline(c, out);
  add(out, "--micro-batch-size %" INT64 " --global-batch-size %" INT64, plan->micro_batch, plan->global_batch);
  if (plan->data.sample_bytes > 0)
    add(out, "--num-workers %d", plan->data.readers);
}

static void add_sharding(const LaunchCase *c, GString *out) {
  static const char *const strategies[] = {"", "", "optim_grads", "optim_grads_params"};
  const Plan *plan = c->plan;
  if (plan->offload.optimizer == TIER_HOST)
    add(out,
        "--optimizer-cpu-offload --optimizer-offload-fraction %s --use-precision-aware-optimizer "
        "--overlap-cpu-optimizer-d2h-h2d",
        plan->offload.share > 0 ? strchr(offload_optimizer_text(&plan->offload), ':') + 1 : "1.0");
  if (plan_data_ranks(plan) == 1) {
    add_flag(out, plan->offload.optimizer == TIER_HOST, "--use-distributed-optimizer");
    return;
  }
  add_flag(out, zero_shards_optimizer(plan->zero), "--use-distributed-optimizer");
  if (zero_shards_gradients(plan->zero))
    add(out,
        "--use-megatron-fsdp --data-parallel-sharding-strategy %s --ckpt-format fsdp_dtensor "
        "--no-gradient-accumulation-fusion", /* which needs Transformer Engine 2.10 (mcore_fsdp_adapter.py) */
        strategies[plan->zero]);
  if (zero_shards_gradients(plan->zero) && plan->pp > 1)
    launch_notice(c, "zero %d in a pipeline: Megatron-LM does not say that its FSDP is tried with one", plan->zero);
  if (launch_shards_in_part(plan))
    add(out, "--num-distributed-optimizer-instances %d", plan_data_ranks(plan) / plan->zero_ranks);
  add_flag(out, plan->overlap_grad, "--overlap-grad-reduce");
  if (zero_shards_optimizer(plan->zero) && plan->overlap_param && plan->overlap_grad)
    add(out, "--overlap-param-gather");
  else if (zero_shards_optimizer(plan->zero) && plan->overlap_param)
    launch_notice(c, "predicted with --overlap-param on: Megatron-LM has it only beside --overlap-grad on");
  if (plan->bucket_parameters != MAX(40000000, 1000000 * (gint64)plan_data_ranks(plan)))
    add(out, "--ddp-bucket-size %" INT64, plan->bucket_parameters);
}

static void add_precision(const LaunchCase *c, GString *out) {
  static const char *const formats[N_PRECISIONS] = {
      [PRECISION_FP16] = "--fp16",
      [PRECISION_BF16] = "--bf16",
      [PRECISION_FP8] = "--bf16 --fp8-format hybrid --fp8-recipe tensorwise",
      [PRECISION_MXFP8] = "--bf16 --fp8-format e4m3 --fp8-recipe mxfp8",
      [PRECISION_NVFP4] = "--bf16 --fp4-format e2m1 --fp4-recipe nvfp4",
  };
  const Recipe *recipe = &c->plan->recipe;
  const char *format = formats[c->plan->precision];
  if (format != NULL)
    add(out, "%s", format);
  if (format != NULL && c->plan->precision != PRECISION_FP16)
    add_flag(out, recipe->gradients == 2, "--grad-reduce-in-bf16");
  else
    add_flag(out, format != NULL && recipe->gradients == 4, "--accumulate-allreduce-grads-in-fp32");
  gboolean is_fp8 = c->plan->precision == PRECISION_FP8 || c->plan->precision == PRECISION_MXFP8;
  add_flag(out, is_fp8 && recipe->weights == 1, "--fp8-param-gather");
  if (recipe->moments != 8 || (recipe->master != 4 && c->plan->precision != PRECISION_FP32))
    launch_notice(c, "recipe %s: Megatron-LM keeps a master copy of 4 and moments of 8 bytes per parameter",
                  recipe->name);
}

static void add_recompute(const LaunchCase *c, GString *out) {
  if (recompute_is_of_layers(c->plan->recompute))
    add(out, "--recompute-granularity full --recompute-method %s --recompute-num-layers %d",
        c->plan->recompute == RECOMPUTE_BLOCK ? "block" : "uniform", MAX(c->plan->recompute_layers, 1));
  g_autofree char *modules = recompute_modules_text(plan_recompute_modules(c->plan), " ");
  if (c->plan->recompute == RECOMPUTE_SELECTIVE)
    add(out, "--recompute-granularity selective --recompute-modules %s", modules);
  add(out, "--attention-backend %s", c->plan->attention == ATTENTION_FLASH ? "flash" : "unfused");
}

/* Fused by Transformer Engine (--cross-entropy-fusion-impl, core 0.12 to 0.18), or in its own operations. */
static void add_loss(const LaunchCase *c, GString *out) {
  const int loss = c->plan->time.loss;
  const gboolean has_te = launch_is_before(c, "0.19");
  add_flag(out, loss == LOSS_FUSED && has_te, "--cross-entropy-loss-fusion --cross-entropy-fusion-impl te");
  add_flag(out, loss == LOSS_FUSED && !has_te, "--cross-entropy-loss-fusion --cross-entropy-fusion-impl native");
  if (loss == LOSS_FUSED && !has_te)
    launch_notice(c, "predicted with --loss fused, which is Transformer Engine's: Megatron Core 0.19 refuses that, for "
                     "its own fused operations");
  if (loss == LOSS_PLAIN || loss == LOSS_CHUNKED)
    launch_notice(c, "predicted with --loss %s: Megatron-LM has vocabulary_parallel and fused", loss_names()[loss]);
}

/* How many queues the GPU takes kernels from, which Megatron-LM insists on (validate_args() of arguments.py, 2026-08):
 * one where collectives of tp or cp are to start before the products beside them, but from Blackwell on; more under its
 * FSDP; its words for experts that overlap are "larger". NULL: as it is. */
static const char *queues_text(const LaunchCase *c) {
  const Plan *plan = c->plan;
  if (launch_is_before(c, "0.12"))
    return "export CUDA_DEVICE_MAX_CONNECTIONS=1 # without it this release does not start\n";
  if (zero_shards_gradients(plan->zero) && plan_data_ranks(plan) > 1)
    return "unset CUDA_DEVICE_MAX_CONNECTIONS # its FSDP refuses 1\n";
  if (overlaps_experts(plan))
    return "export CUDA_DEVICE_MAX_CONNECTIONS=32 # for exchanges with experts beside computing\n";
  return plan->tp > 1 || plan->cp > 1 ? "export CUDA_DEVICE_MAX_CONNECTIONS=1 # before Blackwell tp and cp need it\n"
                                      : NULL;
}

char *launch_megatron_write(const LaunchCase *c) {
  g_autoptr(GString) arguments = g_string_new(NULL);
  add_model(c, arguments);
  if (model_has_experts(c->model))
    add_experts(c, arguments);
  add_parallelism(c, arguments);
  add_sharding(c, arguments);
  add_graphs(c, arguments);
  add_precision(c, arguments);
  add_recompute(c, arguments);
  add_loss(c, arguments);
  if (c->plan->pp > 1 && !c->plan->grad_norm_barrier)
    launch_notice(c, "predicted with --grad-norm-barrier off: Megatron-LM waits for the norm of all gradients");
  if (c->plan->framework == NULL)
    launch_notice(c,
                  "predicted without --framework megatron-core: what it holds and how it spends time besides, sends of "
                  "chunks beside computing among it, is not counted");
  GString *out = g_string_new(NULL);
  g_string_append_printf(
      out, "# Megatron-LM with Megatron Core %s: model and plan; data, optimizer and checkpoints are yours to add.\n",
      launch_release(c));
  g_autofree char *command = launch_command(c);
  g_string_append_printf(out, "# %s pretrain_gpt.py \"${MEGATRON_ARGS[@]}\"\n", command);
  launch_append_notices(c, out);
  g_string_append(out, queues_text(c) != NULL ? queues_text(c) : "");
  g_string_append_printf(out, "MEGATRON_ARGS=(\n%s)\n", arguments->str);
  return g_string_free(out, FALSE);
}
