/* Parts, collectives and lanes, as needed by several passes. */
#include "lowering.h"

#include <math.h>

#include "local_sizes.h"

/* Over a part's pieces, of what each has. */
static double sum_pieces(const Part *part, const gint64 of_piece[N_PIECES]) {
  int counts[N_PIECES];
  double sum = 0;
  part_pieces(part, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    sum += (double)counts[piece] * (double)of_piece[piece];
  return sum;
}

double part_parameters(const Workload *workload, const Part *part) {
  return sum_pieces(part, workload->piece_parameters);
}

double part_expert_parameters(const Workload *workload, const Part *part) {
  return sum_pieces(part, workload->expert_parameters);
}

double part_trained(const Workload *workload, const Part *part) {
  return sum_pieces(part, workload->trained);
}

double part_trained_experts(const Workload *workload, const Part *part) {
  return sum_pieces(part, workload->trained_experts);
}

double part_sharded_parameters(const Workload *workload, const Part *part) {
  const double experts = part_expert_parameters(workload, part), others = part_parameters(workload, part) - experts;
  return (lowering_shards(workload) > 1 ? others : 0) + (lowering_expert_shards(workload) > 1 ? experts : 0);
}

/* On a pipeline rank that holds both, a matrix shared by embedding and head counts only with `keeper`, one of the two.
 * Over all parts this sums to the stages' parameters. */
static double part_parameters_once(const Workload *workload, const Part *part, Piece keeper) {
  gboolean has_other = keeper == PIECE_HEAD ? part->n_embedding > 0 : part->n_head > 0;
  return part_parameters(workload, part) - (has_other ? (double)workload->shared_parameters : 0);
}

/* Of the matrix that embedding and head share, if it is trained. */
static double shared_trained(const Workload *workload) {
  return workload->shared_parameters > 0 && workload_trains_table(workload, PIECE_EMBEDDING)
             ? (double)workload->shared_parameters
             : 0;
}

double part_flops(const Workload *workload, Phase phase, const Part *part) {
  int counts[N_PIECES];
  double flops = 0;
  part_pieces(part, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    flops += counts[piece] > 0 ? counts[piece] * workload_list(workload, part->lengths, (Piece)piece, phase)->flops : 0;
  return flops;
}

gint32 part_work(Program *program, const Workload *workload, Phase phase, const Part *part) {
  Work work = {.phase = phase,
               .n_embedding = part->n_embedding,
               .n_head = part->n_head,
               .n_layers = part->n_layers,
               .n_dense = part->n_dense,
               .others = part->others,
               .lengths = part->lengths,
               .stage = -1,
               .piece = -1,
               .first_item = -1,
               .last_item = -1};
  work.flops = part_flops(workload, phase, part);
  return program_work(program, &work);
}

Part part_of_stage(const Workload *workload, int stage) {
  const StageLayers *layers = &workload->stages[stage].layers;
  return (Part){layers->has_embedding, layers->n_layers, layers->has_head, 0, layers->n_dense, layers->others};
}

Part part_of_piece(Piece piece) {
  Part part = {0};
  part.n_embedding = piece == PIECE_EMBEDDING;
  part.n_layers = piece_is_layer(piece);
  part.n_dense = piece_is_dense(piece);
  if (part.n_layers > 0 && piece != piece_family(piece))
    part.others.n[piece] = 1;
  part.n_head = piece == PIECE_HEAD;
  return part;
}

static Part single_piece(const Part *whole, Piece piece, int layer) {
  Part part = part_of_piece(piece);
  part.first_layer = piece == PIECE_HEAD ? whole->first_layer + whole->n_layers : layer;
  part.lengths = whole->lengths;
  return part;
}

static void add_piece(const Workload *workload, Part piece, gboolean backward, double least_parameters, Part *open,
                      GArray *cuts) {
  gboolean is_open = open->n_embedding + open->n_layers + open->n_head > 0;
  if (!is_open) {
    *open = piece;
  } else {
    open->n_embedding += piece.n_embedding;
    open->n_layers += piece.n_layers;
    open->n_dense += piece.n_dense;
    for (int other = 0; other < N_PIECES; other++)
      open->others.n[other] += piece.others.n[other];
    open->n_head += piece.n_head;
    if (backward)
      open->first_layer = piece.first_layer;
  }
  if (part_trained(workload, open) >= least_parameters) {
    g_array_append_vals(cuts, open, 1);
    *open = (Part){0};
  }
}

void part_cut(const Workload *workload, const Part *part, gboolean backward, double least_parameters, GArray *cuts) {
  Part open = {0};
  Piece first = backward ? PIECE_HEAD : PIECE_EMBEDDING, last = backward ? PIECE_EMBEDDING : PIECE_HEAD;
  gboolean has_first = backward ? part->n_head : part->n_embedding,
           has_last = backward ? part->n_embedding : part->n_head;
  if (has_first)
    add_piece(workload, single_piece(part, first, part->first_layer), backward, least_parameters, &open, cuts);
  int counts[N_PIECES];
  part_pieces(part, counts);
  Piece kind = backward ? PIECE_HEAD : PIECE_EMBEDDING;
  for (int i = 0, n_left = 0; i < part->n_layers; i++, n_left--) {
    while (n_left == 0)
      n_left = counts[kind = backward ? kind - 1 : kind + 1];
    int place = backward ? part->n_layers - 1 - i : i;
    add_piece(workload, single_piece(part, kind, part->first_layer + place), backward, least_parameters, &open, cuts);
  }
  if (has_last)
    add_piece(workload, single_piece(part, last, part->first_layer), backward, least_parameters, &open, cuts);
  if (open.n_embedding + open.n_layers + open.n_head > 0)
    g_array_append_val(cuts, open);
}

Phase phase_of_action(ActionKind kind) {
  static const Phase phases[] = {
      [ACTION_F] = PHASE_F, [ACTION_I] = PHASE_I, [ACTION_W] = PHASE_W, [ACTION_B] = PHASE_B};
  g_assert(action_info(kind)->is_compute && kind <= ACTION_B);
  return phases[kind];
}

/* The lane on which rank `from` sends an activation (forward) or gradient to rank `to`; the receive's lane is the
 * next. */
static Stream send_stream(int n_ranks, gboolean forward, int from, int to) {
  gboolean is_usual = sends_with_ranks(n_ranks, forward, from, to);
  if (forward)
    return is_usual ? STREAM_SEND_F : STREAM_SEND_F_BACK;
  return is_usual ? STREAM_SEND_B : STREAM_SEND_B_BACK;
}

Product product_of(const Program *program, const Order *order, gboolean forward, int stage, int micro_batch) {
  const int *stage_rank = order->placement->stage_rank;
  int target = stage_next(stage, forward, program->n_stages, program->n_pipes);
  return (Product){forward, stage, target, micro_batch, stage_rank[stage], target >= 0 ? stage_rank[target] : -1};
}

void product_transfers_init(ProductTransfers *transfers, Program *program, const Workload *workload) {
  const gsize n = 4 * (gsize)program->n_stages;
  *transfers = (ProductTransfers){program, workload, g_new(Op, n)};
  for (gsize i = 0; i < n; i++)
    transfers->ops[i].work = -1;
}

void product_transfers_clear(ProductTransfers *transfers) {
  g_clear_pointer(&transfers->ops, g_free);
}

static gint32 transfer_of(const ProductTransfers *transfers, const Product *product) {
  const gboolean is_sent =
      transfers->workload != NULL && (product->forward || product->target_stage < 0 ||
                                      lowering_needs_gradient(transfers->workload, product->target_stage));
  const Transfer transfer = {.group = -1,
                             .source = product->from,
                             .target = product->to,
                             .collective = COLLECTIVE_SEND_RECV,
                             .size = is_sent ? SIZE_BOUNDARY : SIZE_GIVEN,
                             .lengths = is_sent ? workload_lengths(transfers->workload, product->micro_batch) : 0};
  return sized_transfer(transfers->program, transfers->workload, &transfer);
}

/* For micro-batch 0. */
static G_NO_INLINE void make_transfer(const ProductTransfers *transfers, gboolean sends, const Product *product,
                                      Op *op) {
  const Program *program = transfers->program;
  gboolean forward = product->forward;
  Stream stream = send_stream(program->n_ranks, forward, product->from, product->to);
  if (!sends)
    stream++; /* the peer's lane */
  ActionKind action = sends ? (forward ? ACTION_SEND_F : ACTION_SEND_B) : (forward ? ACTION_RECV_F : ACTION_RECV_B);
  op_init(op, sends ? OP_SEND : OP_RECV, stream, action, sends ? product->stage : product->target_stage, 0);
  op->work = transfer_of(transfers, product);
  op->peer = sends ? product->to : product->from;
  op->tag = product->target_stage * program->n_micro_batches * 2 + (forward ? 0 : 1);
}

void product_transfer(const ProductTransfers *transfers, gboolean sends, const Product *product, Op *op) {
  Op *first = &transfers->ops[4 * product->stage + (product->forward ? 2 : 0) + (sends ? 1 : 0)];
  if (first->work < 0)
    make_transfer(transfers, sends, product, first);
  *op = *first;
  if (workload_lengths(transfers->workload, product->micro_batch) > 0)
    op->work = transfer_of(transfers, product);
  op->micro_batch = product->micro_batch;
  op->tag += 2 * product->micro_batch;
}

void lowering_await_sends(Op *op, const OpEditor *editor, const Method *method) {
  for (gint32 i = editor->n_ops; i-- > 0 && !method->overlap_p2p;) {
    const Op *before = &editor->ops[i];
    if (before->kind == OP_COMPUTE)
      return;
    if (before->kind == OP_SEND)
      op_add_after(op, i);
  }
}

int lowering_shards(const Workload *workload) {
  return zero_shards_optimizer(workload->method->zero) ? workload->layout.n_shards : 1;
}

int lowering_replicas(const Workload *workload) {
  return workload->method->data_ranks / lowering_shards(workload);
}

int lowering_expert_shards(const Workload *workload) {
  return zero_shards_optimizer(workload->method->zero) ? workload->layout.n_expert_shards : 1;
}

int lowering_expert_copies(const Workload *workload) {
  return layout_group_size(&workload->layout, AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA);
}

gboolean lowering_is_sharded(const Workload *workload) {
  return lowering_shards(workload) > 1 || lowering_expert_shards(workload) > 1;
}

gboolean lowering_reduces(const Workload *workload) {
  return workload->method->data_ranks > 1 || lowering_expert_copies(workload) > 1;
}

gboolean lowering_makes_buckets(const Workload *workload) {
  return lowering_reduces(workload) || workload->method->offload.optimizer != TIER_GPU;
}

gboolean lowering_takes_turns(const Workload *workload) {
  return workload->method->takes_turns;
}

gboolean lowering_broadcasts_weights(const Workload *workload) {
  const Method *method = workload->method;
  return method->zero == 1 && method->time.weights == WEIGHTS_BROADCAST && lowering_is_sharded(workload);
}

int lowering_owners(const Workload *workload, int stage, gboolean of_experts) {
  const int shards = of_experts ? lowering_expert_shards(workload) : lowering_shards(workload);
  return MIN(shards, workload_stage_matrices(workload, stage, of_experts));
}

gboolean lowering_gathers_early(const Workload *workload) {
  const Method *method = workload->method;
  return method->offload.weights != TIER_GPU ||
         (lowering_is_sharded(workload) && !lowering_broadcasts_weights(workload) &&
          (zero_shards_weights(method->zero) || method->overlap_param));
}

gboolean lowering_moves_tensors(const Workload *workload) {
  return zero_shards_weights(workload->method->zero) && workload->method->time.zero3.moves_tensors &&
         lowering_is_sharded(workload);
}

gboolean lowering_gathers_apart(const Workload *workload) {
  return lowering_moves_tensors(workload) && workload->method->time.zero3.gather_bucket == 0;
}

gboolean lowering_exceeds_live(const Workload *workload) {
  return lowering_moves_tensors(workload) &&
         (double)workload->piece_parameters[PIECE_LAYER] > workload->method->time.zero3.live_parameters;
}

int lowering_window(const Workload *workload) {
  const gboolean waits = lowering_gathers_apart(workload) && lowering_exceeds_live(workload);
  return workload->method->overlap_param && !waits ? workload->method->prefetch : 0;
}

static int part_vectors(const Workload *workload, const Part *part) {
  if (!lowering_moves_tensors(workload) || workload->method->time.zero3.vectors != VECTORS_KEPT)
    return 0;
  const LocalSizes local = local_sizes_of(workload->model, workload->method);
  int counts[N_PIECES];
  gint64 n = 0;
  part_pieces(part, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    n += counts[piece] > 0 ? counts[piece] * local_piece_vectors(&local, piece_family((Piece)piece)) : 0;
  return (int)n;
}

int lowering_kept_vectors(const Workload *workload, int stage) {
  const Part part = part_of_stage(workload, stage);
  return lowering_shards(workload) > 1 ? part_vectors(workload, &part) : 0;
}

gboolean lowering_needs_gradient(const Workload *workload, int stage) {
  const Part part = part_of_stage(workload, stage);
  int counts[N_PIECES];
  part_pieces(&part, counts);
  for (Piece piece = 0; piece < N_PIECES; piece++)
    if (counts[piece] > 0 && piece_passes_back(workload->method, piece))
      return TRUE;
  return FALSE;
}

double tied_gradient_bytes(const Workload *workload) {
  /* sharded gradients are reduced shard by shard */
  return workload->tied_parameters * workload->method->recipe.gradients / lowering_shards(workload);
}

double copied_gradient_bytes(const Workload *workload, int stage) {
  const StageWork *work = &workload->stages[stage];
  return ((double)(work->trained - work->trained_experts) / lowering_shards(workload) +
          (double)work->trained_experts / lowering_expert_shards(workload)) *
         workload->method->recipe.gradients;
}

double whole_gradient_bytes(const Workload *workload, int rank) {
  double parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank)
      parameters += workload->stages[stage].tp_summed_parameters;
  return parameters * workload->method->recipe.gradients / lowering_shards(workload);
}

double optimizer_parameters(const Workload *workload, int rank) {
  double parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank)
      parameters += workload_optimizer_parameters(workload, stage);
  return parameters;
}

int lowering_optimizers(const Workload *workload) {
  const Method *method = workload->method;
  return method->time.expert_optimizer == EXPERT_OPTIMIZER_APART && method->ep > 1 ? 2 : 1;
}

double optimizer_passed(const Workload *workload, int rank) {
  double parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank)
      parameters += (double)workload->stages[stage].trained;
  return parameters * workload->method->buffer_passes;
}

