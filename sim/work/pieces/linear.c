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
 * Weights are converted once per step, which is not counted, except where each product of experts converts its
 * operands for itself (expert_conversions of quirks.c). Rows that were converted before they were sent to experts
 * arrive in one orientation, and are transposed for W by a kernel that reads and writes the narrow format. The same
 * holds for what tp gathers under a framework that gathers in the narrow format: each rank first converts its own
 * tokens, or their gradients. A bias is added in the product's epilogue; that of a row-parallel linear is
 * added with the residual or by a separate kernel. Its gradient is a pass over dY, but for the router's and the
 * experts': those come with the weights' gradients (Transformer Engine's GroupedLinear), and what else a framework
 * does for experts is listed there (expert_operations.c). */
#include "pieces.h"

struct LinearNames {
  const char *forward, *cast, *grad_cast, *turn, *dgrad, *wgrad, *bias_grad, *widen;
};
#define LINEAR_NAMES(name)                                                                                             \
  {                                                                                                                    \
    name, name ".cast", name ".grad_cast", name ".turn", name ".dgrad", name ".wgrad", name ".bias_grad",              \
        name ".widen"                                                                                                  \
  }

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
static gint64 up_width(const LocalSizes *local, gint64 width) {
  return local->model->gated ? 2 * width : width;
}

/* Not cut by tp: this rank's tokens under sequence parallelism, all weights. */
static void make_whole(const LocalSizes *local, Linear *linear, gint64 n, gint64 k) {
  linear->n = n;
  linear->k = k;
  linear->tokens = local->split_tokens;
  linear->is_whole = TRUE;
  linear->has_bias = FALSE;
}

/* The head and the router stay in the element format: frameworks keep the last layer and the choice of experts out of
 * narrow formats. */
static void keep_wide(const LocalSizes *local, Linear *linear) {
  linear->number = precision_info(local->method->precision)->element;
  linear->bytes = local->element_bytes;
  linear->casts = FALSE;
}

/* One product for each expert of the rank. */
static void make_group(const LocalSizes *local, Linear *linear, gint64 n, gint64 k) {
  linear->n = n;
  linear->k = k;
  linear->tokens = local->expert_tokens;
  linear->group = local->n_experts;
  linear->is_local = TRUE;
  linear->has_bias = model_has_expert_biases(local->model);
}

/* The linears of latent attention. */
static void make_latent(const LocalSizes *local, LinearKind kind, Linear *linear) {
  const ModelLatent *latent = &local->model->latent;
  const gint64 plain = local->model->head_dim - latent->rope_dim;
  linear->has_bias = FALSE;
  if (kind == LINEAR_Q_DOWN)
    make_whole(local, linear, latent->q_rank, local->model->hidden);
  else if (kind == LINEAR_KV_DOWN)
    make_whole(local, linear, latent->kv_rank + latent->rope_dim, local->model->hidden);
  else if (kind == LINEAR_Q_UP)
    linear->n = local->q_width,
    linear->k = linear->region_width = latent->q_rank > 0 ? latent->q_rank : local->model->hidden;
  else /* the rotated part of K is gathered with what K and V are made from */
    linear->n = local->heads * plain + local->v_width, linear->k = latent->kv_rank,
    linear->region_width = latent->kv_rank + latent->rope_dim;
}

static void make_attention(const LocalSizes *local, LinearKind kind, Linear *linear) {
  if (kind == LINEAR_ATTN_OUT) {
    linear->k = local->out_width;
    linear->has_bias = model_has_out_bias(local->model);
    linear->region_of_another = local->model->parallel_block;
  } else if (kind == LINEAR_QKV) {
    linear->n = local->q_width + local->kv_width + local->v_width;
    linear->has_bias = local->model->qkv_bias;
    linear->joins_branches = local->shared_norm;
  } else {
    make_latent(local, kind, linear);
  }
}

static void make_mlp(const LocalSizes *local, LinearKind kind, Linear *linear) {
  switch (kind) {
  case LINEAR_MLP_UP:
    linear->n = local->up_width;
    linear->region_of_another = local->shared_norm;
    break;
  case LINEAR_MLP_DOWN:
    linear->k = local->ffn_width;
    linear->region_of_another = local->model->parallel_block;
    break;
  case LINEAR_SHARED_UP:
    linear->n = up_width(local, local->shared_width);
    break;
  case LINEAR_SHARED_DOWN:
    linear->k = local->shared_width;
    break;
  case LINEAR_EXPERT_UP:
    make_group(local, linear, up_width(local, local->expert_width), local->model->hidden);
    linear->input_comes_narrow = sends_narrow(local);
    break;
  default: /* LINEAR_EXPERT_DOWN */
    make_group(local, linear, local->model->hidden, local->expert_width);
    linear->gradient_comes_narrow = sends_narrow(local);
    break;
  }
}

/* For gathers over tp in the narrow format, each rank converts its tokens first. The gathered tensor stays wide where
 * both branches of a parallel block read it, and where latent attention normalises it. */
static void gather_narrow(const LocalSizes *local, LinearKind kind, Linear *linear) {
  const gboolean is_row = kind == LINEAR_ATTN_OUT || kind == LINEAR_MLP_DOWN || kind == LINEAR_SHARED_DOWN;
  const gboolean is_column = kind == LINEAR_QKV || kind == LINEAR_MLP_UP || kind == LINEAR_SHARED_UP;
  if (local->method->time.tensor_parallel.format != TP_FORMAT_LINEAR || !local->casts || !local->sequence_parallel ||
      local->model->parallel_block)
    return;
  linear->gathers_narrow = is_row || is_column;
  linear->input_comes_narrow |= is_column;
  linear->gradient_comes_narrow |= is_row;
}

Linear linear_of(const LocalSizes *local, LinearKind kind) {
  const Model *model = local->model;
  Linear linear = {
      .names = &linear_names[kind],
      .n = model->hidden,
      .k = model->hidden,
      .number = precision_info(local->method->precision)->linear,
      .bytes = local->linear_bytes,
      .region_width = model->hidden,
      .tokens = local->tokens,
      .group = 1,
      .casts = local->casts,
      .has_bias = model_has_mlp_bias(model),
  };
  if (kind <= LINEAR_ATTN_OUT) {
    make_attention(local, kind, &linear);
  } else if (kind == LINEAR_ROUTER) {
    make_whole(local, &linear, model->experts.n, model->hidden);
    linear.has_bias = model->experts.has_biases;
    keep_wide(local, &linear);
  } else if (kind == LINEAR_MTP_PROJ) {
    linear.n = model->hidden / local->tp;
    linear.k = linear.region_width = 2 * model->hidden;
    linear.has_bias = FALSE;
  } else if (kind == LINEAR_LOGITS) {
    linear.n = local->vocab_width;
    linear.has_bias = model->head_bias;
    keep_wide(local, &linear);
  } else {
    make_mlp(local, kind, &linear);
  }
  linear.is_local = linear.is_local || linear.is_whole;
  gather_narrow(local, kind, &linear);
  return linear;
}

int layer_linears(const LocalSizes *local, Piece piece, LinearKind kinds[N_LINEARS]) {
  const ModelLatent *latent = &local->model->latent;
  const gboolean has_experts = piece == PIECE_LAYER && local->n_experts > 0;
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
  if (has_experts && local->shared_width > 0)
    kinds[n++] = LINEAR_SHARED_UP, kinds[n++] = LINEAR_SHARED_DOWN;
  return n;
}

gboolean sends_narrow(const LocalSizes *local) {
  return local->casts && local->method->ep > 1 && local->method->time.expert_format == EXPERT_FORMAT_LINEAR;
}

/* A single scale for a whole tensor needs its largest element first: one more read. Block scales do not. */
static gboolean needs_amax(const LocalSizes *local) {
  return local->method->precision == PRECISION_FP8 && local->method->time.scales == SCALES_TENSOR;
}

double cast_read_bytes(const LocalSizes *local) {
  return (needs_amax(local) ? 2 : 1) * local->element_bytes;
}

/* Of experts: whether each product converts its operands for itself. */
static gboolean converts_each(const LocalSizes *local, const Linear *linear) {
  return linear->is_local && !linear->is_whole && local->method->time.expert_conversions == EXPERT_CONVERSIONS_EACH;
}

/* The conversion of what a forward product or input gradient reads: `width` columns, in both orientations; or, if each
 * product converts for itself, in one, with the weights. */
static double cast_bytes(const LocalSizes *local, const Linear *linear, gint64 width) {
  const double read = cast_read_bytes(local), columns = (double)linear->group * linear->tokens * width;
  const double weights = (double)linear->group * linear->n * linear->k;
  return converts_each(local, linear) ? (read + linear->bytes) * (columns + weights)
                                      : (read + 2 * linear->bytes) * columns;
}

/* What a weight gradient then converts: both operands again, unless they came narrow. */
static double wgrad_cast_bytes(const LocalSizes *local, const Linear *linear) {
  const double k = linear->input_comes_narrow ? 0 : linear->k, n = linear->gradient_comes_narrow ? 0 : linear->n;
  const double columns = (double)linear->group * linear->tokens * (n + k);
  return linear->casts && converts_each(local, linear) ? (cast_read_bytes(local) + linear->bytes) * columns : 0;
}

/* For a group: Transformer Engine converts each expert's rows separately (split_quantize, and what it calls,
 * multi_tensor_quantize_impl, of pytorch/csrc/extensions/cast.cpp, 2.5 to 2.18; before, multi_quantize likewise), in
 * one kernel, or with one scale per tensor in four: its largest element set to 0 and found, the scale, the conversion
 * (Float8CurrentScalingQuantizer of quantizer.cpp). One kernel for all only has fp8 with the scales of the step
 * before. */
static int cast_launches(const LocalSizes *local, const Linear *linear) {
  if (linear->group == 1 || !local->method->launches_each_expert)
    return 1;
  return (int)linear->group * (needs_amax(local) ? 4 : 1);
}

/* For a group: Transformer Engine calls cuBLAS once for each expert, on four streams in turn (multi_stream_cublas_gemm
 * of common/gemm/cublaslt_gemm.cu, 1.9 to 2.18; one call for all is there since 2.14, and must be asked for). A call
 * builds the product's description and has cuBLAS choose an algorithm, every time: the 12 smallest of 108 grouped
 * products of SimuMax v1.2 (B200, bf16, 2025) take 8.6 to 9.4 us an expert, with 128 to 308 rows, which is two
 * launches. */
static const int launches_of_product = 2;

static int product_launches(const LocalSizes *local, const Linear *linear) {
  return linear->group > 1 && local->method->launches_each_expert ? launches_of_product * (int)linear->group : 1;
}

static void convert(ItemList *list, const Linear *linear, const char *name, gint64 width) {
  item_list_operations(list, name, cast_launches(list->local, linear), cast_bytes(list->local, linear, width));
  item_list_nth(list, list->last_compute)->is_inside = TRUE;
}

static void cast(ItemList *list, const Linear *linear) {
  if (linear->casts && !linear->input_comes_narrow)
    convert(list, linear, linear->names->cast, linear->k);
}

/* Converts this rank's tokens, in the orientation that W does not use. */
static void cast_before_gather(ItemList *list, const Linear *linear, const char *name) {
  if (linear->gathers_narrow)
    item_list_memory(list, name,
                     (cast_read_bytes(list->local) + linear->bytes) * list->local->split_tokens * linear->region_width);
}

void linear_cast(ItemList *list, LinearKind kind) {
  const Linear linear = linear_of(list->local, kind);
  cast_before_gather(list, &linear, linear.names->cast);
  cast(list, &linear);
}

/* A gather by each of n_times linears. */
static gint32 gather(ItemList *list, const Linear *linear, const char *operand, int n_times) {
  if (linear->is_local)
    return NO_ITEM;
  return region_gather_columns(list, operand, n_times * linear->region_width,
                               linear->gathers_narrow ? linear->bytes : list->local->element_bytes);
}

/* Frozen weights kept in fewer bits become the products' format first, each time (bitsandbytes' MatMul4Bit). */
static void widen_weights(ItemList *list, const Linear *linear) {
  const LocalSizes *local = list->local;
  const double bytes = local->method->recipe.frozen;
  if (list->is_frozen && bytes > 0 && bytes < linear->bytes)
    item_list_operations(list, linear->names->widen, (int)linear->group,
                         (bytes + linear->bytes) * (double)(linear->group * linear->n * linear->k));
}

static void forward_product(ItemList *list, const Linear *linear) {
  const LocalSizes *local = list->local;
  widen_weights(list, linear);
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  cast(list, linear);
  item_list_matmul(list, linear->names->forward, linear->number, LAYOUT_TN,
                   (MatmulShape){linear->group, linear->tokens, linear->n, linear->k},
                   group * (linear->bytes * (t * k + k * n) + local->element_bytes * t * n));
  item_list_nth(list, list->last_compute)->n_launches = product_launches(local, linear);
}

static void input_gradient(ItemList *list, const Linear *linear) {
  const LocalSizes *local = list->local;
  widen_weights(list, linear);
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  if (linear->casts && !linear->gradient_comes_narrow)
    convert(list, linear, linear->names->grad_cast, linear->n);
  item_list_matmul(list, linear->names->dgrad, linear->number, LAYOUT_NN,
                   (MatmulShape){linear->group, linear->tokens, linear->k, linear->n},
                   group * (linear->bytes * (t * n + n * k) + local->element_bytes * t * k));
  item_list_nth(list, list->last_compute)->n_launches = product_launches(local, linear);
}

/* `bias_tokens`: a column-parallel bias sees all tokens, a row-parallel one is added after the reduction. */
static void weight_gradient(ItemList *list, const Linear *linear, gint64 bias_tokens) {
  const LocalSizes *local = list->local;
  const double t = linear->tokens, n = linear->n, k = linear->k, group = linear->group;
  if (linear->input_comes_narrow || linear->gradient_comes_narrow)
    item_list_memory(list, linear->names->turn, 2 * linear->bytes * group * t * (linear->input_comes_narrow ? k : n));
  item_list_weight_gradient(list, linear->names->wgrad, linear->number,
                            (MatmulShape){linear->group, linear->n, linear->k, linear->tokens},
                            group * linear->bytes * (n * t + t * k));
  item_list_nth(list, list->last_compute)->behind_bytes += wgrad_cast_bytes(local, linear);
  item_list_nth(list, list->last_compute)->n_launches = product_launches(local, linear);
  if (linear->has_bias && !linear->is_local)
    item_list_memory(list, linear->names->bias_grad, local->element_bytes * bias_tokens * n);
}

/* Columns of the product that are computed: all, or in recomputation only those of products that were not kept. */
static gint64 columns_made(const ItemList *list, LinearKind kind, const Linear *linear) {
  const gboolean gated = list->local->model->gated;
  if (!list->every_other || kind == LINEAR_ATTN_OUT)
    return linear->n;
  if (kind == LINEAR_QKV)
    return list->local->kv_width; /* those of K; V was kept */
  if (kind == LINEAR_MLP_UP)
    return gated ? linear->n / 2 : 0;
  return gated ? 0 : linear->n;
}

/* The number of the framework's linears that one listed product stands for: three for queries, keys and values, two
 * for a gate and what it multiplies, if it keeps them apart. */
static int linears_apart(const LocalSizes *local, LinearKind kind) {
  const FrameworkSplitLinears *linears = &local->method->time.linears;
  const gboolean is_gated = local->model->gated && (kind == LINEAR_MLP_UP || kind == LINEAR_SHARED_UP);
  if (kind == LINEAR_QKV)
    return linears->qkv == LINEARS_APART ? 3 : 1;
  return is_gated && linears->gate == LINEARS_APART ? 2 : 1;
}

/* How many of n linears gather their input under sequence parallelism. */
static int n_gathers(const LocalSizes *local, int n_linears) {
  return local->method->time.tensor_parallel.exchanges == TP_EXCHANGES_EACH ? n_linears : 1;
}

/* Adds memory kernels that run after the last listed product and move `bytes` in total. */
static void list_behind(ItemList *list, double bytes) {
  item_list_nth(list, list->last_compute)->behind_bytes += bytes;
}

static gboolean is_cut(const LocalSizes *local, const Linear *linear) {
  return local->tp > 1 && !linear->is_local;
}

/* Each of n linears cut by tp copies (reads and writes) its whole input, or its output's gradient, of T tokens and w
 * columns: n·2·T·w elements. Under sequence parallelism its input was gathered and is not copied. */
static double copied_bytes(const LocalSizes *local, const Linear *linear, int n_linears) {
  const gboolean copies = is_cut(local, linear) && !local->sequence_parallel &&
                          local->method->time.tensor_parallel.input == TP_INPUT_COPIED;
  return copies ? 2.0 * n_linears * local->element_bytes * linear->tokens * linear->region_width : 0;
}

/* How many input gradients tp reduces: under sequence parallelism only their sum, unless each linear exchanges for
 * itself; otherwise that of each linear, counted as one reduction of as many bytes. */
static int n_sums(const LocalSizes *local, int n_linears) {
  return local->sequence_parallel ? n_gathers(local, n_linears) : n_linears;
}

/* How often T·k elements are read or written to add up the input gradients of n linears. Autograd adds them two at a
 * time: n − 1 kernels read two and write one, 3·(n − 1). If the sum is fused, one kernel reads all n: either the
 * kernel that reads the sum anyway, with n − 1 more reads; or, where tp reduces the sum and not each gradient
 * (n_sums), a kernel that writes it first, n + 1. */
static int added_passes(const LocalSizes *local, const Linear *linear, int n_linears) {
  if (n_linears == 1)
    return 0;
  if (local->method->time.linears.input_gradient_sums == INPUT_GRADIENT_SUMS_APART)
    return 3 * (n_linears - 1);
  return is_cut(local, linear) && local->sequence_parallel && n_sums(local, n_linears) == 1 ? n_linears + 1
                                                                                            : n_linears - 1;
}

/* For this rank's T/tp tokens if each gradient was reduced first. */
static double added_bytes(const LocalSizes *local, const Linear *linear, int n_linears) {
  const gboolean is_scattered = is_cut(local, linear) && local->sequence_parallel && n_sums(local, n_linears) > 1;
  const gint64 tokens = is_scattered ? local->split_tokens : linear->tokens;
  return added_passes(local, linear, n_linears) * local->element_bytes * tokens * linear->k;
}

/* A kernel that adds a row-parallel linear's bias reads and writes its output, for this rank's T/tp tokens under
 * sequence parallelism: 2·n per token. */
static double row_bias_bytes(const LocalSizes *local, const Linear *linear) {
  const gboolean is_apart = linear->has_bias && !linear->is_local && local->method->time.row_bias == ROW_BIAS_APART;
  return is_apart ? 2 * local->element_bytes * local->split_tokens * linear->n : 0;
}

/* Of the weights, or of their adapters. */
static gboolean has_weight_gradient(const ItemList *list, LinearKind kind, const Linear *linear) {
  Adapter adapters[MOST_ADAPTERS];
  if (kind == LINEAR_LOGITS)
    return list->weight_gradients && logits_train(list->local->model, list->local->method);
  return list->weight_gradients && (!list->is_adapted || adapters_of(list->local, kind, linear, adapters) > 0);
}

static void list_weight_gradient(ItemList *list, LinearKind kind, const Linear *linear, gint64 bias_tokens) {
  if (list->is_adapted)
    adapters_weight_gradient(list, kind, linear);
  else
    weight_gradient(list, linear, bias_tokens);
}

void linear_column_forward(ItemList *list, LinearKind kind) {
  Linear linear = linear_of(list->local, kind);
  linear.n = columns_made(list, kind, &linear);
  if (linear.n == 0)
    return;
  cast_before_gather(list, &linear, linear.names->cast);
  const int n_linears = linears_apart(list->local, kind);
  if (!linear.region_of_another)
    item_list_wait(list, gather(list, &linear, linear.names->forward, n_gathers(list->local, n_linears)));
  forward_product(list, &linear);
  list_behind(list, copied_bytes(list->local, &linear, n_linears));
  adapters_forward(list, kind, &linear);
}

void linear_column_backward(ItemList *list, LinearKind kind) {
  const LocalSizes *local = list->local;
  const Linear linear = linear_of(local, kind);
  const int n_linears = linears_apart(local, kind);
  gint32 gathered = NO_ITEM, reduced = NO_ITEM;
  const gint32 awaited = list->awaited; /* both the gather and the product it overlaps wait for it */
  if (has_weight_gradient(list, kind, &linear))
    gathered = gather(list, &linear, linear.names->wgrad, n_gathers(local, n_linears));
  if (list->input_gradients) {
    list->awaited = awaited;
    input_gradient(list, &linear);
    list_behind(list, added_bytes(local, &linear, n_linears));
    adapters_input_gradient(list, kind, &linear);
    if (linear.joins_branches)
      item_list_memory(list, "branch_sum", 3 * local->element_bytes * local->tokens * linear.k);
    if (!linear.region_of_another && !linear.is_local)
      reduced = region_reduce_columns(list, linear.names->dgrad, n_sums(local, n_linears) * linear.region_width);
  }
  if (local->method->time.tensor_parallel.reduction == TP_ALONE)
    item_list_wait(list, reduced);
  if (has_weight_gradient(list, kind, &linear)) {
    item_list_wait(list, gathered);
    list_weight_gradient(list, kind, &linear, local->tokens);
  }
  item_list_wait(list, reduced);
}

void linear_row_forward(ItemList *list, LinearKind kind) {
  Linear linear = linear_of(list->local, kind);
  linear.n = columns_made(list, kind, &linear);
  if (linear.n > 0) {
    forward_product(list, &linear);
    list_behind(list, row_bias_bytes(list->local, &linear));
    adapters_forward(list, kind, &linear);
  }
  if (!linear.region_of_another && !linear.is_local)
    item_list_wait(list, region_reduce(list, linear.names->forward));
}

void linear_row_backward(ItemList *list, LinearKind kind) {
  const Linear linear = linear_of(list->local, kind);
  if (list->input_gradients) {
    cast_before_gather(list, &linear, linear.names->grad_cast);
    if (!linear.region_of_another)
      item_list_wait(list, gather(list, &linear, linear.names->dgrad, 1));
    input_gradient(list, &linear);
    list_behind(list, copied_bytes(list->local, &linear, 1));
    adapters_input_gradient(list, kind, &linear);
  }
  if (has_weight_gradient(list, kind, &linear))
    list_weight_gradient(list, kind, &linear, list->local->split_tokens);
}
