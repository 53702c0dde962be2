#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "chrome_trace.h"
#include "command.h"
#include "draw.h"
#include "error.h"
#include "json_report.h"
#include "memory_timeline.h"
#include "options.h"
#include "order_csv.h"
#include "order_read.h"
#include "order_run.h"
#include "output.h"
#include "parser.h"
#include "passes.h"
#include "picture.h"
#include "program_csv.h"
#include "program_text.h"
#include "schedule_times.h"
#include "text_report.h"
#include "timeline.h"
#include "units.h"

enum { MOST_RANKS = 4096, MOST_CHUNKS = 1024 };

typedef struct {
  char *schedule, *overlap_experts, *times, *memory, *memory_cap, *memory_plot, *barrier, *csv, *csv_format, *from,
      *timeline, *trace, *dump_after, *dump;
  gint pp, chunks, micro_batches, group, steps, width;
  gboolean draw, json;
  gboolean takes_turns;
  gboolean no_report; /* standard output is used for something else */
} ScheduleOptions;

static void clear_options(ScheduleOptions *o) {
  char **strings[] = {&o->overlap_experts, &o->schedule, &o->times,      &o->memory,     &o->memory_cap,
                      &o->memory_plot,     &o->barrier,  &o->csv,        &o->csv_format, &o->from,
                      &o->timeline,        &o->trace,    &o->dump_after, &o->dump};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
}

/* Refuse options that another option would make ineffective. */
static gboolean check_outputs(ScheduleOptions *o, GError **error) {
  const struct {
    const char *option, *file;
  } needs_run[] = {
      {"--dump", o->dump}, {"--trace", o->trace}, {"--timeline", o->timeline}, {"--memory-plot", o->memory_plot}};
  for (gsize i = 0; i < G_N_ELEMENTS(needs_run) && o->dump_after != NULL; i++)
    if (needs_run[i].file != NULL)
      return fail_input(error, "--dump-after and %s clash: nothing runs after that dump", needs_run[i].option);
  const Printed printed[] = {{"--json", .given = o->json},
                             {"--dump-after", .given = o->dump_after != NULL},
                             {"--csv", .file = o->csv},
                             {"--dump", .file = o->dump},
                             {"--trace", .file = o->trace},
                             {"--draw", .given = o->draw, .in_report = TRUE},
                             {NULL}};
  if (o->csv_format != NULL && o->csv == NULL)
    return fail_input(error, "--csv-format says how --csv FILE is written, which is missing");
  if (o->csv_format != NULL && strcmp(o->csv_format, "compute") != 0 && strcmp(o->csv_format, "comms") != 0)
    return fail_input(error, "--csv-format: found \"%s\", expected compute or comms", o->csv_format);
  return output_check_printed(printed, &o->no_report, error) &&
         (o->timeline == NULL || picture_check_file(o->timeline, error)) &&
         (o->memory_plot == NULL || picture_check_file(o->memory_plot, error));
}