double lowering_common_table(const Workload *workload) {
  if (!workload_heads_read_embedding(workload))
    return shared_trained(workload);
  const LocalSizes local = local_sizes_of(workload->model, workload->method);
  return (double)local_vocab_parameters(&local);
}

double lowering_heads_table(const Workload *workload) {
  if (!workload_heads_read_embedding(workload) || workload->placement->n_pipes == 1 ||
      !zero_shards_gradients(workload->method->zero) || lowering_shards(workload) == 1)
    return 0;
  return lowering_common_table(workload);
}

double moved_gradients(const Workload *workload, const Moved *moved) {
  const Part *part = &moved->part;
  const double experts = part_trained_experts(workload, part);
  const double table = moved->with_heads_table ? lowering_heads_table(workload) : 0;
  const gboolean has_other = moved->keeper == PIECE_HEAD ? part->n_embedding > 0 : part->n_head > 0;
  return moved->of_experts
             ? experts
             : part_trained(workload, part) - (has_other ? shared_trained(workload) : 0) - experts + table;
}

double moved_weights(const Workload *workload, const Moved *moved) {
  const double experts = part_expert_parameters(workload, &moved->part);
  const double table = moved->with_heads_table ? lowering_heads_table(workload) : 0;
  if (!zero_shards_weights(workload->method->zero))
    return moved_gradients(workload, moved);
  return moved->of_experts ? experts : part_parameters_once(workload, &moved->part, moved->keeper) - experts + table;
}

