#include "causes.h"

#include "arrivals.h"

typedef struct {
  const Trace *trace;
  gint32 **match;
  GHashTable *last; /* meeting → 1 + record of its last member */
} Look;

/* A collective on recorded members: the k-th of an instance of a group. */
typedef struct {
  gint32 group, k;
  gint64 instance;
} Meeting;

static guint meeting_hash(gconstpointer of) {
  const Meeting *meeting = of;
  return (guint)meeting->group * 2654435761u ^ (guint)meeting->k * 40503u ^ (guint)meeting->instance * 97u;
}

static gboolean meeting_equal(gconstpointer a, gconstpointer b) {
  const Meeting *one = a, *other = b;
  return one->group == other->group && one->k == other->k && one->instance == other->instance;
}

static const Transfer *transfer_of(const Look *look, const Op *op) {
  return &g_array_index(look->trace->program->transfers, Transfer, op->work);
}

static gboolean is_met(const Look *look, const Op *op) {
  return op->kind == OP_COLLECTIVE && arrivals_has_others(look->trace, transfer_of(look, op));
}

static Meeting meeting_of(const Look *look, int rank, const Op *op, gint32 k) {
  const Trace *trace = look->trace;
  const gint32 g = transfer_of(look, op)->group;
  const Group *group = &g_array_index(trace->program->groups, Group, g);
  const AxisSet axes = group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
  return (Meeting){g, k, trace->folded ? 0 : (gint64)layout_group_index(&trace->layout, axes, rank)};
}

static void collect_last(Look *look) {
  const Trace *trace = look->trace;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    for (gint32 i = 0; i < list->n_ops; i++) {
      if (!is_met(look, &list->ops[i]))
        continue;
      const Meeting meeting = meeting_of(look, rank, &list->ops[i], look->match[trace->pipeline_rank[rank]][i]);
      const gsize record = trace->first[rank] + (gsize)i;
      const gsize before = GPOINTER_TO_SIZE(g_hash_table_lookup(look->last, &meeting));
      if (before == 0 || trace->start_ns[record] > trace->start_ns[before - 1])
        g_hash_table_insert(look->last, g_memdup2(&meeting, sizeof meeting), GSIZE_TO_POINTER(record + 1));
    }
  }
}

/* The record of another rank that op `i` waited for; −1: it did not. */
static gint64 awaited(const Look *look, int rank, gint32 i) {
  const Trace *trace = look->trace;
  const Op *op = &trace_list(trace, rank)->ops[i];
  const gint64 start_ns = trace->start_ns[trace->first[rank] + (gsize)i];
  const gint32 matched = look->match[trace->pipeline_rank[rank]][i];
  gint64 other = -1;
  if (op->kind == OP_SEND || op->kind == OP_RECV) {
    other = matched < 0 ? -1 : (gint64)trace->first[trace_partner(trace, rank, op->peer)] + matched;
  } else if (is_met(look, op)) {
    const Meeting meeting = meeting_of(look, rank, op, matched);
    other = (gint64)GPOINTER_TO_SIZE(g_hash_table_lookup(look->last, &meeting)) - 1;
  }
  return other >= 0 && trace->start_ns[other] > start_ns ? other : -1;
}

static void look_at(const Look *look, int rank, gint64 *causes) {
  const Trace *trace = look->trace;
  const OpList *list = trace_list(trace, rank);
  const gint64 first = (gint64)trace->first[rank];
  const gint64 *end_ns = trace->end_ns + first;
  gint32 before[N_STREAMS], last_host = -1; /* the last op of each stream, and of those that keep the host */
  for (int stream = 0; stream < N_STREAMS; stream++)
    before[stream] = -1;
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    gint32 cause = before[op->stream];
    for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
      if (cause < 0 || end_ns[op->after[k]] > end_ns[cause])
        cause = op->after[k];
    if (cause < 0 || trace->issue_ns[first + i] > end_ns[cause])
      cause = last_host;
    const gint64 other = awaited(look, rank, i);
    causes[first + i] = other >= 0 ? other : (cause >= 0 ? first + cause : -1);
    before[op->stream] = i;
    last_host = op->kind == OP_HOST ? i : last_host;
  }
}

gint64 *causes_of(const Trace *trace, GError **error) {
  Look look = {.trace = trace};
  int *count;
  if (!program_number(trace->program, &look.match, &count)) {
    gint32 **match;
    if (program_match(trace->program, &match, error)) /* says what is wrong */
      program_match_free(trace->program, match);
    return NULL;
  }
  look.last = g_hash_table_new_full(meeting_hash, meeting_equal, g_free, NULL);
  collect_last(&look);
  gint64 *causes = g_new(gint64, trace->first[trace->n_ranks] + 1);
  for (int rank = 0; rank < trace->n_ranks; rank++)
    look_at(&look, rank, causes);
  g_hash_table_unref(look.last);
  program_match_free(trace->program, look.match);
  g_free(count);
  return causes;
}

guint8 *causes_critical(const Trace *trace, const gint64 *causes) {
  const gint64 n_records = (gint64)trace->first[trace->n_ranks], begin_ns = trace_last_step_begin(trace);
  guint8 *critical = g_new0(guint8, n_records + 1);
  gint64 at = -1;
  for (gint64 i = 0; i < n_records; i++)
    if (at < 0 || trace->end_ns[i] > trace->end_ns[at])
      at = i;
  while (at >= 0 && !critical[at] && trace->end_ns[at] > begin_ns) {
    critical[at] = TRUE;
    at = causes[at];
  }
  return critical;
}