static void add_entries(ScheduleOptions *o, Parser *parser) {
  const GOptionEntry entries[] = {
      {"schedule", 0, 0, G_OPTION_ARG_FILENAME, &o->schedule, plan_field_help(plan_field(plan_field_find("schedule"))),
       "NAME"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline ranks", "N"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks,
       "model chunks per rank (default: what the schedule needs; 2 of interleaved and looped-bfs)", "N"},
      {"micro-batches", 0, 0, G_OPTION_ARG_INT, &o->micro_batches, "micro-batches per step", "N"},
      {"micro-batch-group", 0, 0, G_OPTION_ARG_INT, &o->group,
       "interleaved: micro-batches that pass a chunk in a row (default: about as many as ranks)", "N"},
      {"overlap-experts", 0, 0, G_OPTION_ARG_STRING, &o->overlap_experts,
       "interleaved, and 1f1b of one rank: the order whose forwards and backwards hide each other's exchanges with "
       "experts, which has one forward more run ahead: on or off (default off)",
       "on|off"},
      {"times", 0, 0, G_OPTION_ARG_STRING, &o->times,
       "time of one rank for one micro-batch, a chunk taking its share: forward, input gradient, weight gradient, bare "
       "or with unit (default F=1,I=1,W=1); FB=T of an overlapped forward and backward (default F + I + W), send=T "
       "to another rank (default 0)",
       "F=T,I=T,W=T"},
      {"memory", 0, 0, G_OPTION_ARG_STRING, &o->memory,
       "what a micro-batch leaves on a rank: F holds, I and W drop, in any unit (default F=1,I=0,W=1: micro-batches "
       "held)",
       "F=N,I=N,W=N"},
      {"memory-cap", 0, 0, G_OPTION_ARG_STRING, &o->memory_cap,
       "schedule auto: most a rank may hold, in the unit of --memory (default: no limit)", "N"},
      {"from", 0, 0, G_OPTION_ARG_FILENAME, &o->from, "take the order from PyTorch's CSV instead", "FILE.csv"},
      {"csv", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->csv,
       "write the order as PyTorch's CSV (- is standard output, without a report)", "FILE"},
      {"csv-format", 0, 0, G_OPTION_ARG_STRING, &o->csv_format,
       "compute: F, I, W and B only; comms: with sends and receives where the passes put them (default: compute, or as "
       "--from has it)",
       "compute|comms"},
      {"draw", 0, 0, G_OPTION_ARG_NONE, &o->draw, "draw it in the terminal", NULL},
      {"width", 0, 0, G_OPTION_ARG_INT, &o->width,
       "columns of the drawing, 40 to 10000 (default: $COLUMNS, the terminal's, or 120)", "N"},
      {"timeline", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->timeline, "draw it as a picture", "FILE.svg|png|pdf"},
      {"memory-plot", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->memory_plot, "draw what each rank holds over time",
       "FILE.svg|png|pdf"},
      {"trace", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->trace,
       "write a Chrome trace (- is standard output, without a report)", "FILE.json"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps,
       "steps run back to back; more than 1 reports the steady state (default 1)", "N"},
      {"grad-norm-barrier", 0, 0, G_OPTION_ARG_STRING, &o->barrier,
       "with --steps: all ranks wait for the slowest before the next step (default off: the norm is checked "
       "afterwards)",
       "on|off"},
      {"dump", 0, OPTION_WRITES, G_OPTION_ARG_FILENAME, &o->dump,
       "write the Program as text (- is standard output, without a report)", "FILE"},
      {"dump-after", 0, 0, G_OPTION_ARG_STRING, &o->dump_after,
       "print the Program after this pass and stop: place, unshard, send_recv, reduce_grad, optimizer, offload, "
       "memory or steps",
       "PASS"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
}

static gboolean parse_options(ScheduleOptions *o, int *argc, char ***argv, GError **error) {
  *o = (ScheduleOptions){.pp = OPTION_NOT_GIVEN,
                         .chunks = OPTION_NOT_GIVEN,
                         .micro_batches = OPTION_NOT_GIVEN,
                         .group = OPTION_NOT_GIVEN,
                         .steps = 1,
                         .width = OPTION_NOT_GIVEN};
  g_autoptr(Parser) parser =
      parser_new(NULL, "Runs a pipeline schedule on its own, with given stage times and free communication.",
                 "Example:\n  stepsim schedule --schedule interleaved --pp 4 --chunks 2 --micro-batches 8 --times "
                 "F=1,I=1,W=1 --draw\n\n"
                 "Bubble is measured on stage spans: the longest (last end − first start) of a rank, less its work.\n"
                 "bubble_fraction is bubble / span, bubble_overhead is bubble / work.\n\n"
                 "Exit status: 0 done, 1 the order is impossible, 2 bad usage or input.");
  add_entries(o, parser);
  if (!parser_run(parser, argc, argv, FALSE, error))
    return FALSE;
  const char *file = o->schedule != NULL ? schedule_file(o->schedule) : NULL;
  if (file != NULL && o->from == NULL) { /* the same as --from */
    o->from = g_strdup(file);
    g_clear_pointer(&o->schedule, g_free);
  }
  return check_outputs(o, error);
}

static const char *schedule_name(const ScheduleOptions *o) {
  return o->schedule != NULL ? schedule_spelling(o->schedule) : schedule_default(o->chunks);
}

static gboolean check_count(const char *option, gint count, gint most, GError **error) {
  if (count == OPTION_NOT_GIVEN)
    return fail_input(error, "%s is missing: an order needs --pp and --micro-batches, or --from FILE.csv", option);
  if (count < 1 || count > most)
    return fail_input(error, "%s: found %d, expected 1 to %d", option, count, most);
  return TRUE;
}

/* Typed options may only repeat what the file says. */
static gboolean check_read(const ScheduleOptions *o, const Order *order, GError **error) {
  const Placement *placement = order->placement;
  const struct {
    const char *option;
    gint given;
    int read;
  } counts[] = {{"--pp", o->pp, placement->n_ranks},
                {"--chunks", o->chunks, placement->n_stages / placement->n_ranks},
                {"--micro-batches", o->micro_batches, order->n_micro_batches}};
  for (gsize i = 0; i < G_N_ELEMENTS(counts); i++)
    if (counts[i].given != OPTION_NOT_GIVEN && counts[i].given != counts[i].read)
      return fail_input(error, "%s %d: the order in %.200s has %d", counts[i].option, counts[i].given, o->from,
                        counts[i].read);
  return TRUE;
}

static Order *read_order(const ScheduleOptions *o, GError **error) {
  const char *clash = o->schedule != NULL            ? "--schedule"
                      : o->group != OPTION_NOT_GIVEN ? "--micro-batch-group"
                      : o->takes_turns               ? "--overlap-experts"
                                                     : NULL;
  if (clash != NULL) {
    fail_input(error, "--from %.200s and %s clash: the file gives the order", o->from, clash);
    return NULL;
  }
  g_autoptr(Order) order = order_read_csv(o->from, error);
  return order != NULL && check_read(o, order, error) ? g_steal_pointer(&order) : NULL;
}

/* Check the counts as typed; the schedule fills in chunks. */
static gboolean check_counts(ScheduleOptions *o, const ScheduleFacts *schedule, GError **error) {
  if (!check_count("--pp", o->pp, MOST_RANKS, error) ||
      (o->chunks != OPTION_NOT_GIVEN && !check_count("--chunks", o->chunks, MOST_CHUNKS, error)) ||
      (o->group != OPTION_NOT_GIVEN && !check_count("--micro-batch-group", o->group, G_MAXINT, error)) ||
      !check_count("--micro-batches", o->micro_batches, G_MAXINT, error))
    return FALSE;
  if (o->chunks == OPTION_NOT_GIVEN)
    o->chunks = schedule != NULL ? schedule_default_chunks(schedule, o->pp) : 1;
  return order_run_check_size(o->pp, o->chunks, o->micro_batches, o->steps, error);
}

/* A run's clock: ticks per nanosecond, or per bare unit. */
static double ticks_of(const ScheduleOptions *o, const GivenTimes *times, const Placement *placement, double n) {
  const int n_ranks = placement->n_ranks, n_passes = placement->n_stages / n_ranks / placement->n_pipes;
  return given_times_ticks(times, n_passes, n_ranks * (n + n_ranks) * o->steps);
}

static Order *make_auto(ScheduleOptions *o, const GivenTimes *times, const OrderSetting *setting, GError **error) {
  double cap;
  if (o->group != OPTION_NOT_GIVEN || o->takes_turns) {
    fail_input(error, "--%s and --schedule auto clash: the order is made for the times",
               o->takes_turns ? "overlap-experts" : "micro-batch-group");
    return NULL;
  }
  const gboolean is_open = o->chunks == OPTION_NOT_GIVEN;
  if (!parse_memory_cap(o->memory_cap, &cap, error) || !check_counts(o, NULL, error))
    return NULL;
  const int n_chunks = is_open ? AUTO_CHUNKS : o->chunks; /* the ticks of several chunks are whole for one */
  g_autoptr(Placement) placement = schedule_auto_placement(o->pp, n_chunks);
  OrderSetting in_ticks = *setting;
  in_ticks.times = given_times_in(times, ticks_of(o, times, placement, o->micro_batches));
  const OrderShape shape = {.n_ranks = o->pp, .n_chunks = is_open ? 0 : o->chunks, .n_micro_batches = o->micro_batches};
  return order_run_auto(shape, &in_ticks, cap, error);
}

static Order *make_named(const ScheduleOptions *o, const ScheduleFacts *schedule, GError **error) {
  const OrderShape shape = {o->pp, o->chunks, o->micro_batches, o->group != OPTION_NOT_GIVEN ? o->group : 0,
                            o->takes_turns};
  g_autoptr(Order) order = order_new(schedule, shape, error);
  if (order == NULL || !o->takes_turns || order->exchange == EXCHANGE_ROUNDS)
    return g_steal_pointer(&order);
  fail_impossible(error,
                  "--overlap-experts on: schedule %s with pp %d and %d chunk%s has no rounds of a forward and a "
                  "backward; expected interleaved with chunks, or 1f1b with pp 1",
                  schedule->name, o->pp, o->chunks, o->chunks > 1 ? "s" : "");
  return NULL;
}

static Order *make_order(ScheduleOptions *o, const GivenTimes *times, const OrderSetting *setting, GError **error) {
  if (o->from == NULL && !schedule_check_name(schedule_name(o), error))
    return NULL;
  const ScheduleFacts *schedule = o->from == NULL ? schedule_find(schedule_name(o), NULL) : NULL;
  if (o->memory_cap != NULL && (o->from != NULL || schedule != NULL)) {
    fail_input(error, "--memory-cap limits the order that --schedule auto makes; found another schedule");
    return NULL;
  }
  if (o->from != NULL)
    return read_order(o, error);
  if (schedule == NULL)
    return make_auto(o, times, setting, error);
  if (!check_counts(o, schedule, error))
    return NULL;
  return make_named(o, schedule, error);
}

/* Times are reported in the unit they were given in, or in seconds. */
static double unit_in_ticks(const GivenTimes *times, double ticks) {
  return times->bare ? ticks : 1e9 * ticks;
}

/* A time above 0 must not round to 0, on the clock or in a trace of nanoseconds. */
static gboolean check_resolution(const Order *order, const GivenTimes *times, double ticks, GError **error) {
  const Placement *placement = order->placement;
  const int n_passes = placement->n_stages / placement->n_ranks / placement->n_pipes;
  const double least = times->bare ? 1 / ticks : 1;
  const struct {
    const char *name;
    double time;
  } all[] = {{"F", times->f / n_passes},
             {"I", times->i / n_passes},
             {"W", times->w / n_passes},
             {"FB", times->pair / n_passes},
             {"send", times->send}};
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i].time > 0 && all[i].time < least)
      return fail_input(error, "--times: %s takes %.4g%s%s, expected 0 or at least %.4g%s", all[i].name, all[i].time,
                        times->bare ? "" : " ns", n_passes > 1 ? " a chunk" : "", least,
                        times->bare ? " beside the others: the clock counts to 2^53" : " ns");
  return TRUE;
}

