#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "data_path.h"
#include "error.h"
#include "explanation.h"
#include "lab_html.h"
#include "link_plot.h"
#include "memory_timeline.h"
#include "options.h"
#include "output.h"
#include "parallel.h"
#include "picture.h"
#include "predict.h"
#include "program_text.h"
#include "result_json.h"
#include "stack.h"
#include "step_answer.h"
#include "step_arrays.h"
#include "text_report.h"

typedef struct {
  PlanOptions plan;
  TrainingOptions training;
  char *trace, *timeline, *plot, *memory_plot, *link_plot, *html, *dump, *dump_after, *program, *save_plan;
  gboolean kernels;
  gboolean no_report; /* standard output is used for something else */
} SimulateOptions;

static void clear_options(SimulateOptions *o) {
  char **strings[] = {&o->trace, &o->link_plot, &o->memory_plot, &o->timeline, &o->plot,
                      &o->html,  &o->dump,      &o->dump_after,  &o->program,  &o->save_plan};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  training_options_clear(&o->training);
  plan_options_clear(&o->plan);
}

/* Refuse options that another option would make ineffective. */
static gboolean check_outputs(SimulateOptions *o, GError **error) {
  const struct {
    const char *option, *file;
  } needs_run[] = {{"--dump", o->dump},
                   {"--trace", o->trace},
                   {"--timeline", o->timeline},
                   {"--plot", o->plot},
                   {"--memory-plot", o->memory_plot},
                   {"--link-plot", o->link_plot},
                   {"--html", o->html},
                   {"--run-plot", o->training.texts[TRAINING_PLOT]},
                   {"--save-plan", o->save_plan},
                   {"--program", o->program}};
  for (gsize i = 0; i < G_N_ELEMENTS(needs_run) && o->dump_after != NULL; i++)
    if (needs_run[i].file != NULL)
      return fail_input(error, "--dump-after and %s clash: nothing runs after that dump", needs_run[i].option);
  const gboolean tells = !o->plan.json; /* of a training run in the report */
  const Printed printed[] = {
      {"--json", .given = o->plan.json},
      {"--dump-after", .given = o->dump_after != NULL},
      {"--dump", .file = o->dump},
      {"--trace", .file = o->trace},
      {"--html", .file = o->html},
      {"--save-plan", .file = o->save_plan},
      {"--kernels", .given = o->kernels, .in_report = TRUE},
      {"--tokens", .given = tells && o->training.texts[TRAINING_TOKENS] != NULL, .in_report = TRUE},
      {"--gpu-hours", .given = tells && o->training.texts[TRAINING_GPU_HOURS] != NULL, .in_report = TRUE},
      {NULL}};
  return output_check_printed(printed, &o->no_report, error) &&
         (o->timeline == NULL || picture_check_file(o->timeline, error)) &&
         (o->plot == NULL || picture_check_file(o->plot, error)) &&
         (o->memory_plot == NULL || picture_check_file(o->memory_plot, error)) &&
         (o->link_plot == NULL || picture_check_file(o->link_plot, error)) &&
         (o->html == NULL || o->program == NULL ||
          fail_input(error, "--html and --program clash: a page explains plans"));
}

static gboolean finish_training(SimulateOptions *o, GError **error) {
  if (!training_options_finish(&o->training, error))
    return FALSE;
  return o->program == NULL || o->training.request.elastic == ELASTIC_OFF ||
         fail_input(error, "--elastic and --program clash: a Program is that of one dp");
}

