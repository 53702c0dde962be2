/* The plan as data: copies, names of its choices. plan_complete.c completes and checks it. */
#include "plan.h"

#include <string.h>

#include "error.h"
#include "suggest.h"

static const char *const axis_names[N_AXES + 1] = {
    [AXIS_TP] = "tp", [AXIS_CP] = "cp", [AXIS_EP] = "ep", [AXIS_DP] = "dp", [AXIS_PP] = "pp",
};
static const char *const recompute_table[N_RECOMPUTES + 1] = {
    [RECOMPUTE_NONE] = "none", [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_FULL] = "full"};
static const char *const attention_table[N_ATTENTIONS + 1] = {
    [ATTENTION_FLASH] = "flash", [ATTENTION_UNFUSED] = "unfused"};
static const char *const norm_kernel_table[] = {
    [FRAMEWORK_KERNELS_FUSED] = "fused", [FRAMEWORK_KERNELS_PLAIN] = "plain", NULL};
static const char *const cp_comm_table[N_CP_COMMS + 1] = {
    [CP_RING] = "ring", [CP_ALL_GATHER] = "all_gather", [CP_ULYSSES] = "ulysses"};
static const char *const cp_comm_engine_table[N_CP_COMMS + 1] = {
    [CP_RING] = "p2p", [CP_ALL_GATHER] = "all_gather", [CP_ULYSSES] = "a2a"};
static const char *const expert_dispatch_table[N_EXPERT_DISPATCHES + 1] = {
    [DISPATCH_ALL_TO_ALL] = "all_to_all", [DISPATCH_DEEPEP] = "deepep", [DISPATCH_ALL_GATHER] = "all_gather"};
static const char *const flops_table[N_FLOPS_CONVENTIONS + 1] = {
    [FLOPS_CAUSAL] = "causal", [FLOPS_MEGATRON] = "megatron", [FLOPS_6N] = "6n"};

Plan *plan_copy(const Plan *plan) {
  Plan *copy = g_memdup2(plan, sizeof *plan);
  copy->schedule = g_strdup(plan->schedule);
  copy->pipeline_layout = g_strdup(plan->pipeline_layout);
  copy->framework = g_strdup(plan->framework);
  copy->slow_ranks = g_array_copy(plan->slow_ranks);
  copy->rank_map = plan->rank_map != NULL ? g_array_copy(plan->rank_map) : NULL;
  return copy;
}

void plan_free(Plan *plan) {
  if (plan == NULL)
    return;
  g_free(plan->schedule);
  g_free(plan->pipeline_layout);
  g_free(plan->framework);
  g_clear_pointer(&plan->slow_ranks, g_array_unref);
  g_clear_pointer(&plan->rank_map, g_array_unref);
  g_free(plan);
}

void plan_set_framework(Plan *plan, const char *name, const Framework *framework) {
  const FrameworkMemory *memory = &framework->memory;
  char *own_name = g_strdup(name); /* before freeing the old one, which `name` may point to */
  g_free(plan->framework);
  plan->framework = own_name;
  plan->memory = *memory;
  plan->time = framework->time;
  if (memory->recipe[0] == '\0' || plan->precision == PRECISION_FP32 || plan->precision == PRECISION_FP16)
    return;
  gboolean known = recipe_parse(memory->recipe, &plan->recipe, NULL);
  g_assert(known);
}

int plan_expert_tp(const Plan *plan) {
  return plan->expert_tp > 0 ? plan->expert_tp : plan->tp;
}

int plan_ep_inside(int size, int *left) {
  const int inside = MIN(size, *left);
  if (size % inside != 0 || *left % inside != 0)
    return 0;
  *left /= inside;
  return inside;
}

int plan_data_ranks(const Plan *plan) {
  return plan->dp * plan->cp;
}

