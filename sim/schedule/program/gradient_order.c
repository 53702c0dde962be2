/* Each rank's list is walked once. What is added to and what is summed are places: embedding, head and each layer of a
 * stage, the stage as a whole, and two of the rank, the table that embedding and head both add to and what a first and
 * a last rank hold of one matrix. Of every place and step the latest op that added to it is known, and the latest
 * that summed it: of all micro-batches together and, where the rank sums some apart, of each:
 *
 *     a sum is right      where the latest that added of its micro-batch, or of all, has ended when it starts
 *     an addition is      where no sum of the same micro-batch, or of all, is in front of it in its step
 *
 * Additions are on the compute stream. So what is sure to have ended is one number for each op, the latest of these,
 *
 *     ended(op) = max over d of (d, where it is on the compute stream, else ended(d)),
 *                 d in { op before it on its stream, its `after`, last host op }
 *
 * What an op waits for at first hand is seen without it: it is worked out where that does not answer. */
#include "gradient_order.h"

#include "error.h"
#include "untimed_run.h"
#include <string.h>

/* Experts and all else of a place are summed apart. */
typedef enum { SUM_OF_OTHERS, SUM_OF_EXPERTS, N_SUMS } SumKind;

typedef struct {
  gint32 added;          /* −1: not yet */
  gint32 summed[N_SUMS]; /* likewise */
} Tally;

enum { STAGE_WHOLE, STAGE_EMBEDDING, STAGE_HEAD, STAGE_FIRST_LAYER };
enum { RANK_TABLE, RANK_TIED, N_RANK_PLACES };

/* Layers of a rank, and these times its steps and micro-batches; where a text tells of more, they are not looked at.
 * */
enum { MOST_LAYERS = 1 << 12, MOST_TALLIES = 1 << 24 };

typedef struct {
  gboolean has_embedding, has_head;
  gint64 first_layer, end_layer;
} Pieces;

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  gint32 *ended; /* [ops of the longest list] of the rank's first n_ended */
  gint32 n_ended;
  gint32 latest[N_STREAMS]; /* before these on each stream; −1 none */
  gint32 *n_layers;         /* [stages] of those that are summed on the rank; −1 where nothing of the stage is */
  gint32 *first;            /* [stages] its first place, where something is */
  gint32 n_places;
  gint32 n_apart;  /* micro-batches with tallies of their own: all, or 0 where the rank sums none apart */
  GArray *tallies; /* Tally[steps][all micro-batches, then each of n_apart][n_places] */
  gboolean table_is_shared;
} Walk;

static gboolean adds(const Op *op) {
  return op->kind == OP_COMPUTE && op->stream == STREAM_COMPUTE && (op->action == ACTION_B || op->action == ACTION_W);
}

static gboolean sums(const Op *op) {
  return op->kind == OP_COLLECTIVE && op->stream == STREAM_DP &&
         (op->action == ACTION_TIED_GRAD ||
          ((op->action == ACTION_REDUCE_GRAD || op->action == ACTION_COPY_GRAD) && op->stage >= 0));
}

static const Transfer *transfer_of(const Walk *walk, const Op *op) {
  return &g_array_index(walk->program->transfers, Transfer, op->work);
}

static Pieces pieces_of_sum(const Walk *walk, const Op *op) {
  const Transfer *transfer = transfer_of(walk, op);
  return (Pieces){transfer->n_embedding > 0, transfer->n_head > 0, op->unit, (gint64)op->unit + transfer->n_layers};
}

static Pieces pieces_of_work(const Walk *walk, const Op *op) {
  const Work *work = &g_array_index(walk->program->works, Work, op->work);
  const gboolean is_layer = work->piece == PIECE_LAYER || work->piece == PIECE_DENSE_LAYER;
  return (Pieces){work->n_embedding > 0 || work->piece == PIECE_EMBEDDING,
                  work->n_head > 0 || work->piece == PIECE_HEAD, op->unit,
                  (gint64)op->unit + (work->piece < 0 ? work->n_layers
                                      : is_layer      ? 1
                                                      : 0)};
}

static gint32 ended_at(const Walk *walk, gint32 op) {
  return op < 0 || walk->list->ops[op].stream == STREAM_COMPUTE ? op : walk->ended[op];
}

static void set_ended(Walk *walk, gint32 i) {
  const Op *op = &walk->list->ops[i];
  gint32 ended = MAX(ended_at(walk, walk->latest[op->stream]), ended_at(walk, walk->latest[STREAM_HOST]));
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    ended = MAX(ended, ended_at(walk, op->after[k]));
  walk->ended[i] = ended;
  walk->latest[op->stream] = i;
}

