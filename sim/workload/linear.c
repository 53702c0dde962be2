/* A linear layer under tensor parallelism (arXiv 1909.08053 §3, 2205.05198 §4.2.2), T = tokens:
 *
 *     forward           Y(T,n)  = X(T,k)·W(k,n)      TN
 *     input gradient    dX(T,k) = dY(T,n)·Wᵀ         NN
 *     weight gradient   dW(n,k) += dYᵀ·X             NT, into the main gradient
 *
 * Column-parallel: X whole, n cut. Under sequence parallelism X was saved in shards: it is gathered before forward, and
 * again for the weight gradient, beside the input gradient. dX is a partial sum: its reduction runs beside the weight
 * gradient.
 *
 *     compute   dX ─────────┬─ dW ─────┬─ next
 *     tp        gather X ───┘ reduce dX┘            (dW waits for the gather, next for the reduction; under a framework
 *                                                    that reduces alone, dW waits for both)
 *
 * Row-parallel: k cut, Y a partial sum, reduced after forward; its gradient is gathered before backward.
 *
 * Every operand and result moves once through HBM; an accumulated result is read and written. Narrow formats (fp8 …)
 * convert their operands by a kernel of its own that reads them and writes them in both orientations, since narrow
 * products need the summed dimension contiguous. The converted weights are made once a step and not counted. A bias is
 * added in the product's epilogue; its gradient is a pass over dY. */
#include "pieces.h"

struct LinearNames {
  const char *forward, *cast, *grad_cast, *dgrad, *wgrad, *bias_grad;
};
#define LINEAR_NAMES(name)                                                                                             \
  { name, name ".cast", name ".grad_cast", name ".dgrad", name ".wgrad", name ".bias_grad" }

static const LinearNames linear_names[N_LINEARS] = {
    [LINEAR_QKV] = LINEAR_NAMES("qkv"),       [LINEAR_ATTN_OUT] = LINEAR_NAMES("attn_out"),
    [LINEAR_MLP_UP] = LINEAR_NAMES("mlp_up"), [LINEAR_MLP_DOWN] = LINEAR_NAMES("mlp_down"),
    [LINEAR_LOGITS] = LINEAR_NAMES("logits"),
};

Linear linear_of(const Cut *cut, LinearKind kind) {
  const Model *model = cut->model;
  const PrecisionInfo *precision = precision_info(cut->plan->precision);
  Linear linear = {
      .names = &linear_names[kind],
      .n = model->hidden,
      .k = model->hidden,
      .number = precision->linear,
      .bytes = cut->linear_bytes,
      .casts = cut->casts,
      .has_bias = model->linear_bias,
  };
  switch (kind) {
  case LINEAR_QKV:
    linear.n = cut->q_width + 2 * cut->kv_width;
    linear.has_bias = model->qkv_bias;
    linear.joins_branches = cut->shared_norm;
    break;
  case LINEAR_ATTN_OUT:
    linear.k = cut->q_width;
    linear.region_of_another = model->parallel_block;
    break;
  case LINEAR_MLP_UP:
    linear.n = cut->up_width;
    linear.region_of_another = cut->shared_norm;
    break;
  case LINEAR_MLP_DOWN:
    linear.k = cut->ffn_width;
    linear.region_of_another = model->parallel_block;
    break;
  default: /* the head stays in the element format: frameworks keep the last layer out of narrow ones */
    linear.n = cut->vocab_width;
    linear.number = precision->element;
    linear.bytes = cut->element_bytes;
    linear.casts = FALSE;
    linear.has_bias = FALSE;
    break;
  }
  return linear;
}

/* One scale for a whole tensor needs its largest element first: one more read. Scales of blocks do not. */
static double cast_bytes(const Cut *cut, const Linear *linear, gint64 width) {
  const int n_reads = cut->plan->precision == PRECISION_FP8 ? 2 : 1;
  return (n_reads * cut->element_bytes + 2 * linear->bytes) * cut->tokens * width;
}

