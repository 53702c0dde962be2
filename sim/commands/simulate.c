#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chrome_trace.h"
#include "command.h"
#include "data_path.h"
#include "error.h"
#include "json_report.h"
#include "link_plot.h"
#include "memory_timeline.h"
#include "options.h"
#include "output.h"
#include "picture.h"
#include "predict.h"
#include "program_text.h"
#include "run_report.h"
#include "stack.h"
#include "step_of_prediction.h"
#include "text_report.h"
#include "timeline.h"
#include "training_cost.h"
#include "units.h"

/* A training run at the predicted rate: tokens or GPU-hours, from which the other follows. */
typedef struct {
  double tokens, gpu_hours; /* 0: not given */
  double price;             /* dollars per GPU-hour; < 0: the cluster's */
} Budget;

/* Options of a run with interruptions, which need one of those. */
typedef enum {
  RUN_MTBF,
  RUN_EVERY,
  RUN_RESTART,
  RUN_CHECKPOINT,
  RUN_ELASTIC,
  RUN_SPARES,
  RUN_PLOT,
  N_RUN_OPTIONS
} RunOption;
static const char *const run_options[N_RUN_OPTIONS] = {"mtbf",    "checkpoint-every", "restart", "checkpoint",
                                                       "elastic", "spares",           "run-plot"};

typedef struct {
  PlanOptions plan;
  char *trace, *timeline, *plot, *memory_plot, *link_plot, *dump, *dump_after, *program, *tokens, *price, *gpu_hours;
  char *run_texts[N_RUN_OPTIONS];
  gboolean kernels;
  Budget run;
  RunRequest request;
  gboolean has_run;   /* one of run_options is given */
  gboolean no_report; /* standard output is used for something else */
} SimulateOptions;

static void clear_options(SimulateOptions *o) {
  char **strings[] = {&o->trace,      &o->link_plot, &o->memory_plot, &o->timeline, &o->plot,     &o->dump,
                      &o->dump_after, &o->program,   &o->tokens,      &o->price,    &o->gpu_hours};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  for (int i = 0; i < N_RUN_OPTIONS; i++)
    g_clear_pointer(&o->run_texts[i], g_free);
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
                   {"--run-plot", o->run_texts[RUN_PLOT]},
                   {"--program", o->program}};
  for (gsize i = 0; i < G_N_ELEMENTS(needs_run) && o->dump_after != NULL; i++)
    if (needs_run[i].file != NULL)
      return fail_input(error, "--dump-after and %s clash: nothing runs after that dump", needs_run[i].option);
  const Printed printed[] = {{"--json", .given = o->plan.json},
                             {"--dump-after", .given = o->dump_after != NULL},
                             {"--dump", .file = o->dump},
                             {"--trace", .file = o->trace},
                             {"--kernels", .given = o->kernels, .in_report = TRUE},
                             {"--tokens", .given = o->tokens != NULL && !o->plan.json, .in_report = TRUE},
                             {"--gpu-hours", .given = o->gpu_hours != NULL && !o->plan.json, .in_report = TRUE},
                             {NULL}};
  return output_check_printed(printed, &o->no_report, error) &&
         (o->timeline == NULL || picture_check_file(o->timeline, error)) &&
         (o->plot == NULL || picture_check_file(o->plot, error)) &&
         (o->memory_plot == NULL || picture_check_file(o->memory_plot, error)) &&
         (o->link_plot == NULL || picture_check_file(o->link_plot, error)) &&
         (o->run_texts[RUN_PLOT] == NULL || picture_check_file(o->run_texts[RUN_PLOT], error));
}

static gboolean parse_count(const char *option, const char *text, double *value, GError **error) {
  if (text == NULL || units_parse_count(text, value, error))
    return TRUE;
  g_prefix_error(error, "%s: ", option);
  return FALSE;
}

static gboolean parse_time(SimulateOptions *o, RunOption option, double least_s, double *seconds, GError **error) {
  const char *text = o->run_texts[option];
  if (text == NULL)
    return TRUE;
  if (!units_parse(text, UNIT_SECONDS, seconds, error)) {
    g_prefix_error(error, "--%s: ", run_options[option]);
    return FALSE;
  }
  return *seconds >= least_s ||
         fail_input(error, "--%s: found \"%.80s\", expected at least %g s", run_options[option], text, least_s);
}

