/* Plain printf columns. Of times beside each other in one table all have the unit its heading names. */
#include "compare_text.h"

#include "text_report.h"
#include "units.h"
#include <math.h>

enum { MOST_ROWS = 16 };

/* "+12.34 %" in ten columns. */
static void append_error(GString *out, double predicted, double measured) {
  double error = compare_error(predicted, measured);
  if (isfinite(error))
    g_string_append_printf(out, " %+8.2f %%", units_percent(error));
  else
    g_string_append_printf(out, " %10s", "-");
}

static void append_time(GString *out, double seconds) {
  g_autofree char *text = seconds != 0 ? units_format(seconds, UNIT_SECONDS) : g_strdup("0");
  g_string_append_printf(out, " %10s", text);
}

static const char *origin(const ChromeTrace *trace) {
  if (trace->is_measured)
    return "measured";
  return trace->folded ? "simulated, folded" : "simulated";
}

static void append_step(GString *out, const Compare *compare, gboolean colour) {
  const ChromeTrace *trace = compare->measured.trace;
  g_autofree char *steps = compare_steps_text(compare);
  g_string_append_printf(out, colour ? "\033[1m%s against %s\033[0m\n" : "%s against %s\n",
                         compare->predicted.trace->file, trace->file);
  g_string_append_printf(out, "  predicted    %s\n  measured     %s\n", origin(compare->predicted.trace),
                         origin(trace));
  units_append_count(g_string_append(out, "  Program      "), trace->n_ranks, "rank", "ranks");
  g_string_append_printf(out, ": tp %d, pp %d, dp %d", trace->size[AXIS_TP], trace->size[AXIS_PP],
                         trace->size[AXIS_DP]);
  if (trace->size[AXIS_CP] > 1)
    g_string_append_printf(out, ", cp %d", trace->size[AXIS_CP]);
  units_append_count(g_string_append(out, "; "), trace->n_stages, "stage", "stages");
  units_append_count(g_string_append(out, ", "), trace->n_micro_batches, "micro-batch", "micro-batches");
  units_append_count(g_string_append(out, ", "), trace->n_steps, "step\n", "steps\n");
  g_string_append(out, "  step time   ");
  append_time(out, compare->predicted.step_s);
  g_string_append(out, " predicted,");
  append_time(out, compare->measured.step_s);
  g_string_append(out, " measured, error");
  append_error(out, compare->predicted.step_s, compare->measured.step_s);
  g_string_append_printf(out, "\n               (%s; error = predicted / measured - 1)\n", steps);
}

/* --- kinds ------------------------------------------------------------------------------------------------------- */

static gboolean is_in_both(const CompareKind *kind) {
  return kind->n_predicted > 0 && kind->n_measured > 0;
}

static void append_kind(GString *out, const Compare *compare, const CompareKind *kind) {
  double predicted_s = compare_mean_s(kind->predicted_ns, kind->n_predicted);
  double measured_s = compare_mean_s(kind->measured_ns, kind->n_measured);
  g_string_append_printf(out, "  %-11s %8" G_GINT64_FORMAT, g_quark_to_string(kind->name), kind->n_measured);
  append_time(out, predicted_s);
  append_time(out, measured_s);
  append_error(out, predicted_s, measured_s);
  g_string_append_printf(out, " %7.2f %%", 100 * kind->measured_in_step_s / compare->measured.step_s);
  append_time(out, kind->predicted_in_step_s - kind->measured_in_step_s);
  if (kind->is_communication) {
    append_time(out, compare_mean_s(kind->predicted_wait_ns, kind->n_predicted));
    append_time(out, compare_mean_s(kind->measured_wait_ns, kind->n_measured));
  }
  g_string_append_c(out, '\n');
}

static void append_kind_notes(GString *out, const Compare *compare) {
  gboolean moves = FALSE;
  for (guint i = 0; i < compare->kinds->len; i++) {
    const CompareKind *kind = &g_array_index(compare->kinds, CompareKind, i);
    const char *name = g_quark_to_string(kind->name);
    moves = moves || kind->is_communication;
    if (!is_in_both(kind))
      g_string_append_printf(out, "  %s is not compared: only one of the traces shows what passes do inside\n", name);
    else if (kind->is_inner)
      g_string_append_printf(out, "  %s runs inside passes: its time is in theirs too\n", name);
  }
  if (moves)
    g_string_append(out,
                    "  Communication is timed from when its last partner was there; the wait before stands apart.\n");
}

