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
 * sums to s·b·h·(34 + 5·a·s/h). Full recompute keeps only the layer's input, of layers made again together only the
 * first one's; while these run backward, all of them exist again. Selective recompute drops the outputs of
 * its modules; each exists again while its side of the layer, attention's or the MLP's, runs backward:
 *
 *     core_attn                       scores, unfused
 *     layernorm                       outputs of both norms, and what else a framework keeps of them
 *     mla_up_proj                     Q, K, V and the outputs of the norms before them
 *     moe_act                         input of expert_down
 *     mlp, moe, shared_experts        everything inside; the input of mlp and moe is kept, as the norm made it
 *
 * Of what W uses only the inputs of products with adapters are kept where weights are frozen, and attention's output
 * for flash attention; nothing at all where no backward comes to.
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
static gint64 input_width(const LocalSizes *local, gint64 width) {
  return local->model->gated ? 2 * width : width;
}

/* Experts: what W uses, and below what I uses. */
static double expert_linear_inputs(const LocalSizes *local) {
  return local->linear_bytes * ((double)local->expert_rows * (local->model->hidden + local->expert_width) +
                                (double)local->tokens * local->shared_width);
}

/* Bytes per element of the input of an activation in a layer with experts. */
static double activation_input_bytes(const LocalSizes *local) {
  const double bytes = local->method->memory.activation_input_bytes;
  return bytes > 0 ? bytes : local->element_bytes;
}

static double shared_rest(const LocalSizes *local) {
  return activation_input_bytes(local) * local->tokens * input_width(local, local->shared_width);
}

static double expert_rest(const LocalSizes *local) {
  const double scores = (local->element_bytes + 5) * local->split_tokens * local->model->experts.n;
  const double gathered = (local->element_bytes + 1) * expert_gathered_tokens(local) * local->n_experts;
  return scores + gathered + 4.0 * local->expert_rows +
         activation_input_bytes(local) * local->expert_rows * input_width(local, local->expert_width) +
         shared_rest(local);
}

/* What a norm of this many elements keeps besides its input. With plain kernels a LayerNorm is still a single one,
 * which keeps nothing more. */
static double norm_rest(const LocalSizes *local, double elements) {
  const gboolean is_kept = local->method->plain_norm ? local->model->norm == NORM_RMSNORM
                                                     : local->method->memory.kernels != FRAMEWORK_KERNELS_PLAIN;
  return is_kept ? local->method->memory.norm_bytes * elements : 0;
}

/* After the norms (W), and below before them (I). */
static double latent_linear_inputs(const LocalSizes *local) {
  return local->linear_bytes * local->split_tokens * (local->model->latent.q_rank + local->model->latent.kv_rank);
}

static double latent_rest(const LocalSizes *local) {
  const ModelLatent *latent = &local->model->latent;
  return local->element_bytes * local->split_tokens * (latent->q_rank + latent->kv_rank + latent->rope_dim);
}

/* In the form that attn_out's weight gradient reads. */
static double attention_output(const LocalSizes *local) {
  return local->linear_bytes * local->tokens * local->out_width;
}

/* Elements that the norms of a layer's q and k read. */
static double qk_norm_elements(const LocalSizes *local) {
  return local->model->qk_norms != QK_NORMS_NONE ? (double)local->tokens * (local->q_width + local->kv_width) : 0;
}

