/* Shared by the files of this folder. Private to it. */
#pragma once
#include "trainer.h"

/* What each file of this folder implements, by item name. */
typedef struct {
  const char *name;
  ItemFunction run;
  int argument;
} ItemKernel;
extern const ItemKernel layer_kernels[], attention_kernels[], expert_kernels[], gathered_kernels[], dropout_kernels[],
    end_kernels[]; /* end with a NULL name */
extern const ItemKernel mtp_kernels[], adapter_kernels[];
extern const ItemKernel latent_kernels[]; /* take precedence over kernels of the same name in latent attention */
extern const ItemKernel tp_collectives[], latent_collectives[], mtp_collectives[], expert_collectives[],
    gathered_collectives[], context_collectives[]; /* by operand */
/* Where cp cuts sequences; they take precedence over kernels of the same name. */
const ItemKernel *context_kernels(const Method *method);

extern const float item_norm_epsilon; /* of all norms, whatever the config says: it does not change the time */
extern const double item_rope_base;   /* of rotary positions, likewise */
extern const float item_logit_cap;    /* of capped logits, likewise */

/* The memory an item works in: the trainer's activations, how they are cut, and the saved tensors and gradients of
 * the call's layer. */
static inline const Activations *item_memory(const ItemCall *call) {
  return &call->trainer->activations;
}

static inline const LocalSizes *item_local_sizes(const ItemCall *call) {
  return &call->trainer->shapes[call->micro_batch].local;
}

/* What attention and positions of the micro-batch go by. */
static inline const GArray *item_documents(const ItemCall *call) {
  return call->trainer->shapes[call->micro_batch].documents;
}

static inline SequencePieces item_pieces(const ItemCall *call) {
  return parameters_pieces_of(item_local_sizes(call), call->trainer->parameters->at.at[AXIS_CP]);
}

static inline SavedLayer item_saved(const ItemCall *call) {
  return activations_layer(item_memory(call), call->slot, call->layer);
}

/* Outputs of products that selective recompute by products keeps; all NULL, at no cost, in other modes. */
static inline KeptProducts item_kept_products(const ItemCall *call) {
  return item_memory(call)->every_other ? item_saved(call).products : (KeptProducts){0};
}

static inline LayerGradients item_gradients(const ItemCall *call) {
  return activations_gradients(item_memory(call), call->slot, call->layer);
}

/* The number format of weights and activations. */
static inline Number item_number(const ItemCall *call) {
  return call->trainer->parameters->number;
}

/* The input of the call's layer. */
static inline char *item_layer_input(const ItemCall *call) {
  return activations_input(item_memory(call), call->slot, call->layer);
}

/* A norm over dense rows of this rank's tokens, with the block's weight and shift (whose Role is the next one) and,
 * in backward, their gradients. `kept`: input and statistics; NULL: the caller sets them. */
NormKernel item_norm(const ItemCall *call, const Block *block, Role weight, const SavedNorm *kept);
void item_launch(const ItemCall *call, const Kernel *kernel);
/* out = a + b (+ bias) over dense rows; of the stream. */
void item_add_rows(const ItemCall *call, gint64 rows, const char *a, const char *b, const void *bias, char *out);
void item_add(const ItemCall *call, const char *a, const char *b, char *out);
/* The item's collective over its group; reductions are sums. `n`: elements of the whole buffer. */
void item_collective(const ItemCall *call, Number number, const void *in, void *out, gint64 n);
/* The same for tokens × hidden, in the activations' number format. */
void item_hidden_collective(const ItemCall *call, const void *in, void *out);

/* Blocks of rows; the first block starts at `at`. */
typedef struct {
  char *at;
  gint64 ld, step; /* elements between rows; between blocks */
} Rows;

typedef struct {
  gint64 batch, rows, width; /* blocks; rows per block; elements per row */
} Extent;

/* out = a + b, in the activations' number format; b.at NULL: only a; a.at NULL too: zeros. */
void item_move(const ItemCall *call, Extent extent, Rows a, Rows b, Rows out);
void item_copy(const ItemCall *call, Extent extent, Rows from, Rows to);
/* Turns the first `dim` columns of heads in rows of `ld`, or back (argument). */
void item_rope(const ItemCall *call, gint64 n_heads, gint64 dim, gint64 ld, char *x);
/* Fused attention of all of this rank's queries to all of its keys. */
FlashKernel item_flash(const ItemCall *call, gboolean is_backward);
/* Sums the micro-batch's loss over the ranks of cp. */
void item_sum_loss(const ItemCall *call);
/* A multiplier of the model's config for use in a kernel: 1 if the config has none (0). */
float item_factor(double factor);
/* Copies what the item's linear reads, or the gradient of its output, for its products in fp8 (narrow_items.c). Rows of
 * x are `ld` elements apart; 0: dense. */
void item_narrow_input(const ItemCall *call, const void *x, gint64 ld);
void item_narrow_gradient(const ItemCall *call, const void *dy);
/* What the Program does not count of a product in fp8: copies the weights, unless this has been done in the step
 * (ZeRO-3's are copied with the product), or what has been gathered for a weight gradient. */
