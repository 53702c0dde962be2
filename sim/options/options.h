/* Options that several verbs share. */
#pragma once
#include "parser.h"
#include "plan.h"

/* What the common options name: model, cluster, every field of a plan. */
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
  GHashTable *frameworks; /* name → Framework: those read before, for who fills many plans; borrowed; NULL: none kept */

  Model *model;     /* owned; read by plan_options_finish() */
  Cluster *cluster; /* owned */
  Plan *plan;       /* owned; not completed: predict() does that */
} PlanOptions;

/* What a number holds whose option was not typed; no option can be given it. Where a Plan has 0 for what was left open,
 * a 0 that was typed is a mistake. */
enum { OPTION_NOT_GIVEN = G_MININT };

void plan_options_init(PlanOptions *options);
void plan_options_clear(PlanOptions *options);

/* What a verb takes besides model, cluster and plan. */
typedef enum {
  PLAN_OPTIONS_JSON = 1 << 0,      /* --json: it has an object to print */
  PLAN_OPTIONS_SIMULATED = 1 << 1, /* what only a simulation can vary: folding, jitter, slow ranks */
  PLAN_OPTIONS_PLACED = 1 << 2,    /* --rank-map: one plan on one cluster, read by plan_options_finish() */
} PlanOptionSet;
void plan_options_add(PlanOptions *options, PlanOptionSet set, Parser *parser);
/* Help of --schedule: all names and the default. Static. */
const char *options_schedule_help(void);
/* Fill the plan alone. INPUT: a value is wrong; IMPOSSIBLE: two of them clash. */
gboolean plan_options_make_plan(PlanOptions *options, GError **error);
/* INPUT when what was typed of a plan says nothing of its model: plain norms where it has no RMSNorms, deepep where it
 * has no experts, unless its framework has them anyway. IMPOSSIBLE where it says nothing of its schedule:
 * --overlap-experts where no forward and backward are a round. In a table of measured runs it may stand. */
gboolean plan_options_check_model(const Plan *plan, const Model *model, GError **error);
/* INPUT when what was typed clashes with the cluster itself. */
gboolean plan_options_check_cluster(const PlanOptions *options, const Cluster *cluster, GError **error);
/* Read the files and fill the plan. INPUT when --model or --cluster is missing or a value is wrong. */
gboolean plan_options_finish(PlanOptions *options, GError **error);
