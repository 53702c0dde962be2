/* Adapters beside frozen linears (sim/work/pieces/adapters.c): T tokens, rank r, the linear's input X(T, k), n columns
 * of its output Y.
 *
 *     forward    Z = X·Aᵀ          Y += s·Z·Bᵀ        A(r, k), B(n, r)
 *     backward   dZ = s·dY·B       dX += dZ·A         dB += s·dYᵀ·Z    dA += dZᵀ·X
 *
 * Z and dZ are kept for W like inputs of linears and gradients of their outputs, those of a layer's adapters one after
 * the other. What a sum adds is in scratch. s is PEFT's lora_alpha / r, of an alpha twice the rank. */
#include "dense_product.h"
#include "item_parts.h"

static const float scale = 2;

/* Where the n-th of the layer's adapters has its T × r. */
static char *latent_at(const ItemCall *call, char *all) {
  const LocalSizes *local = item_local_sizes(call);
  const TrainedParts *training = &local->method->training;
  int before = 0;
  for (int adapted = 0; adapted < call->argument; adapted++)
    before += training_adapts(training, (Adapted)adapted);
  return all + before * local->tokens * training->rank * (gint64)local->element_bytes;
}

static char *latent(const ItemCall *call) {
  return latent_at(call, item_saved(call).adapters);
}

static char *latent_gradient(const ItemCall *call) {
  return latent_at(call, item_gradients(call).d_adapters);
}

static const void *weight(const ItemCall *call, gboolean is_b) {
  return item_weight(call, BLOCK_ADAPTERS, role_of_adapter((Adapted)call->argument, is_b));
}

static void multiply(const ItemCall *call, MatmulKernel product) {
  const Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = product};
  item_launch(call, &kernel);
}

static void run_a(const ItemCall *call) {
  MatmulKernel product = dense_product(call->item);
  product.a = item_adapted_linear(call).input;
  product.b = weight(call, FALSE);
  product.c = latent(call);
  multiply(call, product);
}

static void run_b(const ItemCall *call) {
  MatmulKernel product = dense_product(call->item);
  product.a = latent(call);
  product.b = weight(call, TRUE);
  product.c = item_memory(call)->adapted;
  product.alpha = scale;
  multiply(call, product);
}

/* Adds what is in scratch to columns of a matrix. */
static void add_to(const ItemCall *call, gint64 n, gint64 ld, char *columns) {
  const Rows to = {columns, ld, 0};
  item_move(call, (Extent){1, item_local_sizes(call)->tokens, n}, to, (Rows){item_memory(call)->adapted, n, 0}, to);
}

static void run_sum(const ItemCall *call) {
  const AdaptedLinear linear = item_adapted_linear(call);
  add_to(call, linear.n, linear.ld, linear.output);
}

static void run_b_dgrad(const ItemCall *call) {
  const AdaptedLinear linear = item_adapted_linear(call);
  MatmulKernel product = dense_product(call->item);
  product.a = linear.output_gradient;
  product.lda = linear.ld;
  product.b = weight(call, TRUE);
  product.c = latent_gradient(call);
  product.alpha = scale;
  multiply(call, product);
}

static void run_a_dgrad(const ItemCall *call) {
  MatmulKernel product = dense_product(call->item);
  product.a = latent_gradient(call);
  product.b = weight(call, FALSE);
  product.c = item_memory(call)->adapted;
  multiply(call, product);
}

static void run_grad_sum(const ItemCall *call) {
  const AdaptedLinear linear = item_adapted_linear(call);
  add_to(call, linear.k, linear.k, linear.input_gradient);
}

static void add_gradient(const ItemCall *call, MatmulKernel product, gboolean is_b) {
  const Parameters *parameters = call->trainer->parameters;
  product.c =
      block_gradient(parameters, item_block(call, BLOCK_ADAPTERS), role_of_adapter((Adapted)call->argument, is_b));
  product.result = (guint8)parameters->gradient_number;
  product.accumulate = TRUE;
  multiply(call, product);
}

static void run_b_wgrad(const ItemCall *call) {
  const AdaptedLinear linear = item_adapted_linear(call);
  MatmulKernel product = dense_product(call->item);
  product.a = linear.output_gradient;
  product.lda = linear.ld;
  product.b = latent(call);
  product.alpha = scale;
  add_gradient(call, product, TRUE);
}

static void run_a_wgrad(const ItemCall *call) {
  MatmulKernel product = dense_product(call->item);
  product.a = latent_gradient(call);
  product.b = item_adapted_linear(call).input;
  add_gradient(call, product, FALSE);
}

#define ADAPTER_KERNELS(name, adapted)                                                                                 \
  {name ".lora_a", run_a, adapted}, {name ".lora_b", run_b, adapted}, {name ".lora_sum", run_sum, adapted},            \
      {name ".lora_b.dgrad", run_b_dgrad, adapted}, {name ".lora_a.dgrad", run_a_dgrad, adapted},                      \
      {name ".lora_grad_sum", run_grad_sum, adapted}, {name ".lora_b.wgrad", run_b_wgrad, adapted}, {                  \
    name ".lora_a.wgrad", run_a_wgrad, adapted                                                                         \
  }

const ItemKernel adapter_kernels[] = {
    ADAPTER_KERNELS("q_proj", ADAPTED_Q),       ADAPTER_KERNELS("k_proj", ADAPTED_K),
    ADAPTER_KERNELS("v_proj", ADAPTED_V),       ADAPTER_KERNELS("o_proj", ADAPTED_O),
    ADAPTER_KERNELS("gate_proj", ADAPTED_GATE), ADAPTER_KERNELS("up_proj", ADAPTED_UP),
    ADAPTER_KERNELS("down_proj", ADAPTED_DOWN), {NULL, NULL, 0}};
