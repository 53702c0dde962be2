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
 * to s·b·h·(34 + 5·a·s/h). Full recompute keeps the layer's input alone; selective drops the scores. A framework may
 * keep more (framework_memory.h):
 *
 *     plain kernels                   e·T·(q + f)  copy of attention's output, the gate's activation;  used by I
 *                                     unfused: 4·s² per head, the softmax in fp32
 *     norms                           norm_bytes·T'·h  each                                  used by I
 *     gathered inputs                 e·(T − T')·h     for each norm's output                used by W
 *     selective by products           e·(T·(2q + kv + f) + T'·h)  instead of all this */
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
  const FrameworkMemory *framework = &cut->plan->memory;
  const gboolean plain = framework->kernels == FRAMEWORK_KERNELS_PLAIN;
  if (plan_has_plain_norm(cut->plan) || !plain)
    tensors.rest += framework->norm_bytes * cut->n_norms * stream;
  if (plain)
    tensors.rest += e * t * (cut->q_width + (cut->model->gated ? cut->ffn_width : 0));
  if (framework->gathered == GATHERED_KEPT)
    tensors.linear_inputs += cut->linear_bytes * cut->n_norms * (t * cut->model->hidden - stream);
  if (flash) {
    tensors.rest += attention_row_sums_bytes(cut);
    if (cut->casts) /* flash wants its output as it was, not as attn_out's operand */
      tensors.rest += e * t * cut->q_width;
  } else {
    tensors.scores = cut->scores * ((cut->model->dropout ? 2 * e + 1 : e) + (plain ? 4 : 0));
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
  const gboolean unfused = cut->plan->attention == ATTENTION_UNFUSED;
  const gboolean plain = cut->plan->memory.kernels == FRAMEWORK_KERNELS_PLAIN;
  const double softmax = unfused ? (plain ? cut->element_bytes + 8 : 2 * cut->element_bytes) * cut->scores : 0;
  const double widest = MAX(cut->element_bytes * activation, softmax);
  return cut->cp > 1 ? MAX(widest, context_buffer_bytes(cut)) : widest;
}

/* keeps_every_other_product(); also what tp has reduced and scattered. */
static double kept_products(const Cut *cut) {
  const double stream = (double)cut->split_tokens * cut->model->hidden, t = cut->tokens;
  double elements = t * (2 * cut->q_width + cut->kv_width + cut->ffn_width);
  if (cut->model->gated) /* a third product of the MLP; of two the second is not kept */
    elements += stream;
  if (cut->sequence_parallel)
    elements += 2 * stream;
  return cut->element_bytes * elements + attention_row_sums_bytes(cut);
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
    if (keeps_every_other_product(cut->plan)) {
      memory.saved_bytes = memory.released_by_I = tensors.layer_input + kept_products(cut);
      memory.held_for_W += tensors.linear_inputs;
      memory.transient_bytes += MAX(all - memory.saved_bytes, 0);
      break;
    }
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

/* Of one vocabulary matrix in the element format, where it is not accumulated in place. */
static double vocabulary_gradient(const Cut *cut) {
  const gboolean dense = cut->plan->memory.vocabulary_gradients == VOCABULARY_GRADIENTS_DENSE;
  return dense ? cut->element_bytes * cut_vocab_parameters(cut) : 0;
}

/* The dropout mask; token numbers are too few to count. W needs the gradient of all tokens. */
static PieceMemory embedding_memory(const Cut *cut) {
  const double mask = cut->model->dropout ? (double)cut->split_tokens * cut->model->hidden : 0;
  return (PieceMemory){
      .saved_bytes = mask,
      .released_by_I = mask,
      .held_for_W = cut->element_bytes * cut->tokens * cut->model->hidden,
      .transient_bytes = vocabulary_gradient(cut),
  };
}

/* The norm's input, the product's input, and the softmax in fp32 (made in place of the logits); while backward runs,
 * the logits' gradient in the element format too. */
static PieceMemory head_memory(const Cut *cut) {
  const double stream = cut->element_bytes * cut->split_tokens * cut->model->hidden;
  const double logits = (double)cut->tokens * cut->vocab_width;
  const double gradient = cut->element_bytes * logits;
  const FrameworkMemory *framework = &cut->plan->memory;
  const gboolean gathered = framework->logits == LOGITS_WHOLE && cut->tp > 1;
  const double seen = gathered ? logits * cut->tp : logits; /* that the loss is made of */
  /* what came of each rank, and the own product */
  const double pieces = gathered ? cut->element_bytes * (seen + logits) : 0;
  const double while_backward = framework->logit_bytes > 0 ? framework->logit_bytes - 4 : cut->element_bytes;
  return (PieceMemory){
      .saved_bytes = 2 * stream + 4 * seen,
      .released_by_I = stream + 4 * seen,
      .held_for_W = gradient,
      .transient_bytes = while_backward * seen + pieces + vocabulary_gradient(cut),
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
