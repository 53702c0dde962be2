/* Kahn's algorithm. An op whose predecessors have all ended is posted, which gives it its place on the tape. A posted
 * op ends at once; ops that meet end when all of them are posted. An ended op releases its successors. The queue is
 * first in, first out, so all ranks advance side by side, roughly as they do in time. */
#include "tape.h"

#include <string.h>

#include "op_batches.h"

typedef struct {
  Tape *tape;
  const Program *program;
  TapeStep *of;                 /* [ops] step of each op */
  gint32 *before;               /* [ops] previous op on the stream; −1: none */
  gsize n_all_awaited, n_slots; /* in and of Tape.awaited */
  gint32 *n_awaited;            /* [ops] predecessors that have not ended yet */
  gint32 *n_coming;             /* [meetings] members not posted yet */
  gint32 *ready;                /* [ops] in the order in which they become ready */
  gint32 n_ready, n_posted;
  guint8 *is_posted; /* [ops] */
} Builder;

static const Group *group_of(const Program *program, const Op *op) {
  return &g_array_index(program->groups, Group, g_array_index(program->transfers, Transfer, op->work).group);
}

static TapeKind kind_of(const Program *program, const Op *op) {
  static const TapeKind kinds[] = {[OP_COMPUTE] = TAPE_COMPUTE,
                                   [OP_SEND] = TAPE_SEND,
                                   [OP_RECV] = TAPE_RECEIVE,
                                   [OP_COLLECTIVE] = TAPE_COLLECTIVE,
                                   [OP_HOST] = TAPE_HOST};
  return op->kind == OP_COLLECTIVE && group_of(program, op)->spans_pp ? TAPE_MEETING : kinds[op->kind];
}

/* --- what an op waits for --- */

enum { MOST_AWAITED = OP_MAX_AFTER + 2 }; /* by one op itself */

static inline void await(Builder *builder, gsize first, gint32 op) {
  gint32 *all = builder->tape->awaited;
  for (gsize at = first; at < builder->n_all_awaited; at++)
    if (all[at] == op)
      return;
  all[builder->n_all_awaited++] = op;
}

/* What the op itself waits for: the previous op on its stream, the host, its `after`. If the host has not waited since
 * the previous op was issued, that has waited for it. */
static void await_own(Builder *builder, gsize first, gint32 op) {
  const TapeStep *step = &builder->of[op];
  const gint32 first_op = builder->tape->first[step->rank], before = builder->before[op];
  const gint32 *after = builder->program->ranks[step->rank].ops[op - first_op].after;
  if (builder->n_all_awaited + MOST_AWAITED > builder->n_slots) {
    builder->n_slots = 2 * builder->n_slots + MOST_AWAITED;
    builder->tape->awaited = g_renew(gint32, builder->tape->awaited, builder->n_slots);
  }
  if (before >= 0)
    await(builder, first, before);
  if (step->barrier > before)
    await(builder, first, step->barrier);
  for (int k = 0; k < OP_MAX_AFTER && after[k] >= 0; k++)
    await(builder, first, first_op + after[k]);
}

static void set_awaited(const Builder *builder, gsize first, gint32 op) {
  const gsize n = builder->n_all_awaited - first;
  g_assert(n < G_MAXUINT8 && first < G_MAXINT32);
  builder->of[op].first_awaited = (gint32)first;
  builder->of[op].n_awaited = (guint8)n;
}

static void await_alone(Builder *builder, gint32 op) {
  const gsize first = builder->n_all_awaited;
  await_own(builder, first, op);
  set_awaited(builder, first, op);
}

/* Ops of a batch share what they wait for; those that are not the first on their stream wait for themselves. `batch`:
 * as from op_list_batches(); `n_left`: size of the batch that begins there. */
static void await_in_batch(Builder *builder, int rank, gint32 begin, const gint32 *batch, gint32 n_left) {
  const OpList *list = &builder->program->ranks[rank];
  const gint32 first_op = builder->tape->first[rank];
  const gsize first = builder->n_all_awaited;
  gint32 together[N_STREAMS], n_together = 0;
  guint streams = 0;
  for (gint32 i = begin, n = n_left; n > 0; i++) {
    if (batch[i] != begin)
      continue;
    n--;
    if (streams >> list->ops[i].stream & 1)
      continue;
    streams |= 1u << list->ops[i].stream;
    together[n_together++] = first_op + i;
    await_own(builder, first, first_op + i);
  }
  for (gint32 k = 0; k < n_together; k++)
    set_awaited(builder, first, together[k]);
  for (gint32 i = begin, n = n_left, k = 0; n > 0; i++) {
    if (batch[i] != begin)
      continue;
    n--;
    if (k < n_together && together[k] == first_op + i)
      k++;
    else
      await_alone(builder, first_op + i);
  }
}

