/* Bytes that a micro-batch leaves behind in a piece, tensor by tensor (arXiv 2205.05198 §4.1, Table 2). T tokens,
 * T' = T/tp under sequence parallelism, h hidden, e bytes per element, q, kv and f the columns on this rank:
 *
 *     inputs of norms                 e·T'·h    each distinct one                            used by I
 *     inputs of post_norms            e·T'·h    each, where there are                        used by I
 *     inputs of qkv and mlp_up        e·T'·h    each distinct one, saved in shards           used by W
 *                                     (without norms before them x itself, which I then does not free)
 *     Q, K, V                         e·T·(q + k + v)   of K and V all copies under Ulysses  used by I
 *     inputs of norms of q and k      e·T·(q + k)       where there are                      used by I
 *     scores, unfused                 s² per head: softmax e, and under dropout mask 1 and output e;  used by I
 *     scores, flash                   log-sum-exp, 4 bytes per row                           used by I
 *     output of flash, of some heads  e·T·a     under Ulysses                                used by I
 *     input of attn_out               e·T·a     (a = q but in latent attention)              used by W
 *     dropout masks                   T'·h      each                                         used by I
 *     input of the activation         e·T·f     (twice when gated)                           used by I
 *     input of mlp_down               e·T·f                                                  used by W
 *
 * Latent attention: what Q, K and V are made from, once before their norms (I) and once after (W), in shards. With
 * experts, in place of mlp_up and mlp_down: R rows of the rank's experts, each of f columns:
 *
 *     scores of the router, its table e·T'·E and 5 bytes each                                used by I
 *     rows as the experts get them    e·R·h                                                  used by W
 *     input and output of the         e·R·f·2 (gated) and its weight, 4 bytes a row          used by I
 *       activation                    e·R·f                                                  used by W
 *     the same of the shared expert   e·T·f_s …
 *     weights and map of gathered     e and 1 byte for each of N tokens and this rank's      used by I
 *       tokens, of its experts        experts
 *
 * Inputs of linears are kept in the format they multiply in. With dropout, unfused, e = 2, f = 4h and tp = 1 this
 * sums to s·b·h·(34 + 5·a·s/h). Full recompute keeps only the layer's input. Selective recompute drops the outputs of
 * its modules; each exists again while its side of the layer, attention's or the MLP's, runs backward:
 *
 *     core_attn                       scores, unfused
 *     layernorm                       outputs of both norms, and what else a framework keeps of them
 *     mla_up_proj                     Q, K, V and the outputs of the norms before them
 *     moe_act                         input of expert_down
 *     mlp, moe, shared_experts        everything inside; the input of mlp and moe is kept, as the norm made it
 *
 * A framework may keep more, or in another format (quirks.c):
 *
 *     plain kernels                   e·T·(q + f)  copy of attention's output, the gate's activation;  used by I
 *                                     unfused: 4·s² per head, the softmax in fp32
 *     norms                           norm_bytes·T'·h  each; of q and k norm_bytes·T·(q + k)   used by I
 *     gathered inputs                 e·(T − T')·h     for each norm's output                used by W
 *     selective by products           e·(T·(2q + kv + f) + T'·h)  instead of all the above
 *     activation_input_bytes          in place of e, of the input of the experts' activation */
#include "pieces.h"

#include <math.h>

/* One layer without recompute. */
typedef struct {
  double layer_input;
  double linear_inputs; /* used by W */
  double scores;        /* unfused attention's s² part */
  double rest;          /* used by I; includes the layer's input */
} LayerTensors;

/* What selective recompute drops of one side of a layer; part of the sums of the same names in LayerTensors. */
typedef struct {
  double linear_inputs, rest;
} Dropped;

/* Columns of an activation's input for `width` columns of its output. */
static gint64 input_width(const Cut *cut, gint64 width) {
  return cut->model->gated ? 2 * width : width;
}

/* Experts: what W uses, and below what I uses. */
static double expert_linear_inputs(const Cut *cut) {
  return cut->linear_bytes * ((double)cut->expert_rows * (cut->model->hidden + cut->expert_width) +
                              (double)cut->tokens * cut->shared_width);
}

/* Bytes per element of the input of an activation in a layer with experts. */
static double activation_input_bytes(const Cut *cut) {
  const double bytes = cut->method->memory.activation_input_bytes;
  return bytes > 0 ? bytes : cut->element_bytes;
}