static gboolean parse_how(const SimulateOptions *o, RunOption option, const char *const *names, int *value,
                          GError **error) {
  g_autofree char *name = g_strconcat("--", run_options[option], NULL);
  if (o->run_texts[option] != NULL)
    *value = parse_choice(name, o->run_texts[option], names, error);
  return *value >= 0;
}

static gboolean parse_spares(SimulateOptions *o, GError **error) {
  gint64 n_spares;
  if (o->run_texts[RUN_SPARES] == NULL)
    return TRUE;
  if (!units_parse_whole(o->run_texts[RUN_SPARES], 0, 1000 * 1000, &n_spares, error)) {
    g_prefix_error(error, "--spares: ");
    return FALSE;
  }
  o->request.n_spares = (int)n_spares;
  return TRUE;
}

static gboolean parse_run(SimulateOptions *o, GError **error) {
  int save = SAVE_SYNC, elastic = ELASTIC_OFF;
  o->request = (RunRequest){.restart_s = -1, .n_spares = SPARES_NOT_GIVEN};
  for (int i = 0; i < N_RUN_OPTIONS; i++) {
    if (o->run_texts[i] != NULL && o->tokens == NULL && o->gpu_hours == NULL)
      return fail_input(error, "--%s needs --tokens or --gpu-hours: how long the run is", run_options[i]);
    o->has_run |= o->run_texts[i] != NULL;
  }
  const gboolean is_best = g_strcmp0(o->run_texts[RUN_EVERY], "best") == 0;
  if (!parse_time(o, RUN_MTBF, 1, &o->request.mtbf_s, error) ||
      !(is_best || parse_time(o, RUN_EVERY, 1e-3, &o->request.interval_s, error)) ||
      !parse_time(o, RUN_RESTART, 0, &o->request.restart_s, error) || !parse_spares(o, error) ||
      !parse_how(o, RUN_CHECKPOINT, save_how_names, &save, error) ||
      !parse_how(o, RUN_ELASTIC, run_elastic_names, &elastic, error))
    return FALSE;
  o->request.save = (SaveHow)save;
  o->request.elastic = (RunElastic)elastic;
  return elastic == ELASTIC_OFF || o->program == NULL ||
         fail_input(error, "--elastic and --program clash: a Program is that of one dp");
}

