/* The trace becomes rectangles, one row of data each: lane, kind, start, end, chunk, micro-batch.
 *
 *     lane 3  idle      |0 ............................................ end|   drawn first, so gaps show it
 *             compute       |F 0||F 1|      |B 0    |
 *             tp             || ||           |||||||                            kernels inside the passes, where known
 *             pp                |-|  |-|            |-|                         both sides there → arrived
 *             dp                                       |-----|
 *             copies                                      |-|          in, out; what the host updates
 *
 * Neighbours are joined. Of passes shorter than the fraction of a pixel over which that is done, one
 * in each fraction is drawn. */
#include "timeline.h"

#include "draw.h"
#include "op_kernels.h"
#include "trace.h"

typedef struct {
  const Trace *trace;
  PipelineRows rows;
  gint32 **match;
  TimelineBoxes boxes;
  gint64 shown_ns; /* start of the last pass drawn */
  GArray *spans;   /* of ItemSpan */
} Chart;

static gboolean is_pass(const TimelineBox *box) {
  return box->kind <= TIMELINE_B;
}

/* Communication is joined over any sub-pixel gap; computing only with the rest of the same pass. */
static void add_box(Chart *chart, const TimelineBox *box) {
  const gint64 least_ns = chart->boxes.join_ns;
  if (timeline_boxes_join(&chart->boxes, box))
    return;
  if (is_pass(box)) {
    if (box->end_ns - box->start_ns < least_ns && box->start_ns < chart->shown_ns + least_ns)
      return;
    chart->shown_ns = box->start_ns;
  }
  timeline_boxes_add(&chart->boxes, box);
}

static int kind_of_axis(Axis axis) {
  static const int kinds[N_AXES] = {[AXIS_TP] = TIMELINE_TP,
                                    [AXIS_CP] = TIMELINE_CP,
                                    [AXIS_EP] = TIMELINE_EP,
                                    [AXIS_DP] = TIMELINE_DP,
                                    [AXIS_PP] = TIMELINE_PP};
  return kinds[axis];
}

static void add_kernels(Chart *chart, int rank, int index) {
  op_kernels(chart->trace, rank, index, chart->spans);
  for (guint i = 0; i < chart->spans->len; i++) {
    const ItemSpan *span = &g_array_index(chart->spans, ItemSpan, i);
    if (span->item->is_collective)
      add_box(chart, &(TimelineBox){.start_ns = span->start_ns,
                                    .end_ns = span->end_ns,
                                    .kind = kind_of_axis((Axis)span->item->axis),
                                    .micro_batch = -1});
  }
}

/* A send is drawn from when both sides are there; its receive is the same transfer and not drawn again. */
static gint64 transfer_start(const Chart *chart, int rank, int index, const Op *op) {
  const Trace *trace = chart->trace;
  gint64 start_ns = trace->start_ns[trace->first[rank] + (gsize)index];
  gint32 other = op->kind == OP_SEND ? chart->match[trace->pipeline_rank[rank]][index] : -1;
  if (other >= 0)
    start_ns = MAX(start_ns, trace->start_ns[trace->first[trace_partner(trace, rank, op->peer)] + (gsize)other]);
  return MIN(start_ns, trace->end_ns[trace->first[rank] + (gsize)index]);
}

static void add_op(Chart *chart, int rank, int index) {
  const Trace *trace = chart->trace;
  const Op *op = &trace_list(trace, rank)->ops[index];
  gsize record = trace->first[rank] + (gsize)index;
  if (trace->start_ns[record] < 0 || trace->end_ns[record] <= trace->start_ns[record] || op->kind == OP_RECV)
    return;
  TimelineBox box = {.start_ns = trace->start_ns[record],
                     .end_ns = trace->end_ns[record],
                     .kind = timeline_kind(op->stream, op->action),
                     .micro_batch = -1};
  if (op->kind == OP_COMPUTE) {
    box.micro_batch = op->micro_batch;
    box.chunk = pipeline_rows_chunk(&chart->rows, chart->boxes.lane, op->stage);
    add_box(chart, &box);
    add_kernels(chart, rank, index);
  } else if (box.kind >= 0) {
    box.start_ns = transfer_start(chart, rank, index, op);
    add_box(chart, &box);
  }
}

static void add_lane(Chart *chart, gint64 end_ns) {
  timeline_boxes_begin(&chart->boxes, end_ns);
  chart->shown_ns = -chart->boxes.join_ns;
  int rank = chart->rows.recorded[chart->boxes.lane];
  if (rank < 0)
    return;
  for (int i = 0; i < trace_list(chart->trace, rank)->n_ops; i++)
    add_op(chart, rank, i);
  timeline_boxes_end(&chart->boxes);
}

