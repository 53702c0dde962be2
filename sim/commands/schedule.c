#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "chrome_trace.h"
#include "command.h"
#include "draw.h"
#include "error.h"
#include "json_report.h"
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

typedef struct {
  char *schedule, *times, *csv, *from, *timeline, *trace, *dump_after, *dump;
  gint pp, chunks, micro_batches, steps, width;
  gboolean draw, json;
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

static gboolean parse_options(ScheduleOptions *o, int *argc, char ***argv, GError **error) {
  *o = (ScheduleOptions){.chunks = 1, .steps = 1, .width = 0};
  g_autoptr(Parser) parser =
      parser_new(NULL, "Runs a pipeline order alone, with given stage times and free communication.",
                 "Example:\n  stepsim schedule --schedule interleaved --pp 4 --chunks 2 --micro-batches 8 --times "
                 "F=1,I=1,W=1 --draw\n\n"
                 "Bubble is measured on stage spans: the longest (last end − first start) of a rank, less its work.\n"
                 "bubble_fraction is bubble / span, bubble_overhead is bubble / work.");
  const GOptionEntry entries[] = {
      {"schedule", 0, 0, G_OPTION_ARG_STRING, &o->schedule,
       "gpipe, 1f1b or interleaved (default 1f1b; interleaved with chunks)", "NAME"},
      {"pp", 0, 0, G_OPTION_ARG_INT, &o->pp, "pipeline ranks", "N"},
      {"chunks", 0, 0, G_OPTION_ARG_INT, &o->chunks, "model chunks per rank (default 1)", "N"},
      {"micro-batches", 0, 0, G_OPTION_ARG_INT, &o->micro_batches, "micro-batches per step", "N"},
      {"times", 0, 0, G_OPTION_ARG_STRING, &o->times,
       "time of one rank for one micro-batch, a chunk taking its share: forward, input gradient, weight gradient, bare "
       "or with unit (default F=1,I=1,W=1)",
       "F=T,I=T,W=T"},
      {"from", 0, 0, G_OPTION_ARG_FILENAME, &o->from, "take the order from PyTorch's CSV instead", "FILE.csv"},
      {"csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "write the order as PyTorch's CSV (- is standard output)", "FILE"},
      {"draw", 0, 0, G_OPTION_ARG_NONE, &o->draw, "draw it in the terminal", NULL},
      {"width", 0, 0, G_OPTION_ARG_INT, &o->width, "columns of the drawing (default: $COLUMNS, or 120)", "N"},
      {"timeline", 0, 0, G_OPTION_ARG_FILENAME, &o->timeline, "draw it as a picture", "FILE.svg|png|pdf"},
      {"trace", 0, 0, G_OPTION_ARG_FILENAME, &o->trace, "write a Chrome trace", "FILE.json"},
      {"steps", 0, 0, G_OPTION_ARG_INT, &o->steps, "steps chained (default 1)", "N"},
      {"dump", 0, 0, G_OPTION_ARG_FILENAME, &o->dump, "write the Program as text (- is standard output)", "FILE"},
      {"dump-after", 0, 0, G_OPTION_ARG_STRING, &o->dump_after,
       "print the Program after this pass: place, unshard, send_recv, reduce_grad, optimizer, memory or steps", "PASS"},
      {"json", 0, 0, G_OPTION_ARG_NONE, &o->json, "print one JSON object", NULL},
      G_OPTION_ENTRY_NULL};
  parser_add(parser, entries);
  return parser_run(parser, argc, argv, FALSE, error);
}

static gboolean parse_time(const char *text, double *ns, gboolean *bare, GError **error) {
  char *end = NULL;
  double number = g_ascii_strtod(text, &end);
  if (end != text && *end == '\0') {
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
  /* a day per op keeps sums of 10^5 ops far from the end of int64 */
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

static Order *make_order(const ScheduleOptions *o, GError **error) {
  if (o->from != NULL) {
    if (o->schedule != NULL || o->pp != 0 || o->micro_batches != 0) {
      fail_input(error, "--from %s gives the order: --schedule, --pp, --chunks and --micro-batches clash with it",
                 o->from);
      return NULL;
    }
    return order_read_csv(o->from, error);
  }
  if (o->pp < 1 || o->micro_batches < 1 || o->chunks < 1 || o->pp > 4096 || o->chunks > 1024 ||
      (gint64)o->pp * o->chunks * o->micro_batches > 16 * 1000 * 1000) {
    fail_input(error,
               "--pp %d, --chunks %d, --micro-batches %d: each must be given and positive (at most 4096 ranks, 1024 "
               "chunks and 16 million actions of a kind)",
               o->pp, o->chunks, o->micro_batches);
    return NULL;
  }
  const ScheduleInfo *schedule = schedule_find(schedule_name(o), error);
  if (schedule == NULL)
    return NULL;
  return order_new(schedule, o->pp, o->chunks, o->micro_batches, error);
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
  const char *unit = bare ? "" : " s";
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

static int drawing_width(const ScheduleOptions *o) {
  const char *columns = g_getenv("COLUMNS");
  gint64 width = o->width > 0 ? o->width : columns != NULL ? g_ascii_strtoll(columns, NULL, 10) : 0;
  return CLAMP(width > 0 ? width : 120, 40, 10000);
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
  else
    print_report(&report, title, times->bare, out);
  fputs(out->str, stdout);
  return TRUE;
}

static gboolean run(const ScheduleOptions *o, GError **error) {
  GivenTimes times;
  if (!parse_times(o->times, &times, error))
    return FALSE;
  if (o->steps < 1 || o->steps > 1000)
    return fail_input(error, "--steps %d: expected 1 to 1000", o->steps);
  g_autoptr(Order) order = make_order(o, error);
  if (order == NULL)
    return FALSE;
  g_autofree char *csv = o->csv != NULL ? order_to_csv(order) : NULL;
  if (csv != NULL && !output_text(o->csv, csv, error))
    return FALSE;
  g_autofree char *dump = NULL;
  g_autoptr(OrderRun) order_run = order_run_new(order, &times.stage, o->steps, o->dump_after, &dump, error);
  if (dump != NULL)
    fputs(dump, stdout);
  if (order_run == NULL)
    return FALSE;
  return o->dump_after != NULL || print_outputs(o, order_run, &times, error);
}

int command_schedule(int argc, char **argv, GError **error) {
  ScheduleOptions options;
  gboolean ok = parse_options(&options, &argc, &argv, error) && run(&options, error);
  clear_options(&options);
  return ok ? 0 : 2;
}
