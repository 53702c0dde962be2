/* Shared by the passes: the part of a stage that an op covers, and data-parallel groups and collectives. */
#pragma once
#include "op_editor.h"
#include "passes.h"

/* Consecutive pieces of one stage: the work of one compute op. */
typedef struct {
  int n_embedding, n_layers, n_head;
  int first_layer; /* within the stage */
  int n_dense;     /* among n_layers, as Work.n_dense */
  OtherLayers others;
  gint32 lengths; /* as Work.lengths */
} Part;

static inline Part part_of_work(const Work *work, int first_layer) {
  return (Part){work->n_embedding, work->n_layers, work->n_head, first_layer,
                work->n_dense,     work->others,   work->lengths};
}
static inline void part_pieces(const Part *part, int counts[N_PIECES]) {
  counts[PIECE_EMBEDDING] = part->n_embedding;
  count_layers(part->n_layers, part->n_dense, &part->others, counts);
  counts[PIECE_HEAD] = part->n_head;
}
static inline Part part_of_op(const Program *program, const Op *op) {
  return part_of_work(&g_array_index(program->works, Work, op->work), op->unit);
}
double part_parameters(const Workload *workload, const Part *part);        /* that it computes with, per tp rank */
double part_expert_parameters(const Workload *workload, const Part *part); /* of these, those of the rank's experts */
double part_sharded_parameters(const Workload *workload,
                               const Part *part);                /* of these, those sharded from some ZeRO stage on */
double part_trained(const Workload *workload, const Part *part); /* of the first, those that are trained */
double part_trained_experts(const Workload *workload, const Part *part); /* of these, those of the rank's experts */
double part_flops(const Workload *workload, Phase phase, const Part *part);
/* Index of the Work for `part` in `phase`. */
gint32 part_work(Program *program, const Workload *workload, Phase phase, const Part *part);
/* One piece. */
Part part_of_piece(Piece piece);
/* The whole stage. */
Part part_of_stage(const Workload *workload, int stage);
/* Memory left behind by a part: the sum over its pieces, and their largest transient. */
PieceMemory part_memory(const Workload *workload, const Part *part);
/* Cuts `part` into parts of at least `least_parameters` trained ones each (the last takes the rest), in forward or
 * backward order; 0 cuts piece by piece. Appends to `cuts` (of Part). */
void part_cut(const Workload *workload, const Part *part, gboolean backward, double least_parameters, GArray *cuts);

Phase phase_of_action(ActionKind kind); /* F I W B only */

/* Ranks that share one set of ZeRO shards, and number of copies of that set. */
int lowering_shards(const Workload *workload);
int lowering_replicas(const Workload *workload);
/* The same for expert parameters; without sharding, the copies are the ranks that hold the same experts. */
int lowering_expert_shards(const Workload *workload);
int lowering_expert_copies(const Workload *workload);
/* Either has shards; those of whole experts (--expert-tp 1) also span tp ranks, so they may exist when the rest has
 * none. */
gboolean lowering_is_sharded(const Workload *workload);
/* Some gradient is reduced over ranks that hold the same parameters. */
gboolean lowering_reduces(const Workload *workload);
/* Gradients move in buckets: reduced, or copied to the host. */
gboolean lowering_makes_buckets(const Workload *workload);
/* Rounds of a schedule (Action.joins_next) take turns at expert exchanges. */
gboolean lowering_takes_turns(const Workload *workload);
/* ZeRO-1 under a framework whose ranks own whole matrices and broadcast them after the update. */
gboolean lowering_broadcasts_weights(const Workload *workload);
/* Number of optimizers that each gather all their parameters after the update (ZeRO-1 and 2): 2 if experts have their
 * own, else 1. */
int lowering_optimizers(const Workload *workload);
/* Number of ranks that own any of a stage's matrices, of experts or of the rest: at most one rank per matrix. */
int lowering_owners(const Workload *workload, int stage, gboolean of_experts);
/* Parameters are gathered before their first use (ZeRO-3; ZeRO-1 and 2 with overlap_param), not after the
 * optimizer. */
gboolean lowering_gathers_early(const Workload *workload);
/* ZeRO-3 under a framework that moves matrices in collectives of their own. */
gboolean lowering_moves_tensors(const Workload *workload);
/* … each in one, which the host issues after it has waited. */
gboolean lowering_gathers_apart(const Workload *workload);
/* … if, in addition, a layer exceeds the parameters that the framework keeps gathered. */
gboolean lowering_exceeds_live(const Workload *workload);
/* Number of vectors of a stage that each rank keeps whole, and gathers one by one after the optimizer. */
int lowering_kept_vectors(const Workload *workload, int stage);
/* ZeRO-3: pieces gathered ahead of the one being computed. */
int lowering_window(const Workload *workload);
/* Parameters of the table that embedding and head of one rank both add to the gradient of: the matrix they share, or
 * the one that heads that predict further tokens look words up in; 0: none. */
double lowering_common_table(const Workload *workload);
/* ZeRO ≥ 2 on two pipes: a head that looks tokens up in the word table contributes to its gradient, so the table is
 * reduced with each backward of such a head, as with those of the embedding for other micro-batches. Number of
 * parameters in it; 0: not reduced this way. */
double lowering_heads_table(const Workload *workload);
/* Parameters that a collective moves: those of experts in `part`, or all others. On a pipeline rank that holds both,
 * a matrix shared by embedding and head moves only with `keeper`, one of the two; with_heads_table: the head's part
 * also moves the table that it looks tokens up in. */