static guint8 moved_tables(const Workload *workload, const Moved *moved) {
  const Part *part = &moved->part;
  gboolean is_without = part_parameters_once(workload, part, moved->keeper) < part_parameters(workload, part);
  return (guint8)(part->n_embedding + part->n_head + (moved->with_heads_table && !moved->of_experts) - is_without);
}

/* A framework that keeps linears apart lists and moves each. */
static int more_linears(const Workload *workload, const Part *part) {
  const FrameworkSplitLinears *linears = &workload->method->time.linears;
  const Model *model = workload->model;
  const int of_qkv = linears->qkv == LINEARS_APART && model->latent.kv_rank == 0 ? 2 : 0;
  const int n_mlps = model->experts.n > 0 ? part->n_dense : part->n_layers;
  return part->n_layers * of_qkv + (linears->gate == LINEARS_APART && model->gated ? n_mlps : 0);
}

/* At least one (norms have no matrix). */
static int moved_matrices(const Workload *workload, const Moved *moved) {
  const Part *part = &moved->part;
  int counts[N_PIECES], n = 0;
  part_pieces(part, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    if (piece_is_layer((Piece)piece) && counts[piece] > 0)
      n += counts[piece] * workload_piece_matrices(workload, (Piece)piece, moved->of_experts);
  if (!moved->of_experts)
    n += moved_tables(workload, moved) + more_linears(workload, part);
  return MAX(n, 1);
}

/* Sets the collectives that move it, one for each matrix or, with a bucket, assumed as full as gathers are at least
 * and reductions at most; and the tensors that these are made from lists of. With buckets a gather of one matrix needs
 * no list, and the sum of shards over replicas neither. */
static void split_into_calls(const Workload *workload, const Moved *moved, Transfer *transfer) {
  if (!lowering_moves_tensors(workload))
    return;
  const FrameworkZero3 *zero3 = &workload->method->time.zero3;
  const gboolean is_gather = transfer->collective == COLLECTIVE_ALL_GATHER;
  const gboolean scatters = transfer->collective == COLLECTIVE_REDUCE_SCATTER;
  const int n_matrices = moved_matrices(workload, moved);
  const double bucket = is_gather ? zero3->gather_bucket : zero3->reduce_bucket;
  const double parameters = is_gather ? moved_weights(workload, moved) : moved_gradients(workload, moved);
  const double filled = is_gather ? floor(parameters / bucket) : ceil(parameters / bucket);
  transfer->n_calls = bucket == 0 ? n_matrices : (gint32)CLAMP(filled, 1, n_matrices);
  if (bucket == 0 || scatters || (is_gather && transfer->n_calls < n_matrices))
    transfer->n_listed = n_matrices;
  if (scatters && !moved->of_experts)
    transfer->n_listed += part_vectors(workload, &moved->part);
}

Group dp_group(const Workload *workload, AxisSet axes) {
  gboolean with_cp = workload->method->cp > 1 && axes != AXIS_BIT_DP_REPLICA;
  return (Group){.name = axes == AXIS_BIT_DP_SHARD     ? "dp_shard"
                         : axes == AXIS_BIT_DP_REPLICA ? "dp_replica"
                                                       : "dp",
                 .axes = axes | (with_cp ? AXIS_BIT(AXIS_CP) : 0),
                 .pp_first = -1,
                 .pp_last = -1,
                 .charge = AXIS_DP};
}

/* A group of ranks that hold the same experts. */
static Group expert_group(AxisSet axes) {
  const AxisSet shard = AXIS_BIT_EXPERT_SHARD, replica = AXIS_BIT_DP_REPLICA;
  return (Group){.name = axes == AXIS_BIT_DP_SHARD ? "expert_shard"
                         : axes == replica         ? "dp_replica"
                                                   : "expert_dp",
                 .axes = axes == AXIS_BIT_DP_SHARD ? shard
                         : axes == replica         ? replica
                                                   : shard | replica,
                 .pp_first = -1,
                 .pp_last = -1,
                 .charge = AXIS_DP};
}

/* Of weights that are not all trained, under ZeRO-3. */
static double moved_weight_bytes(const Workload *workload, const Transfer *transfer) {
  const Part part = {transfer->n_embedding, transfer->n_layers, transfer->n_head, 0,
                     transfer->n_dense,     transfer->others};
  const gboolean is_without = transfer->n_tables < transfer->n_embedding + transfer->n_head;
  int counts[N_PIECES];
  double bytes = is_without ? -workload_table_bytes(workload) : 0, experts = 0;
  part_pieces(&part, counts);
  for (int piece = 0; piece < N_PIECES; piece++) {
    bytes += counts[piece] * workload->weight_bytes[piece];
    experts += counts[piece] * workload->expert_weight_bytes[piece];
  }
  return transfer->of_experts ? experts : bytes - experts;
}

static double moved_bytes(const Workload *workload, const Transfer *transfer, double bytes_per_parameter) {
  const Part part = {transfer->n_embedding, transfer->n_layers, transfer->n_head, 0,
                     transfer->n_dense,     transfer->others};
  const gboolean is_without = transfer->n_tables < transfer->n_embedding + transfer->n_head;
  double parameters = part_trained(workload, &part) - (is_without ? shared_trained(workload) : 0);
  if (transfer->n_tables > transfer->n_embedding + transfer->n_head)
    parameters += lowering_heads_table(workload);
  const double experts = part_trained_experts(workload, &part);
  return (transfer->of_experts ? experts : parameters - experts) * bytes_per_parameter;
}

double transfer_bytes(const Workload *workload, const Program *program, const Transfer *transfer) {
  if (transfer->size == SIZE_GIVEN)
    return transfer->bytes;
  const Method *method = workload->method;
  switch ((TransferSize)transfer->size) {
  case SIZE_BOUNDARY:
    return workload_boundary_bytes(workload, transfer->lengths);
  case SIZE_WEIGHTS:
    return (zero_shards_weights(method->zero) && !training_is_of_all(&method->training)
                ? moved_weight_bytes(workload, transfer)
                : moved_bytes(workload, transfer, method->recipe.weights)) /
           (transfer->of < 0 ? 1 : MAX(1, lowering_owners(workload, transfer->of, transfer->of_experts)));
  case SIZE_GRADIENTS:
    return moved_bytes(workload, transfer, method->gradient_sum_bytes);
  case SIZE_GRADIENT_SHARD:
    return moved_bytes(workload, transfer, method->gradient_sum_bytes) /
           (transfer->of_experts ? lowering_expert_shards(workload) : lowering_shards(workload));
  case SIZE_TIED:
    return tied_gradient_bytes(workload);
  case SIZE_COPIES:
    return copied_gradient_bytes(workload, transfer->of);
  case SIZE_WHOLE:
    return whole_gradient_bytes(workload, transfer->of);
  case SIZE_ITEM:
    return workload_list(workload, transfer->lengths, (Piece)transfer->piece, (Phase)transfer->of)
        ->items[transfer->item]
        .bytes;
  default:
    g_assert_not_reached();
  }
}

gboolean transfer_is_compressed(const Workload *workload, const Transfer *transfer) {
  return transfer->group >= 0 && transfer->n_embedding + transfer->n_layers + transfer->n_head > 0 &&
         !transfer->is_item && transfer->collective == COLLECTIVE_ALL_REDUCE &&
         workload->method->compression.kind != COMPRESS_NONE;
}

CompressedSum transfer_sum(const Workload *workload, const Transfer *transfer) {
  CompressedSum sum = {transfer->bytes / workload->method->gradient_sum_bytes, {0}};
  const Part part = {transfer->n_embedding, transfer->n_layers, transfer->n_head, 0,
                     transfer->n_dense,     transfer->others};
  int counts[N_PIECES];
  part_pieces(&part, counts);
  if (transfer->n_tables < transfer->n_embedding + transfer->n_head) /* the matrix that they share: of the embedding */
    counts[PIECE_HEAD]--;
  for (int piece = 0; piece < N_PIECES; piece++)
    low_rank_add_times(&sum.low_rank, counts[piece],
                       transfer->of_experts ? &workload->low_rank_experts[piece] : &workload->low_rank[piece]);
  return sum;
}

gint32 sized_transfer(Program *program, const Workload *workload, const Transfer *transfer) {
  Transfer sized = *transfer;
  sized.bytes = transfer_bytes(workload, program, transfer);
  return program_transfer(program, &sized);
}

Op dp_collective(Program *program, const Workload *workload, const DpCollective *done, const Moved *moved) {
  const Group group = moved->of_experts ? expert_group(done->axes) : dp_group(workload, done->axes);
  Transfer transfer = {.group = program_group(program, &group),
                       .source = -1,
                       .target = -1,
                       .collective = done->collective,
                       .size = (guint8)done->size,
                       .of = done->of,
                       .n_embedding = (guint8)moved->part.n_embedding,
                       .n_head = (guint8)moved->part.n_head,
                       .n_tables = moved_tables(workload, moved),
                       .of_experts = moved->of_experts != 0,
                       .n_layers = moved->part.n_layers,
                       .n_dense = moved->part.n_dense,
                       .others = moved->part.others};
  split_into_calls(workload, moved, &transfer);
  Op op = op_new(OP_COLLECTIVE, STREAM_DP, done->action, done->stage, -1);
  op.unit = moved->part.first_layer;
  op.work = sized_transfer(program, workload, &transfer);
  return op;
}
