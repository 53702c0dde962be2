/* The steps of a prediction, each on those before it. Not for others.
 *
 *     predict_tries.c    how many micro-batches tell of all
 *     predict_lower.c    a plan's Program
 *     predict_records.c  a Program's trace
 *     predict_fewer.c    the same by fewer micro-batches (steady.h)
 *     predict_steps.c    the same of several steps by one
 *     predict_named.c    numbers of a plan whose schedule has a name
 *     predict_auto.c     the schedule that auto stands for
 *     predict.c          the façade; predict_step.c puts the steps together in its own way */
#pragma once
#include "known_runs.h"
#include "plan_order.h"
#include "predict.h"

/* The cluster as the plan's GPUs have it: `*worn` is a copy that knows what faults leave of its links, or which GPUs of
 * a domain the plan has (cluster_job_domain()), for the caller to free with link_health_cluster_free(); the cluster
 * itself where there is nothing of that. NULL: IMPOSSIBLE or INPUT. */
const Cluster *predict_cluster(const Cluster *cluster, const Plan *plan, Cluster **worn, GError **error);
/* The plan as it is run: auto stands for the order made for it, or for a schedule of the table that is faster. */
Plan *predict_settled(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                      GError **error);
Workload *predict_workload(const Model *model, const Cluster *cluster, const Plan *plan, PlanOrder *choice,
                           GError **error);
/* The runs that it knows; NULL without a scratch. */
KnownRuns *predict_scratch_runs(PredictScratch *scratch);
/* An order of the table is lowered once per structure and scratch; auto's depends on times, a file's on the file, and
 * where anything is offloaded a program is made for each plan. */
Program *predict_lower(PredictScratch *scratch, const Workload *workload, PlanOrder *choice, const Cluster *cluster,
                       GError **error);
/* The same without a scratch; `dump` as lower(). */
Program *predict_lower_anew(const Workload *workload, PlanOrder *choice, const Cluster *cluster, const char *dump_after,
                            char **dump, GError **error);
/* In pieces where whole ops would not do. Takes over `program`, as the next two; as often as a scratch meets the like,
 * it is cut once (expanded_cache.h). *timing: its Timing, owned by the caller, where that came with it; else NULL.
 * IMPOSSIBLE: too many. */
Program *predict_expand(PredictScratch *scratch, Program *program, const Workload *workload, const Cluster *cluster,
                        Timing **timing, GError **error);
/* All of it. */
Program *predict_expand_all(PredictScratch *scratch, Program *program, const Workload *workload);
/* INPUT when the program is not of this model and plan. */
gboolean predict_check_belongs(const Program *program, const Workload *workload, GError **error);
/* Whether programs are expanded whatever their transfers. Ops of whole pieces say nothing of the moment at which a
 * kernel or a collective inside runs: they are enough where that makes no difference. Collectives of cp may cross
 * nodes, and share NICs with sends and gradients there. */
gboolean predict_is_apart(const Workload *workload, const Cluster *cluster);
/* Whether the plan is small enough for it, wherever tp's collectives meet other transfers. */
gboolean predict_may_expand(const Workload *workload);
/* In pieces where those of `met` (timing_model.h) may be under way. IMPOSSIBLE: too many. */
Program *predict_expand_beside(PredictScratch *scratch, Program *program, const Workload *workload,
                               const Cluster *cluster, const gboolean *met, GError **error);
/* Whether a run of lists with so many ops in all leaves room for other things. */
gboolean predict_may_record(const Program *program, const Workload *workload, double n_ops);
/* A Prediction up to its trace and engine. Takes over `workload`, `program` and `timing` (NULL: to be made); `runs` may
 * be NULL. IMPOSSIBLE: too many records. */
Prediction *predict_trace(KnownRuns *runs, const Cluster *cluster, Workload *workload, Program *program, Timing *timing,
                          GError **error);
/* Lowered and run: a Prediction up to its trace and engine. Takes over `workload`; `runs` as above. */
Prediction *predict_records(PredictScratch *scratch, KnownRuns *runs, Workload *workload, PlanOrder *choice,
                            const Cluster *cluster, GError **error);
/* Folded, of ranks that are alike, transfers without taxes: what repeats itself takes as long each time. */
gboolean predict_is_folded_plainly(const Workload *workload, const Cluster *cluster);
/* predict_records() of numbers, by one step where that tells of all: the program has one then, metrics are of the last,
 * and `memory` is of all before it. */
Prediction *predict_step_records(PredictScratch *scratch, Workload *workload, PlanOrder *choice, const Cluster *cluster,
                                 GError **error);
/* Of all of them. Owned by the caller. */
MemoryProfile *predict_memory(Prediction *prediction);

/* So many micro-batches are worth a try, if enough others are spared should they do. */
typedef struct {
  gint64 n;
  double least_spared; /* of all */
} PredictTry;
enum { PREDICT_MOST_TRIES = 3 };
/* In turn; returns how many. `group`: as plan_order_group(), not 0. */
int predict_tries(gint64 group, const Workload *workload, PredictTry tries[PREDICT_MOST_TRIES]);
/* The first of them, where it is fewer than the plan has; else these. */
gint64 predict_first_micro_batches(const PlanOrder *choice, const Workload *workload);
/* The same by fewer micro-batches, without a workload, which stays with the caller and is as it was; with the metrics
 * of all where they are asked for. NULL: it takes all. */
Prediction *predict_fewer(PredictScratch *scratch, Workload *workload, PlanOrder *choice, const Cluster *cluster,
                          gboolean with_metrics);

/* With its numbers; NULL stays NULL. */
Prediction *predict_derived(Prediction *prediction);
/* A plan whose schedule has a name or a file. */
Prediction *predict_as_named(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                             GError **error);
/* The same in numbers, by fewer micro-batches where they tell of all. */
Prediction *predict_numbers_as_named(PredictScratch *scratch, const Model *model, const Cluster *cluster,
                                     const Plan *plan, GError **error);