static LayerTensors layer_tensors(const LocalSizes *local, gboolean has_experts) {
  const gboolean parallel = local->model->parallel_block, flash = local->method->attention == ATTENTION_FLASH;
  const double e = local->element_bytes, stream = (double)local->split_tokens * local->model->hidden, t = local->tokens;
  const int n_branches = parallel ? 1 : 2; /* where a mask is drawn, and where a norm before the branches reads */
  const gint64 n_streams = MIN(n_branches, local->n_norms);
  LayerTensors tensors = {.layer_input = e * stream};
  const double ffn = has_experts ? 0 : local->ffn_width, up = has_experts ? 0 : local->up_width;
  tensors.linear_inputs = local->linear_bytes * (local->n_inputs * stream + t * ffn) + attention_output(local);
  tensors.rest = e * ((n_streams + local->n_post_norms) * stream + t * local_dealt_width(local) + t * up +
                      qk_norm_elements(local));
  if (has_experts) {
    tensors.linear_inputs += expert_linear_inputs(local);
    tensors.rest += expert_rest(local);
  }
  if (local->model->latent.kv_rank > 0) {
    tensors.linear_inputs += latent_linear_inputs(local);
    tensors.rest += latent_rest(local);
  }
  if (local->model->dropout_rate.hidden > 0)
    tensors.rest += n_branches * stream;
  const FrameworkMemory *framework = &local->method->memory;
  const gboolean plain = framework->kernels == FRAMEWORK_KERNELS_PLAIN;
  tensors.rest += norm_rest(local, (local->n_norms + local->n_post_norms) * stream + qk_norm_elements(local));
  if (plain)
    tensors.rest += e * t * (local->out_width + (local->model->gated ? ffn : 0));
  if (framework->gathered == GATHERED_KEPT)
    tensors.linear_inputs += local->linear_bytes * local->n_inputs * (t * local->model->hidden - stream);
  if (flash) {
    tensors.rest += attention_row_sums_bytes(local);
    const gboolean of_heads = local->cp > 1 && local->method->cp_comm == CP_ULYSSES;
    /* flash needs its output, not attn_out's operand */
    if (of_heads || local->casts)
      tensors.rest += e * t * local->out_width;
  } else {
    tensors.scores = local->scores * ((local->model->dropout_rate.attention > 0 ? 2 * e + 1 : e) + (plain ? 4 : 0));
  }
  return tensors;
}

/* Whether weights of the layer's products have gradients. */
static gboolean trains_products(const LocalSizes *local, Piece piece) {
  return local->method->training.rank == 0 && !piece_is_frozen(piece);
}

static int adapters_in(const LocalSizes *local, Piece piece, LinearKind kind, Adapter adapters[MOST_ADAPTERS]) {
  const Linear linear = linear_of(local, kind);
  return piece_is_frozen(piece) ? 0 : adapters_of(local, kind, &linear, adapters);
}

/* What a product with adapters keeps of its input, but for norms' outputs. */
static double own_input(const LocalSizes *local, LinearKind kind) {
  const double bytes = local->linear_bytes, t = local->tokens, rows = local->expert_rows;
  const ModelLatent *latent = &local->model->latent;
  switch (kind) {
  case LINEAR_Q_UP:
    return bytes * local->split_tokens * latent->q_rank;
  case LINEAR_KV_UP:
    return bytes * local->split_tokens * latent->kv_rank;
  case LINEAR_ATTN_OUT:
    return attention_output(local);
  case LINEAR_MLP_DOWN:
    return bytes * t * local->ffn_width;
  case LINEAR_SHARED_DOWN:
    return bytes * t * local->shared_width;
  case LINEAR_EXPERT_UP:
    return bytes * rows * local->model->hidden;
  case LINEAR_EXPERT_DOWN:
    return bytes * rows * local->expert_width;
  default:
    return 0;
  }
}

/* Frozen weights need no inputs; adapters need those of their products, norms' outputs once, and what A makes of
 * them. */
static void drop_inputs(const LocalSizes *local, Piece piece, LayerTensors *tensors) {
  const double rank = local->method->training.rank, stream = (double)local->split_tokens * local->model->hidden;
  const gboolean gathers = local->method->memory.gathered == GATHERED_KEPT;
  const double read = local->linear_bytes * (gathers ? (double)local->tokens * local->model->hidden : stream);
  gboolean reads_attention = FALSE, reads_mlp = FALSE, keeps_output = FALSE;
  double kept = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece_family(piece), kinds);
  for (int i = 0; i < n; i++) {
    Adapter adapters[MOST_ADAPTERS];
    const int n_adapters = adapters_in(local, piece, kinds[i], adapters);
    for (int a = 0; a < n_adapters; a++)
      kept += local->element_bytes * (double)adapters[a].group * (double)adapters[a].tokens * rank;
    if (n_adapters == 0)
      continue;
    kept += own_input(local, kinds[i]);
    keeps_output |= kinds[i] == LINEAR_ATTN_OUT;
    reads_attention |= kinds[i] < LINEAR_ATTN_OUT;
    reads_mlp |= kinds[i] == LINEAR_MLP_UP || kinds[i] == LINEAR_SHARED_UP;
  }
  const gboolean of_heads = local->cp > 1 && local->method->cp_comm == CP_ULYSSES;
  if (local->method->attention == ATTENTION_FLASH && !keeps_output && !of_heads && !local->casts)
    tensors->rest += attention_output(local); /* which flash attention's backward reads */
  tensors->linear_inputs =
      kept + read * (local->shared_norm ? reads_attention || reads_mlp : reads_attention + reads_mlp);
}

