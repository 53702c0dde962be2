/* One row per field: how its value is stepped down (−1) and up (+1). What follows from others (dp,
 * the ranks a shard spans, chunks where the schedule decides) is left open again before a step, so that it follows
 * anew. */
#include "sensitivity.h"

#include <string.h>

#include "options.h"
#include "parallel.h"
#include "pipeline_layout.h"
#include "plan_fields.h"

/* A step changes the plan and says TRUE, or there is none that way. */
typedef struct {
  const char *option;
  gboolean (*step)(Plan *plan, const Model *model, int direction);
} Knob;

static gboolean step_size(int *size, int direction) {
  if (direction < 0 && (*size < 2 || *size % 2 != 0))
    return FALSE;
  *size = direction < 0 ? *size / 2 : *size * 2;
  return TRUE;
}

static gboolean step_wide_size(gint64 *size, int direction) {
  if (direction < 0 && (*size < 2 || *size % 2 != 0))
    return FALSE;
  *size = direction < 0 ? *size / 2 : *size * 2;
  return TRUE;
}

static gboolean step_within(int *value, int direction, int last) {
  if (*value + direction < 0 || *value + direction > last)
    return FALSE;
  *value += direction;
  return TRUE;
}

/* Experts are cut by all of tp or not at all, and want sequence parallelism beside it. */
static gboolean step_tp(Plan *plan, const Model *model, int direction) {
  const gboolean ok = step_size(&plan->tp, direction);
  if (plan->expert_tp > 1)
    plan->expert_tp = 0;
  if (model_has_experts(model) && plan->tp > 1)
    plan->sequence_parallel = TRUE;
  return ok;
}

static gboolean step_ep(Plan *plan, const Model *model, int direction) {
  return model_has_experts(model) && step_size(&plan->ep, direction);
}

/* Whole experts and cut ones. */
static gboolean step_expert_tp(Plan *plan, const Model *model, int direction) {
  plan->expert_tp = plan_expert_tp(plan) > 1 ? 1 : 0;
  return direction > 0 && model_has_experts(model) && plan->tp > 1;
}

/* A list is of so many stages. */
static void drop_layout(Plan *plan) {
  if (!pipeline_layout_is_balanced(plan->pipeline_layout))
    g_clear_pointer(&plan->pipeline_layout, g_free);
}

static gboolean step_pp(Plan *plan, const Model *model, int direction) {
  drop_layout(plan);
  if (plan->pp == 2 && direction < 0) { /* nothing is left to interleave */
    plan_set_schedule(plan, schedule_default(1));
    plan->chunks = 0;
  }
  return step_size(&plan->pp, direction);
}

static gboolean cuts_evenly(gint64 n_layers, gint64 n_stages) {
  return n_stages <= n_layers + 2 && (n_layers % n_stages == 0 || (n_layers + 2) % n_stages == 0);
}

static gboolean step_cp(Plan *plan, const Model *model, int direction) {
  return step_size(&plan->cp, direction);
}

/* To 1f1b's one chunk and from it; other schedules have the chunks they need. */
static gboolean step_chunks(Plan *plan, const Model *model, int direction) {
  if (plan->pp == 1 || !schedule_is_default(plan->schedule))
    return FALSE;
  int chunks = plan->chunks + direction;
  while (chunks > 1 && (gint64)chunks * plan->pp <= model->n_layers + 2 &&
         !cuts_evenly(model->n_layers, (gint64)chunks * plan->pp))
    chunks += direction;
  if (chunks < 1 || (gint64)chunks * plan->pp > model->n_layers + 2)
    return FALSE;
  plan->chunks = chunks;
  drop_layout(plan);
  plan_set_schedule(plan, schedule_default(chunks));
  return TRUE;
}

/* Zero-bubble schedules: on one chunk, and on two that make a V. */
static gboolean step_schedule(Plan *plan, const Model *model, int direction) {
  const char *other = direction < 0 ? "zb-h1" : "zb-v";
  if (plan->pp == 1 || schedule_facts(plan->schedule) == schedule_facts(other))
    return FALSE;
  drop_layout(plan);
  plan_set_schedule(plan, other);
  plan->chunks = plan->group = plan->steps = 0;
  plan->overlap_p2p = plan->grad_norm_barrier = -1;
  return TRUE;
}

static gboolean step_layout(Plan *plan, const Model *model, int direction) {
  const char *other = direction < 0 ? NULL : "balanced";
  if (plan->pp == 1 || g_strcmp0(plan->pipeline_layout, other) == 0)
    return FALSE;
  g_free(plan->pipeline_layout);
  plan->pipeline_layout = g_strdup(other);
  return TRUE;
}

static gboolean step_micro_batch(Plan *plan, const Model *model, int direction) {
  return step_wide_size(&plan->micro_batch, direction);
}

static gboolean step_global_batch(Plan *plan, const Model *model, int direction) {
  return step_wide_size(&plan->global_batch, direction);
}

static gboolean step_zero(Plan *plan, const Model *model, int direction) {
  return step_within(&plan->zero, direction, 3);
}

static gboolean step_recompute(Plan *plan, const Model *model, int direction) {
  int recompute = (int)plan->recompute;
  gboolean ok = step_within(&recompute, direction, N_RECOMPUTES - 1);
  plan->recompute = (Recompute)recompute;
  plan->recompute_modules = 0;
  return ok;
}

static gboolean step_sequence_parallel(Plan *plan, const Model *model, int direction) {
  plan->sequence_parallel = !plan->sequence_parallel;
  return direction > 0 && plan->tp > 1;
}