typedef struct {
  Part part;
  Piece keeper;
  gboolean of_experts, with_heads_table;
} Moved;
/* … as weights, and as gradients. Weights that are not trained move under ZeRO-3 alone. */
double moved_weights(const Workload *workload, const Moved *moved);
double moved_gradients(const Workload *workload, const Moved *moved);
/* Ranks along these axes, a subset of dp. cp ranks hold the same parameters: reductions and shards span both. */
Group dp_group(const Workload *workload, AxisSet axes);
/* A collective over dp ranks on parameters or gradients of a stage. */
typedef struct {
  ActionKind action;
  int stage;
  Collective collective;
  AxisSet axes; /* a subset of dp */
  TransferSize size;
  int of; /* as Transfer.of */
} DpCollective;
enum { MOST_REDUCTIONS = 4 }; /* per gradient: over shards and over replicas, for experts and for the rest */
/* Its op on the dp stream, for the stage's `moved`; for experts, over the ranks along these axes that hold the same
 * ones. */
Op dp_collective(Program *program, const Workload *workload, const DpCollective *done, const Moved *moved);

/* Transfer.bytes of a transfer that has its size; groups are the program's. `workload` may be NULL for a given one. */
double transfer_bytes(const Workload *workload, const Program *program, const Transfer *transfer);
/* Whether what it sums over dp is compressed. */
gboolean transfer_is_compressed(const Workload *workload, const Transfer *transfer);
/* The gradients that such a sum is of. */
CompressedSum transfer_sum(const Workload *workload, const Transfer *transfer);
/* program_transfer() of a transfer with these bytes. */
gint32 sized_transfer(Program *program, const Workload *workload, const Transfer *transfer);

/* Of an effect that has the numbers of the whole: those of its part. */
void effect_take_part(const Workload *workload, Effect *effect);
/* What each rank holds all the time. */
void program_set_residents(Program *program, const Workload *workload);

/* Sizes of what the optimizer pass moves and updates, by rank or stage. Bytes as in Transfer.bytes. */
double tied_gradient_bytes(const Workload *workload);
double copied_gradient_bytes(const Workload *workload, int stage);
double whole_gradient_bytes(const Workload *workload, int rank);
double optimizer_parameters(const Workload *workload, int rank);
double optimizer_passed(const Workload *workload, int rank); /* Work.passed */

/* Whether a stage needs the gradient of its output: not where neither it nor anything before it is trained. */
gboolean lowering_needs_gradient(const Workload *workload, int stage);

/* An activation or gradient passed from one stage to another. */
typedef struct {
  gboolean forward;
  int stage, target_stage; /* that produces it, that consumes it; target −1: none */
  int micro_batch;
  int from, to; /* their ranks */
} Product;
Product product_of(const Program *program, const Order *order, gboolean forward, int stage, int micro_batch);

/* Send and receive ops of products. These differ only by micro-batch, so each Transfer is looked up once. */
typedef struct {
  Program *program;         /* borrowed, as the next */
  const Workload *workload; /* NULL: sends of no bytes */
  Op *ops; /* [stages][gradient, activation that the stage produces][receive, send] for micro-batch 0; Op.work −1: not
              yet made; owned */
} ProductTransfers;
void product_transfers_init(ProductTransfers *transfers, Program *program, const Workload *workload);
void product_transfers_clear(ProductTransfers *transfers);
/* Sets *op to the send of a product, or its receive, with no dependencies yet. */
void product_transfer(const ProductTransfers *transfers, gboolean sends, const Product *product, Op *op);

/* Whether a compute op is the first of its action. Parts of one action are adjacent, apart from gathers between
 * them. */
static inline gboolean op_begins_action(const OpList *list, int index) {
  for (int i = index - 1; i >= 0; i--)
    if (list->ops[i].kind == OP_COMPUTE)
      return list->ops[index].kind != OP_COMPUTE || !op_same_action(&list->ops[index], &list->ops[i]);
  return TRUE;
}
static inline gboolean op_ends_action(const OpList *list, int index) {
  for (int i = index + 1; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE)
      return list->ops[index].kind != OP_COMPUTE || !op_same_action(&list->ops[index], &list->ops[i]);
  return TRUE;
}

/* Without overlap_p2p: makes `op`, which will be appended to the new list, wait for all sends since the last compute
 * op, as the next compute op would. */
void lowering_await_sends(Op *op, const OpEditor *editor, const Method *method);

/* Sends and receives of a runtime that waits for its transfers (Order.exchange; exchange.c); is_synchronous: its host
 * waits too. */
void exchange_send_recv(Program *program, const Order *order, const Workload *workload);

/* Parameters for which a rank takes outer steps: its part of those that its island holds; 0 without islands. */
double lowering_outer_parameters(const Workload *workload, int rank);
/* Parameter servers in place of a step's sums and optimizer; and what keeps its workers together, in all steps
 * (servers.c). */
void add_servers(Program *program, const Lowering *lowering);
void add_clocks(Program *program, const Lowering *lowering);
/* What islands do after a period of steps (outer_steps.c). */
void add_outer_steps(Program *program, const Lowering *lowering);

/* What readers bring to all steps (read_data.c). */
void add_data(Program *program, const Lowering *lowering);

void pass_place(Program *program, const Lowering *lowering);
void pass_unshard(Program *program, const Lowering *lowering);
void pass_send_recv(Program *program, const Lowering *lowering);
void pass_reduce_grad(Program *program, const Lowering *lowering);
void pass_optimizer(Program *program, const Lowering *lowering);
void pass_offload(Program *program, const Lowering *lowering);
void pass_memory(Program *program, const Lowering *lowering);
