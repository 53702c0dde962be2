/* DeepSpeed's configuration file. Its pipeline engine runs 1F1B with one chunk per rank and shards the optimizer alone
 * (ZeRO-1) in a pipeline; tensor parallelism is AutoTP. How many stages there are is said twice: in the file and to the
 * PipelineModule of the user's program. */
#include <json-glib/json-glib.h>

#include "error.h"
#include "launch_case.h"
#include "pipeline_layout.h"
#include "plan.h"

/* --- what it cannot do --- */

static gboolean check_pipeline(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (plan->pp == 1)
    return TRUE;
  if (!schedule_facts(c->schedule)->in_deepspeed)
    return fail_impossible(error, "deepspeed: DeepSpeed's pipelines run the schedule 1f1b, found %s", c->schedule);
  if (zero_shards_gradients(plan->zero))
    return fail_impossible(error, "deepspeed: DeepSpeed's pipelines take ZeRO 0 and 1, found zero %d with pp %d",
                           plan->zero, plan->pp);
  return TRUE;
}

static gboolean check_shards(const LaunchCase *c, GError **error) {
  if (!launch_shards_in_part(c->plan) || zero_shards_weights(c->plan->zero))
    return TRUE;
  return fail_impossible(error,
                         "deepspeed: DeepSpeed shards over part of dp (MiCS) with zero 3 alone, found zero %d with "
                         "zero-ranks %d of dp %d",
                         c->plan->zero, c->plan->zero_ranks, c->plan->dp);
}

static gboolean check_precision(const LaunchCase *c, GError **error) {
  const Precision precision = c->plan->precision;
  if (precision == PRECISION_FP32 || precision == PRECISION_FP16 || precision == PRECISION_BF16)
    return TRUE;
  return fail_impossible(error, "deepspeed: DeepSpeed's configuration has no precision %s, expected fp32, fp16 or bf16",
                         precision_info(precision)->name);
}

static gboolean check_sequence(const LaunchCase *c, GError **error) {
  if (c->plan->cp > 1)
    return fail_impossible(error, "deepspeed: DeepSpeed's configuration has no context parallelism, found cp %d",
                           c->plan->cp);
  if (c->plan->tp == 1 || !c->plan->sequence_parallel)
    return TRUE;
  return fail_impossible(error,
                         "deepspeed: DeepSpeed's tensor parallelism does not cut norms along the sequence, found "
                         "sequence-parallel on with tp %d",
                         c->plan->tp);
}

/* Experts are layers of the model's code there, and so is over how many ranks they are dealt out. */
static gboolean check_experts(const LaunchCase *c, GError **error) {
  return !model_has_experts(c->model) ||
         fail_impossible(error,
                         "deepspeed: DeepSpeed's configuration says nothing of experts, found model %s with ep %d",
                         c->model->name, c->plan->ep);
}

static gboolean check_offload(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  const Offload *offload = &plan->offload;
  if (offload->optimizer != TIER_GPU && !zero_shards_optimizer(plan->zero))
    return fail_impossible(error, "deepspeed: DeepSpeed offloads the optimizer with ZeRO 1 to 3, found zero 0");
  if (offload->optimizer == TIER_NVME && !zero_shards_weights(plan->zero))
    return fail_impossible(error, "deepspeed: DeepSpeed has optimizer state on NVMe with zero 3 alone, found zero %d",
                           plan->zero);
  if (offload->share > 0 && !zero_shards_weights(plan->zero))
    return fail_impossible(
        error, "deepspeed: DeepSpeed offloads a part of the optimizer with zero 3 alone, found zero %d", plan->zero);
  return offload->activations == TIER_GPU || recompute_is_of_layers(plan->recompute) ||
         fail_impossible(error,
                         "deepspeed: DeepSpeed puts checkpoints of layers out, not what layers save: found "
                         "offload-activations host with recompute %s, expected full",
                         recompute_names()[plan->recompute]);
}

gboolean launch_deepspeed_check(const LaunchCase *c, GError **error) {
  return check_experts(c, error) && check_pipeline(c, error) && check_shards(c, error) && check_precision(c, error) &&
         check_sequence(c, error) && check_offload(c, error) &&
         launch_check_modules(c, "deepspeed", "DeepSpeed", error);
}

/* --- what it is told --- */

/* deepspeed/runtime at the tags v0.3.13 to v0.19.5; tests/data/launch/deepspeed.txt has all keys of some of them. */
const LaunchOption launch_deepspeed_options[] = {
    {"grad_accum_dtype", "0.8"},
    {"mics_shard_size", "0.9.2"},
    {"ratio", "0.12.3"},
    {"autotp_size", "0.16.4"},
    {NULL, NULL},
};

static void add_count(JsonBuilder *builder, const char *key, gint64 value) {
  json_builder_set_member_name(builder, key);
  json_builder_add_int_value(builder, value);
}

