#include <stdio.h>
#include <string.h>

#include "command.h"
#include "error.h"
#include "explanation.h"
#include "measured_gap.h"
#include "options.h"
#include "own_read.h"
#include "parallel.h"
#include "profile_compare.h"
#include "step_of_prediction.h"
#include "units.h"

typedef struct {
  Space *space;
  gboolean json, weak;
  char *measured; /* NULL: not given */
  MeasuredStep step;
  Profile *recorded; /* --measured named files; NULL: a number */
} ExplainVerb;

/* --gpus may have several values, everything else only one. */
static gboolean check_axes(const Space *space, GError **error) {
  for (int axis = 0; axis < space_n_axes(space); axis++)
    if (space_axis_n_values(space, axis) > 1 && strcmp(space_axis_name(space, axis), "gpus") != 0)
      return fail_input(error, "--%s: found several values, expected one: only --gpus may be a list here",
                        space_axis_name(space, axis));
  return TRUE;
}

/* What a profiler recorded of ranks, in files separated by commas. */
static gboolean read_recorded(ExplainVerb *o, char **files, GError **error) {
  o->recorded = profile_new();
  for (; *files != NULL; files++)
    if (!profile_read(o->recorded, *files, error))
      return FALSE;
  if (!profile_complete(o->recorded, error))
    return FALSE;
  g_autoptr(ProfileSums) sums = profile_sums_new(o->recorded);
  double step_s = 0;
  for (guint r = 0; r < o->recorded->ranks->len; r++)
    step_s = MAX(step_s, (double)sums->ranks[r].times.step_ns * 1e-9 / (double)sums->ranks[r].n_steps);
  o->step = (MeasuredStep){MEASURED_TIME, step_s};
  return TRUE;
}

static gboolean check_options(ExplainVerb *o, GError **error) {
  const gboolean is_one = space_count(o->space) == 1;
  if (o->weak && is_one)
    return fail_input(error, "--weak needs several --gpus, such as 16,128");
  if (o->measured == NULL)
    return TRUE;
  g_auto(GStrv) files = g_strsplit(o->measured, ",", -1);
  if (*files != NULL && g_file_test(*files, G_FILE_TEST_IS_REGULAR)
          ? !read_recorded(o, files, error)
          : !measured_step_parse(o->measured, &o->step, error)) {
    g_prefix_error(error, "--measured: ");
    return FALSE;
  }
  return is_one || fail_input(error, "--measured is a step of one plan: found several --gpus");
}

/* A factor of a thousand means another run or another unit. */
static gboolean check_measured(const ExplainVerb *o, const StepReport *predicted, GError **error) {
  const double most = 1000, predicted_s = predicted->step_time_s;
  const double measured_s = o->measured != NULL ? measured_step_time_s(&o->step, predicted) : predicted_s;
  if (measured_s < most * predicted_s && measured_s * most > predicted_s)
    return TRUE;
  g_autofree char *time = units_format(predicted_s, UNIT_SECONDS);
  return fail_input(error, "--measured: found \"%.80s\", more than %g times off the predicted step of %s", o->measured,
                    most, time);
}

static MeasuredGap *gap_of(const ExplainVerb *o, const SpacePoint *point, const Prediction *prediction,
                           const StepReport *step) {
  MeasuredGap *gap =
      measured_gap_new(prediction, point->plan, measured_step_time_s(&o->step, step), parallel_threads());
  gap->origin = measured_step_origin(&o->step, step);
  return gap;
}

