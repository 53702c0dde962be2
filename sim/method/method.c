/* Every question that a plan, its framework and its schedule answer together is asked here, once. */
#include "method.h"

#include "error.h"
#include "plan_schedule.h"

static gboolean counts_on_host(const Plan *plan) {
  const gboolean has_counts = plan->ep > 1 || plan_gathers_tokens(plan);
  return has_counts && plan->time.expert_counts == EXPERT_COUNTS_ON_HOST && plan->cuda_graphs != CUDA_GRAPHS_FULL;
}

static gboolean has_expert_operations(const Plan *plan) {
  return plan->time.expert_operations == EXPERT_OPERATIONS_SINGLE && plan->cuda_graphs != CUDA_GRAPHS_FULL;
}

static gboolean launches_each_expert(const Plan *plan) {
  return plan->time.expert_products == EXPERT_PRODUCTS_APART && plan->cuda_graphs != CUDA_GRAPHS_FULL;
}

static gboolean rings_blocks(const Plan *plan) {
  return plan->cp > 1 && plan->cp_comm == CP_RING && plan->time.context == CONTEXT_BLOCKS;
}

static gboolean splits_stage_tensors(const Plan *plan) {
  return plan->time.stage_tensors == STAGE_TENSORS_SPLIT && plan->tp > 1 && !plan->sequence_parallel;
}

static double buffer_passes(const Plan *plan) {
  const gboolean is_scaled = plan->time.gradient_scaling == GRADIENT_SCALING_APART && plan_data_ranks(plan) > 1;
  return !zero_shards_gradients(plan->zero) && plan->offload.optimizer == TIER_GPU
             ? plan->time.buffer_passes + (is_scaled ? 2 : 0)
             : 0;
}

static gboolean has_wide_exponents(const Plan *plan) {
  return plan->precision != PRECISION_FP32 && plan->precision != PRECISION_FP16;
}

static double gradient_add_bytes(const Plan *plan) {
  return has_wide_exponents(plan) ? plan->time.gradient_add_bytes : 0;
}

static double gradient_sum_bytes(const Plan *plan) {
  if (compression_is_half(&plan->compression))
    return 2;
  return has_wide_exponents(plan) && plan->time.gradient_sum_bytes > 0 ? plan->time.gradient_sum_bytes
                                                                       : plan->recipe.gradients;
}

static double whole_gradient_bytes(const Plan *plan) {
  return MAX(plan->recipe.gradients, gradient_sum_bytes(plan));
}

static gboolean unscales_gradients(const Plan *plan) {
  return plan->precision == PRECISION_FP16 && plan->time.fp16_gradients == FP16_GRADIENTS_COPIED &&
         plan->recipe.master > 0;
}

static double copied_gradient_bytes(const Plan *plan) {
  const gboolean copies = unscales_gradients(plan) && plan->recipe.gradients < plan->recipe.master;
  return copies && offload_kept_share(&plan->offload) > 0 ? plan->recipe.master : 0;
}

static double update_bytes(const Plan *plan) {
  const gboolean has_lists = plan->memory.optimizer == OPTIMIZER_LISTS && offload_kept_share(&plan->offload) > 0;
  return copied_gradient_bytes(plan) + (has_lists ? plan->recipe.moments / 2 : 0);
}

static gboolean repeats_attention(const Plan *plan) {
  return (plan_recompute_modules(plan) & MODULE_BIT(MODULE_CORE_ATTN)) != 0 &&
         (plan->attention == ATTENTION_UNFUSED || plan->memory.selective == SELECTIVE_CORE);
}

static gboolean keeps_every_other_product(const Plan *plan) {
  return plan->recompute == RECOMPUTE_SELECTIVE && plan->memory.selective == SELECTIVE_PRODUCTS;
}

/* What the cluster's runs showed of its hosts, and of every step. */
static void take_as_run(Method *method) {
  FrameworkHost *host = &method->time.host;
  double *times[] = {&host->layer_forward_s, &host->layer_again_s, &host->layer_backward_s, &host->ends_forward_s,
                     &host->ends_backward_s, &host->collective_s,  &host->zero3_s};
  for (guint i = 0; i < G_N_ELEMENTS(times); i++)
    *times[i] *= method->as_run.host_time;
  method->time.step_s += method->as_run.step_s;
  if (method->spans_domains)
    method->time.collective_member_s =
        method->as_run.collective_host_s + (method->pp > 1 ? method->as_run.beside_sends_host_s : 0);
}

