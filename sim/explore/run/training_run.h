/* A training run of weeks, event by event: steps, checkpoints, interruptions, lost nodes and their replacement.
 *
 *     |steps ····|save|steps ····|save|steps ··✗ noticed, restarted |steps ····|save|…
 *                                     └ redone ┘ └── down ─────────┘
 *
 * Between two events everything repeats, so that thousands of checkpoints are one division, and months take
 * milliseconds.
 *
 * Interruptions are a Poisson process whose rate is proportional to the nodes in use; while the job is down they go on
 * and begin a restart anew. With one kind that needs no detection, replacements at hand and saves that training waits
 * for, this is J. T. Daly's model ("A higher order estimate of the optimum checkpoint interval for restart dumps",
 * Future Generation Computer Systems 22, 2006), whose closed form is goodput_share(). */
#pragma once
#include "failures.h"

/* The plan on fewer nodes. */
typedef struct {
  int dp;        /* 0: it cannot go on with so few */
  double step_s; /* of a step */
  double gain;   /* what such a step is worth in steps of the whole plan */
} RunLevel;

/* What becomes of a job that has lost nodes and has no others. */
typedef enum {
  ELASTIC_OFF,     /* it waits until they are repaired */
  ELASTIC_RESTART, /* it restarts from the last checkpoint with a smaller dp, and again when they are back */
  ELASTIC_LIVE,    /* other dp ranks go on after a pause, with what they hold; lost ones join again later */
  N_ELASTIC
} RunElastic;
extern const char *const run_elastic_names[N_ELASTIC + 1]; /* NULL-terminated */

enum { SPARES_UNLIMITED = -1 };

typedef struct {
  double n_steps;        /* to be kept, of the whole plan */
  RunLevel whole;        /* gain 1 */
  gint64 interval_steps; /* between checkpoints */
  double stall_s;        /* of each checkpoint, while training stands still */
  double write_s;        /* from then on until it can be restarted from; the next one waits for that */

  double mtbf_s; /* of all n_nodes; INFINITY: it is never interrupted */
  const FailureKind *kinds;
  int n_kinds;
  double restart_s;
  double maintenance_every_s, maintenance_s; /* INFINITY: none */

  int n_nodes;
  int n_spares; /* further nodes; SPARES_UNLIMITED: another is always at hand */
  double repair_s;
  RunElastic elastic;
  int n_copies;           /* live: groups of dp ranks that hold all of the state and fail as one */
  double leave_s, join_s; /* elastic: until training goes on, after nodes left or joined; a restart takes no less */
  /* Of so many nodes, fewer than n_nodes. Called only if elastic. */
  RunLevel (*level_of)(gpointer data, int n_nodes);
  gpointer data;
} TrainingRun;

/* Where the time went. */
typedef enum {
  RUN_KEPT,    /* the steps that are kept, at the speed of the whole plan */
  RUN_REDONE,  /* steps that were lost: since the last checkpoint, or since numbers went wrong */
  RUN_SAVING,  /* training stood still for checkpoints */
  RUN_DOWN,    /* failures were noticed, the job restarted */
  RUN_PLANNED, /* maintenance */
  RUN_WAITING, /* for nodes to be repaired */
  RUN_FEWER,   /* steps with fewer nodes took longer, and nodes left and joined */
  N_RUN_PARTS
} RunPart;
extern const char *const run_part_names[N_RUN_PARTS]; /* as in JSON: "kept", "redone" … */

/* A moment of a run, for drawing it. */
typedef struct {
  double time_s, steps; /* kept so far */
  int kind;             /* of the interruption that struck then, maintenance n_kinds; −1: none */
  int dp;               /* from then on; 0: down */
} RunMoment;

typedef struct {
  gboolean ends; /* FALSE: it was given up; nothing else is set */
  double total_s;
  double part_s[N_RUN_PARTS]; /* sums to total_s */
  double *n_of_kind;          /* [n_kinds + 1] interruptions, the last planned ones; owned */
  double n_saves;
  double n_reshaped; /* nodes left or joined an elastic run */
  double mean_dp;    /* while it trained */
  guint64 n_events;
} RunOutcome;
void run_outcome_clear(RunOutcome *outcome);

/* One run. The same for the same seed. `moments` (of RunMoment) is appended to; NULL: none are wanted. */
RunOutcome training_run_once(const TrainingRun *run, guint64 seed, GArray *moments);

/* Many of them: means, and the interval that the share `level` of them ends in. */
typedef struct {
  RunOutcome mean;
  int n_runs;
  double level, low_s, high_s;
} RunSummary;
/* At most `n_runs`, fewer where runs are long. If one does not end, none is taken to. */
RunSummary training_run_many(const TrainingRun *run, guint64 seed, int n_runs);
void run_summary_clear(RunSummary *summary);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(RunSummary, run_summary_clear)
