/* One row per field: how its value is stepped down (−1) and up (+1), and where. What follows from others (dp, the ranks
 * a shard spans, chunks where the schedule decides) is left open again before a step, so that it follows anew. */
#include "sensitivity.h"

#include <string.h>

#include "error.h"
#include "options.h"
#include "pipeline_layout.h"
#include "plan_fields.h"

/* Changes the plan and says TRUE, or there is none that way. */
typedef gboolean (*Step)(Plan *plan, const Model *model, int direction);

typedef enum {
  BY_SIZE,  /* halved and doubled */
  BY_ONE,   /* the number or the choice before, and the next */
  BY_FLIP,  /* up: the other of on and off */
  BY_VALUE, /* down and up: to one of two from the other */
  BY_STEP   /* as its function says */
} How;

typedef struct {
  const char *option;
  How how;
  Step step;             /* what else changes, NULL: nothing; BY_STEP: all that does */
  const char *values[2]; /* BY_VALUE */
} Knob;

/* Experts are cut by all of tp or not at all, and want sequence parallelism beside it. */
static gboolean follow_tp(Plan *plan, const Model *model, int direction) {
  if (plan->expert_tp > 1)
    plan->expert_tp = 0;
  if (model_has_experts(model) && plan->tp > 1)
    plan->sequence_parallel = TRUE;
  return TRUE;
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

static gboolean follow_pp(Plan *plan, const Model *model, int direction) {
  drop_layout(plan);
  if (plan->pp == 1) { /* nothing is left to interleave */
    plan_set_schedule(plan, schedule_default(1));
    plan->chunks = 0;
  }
  return TRUE;
}

static gboolean cuts_evenly(gint64 n_layers, gint64 n_stages) {
  return n_stages <= n_layers + 2 && (n_layers % n_stages == 0 || (n_layers + 2) % n_stages == 0);
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

static gboolean follow_recompute(Plan *plan, const Model *model, int direction) {
  plan->recompute_modules = 0;
  plan->recompute_layers = 0;
  return plan->recompute <= RECOMPUTE_FULL; /* others need a number of layers */
}

/* To a variant of it: torchtitan-compile of torchtitan. */
static gboolean step_framework(Plan *plan, const Model *model, int direction) {
  g_autofree char *name = direction > 0 && plan->framework != NULL ? framework_variant(plan->framework_file) : NULL;
  Framework framework;
  if (name == NULL || !framework_read(name, &framework, NULL))
    return FALSE;
  plan_set_framework(plan, name, &framework);
  return TRUE;
}

static const Knob knobs[] = {
    {"--tp", BY_SIZE, .step = follow_tp},
    {"--pp", BY_SIZE, .step = follow_pp},
    {"--cp", BY_SIZE},
    {"--ep", BY_SIZE},
    {"--expert-tp", BY_STEP, .step = step_expert_tp},
    {"--chunks", BY_STEP, .step = step_chunks},
    {"--schedule", BY_STEP, .step = step_schedule},
    {"--pipeline-layout", BY_STEP, .step = step_layout},
    {"--micro-batch", BY_SIZE},
    {"--global-batch", BY_SIZE},
    {"--zero", BY_ONE},
    {"--recompute", BY_ONE, .step = follow_recompute},
    {"--sequence-parallel", BY_FLIP},
    {"--precision", BY_VALUE, .values = {"bf16", "fp8"}},
    {"--framework", BY_STEP, .step = step_framework},
    {"--overlap-grad", BY_FLIP},
    {"--overlap-param", BY_FLIP},
    {"--overlap-p2p", BY_FLIP},
};

/* As its option has it; what is left open follows from others. */
static char *value_of(const Knob *knob, const PlanField *field, const Plan *plan) {
  if (knob->step == step_expert_tp)
    return g_strdup_printf("%d", plan_expert_tp(plan));
  char *text = plan_field_text(field, plan);
  return text != NULL ? text : g_strdup("none");
}

/* Owned by the caller; NULL: there is none that way. */
static char *next_value(const Knob *knob, const PlanField *field, const Plan *plan, int direction) {
  g_autofree char *text = plan_field_text(field, plan);
  gint64 number = g_ascii_strtoll(text, NULL, 10);
  switch (knob->how) {
  case BY_SIZE:
    if (direction < 0 && (number < 2 || number % 2 != 0))
      return NULL;
    return g_strdup_printf("%" G_GINT64_FORMAT, direction < 0 ? number / 2 : number * 2);
  case BY_ONE:
    for (int i = 0; field->names != NULL && field->names()[i] != NULL; i++)
      number = g_str_equal(field->names()[i], text) ? i : number;
    number += direction;
    if (field->names != NULL)
      return number < 0 ? NULL : g_strdup(field->names()[number]);
    return number < field->least || number > field->most ? NULL : g_strdup_printf("%" G_GINT64_FORMAT, number);
  case BY_FLIP:
    return direction > 0 ? g_strdup(g_str_equal(text, "on") ? "off" : "on") : NULL;
  default:
    return g_str_equal(text, knob->values[direction < 0]) ? g_strdup(knob->values[direction > 0]) : NULL;
  }
}

/* NULL: there is no step that way. */
static Plan *stepped(const Knob *knob, const PlanField *field, const Plan *base, const Model *model, int direction) {
  if (knob->how == BY_STEP) {
    g_autoptr(Plan) plan = plan_copy(base);
    return knob->step(plan, model, direction) ? g_steal_pointer(&plan) : NULL;
  }
  if (!vary_is_felt(base, model, field->name))
    return NULL;
  g_autofree char *value = next_value(knob, field, base, direction);
  Plan *plan = value != NULL ? vary(base, field->name, value) : NULL;
  if (plan != NULL && knob->step != NULL)
    knob->step(plan, model, direction);
  return plan;
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

GArray *sensitivity_new(const PlanOutcome *best, const PlannerRequest *request) {
  GArray *steps = variants_new();
  g_autoptr(Plan) base = base_of(best);
  for (gsize i = 0; i < 2 * G_N_ELEMENTS(knobs); i++) {
    const Knob *knob = &knobs[i / 2];
    const PlanField *field = plan_field(plan_field_find(knob->option + strlen("--")));
    Plan *plan = stepped(knob, field, base, best->model, i % 2 == 0 ? -1 : 1);
    if (plan == NULL)
      continue;
    Variant *step = variants_add(steps, best->model, best->cluster, plan);
    step->option = knob->option;
    step->from = value_of(knob, field, base);
    step->to = value_of(knob, field, plan);
    plan_options_check_model(plan, best->model, &step->problem); /* what is refused when typed is no step either */
  }
  const VaryHow how = {.n_threads = request->n_threads, .scoring = &request->scoring};
  variants_predict(steps, &how, NULL);
  return steps;
}
