/* What the passes share: the part of a stage an op covers, and the groups and collectives of data parallelism. */
#pragma once
#include "op_editor.h"
#include "passes.h"

/* A run of consecutive pieces of one stage: what one compute op does. */
typedef struct {
  int n_embedding, n_layers, n_head;
  int first_layer; /* within the stage */
  int n_dense;     /* of n_layers, as Work.n_dense */
} Part;

static inline Part part_of_work(const Work *work, int first_layer) {
  return (Part){work->n_embedding, work->n_layers, work->n_head, first_layer, work->n_dense};
}
static inline Part part_of_op(const Program *program, const Op *op) {
  return part_of_work(&g_array_index(program->works, Work, op->work), op->unit);
}
double part_parameters(const Workload *workload, const Part *part);        /* that it computes with, per tp rank */
double part_expert_parameters(const Workload *workload, const Part *part); /* of these, of the rank's experts */
double part_sharded_parameters(const Workload *workload,
                               const Part *part); /* of these, in shards from some ZeRO stage */
/* The same, but a matrix that embedding and head share on one pipeline rank only with `keeper`, one of the two. Over
 * all parts this sums to the stages' parameters. */
double part_parameters_once(const Workload *workload, const Part *part, Piece keeper);
double part_flops(const Workload *workload, Phase phase, const Part *part);
/* Index of the Work that does `part` in `phase`. */
gint32 part_work(Program *program, const Workload *workload, Phase phase, const Part *part);
/* The whole stage. */
Part part_of_stage(const Workload *workload, int stage);
/* Sums of what the pieces of a part leave behind, and the largest transient among them. */
PieceMemory part_memory(const Workload *workload, const Part *part);
/* Cut `part` so that each cut has at least `least_parameters` (the last one what is left), in forward or in backward
 * order; 0 cuts piece by piece. Appends to `cuts` (of Part). */
void part_cut(const Workload *workload, const Part *part, gboolean backward, double least_parameters, GArray *cuts);

Phase phase_of_action(ActionKind kind); /* F I W B only */
/* B, or W where the order has I and W apart: the op after which a gradient is whole. */
gboolean action_completes_gradient(ActionKind kind);

/* Ranks that share one set of ZeRO shards, and copies of that set. */
int lowering_shards(const Workload *workload);
int lowering_replicas(const Workload *workload);
/* The same of the experts' parameters; and ranks that hold the same ones where nothing is sharded. */
int lowering_expert_shards(const Workload *workload);
int lowering_expert_copies(const Workload *workload);
/* Either has shards; where experts are whole (--expert-tp 1) theirs span ranks of tp too, those of all else may not. */
gboolean lowering_is_sharded(const Workload *workload);
/* Any gradient is summed over ranks that hold the same parameters. */
gboolean lowering_reduces(const Workload *workload);
/* Gradients move in buckets: they are reduced, or leave for the host. */
gboolean lowering_makes_buckets(const Workload *workload);
/* Rounds of a schedule (Action.joins_next) take turns at exchanges with experts. */
gboolean lowering_takes_turns(const Workload *workload);
/* ZeRO-1 under a framework whose ranks own whole matrices and broadcast what they updated. */
gboolean lowering_broadcasts_weights(const Workload *workload);
/* That each have all parameters gathered behind the update (ZeRO-1 and 2): of experts one of their own, or 1. */
int lowering_optimizers(const Workload *workload);
/* Ranks that own any of a stage's matrices, of experts or all others: at most as many as there are. */
int lowering_owners(const Workload *workload, int stage, gboolean of_experts);
/* Parameters are gathered when they are first needed (ZeRO-3; ZeRO-1 and 2 with overlap_param), not after the
 * optimizer. */