/* Even with all passes run one after the other, the end must fit the clock. */
static gboolean check_length(const Order *order, const GivenTimes *times, int n_steps, GError **error) {
  const StageTimes stage = given_times_in(times, times->bare ? BARE_UNIT_NS : 1);
  double pass_ns = MAX(stage.f_ns + stage.i_ns + stage.w_ns, stage.pair_ns);
  double ns = pass_ns * order->placement->n_ranks * order->n_micro_batches * n_steps;
  if (ns <= 4e18)
    return TRUE;
  return fail_input(error,
                    "--times: %.4g s a micro-batch on each of %d ranks, times %d micro-batches and %d steps, is more "
                    "than a century",
                    pass_ns * 1e-9, order->placement->n_ranks, order->n_micro_batches, n_steps);
}

static int drawing_width(const ScheduleOptions *o) {
  return o->width != OPTION_NOT_GIVEN ? CLAMP(o->width, 40, 10000) : output_columns();
}

static gboolean write_pictures(const ScheduleOptions *o, const OrderRun *run, TimeUnit unit, const char *title,
                               GError **error) {
  if (o->timeline != NULL && !picture_take(timeline_picture(run->trace, unit, title, 0, error), o->timeline, error))
    return FALSE;
  const MemoryTimelineLook look = {title, o->memory != NULL ? "units of --memory" : "micro-batches", 1, 0, 0};
  return o->memory_plot == NULL ||
         picture_take(memory_timeline_picture(run->trace, unit, &look, error), o->memory_plot, error);
}