static gboolean parse_options(SimulateOptions *o, int *argc, char ***argv, GError **error) {
  g_autoptr(Parser) parser =
      parser_new(NULL, "Predicts one training step: how long it takes, and where time and memory go.",
                 "Example:\n"
                 "  stepsim simulate --model llama-3.1-405b --cluster llama3-h100 --gpus 16384 --tp 8 --pp 16 \\\n"
                 "      --seq-len 8192 --global-batch 2048 --zero 1 --sequence-parallel on --timeline step.svg\n\n"
                 "Exit status: 0 done, 1 the plan is impossible or does not fit in memory, 2 bad usage or input.");
  const GOptionEntry entries[] = {
      {"trace", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->trace,
       "write a Chrome trace, for ui.perfetto.dev (- is standard output, without a report); .npz: as arrays, for numpy",
       "FILE.json|npz"},
      {"timeline", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->timeline,
       "draw what each pipeline rank does over the step", "FILE.svg|png|pdf"},
      {"memory-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->memory_plot,
       "draw the memory each pipeline rank holds over the step", "FILE.svg|png|pdf"},
      {"link-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->link_plot,
       "draw link utilization over time, for the rank that waits longest for its links", "FILE.svg|png|pdf"},
      {"plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->plot, "draw where the time goes on each pipeline rank",
       "FILE.svg|png|pdf"},
      {"html", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->html,
       "write the step as a page of its own: timeline to zoom, memory, links, where the time goes, what would help",
       "FILE.html"},
      {"kernels", 0, 0, G_OPTION_ARG_NONE, &o->kernels, "list every kernel with shape, work, time and share of peak",
       NULL},
      {"dump", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->dump,
       "write the Program as text (- is standard output, without a report)", "FILE"},
      {"dump-after", 0, 0, G_OPTION_ARG_STRING, &o->dump_after,
       "print the Program after this pass and stop: place, unshard, send_recv, reduce_grad, optimizer, offload, memory "
       "or steps",
       "PASS"},
      {"save-plan", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->save_plan,
       "write model, cluster and options to a file for --plan (- is standard output, without a report)", "FILE.yaml"},
      {"program", 0, 0, G_OPTION_ARG_FILENAME, &o->program, "run this Program (edited text of --dump) instead", "FILE"},
      G_OPTION_ENTRY_NULL};
  plan_options_init(&o->plan);
  parser_add(parser, entries);
  training_options_add(&o->training, parser);
  plan_options_add(&o->plan, PLAN_OPTIONS_JSON | PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED, parser);
  return parser_run(parser, argc, argv, FALSE, error) && check_outputs(o, error) && finish_training(o, error) &&
         plan_options_take_file(&o->plan, "stepsim simulate", error) && plan_options_finish(&o->plan, error);
}

static Prediction *make_prediction(const SimulateOptions *o, GError **error) {
  if (o->program == NULL)
    return predict(o->plan.model, o->plan.cluster, o->plan.plan, error);
  gsize length;
  g_autofree char *text = data_file_read(o->program, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen(text) != length) {
    fail_input(error, "%s: found a zero byte, expected a program", o->program);
    return NULL;
  }
  Program *program = program_from_text(text, o->program, error);
  return program != NULL ? predict_program(o->plan.model, o->plan.cluster, o->plan.plan, program, error) : NULL;
}

static gboolean write_memory_plot(const SimulateOptions *o, const Prediction *prediction, const StepReport *report,
                                  GError **error) {
  if (o->memory_plot == NULL)
    return TRUE;
  const Gpu *gpu = &prediction->cluster->gpu;
  g_autofree char *title = g_strdup_printf("Memory per GPU: %s on %d × %s (%s)", report->model_name, report->plan->gpus,
                                           report->gpu_name, report->cluster_name);
  const MemoryTimelineLook look = {title, "GB", 1e-9, gpu->hbm_bytes, gpu->reserved_bytes};
  const TimeUnit unit = time_unit_for(trace_end(prediction->trace));
  return picture_take(memory_timeline_picture(prediction->trace, unit, &look, error), o->memory_plot, error);
}

static gboolean write_link_plot(const SimulateOptions *o, const Prediction *prediction, const StepReport *report,
                                GError **error) {
  if (o->link_plot == NULL)
    return TRUE;
  g_autofree char *title =
      g_strdup_printf("Links in use on rank %d: %s on %d × %s (%s)", report->bounding.first_rank, report->model_name,
                      report->plan->gpus, report->gpu_name, report->cluster_name);
  return picture_take(link_plot_picture(prediction->trace, prediction->metrics, prediction->cluster,
                                        report->bounding.rank, title, error),
                      o->link_plot, error);
}