static double shared_rest(const Cut *cut) {
  return activation_input_bytes(cut) * cut->tokens * input_width(cut, cut->shared_width);
}

static double expert_rest(const Cut *cut) {
  const double scores = (cut->element_bytes + 5) * cut->split_tokens * cut->model->experts.n;
  const double gathered = (cut->element_bytes + 1) * expert_gathered_tokens(cut) * cut->n_experts;
  return scores + gathered + 4.0 * cut->expert_rows +
         activation_input_bytes(cut) * cut->expert_rows * input_width(cut, cut->expert_width) + shared_rest(cut);
}

/* What a norm of this many elements keeps besides its input, under a framework. With plain kernels a LayerNorm is
 * still a single one, which keeps nothing more. */
static double norm_rest(const Cut *cut, double elements) {
  const gboolean plain = cut->method->memory.kernels == FRAMEWORK_KERNELS_PLAIN;
  const gboolean is_kept = !plain || (cut->method->plain_norm && cut->model->norm == NORM_RMSNORM);
  return is_kept ? cut->method->memory.norm_bytes * elements : 0;
}

/* After the norms (W), and below before them (I). */
static double latent_linear_inputs(const Cut *cut) {
  return cut->linear_bytes * cut->split_tokens * (cut->model->latent.q_rank + cut->model->latent.kv_rank);
}

static double latent_rest(const Cut *cut) {
  const ModelLatent *latent = &cut->model->latent;
  return cut->element_bytes * cut->split_tokens * (latent->q_rank + latent->kv_rank + latent->rope_dim);
}

/* In the form that attn_out's weight gradient reads. */
static double attention_output(const Cut *cut) {
  return cut->linear_bytes * cut->tokens * cut->out_width;
}

/* Elements that the norms of a layer's q and k read. */
static double qk_norm_elements(const Cut *cut) {
  return cut->model->qk_norms != QK_NORMS_NONE ? (double)cut->tokens * (cut->q_width + cut->kv_width) : 0;
}

static LayerTensors layer_tensors(const Cut *cut, gboolean has_experts) {
  const gboolean parallel = cut->model->parallel_block, flash = cut->method->attention == ATTENTION_FLASH;
  const double e = cut->element_bytes, stream = (double)cut->split_tokens * cut->model->hidden, t = cut->tokens;
  const int n_branches = parallel ? 1 : 2; /* where a mask is drawn, and where a norm before the branches reads */
  const gint64 n_streams = MIN(n_branches, cut->n_norms);
  LayerTensors tensors = {.layer_input = e * stream};
  const double ffn = has_experts ? 0 : cut->ffn_width, up = has_experts ? 0 : cut->up_width;
  tensors.linear_inputs = cut->linear_bytes * (cut->n_inputs * stream + t * ffn) + attention_output(cut);
  tensors.rest =
      e * ((n_streams + cut->n_post_norms) * stream + t * cut_dealt_width(cut) + t * up + qk_norm_elements(cut));
  if (has_experts) {
    tensors.linear_inputs += expert_linear_inputs(cut);
    tensors.rest += expert_rest(cut);
  }
  if (cut->model->latent.kv_rank > 0) {
    tensors.linear_inputs += latent_linear_inputs(cut);
    tensors.rest += latent_rest(cut);
  }
  if (cut->model->dropout_rate.hidden > 0)
    tensors.rest += n_branches * stream;
  const FrameworkMemory *framework = &cut->method->memory;
  const gboolean plain = framework->kernels == FRAMEWORK_KERNELS_PLAIN;
  tensors.rest += norm_rest(cut, (cut->n_norms + cut->n_post_norms) * stream + qk_norm_elements(cut));
  if (plain)
    tensors.rest += e * t * (cut->out_width + (cut->model->gated ? ffn : 0));
  if (framework->gathered == GATHERED_KEPT)
    tensors.linear_inputs += cut->linear_bytes * cut->n_inputs * (t * cut->model->hidden - stream);
  if (flash) {
    tensors.rest += attention_row_sums_bytes(cut);
    const gboolean of_heads = cut->cp > 1 && cut->method->cp_comm == CP_ULYSSES;
    /* flash needs its output, not attn_out's operand */
    if (of_heads || cut->casts)
      tensors.rest += e * t * cut->out_width;
  } else {
    tensors.scores = cut->scores * ((cut->model->dropout_rate.attention > 0 ? 2 * e + 1 : e) + (plain ? 4 : 0));
  }
  return tensors;
}

