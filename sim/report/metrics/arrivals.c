/* Sends and receives know their partner (program_number()). Collectives are matched by count: the k-th of a group
 * on one member is the k-th on all, so one array per group, indexed by (instance of the group, k), has the latest
 * start:
 *
 *     member 0   ──[start────────────end]──
 *     member 1   ────────[start──────end]──      latest[instance, k] = start of member 1
 *
 * In a folded trace only groups that span stages have members that differ: others need no array. */
#include "arrivals.h"

#include "tape.h"

#include <string.h>

static const Group *group_at(const Trace *trace, guint g) {
  return &g_array_index(trace->program->groups, Group, g);
}

static gint32 group_index(const Program *program, const Op *op) {
  return g_array_index(program->transfers, Transfer, op->work).group;
}

static AxisSet members_axes(const Group *group) {
  return group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
}

static gboolean group_has_others(const Trace *trace, const Group *group) {
  return !trace->folded || (group->spans_pp && trace->n_ranks > 1);
}

gboolean arrivals_has_others(const Trace *trace, const Transfer *transfer) {
  return transfer->group < 0 || group_has_others(trace, group_at(trace, (guint)transfer->group));
}

static gsize n_instances(const Trace *trace, const Group *group) {
  return trace->folded ? 1 : (gsize)(trace->layout.n_ranks / layout_group_size(&trace->layout, members_axes(group)));
}

/* FALSE: no group has several members that differ. */
static gboolean allocate_latest(Arrivals *arrivals) {
  const Trace *trace = arrivals->trace;
  gboolean any = FALSE;
  for (guint g = 0; g < trace->program->groups->len; g++) {
    const Group *group = group_at(trace, g);
    if (arrivals->count[g] == 0 || !group_has_others(trace, group))
      continue;
    const gsize n = n_instances(trace, group) * (gsize)arrivals->count[g];
    arrivals->latest[g] = g_new(gint64, n);
    for (gsize k = 0; k < n; k++)
      arrivals->latest[g][k] = -1;
    any = TRUE;
  }
  return any;
}

void arrivals_look_from(Arrivals *arrivals, int rank) {
  const Trace *trace = arrivals->trace;
  const int pp = trace->pipeline_rank[rank];
  arrivals->ops = trace_list(trace, rank)->ops;
  arrivals->start_ns = trace->start_ns + trace->first[rank];
  arrivals->end_ns = trace->end_ns + trace->first[rank];
  if (arrivals->match == NULL)
    return;
  arrivals->of_rank = arrivals->match[pp];
  arrivals->partner = trace->first + trace_partner(trace, rank, 0);
  arrivals->stride = trace_partner(trace, rank, 1) - trace_partner(trace, rank, 0);
  for (guint g = 0; g < trace->program->groups->len; g++) {
    gint64 *latest = arrivals->latest[g];
    if (latest != NULL && !trace->folded)
      latest +=
          (gsize)layout_group_index(&trace->layout, members_axes(group_at(trace, g)), rank) * (gsize)arrivals->count[g];
    arrivals->slots[g] = latest;
  }
}

static void collect_starts(Arrivals *arrivals) {
  const Trace *trace = arrivals->trace;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    arrivals_look_from(arrivals, rank);
    const int n_ops = trace_list(trace, rank)->n_ops;
    for (int i = 0; i < n_ops; i++) {
      if (arrivals->ops[i].kind != OP_COLLECTIVE)
        continue;
      gint64 *slots = arrivals->slots[group_index(trace->program, &arrivals->ops[i])];
      if (slots != NULL)
        slots[arrivals->of_rank[i]] = MAX(slots[arrivals->of_rank[i]], arrivals->start_ns[i]);
    }
  }
}

static void match(Arrivals *arrivals) {
  const Program *program = arrivals->trace->program;
  const Tape *tape = program_known_tape(program);
  if (tape != NULL) {
    arrivals->match = tape->match;
    arrivals->count = tape->count;
  } else {
    const gboolean matched = program_number(program, &arrivals->own_match, &arrivals->own_count);
    g_assert(matched); /* a Program that ran has been verified */
    arrivals->match = arrivals->own_match;
    arrivals->count = arrivals->own_count;
  }
  arrivals->latest = g_new0(gint64 *, program->groups->len + 1);
  arrivals->slots = g_new0(gint64 *, program->groups->len + 1);
  if (allocate_latest(arrivals))
    collect_starts(arrivals);
}

Arrivals *arrivals_new(const Trace *trace) {
  Arrivals *arrivals = g_new0(Arrivals, 1);
  const GArray *transfers = trace->program->transfers;
  arrivals->trace = trace;
  arrivals->transfers = (const Transfer *)(const void *)transfers->data;
  arrivals->all_start_ns = trace->start_ns;
  for (guint t = 0; t < transfers->len && arrivals->match == NULL; t++)
    if (arrivals_has_others(trace, &g_array_index(transfers, Transfer, t)))
      match(arrivals);
  return arrivals;
}

void arrivals_free(Arrivals *arrivals) {
  if (!arrivals)
    return;
  program_match_free(arrivals->trace->program, arrivals->own_match);
  for (guint g = 0; arrivals->latest != NULL && g < arrivals->trace->program->groups->len; g++)
    g_free(arrivals->latest[g]);
  g_free(arrivals->latest);
  g_free(arrivals->slots);
  g_free(arrivals->own_count);
  g_free(arrivals);
}

void arrivals_of_rank(Arrivals *arrivals, int rank, gint64 *ready_ns) {
  const Program *program = arrivals->trace->program;
  arrivals_look_from(arrivals, rank);
  for (gint32 i = 0; i < trace_list(arrivals->trace, rank)->n_ops; i++) {
    const Op *op = &arrivals->ops[i];
    const gboolean has_others =
        !op_computes(op) &&
        arrivals_has_others(arrivals->trace, &g_array_index(program->transfers, Transfer, op->work));
    ready_ns[i] = has_others ? arrivals_ready(arrivals, i) : arrivals->start_ns[i];
  }
}
