/* A plan as options that give it again: those that say how the model is cut and the batch, then what is not as it is
 * left out. */
#include <math.h>
#include <string.h>

#include "int64_format.h"
#include "plan_order.h"
#include "planner_report.h"

/* A name as one word of a shell. */
static void append_name(GString *out, const char *option, const char *name) {
  const gboolean is_plain = strpbrk(name, " \t\n'\"\\$`&;|<>()*?[]{}~#!") == NULL;
  g_autofree char *quoted = is_plain ? g_strdup(name) : g_shell_quote(name);
  g_string_append_printf(out, " --%s %s", option, quoted);
}

static void append_switch(GString *out, const char *option, gboolean is_on, gboolean left_out) {
  if (is_on != left_out)
    g_string_append_printf(out, " --%s %s", option, is_on ? "on" : "off");
}

static void append_count(GString *out, const char *option, gint64 count, gint64 left_out) {
  if (count != left_out)
    g_string_append_printf(out, " --%s %" INT64, option, count);
}

static void append_share(GString *out, const char *option, double share, double left_out) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  if (share != left_out)
    g_string_append_printf(out, " --%s %s", option, g_ascii_dtostr(text, sizeof text, share));
}

static void append_order(GString *out, const Plan *plan, const Plan *left_out) {
  if (memcmp(plan->order, left_out->order, sizeof plan->order) == 0)
    return;
  for (int i = 0; i < N_AXES; i++)
    g_string_append_printf(out, "%s%s", i == 0 ? " --order " : "-", axis_name(plan->order[i]));
}

/* Those of the framework, or core_attn, need not be said. */
static void append_modules(GString *out, const Plan *plan) {
  g_autofree char *modules = recompute_modules_text(plan->recompute_modules, "+");
  if (plan->recompute_modules != 0)
    g_string_append_printf(out, " --recompute-modules %s", modules);
}

/* Where it differs from the framework's, and the model heeds it. */
static void append_norm_kernel(GString *out, const Plan *plan, const Model *model) {
  if (plan->norm_kernel < 0 || model->norm != NORM_RMSNORM)
    return;
  if ((plan->norm_kernel == FRAMEWORK_KERNELS_PLAIN) != (plan->time.kernels == FRAMEWORK_KERNELS_PLAIN))
    g_string_append_printf(out, " --norm-kernel %s", norm_kernel_names()[plan->norm_kernel]);
}

static void append_methods(GString *out, const Plan *plan, const Model *model, const Plan *left_out) {
  if (plan->framework != NULL)
    append_name(out, "framework", plan->framework);
  if (plan->precision != left_out->precision)
    g_string_append_printf(out, " --precision %s", precision_info(plan->precision)->name);
  if (strcmp(plan->recipe.name, left_out->recipe.name) != 0 || plan->framework != NULL)
    g_string_append_printf(out, " --recipe %s", plan->recipe.name);
  if (plan->attention != left_out->attention)
    g_string_append_printf(out, " --attention %s", attention_names()[plan->attention]);
  append_norm_kernel(out, plan, model);
  if (plan->cuda_graphs > CUDA_GRAPHS_NONE ||
      (plan->cuda_graphs == CUDA_GRAPHS_NONE && plan->time.grace_expert_graphs != CUDA_GRAPHS_NONE))
    g_string_append_printf(out, " --cuda-graphs %s", cuda_graphs_names()[plan->cuda_graphs]);
  if (plan->flops != left_out->flops)
    g_string_append_printf(out, " --flops %s", flops_convention_names()[plan->flops]);
}

/* What is done about their tokens is said where it differs from the framework's. */
static void append_experts(GString *out, const Plan *plan) {
  g_string_append_printf(out, " --ep %d", plan->ep);
  if (plan->expert_dispatch >= 0 && plan->expert_dispatch != plan->time.expert_dispatch)
    g_string_append_printf(out, " --expert-dispatch %s", expert_dispatch_names()[plan->expert_dispatch]);
  const gboolean is_open = plan->time.grace_mxfp8_step == GRACE_STEP_REPLAYED; /* what it would be left out */
  if (plan->overlap_experts >= 0)
    append_switch(out, "overlap-experts", plan->overlap_experts,
                  is_open ? !plan->overlap_experts : plan->time.expert_overlap == EXPERT_OVERLAP_ROUNDS);
}