/* Gradients of the linears' outputs, which W multiplies with their inputs; those of row-parallel linears are
 * gathered. The two branches of a parallel block share one. */
static double layer_output_gradients(const Cut *cut, Piece piece) {
  double elements = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(cut, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(cut, kinds[i]);
    if (kinds[i] == LINEAR_ATTN_OUT && cut->model->parallel_block)
      continue;
    elements += (double)linear.group * linear.tokens * linear.n;
  }
  return cut->linear_bytes * elements;
}

/* Elements of the gradients that a kernel of experts reads and writes. The widest are the activation's, or, with
 * gathered tokens, those of all these and of the rows of the rank's experts, each made from the other on either side
 * of the experts. */
static double expert_gradients(const Cut *cut) {
  const double rows = cut->expert_rows, gathered = expert_gathered_tokens(cut);
  const double activation = rows * (double)(input_width(cut, cut->expert_width) + cut->expert_width);
  return gathered > 0 ? MAX(activation, (gathered + rows) * (double)cut->model->hidden) : activation;
}

/* The gradient a backward kernel reads and the one it writes are alive together. The widest such pair is that of the
 * activation or another kernel of experts, that of unfused attention's softmax, or the buffers of attention cut by
 * cp. */
static double widest_gradients(const Cut *cut, gboolean has_experts) {
  const double activation =
      has_experts ? expert_gradients(cut) : (double)cut->tokens * (cut->up_width + cut->ffn_width);
  const gboolean unfused = cut->method->attention == ATTENTION_UNFUSED;
  const gboolean plain = cut->method->memory.kernels == FRAMEWORK_KERNELS_PLAIN;
  const double softmax = unfused ? (plain ? cut->element_bytes + 8 : 2 * cut->element_bytes) * cut->scores : 0;
  const double widest = MAX(cut->element_bytes * activation, softmax);
  return cut->cp > 1 ? MAX(widest, context_buffer_bytes(cut)) : widest;
}

/* For keeps_every_other_product; includes what tp has reduce-scattered. */
static double kept_products(const Cut *cut) {
  const double stream = (double)cut->split_tokens * cut->model->hidden, t = cut->tokens;
  double elements = t * (2 * cut->q_width + cut->kv_width + cut->ffn_width);
  if (cut->model->gated) /* a third product of the MLP; of two the second is not kept */
    elements += stream;
  if (cut->sequence_parallel)
    elements += 2 * stream;
  return cut->element_bytes * elements + attention_row_sums_bytes(cut);
}

static gboolean drops(const Cut *cut, RecomputeModule module) {
  return (cut->method->recompute_modules & MODULE_BIT(module)) != 0;
}

/* A norm's output is not dropped if its gathered copy is kept instead. */
static Dropped dropped_norm(const Cut *cut) {
  const gboolean is_gathered = cut->method->memory.gathered == GATHERED_KEPT && cut->sequence_parallel;
  const double stream = (double)cut->split_tokens * cut->model->hidden;
  return (Dropped){is_gathered ? 0 : cut->linear_bytes * stream, norm_rest(cut, stream)};
}

static Dropped dropped_of_attention(const Cut *cut) {
  Dropped dropped = {0};
  if (drops(cut, MODULE_LAYERNORM))
    dropped = dropped_norm(cut);
  if (drops(cut, MODULE_MLA_UP_PROJ)) {
    dropped.linear_inputs += latent_linear_inputs(cut);
    dropped.rest += cut->element_bytes * cut->tokens * (cut->q_width + cut->kv_width + cut->v_width);
  }
  return dropped;
}

/* Drops a whole MLP, or all experts. Its input stays, in the element format, unless recomputing the norm restores
 * it. */
static Dropped dropped_branch(const Cut *cut, double linear_inputs, double rest) {
  const double input = (double)cut->split_tokens * cut->model->hidden;
  Dropped dropped = {linear_inputs, rest};
  if (!drops(cut, MODULE_LAYERNORM))
    dropped.linear_inputs -= (cut->element_bytes - cut->linear_bytes) * input;
  return dropped;
}

