/* Private to this floor: how a piece of the model becomes a list of kernels, and what it keeps.
 *
 *     Cut        sizes of one GPU's share under the plan            cut.c
 *     ItemList   a growing list of items on two streams             item_list.c
 *     linears    a cut linear layer, forward and backward           linear.c
 *     pieces     layer (layer.c, attention.c), embedding and head (ends.c)
 *     memory     what each piece saves for its backward             piece_memory.c */
#pragma once
#include "workload.h"

/* One GPU's share. Tokens are those of one micro-batch. */
typedef struct {
  const Model *model; /* borrowed */
  const Plan *plan;   /* borrowed */
  gint64 tp;
  gboolean sequence_parallel;          /* and tp > 1 */
  gint64 sequences, seq_len;           /* b, s */
  gint64 tokens;                       /* b·s: what linear layers and attention see */
  gint64 split_tokens;                 /* b·s/tp under sequence parallelism: norms, dropout, residuals; else b·s */
  gint64 heads;                        /* query heads of this rank */
  gint64 q_width, kv_width;            /* columns of Q; of K, and of V */
  gint64 ffn_width, up_width;          /* columns of the activation's output; of its input: twice that when gated */
  gint64 vocab_width;                  /* vocabulary padded to a multiple of 128·tp, cut by tp */
  gint64 n_norm_inputs;                /* distinct tensors normalised in a layer: 2, or 1 in a parallel block */
  gboolean shared_norm;                /* attention and MLP of a parallel block read one norm's output */
  double element_bytes, linear_bytes;  /* bytes per element: activations; operands of the layers' linears */
  gboolean casts;                      /* the linears multiply in a narrower format than activations have */
  double gradient_bytes;               /* per element of the accumulated weight gradient */
  double scores;                       /* elements of this rank's attention matrices: b·heads·s² */
} Cut;

Cut cut_of(const Model *model, const Plan *plan);
/* Parameters on one tp rank: matrices cut, norms and the biases of row-parallel linears whole. */
gint64 cut_matrix_parameters(const Cut *cut); /* the vocabulary matrix */
gint64 cut_piece_parameters(const Cut *cut, Piece piece);

enum { NO_ITEM = -1 };

/* A list being built. A compute item waits for the collectives given to item_list_wait() since the one before it; a
 * collective waits, as NCCL does under PyTorch, for all compute issued before it. */
typedef struct {
  const Cut *cut;
  GArray *items; /* of WorkItem; owned */
  gboolean input_gradients, weight_gradients; /* which half of backward is being listed: I, W, or both for B */
  gboolean recompute;                         /* mark what is added as forward work done again */
  gint32 last_compute;                        /* index of the latest compute item; NO_ITEM */
  gint32 awaited;                             /* latest collective the next compute item needs; NO_ITEM */
} ItemList;

typedef struct {
  gint64 batch, m, n, k;
} MatmulShape;

void item_list_matmul(ItemList *list, const char *name, Number number, MatmulLayout layout, MatmulShape shape,
                      double bytes);
void item_list_attention(ItemList *list, const char *name, gboolean backward, double flops, double bytes);
void item_list_memory(ItemList *list, const char *name, double bytes);
/* Over the tp group, full buffer `bytes`; nothing (NO_ITEM) when tp is 1. The result must be waited for before use. */
gint32 item_list_collective(ItemList *list, Collective collective, double bytes);
void item_list_wait(ItemList *list, gint32 collective);

/* A linear layer Y(tokens, n) = X(tokens, k)·W(k, n), cut by tp in columns (n; X whole) or rows (k; Y summed). */
typedef struct {
  const struct LinearNames *names;
  gint64 n, k; /* of this rank */
  Number number;
  double bytes;         /* per operand element */
  gboolean has_bias;
  gboolean keeps_apart; /* the tp collectives around it are another's: branches of a parallel block share them */
} Linear;

typedef enum { LINEAR_QKV, LINEAR_ATTN_OUT, LINEAR_MLP_UP, LINEAR_MLP_DOWN, LINEAR_LOGITS, N_LINEARS } LinearKind;
Linear linear_of(const Cut *cut, LinearKind kind);

/* Column-parallel: forward gathers X under sequence parallelism; backward sums its gradient over tp, beside the weight
 * gradient. Row-parallel: forward sums Y over tp (all_reduce, or reduce_scatter); backward gathers Y's gradient. */
void linear_column_forward(ItemList *list, const Linear *linear);
void linear_column_backward(ItemList *list, const Linear *linear);
void linear_row_forward(ItemList *list, const Linear *linear);
void linear_row_backward(ItemList *list, const Linear *linear);

/* tp collectives at the borders of a tensor-parallel region, for activations of width `hidden`. */
gint32 region_gather(ItemList *list); /* sequence parallelism: all_gather; else nothing */
gint32 region_reduce(ItemList *list); /* all_reduce, or reduce_scatter under sequence parallelism */

void attention_forward(ItemList *list);
void attention_backward(ItemList *list);

void layer_forward(ItemList *list);
void layer_backward(ItemList *list);
void embedding_forward(ItemList *list);
void embedding_backward(ItemList *list);
void head_forward(ItemList *list);
void head_backward(ItemList *list);

/* The finished list of a phase; empty (NULL items) where a piece has nothing to do in it. */
WorkList piece_list(const Cut *cut, Piece piece, Phase phase);
PieceMemory piece_memory(const Cut *cut, Piece piece);
