/* interleave: when a forward and a backward run as one (OVERLAP_F_B, or a framework that pairs them), each fills the
 * other's waits for expert exchanges.
 *
 *     before   compute | F: attention |      | experts |      | B: experts |      | attention |
 *              ep                     | send |         | back |            | send |
 *
 *     after    compute | F: attention | B: experts | F: experts | B: attention |
 *              ep                     |   F: send  |  B: send   |   F: back    |
 *
 * (DeepSeek-V3, arXiv 2412.19437 §3.2.1; Megatron-LM's --overlap-moe-expert-parallel-comm.) Both lists keep their own
 * order. Ops are taken from one list until the next must wait for an expert exchange, then from the other.
 * Dependencies between the two lists are removed: they belong to different micro-batches, and only expressed that one
 * list came after the other. The backward's last op remains the last of all, since sends of both results may follow
 * it; receives from other ranks within the pair are moved to its start.
 *
 * Under ZeRO-3 the two hardly interleave: weights are gathered in list order, each when a buffer becomes free, so the
 * backward's first gathers come after the forward's last. */
#include "lowering.h"

#include <string.h>

/* One list of a pair: its ops [next, end) are still to be taken. */
typedef struct {
  gint32 next, end;
  gboolean has_yielded; /* the other list has had its turn since this one's last kernel */
} Thread;

typedef enum { THREAD_F, THREAD_B, N_THREADS } ThreadOf;

typedef struct {
  const OpList *list;
  GArray *ops;   /* of Op: the new list; owned */
  gint32 *moved; /* [old ops] new index; owned */
  Thread threads[N_THREADS];
  gint32 first, middle, end; /* the pair: the forward's ops, from `middle` on the backward's */
} Interleaver;

static gboolean is_of(const Op *op, const Op *first) {
  return op->action == first->action && op->stage == first->stage && op->micro_batch == first->micro_batch &&
         op->step == first->step;
}

static gboolean is_kernel(const Op *op) {
  return op->kind == OP_COMPUTE;
}

/* The first compute op from `i` on that belongs to another action than `first`; n_ops if there is none. */
static gint32 end_of_action(const OpList *list, gint32 i, const Op *first) {
  while (i < list->n_ops && (!is_kernel(&list->ops[i]) || is_of(&list->ops[i], first)))
    i++;
  return i;
}

/* The first op of the action whose first compute op is `i`; it may be a collective. */
static gint32 first_of_action(const OpList *list, gint32 i) {
  const Op *kernel = &list->ops[i];
  while (i > 0 && is_of(&list->ops[i - 1], kernel))
    i--;
  return i;
}

/* One past the last compute op, or inner collective, of the action that begins at `i`. */
static gint32 last_of_action(const OpList *list, gint32 i) {
  const Op *first = &list->ops[i];
  gint32 end = end_of_action(list, i, first);
  while (!is_of(&list->ops[end - 1], first))
    end--;
  return end;
}

/* Whether a forward and the backward after it may run as one. Adjacency is not enough: the first micro-batch's
 * gradient may depend on the result of the last forward before it. Within a round it does not. */
static gboolean is_pair(const Op *first, const Op *second) {
  if (first->action != ACTION_F || second->action != ACTION_B || first->step != second->step)
    return FALSE;
  const gboolean is_own = first->stage == second->stage && first->micro_batch == second->micro_batch;
  return (first->overlapped && second->overlapped) || (first->takes_turns && !is_own);
}

/* Whether a pair begins at `i`; sets `run` up for it. */
static gboolean find_pair(Interleaver *run, gint32 i) {
  const OpList *list = run->list;
  const Op *first = &list->ops[i];
  if (!is_kernel(first) || first->action != ACTION_F)
    return FALSE;
  const gint32 middle = end_of_action(list, i, first);
  if (middle == list->n_ops || !is_pair(first, &list->ops[middle]))
    return FALSE;
  run->first = i;
  run->middle = first_of_action(list, middle);
  run->end = last_of_action(list, middle);
  run->threads[THREAD_F] = (Thread){i, run->middle, FALSE};
  run->threads[THREAD_B] = (Thread){run->middle, run->end, FALSE};
  return TRUE;
}

static gboolean is_in_pair(const Interleaver *run, gint32 index) {
  return index >= run->first && index < run->end;
}

/* Whether one op belongs to the pair's forward and the other to its backward. */
static gboolean are_apart(const Interleaver *run, gint32 a, gint32 b) {
  return is_in_pair(run, a) && is_in_pair(run, b) && (a < run->middle) != (b < run->middle);
}

