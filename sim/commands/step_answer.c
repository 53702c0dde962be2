#include "step_answer.h"

#include "chrome_trace.h"
#include "error.h"
#include "result_json.h"
#include "step_arrays.h"
#include "step_of_prediction.h"
#include "text_report.h"
#include "timeline.h"

gboolean step_answer_make(StepAnswer *answer, const Prediction *prediction, const PlanOptions *plan,
                          const TrainingOptions *training, GError **error) {
  *answer = (StepAnswer){.prediction = prediction,
                         .of = {plan->model, plan->cluster, plan->plan, training->price},
                         .in_flight = g_new0(int, prediction->program->n_ranks)};
  answer->report = step_of_prediction(prediction, answer->in_flight);
  if (answer->report.cluster != NULL)
    answer->report.bounding = bounding_link_of(prediction->trace, prediction->metrics);
  return training_make(&answer->training, training, plan, prediction, error);
}

void step_answer_clear(StepAnswer *answer) {
  g_clear_pointer(&answer->in_flight, g_free);
  training_clear(&answer->training);
}

char *step_answer_json(const StepAnswer *answer) {
  JsonBuilder *builder = result_json_begin(answer->prediction, &answer->report, &answer->of);
  training_json(&answer->training, builder);
  return json_finish(json_builder_end_object(builder));
}

void step_answer_text(const StepAnswer *answer, const TrainingOptions *training, gboolean colour, GString *out) {
  text_report_step(out, &answer->report, colour);
  training_text(&answer->training, training, out);
}

Picture *step_answer_timeline(const StepAnswer *answer, GError **error) {
  const StepReport *report = &answer->report;
  const Trace *trace = answer->prediction->trace;
  g_autofree char *plan = step_report_plan_line(report->plan);
  g_autofree char *title = g_strdup_printf("%s on %d × %s (%s): %s", report->model_name, report->plan->gpus,
                                           report->gpu_name, report->cluster_name, plan);
  return timeline_picture(trace, time_unit_for(trace_end(trace)), title, 0, error);
}

gboolean step_answer_write_trace(const StepAnswer *answer, const char *file, GError **error) {
  const Prediction *prediction = answer->prediction;
  return g_str_has_suffix(file, ".npz")
             ? step_arrays_write(prediction->trace, prediction->metrics, answer->report.cluster, file, error)
             : chrome_trace_write(prediction->trace, file, error);
}

gboolean step_answer_check_fit(const StepReport *report, GError **error) {
  if (report->fits)
    return TRUE;
  if (!step_report_fits_gpu(report))
    return fail_impossible(error,
                           "the plan does not fit: %.2f GB on the fullest GPU, capacity %.2f GB (GB = 1e9 bytes)",
                           (report->peak_bytes + report->reserved_bytes) / 1e9, report->capacity_bytes / 1e9);
  const MemoryTier tier = report->tiers[TIER_HOST].fits ? TIER_NVME : TIER_HOST;
  const TierUse *use = &report->tiers[tier];
  return fail_impossible(error, "the plan does not fit: %.2f GB of %s on node %d, capacity %.2f GB (GB = 1e9 bytes)",
                         use->bytes / 1e9, tier == TIER_HOST ? "host memory" : "NVMe", use->node,
                         use->capacity_bytes / 1e9);
}
