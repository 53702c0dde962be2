#include "cuda_cases.h"

static const char *const format_names[] = {[FP8_E4M3] = "e4m3", [FP8_E5M2] = "e5m2"};
static const char *const scaling_names[] = {[FP8_TENSOR] = "tensor", [FP8_ROWS] = "rows", [FP8_BLOCKS] = "blocks"};

static int cell_of(Fp8Format format) {
  return format == FP8_E4M3 ? CELL_E4M3 : CELL_E5M2;
}

static gint64 all_scales(Fp8Scaling scaling, gint64 batch, gint64 rows, gint64 columns) {
  return (scaling == FP8_TENSOR ? 1 : batch) * fp8_n_scales(scaling, rows, columns);
}

typedef struct {
  gint64 batch, rows, columns, pad;
} Size;

/* Numbers between −most and most; which: bit 0 as it is, bit 1 turned. */
static void narrow(Comparison *comparison, Fp8Format format, Fp8Scaling scaling, Size size, double most, int which) {
  Case c = case_new(KERNEL_NARROW, "%s, scales of %s, %d x %d, batch %d, up to %g%s%s", format_names[format],
                    scaling_names[scaling], (int)size.rows, (int)size.columns, (int)size.batch, most,
                    which & 1 ? ", as is" : "", which & 2 ? ", turned" : "");
  NarrowKernel *t = &c.kernel.narrow;
  const gint64 ld = size.columns + size.pad, stride = size.rows * ld, n = size.batch * size.rows * size.columns;
  *t = (NarrowKernel){.number = NUMBER_BF16,
                      .to = NUMBER_FP8,
                      .format = (guint8)format,
                      .scaling = (guint8)scaling,
                      .batch = size.batch,
                      .rows = size.rows,
                      .columns = size.columns,
                      .ld = ld,
                      .stride = stride};
  case_in(&c, &t->x, NUMBER_BF16, size.batch * stride, -most, most);
  if (which & 1) {
    case_out(&c, &t->as_is, cell_of(format), n, 0, 0);
    case_out(&c, &t->scales, NUMBER_FP32, all_scales(scaling, size.batch, size.rows, size.columns), 1, 2);
  }
  if (which & 2) {
    case_out(&c, &t->turned, cell_of(format), n, 0, 0);
    case_out(&c, &t->turned_scales, NUMBER_FP32, all_scales(scaling, size.batch, size.columns, size.rows), 1, 2);
  }
  case_compare(&c, comparison);
}

static void plain_copies(Comparison *comparison, Size size) {
  Case c =
      case_new(KERNEL_NARROW, "plain copies, %d x %d, batch %d", (int)size.rows, (int)size.columns, (int)size.batch);
  NarrowKernel *t = &c.kernel.narrow;
  const gint64 ld = size.columns + size.pad, stride = size.rows * ld, n = size.batch * size.rows * size.columns;
  *t = (NarrowKernel){.number = NUMBER_FP32,
                      .to = NUMBER_FP32,
                      .batch = size.batch,
                      .rows = size.rows,
                      .columns = size.columns,
                      .ld = ld,
                      .stride = stride};
  case_in(&c, &t->x, NUMBER_FP32, size.batch * stride, -1, 1);
  case_out(&c, &t->as_is, NUMBER_FP32, n, 0, 0);
  case_out(&c, &t->turned, NUMBER_FP32, n, 0, 0);
  case_compare(&c, comparison);
}

typedef struct {
  Fp8Format a, b;
  Fp8Scaling scaling_a, scaling_b;
  Number result;
  gboolean accumulate, is_fast, has_bias;
} Product;

/* GPUs add 8-bit products in about 14 bits before they add those sums in fp32 (arXiv 2412.19437 §3.3.2). */
static const double sum_error = 0x1p-10, fp32_tolerance = 5e-5;

