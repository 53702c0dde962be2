#include "plan_outcome.h"

#include <math.h>
#include <string.h>

#include "mixed_gpus.h"
#include "plan_fields.h"
#include "warnings.h"

static double price_of(const PlanScoring *scoring, const Cluster *cluster) {
  return scoring->dollars_per_gpu_hour >= 0 ? scoring->dollars_per_gpu_hour : cluster->dollars_per_gpu_hour;
}

/* A score is a step's seconds times this. */
static double weight_of(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  double tokens = workload_tokens(workload), price = price_of(scoring, cluster);
  if (scoring->objective == OBJECTIVE_COST)
    return plan->gpus * (price > 0 ? price / 3600 : 1) / tokens;
  if (scoring->objective == OBJECTIVE_MFU)
    return plan->gpus * mixed_gpus_peak_flops(workload, cluster) / workload_model_flops(workload);
  return 1 / tokens;
}

double plan_score(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster, gint64 step_ns,
                  double share) {
  const double paid_s = 1e-9 * (double)step_ns / (scoring->objective == OBJECTIVE_COST ? share : 1);
  return paid_s * weight_of(scoring, workload, cluster);
}

double plan_tokens_per_s(const Workload *workload, gint64 step_ns) {
  return workload_tokens(workload) / (1e-9 * (double)step_ns);
}

static double excess_of(const Prediction *prediction, const PlanOutcome *outcome) {
  double excess_bytes = outcome->total_bytes - outcome->capacity_bytes;
  for (int tier = TIER_HOST; tier < N_TIERS; tier++)
    if (!prediction->tiers[tier].fits)
      excess_bytes = MAX(excess_bytes, prediction->tiers[tier].bytes - prediction->tiers[tier].capacity_bytes);
  return excess_bytes;
}

PlanOutcome *plan_outcome_of(const Prediction *prediction, const Model *model, const Cluster *cluster, const Plan *plan,
                             const PlanScoring *scoring) {
  PlanOutcome *outcome = g_new0(PlanOutcome, 1);
  const Workload *workload = prediction->workload;
  double reserved_bytes = cluster->gpu.reserved_bytes;
  outcome->index = -1;
  outcome->model = model;
  outcome->cluster = cluster; /* not the prediction's, which may be its own */
  outcome->plan = plan_copy(plan);
  outcome->completed = plan_copy(workload->plan);
  outcome->step_time_s = prediction->step_time_s;
  outcome->interval = prediction->interval;
  outcome->tokens_per_s = prediction->tokens_per_s;
  outcome->mfu = prediction->mfu;
  memcpy(outcome->breakdown_s, prediction->metrics->mean_s, sizeof outcome->breakdown_s);
  memcpy(outcome->memory_bytes, prediction->memory->at_peak.bytes, sizeof outcome->memory_bytes);
  outcome->peak_bytes = prediction->memory->peak_bytes;
  outcome->total_bytes = outcome->peak_bytes + reserved_bytes;
  outcome->capacity_bytes = mixed_gpus_room_bytes(workload, cluster) + reserved_bytes;
  outcome->margin_bytes = mixed_gpus_smallest(workload, cluster)->margin_bytes;
  outcome->excess_bytes = excess_of(prediction, outcome);
  outcome->fits = prediction->fits;
  outcome->has_goodput = goodput_of(model, cluster, workload->plan, outcome->step_time_s, &outcome->goodput);
  outcome->score = plan_score(scoring, workload, cluster, prediction->metrics->step_ns,
                              outcome->has_goodput ? outcome->goodput.share : 1);
  outcome->dollars_per_gpu_hour = price_of(scoring, cluster);
  return outcome;
}

PlanOutcome *plan_outcome_new(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                              const PlanScoring *scoring, GError **error) {
  g_autoptr(Prediction) prediction = predict_numbers(predictor, model, cluster, plan, error);
  return prediction != NULL ? plan_outcome_of(prediction, model, cluster, plan, scoring) : NULL;
}

void plan_outcome_free(PlanOutcome *outcome) {
  if (outcome == NULL)
    return;
  plan_free(outcome->plan);
  plan_free(outcome->completed);
  g_free(outcome);
}

double plan_outcome_kept_tokens_per_s(const PlanOutcome *outcome) {
  return outcome->tokens_per_s * (outcome->has_goodput ? outcome->goodput.share : 1);
}

double plan_outcome_dollars_per_million_tokens(const PlanOutcome *outcome) {
  return outcome->completed->gpus * outcome->dollars_per_gpu_hour / 3600 / plan_outcome_kept_tokens_per_s(outcome) *
         1e6;
}

double plan_outcome_used(const PlanOutcome *outcome) {
  return outcome->total_bytes / (outcome->capacity_bytes + outcome->margin_bytes);
}