static void forward_product(ItemList *list, const Linear *linear) {
  const Cut *cut = list->cut;
  const double t = cut->tokens, n = linear->n, k = linear->k;
  if (linear->casts)
    item_list_memory(list, linear->names->cast, cast_bytes(cut, linear, linear->k));
  item_list_matmul(list, linear->names->forward, linear->number, LAYOUT_TN,
                   (MatmulShape){1, cut->tokens, linear->n, linear->k},
                   linear->bytes * (t * k + k * n) + cut->element_bytes * t * n);
}

static void input_gradient(ItemList *list, const Linear *linear) {
  const Cut *cut = list->cut;
  const double t = cut->tokens, n = linear->n, k = linear->k;
  if (linear->casts)
    item_list_memory(list, linear->names->grad_cast, cast_bytes(cut, linear, linear->n));
  item_list_matmul(list, linear->names->dgrad, linear->number, LAYOUT_NN,
                   (MatmulShape){1, cut->tokens, linear->k, linear->n},
                   linear->bytes * (t * n + n * k) + cut->element_bytes * t * k);
}

/* `bias_tokens`: a column-parallel bias sees all tokens, a row-parallel one is added after the reduction. */
static void weight_gradient(ItemList *list, const Linear *linear, gint64 bias_tokens) {
  const Cut *cut = list->cut;
  const double t = cut->tokens, n = linear->n, k = linear->k;
  item_list_weight_gradient(list, linear->names->wgrad, linear->number,
                            (MatmulShape){1, linear->n, linear->k, cut->tokens},
                            linear->bytes * (n * t + t * k) + 2 * cut->gradient_bytes * n * k);
  if (linear->has_bias)
    item_list_memory(list, linear->names->bias_grad, cut->element_bytes * bias_tokens * n);
}

/* Columns of the product that are made: all, or those of the products that were not kept. */
static gint64 columns_made(const ItemList *list, LinearKind kind, const Linear *linear) {
  const gboolean gated = list->cut->model->gated;
  if (!list->every_other || kind == LINEAR_ATTN_OUT)
    return linear->n;
  if (kind == LINEAR_QKV)
    return list->cut->kv_width;
  if (kind == LINEAR_MLP_UP)
    return gated ? linear->n / 2 : 0;
  return gated ? 0 : linear->n;
}

void linear_column_forward(ItemList *list, LinearKind kind) {
  Linear linear = linear_of(list->cut, kind);
  linear.n = columns_made(list, kind, &linear);
  if (linear.n == 0)
    return;
  if (!linear.region_of_another)
    item_list_wait(list, region_gather(list, linear.names->forward));
  forward_product(list, &linear);
}

void linear_column_backward(ItemList *list, LinearKind kind) {
  const Cut *cut = list->cut;
  const Linear linear = linear_of(cut, kind);
  gint32 gathered = NO_ITEM, reduced = NO_ITEM;
  if (list->weight_gradients)
    gathered = region_gather(list, linear.names->wgrad);
  if (list->input_gradients) {
    input_gradient(list, &linear);
    if (linear.joins_branches)
      item_list_memory(list, "branch_sum", 3 * cut->element_bytes * cut->tokens * linear.k);
    if (!linear.region_of_another)
      reduced = region_reduce(list, linear.names->dgrad);
  }
  if (cut->plan->time.tensor_parallel == TP_ALONE)
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
  if (linear.n > 0)
    forward_product(list, &linear);
  if (!linear.region_of_another)
    item_list_wait(list, region_reduce(list, linear.names->forward));
}

void linear_row_backward(ItemList *list, LinearKind kind) {
  const Linear linear = linear_of(list->cut, kind);
  if (list->input_gradients) {
    if (!linear.region_of_another)
      item_list_wait(list, region_gather(list, linear.names->dgrad));
    input_gradient(list, &linear);
  }
  if (list->weight_gradients)
    weight_gradient(list, &linear, list->cut->split_tokens);
}
