/* Private to pieces/: how a piece of the model becomes lists of kernels, and what it saves.
 *
 *     LocalSizes  sizes of one GPU's share under the plan           local_sizes.h
 *     ItemList    a growing list of items on their streams          item_list.c
 *     Linear      a linear layer cut by tp, forward and backward    linear.c
 *     pieces      the layer (layer.c, pointwise.c, attention.c, latent.c, context.c, experts.c), what comes before
 *                 and after (embedding.c, head.c, mtp.c), and which phase lists what (pieces.c)
 *     memory      what a piece saves for its backward               piece_memory.c */
#pragma once
#include "local_sizes.h"
#include "workload.h"

enum { NO_ITEM = -1 };

/* The items of all lists of a workload, one list behind the other. */
typedef struct {
  WorkItem *items; /* owned */
  int n, room;
} WorkItems;

/* A list being built, the last of its items. A compute item waits for the latest collective given to item_list_wait().
 * A collective waits, as NCCL's do under PyTorch, for all compute listed before it. */
typedef struct {
  const LocalSizes *local;
  Piece piece; /* LAYER or DENSE_LAYER for any such */
  WorkItems *all;
  int first;                                  /* of `all`; indices count from it */
  gboolean input_gradients, weight_gradients; /* the half of backward being listed: I, W, or both for B */
  gboolean is_adapted;                        /* products have adapters, and their weights no gradients */
  gboolean is_frozen;                         /* weights of products are not trained */
  gboolean recompute;                         /* items being added are recomputed forward work */
  int mtp;                                    /* WorkItem.mtp of items being added */
  gboolean every_other; /* … without attention and every other product, whose results were kept */
  gboolean stops_early; /* … up to the last result that backward reads */
  gboolean host_waits;  /* WorkItem.host_waits of the next compute item */
  gint32 last_compute;  /* index of the latest compute item, or NO_ITEM */
  gint32 awaited;       /* latest collective the next compute item needs, or NO_ITEM */
} ItemList;

typedef struct {
  gint64 batch, m, n, k;
} MatmulShape;

/* What one attention kernel processes, per sequence of the micro-batch. */
typedef struct {
  gint64 sequences; /* 0: the rank's */
  gint64 heads, kv_heads;
  gint64 queries, keys; /* rows of Q (and O); of K and V */
  double pairs;         /* pairs of query and key that the causal mask leaves in each head */
  gboolean windowed;    /* … and a window */
} AttentionBlock;

void item_list_init(ItemList *list, const LocalSizes *local, Piece piece, WorkItems *all);
/* The item of an index, until another is added. */
static inline WorkItem *item_list_nth(const ItemList *list, gint32 i) {
  return &list->all->items[list->first + i];
}
void item_list_matmul(ItemList *list, const char *name, Number number, MatmulLayout layout, MatmulShape shape,
                      double bytes);
/* C += A·B into the main gradient, with shape.m × shape.n elements for each of shape.batch. */
void item_list_weight_gradient(ItemList *list, const char *name, Number number, MatmulShape shape,
                               double operand_bytes);
/* One fused attention kernel, forward or backward. */
void item_list_attention(ItemList *list, gboolean backward, const AttentionBlock *block);
void item_list_memory(ItemList *list, const char *name, double bytes);
/* One item that stands for n_launches kernels, of `bytes` in total. */
void item_list_operations(ItemList *list, const char *name, int n_launches, double bytes);
/* The same, with strided_bytes of them by operations on parts of rows, or that broadcast an operand. */
void item_list_strided_operations(ItemList *list, const char *name, int n_launches, double bytes, double strided_bytes);
/* Before issuing the next compute item, the host waits for everything it has issued. */
void item_list_host_wait(ItemList *list);
/* An RMSNorm made of single operations, forward or backward. */
void item_list_plain_norm(ItemList *list, const char *name, double bytes);
/* A memory kernel on the path of the input gradient: omitted from W. */
void item_list_input_gradient(ItemList *list, const char *name, double bytes);
/* A collective over the group of `axis` (tp, cp or ep), full buffer `bytes`. Call item_list_wait() before its result
 * is used. `operand` as in WorkItem. */
gint32 item_list_collective(ItemList *list, Axis axis, Collective collective, const char *operand, double bytes);
/* The next compute item waits for the collective. It may wait for one axis only; a collective of another axis listed
 * before it takes over the wait. NO_ITEM: nothing to wait for. */
void item_list_wait(ItemList *list, gint32 collective);

/* Activations (tokens × hidden) entering and leaving a tensor-parallel region; NO_ITEM if nothing is sent. */
gint32 region_gather(ItemList *list, const char *operand); /* all_gather under sequence parallelism, otherwise
                                                              nothing */
