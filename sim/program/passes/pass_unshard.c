/* unshard: parameters are gathered before they are used.
 *
 * ZeRO-3 cuts every F, I and B into pieces (embedding, one layer, head). With a window of w = `prefetch` pieces, the
 * gather of piece u may overlap with the compute of the w pieces before it, so it is issued when piece u − w − 1 has
 * ended:
 *
 *     compute   ···|  u−2  |  u−1  |   u   |···           w = 1
 *     dp        ···| gather u−1 | gather u |···
 *
 * Without overlap_param w is 0: each gather waits for the piece before it, and the piece waits for the gather.
 *
 * In a framework that moves each matrix in its own collective (zero3_tensors), the host, before it issues a gather,
 * waits for the previous gather and compute that it has issued: a gather overlaps only with the one piece whose
 * kernels are issued right after it. If the framework's limit of live parameters is below a layer's, nothing
 * overlaps, and a recomputed layer is gathered twice for its backward. If it fills buckets instead (gather_bucket),
 * the host waits, and gathers nothing ahead, only where a micro-batch begins after another's backward; too large a
 * layer is still gathered twice.
 *
 * ZeRO-1 and 2 gather once per step. With overlap_param this overlaps with the first forward of each stage, bucket by
 * bucket, without a window: the gathered parameters stay.
 *
 * An order that names its gathers (UNSHARD) is followed: at each such place the whole stage is gathered once the
 * previous compute op has ended, and all ops of the stage up to its next UNSHARD use the result. ZeRO-1 and 2 need
 * only the first. */
#include "lowering.h"

/* A compute op of the new list and the gather it waits for. */
typedef struct {
  int old_index;
  gboolean is_place; /* not a compute op but a place for communication, kept as it is */
  gboolean is_whole; /* not cut */
  gboolean gathers;
  Part part;
} Piecewise;

/* A matrix shared by embedding and head is gathered with whichever comes first and kept for the other, as DeepSpeed
 * does with parameters that are soon reused (stage3_max_reuse_distance). */
static Moved gathered(const Op *user, const Part *part) {
  return (Moved){*part, user->action == ACTION_F ? PIECE_EMBEDDING : PIECE_HEAD, FALSE};
}

static Op gather_op(Program *program, const Workload *workload, int stage, const Moved *moved) {
  const DpCollective gather = {ACTION_UNSHARD, stage, COLLECTIVE_ALL_GATHER, AXIS_BIT_DP_SHARD, SIZE_WEIGHTS, -1};
  return dp_collective(program, workload, &gather, moved);
}

/* A single shard that is offloaded counts as sharded: pass offload turns its gather into a fetch. */
static gboolean is_apart(const Workload *workload, int shards) {
  return shards > 1 || workload->method->offload.weights != TIER_GPU;
}

static gboolean gathers_others(const Workload *workload, const Moved *moved) {
  return is_apart(workload, lowering_shards(workload)) && moved_weights(workload, moved) > 0;
}

static gboolean gathers_experts(const Workload *workload, const Part *part) {
  const Moved experts = {*part, PIECE_EMBEDDING, TRUE};
  return is_apart(workload, lowering_expert_shards(workload)) && moved_weights(workload, &experts) > 0;
}

/* Ops that gather a part. */
typedef struct {
  Op ops[2]; /* of all but experts, of experts */
  gboolean gathers[2];
  int stage;
  Moved moved;
  gboolean is_made;
} Gathers;

/* A rank's list, as it is made anew. */
typedef struct {
  Program *program;
  const Workload *workload;
  OpEditor editor;
  Gathers latest;
} Unsharder;

static gboolean is_like(const Gathers *made, int stage, const Moved *moved) {
  const Part *a = &made->moved.part, *b = &moved->part;
  return made->is_made && made->stage == stage && made->moved.keeper == moved->keeper &&
         a->n_embedding == b->n_embedding && a->n_layers == b->n_layers && a->n_head == b->n_head &&
         a->n_dense == b->n_dense && others_equal(&a->others, &b->others);
}