static Dropped dropped_of_mlp(const Cut *cut, gboolean has_experts) {
  const double t = cut->tokens, ffn = cut->ffn_width;
  const gboolean keeps_gate = cut->method->memory.kernels == FRAMEWORK_KERNELS_PLAIN && cut->model->gated;
  const Dropped norm = drops(cut, MODULE_LAYERNORM) ? dropped_norm(cut) : (Dropped){0};
  Dropped dropped = {0};
  if (!has_experts && drops(cut, MODULE_MLP))
    dropped = dropped_branch(cut, cut->linear_bytes * t * ffn,
                             cut->element_bytes * t * (cut->up_width + (keeps_gate ? ffn : 0)));
  if (has_experts && drops(cut, MODULE_MOE))
    dropped = dropped_branch(cut, expert_linear_inputs(cut), expert_rest(cut));
  if (has_experts && drops(cut, MODULE_MOE_ACT))
    dropped.linear_inputs += cut->linear_bytes * cut->expert_rows * cut->expert_width;
  if (has_experts && drops(cut, MODULE_SHARED_EXPERTS)) {
    dropped.linear_inputs += cut->linear_bytes * t * cut->shared_width;
    dropped.rest += shared_rest(cut);
  }
  return (Dropped){dropped.linear_inputs + norm.linear_inputs, dropped.rest + norm.rest};
}

static void keep_all(PieceMemory *memory, const LayerTensors *tensors) {
  memory->saved_bytes = tensors->rest + tensors->linear_inputs + tensors->scores;
  memory->released_by_I = tensors->rest + tensors->scores;
}

/* I recomputes what W needs. */
static void drop_modules(PieceMemory *memory, const Cut *cut, const LayerTensors *tensors, gboolean has_experts) {
  const Dropped attention = dropped_of_attention(cut), mlp = dropped_of_mlp(cut, has_experts);
  const double scores = drops(cut, MODULE_CORE_ATTN) ? tensors->scores : 0;
  const double linear_inputs = attention.linear_inputs + mlp.linear_inputs, rest = attention.rest + mlp.rest;
  keep_all(memory, tensors);
  memory->saved_bytes -= linear_inputs + rest + scores;
  memory->released_by_I -= rest + scores;
  memory->held_for_W += linear_inputs;
  memory->transient_bytes += MAX(attention.linear_inputs + attention.rest + scores, mlp.linear_inputs + mlp.rest);
}

/* What W reads that a recomputed layer keeps: its input, if a linear reads that unchanged, and attention's output if
 * every other product is kept. */
static double kept_linear_inputs(const Cut *cut, const LayerTensors *tensors) {
  const gboolean reads_input = cut->n_norms == 0 && !cut->casts;
  const gboolean reads_output = cut->method->keeps_every_other_product && !cut->casts;
  return (reads_input ? tensors->layer_input : 0) + (reads_output ? attention_output(cut) : 0);
}

static PieceMemory layer_memory(const Cut *cut, Piece piece) {
  const gboolean has_experts = piece == PIECE_LAYER && cut->n_experts > 0;
  const LayerTensors tensors = layer_tensors(cut, has_experts);
  const double all = tensors.rest + tensors.linear_inputs + tensors.scores;
  PieceMemory memory = {.held_for_W = layer_output_gradients(cut, piece),
                        .transient_bytes = widest_gradients(cut, has_experts)};
  if (cut->method->recompute == RECOMPUTE_NONE) {
    keep_all(&memory, &tensors);
  } else if (cut->method->recompute == RECOMPUTE_SELECTIVE && !cut->method->keeps_every_other_product) {
    drop_modules(&memory, cut, &tensors, has_experts);
  } else {
    const double products = cut->method->keeps_every_other_product ? kept_products(cut) : 0;
    const double stays = kept_linear_inputs(cut, &tensors);
    memory.saved_bytes = tensors.layer_input + products;
    memory.released_by_I = memory.saved_bytes - stays;
    memory.held_for_W += tensors.linear_inputs - stays; /* recomputed by I */
    memory.transient_bytes += MAX(all - memory.saved_bytes, 0);
  }
  return memory;
}

/* The gradient of one vocabulary matrix in the element format, unless it is accumulated in place. */
static double vocabulary_gradient(const Cut *cut) {
  const gboolean dense = cut->method->memory.vocabulary_gradients == VOCABULARY_GRADIENTS_DENSE;
  return dense ? cut->element_bytes * cut_vocab_parameters(cut) : 0;
}

