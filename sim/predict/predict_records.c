/* Runs a Program: the trace, and what it was made from. */
#include "predict_parts.h"

#include "error.h"
#include "link_health.h"
#include "mixed_gpus.h"
#include "timing_model.h"
#include "units.h"

/* A run keeps three int64 per recorded rank and op; beyond this limit it would exhaust the machine instead of
 * answering. */
static const double MAX_RECORD_BYTES = 16.0 * 1024 * 1024 * 1024;

/* For a run whose lists have n_ops ops in all. */
static double record_bytes(const Program *program, const Workload *workload, double n_ops) {
  const double n_ranks = workload->plan->fold ? program->n_ranks : workload->layout.n_ranks;
  return n_ops / program->n_ranks * n_ranks * 3 * sizeof(gint64);
}

gboolean predict_may_record(const Program *program, const Workload *workload, double n_ops) {
  return record_bytes(program, workload, n_ops) <= MAX_RECORD_BYTES;
}

static gboolean check_record_count(const Program *program, const Workload *workload, GError **error) {
  gboolean fold = workload->plan->fold;
  double n_ops = 0, n_ranks = fold ? program->n_ranks : workload->layout.n_ranks;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops;
  if (predict_may_record(program, workload, n_ops))
    return TRUE;
  const double bytes = record_bytes(program, workload, n_ops);
  g_autofree char *needed = units_format(bytes, UNIT_BYTES);
  return fail_impossible(error,
                         "%s run of %.0f ranks with %.0f ops each needs %s of records; %suse fewer GPUs, "
                         "micro-batches or steps",
                         fold ? "a" : "an unfolded (--fold off, --jitter or --slow-rank)", n_ranks,
                         n_ops / program->n_ranks, needed, fold ? "" : "fold it, or ");
}

static double *speed_factors(const Workload *workload, const Cluster *cluster) {
  const GArray *slow = workload->plan->slow_ranks;
  guint n_slow = slow != NULL ? slow->len : 0;
  if (n_slow == 0 && mixed_gpus_is_uniform(workload, cluster))
    return NULL;
  double *speed = g_new(double, workload->layout.n_ranks);
  for (int rank = 0; rank < workload->layout.n_ranks; rank++)
    speed[rank] = 1;
  mixed_gpus_scale(workload, cluster, speed);
  for (guint i = 0; i < n_slow; i++)
    speed[g_array_index(slow, SlowRank, i).rank] *= g_array_index(slow, SlowRank, i).factor;
  return speed;
}

static void run(Prediction *prediction) {
  const Plan *plan = prediction->workload->plan;
  g_autofree double *speed = speed_factors(prediction->workload, prediction->cluster);
  Simulation simulation = {.program = prediction->program,
                           .timing = prediction->timing,
                           .layout = &prediction->workload->layout,
                           .folded = plan->fold,
                           .eager_bytes = prediction->cluster->eager_bytes,
                           .speed = speed,
                           .jitter = plan->jitter,
                           .seed = plan->seed,
                           .contended = plan->contention};
  gint64 before_us = g_get_monotonic_time();
  prediction->trace = engine_run(&simulation, &prediction->engine);
  prediction->wall_s = (g_get_monotonic_time() - before_us) * 1e-6;
}

Prediction *predict_trace(const Cluster *cluster, Workload *workload, Program *program, Timing *timing,
                          GError **error) {
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  prediction->cluster = cluster;
  prediction->workload = workload;
  prediction->program = program;
  prediction->timing = timing;
  if (!check_record_count(program, workload, error))
    return NULL;
  if (timing == NULL)
    prediction->timing = timing_model(program, workload, cluster);
  run(prediction);
  return g_steal_pointer(&prediction);
}

Prediction *predict_records(Workload *workload, PlanOrder *choice, const Cluster *cluster, GError **error) {
  g_autoptr(Workload) owned = workload;
  Program *lowered = predict_lower(owned, choice, cluster, NULL, NULL, error);
  Timing *timing = NULL;
  Program *program = lowered != NULL ? predict_expand(lowered, owned, cluster, &timing, error) : NULL;
  return program != NULL ? predict_trace(cluster, g_steal_pointer(&owned), program, timing, error) : NULL;
}

void prediction_free(Prediction *prediction) {
  if (prediction == NULL)
    return;
  omitted_free(prediction->omitted);
  program_repeats_free(prediction->repeats);
  memory_profile_free(prediction->memory);
  metrics_free(prediction->metrics);
  trace_free(prediction->trace);
  timing_free(prediction->timing);
  program_free(prediction->program);
  workload_free(prediction->workload);
  link_health_cluster_free(prediction->worn);
  g_free(prediction->gpu_names);
  g_free(prediction);
}
