/* First a table of what has no kernels, then the plan's options one subject at a time. The error names the first
 * thing that cannot be trained and what to use instead. */
#include "trainable.h"

#include <string.h>

#include "error.h"
#include "fp8.h"
#include "items.h"
#include "local_sizes.h"
#include "lowering.h"

typedef struct {
  gboolean is_missing;
  const char *what;
} Missing;

static gboolean check_model(const Workload *workload, GError **error) {
  const Model *model = workload->model;
  const Missing missing[] = {
      {workload->method->expert_load > 1, "experts that get more than others (stepsim simulate predicts them)"},
      {workload->method->mtp_layers > 0 && (model->dropout_rate.hidden > 0 || model->dropout_rate.attention > 0 ||
                                            model->dropout_rate.embedding > 0 || model->embedding_norm),
       "heads that predict a token further, with dropout or a norm behind the word table"},
      {workload->method->mtp_layers > 0 && model->positions == POSITIONS_LEARNED,
       "heads that predict a token further, with learned positions"},
      {(model->post_norms || model->norms_behind) && (model_has_out_bias(model) || model_has_mlp_bias(model)),
       "biases of what norms behind the branches of a layer read"},
      {model->factors.branches > 0 && (model_has_experts(model) || model->post_norms || model->norms_behind ||
                                       model_has_out_bias(model) || model_has_mlp_bias(model)),
       "branches multiplied by a number that have experts, biases or norms behind them"},
      {model->factors.logits > 0 && model->head_bias, "logits multiplied by a number that have a bias"},
      {model->head_bias && model->tied, "a bias on logits of a matrix that is the embedding's"},
      {model->other_embedding_parameters > 0, "two positions more than it says (OPT)"},
      {model->n_kv_heads < workload->method->tp, "fewer key heads than tp ranks"},
      {model->head_dim % 2 != 0 || model->latent.rope_dim % 2 != 0, "an odd head size"},
      {model_has_experts(model) && (!model->gated || model_has_expert_biases(model)),
       "experts without a gate, or with biases"},
      {model_window(model, workload->method->seq_len) > 0 && model->is_chunked, "attention in chunks"},
      {model->fixed_qk_norms, "norms of q and k without weights"},
      {model->has_sinks, "a learned term in the softmax's denominator"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(missing); i++)
    if (missing[i].is_missing)
      return fail_impossible(error, "the model %s cannot be trained here: no kernels for %s", model->name,
                             missing[i].what);
  return TRUE;
}

static gboolean check_switches(const Method *method, GError **error) {
  if (offload_uses(&method->offload, TIER_NVME))
    return fail_impossible(error, "--offload-optimizer and -weights nvme cannot be trained with here (stepsim simulate "
                                  "predicts it): expected none, or --offload-optimizer host");
  if (method->data.sample_bytes > 0)
    return fail_impossible(error,
                           "--data cannot be run here (stepsim simulate predicts it): tokens are made on the spot");
  return method->cuda_graphs <= CUDA_GRAPHS_NONE ||
         fail_impossible(error, "--cuda-graphs %s cannot be run here (stepsim simulate predicts it); expected none",
                         cuda_graphs_names()[method->cuda_graphs]);
}

/* The recipe, as the user specified it: "--recipe megatron", "recipe megatron, as framework megatron-lm has it,".
 * Owned by the caller. */
static char *recipe_text(const Method *method) {
  const char *name = method->recipe.name;
  if (method->framework != NULL && strcmp(name, method->memory.recipe) == 0)
    return g_strdup_printf("recipe %s, as framework %s has it,", name, method->framework);
  return g_strdup_printf("--recipe %s", name);
}

/* The first of the products in fp8 whose operands cannot be 16 bytes wide; NULL: none. */
static const WorkItem *odd_fp8_product(const Workload *workload) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int i = 0; i < workload->work[piece][PHASE_F].n_items; i++) {
      const WorkItem *item = &workload->work[piece][PHASE_F].items[i];
      const gboolean is_odd = item->m % FP8_MULTIPLE != 0 || item->n % FP8_MULTIPLE != 0 || item->k % FP8_MULTIPLE != 0;
      if (item->kind == ITEM_MATMUL && item->number == NUMBER_FP8 && is_odd)
        return item;
    }
  return NULL;
}

