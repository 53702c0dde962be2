/* What Megatron-LM cannot start, and what of a plan decides it. */
#include "cut.h"
#include "error.h"
#include "int64_format.h"
#include "launch_frameworks.h"
#include "launch_megatron.h"
#include "plan.h"

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
const char *launch_megatron_activation(const Model *model) {
  static const char *const plain[N_ACTIVATIONS] = {
      [ACTIVATION_GELU] = "", [ACTIVATION_SQUARED_RELU] = "--squared-relu"};
  static const char *const gated[N_ACTIVATIONS] = {
      [ACTIVATION_SILU] = "--swiglu",
      [ACTIVATION_BOUNDED_GELU] = "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0"};
  return (model->gated ? gated : plain)[model_activation(model)];
}

static gboolean check_activation(const LaunchCase *c, GError **error) {
  return launch_megatron_activation(c->model) != NULL ||
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

gboolean launch_megatron_overlaps_experts(const Plan *plan) {
  return plan_takes_turns(plan) && (plan->chunks > 1 || plan->pp == 1);
}

/* What is run again in backward is in no graph but that of a whole step (transformer_config.py of core 0.17, 2026). */
static gboolean check_graphs(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (plan->cuda_graphs == CUDA_GRAPHS_NONE || plan->cuda_graphs == CUDA_GRAPHS_FULL)
    return TRUE;
  if (plan->recompute == RECOMPUTE_FULL)
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
  if (!launch_megatron_overlaps_experts(plan))
    return TRUE;
  if (plan->recompute == RECOMPUTE_FULL)
    return fail_impossible(error, "megatron: with --overlap-experts on Megatron-LM recomputes no whole layers, found "
                                  "recompute full");
  if (plan->recompute == RECOMPUTE_SELECTIVE && (plan_recompute_modules(plan) & MODULE_BIT(MODULE_MOE)) != 0)
    return fail_impossible(error, "megatron: with --overlap-experts on Megatron-LM recomputes no whole layers of "
                                  "experts, found recompute-modules with moe");
  return plan->precision != PRECISION_FP32 ||
         fail_impossible(error, "megatron: Megatron-LM overlaps experts in bf16 and fp16, found precision fp32");
}

/* Transformer Engine (context_parallel.py, 2026-08) sends K and V as they are. */
static gboolean check_context(const LaunchCase *c, GError **error) {
  g_autoptr(Method) method = method_new(c->plan);
  return cut_of(c->model, method).kv_copies == 1 ||
         fail_impossible(error,
                         "megatron: Transformer Engine repeats no key-value heads for a2a, found cp %d with %" INT64
                         " of them",
                         c->plan->cp, MAX(1, c->model->n_kv_heads / c->plan->tp));
}

gboolean launch_megatron_has_default_order(const Plan *plan) {
  return order_is(plan, default_order);
}

gboolean launch_megatron_check(const LaunchCase *c, GError **error) {
  return check_offload(c, error) && check_schedule(c, error) && check_model(c, error) && check_order(c, error) &&
         check_context(c, error) && check_overlapped_experts(c, error) && check_graphs(c, error);
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