/* Whether `added` is sure to have ended when op i starts. */
static gboolean has_ended(Walk *walk, gint32 i, gint32 added) {
  const Op *ops = walk->list->ops;
  for (int k = 0; k < OP_MAX_AFTER && ops[i].after[k] >= 0; k++)
    if (ops[i].after[k] >= added && ops[ops[i].after[k]].stream == STREAM_COMPUTE)
      return TRUE;
  for (; walk->n_ended <= i; walk->n_ended++)
    set_ended(walk, walk->n_ended);
  return walk->ended[i] >= added;
}

/* Of a step and one of n_apart micro-batches, or −1: of all. */
static Tally *tally_of(const Walk *walk, gint32 step, gint32 micro_batch, gint32 index) {
  const gsize row = (gsize)step * (gsize)(walk->n_apart + 1) + (gsize)(micro_batch + 1);
  return &g_array_index(walk->tallies, Tally, row * (gsize)walk->n_places + (gsize)index);
}

/* In words, for messages. Owned by the caller. */
static char *name_of(const Walk *walk, int stage, gint32 index) {
  if (index < N_RANK_PLACES)
    return g_strdup(index == RANK_TABLE ? "the table that embedding and head add to" : "the tied embedding");
  const gint32 part = index - walk->first[stage];
  if (part >= STAGE_FIRST_LAYER)
    return g_strdup_printf("layer %d of stage %d", part - STAGE_FIRST_LAYER, stage);
  static const char *const parts[] = {
      [STAGE_WHOLE] = "stage", [STAGE_EMBEDDING] = "the embedding of stage", [STAGE_HEAD] = "the head of stage"};
  return g_strdup_printf("%s %d", parts[part], stage);
}

static gboolean fail_sum(const Walk *walk, gint32 sum, gint32 added, gint32 index, GError **error) {
  const Op *ops = walk->list->ops;
  g_autoptr(GString) of_sum = g_string_new(NULL), of_added = g_string_new(NULL);
  untimed_run_name_op(walk->program, &ops[sum], of_sum);
  untimed_run_name_op(walk->program, &ops[added], of_added);
  g_autofree char *name = name_of(walk, ops[added].stage, index);
  return fail_impossible(error,
                         "rank %d, op %d: %s sums the gradient of %s and does not wait for %s (op %d), which adds "
                         "to it",
                         walk->rank, sum, of_sum->str, name, of_added->str, added);
}

static gboolean add_to(const Walk *walk, gint32 i, gint32 index, GError **error) {
  const Op *op = &walk->list->ops[i];
  Tally *all = tally_of(walk, op->step, -1, index);
  Tally *own = walk->n_apart > 0 ? tally_of(walk, op->step, op->micro_batch, index) : all;
  for (int kind = 0; kind < N_SUMS; kind++) {
    const gint32 sum = MAX(all->summed[kind], own->summed[kind]);
    if (sum >= 0)
      return fail_sum(walk, sum, i, index, error);
  }
  all->added = own->added = i;
  return TRUE;
}

static gboolean sum_up(Walk *walk, gint32 i, gint32 index, SumKind kind, GError **error) {
  const Op *op = &walk->list->ops[i];
  Tally *tally = tally_of(walk, op->step, op->micro_batch, index);
  if (tally->added >= 0 && !has_ended(walk, i, tally->added))
    return fail_sum(walk, i, tally->added, index, error);
  tally->summed[kind] = i;
  return TRUE;
}

static gint32 end_of_layers(const Walk *walk, int stage, const Pieces *pieces) {
  return (gint32)MIN(pieces->end_layer, walk->n_layers[stage]);
}

/* Of a stage that is not summed nothing is known. */
static gboolean add_to_stage(const Walk *walk, gint32 i, const Pieces *pieces, GError **error) {
  const int stage = walk->list->ops[i].stage;
  if (walk->n_layers[stage] < 0)
    return TRUE;
  const gint32 first = walk->first[stage], end = end_of_layers(walk, stage, pieces);
  if (!add_to(walk, i, first + STAGE_WHOLE, error) ||
      (pieces->has_embedding && !add_to(walk, i, first + STAGE_EMBEDDING, error)) ||
      (pieces->has_head && !add_to(walk, i, first + STAGE_HEAD, error)))
    return FALSE;
  for (gint32 layer = (gint32)MIN(pieces->first_layer, end); layer < end; layer++)
    if (!add_to(walk, i, first + STAGE_FIRST_LAYER + layer, error))
      return FALSE;
  return TRUE;
}

static gboolean check_addition(const Walk *walk, gint32 i, GError **error) {
  const Pieces pieces = pieces_of_work(walk, &walk->list->ops[i]);
  if (!add_to_stage(walk, i, &pieces, error))
    return FALSE;
  return (!pieces.has_embedding && !pieces.has_head) ||
         (add_to(walk, i, RANK_TABLE, error) && add_to(walk, i, RANK_TIED, error));
}

