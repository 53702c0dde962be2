/* A linear layer under tensor parallelism (arXiv 1909.08053 §3, 2205.05198 §4.2.2), T = tokens:
 *
 *     forward           Y(T,n)  = X(T,k)·W(k,n)      TN
 *     input gradient    dX(T,k) = dY(T,n)·Wᵀ         NN
 *     weight gradient   dW(n,k) += dYᵀ·X             NT, into the main gradient
 *
 * Column-parallel: X whole, n cut. Under sequence parallelism X was saved in shards: it is gathered before forward,
 * and again for the weight gradient, beside the input gradient. dX is a partial sum: its reduction runs beside the
 * weight gradient.
 *
 *     compute   dX ─────────┬─ dW ─────┬─ next
 *     tp        gather X ───┘ reduce dX┘       (dW waits for the gather, next for the reduction; under a framework
 *                                               that reduces alone, dW waits for both)
 *
 * Latent attention gathers and reduces the few columns that Q, K and V are made from. Its down projections and the
 * router are not cut: each rank has their whole weights for its own tokens, with no tp collective. Nor do experts
 * have tp collectives here: their tokens arrive another way (experts.c), and their products are one launch for all of
 * a rank's experts.
 *
 * Row-parallel: k cut, Y a partial sum, reduced after forward; its gradient is gathered before backward.
 *
 * Some frameworks have a gate and what it multiplies, or queries, keys and values, as separate linears. The product
 * is still listed as one: that each linear writes a dX and launches its own kernels is not counted. What is counted:
 * the kernels that add up the linears' dX; a reduction over tp of each dX if tokens are not cut; a gather of X and a
 * reduction of dX for each linear if the framework does so, as one collective of as many bytes; and, if the
 * framework's linears copy what they read, a copy of X for each and of a row-parallel linear's dY.
 *
 * Every operand and result moves once through HBM. An accumulated result is read and written, by the product itself
 * or, under a framework that sums gradients separately, by a kernel after it that reads the product's output; both
 * are one item, as the same work is executed. Narrow formats (fp8 …) convert their operands by a separate kernel that
 * reads them and writes them in both orientations, since narrow products need the summed dimension contiguous.
 * Weights are converted once per step, which is not counted. Rows that were converted before they were sent to
 * experts arrive in one orientation, and are transposed for W by a kernel that reads and writes the narrow format.
 * The same holds for what tp gathers under a framework that gathers in the narrow format: each rank first converts
 * its own tokens, or their gradients. A bias is added in the product's epilogue; that of a row-parallel linear is
 * added with the residual or by a separate kernel. Its gradient is a pass over dY, but for the router's and the
 * experts': those come with the weights' gradients (Transformer Engine's GroupedLinear), and what else a framework
 * does for experts is listed there (expert_operations.c). */
#include "pieces.h"

struct LinearNames {
  const char *forward, *cast, *grad_cast, *turn, *dgrad, *wgrad, *bias_grad;
};
#define LINEAR_NAMES(name)                                                                                             \
  { name, name ".cast", name ".grad_cast", name ".turn", name ".dgrad", name ".wgrad", name ".bias_grad" }

static const LinearNames linear_names[N_LINEARS] = {
    [LINEAR_QKV] = LINEAR_NAMES("qkv"),
    [LINEAR_Q_DOWN] = LINEAR_NAMES("q_down"),
    [LINEAR_Q_UP] = LINEAR_NAMES("q_up"),
    [LINEAR_KV_DOWN] = LINEAR_NAMES("kv_down"),
    [LINEAR_KV_UP] = LINEAR_NAMES("kv_up"),
    [LINEAR_ATTN_OUT] = LINEAR_NAMES("attn_out"),
    [LINEAR_MLP_UP] = LINEAR_NAMES("mlp_up"),
    [LINEAR_MLP_DOWN] = LINEAR_NAMES("mlp_down"),
    [LINEAR_ROUTER] = LINEAR_NAMES("router"),
    [LINEAR_EXPERT_UP] = LINEAR_NAMES("expert_up"),
    [LINEAR_EXPERT_DOWN] = LINEAR_NAMES("expert_down"),
    [LINEAR_SHARED_UP] = LINEAR_NAMES("shared_up"),
    [LINEAR_SHARED_DOWN] = LINEAR_NAMES("shared_down"),
    [LINEAR_LOGITS] = LINEAR_NAMES("logits"),
    [LINEAR_MTP_PROJ] = LINEAR_NAMES("mtp_proj"),
};

