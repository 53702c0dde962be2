/* A worklist of streams to visit. Visiting a stream advances its head as far as possible:
 *
 *     waiting   for an op of the same rank (an `after`, the host, the rest of its batch): the stream's bit is set at
 *               that op, and the stream is visited again when the op is done
 *     posted    a send, receive or collective that waits for other ranks; the last to arrive completes all of them
 *     done      the next op of the stream becomes the head
 *
 * Every op is visited a bounded number of times, so the run is linear in ops and edges. The order of visits does not
 * affect whether it reaches the end: an op that can start remains able to. */
#include "checks.h"

#include "error.h"
#include "fail_op.h"
#include "op_batches.h"

enum { MAX_RANKS_SHOWN = 16, ALL_STREAMS = (1 << N_STREAMS) - 1 };

typedef enum { STATE_WAITING, STATE_IN_BATCH, STATE_POSTED, STATE_DONE } OpState;

typedef struct {
  const Op *ops;
  int n_ops;
  guint8 *state;          /* [n_ops] OpState; owned, as the arrays below */
  guint16 *waiters;       /* [n_ops] bit set of streams whose head waits for this op */
  gint32 *next;           /* [n_ops] next op on the same stream; −1 = none */
  gint32 head[N_STREAMS]; /* −1 = stream at its end */
  guint look_at;          /* bit set of streams to visit */
  gboolean is_queued;
  gint32 *batch; /* [n_ops] from op_list_batches(); owned */
  gint32
      *n_missing; /* [n_ops] at the first op of a batch, its ops that are not there yet; owned; NULL without batches */
} RankRun;

typedef struct {
  const Program *program;
  gint32 *const *partner;
  const Rendezvous *rendezvous;
  RankRun *ranks;
  gint32 **n_arrived; /* [group][k] */
  int *queue;         /* ring of n_ranks: ranks to visit, each at most once; owned */
  int queue_first, queue_length;
} Run;

G_STATIC_ASSERT(N_STREAMS <= 16); /* waiters has one bit per stream */

static void count_batches(RankRun *rank, const OpList *list) {
  rank->batch = op_list_batches(list);
  if (rank->batch == NULL)
    return;
  rank->n_missing = g_new0(gint32, list->n_ops);
  for (gint32 i = 0; i < list->n_ops; i++)
    if (rank->batch[i] >= 0)
      rank->n_missing[rank->batch[i]]++;
}

static void rank_run_init(RankRun *rank, const OpList *list) {
  rank->ops = list->ops;
  rank->n_ops = list->n_ops;
  rank->state = g_new0(guint8, list->n_ops);
  rank->waiters = g_new0(guint16, list->n_ops);
  rank->next = g_new(gint32, list->n_ops);
  gint32 latest[N_STREAMS];
  for (int stream = 0; stream < N_STREAMS; stream++)
    rank->head[stream] = latest[stream] = -1;
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    rank->next[i] = -1;
    if (latest[op->stream] < 0)
      rank->head[op->stream] = i;
    else
      rank->next[latest[op->stream]] = i;
    latest[op->stream] = i;
  }
  count_batches(rank, list);
}

static void rank_run_clear(RankRun *rank) {
  g_free(rank->state);
  g_free(rank->waiters);
  g_free(rank->next);
  g_free(rank->batch);
  g_free(rank->n_missing);
}

static void look_again(Run *run, int r, guint streams) {
  RankRun *rank = &run->ranks[r];
  rank->look_at |= streams;
  if (rank->is_queued)
    return;
  rank->is_queued = TRUE;
  run->queue[(run->queue_first + run->queue_length++) % run->program->n_ranks] = r;
}

static void complete(Run *run, int r, gint32 i) {
  RankRun *rank = &run->ranks[r];
  int stream = rank->ops[i].stream;
  rank->state[i] = STATE_DONE;
  rank->head[stream] = rank->next[i];
  look_again(run, r, rank->waiters[i] | 1u << stream);
}

static const Rendezvous *rendezvous_of(const Run *run, const Op *op) {
  const Transfer *transfer = &g_array_index(run->program->transfers, Transfer, op->work);
  return &run->rendezvous[transfer->group];
}