/* What explain says of it; NULL: nothing, where micro-batches have lengths of their own. Owned by the caller. */
static char *explained_json(const SimulateOptions *o, const Prediction *prediction, const StepReport *report) {
  if (prediction->workload->micro_batches != NULL)
    return NULL;
  g_autoptr(Explanation) explanation = explanation_new(prediction, report, o->plan.plan, NULL, parallel_threads());
  return explain_json(explanation);
}

/* `numbers`: what --json prints. */
static gboolean write_html(const SimulateOptions *o, const Prediction *prediction, const StepReport *report,
                           const char *numbers, GError **error) {
  g_autofree char *explained = explained_json(o, prediction, report);
  g_autoptr(GBytes) arrays = step_arrays(prediction->trace, prediction->metrics, report->cluster, error);
  const LabHtml of = {&o->plan, numbers, explained, arrays};
  return arrays != NULL && lab_html_write(&of, o->html, error);
}

static gboolean write_files(const SimulateOptions *o, const StepAnswer *answer, GError **error) {
  const Prediction *prediction = answer->prediction;
  const StepReport *report = &answer->report;
  if (o->timeline != NULL && !picture_take(step_answer_timeline(answer, error), o->timeline, error))
    return FALSE;
  if (o->plot != NULL) {
    g_autofree char *title = g_strdup_printf("Where the time goes: %s on %d × %s (%s)", report->model_name,
                                             report->plan->gpus, report->gpu_name, report->cluster_name);
    g_autoptr(Stack) stack = stack_of_ranks(prediction->trace, prediction->metrics, title);
    if (!picture_take(stack_picture(stack, 0, error), o->plot, error))
      return FALSE;
  }
  if (!write_memory_plot(o, prediction, report, error) || !write_link_plot(o, prediction, report, error))
    return FALSE;
  if (o->trace != NULL && !step_answer_write_trace(answer, o->trace, error))
    return FALSE;
  if (o->save_plan != NULL) {
    g_autoptr(PlanFile) file = plan_options_file(&o->plan, o->save_plan);
    if (!output_plan(file, error))
      return FALSE;
  }
  g_autofree char *text = o->dump != NULL ? program_to_text(prediction->program) : NULL;
  return text == NULL || output_text(o->dump, text, error);
}

static gboolean print_outputs(const SimulateOptions *o, const Prediction *prediction, GError **error) {
  g_auto(StepAnswer) answer = {0};
  if (!step_answer_make(&answer, prediction, &o->plan, &o->training, error))
    return FALSE;
  const StepReport *report = &answer.report;
  g_autofree char *where = g_strdup_printf("%s on %d × %s (%s)", report->model_name, report->plan->gpus,
                                           report->gpu_name, report->cluster_name);
  if (!write_files(o, &answer, error) || !training_plot(&answer.training, &o->training, &o->plan, where, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  g_autofree char *json = o->plan.json || o->html != NULL ? step_answer_json(&answer) : NULL;
  if (o->html != NULL && !write_html(o, prediction, report, json, error))
    return FALSE;
  if (o->plan.json) {
    g_string_append(out, json);
  } else if (!o->no_report) {
    step_answer_text(&answer, &o->training, text_report_wants_colour(STDOUT_FILENO), out);
    if (o->kernels)
      kernel_table_print(prediction->workload, prediction->timing, o->plan.cluster->gpu.peak_flops, out);
  }
  fputs(out->str, stdout);
  return !o->no_report || o->plan.json || step_answer_check_fit(report, error);
}

static int run(const SimulateOptions *o, GError **error) {
  if (o->dump_after != NULL) {
    g_autofree char *dump = predict_dump(o->plan.model, o->plan.cluster, o->plan.plan, o->dump_after, error);
    if (dump != NULL)
      fputs(dump, stdout);
    return 0;
  }
  g_autoptr(Prediction) prediction = make_prediction(o, error);
  if (prediction == NULL || !print_outputs(o, prediction, error))
    return 2;
  return prediction->fits ? 0 : 1;
}

int command_simulate(int argc, char **argv, GError **error) {
  SimulateOptions options = {0};
  int status = parse_options(&options, &argc, &argv, error) ? run(&options, error) : 2;
  clear_options(&options);
  return status;
}
