#include "schedule_report.h"

#include <math.h>

#include "trace.h"

static double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

static gint64 busiest_ns(const Metrics *metrics) {
  gint64 most = 0;
  for (int rank = 0; rank < metrics->n_ranks; rank++)
    most = MAX(most, metrics->ranks[rank].ns[BREAKDOWN_COMPUTE] + metrics->ranks[rank].ns[BREAKDOWN_RECOMPUTE]);
  return most;
}

static gint64 count_ops(const Program *program, OpKind kind) {
  gint64 n = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int i = 0; i < program->ranks[rank].n_ops; i++)
      n += program->ranks[rank].ops[i].kind == kind;
  return n;
}

static void take_memory(ScheduleReport *report, const Trace *trace) {
  g_autoptr(MemoryProfile) profile = memory_profile_new(trace);
  PipelineRows rows;
  pipeline_rows_init(&rows, trace);
  report->peak_memory = g_new0(double, report->n_ranks);
  for (int row = 0; row < rows.n_rows; row++)
    if (rows.recorded[row] >= 0)
      report->peak_memory[row] = profile->rank_peak[rows.recorded[row]];
  pipeline_rows_clear(&rows);
}

void schedule_report_init(ScheduleReport *report, const Trace *trace, const Metrics *metrics, double unit_ns) {
  const double span_work = (double)(metrics->span_ns - metrics->span_bubble_ns), busiest = (double)busiest_ns(metrics);
  const double step_idle = (double)metrics->step_ns - busiest;
  *report = (ScheduleReport){
      .n_ranks = trace->program->n_ranks,
      .n_steps = trace->program->n_steps,
      .makespan = (double)trace_end(trace) / unit_ns,
      .step_time = (double)metrics->step_ns / unit_ns,
      .span = (double)metrics->span_ns / unit_ns,
      .bubble_time = (double)metrics->span_bubble_ns / unit_ns,
      .bubble_fraction = share((double)metrics->span_bubble_ns, (double)metrics->span_ns),
      .bubble_overhead = share((double)metrics->span_bubble_ns, span_work),
      .makespan_bubble_time = step_idle / unit_ns,
      .makespan_bubble_fraction = share(step_idle, (double)metrics->step_ns),
      .makespan_bubble_overhead = share(step_idle, busiest),
      .closed_form_bubble = NAN,
      .in_flight = g_new0(int, trace->program->n_ranks),
      .n_actions = count_ops(trace->program, OP_COMPUTE),
      .n_sends = count_ops(trace->program, OP_SEND),
  };
  metrics_in_flight(trace, report->in_flight);
  take_memory(report, trace);
}

void schedule_report_clear(ScheduleReport *report) {
  g_clear_pointer(&report->in_flight, g_free);
  g_clear_pointer(&report->peak_memory, g_free);
}

static void add_bubble(GString *out, const char *name, double time, const char *unit, double fraction,
                       const char *whole, double overhead) {
  g_string_append_printf(out,
                         "  %-16s %.6g%s = %.4g %% of the %s (bubble_fraction), %.4g %% over ideal (bubble_overhead)\n",
                         name, time, unit, 100 * fraction, whole, 100 * overhead);
}

static void add_closed_form(const ScheduleReport *report, const char *unit, GString *out) {
  if (isnan(report->closed_form_bubble))
    return;
  g_string_append_printf(out, "  closed form      %.6g%s on uniform stages with free communication%s\n",
                         report->closed_form_bubble, unit,
                         report->closed_form_is_exact ? "" : " (a lower bound for these times and counts)");
}

void schedule_report_text(const ScheduleReport *report, const char *title, const char *unit, GString *out) {
  const gboolean chained = report->n_steps > 1;
  g_string_append_printf(out, "%s\n", title);
  if (chained)
    g_string_append_printf(out, "  step             %.6g%s (steady state: the last of %d)\n", report->step_time, unit,
                           report->n_steps);
  g_string_append_printf(out, "  makespan         %.6g%s%s\n", report->makespan, unit, chained ? " (all steps)" : "");
  g_string_append_printf(out, "  stage span       %.6g%s (longest last end − first start)\n", report->span, unit);
  add_bubble(out, "bubble", report->bubble_time, unit, report->bubble_fraction, "span", report->bubble_overhead);
  add_closed_form(report, unit, out);
  add_bubble(out, chained ? "on the step" : "on the makespan", report->makespan_bubble_time, unit,
             report->makespan_bubble_fraction, chained ? "step" : "makespan", report->makespan_bubble_overhead);
  g_string_append(out, "  in flight        ");
  for (int rank = 0; rank < report->n_ranks; rank++)
    g_string_append_printf(out, "%d ", report->in_flight[rank]);
  g_string_append(out, "(peak micro-batches × chunks held, by rank)\n  memory           ");
  for (int rank = 0; rank < report->n_ranks; rank++)
    g_string_append_printf(out, "%.4g ", report->peak_memory[rank]);
  g_string_append_printf(
      out, "(peak of --memory held, by rank)\n  actions          %" G_GINT64_FORMAT ", sends %" G_GINT64_FORMAT "\n",
      report->n_actions, report->n_sends);
}
