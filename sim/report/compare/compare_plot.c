/* Like timeline.c, from whole ops: a lane per rank and side, idle first, so that gaps show it; passes; thin lanes of
 * communication from when both sides were there, a receive being its send's transfer. Neighbours are
 * joined (timeline.h). */
#include "compare_plot.h"

#include "timeline.h"
#include "units.h"

enum { MOST_LANES = 16 };

enum { SIDE_PREDICTED, SIDE_MEASURED };

typedef struct {
  const Compare *compare;
  TimelineBoxes boxes;
  int *chunk; /* [stages] of the rank being drawn */
} Chart;

/* −1: not drawn. */
static int kind_of(const WholeOp *op) {
  const gboolean is_receive = op->action == ACTION_RECV_F || op->action == ACTION_RECV_B;
  return is_receive ? -1 : timeline_kind((Stream)op->stream, (ActionKind)op->action);
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
  TimelineBox box = {.start_ns = MAX(op->ready_ns - origin_ns, 0),
                     .end_ns = op->end_ns - origin_ns,
                     .kind = kind,
                     .chunk = is_pass && op->stage >= 0 ? chart->chunk[op->stage] : 0,
                     .micro_batch = is_pass ? op->micro_batch : -1};
  if (!timeline_boxes_join(&chart->boxes, &box))
    timeline_boxes_add(&chart->boxes, &box);
}

static void add_side(Chart *chart, const CompareSide *side, int rank) {
  int last = chart->compare->n_steps - 1;
  gint64 origin_ns = last > 0 ? side->end_ns[last - 1] : 0;
  timeline_boxes_begin(&chart->boxes, side->end_ns[last] - origin_ns);
  number_chunks(chart, side, rank);
  for (gsize i = side->ops->first[rank]; i < side->ops->first[rank + 1]; i++)
    add_op(chart, &g_array_index(side->ops->ops, WholeOp, i), origin_ns);
  for (gsize i = side->ops->inner_first[rank]; i < side->ops->inner_first[rank + 1]; i++)
    add_op(chart, &g_array_index(side->ops->inner, WholeOp, i), origin_ns);
  timeline_boxes_end(&chart->boxes);
}

static gint64 last_step_ns(const CompareSide *side, int n_steps) {
  return side->end_ns[n_steps - 1] - (n_steps > 1 ? side->end_ns[n_steps - 2] : 0);
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

static char *lane_labels(const Compare *compare, const GArray *chosen) {
  GString *labels = g_string_new(NULL);
  for (guint i = 0; i < chosen->len; i++)
    g_string_append_printf(labels, "%s%d", i > 0 ? " " : "", compare->rows[g_array_index(chosen, int, i)].rank);
  return g_string_free(labels, FALSE);
}

static TimeUnit unit_of(const Compare *compare) {
  return time_unit_for(span_ns(compare));
}

static char *title_of(const Compare *compare) {
  g_autofree char *steps = compare_steps_text(compare);
  const TimeUnit unit = unit_of(compare);
  g_autoptr(GString) title = g_string_new(NULL);
  g_string_append_printf(title, "Step %.4g %s predicted, %.4g %s measured: error %+.2f %%",
                         1e9 * compare->predicted.step_s / unit.ns, unit.name, 1e9 * compare->measured.step_s / unit.ns,
                         unit.name, 100 * compare_error(compare->predicted.step_s, compare->measured.step_s) + 0.0);
  if (compare->n_steps > 2)
    g_string_append_printf(title, " (%s); drawn: the last", steps);
  return g_strdup(title->str);
}

/* Both sides, or the predicted alone. */
static Picture *lanes_picture(const Compare *compare, int row, gboolean are_both, const char *script,
                              const char *title) {
  Picture *picture = picture_new(script, title);
  const TimeUnit unit = unit_of(compare);
  g_autofree char *xlabel = g_strdup_printf("time since the step began (%s)", unit.name);
  picture_set(picture, "xlabel", xlabel);
  if (!are_both)
    picture_set(picture, "ylabel", "rank");
  g_autoptr(GArray) chosen = chosen_rows(compare, row);
  g_autofree char *lanes = lane_labels(compare, chosen);
  picture_set(picture, "lanes", lanes);
  g_string_append_printf(picture->data, "# lane%s kind start end chunk micro_batch\n", are_both ? " side" : "");
  Chart chart = {.compare = compare,
                 .boxes = {.data = picture->data,
                           .unit_ns = unit.ns,
                           .join_ns = span_ns(compare) / TIMELINE_SPANS_PER_LANE,
                           .side = are_both ? SIDE_PREDICTED : TIMELINE_ONE_SIDE},
                 .chunk = g_new(int, compare->predicted.trace->n_stages)};
  for (guint i = 0; i < chosen->len; i++) {
    const CompareRow *drawn = &compare->rows[g_array_index(chosen, int, i)];
    chart.boxes.lane = (int)i;
    add_side(&chart, &compare->predicted, drawn->predicted);
    if (!are_both)
      continue;
    chart.boxes.side = SIDE_MEASURED;
    add_side(&chart, &compare->measured, drawn->measured);
    chart.boxes.side = SIDE_PREDICTED;
  }
  g_free(chart.chunk);
  return picture;
}

Picture *compare_picture(const Compare *compare, int row) {
  g_autofree char *title = title_of(compare);
  return lanes_picture(compare, row, TRUE, "compare", title);
}

/* Compared with itself, a trace is checked and cut into whole ops and steps as any other. */
Picture *compare_trace_picture(const ChromeTrace *trace, const char *title, GError **error) {
  g_autoptr(Compare) compare = compare_new(trace, trace, error);
  if (compare == NULL || !picture_check_span(span_ns(compare), trace->file, error))
    return NULL;
  const TimeUnit unit = unit_of(compare);
  g_autofree char *base = g_path_get_basename(trace->file);
  g_autofree char *own =
      g_strdup_printf("%s: one %s step of %.4g %s", base, trace->is_measured ? "measured" : "simulated",
                      1e9 * compare->predicted.step_s / unit.ns, unit.name);
  return lanes_picture(compare, -1, FALSE, "timeline", title != NULL ? title : own);
}
