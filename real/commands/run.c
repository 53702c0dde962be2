#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chrome_trace.h"
#include "data_path.h"
#include "error.h"
#include "measured_report.h"
#include "measured_trace.h"
#include "options.h"
#include "plan_program.h"
#include "program_fit.h"
#include "program_text.h"
#include "real_command.h"
#include "timeline.h"
#include "trainable.h"
#include "units.h"

typedef struct {
  PlanOptions plan;
  char *device, *comm, *check_on, *check_fp32, *check_time, *trace, *timeline, *program, *memory, *loss_scale;
  RankTimeouts timeouts;
  double lr, initial_loss_scale;
  int loss_scale_window;
  gboolean check;
} RunOptions;

static const double least_loss_scale = 0x1p-24; /* fp16's smallest number: below it every gradient is 0 */
static const double most_loss_scale = 0x1p127;  /* a float can hold it and its inverse */

/* What a run needs, derived from the options, the same on every rank. */
typedef struct {
  RunOptions options;
  Workload *workload;
  Program *program;
  Execution execution;
} Run;

static void clear_run(Run *run) {
  RunOptions *o = &run->options;
  char **strings[] = {&o->device, &o->comm,     &o->trace,      &o->timeline,   &o->program,
                      &o->memory, &o->check_on, &o->check_fp32, &o->check_time, &o->loss_scale};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
  plan_options_clear(&run->options.plan);
  workload_free(run->workload);
  program_free(run->program);
}

static gboolean check_option(const char *name, double value, gboolean is_right, const char *expected, GError **error) {
  return is_right || fail_input(error, "--%s: found %g, expected %s", name, value, expected);
}

static gboolean check_switch(const char *name, const char *value, GError **error) {
  return value == NULL || strcmp(value, "on") == 0 || strcmp(value, "off") == 0 ||
         fail_input(error, "--%s: found \"%.80s\", expected on or off", name, value);
}

/* For an option that is on by default. */
static gboolean is_on(const char *value) {
  return g_strcmp0(value, "off") != 0;
}

static gboolean check_numbers(const RunOptions *o, GError **error) {
  return check_switch("check-fp32", o->check_fp32, error) && check_switch("check-time", o->check_time, error) &&
         check_option("lr", o->lr, o->lr >= 0 && isfinite(o->lr), "a number that is not negative", error) &&
         rank_timeouts_check(&o->timeouts, error);
}

enum { NOT_GIVEN = G_MININT };