/* The dropout mask and the norm's input; token ids are negligible. W needs the gradient of all tokens. */
static PieceMemory embedding_memory(const Cut *cut) {
  const double stream = (double)cut->split_tokens * cut->model->hidden;
  const double norm = cut->model->embedding_norm ? cut->element_bytes * stream + norm_rest(cut, stream) : 0;
  const double mask = cut->model->dropout_rate.embedding > 0 ? stream : 0;
  return (PieceMemory){
      .saved_bytes = mask + norm,
      .released_by_I = mask + norm,
      .held_for_W = cut->element_bytes * cut->tokens * cut->model->hidden,
      .transient_bytes = vocabulary_gradient(cut),
  };
}

/* Bytes per logit kept from forward, and those made in addition while backward runs. Unfused: the softmax in fp32,
 * replacing the logits, and their gradient; fused, the gradient has already replaced the logits. */
static double kept_of_logit(const Cut *cut) {
  const double capped = cut->model->capped_logits ? cut->element_bytes : 0;
  return (cut->method->time.loss == LOSS_FUSED ? cut->element_bytes : 4) + capped;
}

static double made_of_logit(const Cut *cut) {
  const double stated = cut->method->memory.logit_bytes;
  if (stated > 0)
    return MAX(stated - kept_of_logit(cut), 0);
  return cut->method->time.loss == LOSS_FUSED ? 0 : cut->element_bytes;
}

/* The norm's input, the product's input, and what is kept of the logits: also the capped ones, from which backward
 * computes the cap's slope. */
static PieceMemory loss_memory(const Cut *cut) {
  const double stream = cut->element_bytes * cut->split_tokens * cut->model->hidden;
  const double logits = (double)cut->tokens * cut->vocab_width;
  const double gradient = cut->element_bytes * logits;
  const FrameworkMemory *framework = &cut->method->memory;
  const double seen = framework->logits != LOGITS_SPLIT ? logits * cut->tp : logits; /* the logits that the loss is
                                                                                        computed from */
  /* those received from each rank, and this rank's own */
  const double pieces = framework->logits == LOGITS_WHOLE && cut->tp > 1 ? cut->element_bytes * (seen + logits) : 0;
  return (PieceMemory){
      .saved_bytes = 2 * stream + kept_of_logit(cut) * seen,
      .released_by_I = stream + kept_of_logit(cut) * seen,
      .held_for_W = gradient,
      .transient_bytes = made_of_logit(cut) * seen + pieces + vocabulary_gradient(cut),
  };
}

/* A head that predicts a further token (mtp.c), without its logits: the norms' inputs, of which x is already kept,
 * and the product's, in addition to the layer's own. W of the product needs the gradient of its output. */
static PieceMemory mtp_memory(const Cut *cut) {
  PieceMemory layer = layer_memory(cut, PIECE_LAYER);
  const double stream = (double)cut->split_tokens * cut->model->hidden;
  const double made = (double)cut->tokens * linear_of(cut, LINEAR_MTP_PROJ).n;
  const PieceMemory embedding = embedding_memory(cut);
  layer.saved_bytes += cut->element_bytes * stream + 2 * cut->linear_bytes * stream + embedding.saved_bytes;
  layer.released_by_I += cut->element_bytes * stream + embedding.released_by_I;
  layer.held_for_W += cut->linear_bytes * made + embedding.held_for_W;
  return layer;
}

/* The model's own head, and as much for each one that predicts a further token. */
static PieceMemory head_memory(const Cut *cut) {
  const PieceMemory loss = loss_memory(cut), mtp = mtp_memory(cut);
  PieceMemory memory = loss;
  for (int i = 0; i < cut->method->mtp_layers; i++) {
    memory.saved_bytes += loss.saved_bytes + mtp.saved_bytes;
    memory.released_by_I += loss.released_by_I + mtp.released_by_I;
    memory.held_for_W += loss.held_for_W + mtp.held_for_W;
    memory.transient_bytes = MAX(memory.transient_bytes, mtp.transient_bytes);
  }
  return memory;
}

static PieceMemory memory_of(const Cut *cut, Piece piece) {
  switch (piece) {
  case PIECE_EMBEDDING:
    return embedding_memory(cut);
  case PIECE_DENSE_LAYER:
  case PIECE_LAYER:
    return layer_memory(cut, piece);
  default:
    return head_memory(cut);
  }
}

PieceMemory piece_memory(const Cut *cut, Piece piece) {
  const PieceMemory memory = memory_of(cut, piece);
  return (PieceMemory){round(memory.saved_bytes), round(memory.released_by_I), round(memory.held_for_W),
                       round(memory.transient_bytes)};
}
