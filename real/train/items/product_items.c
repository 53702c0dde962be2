/* The products of linear layers: in the format of weights and activations, or in fp8 with the copies of narrow_items.c.
 */
#include "dense_product.h"
#include "item_parts.h"

static void multiply(const ItemCall *call, const MatmulKernel *product) {
  const Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = item_narrow_product(call, product)};
  item_launch(call, &kernel);
}

static void set_strides(MatmulKernel *product, const WorkItem *item, gint64 expert_stride) {
  const gboolean is_gradient = item->layout == LAYOUT_NT;
  product->batch = item->batch;
  product->stride_a = item->m * item->k;
  product->stride_b = is_gradient ? item->n * item->k : expert_stride;
  product->stride_c = is_gradient ? expert_stride : item->m * item->n;
}

static void run_product(const ItemCall *call, const Linear *linear) {
  const Parameters *parameters = call->trainer->parameters;
  const Block *block = item_block(call, linear->block);
  MatmulKernel product = dense_product(call->item);
  product.alpha = item_factor(linear->factor);
  if (linear->expert_stride > 0)
    set_strides(&product, call->item, linear->expert_stride);
  product.a = product.layout == LAYOUT_TN ? linear->input : linear->output_gradient;
  product.b = product.layout == LAYOUT_NT ? linear->input : block_weight(parameters, block, linear->weight);
  if (product.layout == LAYOUT_TN) {
    product.c = linear->output;
    product.bias = linear->bias;
    product.lda = linear->input_ld > 0 ? linear->input_ld : product.lda;
    product.ldc = linear->output_ld > 0 ? linear->output_ld : product.ldc;
  } else if (product.layout == LAYOUT_NN) {
    product.c = linear->input_gradient;
    product.ldc = linear->input_ld > 0 ? linear->input_ld : product.ldc;
  } else {
    product.c = block_gradient(parameters, block, linear->weight);
    product.ldb = linear->input_ld > 0 ? linear->input_ld : product.ldb;
    product.accumulate = TRUE;
    product.result = (guint8)parameters->gradient_number;
  }
  multiply(call, &product);
}

void item_linear(const ItemCall *call, const Linear *linear) {
  if (call->item->kind == ITEM_MATMUL)
    run_product(call, linear);
  else if (g_str_has_suffix(call->item->name, ".grad_cast"))
    item_narrow_gradient(call, linear->output_gradient);
  else
    item_narrow_input(call, linear->input, linear->input_ld);
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
  const LocalSizes *local = item_local_sizes(call);
  const SavedLayer saved = item_saved(call);
  if (of_qkv)
    return (Columns){saved.products.qv, saved.qkv, local_qkv_width(local), local->q_width, local->kv_width};
  return (Columns){saved.products.gate, saved.up, local->up_width, local->ffn_width, local->ffn_width};
}

/* Copies `n` columns of all of a layer's tokens from one matrix to another. */
static void copy_columns(const ItemCall *call, gint64 n, Rows from, Rows to) {
  if (n > 0)
    item_copy(call, (Extent){1, item_local_sizes(call)->tokens, n}, from, to);
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
static void make_rest(const ItemCall *call, const Columns *columns, const Linear *linear) {
  const gint64 e = kernel_element_bytes(item_number(call));
  Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = dense_product(call->item)};
  g_assert(kernel.matmul.n == columns->n);
  const char *weight = block_weight(call->trainer->parameters, item_block(call, linear->block), linear->weight);
  kernel.matmul.alpha = item_factor(linear->factor);
  kernel.matmul.a = linear->input;
  kernel.matmul.b = weight + columns->first * kernel.matmul.k * e;
  kernel.matmul.bias = linear->bias != NULL ? (const char *)linear->bias + columns->first * e : NULL;
  kernel.matmul.c = columns->all + columns->first * e;
  kernel.matmul.ldc = columns->width;
  item_launch(call, &kernel);
}

void item_keeping_linear(const ItemCall *call, gboolean of_qkv, const Linear *linear) {
  const Columns columns = item_memory(call)->every_other ? columns_of(call, of_qkv) : (Columns){0};
  const gboolean makes_again = call->item->recompute && columns.kept != NULL;
  if (makes_again)
    make_rest(call, &columns, linear);
  else
    item_linear(call, linear);
  if (columns.kept != NULL)
    copy_kept(call, &columns, makes_again);
}

char *item_kept_down(const ItemCall *call) {
  return item_local_sizes(call)->sequence_parallel ? NULL : item_kept_products(call).down;
}