GPtrArray *plan_outcome_warnings(const PlanOutcome *outcome) {
  return warnings_new(outcome->completed, outcome->cluster->gpus_per_node, plan_outcome_used(outcome));
}

int plan_outcome_compare(gconstpointer a, gconstpointer b) {
  const PlanOutcome *x = *(PlanOutcome *const *)a, *y = *(PlanOutcome *const *)b;
  if (x->score != y->score)
    return x->score < y->score ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* --- as options --- */

/* A plan as options that give it again: those that say how the model is cut and the batch, as they came out, then
 * every other field that was asked for and is not as it is left out. */

typedef struct {
  const PlanOutcome *outcome;
  const Plan *asked, *completed, *left_out; /* of outcome, and a new plan */
} Said;

/* The text of a field's option, owned by the caller; NULL: it need not be said. */
typedef char *(*Say)(const Said *said, const PlanField *field);

static char *unless_left_out(const PlanField *field, const Plan *plan, const Plan *left_out) {
  g_autofree char *text = plan_field_text(field, plan), *otherwise = plan_field_text(field, left_out);
  return g_strcmp0(text, otherwise) != 0 ? g_steal_pointer(&text) : NULL;
}

static char *as_asked(const Said *said, const PlanField *field) {
  return unless_left_out(field, said->asked, said->left_out);
}

static char *as_completed(const Said *said, const PlanField *field) {
  return plan_field_text(field, said->completed);
}

static char *completed_if(gboolean is_said, const Said *said, const PlanField *field) {
  return is_said ? as_completed(said, field) : NULL;
}

static char *of_context(const Said *said, const PlanField *field) {
  return completed_if(said->completed->cp > 1, said, field);
}

static char *of_experts(const Said *said, const PlanField *field) {
  return completed_if(said->completed->ep > 1, said, field);
}

/* What is done about tokens of experts is said where it differs from the framework's. */
static char *dispatch(const Said *said, const PlanField *field) {
  const Plan *plan = said->completed;
  return completed_if(plan->ep > 1 && plan->expert_dispatch != plan->time.expert_dispatch, said, field);
}

static char *overlap_experts(const Said *said, const PlanField *field) {
  const Plan *plan = said->completed;
  const gboolean is_open = plan->time.grace_mxfp8_step == GRACE_STEP_REPLAYED; /* what it would be left out */
  const gboolean left_out = plan->time.expert_overlap == EXPERT_OVERLAP_ROUNDS;
  return completed_if(plan->ep > 1 && (is_open || plan->overlap_experts != left_out), said, field);
}

static char *expert_tp(const Said *said, const PlanField *field) {
  return completed_if(said->completed->expert_tp > 0, said, field);
}

static char *schedule(const Said *said, const PlanField *field) {
  return g_strdup(schedule_run_name(said->completed->schedule));
}

/* What auto's order was held to beyond what the GPU has. */
static char *memory_cap(const Said *said, const PlanField *field) {
  const PlanOutcome *outcome = said->outcome;
  const double bytes = said->asked->memory_cap > 0 ? said->asked->memory_cap
                       : outcome->margin_bytes > 0 ? gpu_room_bytes(&outcome->cluster->gpu)
                                                   : 0;
  return schedule_is_auto(said->completed->schedule) && bytes > 0 ? g_strdup_printf("%.0fB", floor(bytes)) : NULL;
}

/* A schedule has one chunk where none are said, but some have two, and auto chooses. */
static char *chunks(const Said *said, const PlanField *field) {
  const Plan *plan = said->completed;
  const char *name = schedule_run_name(plan->schedule);
  return completed_if(plan->chunks > 1 || schedule_is_auto(name) ||
                          schedule_default_chunks(schedule_facts(name), plan->pp) > 1,
                      said, field);
}

static char *layout(const Said *said, const PlanField *field) {
  return completed_if(said->completed->pipeline_layout != NULL, said, field);
}

/* core_attn need not be said. */
static char *modules(const Said *said, const PlanField *field) {
  const guint set = said->completed->recompute_modules;
  return set != 0 ? recompute_modules_text(set, "+") : NULL;
}

static char *recompute_layers(const Said *said, const PlanField *field) {
  return completed_if(said->completed->recompute_layers > 0, said, field);
}

static char *recipe(const Said *said, const PlanField *field) {
  return said->asked->framework != NULL ? plan_field_text(field, said->asked) : as_asked(said, field);
}

/* Where they differ from the framework's. */
static char *layer_kernels(const Said *said, const PlanField *field) {
  const Plan *plan = said->asked;
  return plan->layer_kernels >= 0 && plan->layer_kernels != plan->time.kernels ? plan_field_text(field, plan) : NULL;
}

static char *loss(const Said *said, const PlanField *field) {
  const Plan *plan = said->asked;
  return plan->loss >= 0 && plan->loss != plan->time.loss ? plan_field_text(field, plan) : NULL;
}

/* Where it differs from the layer's, and the model heeds it. */
static char *norm_kernel(const Said *said, const PlanField *field) {
  const Plan *plan = said->asked;
  const gboolean is_said = plan->norm_kernel >= 0 && said->outcome->model->norm == NORM_RMSNORM &&
                           plan->norm_kernel != said->completed->layer_kernels;
  return is_said ? plan_field_text(field, plan) : NULL;
}

static char *cuda_graphs(const Said *said, const PlanField *field) {
  const Plan *plan = said->asked;
  const gboolean is_none_said = plan->time.grace_expert_graphs != CUDA_GRAPHS_NONE;
  return plan->cuda_graphs > CUDA_GRAPHS_NONE || is_none_said ? plan_field_text(field, plan) : NULL;
}

/* What may be left to the schedule, and stands open in a plan then. The schedule that stands for auto runs as auto
 * does. */
static char *of_schedule(const Said *said, const PlanField *field) {
  const char *name = said->completed->schedule;
  return unless_left_out(field, schedule_run_name(name) != name ? said->completed : said->asked, said->left_out);
}

static char *fold(const Said *said, const PlanField *field) {
  return said->asked->jitter == 0 ? as_asked(said, field) : NULL;
}

/* What comes first, or is said by another rule than as_asked(). All others follow as --help has them. */
static const struct {
  const char *field;
  Say say;
} first[] = {
    {"gpus", as_completed},
    {"tp", as_completed},
    {"pp", as_completed},
    {"cp", of_context},
    {"cp-comm", of_context},
    {"ep", of_experts},
    {"expert-dispatch", dispatch},
    {"overlap-experts", overlap_experts},
    {"expert-tp", expert_tp},
    {"dp", as_completed},
    {"schedule", schedule},
    {"memory-cap", memory_cap},
    {"chunks", chunks},
    {"pipeline-layout", layout},
    {"micro-batch", as_completed},
    {"global-batch", as_completed},
    {"seq-len", as_completed},
    {"zero", as_completed},
    {"recompute", as_completed},
    {"recompute-num-layers", recompute_layers},
    {"sequence-parallel", as_completed},
    {"recompute-modules", modules},
    {"framework", as_asked},
    {"precision", as_asked},
    {"recipe", recipe},
    {"layer-kernels", layer_kernels},
    {"norm-kernel", norm_kernel},
    {"loss", loss},
    {"cuda-graphs", cuda_graphs},
    {"overlap-p2p", of_schedule},
    {"grad-norm-barrier", of_schedule},
    {"steps", of_schedule},
    {"fold", fold},
};

static gboolean is_first(const PlanField *field) {
  for (gsize i = 0; i < G_N_ELEMENTS(first); i++)
    if (strcmp(first[i].field, field->name) == 0)
      return TRUE;
  return FALSE;
}

static void add(PlanFile *file, const PlanField *field, Say say, const Said *said) {
  g_autofree char *text = say(said, field);
  if (text != NULL)
    plan_file_add(file, field->name, text, 0);
}

PlanFile *plan_outcome_file(const PlanOutcome *outcome, const char *path) {
  g_autoptr(Plan) left_out = plan_new();
  const Said said = {outcome, outcome->plan, outcome->completed, left_out};
  PlanFile *file = plan_file_new(path);
  for (gsize i = 0; i < G_N_ELEMENTS(first); i++)
    add(file, plan_field(plan_field_find(first[i].field)), first[i].say, &said);
  for (int i = 0; i < plan_n_fields(); i++)
    if (!is_first(plan_field(i)))
      add(file, plan_field(i), as_asked, &said);
  return file;
}

/* Each as a word of a shell. */
char *plan_outcome_options(const PlanOutcome *outcome) {
  g_autoptr(PlanFile) file = plan_outcome_file(outcome, NULL);
  GString *out = g_string_new(NULL);
  for (guint i = 0; i < file->entries->len; i++) {
    const PlanFileEntry *entry = &g_array_index(file->entries, PlanFileEntry, i);
    const gboolean is_plain = strpbrk(entry->text, " \t\n'\"\\$`&;|<>()*?[]{}~#!") == NULL;
    g_autofree char *quoted = is_plain ? g_strdup(entry->text) : g_shell_quote(entry->text);
    g_string_append_printf(out, "%s--%s %s", out->len > 0 ? " " : "", entry->option, quoted);
  }
  return g_string_free(out, FALSE);
}