static gboolean parse_training(SimulateOptions *o, GError **error) {
  if (o->tokens != NULL && o->gpu_hours != NULL)
    return fail_input(error, "--tokens %.80s and --gpu-hours %.80s clash: one follows from the other", o->tokens,
                      o->gpu_hours);
  if (o->price != NULL && o->tokens == NULL && o->gpu_hours == NULL)
    return fail_input(error, "--price needs --tokens or --gpu-hours");
  o->run.price = -1;
  if (o->price != NULL && !units_parse(o->price, UNIT_DOLLARS_PER_HOUR, &o->run.price, error)) {
    g_prefix_error(error, "--price: ");
    return FALSE;
  }
  return parse_count("--tokens", o->tokens, &o->run.tokens, error) &&
         parse_count("--gpu-hours", o->gpu_hours, &o->run.gpu_hours, error) && parse_run(o, error);
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
       "write a Chrome trace, for ui.perfetto.dev (- is standard output, without a report)", "FILE.json"},
      {"timeline", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->timeline,
       "draw what each pipeline rank does over the step", "FILE.svg|png|pdf"},
      {"memory-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->memory_plot,
       "draw the memory each pipeline rank holds over the step", "FILE.svg|png|pdf"},
      {"link-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->link_plot,
       "draw link utilization over time, for the rank that waits longest for its links", "FILE.svg|png|pdf"},
      {"plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->plot, "draw where the time goes on each pipeline rank",
       "FILE.svg|png|pdf"},
      {"kernels", 0, 0, G_OPTION_ARG_NONE, &o->kernels, "list every kernel with shape, work, time and share of peak",
       NULL},
      {"tokens", 0, 0, G_OPTION_ARG_STRING, &o->tokens,
       "tokens to train on, e.g. 15.6T: prints days, GPU-hours, dollars and energy", "N"},
      {"price", 0, 0, G_OPTION_ARG_STRING, &o->price,
       "price of a GPU-hour, with --tokens or --gpu-hours (default: the cluster file's)", "\"2.50 $/h\""},
      {"gpu-hours", 0, 0, G_OPTION_ARG_STRING, &o->gpu_hours, "GPU-hour budget, e.g. 30.84M: prints the tokens it buys",
       "N"},
      {"mtbf", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_MTBF],
       "with --tokens: mean time between interruptions of the job (default: the cluster file's failures), as 3 h",
       "TIME"},
      {"checkpoint-every", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_EVERY],
       "with --tokens: time between checkpoints (default best)", "TIME|best"},
      {"restart", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_RESTART],
       "with --tokens: time from an interruption until training goes on (default: the cluster file's, or 10 min)",
       "TIME"},
      {"checkpoint", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_CHECKPOINT],
       "with --tokens: sync (every GPU writes its part, default), async (behind training) or gathered (one node writes "
       "all)",
       "HOW"},
      {"spares", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_SPARES],
       "with --tokens: nodes that stand by and are paid for (default: another is always at hand)", "N"},
      {"elastic", 0, 0, G_OPTION_ARG_STRING, &o->run_texts[RUN_ELASTIC],
       "with --tokens: without lost nodes off (waits for them, default), restart (with a smaller dp) or live (other dp "
       "ranks go on)",
       "HOW"},
      {"run-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->run_texts[RUN_PLOT],
       "with --tokens: draw a run over its days: progress, dp, interruptions", "FILE.svg|png|pdf"},
      {"dump", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->dump,
       "write the Program as text (- is standard output, without a report)", "FILE"},
      {"dump-after", 0, 0, G_OPTION_ARG_STRING, &o->dump_after,
       "print the Program after this pass and stop: place, unshard, send_recv, reduce_grad, optimizer, offload, memory "
       "or steps",
       "PASS"},
      {"program", 0, 0, G_OPTION_ARG_FILENAME, &o->program, "run this Program (edited text of --dump) instead", "FILE"},
      G_OPTION_ENTRY_NULL};
  plan_options_init(&o->plan);
  parser_add(parser, entries);
  plan_options_add(&o->plan, PLAN_OPTIONS_JSON | PLAN_OPTIONS_SIMULATED | PLAN_OPTIONS_PLACED, parser);
  return parser_run(parser, argc, argv, FALSE, error) && check_outputs(o, error) && parse_training(o, error) &&
         plan_options_finish(&o->plan, error);
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

/* A training run at the predicted rate, and with interruptions where something says how often there are any. */
typedef struct {
  TrainingCost cost;
  RunSetup *setup; /* owned; NULL: it is not known */
  RunSummary summary;
} Training;

static void training_clear(Training *training) {
  g_clear_pointer(&training->setup, run_setup_free);
  run_summary_clear(&training->summary);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Training, training_clear)

static void set_cost(const SimulateOptions *o, const Prediction *prediction, double tokens, Training *training) {
  const Cluster *cluster = o->plan.cluster;
  const Plan *plan = prediction->workload->plan;
  const double price = o->run.price < 0 ? cluster->dollars_per_gpu_hour : o->run.price;
  const RunSetup *setup = training->setup;
  const Goodput goodput = setup != NULL ? run_goodput(setup, &training->summary) : (Goodput){0};
  training->cost = training_cost_of(tokens, prediction->tokens_per_s, plan->gpus, price,
                                    plan_gpu_power_W(plan, cluster), setup != NULL ? &goodput : NULL);
  if (setup == NULL)
    return;
  training->cost.expected_gpu_hours *= (double)setup->n_gpus_paid / plan->gpus;
  training->cost.expected_dollars *= (double)setup->n_gpus_paid / plan->gpus;
}

static gboolean make_training(const SimulateOptions *o, const Prediction *prediction, Training *training,
                              GError **error) {
  enum { N_RUNS = 200 };
  RunRequest request = o->request;
  request.tokens = o->run.tokens;
  if (request.tokens == 0)
    request.tokens = o->run.gpu_hours * prediction->tokens_per_s_per_gpu * 3600;
  if (request.tokens == 0)
    return TRUE;
  if (o->has_run || o->plan.cluster->failures != NULL) {
    training->setup = run_setup_new(&request, prediction, o->plan.model, o->plan.cluster, o->plan.plan, error);
    if (training->setup == NULL)
      return FALSE;
    training->summary = training_run_many(&training->setup->run, o->plan.plan->seed, N_RUNS);
  }
  set_cost(o, prediction, request.tokens, training);
  return TRUE;
}

