/* A list in its steady state stays in it until its forwards run out. So the search in each step starts at the last
 * forward with a match q micro-batches earlier. The distance to that match is the number of ops per group. From there
 * the stretch in which each op matches the one a group later is extended both ways. schedule_repeats() has already
 * said that the schedule repeats, so one and a half groups are enough evidence of where. Collectives that span stages
 * never match: they are counted across all lists. */
#include "repeats.h"

/* How an op differs from its match one group later. */
typedef struct {
  const OpList *list;
  gint32 n_ops;  /* ops apart */
  int q;         /* micro-batches apart */
  gint32 n_over; /* batches apart; −1: not known yet */
} Likeness;

static gboolean is_shifted(gint32 a, gint32 b, gint32 by) {
  return a < 0 ? b < 0 : b - a == by;
}

/* Whether `b`, an op n_ops behind `a` in the same list, waits for the ops n_ops behind those that `a` waits for. */
static gboolean waits_alike(const Op *a, const Op *b, gint32 n_ops) {
  for (int i = 0; i < OP_MAX_AFTER; i++) {
    if (!is_shifted(a->after[i], b->after[i], n_ops))
      return FALSE;
    if (a->after[i] < 0)
      break; /* used slots come first */
  }
  return TRUE;
}

static gboolean is_of_every_group(const Program *program, const Op *op) {
  if (op->kind != OP_COLLECTIVE)
    return TRUE;
  const gint32 group = g_array_index(program->transfers, Transfer, op->work).group;
  return !g_array_index(program->groups, Group, group).spans_pp;
}

static gboolean does_alike(const Op *a, const Op *b) {
  return a->kind == b->kind && a->stream == b->stream && a->action == b->action && a->overlapped == b->overlapped &&
         a->takes_turns == b->takes_turns && a->stage == b->stage && a->step == b->step && a->work == b->work &&
         a->effect == b->effect && a->peer == b->peer && a->unit == b->unit;
}

static gboolean are_alike(Likeness *likeness, const Program *program, gint32 i) {
  const Op *a = &likeness->list->ops[i], *b = a + likeness->n_ops;
  if (!does_alike(a, b) || !is_of_every_group(program, a) || !is_shifted(a->micro_batch, b->micro_batch, likeness->q) ||
      !waits_alike(a, b, likeness->n_ops))
    return FALSE;
  if ((a->kind == OP_SEND || a->kind == OP_RECV) && b->tag - a->tag != 2 * likeness->q) /* as lowering numbers tags */
    return FALSE;
  if (a->batch < 0 || b->batch < 0)
    return a->batch < 0 && b->batch < 0;
  if (likeness->n_over < 0)
    likeness->n_over = b->batch - a->batch;
  return b->batch - a->batch == likeness->n_over;
}

/* How many ops before compute op `i` its match is; 0: none. */
static gint32 distance_to_like(const OpList *list, gint32 i, int q) {
  const Op *op = &list->ops[i];
  for (gint32 j = i - 1; j >= 0 && list->ops[j].step == op->step; j--)
    if (list->ops[j].micro_batch == op->micro_batch - q && does_alike(&list->ops[j], op))
      return i - j;
  return 0;
}

/* The first forward op of a micro-batch in the step, searched from op `from` on; −1: none. */
static gint32 first_forward(const OpList *list, gint32 from, int step, int micro_batch) {
  for (gint32 i = from; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->step == step && op->kind == OP_COMPUTE && op->action == ACTION_F && op->micro_batch == micro_batch)
      return i;
  }
  return -1;
}

/* The match of the last forward that has one, n_ops before that forward; −1: none. */
static gint32 last_alike(Likeness *likeness, const Program *program, gint32 from, int step) {
  for (int micro_batch = program->n_micro_batches - 1; micro_batch >= likeness->q; micro_batch--) {
    const gint32 last = first_forward(likeness->list, from, step, micro_batch);
    likeness->n_ops = last >= 0 ? distance_to_like(likeness->list, last, likeness->q) : 0;
    if (likeness->n_ops > 0 && are_alike(likeness, program, last - likeness->n_ops))
      return last - likeness->n_ops;
  }
  return -1;
}