static void await_all(Builder *builder, int rank) {
  const OpList *list = &builder->program->ranks[rank];
  g_autofree gint32 *batch = op_list_batches(list), *n_in_batch = g_new0(gint32, list->n_ops);
  for (gint32 i = 0; batch != NULL && i < list->n_ops; i++)
    if (batch[i] >= 0)
      n_in_batch[batch[i]]++;
  for (gint32 i = 0; i < list->n_ops; i++)
    if (batch == NULL || batch[i] < 0)
      await_alone(builder, builder->tape->first[rank] + i);
    else if (batch[i] == i)
      await_in_batch(builder, rank, i, batch, n_in_batch[i]);
}

/* --- steps --- */

static void describe_list(const Builder *builder, int rank, const gint32 *match) {
  const OpList *list = &builder->program->ranks[rank];
  Tape *tape = builder->tape;
  const gint32 first = tape->first[rank];
  gint32 last[N_STREAMS], n_transfers = tape->first_transfer[rank];
  memset(last, 0xff, sizeof last);
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    TapeStep *step = &builder->of[first + i];
    *step = (TapeStep){.op = first + i,
                       .barrier = last[STREAM_HOST],
                       .work = program_host_work(op),
                       .meets = op->peer >= 0 ? tape->first[op->peer] + match[i] : -1,
                       .rank = rank,
                       .kind = kind_of(builder->program, op),
                       .stream = op->stream};
    if (tape_is_transfer(step))
      tape->transfers[n_transfers++] = first + i;
    builder->before[first + i] = last[op->stream];
    last[op->stream] = first + i;
  }
  tape->first_transfer[rank + 1] = n_transfers;
  tape->most_transfers = MAX(tape->most_transfers, n_transfers - tape->first_transfer[rank]);
}

/* The k-th collective of a group on one member is the k-th on every member. Ops of a group come rank by rank. */
static void add_meetings(Builder *builder, const GArray *ops, GArray *firsts, GArray *members) {
  guint n_each = 0;
  const gint32 *of_group = (const gint32 *)(const void *)ops->data;
  while (n_each < ops->len && builder->of[of_group[n_each]].rank == builder->of[of_group[0]].rank)
    n_each++;
  for (guint k = 0; k < n_each; k++) {
    g_array_append_val(firsts, members->len);
    for (guint i = k; i < ops->len; i += n_each) {
      builder->of[of_group[i]].meets = builder->tape->n_meetings;
      g_array_append_val(members, of_group[i]);
    }
    builder->tape->n_meetings++;
  }
}

static void number_meetings(Builder *builder) {
  Tape *tape = builder->tape;
  const guint n_groups = builder->program->groups->len;
  g_autoptr(GPtrArray) of_group = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
  for (guint g = 0; g < n_groups; g++)
    g_ptr_array_add(of_group, g_array_new(FALSE, FALSE, sizeof(gint32)));
  for (gint32 t = 0; t < tape->first_transfer[tape->n_ranks]; t++) {
    const TapeStep *step = &builder->of[tape->transfers[t]];
    if (step->kind == TAPE_MEETING)
      g_array_append_val(
          (GArray *)of_group->pdata[g_array_index(builder->program->transfers, Transfer, step->work).group], step->op);
  }
  GArray *firsts = g_array_new(FALSE, FALSE, sizeof(gint32)), *members = g_array_new(FALSE, FALSE, sizeof(gint32));
  for (guint g = 0; g < n_groups; g++)
    add_meetings(builder, of_group->pdata[g], firsts, members);
  g_array_append_val(firsts, members->len);
  tape->first_member = (gint32 *)(void *)g_array_free(firsts, FALSE);
  tape->members = (gint32 *)(void *)g_array_free(members, FALSE);
}

/* --- their order --- */

/* Counted first, then filled in. */
static void list_successors(Builder *builder) {
  Tape *tape = builder->tape;
  gint32 *first = tape->first_successor;
  for (gint32 op = 0; op < tape->n_ops; op++) {
    const TapeStep *step = &builder->of[op];
    builder->n_awaited[op] = tape->n_awaited[op] = step->n_awaited;
    for (gint32 a = 0; a < step->n_awaited; a++)
      first[tape->awaited[step->first_awaited + a] + 1]++;
  }
  for (gint32 op = 0; op < tape->n_ops; op++)
    first[op + 1] += first[op];
  tape->successors = g_new(gint32, first[tape->n_ops] + 1);
  g_autofree gint32 *next = g_memdup2(first, sizeof(gint32) * ((gsize)tape->n_ops + 1));
  for (gint32 op = 0; op < tape->n_ops; op++)
    for (gint32 a = 0; a < builder->of[op].n_awaited; a++)
      tape->successors[next[tape->awaited[builder->of[op].first_awaited + a]]++] = op;
}

