/* Like timeline.c, from whole ops: a lane per rank and side, idle first, so that gaps show it; passes; thin lanes of
 * communication from when both sides were there, a receive being its send's transfer. Neighbours of one kind closer
 * than a fraction of a pixel are joined. */
#include "compare_plot.h"

#include "gnuplot.h"
#include "time_unit.h"
#include "timeline_kinds.h"

enum { MOST_LANES = 16, SPANS_PER_LANE = 6000 };

enum { SIDE_PREDICTED, SIDE_MEASURED, SIDE_ALONE };

typedef struct {
  gint64 start_ns, end_ns;
  int chunk, micro_batch;
} Box;

typedef struct {
  const Compare *compare;
  double unit_ns;
  gint64 join_ns;
  int lane, side;
  int *chunk;                    /* [stages] of the rank being drawn */
  Box pending[N_TIMELINE_KINDS]; /* the last box of each kind, not yet written; end < 0: none */
  GString *data;
} Chart;

/* −1: not drawn. */
static int kind_of(const WholeOp *op) {
  const gboolean is_receive = op->action == ACTION_RECV_F || op->action == ACTION_RECV_B;
  return is_receive ? -1 : timeline_kind((Stream)op->stream, (ActionKind)op->action);
}

static void append_time(Chart *chart, gint64 time_ns) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append(chart->data, g_ascii_formatd(text, sizeof text, "%.9g", (double)time_ns / chart->unit_ns));
  g_string_append_c(chart->data, ' ');
}

static void write_box(Chart *chart, int kind, const Box *box) {
  if (box->end_ns < 0)
    return;
  g_string_append_printf(chart->data, "%d ", chart->lane);
  if (chart->side != SIDE_ALONE)
    g_string_append_printf(chart->data, "%d ", chart->side);
  g_string_append_printf(chart->data, "%d ", kind);
  append_time(chart, box->start_ns);
  append_time(chart, box->end_ns);
  g_string_append_printf(chart->data, "%d %d\n", box->chunk, box->micro_batch);
}

static void add_box(Chart *chart, int kind, const Box *box) {
  Box *last = &chart->pending[kind];
  gboolean is_near = last->end_ns >= 0 && box->start_ns <= last->end_ns + chart->join_ns;
  if (is_near && last->chunk == box->chunk && last->micro_batch == box->micro_batch) {
    last->end_ns = MAX(last->end_ns, box->end_ns);
    return;
  }
  write_box(chart, kind, last);
  *last = *box;
}

static void number_chunks(Chart *chart, const CompareSide *side, int rank) {
  int n_stages = side->trace->n_stages, n = 0;
  for (int stage = 0; stage < n_stages; stage++)
    chart->chunk[stage] = 0;
  for (gsize i = side->ops->first[rank]; i < side->ops->first[rank + 1]; i++) {
    const WholeOp *op = &g_array_index(side->ops->ops, WholeOp, i);
    if (op->stage >= 0 && action_info(op->action)->is_compute)
      chart->chunk[op->stage] = 1;
  }
  for (int stage = 0; stage < n_stages; stage++)
    chart->chunk[stage] = chart->chunk[stage] > 0 ? n++ : 0;
}

static void add_op(Chart *chart, const WholeOp *op, gint64 origin_ns) {
  int kind = kind_of(op);
  if (op->step != chart->compare->n_steps - 1 || kind < 0 || op->end_ns <= op->start_ns || op->end_ns <= origin_ns)
    return;
  gboolean is_pass = kind <= TIMELINE_B;
  Box box = {.start_ns = MAX(op->ready_ns - origin_ns, 0),
             .end_ns = op->end_ns - origin_ns,
             .chunk = is_pass && op->stage >= 0 ? chart->chunk[op->stage] : 0,
             .micro_batch = is_pass ? op->micro_batch : -1};
  add_box(chart, kind, &box);
}

static void add_side(Chart *chart, const CompareSide *side, int rank) {
  int last = chart->compare->n_steps - 1;
  gint64 origin_ns = last > 0 ? side->end_ns[last - 1] : side->start_ns;
  for (int kind = 0; kind < N_TIMELINE_KINDS; kind++)
    chart->pending[kind].end_ns = -1;
  Box idle = {.end_ns = side->end_ns[last] - origin_ns, .micro_batch = -1};
  write_box(chart, TIMELINE_IDLE, &idle);
  number_chunks(chart, side, rank);
  for (gsize i = side->ops->first[rank]; i < side->ops->first[rank + 1]; i++)
    add_op(chart, &g_array_index(side->ops->ops, WholeOp, i), origin_ns);
  for (gsize i = side->ops->inner_first[rank]; i < side->ops->inner_first[rank + 1]; i++)
    add_op(chart, &g_array_index(side->ops->inner, WholeOp, i), origin_ns);
  for (int kind = 0; kind < N_TIMELINE_KINDS; kind++)
    write_box(chart, kind, &chart->pending[kind]);
}

static gint64 last_step_ns(const CompareSide *side, int n_steps) {
  return side->end_ns[n_steps - 1] - (n_steps > 1 ? side->end_ns[n_steps - 2] : side->start_ns);
}

static gint64 span_ns(const Compare *compare) {
  return MAX(last_step_ns(&compare->predicted, compare->n_steps), last_step_ns(&compare->measured, compare->n_steps));
}