static Gathers make_gathers(Program *program, const Workload *workload, int stage, Moved moved) {
  Gathers made = {.gathers = {gathers_others(workload, &moved), gathers_experts(workload, &moved.part)},
                  .stage = stage,
                  .moved = moved,
                  .is_made = TRUE};
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    moved.of_experts = of_experts;
    if (made.gathers[of_experts])
      made.ops[of_experts] = gather_op(program, workload, stage, &moved);
  }
  return made;
}

/* Appends the gathers of `moved` and of its experts, which wait for op `after` (−1: none); returns the last of them,
 * −1 if neither is sharded. Consecutive layers reuse `latest`, with another first layer. */
static gint32 add_gathers(Unsharder *unsharder, int stage, int micro_batch, const Moved *moved, gint32 after) {
  Gathers *latest = &unsharder->latest;
  gint32 last = -1;
  if (!is_like(latest, stage, moved))
    *latest = make_gathers(unsharder->program, unsharder->workload, stage, *moved);
  for (int of_experts = 0; of_experts < 2; of_experts++) {
    if (!latest->gathers[of_experts])
      continue;
    Op op = latest->ops[of_experts];
    op.unit = moved->part.first_layer;
    op.micro_batch = micro_batch;
    op_add_after(&op, after);
    last = op_editor_add(&unsharder->editor, &op);
  }
  return last;
}

/* Makes the host wait for both ops (−1: none). */
static void add_wait_for(OpEditor *editor, gint32 gather, gint32 compute) {
  if (compute < 0 && gather < 0)
    return;
  Op op = op_new(OP_HOST, STREAM_HOST, ACTION_WAIT, -1, -1);
  op_add_after(&op, gather);
  op_add_after(&op, compute);
  op_editor_add(editor, &op);
}

/* … for the last gather and the last compute op of the new list. */
static void add_wait(OpEditor *editor) {
  gint32 gather = -1, compute = -1;
  for (gint32 i = editor->n_ops; i-- > 0 && compute < 0;) {
    const Op *op = &editor->ops[i];
    if (op->kind == OP_COMPUTE)
      compute = i;
    else if (op->action == ACTION_UNSHARD && gather < 0)
      gather = i;
  }
  add_wait_for(editor, gather, compute);
}

/* The parameters gathered for a layer's recompute are released before its backward, which gathers them again. */
static gboolean is_gathered_twice(const Workload *workload, const Op *user, const Part *part) {
  int counts[N_PIECES];
  gboolean recomputes = FALSE;
  part_pieces(part, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++)
    recomputes = recomputes || (counts[piece] > 0 && piece_recomputes(workload->method, piece));
  return user->action != ACTION_F && recomputes && lowering_exceeds_live(workload);
}

/* Whether the host has waited for all of the backward before it: it does so at the end of each, where a micro-batch
 * has no pipeline. */
static gboolean begins_anew(const Workload *workload, const Op *user, const Part *part) {
  return lowering_moves_tensors(workload) && !lowering_gathers_apart(workload) && workload->n_stages == 1 &&
         user->action == ACTION_F && part->n_embedding > 0;
}

/* Appends the gathers for what `user` computes with, which wait for op `after` (−1: none); returns the last of
 * them. */
static gint32 add_gathers_of(Unsharder *unsharder, const Op *user, const Part *part, gint32 after) {
  const Workload *workload = unsharder->workload;
  if (lowering_gathers_apart(workload) || begins_anew(workload, user, part))
    add_wait(&unsharder->editor);
  const Moved moved = gathered(user, part);
  gint32 last = add_gathers(unsharder, user->stage, user->micro_batch, &moved, after);
  if (!is_gathered_twice(workload, user, part))
    return last;
  if (lowering_gathers_apart(workload))
    add_wait_for(&unsharder->editor, last, -1);
  return add_gathers(unsharder, user->stage, user->micro_batch, &moved, after);
}

