/* A folded run records a compute op as a whole; its inside is replayed from the Timing, starting when the op's
 * streams were free and the host began to issue it. */
#include "op_kernels.h"

static gboolean has_items(const Trace *trace, const Op *op) {
  if (!trace->timing || op->kind != OP_COMPUTE)
    return FALSE;
  const Work *work = &g_array_index(trace->program->works, Work, op->work);
  return work->phase != PHASE_OPTIMIZER && (work->piece >= 0 || work->n_embedding + work->n_layers + work->n_head > 0);
}

static void append_span(const ItemSpan *span, gpointer data) {
  g_array_append_vals(data, span, 1);
}

static void stretch(GArray *spans, gint64 start_ns, gint64 replayed_end_ns, gint64 end_ns) {
  double factor = (double)(end_ns - start_ns) / (double)(replayed_end_ns - start_ns);
  for (guint i = 0; i < spans->len; i++) {
    ItemSpan *span = &g_array_index(spans, ItemSpan, i);
    span->start_ns = start_ns + (gint64)((double)(span->start_ns - start_ns) * factor);
    span->end_ns = start_ns + (gint64)((double)(span->end_ns - start_ns) * factor);
  }
}

void op_kernels(const Trace *trace, int rank, int index, GArray *spans) {
  g_array_set_size(spans, 0);
  const Op *op = &trace_list(trace, rank)->ops[index];
  gsize record = trace->first[rank] + (gsize)index;
  gint64 start_ns = trace->start_ns[record], end_ns = trace->end_ns[record];
  if (start_ns < 0 || end_ns < start_ns || !has_items(trace, op))
    return;
  const Work *work = &g_array_index(trace->program->works, Work, op->work);
  gint64 replayed = timing_replay(trace->timing, work, start_ns, trace->issue_ns[record], append_span, spans);
  if (replayed != end_ns && replayed > start_ns)
    stretch(spans, start_ns, replayed, end_ns);
}

static gint64 count_items(const Timing *timing, const Work *work) {
  if (work->piece >= 0)
    return work->last_item - work->first_item + 1;
  gint64 count = 0;
  int pieces[N_PIECES];
  work_pieces(work, pieces);
  for (int piece = 0; piece < N_PIECES; piece++)
    count += (gint64)pieces[piece] * timing_list(timing, work, piece)->n_items;
  return count;
}

gint64 op_kernels_count_of(const Trace *trace, int rank) {
  const OpList *list = trace_list(trace, rank);
  gint64 count = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (trace->end_ns[trace->first[rank] + (gsize)i] >= 0 && has_items(trace, &list->ops[i]))
      count += count_items(trace->timing, &g_array_index(trace->program->works, Work, list->ops[i].work));
  return count;
}

gint64 op_kernels_count(const Trace *trace) {
  gint64 count = 0;
  for (int rank = 0; rank < trace->n_ranks; rank++)
    count += op_kernels_count_of(trace, rank);
  return count;
}