void item_narrow_prepare(const ItemCall *call);
/* A product of the item's linear, which reads those copies in place of its operands, and those of its weights; other
 * products stay as they are. */
MatmulKernel item_narrow_product(const ItemCall *call, const MatmulKernel *product);
/* A linear's tensors, with the rows of all tokens that it multiplies. */
typedef struct {
  BlockKind block;
  Role weight;
  double factor;              /* 0: 1 */
  gint64 input_ld, output_ld; /* elements between rows, of the input's gradient, too; 0: dense */
  gint64 expert_stride;       /* elements from one expert's weights to the next one's; 0: one matrix */
  const void *input, *bias, *output_gradient;
  void *output, *input_gradient; /* NULL, as above: not what the item reads or writes */
} Linear;

/* One row of kernels for each item of a linear: a function that gives its Linear to item_linear(). */
#define LINEAR_KERNELS(name, run, argument)                                                                            \
  {name, run, argument}, {name ".dgrad", run, argument}, {name ".wgrad", run, argument},                               \
      {name ".cast", run, argument}, {                                                                                 \
    name ".grad_cast", run, argument                                                                                   \
  }

/* Whether an item of a linear reads the output's gradient itself. In fp8, W reads a copy, and itself may be gone. */
static inline gboolean item_reads_gradient(const ItemCall *call) {
  const gboolean is_copied =
      call->item->kind == ITEM_MATMUL && call->item->layout == LAYOUT_NT && call->linear != NARROW_NONE;
  return call->is_backward && !is_copied;
}

/* Tensors of a layer's linear that the call's argument, an Adapted, stands for, of all tokens: its input and the
 * gradient of that, k wide and dense; and of its n columns of the output, `ld` elements between rows. Its gradient in
 * backward alone. */
typedef struct {
  const char *input, *output_gradient;
  char *output, *input_gradient;
  gint64 k, n, ld;
} AdaptedLinear;
AdaptedLinear item_adapted_linear(const ItemCall *call);

/* The item's product, or its copy for one. */
void item_linear(const ItemCall *call, const Linear *linear);
/* The forward of QKV, or of up; selective recompute by products keeps some of its columns (product_items.c). */
void item_keeping_linear(const ItemCall *call, gboolean of_qkv, const Linear *linear);
/* Where mlp_down's output is kept as the product writes it; NULL: not kept. */
char *item_kept_down(const ItemCall *call);
/* The activation between the products of the experts or of the shared expert, chosen by its occurrence in the list
 * (expert_items.c). */
void item_expert_activation(const ItemCall *call);
/* Elements from one expert's weights to the next one's. */
gint64 item_expert_elements(const ItemCall *call);
/* The shift of a layer's expert assignment (kernels/expert_kernels.h). */
gint64 item_expert_shift(const ItemCall *call);
/* Runs the routing, or its gradient (argument). */
void item_expert_choice(const ItemCall *call);
/* Rows of tokens at this rank's experts: on the way to them, or back. */
char *item_expert_rows(const ItemCall *call, gboolean is_out);
/* Gradients of the routing weights: by row at this rank's experts; and for its own tokens. */
float *item_expert_row_gradients(const ItemCall *call);
float *item_expert_weight_gradients(const ItemCall *call);
/* Where returned rows, or their gradients, are summed for this rank's tokens. */
char *item_expert_sum(const ItemCall *call);
Block *item_block(const ItemCall *call, BlockKind kind);
/* Weights of the call's layer, or head; NULL: it has none of that role. */
const void *item_weight(const ItemCall *call, BlockKind kind, Role role);
/* The output of a row-parallel product, or an input gradient, summed over tp. */
const char *item_reduced(const ItemCall *call);
/* Gradient of the output of the call's layer. */
char *item_output_gradient(const ItemCall *call);
/* Gradient of the branch that the layer's last residual adds. */
char *item_branch_gradient(const ItemCall *call);

/* The places where dropout is applied. Each has its own random numbers, by layer and step. */
typedef enum { DROP_EMBEDDING, DROP_PROBABILITIES, DROP_ATTENTION, DROP_MLP, N_DROPS } Drop;
/* Dropout of the attention probabilities of this rank's heads. */
ScoreDropout item_score_dropout(const ItemCall *call);
/* out = a + drop(b + bias) over dense rows of the stream; a NULL: zeros. */
void item_drop_add(const ItemCall *call, Drop drop, const void *a, const void *b, const void *bias, void *out);
/* T′ × h: the embedding's output and its gradient; in a stage without layers the stage's own output and incoming
 * gradient. */
char *item_embedding_output(const ItemCall *call);
char *item_embedding_gradient(const ItemCall *call);
/* T × h: the same gradient, gathered under sequence parallelism. */
char *item_embedding_gathered(const ItemCall *call);
/* T′ × h: gradient of the input of the call's head. */
char *item_head_gradient(const ItemCall *call);
