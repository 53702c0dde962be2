/* Options that several verbs share. */
#pragma once
#include "parser.h"
#include "plan.h"

/* What the common options describe: model, cluster, every field of a plan. */
typedef struct {
  char *model_file, *cluster_file;
  gboolean json;
  /* as typed; turned into `plan` by plan_options_make_plan() */
  gint gpus, tp, cp, ep, expert_tp, mtp_layers, dp, pp, chunks, group, zero, zero_ranks, steps, prefetch;
  gint64 micro_batch, global_batch, seq_len, bucket_parameters;
  gint64 seed;
  gdouble jitter, expert_load;
  char *schedule, *pipeline_layout, *recompute, *recompute_modules, *sequence_parallel, *precision, *recipe, *attention,
      *norm_kernel, *cp_comm, *expert_dispatch, *overlap_experts, *cuda_graphs, *overlap_grad, *overlap_param,
      *framework;
  char *overlap_p2p, *grad_norm_barrier, *memory_cap, *order, *rank_map, *contention, *fold, *flops;
  char *offload_optimizer, *offload_weights, *offload_activations;
  char **slow_ranks;
  GHashTable *frameworks; /* name → Framework: read before, for callers that fill many plans; borrowed; may be NULL */

  Model *model;     /* owned; read by plan_options_finish() */
  Cluster *cluster; /* owned */
  Plan *plan;       /* owned; not completed: predict() does that */
} PlanOptions;

/* Value of a number whose option was not typed; no option accepts it. 0 cannot serve: where a Plan's 0 means open, a
 * typed 0 is a mistake. */
enum { OPTION_NOT_GIVEN = G_MININT };

void plan_options_init(PlanOptions *options);
void plan_options_clear(PlanOptions *options);

/* What a verb takes besides model, cluster and plan. */
typedef enum {
  PLAN_OPTIONS_JSON = 1 << 0,      /* --json: the verb can print an object */
  PLAN_OPTIONS_SIMULATED = 1 << 1, /* what only a simulation can vary: folding, jitter, slow ranks */
  PLAN_OPTIONS_PLACED = 1 << 2,    /* --rank-map: one plan on one cluster, read by plan_options_finish() */
} PlanOptionSet;
void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser);
/* Help of --schedule: all names and the default. Static. */
const char *options_schedule_help(void);
/* Fill only the plan. INPUT for a wrong value, IMPOSSIBLE for two that clash. */
gboolean plan_options_make_plan(PlanOptions *options, GError **error);
/* Refuse typed options without meaning for the model. INPUT for plain norms without RMSNorms, or deepep without
 * experts, unless the framework sets the same. IMPOSSIBLE for those without meaning in the schedule:
 * --overlap-experts without rounds of a forward and a backward. Tables of measured runs may have such options. */
gboolean plan_options_check_model(const Plan *plan, const Model *model, GError **error);
/* INPUT if a typed option contradicts the cluster. */
gboolean plan_options_check_cluster(const PlanOptions *options, const Cluster *cluster, GError **error);
/* Read the files and fill the plan. INPUT if --model or --cluster is missing or a value is wrong. */
gboolean plan_options_finish(PlanOptions *options, GError **error);