gint32 region_reduce(ItemList *list, const char *operand); /* reduce_scatter under sequence parallelism, otherwise
                                                              all_reduce */
/* The same for tokens × `width`, gathered in elements of element_bytes. */
gint32 region_gather_columns(ItemList *list, const char *operand, gint64 width, double element_bytes);
gint32 region_reduce_columns(ItemList *list, const char *operand, gint64 width);

typedef struct LinearNames LinearNames;

/* Y(tokens, n) = X(tokens, k)·W(k, n), cut by tp in columns (n; X whole) or in rows (k; Y a partial sum). */
typedef struct {
  const LinearNames *names;
  gint64 n, k; /* of this rank */
  Number number;
  double bytes;        /* per operand element */
  gint64 region_width; /* columns that tp gathers before it, or reduces after it */
  gint64 tokens;       /* rows of X and Y; in a group, of each product */
  gint64 group;        /* number of products, each with its own weights, in one launch: this rank's experts; else 1 */
  gboolean casts;      /* operands are first converted from the element format */
  gboolean input_comes_narrow, gradient_comes_narrow; /* … except this operand, which already was, in the orientation
                                                         that W does not use */
  gboolean gathers_narrow;                            /* … by each rank of tp, before the gather */
  gboolean has_bias;
  gboolean is_local;          /* no tp collective around it */
  gboolean is_whole;          /* not cut by tp: each rank has all of W for its own tokens */
  gboolean region_of_another; /* the other branch of a parallel block does the tp collective around this one */
  gboolean joins_branches;    /* backward: adds the other branch's gradient of the input that both have read */
} Linear;

typedef enum {
  LINEAR_QKV,
  LINEAR_Q_DOWN,
  LINEAR_Q_UP,
  LINEAR_KV_DOWN,
  LINEAR_KV_UP,
  LINEAR_ATTN_OUT,
  LINEAR_MLP_UP,
  LINEAR_MLP_DOWN,
  LINEAR_ROUTER,
  LINEAR_EXPERT_UP,
  LINEAR_EXPERT_DOWN,
  LINEAR_SHARED_UP,
  LINEAR_SHARED_DOWN,
  LINEAR_LOGITS,
  LINEAR_MTP_PROJ,
  N_LINEARS
} LinearKind;
Linear linear_of(const LocalSizes *local, LinearKind kind);

typedef struct {
  const char *a, *b, *sum, *b_dgrad, *a_dgrad, *grad_sum, *b_wgrad, *a_wgrad;
} AdapterNames;
/* A(k, rank) and B(rank, n) beside so many columns of a linear. */
typedef struct {
  const AdapterNames *names;
  gint64 n, k;          /* of this rank */
  gint64 tokens, group; /* as the linear's */
  gint64 n_summed;      /* times rank and group: parameters whose gradients tp sums */
} Adapter;
enum { MOST_ADAPTERS = 3 };
/* Returns how many a linear has. */
int adapters_of(const LocalSizes *local, LinearKind kind, const Linear *linear, Adapter adapters[MOST_ADAPTERS]);
/* Nothing if the list's products have none. */
void adapters_forward(ItemList *list, LinearKind kind, const Linear *linear);
void adapters_input_gradient(ItemList *list, LinearKind kind, const Linear *linear);
void adapters_weight_gradient(ItemList *list, LinearKind kind, const Linear *linear);

/* The products of a layer in forward order; returns their number. */
int layer_linears(const LocalSizes *local, Piece piece, LinearKind kinds[N_LINEARS]);

/* Whether rows are sent to experts in the format of their products. */
gboolean sends_narrow(const LocalSizes *local);
/* Bytes that a conversion to the narrow format reads, per element. */
double cast_read_bytes(const LocalSizes *local);
/* Only the conversion of a product's input, if the product reads a narrower format. */
void linear_cast(ItemList *list, LinearKind kind);
void linear_column_forward(ItemList *list, LinearKind kind);
void linear_column_backward(ItemList *list, LinearKind kind);
void linear_row_forward(ItemList *list, LinearKind kind);
void linear_row_backward(ItemList *list, LinearKind kind);

/* Pairs of query and key that the causal mask and a window (0: none) leave in one head of one sequence. */
double attention_pairs(gint64 seq_len, gint64 window);
/* The same for a layer of the model; a mean if layers with and without a window alternate. */
double attention_layer_pairs(const Model *model, gint64 seq_len);
/* The same for the sequence's first `queries`. */
double attention_queries_pairs(const Model *model, gint64 seq_len, gint64 queries);
/* Where attention is confined to the documents of rows: as many sequences as they are on average, longer ones counting
 * for more (Σl² / Σl), so that a kernel has its fill and ramp, with the pairs that all documents have together. `cut`:
 * each over so many ranks; `pairs`: of a document, or of its part. */
