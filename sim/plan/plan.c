/* The plan as data: copies, names of its choices. plan_complete.c completes and checks it. */
#include "plan.h"

#include <string.h>

#include "error.h"

Plan *plan_copy(const Plan *plan) {
  Plan *copy = g_memdup2(plan, sizeof *plan);
  copy->schedule = g_strdup(plan->schedule);
  copy->pipeline_layout = g_strdup(plan->pipeline_layout);
  copy->framework = g_strdup(plan->framework);
  copy->slow_ranks = g_array_copy(plan->slow_ranks);
  copy->rank_map = plan->rank_map != NULL ? g_array_copy(plan->rank_map) : NULL;
  copy->file_order = plan->file_order != NULL ? order_ref(plan->file_order) : NULL;
  return copy;
}

void plan_free(Plan *plan) {
  if (plan == NULL)
    return;
  g_free(plan->schedule);
  g_free(plan->pipeline_layout);
  g_free(plan->framework);
  order_free(plan->file_order);
  g_clear_pointer(&plan->slow_ranks, g_array_unref);
  g_clear_pointer(&plan->rank_map, g_array_unref);
  g_free(plan);
}

void plan_set_framework(Plan *plan, const char *name, const Framework *framework) {
  const FrameworkMemory *memory = &framework->memory;
  char *own_name = g_strdup(name); /* before freeing the old one, which `name` may point to */
  g_free(plan->framework);
  plan->framework = own_name;
  plan->framework_file = g_intern_string(name);
  plan->framework_product = plan->framework_release = NULL;
  plan->memory = *memory;
  plan->time = framework->time;
  if (memory->recipe[0] == '\0' || plan->precision == PRECISION_FP32 || plan->precision == PRECISION_FP16)
    return;
  gboolean known = recipe_parse(memory->recipe, &plan->recipe, NULL);
  g_assert(known);
}

void plan_call_framework(Plan *plan, const char *name, const char *product, const char *release) {
  g_free(plan->framework);
  plan->framework = g_strdup(name);
  plan->framework_product = g_intern_string(product);
  plan->framework_release = g_intern_string(release);
}

int plan_expert_tp(const Plan *plan) {
  return plan->expert_tp > 0 ? plan->expert_tp : plan->tp;
}

int plan_data_ranks(const Plan *plan) {
  return MAX(plan->dp * plan->cp / MAX(plan->islands, 1), 1);
}

gboolean plan_has_plain_norm(const Plan *plan) {
  const int of_layer = plan->layer_kernels < 0 ? plan->time.kernels : plan->layer_kernels;
  return (plan->norm_kernel < 0 ? of_layer : plan->norm_kernel) == FRAMEWORK_KERNELS_PLAIN;
}

static int expert_dispatch(const Plan *plan) {
  return plan->expert_dispatch < 0 ? plan->time.expert_dispatch : plan->expert_dispatch;
}

gboolean plan_dispatches_once(const Plan *plan) {
  return expert_dispatch(plan) == DISPATCH_DEEPEP && plan->ep > 1;
}

gboolean plan_gathers_tokens(const Plan *plan) {
  return expert_dispatch(plan) == DISPATCH_ALL_GATHER && (plan->ep > 1 || plan_expert_tp(plan) > 1);
}

static gboolean has_pairs_of_schedule(const Plan *plan) {
  return plan->ep > 1 && plan_schedule(plan)->has_pairs;
}

gboolean plan_overlaps_experts(const Plan *plan) {
  if (has_pairs_of_schedule(plan))
    return TRUE;
  return plan->overlap_experts < 0 ? plan->time.expert_overlap == EXPERT_OVERLAP_ROUNDS : plan->overlap_experts > 0;
}

gboolean plan_takes_turns(const Plan *plan) {
  return plan->ep > 1 && plan_overlaps_experts(plan) && (!plan_gathers_tokens(plan) || has_pairs_of_schedule(plan));
}

gboolean plan_sums_whole(const Plan *plan) {
  if (plan->pp > 1)
    return plan->time.pipeline_gradients == PIPELINE_GRADIENTS_WHOLE && plan->n_pipes < 2;
  return plan->time.accumulated_gradients == ACCUMULATED_GRADIENTS_WHOLE && plan->n_micro_batches > 1;
}

gboolean plan_reduces_once(const Plan *plan) {
  return zero_shards_gradients(plan->zero) && plan_sums_whole(plan);
}

gboolean plan_overlaps_shards(const Plan *plan) {
  return plan->time.data_parallel == DP_SHARDS_BESIDE && zero_shards_weights(plan->zero);
}

void plan_set_schedule(Plan *plan, const char *name) {
  char *own_name = g_strdup(name); /* which may be the old one */
  g_free(plan->schedule);
  g_clear_pointer(&plan->file_order, order_free);
  plan->schedule = own_name;
}

void plan_default_schedule(Plan *plan) {
  if (plan->schedule == NULL)
    plan->schedule = g_strdup(schedule_default(plan->chunks));
}

const ScheduleFacts *plan_schedule(const Plan *plan) {
  return schedule_facts(plan->schedule != NULL ? plan->schedule : schedule_default(plan->chunks));
}

gboolean plan_parse_order(Plan *plan, const char *text, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text == NULL ? "" : text, "-", N_AXES + 2);
  Axis order[N_AXES];
  guint seen = 0;
  guint n_parts = g_strv_length(parts);
  for (guint i = 0; i < n_parts && i < N_AXES; i++) {
    int axis = parse_choice("order", parts[i], axis_names(), error);
    if (axis < 0)
      return FALSE;
    seen |= 1u << axis;
    order[i] = (Axis)axis;
  }
  if (n_parts != N_AXES || seen != (1u << N_AXES) - 1)
    return fail_input(error,
                      "order: found \"%.80s\", expected tp, cp, ep, dp and pp, each once, such as tp-cp-ep-dp-pp",
                      text == NULL ? "" : text);
  memcpy(plan->order, order, sizeof order);
  return TRUE;
}
