/* What must be computed and held: the transformer under a plan, cut into pieces, as lists of kernels per phase.
 *
 * Every stage is  [embedding] layer × n [head + loss], of a few kinds of layers (piece.h). So a plan has few pieces ×
 * 4 phases of distinct work, and any op of any stage is a count of each. Compute items run in list order on the compute
 * stream, COLLECTIVE items in list order on the tp, cp or ep stream; `after` orders items across streams. A piece ends
 * when all its streams have ended.
 *
 *     F   forward
 *     I   gradient with respect to the input (full recompute: forward again, then the gradient)
 *     W   gradient with respect to the weights, accumulated into the main gradient
 *     B   I and W in one, as frameworks run them: layer by layer, each weight gradient beside the tp collective of
 *         its input gradient
 *
 * Sizes are per GPU: cp cuts the sequence; tp cuts hidden and heads, and under sequence parallelism the sequence once
 * more. Formulas: Korthikanti et al., arXiv 2205.05198 §4 (activations, sequence parallelism); Shoeybi et al., arXiv
 * 1909.08053 (tensor parallelism). */
#pragma once
#include "batch.h"
#include "compressed_sum.h"
#include "layout.h"
#include "model.h"
#include "piece_facts.h"
#include "placement.h"
#include "state_memory.h"
#include "work_item.h"

typedef enum { PHASE_F, PHASE_I, PHASE_W, PHASE_B, PHASE_OPTIMIZER, N_PHASES } Phase;
/* Axes whose collectives are items: AXIS_TP, AXIS_CP and AXIS_EP. */
enum { N_ITEM_AXES = AXIS_EP + 1 };

typedef struct {
  WorkItem *items; /* of the Workload's */
  int n_items;
  double flops; /* sums over items, recompute included */
  double recompute_flops;
} WorkList;

/* Activation bytes that one micro-batch leaves behind in a piece after F; whole numbers. */
typedef struct {
  double saved_bytes;     /* held from F until backward has used them */
  double released_by_I;   /* part of saved_bytes that I frees; W (or B) frees the rest */
  double held_for_W;      /* what I adds for W (output gradients of the linears) when W runs separately */
  double transient_bytes; /* held in addition only while B (or I) of this piece runs: recomputed activations (of a
                             group of layers that is recomputed at once, those of all), gradients in flight */
} PieceMemory;

typedef struct {
  StageLayers layers;
  gint64 expert_parameters; /* part of `parameters`: those of this rank's experts */
  gint64 parameters;        /* on one tp rank of this stage; a tied matrix counts on both end stages, or only with the
                               embedding if one rank holds both */
  gint64 trained_experts, trained;          /* of either, those that are trained */
  double expert_weight_bytes, weight_bytes; /* of either, before ZeRO */
  gint64 tp_summed_parameters;              /* part of `parameters`: those whose gradients are summed over tp
                                               (local_tp_summed_parameters()) */
} StageWork;

/* What a micro-batch with lengths of its own has in place of the Workload's. */
typedef struct {
  WorkItem *items; /* owned */
  WorkList work[N_PIECES][N_PHASES];
  PieceMemory memory[N_PIECES];
  double boundary_bytes;
} MicroBatchWork;

typedef struct {
  Model *model;         /* owned copies */
  Method *method;       /* owned; pipeline_layout, if one was asked for, is the resulting list of layers */
  Plan *plan;           /* of the method, for floors that know plans */
  Placement *placement; /* owned copy */
  Layout layout;
  WorkItem *items;                   /* of all lists; owned; NULL: there are none yet */
  WorkList work[N_PIECES][N_PHASES]; /* PHASE_OPTIMIZER empty: see workload_optimizer_item */
  PieceMemory memory[N_PIECES];
  gint64 expert_parameters[N_PIECES]; /* part of piece_parameters: those of this rank's experts */
  gint64
      piece_parameters[N_PIECES]; /* on one tp rank; EMBEDDING's and HEAD's when present (tied: the matrix in both) */
  gint64 trained_experts[N_PIECES], trained[N_PIECES];          /* of either, those that are trained */
  double expert_weight_bytes[N_PIECES], weight_bytes[N_PIECES]; /* of either */
  LowRank low_rank_experts[N_PIECES], low_rank[N_PIECES]; /* matrices of experts, and the others; only with powersgd */
  StageWork *stages;                                      /* [pp · chunks], virtual stage order */
  int n_stages;
  gint64
      tied_parameters; /* of the matrix that first and last stage both hold on different ranks, per tp rank; else 0 */
  gint64 shared_parameters; /* of the matrix that embedding and head share on one rank; otherwise 0 */
  double framework_bytes;   /* what the plan's framework keeps on every rank all the time; and under any framework the
                               buffer that tokens are gathered into, like Megatron Core's GlobalMemoryBuffer */
  double boundary_bytes;    /* activation of one micro-batch sent between stages, per GPU */
  Batch *batch;             /* a reference; NULL: all sequences are as long as seq_len */
  /* [n_micro_batches] of rank `dp` of dp; NULL: all are alike, and what is above holds. Otherwise that is of a
   * micro-batch whose sequences are all as long as seq_len. Owned */
  MicroBatchWork *micro_batches;
  int dp;
} Workload;