static void complete(Builder *builder, gint32 op) {
  const Tape *tape = builder->tape;
  for (gint32 s = tape->first_successor[op]; s < tape->first_successor[op + 1]; s++)
    if (--builder->n_awaited[tape->successors[s]] == 0)
      builder->ready[builder->n_ready++] = tape->successors[s];
}

static void post(Builder *builder, gint32 op) {
  Tape *tape = builder->tape;
  const TapeStep *step = &builder->of[op];
  tape->place[op] = builder->n_posted;
  tape->steps[builder->n_posted++] = *step;
  builder->is_posted[op] = TRUE;
  if (step->kind == TAPE_SEND || step->kind == TAPE_RECEIVE) {
    if (!builder->is_posted[step->meets])
      return;
    complete(builder, step->meets);
    complete(builder, op);
  } else if (step->kind == TAPE_MEETING) {
    if (--builder->n_coming[step->meets] == 0)
      for (gint32 m = tape->first_member[step->meets]; m < tape->first_member[step->meets + 1]; m++)
        complete(builder, tape->members[m]);
  } else {
    complete(builder, op);
  }
}

/* Whether every op gets posted. */
static gboolean walk(Builder *builder) {
  const Tape *tape = builder->tape;
  for (int m = 0; m < tape->n_meetings; m++)
    builder->n_coming[m] = tape->first_member[m + 1] - tape->first_member[m];
  for (gint32 op = 0; op < tape->n_ops; op++)
    if (builder->n_awaited[op] == 0)
      builder->ready[builder->n_ready++] = op;
  while (builder->n_posted < builder->n_ready) {
    tape->open[builder->n_posted] = builder->n_ready;
    post(builder, builder->ready[builder->n_posted]);
  }
  return builder->n_posted == tape->n_ops;
}

static Tape *tape_empty(const Program *program) {
  Tape *tape = g_new0(Tape, 1);
  tape->n_ranks = program->n_ranks;
  tape->first = g_new0(gint32, program->n_ranks + 1);
  for (int rank = 0; rank < program->n_ranks; rank++)
    tape->first[rank + 1] = tape->first[rank] + program->ranks[rank].n_ops;
  tape->n_ops = tape->first[program->n_ranks];
  tape->steps = g_new(TapeStep, tape->n_ops);
  tape->place = g_new(gint32, tape->n_ops);
  tape->n_awaited = g_new(guint8, tape->n_ops);
  tape->open = g_new(gint32, tape->n_ops);
  tape->first_successor = g_new0(gint32, tape->n_ops + 1);
  tape->first_transfer = g_new0(gint32, program->n_ranks + 1);
  tape->transfers = g_new(gint32, tape->n_ops);
  return tape;
}

Tape *tape_new(const Program *program) {
  g_autoptr(Tape) tape = tape_empty(program);
  if (!program_number(program, &tape->match, &tape->count))
    return NULL;
  const gsize n_ops = (gsize)tape->n_ops;
  g_autofree TapeStep *of = g_new(TapeStep, n_ops);
  g_autofree gint32 *numbers = g_new(gint32, 3 * n_ops);
  g_autofree guint8 *is_posted = g_new0(guint8, n_ops);
  Builder builder = {.tape = tape,
                     .program = program,
                     .of = of,
                     .before = numbers,
                     .n_slots = 3 * n_ops,
                     .n_awaited = numbers + n_ops,
                     .ready = numbers + 2 * n_ops,
                     .is_posted = is_posted};
  for (int rank = 0; rank < program->n_ranks; rank++)
    describe_list(&builder, rank, tape->match[rank]);
  tape->awaited = g_new(gint32, builder.n_slots);
  for (int rank = 0; rank < program->n_ranks; rank++)
    await_all(&builder, rank);
  number_meetings(&builder);
  g_autofree gint32 *n_coming = builder.n_coming = g_new(gint32, tape->n_meetings + 1);
  list_successors(&builder);
  return walk(&builder) ? g_steal_pointer(&tape) : NULL;
}

const Tape *program_known_tape(const Program *program) {
  return program->pattern != NULL ? program->pattern->tape : program->tape;
}

const Tape *program_tape(Program *program) {
  Program *owner = program->pattern != NULL ? program->pattern : program;
  if (owner->tape == NULL)
    owner->tape = tape_new(owner);
  return owner->tape;
}

void tape_free(Tape *tape) {
  if (tape == NULL)
    return;
  g_free(tape->match);
  g_free(tape->count);
  g_free(tape->first);
  g_free(tape->steps);
  g_free(tape->place);
  g_free(tape->open);
  g_free(tape->awaited);
  g_free(tape->n_awaited);
  g_free(tape->first_successor);
  g_free(tape->successors);
  g_free(tape->first_member);
  g_free(tape->members);
  g_free(tape->first_transfer);
  g_free(tape->transfers);
  g_free(tape);
}