static gboolean check_fp8(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  const char *what =
      method->mtp_layers > 0              ? "heads that predict a token further"
      : method->keeps_every_other_product ? "selective recompute by products"
      : method->time.tensor_parallel.format == TP_FORMAT_LINEAR && method->tp > 1 && method->sequence_parallel
          ? "gathers over tp in fp8"
          : NULL;
  if (what != NULL)
    return fail_impossible(error, "--precision fp8%s%s with %s cannot be trained here (stepsim simulate predicts it)",
                           method->framework != NULL ? " and --framework " : "",
                           method->framework != NULL ? method->framework : "", what);
  const WorkItem *odd = odd_fp8_product(workload);
  return odd == NULL ||
         fail_impossible(error,
                         "--precision fp8: %s multiplies (%" G_GINT64_FORMAT "×%" G_GINT64_FORMAT ")·(%" G_GINT64_FORMAT
                         ") on a rank; expected tokens and widths that are multiples of %d",
                         odd->name, odd->m, odd->k, odd->n, FP8_MULTIPLE);
}

static gboolean check_precision(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  const PrecisionInfo *precision = precision_info(method->precision);
  if (method->precision > PRECISION_FP8)
    return fail_impossible(error, "--precision %s cannot be trained here: expected fp32, bf16, fp16 or fp8",
                           precision->name);
  if (method->precision == PRECISION_FP16 && !method->grad_norm_barrier)
    return fail_impossible(error,
                           "--precision fp16 and --grad-norm-barrier off clash: whether a step is skipped follows from "
                           "the norm of all ranks; use --grad-norm-barrier on");
  g_autofree char *recipe = recipe_text(method);
  return method->recipe.weights == precision->element_bytes ||
         fail_impossible(error,
                         "--precision %s and %s clash: weights of %g bytes where they are kept in %g; "
                         "use %s",
                         precision->name, recipe, method->recipe.weights, precision->element_bytes,
                         method->precision == PRECISION_FP32 ? "--recipe fp32" : "--recipe bf16+master or megatron");
}

/* The first layer feature that selective recompute by products does not support; NULL: none. */
static const char *not_by_products(const Workload *workload) {
  const Model *model = workload->model;
  const Method *method = workload->method;
  return model_has_experts(model)                   ? "experts"
         : model->latent.kv_rank > 0                ? "latent attention"
         : model->parallel_block                    ? "an MLP beside attention"
         : model->post_norms || model->norms_behind ? "norms behind the branches"
         : method->attention == ATTENTION_UNFUSED   ? "--attention unfused"
         : method->cp > 1                           ? "--cp"
                                                    : NULL;
}

/* Layers that are recomputed at once run ahead of their ops: nothing in them may move between ranks. */
static const char *not_in_groups(const Workload *workload) {
  const Method *method = workload->method;
  return method->tp > 1                            ? "--tp"
         : method->cp > 1                          ? "--cp"
         : model_has_experts(workload->model)      ? "experts"
         : zero_shards_weights(method->zero)       ? "--zero 3"
         : method->training.frozen_layers > 0      ? "--freeze layers"
         : method->mtp_layers > 0                  ? "--mtp-layers"
         : method->offload.activations != TIER_GPU ? "--offload-activations"
         : workload->model->norms_behind           ? "linears that read the stream"
                                                   : NULL;
}

static gboolean check_recompute(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  if (method->keeps_every_other_product) {
    const char *what = not_by_products(workload);
    return what == NULL ||
           fail_impossible(error,
                           "--recompute selective as framework %s has it, product by product, cannot be trained here "
                           "with %s; use --recompute none or full",
                           method->framework, what);
  }
  const char *grouped =
      method->recomputes == RECOMPUTE_FULL && method->recompute_layers > 1 ? not_in_groups(workload) : NULL;
  if (grouped != NULL)
    return fail_impossible(error,
                           "--recompute full with %d layers at once cannot be trained here with %s (stepsim simulate "
                           "predicts it): expected one at a time, or --recompute block or every",
                           method->recompute_layers, grouped);
  /* ring blocks and exchanged heads occupy the place where Q, K and V would be recomputed */
  return method->cp == 1 || (method->recompute_modules & MODULE_BIT(MODULE_MLA_UP_PROJ)) == 0 ||
         fail_impossible(
             error,
             "--recompute-modules mla_up_proj with --cp %d cannot be trained here (stepsim simulate predicts "
             "it); expected --cp 1, or mla_up_proj left out",
             method->cp);
}

