/* What simulate tells of a prediction that has all records: numbers, report, pictures. For the verb, and for the
 * library. */
#pragma once
#include "picture.h"
#include "result_json.h"
#include "step_report.h"
#include "training.h"

typedef struct {
  const Prediction *prediction; /* borrowed */
  int *in_flight;               /* owned */
  ResultOf of;                  /* as it was asked for; borrowed */
  StepReport report;
  Training training;
} StepAnswer;

/* The caller clears it in either case. Errors as training_make(). */
gboolean step_answer_make(StepAnswer *answer, const Prediction *prediction, const PlanOptions *plan,
                          const TrainingOptions *training, GError **error);
void step_answer_clear(StepAnswer *answer);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(StepAnswer, step_answer_clear)

/* What --json prints. Owned by the caller. */
char *step_answer_json(const StepAnswer *answer);
/* The report. */
void step_answer_text(const StepAnswer *answer, const TrainingOptions *training, gboolean colour, GString *out);
/* The picture of --timeline. Owned by the caller. NULL with INPUT if nothing in it takes time. */
Picture *step_answer_timeline(const StepAnswer *answer, GError **error);
/* What --trace writes, by the file's suffix. */
gboolean step_answer_write_trace(const StepAnswer *answer, const char *file, GError **error);
/* IMPOSSIBLE if the plan does not fit: where, and by how much. */
gboolean step_answer_check_fit(const StepReport *report, GError **error);
