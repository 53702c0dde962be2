/* Sizes of one GPU's share of the model under a plan: used to list kernels and to run them. */
#pragma once
#include "workload.h"

/* One GPU's share. Tokens are those of one micro-batch. */
typedef struct {
  const Model *model;   /* borrowed */
  const Method *method; /* borrowed */
  gint64 tp, cp;
  gboolean sequence_parallel; /* set, and tp > 1 */
  gint64 sequences, seq_len;  /* b; s, the tokens of a sequence that this rank holds: all / cp */
  gint64 tokens;              /* b·s: what linear layers and attention see */
  gint64 split_tokens;        /* what norms, dropout and residuals see: b·s/tp under sequence parallelism */
  gint64 heads;               /* query heads of this rank */
  gint64 q_width, kv_width;   /* columns of Q; of K */
  gint64 v_width, out_width;  /* columns of V; of attention's output */
  gint64 kv_copies;           /* copies of each head of K and V that Ulysses makes before the exchange: cp over the
                                 number of heads, ≥ 1 */
  gint64 ffn_width, up_width; /* columns of the activation's output; of its input: twice that when gated */
  gint64 shared_width;        /* as ffn_width, for the shared expert; 0: none */
  gint64 expert_width;        /* as ffn_width, for each expert */
  gint64 n_experts;           /* on this rank; 0: the model has none */
  gint64 routed_tokens;       /* rows that this rank sends to experts: split_tokens times the experts per token */
  gint64 expert_rows;   /* total rows of its experts, if it is the fullest rank of ep: routed_tokens · expert_load;
                           with experts cut by tp, from all tp ranks; rounded up */
  gint64 expert_tokens; /* rows of each expert, rounded up */
  gint64 vocab_width;   /* vocabulary cut by tp, here padded to a multiple of 128 unless a framework has it as is */
  gint64 n_norms;       /* in a layer, before its branches */
  gint64 n_post_norms;  /* in a layer, after its branches */
  gint64 n_inputs;      /* tensors that its branches read: outputs of the norms before them, or the stream itself */
  gboolean shared_norm; /* attention and MLP of a parallel block read one norm's output */
  double element_bytes, linear_bytes; /* per element of activations; of the operands of a layer's linears */
  gboolean casts;                     /* the linears multiply in a narrower format than activations have */
  double gradient_bytes;              /* per element of the accumulated weight gradient */
  const Batch *batch;                 /* NULL: all sequences have seq_len · cp tokens; borrowed, as is the next */
  const MicroBatch *documents;        /* of rows, to which attention is confined; NULL: of the whole row */
  double scores;                      /* elements of this rank's attention matrices: b·heads·s² */
} LocalSizes;

/* For frameworks that add each weight gradient to the sum of earlier micro-batches by a separate kernel
 * (gradient_sums: apart): the bytes that this kernel reads and writes per parameter and micro-batch. All m
 * micro-batches of a step run it, unless the sum has the format of the gradients: then the first micro-batch's
 * gradient is the sum, and every one is charged (m − 1)/m of the bytes. Bytes that the framework states
 * (gradient_add_bytes) are charged as they are. Its launch is not counted. */
double local_added_bytes(const LocalSizes *local);

/* For norms of q and k that span all heads, which tp cuts: how many numbers per token the tp ranks sum, for both
 * norms together. An RMSNorm needs Σx², a LayerNorm Σx too. */
static inline int local_n_qk_sums(const LocalSizes *local) {
  return local->model->norm == NORM_RMSNORM ? 2 : 4;
}

/* Columns of K and V on this rank; and of Q, K and V as exchanged by Ulysses, which first copies heads of K and V
 * until every rank of cp has one (kv_copies). Attention's backward reads the latter. */
static inline gint64 local_own_kv_width(const LocalSizes *local) {
  return local->kv_width + local->v_width;
}

static inline gint64 local_dealt_width(const LocalSizes *local) {
  return local->q_width + local->kv_copies * local_own_kv_width(local);
}

LocalSizes local_sizes_of(const Model *model, const Method *method);
/* The same for a micro-batch with lengths of its own. */
LocalSizes local_sizes_of_micro_batch(const Model *model, const Method *method, const Batch *batch,
                                      const MicroBatch *micro_batch);
/* Parameters on one tp rank: matrices are cut; norms and biases of row-parallel linears are whole. */
gint64 local_vocab_parameters(const LocalSizes *local); /* one vocabulary matrix */
gint64 local_piece_parameters(const LocalSizes *local, Piece piece);
gint64 local_piece_vectors(const LocalSizes *local, Piece piece);     /* number of its norms' and biases' tensors */
gint64 local_expert_parameters(const LocalSizes *local, Piece piece); /* those of the rank's experts */
gint64 local_layer_matrices(const LocalSizes *local); /* elements of a layer's linears; of experts, those of
                                              one */
gint64 local_linear_parameters(const LocalSizes *local,
                               Piece piece); /* those of a layer's linears, experts' included */
/* Of its weight matrices, those of experts or the others. */
LowRank local_low_rank(const LocalSizes *local, Piece piece, gboolean of_experts, int rank);
/* Those of a layer's adapters, of experts' or of the others'; `summed`: only those whose gradients tp sums. */
gint64 local_adapter_parameters(const LocalSizes *local, Piece piece, gboolean of_experts, gboolean summed);
/* Parameters that every tp rank holds whole, but whose gradient it computes only from its own tokens or heads, so
 * that the gradients are all-reduced over tp: under sequence parallelism everything that tp does not cut, otherwise
 * norms of q and k. */
gint64 local_tp_summed_parameters(const LocalSizes *local, Piece piece);
