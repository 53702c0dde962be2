
#include "error.h"
#include "link_health.h"
#include "mixed_gpus.h"
#include "plan_run.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

enum { MOST_GPUS_WITH_FAULTS = 1 << 18 }; /* which all send at once when the effect of faults is worked out */

/* The few MiB that one prediction frees are reused by the next: each arena of the allocator keeps up to this much for
 * the process. Otherwise the kernel would take the pages back and clear them again for every prediction. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
  enum { MOST_BYTES_KEPT = 64 << 20, MOST_BYTES_OF_BLOCK = 32 << 20 };
  static gsize is_done;
  if (!g_once_init_enter(&is_done))
    return;
  mallopt(M_TRIM_THRESHOLD, MOST_BYTES_KEPT);
  mallopt(M_MMAP_THRESHOLD, MOST_BYTES_OF_BLOCK);
  g_once_init_leave(&is_done, 1);
#endif
}

/* The GPUs of the plan, which may not be complete yet. */
static double count_gpus(const Plan *plan) {
  const double n_cut = (double)plan->tp * plan->cp * plan->pp * MAX(plan->dp, 1);
  return plan->rank_map != NULL ? plan->rank_map->len : MAX(plan->gpus, n_cut);
}

Predictor *predictor_new(void) {
  Predictor *predictor = g_new(Predictor, 1);
  *predictor = (Predictor){structures_new(), costs_new()};
  return predictor;
}

Costs *predictor_costs(Predictor *predictor) {
  return predictor->costs;
}

void predictor_free(Predictor *predictor) {
  if (predictor == NULL)
    return;
  structures_free(predictor->structures);
  costs_free(predictor->costs);
  g_free(predictor);
}

/* The cluster as the plan's GPUs see it. If faults reduce its links, or the plan has only some GPUs of a domain
 * (cluster_job_domain()), this is the copy `*worn`, to be freed by the caller with link_health_cluster_free();
 * otherwise the cluster itself. NULL: IMPOSSIBLE or INPUT. */
static const Cluster *cluster_in_use(const Cluster *cluster, const Plan *plan, Cluster **worn, GError **error) {
  *worn = NULL;
  if (cluster->health != NULL)
    return cluster;
  const double n = count_gpus(plan);
  if (cluster->faults == NULL) {
    if (!cluster_is_placed(cluster, (gint64)n, plan->rank_map != NULL))
      return cluster;
    *worn = g_memdup2(cluster, sizeof *cluster);
    cluster_place_job(*worn, (gint64)n, plan->rank_map != NULL);
    return *worn;
  }
  if (n < 1 || n > MOST_GPUS_WITH_FAULTS) {
    fail_impossible(error, "%s lists faults: what they leave is worked out for 1 to %d GPUs, the plan has %.0f",
                    cluster->file, MOST_GPUS_WITH_FAULTS, n);
    return NULL;
  }
  const int *gpus = plan->rank_map != NULL ? (const int *)(const void *)plan->rank_map->data : NULL;
  *worn = link_health_cluster(cluster, gpus, (int)n, error);
  if (*worn != NULL)
    cluster_place_job(*worn, (gint64)n, plan->rank_map != NULL);
  return *worn;
}

/* Predicts the plan on the cluster as its GPUs see it. Takes over `complete`: on that cluster; NULL: not known. */
static Prediction *predict_in_use(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                                  Workload *complete, RunDetail detail, GError **error) {
  Workload *workload = complete != NULL ? complete : predict_settle(model, cluster, plan, error);
  Prediction *prediction = workload != NULL ? plan_run(predictor, workload, cluster, detail, error) : NULL;
  if (prediction != NULL && schedule_is_auto(plan->schedule))
    method_set_found(prediction->workload->method);
  return prediction;
}

static gboolean find_interval(Prediction *prediction, GError **error) {
  const Workload *workload = prediction->workload;
  const IntervalCase predicted = {prediction->cluster, workload->plan->framework_file, workload->plan->gpus,
                                  model_has_experts(workload->model), prediction->step_time_s};
  return interval_find(&predicted, &prediction->interval, error);
}