static void post_transfer(Run *run, int r, gint32 i) {
  gint32 peer = run->ranks[r].ops[i].peer, partner = run->partner[r][i];
  run->ranks[r].state[i] = STATE_POSTED;
  if (run->ranks[peer].state[partner] != STATE_POSTED)
    return;
  complete(run, r, i);
  complete(run, peer, partner);
}

static void post_collective(Run *run, int r, gint32 i) {
  const Rendezvous *rendezvous = rendezvous_of(run, &run->ranks[r].ops[i]);
  if (rendezvous->n_members == 0) { /* all members are copies of this list: in step by construction */
    complete(run, r, i);
    return;
  }
  gint32 k = run->partner[r][i];
  run->ranks[r].state[i] = STATE_POSTED;
  if (++run->n_arrived[rendezvous - run->rendezvous][k] < rendezvous->n_members)
    return;
  for (int member = 0; member < rendezvous->n_members; member++) {
    OpPlace *place = &g_array_index(rendezvous->ops, OpPlace, member * rendezvous->n_each + k);
    complete(run, place->rank, place->op);
  }
}

static void post(Run *run, int r, gint32 i) {
  const Op *op = &run->ranks[r].ops[i];
  if (op->kind == OP_SEND || op->kind == OP_RECV)
    post_transfer(run, r, i);
  else if (op->kind == OP_COLLECTIVE)
    post_collective(run, r, i);
  else
    complete(run, r, i);
}

/* An unfinished op of the same rank that op i must wait for; −1 = none. */
static gint32 blocker_of(const RankRun *rank, gint32 i) {
  const Op *op = &rank->ops[i];
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (rank->state[op->after[k]] != STATE_DONE)
      return op->after[k];
  gint32 host = rank->head[STREAM_HOST]; /* nothing later in the list is issued before it is done */
  return host >= 0 && host < i ? host : -1;
}

/* TRUE if op i's batch lets it start. The last member to arrive releases the others. */
static gboolean batch_is_there(Run *run, int r, gint32 i) {
  RankRun *rank = &run->ranks[r];
  if (rank->ops[i].batch < 0)
    return TRUE;
  gint32 *n_missing = &rank->n_missing[rank->batch[i]];
  if (rank->state[i] == STATE_WAITING) {
    rank->state[i] = STATE_IN_BATCH;
    if (--*n_missing == 0)
      look_again(run, r, ALL_STREAMS);
  }
  return *n_missing == 0;
}

static void look(Run *run, int r, int stream) {
  RankRun *rank = &run->ranks[r];
  gint32 i = rank->head[stream];
  if (i < 0 || rank->state[i] == STATE_POSTED)
    return;
  gint32 blocker = blocker_of(rank, i);
  if (blocker >= 0)
    rank->waiters[blocker] |= (guint16)(1u << stream);
  else if (batch_is_there(run, r, i))
    post(run, r, i);
}

static void name_op(const Run *run, int r, gint32 i, GString *out) {
  op_append_name(run->program, &run->ranks[r].ops[i], out);
}

/* "0SEND_F0 of rank 0, which is behind 0SEND_F1" */
static void explain_remote(const Run *run, int r, gint32 i, GString *out) {
  const RankRun *rank = &run->ranks[r];
  gint32 head = rank->head[rank->ops[i].stream];
  name_op(run, r, i, out);
  g_string_append_printf(out, " of rank %d", r);
  if (head == i)
    g_string_append(out, ", which waits itself");
  else {
    g_string_append(out, ", which is behind ");
    name_op(run, r, head, out);
  }
}

static void explain_collective(const Run *run, gint32 k, const Rendezvous *rendezvous, GString *out) {
  for (int member = 0; member < rendezvous->n_members; member++) {
    const OpPlace *place = &g_array_index(rendezvous->ops, OpPlace, member * rendezvous->n_each + k);
    if (run->ranks[place->rank].state[place->op] != STATE_POSTED) {
      explain_remote(run, place->rank, place->op, out);
      return;
    }
  }
}

