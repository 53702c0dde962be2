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

/* --- kept products ---
 *
 * Selective recompute by products (torchtitan): of products with several outputs side by side, some columns are kept
 * and the others recomputed in place; the kept ones are copied back around them, so that readers see one matrix.
 *
 *     qkv   | q | k | v |        kept   | q | v |        k is recomputed
 *     up    | gate | up |        kept   | gate |         up is recomputed
 *
 * q and v are kept as the product writes them: norms and rotation are recomputed too. */

typedef struct {
  char *kept, *all;       /* T × (width − n), T × width; kept NULL: all or nothing is kept */
  gint64 width, first, n; /* columns [first, first + n) are recomputed */
} Columns;

static Columns columns_of(const ItemCall *call, gboolean of_qkv) {
  const Cut *cut = item_cut(call);
  const SavedLayer saved = item_saved(call);
  if (of_qkv)
    return (Columns){saved.products.qv, saved.qkv, cut->q_width + cut->kv_width + cut->v_width, cut->q_width,
                     cut->kv_width};
  return (Columns){saved.products.gate, saved.up, cut->up_width, cut->ffn_width, cut->ffn_width};
}

/* Copies `n` columns of all of a layer's tokens from one matrix to another. */
static void copy_columns(const ItemCall *call, gint64 n, Rows from, Rows to) {
  if (n > 0)
    item_copy(call, (Extent){1, item_cut(call)->tokens, n}, from, to);
}

/* Copies the columns on both sides of the recomputed ones. */
static void copy_kept(const ItemCall *call, const Columns *columns, gboolean back) {
  const gint64 e = kernel_element_bytes(item_number(call)), kept = columns->width - columns->n;
  const gint64 n[2] = {columns->first, kept - columns->first}, at[2] = {0, columns->first + columns->n};
  for (int side = 0; side < 2; side++) {
    char *whole = columns->all + at[side] * e, *part = columns->kept + (side > 0 ? n[0] : 0) * e;
    if (back)
      copy_columns(call, n[side], (Rows){part, kept, 0}, (Rows){whole, columns->width, 0});
    else
      copy_columns(call, n[side], (Rows){whole, columns->width, 0}, (Rows){part, kept, 0});
  }
}

/* Recomputes the missing columns: rows of the weights are columns of the product. */
static void make_rest(const ItemCall *call, const Columns *columns, const LinearOperands *operands) {
  const gint64 e = kernel_element_bytes(item_number(call));
  Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = dense_product(call->item)};
  g_assert(kernel.matmul.n == columns->n);
  kernel.matmul.alpha = operands->factor;
  kernel.matmul.a = operands->a;
  kernel.matmul.b = (const char *)operands->b + columns->first * kernel.matmul.k * e;
  kernel.matmul.bias = operands->bias != NULL ? (const char *)operands->bias + columns->first * e : NULL;
  kernel.matmul.c = columns->all + columns->first * e;
  kernel.matmul.ldc = columns->width;
  item_launch(call, &kernel);
}

void item_keeping_product(const ItemCall *call, gboolean of_qkv, const LinearOperands *operands) {
  const Columns columns = item_memory(call)->every_other ? columns_of(call, of_qkv) : (Columns){0};
  const gboolean makes_again = call->item->recompute && columns.kept != NULL;
  if (makes_again)
    make_rest(call, &columns, operands);
  else
    item_product(call, operands->factor, operands->a, operands->b, operands->c, operands->bias);
  if (columns.kept != NULL)
    copy_kept(call, &columns, makes_again);
}

char *item_kept_down(const ItemCall *call) {
  return item_cut(call)->sequence_parallel ? NULL : item_kept_products(call).down;
}