static void add_switch(JsonBuilder *builder, const char *key, gboolean value) {
  json_builder_set_member_name(builder, key);
  json_builder_add_boolean_value(builder, value);
}

static void begin(JsonBuilder *builder, const char *key) {
  json_builder_set_member_name(builder, key);
  json_builder_begin_object(builder);
}

static void add_batch(const LaunchCase *c, JsonBuilder *builder) {
  add_count(builder, "train_batch_size", c->plan->global_batch);
  add_count(builder, "train_micro_batch_size_per_gpu", c->plan->micro_batch);
  add_count(builder, "gradient_accumulation_steps", c->plan->n_micro_batches);
}

/* offload_optimizer, offload_param, of a share of the parameters. */
static void add_tier(JsonBuilder *builder, const char *key, MemoryTier tier, double share) {
  if (tier == TIER_GPU)
    return;
  begin(builder, key);
  json_builder_set_member_name(builder, "device");
  json_builder_add_string_value(builder, tier == TIER_NVME ? "nvme" : "cpu");
  if (tier == TIER_NVME) {
    json_builder_set_member_name(builder, "nvme_path");
    json_builder_add_string_value(builder, "/local_nvme");
  }
  add_switch(builder, "pin_memory", TRUE);
  if (share > 0 && share < 1) {
    json_builder_set_member_name(builder, "ratio");
    json_builder_add_double_value(builder, share);
  }
  json_builder_end_object(builder);
}

/* DeepSpeed keeps whole groups of parameters on the GPU: of a rank's, a hundred, so that a share is met to a hundredth.
 */
static gint64 share_group(const LaunchCase *c) {
  return MAX(1, (gint64)workload_optimizer_parameters(c->workload, 0) / 100);
}

static void add_checkpoints(const LaunchCase *c, JsonBuilder *builder) {
  if (c->plan->offload.activations == TIER_GPU)
    return;
  begin(builder, "activation_checkpointing");
  add_switch(builder, "partition_activations", c->plan->tp > 1);
  add_switch(builder, "cpu_checkpointing", TRUE);
  json_builder_end_object(builder);
}

/* In parameters, as the framework's file has them of its ZeRO-3, or as the plan says. */
static gint64 reduce_bucket(const Plan *plan) {
  const double modelled = zero_shards_weights(plan->zero) ? plan->time.zero3.reduce_bucket : 0;
  return modelled > 0 ? (gint64)modelled : plan->bucket_parameters;
}

static gint64 gather_bucket(const LaunchCase *c) {
  const Plan *plan = c->plan;
  if (!plan->overlap_param)
    return 0;
  return plan->time.zero3.gather_bucket > 0 ? (gint64)plan->time.zero3.gather_bucket
                                            : plan->prefetch * c->workload->piece_parameters[PIECE_LAYER];
}

static void add_zero(const LaunchCase *c, JsonBuilder *builder) {
  const Plan *plan = c->plan;
  begin(builder, "zero_optimization");
  add_count(builder, "stage", plan->zero);
  if (zero_shards_optimizer(plan->zero)) {
    add_switch(builder, "overlap_comm", plan->overlap_grad);
    add_switch(builder, "reduce_scatter", TRUE);
    add_switch(builder, "contiguous_gradients", TRUE);
    add_count(builder, "reduce_bucket_size", reduce_bucket(plan));
    add_count(builder, "allgather_bucket_size", plan->bucket_parameters);
  }
  if (zero_shards_weights(plan->zero))
    add_count(builder, "stage3_prefetch_bucket_size", gather_bucket(c));
  if (zero_shards_weights(plan->zero) && launch_shards_in_part(plan))
    add_count(builder, "mics_shard_size", plan->zero_ranks);
  if (plan->offload.share > 0)
    add_count(builder, "sub_group_size", share_group(c));
  add_tier(builder, "offload_optimizer", plan->offload.optimizer, plan->offload.share);
  add_tier(builder, "offload_param", plan->offload.weights, 0);
  json_builder_end_object(builder);
  if (offload_uses(&plan->offload, TIER_NVME))
    launch_notice(c, "nvme_path is a guess: say where the drives of your nodes are mounted");
  if (!zero_shards_optimizer(plan->zero) && plan->overlap_grad && plan->dp > 1)
    launch_notice(c, "predicted with --overlap-grad on: without ZeRO DeepSpeed reduces gradients after backward");
  if ((plan->zero == 1 || plan->zero == 2) && plan->overlap_param && plan->dp > 1)
    launch_notice(c, "predicted with --overlap-param on: DeepSpeed gathers parameters at the end of the step");
}

