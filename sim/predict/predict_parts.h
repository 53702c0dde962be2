/* The steps of a prediction, private to its files. Each file uses only those above it.
 *
 *     predict_tries.c    how many micro-batches represent all of them
 *     predict_lower.c    a plan's Program
 *     predict_records.c  a Program's trace
 *     predict_fewer.c    the same from fewer micro-batches (steady.h)
 *     predict_named.c    numbers of a plan whose schedule has a name
 *     predict_auto.c     the schedule that auto stands for
 *     predict.c          the façade; predict_step.c combines the steps in its own way */
#pragma once
#include "plan_order.h"
#include "predict.h"

/* The cluster as the plan's GPUs see it. If faults reduce its links, or the plan has only some GPUs of a domain
 * (cluster_job_domain()), this is the copy `*worn`, to be freed by the caller with link_health_cluster_free();
 * otherwise the cluster itself. NULL: IMPOSSIBLE or INPUT. */
const Cluster *predict_cluster(const Cluster *cluster, const Plan *plan, Cluster **worn, GError **error);
/* The plan as it is run: auto is replaced by the order made for it, or by a built-in schedule that is faster. */
Plan *predict_settled(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
Workload *predict_workload(const Model *model, const Cluster *cluster, const Plan *plan, PlanOrder *choice,
                           GError **error);
/* `dump_after` and `dump` as in lower(). */
Program *predict_lower(const Workload *workload, PlanOrder *choice, const Cluster *cluster, const char *dump_after,
                       char **dump, GError **error);
/* Expands the program into pieces where whole ops would not do. Takes over `program`, like the next two. *timing: the
 * program's Timing if it was made on the way, owned by the caller; otherwise NULL. IMPOSSIBLE: too many pieces. */
Program *predict_expand(Program *program, const Workload *workload, const Cluster *cluster, Timing **timing,
                        GError **error);
/* Expands all of it. */
Program *predict_expand_all(Program *program, const Workload *workload);
/* INPUT when the program is not one of this model and plan. */
gboolean predict_check_belongs(const Program *program, const Workload *workload, GError **error);
/* Whether programs are expanded whatever their transfers are. An op of a whole piece does not say when a kernel or
 * collective inside it runs, so it suffices only where that makes no difference. Collectives of cp may cross nodes
 * and share NICs there with sends and gradients. */
gboolean predict_is_apart(const Workload *workload, const Cluster *cluster);
/* Whether the plan is small enough to be expanded wherever tp's collectives meet other transfers. */
gboolean predict_may_expand(const Workload *workload);
/* Expands the program where transfers of `met` (timing_model.h) may be under way. IMPOSSIBLE: too many pieces. */
Program *predict_expand_beside(Program *program, const Workload *workload, const Cluster *cluster, const gboolean *met,
                               GError **error);
/* Whether the records of a run with n_ops ops in all its lists fit in memory with room to spare. */
gboolean predict_may_record(const Program *program, const Workload *workload, double n_ops);
/* Makes a Prediction up to its trace and engine. Takes over `workload`, `program` and `timing` (NULL: it is made
 * here). IMPOSSIBLE: too many records. */
Prediction *predict_trace(const Cluster *cluster, Workload *workload, Program *program, Timing *timing, GError **error);
/* Lowers and runs: a Prediction up to its trace and engine. Takes over `workload`. */
Prediction *predict_records(Workload *workload, PlanOrder *choice, const Cluster *cluster, GError **error);
/* A number of micro-batches worth trying, provided that it saves enough if it suffices. */
typedef struct {
  gint64 n;
  double least_spared; /* as a share of all micro-batches */
} PredictTry;
enum { PREDICT_MOST_TRIES = 3 };
/* Fills in the tries in order and returns their number. `group`: as from plan_order_group(), not 0. */
int predict_tries(gint64 group, const Workload *workload, PredictTry tries[PREDICT_MOST_TRIES]);
/* The first try if it is fewer than the plan has; otherwise the plan's number. */
gint64 predict_first_micro_batches(const PlanOrder *choice, const Workload *workload);
/* predict_records() for numbers only, all steps from fewer micro-batches each. The Prediction has no workload, which
 * stays with the caller, unchanged. With the metrics of all micro-batches if with_metrics. NULL: all of them must be
 * run. */
Prediction *predict_fewer(Workload *workload, PlanOrder *choice, const Cluster *cluster, gboolean with_metrics);

/* The prediction with its numbers filled in; NULL stays NULL. */
Prediction *predict_derived(Prediction *prediction);
/* Predicts a plan whose schedule is a name or a file. */
Prediction *predict_as_named(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
/* The same for numbers only, from fewer micro-batches where these suffice. */
Prediction *predict_numbers_as_named(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