/* PyTorch's ring gathers the blocks of all ranks at once. */
static gboolean check_ring(const Method *method, GError **error) {
  return !method->rings_blocks ||
         fail_impossible(error,
                         "--cp-comm ring as framework %s has it, which gathers all blocks at once, cannot be trained "
                         "here (stepsim simulate predicts it); use --cp-comm all_gather or ulysses, or leave "
                         "--framework out",
                         method->framework);
}

static gboolean check_gradient_sums(const Method *method, GError **error) {
  const double sum_bytes = method->gradient_sum_bytes;
  return method->data_ranks == 1 || sum_bytes == 2 || sum_bytes == 4 ||
         fail_impossible(error,
                         "gradients as framework %s sums them over dp, in %g bytes, cannot be summed here: expected "
                         "2 or 4; leave --framework out",
                         method->framework, sum_bytes);
}

static gboolean check_norm_kernel(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  const gboolean is_of_framework = method->time.kernels == FRAMEWORK_KERNELS_PLAIN && method->framework != NULL;
  return !method->plain_norm || workload->model->norm != NORM_RMSNORM ||
         fail_impossible(error, "--norm-kernel plain%s%s: RMSNorm is one kernel here, expected fused",
                         is_of_framework ? ", as framework " : "", is_of_framework ? method->framework : "");
}

static gboolean check_loss(const Method *method, GError **error) {
  const int loss = method->time.loss;
  const gboolean can_train = loss != LOSS_CHUNKED && (loss != LOSS_PLAIN || method->tp == 1);
  return can_train ||
         fail_impossible(error,
                         "--loss %s%s cannot be trained with here (stepsim simulate predicts it): expected "
                         "vocabulary_parallel or fused",
                         loss_names()[loss], loss == LOSS_PLAIN ? " with tp" : "");
}

static gboolean check_recipe(const Method *method, GError **error) {
  const Recipe *recipe = &method->recipe;
  const gboolean has_gradients =
      recipe->gradients == 4 || (recipe->gradients == 2 && method->precision != PRECISION_FP32);
  const gboolean has_master = recipe->master == 4 || recipe->master == 0;
  g_autofree char *text = recipe_text(method);
  return (has_gradients && has_master && recipe->moments == 8) ||
         fail_impossible(error,
                         "%s cannot be trained here: gradients of 4 bytes (or 2, not in fp32), a "
                         "master copy of 4 or none, moments of 4 + 4",
                         text);
}

/* Weights in one shard are never gathered, so they cannot be fetched from the host. */
static gboolean check_host_weights(const Workload *workload, GError **error) {
  const Layout *layout = &workload->layout;
  const gboolean of_experts = layout->n_shards > 1;
  const gboolean has_one = !of_experts || (model_has_experts(workload->model) && layout->n_expert_shards == 1);
  return workload->method->offload.weights == TIER_GPU || !has_one ||
         fail_impossible(error,
                         "--offload-weights host cannot be trained with here where weights%s are in one shard "
                         "(stepsim simulate predicts it): expected none",
                         of_experts ? " of experts" : "");
}

/* Whether some stage receives gradients for nothing. */
static gboolean has_idle_stage(const Workload *workload) {
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (!lowering_needs_gradient(workload, stage))
      return TRUE;
  return FALSE;
}

/* What adapters are not made for; NULL: nothing. */
static const char *without_adapters(const Workload *workload) {
  const Model *model = workload->model;
  const Method *method = workload->method;
  return model_has_experts(model)                          ? "adapters of experts"
         : model->latent.kv_rank > 0                       ? "adapters of latent attention"
         : method->cp > 1 && method->cp_comm == CP_ULYSSES ? "adapters under --cp-comm ulysses"
                                                           : NULL;
}

static gboolean check_training(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  g_autofree char *train = training_train_text(&method->training), *freeze = training_freeze_text(&method->training);
  const char *why = training_is_of_all(&method->training)   ? NULL
                    : method->training.rank > 0             ? without_adapters(workload)
                    : method->offload.optimizer != TIER_GPU ? "frozen weights with the optimizer on the host"
                                                            : NULL;
  if (why == NULL && has_idle_stage(workload))
    why = "a stage of which nothing is trained";
  return why == NULL ||
         fail_impossible(error, "--train %s --freeze %s: %s cannot be trained with here (stepsim simulate predicts it)",
                         train, freeze, why);
}