static void print_training(const SimulateOptions *o, const Training *training, GString *out) {
  static const char indent[] = "              ";
  if (training->cost.tokens == 0)
    return;
  g_string_append_c(out, '\n');
  training_cost_text(&training->cost, "Training run  ", "Failures      ", out);
  if (training->setup == NULL)
    return;
  run_text(training->setup, &training->summary, &training->cost, indent, out);
  if (o->run.gpu_hours > 0) {
    g_autofree char *hours = units_format_count(o->run.gpu_hours),
                    *trained = units_format_count(training->cost.tokens * training->cost.goodput.share);
    g_string_append_printf(out, "%s%s GPU-hours then train on %s tokens\n", indent, hours, trained);
  }
}

static void add_training(const Training *training, JsonBuilder *builder) {
  if (training->cost.tokens == 0)
    return;
  training_cost_json(&training->cost, builder);
  if (training->setup != NULL)
    run_json(training->setup, &training->summary, &training->cost, builder);
  json_builder_end_object(builder);
}

static gboolean write_run_plot(const SimulateOptions *o, const Training *training, const StepReport *report,
                               GError **error) {
  if (o->run_texts[RUN_PLOT] == NULL)
    return TRUE;
  g_autofree char *tokens = units_format_count(training->cost.tokens);
  g_autofree char *title = g_strdup_printf("%s tokens: %s on %d × %s (%s)", tokens, report->model_name,
                                           report->plan->gpus, report->gpu_name, report->cluster_name);
  return picture_take(run_picture(training->setup, o->plan.plan->seed, title, error), o->run_texts[RUN_PLOT], error);
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

static gboolean write_files(const SimulateOptions *o, const Prediction *prediction, const StepReport *report,
                            GError **error) {
  if (o->timeline != NULL) {
    g_autofree char *plan = step_report_plan_line(report->plan);
    g_autofree char *title = g_strdup_printf("%s on %d × %s (%s): %s", report->model_name, report->plan->gpus,
                                             report->gpu_name, report->cluster_name, plan);
    const TimeUnit unit = time_unit_for(trace_end(prediction->trace));
    if (!picture_take(timeline_picture(prediction->trace, unit, title, 0, error), o->timeline, error))
      return FALSE;
  }
  if (o->plot != NULL) {
    g_autofree char *title = g_strdup_printf("Where the time goes: %s on %d × %s (%s)", report->model_name,
                                             report->plan->gpus, report->gpu_name, report->cluster_name);
    g_autoptr(Stack) stack = stack_of_ranks(prediction->trace, prediction->metrics, title);
    if (!picture_take(stack_picture(stack, 0, error), o->plot, error))
      return FALSE;
  }
  if (!write_memory_plot(o, prediction, report, error) || !write_link_plot(o, prediction, report, error))
    return FALSE;
  if (o->trace != NULL && !chrome_trace_write(prediction->trace, o->trace, error))
    return FALSE;
  g_autofree char *text = o->dump != NULL ? program_to_text(prediction->program) : NULL;
  return text == NULL || output_text(o->dump, text, error);
}

/* The report's reason for the plan not fitting, as an error. */
static gboolean fail_to_fit(const StepReport *report, GError **error) {
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

static gboolean print_outputs(const SimulateOptions *o, const Prediction *prediction, GError **error) {
  g_autofree int *in_flight = g_new0(int, prediction->program->n_ranks);
  StepReport report = step_of_prediction(prediction, in_flight);
  if (report.cluster != NULL)
    report.bounding = bounding_link_of(prediction->trace, prediction->metrics);
  g_auto(Training) training = {0};
  if (!make_training(o, prediction, &training, error) || !write_files(o, prediction, &report, error) ||
      !write_run_plot(o, &training, &report, error))
    return FALSE;
  g_autoptr(GString) out = g_string_new(NULL);
  if (o->plan.json) {
    JsonBuilder *builder = json_report_step_begin(&report);
    add_training(&training, builder);
    g_autofree char *json = json_finish(json_builder_end_object(builder));
    g_string_append(out, json);
  } else if (!o->no_report) {
    text_report_step(out, &report, text_report_wants_colour(STDOUT_FILENO));
    print_training(o, &training, out);
    if (o->kernels)
      kernel_table_print(prediction->workload, prediction->timing, o->plan.cluster->gpu.peak_flops, out);
  }
  fputs(out->str, stdout);
  return !o->no_report || o->plan.json || report.fits || fail_to_fit(&report, error);
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