/* Columns of an activation's input for `width` columns of its output. */
static gint64 up_width(const Cut *cut, gint64 width) {
  return cut->model->gated ? 2 * width : width;
}

/* Not cut by tp: this rank's tokens under sequence parallelism, all weights. */
static void make_whole(const Cut *cut, Linear *linear, gint64 n, gint64 k) {
  linear->n = n;
  linear->k = k;
  linear->tokens = cut->split_tokens;
  linear->is_whole = TRUE;
  linear->has_bias = FALSE;
}

/* The head and the router stay in the element format: frameworks keep the last layer and the choice of experts out of
 * narrow formats. */
static void keep_wide(const Cut *cut, Linear *linear) {
  linear->number = precision_info(cut->method->precision)->element;
  linear->bytes = cut->element_bytes;
  linear->casts = FALSE;
}

/* One product for each expert of the rank. */
static void make_group(const Cut *cut, Linear *linear, gint64 n, gint64 k) {
  linear->n = n;
  linear->k = k;
  linear->tokens = cut->expert_tokens;
  linear->group = cut->n_experts;
  linear->is_local = TRUE;
  linear->has_bias = model_has_expert_biases(cut->model);
}

/* The linears of latent attention. */
static void make_latent(const Cut *cut, LinearKind kind, Linear *linear) {
  const ModelLatent *latent = &cut->model->latent;
  const gint64 plain = cut->model->head_dim - latent->rope_dim;
  linear->has_bias = FALSE;
  if (kind == LINEAR_Q_DOWN)
    make_whole(cut, linear, latent->q_rank, cut->model->hidden);
  else if (kind == LINEAR_KV_DOWN)
    make_whole(cut, linear, latent->kv_rank + latent->rope_dim, cut->model->hidden);
  else if (kind == LINEAR_Q_UP)
    linear->n = cut->q_width,
    linear->k = linear->region_width = latent->q_rank > 0 ? latent->q_rank : cut->model->hidden;
  else /* the rotated part of K is gathered with what K and V are made from */
    linear->n = cut->heads * plain + cut->v_width, linear->k = latent->kv_rank,
    linear->region_width = latent->kv_rank + latent->rope_dim;
}

static void make_attention(const Cut *cut, LinearKind kind, Linear *linear) {
  if (kind == LINEAR_ATTN_OUT) {
    linear->k = cut->out_width;
    linear->has_bias = model_has_out_bias(cut->model);
    linear->region_of_another = cut->model->parallel_block;
  } else if (kind == LINEAR_QKV) {
    linear->n = cut->q_width + cut->kv_width + cut->v_width;
    linear->has_bias = cut->model->qkv_bias;
    linear->joins_branches = cut->shared_norm;
  } else {
    make_latent(cut, kind, linear);
  }
}

static void make_mlp(const Cut *cut, LinearKind kind, Linear *linear) {
  switch (kind) {
  case LINEAR_MLP_UP:
    linear->n = cut->up_width;
    linear->region_of_another = cut->shared_norm;
    break;
  case LINEAR_MLP_DOWN:
    linear->k = cut->ffn_width;
    linear->region_of_another = cut->model->parallel_block;
    break;
  case LINEAR_SHARED_UP:
    linear->n = up_width(cut, cut->shared_width);
    break;
  case LINEAR_SHARED_DOWN:
    linear->k = cut->shared_width;
    break;
  case LINEAR_EXPERT_UP:
    make_group(cut, linear, up_width(cut, cut->expert_width), cut->model->hidden);
    linear->input_comes_narrow = sends_narrow(cut);
    break;
  default: /* LINEAR_EXPERT_DOWN */
    make_group(cut, linear, cut->model->hidden, cut->expert_width);
    linear->gradient_comes_narrow = sends_narrow(cut);
    break;
  }
}