/* What is lost under one loss scale would be added under another. Halves are those that the step computes in. */
static gboolean check_compression(const Method *method, GError **error) {
  const GradCompression *how = &method->compression;
  const char *text = grad_compression_text(how), *precision = precision_info(method->precision)->name;
  if (compression_is_lossy(how) && method->precision == PRECISION_FP16)
    return fail_impossible(error,
                           "--compress-grad %s cannot be trained with here under the loss scales of --precision "
                           "fp16 (stepsim simulate predicts it): expected bf16 or fp32",
                           text);
  return !compression_is_half(how) || strcmp(text, precision) == 0 ||
         fail_impossible(error, "--compress-grad %s cannot be trained with here in --precision %s: expected %s", text,
                         precision, text);
}

/* Of an outer step, what cannot be taken here; NULL: nothing. */
static const char *odd_outer_step(const Method *method) {
  const OuterStep *outer = &method->outer;
  return outer->delay > 0 || outer->fragments > 1 ? "sums that run beside steps, or parts that take turns"
         : method->training.rank > 0              ? "adapters"
         : outer->bytes != sizeof(float)          ? "sums of another width than 4 bytes"
         : method->precision != PRECISION_FP32 && method->precision != PRECISION_BF16
             ? "fp16 and fp8, whose scales islands would choose for themselves"
         : method->data_ranks > 1 && (!zero_shards_optimizer(method->zero) || method->zero_ranks != method->data_ranks)
             ? "parameters that several ranks of an island hold whole (expected --zero 1 to 3)"
             : NULL;
}

static gboolean check_ways(const Method *method, GError **error) {
  const char *odd = method->islands > 1 ? odd_outer_step(method) : NULL;
  if (odd != NULL)
    return fail_impossible(error,
                           "--islands %d --outer %s: %s cannot be trained with here (stepsim simulate predicts it)",
                           method->islands, outer_step_text(&method->outer), odd);
  const Servers *servers = &method->servers;
  odd = !servers_are_used(servers)                                        ? NULL
        : !servers->on_workers || servers->is_async || servers->local > 1 ? "other servers than workers, in step"
        : method->precision != PRECISION_FP32 && method->precision != PRECISION_BF16
            ? "fp16 and fp8, whose scales they would have to share"
        : method->gradient_sum_bytes != method->recipe.gradients ? "gradients that a framework sums in another format"
        : !training_is_of_all(&method->training)                 ? "frozen weights"
                                                                 : NULL;
  return odd == NULL ||
         fail_impossible(error, "--parameter-servers %s: %s cannot be trained with here (stepsim simulate predicts it)",
                         servers_text(servers), odd);
}

/* What micro-batches of unequal lengths cannot be trained with here. */
static gboolean check_lengths(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  const Model *model = workload->model;
  const Batching batching = method->batching;
  const gboolean is_packed = workload->batch != NULL && workload->batch->is_packed,
                 is_longest = workload->batch != NULL && batching == BATCHING_LONGEST;
  const char *why = workload->batch != NULL && batching == BATCHING_BALANCED
                        ? "another dealing on every number of ranks"
                    : is_packed && method->cp > 1                    ? "--cp"
                    : is_packed && model->dropout_rate.attention > 0 ? "dropout of attention's scores"
                    : is_packed && model->positions == POSITIONS_LEARNED && method->sequence_parallel && method->tp > 1
                        ? "learned positions and sequence parallelism"
                    : is_longest && model_has_experts(model)           ? "experts, to which tokens are dealt out evenly"
                    : is_longest && method->precision == PRECISION_FP8 ? "fp8"
                    : workload->batch != NULL && method->mtp_layers > 0 ? "heads that predict a token further"
                                                                        : NULL;
  return why == NULL || fail_impossible(error,
                                        "--batching %s with %s cannot be trained with here (stepsim simulate predicts "
                                        "it)",
                                        batching_names()[batching], why);
}

static gboolean check_plan(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  return check_training(workload, error) && check_ways(method, error) && check_lengths(workload, error) &&
         check_switches(method, error) && check_ring(method, error) && check_precision(workload, error) &&
         check_recompute(workload, error) && check_gradient_sums(method, error) && check_norm_kernel(workload, error) &&
         check_loss(method, error) && check_recipe(method, error) && check_compression(method, error) &&
         check_host_weights(workload, error) && (method->precision != PRECISION_FP8 || check_fp8(workload, error));
}