gboolean lowering_gathers_early(const Workload *workload);
/* ZeRO-3 under a framework that moves each matrix in a collective of its own. */
gboolean lowering_moves_tensors(const Workload *workload);
/* … and a layer has more parameters than it keeps gathered. */
gboolean lowering_exceeds_live(const Workload *workload);
/* ZeRO-3: pieces gathered ahead of the one that is computed with. */
int lowering_window(const Workload *workload);
/* ZeRO ≥ 2 on two pipes: the word table that further heads look tokens up in is reduced with each of their backwards
 * too, as the embedding's are of other micro-batches. Its parameters; 0: it is not. */
double lowering_heads_table(const Workload *workload);
/* Parameters that a collective moves: of `part` those of experts, or all others, a matrix that embedding and head share
 * on one pipeline rank only with `keeper`, one of the two; with the head's the table that it looks tokens up in. */
typedef struct {
  Part part;
  Piece keeper;
  gboolean of_experts, with_heads_table;
} Moved;
double moved_parameters(const Workload *workload, const Moved *moved);
/* What is done with parameters or gradients of a stage over ranks of dp. */
typedef struct {
  ActionKind action;
  int stage;
  Collective collective;
  AxisSet axes; /* a subset of dp */
  double bytes; /* full buffer */
} DpCollective;
enum { MOST_REDUCTIONS = 4 }; /* of a gradient: over shards and their replicas, of experts and of all else */
/* The op of it on the dp stream, for the stage's `moved`: of experts, over the ranks along the axes that have the same
 * ones. */
Op dp_collective(Program *program, const Workload *workload, const DpCollective *done, const Moved *moved);

/* What the optimizer pass moves and updates, by rank or stage. Bytes as Transfer.bytes. */
double tied_gradient_bytes(const Workload *workload);
double copied_gradient_bytes(const Workload *workload, int stage);
double whole_gradient_bytes(const Workload *workload, int rank);
double optimizer_parameters(const Workload *workload, int rank);
double optimizer_passed(const Workload *workload, int rank); /* Work.passed */

/* An activation or gradient on its way from one stage to another. */
typedef struct {
  gboolean forward;
  int stage, target_stage; /* that makes it, that takes it; target −1: none */
  int micro_batch;
  int from, to; /* their ranks */
} Product;
Product product_of(const Program *program, const Order *order, gboolean forward, int stage, int micro_batch);

/* Sends and receives of products, which differ by micro-batch alone: each Transfer is looked for once. */
typedef struct {
  Program *program; /* borrowed */
  double bytes;     /* of each */
  Op *ops;          /* [stages][of the gradient, of the activation that a stage makes][receive, send] of micro-batch 0;
                       Op.work −1: not yet; owned */
} ProductTransfers;
void product_transfers_init(ProductTransfers *transfers, Program *program, double bytes);
void product_transfers_clear(ProductTransfers *transfers);
/* *op becomes the send of a product, or its receive. Waits for nothing yet. */
void product_transfer(const ProductTransfers *transfers, gboolean sends, const Product *product, Op *op);

/* Whether a compute op is the first of its action: parts of one action stand together, with gathers between them. */
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

/* Without overlap_p2p `op`, which will stand behind the new list, waits for what was sent since the last compute op, as
 * that op's successor would. */
void lowering_await_sends(Op *op, const OpEditor *editor, const Plan *plan);

/* The sends and receives of a runtime that waits for its transfers (Order.exchange; exchange.c); synchronous: its host
 * waits as well. */
void exchange_send_recv(Program *program, const Order *order, double boundary_bytes, gboolean is_synchronous);

/* The lane on which rank `from` sends an activation (forward) or a gradient to rank `to`; the receive's is the next. */
Stream lowering_send_stream(int n_ranks, gboolean forward, int from, int to);

void pass_place(Program *program, const Lowering *lowering);
void pass_unshard(Program *program, const Lowering *lowering);
void pass_send_recv(Program *program, const Lowering *lowering);
void pass_reduce_grad(Program *program, const Lowering *lowering);
void pass_optimizer(Program *program, const Lowering *lowering);
void pass_offload(Program *program, const Lowering *lowering);
void pass_memory(Program *program, const Lowering *lowering);