/* For gathers over tp in the narrow format, each rank converts its tokens first. The gathered tensor stays wide where
 * both branches of a parallel block read it, and where latent attention normalises it. */
static void gather_narrow(const Cut *cut, LinearKind kind, Linear *linear) {
  const gboolean is_row = kind == LINEAR_ATTN_OUT || kind == LINEAR_MLP_DOWN || kind == LINEAR_SHARED_DOWN;
  const gboolean is_column = kind == LINEAR_QKV || kind == LINEAR_MLP_UP || kind == LINEAR_SHARED_UP;
  if (cut->method->time.tensor_parallel.format != TP_FORMAT_LINEAR || !cut->casts || !cut->sequence_parallel ||
      cut->model->parallel_block)
    return;
  linear->gathers_narrow = is_row || is_column;
  linear->input_comes_narrow |= is_column;
  linear->gradient_comes_narrow |= is_row;
}

Linear linear_of(const Cut *cut, LinearKind kind) {
  const Model *model = cut->model;
  Linear linear = {
      .names = &linear_names[kind],
      .n = model->hidden,
      .k = model->hidden,
      .number = precision_info(cut->method->precision)->linear,
      .bytes = cut->linear_bytes,
      .region_width = model->hidden,
      .tokens = cut->tokens,
      .group = 1,
      .casts = cut->casts,
      .has_bias = model_has_mlp_bias(model),
  };
  if (kind <= LINEAR_ATTN_OUT) {
    make_attention(cut, kind, &linear);
  } else if (kind == LINEAR_ROUTER) {
    make_whole(cut, &linear, model->experts.n, model->hidden);
    linear.has_bias = model->experts.has_biases;
    keep_wide(cut, &linear);
  } else if (kind == LINEAR_MTP_PROJ) {
    linear.n = model->hidden / cut->tp;
    linear.k = linear.region_width = 2 * model->hidden;
    linear.has_bias = FALSE;
  } else if (kind == LINEAR_LOGITS) {
    linear.n = cut->vocab_width;
    linear.has_bias = model->head_bias;
    keep_wide(cut, &linear);
  } else {
    make_mlp(cut, kind, &linear);
  }
  linear.is_local = linear.is_local || linear.is_whole;
  gather_narrow(cut, kind, &linear);
  return linear;
}

int layer_linears(const Cut *cut, Piece piece, LinearKind kinds[N_LINEARS]) {
  const ModelLatent *latent = &cut->model->latent;
  const gboolean has_experts = piece == PIECE_LAYER && cut->n_experts > 0;
  int n = 0;
  if (latent->kv_rank == 0)
    kinds[n++] = LINEAR_QKV;
  if (latent->q_rank > 0)
    kinds[n++] = LINEAR_Q_DOWN;
  if (latent->kv_rank > 0)
    kinds[n++] = LINEAR_Q_UP, kinds[n++] = LINEAR_KV_DOWN, kinds[n++] = LINEAR_KV_UP;
  kinds[n++] = LINEAR_ATTN_OUT;
  if (!has_experts)
    kinds[n++] = LINEAR_MLP_UP, kinds[n++] = LINEAR_MLP_DOWN;
  else
    kinds[n++] = LINEAR_ROUTER, kinds[n++] = LINEAR_EXPERT_UP, kinds[n++] = LINEAR_EXPERT_DOWN;
  if (has_experts && cut->shared_width > 0)
    kinds[n++] = LINEAR_SHARED_UP, kinds[n++] = LINEAR_SHARED_DOWN;
  return n;
}

