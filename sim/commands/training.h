/* What simulate tells of a training run at the predicted rate: its options, and the run with interruptions where
 * something says how often there are any. */
#pragma once
#include "options.h"
#include "run_report.h"

typedef enum {
  TRAINING_TOKENS,
  TRAINING_GPU_HOURS,
  TRAINING_PRICE,
  TRAINING_MTBF, /* from here on of interruptions */
  TRAINING_EVERY,
  TRAINING_RESTART,
  TRAINING_CHECKPOINT,
  TRAINING_SPARES,
  TRAINING_ELASTIC,
  TRAINING_PLOT,
  N_TRAINING_OPTIONS
} TrainingOption;

typedef struct {
  char *texts[N_TRAINING_OPTIONS]; /* as typed; NULL: left out; owned */
  double gpu_hours;                /* 0: not given */
  double price;                    /* dollars per GPU-hour; < 0: the cluster's */
  RunRequest request;              /* tokens 0: not given */
} TrainingOptions;

void training_options_add(TrainingOptions *options, Parser *parser);
/* INPUT for a wrong value, and for options without the others that they need. */
gboolean training_options_finish(TrainingOptions *options, GError **error);
void training_options_clear(TrainingOptions *options);

typedef struct {
  TrainingCost cost; /* tokens 0: no run was asked for */
  RunSetup *setup;   /* owned; NULL: it is not known how often it is interrupted */
  RunSummary summary;
} Training;

/* Acts it out. The caller clears it in either case. Errors as run_setup_new(). */
gboolean training_make(Training *training, const TrainingOptions *options, const PlanOptions *plan,
                       const Prediction *prediction, GError **error);
void training_clear(Training *training);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Training, training_clear)
/* Nothing if no run was asked for. */
void training_text(const Training *training, const TrainingOptions *options, GString *out);
void training_json(const Training *training, JsonBuilder *builder);
/* The picture that was asked for. `where`: model and machine, for its title. */
gboolean training_plot(const Training *training, const TrainingOptions *options, const PlanOptions *plan,
                       const char *where, GError **error);
