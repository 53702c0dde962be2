#include "predict_parts.h"

#include "error.h"
#include "link_health.h"

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

typedef Prediction *(*AsNamed)(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);

/* Predicts the plan on the cluster as its GPUs see it. */
static Prediction *predict_in_use(const Model *model, const Cluster *cluster, const Plan *plan, AsNamed as_named,
                                  GError **error) {
  g_autoptr(Plan) settled = predict_settled(model, cluster, plan, error);
  Prediction *prediction = settled != NULL ? as_named(model, cluster, settled, error) : NULL;
  if (prediction == NULL || g_strcmp0(plan->schedule, settled->schedule) == 0 || plan->schedule == NULL)
    return prediction;
  Plan *run = prediction->workload->plan; /* records auto, and what it stands for */
  g_free(run->schedule);
  run->schedule = schedule_found_name(settled->schedule);
  return prediction;
}

/* The GPUs of the plan, which may not be complete yet. */
static double count_gpus(const Plan *plan) {
  const double n_cut = (double)plan->tp * plan->cp * plan->pp * MAX(plan->dp, 1);
  return plan->rank_map != NULL ? plan->rank_map->len : MAX(plan->gpus, n_cut);
}

const Cluster *predict_cluster(const Cluster *cluster, const Plan *plan, Cluster **worn, GError **error) {
  keep_freed_memory();
  *worn = NULL;
  if (cluster->health != NULL)
    return cluster;
  const double n = count_gpus(plan);
  if (cluster->faults == NULL) {
    if (plan->rank_map != NULL || cluster_job_domain(cluster, (gint64)n) == cluster->domain_gpus)
      return cluster;
    *worn = g_memdup2(cluster, sizeof *cluster);
    cluster_place_job(*worn, (gint64)n);
    return *worn;
  }
  if (n < 1 || n > MOST_GPUS_WITH_FAULTS) {
    fail_impossible(error, "%s lists faults: what they leave is worked out for 1 to %d GPUs, the plan has %.0f",
                    cluster->file, MOST_GPUS_WITH_FAULTS, n);
    return NULL;
  }
  const int *gpus = plan->rank_map != NULL ? (const int *)(const void *)plan->rank_map->data : NULL;
  return *worn = link_health_cluster(cluster, gpus, (int)n, error);
}

static Prediction *predict_by(const Model *model, const Cluster *cluster, const Plan *plan, AsNamed as_named,
                              GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  Prediction *prediction = used != NULL ? predict_in_use(model, used, plan, as_named, error) : NULL;
  if (prediction != NULL)
    prediction->worn = worn;
  else
    link_health_cluster_free(worn);
  return prediction;
}

Prediction *predict_numbers(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return predict_by(model, cluster, plan, predict_numbers_as_named, error);
}

Prediction *predict(const Model *model, const Cluster *cluster, const Plan *plan, GError **error) {
  return predict_by(model, cluster, plan, predict_as_named, error);
}

static Prediction *predict_given(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                                 GError **error) {
  g_autoptr(Program) owned = program;
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL || !predict_check_belongs(owned, workload, error))
    return NULL;
  Timing *timing;
  Program *ready = predict_expand(g_steal_pointer(&owned), workload, cluster, &timing, error);
  return ready != NULL ? predict_derived(predict_trace(cluster, g_steal_pointer(&workload), ready, timing, error))
                       : NULL;
}

Prediction *predict_program(const Model *model, const Cluster *cluster, const Plan *plan, Program *program,
                            GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  if (used == NULL) {
    program_free(program);
    return NULL;
  }
  Prediction *prediction = predict_given(model, used, plan, program, error);
  if (prediction != NULL)
    prediction->worn = worn;
  else
    link_health_cluster_free(worn);
  return prediction;
}

char *predict_dump(const Model *model, const Cluster *cluster, const Plan *plan, const char *after_pass,
                   GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Plan) settled = used != NULL ? predict_settled(model, used, plan, error) : NULL;
  g_autoptr(Workload) workload = settled != NULL ? predict_workload(model, used, settled, &choice, error) : NULL;
  char *dump = NULL;
  g_autoptr(Program) program =
      workload != NULL ? predict_lower(workload, &choice, used, after_pass, &dump, error) : NULL;
  Timing *timing = NULL;
  g_autoptr(Program) ready =
      program != NULL ? predict_expand(g_steal_pointer(&program), workload, used, &timing, error) : NULL;
  timing_free(timing);
  if (ready == NULL)
    g_clear_pointer(&dump, g_free);
  link_health_cluster_free(worn);
  return dump;
}