gboolean sends_narrow(const Cut *cut) {
  return cut->casts && cut->method->ep > 1 && cut->method->time.expert_format == EXPERT_FORMAT_LINEAR;
}

/* A single scale for a whole tensor needs its largest element first: one more read. Block scales do not. */
static gboolean needs_amax(const Cut *cut) {
  return cut->method->precision == PRECISION_FP8 && cut->method->time.scales == SCALES_TENSOR;
}

double cast_read_bytes(const Cut *cut) {
  return (needs_amax(cut) ? 2 : 1) * cut->element_bytes;
}

static double cast_bytes(const Cut *cut, const Linear *linear, gint64 width) {
  return (cast_read_bytes(cut) + 2 * linear->bytes) * linear->group * linear->tokens * width;
}

/* For a group: Transformer Engine converts each expert's rows separately (multi_tensor_quantize_impl of
 * pytorch/csrc/extensions/cast.cpp, 2025-26), in one kernel, or with one scale per tensor in four: its largest
 * element set to 0 and found, the scale, the conversion (Float8CurrentScalingQuantizer of quantizer.cpp). */
static int cast_launches(const Cut *cut, const Linear *linear) {
  if (linear->group == 1 || !cut->method->has_expert_operations)
    return 1;
  return (int)linear->group * (needs_amax(cut) ? 4 : 1);
}

static void convert(ItemList *list, const Linear *linear, const char *name, gint64 width) {
  item_list_operations(list, name, cast_launches(list->cut, linear), cast_bytes(list->cut, linear, width));
}

static void cast(ItemList *list, const Linear *linear) {
  if (linear->casts && !linear->input_comes_narrow)
    convert(list, linear, linear->names->cast, linear->k);
}

/* Converts this rank's tokens, in the orientation that W does not use. */
static void cast_before_gather(ItemList *list, const Linear *linear, const char *name) {
  if (linear->gathers_narrow)
    item_list_memory(list, name,
                     (cast_read_bytes(list->cut) + linear->bytes) * list->cut->split_tokens * linear->region_width);
}

void linear_cast(ItemList *list, LinearKind kind) {
  const Linear linear = linear_of(list->cut, kind);
  cast_before_gather(list, &linear, linear.names->cast);
  cast(list, &linear);
}

/* A gather by each of n_times linears. */
static gint32 gather(ItemList *list, const Linear *linear, const char *operand, int n_times) {
  if (linear->is_local)
    return NO_ITEM;
  return region_gather_columns(list, operand, n_times * linear->region_width,
                               linear->gathers_narrow ? linear->bytes : list->cut->element_bytes);
}

static void forward_product(ItemList *list, const Linear *linear) {
  const Cut *cut = list->cut;
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  cast(list, linear);
  item_list_matmul(list, linear->names->forward, linear->number, LAYOUT_TN,
                   (MatmulShape){linear->group, linear->tokens, linear->n, linear->k},
                   group * (linear->bytes * (t * k + k * n) + cut->element_bytes * t * n));
}

static void input_gradient(ItemList *list, const Linear *linear) {
  const Cut *cut = list->cut;
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  if (linear->casts && !linear->gradient_comes_narrow)
    convert(list, linear, linear->names->grad_cast, linear->n);
  item_list_matmul(list, linear->names->dgrad, linear->number, LAYOUT_NN,
                   (MatmulShape){linear->group, linear->tokens, linear->k, linear->n},
                   group * (linear->bytes * (t * n + n * k) + cut->element_bytes * t * k));
}