/* Routing is fixed by position: each rank must divide its tokens evenly among all experts. */
static gboolean check_dealing(const Workload *workload, const LocalSizes *local, GError **error) {
  const Model *model = workload->model;
  const Method *method = workload->method;
  if (local->routed_tokens % model->experts.n != 0)
    return fail_impossible(error,
                           "%" G_GINT64_FORMAT " tokens of a rank, each to %" G_GINT64_FORMAT
                           " experts, cannot be dealt out evenly to the %" G_GINT64_FORMAT
                           " of model %s: expected a sequence length, or a micro-batch, with which they divide",
                           local->split_tokens, model->experts.per_token, model->experts.n, model->name);
  if (model_dense_layers(model, 0, model->n_layers) > 0 && model->ffn_hidden % method->tp != 0)
    return fail_impossible(error,
                           "tp %d does not divide the MLP hidden size %" G_GINT64_FORMAT
                           " of the layers without experts of model %s",
                           method->tp, model->ffn_hidden, model->name);
  return method->cp == 1 || local->seq_len / 2 * model->experts.per_token % model->experts.n == 0 ||
         fail_impossible(error,
                         "the %" G_GINT64_FORMAT " tokens of half a rank's part of a sequence under cp %d, each to "
                         "%" G_GINT64_FORMAT " experts, cannot be dealt out evenly to the %" G_GINT64_FORMAT
                         " of model %s: expected a sequence length with which they divide",
                         local->seq_len / 2, method->cp, model->experts.per_token, model->experts.n, model->name);
}

static gboolean check_experts(const Workload *workload, GError **error) {
  const Model *model = workload->model;
  const Method *method = workload->method;
  if (!model_has_experts(model))
    return TRUE;
  const LocalSizes local = local_sizes_of(model, method);
  if (!check_dealing(workload, &local, error))
    return FALSE;
  if (model->experts.every > 1 && workload->n_stages > 1)
    return fail_impossible(error,
                           "model %s has experts in one of %" G_GINT64_FORMAT
                           " layers, and cut into %d stages it would be another: dense layers come first in each; "
                           "expected --pp 1",
                           model->name, model->experts.every, workload->n_stages);
  return !method->dispatches_once ||
         fail_impossible(error, "--expert-dispatch deepep cannot be run here (stepsim simulate predicts it); "
                                "give --expert-dispatch all_to_all or all_gather");
}

/* MTP heads read the word table. When sharded, the table of the model's first stage is present only while that stage
 * runs, and its gradient is summed with that stage's. */
static gboolean check_further_heads(const Workload *workload, GError **error) {
  const Method *method = workload->method;
  if (!workload_heads_read_embedding(workload) || !zero_shards_gradients(method->zero) || workload->n_stages == 1)
    return TRUE;
  return fail_impossible(error,
                         "--mtp-layers %d with --zero %d cannot be trained here where one rank has the model's first "
                         "stage and its last, as with --pp %d --schedule %s: expected --zero 0 or 1",
                         method->mtp_layers, method->zero, method->pp, method->schedule);
}

/* Copies of a stage are summed between two ranks. */
static gboolean check_placement(const Workload *workload, GError **error) {
  const Placement *placement = workload->placement;
  const int length = placement->n_stages / placement->n_pipes;
  for (int stage = 0; stage < length && placement->n_pipes > 1; stage++)
    if (placement->stage_rank[stage] == placement->stage_rank[stage + length])
      return fail_impossible(error,
                             "pipeline rank %d would hold both copies of stage %d: two pipes need an even number "
                             "of pipeline ranks, found %d",
                             placement->stage_rank[stage], stage, placement->n_ranks);
  return TRUE;
}

gboolean trainable_check(const Workload *workload, GError **error) {
  return check_model(workload, error) && check_plan(workload, error) && check_experts(workload, error) &&
         check_further_heads(workload, error) && check_placement(workload, error) && items_check(workload, error);
}

gboolean trainable_check_run(const Workload *workload, GError **error) {
  return !lowering_broadcasts_weights(workload) ||
         fail_impossible(error,
                         "--framework %s: ranks that own whole matrices and broadcast them cannot be run here; "
                         "expected --zero 0, or no framework",
                         workload->method->framework);
}