/* Turns ticks into nanoseconds. */
static void scale_trace(Trace *trace, double ticks_per_ns) {
  gint64 *const columns[] = {trace->start_ns, trace->end_ns, trace->issue_ns};
  for (gsize column = 0; column < G_N_ELEMENTS(columns) && ticks_per_ns != 1; column++)
    for (gsize i = 0; i < trace->first[trace->n_ranks]; i++)
      columns[column][i] = llround((double)columns[column][i] / ticks_per_ns);
}

static gboolean write_texts(const ScheduleOptions *o, const OrderRun *run, GError **error) {
  if (o->trace != NULL && !chrome_trace_write(run->trace, o->trace, error))
    return FALSE;
  g_autofree char *text = o->dump != NULL ? program_to_text(run->program) : NULL;
  return text == NULL || output_text(o->dump, text, error);
}

/* Add the known closed-form bubble at the given times, if the schedule is in the table and communication is free. */
static void add_closed_form(const ScheduleOptions *o, const GivenTimes *times, double ticks, const OrderRun *run,
                            ScheduleReport *report) {
  const ScheduleFacts *schedule = o->from == NULL ? schedule_find(schedule_name(o), NULL) : NULL;
  const StageTimes stage = given_times_in(times, ticks);
  if (schedule == NULL || stage.send_ns > 0)
    return;
  const Program *program = run->program;
  const int n_chunks = program->n_stages / program->n_ranks, n_passes = n_chunks / program->n_pipes;
  const StageTimes pass = order_run_pass_times(&stage, n_passes);
  const PhaseTimes phases = {pass.f_ns * n_passes, pass.i_ns * n_passes, pass.w_ns * n_passes, pass.pair_ns * n_passes};
  const OrderShape shape = {program->n_ranks, n_chunks, program->n_micro_batches,
                            o->group != OPTION_NOT_GIVEN ? o->group : 0};
  const Bubble bubble = schedule_bubble(schedule, shape, &phases);
  report->closed_form_bubble = bubble.time / unit_in_ticks(times, ticks);
  report->closed_form_is_exact = bubble.is_exact;
}