/* Explains what the head of a stuck stream waits for. */
static void explain_head(const Run *run, int r, gint32 i, GString *out) {
  const RankRun *rank = &run->ranks[r];
  const Op *op = &rank->ops[i];
  gint32 blocker = blocker_of(rank, i);
  if (blocker >= 0) {
    name_op(run, r, blocker, out);
    g_string_append_printf(out, " on its %s stream", stream_info(rank->ops[blocker].stream)->name);
  } else if (rank->state[i] == STATE_IN_BATCH)
    g_string_append_printf(out, "the rest of batch %d", op->batch);
  else if (op->kind == OP_COLLECTIVE)
    explain_collective(run, run->partner[r][i], rendezvous_of(run, op), out);
  else
    explain_remote(run, op->peer, run->partner[r][i], out);
}

static void explain_rank(const Run *run, int r, GString *out) {
  for (int stream = 0; stream < N_STREAMS; stream++) {
    gint32 head = run->ranks[r].head[stream];
    if (head < 0)
      continue;
    g_string_append_printf(out, "\n  rank %d %s: ", r, stream_info(stream)->name);
    name_op(run, r, head, out);
    g_string_append(out, " waits for ");
    explain_head(run, r, head, out);
  }
}

static gboolean is_stuck(const RankRun *rank) {
  for (int stream = 0; stream < N_STREAMS; stream++)
    if (rank->head[stream] >= 0)
      return TRUE;
  return FALSE;
}

static gboolean check_end(const Run *run, GError **error) {
  int n_stuck = 0;
  g_autoptr(GString) story = g_string_new(NULL);
  for (int r = 0; r < run->program->n_ranks; r++) {
    if (!is_stuck(&run->ranks[r]))
      continue;
    if (n_stuck++ < MAX_RANKS_SHOWN)
      explain_rank(run, r, story);
  }
  if (n_stuck == 0)
    return TRUE;
  if (n_stuck > MAX_RANKS_SHOWN)
    g_string_append_printf(story, "\n  and %d more ranks", n_stuck - MAX_RANKS_SHOWN);
  return fail_impossible(error, "the program gets stuck:%s", story->str);
}

static void run_init(Run *run) {
  const Program *program = run->program;
  run->queue = g_new(int, program->n_ranks);
  run->n_arrived = g_new0(gint32 *, program->groups->len);
  for (guint group = 0; group < program->groups->len; group++)
    run->n_arrived[group] = g_new0(gint32, run->rendezvous[group].n_each);
  run->ranks = g_new0(RankRun, program->n_ranks);
  for (int r = 0; r < program->n_ranks; r++) {
    rank_run_init(&run->ranks[r], &program->ranks[r]);
    look_again(run, r, ALL_STREAMS);
  }
}

static void run_clear(Run *run) {
  for (int r = 0; r < run->program->n_ranks; r++)
    rank_run_clear(&run->ranks[r]);
  for (guint group = 0; group < run->program->groups->len; group++)
    g_free(run->n_arrived[group]);
  g_free(run->n_arrived);
  g_free(run->ranks);
  g_free(run->queue);
}

static void look_at_rank(Run *run, int r) {
  RankRun *rank = &run->ranks[r];
  while (rank->look_at != 0) {
    int stream = g_bit_nth_lsf(rank->look_at, -1);
    rank->look_at &= rank->look_at - 1;
    look(run, r, stream);
  }
  rank->is_queued = FALSE;
}

gboolean untimed_run(const Program *program, gint32 *const *partner, const Rendezvous *rendezvous, GError **error) {
  Run run = {.program = program, .partner = partner, .rendezvous = rendezvous};
  run_init(&run);
  while (run.queue_length > 0) {
    int r = run.queue[run.queue_first];
    look_at_rank(&run, r); /* r stays at the head of the ring meanwhile: a rank is queued only once */
    run.queue_first = (run.queue_first + 1) % program->n_ranks;
    run.queue_length--;
  }
  gboolean reached_end = check_end(&run, error);
  run_clear(&run);
  return reached_end;
}
