/* Each run is a job of its own, which writes nothing but its own entry, so that threads cannot change a number. */
#include "many_runs.h"

#include <math.h>

#include "error.h"
#include "parallel.h"
#include "predict.h"

static void many_run_clear(gpointer data) {
  ManyRun *run = data;
  g_free(run->label);
  g_free(run->problem);
  plan_free(run->plan);
}

GArray *many_runs_new(void) {
  GArray *runs = g_array_new(FALSE, FALSE, sizeof(ManyRun));
  g_array_set_clear_func(runs, many_run_clear);
  return runs;
}

void many_runs_add(GArray *runs, const char *label, const Model *model, const Cluster *cluster, Plan *plan) {
  ManyRun run = {.label = g_strdup(label), .model = model, .cluster = cluster, .plan = plan};
  g_array_append_val(runs, run);
}

/* Mean time of each kind of pass, per rank and micro-batch; a B that is not split counts as I and W in equal parts,
 * which no closed form of a schedule with whole B's tells from other parts. */
static PhaseTimes mean_passes(const Trace *trace) {
  double ns[N_ACTIONS] = {0};
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    for (int i = 0; i < list->n_ops; i++) {
      gsize record = trace->first[rank] + (gsize)i;
      if (list->ops[i].kind == OP_COMPUTE && trace->start_ns[record] >= 0)
        ns[list->ops[i].action] += (double)(trace->end_ns[record] - trace->start_ns[record]);
    }
  }
  const Program *program = trace->program;
  double n = (double)trace->n_ranks * program->n_micro_batches * program->n_steps;
  PhaseTimes times = {.f = ns[ACTION_F] / n,
                      .i = (ns[ACTION_I] + 0.5 * ns[ACTION_B]) / n,
                      .w = (ns[ACTION_W] + 0.5 * ns[ACTION_B]) / n};
  times.pair = times.f + times.i + times.w;
  return times;
}

static double closed_form(const Prediction *prediction) {
  const Plan *plan = prediction->workload->plan;
  const ScheduleFacts *schedule = schedule_find(plan->schedule, NULL);
  if (schedule == NULL)
    return NAN;
  const PhaseTimes times = mean_passes(prediction->trace);
  const OrderShape shape = {plan->pp, plan->chunks, (int)plan->n_micro_batches, plan->group};
  const Bubble bubble = schedule_bubble(schedule, shape, &times);
  return bubble.is_exact ? bubble.time / (bubble.time + shape.n_micro_batches * times.pair) : NAN;
}

static void take(ManyRun *run, const Prediction *prediction) {
  run->gpus = prediction->workload->plan->gpus;
  run->step_time_s = prediction->step_time_s;
  run->tokens_per_s = prediction->tokens_per_s;
  run->mfu = prediction->mfu;
  run->bubble_fraction = prediction->metrics->bubble_fraction;
  for (int part = 0; part < N_BREAKDOWN; part++)
    run->breakdown_s[part] = prediction->metrics->mean_s[part];
  for (int category = 0; category < N_MEMORY; category++)
    run->memory_bytes[category] = prediction->memory->at_peak.bytes[category];
  run->peak_bytes = prediction->memory->peak_bytes;
  run->reserved_bytes = run->cluster->gpu.reserved_bytes;
  run->capacity_bytes = run->cluster->gpu.hbm_bytes;
  run->fits = prediction->fits;
  run->closed_form_bubble = closed_form(prediction);
}

typedef struct {
  GArray *runs;
  GError **problems; /* [runs] */
} Jobs;

static void predict_one(gint64 i, int thread, gpointer data) {
  const Jobs *all = data;
  ManyRun *run = many_runs_get(all->runs, (guint)i);
  g_autoptr(Prediction) prediction = predict(run->model, run->cluster, run->plan, &all->problems[i]);
  if (prediction != NULL)
    take(run, prediction);
}

gboolean many_runs_predict(GArray *runs, int n_threads, GError **error) {
  g_autofree GError **problems = g_new0(GError *, runs->len);
  const int most = n_threads > 0 ? n_threads : parallel_threads();
  Jobs all = {runs, problems};
  parallel_for(runs->len, most, predict_one, &all, NULL);
  gboolean is_sound = TRUE;
  for (guint i = 0; i < runs->len; i++) {
    g_autoptr(GError) problem = problems[i];
    ManyRun *run = many_runs_get(runs, i);
    if (problem == NULL)
      continue;
    run->problem = g_strdup(problem->message);
    if (is_sound && !g_error_matches(problem, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE)) {
      is_sound = FALSE;
      g_propagate_prefixed_error(error, g_steal_pointer(&problem), "%s: ", run->label);
    }
  }
  return is_sound;
}

guint many_runs_count_possible(const GArray *runs) {
  guint n = 0;
  for (guint i = 0; i < runs->len; i++)
    n += many_runs_get(runs, i)->problem == NULL;
  return n;
}
