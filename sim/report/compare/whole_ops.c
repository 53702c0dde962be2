/* Two passes over the records:
 *
 *     join    compute  |F run|    |F run|  |F run|     →   ops    |·········· 0F3 ··········|
 *             tp              |AR|       |AR|              inner          |AR|       |AR|
 *     meet    the k-th collective of a group on one member is the k-th on every member; a send and its receive carry
 *             the same pair number. Of those that meet, the latest start is when data began to move.
 */
#include "whole_ops.h"

gint64 whole_op_moving_ns(const WholeOp *op) {
  return op->end_ns - op->ready_ns;
}

/* --- join -------------------------------------------------------------------------------------------------------- */

typedef struct {
  const ChromeTrace *trace;
  WholeOps *out;
  GHashTable *joined; /* of the rank: (step, name) → index of its op */
  GArray *meetings;   /* of Meeting: one for each record that may meet others */
} Joiner;

typedef struct {
  gint64 key;  /* pair or group */
  gint64 turn; /* of a collective: which of its group; −1: a send or receive */
  gint32 op;
  gboolean is_inner;
} Meeting;

static gboolean is_computing(const ChromeRecord *record) {
  return action_info(record->action)->is_compute;
}

static GQuark action_name(const ChromeRecord *record, GString *text) {
  Action action = {record->stage, record->micro_batch, record->action};
  g_string_truncate(text, 0);
  action_print(&action, text);
  return g_quark_from_string(text->str);
}

static WholeOp new_op(const ChromeRecord *record, GQuark name) {
  return (WholeOp){.start_ns = record->start_ns,
                   .end_ns = record->end_ns,
                   .ready_ns = record->start_ns,
                   .name = name,
                   .kind = record->category,
                   .step = record->step,
                   .stage = record->stage,
                   .micro_batch = record->micro_batch,
                   .rank = record->rank,
                   .peer = -1,
                   .last = -1,
                   .stream = record->stream,
                   .action = record->action};
}

static void add_meeting(Joiner *joiner, const ChromeRecord *record, gint32 op, gboolean is_inner) {
  if (record->pair < 0 && record->group < 0)
    return;
  Meeting meeting = {record->pair >= 0 ? record->pair : record->group, record->pair >= 0 ? -1 : 0, op, is_inner};
  g_array_append_val(joiner->meetings, meeting);
}

/* The op of the rank that computes this action in this step; made when there is none. */
static WholeOp *computing_op(Joiner *joiner, const ChromeRecord *record, GString *text) {
  GQuark name = action_name(record, text);
  /* the hash sees the lower half only, so the step is in both; one step, one name: one key */
  guint32 lower = name + (guint32)record->step * 2654435761u;
  gpointer key = GSIZE_TO_POINTER((gsize)record->step << 32 | (gsize)lower);
  gpointer found = g_hash_table_lookup(joiner->joined, key);
  if (found == NULL) {
    WholeOp op = new_op(record, name);
    op.stream = STREAM_COMPUTE;
    op.kind = g_quark_from_string(action_info(record->action)->name);
    g_array_append_val(joiner->out->ops, op);
    found = GSIZE_TO_POINTER((gsize)joiner->out->ops->len);
    g_hash_table_insert(joiner->joined, key, found);
  }
  return &g_array_index(joiner->out->ops, WholeOp, GPOINTER_TO_SIZE(found) - 1);
}

static void join_record(Joiner *joiner, const ChromeRecord *record, GString *text) {
  gboolean is_inner = is_computing(record) && record->stream != STREAM_COMPUTE;
  if (is_computing(record) && !record->is_nested) {
    WholeOp *op = computing_op(joiner, record, text);
    op->start_ns = op->ready_ns = MIN(op->start_ns, record->start_ns);
    op->end_ns = MAX(op->end_ns, record->end_ns);
  }
  if (is_computing(record) && !is_inner)
    return;
  GArray *list = is_inner ? joiner->out->inner : joiner->out->ops;
  WholeOp op = new_op(record, record->name);
  add_meeting(joiner, record, (gint32)list->len, is_inner);
  g_array_append_val(list, op);
}

static void join_records(Joiner *joiner) {
  g_autoptr(GString) text = g_string_new(NULL);
  const GArray *records = joiner->trace->records;
  WholeOps *out = joiner->out;
  guint i = 0;
  for (int rank = 0; rank < out->n_ranks; rank++) {
    out->first[rank] = out->ops->len;
    out->inner_first[rank] = out->inner->len;
    g_hash_table_remove_all(joiner->joined);
    for (; i < records->len && g_array_index(records, ChromeRecord, i).rank == rank; i++)
      join_record(joiner, &g_array_index(records, ChromeRecord, i), text);
  }
  out->first[out->n_ranks] = out->ops->len;
  out->inner_first[out->n_ranks] = out->inner->len;
}