static void add_precision(const LaunchCase *c, JsonBuilder *builder) {
  const char *section = c->plan->precision == PRECISION_BF16 ? "bf16" : "fp16";
  if (c->plan->precision != PRECISION_FP32) {
    begin(builder, section);
    add_switch(builder, "enabled", TRUE);
    json_builder_end_object(builder);
  }
  begin(builder, "data_types");
  json_builder_set_member_name(builder, "grad_accum_dtype");
  json_builder_add_string_value(builder, c->plan->recipe.gradients >= 4 ? "fp32" : section);
  json_builder_end_object(builder);
}

/* "8*4"; owned by the caller. */
static char *stage_layers(const Workload *workload) {
  g_autofree int *layers = g_new(int, (gsize)workload->n_stages);
  for (int stage = 0; stage < workload->n_stages; stage++)
    layers[stage] = workload->stages[stage].layers.n_layers;
  return pipeline_layout_text(layers, workload->n_stages);
}

static void add_parallelism(const LaunchCase *c, JsonBuilder *builder) {
  const Plan *plan = c->plan;
  if (plan->tp > 1) {
    begin(builder, "tensor_parallel");
    add_count(builder, "autotp_size", plan->tp);
    json_builder_end_object(builder);
  }
  if (plan->pp == 1)
    return;
  begin(builder, "pipeline");
  add_count(builder, "stages", plan->pp);
  add_count(builder, "activation_checkpoint_interval",
            plan->recompute == RECOMPUTE_FULL ? MAX(plan->recompute_layers, 1) : 0);
  json_builder_end_object(builder);
  launch_notice(c, "the model must be a PipelineModule with num_stages=%d", plan->pp);
  g_autofree char *layers = stage_layers(c->workload);
  launch_notice(c,
                "predicted with stages of %s layers: see that the PipelineModule's partition_method (\"uniform\", "
                "\"parameters\" or \"type:…\") cuts there",
                layers);
}

static void notice_recompute(const LaunchCase *c) {
  if (c->plan->recompute == RECOMPUTE_SELECTIVE)
    launch_notice(c, "predicted with --recompute selective: DeepSpeed's checkpoints are whole layers; the model's code "
                     "must recompute attention alone");
  else if (c->plan->recompute > RECOMPUTE_FULL)
    launch_notice(c, "predicted with --recompute %s:%d: the model's code must checkpoint these layers",
                  recompute_names()[c->plan->recompute], c->plan->recompute_layers);
  else if (c->plan->recompute == RECOMPUTE_FULL && c->plan->pp == 1 && c->plan->recompute_layers > 1)
    launch_notice(c, "predicted with --recompute full:%d: the model's code must checkpoint so many layers together",
                  c->plan->recompute_layers);
  else if (c->plan->recompute == RECOMPUTE_FULL && c->plan->pp == 1)
    launch_notice(c, "predicted with --recompute full: the model's code must checkpoint each layer");
}

static void notice_training(const LaunchCase *c) {
  const TrainedParts *training = &c->plan->training;
  g_autofree char *train = training_train_text(training), *freeze = training_freeze_text(training);
  if (!training_is_of_all(training))
    launch_notice(c,
                  "predicted with --train %s --freeze %s: the model's code must freeze weights and add adapters, as "
                  "PEFT does",
                  train, freeze);
}

static void notice_compression(const LaunchCase *c) {
  const GradCompression *how = &c->plan->compression;
  if (how->kind == COMPRESS_ONEBIT)
    launch_notice(c, "predicted with --compress-grad onebit: the optimizer must be OneBitAdam, which compresses once "
                     "its freeze_step is over, after the last backward (--overlap-grad off)");
  else if (how->kind != COMPRESS_NONE)
    launch_notice(c, "predicted with --compress-grad %s, which DeepSpeed has not", grad_compression_text(how));
}

char *launch_deepspeed_write(const LaunchCase *c) {
  g_autoptr(JsonBuilder) builder = json_builder_new();
  json_builder_begin_object(builder);
  add_batch(c, builder);
  add_zero(c, builder);
  add_precision(c, builder);
  add_parallelism(c, builder);
  add_checkpoints(c, builder);
  json_builder_end_object(builder);
  notice_recompute(c);
  notice_training(c);
  notice_compression(c);
  launch_notice_graphs(c, "DeepSpeed");
  if (c->plan->time.loss == LOSS_FUSED || c->plan->time.loss == LOSS_CHUNKED)
    launch_notice(c, "predicted with --loss %s: the model's code must have it, as Liger-Kernel has",
                  loss_names()[c->plan->time.loss]);
  if (c->plan->framework == NULL)
    launch_notice(c, "predicted without --framework deepspeed: what DeepSpeed holds and how it spends time "
                     "besides is not counted");
  g_autoptr(JsonNode) root = json_builder_get_root(builder);
  g_autofree char *text = json_to_string(root, TRUE);
  return g_strconcat(text, "\n", NULL);
}