static void append_kinds(GString *out, const Compare *compare, gboolean colour) {
  text_report_heading(out, "Kinds of op, what differs most first", colour);
  g_string_append_printf(out, "  %-11s %8s %10s %10s %10s %9s %10s %21s\n", "", "ops", "predicted", "measured", "error",
                         "of step", "difference", "wait before");
  g_string_append_printf(out, "  %-11s %8s %10s %10s %10s %9s %10s %10s %10s\n", "", "", "mean", "mean", "", "measured",
                         "per step", "predicted", "measured");
  for (guint i = 0; i < compare->kinds->len; i++) {
    const CompareKind *kind = &g_array_index(compare->kinds, CompareKind, i);
    if (is_in_both(kind))
      append_kind(out, compare, kind);
  }
  g_string_append(out,
                  "  Difference: predicted - measured, all ops of the kind on one rank in one step, mean over ranks. "
                  "Kinds\n  run beside each other, so neither shares nor differences add up to the step's.\n");
  append_kind_notes(out, compare);
}

/* --- ranks ------------------------------------------------------------------------------------------------------- */

/* "12.34   12.99   -5.0 %" */
static void append_cell(GString *out, double predicted_s, double measured_s, TimeUnit unit) {
  double error = compare_error(predicted_s, measured_s);
  g_string_append_printf(out, " %8.2f %8.2f", 1e9 * predicted_s / unit.ns, 1e9 * measured_s / unit.ns);
  if (isfinite(error) && fabs(error) < 9.995)
    g_string_append_printf(out, " %+6.1f%%", 100 * error + 0.0);
  else
    g_string_append_printf(out, " %7s", isfinite(error) ? ">999%" : "-");
}

static void append_cell_heads(GString *out, const char *first, const char *const *names, int n) {
  g_string_append_printf(out, "  %-5s", first);
  for (int i = 0; i < n; i++)
    g_string_append_printf(out, " %25s", names[i]);
  g_string_append_printf(out, "\n  %-5s", "");
  for (int i = 0; i < n; i++)
    g_string_append_printf(out, " %8s %8s %7s", "pred.", "meas.", "error");
  g_string_append_c(out, '\n');
}

static void append_mean_phases(GString *out, const Compare *compare, TimeUnit unit) {
  g_string_append_printf(out, "  %-5s", "mean");
  for (int phase = 0; phase < N_COMPARE_PHASES; phase++) {
    double predicted_s = 0, measured_s = 0;
    for (int i = 0; i < compare->n_rows; i++) {
      predicted_s += compare->predicted.ranks[compare->rows[i].predicted].phase_s[phase] / compare->n_rows;
      measured_s += compare->measured.ranks[compare->rows[i].measured].phase_s[phase] / compare->n_rows;
    }
    append_cell(out, predicted_s, measured_s, unit);
  }
  g_string_append_c(out, '\n');
}

static void append_more(GString *out, const Compare *compare, int row) {
  if (row < 0 && compare->n_rows > MOST_ROWS)
    g_string_append_printf(out, "  … %d more ranks: --rank N shows one, --json all\n", compare->n_rows - MOST_ROWS);
}

static void append_phases(GString *out, const Compare *compare, int row, TimeUnit unit, gboolean colour) {
  const char *names[N_COMPARE_PHASES];
  for (int phase = 0; phase < N_COMPARE_PHASES; phase++)
    names[phase] = compare_phase_name((ComparePhase)phase);
  g_autofree char *heading = g_strdup_printf("Phases of the step by rank (%s)", unit.name);
  text_report_heading(out, heading, colour);
  append_cell_heads(out, "rank", names, N_COMPARE_PHASES);
  int end = row >= 0 ? row + 1 : MIN(compare->n_rows, MOST_ROWS);
  for (int i = MAX(row, 0); i < end; i++) {
    g_string_append_printf(out, "  %-5d", compare->rows[i].rank);
    for (int phase = 0; phase < N_COMPARE_PHASES; phase++)
      append_cell(out, compare->predicted.ranks[compare->rows[i].predicted].phase_s[phase],
                  compare->measured.ranks[compare->rows[i].measured].phase_s[phase], unit);
    g_string_append_c(out, '\n');
  }
  append_more(out, compare, row);
  if (row < 0)
    append_mean_phases(out, compare, unit);
  g_string_append(out,
                  "  warm-up: until the rank's first backward; cool-down: after its last forward; optimizer: from its "
                  "last pass\n  to the end of the step, gradients reduced and others waited for.\n");
}

