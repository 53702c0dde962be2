/* The products of linear layers: in the format of weights and activations, or in fp8 with the copies of narrow_items.c.
 */
#include "dense_product.h"
#include "item_parts.h"

static void multiply(const ItemCall *call, const MatmulKernel *product) {
  const Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = item_narrow_product(call, product)};
  item_launch(call, &kernel);
}

void item_product(const ItemCall *call, float factor, const void *a, const void *b, void *c, const void *bias) {
  MatmulKernel product = dense_product(call->item);
  product.alpha = factor;
  product.a = a;
  product.b = b;
  product.c = c;
  product.bias = bias;
  multiply(call, &product);
}

void item_product_in(const ItemCall *call, const void *a, gint64 lda, const void *b, void *c, gint64 ldc) {
  MatmulKernel product = dense_product(call->item);
  product.a = a;
  product.b = b;
  product.c = c;
  product.lda = lda > 0 ? lda : product.lda;
  product.ldc = ldc > 0 ? ldc : product.ldc;
  multiply(call, &product);
}

static void add_gradient(const ItemCall *call, MatmulKernel product, const void *a, const void *b, void *gradient) {
  product.a = a;
  product.b = b;
  product.c = gradient;
  product.accumulate = TRUE;
  product.result = (guint8)call->trainer->parameters->gradient_number;
  multiply(call, &product);
}

void item_weight_gradient(const ItemCall *call, float factor, const void *a, const void *b, void *gradient) {
  MatmulKernel product = dense_product(call->item);
  product.alpha = factor;
  add_gradient(call, product, a, b, gradient);
}

void item_weight_gradient_in(const ItemCall *call, const void *a, const void *b, gint64 ldb, void *gradient) {
  MatmulKernel product = dense_product(call->item);
  product.ldb = ldb > 0 ? ldb : product.ldb;
  add_gradient(call, product, a, b, gradient);
}

void item_group(const ItemCall *call, const void *a, const void *b, void *c, gint64 stride) {
  const WorkItem *item = call->item;
  const gboolean is_gradient = item->layout == LAYOUT_NT;
  MatmulKernel product = dense_product(item);
  product.batch = item->batch;
  product.stride_a = item->m * item->k;
  product.stride_b = is_gradient ? item->n * item->k : stride;
  product.stride_c = is_gradient ? stride : item->m * item->n;
  product.a = a;
  product.b = b;
  product.c = c;
  product.accumulate = is_gradient;
  if (is_gradient)
    product.result = (guint8)call->trainer->parameters->gradient_number;
  multiply(call, &product);
}