/* Whether the edge from op `after` to `index` only says that one list came after the other. Edges from a gather or a
 * receive are real. */
static gboolean is_left_out(const Interleaver *run, gint32 index, gint32 after) {
  const guint8 action = run->list->ops[after].action;
  return are_apart(run, index, after) && (action == ACTION_F || action == ACTION_B);
}

static gboolean is_ready(const Interleaver *run, gint32 index) {
  const Op *op = &run->list->ops[index];
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (!is_left_out(run, index, op->after[i]) && run->moved[op->after[i]] < 0)
      return FALSE;
  return TRUE;
}

static void take(Interleaver *run, gint32 index) {
  const Op *old = &run->list->ops[index];
  Op op = *old;
  memset(op.after, 0xff, sizeof op.after);
  for (int i = 0; i < OP_MAX_AFTER && old->after[i] >= 0; i++)
    if (!is_left_out(run, index, old->after[i]))
      op_add_after(&op, run->moved[old->after[i]]);
  op.overlapped = op.overlapped || (is_kernel(&op) && is_in_pair(run, index));
  run->moved[index] = (gint32)run->ops->len;
  g_array_append_val(run->ops, op);
}

/* Whether the op is a kernel that waits for an exchange of its own list. */
static gboolean waits_for_exchange(const Interleaver *run, gint32 index) {
  const Op *op = &run->list->ops[index];
  for (int i = 0; is_kernel(op) && i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (is_in_pair(run, op->after[i]) && !are_apart(run, index, op->after[i]) &&
        run->list->ops[op->after[i]].stream == STREAM_EP)
      return TRUE;
  return FALSE;
}

/* The backward's last op must wait for the end of the forward. */
static gboolean can_go_on(const Interleaver *run, ThreadOf of) {
  const Thread *thread = &run->threads[of];
  const Thread *forward = &run->threads[THREAD_F];
  return thread->next < thread->end && is_ready(run, thread->next) &&
         (of == THREAD_F || thread->next + 1 < thread->end || forward->next == forward->end);
}

static void skip_taken(const Interleaver *run, Thread *thread) {
  while (thread->next < thread->end && run->moved[thread->next] >= 0)
    thread->next++;
}

/* Takes the pair's receives that have no dependencies. */
static void take_receives(Interleaver *run) {
  for (gint32 i = run->first; i < run->end; i++)
    if (run->list->ops[i].kind == OP_RECV && run->list->ops[i].after[0] < 0)
      take(run, i);
  for (int of = 0; of < N_THREADS; of++)
    skip_taken(run, &run->threads[of]);
}

static void interleave_pair(Interleaver *run) {
  ThreadOf of = THREAD_F;
  take_receives(run);
  while (can_go_on(run, THREAD_F) || can_go_on(run, THREAD_B)) {
    const ThreadOf other = of == THREAD_F ? THREAD_B : THREAD_F;
    Thread *thread = &run->threads[of];
    const gboolean is_to_yield =
        !can_go_on(run, of) || (!thread->has_yielded && waits_for_exchange(run, thread->next) && can_go_on(run, other));
    if (is_to_yield) {
      thread->has_yielded = TRUE;
      of = other;
      continue;
    }
    if (is_kernel(&run->list->ops[thread->next]))
      thread->has_yielded = FALSE;
    take(run, thread->next);
    skip_taken(run, thread);
  }
}

static void interleave_rank(OpList *list) {
  Interleaver run = {.list = list,
                     .first = -1,
                     .middle = -1,
                     .end = -1,
                     .ops = g_array_sized_new(FALSE, FALSE, sizeof(Op), (guint)list->n_ops),
                     .moved = g_new(gint32, list->n_ops + 1)};
  memset(run.moved, 0xff, sizeof(gint32) * (gsize)(list->n_ops + 1));
  for (gint32 i = 0; i < list->n_ops;) {
    if (find_pair(&run, i)) {
      interleave_pair(&run);
      i = run.end;
      run.first = run.middle = run.end = -1;
      continue;
    }
    take(&run, i++);
  }
  g_assert((int)run.ops->len == list->n_ops);
  g_free(list->ops);
  g_free(run.moved);
  list->ops = (Op *)(void *)g_array_free(run.ops, FALSE);
}

void program_interleave(Program *program) {
  g_assert(program->expansion == EXPANSION_ALL);
  for (int rank = 0; rank < program->n_ranks; rank++)
    interleave_rank(&program->ranks[rank]);
}