/* Gradients of the linears' outputs, which W multiplies with their inputs; those of row-parallel linears are
 * gathered. The two branches of a parallel block share one. */
static double layer_output_gradients(const LocalSizes *local, Piece piece) {
  double elements = 0;
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece_family(piece), kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    Adapter adapters[MOST_ADAPTERS];
    const int n_adapters = trains_products(local, piece) ? 0 : adapters_in(local, piece, kinds[i], adapters);
    for (int a = 0; a < n_adapters; a++)
      elements += (double)linear.group * linear.tokens * (double)(adapters[a].n + local->method->training.rank);
    if (!trains_products(local, piece) || (kinds[i] == LINEAR_ATTN_OUT && local->model->parallel_block))
      continue;
    elements += (double)linear.group * linear.tokens * linear.n;
  }
  return local->linear_bytes * elements;
}

/* Elements of the gradients that a kernel of experts reads and writes. The widest are the activation's, or, with
 * gathered tokens, those of all these and of the rows of the rank's experts, each made from the other on either side
 * of the experts. */
static double expert_gradients(const LocalSizes *local) {
  const double rows = local->expert_rows, gathered = expert_gathered_tokens(local);
  const double activation = rows * (double)(input_width(local, local->expert_width) + local->expert_width);
  return gathered > 0 ? MAX(activation, (gathered + rows) * (double)local->model->hidden) : activation;
}

/* The gradient a backward kernel reads and the one it writes are alive together. The widest such pair is that of the
 * activation or another kernel of experts, that of unfused attention's softmax, or the buffers of attention cut by
 * cp. */
static double widest_gradients(const LocalSizes *local, gboolean has_experts) {
  const double activation =
      has_experts ? expert_gradients(local) : (double)local->tokens * (local->up_width + local->ffn_width);
  const gboolean unfused = local->method->attention == ATTENTION_UNFUSED;
  const gboolean plain = local->method->memory.kernels == FRAMEWORK_KERNELS_PLAIN;
  const double softmax = unfused ? (plain ? local->element_bytes + 8 : 2 * local->element_bytes) * local->scores : 0;
  const double widest = MAX(local->element_bytes * activation, softmax);
  return local->cp > 1 ? MAX(widest, context_buffer_bytes(local)) : widest;
}

/* For keeps_every_other_product; includes what tp has reduce-scattered. */
static double kept_products(const LocalSizes *local) {
  const double stream = (double)local->split_tokens * local->model->hidden, t = local->tokens;
  double elements = t * (2 * local->q_width + local->kv_width + local->ffn_width);
  if (local->model->gated) /* a third product of the MLP; of two the second is not kept */
    elements += stream;
  if (local->sequence_parallel)
    elements += 2 * stream;
  return local->element_bytes * elements + attention_row_sums_bytes(local);
}

static gboolean drops(const LocalSizes *local, RecomputeModule module) {
  return (local->method->recompute_modules & MODULE_BIT(module)) != 0;
}

/* A norm's output is not dropped if its gathered copy is kept instead. */
static Dropped dropped_norm(const LocalSizes *local) {
  const gboolean is_gathered = local->method->memory.gathered == GATHERED_KEPT && local->sequence_parallel;
  const double stream = (double)local->split_tokens * local->model->hidden;
  return (Dropped){is_gathered ? 0 : local->linear_bytes * stream, norm_rest(local, stream)};
}

