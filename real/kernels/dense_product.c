#include "dense_product.h"

MatmulKernel dense_product(const WorkItem *item) {
  const gboolean a_is_stored = item->layout == LAYOUT_NT, b_is_stored = item->layout == LAYOUT_TN;
  return (MatmulKernel){.layout = item->layout,
                        .number = item->number,
                        .result = item->number,
                        .batch = 1,
                        .m = item->m,
                        .n = item->n,
                        .k = item->k,
                        .lda = a_is_stored ? item->m : item->k,
                        .ldb = b_is_stored ? item->k : item->n,
                        .ldc = item->n,
                        .alpha = 1};
}

Kernel dense_random(Number number, gint64 rows, gint64 columns, guint64 seed, void *to) {
  return (Kernel){.kind = KERNEL_INIT,
                  .init = {.number = (guint8)number,
                           .rows = rows,
                           .columns = columns,
                           .ld = columns,
                           .whole_rows = rows,
                           .whole_width = columns,
                           .seed = seed,
                           .deviation = 1,
                           .to = to}};
}