static void add_entries(RunOptions *o, Parser *parser) {
  const GOptionEntry entries[] = {
      {"device", 0, 0, G_OPTION_ARG_STRING, &o->device, "cpu, cuda or null (default cpu)", "NAME"},
      {"comm", 0, 0, G_OPTION_ARG_STRING, &o->comm,
       "mpi, nccl or null (default mpi; nccl with --device cuda where it was built in)", "NAME"},
      {"check", 0, 0, G_OPTION_ARG_NONE, &o->check,
       "before timing, compare losses, every gradient and every update with one rank: gradients to 1e-5 in fp32, 8e-2\n"
       "in bf16 and 1e-2 in fp16, or to three times the rounding error, measured against a run in fp32",
       NULL},
      {"check-fp32", 0, 0, G_OPTION_ARG_STRING, &o->check_fp32,
       "--check also runs bf16, fp16 and fp8 Programs in fp32, where rounding hides nothing (default on; off saves "
       "the\n"
       "memory of an fp32 run, and is never chosen for you)",
       "on|off"},
      {"check-time", 0, 0, G_OPTION_ARG_STRING, &o->check_time,
       "whether a run behind --check is timed, whose losses must be the same (default on; off: what is reported was\n"
       "measured in the run that was checked, which waits in every step until its numbers are written down)",
       "on|off"},
      {"check-on", 0, 0, G_OPTION_ARG_STRING, &o->check_on,
       "device of the one-rank reference: cpu checks another device's kernels (default: --device)", "NAME"},
      {"program", 0, 0, G_OPTION_ARG_FILENAME, &o->program,
       "run this Program (text of stepsim simulate --dump) instead of the plan's", "FILE"},
      {"trace", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->trace,
       "write the measured trace, for Perfetto and stepsim compare", "FILE"},
      {"timeline", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->timeline, "draw what every rank did (svg, png or pdf)",
       "FILE"},
      {"memory", 0, 0, G_OPTION_ARG_STRING, &o->memory, "device memory a rank may use, e.g. 2GiB (default: all)",
       "SIZE"},
      {"lr", 0, 0, G_OPTION_ARG_DOUBLE, &o->lr, "learning rate of Adam (default 0.0003)", "RATE"},
      {"loss-scale", 0, 0, G_OPTION_ARG_STRING, &o->loss_scale,
       "fp16: loss scale, dynamic or a number (default dynamic: on overflow the step is skipped and the scale halved;\n"
       "it doubles after enough steps without)",
       "SCALE"},
      {"initial-loss-scale", 0, 0, G_OPTION_ARG_DOUBLE, &o->initial_loss_scale,
       "fp16: initial dynamic loss scale (default 65536)", "NUMBER"},
      {"loss-scale-window", 0, 0, G_OPTION_ARG_INT, &o->loss_scale_window,
       "fp16: steps without overflow before the scale doubles (default 1000)", "STEPS"},
      {"seed", 0, 0, G_OPTION_ARG_STRING, &o->plan.texts[plan_field_find("seed")],
       "seed of weights and tokens (default 1)", "N"},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  rank_timeouts_add(&o->timeouts, parser);
}

static gboolean parse_options(RunOptions *o, int argc, char **argv, GError **error) {
  plan_options_init(&o->plan);
  plan_options_set_default(&o->plan, "steps", "4");
  rank_timeouts_init(&o->timeouts);
  o->lr = training_default().lr;
  o->initial_loss_scale = o->loss_scale_window = NOT_GIVEN;
  g_autoptr(Parser) parser = parser_new(
      NULL,
      "Trains a model for a few steps exactly as the plan's Program says, one MPI rank per processor, and reports what "
      "it\n"
      "measured: the median step after a warm-up step. Tokens are assigned to experts evenly, by position; their "
      "scores\n"
      "only weight the experts' outputs.",
      "Example:\n"
      "  mpirun -n 2 stepreal run --model tinystories-15m --pp 2 --global-batch 8 --precision fp32 --check \\\n"
      "      --trace measured.json\n\n"
      "Exit status: 0 done, 1 the run failed or its numbers are wrong, 2 bad usage or input.");
  plan_options_add(&o->plan, PLAN_OPTIONS_JSON, parser);
  add_entries(o, parser);
  plan_options_set_default(&o->plan, "steps", NULL); /* that of --help, behind what a file has */
  if (!parser_run(parser, &argc, &argv, FALSE, error) || !plan_options_take_file(&o->plan, "stepreal run", error))
    return FALSE;
  if (plan_options_typed(&o->plan, "steps") == NULL)
    plan_options_set_default(&o->plan, "steps", "4");
  return check_numbers(o, error);
}

/* --- from options to an execution --- */

static gboolean read_inputs(PlanOptions *options, GError **error) {
  if (options->model_file == NULL)
    return fail_input(error, "--model is missing: a Hugging Face config.json, or a name in models/ such as "
                             "tinystories-15m");
  if (!plan_options_make_plan(options, error))
    return FALSE;
  options->model = model_read(options->model_file, error);
  if (options->model == NULL || !plan_options_check_model(options->plan, options->model, error))
    return FALSE;
  if (options->cluster_file != NULL)
    options->cluster = cluster_read(options->cluster_file, error);
  return options->cluster_file == NULL || options->cluster != NULL;
}

static gboolean make_workload(Run *run, World *world, GError **error) {
  Plan *plan = run->options.plan.plan;
  const int n = world_size(world);
  if (plan->gpus != 0 && plan->gpus != n)
    return fail_input(error, "--gpus %d and %d ranks clash: start one rank per processor, mpirun -n %d stepreal …",
                      plan->gpus, n, plan->gpus);
  plan->gpus = n;
  plan->fold = FALSE;
  run->workload = workload_complete(run->options.plan.model, NULL, plan, error);
  if (run->workload == NULL) {
    g_prefix_error(error, "on %d rank%s: ", n, n == 1 ? "" : "s");
    return FALSE;
  }
  workload_set_data_rank(run->workload, layout_coordinates(&run->workload->layout, world_rank(world)).at[AXIS_DP]);
  return trainable_check(run->workload, error);
}

static Program *given_program(const Run *run, GError **error) {
  const Workload *workload = run->workload;
  gsize length;
  if (workload->micro_batches != NULL) {
    fail_impossible(error,
                    "--program and --batching %s clash: a Program's text has the lengths of one rank of dp; "
                    "leave --program out, or use --batching padded",
                    batching_names()[workload->plan->batching]);
    return NULL;
  }
  g_autofree char *text = data_file_read(run->options.program, &length, error);
  g_autoptr(Program) program = text ? program_from_text(text, run->options.program, error) : NULL;
  if (program == NULL)
    return NULL;
  if (program->n_ranks != workload->plan->pp || program->n_stages != workload->n_stages ||
      program->n_micro_batches != workload->plan->n_micro_batches || program->n_steps != workload->plan->steps) {
    fail_input(error,
               "%s has %d ranks, %d stages, %d micro-batches and %d steps, the plan pp %d, %d stages, %" G_GINT64_FORMAT
               " micro-batches and %d steps",
               run->options.program, program->n_ranks, program->n_stages, program->n_micro_batches, program->n_steps,
               workload->plan->pp, workload->n_stages, workload->plan->n_micro_batches, workload->plan->steps);
    return NULL;
  }
  return g_steal_pointer(&program);
}

static gboolean make_program(Run *run, GError **error) {
  g_autoptr(Program) program = run->options.program ? given_program(run, error) : program_of_plan(run->workload, error);
  if (program == NULL)
    return FALSE;
  if (run->options.program != NULL && !program_layers_fit(program, run->workload, error)) {
    g_prefix_error(error, "%s: ", run->options.program);
    return FALSE;
  }
  run->program =
      program->expansion == EXPANSION_ALL ? g_steal_pointer(&program) : program_expand(program, run->workload);
  if (!trainable_check_run(run->workload, error))
    return FALSE;
  if (run->options.program == NULL || program_fits(run->program, run->workload, error))
    return TRUE;
  g_prefix_error(error, "%s: ", run->options.program);
  return FALSE;
}

static const CommType *find_comm(const RunOptions *o, World *world, GError **error) {
  const gboolean is_cuda = g_strcmp0(o->device, "cuda") == 0;
  if (o->comm != NULL)
    return comm_find(o->comm, error);
  if (is_cuda && g_strv_contains(comm_names(), "nccl"))
    return comm_find("nccl", error);
  return comm_find(world_size(world) > 1 || g_strv_contains(comm_names(), "mpi") ? "mpi" : "null", error);
}

/* A device that computes nothing, or communication that moves nothing, leaves no numbers to compare. */
static gboolean can_check(const Run *run, int n_ranks, GError **error) {
  const Execution *execution = &run->execution;
  const DeviceType *devices[] = {execution->device, execution->check_device};
  static const char *const options[] = {"--device", "--check-on"};
  for (gsize i = 0; i < G_N_ELEMENTS(devices); i++)
    if (devices[i] == &null_device)
      return fail_input(error, "--check and %s null clash: the device null computes nothing; use cpu or cuda",
                        options[i]);
  if (execution->comm == &null_comm && n_ranks > 1)
    return fail_input(error, "--check and --comm null clash: nothing is moved between the %d ranks; use mpi or nccl",
                      n_ranks);
  return TRUE;
}

/* Sets the loss scaling, if the precision has any. */
static gboolean read_loss_scale(const RunOptions *o, Training *training, GError **error) {
  const Precision precision = o->plan.plan->precision;
  const gboolean with_window = o->initial_loss_scale != NOT_GIVEN || o->loss_scale_window != NOT_GIVEN;
  if ((o->loss_scale != NULL || with_window) && precision != PRECISION_FP16)
    return fail_input(error, "a loss scale belongs to --precision fp16, found %s: leave %s out",
                      precision_info(precision)->name,
                      o->loss_scale != NULL                ? "--loss-scale"
                      : o->initial_loss_scale != NOT_GIVEN ? "--initial-loss-scale"
                                                           : "--loss-scale-window");
  if (o->loss_scale != NULL && strcmp(o->loss_scale, "dynamic") != 0) {
    char *end;
    training->loss_scale = g_ascii_strtod(o->loss_scale, &end);
    training->loss_scale_window = 0;
    if (end == o->loss_scale || *end != '\0' ||
        !(training->loss_scale >= least_loss_scale && training->loss_scale <= most_loss_scale))
      return fail_input(error, "--loss-scale: found \"%.80s\", expected dynamic or a number from %g to %g",
                        o->loss_scale, least_loss_scale, most_loss_scale);
    return !with_window || fail_input(error,
                                      "--loss-scale %s stays what it is: leave --initial-loss-scale and "
                                      "--loss-scale-window out, or use --loss-scale dynamic",
                                      o->loss_scale);
  }
  if (o->initial_loss_scale != NOT_GIVEN)
    training->loss_scale = o->initial_loss_scale;
  if (o->loss_scale_window != NOT_GIVEN)
    training->loss_scale_window = o->loss_scale_window;
  return check_option("initial-loss-scale", training->loss_scale,
                      training->loss_scale >= 1 && training->loss_scale <= most_loss_scale,
                      "a number from 1 to 1.70141e+38", error) &&
         check_option("loss-scale-window", training->loss_scale_window, training->loss_scale_window > 0,
                      "steps, more than 0", error);
}

static gboolean make_execution(Run *run, World *world, GError **error) {
  const RunOptions *o = &run->options;
  double capacity = 0;
  if (o->memory != NULL && !units_parse(o->memory, UNIT_BYTES, &capacity, error)) {
    g_prefix_error(error, "--memory: ");
    return FALSE;
  }
  run->execution = (Execution){.workload = run->workload,
                               .program = run->program,
                               .world = world,
                               .rank = world_rank(world),
                               .device = device_find(o->device ? o->device : "cpu", error),
                               .capacity_bytes = (gint64)capacity,
                               .training = training_default()};
  run->execution.training.lr = o->lr;
  run->execution.training.seed = o->plan.plan->seed;
  if (run->execution.device == NULL || !read_loss_scale(o, &run->execution.training, error))
    return FALSE;
  if (o->check_on != NULL && (run->execution.check_device = device_find(o->check_on, error)) == NULL)
    return FALSE;
  if ((o->check_on != NULL || o->check_fp32 != NULL || o->check_time != NULL) && !o->check)
    return fail_input(error, "--check-%s needs --check",
                      o->check_on != NULL     ? "on"
                      : o->check_fp32 != NULL ? "fp32"
                                              : "time");
  run->execution.comm = find_comm(o, world, error);
  return run->execution.comm != NULL && (!o->check || can_check(run, world_size(world), error));
}

static gboolean prepare(Run *run, World *world, GError **error) {
  return read_inputs(&run->options.plan, error) && make_workload(run, world, error) && make_program(run, error) &&
         make_execution(run, world, error);
}

/* --- one run on all ranks --- */

enum { N_TRAITS = 3, TRAIT_BYTES = 65 };
static const char *const trait_names[N_TRAITS] = {"model", "plan", "--check, --seed, --lr or loss scale"};

static void add_trait(char (*traits)[TRAIT_BYTES], int i, char *text) {
  g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
  g_strlcpy(traits[i], sum, TRAIT_BYTES);
  g_free(text);
}

/* The Program; where ranks of dp have lengths of their own, the first one's. Owned by the caller. */
static char *common_program_text(const Run *run) {
  if (run->workload->micro_batches == NULL)
    return program_to_text(run->program);
  Workload first;
  workload_view_init(&first, run->workload, 0);
  g_autoptr(Program) program = program_of_plan(&first, NULL);
  workload_view_clear(&first);
  return program_to_text(program);
}

/* What all ranks must agree on: checksums of three texts. */
static void find_traits(const Run *run, char (*traits)[TRAIT_BYTES]) {
  const Model *model = run->workload->model;
  const Layout *layout = &run->workload->layout;
  GString *plan = g_string_new(NULL);
  for (int axis = 0; axis < N_AXES; axis++)
    g_string_append_printf(plan, "%d %d ", layout->size[axis], layout->stride[axis]);
  g_autofree char *program = common_program_text(run);
  g_string_append(plan, program);
  add_trait(traits, 0,
            g_strdup_printf("%s %" G_GINT64_FORMAT " %" G_GINT64_FORMAT " %" G_GINT64_FORMAT, model->name,
                            (gint64)model->n_layers, (gint64)model->hidden, (gint64)model->vocab));
  add_trait(traits, 1, g_string_free(plan, FALSE));
  add_trait(traits, 2,
            g_strdup_printf("%d %d %d %" G_GINT64_FORMAT " %.17g %.17g %d", run->options.check,
                            is_on(run->options.check_fp32), is_on(run->options.check_time),
                            (gint64)run->options.plan.plan->seed, run->options.lr, run->execution.training.loss_scale,
                            run->execution.training.loss_scale_window));
}

/* With different command lines, ranks would wait for each other or train different models. */
static gboolean agrees_with_first(const Run *run, World *world, GError **error) {
  char own[N_TRAITS][TRAIT_BYTES], first[N_TRAITS][TRAIT_BYTES];
  find_traits(run, own);
  memcpy(first, own, sizeof own);
  world_broadcast(world, first, sizeof first, 0);
  for (int i = 0; i < N_TRAITS; i++)
    if (strcmp(own[i], first[i]) != 0)
      return fail_input(error, "rank %d has another %s than rank 0: all ranks of a run need the same command line",
                        world_rank(world), trait_names[i]);
  return TRUE;
}

/* --- running --- */

static void show_progress(int step, int n_steps, gpointer data) {
  fprintf(stderr, "\rstep %d of %d%s", step + 1, n_steps, step + 1 == n_steps ? "\r\033[K" : "");
  fflush(stderr);
}

/* If one file cannot be written, the other and the report still are; the report then goes to stderr. */
static gboolean write_results(const Run *run, const Trace *trace, const MeasuredReport *report, GError **error) {
  const RunOptions *o = &run->options;
  const gboolean is_traced = o->trace == NULL || chrome_trace_write(trace, o->trace, error);
  GError **of_picture = is_traced ? error : NULL;
  const gboolean is_drawn =
      o->timeline == NULL ||
      picture_take(timeline_picture(trace, time_unit_for(trace_end(trace)), "Measured training step", 0, of_picture),
                   o->timeline, of_picture);
  const gboolean is_written = is_traced && is_drawn;
  const gboolean is_printed = g_strcmp0(o->trace, "-") != 0 && g_strcmp0(o->timeline, "-") != 0;
  if (is_printed) { /* "-": only that goes to stdout */
    g_autofree char *text = o->plan.json ? measured_report_json(report) : measured_report_text(report);
    fputs(text, is_written ? stdout : stderr);
  }
  if (is_printed || !is_written || report->check == NULL || report->check->is_passed)
    return is_written;
  g_autoptr(GPtrArray) reasons = check_report_reasons(report->check);
  return fail_impossible(error, "--check: %s", (const char *)g_ptr_array_index(reasons, 0));
}

static gboolean report_run(const Run *run, World *world, const ExecutionResult *result, CheckReport *check,
                           GError **error) {
  const Execution *execution = &run->execution;
  g_autoptr(Trace) trace = measured_trace(world, run->workload, run->program, result);
  g_autofree double *losses = measured_losses(world, run->workload, run->program->n_steps, result);
  const HostLead lead = measured_host_lead(world, run->workload, run->program, result);
  if (trace == NULL)
    return TRUE;
  if (check != NULL && is_on(run->options.check_time))
    check_timed_losses(check, losses);
  g_autoptr(Metrics) metrics = metrics_new(trace);
  g_autofree gint64 *steps_ns = measured_steps_ns(trace);
  const Cluster *cluster = run->options.plan.cluster;
  const Number number = precision_info(run->workload->plan->precision)->linear;
  const char *shared;
  const int n_sharers = world_most_sharers(world, &shared);
  const MeasuredReport report = {.workload = run->workload,
                                 .metrics = metrics,
                                 .device = execution->device->name,
                                 .comm = execution->comm->name,
                                 .device_name = result->device_name,
                                 .clock_Hz = result->clock_Hz,
                                 .attention = result->attention,
                                 .peak_flops = cluster != NULL ? cluster->gpu.peak_flops[number] : 0,
                                 .n_sharers = n_sharers,
                                 .shared = shared,
                                 .steps_ns = steps_ns,
                                 .losses = losses,
                                 .scales = result->scales,
                                 .n_steps = run->program->n_steps,
                                 .lead = lead,
                                 .median_ns = measured_median_ns(steps_ns, run->program->n_steps),
                                 .check = check};
  return write_results(run, trace, &report, error);
}

/* A run that fails midway ends all ranks at once. */
static void run_or_fail(const Run *run, World *world, ExecutionResult *result) {
  g_autoptr(GError) error = NULL;
  Execution execution = run->execution;
  if (world_rank(world) == 0 && isatty(STDERR_FILENO))
    execution.progress = show_progress;
  if (!execute(&execution, result, &error))
    world_fail(world, error->message);
}

/* `result`: receives the checked run's result; may be NULL. */
static void check_or_fail(const Run *run, World *world, CheckReport *check, ExecutionResult *result) {
  g_autoptr(GError) error = NULL;
  if (!check_numerics(&run->execution, is_on(run->options.check_fp32), check, result, &error))
    world_fail(world, error->message);
}

static int run_all(Run *run, World *world, GError **error) {
  CheckReport check = {0};
  ExecutionResult result;
  const gboolean is_timed = !run->options.check || is_on(run->options.check_time);
  if (run->options.check)
    check_or_fail(run, world, &check, is_timed ? NULL : &result);
  if (is_timed)
    run_or_fail(run, world, &result);
  const gboolean ok = report_run(run, world, &result, run->options.check ? &check : NULL, error);
  const gboolean is_wrong = run->options.check && world_rank(world) == 0 && !check.is_passed; /* rank 0 compares */
  execution_result_clear(&result);
  check_report_clear(&check);
  return ok && is_wrong ? 1 : 0;
}

static int run_in(Run *run, World *world, GError **error) {
  rank_timeouts_apply(&run->options.timeouts, world);
  if (!world_all(world, prepare(run, world, error)) || !world_all(world, agrees_with_first(run, world, error)))
    return 0;
  comm_find_sharers(world, run->execution.device);
  return run_all(run, world, error);
}

int command_run(int argc, char **argv, GError **error) {
  Run run = {0};
  if (!parse_options(&run.options, argc, argv, error)) {
    clear_run(&run);
    return 2;
  }
  World *world = world_open(&argc, &argv, run.options.timeouts.start_s, error);
  if (world == NULL) {
    clear_run(&run);
    return 1;
  }
  int status = run_in(&run, world, error);
  status = real_command_close(world, status, error);
  clear_run(&run);
  return status;
}

int command_run_again(World *world, int argc, char **argv, GError **error) {
  Run run = {0};
  const int status = parse_options(&run.options, argc, argv, error) ? run_in(&run, world, error) : 2;
  clear_run(&run);
  return status;
}
