/* torchtitan's job configuration, TOML, as its releases up to v0.2.2 (2026-02) read it; in what came after, sections
 * and keys are fields of a configuration written in Python. Its schedules are PyTorch's; FSDP is ZeRO-2 when parameters
 * stay gathered after forward and ZeRO-3 when they do not; replicas around it make HSDP; its tensor parallelism always
 * cuts norms along the sequence. */
#include <string.h>

#include "error.h"
#include "launch_case.h"
#include "plan.h"
#include "units.h"

/* Models that torchtitan has, by our names. */
static const struct {
  const char *ours, *name, *flavor;
} models[] = {
    {"llama-3-8b", "llama3", "8B"},         {"llama-3.1-8b", "llama3", "8B"},
    {"llama-3-70b", "llama3", "70B"},       {"llama-3.1-70b", "llama3", "70B"},
    {"llama-3.1-405b", "llama3", "405B"},   {"deepseek-v2", "deepseek_v3", "236B"},
    {"deepseek-v3", "deepseek_v3", "671B"},
};

/* --- what it cannot do --- */

static gboolean check_schedule(const LaunchCase *c, GError **error) {
  if (c->plan->pp == 1 || schedule_facts(c->schedule)->in_pytorch != NULL)
    return TRUE;
  g_autoptr(GString) names = g_string_new(NULL);
  for (const char *const *name = schedule_names(); *name != NULL; name++)
    if (schedule_facts(*name)->in_pytorch != NULL)
      g_string_append_printf(names, "%s%s", names->len > 0 ? ", " : "", *name);
  return fail_impossible(error,
                         "torchtitan: torchtitan runs the schedules %s by name, found %s (stepsim schedule --csv "
                         "writes what its pipeline_parallel_schedule_csv reads)",
                         names->str, c->schedule);
}

static gboolean check_sharding(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  if (plan->dp > 1 && plan->zero == 1)
    return fail_impossible(error,
                           "torchtitan: torchtitan shards gradients with the optimizer, expected zero 0, 2 or 3, "
                           "found zero 1");
  if (plan->dp > 1 && !zero_shards_optimizer(plan->zero) && plan->tp * plan->pp * plan->cp > 1)
    return fail_impossible(error,
                           "torchtitan: torchtitan replicates without sharding only where nothing else is cut, "
                           "found zero 0 with tp %d and pp %d",
                           plan->tp, plan->pp);
  return TRUE;
}

static gboolean check_tensor(const LaunchCase *c, GError **error) {
  if (c->plan->tp == 1 || c->plan->sequence_parallel)
    return TRUE;
  return fail_impossible(error,
                         "torchtitan: torchtitan's tensor parallelism always cuts norms along the sequence, found "
                         "sequence-parallel off with tp %d",
                         c->plan->tp);
}

static gboolean check_precision(const LaunchCase *c, GError **error) {
  const Precision precision = c->plan->precision;
  if (precision != PRECISION_FP16 && precision != PRECISION_NVFP4)
    return TRUE;
  return fail_impossible(error, "torchtitan: torchtitan trains in bf16, fp32, fp8 or mxfp8, found %s",
                         precision_info(precision)->name);
}

static gboolean check_context(const LaunchCase *c, GError **error) {
  if (c->plan->cp == 1 || c->plan->cp_comm != CP_ULYSSES)
    return TRUE;
  return fail_impossible(error, "torchtitan: torchtitan passes or gathers keys and values, found cp-comm %s with cp %d",
                         cp_comm_names()[c->plan->cp_comm], c->plan->cp);
}

/* Checkpoints are of single layers: all, or every n-th. */
static gboolean check_recompute(const LaunchCase *c, GError **error) {
  const Plan *plan = c->plan;
  const gboolean are_joined = plan->recompute == RECOMPUTE_FULL && plan->recompute_layers > 1;
  return (plan->recompute != RECOMPUTE_BLOCK && !are_joined) ||
         fail_impossible(error,
                         "torchtitan: torchtitan recomputes each layer by itself, all (full) or every n-th "
                         "(every), found recompute %s with recompute-num-layers %d",
                         recompute_names()[plan->recompute], plan->recompute_layers);
}

/* FSDP's CPUOffloadPolicy is of shards, gradients and optimizer state at once. */
static gboolean check_offload(const LaunchCase *c, GError **error) {
  const Offload *offload = &c->plan->offload;
  const gboolean is_all = offload->optimizer == TIER_HOST && offload->weights == TIER_HOST;
  return !offload_is_any(offload) || (is_all && offload->activations == TIER_GPU) ||
         fail_impossible(error,
                         "torchtitan: torchtitan offloads weights and optimizer to the host together, and no "
                         "activations: found optimizer %s, weights %s, activations %s",
                         offload_names()[offload->optimizer], offload_names()[offload->weights],
                         offload_names()[offload->activations]);
}