static char *make_title(const ScheduleOptions *o, const Program *program) {
  g_autoptr(GString) title = g_string_new(o->from != NULL ? o->from : schedule_name(o));
  units_append_count(g_string_append(title, ": "), program->n_ranks, "pipeline rank", "pipeline ranks");
  units_append_count(g_string_append(title, ", "), program->n_stages, "stage", "stages");
  units_append_count(g_string_append(title, ", "), program->n_micro_batches, "micro-batch", "micro-batches");
  return g_string_free(g_steal_pointer(&title), FALSE);
}

/* Of drawings. */
static TimeUnit drawn_unit(const GivenTimes *times, double ticks, const Trace *trace) {
  TimeUnit unit = times->bare ? (TimeUnit){"units of --times", 1} : time_unit_for((gint64)(trace_end(trace) / ticks));
  unit.ns *= ticks;
  return unit;
}

/* Appends to `out` what is printed. */
static gboolean add_outputs(const ScheduleOptions *o, OrderRun *run, const GivenTimes *times, double ticks,
                            GString *out, GError **error) {
  g_autofree char *title = make_title(o, run->program);
  const TimeUnit unit = drawn_unit(times, ticks, run->trace);
  g_auto(ScheduleReport) report;
  schedule_report_init(&report, run->trace, run->metrics, unit_in_ticks(times, ticks));
  add_closed_form(o, times, ticks, run, &report);
  if (o->draw)
    draw_schedule(run->trace, unit, drawing_width(o), text_report_wants_colour(STDOUT_FILENO), out);
  g_autofree char *json = o->json ? json_report_schedule(&report) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->no_report)
    schedule_report_text(&report, title, times->bare ? " units of --times" : " s", out);
  if (!write_pictures(o, run, unit, title, error))
    return FALSE;
  scale_trace(run->trace, ticks / (times->bare ? BARE_UNIT_NS : 1));
  return write_texts(o, run, error);
}