/* The prediction, if there is one, takes over `worn`, and gets its interval. */
static Prediction *finish(Prediction *prediction, Cluster *worn, GError **error) {
  if (prediction == NULL) {
    link_health_cluster_free(worn);
    return NULL;
  }
  prediction->worn = worn;
  if (find_interval(prediction, error))
    return prediction;
  prediction_free(prediction);
  return NULL;
}

/* Takes over `complete`, which may be NULL. */
static Prediction *predict_by(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                              Workload *complete, RunDetail detail, GError **error) {
  Cluster *worn;
  keep_freed_memory();
  const Cluster *used = cluster_in_use(cluster, plan, &worn, error);
  if (used != cluster || schedule_is_auto(plan->schedule))
    g_clear_pointer(&complete, workload_free);
  return finish(used != NULL ? predict_in_use(predictor, model, used, plan, complete, detail, error) : NULL, worn,
                error);
}

Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return predict_by(NULL, model, cluster, plan, NULL, RUN_RECORDS, error);
}

Prediction *predict_numbers(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                            GError **error) {
  return predict_by(predictor, model, cluster, plan, NULL, RUN_NUMBERS, error);
}

Prediction *predict_numbers_of(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                               Workload *complete, GError **error) {
  return predict_by(predictor, model, cluster, plan, complete, RUN_NUMBERS, error);
}

Prediction *predict_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                            GError **error) {
  Cluster *worn;
  const Cluster *used = cluster_in_use(cluster, plan, &worn, error);
  Workload *workload = used != NULL ? workload_complete(model, used, plan, error) : NULL;
  if (workload != NULL)
    return finish(plan_run_program(workload, used, program, error), worn, error);
  program_free(program);
  return finish(NULL, worn, error);
}

/* --- a step alone --- */

static gint64 step_ns_of(const Prediction *prediction) {
  const Trace *trace = prediction->trace;
  const Method *method = prediction->workload->method;
  if (method->islands > 1 || method->servers.is_async) {
    g_autoptr(Metrics) metrics = plan_run_metrics(method, trace);
    return metrics->step_ns;
  }
  const gint64 from_ns = trace_last_step_begin(trace);
  return trace_end(trace) - from_ns + omitted_ns(prediction->omitted, from_ns);
}

static void fill_step(StepPrediction *step, const Prediction *prediction) {
  const Workload *workload = prediction->workload;
  const Plan *plan = workload->plan;
  *step = (StepPrediction){.step_time_s = (double)step_ns_of(prediction) * 1e-9,
                           .peak_bytes = prediction->memory->peak_bytes,
                           .fits = prediction->fits,
                           .peak_flops = plan->gpus * prediction->peak_flops,
                           .hardware_flops = workload_hardware_flops(workload),
                           .gpus = plan->gpus,
                           .global_batch = plan->global_batch,
                           .n_run = prediction->program->n_micro_batches};
  shown_memory(step->peak_bytes, plan, mixed_gpus_smallest(workload, prediction->cluster), step->shown_bytes);
}

static gboolean step_in_use(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                            StepPrediction *step, GError **error) {
  Workload *workload = predict_settle(model, cluster, plan, error);
  g_autoptr(Prediction) prediction = workload != NULL ? plan_run(predictor, workload, cluster, RUN_STEP, error) : NULL;
  if (prediction != NULL)
    fill_step(step, prediction);
  return prediction != NULL;
}

gboolean predict_step(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                      StepPrediction *step, GError **error) {
  Cluster *worn;
  keep_freed_memory();
  const Cluster *used = cluster_in_use(cluster, plan, &worn, error);
  const gboolean is_known = used != NULL && step_in_use(predictor, model, used, plan, step, error);
  link_health_cluster_free(worn);
  return is_known;
}

char *predict_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                   GError **error) {
  Cluster *worn;
  const Cluster *used = cluster_in_use(cluster, plan, &worn, error);
  g_autoptr(Workload) workload = used != NULL ? predict_settle(model, used, plan, error) : NULL;
  char *dump = workload != NULL ? plan_run_dump(workload, used, after_pass, error) : NULL;
  link_health_cluster_free(worn);
  return dump;
}
