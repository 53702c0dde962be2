#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "chrome_trace.h"
#include "command.h"
#include "draw.h"
#include "error.h"
#include "gnuplot.h"
#include "json_report.h"
#include "options.h"
#include "order_run.h"
#include "output.h"
#include "parser.h"
#include "program_text.h"
#include "text_report.h"
#include "time_unit.h"
#include "timeline.h"
#include "units.h"

/* A bare time unit is this many nanoseconds, so that halves … sixteenths of it are whole: lcm(1 … 16). */
static const gint64 UNIT_NS = 720720;

enum { MOST_RANKS = 4096, MOST_CHUNKS = 1024 };

typedef struct {
  char *schedule, *times, *csv, *from, *timeline, *trace, *dump_after, *dump;
  gint pp, chunks, micro_batches, group, steps, width;
  gboolean draw, json;
  gboolean no_report; /* standard output holds something else */
} ScheduleOptions;

typedef struct {
  StageTimes stage;
  gboolean bare; /* numbers without unit */
} GivenTimes;

static void clear_options(ScheduleOptions *o) {
  char **strings[] = {&o->schedule, &o->times, &o->csv, &o->from, &o->timeline, &o->trace, &o->dump_after, &o->dump};
  for (gsize i = 0; i < G_N_ELEMENTS(strings); i++)
    g_clear_pointer(strings[i], g_free);
}

/* What would not be heeded beside something else is refused. */
static gboolean check_outputs(ScheduleOptions *o, GError **error) {
  const struct {
    const char *option, *file;
  } needs_run[] = {{"--dump", o->dump}, {"--trace", o->trace}, {"--timeline", o->timeline}};
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
  return output_check_printed(printed, &o->no_report, error) &&
         (o->timeline == NULL || gnuplot_check_file(o->timeline, error));
}

