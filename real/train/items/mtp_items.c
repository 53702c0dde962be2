/* Multi-token prediction: heads that each predict one token further than the one before; the model's own is head 0.
 * Head k:
 *
 *     x of head k − 1 ───────── mtp_norm ┐
 *                                        ├ mtp_proj → columns ─gather, join→ layer's input → layer → x of head k
 *     word k further → embedding → norm ─┘
 *
 * The product's two inputs are in separate buffers: one product with the left half of its matrix, and one with the
 * right half, added to it. Its layer is among the layer's items, its head among the model's own items, both at their
 * own positions in the stage's stream (activations.h). Backward gives head k − 1 the gradient of its x in addition to
 * that of its own loss. */
#include "dense_product.h"
#include "item_parts.h"

static SavedMtp mtp_saved(const ItemCall *call) {
  return activations_mtp(item_memory(call), call->slot, call->mtp);
}

static MtpGradients mtp_gradients(const ItemCall *call) {
  return activations_mtp_gradients(item_memory(call), call->slot, call->mtp);
}

static gboolean is_cut(const ItemCall *call) {
  return item_local_sizes(call)->tp > 1;
}

static char *layer_input_gradient(const ItemCall *call) {
  return activations_stream_gradient(item_memory(call), call->slot, call->layer);
}

/* --- norms -------------------------------------------------------------------------------------------------------- */

typedef enum { OF_WORDS, OF_X } Half;

/* First the words' norm, then x's; also in backward. */
static void run_norm(const ItemCall *call) {
  const Half half = call->occurrence == 0 ? OF_WORDS : OF_X;
  const SavedMtp mtp = mtp_saved(call);
  const MtpScratch *scratch = &item_memory(call)->mtp;
  const Role weight = half == OF_WORDS ? ROLE_NORM1 : ROLE_NORM2;
  Kernel kernel = {.kind = call->is_backward ? KERNEL_NORM_BACKWARD : KERNEL_NORM_FORWARD,
                   .norm = item_norm(call, item_block(call, BLOCK_MTP), weight, NULL)};
  kernel.norm.x = half == OF_WORDS ? mtp.words : activations_input(item_memory(call), call->slot, call->layer - 1);
  kernel.norm.y = mtp.norms[half];
  kernel.norm.mean = mtp.mean[half];
  kernel.norm.rstd = mtp.rstd[half];
  if (call->is_backward) {
    kernel.norm.dy = half == OF_X ? item_reduced(call) : is_cut(call) ? scratch->reduced : scratch->partial;
    kernel.norm.dx = half == OF_WORDS ? item_embedding_gradient(call) : scratch->d_x;
  }
  item_launch(call, &kernel);
}

/* --- the product -------------------------------------------------------------------------------------------------- */

static const char *whole_input(const ItemCall *call, Half half) {
  return item_local_sizes(call)->sequence_parallel ? item_memory(call)->mtp.gathered[half]
                                                   : mtp_saved(call).norms[half];
}

static char *product_gradient(const ItemCall *call) {
  return is_cut(call) ? mtp_gradients(call).d_columns : layer_input_gradient(call);
}

static gint64 half_offset(const ItemCall *call, Half half, int element_bytes) {
  return half * item_local_sizes(call)->model->hidden * element_bytes;
}

static const void *half_weight(const ItemCall *call, Half half) {
  const Parameters *parameters = call->trainer->parameters;
  const char *weight = block_weight(parameters, item_block(call, BLOCK_MTP), ROLE_MTP_PROJ);
  return weight + half_offset(call, half, kernel_element_bytes(parameters->number));
}

/* Half the sum over columns of forward, or half the columns of an input's or the weights' gradient, at a time. */
static void run_product(const ItemCall *call) {
  const WorkItem *item = call->item;
  const Parameters *parameters = call->trainer->parameters;
  const gint64 h = item_local_sizes(call)->model->hidden;
  for (Half half = OF_WORDS; half <= OF_X; half++) {
    Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = dense_product(item)};
    MatmulKernel *product = &kernel.matmul;
    product->a = item->layout == LAYOUT_TN ? whole_input(call, half) : product_gradient(call);
    product->b = item->layout == LAYOUT_NT ? whole_input(call, half) : half_weight(call, half);
    product->ldb = item->layout == LAYOUT_NT ? h : 2 * h;
    if (item->layout == LAYOUT_TN) {
      product->k = product->lda = h;
      product->accumulate = half == OF_X;
      product->c = is_cut(call) ? item_memory(call)->mtp.columns : item_layer_input(call);
    } else if (item->layout == LAYOUT_NN) {
      product->n = product->ldc = h;
      product->c = half == OF_WORDS ? item_memory(call)->mtp.partial : item_memory(call)->partial;
    } else {
      char *gradient = block_gradient(parameters, item_block(call, BLOCK_MTP), ROLE_MTP_PROJ);
      product->n = h;
      product->ldc = 2 * h;
      product->accumulate = TRUE;
      product->result = (guint8)parameters->gradient_number;
      product->c = gradient + half_offset(call, half, kernel_element_bytes(parameters->gradient_number));
    }
    item_launch(call, &kernel);
  }
}