/* --- meet -------------------------------------------------------------------------------------------------------- */

static WholeOp *op_of(const Joiner *joiner, const Meeting *meeting) {
  return &g_array_index(meeting->is_inner ? joiner->out->inner : joiner->out->ops, WholeOp, meeting->op);
}

/* Collectives of a rank are in list order, so counting those of a group gives the turn. */
static void count_turns(Joiner *joiner) {
  g_autoptr(GHashTable) counts = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, g_free);
  gint32 rank = -1;
  for (guint i = 0; i < joiner->meetings->len; i++) {
    Meeting *meeting = &g_array_index(joiner->meetings, Meeting, i);
    if (op_of(joiner, meeting)->rank != rank) {
      rank = op_of(joiner, meeting)->rank;
      g_hash_table_remove_all(counts);
    }
    if (meeting->turn < 0)
      continue;
    gint64 *count = g_hash_table_lookup(counts, &meeting->key);
    if (count == NULL) {
      count = g_new0(gint64, 1);
      g_hash_table_insert(counts, g_memdup2(&meeting->key, sizeof meeting->key), count);
    }
    meeting->turn = (*count)++;
  }
}

static int compare_meetings(gconstpointer a, gconstpointer b) {
  const Meeting *x = a, *y = b;
  if ((x->turn < 0) != (y->turn < 0))
    return x->turn < 0 ? -1 : 1;
  if (x->key != y->key)
    return x->key < y->key ? -1 : 1;
  if (x->turn != y->turn)
    return x->turn < y->turn ? -1 : 1;
  return (x->op > y->op) - (x->op < y->op);
}

static void meet(Joiner *joiner, guint first, guint end) {
  const Meeting *last = &g_array_index(joiner->meetings, Meeting, first);
  for (guint i = first; i < end; i++) {
    const Meeting *meeting = &g_array_index(joiner->meetings, Meeting, i);
    if (op_of(joiner, meeting)->start_ns > op_of(joiner, last)->start_ns)
      last = meeting;
  }
  gint64 latest_ns = op_of(joiner, last)->start_ns;
  for (guint i = first; i < end; i++) {
    const Meeting *meeting = &g_array_index(joiner->meetings, Meeting, i);
    WholeOp *op = op_of(joiner, meeting);
    gboolean sends = op->action == ACTION_SEND_F || op->action == ACTION_SEND_B;
    if (!sends || latest_ns < op->end_ns) /* else it was buffered and did not wait */
      op->ready_ns = MIN(latest_ns, op->end_ns);
    if (meeting->turn >= 0)
      op->last = last->op;
    else if (end - first == 2)
      op->peer = g_array_index(joiner->meetings, Meeting, first + end - 1 - i).op;
  }
}

static void meet_all(Joiner *joiner) {
  count_turns(joiner);
  g_array_sort(joiner->meetings, compare_meetings);
  for (guint first = 0, end; first < joiner->meetings->len; first = end) {
    const Meeting *meeting = &g_array_index(joiner->meetings, Meeting, first);
    for (end = first + 1; end < joiner->meetings->len; end++) {
      const Meeting *other = &g_array_index(joiner->meetings, Meeting, end);
      if (other->key != meeting->key || other->turn != meeting->turn)
        break;
    }
    meet(joiner, first, end);
  }
}

WholeOps *whole_ops_new(const ChromeTrace *trace) {
  WholeOps *ops = g_new0(WholeOps, 1);
  ops->n_ranks = trace->n_recorded;
  ops->ops = g_array_new(FALSE, FALSE, sizeof(WholeOp));
  ops->inner = g_array_new(FALSE, FALSE, sizeof(WholeOp));
  ops->first = g_new0(gsize, ops->n_ranks + 1);
  ops->inner_first = g_new0(gsize, ops->n_ranks + 1);
  Joiner joiner = {.trace = trace,
                   .out = ops,
                   .joined = g_hash_table_new(NULL, NULL),
                   .meetings = g_array_new(FALSE, FALSE, sizeof(Meeting))};
  join_records(&joiner);
  meet_all(&joiner);
  g_hash_table_unref(joiner.joined);
  g_array_unref(joiner.meetings);
  return ops;
}

void whole_ops_free(WholeOps *ops) {
  if (ops == NULL)
    return;
  g_array_unref(ops->ops);
  g_array_unref(ops->inner);
  g_free(ops->first);
  g_free(ops->inner_first);
  g_free(ops);
}
