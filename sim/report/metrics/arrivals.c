/* Sends and receives get their partner from program_match(). Collectives are matched by count: the k-th of a group
 * on one member is the k-th on all, so one array per group, indexed by (instance of the group, k), collects the
 * latest start:
 *
 *     member 0   ──[start────────────end]──
 *     member 1   ────────[start──────end]──      latest[instance, k] = start of member 1
 *
 * A folded trace has one member of every group that does not span stages, and all members run in step: such groups
 * need no array. */
#include "arrivals.h"

#include <string.h>

struct Arrivals {
  const Trace *trace;
  gint32 **match; /* owned */
  int n_groups;
  int *count;      /* [n_groups] collectives of the group on one member */
  gint64 **latest; /* [n_groups] [instances × count]; NULL if the own start is the latest */
};

static int group_index(const Program *program, const Op *op) {
  return g_array_index(program->transfers, Transfer, op->work).group;
}

static AxisSet members_axes(const Group *group) {
  return group->axes | (group->spans_pp ? AXIS_BIT(AXIS_PP) : 0);
}

static int instance_of(const Trace *trace, const Group *group, int rank) {
  return trace->folded ? 0 : layout_group_index(&trace->layout, members_axes(group), rank);
}

static int n_instances(const Trace *trace, const Group *group) {
  return trace->folded ? 1 : trace->layout.n_ranks / layout_group_size(&trace->layout, members_axes(group));
}

static gboolean is_tracked(const Trace *trace, const Group *group) {
  return group->spans_pp || !trace->folded;
}

static void count_collectives(Arrivals *arrivals) {
  const Program *program = arrivals->trace->program;
  g_autofree int *counted = g_new(int, arrivals->n_groups + 1);
  for (int pp = 0; pp < program->n_ranks; pp++) {
    memset(counted, 0, sizeof *counted * (gsize)arrivals->n_groups);
    const OpList *list = &program->ranks[pp];
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].kind == OP_COLLECTIVE)
        counted[group_index(program, &list->ops[i])]++;
    for (int g = 0; g < arrivals->n_groups; g++)
      arrivals->count[g] = MAX(arrivals->count[g], counted[g]);
  }
}

static void allocate_latest(Arrivals *arrivals) {
  const Trace *trace = arrivals->trace;
  for (int g = 0; g < arrivals->n_groups; g++) {
    const Group *group = &g_array_index(trace->program->groups, Group, g);
    if (arrivals->count[g] == 0 || !is_tracked(trace, group))
      continue;
    gsize n = (gsize)n_instances(trace, group) * (gsize)arrivals->count[g];
    arrivals->latest[g] = g_new(gint64, n);
    for (gsize k = 0; k < n; k++)
      arrivals->latest[g][k] = -1;
  }
}

/* First slot of each group for the instances that `rank` is a member of. */
static void slots_of_rank(const Arrivals *arrivals, int rank, gint64 **slots) {
  const Trace *trace = arrivals->trace;
  for (int g = 0; g < arrivals->n_groups; g++) {
    const Group *group = &g_array_index(trace->program->groups, Group, g);
    slots[g] = arrivals->latest[g];
    if (slots[g])
      slots[g] += (gsize)instance_of(trace, group, rank) * (gsize)arrivals->count[g];
  }
}

static void collect_starts(Arrivals *arrivals) {
  const Trace *trace = arrivals->trace;
  g_autofree gint64 **slots = g_new(gint64 *, arrivals->n_groups + 1);
  for (int r = 0; r < trace->n_ranks; r++) {
    slots_of_rank(arrivals, r, slots);
    const OpList *list = trace_list(trace, r);
    const gint64 *start = trace->start_ns + trace->first[r];
    for (int i = 0; i < list->n_ops; i++) {
      if (list->ops[i].kind != OP_COLLECTIVE)
        continue;
      int g = group_index(trace->program, &list->ops[i]);
      if (slots[g]) {
        *slots[g] = MAX(*slots[g], start[i]);
        slots[g]++;
      }
    }
  }
}

static void match(Arrivals *arrivals) {
  const Program *program = arrivals->trace->program;
  gboolean matched = program_match(program, &arrivals->match, NULL);
  g_assert(matched); /* a Program that ran has been verified */
}

Arrivals *arrivals_new(const Trace *trace) {
  Arrivals *arrivals = g_new0(Arrivals, 1);
  arrivals->trace = trace;
  arrivals->n_groups = (int)trace->program->groups->len;
  arrivals->count = g_new0(int, arrivals->n_groups + 1);
  arrivals->latest = g_new0(gint64 *, arrivals->n_groups + 1);
  match(arrivals);

  count_collectives(arrivals);
  allocate_latest(arrivals);
  for (int g = 0; g < arrivals->n_groups; g++) {
    if (arrivals->latest[g]) {
      collect_starts(arrivals);
      break;
    }
  }
  return arrivals;
}

void arrivals_free(Arrivals *arrivals) {
  if (!arrivals)
    return;
  program_match_free(arrivals->trace->program, arrivals->match);
  for (int g = 0; g < arrivals->n_groups; g++)
    g_free(arrivals->latest[g]);
  g_free(arrivals->latest);
  g_free(arrivals->count);
  g_free(arrivals);
}

void arrivals_of_rank(const Arrivals *arrivals, int rank, gint64 *ready_ns) {
  const Trace *trace = arrivals->trace;
  const OpList *list = trace_list(trace, rank);
  const gint64 *start = trace->start_ns + trace->first[rank], *end = trace->end_ns + trace->first[rank];
  const gint32 *match = arrivals->match[trace->pipeline_rank[rank]];
  g_autofree gint64 **slots = g_new(gint64 *, arrivals->n_groups + 1);
  slots_of_rank(arrivals, rank, slots);

  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    gint64 ready = start[i];
    if (op->kind == OP_SEND || op->kind == OP_RECV) {
      int partner = trace_partner(trace, rank, op->peer);
      ready = trace->start_ns[trace->first[partner] + (gsize)match[i]];
    } else if (op->kind == OP_COLLECTIVE) {
      int g = group_index(trace->program, op);
      if (slots[g])
        ready = *slots[g]++;
    }
    ready_ns[i] = MAX(start[i], MIN(ready, end[i]));
  }
}
