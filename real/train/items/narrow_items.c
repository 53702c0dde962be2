/* Linear layers in fp8: the copies of their operands (narrow.h), and which of them a product reads. All products are
 * then TN, the layout in which both operands have what is summed over side by side:
 *
 *     forward, TN            A: X as it is          B: W as it is
 *     input gradient, NN     A: dY as it is         B: W turned
 *     weight gradient, NT    A: dY turned           B: X turned */
#include "carve.h"
#include "item_parts.h"

static NarrowShape shape_of(const ItemCall *call) {
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  const LocalSizes *local = item_local_sizes(call);
  return carve_narrow_shape(local, carve_kind_of(local, layers, call->layer), call->linear);
}

typedef enum { OF_INPUT, OF_GRADIENT, OF_WEIGHT } Operand;

/* Makes one copy of x, or both; NULL: not that one. ld, stride: of x; 0: dense. */
static void narrow(const ItemCall *call, Operand operand, const void *x, NarrowSize size, gint64 ld, gint64 stride,
                   char *as_is, char *turned) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 row = ld > 0 ? ld : size.columns;
  Kernel kernel = {.kind = KERNEL_NARROW,
                   .narrow = {.number = (guint8)item_number(call),
                              .to = (guint8)narrow_number(local),
                              .format = (guint8)narrow_format(local, operand == OF_GRADIENT),
                              .scaling = (guint8)narrow_scaling(local, operand == OF_WEIGHT),
                              .batch = size.batch,
                              .rows = size.rows,
                              .columns = size.columns,
                              .ld = row,
                              .stride = stride > 0 ? stride : size.rows * row,
                              .x = x,
                              .as_is = as_is,
                              .turned = turned}};
  if (as_is != NULL)
    kernel.narrow.scales = narrow_scales(local, as_is, size);
  if (turned != NULL)
    kernel.narrow.turned_scales = narrow_scales(local, turned, narrow_turned(size));
  item_launch(call, &kernel);
}

/* X turned, where W reads it. */
static char *kept_input(const ItemCall *call) {
  if (narrow_is_gathered(item_local_sizes(call), call->linear))
    return item_memory(call)->narrow.turned;
  return item_saved(call).narrow[narrow_input_of(item_local_sizes(call), call->linear)];
}

void item_narrow_input(const ItemCall *call, const void *x, gint64 ld) {
  const gboolean is_kept = !narrow_is_gathered(item_local_sizes(call), call->linear);
  narrow(call, OF_INPUT, x, narrow_input_size(shape_of(call)), ld, 0, item_memory(call)->narrow.as_is,
         is_kept ? kept_input(call) : NULL);
}

void item_narrow_gradient(const ItemCall *call, const void *dy) {
  narrow(call, OF_GRADIENT, dy, narrow_gradient_size(shape_of(call)), 0, 0, item_memory(call)->narrow.as_is,
         item_gradients(call).narrow[call->linear]);
}

/* In the linear's block; for experts, of the first. */
static const Role weights[N_NARROW_LINEARS] = {
    [NARROW_QKV] = ROLE_Q,
    [NARROW_Q_DOWN] = ROLE_Q_DOWN,
    [NARROW_Q_UP] = ROLE_Q,
    [NARROW_KV_DOWN] = ROLE_KV_DOWN,
    [NARROW_KV_UP] = ROLE_KV_UP,
    [NARROW_ATTN_OUT] = ROLE_ATTN_OUT,
    [NARROW_MLP_UP] = ROLE_GATE,
    [NARROW_MLP_DOWN] = ROLE_MLP_DOWN,
    [NARROW_EXPERT_UP] = ROLE_EXPERT_GATE,
    [NARROW_EXPERT_DOWN] = ROLE_EXPERT_DOWN,
};

static Block *block_of(const ItemCall *call) {
  return item_block(call, narrow_is_of_experts(call->linear) ? BLOCK_EXPERTS : BLOCK_LAYER);
}

static void copy_weights(const ItemCall *call, const Block *block, char *as_is, char *turned) {
  const gint64 stride = narrow_is_of_experts(call->linear) ? item_expert_elements(call) : 0;
  narrow(call, OF_WEIGHT, block_weight(call->trainer->parameters, block, weights[call->linear]),
         narrow_weight_size(shape_of(call)), 0, stride, as_is, turned);
}

static char *kept_weights(const ItemCall *call, const Block *block, gboolean is_turned) {
  return block->narrow + block->narrow_at[call->linear][is_turned];
}