static void product(Comparison *comparison, const Product *p, const gint64 size[4]) {
  const gint64 m = size[0], n = size[1], k = size[2], batch = size[3];
  Case c = case_new(KERNEL_MATMUL, "%s (%s) · %s (%s) to %s, %d x %d x %d, batch %d%s%s%s", format_names[p->a],
                    scaling_names[p->scaling_a], format_names[p->b], scaling_names[p->scaling_b],
                    number_name(p->result), (int)m, (int)n, (int)k, (int)batch, p->accumulate ? ", accumulate" : "",
                    p->has_bias ? ", bias" : "", p->is_fast ? ", fast" : "");
  MatmulKernel *t = &c.kernel.matmul;
  *t = (MatmulKernel){.layout = LAYOUT_TN,
                      .number = NUMBER_FP8,
                      .result = (guint8)p->result,
                      .accumulate = (guint8)p->accumulate,
                      .is_fast = (guint8)p->is_fast,
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = k,
                      .lda = k,
                      .ldb = k,
                      .ldc = n + 16,
                      .stride_a = m * k,
                      .stride_b = n * k,
                      .stride_c = m * (n + 16),
                      .alpha = p->accumulate ? 1.0f : 0.5f,
                      .fp8_a = {(guint8)p->a, (guint8)p->scaling_a, NULL},
                      .fp8_b = {(guint8)p->b, (guint8)p->scaling_b, NULL}};
  case_in(&c, &t->a, cell_of(p->a), batch * m * k, -100, 100);
  case_in(&c, &t->b, cell_of(p->b), batch * n * k, -100, 100);
  case_in(&c, &t->fp8_a.scales, NUMBER_FP32, all_scales(p->scaling_a, batch, m, k), 0.001, 0.02);
  case_in(&c, &t->fp8_b.scales, NUMBER_FP32, all_scales(p->scaling_b, batch, n, k), 0.001, 0.02);
  case_out(&c, &t->c, p->result, batch * t->stride_c, -1, 1);
  if (p->has_bias)
    case_in(&c, &t->bias, NUMBER_BF16, n, -1, 1);
  if (p->result == NUMBER_FP32)
    c.slack = sum_error / fp32_tolerance;
  case_compare(&c, comparison);
}

void compare_fp8(Comparison *comparison) {
  static const Size sizes[] = {{1, 16, 16, 0}, {1, 128, 256, 0}, {1, 144, 272, 16}, {3, 48, 400, 8}, {2, 400, 32, 0}};
  static const double most[] = {6, 1e38, 1e-38, 0, (double)NAN};
  static const gint64 shapes[][4] = {{16, 16, 16, 1}, {128, 256, 512, 1}, {272, 144, 1168, 1}, {48, 160, 208, 3}};
  static const Product products[] = {{FP8_E4M3, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_BF16, FALSE, TRUE, FALSE},
                                     {FP8_E4M3, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_BF16, FALSE, TRUE, TRUE},
                                     {FP8_E4M3, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_FP32, FALSE, FALSE, TRUE},
                                     {FP8_E5M2, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_BF16, FALSE, FALSE, FALSE},
                                     {FP8_E5M2, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_FP32, TRUE, FALSE, FALSE},
                                     {FP8_E5M2, FP8_E4M3, FP8_TENSOR, FP8_TENSOR, NUMBER_BF16, TRUE, FALSE, FALSE},
                                     {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_BLOCKS, NUMBER_BF16, FALSE, FALSE, FALSE},
                                     {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_BLOCKS, NUMBER_BF16, FALSE, FALSE, TRUE},
                                     {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_ROWS, NUMBER_FP32, TRUE, FALSE, FALSE},
                                     {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_ROWS, NUMBER_BF16, TRUE, FALSE, FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    for (int format = 0; format < N_FP8_FORMATS; format++)
      for (int scaling = FP8_TENSOR; scaling <= FP8_BLOCKS; scaling++)
        narrow(comparison, (Fp8Format)format, (Fp8Scaling)scaling, sizes[i], most[i], 1 + (int)(i + 2) % 3);
    plain_copies(comparison, sizes[i]);
  }
  for (int format = 0; format < N_FP8_FORMATS; format++)
    for (int scaling = FP8_TENSOR; scaling <= FP8_BLOCKS; scaling++)
      for (gsize i = 0; i < G_N_ELEMENTS(most); i++)
        narrow(comparison, (Fp8Format)format, (Fp8Scaling)scaling, sizes[2], most[i], 3);
  for (gsize i = 0; i < G_N_ELEMENTS(products); i++)
    for (gsize j = 0; j < G_N_ELEMENTS(shapes); j++)
      product(comparison, &products[i], shapes[j]);
}
