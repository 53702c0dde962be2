/* A simulated plan and how good it is. */
#pragma once
#include "objective.h"
#include "plan_file.h"
#include "predict.h"
#include "training_cost.h"

/* What makes one plan better than another. */
typedef struct {
  Objective objective;         /* cost: GPU time if no price is known */
  double dollars_per_gpu_hour; /* < 0: each cluster's own */
} PlanScoring;

typedef struct {
  gint64 index;           /* in the space; −1: not from a space */
  const Model *model;     /* borrowed */
  const Cluster *cluster; /* borrowed */
  Plan *plan;             /* owned; as given, not completed */
  Plan *completed;        /* owned */
  double score;           /* lower is better; comparable within one search */
  double step_time_s, tokens_per_s, mfu;
  Interval interval;                  /* of step_time_s */
  double breakdown_s[N_BREAKDOWN];    /* means over ranks */
  double memory_bytes[N_MEMORY];      /* of the fullest rank, at its peak */
  double peak_bytes;                  /* their sum */
  double total_bytes, capacity_bytes; /* the peak including what GPUs reserve; capacity minus the margin */
  double margin_bytes;                /* GPU memory deliberately left free */
  double excess_bytes;                /* the largest shortfall of GPU, host memory or drives; < 0: none */
  gboolean fits;
  double dollars_per_gpu_hour; /* 0: not known */
  gboolean has_goodput;        /* goodput is known */
  Goodput goodput;
} PlanOutcome;

/* Of a plan as passed to predict(). */
PlanOutcome *plan_outcome_of(const Prediction *prediction, const Model *model, const Cluster *cluster, const Plan *plan,
                             const PlanScoring *scoring);
/* Simulate one plan. NULL with *error set as by predict(). */
PlanOutcome *plan_outcome_new(Predictor *predictor, const Model *model, const Cluster *cluster, const Plan *plan,
                              const PlanScoring *scoring, GError **error);
void plan_outcome_free(PlanOutcome *outcome);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(PlanOutcome, plan_outcome_free)
/* Average tokens per second over the run: scaled by goodput's share if the cluster states its failure rate. */
double plan_outcome_kept_tokens_per_s(const PlanOutcome *outcome);
/* Share of a GPU's memory, including the margin, used by the worst rank. */
double plan_outcome_used(const PlanOutcome *outcome);
/* The options that simulate the plan's step, without model and cluster, as a plan's file. Owned by the caller. */
PlanFile *plan_outcome_file(const PlanOutcome *outcome, const char *path);
/* The same as "--tp 8 --pp 16 …". Owned by the caller. */
char *plan_outcome_options(const PlanOutcome *outcome);
/* warnings_new() of it. */
GPtrArray *plan_outcome_warnings(const PlanOutcome *outcome);
/* GCompareFunc of pointers to PlanOutcome *: by score, then by index. */
int plan_outcome_compare(gconstpointer a, gconstpointer b);

/* The score of a step of this duration. Cost covers all the time paid for, of which a fraction `share` trains:
 * goodput's, or 1 if that is not known. */
double plan_score(const PlanScoring *scoring, const Workload *workload, const Cluster *cluster, gint64 step_ns,
                  double share);
/* For a million tokens, including failures if their rate is known; 0: no price is known. */
double plan_outcome_dollars_per_million_tokens(const PlanOutcome *outcome);
double plan_tokens_per_s(const Workload *workload, gint64 step_ns);