static Dropped dropped_of_attention(const LocalSizes *local) {
  Dropped dropped = {0};
  if (drops(local, MODULE_LAYERNORM))
    dropped = dropped_norm(local);
  if (drops(local, MODULE_MLA_UP_PROJ)) {
    dropped.linear_inputs += latent_linear_inputs(local);
    dropped.rest += local->element_bytes * local->tokens * (local->q_width + local->kv_width + local->v_width);
  }
  return dropped;
}

/* Drops a whole MLP, or all experts. Its input stays, in the element format, unless recomputing the norm restores
 * it. */
static Dropped dropped_branch(const LocalSizes *local, double linear_inputs, double rest) {
  const double input = (double)local->split_tokens * local->model->hidden;
  Dropped dropped = {linear_inputs, rest};
  if (!drops(local, MODULE_LAYERNORM))
    dropped.linear_inputs -= (local->element_bytes - local->linear_bytes) * input;
  return dropped;
}

static Dropped dropped_of_mlp(const LocalSizes *local, gboolean has_experts) {
  const double t = local->tokens, ffn = local->ffn_width;
  const gboolean keeps_gate = local->method->memory.kernels == FRAMEWORK_KERNELS_PLAIN && local->model->gated;
  const Dropped norm = drops(local, MODULE_LAYERNORM) ? dropped_norm(local) : (Dropped){0};
  Dropped dropped = {0};
  if (!has_experts && drops(local, MODULE_MLP))
    dropped = dropped_branch(local, local->linear_bytes * t * ffn,
                             local->element_bytes * t * (local->up_width + (keeps_gate ? ffn : 0)));
  if (has_experts && drops(local, MODULE_MOE))
    dropped = dropped_branch(local, expert_linear_inputs(local), expert_rest(local));
  if (has_experts && drops(local, MODULE_MOE_ACT))
    dropped.linear_inputs += local->linear_bytes * local->expert_rows * local->expert_width;
  if (has_experts && drops(local, MODULE_SHARED_EXPERTS)) {
    dropped.linear_inputs += local->linear_bytes * t * local->shared_width;
    dropped.rest += shared_rest(local);
  }
  return (Dropped){dropped.linear_inputs + norm.linear_inputs, dropped.rest + norm.rest};
}

static void keep_all(PieceMemory *memory, const LayerTensors *tensors) {
  memory->saved_bytes = tensors->rest + tensors->linear_inputs + tensors->scores;
  memory->released_by_I = tensors->rest + tensors->scores;
}

/* I recomputes what W needs. */
static void drop_modules(PieceMemory *memory, const LocalSizes *local, const LayerTensors *tensors,
                         gboolean has_experts) {
  const Dropped attention = dropped_of_attention(local), mlp = dropped_of_mlp(local, has_experts);
  const double scores = drops(local, MODULE_CORE_ATTN) ? tensors->scores : 0;
  const double linear_inputs = attention.linear_inputs + mlp.linear_inputs, rest = attention.rest + mlp.rest;
  keep_all(memory, tensors);
  memory->saved_bytes -= linear_inputs + rest + scores;
  memory->released_by_I -= rest + scores;
  memory->held_for_W += linear_inputs;
  memory->transient_bytes += MAX(attention.linear_inputs + attention.rest + scores, mlp.linear_inputs + mlp.rest);
}

/* What W reads that a recomputed layer keeps: its input, if a linear reads that unchanged, and attention's output if
 * every other product is kept. */
static double kept_linear_inputs(const LocalSizes *local, const LayerTensors *tensors) {
  const gboolean reads_input = local->n_norms == 0 && !local->casts;
  const gboolean reads_output = local->method->keeps_every_other_product && !local->casts;
  return (reads_input ? tensors->layer_input : 0) + (reads_output ? attention_output(local) : 0);
}