/* How many ops, from the first on, may need a gather of this pass: under ZeRO-1 and 2, up to the last stage's first
 * op. */
static int count_needing(const Program *program, const OpList *list, const Workload *workload) {
  if (zero_shards_weights(workload->method->zero))
    return list->n_ops;
  g_autofree gboolean *seen = g_new0(gboolean, program->n_stages);
  int n = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE || seen[op->stage])
      continue;
    seen[op->stage] = TRUE;
    n = i + 1;
  }
  return n;
}

/* Whether a backward computes with some of the part's weights. */
static gboolean is_passed_back(const Workload *workload, const Part *part) {
  int counts[N_PIECES];
  part_pieces(part, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++)
    if (counts[piece] > 0 && piece_passes_back(workload->method, piece))
      return TRUE;
  return FALSE;
}

/* Cuts those of the first `n` ops that need gathered parameters. */
static GArray *cut_ops(const Program *program, const OpList *list, int n, const Workload *workload) {
  gboolean zero3 = zero_shards_weights(workload->method->zero);
  double least = zero3 ? 0 : workload->method->bucket_parameters;
  g_autofree gboolean *seen = g_new0(gboolean, program->n_stages);
  g_autoptr(GArray) cuts = g_array_new(FALSE, FALSE, sizeof(Part));
  GArray *pieces = g_array_sized_new(FALSE, FALSE, sizeof(Piecewise), (guint)n * 2);
  for (int i = 0; i < n; i++) {
    const Op *op = &list->ops[i];
    if (op->kind != OP_COMPUTE) {
      Piecewise place = {.old_index = i, .is_place = TRUE};
      g_array_append_val(pieces, place);
      continue;
    }
    gboolean needs = zero3 ? op->action != ACTION_W : op->action == ACTION_F && !seen[op->stage];
    Part part = part_of_op(program, op);
    g_array_set_size(cuts, 0);
    if (needs)
      part_cut(workload, &part, op->action != ACTION_F, least, cuts);
    else
      g_array_append_val(cuts, part);
    seen[op->stage] = TRUE;
    for (guint c = 0; c < cuts->len; c++) {
      const Part *cut = &g_array_index(cuts, Part, c);
      Moved moved = gathered(op, cut);
      Piecewise piece = {.old_index = i,
                         .is_whole = cuts->len == 1,
                         .gathers = needs && (op->action == ACTION_F || is_passed_back(workload, cut)) &&
                                    (gathers_others(workload, &moved) || gathers_experts(workload, cut)),
                         .part = *cut};
      g_array_append_val(pieces, piece);
    }
  }
  return pieces;
}

/* Makes `op` wait for the gather `last` (−1: none), and if that is of experts, also for the other gather right before
 * it. */
static void await_gathers(const Program *program, const OpEditor *editor, const Workload *workload, Op *op,
                          gint32 last) {
  if (last < 0)
    return;
  const Op *gather = &editor->ops[last];
  if (g_array_index(program->transfers, Transfer, gather->work).of_experts &&
      is_apart(workload, lowering_shards(workload)))
    op_add_after(op, last - 1);
  op_add_after(op, last);
}

static void emit_piece(Program *program, OpEditor *editor, const Workload *workload, const Piecewise *piece,
                       gint32 gather) {
  if (piece->is_place) {
    op_editor_copy(editor, piece->old_index);
    return;
  }
  Op *op = op_editor_copy_op(editor, piece->old_index);
  op->unit = piece->part.first_layer;
  if (!piece->is_whole)
    op->work = part_work(program, workload, phase_of_action(op->action), &piece->part);
  await_gathers(program, editor, workload, op, gather);
}

