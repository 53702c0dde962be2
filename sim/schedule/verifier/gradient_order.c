/* One pass over each rank's list. Additions and reductions ("sums") refer to places: embedding, head and each layer
 * of a stage, the stage as a whole, and three places of the rank: the table that embedding and head both add to, the
 * matrix shared by the first and the last rank, and the parameters replicated over tp. For every place and step, the
 * pass keeps the latest op that added to it and the latest that summed it: over all micro-batches, and if the rank
 * sums some separately, for each micro-batch too:
 *
 *     a sum is valid        if the latest addition for its micro-batch, or for all, has ended when it starts
 *     an addition is valid  if no sum of its micro-batch, or of all, comes before it in its step
 *
 * Parameters replicated over tp are also in the buckets that dp sums, and in the sums of a stage's copies: their sum
 * over tp must start after the earlier ones have ended.
 *
 * A copy of a gradient out to the host does not say which part it copies. It belongs to the latest addition or sum
 * before it with its step, stage, micro-batch and unit, and is valid if that has ended when it starts. If a place is
 * copied, each of its sums must be followed by such a copy (for shards that are then summed over replicas, only the
 * last sum): otherwise it was copied before it was summed.
 *
 * Additions are on the compute stream, sums on dp or tp. So one number per op and stream tells what is sure to have
 * ended (ended.h). Direct dependencies are checked first; ended.h is used only if they do not suffice.
 *
 * Most lists sum after nearly all additions. So until a rank's first sum, if it sums no micro-batch separately, the
 * tallies of additions are deferred, and of consecutive additions of a stage to the same places only the last is
 * tallied. Deferred additions of several stages are tallied stage by stage, hence out of order; for a place shared
 * between stages the latest op wins. */
#include "gradient_order.h"

#include "ended.h"
#include "error.h"
#include "untimed_run.h"
#include <string.h>

/* In each place, experts and the rest are summed separately. */
typedef enum { SUM_OF_OTHERS, SUM_OF_EXPERTS, N_SUMS } SumKind;

typedef struct {
  gint32 added;          /* −1: not yet */
  gint32 summed[N_SUMS]; /* likewise */
} Tally;

enum { STAGE_WHOLE, STAGE_EMBEDDING, STAGE_HEAD, STAGE_FIRST_LAYER };
enum { RANK_TABLE, RANK_TIED, RANK_WHOLE, N_RANK_PLACES };

/* Streams of additions and of sums. */
static const Stream watched[N_WATCHED] = {STREAM_COMPUTE, STREAM_DP, STREAM_TP};

/* Limits: layers of a rank, and layers × steps × micro-batches. Beyond them, layers are not checked singly. */
enum { MOST_LAYERS = 1 << 12, MOST_TALLIES = 1 << 24 };

typedef struct {
  gboolean has_embedding, has_head;
  gint64 first_layer, end_layer;
} Pieces;

typedef struct {
  const Program *program;
  int rank;
  const OpList *list;
  EndedList ended;  /* of the current rank */
  gint32 *n_layers; /* [stages] number of layers summed on the rank; −1: nothing of the stage is summed */
  gint32 *first;    /* [stages] first place of the stage, if any of it is summed */
  gint32 n_places;
  gint32 n_apart;      /* micro-batches with tallies of their own: all, or 0 if the rank sums none separately */
  GArray *tallies;     /* Tally[steps][all micro-batches, then each of n_apart][n_places] */
  GHashTable *sources; /* Op → index + 1: latest op that copies out can refer to, per place; empty if the rank copies
                          nothing out */
  GHashTable *copies;  /* Op → index + 1: latest copy out, per place */
  gint32 *put_off;     /* [stages] latest addition not tallied yet; −1: none */
  gboolean has_summed;
  gint32 *reduced; /* [steps] latest sum over dp or copies, experts' excepted; −1: none yet */
  gboolean table_is_shared, has_copies;
} Walk;

static gboolean adds(const Op *op) {
  return op->kind == OP_COMPUTE && op->stream == STREAM_COMPUTE && (op->action == ACTION_B || op->action == ACTION_W);
}