static gboolean parse_options(ScheduleOptions *o, int *argc, char ***argv, GError **error) {
  *o = (ScheduleOptions){.pp = OPTION_NOT_GIVEN,
                         .chunks = OPTION_NOT_GIVEN,
                         .micro_batches = OPTION_NOT_GIVEN,
                         .group = OPTION_NOT_GIVEN,
                         .steps = 1,
                         .width = OPTION_NOT_GIVEN};
  g_autoptr(Parser) parser =
      parser_new(NULL, "Runs a pipeline order alone, with given stage times and free communication.",
                 "Example:\n  stepsim schedule --schedule interleaved --pp 4 --chunks 2 --micro-batches 8 --times "
                 "F=1,I=1,W=1 --draw\n\n"
                 "Bubble is measured on stage spans: the longest (last end − first start) of a rank, less its work.\n"
                 "bubble_fraction is bubble / span, bubble_overhead is bubble / work.");
  const GOptionEntry entries[] = {
      {"schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule, options_schedule_help(), "NAME"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline ranks", "N"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks, "model chunks per rank (default: what the schedule needs)", "N"},
      {"micro-batches", 0, 0, G_OPTION_ARG_INT, &o->micro_batches, "micro-batches per step", "N"},
      {"micro-batch-group", 0, 0, G_OPTION_ARG_INT, &o->group,
       "interleaved: micro-batches that pass a chunk in a row (default: about as many as ranks)", "N"},
      {"times", 0, 0, G_OPTION_ARG_STRING, &o->times,
       "time of one rank for one micro-batch, a chunk taking its share: forward, input gradient, weight gradient, bare "
       "or with unit (default F=1,I=1,W=1)",
       "F=T,I=T,W=T"},
      {"from", 0, 0, G_OPTION_ARG_FILENAME, &o->from, "take the order from PyTorch's CSV instead", "FILE.csv"},
      {"csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv,
       "write the order as PyTorch's CSV (- is standard output, without a report)", "FILE"},
      {"draw", 0, 0, G_OPTION_ARG_NONE, &o->draw, "draw it in the terminal", NULL},
      {"width", 0, 0, G_OPTION_ARG_INT, &o->width,
       "columns of the drawing, 40 to 10000 (default: $COLUMNS, the terminal's, or 120)", "N"},
      {"timeline", 0, 0, G_OPTION_ARG_FILENAME, &o->timeline, "draw it as a picture", "FILE.svg|png|pdf"},
      {"trace", 0, 0, G_OPTION_ARG_FILENAME, &o->trace, "write a Chrome trace (- is standard output, without a report)",
       "FILE.json"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps, "steps chained (default 1)", "N"},
      {"dump", 0, 0, G_OPTION_ARG_FILENAME, &o->dump,
       "write the Program as text (- is standard output, without a report)", "FILE"},
      {"dump-after", 0, 0, G_OPTION_ARG_STRING, &o->dump_after,
       "print the Program after this pass and stop: place, unshard, send_recv, reduce_grad, optimizer, memory or steps",
       "PASS"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, FALSE, error) && check_outputs(o, error);
}

static gboolean parse_time(const char *text, double *ns, gboolean *bare, GError **error) {
  char *end = NULL;
  double number = g_ascii_strtod(text, &end);
  if (end != text && *end == '\0' && strpbrk(text, "xX") == NULL) {
    *bare = TRUE;
    *ns = number * UNIT_NS;
  } else {
    double seconds;
    if (!units_parse(text, UNIT_SECONDS, &seconds, error)) {
      g_prefix_error(error, "--times: ");
      return FALSE;
    }
    *bare = FALSE;
    *ns = seconds * 1e9;
  }
  if (!isfinite(*ns) || *ns < 0 || *ns > 86400e9)
    return fail_input(error, "--times: found \"%s\", expected a time from 0 to one day", text);
  return TRUE;
}

static gboolean parse_times(const char *text, GivenTimes *times, GError **error) {
  *times = (GivenTimes){{UNIT_NS, UNIT_NS, UNIT_NS}, TRUE};
  if (text == NULL)
    return TRUE;
  static const char *const letters[] = {"F", "I", "W", NULL};
  double *fields[] = {&times->stage.f_ns, &times->stage.i_ns, &times->stage.w_ns};
  gboolean given[3] = {FALSE}, bare[3];
  g_auto(GStrv) parts = g_strsplit(text, ",", -1);
  for (char **part = parts; *part != NULL; part++) {
    g_auto(GStrv) sides = g_strsplit(*part, "=", 2);
    int which = -1;
    for (int i = 0; i < 3; i++)
      if (g_strcmp0(sides[0], letters[i]) == 0)
        which = i;
    if (which < 0 || sides[1] == NULL || given[which])
      return fail_input(error, "--times: found \"%s\", expected each of F=…, I=… and W=… once", *part);
    given[which] = TRUE;
    if (!parse_time(sides[1], fields[which], &bare[which], error))
      return FALSE;
  }
  if (!given[0] || !given[1] || !given[2])
    return fail_input(error, "--times: found \"%s\", expected F=…,I=…,W=…", text);
  if (bare[0] != bare[1] || bare[1] != bare[2])
    return fail_input(error, "--times: found \"%s\": either all with a unit or none", text);
  times->bare = bare[0];
  return TRUE;
}

static const char *schedule_name(const ScheduleOptions *o) {
  return o->schedule != NULL ? o->schedule : o->chunks > 1 ? "interleaved" : "1f1b";
}

static gboolean check_count(const char *option, gint count, gint most, GError **error) {
  if (count == OPTION_NOT_GIVEN)
    return fail_input(error, "%s is missing: an order needs --pp and --micro-batches, or --from FILE.csv", option);
  if (count < 1 || count > most)
    return fail_input(error, "%s: found %d, expected 1 to %d", option, count, most);
  return TRUE;
}

static Order *read_order(const ScheduleOptions *o, GError **error) {
  const struct {
    const char *option;
    gboolean given;
  } clashing[] = {{"--schedule", o->schedule != NULL},
                  {"--pp", o->pp != OPTION_NOT_GIVEN},
                  {"--chunks", o->chunks != OPTION_NOT_GIVEN},
                  {"--micro-batches", o->micro_batches != OPTION_NOT_GIVEN},
                  {"--micro-batch-group", o->group != OPTION_NOT_GIVEN}};
  for (gsize i = 0; i < G_N_ELEMENTS(clashing); i++)
    if (clashing[i].given) {
      fail_input(error, "--from %.200s and %s clash: the file gives the order", o->from, clashing[i].option);
      return NULL;
    }
  struct stat status = {0};
  if (stat(o->from, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode) || status.st_size > 1 << 28)) {
    fail_input(error, "%s: a device or larger than 256 MiB, expected rows of actions", o->from);
    return NULL;
  }
  return order_read_csv(o->from, error);
}