/* Effects are whole numbers of bytes, so their sums are exact in any order. */
gboolean program_leaves_memory(const Program *program, const OpList *list, gint32 first, gint32 n_ops) {
  g_autofree gint32 *n_of = g_new0(gint32, program->effects->len); /* ops of each effect */
  double net[N_MEMORY] = {0};
  for (gint32 i = first; i < first + n_ops; i++)
    n_of[list->ops[i].effect]++;
  for (guint e = 0; e < program->effects->len; e++) {
    const Effect *effect = &g_array_index(program->effects, Effect, e);
    for (int k = 0; k < N_MEMORY; k++)
      net[k] += n_of[e] * (effect->hold[k] - effect->drop[k]);
  }
  for (int k = 0; k < N_MEMORY; k++)
    if (net[k] != 0)
      return FALSE;
  return TRUE;
}

/* A batch's ops are on different streams and nearly adjacent. Moves `end` back to the start of a batch that straddles
 * it. */
static gint32 find_same_until(const OpList *list, gint32 end) {
  for (gint32 i = MAX(0, end - N_STREAMS); i < end; i++)
    for (gint32 j = end; j < MIN(end + N_STREAMS, list->n_ops); j++)
      if (list->ops[i].batch >= 0 && list->ops[i].batch == list->ops[j].batch)
        return i;
  return end;
}

static gboolean find_body(const Program *program, const OpList *list, gint32 from, int step, int q,
                          RepeatedOps *found) {
  Likeness likeness = {list, .q = q, .n_over = -1};
  gint32 first = last_alike(&likeness, program, from, step), end = first;
  if (first < 0)
    return FALSE;
  while (end + likeness.n_ops < list->n_ops && are_alike(&likeness, program, end))
    end++;
  while (first > 0 && are_alike(&likeness, program, first - 1))
    first--;
  *found = (RepeatedOps){first, end, likeness.n_ops, find_same_until(list, end + likeness.n_ops)};
  return end - first >= likeness.n_ops / 2; /* the half group that follows the first one */
}

/* ProgramRepeats.lists, owned by the caller; NULL: a list has no repeats. */
static RepeatedOps *find_bodies(const Program *program, int q) {
  g_autofree RepeatedOps *lists = g_new0(RepeatedOps, program->n_ranks * program->n_steps);
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int step = 0; step < program->n_steps; step++) {
      RepeatedOps *found = &lists[rank * program->n_steps + step];
      const gint32 from = step > 0 ? found[-1].end : 0;
      if (!find_body(program, &program->ranks[rank], from, step, q, found))
        return NULL;
    }
  return g_steal_pointer(&lists);
}

static gboolean leave_memory(const ProgramRepeats *repeats) {
  const Program *program = repeats->program;
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (int step = 0; step < program->n_steps; step++) {
      const RepeatedOps *group = program_repeats_of(repeats, rank, step);
      if (!program_leaves_memory(program, &program->ranks[rank], group->first, group->n_ops))
        return FALSE;
    }
  return TRUE;
}

ProgramRepeats *program_repeats_find(const Program *program, int n_micro_batches) {
  RepeatedOps *lists = find_bodies(program, n_micro_batches);
  if (lists == NULL)
    return NULL;
  ProgramRepeats *repeats = g_new(ProgramRepeats, 1);
  *repeats = (ProgramRepeats){program, n_micro_batches, lists};
  return repeats;
}

ProgramRepeats *program_repeats_of_copy(const ProgramRepeats *repeats, const Program *copy) {
  const gsize n_lists = (gsize)copy->n_ranks * (gsize)copy->n_steps;
  g_autoptr(ProgramRepeats) same = g_new(ProgramRepeats, 1);
  *same = (ProgramRepeats){copy, repeats->n_micro_batches, g_memdup2(repeats->lists, sizeof(RepeatedOps) * n_lists)};
  return leave_memory(same) ? g_steal_pointer(&same) : NULL;
}

ProgramRepeats *program_repeats_new(const Program *program, int n_micro_batches) {
  g_autoptr(ProgramRepeats) found = program_repeats_find(program, n_micro_batches);
  return found != NULL && leave_memory(found) ? g_steal_pointer(&found) : NULL;
}

void program_repeats_free(ProgramRepeats *repeats) {
  if (repeats == NULL)
    return;
  g_free(repeats->lists);
  g_free(repeats);
}