/* Sums of places that belong to the rank, not to a stage. */
static gboolean is_of_rank(const Op *sum) {
  return sum->action == ACTION_TIED_GRAD || sum->action == ACTION_WHOLE_GRAD;
}

static gboolean sums(const Op *op) {
  const gboolean is_of_stage = op->action == ACTION_REDUCE_GRAD || op->action == ACTION_COPY_GRAD;
  return op->kind == OP_COLLECTIVE && (op->stream == STREAM_DP || op->stream == STREAM_TP) &&
         (is_of_rank(op) || (is_of_stage && op->stage >= 0));
}

static gboolean copies_out(const Op *op) {
  return op->action == ACTION_GRAD_OUT;
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

/* Whether `source`, an addition or a sum, is sure to have ended when op i starts. */
static gboolean has_ended(Walk *walk, gint32 i, gint32 source) {
  return ended_list_has(&walk->ended, i, source);
}

/* For a step and one of n_apart micro-batches, or −1: for all of them. */
static Tally *tally_of(const Walk *walk, gint32 step, gint32 micro_batch, gint32 index) {
  const gsize row = (gsize)step * (gsize)(walk->n_apart + 1) + (gsize)(micro_batch + 1);
  return &g_array_index(walk->tallies, Tally, row * (gsize)walk->n_places + (gsize)index);
}

/* The name of a place, for messages. Owned by the caller. */
static char *name_of(const Walk *walk, int stage, gint32 index) {
  static const char *const of_rank[] = {[RANK_TABLE] = "the table that embedding and head add to",
                                        [RANK_TIED] = "the tied embedding",
                                        [RANK_WHOLE] = "what each rank of tp holds whole"};
  if (index < N_RANK_PLACES)
    return g_strdup(of_rank[index]);
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
  all->added = MAX(all->added, i);
  own->added = MAX(own->added, i);
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

/* Stages that are never summed are not tracked. */
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
  if (!add_to_stage(walk, i, &pieces, error) || !add_to(walk, i, RANK_WHOLE, error))
    return FALSE;
  return (!pieces.has_embedding && !pieces.has_head) ||
         (add_to(walk, i, RANK_TABLE, error) && add_to(walk, i, RANK_TIED, error));
}

/* A table that two add to is part of the sum of one of them; for a single micro-batch, of the one that is on the
 * rank. */
static gboolean moves_table(const Walk *walk, const Transfer *transfer) {
  return (walk->table_is_shared || walk->program->heads_add_to_table) &&
         transfer_moves_table(transfer, walk->table_is_shared);
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

static gboolean check_whole(Walk *walk, gint32 i, GError **error) {
  const Op *ops = walk->list->ops;
  const gint32 reduced = walk->reduced[ops[i].step];
  if (reduced < 0 || has_ended(walk, i, reduced))
    return TRUE;
  g_autoptr(GString) of_sum = g_string_new(NULL), of_reduction = g_string_new(NULL);
  untimed_run_name_op(walk->program, &ops[i], of_sum);
  untimed_run_name_op(walk->program, &ops[reduced], of_reduction);
  return fail_impossible(error,
                         "rank %d, op %d: %s sums what each rank of tp holds whole and does not wait for %s (op %d), "
                         "which sums it too",
                         walk->rank, i, of_sum->str, of_reduction->str, reduced);
}

static gboolean check_sum(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  const gboolean reduces = op->action == ACTION_REDUCE_GRAD;
  if (op->action == ACTION_COPY_GRAD || (reduces && !transfer_of(walk, op)->of_experts))
    walk->reduced[op->step] = i;
  if (reduces)
    return check_reduction(walk, i, error);
  if (op->action == ACTION_WHOLE_GRAD && !check_whole(walk, i, error))
    return FALSE;
  const gint32 index = op->action == ACTION_TIED_GRAD    ? RANK_TIED
                       : op->action == ACTION_WHOLE_GRAD ? RANK_WHOLE
                                                         : walk->first[op->stage] + STAGE_WHOLE;
  return sum_up(walk, i, index, SUM_OF_OTHERS, error);
}

static guint source_hash(gconstpointer source) {
  const Op *op = source;
  return (((guint)op->step * 31 + (guint)op->stage) * 1009 + (guint)op->micro_batch) * 8191 + (guint)op->unit;
}

static gboolean source_equal(gconstpointer a, gconstpointer b) {
  const Op *x = a, *y = b;
  return x->step == y->step && x->stage == y->stage && x->micro_batch == y->micro_batch && x->unit == y->unit;
}

/* Checks that sum `sum`, the latest of its place, was not copied out before it. An empty sum needs no copy. */
static gboolean check_copied(const Walk *walk, gint32 sum, GError **error) {
  const Op *ops = walk->list->ops;
  const gint32 copy = GPOINTER_TO_INT(g_hash_table_lookup(walk->copies, &ops[sum])) - 1;
  if (adds(&ops[sum]) || copy < 0 || copy > sum || transfer_of(walk, &ops[sum])->bytes <= 0)
    return TRUE;
  g_autoptr(GString) of_copy = g_string_new(NULL), of_sum = g_string_new(NULL);
  untimed_run_name_op(walk->program, &ops[copy], of_copy);
  untimed_run_name_op(walk->program, &ops[sum], of_sum);
  return fail_impossible(error, "rank %d, op %d: %s copies a gradient out in front of %s (op %d), which sums it",
                         walk->rank, copy, of_copy->str, of_sum->str, sum);
}

static gboolean is_same_sum(const Walk *walk, const Op *a, const Op *b) {
  return a->action == b->action && transfer_of(walk, a)->of_experts == transfer_of(walk, b)->of_experts;
}

/* Op i becomes what later copies of its place refer to. */
static gboolean replace_source(Walk *walk, gint32 i, GError **error) {
  Op *op = &walk->list->ops[i];
  const gint32 before = GPOINTER_TO_INT(g_hash_table_lookup(walk->sources, op)) - 1;
  if (before >= 0 && sums(&walk->list->ops[before]) && !(sums(op) && is_same_sum(walk, op, &walk->list->ops[before])) &&
      !check_copied(walk, before, error))
    return FALSE;
  g_hash_table_replace(walk->sources, op, GINT_TO_POINTER(i + 1));
  return TRUE;
}

/* Goes by list order, since that of the hash table is arbitrary. */
static gboolean check_all_copied(const Walk *walk, GError **error) {
  for (gint32 i = 0; walk->has_copies && i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    if (sums(op) && GPOINTER_TO_INT(g_hash_table_lookup(walk->sources, op)) == i + 1 && !check_copied(walk, i, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean check_copy(Walk *walk, gint32 i, GError **error) {
  const Op *ops = walk->list->ops;
  const gint32 source = GPOINTER_TO_INT(g_hash_table_lookup(walk->sources, &ops[i])) - 1;
  g_hash_table_replace(walk->copies, (gpointer)&ops[i], GINT_TO_POINTER(i + 1));
  if (source < 0 || has_ended(walk, i, source))
    return TRUE;
  g_autoptr(GString) of_copy = g_string_new(NULL), of_source = g_string_new(NULL);
  untimed_run_name_op(walk->program, &ops[i], of_copy);
  untimed_run_name_op(walk->program, &ops[source], of_source);
  return fail_impossible(error,
                         "rank %d, op %d: %s copies a gradient out and does not wait for %s (op %d), which %s it",
                         walk->rank, i, of_copy->str, of_source->str, source, adds(&ops[source]) ? "adds to" : "sums");
}

static gboolean tally_put_off(Walk *walk, int stage, GError **error) {
  const gint32 i = walk->put_off[stage];
  walk->put_off[stage] = -1;
  return i < 0 || check_addition(walk, i, error);
}

/* Defers an addition while the rank has summed nothing yet. */
static gboolean put_off(Walk *walk, gint32 i, GError **error) {
  const Op *op = &walk->list->ops[i];
  const gint32 before = walk->put_off[op->stage];
  const Op *other = before >= 0 ? &walk->list->ops[before] : op;
  const gboolean is_same = other->step == op->step && other->work == op->work && other->unit == op->unit;
  if (!is_same && !tally_put_off(walk, op->stage, error))
    return FALSE;
  walk->put_off[op->stage] = i;
  return TRUE;
}

static gboolean begin_to_sum(Walk *walk, GError **error) {
  walk->has_summed = TRUE;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    if (!tally_put_off(walk, stage, error))
      return FALSE;
  return TRUE;
}

static gboolean check_op(Walk *walk, gint32 i, GError **error) {
  Op *op = &walk->list->ops[i];
  if (copies_out(op))
    return check_copy(walk, i, error);
  const gboolean is_addition = adds(op);
  if (!is_addition && !sums(op))
    return TRUE;
  if (walk->has_copies && !replace_source(walk, i, error))
    return FALSE;
  if (is_addition)
    return walk->has_summed ? check_addition(walk, i, error) : put_off(walk, i, error);
  return (walk->has_summed || begin_to_sum(walk, error)) && check_sum(walk, i, error);
}

/* Returns whether the rank sums anything or copies it out. */
static gboolean find_sums(Walk *walk) {
  gboolean has_any = FALSE;
  walk->table_is_shared = walk->has_copies = FALSE;
  walk->n_apart = 0;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    walk->n_layers[stage] = -1;
  for (gint32 i = 0; i < walk->list->n_ops; i++) {
    const Op *op = &walk->list->ops[i];
    walk->has_copies |= copies_out(op);
    if (!sums(op))
      continue;
    has_any = TRUE;
    if (op->micro_batch >= 0)
      walk->n_apart = walk->program->n_micro_batches;
    if (is_of_rank(op))
      continue;
    walk->n_layers[op->stage] = MAX(walk->n_layers[op->stage], 0);
    if (op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = transfer_of(walk, op);
    const Pieces pieces = pieces_of_sum(walk, op);
    walk->n_layers[op->stage] = (gint32)MAX(walk->n_layers[op->stage], MIN(pieces.end_layer, MOST_LAYERS + 1));
    walk->table_is_shared |= !transfer->of_experts && transfer->n_tables < transfer->n_embedding + transfer->n_head;
  }
  return has_any || walk->has_copies;
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
  memset(walk->tallies->data, -1, n_tallies * sizeof(Tally)); /* −1: nothing added, nothing summed */
}

static gboolean walk_rank(Walk *walk, int rank, GError **error) {
  walk->rank = rank;
  walk->list = &walk->program->ranks[rank];
  if (!find_sums(walk))
    return TRUE;
  lay_out(walk);
  walk->has_summed = walk->n_apart > 0;
  for (int stage = 0; stage < walk->program->n_stages; stage++)
    walk->put_off[stage] = -1;
  g_hash_table_remove_all(walk->sources);
  g_hash_table_remove_all(walk->copies);
  for (int step = 0; step < walk->program->n_steps; step++)
    walk->reduced[step] = -1;
  ended_list_begin(&walk->ended, walk->list->ops);
  for (gint32 i = 0; i < walk->list->n_ops; i++)
    if (!check_op(walk, i, error))
      return FALSE;
  return check_all_copied(walk, error);
}

gboolean gradient_order_check(const Program *program, GError **error) {
  int longest = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    longest = MAX(longest, program->ranks[rank].n_ops);
  g_autofree Ended *ended = g_new(Ended, longest);
  g_autofree gint32 *n_layers = g_new(gint32, program->n_stages), *first = g_new(gint32, program->n_stages);
  g_autoptr(GArray) tallies = g_array_new(FALSE, FALSE, sizeof(Tally));
  g_autoptr(GHashTable) sources = g_hash_table_new(source_hash, source_equal);
  g_autoptr(GHashTable) copies = g_hash_table_new(source_hash, source_equal);
  g_autofree gint32 *put_off = g_new(gint32, program->n_stages), *reduced = g_new(gint32, program->n_steps);
  Walk walk = {.program = program,
               .ended = {.watched = watched, .ended = ended},
               .n_layers = n_layers,
               .first = first,
               .tallies = tallies,
               .sources = sources,
               .copies = copies,
               .put_off = put_off,
               .reduced = reduced};
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!walk_rank(&walk, rank, error))
      return FALSE;
  return TRUE;
}
