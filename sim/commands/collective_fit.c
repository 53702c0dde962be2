/* stepsim collective --fit: runs of one operation on one group are merged, whichever log they come from, and fitted.
 * The report consists of YAML comments, so the output can be appended to a cluster file as it is. */
#include "alpha_beta.h"

#include <math.h>
#include <stdio.h>

#include "collective_request.h"
#include "error.h"
#include "nccl_tests.h"
#include "output.h"
#include "units.h"

/* All times of one operation on one group. */
typedef struct {
  Collective op;
  int n_gpus, n_nodes;
  char *place;    /* "file:line" of the first run; owned */
  GArray *points; /* of CurvePoint; owned */
} Run;

typedef struct {
  GArray *runs;     /* of Run; in the order of the logs */
  GString *sources; /* the logs, and the programs that wrote them */
} Measured;

static void clear_run(gpointer data) {
  Run *run = data;
  g_free(run->place);
  g_array_unref(run->points);
}

static Run *run_of(Measured *measured, const NcclTestsLog *log, const NcclTestsTable *table, Collective op, int n_gpus,
                   int n_nodes) {
  for (guint i = 0; i < measured->runs->len; i++) {
    Run *run = &g_array_index(measured->runs, Run, i);
    if (run->op == op && run->n_gpus == n_gpus && run->n_nodes == n_nodes)
      return run;
  }
  Run run = {op, n_gpus, n_nodes, g_strdup_printf("%s:%d", log->file, table->line),
             g_array_new(FALSE, FALSE, sizeof(CurvePoint))};
  g_array_append_val(measured->runs, run);
  return &g_array_index(measured->runs, Run, measured->runs->len - 1);
}

/* Options must supply what the log does not say, and agree with what it does. */
static gboolean identify(const CollectiveOptions *o, const NcclTestsLog *log, const NcclTestsTable *table,
                         Collective *op, int *n_gpus, GError **error) {
  *op = (Collective)MAX(table->op, 0);
  *n_gpus = table->n_gpus > 0 ? table->n_gpus : o->gpus;
  if (table->op < 0 && o->op == NULL)
    return fail_input(error, "%s:%d: the log does not say which operation this is; --op NAME does", log->file,
                      table->line);
  if (o->op != NULL && !collective_op_parse(o->op, op, error))
    return FALSE;
  if (table->op >= 0 && table->op != (int)*op)
    return fail_input(error, "%s:%d: found a run of %s, but --op says %s", log->file, table->line,
                      collective_name((Collective)table->op), o->op);
  if (*n_gpus == NOT_GIVEN)
    return fail_input(error, "%s:%d: the log does not list its ranks; --gpus N says how many there were", log->file,
                      table->line);
  if (*n_gpus < 2 || *n_gpus > 1000000 || (o->gpus != NOT_GIVEN && o->gpus != *n_gpus))
    return fail_input(error, "%s:%d: found %d ranks, expected %s", log->file, table->line, *n_gpus,
                      o->gpus != NOT_GIVEN ? "as many as --gpus says, from 2 on" : "2 or more");
  return TRUE;
}

/* busbw / algbw distinguishes operations and groups; for small values rounding hides it. */
static gboolean check_bus(const NcclTestsLog *log, const NcclTestsPoint *point, Collective op, int n_gpus,
                          GError **error) {
  double expected = collective_bus_factor(op, n_gpus), found = point->busbw_Bps / point->algbw_Bps;
  if (point->algbw_Bps < 1e9 || fabs(found / expected - 1) <= 0.03)
    return TRUE;
  return fail_input(error, "%s:%d: found busbw %.4g times algbw, expected %.4g, as for %s over %d ranks", log->file,
                    point->line, found, expected, collective_name(op), n_gpus);
}

static gboolean add_table(const CollectiveOptions *o, const NcclTestsLog *log, const NcclTestsTable *table,
                          Measured *measured, GError **error) {
  Collective op;
  int n_gpus;
  if (!identify(o, log, table, &op, &n_gpus, error))
    return FALSE;
  Run *run = run_of(measured, log, table, op, n_gpus, MAX(table->n_nodes, 1));
  for (guint i = 0; i < table->points->len; i++) {
    const NcclTestsPoint *point = &g_array_index(table->points, NcclTestsPoint, i);
    if (!check_bus(log, point, op, n_gpus, error))
      return FALSE;
    CurvePoint time = {point->bytes, point->time_s};
    g_array_append_val(run->points, time);
  }
  return TRUE;
}

static gboolean read_logs(const CollectiveOptions *o, Measured *measured, GError **error) {
  for (char **file = o->logs; *file != NULL; file++) {
    g_autoptr(NcclTestsLog) log = nccl_tests_read(*file, error);
    if (log == NULL)
      return FALSE;
    for (guint i = 0; i < log->tables->len; i++)
      if (!add_table(o, log, g_ptr_array_index(log->tables, i), measured, error))
        return FALSE;
    g_autofree char *name = g_path_get_basename(*file);
    g_string_append_printf(measured->sources, "%s%s (nccl-tests%s%s)", measured->sources->len > 0 ? ", " : "", name,
                           log->version != NULL ? " " : "", log->version != NULL ? log->version : "");
  }
  return TRUE;
}

static int compare_points(gconstpointer a, gconstpointer b) {
  const CurvePoint *x = a, *y = b;
  int by_size = (x->size_bytes > y->size_bytes) - (x->size_bytes < y->size_bytes);
  return by_size != 0 ? by_size : (x->time_s > y->time_s) - (x->time_s < y->time_s);
}