/* `bias_tokens`: a column-parallel bias sees all tokens, a row-parallel one is added after the reduction. */
static void weight_gradient(ItemList *list, const Linear *linear, gint64 bias_tokens) {
  const Cut *cut = list->cut;
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  if (linear->input_comes_narrow || linear->gradient_comes_narrow)
    item_list_memory(list, linear->names->turn, 2 * linear->bytes * group * t * (linear->input_comes_narrow ? k : n));
  item_list_weight_gradient(list, linear->names->wgrad, linear->number,
                            (MatmulShape){linear->group, linear->n, linear->k, linear->tokens},
                            group * linear->bytes * (n * t + t * k));
  if (linear->has_bias && !linear->is_local)
    item_list_memory(list, linear->names->bias_grad, cut->element_bytes * bias_tokens * n);
}

/* Columns of the product that are computed: all, or in recomputation only those of products that were not kept. */
static gint64 columns_made(const ItemList *list, LinearKind kind, const Linear *linear) {
  const gboolean gated = list->cut->model->gated;
  if (!list->every_other || kind == LINEAR_ATTN_OUT)
    return linear->n;
  if (kind == LINEAR_QKV)
    return list->cut->kv_width; /* those of K; V was kept */
  if (kind == LINEAR_MLP_UP)
    return gated ? linear->n / 2 : 0;
  return gated ? 0 : linear->n;
}

/* The number of the framework's linears that one listed product stands for: three for queries, keys and values, two
 * for a gate and what it multiplies, if it keeps them apart. */
static int linears_apart(const Cut *cut, LinearKind kind) {
  const FrameworkSplitLinears *linears = &cut->method->time.linears;
  const gboolean is_gated = cut->model->gated && (kind == LINEAR_MLP_UP || kind == LINEAR_SHARED_UP);
  if (kind == LINEAR_QKV)
    return linears->qkv == LINEARS_APART ? 3 : 1;
  return is_gated && linears->gate == LINEARS_APART ? 2 : 1;
}

/* How many of n linears gather their input under sequence parallelism. */
static int n_gathers(const Cut *cut, int n_linears) {
  return cut->method->time.tensor_parallel.exchanges == TP_EXCHANGES_EACH ? n_linears : 1;
}

/* Adds memory kernels that run after the last listed product and move `bytes` in total. */
static void list_behind(ItemList *list, double bytes) {
  g_array_index(list->items, WorkItem, list->last_compute).behind_bytes += bytes;
}

static gboolean is_cut(const Cut *cut, const Linear *linear) {
  return cut->tp > 1 && !linear->is_local;
}

/* Each of n linears cut by tp copies (reads and writes) its whole input, or its output's gradient, of T tokens and w
 * columns: n·2·T·w elements. Under sequence parallelism its input was gathered and is not copied. */
static double copied_bytes(const Cut *cut, const Linear *linear, int n_linears) {
  const gboolean copies =
      is_cut(cut, linear) && !cut->sequence_parallel && cut->method->time.tensor_parallel.input == TP_INPUT_COPIED;
  return copies ? 2.0 * n_linears * cut->element_bytes * linear->tokens * linear->region_width : 0;
}

/* How many input gradients tp reduces: under sequence parallelism only their sum, unless each linear exchanges for
 * itself; otherwise that of each linear, counted as one reduction of as many bytes. */
static int n_sums(const Cut *cut, int n_linears) {
  return cut->sequence_parallel ? n_gathers(cut, n_linears) : n_linears;
}

/* How often T·k elements are read or written to add up the input gradients of n linears. Autograd adds them two at a
 * time: n − 1 kernels read two and write one, 3·(n − 1). If the sum is fused, one kernel reads all n: either the
 * kernel that reads the sum anyway, with n − 1 more reads; or, where tp reduces the sum and not each gradient
 * (n_sums), a kernel that writes it first, n + 1. */
static int added_passes(const Cut *cut, const Linear *linear, int n_linears) {
  if (n_linears == 1)
    return 0;
  if (cut->method->time.linears.input_gradient_sums == INPUT_GRADIENT_SUMS_APART)
    return 3 * (n_linears - 1);
  return is_cut(cut, linear) && cut->sequence_parallel && n_sums(cut, n_linears) == 1 ? n_linears + 1 : n_linears - 1;
}

