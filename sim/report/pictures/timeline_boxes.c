#include "timeline_boxes.h"

static int compute_kind(ActionKind action) {
  static const int kinds[N_ACTIONS] = {
      [ACTION_F] = TIMELINE_F, [ACTION_I] = TIMELINE_I, [ACTION_W] = TIMELINE_W, [ACTION_B] = TIMELINE_B};
  return action_info(action)->is_compute ? kinds[action] : TIMELINE_OPTIMIZER;
}

int timeline_kind_of_axis(Axis axis) {
  static const int kinds[N_AXES] = {[AXIS_TP] = TIMELINE_TP,
                                    [AXIS_CP] = TIMELINE_CP,
                                    [AXIS_EP] = TIMELINE_EP,
                                    [AXIS_DP] = TIMELINE_DP,
                                    [AXIS_PP] = TIMELINE_PP};
  return kinds[axis];
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
    return timeline_kind_of_axis(stream_info(stream)->axis);
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