static Order *make_order(ScheduleOptions *o, GError **error) {
  if (o->from != NULL)
    return read_order(o, error);
  if (!check_count("--pp", o->pp, MOST_RANKS, error) ||
      (o->chunks != OPTION_NOT_GIVEN && !check_count("--chunks", o->chunks, MOST_CHUNKS, error)) ||
      (o->group != OPTION_NOT_GIVEN && !check_count("--micro-batch-group", o->group, G_MAXINT, error)) ||
      !check_count("--micro-batches", o->micro_batches, G_MAXINT, error))
    return NULL;
  const ScheduleInfo *schedule = schedule_find(schedule_name(o), error);
  if (schedule == NULL)
    return NULL;
  if (o->chunks == OPTION_NOT_GIVEN)
    o->chunks = schedule->least_chunks;
  if (!order_run_check_size(o->pp, o->chunks, o->micro_batches, o->steps, error))
    return NULL;
  const OrderShape shape = {o->pp, o->chunks, o->micro_batches, o->group != OPTION_NOT_GIVEN ? o->group : 0};
  return order_new(schedule, shape, error);
}

/* Were all passes to run one after the other, their end would still have to be a time. */
static gboolean check_length(const Order *order, const GivenTimes *times, int n_steps, GError **error) {
  double pass_ns = times->stage.f_ns + times->stage.i_ns + times->stage.w_ns;
  double ns = pass_ns * order->placement->n_ranks * order->n_micro_batches * n_steps;
  if (ns <= 4e18)
    return TRUE;
  return fail_input(error,
                    "--times: %.4g s a micro-batch on each of %d ranks, times %d micro-batches and %d steps, is more "
                    "than a century",
                    pass_ns * 1e-9, order->placement->n_ranks, order->n_micro_batches, n_steps);
}

static ScheduleReport make_report(const OrderRun *run, const GivenTimes *times, int *in_flight) {
  const Metrics *metrics = run->metrics;
  double unit_ns = times->bare ? UNIT_NS : 1e9;
  gint64 work_ns = metrics->span_ns - metrics->span_bubble_ns;
  ScheduleReport report = {.n_stages = run->program->n_ranks,
                           .makespan = trace_end(run->trace) / unit_ns,
                           .span = metrics->span_ns / unit_ns,
                           .bubble_time = metrics->span_bubble_ns / unit_ns,
                           .bubble_fraction = order_run_bubble_fraction(run),
                           .bubble_overhead = work_ns > 0 ? (double)metrics->span_bubble_ns / work_ns : 0,
                           .in_flight = in_flight};
  metrics_in_flight(run->trace, in_flight);
  for (int rank = 0; rank < run->program->n_ranks; rank++)
    for (int i = 0; i < run->program->ranks[rank].n_ops; i++)
      report.n_actions += run->program->ranks[rank].ops[i].kind == OP_COMPUTE;
  return report;
}

static void print_report(const ScheduleReport *report, const char *title, gboolean bare, GString *out) {
  const char *unit = bare ? " units of --times" : " s";
  g_string_append_printf(out, "%s\n", title);
  g_string_append_printf(out, "  makespan         %.6g%s\n", report->makespan, unit);
  g_string_append_printf(out, "  stage span       %.6g%s (longest last end − first start)\n", report->span, unit);
  g_string_append_printf(
      out, "  bubble           %.6g%s = %.4g %% of the span (bubble_fraction), %.4g %% over ideal (bubble_overhead)\n",
      report->bubble_time, unit, 100 * report->bubble_fraction, 100 * report->bubble_overhead);
  g_string_append(out, "  in flight        ");
  for (int rank = 0; rank < report->n_stages; rank++)
    g_string_append_printf(out, "%d ", report->in_flight[rank]);
  g_string_append_printf(out, "(peak micro-batches × chunks held, by rank)\n  actions          %" G_GINT64_FORMAT "\n",
                         report->n_actions);
}