/* A table that two add to is in the sum of one of them. */
static gboolean moves_table(const Walk *walk, const Transfer *transfer) {
  if (transfer->of_experts)
    return FALSE;
  return walk->table_is_shared ? transfer->n_tables > 0
                               : walk->program->heads_add_to_table && transfer->n_embedding > 0;
}

static gboolean check_reduction(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  const Transfer *transfer = transfer_of(walk, op);
  const Pieces pieces = pieces_of_sum(walk, op);
  const SumKind kind = transfer->of_experts ? SUM_OF_EXPERTS : SUM_OF_OTHERS;
  const gint32 first = walk->first[op->stage], end = end_of_layers(walk, op->stage, &pieces);
  if ((pieces.has_embedding && !sum_up(walk, i, first + STAGE_EMBEDDING, kind, error)) ||
      (pieces.has_head && !sum_up(walk, i, first + STAGE_HEAD, kind, error)) ||
      (moves_table(walk, transfer) && !sum_up(walk, i, RANK_TABLE, kind, error)))
    return FALSE;
  for (gint32 layer = (gint32)MIN(pieces.first_layer, end); layer < end; layer++)
    if (!sum_up(walk, i, first + STAGE_FIRST_LAYER + layer, kind, error))
      return FALSE;
  return TRUE;
}

static gboolean check_op(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  if (adds(op))
    return check_addition(walk, i, error);
  if (!sums(op))
    return TRUE;
  if (op->action == ACTION_REDUCE_GRAD)
    return check_reduction(walk, i, error);
  return sum_up(walk, i, op->action == ACTION_TIED_GRAD ? RANK_TIED : walk->first[op->stage] + STAGE_WHOLE,
                SUM_OF_OTHERS, error);
}

/* Returns whether the rank sums anything. */
static gboolean find_sums(Walk *walk) {
  gboolean has_any = FALSE;
  walk->table_is_shared = FALSE;
  walk->n_apart = 0;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    walk->n_layers[stage] = -1;
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (!sums(op))
      continue;
    has_any = TRUE;
    if (op->micro_batch >= 0)
      walk->n_apart = walk->program->n_micro_batches;
    if (op->action == ACTION_TIED_GRAD)
      continue;
    walk->n_layers[op->stage] = MAX(walk->n_layers[op->stage], 0);
    if (op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = transfer_of(walk, op);
    const Pieces pieces = pieces_of_sum(walk, op);
    walk->n_layers[op->stage] = (gint32)MAX(walk->n_layers[op->stage], MIN(pieces.end_layer, MOST_LAYERS + 1));
    walk->table_is_shared |= !transfer->of_experts && transfer->n_tables < transfer->n_embedding + transfer->n_head;
  }
  return has_any;
}

static void lay_out(Walk *walk) {
  const gsize n_rows = (gsize)walk->program->n_steps * (gsize)(walk->n_apart + 1);
  gint64 n_layers = 0;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    n_layers += MAX(walk->n_layers[stage], 0);
  const gboolean has_too_many = n_layers > MOST_LAYERS || (gsize)n_layers * n_rows > MOST_TALLIES;
  walk->n_places = N_RANK_PLACES;
  for (int stage = 0; stage < walk->program->n_stages; stage++) {
    if (walk->n_layers[stage] < 0)
      continue;
    if (has_too_many)
      walk->n_layers[stage] = 0;
    walk->first[stage] = walk->n_places;
    walk->n_places += STAGE_FIRST_LAYER + walk->n_layers[stage];
  }
  const gsize n_tallies = n_rows * (gsize)walk->n_places;
  g_array_set_size(walk->tallies, (guint)n_tallies);
  memset(walk->tallies->data, -1, n_tallies * sizeof(Tally)); /* nothing added, nothing summed */
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  walk->rank = rank;
  walk->list = &walk->program->ranks[rank];
  if (!find_sums(walk))
    return TRUE;
  lay_out(walk);
  walk->n_ended = 0;
  for (int stream = 0; stream < N_STREAMS; stream++)
    walk->latest[stream] = -1;
  for (gint32 i = 0; i < walk->list->n_ops; i++)
    if (!check_op(walk, i, error))
      return FALSE;
  return TRUE;
}

gboolean gradient_order_check(const Program *program, GError **error) {
  int longest = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    longest = MAX(longest, program->ranks[rank].n_ops);
  g_autofree gint32 *ended = g_new(gint32, longest);
  g_autofree gint32 *n_layers = g_new(gint32, program->n_stages), *first = g_new(gint32, program->n_stages);
  g_autoptr(GArray) tallies = g_array_new(FALSE, FALSE, sizeof(Tally));
  Walk walk = {.program = program, .ended = ended, .n_layers = n_layers, .first = first, .tallies = tallies};
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!walk_rank(&walk, rank, error))
      return FALSE;
  return TRUE;
}