void method_settle(Method *method) {
  const Plan *plan = method->plan;
  *(Settings *)method = *(const Settings *)plan;
  take_as_run(method);
  method->expert_tp = plan_expert_tp(plan);
  method->recompute_modules = plan_recompute_modules(plan);
  method->recompute = plan->recompute > RECOMPUTE_FULL ? RECOMPUTE_FULL : plan->recompute;
  method->recomputes = plan->recompute;
  method->recompute_layers = MAX(plan->recompute_layers, 1);
  method->data_ranks = plan_data_ranks(plan);
  method->islands = MAX(plan->islands, 1);
  method->outer_period = plan_outer_period(plan);
  method->outer_window = plan_outer_window(plan);
  method->plain_norm = plan_has_plain_norm(plan);
  method->dispatches_once = plan_dispatches_once(plan);
  method->gathers_tokens = plan_gathers_tokens(plan);
  method->takes_turns = plan_takes_turns(plan);
  method->counts_on_host = counts_on_host(plan);
  method->has_expert_operations = has_expert_operations(plan);
  method->launches_each_expert = launches_each_expert(plan);
  method->rings_blocks = rings_blocks(plan);
  method->splits_stage_tensors = splits_stage_tensors(plan);
  method->repeats_attention = repeats_attention(plan);
  method->keeps_every_other_product = keeps_every_other_product(plan);
  method->sums_whole = plan_sums_whole(plan);
  method->reduces_once = plan_reduces_once(plan);
  method->buffer_passes = buffer_passes(plan);
  method->gradient_sum_bytes = gradient_sum_bytes(plan);
  method->gradient_add_bytes = gradient_add_bytes(plan);
  method->whole_gradient_bytes = whole_gradient_bytes(plan);
  method->unscales_gradients = unscales_gradients(plan);
  method->copied_gradient_bytes = copied_gradient_bytes(plan);
  method->update_bytes = update_bytes(plan);
}

Method *method_new(const Plan *plan) {
  Method *method = g_new0(Method, 1);
  method->as_run = as_run_none;
  method->plan = plan_copy(plan);
  method_settle(method);
  return method;
}

Method *method_complete(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  g_autoptr(Method) method = g_new0(Method, 1);
  method->plan = plan_copy(plan);
  if (!plan_complete(method->plan, model, cluster, error))
    return NULL;
  method->as_run = cluster != NULL ? cluster->as_run : as_run_none;
  method->spans_domains = cluster != NULL && method->plan->gpus > cluster->domain_gpus;
  method_settle(method);
  return g_steal_pointer(&method);
}

void method_free(Method *method) {
  if (method == NULL)
    return;
  plan_free(method->plan);
  g_free(method);
}

void method_set_micro_batches(Method *method, gint64 n_micro_batches) {
  method->plan->n_micro_batches = n_micro_batches;
  method_settle(method);
}

void method_set_found(Method *method) {
  if (schedule_is_auto(method->schedule))
    return;
  char *name = method->plan->schedule;
  method->schedule = method->plan->schedule = schedule_found_name(name);
  g_free(name);
}

void method_set_layout(Method *method, char *layout) {
  g_free(method->plan->pipeline_layout);
  method->pipeline_layout = method->plan->pipeline_layout = layout;
}

MemoryTier method_gradient_tier(const Method *method, int zero) {
  const MemoryTier optimizer = method->offload.optimizer;
  return optimizer == TIER_NVME && zero_shards_gradients(zero) && method->n_micro_batches > 1 ? TIER_HOST : optimizer;
}

/* --- the order --- */

Placement *method_placement(const Method *method) {
  return plan_placement(method->plan);
}

const ScheduleFacts *method_schedule(const Method *method) {
  const ScheduleFacts *facts = plan_schedule(method->plan);
  return facts->generate != NULL ? facts : NULL;
}

gboolean method_is_auto(const Method *method) {
  return method_schedule(method) == NULL && method->plan->file_order == NULL;
}

OrderShape method_shape(const Method *method, gint64 n_micro_batches) {
  return (OrderShape){method->pp, method->chunks, (int)n_micro_batches, method->group, method->takes_turns};
}

Order *method_order(const Method *method, GError **error) {
  g_assert(!method_is_auto(method));
  Order *read = method->plan->file_order;
  if (read == NULL)
    return order_new(method_schedule(method), method_shape(method, method->n_micro_batches), error);
  if (read->n_micro_batches == method->n_micro_batches)
    return order_ref(read);
  fail_impossible(error,
                  "%s is an order for %d micro-batches, the plan has %" G_GINT64_FORMAT
                  " (global-batch / (micro-batch × dp))",
                  schedule_file(method->schedule), read->n_micro_batches, method->n_micro_batches);
  return NULL;
}

gint64 method_group(const Method *method) {
  const ScheduleFacts *schedule = method_schedule(method);
  return schedule != NULL && method->n_micro_batches <= G_MAXINT
             ? schedule_repeats(schedule, method_shape(method, method->n_micro_batches))
             : 0;
}
