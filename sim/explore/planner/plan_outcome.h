/* A plan simulated, and how good it is. */
#pragma once
#include "goodput.h"
#include "objective.h"
#include "scratch_pool.h"

/* What makes a plan better than another. */
typedef struct {
  Objective objective;         /* cost: GPU time where no price is known */
  double dollars_per_gpu_hour; /* < 0: each cluster's own */
} PlanScoring;

typedef struct {
  gint64 index;           /* in the space; −1: in none */
  const Model *model;     /* borrowed */
  const Cluster *cluster; /* borrowed */
  Plan *plan;             /* owned; as given: not completed */
  Plan *completed;        /* owned */
  double score;           /* least is best; comparable within one search */
  double step_time_s, tokens_per_s, mfu;
  double breakdown_s[N_BREAKDOWN]; /* means over ranks */
  double peak_bytes;
  double total_bytes, capacity_bytes; /* the peak with what GPUs reserve; capacity less the margin */
  double margin_bytes;                /* of the GPU, left free by wish */
  double excess_bytes;                /* what the GPU, host memory or drives lack, the most of these; < 0: none does */
  gboolean fits;
  double dollars_per_gpu_hour; /* 0: not known */
  gboolean has_goodput;        /* goodput is known */
  Goodput goodput;
} PlanOutcome;

/* Simulate one plan, with what `scratches` have from earlier ones (NULL: none). NULL with *error set as predict(). */
PlanOutcome *plan_outcome_new(ScratchPool *scratches, const Model *model, const Cluster *cluster, const Plan *plan,
                              const PlanScoring *scoring, GError **error);
void plan_outcome_free(PlanOutcome *outcome);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanOutcome, plan_outcome_free)
/* Tokens per second on average over the run: times goodput's share, where the cluster says how often it fails. */
double plan_outcome_kept_tokens_per_s(const PlanOutcome *outcome);
/* Share of a GPU's memory, the margin counted in, that the worst rank takes. */
double plan_outcome_used(const PlanOutcome *outcome);
/* warnings_new() of it. */
GPtrArray *plan_outcome_warnings(const PlanOutcome *outcome);
/* GCompareFunc of pointers to PlanOutcome *: by score, then by index. */
int plan_outcome_compare(gconstpointer a, gconstpointer b);

/* The score of a step that takes so long. Cost is of all the time paid for, of which `share` trains: goodput's, 1 where
 * that is not known. */
double plan_score(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster, gint64 step_ns,
                  double share);
/* For a million tokens, failures counted in where they are known; 0: no price is known. */
double plan_outcome_dollars_per_million_tokens(const PlanOutcome *outcome);
double plan_tokens_per_s(const Plan *plan, gint64 step_ns);