/* What may be left to the schedule, and stands open in a plan then. */
static void append_pipeline(GString *out, const Plan *plan, const Plan *left_out) {
  append_switch(out, "overlap-p2p", plan->overlap_p2p, left_out->overlap_p2p);
  append_switch(out, "grad-norm-barrier", plan->grad_norm_barrier, left_out->grad_norm_barrier);
  append_count(out, "steps", plan->steps, left_out->steps);
}

static void append_offload(GString *out, const Offload *offload) {
  const struct {
    const char *option;
    MemoryTier tier;
  } parts[] = {{"optimizer", offload->optimizer}, {"weights", offload->weights}, {"activations", offload->activations}};
  for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
    if (parts[i].tier != TIER_GPU)
      g_string_append_printf(out, " --offload-%s %s", parts[i].option, offload_names()[parts[i].tier]);
}

static void append_runtime(GString *out, const Plan *plan, const Plan *left_out) {
  append_switch(out, "overlap-grad", plan->overlap_grad, left_out->overlap_grad);
  append_switch(out, "overlap-param", plan->overlap_param, left_out->overlap_param);
  append_switch(out, "contention", plan->contention, left_out->contention);
  append_count(out, "mtp-layers", plan->mtp_layers, left_out->mtp_layers);
  append_count(out, "zero-ranks", plan->zero_ranks, left_out->zero_ranks);
  append_count(out, "micro-batch-group", plan->group, left_out->group);
  append_count(out, "bucket", plan->bucket_parameters, left_out->bucket_parameters);
  append_count(out, "prefetch", plan->prefetch, left_out->prefetch);
  append_offload(out, &plan->offload);
  append_order(out, plan, left_out);
  append_share(out, "jitter", plan->jitter, left_out->jitter);
  append_share(out, "expert-load", plan->expert_load, left_out->expert_load);
  append_count(out, "seed", (gint64)plan->seed, (gint64)left_out->seed);
  if (plan->jitter == 0)
    append_switch(out, "fold", plan->fold, left_out->fold);
}

/* `schedule` has one chunk where none are said, but some have two, and auto chooses. */
static void append_chunks(GString *out, const Plan *plan, const char *schedule) {
  const ScheduleFacts *info = schedule_find(schedule, NULL);
  if (plan->chunks > 1 || schedule_is_auto(schedule) || (info != NULL && schedule_default_chunks(info, plan->pp) > 1))
    g_string_append_printf(out, " --chunks %d", plan->chunks);
}

/* What auto's order was held to beyond what the GPU has; 0: nothing. */
static double memory_cap(const PlanOutcome *outcome) {
  if (outcome->plan->memory_cap > 0)
    return outcome->plan->memory_cap;
  return outcome->margin_bytes > 0 ? gpu_room_bytes(&outcome->cluster->gpu) : 0;
}

char *planner_options(const PlanOutcome *outcome) {
  const Plan *plan = outcome->completed;
  const char *schedule = schedule_run_name(plan->schedule);
  GString *out = g_string_new(NULL);
  g_string_append_printf(out, "--gpus %d --tp %d --pp %d", plan->gpus, plan->tp, plan->pp);
  if (plan->cp > 1)
    g_string_append_printf(out, " --cp %d --cp-comm %s", plan->cp, cp_comm_names()[plan->cp_comm]);
  if (plan->ep > 1)
    append_experts(out, plan);
  if (plan->expert_tp > 0)
    g_string_append_printf(out, " --expert-tp %d", plan->expert_tp);
  g_string_append_printf(out, " --dp %d", plan->dp);
  append_name(out, "schedule", schedule);
  if (schedule_is_auto(plan->schedule) && memory_cap(outcome) > 0)
    g_string_append_printf(out, " --memory-cap %.0fB", floor(memory_cap(outcome)));
  append_chunks(out, plan, schedule);
  if (plan->pipeline_layout != NULL)
    append_name(out, "pipeline-layout", plan->pipeline_layout);
  g_string_append_printf(out, " --micro-batch %" INT64 " --global-batch %" INT64 " --seq-len %" INT64,
                         plan->micro_batch, plan->global_batch, plan->seq_len);
  g_string_append_printf(out, " --zero %d --recompute %s --sequence-parallel %s", plan->zero,
                         recompute_names()[plan->recompute], plan->sequence_parallel ? "on" : "off");
  append_modules(out, plan);
  g_autoptr(Plan) left_out = plan_new();
  append_methods(out, outcome->plan, outcome->model, left_out);
  /* the schedule that stands for auto runs as auto does */
  append_pipeline(out, schedule != plan->schedule ? plan : outcome->plan, left_out);
  append_runtime(out, outcome->plan, left_out);
  return g_string_free(out, FALSE);
}