gboolean launch_torchtitan_check(const LaunchCase *c, GError **error) {
  return launch_check_compression(c, "torchtitan", "torchtitan", error) && check_offload(c, error) &&
         check_context(c, error) && check_schedule(c, error) && check_sharding(c, error) && check_tensor(c, error) &&
         check_precision(c, error) && check_recompute(c, error) &&
         launch_check_training(c, "torchtitan", "torchtitan", error) &&
         launch_check_modules(c, "torchtitan", "torchtitan", error);
}

/* --- what it is told --- */

/* Of config_manager.py at the tag v0.1.0 and job_config.py at v0.2.0 to v0.2.2; tests/data/launch/torchtitan.txt has
 * all their keys. */
const LaunchOption launch_torchtitan_options[] = {
    {"module_fqns_per_model_part", "0.2"},
    {"expert_parallel_degree", "0.2"},
    {"quantize.linear.float8", "0.2"},
    {"quantize.linear.mx", "0.2"},
    {NULL, NULL},
};

static void add_model(const LaunchCase *c, GString *out) {
  const gboolean fp8 = c->plan->precision == PRECISION_FP8, mx = c->plan->precision == PRECISION_MXFP8;
  gsize i = 0;
  while (i < G_N_ELEMENTS(models) && g_strcmp0(models[i].ours, c->model->name) != 0)
    i++;
  g_string_append(out, "\n[model]\n");
  if (i < G_N_ELEMENTS(models))
    g_string_append_printf(out, "name = \"%s\"\nflavor = \"%s\"\n", models[i].name, models[i].flavor);
  else
    launch_notice(c, "model %s: set [model] name and flavor to one that torchtitan has registered with its sizes",
                  c->model->name);
  g_string_append_printf(out, "converters = [%s]\n",
                         fp8  ? "\"quantize.linear.float8\""
                         : mx ? "\"quantize.linear.mx\""
                              : "");
}

/* As the framework's file says that kernels were fused, or each run by itself. */
static gboolean is_compiled(const Plan *plan) {
  return plan->time.kernels == FRAMEWORK_KERNELS_FUSED && plan->framework != NULL;
}

static void add_training(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  gint64 local = plan->pp > 1 ? plan->global_batch / plan->dp : plan->micro_batch;
  g_string_append_printf(out, "\n[training]\nlocal_batch_size = %" INT64 "\nglobal_batch_size = %" INT64 "\n", local,
                         plan->global_batch);
  g_string_append_printf(out, "seq_len = %" INT64 "\nmixed_precision_param = \"%s\"\n", plan->seq_len,
                         plan->precision == PRECISION_FP32 ? "float32" : "bfloat16");
  if (offload_is_any(&plan->offload))
    g_string_append(out, "enable_cpu_offload = true\n");
  if (launch_is_before(c, "0.2"))
    g_string_append_printf(out, "compile = %s\n", is_compiled(plan) ? "true" : "false");
}

static void add_data_parallelism(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  int shard = !zero_shards_optimizer(plan->zero) ? 1 : plan->zero_ranks / plan->cp; /* its shards span cp besides */
  g_string_append_printf(out, "data_parallel_replicate_degree = %d\ndata_parallel_shard_degree = %d\n",
                         plan->dp / shard, shard);
  if (zero_shards_optimizer(plan->zero))
    g_string_append_printf(out, "fsdp_reshard_after_forward = \"%s\"\n",
                           zero_shards_weights(plan->zero) ? "always" : "never");
  if (zero_shards_optimizer(plan->zero) && plan->dp > 1 && (!plan->overlap_grad || !plan->overlap_param))
    launch_notice(c, "predicted with --overlap-grad or --overlap-param off: FSDP always overlaps both");
  if (plan->time.loss == LOSS_CHUNKED)
    launch_notice(c, "predicted with --loss chunked: torchtitan has plain operations and, compiled, fused ones");
  if (!zero_shards_optimizer(plan->zero) && plan->dp > 1)
    launch_notice(c, "zero 0 is DDP: its buckets are PyTorch's");
}

/* Names of modules, a list for each stage. */
static void add_stages(const LaunchCase *c, GString *out) {
  g_string_append(out, "module_fqns_per_model_part = [\n");
  for (int stage = 0; stage < c->workload->n_stages; stage++) {
    const StageLayers *layers = &c->workload->stages[stage].layers;
    g_autoptr(GString) names = g_string_new(layers->has_embedding ? ", \"tok_embeddings\"" : "");
    for (int layer = 0; layer < layers->n_layers; layer++)
      g_string_append_printf(names, ", \"layers.%d\"", layers->first_layer + layer);
    g_string_append(names, layers->has_head ? ", \"norm\", \"output\"" : "");
    g_string_append_printf(out, "  [%s],\n", names->str + strlen(", "));
  }
  g_string_append(out, "]\n");
}