/* Of the terminal that standard output is; 0 when it is none. */
static int terminal_width(void) {
  struct winsize size;
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static int drawing_width(const ScheduleOptions *o) {
  const char *columns = g_getenv("COLUMNS");
  gint64 width = o->width != OPTION_NOT_GIVEN ? o->width : columns != NULL ? g_ascii_strtoll(columns, NULL, 10) : 0;
  if (width <= 0)
    width = terminal_width();
  return (int)CLAMP(width > 0 ? width : 120, 40, 10000);
}

static gboolean print_outputs(const ScheduleOptions *o, const OrderRun *run, const GivenTimes *times, GError **error) {
  g_autofree char *title = g_strdup_printf("%s: %d pipeline ranks, %d stages, %d micro-batches",
                                           o->from != NULL ? o->from : schedule_name(o), run->program->n_ranks,
                                           run->program->n_stages, run->program->n_micro_batches);
  TimeUnit unit = times->bare ? (TimeUnit){"units of --times", UNIT_NS} : time_unit_for(trace_end(run->trace));
  if (o->timeline != NULL && !timeline_write_in_units(run->trace, unit, title, o->timeline, error))
    return FALSE;
  if (o->trace != NULL && !chrome_trace_write(run->trace, o->trace, error))
    return FALSE;
  g_autofree char *text = o->dump != NULL ? program_to_text(run->program) : NULL;
  if (text != NULL && !output_text(o->dump, text, error))
    return FALSE;
  g_autofree int *in_flight = g_new0(int, run->program->n_ranks);
  ScheduleReport report = make_report(run, times, in_flight);
  g_autoptr(GString) out = g_string_new(NULL);
  if (o->draw)
    draw_schedule_in_units(run->trace, unit, drawing_width(o), text_report_wants_colour(STDOUT_FILENO), out);
  g_autofree char *json = o->json ? json_report_schedule(&report) : NULL;
  if (json != NULL)
    g_string_append(out, json);
  else if (!o->no_report)
    print_report(&report, title, times->bare, out);
  fputs(out->str, stdout);
  return TRUE;
}

static gboolean run(ScheduleOptions *o, GError **error) {
  GivenTimes times;
  if (!parse_times(o->times, &times, error) || !check_count("--steps", o->steps, 1000, error))
    return FALSE;
  if (o->width != OPTION_NOT_GIVEN && o->width < 1)
    return fail_input(error, "--width: found %d, expected columns", o->width);
  g_autoptr(Order) order = make_order(o, error);
  if (order == NULL || !check_length(order, &times, o->steps, error) ||
      !order_run_check_size(order->placement->n_ranks, order->placement->n_stages / order->placement->n_ranks,
                            order->n_micro_batches, o->steps, error))
    return FALSE;
  g_autofree char *csv = o->csv != NULL ? order_to_csv(order) : NULL;
  if (csv != NULL && !output_text(o->csv, csv, error))
    return FALSE;
  g_autofree char *dump = NULL;
  g_autoptr(OrderRun) order_run = order_run_new(order, &times.stage, o->steps, o->dump_after, &dump, error);
  if (dump != NULL)
    fputs(dump, stdout);
  if (order_run == NULL) {
    if (o->from != NULL)
      g_prefix_error(error, "%s: ", o->from);
    return FALSE;
  }
  return o->dump_after != NULL || print_outputs(o, order_run, &times, error);
}

int command_schedule(int argc, char **argv, GError **error) {
  ScheduleOptions options;
  gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, error);
  clear_options(&options);
  return ok ? 0 : 2;
}