static void append_lanes(const Trace *trace, gint32 **match, double unit_ns, GString *data) {
  gint64 end_ns = trace_end(trace);
  g_string_append(data, "# lane kind start end chunk micro_batch\n");
  Chart chart = {.trace = trace,
                 .match = match,
                 .boxes = {.data = data,
                           .unit_ns = unit_ns,
                           .join_ns = end_ns / TIMELINE_SPANS_PER_LANE,
                           .side = TIMELINE_ONE_SIDE},
                 .spans = g_array_new(FALSE, FALSE, sizeof(ItemSpan))};
  pipeline_rows_init(&chart.rows, trace);
  for (chart.boxes.lane = 0; chart.boxes.lane < chart.rows.n_rows; chart.boxes.lane++)
    add_lane(&chart, end_ns);
  pipeline_rows_clear(&chart.rows);
  g_array_unref(chart.spans);
}

Picture *timeline_picture(const Trace *trace, TimeUnit unit, const char *title, int columns, GError **error) {
  gint32 **match;
  if (!picture_check_span(trace_end(trace), "the timeline", error) || !program_match(trace->program, &match, error))
    return NULL;
  Picture *picture = picture_new("timeline", title != NULL ? title : "");
  g_autofree char *xlabel = g_strdup_printf("time (%s)", unit.name);
  picture_set(picture, "xlabel", xlabel);
  picture_set(picture, "ylabel", trace->program->n_stages > trace->program->n_ranks ? "pipeline rank" : "stage");
  append_lanes(trace, match, unit.ns, picture->data);
  program_match_free(trace->program, match);
  if (columns == 0)
    return picture;
  GString *text = g_string_new(title);
  g_string_append_c(text, '\n');
  draw_schedule(trace, unit, columns, FALSE, text);
  picture->text = g_string_free(text, FALSE);
  return picture;
}

/* --- boxes ------------------------------------------------------------------------------------------------------- */

static int compute_kind(ActionKind action) {
  static const int kinds[N_ACTIONS] = {
      [ACTION_F] = TIMELINE_F, [ACTION_I] = TIMELINE_I, [ACTION_W] = TIMELINE_W, [ACTION_B] = TIMELINE_B};
  return action_info(action)->is_compute ? kinds[action] : TIMELINE_OPTIMIZER;
}

int timeline_kind(Stream stream, ActionKind action) {
  switch (stream) {
  case STREAM_COMPUTE:
    return compute_kind(action);
  case STREAM_COPY:
    return TIMELINE_COPY_IN;
  case STREAM_COPY_OUT:
    return TIMELINE_COPY_OUT;
  case STREAM_HOST:
    return action == ACTION_OPTIMIZER ? TIMELINE_HOST_UPDATE : -1;
  default:
    return kind_of_axis(stream_info(stream)->axis);
  }
}

static void append_time(TimelineBoxes *boxes, gint64 time_ns) {
  char text[G_ASCII_DTOSTR_BUF_SIZE];
  g_string_append(boxes->data, g_ascii_formatd(text, sizeof text, "%.9g", (double)time_ns / boxes->unit_ns));
  g_string_append_c(boxes->data, ' ');
}

static void write_box(TimelineBoxes *boxes, const TimelineBox *box) {
  if (box->end_ns < 0)
    return;
  g_string_append_printf(boxes->data, "%d ", boxes->lane);
  if (boxes->side != TIMELINE_ONE_SIDE)
    g_string_append_printf(boxes->data, "%d ", boxes->side);
  g_string_append_printf(boxes->data, "%d ", box->kind);
  append_time(boxes, box->start_ns);
  append_time(boxes, box->end_ns);
  g_string_append_printf(boxes->data, "%d %d\n", box->chunk, box->micro_batch);
}

void timeline_boxes_begin(TimelineBoxes *boxes, gint64 end_ns) {
  for (int kind = 0; kind < N_TIMELINE_KINDS; kind++)
    boxes->pending[kind].end_ns = -1;
  write_box(boxes, &(TimelineBox){.end_ns = end_ns, .kind = TIMELINE_IDLE, .micro_batch = -1});
}

gboolean timeline_boxes_join(TimelineBoxes *boxes, const TimelineBox *box) {
  TimelineBox *last = &boxes->pending[box->kind];
  const gboolean is_near = last->end_ns >= 0 && box->start_ns <= last->end_ns + boxes->join_ns;
  if (!is_near || last->chunk != box->chunk || last->micro_batch != box->micro_batch)
    return FALSE;
  last->end_ns = MAX(last->end_ns, box->end_ns);
  return TRUE;
}

void timeline_boxes_add(TimelineBoxes *boxes, const TimelineBox *box) {
  write_box(boxes, &boxes->pending[box->kind]);
  boxes->pending[box->kind] = *box;
}

void timeline_boxes_end(TimelineBoxes *boxes) {
  for (int kind = 0; kind < N_TIMELINE_KINDS; kind++)
    write_box(boxes, &boxes->pending[kind]);
}