/* Layers recomputed together keep the input of the first, the one that is not APART. */
static PieceMemory layer_memory(const LocalSizes *local, Piece piece, int n_at_once) {
  const gboolean has_experts = piece_family(piece) == PIECE_LAYER && local->n_experts > 0;
  LayerTensors tensors = layer_tensors(local, has_experts);
  if (!trains_products(local, piece))
    drop_inputs(local, piece, &tensors);
  const double all = tensors.rest + tensors.linear_inputs + tensors.scores;
  PieceMemory memory = {.held_for_W = layer_output_gradients(local, piece),
                        .transient_bytes = widest_gradients(local, has_experts)};
  if (local->method->recompute == RECOMPUTE_NONE ||
      (local->method->recompute == RECOMPUTE_FULL && !piece_recomputes(local->method, piece))) {
    keep_all(&memory, &tensors);
  } else if (local->method->recompute == RECOMPUTE_SELECTIVE && !local->method->keeps_every_other_product) {
    drop_modules(&memory, local, &tensors, has_experts);
  } else {
    const double products = local->method->keeps_every_other_product ? kept_products(local) : 0;
    const double input = piece_is_apart(piece) ? 0 : tensors.layer_input;
    const double stays = piece_is_apart(piece) ? 0 : MIN(kept_linear_inputs(local, &tensors), tensors.linear_inputs);
    memory.saved_bytes = input + products;
    memory.released_by_I = memory.saved_bytes - stays;
    memory.held_for_W += tensors.linear_inputs - stays; /* recomputed by I */
    memory.transient_bytes += MAX(n_at_once * all - (tensors.layer_input + products), 0);
  }
  return memory;
}

/* The gradient of one vocabulary matrix in the element format, unless it is accumulated in place. */
static double vocabulary_gradient(const LocalSizes *local) {
  const gboolean dense = local->method->memory.vocabulary_gradients == VOCABULARY_GRADIENTS_DENSE;
  return dense ? local->element_bytes * local_vocab_parameters(local) : 0;
}

/* The dropout mask and the norm's input; token ids are negligible. W needs the gradient of all tokens. */
static PieceMemory embedding_memory(const LocalSizes *local) {
  const double stream = (double)local->split_tokens * local->model->hidden;
  const double norm = local->model->embedding_norm ? local->element_bytes * stream + norm_rest(local, stream) : 0;
  const double mask = local->model->dropout_rate.embedding > 0 ? stream : 0;
  return (PieceMemory){
      .saved_bytes = mask + norm,
      .released_by_I = mask + norm,
      .held_for_W = local->element_bytes * local->tokens * local->model->hidden,
      .transient_bytes = vocabulary_gradient(local),
  };
}

/* Bytes per logit kept from forward, and those made in addition while backward runs. Vocabulary-parallel: the softmax
 * in fp32, replacing the logits, and their gradient. Plain: PyTorch's cross_entropy keeps the log-softmax beside the
 * logits that the model returns, and makes its gradient and that of the logits in fp32 before it converts the latter.
 * Fused, the gradient has already replaced the logits. */
static double kept_of_logit(const LocalSizes *local) {
  const double capped = local->model->capped_logits ? local->element_bytes : 0;
  return (local->method->time.loss == LOSS_FUSED ? local->element_bytes : 4) + capped;
}

static double made_of_logit(const LocalSizes *local) {
  const double stated = local->method->memory.logit_bytes;
  if (stated > 0)
    return MAX(stated - kept_of_logit(local), 0);
  switch (local->method->time.loss) {
  case LOSS_PLAIN:
    return 8 + 2 * local->element_bytes;
  case LOSS_FUSED:
    return 0;
  default:
    return local->element_bytes;
  }
}

int local_loss_chunks(const LocalSizes *local) {
  const gint64 factor = (local->vocab_width + local->model->hidden - 1) / local->model->hidden;
  gint64 chunk = 1;
  while (chunk * factor < local->tokens)
    chunk *= 2;
  return (int)((local->tokens + chunk - 1) / chunk);
}

/* Chunked (head.c): forward leaves the gradients of the stream and of the weights, and makes a chunk's logits. A fourth
 * matrix, beside weights, their gradient and what accumulates it, is in the peaks that Liger-Kernel prints. */
