/* What interruptions leave of a training run.
 *
 *     a checkpoint every τ of work costs δ; interruptions come every M on average; each costs R and the work since the
 *     last checkpoint
 *
 *     T(τ) = Ts · (M/τ) · e^(R/M) · (e^((τ + δ)/M) − 1)          the run of Ts of work, in expectation
 *
 * J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps", Future Generation
 * Computer Systems 22 (2006), section 4: interruptions are a Poisson process and may come in checkpoints and restarts
 * too. T is least where (1 − τ/M)·e^(τ/M) = e^(−δ/M), close to √(2δM) (J. W. Young, Communications of the ACM 17,
 * 1974) where δ is small beside M. Training stands still while a checkpoint is written. */
#pragma once
#include "cluster.h"
#include "workload.h"

typedef struct {
  double mtbf_s; /* M, of the job */
  double restart_s;
  double checkpoint_bytes, checkpoint_s; /* weights and optimizer, each parameter once; δ */
  gint64 interval_steps;                 /* whole steps between checkpoints */
  double interval_s;                     /* τ: that many steps */
  double share;                          /* of the time that goes to steps which are kept: Ts/T, [0, 1) */
} Goodput;

/* The best interval for a completed plan's step, of runs much longer than it. FALSE, and nothing set, where the cluster
 * does not say how often it fails. */
gboolean goodput_of(const Model *model, const Cluster *cluster, const Plan *plan, double step_time_s, Goodput *goodput);
/* The share no step's time is above: that of the best interval, whatever number of steps that is. 1 where the cluster
 * does not say how often it fails. */
double goodput_most_share(const Model *model, const Cluster *cluster, const Plan *plan);
/* Ts/T(τ); public, as the next, for runs that are acted out. */
double goodput_share(double mtbf_s, double restart_s, double checkpoint_s, double interval_s);
/* The interval for which that is largest. */
double goodput_best_interval_s(double mtbf_s, double checkpoint_s);