static gboolean parse_options(ExplainVerb *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser = parser_new(
      NULL,
      "Explains a step: which axis uses which links, where the time goes, how the step changes without one of its "
      "costs,\n"
      "with parts twice as fast, or with each option one step away. With a list of --gpus (no other option takes "
      "one):\n"
      "what grows from the first size to the last, as dp grows and the rest of the plan stays. With --measured: what\n"
      "would make the step as long as yours.",
      "Examples:\n"
      "  stepsim explain --model llama-3-70b --cluster dgx-h100 --gpus 64,512 --tp 8 --pp 4 --global-batch 512 \\\n"
      "      --seq-len 8192 --zero 1 --sequence-parallel on\n"
      "  stepsim explain --model llama-3-70b --cluster dgx-h100 --gpus 64 --tp 8 --pp 4 --global-batch 128 \\\n"
      "      --seq-len 8192 --zero 1 --sequence-parallel on --framework megatron-core --measured 21s\n\n"
      "Exit status: 0 done, 1 the plan is impossible or does not fit in memory, 2 bad usage or input.");
  const GOptionEntry entries[] = {
      {"weak", 0, 0, G_OPTION_ARG_NONE, &o->weak,
       "with several --gpus: weak scaling, the batch grows with the GPUs (default: strong scaling)", NULL},
      {"measured", 0, 0, G_OPTION_ARG_STRING, &o->measured,
       "what your run reaches: a step time (21s), an MFU (38%, counted as --flops says), \"375 TFLOP/s\" or "
       "\"961 tokens/s/GPU\"; or what a profiler recorded, as for stepsim trace, files separated by commas; says which "
       "options or costs would explain it",
       "STEP|FILE"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  o->space = space_new();
  parser_add(parser, entries);
  space_add_options(o->space, parser);
  space_add_slow_ranks(o->space, parser);
  if (!parser_run(parser, argc, argv, FALSE, error) || !space_take_plan(o->space, "stepsim explain", error) ||
      !space_finish(o->space, error) || !check_axes(o->space, error))
    return FALSE;
  return check_options(o, error);
}

static GArray *sizes_of(const Space *space, SpaceReader *reader, GError **error) {
  g_autoptr(GArray) sizes = g_array_new(FALSE, FALSE, sizeof(gint64));
  for (gint64 i = 0; i < space_count(space); i++) {
    SpacePoint point;
    if (!space_reader_read(reader, i, &point, error))
      return NULL;
    gint64 gpus = point.plan->gpus;
    g_array_append_val(sizes, gpus);
  }
  return g_steal_pointer(&sizes);
}

/* Strong and weak scaling need a batch to start from. */
static Scaling *make_scaling(const ExplainVerb *o, const SpacePoint *point, const GArray *sizes, GError **error) {
  if (point->plan->global_batch == 0) {
    fail_input(error, "--global-batch is missing: sequences per step, which %s",
               o->weak ? "grow with the GPUs" : "stay the same");
    return NULL;
  }
  return scaling_new(point, sizes, o->weak, error);
}

static int explain(const ExplainVerb *o, const SpacePoint *point, const Scaling *scaling, GError **error) {
  g_autoptr(Prediction) prediction = predict(point->model, point->cluster, point->plan, error);
  if (prediction == NULL)
    return 2;
  if (prediction->workload->micro_batches != NULL) { /* times of each are not changed apart */
    fail_impossible(error,
                    "a step whose micro-batches have lengths of their own (--batching %s) is not taken apart: "
                    "expected --batching padded, or no --seq-lengths",
                    batching_names()[prediction->workload->plan->batching]);
    return 1;
  }
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  StepReport step = step_of_prediction(prediction, in_flight);
  if (!check_measured(o, &step, error))
    return 2;
  g_autoptr(Explanation) explanation = explanation_new(prediction, &step, point->plan, scaling, parallel_threads());
  explanation->is_weak = o->weak;
  g_autoptr(MeasuredGap) gap = o->measured != NULL ? gap_of(o, point, prediction, &step) : NULL;
  explanation->gap = gap;
  g_autoptr(Profile) predicted = o->recorded != NULL ? profile_of_trace(prediction->trace) : NULL;
  g_autoptr(ProfileCompare) kinds = predicted != NULL ? profile_compare_new(predicted, o->recorded) : NULL;
  if (gap != NULL)
    gap->kinds = kinds;
  if (o->json) {
    g_autofree char *json = explain_json(explanation);
    fputs(json, stdout);
  } else {
    g_autoptr(GString) text = g_string_new(NULL);
    explain_text(text, explanation);
    if (kinds != NULL) {
      g_string_append_c(text, '\n');
      profile_compare_text(text, kinds, FALSE);
    }
    fputs(text->str, stdout);
  }
  return step.fits ? 0 : 1;
}

static int run(const ExplainVerb *o, GError **error) {
  g_autoptr(SpaceReader) reader = space_reader_new(o->space);
  g_autoptr(GArray) sizes = sizes_of(o->space, reader, error);
  SpacePoint point;
  if (sizes == NULL || !space_reader_read(reader, 0, &point, error))
    return 2;
  if (sizes->len == 1)
    return explain(o, &point, NULL, error);
  g_autoptr(Scaling) scaling = make_scaling(o, &point, sizes, error);
  return scaling != NULL ? explain(o, &point, scaling, error) : 2;
}

int command_explain(int argc, char **argv, GError **error) {
  ExplainVerb options = {0};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, error) : 2;
  space_free(options.space);
  g_free(options.measured);
  profile_free(options.recorded);
  return status;
}