static void append_ranks(GString *out, const Compare *compare, int row, TimeUnit unit, gboolean colour) {
  static const char *const names[] = {"busy", "idle"};
  g_autofree char *heading = g_strdup_printf("Ranks (%s)", unit.name);
  text_report_heading(out, heading, colour);
  append_cell_heads(out, "rank", names, G_N_ELEMENTS(names));
  int end = row >= 0 ? row + 1 : MIN(compare->n_rows, MOST_ROWS);
  for (int i = MAX(row, 0); i < end; i++) {
    double predicted_s = compare->predicted.ranks[compare->rows[i].predicted].busy_s;
    double measured_s = compare->measured.ranks[compare->rows[i].measured].busy_s;
    g_string_append_printf(out, "  %-5d", compare->rows[i].rank);
    append_cell(out, predicted_s, measured_s, unit);
    append_cell(out, compare->predicted.mean_step_s - predicted_s, compare->measured.mean_step_s - measured_s, unit);
    g_string_append_c(out, '\n');
  }
  append_more(out, compare, row);
}

/* --- order ------------------------------------------------------------------------------------------------------- */

static void append_list(GString *out, gint64 n, const GPtrArray *named, const char *none, const char *some) {
  if (n == 0) {
    g_string_append_printf(out, "  %s\n", none);
    return;
  }
  g_string_append_printf(out, "  %" G_GINT64_FORMAT " %s%s\n", n, some, n > named->len ? "; the first:" : ":");
  for (guint i = 0; i < named->len; i++)
    g_string_append_printf(out, "    %s\n", (const char *)g_ptr_array_index(named, i));
}

static void append_order(GString *out, const Compare *compare, gboolean colour) {
  text_report_heading(out, "Executed order against planned", colour);
  append_list(out, compare->n_inversions, compare->inversions, "every stream ran its ops in the planned order",
              "pairs of ops ran in the other order than planned");
  append_list(out, compare->n_violations, compare->violations, "no op ran before what it needs",
              "ops ran before what they need, or clocks of ranks are off by as much");
}

void compare_text(GString *out, const Compare *compare, int row, gboolean colour) {
  double step_s = MAX(compare->predicted.step_s, compare->measured.step_s);
  TimeUnit unit = time_unit_for((gint64)(1e9 * step_s / 10)); /* so that a short phase has digits too */
  append_step(out, compare, colour);
  append_kinds(out, compare, colour);
  append_phases(out, compare, row, unit, colour);
  append_ranks(out, compare, row, unit, colour);
  append_order(out, compare, colour);
}

/* --- CSV --------------------------------------------------------------------------------------------------------- */

static void append_quoted(GString *out, const char *text) {
  g_string_append_c(out, '"');
  for (; *text; text++) {
    if (*text == '"')
      g_string_append_c(out, '"');
    g_string_append_c(out, *text);
  }
  g_string_append_c(out, '"');
}

char *compare_csv(const Compare *compare, int row) {
  const CompareSide *predicted = &compare->predicted, *measured = &compare->measured;
  GString *out =
      g_string_new("rank,stream,name,step,predicted_start_ns,predicted_end_ns,measured_start_ns,measured_end_ns\n");
  for (guint i = 0; i < compare->pairs->len; i++) {
    const ComparePair *pair = &g_array_index(compare->pairs, ComparePair, i);
    const WholeOp *p = &g_array_index(predicted->ops->ops, WholeOp, pair->predicted);
    const WholeOp *m = &g_array_index(measured->ops->ops, WholeOp, pair->measured);
    if (row >= 0 && pair->row != row)
      continue;
    g_string_append_printf(out, "%d,%s,", compare->rows[pair->row].rank, stream_info(p->stream)->name);
    append_quoted(out, g_quark_to_string(p->name));
    g_string_append_printf(out,
                           ",%d,%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT "\n",
                           p->step, p->start_ns, p->end_ns, m->start_ns, m->end_ns);
  }
  return g_string_free(out, FALSE);
}
