/* Every question that a plan, its framework and its schedule answer together is asked here, once. */
#include "method.h"

#include "plan.h"

void method_settle(Method *method) {
  const Plan *plan = method->plan;
  *(Settings *)method = *(const Settings *)plan;
  method->expert_tp = plan_expert_tp(plan);
  method->recompute_modules = plan_recompute_modules(plan);
  method->data_ranks = plan_data_ranks(plan);
  method->plain_norm = plan_has_plain_norm(plan);
  method->dispatches_once = plan_dispatches_once(plan);
  method->gathers_tokens = plan_gathers_tokens(plan);
  method->takes_turns = plan_takes_turns(plan);
  method->counts_on_host = plan_counts_on_host(plan);
  method->has_expert_operations = plan_has_expert_operations(plan);
  method->rings_blocks = plan_rings_blocks(plan);
  method->splits_stage_tensors = plan_splits_stage_tensors(plan);
  method->repeats_attention = plan_repeats_attention(plan);
  method->keeps_every_other_product = plan_keeps_every_other_product(plan);
  method->sums_whole = plan_sums_whole(plan);
  method->reduces_once = plan_reduces_once(plan);
  method->buffer_passes = plan_buffer_passes(plan);
  method->gradient_sum_bytes = plan_gradient_sum_bytes(plan);
  method->gradient_add_bytes = plan_gradient_add_bytes(plan);
  method->whole_gradient_bytes = plan_whole_gradient_bytes(plan);
  method->unscales_gradients = plan_unscales_gradients(plan);
  method->copied_gradient_bytes = plan_copied_gradient_bytes(plan);
}

Method *method_new(const Plan *plan) {
  Method *method = g_new0(Method, 1);
  method->plan = plan_copy(plan);
  method_settle(method);
  return method;
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

void method_set_schedule(Method *method, char *name) {
  g_free(method->plan->schedule);
  method->schedule = method->plan->schedule = name;
}

void method_set_layout(Method *method, char *layout) {
  g_free(method->plan->pipeline_layout);
  method->pipeline_layout = method->plan->pipeline_layout = layout;
}

MemoryTier method_gradient_tier(const Method *method, int zero) {
  return plan_gradient_tier(method->plan, zero);
}
