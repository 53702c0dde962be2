/* Compute ops run in list order. So the compute ops known to have ended before an op starts are all those up to one,
 * `ended`, and those known to start after it has ended are all from one on, `next`. Both propagate from op to op by
 * the rules of the Program: an op starts after the previous one on its stream, after the ops it waits for, and after
 * the last host op before it; ops of a batch start together. An op of a batch may come after ops that wait for the
 * batch's first ones, so the passes over a list are repeated until nothing changes; most lists need only one. */
#include "ops_beside.h"
#include "op_batches.h"

#include <string.h>

typedef struct {
  const OpList *list;
  const gint32 *batches; /* from op_list_batches() */
  gint32 *ended; /* [ops] last compute op known to have ended when the op starts; −1 none; a batch's is at its first */
  gint32 *next;  /* [ops] first compute op known not to start before it has ended; n_ops: none */
} OpOrder;

/* First op of op `i`'s batch; `i` itself if it has none. */
static gint32 together_with(const OpOrder *order, gint32 i) {
  return order->batches != NULL && order->batches[i] >= 0 ? order->batches[i] : i;
}

/* Last compute op known to have ended once op `i` has. */
static gint32 ended_with(const OpOrder *order, gint32 i) {
  return order->list->ops[i].kind == OP_COMPUTE ? i : order->ended[together_with(order, i)];
}

/* Takes in everything that op `i` waits for. TRUE: more is known now. */
static gboolean raise_ended(const OpOrder *order, gint32 i, gint32 before, gint32 host) {
  const Op *op = &order->list->ops[i];
  gint32 ended = -1;
  if (before >= 0)
    ended = MAX(ended, ended_with(order, before));
  if (host >= 0)
    ended = MAX(ended, ended_with(order, host));
  for (int a = 0; a < OP_MAX_AFTER && op->after[a] >= 0; a++)
    ended = MAX(ended, ended_with(order, op->after[a]));
  gint32 *known = &order->ended[together_with(order, i)];
  const gboolean is_more = ended > *known;
  *known = MAX(*known, ended);
  return is_more;
}

static gboolean look_back(const OpOrder *order) {
  gint32 last[N_STREAMS];
  memset(last, -1, sizeof last);
  gboolean is_more = FALSE;
  for (gint32 i = 0; i < order->list->n_ops; i++) {
    const int stream = order->list->ops[i].stream;
    is_more |= raise_ended(order, i, last[stream], last[STREAM_HOST]);
    last[stream] = i;
  }
  return is_more && order->batches != NULL;
}

/* First compute op known not to start before op `i` starts. */
static gint32 next_with(const OpOrder *order, gint32 i) {
  return order->list->ops[i].kind == OP_COMPUTE ? i : order->next[i];
}

static gboolean lower_next(const OpOrder *order, gint32 i, gint32 next) {
  if (i < 0 || next >= order->next[i])
    return FALSE;
  order->next[i] = next;
  return TRUE;
}

/* `together`: [ops] next_with() of a batch, stored at its first op. */
static gboolean look_ahead(const OpOrder *order, gint32 *together) {
  const OpList *list = order->list;
  gint32 later[N_STREAMS], next_compute = list->n_ops;
  memset(later, -1, sizeof later);
  gboolean is_more = FALSE;
  for (gint32 i = list->n_ops - 1; i >= 0; i--) {
    const Op *op = &list->ops[i];
    if (op->kind == OP_HOST)
      lower_next(order, i, next_compute);
    if (later[op->stream] >= 0)
      lower_next(order, i, next_with(order, later[op->stream]));
    gint32 *of_batch = &together[together_with(order, i)];
    *of_batch = MIN(*of_batch, next_with(order, i));
    for (int a = 0; a < OP_MAX_AFTER && op->after[a] >= 0; a++)
      is_more |= lower_next(order, op->after[a], *of_batch);
    later[op->stream] = i;
    if (op->kind == OP_COMPUTE)
      next_compute = i;
  }
  return is_more && order->batches != NULL;
}

/* Fills `ended` and `next`. `room`: [ops] */
static void find_order(const OpOrder *order, gint32 *room) {
  const gint32 n_ops = order->list->n_ops;
  for (gint32 i = 0; i < n_ops; i++) {
    order->ended[i] = -1;
    order->next[i] = room[i] = n_ops;
  }
  while (look_back(order))
    ;
  while (look_ahead(order, room))
    ;
}

static gboolean is_marked(const Op *op, const gboolean *marked) {
  return (op->kind == OP_SEND || op->kind == OP_RECV || op->kind == OP_COLLECTIVE) && marked[op->work];
}

/* Difference array over [0, n_ops] of the number of marked transfers that an op may overlap with. */
static void count_beside(const Program *program, const OpOrder *order, const gboolean *marked, gint64 eager_bytes,
                         gint32 *change) {
  for (gint32 i = 0; i < order->list->n_ops; i++) {
    const Op *op = &order->list->ops[i];
    if (!is_marked(op, marked))
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    const gboolean may_be_early = op->kind == OP_RECV && transfer->bytes <= (double)eager_bytes;
    change[may_be_early ? 0 : order->ended[together_with(order, i)] + 1]++;
    change[order->next[i]]--;
  }
}

/* Whole pieces only; a run of kernels counts 0. */
static int count_pieces(const Program *program, const Op *op) {
  const Work *work = &g_array_index(program->works, Work, op->work);
  return work->n_embedding + work->n_layers + work->n_head;
}

/* Returns the number of pieces in the ops found. */
static double find_in_list(const Program *program, const OpList *list, const gboolean *marked, gint64 eager_bytes,
                           gboolean *is_beside) {
  const gsize n_ops = (gsize)list->n_ops;
  g_autofree gint32 *batches = op_list_batches(list), *room = g_new(gint32, 3 * n_ops + 1);
  const OpOrder order = {list, batches, room, room + n_ops};
  gint32 *change = room + 2 * n_ops;
  find_order(&order, change);
  memset(change, 0, sizeof *change * (n_ops + 1));
  count_beside(program, &order, marked, eager_bytes, change);
  double n_pieces = 0;
  gint32 n = 0;
  for (gint32 i = 0; i < list->n_ops; i++) {
    n += change[i];
    is_beside[i] = n > 0 && list->ops[i].kind == OP_COMPUTE;
    if (is_beside[i])
      n_pieces += count_pieces(program, &list->ops[i]);
  }
  return n_pieces;
}

OpsBeside *ops_beside_new(const Program *program, const gboolean *marked, gint64 eager_bytes) {
  OpsBeside *beside = g_new(OpsBeside, 1);
  *beside = (OpsBeside){.is_beside = g_new(gboolean *, program->n_ranks), .n_ranks = program->n_ranks};
  for (int rank = 0; rank < program->n_ranks; rank++) {
    const OpList *list = &program->ranks[rank];
    beside->is_beside[rank] = g_new(gboolean, list->n_ops + 1);
    beside->n_pieces += find_in_list(program, list, marked, eager_bytes, beside->is_beside[rank]);
  }
  return beside;
}

void ops_beside_free(OpsBeside *beside) {
  if (beside == NULL)
    return;
  for (int rank = 0; rank < beside->n_ranks; rank++)
    g_free(beside->is_beside[rank]);
  g_free(beside->is_beside);
  g_free(beside);
}