/* Gathers are issued up to `window` gathering pieces ahead of the piece about to be computed. */
static void unshard_rank(Program *program, OpList *list, const Workload *workload, int window) {
  const int n_needing = count_needing(program, list, workload);
  g_autoptr(GArray) pieces = cut_ops(program, list, n_needing, workload);
  g_autofree gint32 *gather_of = g_new(gint32, pieces->len + 1);
  g_autoptr(GArray) computed = g_array_new(FALSE, FALSE, sizeof(gint32)); /* new indices of gathering pieces done */
  Unsharder unsharder = {.program = program, .workload = workload};
  OpEditor *editor = &unsharder.editor;
  op_editor_init(editor, list);
  guint next = 0;  /* piece whose gather is issued next */
  int n_ahead = 0; /* gathers issued whose piece is not computed yet */
  int n_issued = 0;
  for (guint i = 0; i < pieces->len; i++) {
    const Piecewise *piece = &g_array_index(pieces, Piecewise, i);
    while (next < pieces->len && (next <= i || n_ahead <= window)) {
      const Piecewise *ahead = &g_array_index(pieces, Piecewise, next);
      if (next > i && ahead->gathers && begins_anew(workload, &list->ops[ahead->old_index], &ahead->part))
        break;
      gather_of[next] = -1;
      if (ahead->gathers) {
        const Op *user = &list->ops[ahead->old_index];
        int before = n_issued - window - 1;
        gint32 after =
            zero_shards_weights(workload->method->zero) && before >= 0 ? g_array_index(computed, gint32, before) : -1;
        gather_of[next] = add_gathers_of(&unsharder, user, &ahead->part, after);
        n_ahead++;
        n_issued++;
      }
      next++;
    }
    emit_piece(program, editor, workload, piece, gather_of[i]);
    if (piece->gathers) {
      gint32 done = editor->n_ops - 1;
      g_array_append_val(computed, done);
      n_ahead--;
    }
  }
  for (int i = n_needing; i < list->n_ops; i++)
    op_editor_copy(editor, i);
  op_editor_finish(editor);
}

static Moved gathered_stage(const Workload *workload, int stage) {
  Part part = part_of_stage(workload, stage);
  return (Moved){part, part.n_embedding > 0 ? PIECE_EMBEDDING : PIECE_HEAD, FALSE};
}

/* Gathers where the order says. */
static void unshard_rank_as_told(Program *program, OpList *list, const Workload *workload) {
  gboolean stays = !zero_shards_weights(workload->method->zero);
  g_autofree gint32 *gather_of = g_new(gint32, program->n_stages); /* new index of each stage's latest; −1 none */
  for (int stage = 0; stage < program->n_stages; stage++)
    gather_of[stage] = -1;
  gint32 last_compute = -1;
  Unsharder unsharder = {.program = program, .workload = workload};
  OpEditor *editor = &unsharder.editor;
  op_editor_init(editor, list);
  for (int i = 0; i < list->n_ops; i++) {
    const Op *old = &list->ops[i];
    if (old->action == ACTION_UNSHARD) {
      if (stays && gather_of[old->stage] >= 0)
        continue;
      const Moved moved = gathered_stage(workload, old->stage);
      gather_of[old->stage] = add_gathers(&unsharder, old->stage, -1, &moved, last_compute);
      continue;
    }
    Op op = op_editor_translate(editor, i);
    if (op.kind == OP_COMPUTE && op.action != ACTION_W)
      await_gathers(program, editor, workload, &op, gather_of[op.stage]);
    gint32 index = op_editor_add(editor, &op);
    op_editor_set_moved(editor, i, index);
    if (op.kind == OP_COMPUTE)
      last_compute = index;
  }
  op_editor_finish(editor);
}

void pass_unshard(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  if (workload == NULL || !lowering_gathers_early(workload))
    return; /* nothing is sharded, or the optimizer gathers */
  const Method *method = workload->method;
  int window = !zero_shards_weights(method->zero) ? G_MAXINT / 2 : lowering_window(workload);
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (lowering->order->has_unshard)
      unshard_rank_as_told(program, &program->ranks[rank], workload);
    else
      unshard_rank(program, &program->ranks[rank], workload, window);
}