gboolean plan_has_plain_norm(const Plan *plan) {
  return plan->norm_kernel < 0 ? plan->time.kernels == FRAMEWORK_KERNELS_PLAIN
                               : plan->norm_kernel == FRAMEWORK_KERNELS_PLAIN;
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

gboolean plan_counts_on_host(const Plan *plan) {
  const gboolean has_counts = plan->ep > 1 || plan_gathers_tokens(plan);
  return has_counts && plan->time.expert_counts == EXPERT_COUNTS_ON_HOST && plan->cuda_graphs != CUDA_GRAPHS_FULL;
}

gboolean plan_has_expert_operations(const Plan *plan) {
  return plan->time.expert_operations == EXPERT_OPERATIONS_SINGLE && plan->cuda_graphs != CUDA_GRAPHS_FULL;
}

gboolean plan_rings_blocks(const Plan *plan) {
  return plan->cp > 1 && plan->cp_comm == CP_RING && plan->time.context == CONTEXT_BLOCKS;
}

gboolean plan_splits_stage_tensors(const Plan *plan) {
  return plan->time.stage_tensors == STAGE_TENSORS_SPLIT && plan->tp > 1 && !plan->sequence_parallel;
}

gboolean plan_sums_whole(const Plan *plan) {
  if (plan->pp > 1)
    return plan->time.pipeline_gradients == PIPELINE_GRADIENTS_WHOLE && plan->n_pipes < 2;
  return plan->time.accumulated_gradients == ACCUMULATED_GRADIENTS_WHOLE && plan->n_micro_batches > 1;
}

gboolean plan_reduces_once(const Plan *plan) {
  return plan->zero >= 2 && plan_sums_whole(plan);
}

double plan_buffer_passes(const Plan *plan) {
  const gboolean is_scaled = plan->time.gradient_scaling == GRADIENT_SCALING_APART && plan_data_ranks(plan) > 1;
  return plan->zero < 2 && plan->offload.optimizer == TIER_GPU ? plan->time.buffer_passes + (is_scaled ? 2 : 0) : 0;
}

static gboolean has_wide_exponents(const Plan *plan) {
  return plan->precision != PRECISION_FP32 && plan->precision != PRECISION_FP16;
}

double plan_gradient_add_bytes(const Plan *plan) {
  return has_wide_exponents(plan) ? plan->time.gradient_add_bytes : 0;
}

double plan_gradient_sum_bytes(const Plan *plan) {
  return has_wide_exponents(plan) && plan->time.gradient_sum_bytes > 0 ? plan->time.gradient_sum_bytes
                                                                       : plan->recipe.gradients;
}

double plan_whole_gradient_bytes(const Plan *plan) {
  return MAX(plan->recipe.gradients, plan_gradient_sum_bytes(plan));
}

gboolean plan_unscales_gradients(const Plan *plan) {
  return plan->precision == PRECISION_FP16 && plan->time.fp16_gradients == FP16_GRADIENTS_COPIED &&
         plan->recipe.master > 0;
}

double plan_copied_gradient_bytes(const Plan *plan) {
  const gboolean copies = plan_unscales_gradients(plan) && plan->recipe.gradients < plan->recipe.master;
  return copies && plan->offload.optimizer == TIER_GPU ? plan->recipe.master : 0;
}

void plan_default_schedule(Plan *plan) {
  if (plan->schedule == NULL)
    plan->schedule = g_strdup(schedule_default(plan->chunks));
}

const ScheduleFacts *plan_schedule(const Plan *plan) {
  return schedule_facts(plan->schedule != NULL ? plan->schedule : schedule_default(plan->chunks));
}

const char *axis_name(Axis axis) {
  g_assert(axis < N_AXES);
  return axis_names[axis];
}

const char *const *recompute_names(void) {
  return recompute_table;
}

const char *const *attention_names(void) {
  return attention_table;
}

const char *const *norm_kernel_names(void) {
  return norm_kernel_table;
}

const char *const *cuda_graphs_names(void) {
  static const char *const names[N_CUDA_GRAPHS + 1] = {"none", "router", "attention", "full", NULL};
  return names;
}

const char *const *expert_dispatch_names(void) {
  return expert_dispatch_table;
}

const char *const *cp_comm_names(void) {
  return cp_comm_table;
}

const char *const *cp_comm_engine_names(void) {
  return cp_comm_engine_table;
}

int cp_comm_parse(const char *what, const char *text, GError **error) {
  const int index = suggest_same(text, cp_comm_engine_table);
  return index >= 0 ? index : parse_choice(what, text, cp_comm_table, error);
}

const char *const *flops_convention_names(void) {
  return flops_table;
}

int parse_choice(const char *what, const char *text, const char *const *names, GError **error) {
  const int index = suggest_same(text, names);
  if (index >= 0)
    return index;
  g_autofree char *expected = suggest_message(text, names);
  fail_input(error, "%s: found \"%.80s\", %s", what, text == NULL ? "" : text, expected);
  return -1;
}

gboolean parse_switch(const char *what, const char *text, gboolean *value, GError **error) {
  if (text == NULL)
    return TRUE;
  const gboolean is_on = g_ascii_strcasecmp(text, "on") == 0;
  if (!is_on && g_ascii_strcasecmp(text, "off") != 0)
    return fail_input(error, "%s: found \"%.80s\", expected on or off", what, text);
  *value = is_on;
  return TRUE;
}

gboolean plan_parse_order(Plan *plan, const char *text, GError **error) {
  g_auto(GStrv) parts = g_strsplit(text == NULL ? "" : text, "-", N_AXES + 2);
  Axis order[N_AXES];
  guint seen = 0;
  guint n_parts = g_strv_length(parts);
  for (guint i = 0; i < n_parts && i < N_AXES; i++) {
    int axis = parse_choice("order", parts[i], axis_names, error);
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