static void add_pipeline(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  g_string_append_printf(out, "pipeline_parallel_degree = %d\n", plan->pp);
  if (plan->pp == 1)
    return;
  g_string_append_printf(out, "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %" INT64 "\n",
                         schedule_facts(c->schedule)->in_pytorch, plan->micro_batch);
  add_stages(c, out);
  if (plan->group > 0)
    launch_notice(c, "predicted with --micro-batch-group %d: PyTorch chooses it from the ranks", plan->group);
}

static void add_experts(const LaunchCase *c, GString *out) {
  const Plan *plan = c->plan;
  g_string_append_printf(out, "expert_parallel_degree = %d\nexpert_tensor_parallel_degree = %d\n", plan->ep,
                         plan_expert_tp(plan));
  if (plan->expert_dispatch > DISPATCH_ALL_TO_ALL)
    launch_notice(c, "predicted with --expert-dispatch %s: torchtitan's keys here have all-to-alls",
                  expert_dispatch_names()[plan->expert_dispatch]);
}

static void add_parallelism(const LaunchCase *c, GString *out) {
  g_string_append(out, "\n[parallelism]\n");
  add_data_parallelism(c, out);
  g_string_append_printf(out, "tensor_parallel_degree = %d\ncontext_parallel_degree = %d\n", c->plan->tp, c->plan->cp);
  if (c->plan->ep > 1)
    add_experts(c, out);
  if (c->plan->mtp_layers > 0)
    launch_notice(c, "predicted with mtp-layers %d: see that your version trains heads that predict a token further",
                  c->plan->mtp_layers);
  if (c->plan->cp > 1)
    g_string_append_printf(out, "context_parallel_rotate_method = \"%s\"\n",
                           c->plan->cp_comm == CP_ALL_GATHER ? "allgather" : "alltoall");
  add_pipeline(c, out);
}

static void add_recompute(const LaunchCase *c, GString *out) {
  static const char *const modes[] = {[RECOMPUTE_NONE] = "none",
                                      [RECOMPUTE_SELECTIVE] = "selective",
                                      [RECOMPUTE_FULL] = "full",
                                      [RECOMPUTE_EVERY] = "selective"};
  g_string_append_printf(out, "\n[activation_checkpoint]\nmode = \"%s\"\n", modes[c->plan->recompute]);
  if (c->plan->recompute == RECOMPUTE_EVERY)
    g_string_append_printf(out, "selective_ac_option = \"%d\"\n", c->plan->recompute_layers);
  if (c->plan->recompute != RECOMPUTE_SELECTIVE)
    return;
  g_string_append(out, "selective_ac_option = \"op\"\n");
  if (c->plan->memory.selective != SELECTIVE_PRODUCTS)
    launch_notice(c, "predicted with --recompute selective, attention alone: torchtitan's op option recomputes more");
}

static void add_precision(const LaunchCase *c, GString *out) {
  if (c->plan->precision == PRECISION_FP8)
    g_string_append(out, "\n[quantize.linear.float8]\nrecipe_name = \"tensorwise\"\n");
  else if (c->plan->precision == PRECISION_MXFP8)
    g_string_append(out, "\n[quantize.linear.mx]\nrecipe_name = \"mxfp8_cublas\"\n");
}

/* Before v0.2 it is a key of [training]. */
static void add_compile(const LaunchCase *c, GString *out) {
  if (!launch_is_before(c, "0.2"))
    g_string_append_printf(out, "\n[compile]\nenable = %s\n", is_compiled(c->plan) ? "true" : "false");
  if (c->plan->framework == NULL && c->plan->time.kernels == FRAMEWORK_KERNELS_FUSED)
    launch_notice(c,
                  "predicted without --framework, with memory-bound kernels fused: torchtitan has that with [compile] "
                  "enable = true; --framework torchtitan or torchtitan-eager predicts either");
}

char *launch_torchtitan_write(const LaunchCase *c) {
  g_autoptr(GString) sections = g_string_new(NULL);
  add_model(c, sections);
  add_training(c, sections);
  add_parallelism(c, sections);
  add_recompute(c, sections);
  add_precision(c, sections);
  add_compile(c, sections);
  launch_notice_graphs(c, "torchtitan");
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "# torchtitan %s: plan and model; data, optimizer and checkpoints are yours to add.\n",
                         launch_release(c));
  g_autofree char *command = launch_command(c);
  g_string_append_printf(out, "# %s -m torchtitan.train --job.config_file FILE.toml\n", command);
  g_string_append(
      out, "# v0.2.2 (2026-02) is the last to read it; later versions have fields of a configuration in Python.\n");
  launch_append_notices(c, out);
  g_string_append(out, sections->str);
  return g_string_free(out, FALSE);
}