static void report_pieces(const Run *run, const AlphaBetaFit *fit, GString *out) {
  double factor = collective_bus_factor(run->op, run->n_gpus);
  g_string_append_printf(out, "# %s over %d GPUs on %d node%s: %u times (%s)\n", collective_name(run->op), run->n_gpus,
                         run->n_nodes, run->n_nodes == 1 ? "" : "s", run->points->len, run->place);
  g_string_append_printf(out, "# %9s %12s %14s   %s\n", "protocol", "alpha", "busbw", "from");
  for (int k = 0; k < fit->n_pieces; k++) {
    const AlphaBetaPiece *piece = &fit->pieces[k];
    g_autofree char *alpha = units_format(piece->alpha_s, UNIT_SECONDS);
    g_autofree char *busbw = units_format(factor / piece->s_per_byte, UNIT_BYTES_PER_SECOND);
    g_autofree char *from = units_format(piece->from_bytes, UNIT_BYTES);
    g_string_append_printf(out, "# %9s %12s %14s   %s\n", protocol_names()[piece->protocol], alpha, busbw, from);
  }
}

/* One line per time, in-place and out-of-place. */
static void report_residuals(const Run *run, const AlphaBetaFit *fit, GString *out) {
  g_string_append_printf(out, "# %15s %14s %14s %10s\n# %15s %14s %14s %10s\n", "size", "measured", "fitted",
                         "residual", "(B)", "(us)", "(us)", "(%)");
  for (guint i = 0; i < run->points->len; i++) {
    const CurvePoint *point = &g_array_index(run->points, CurvePoint, i);
    double fitted_s = alpha_beta_s(fit, point->size_bytes);
    g_string_append_printf(out, "# %15.0f %14.2f %14.2f %+10.2f\n", point->size_bytes, point->time_s * 1e6,
                           fitted_s * 1e6, 100 * (fitted_s / point->time_s - 1));
  }
  g_string_append_printf(out, "# residual: mean %.2f %%, largest %.2f %%\n\n", 100 * fit->mean_error,
                         100 * fit->largest_error);
}

static void append_rows(const Run *run, const AlphaBetaFit *fit, GString *out) {
  double factor = collective_bus_factor(run->op, run->n_gpus);
  for (int k = 0; k < fit->n_pieces; k++) {
    const AlphaBetaPiece *piece = &fit->pieces[k];
    g_string_append_printf(out, "    - {op: %s, gpus: %d, nodes: %d, protocol: %s, alpha: %.5g us, busbw: %.5g GB/s}\n",
                           collective_name(run->op), run->n_gpus, run->n_nodes, protocol_keys()[piece->protocol],
                           piece->alpha_s * 1e6, factor / piece->s_per_byte * 1e-9);
  }
}

/* The measured times, one per size: the median, the lower of two. Points are sorted by size, then time. */
static void append_curve(const Run *run, GString *out) {
  const CurvePoint *points = (const CurvePoint *)run->points->data;
  guint n = run->points->len;
  for (guint first = 0, end; first < n; first = end) {
    for (end = first + 1; end < n && points[end].size_bytes == points[first].size_bytes; end++)
      ;
    measured_links_append(out, collective_name(run->op), run->n_gpus, run->n_nodes, points[first].size_bytes,
                          points[(first + end - 1) / 2].time_s);
  }
}

static gboolean fit_runs(const Measured *measured, gboolean as_curves, GString *report, GString *rows, GError **error) {
  for (guint i = 0; i < measured->runs->len; i++) {
    const Run *run = &g_array_index(measured->runs, Run, i);
    AlphaBetaFit fit;
    g_array_sort(run->points, compare_points);
    if (!alpha_beta_fit((const CurvePoint *)run->points->data, (int)run->points->len, &fit))
      return fail_input(error, "%s: cannot fit %s: expected at least %d different sizes, and times that grow with them",
                        run->place, collective_name(run->op), LEAST_FIT_POINTS);
    report_pieces(run, &fit, report);
    report_residuals(run, &fit, report);
    if (as_curves)
      append_curve(run, rows);
    else
      append_rows(run, &fit, rows);
  }
  return TRUE;
}

/* As collective_fit_section(). */
static char *section_of(const Measured *measured, gboolean as_curves, GString *report, GError **error) {
  g_autoptr(GString) rows = g_string_new(NULL);
  if (!fit_runs(measured, as_curves, report, rows, error))
    return NULL;
  g_autofree char *shown = g_utf8_make_valid(measured->sources->str, -1);
  g_autofree char *quoted = g_strescape(shown, NULL);
  return g_strdup_printf("%s:\n  source: \"%s; %s by stepsim collective --fit\"\n  collectives:\n%s",
                         as_curves ? "measured" : "fitted", quoted, as_curves ? "read" : "fitted", rows->str);
}

char *collective_fit_section(const CollectiveOptions *o, GString *report, GError **error) {
  Measured measured = {g_array_new(FALSE, FALSE, sizeof(Run)), g_string_new(NULL)};
  g_array_set_clear_func(measured.runs, clear_run);
  char *section = read_logs(o, &measured, error) ? section_of(&measured, o->curves, report, error) : NULL;
  g_array_unref(measured.runs);
  g_string_free(measured.sources, TRUE);
  return section;
}

gboolean collective_fit(const CollectiveOptions *o, GError **error) {
  g_autoptr(GString) report = g_string_new(NULL);
  g_autofree char *section = collective_fit_section(o, report, error);
  if (section == NULL)
    return FALSE;
  fputs(report->str, stdout);
  return output_text(o->output != NULL ? o->output : "-", section, error);
}