/* `lengths`: of which micro-batch, counted from 1; 0: any, all being alike. */
static inline const WorkList *workload_list(const Workload *workload, gint32 lengths, Piece piece, Phase phase) {
  return lengths > 0 ? &workload->micro_batches[lengths - 1].work[piece][phase] : &workload->work[piece][phase];
}
static inline const PieceMemory *workload_memory(const Workload *workload, gint32 lengths, Piece piece) {
  return lengths > 0 ? &workload->micro_batches[lengths - 1].memory[piece] : &workload->memory[piece];
}
static inline double workload_boundary_bytes(const Workload *workload, gint32 lengths) {
  return lengths > 0 ? workload->micro_batches[lengths - 1].boundary_bytes : workload->boundary_bytes;
}
/* Of a micro-batch counted from 0, or −1. */
static inline gint32 workload_lengths(const Workload *workload, gint32 micro_batch) {
  return workload != NULL && workload->micro_batches != NULL ? micro_batch + 1 : 0;
}
/* The same step, with lists, on another rank of dp, where micro-batches have other lengths: all but these is shared
 * with `workload`, which outlives it. */
void workload_view_init(Workload *view, const Workload *workload, int dp);
void workload_view_clear(Workload *view);
/* Makes it that of another rank of dp, with lists. */
void workload_set_data_rank(Workload *workload, int dp);
/* Tokens of a step, without padding. */
double workload_tokens(const Workload *workload);

/* The axes over whose ranks a collective inside a layer runs. */
static inline AxisSet work_item_axes(const WorkItem *item) {
  return AXIS_BIT(item->axis) | (item->spans_tp ? AXIS_BIT(AXIS_TP) : 0);
}

/* Takes over the method, of this model. Never fails: plan_complete() has refused what cannot be cut. */
Workload *workload_of_method(const Model *model, Method *method);
/* Of a plan, which is completed on a copy; INPUT or IMPOSSIBLE as method_complete(). */
Workload *workload_complete(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
/* The same without work lists, which are most of the work: for what a plan holds, and where. workload_add_lists() adds
 * them, if they are not there. */
Workload *workload_outline_of_method(const Model *model, Method *method);
Workload *workload_outline(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
void workload_add_lists(Workload *workload);
/* Of a complete plan; `placement`: one of its pp × chunks stages, NULL: that of its schedule. */
Workload *workload_new(const Model *model, const Plan *plan, const Placement *placement);
void workload_free(Workload *workload);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Workload, workload_free)

/* Whether the word table is, and the matrix of the output layer. */
gboolean workload_trains_table(const Workload *workload, Piece piece);
/* Of the matrix that embedding and head share on one rank; 0: none. */
double workload_table_bytes(const Workload *workload);

/* The gradients of a stage that are summed over ranks with the same parameters: those of its experts, or the others. */
CompressedSum workload_stage_sum(const Workload *workload, int stage, gboolean of_experts);

/* One Adam step over `parameters` parameters on this GPU under the plan's recipe: one memory-bound kernel. */
WorkItem workload_optimizer_item(const Workload *workload, double parameters);
/* Parameters of a stage that this rank's optimizer updates (÷ shards for ZeRO ≥ 1, experts' by theirs). */
double workload_optimizer_parameters(const Workload *workload, int stage);
/* Number of weight matrices of a piece, or of a stage, on this rank: those of its experts, each counted, or all
 * others. Norms and biases are not counted. */
int workload_piece_matrices(const Workload *workload, Piece piece, gboolean of_experts);
int workload_stage_matrices(const Workload *workload, int stage, gboolean of_experts);
/* Weights, gradients and optimizer of a stage on one rank, under ZeRO stage `zero`, each in whole bytes. */
StateBytes workload_stage_state(const Workload *workload, int stage, int zero);

/* Whether heads that predict further tokens look words up in the table of an embedding on their own rank: then both
 * add to its gradient. */
gboolean workload_heads_read_embedding(const Workload *workload);

/* Model FLOPs of one step over all GPUs: the model's matrix products, forward × 3, no recompute, by the plan's
 * convention (causal; megatron: attention in full; 6n: 6·N·tokens). */
double workload_model_flops(const Workload *workload);
/* The same with recomputed forward work added (for HFU). */
double workload_hardware_flops(const Workload *workload);

/* Whether reduced gradients (those of experts, or all others) are copied out after every micro-batch and summed in
 * host memory: from ZeRO-2 on, unless several data parallel ranks each hold all gradients whole (one shard).
 * Otherwise the GPU sums them and copies them out once per step. */
gboolean workload_gradients_leave(const Workload *workload, gboolean of_experts);

/* Parameters of a stage for which a rank takes outer steps: its part of those that its island holds; 0 without
 * islands. */
double workload_outer_parameters(const Workload *workload, int stage);
/* Where the state of a stage is held: on the GPU, in its node's memory, or on the node's drives (plan/offload.h).
 * Sources: ZeRO-Offload, arXiv 2101.06840 §3 (gradients, master copy and moments on the host: 14 of 16 bytes a
 * parameter); ZeRO-Infinity, arXiv 2104.07857 §5. Each part in whole bytes: what the GPU (workload_stage_state() if
 * nothing is offloaded), its node's memory and the drives hold. Gradients are where method_gradient_tier() says, and
 * also on the GPU if they are still summed there. Excludes the buffers that pieces pass through. */
void workload_stage_tiers(const Workload *workload, int stage, StateBytes tiers[N_TIERS]);