/* Indices of the rows to draw. Owned by the caller. */
static GArray *chosen_rows(const Compare *compare, int row) {
  GArray *chosen = g_array_new(FALSE, FALSE, sizeof(int));
  int next_pipeline_rank = 0;
  for (int i = 0; i < compare->n_rows && chosen->len < MOST_LANES; i++) {
    gboolean is_first = compare->rows[i].pipeline_rank == next_pipeline_rank;
    gboolean is_chosen = row >= 0 ? i == row : compare->n_rows <= MOST_LANES || is_first;
    next_pipeline_rank += is_first;
    if (is_chosen)
      g_array_append_val(chosen, i);
  }
  return chosen;
}

static Chart chart_new(const Compare *compare, double unit_ns, const char *columns) {
  return (Chart){.compare = compare,
                 .unit_ns = unit_ns,
                 .join_ns = span_ns(compare) / SPANS_PER_LANE,
                 .chunk = g_new(int, compare->predicted.trace->n_stages),
                 .data = g_string_new(columns)};
}

char *compare_plot_data(const Compare *compare, int row, double unit_ns) {
  Chart chart = chart_new(compare, unit_ns, "# lane side kind start end chunk micro_batch\n");
  g_autoptr(GArray) chosen = chosen_rows(compare, row);
  for (guint i = 0; i < chosen->len; i++) {
    const CompareRow *drawn = &compare->rows[g_array_index(chosen, int, i)];
    chart.lane = (int)i;
    chart.side = SIDE_PREDICTED;
    add_side(&chart, &compare->predicted, drawn->predicted);
    chart.side = SIDE_MEASURED;
    add_side(&chart, &compare->measured, drawn->measured);
  }
  g_free(chart.chunk);
  return g_string_free(chart.data, FALSE);
}

static char *lane_labels(const Compare *compare, int row) {
  g_autoptr(GArray) chosen = chosen_rows(compare, row);
  GString *labels = g_string_new(NULL);
  for (guint i = 0; i < chosen->len; i++)
    g_string_append_printf(labels, "%s%d", i > 0 ? " " : "", compare->rows[g_array_index(chosen, int, i)].rank);
  return g_string_free(labels, FALSE);
}

static char *title_of(const Compare *compare) {
  g_autofree char *steps = compare_steps_text(compare);
  TimeUnit unit = time_unit_for(span_ns(compare));
  g_autoptr(GString) title = g_string_new(NULL);
  g_string_append_printf(title, "Step %.4g %s predicted, %.4g %s measured: error %+.2f %%",
                         1e9 * compare->predicted.step_s / unit.ns, unit.name, 1e9 * compare->measured.step_s / unit.ns,
                         unit.name, 100 * compare_error(compare->predicted.step_s, compare->measured.step_s) + 0.0);
  if (compare->n_steps > 2)
    g_string_append_printf(title, " (%s); drawn: the last", steps);
  return g_strdup(title->str);
}

gboolean compare_plot(const Compare *compare, int row, const char *file, GError **error) {
  TimeUnit unit = time_unit_for(span_ns(compare));
  g_autofree char *data = compare_plot_data(compare, row, unit.ns);
  g_autofree char *title = title_of(compare);
  g_autofree char *xlabel = g_strdup_printf("time since the step began (%s)", unit.name);
  g_autofree char *lanes = lane_labels(compare, row);
  GnuplotVariable variables[] = {{"title", title}, {"xlabel", xlabel}, {"lanes", lanes}, {NULL}};
  return gnuplot_run("compare", data, variables, file, error);
}

/* Compared with itself, a trace is checked and cut into whole ops and steps as any other. */
Picture *compare_trace_picture(const ChromeTrace *trace, const char *title, GError **error) {
  g_autoptr(Compare) compare = compare_new(trace, trace, error);
  if (compare == NULL || !gnuplot_check_span(span_ns(compare), trace->file, error))
    return NULL;
  TimeUnit unit = time_unit_for(span_ns(compare));
  Chart chart = chart_new(compare, unit.ns, "# lane kind start end chunk micro_batch\n");
  g_autoptr(GArray) chosen = chosen_rows(compare, -1);
  for (guint i = 0; i < chosen->len; i++) {
    chart.lane = (int)i;
    chart.side = SIDE_ALONE;
    add_side(&chart, &compare->predicted, compare->rows[g_array_index(chosen, int, i)].predicted);
  }
  g_free(chart.chunk);
  g_autofree char *base = g_path_get_basename(trace->file);
  g_autofree char *own =
      g_strdup_printf("%s: one %s step of %.4g %s", base, trace->is_measured ? "measured" : "simulated",
                      1e9 * compare->predicted.step_s / unit.ns, unit.name);
  g_autofree char *xlabel = g_strdup_printf("time since the step began (%s)", unit.name);
  g_autofree char *lanes = lane_labels(compare, -1);
  Picture *picture = picture_new("timeline", title != NULL ? title : own);
  picture_set(picture, "xlabel", xlabel);
  picture_set(picture, "ylabel", "rank");
  picture_set(picture, "lanes", lanes);
  g_string_append(picture->data, chart.data->str);
  g_string_free(chart.data, TRUE);
  return picture;
}
