#include "op_kernels.h"
#include "own_read.h"

static ProfileKind kind_of_op(const Op *op) {
  if (op->stream == STREAM_COMPUTE)
    return op->action == ACTION_OPTIMIZER ? PROFILE_OPTIMIZER : PROFILE_OTHER;
  return op->stream == STREAM_COPY || op->stream == STREAM_COPY_OUT ? PROFILE_COPY : PROFILE_COLLECTIVE;
}

static void add(Profile *profile, ProfileRank *rank, const char *name, Stream stream, ProfileKind kind, gint64 start_ns,
                gint64 end_ns) {
  const ProfileActivity activity = {.start_ns = start_ns,
                                    .end_ns = end_ns,
                                    .issued_ns = -1,
                                    .name = profile_intern(profile, name),
                                    .operator_index = -1,
                                    .collective_index = -1,
                                    .call = -1,
                                    .stream = profile_stream(rank, stream),
                                    .kind = kind};
  if (end_ns > start_ns)
    g_array_append_val(rank->activities, activity);
}

static void add_op(Profile *profile, ProfileRank *rank, const Trace *trace, int r, int index, GArray *spans) {
  const Op *op = &trace_list(trace, r)->ops[index];
  const gsize record = trace->first[r] + (gsize)index;
  if (trace->start_ns[record] < 0)
    return;
  ProfileStep *last = rank->marks->len > 0 ? &g_array_index(rank->marks, ProfileStep, rank->marks->len - 1) : NULL;
  const ProfileStep step = {trace->start_ns[record], trace->end_ns[record], op->step};
  if (last == NULL || last->number != op->step)
    g_array_append_val(rank->marks, step);
  else
    last->end_ns = MAX(last->end_ns, step.end_ns);
  if (op->stream == STREAM_HOST)
    return;
  op_kernels(trace, r, index, spans);
  for (guint i = 0; i < spans->len; i++) {
    const ItemSpan *span = &g_array_index(spans, ItemSpan, i);
    static const Stream streams[N_ITEM_AXES] = {[AXIS_TP] = STREAM_TP, [AXIS_CP] = STREAM_CP, [AXIS_EP] = STREAM_EP};
    add(profile, rank, span->item->name, span->item->is_collective ? streams[span->item->axis] : STREAM_COMPUTE,
        span->item->is_collective ? PROFILE_COLLECTIVE : own_kernel_kind(span->item->name), span->start_ns,
        span->end_ns);
  }
  if (spans->len == 0)
    add(profile, rank, action_info(op->action)->name, op->stream, kind_of_op(op), trace->start_ns[record],
        trace->end_ns[record]);
}

Profile *profile_of_trace(const Trace *trace) {
  g_autoptr(GArray) spans = g_array_new(FALSE, FALSE, sizeof(ItemSpan));
  Profile *profile = profile_new();
  profile->source = "prediction";
  for (int r = 0; r < trace->n_ranks; r++) {
    ProfileRank *rank = profile_add_rank(profile, "prediction", trace_first_rank(trace, r));
    rank->marks_are_steps = TRUE;
    for (int i = 0; i < trace_list(trace, r)->n_ops; i++)
      add_op(profile, rank, trace, r, i, spans);
  }
  profile_complete(profile, NULL);
  return profile;
}
