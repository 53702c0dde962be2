/* The training run of a predicted plan: how often it is interrupted on its cluster, what its checkpoints are and cost,
 * what it is on fewer nodes. */
#pragma once
#include "predict.h"
#include "training_cost.h"
#include "training_run.h"

/* How a checkpoint gets to storage. */
typedef enum {
  SAVE_SYNC,     /* every GPU writes its part of the state, each parameter once; training waits */
  SAVE_ASYNC,    /* training waits only until every GPU's part is copied to its node's memory */
  SAVE_GATHERED, /* one node writes everything; training waits */
  N_SAVES
} SaveHow;
extern const char *const save_how_names[N_SAVES + 1]; /* NULL-terminated */

enum { SPARES_NOT_GIVEN = -2 };

typedef struct {
  double tokens;
  double mtbf_s;     /* of the job; 0: the cluster's */
  double interval_s; /* between checkpoints; 0: the best */
  double restart_s;  /* < 0: the cluster's */
  SaveHow save;
  int n_spares; /* SPARES_NOT_GIVEN: another node is always at hand, or none for ELASTIC_RESTART */
  RunElastic elastic;
} RunRequest;

typedef struct RunSetup RunSetup;
struct RunSetup {
  TrainingRun run;
  SaveHow save;
  double checkpoint_bytes;
  double mean_restart_s; /* detection included */
  double joined_bytes;   /* elastic: what is moved when nodes join: of storage, or live between GPUs */
  double joined_s;       /* and the time that takes, of join_s */
  int n_gpus_paid;       /* spares included */
  gboolean storage_is_assumed, link_is_assumed, restart_is_assumed;

  /* for levels */
  const Model *model;
  const Cluster *cluster;
  Plan *given, *plan;   /* as typed, and completed; owned */
  Failures *own;        /* if the cluster has none; owned */
  Predictor *predictor; /* owned */
  GArray *levels;       /* of RunLevel, by dp, step_s < 0: not predicted yet; owned */
};

/* `given` is the prediction's plan before it was completed. Keeps model and cluster. NULL with INPUT if nobody says how
 * often the job is interrupted; IMPOSSIBLE if what is asked for cannot be done with this plan. */
RunSetup *run_setup_new(const RunRequest *request, const Prediction *prediction, const Model *model,
                        const Cluster *cluster, const Plan *given, GError **error);
void run_setup_free(RunSetup *setup);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(RunSetup, run_setup_free)
/* What the run keeps on average, for training_cost_of(); share 0: it does not end. */
Goodput run_goodput(const RunSetup *setup, const RunSummary *summary);
