/* What a training run costs at a predicted rate, without interruptions and, if the cluster states its failure rate,
 * with them: how much of a run survives those.
 *
 *     each τ of work ends in a checkpoint that costs δ; interruptions come every M on average; each costs R plus the
 *     work since the last checkpoint
 *
 *     T(τ) = Ts · (M/τ) · e^(R/M) · (e^((τ + δ)/M) − 1)          expected duration of a run of Ts of work
 *
 * J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
 * Computer Systems 22 (2006), section 4: interruptions are a Poisson process and may also hit checkpoints and
 * restarts. T is minimal at (1 − τ/M)·e^(τ/M) = e^(−δ/M), close to √(2δM) (J. W. Young, Communications of the ACM
 * 17, 1974) if δ is small against M. Training stops while a checkpoint is written. */
#pragma once
#include "cluster.h"
#include "json_values.h"
#include "plan.h"
#include "workload.h"

typedef struct {
  double mtbf_s; /* M, for the whole job */
  double restart_s;
  double checkpoint_bytes, checkpoint_s; /* weights and optimizer state, each parameter once; its time is δ */
  gint64 interval_steps;                 /* whole steps between checkpoints */
  double interval_s;                     /* τ: the time of that many steps */
  double share;                          /* share of the time spent on steps that are kept: Ts/T, [0, 1) */
} Goodput;

/* The best interval for the step of a completed plan, in runs much longer than it. FALSE, with nothing set, if the
 * cluster does not state its failure rate. */
gboolean goodput_of(const Model *model, const Cluster *cluster, const Plan *plan, double step_time_s, Goodput *goodput);
/* Upper bound of the share, for any step time: that at the optimum interval, not rounded to whole steps. 1 if the
 * cluster does not state its failure rate. */
double goodput_most_share(const Model *model, const Cluster *cluster, const Plan *plan);
/* What a run goes on from: each parameter's weights and optimizer state, once. */
double goodput_checkpoint_bytes(const Model *model, const Plan *plan);
/* Ts/T(τ). Public, like the next, for tests against simulated runs with failures. */
double goodput_share(double mtbf_s, double restart_s, double checkpoint_s, double interval_s);
/* The interval that maximises it. */
double goodput_best_interval_s(double mtbf_s, double checkpoint_s);

typedef struct {
  double tokens;               /* of the run */
  double days, gpu_hours;      /* without failures and restarts */
  double dollars_per_gpu_hour; /* 0: not known */
  double dollars;              /* 0: not known */
  double gpu_energy_Wh;        /* at the GPUs' maximum power, without failures; 0: not known */
  gboolean has_goodput;        /* the fields below are known */
  Goodput goodput;
  double expected_days, expected_gpu_hours, expected_dollars; /* including failures and restarts; infinite: it
                                                                 never ends */
} TrainingCost;

/* `dollars_per_gpu_hour` and `gpu_power_W` 0: not known; `goodput` NULL: the failure rate is not known. */
TrainingCost training_cost_of(double tokens, double tokens_per_s, int gpus, double dollars_per_gpu_hour,
                              double gpu_power_W, const Goodput *goodput);
/* As the object "training", which is left open: the caller may add to it, and ends it. */
void training_cost_json(const TrainingCost *cost, JsonBuilder *builder);
/* Two lines, or one if the failure rate is not known; they begin with `label` and `failures_label`. */
void training_cost_text(const TrainingCost *cost, const char *label, const char *failures_label, GString *out);