/* The order as it is; for compute without communication; for comms, if it names none, the CSV of its Program. */
static char *csv_of(const ScheduleOptions *o, const Order *order, GError **error) {
  if (g_strcmp0(o->csv_format, "compute") == 0)
    return order_to_compute_csv(order);
  if (o->csv_format == NULL || order->has_send_recv || order->has_unshard || order->has_reduce_grad)
    return order_to_csv(order);
  Lowering lowering = {.order = order, .n_steps = 1};
  g_autoptr(Program) program = lower(&lowering, NULL, NULL, error);
  return program != NULL ? program_to_csv(program) : NULL;
}

static gboolean write_csv(const ScheduleOptions *o, const Order *order, GError **error) {
  if (o->csv == NULL)
    return TRUE;
  g_autofree char *csv = csv_of(o, order, error);
  return csv != NULL && output_text(o->csv, csv, error);
}

static gboolean run_order(const ScheduleOptions *o, const GivenTimes *times, double ticks, const OrderSetting *setting,
                          const Order *order, GString *out, GError **error) {
  g_autofree char *dump = NULL;
  OrderSetting in_ticks = *setting;
  in_ticks.times = given_times_in(times, ticks);
  g_autoptr(OrderRun) order_run = order_run_in(order, &in_ticks, o->dump_after, &dump, error);
  if (dump != NULL)
    g_string_append(out, dump);
  if (order_run == NULL) {
    if (o->from != NULL)
      g_prefix_error(error, "%s: ", o->from);
    return FALSE;
  }
  return o->dump_after != NULL || add_outputs(o, order_run, times, ticks, out, error);
}

static gboolean run(ScheduleOptions *o, GString *out, GError **error) {
  GivenTimes times;
  HeldShares held;
  gboolean barrier = FALSE;
  if (!parse_times(o->times, &times, error) || !parse_memory(o->memory, &held, error) ||
      !parse_switch("--grad-norm-barrier", o->barrier, &barrier, error) ||
      !parse_switch("--overlap-experts", o->overlap_experts, &o->takes_turns, error) ||
      !check_count("--steps", o->steps, 1000, error))
    return FALSE;
  if (o->width != OPTION_NOT_GIVEN && o->width < 1)
    return fail_input(error, "--width: found %d, expected columns", o->width);
  const OrderSetting setting = {.n_steps = o->steps, .barrier = barrier, .held = &held};
  g_autoptr(Order) order = make_order(o, &times, &setting, error);
  const double ticks = order != NULL ? ticks_of(o, &times, order->placement, order->n_micro_batches) : 0;
  if (order == NULL || !check_resolution(order, &times, ticks, error) ||
      !check_length(order, &times, o->steps, error) ||
      !order_run_check_size(order->placement->n_ranks, order->placement->n_stages / order->placement->n_ranks,
                            order->n_micro_batches, o->steps, error))
    return FALSE;
  if (!write_csv(o, order, error))
    return FALSE;
  return run_order(o, &times, ticks, &setting, order, out, error);
}

gboolean schedule_answer(int argc, char **argv, GString *out, GError **error) {
  ScheduleOptions options;
  gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, out, error);
  clear_options(&options);
  return ok;
}

int command_schedule(int argc, char **argv, GError **error) {
  g_autoptr(GString) out = g_string_new(NULL);
  if (!schedule_answer(argc, argv, out, error))
    return 2;
  fputs(out->str, stdout);
  return 0;
}