/* For this rank's T/tp tokens if each gradient was reduced first. */
static double added_bytes(const Cut *cut, const Linear *linear, int n_linears) {
  const gboolean is_scattered = is_cut(cut, linear) && cut->sequence_parallel && n_sums(cut, n_linears) > 1;
  const gint64 tokens = is_scattered ? cut->split_tokens : linear->tokens;
  return added_passes(cut, linear, n_linears) * cut->element_bytes * tokens * linear->k;
}

/* A kernel that adds a row-parallel linear's bias reads and writes its output, for this rank's T/tp tokens under
 * sequence parallelism: 2·n per token. */
static double row_bias_bytes(const Cut *cut, const Linear *linear) {
  const gboolean is_apart = linear->has_bias && !linear->is_local && cut->method->time.row_bias == ROW_BIAS_APART;
  return is_apart ? 2 * cut->element_bytes * cut->split_tokens * linear->n : 0;
}

void linear_column_forward(ItemList *list, LinearKind kind) {
  Linear linear = linear_of(list->cut, kind);
  linear.n = columns_made(list, kind, &linear);
  if (linear.n == 0)
    return;
  cast_before_gather(list, &linear, linear.names->cast);
  const int n_linears = linears_apart(list->cut, kind);
  if (!linear.region_of_another)
    item_list_wait(list, gather(list, &linear, linear.names->forward, n_gathers(list->cut, n_linears)));
  forward_product(list, &linear);
  list_behind(list, copied_bytes(list->cut, &linear, n_linears));
}

void linear_column_backward(ItemList *list, LinearKind kind) {
  const Cut *cut = list->cut;
  const Linear linear = linear_of(cut, kind);
  const int n_linears = linears_apart(cut, kind);
  gint32 gathered = NO_ITEM, reduced = NO_ITEM;
  const gint32 awaited = list->awaited; /* both the gather and the product it overlaps wait for it */
  if (list->weight_gradients)
    gathered = gather(list, &linear, linear.names->wgrad, n_gathers(cut, n_linears));
  if (list->input_gradients) {
    list->awaited = awaited;
    input_gradient(list, &linear);
    list_behind(list, added_bytes(cut, &linear, n_linears));
    if (linear.joins_branches)
      item_list_memory(list, "branch_sum", 3 * cut->element_bytes * cut->tokens * linear.k);
    if (!linear.region_of_another && !linear.is_local)
      reduced = region_reduce_columns(list, linear.names->dgrad, n_sums(cut, n_linears) * linear.region_width);
  }
  if (cut->method->time.tensor_parallel.reduction == TP_ALONE)
    item_list_wait(list, reduced);
  if (list->weight_gradients) {
    item_list_wait(list, gathered);
    weight_gradient(list, &linear, cut->tokens);
  }
  item_list_wait(list, reduced);
}

void linear_row_forward(ItemList *list, LinearKind kind) {
  Linear linear = linear_of(list->cut, kind);
  linear.n = columns_made(list, kind, &linear);
  if (linear.n > 0) {
    forward_product(list, &linear);
    list_behind(list, row_bias_bytes(list->cut, &linear));
  }
  if (!linear.region_of_another && !linear.is_local)
    item_list_wait(list, region_reduce(list, linear.names->forward));
}

void linear_row_backward(ItemList *list, LinearKind kind) {
  const Linear linear = linear_of(list->cut, kind);
  if (list->input_gradients) {
    cast_before_gather(list, &linear, linear.names->grad_cast);
    if (!linear.region_of_another)
      item_list_wait(list, gather(list, &linear, linear.names->dgrad, 1));
    input_gradient(list, &linear);
    list_behind(list, copied_bytes(list->cut, &linear, 1));
  }
  if (list->weight_gradients)
    weight_gradient(list, &linear, list->cut->split_tokens);
}