/* To fp8 and from it. */
static gboolean step_precision(Plan *plan, const Model *model, int direction) {
  const Precision from = direction < 0 ? PRECISION_FP8 : PRECISION_BF16;
  const gboolean is_from = plan->precision == from;
  plan->precision = from == PRECISION_FP8 ? PRECISION_BF16 : PRECISION_FP8;
  return is_from;
}

/* To a variant of it: torchtitan-compile of torchtitan. */
static gboolean step_framework(Plan *plan, const Model *model, int direction) {
  g_autofree char *name = direction > 0 && plan->framework != NULL ? framework_variant(plan->framework) : NULL;
  Framework framework;
  if (name == NULL || !framework_read(name, &framework, NULL))
    return FALSE;
  plan_set_framework(plan, name, &framework);
  return TRUE;
}

static gboolean step_overlap_grad(Plan *plan, const Model *model, int direction) {
  plan->overlap_grad = !plan->overlap_grad;
  return direction > 0;
}

static gboolean step_overlap_param(Plan *plan, const Model *model, int direction) {
  plan->overlap_param = !plan->overlap_param;
  return direction > 0 && zero_shards_optimizer(plan->zero);
}

static gboolean step_overlap_p2p(Plan *plan, const Model *model, int direction) {
  plan->overlap_p2p = !plan->overlap_p2p;
  return direction > 0 && plan->pp > 1;
}

static const Knob knobs[] = {
    {"--tp", step_tp},
    {"--pp", step_pp},
    {"--cp", step_cp},
    {"--ep", step_ep},
    {"--expert-tp", step_expert_tp},
    {"--chunks", step_chunks},
    {"--schedule", step_schedule},
    {"--pipeline-layout", step_layout},
    {"--micro-batch", step_micro_batch},
    {"--global-batch", step_global_batch},
    {"--zero", step_zero},
    {"--recompute", step_recompute},
    {"--sequence-parallel", step_sequence_parallel},
    {"--precision", step_precision},
    {"--framework", step_framework},
    {"--overlap-grad", step_overlap_grad},
    {"--overlap-param", step_overlap_param},
    {"--overlap-p2p", step_overlap_p2p},
};

/* As its option has it; what is left open follows from others. */
static char *value_of(const Knob *knob, const Plan *plan) {
  if (knob->step == step_expert_tp)
    return g_strdup_printf("%d", plan_expert_tp(plan));
  char *text = plan_field_text(plan_field(plan_field_find(knob->option + strlen("--"))), plan);
  return text != NULL ? text : g_strdup("none");
}

/* What was left open stays open but for what the table steps. */
static Plan *base_of(const PlanOutcome *best) {
  Plan *plan = plan_copy(best->plan);
  const Plan *completed = best->completed;
  plan->gpus = completed->gpus;
  plan->dp = 0;
  plan->chunks = completed->chunks;
  plan->micro_batch = completed->micro_batch;
  plan->global_batch = completed->global_batch;
  plan->overlap_p2p = completed->overlap_p2p;
  const char *schedule = schedule_run_name(completed->schedule);
  plan_set_schedule(plan, schedule);
  if (schedule != completed->schedule) { /* and runs as it does here */
    plan->grad_norm_barrier = completed->grad_norm_barrier;
    plan->steps = completed->steps;
  }
  return plan;
}

typedef struct {
  const PlanOutcome *best;
  const PlannerRequest *request;
  GPtrArray *plans; /* of each step */
  GArray *steps;
} Steps;

static void simulate(gint64 index, int thread, gpointer data) {
  const Steps *work = data;
  SensitivityStep *step = &g_array_index(work->steps, SensitivityStep, index);
  const PlanOutcome *best = work->best;
  const Plan *plan = work->plans->pdata[index];
  g_autoptr(GError) error = NULL;
  if (plan_options_check_model(plan, best->model, &error)) /* what is refused when it is typed is no step either */
    step->outcome = plan_outcome_new(best->model, best->cluster, plan, &work->request->scoring, &error);
  step->problem = error != NULL ? g_strdup(error->message) : NULL;
}

static void step_clear(gpointer data) {
  SensitivityStep *step = data;
  g_free(step->from);
  g_free(step->to);
  g_free(step->problem);
  plan_outcome_free(step->outcome);
}

static void add_step(Steps *work, const Plan *base, const Knob *knob, int direction) {
  g_autoptr(Plan) plan = plan_copy(base);
  if (!knob->step(plan, work->best->model, direction))
    return;
  SensitivityStep step = {.option = knob->option, .from = value_of(knob, base), .to = value_of(knob, plan)};
  g_array_append_val(work->steps, step);
  g_ptr_array_add(work->plans, g_steal_pointer(&plan));
}

GArray *sensitivity_new(const PlanOutcome *best, const PlannerRequest *request) {
  Steps work = {.best = best,
                .request = request,
                .plans = g_ptr_array_new_with_free_func((GDestroyNotify)plan_free),
                .steps = g_array_new(FALSE, TRUE, sizeof(SensitivityStep))};
  g_array_set_clear_func(work.steps, step_clear);
  g_autoptr(Plan) base = base_of(best);
  for (gsize i = 0; i < G_N_ELEMENTS(knobs); i++)
    for (int direction = -1; direction <= 1; direction += 2)
      add_step(&work, base, &knobs[i], direction);
  parallel_for(work.steps->len, request->n_threads, simulate, &work, NULL);
  g_ptr_array_unref(work.plans);
  return work.steps;
}
