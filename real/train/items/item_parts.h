/* What the files of this room share. Private to it. */
#pragma once
#include "item_tables.h"

extern const float item_norm_epsilon; /* of all norms, whatever the config says: it does not change the time */
extern const double item_rope_base;   /* of rotary positions, likewise */
extern const float item_logit_cap;    /* of capped logits, likewise */

/* What the call works in: all of the trainer's activations, how they are cut, and of the call's layer what was saved
 * and its gradients. */
static inline const Activations *item_memory(const ItemCall *call) {
  return &call->trainer->activations;
}

static inline const Cut *item_cut(const ItemCall *call) {
  return item_memory(call)->cut;
}

static inline SavedLayer item_saved(const ItemCall *call) {
  return activations_layer(item_memory(call), call->slot, call->layer);
}

/* Without looking for them where there are none. */
static inline KeptProducts item_kept_products(const ItemCall *call) {
  return item_memory(call)->every_other ? item_saved(call).products : (KeptProducts){0};
}

static inline LayerGradients item_gradients(const ItemCall *call) {
  return activations_gradients(item_memory(call), call->slot, call->layer);
}

/* Of weights and activations. */
static inline Number item_number(const ItemCall *call) {
  return call->trainer->parameters->number;
}

/* A norm over rows of this rank's stream, dense, with the block's weights and, backward, their gradients; the shift's
 * role follows the weight's. `kept`: NULL where the caller says what is read. */
NormKernel item_norm(const ItemCall *call, const Block *block, Role weight, const SavedNorm *kept);
void item_launch(const ItemCall *call, const Kernel *kernel);
/* The item's collective over its group, a sum where it reduces; `n` elements of the whole buffer. */
void item_collective(const ItemCall *call, Number number, const void *in, void *out, gint64 n);
/* The same of tokens × hidden, in the number of activations. */
void item_hidden_collective(const ItemCall *call, const void *in, void *out);

/* Blocks of rows, of which the first begins at `at`. */
typedef struct {
  char *at;
  gint64 ld, step; /* elements from a row to the next; from a block to the next */
} Rows;

typedef struct {
  gint64 batch, rows, width; /* blocks; rows of each; elements of a row */
} Extent;

/* out = a + b, in the number of activations; b.at NULL: a alone; a.at NULL too: zeros. */
void item_move(const ItemCall *call, Extent extent, Rows a, Rows b, Rows out);
void item_copy(const ItemCall *call, Extent extent, Rows from, Rows to);
/* Fused attention of this rank's queries to its keys, all of them. */
FlashKernel item_flash(const ItemCall *call, gboolean is_backward);
/* Over the ranks of cp: the micro-batch's loss. */
void item_sum_loss(const ItemCall *call);
/* One of a model's factors, 1 where it is as others'. */
float item_factor(double factor);
/* C = factor·A·B in the item's layout and sizes, dense operands; the gradient's adds to it. */
void item_product(const ItemCall *call, float factor, const void *a, const void *b, void *c, const void *bias);
void item_weight_gradient(const ItemCall *call, float factor, const void *a, const void *b, void *gradient);
typedef struct {
  float factor;
  const void *a, *b, *bias; /* bias NULL: none */
  char *c;
} LinearOperands;

/* item_product() of QKV, or else of up, of which selective recompute by products keeps some columns (kept_items.c). */
void item_keeping_product(const ItemCall *call, gboolean of_qkv, const LinearOperands *operands);
/* Where mlp_down's output is kept as the product makes it; NULL: it is not. */
char *item_kept_down(const ItemCall *call);
/* The same, the factor 1, with rows of C, and of A forward and of B for the weights, so many elements apart; 0: dense.
 */
void item_product_in(const ItemCall *call, const void *a, gint64 lda, const void *b, void *c, gint64 ldc);
void item_weight_gradient_in(const ItemCall *call, const void *a, const void *b, gint64 ldb, void *gradient);
/* The same for each expert of the rank, whose weights lie `stride` elements apart; all else is dense. */
void item_group(const ItemCall *call, const void *a, const void *b, void *c, gint64 stride);
/* The activation between an expert's products, or the shared one's, by its occurrence in the list (expert_items.c). */
void item_expert_activation(const ItemCall *call);
/* The order in which a layer deals out experts; the choice, or its gradient (argument). Rows of a rank's experts, on
 * their way there or back, and the gradients of their weights; the same of the weights of its own tokens, by row; where
 * what came back of tokens, or of their gradients, is summed. */
gint64 item_expert_shift(const ItemCall *call);
void item_expert_choice(const ItemCall *call);
char *item_expert_rows(const ItemCall *call, gboolean is_out);
float *item_expert_row_gradients(const ItemCall *call);
float *item_expert_weight_gradients(const ItemCall *call);
char *item_expert_sum(const ItemCall *call);
Block *item_block(const ItemCall *call, BlockKind kind);
/* After a row-parallel product or an input gradient: the sum over tp. */
const char *item_reduced(const ItemCall *call);
/* Gradient of the output of the call's layer. */
char *item_output_gradient(const ItemCall *call);
/* The same of what its last residual adds. */
char *item_branch_gradient(const ItemCall *call);

/* Where a layer, or the embedding, drops: each place has random numbers of its own, by layer and step. */
typedef enum { DROP_EMBEDDING, DROP_PROBABILITIES, DROP_ATTENTION, DROP_MLP, N_DROPS } Drop;
/* Of this rank's heads' probabilities. */
ScoreDropout item_score_dropout(const ItemCall *call);
/* out = a + drop(b + bias) over rows of the stream, dense; a NULL: zeros. */
void item_drop_add(const ItemCall *call, Drop drop, const void *a, const void *b, const void *bias, void *out);
/* T′ × h: where the embedding writes, and the gradient that comes back to it; a stage may have nothing else. */
char *item_embedding_output(const ItemCall *call);
char *item_embedding_gradient(const ItemCall *call);
/* T × h: the latter, gathered under sequence parallelism. */
char *item_embedding_gathered(const ItemCall *call);
/* T′ × h: gradient of what the call's head reads. */
char *item_head_gradient(const ItemCall *call);
