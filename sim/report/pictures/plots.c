/* Each script's header says its columns; here arrays become such text. A series is a block: its name in quotes, its
 * rows, two empty lines. */
#include "plots.h"

#include "error.h"
#include "gnuplot.h"
#include "time_unit.h"
#include <string.h>

static void append_number(GString *data, double value) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append_c(data, ' ');
  g_string_append(data, g_ascii_formatd(text, sizeof text, "%.9g", value));
}

/* gnuplot ends a quoted name at the next double quote and a row at its line end. */
static void append_quoted(GString *data, const char *name) {
  g_autofree char *clean = g_strdup(name);
  g_strdelimit(clean, "\"\n\r", '\'');
  g_string_append_printf(data, "\"%s\"", clean);
}

static void begin_series(GString *data, const char *name, const char *previous) {
  if (previous && strcmp(name, previous) == 0)
    return;
  g_string_append(data, previous ? "\n\n" : "");
  append_quoted(data, name);
  g_string_append_c(data, '\n');
}

static gboolean fail_empty(const char *file, GError **error) {
  return fail_input(error, "nothing to draw in %s: there are no points", file);
}

gboolean plot_bubble(const BubblePoint *points, int n_points, const char *title, const char *file, GError **error) {
  if (n_points <= 0)
    return fail_empty(file, error);
  g_autoptr(GString) data = g_string_new(NULL);
  for (int i = 0; i < n_points; i++) {
    begin_series(data, points[i].schedule, i > 0 ? points[i - 1].schedule : NULL);
    g_string_append_printf(data, "%d", points[i].n_micro_batches);
    append_number(data, points[i].simulated);
    append_number(data, points[i].closed_form);
    g_string_append_c(data, '\n');
  }
  GnuplotVariable variables[] = {{"title", title}, {NULL}};
  return gnuplot_run("bubble", data->str, variables, file, error);
}

gboolean plot_mfu(const MfuPoint *points, int n_points, const char *title, const char *file, GError **error) {
  if (n_points <= 0)
    return fail_empty(file, error);
  g_autoptr(GString) data = g_string_new(NULL);
  for (int i = 0; i < n_points; i++) {
    begin_series(data, points[i].series, i > 0 ? points[i - 1].series : NULL);
    g_string_append_printf(data, "%d", points[i].n_gpus);
    append_number(data, points[i].mfu);
    g_string_append_c(data, '\n');
  }
  GnuplotVariable variables[] = {{"title", title}, {NULL}};
  return gnuplot_run("mfu", data->str, variables, file, error);
}

gboolean plot_busbw(const BusbwPoint *points, int n_points, double limit_Bps, const char *title, const char *file,
                    GError **error) {
  if (n_points <= 0)
    return fail_empty(file, error);
  g_autoptr(GString) data = g_string_new(NULL);
  for (int i = 0; i < n_points; i++) {
    begin_series(data, points[i].series, i > 0 ? points[i - 1].series : NULL);
    append_number(data, points[i].bytes);
    append_number(data, points[i].busbw_Bps / 1e9);
    g_string_append_c(data, '\n');
  }
  char limit[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(limit, sizeof limit, "%.9g", limit_Bps / 1e9);
  GnuplotVariable variables[] = {{"title", title}, {"limit", limit}, {NULL}};
  return gnuplot_run("busbw", data->str, variables, file, error);
}

gboolean plot_memory(const MemoryBar *bars, int n_bars, double capacity_bytes, const char *title, const char *file,
                     GError **error) {
  if (n_bars <= 0)
    return fail_empty(file, error);
  g_autoptr(GString) data = g_string_new(NULL);
  for (int i = 0; i < n_bars; i++) {
    append_quoted(data, bars[i].label);
    append_number(data, bars[i].weights_bytes / 1e9);
    append_number(data, bars[i].gradients_bytes / 1e9);
    append_number(data, bars[i].optimizer_bytes / 1e9);
    append_number(data, bars[i].activations_bytes / 1e9);
    append_number(data, bars[i].buffers_bytes / 1e9);
    append_number(data, bars[i].reserved_bytes / 1e9);
    g_string_append_c(data, '\n');
  }
  char capacity[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(capacity, sizeof capacity, "%.9g", capacity_bytes / 1e9);
  GnuplotVariable variables[] = {{"title", title}, {"capacity", capacity}, {NULL}};
  return gnuplot_run("memory", data->str, variables, file, error);
}

/* [pipeline rank][part], in nanoseconds. */
static double *mean_parts(const Trace *trace, const Metrics *metrics) {
  int n_pipeline = trace->program->n_ranks;
  double *parts = g_new0(double, (gsize)n_pipeline *N_BREAKDOWN);
  for (int rank = 0; rank < metrics->n_ranks; rank++)
    for (int part = 0; part < N_BREAKDOWN; part++)
      parts[trace->pipeline_rank[rank] * N_BREAKDOWN + part] +=
          (double)metrics->ranks[rank].ns[part] * n_pipeline / metrics->n_ranks;
  return parts;
}

gboolean plot_breakdown(const Trace *trace, const Metrics *metrics, const char *title, const char *file,
                        GError **error) {
  TimeUnit unit = time_unit_for(metrics->step_ns);
  g_autofree double *parts = mean_parts(trace, metrics);
  g_autoptr(GString) data = g_string_new(NULL);
  g_autoptr(GString) used = g_string_new(NULL); /* numbers of the parts, from 1 */
  for (int part = 0; part < N_BREAKDOWN; part++)
    if (metrics->mean_s[part] > 0)
      g_string_append_printf(used, "%d ", part + 1);
  for (int rank = 0; rank < trace->program->n_ranks; rank++) {
    g_string_append_printf(data, "%d", rank);
    for (int part = 0; part < N_BREAKDOWN; part++)
      if (metrics->mean_s[part] > 0)
        append_number(data, parts[rank * N_BREAKDOWN + part] / unit.ns);
    g_string_append_c(data, '\n');
  }
  GnuplotVariable variables[] = {{"title", title}, {"unit", unit.name}, {"parts", used->str}, {NULL}};
  return gnuplot_run("breakdown", data->str, variables, file, error);
}