static PieceMemory chunked_loss_memory(const LocalSizes *local) {
  const double e = local->element_bytes, stream = e * local->split_tokens * local->model->hidden;
  const double gradient = logits_train(local->model, local->method) ? e * local_vocab_parameters(local) : 0;
  return (PieceMemory){
      .saved_bytes = 2 * stream + gradient,
      .released_by_I = 2 * stream,
      .transient_bytes = e * (double)local->tokens / local_loss_chunks(local) * local->vocab_width + gradient,
  };
}

/* The norm's input, the product's input, and what is kept of the logits: also the capped ones, from which backward
 * computes the cap's slope. */
static PieceMemory loss_memory(const LocalSizes *local) {
  if (local->method->time.loss == LOSS_CHUNKED)
    return chunked_loss_memory(local);
  const double stream = local->element_bytes * local->split_tokens * local->model->hidden;
  const gboolean is_gathered = local->method->memory.gathered == GATHERED_KEPT && local->tp > 1;
  const gboolean is_trained = logits_train(local->model, local->method);
  const double read = !is_trained   ? 0
                      : is_gathered ? local->element_bytes * local->tokens * local->model->hidden
                                    : stream;
  const double logits = (double)local->tokens * local->vocab_width;
  const double gradient = is_trained ? local->element_bytes * logits : 0;
  const FrameworkMemory *framework = &local->method->memory;
  const double seen = framework->logits != LOGITS_SPLIT ? logits * local->tp : logits; /* the logits that the loss is
                                                                                        computed from */
  /* those received from each rank, and this rank's own */
  const double pieces = framework->logits == LOGITS_WHOLE && local->tp > 1 ? local->element_bytes * (seen + logits) : 0;
  return (PieceMemory){
      .saved_bytes = stream + read + kept_of_logit(local) * seen,
      .released_by_I = stream + kept_of_logit(local) * seen,
      .held_for_W = gradient,
      .transient_bytes = made_of_logit(local) * seen + pieces + (is_trained ? vocabulary_gradient(local) : 0),
  };
}

/* A head that predicts a further token (mtp.c), without its logits: the norms' inputs, of which x is already kept,
 * and the product's, in addition to the layer's own. W of the product needs the gradient of its output. */
static PieceMemory mtp_memory(const LocalSizes *local) {
  PieceMemory layer = layer_memory(local, head_recomputes(local->method) ? PIECE_LAYER : PIECE_LAYER_APART, 1);
  const double stream = (double)local->split_tokens * local->model->hidden;
  const double made = (double)local->tokens * linear_of(local, LINEAR_MTP_PROJ).n;
  const PieceMemory embedding = embedding_memory(local);
  layer.saved_bytes += local->element_bytes * stream + 2 * local->linear_bytes * stream + embedding.saved_bytes;
  layer.released_by_I += local->element_bytes * stream + embedding.released_by_I;
  layer.held_for_W += local->linear_bytes * made + embedding.held_for_W;
  return layer;
}

/* The model's own head, and as much for each one that predicts a further token. */
static PieceMemory head_memory(const LocalSizes *local) {
  const PieceMemory loss = loss_memory(local), mtp = mtp_memory(local);
  PieceMemory memory = loss;
  for (int i = 0; i < local->method->mtp_layers; i++) {
    memory.saved_bytes += loss.saved_bytes + mtp.saved_bytes;
    memory.released_by_I += loss.released_by_I + mtp.released_by_I;
    memory.held_for_W += loss.held_for_W + mtp.held_for_W;
    memory.transient_bytes = MAX(memory.transient_bytes, mtp.transient_bytes);
  }
  return memory;
}

static PieceMemory memory_of(const LocalSizes *local, Piece piece, int n_at_once) {
  if (!piece_passes_back(local->method, piece))
    return (PieceMemory){0};
  if (piece_is_layer(piece))
    return layer_memory(local, piece, n_at_once);
  return piece == PIECE_EMBEDDING ? embedding_memory(local) : head_memory(local);
}

PieceMemory piece_memory(const LocalSizes *local, Piece piece, int n_at_once) {
  const PieceMemory memory = memory_of(local, piece, n_at_once);
  return (PieceMemory){round(memory.saved_bytes), round(memory.released_by_I), round(memory.held_for_W),
                       round(memory.transient_bytes)};
}