/* --- from this rank's columns of all tokens to all columns of its tokens ------------------------------------------ */

static void move(const ItemCall *call, MoveKernel moved) {
  Kernel kernel = {.kind = KERNEL_MOVE, .move = moved};
  kernel.move.number = (guint8)call->trainer->parameters->number;
  kernel.move.width = item_local_sizes(call)->model->hidden / item_local_sizes(call)->tp;
  item_launch(call, &kernel);
}

static char *element(const LocalSizes *local, char *base, gint64 i) {
  return base + i * (gint64)local->element_bytes;
}

static gint64 tp_rank(const ItemCall *call) {
  return call->trainer->parameters->at.at[AXIS_TP];
}

/* Places the blocks of columns received from each tp rank, for this rank's tokens, side by side. */
static void run_join(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 h = local->model->hidden, width = h / local->tp;
  const gint64 first = local->sequence_parallel ? tp_rank(call) * local->split_tokens : 0;
  move(call, (MoveKernel){.batch = local->tp,
                          .rows = local->split_tokens,
                          .ld_a = width,
                          .ld_out = h,
                          .stride_a = local->tokens * width,
                          .stride_out = width,
                          .a = element(local, item_memory(call)->mtp.all_columns, first * width),
                          .out = item_layer_input(call)});
}

static void run_split(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 h = local->model->hidden, width = h / local->tp;
  char *tokens = local->sequence_parallel ? item_memory(call)->mtp.tokens : layer_input_gradient(call);
  move(call, (MoveKernel){.batch = 1,
                          .rows = local->tokens,
                          .ld_a = h,
                          .ld_out = width,
                          .a = element(local, tokens, tp_rank(call) * width),
                          .out = mtp_gradients(call).d_columns});
}

static void run_gradient_sum(const ItemCall *call) {
  char *gradient = item_head_gradient(call);
  item_add(call, gradient, item_memory(call)->mtp.d_x, gradient);
}

/* --- tp collectives ----------------------------------------------------------------------------------------------- */

static void gather_inputs(const ItemCall *call) {
  const CommType *comm = call->trainer->comm->type;
  comm->batch_begin(call->trainer->comm);
  for (Half half = OF_WORDS; half <= OF_X; half++)
    item_hidden_collective(call, mtp_saved(call).norms[half], item_memory(call)->mtp.gathered[half]);
  comm->batch_end(call->trainer->comm);
}

static void reduce_input_gradients(const ItemCall *call) {
  const CommType *comm = call->trainer->comm->type;
  comm->batch_begin(call->trainer->comm);
  item_hidden_collective(call, item_memory(call)->mtp.partial, item_memory(call)->mtp.reduced);
  item_hidden_collective(call, item_memory(call)->partial, item_memory(call)->reduced);
  comm->batch_end(call->trainer->comm);
}

static void gather_columns(const ItemCall *call) {
  item_hidden_collective(call, item_memory(call)->mtp.columns, item_memory(call)->mtp.all_columns);
}

static void gather_tokens(const ItemCall *call) {
  item_hidden_collective(call, layer_input_gradient(call), item_memory(call)->mtp.tokens);
}

const ItemKernel mtp_collectives[] = {
    {"mtp_proj", gather_inputs, 0},
    {"mtp_proj.wgrad", gather_inputs, 0},
    {"mtp_proj.dgrad", reduce_input_gradients, 0},
    {"mtp_proj.columns", gather_columns, 0},
    {"mtp_proj.tokens", gather_tokens, 0},
    {NULL, NULL, 0},
};

const ItemKernel mtp_kernels[] = {
    {"mtp_norm", run_norm, 0},          {"mtp_norm.backward", run_norm, 0},    {"mtp_proj", run_product, 0},
    {"mtp_proj.dgrad", run_product, 0}, {"mtp_proj.wgrad", run_product, 0},    {"mtp_proj.join", run_join, 0},
    {"mtp_proj.split", run_split, 0},   {"mtp.grad_sum", run_gradient_sum, 0}, {NULL, NULL, 0},
};