AttentionBlock attention_of_documents(const LocalSizes *local, AttentionBlock whole, gint64 cut,
                                      double (*pairs)(const LocalSizes *local, gint64 length));
/* For these: of a whole document. */
double attention_document_pairs(const LocalSizes *local, gint64 length);
double attention_row_sums_bytes(const LocalSizes *local); /* a log-sum-exp in fp32 for each row of each head */
/* Flash attention over a sequence cut by cp > 1 (context.c). */
void context_attention(ItemList *list, gboolean backward);
/* Bytes of the gradients and buffers held while its backward runs. */
double context_buffer_bytes(const LocalSizes *local);
/* Latent attention: from the norm's output to Q, K and V, and back. */
void latent_forward(ItemList *list);
/* Its second half, from the outputs of the down projections. */
void latent_up_forward(ItemList *list);
void latent_backward(ItemList *list);
/* From Q, K and V to attention's output, and back. */
void attention_forward(ItemList *list);
void attention_backward(ItemList *list);

void norm_forward(ItemList *list, const char *name);
void norm_backward(ItemList *list, const char *name);
void dropout_backward(ItemList *list);
/* Bias, dropout and addition in one kernel: reads the branch and the stream, writes the stream and the mask. */
void residual_forward(ItemList *list);
/* The backward of the norm before the branch, if any; then adds the gradients of the branch and of the path around
 * it. */
void branch_backward_end(ItemList *list);
void rope_forward(ItemList *list);
void rope_backward(ItemList *list);
/* Nothing if q and k have no norms. */
void qk_norms_forward(ItemList *list);
void qk_norms_backward(ItemList *list);

/* What comes between the up and the down projection, for `rows` tokens of `width` columns. */
void mlp_activation_forward(ItemList *list, gint64 rows, gint64 width);
void mlp_activation_backward(ItemList *list, gint64 rows, gint64 width);
/* That of this rank's experts, with the gradients of the weights that were multiplied in. */
void expert_activation_backward(ItemList *list);
/* What a framework does around experts in single operations (expert_operations.c); nothing if it does not. The
 * backward ones go before the kernel that continues the same tensor's gradient. */
void expert_bound_forward(ItemList *list);
void expert_bound_backward(ItemList *list);
void expert_bias_forward(ItemList *list);
void expert_bias_backward(ItemList *list);
/* Tokens of all ranks that share experts, if each of these gathers them; otherwise 0. */
double expert_gathered_tokens(const LocalSizes *local);
/* Bytes of the buffer that tokens are gathered into on their way to experts. It persists from layer to layer. */
double expert_gathered_bytes(const LocalSizes *local);
/* Copies the rows of experts to, or from, tensors with padding rows. */
void expert_pad(ItemList *list, const char *name);
/* Replaces the MLP: router, experts, shared expert. */
void experts_forward(ItemList *list);
void experts_backward(ItemList *list);
/* A layer of the list's piece, DENSE_LAYER or LAYER. */
void layer_forward(ItemList *list);
void layer_backward(ItemList *list);
void embedding_forward(ItemList *list);
void embedding_backward(ItemList *list);
void head_forward(ItemList *list);
void head_backward(ItemList *list);
/* One head that predicts a further token, without its norm, logits and loss. */
void mtp_forward(ItemList *list);
void mtp_backward(ItemList *list);

/* Whether a module's forward is to be listed here to be recomputed: selective recompute includes the module, and the
 * half of backward that computes the input gradient is being listed. */
gboolean item_list_recomputes(const ItemList *list, RecomputeModule module);
/* List a forward as recomputed work. */
void item_list_recompute(ItemList *list, void (*forward)(ItemList *list));

/* Whether recomputing a dense layer stops before the MLP's last product (recompute_end of quirks.c). */
gboolean recompute_stops_early(const Model *model, const Method *method);

typedef struct {
  double weight_bytes, trained; /* parameters with gradients */
} CopiedParameters;
/* The finished list of a phase, whose items are behind the others of `all`; none if a piece has nothing to do in it.
 * `copied`: what ZeRO-3 copies of the piece from and to buffers (pieces.c). */
WorkList piece_list(const LocalSizes *local, Piece piece, Phase phase, const CopiedParameters *copied, WorkItems *all);
/* Chunks of tokens in which a chunked loss is computed. */
int local_loss_chunks(const LocalSizes *local);
/* `n_at_once`: layers that full recompute makes again together. */
PieceMemory piece_memory(const LocalSizes *local, Piece piece, int n_at_once);
