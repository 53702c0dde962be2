/* Bytes a micro-batch leaves behind in a piece, tensor by tensor (arXiv 2205.05198 §4.1, Table 2). T tokens, T' = T/tp
 * under sequence parallelism, h hidden, e bytes per element, q, kv and f the columns on this rank:
 *
 *     inputs of norms                 e·T'·h    each distinct one                            used by I
 *     inputs of qkv and mlp_up        e·T'·h    each distinct one, saved in shards           used by W
 *     Q, K, V                         e·T·(q + 2·kv)                                         used by I
 *     scores, unfused                 s² per head: softmax e, and under dropout mask 1 and output e;  used by I
 *     scores, flash                   log-sum-exp, 4 bytes per row                           used by I
 *     input of attn_out               e·T·q                                                  used by W
 *     dropout masks                   T'·h      each                                         used by I
 *     input of the activation         e·T·f     (twice when gated)                           used by I
 *     input of mlp_down               e·T·f                                                  used by W
 *
 * Inputs of linears are kept in the format they multiply in. With dropout, unfused, e = 2, f = 4h and tp = 1 this sums
 * to s·b·h·(34 + 5·a·s/h). Full recompute keeps the layer's input alone; selective drops the scores. */
#include "pieces.h"

/* Of one layer without recompute. */
typedef struct {
  double layer_input;
  double linear_inputs; /* used by W */
  double scores;        /* unfused attention's s² part */
  double rest;          /* used by I; the layer's input included */
} LayerTensors;

static LayerTensors layer_tensors(const Cut *cut) {
  const gboolean parallel = cut->model->parallel_block, flash = cut->plan->attention == ATTENTION_FLASH;
  const double e = cut->element_bytes, stream = (double)cut->split_tokens * cut->model->hidden, t = cut->tokens;
  const int n_streams = parallel ? 1 : 2; /* points where a norm reads and a mask is drawn */
  LayerTensors tensors = {.layer_input = e * stream};
  tensors.linear_inputs = cut->linear_bytes * (cut->n_norms * stream + t * cut->q_width + t * cut->ffn_width);
  tensors.rest = e * (n_streams * stream + t * (cut->q_width + 2 * cut->kv_width) + t * cut->up_width);
  if (cut->model->dropout)
    tensors.rest += n_streams * stream;
  if (flash) {
    tensors.rest += attention_row_sums_bytes(cut);
    if (cut->casts) /* flash wants its output as it was, not as attn_out's operand */
      tensors.rest += e * t * cut->q_width;
  } else {
    tensors.scores = cut->scores * (cut->model->dropout ? 2 * e + 1 : e);
  }
  return tensors;
}

/* Gradients of the linears' outputs, which W multiplies with their inputs; row-parallel ones gathered. */
static double layer_output_gradients(const Cut *cut) {
  const double width = cut->q_width + 2 * cut->kv_width + cut->up_width + 2 * cut->model->hidden;
  return cut->linear_bytes * cut->tokens * width;
}

/* The gradient a backward kernel reads and the one it writes are alive together; the widest pair is the activation's,
 * that of unfused attention's softmax, or what attention cut by cp has in buffers. */
static double widest_gradients(const Cut *cut) {
  const double activation = (double)cut->tokens * (cut->up_width + cut->ffn_width);
  const double softmax = cut->plan->attention == ATTENTION_UNFUSED ? 2 * cut->scores : 0;
  const double widest = cut->element_bytes * MAX(activation, softmax);
  return cut->cp > 1 ? MAX(widest, context_buffer_bytes(cut)) : widest;
}

static PieceMemory layer_memory(const Cut *cut) {
  const LayerTensors tensors = layer_tensors(cut);
  const double all = tensors.rest + tensors.linear_inputs + tensors.scores;
  PieceMemory memory = {.held_for_W = layer_output_gradients(cut), .transient_bytes = widest_gradients(cut)};
  switch (cut->plan->recompute) {
  case RECOMPUTE_FULL:
    memory.saved_bytes = memory.released_by_I = tensors.layer_input;
    memory.held_for_W += tensors.linear_inputs; /* made again by I */
    memory.transient_bytes += all - tensors.layer_input;
    break;
  case RECOMPUTE_SELECTIVE:
    memory.saved_bytes = all - tensors.scores;
    memory.released_by_I = tensors.rest;
    memory.transient_bytes += tensors.scores;
    break;
  default:
    memory.saved_bytes = all;
    memory.released_by_I = tensors.rest + tensors.scores;
    break;
  }
  return memory;
}

/* The dropout mask; token numbers are too few to count. W needs the gradient of all tokens. */
static PieceMemory embedding_memory(const Cut *cut) {
  const double mask = cut->model->dropout ? (double)cut->split_tokens * cut->model->hidden : 0;
  return (PieceMemory){
      .saved_bytes = mask,
      .released_by_I = mask,
      .held_for_W = cut->element_bytes * cut->tokens * cut->model->hidden,
  };
}

/* The norm's input, the product's input, and the softmax in fp32 (made in place of the logits); while backward runs,
 * the logits' gradient in the element format too. */
static PieceMemory head_memory(const Cut *cut) {
  const double stream = cut->element_bytes * cut->split_tokens * cut->model->hidden;
  const double logits = (double)cut->tokens * cut->vocab_width;
  const double gradient = cut->element_bytes * logits;
  return (PieceMemory){
      .saved_bytes = 2 * stream + 4 * logits,
      .released_by_I = stream + 4 * logits,
      .held_for_W = gradient,
      .transient_bytes = gradient,
  };
}

PieceMemory piece_memory(const Cut *cut, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return embedding_memory(cut);
  case PIECE_LAYER:
    return layer_memory(cut);
  default:
    return head_memory(cut);
  }
}