static void keep_weights(const ItemCall *call) {
  Block *block = block_of(call);
  if (zero_shards_weights(block->zero) || block->narrow_step[call->linear] == call->step)
    return;
  copy_weights(call, block, kept_weights(call, block, FALSE), kept_weights(call, block, TRUE));
  block->narrow_step[call->linear] = call->step;
}

/* What tp has gathered for W. */
static void copy_gathered(const ItemCall *call) {
  const Activations *activations = item_memory(call);
  const ModelLatent *latent = &activations->local->model->latent;
  const gboolean is_kv = call->linear == NARROW_KV_UP;
  const gboolean is_q = call->linear == NARROW_Q_UP && latent->q_rank > 0;
  const char *x = is_kv ? activations->latent.kv_all : is_q ? activations->latent.q_all : activations->gathered;
  narrow(call, OF_INPUT, x, narrow_input_size(shape_of(call)), is_kv ? latent->kv_rank + latent->rope_dim : 0, 0, NULL,
         activations->narrow.turned);
}

void item_narrow_prepare(const ItemCall *call) {
  if (call->linear == NARROW_NONE || call->item->kind != ITEM_MATMUL)
    return;
  if (call->item->layout != LAYOUT_NT)
    keep_weights(call);
  else if (narrow_is_gathered(item_local_sizes(call), call->linear))
    copy_gathered(call);
}

/* The weights as a product reads them. */
static char *weight_copy(const ItemCall *call, gboolean is_turned) {
  const Block *block = block_of(call);
  if (!zero_shards_weights(block->zero))
    return kept_weights(call, block, is_turned);
  char *at = item_memory(call)->narrow.weight;
  copy_weights(call, block, is_turned ? NULL : at, is_turned ? at : NULL);
  return at;
}

static void set_operand(const ItemCall *call, Operand operand, char *at, NarrowSize size, const void **data, gint64 *ld,
                        gint64 *stride, Fp8Operand *fp8) {
  const LocalSizes *local = item_local_sizes(call);
  *data = at;
  *ld = size.columns;
  *stride = size.rows * size.columns;
  *fp8 = (Fp8Operand){.format = (guint8)narrow_format(local, operand == OF_GRADIENT),
                      .scaling = (guint8)narrow_scaling(local, operand == OF_WEIGHT),
                      .scales = narrow_scales(local, at, size)};
}

static void set_a(const ItemCall *call, Operand operand, char *at, NarrowSize size, MatmulKernel *product) {
  set_operand(call, operand, at, size, &product->a, &product->lda, &product->stride_a, &product->fp8_a);
}

static void set_b(const ItemCall *call, Operand operand, char *at, NarrowSize size, MatmulKernel *product) {
  set_operand(call, operand, at, size, &product->b, &product->ldb, &product->stride_b, &product->fp8_b);
}

static void set_operands(const ItemCall *call, MatmulKernel *product) {
  const NarrowShape shape = shape_of(call);
  const NarrowSize input = narrow_input_size(shape), gradient = narrow_gradient_size(shape);
  const NarrowSize weight = narrow_weight_size(shape);
  char *as_is = item_memory(call)->narrow.as_is;
  if (call->item->layout == LAYOUT_NT) {
    set_a(call, OF_GRADIENT, item_gradients(call).narrow[call->linear], narrow_turned(gradient), product);
    set_b(call, OF_INPUT, kept_input(call), narrow_turned(input), product);
  } else if (call->item->layout == LAYOUT_NN) {
    set_a(call, OF_GRADIENT, as_is, gradient, product);
    set_b(call, OF_WEIGHT, weight_copy(call, TRUE), narrow_turned(weight), product);
  } else {
    set_a(call, OF_INPUT, as_is, input, product);
    set_b(call, OF_WEIGHT, weight_copy(call, FALSE), weight, product);
  }
}

MatmulKernel item_narrow_product(const ItemCall *call, const MatmulKernel *product) {
  MatmulKernel narrow = *product;
  if (call->linear == NARROW_NONE)
    return narrow;
  set_operands(call, &narrow);
  narrow.layout = LAYOUT_TN;
  narrow.number = (guint8)narrow_number(item_local_sizes(call));
  narrow.result = product->result == NUMBER_FP8 ? (guint8)item_number(call) : product->result;
  narrow.is_fast = product->layout == LAYOUT_TN && narrow.fp8_a.scaling == FP8_TENSOR;
  return narrow;
}
