#include "cuda_cases.h"

static void norm(Comparison *comparison, Number number, Number gradient, gint64 rows, gint64 width, gboolean is_rms) {
  Case c = case_new(KERNEL_NORM_FORWARD, "%s %s %d x %d", is_rms ? "rms" : "layer", number_name(number), (int)rows,
                    (int)width);
  NormKernel *t = &c.kernel.norm;
  *t = (NormKernel){.number = (guint8)number, .is_rms = (guint8)is_rms, .rows = rows, .width = width, .epsilon = 1e-5f};
  t->gradient = (guint8)gradient;
  Case back = case_new(KERNEL_NORM_BACKWARD, "%s %s, gradient %s, %d x %d", is_rms ? "rms" : "layer",
                       number_name(number), number_name(gradient), (int)rows, (int)width);
  back.kernel.norm = *t;
  case_in(&c, &t->x, number, rows * width, -2, 3);
  case_in(&c, &t->weight, number, width, 0.5, 1.5);
  case_out(&c, &t->y, number, rows * width, 0, 0);
  case_out(&c, &t->rstd, NUMBER_FP32, rows, 0, 0);
  if (!is_rms) {
    case_in(&c, &t->shift, number, width, -1, 1);
    case_out(&c, &t->mean, NUMBER_FP32, rows, 0, 0);
  }
  case_compare(&c, comparison);
  t = &back.kernel.norm;
  case_in(&back, &t->x, number, rows * width, -2, 3);
  case_in(&back, &t->weight, number, width, 0.5, 1.5);
  case_in(&back, &t->dy, number, rows * width, -1, 1);
  case_in(&back, &t->rstd, NUMBER_FP32, rows, 0.5, 1);
  case_out(&back, &t->dx, number, rows * width, 0, 0);
  case_out(&back, &t->dweight, gradient, width, -1, 1);
  if (!is_rms) {
    case_in(&back, &t->mean, NUMBER_FP32, rows, 0.2, 0.7);
    case_out(&back, &t->dshift, gradient, width, -1, 1);
  }
  case_compare(&back, comparison);
}

/* LayerNorm of rows without weights. */
static void fixed_norm(Comparison *comparison, Number number, gint64 rows, gint64 width) {
  Case c = case_new(KERNEL_NORM_FORWARD, "layer %s without weights, %d columns", number_name(number), (int)width);
  Case back = case_new(KERNEL_NORM_BACKWARD, "layer %s without weights, %d columns", number_name(number), (int)width);
  NormKernel *t = &c.kernel.norm;
  *t = back.kernel.norm = (NormKernel){.number = (guint8)number, .rows = rows, .width = width, .epsilon = 1e-5f};
  case_in(&c, &t->x, number, rows * width, -2, 3);
  case_out(&c, &t->y, number, rows * width, 0, 0);
  case_out(&c, &t->mean, NUMBER_FP32, rows, 0, 0);
  case_out(&c, &t->rstd, NUMBER_FP32, rows, 0, 0);
  case_compare(&c, comparison);
  t = &back.kernel.norm;
  case_in(&back, &t->x, number, rows * width, -2, 3);
  case_in(&back, &t->dy, number, rows * width, -1, 1);
  case_in(&back, &t->mean, NUMBER_FP32, rows, 0.2, 0.7);
  case_in(&back, &t->rstd, NUMBER_FP32, rows, 0.5, 1);
  case_out(&back, &t->dx, number, rows * width, 0, 0);
  case_compare(&back, comparison);
}

/* Of some heads of a row, in place; what the forward keeps is what the backward reads. */
static void head_norm(Comparison *comparison, Number number, gint64 head_dim, gboolean is_rms) {
  const gint64 lines = 9, heads = 3, ld = 4 * head_dim + head_dim % 2, rows = lines * heads;
  const NormKernel task = {.number = (guint8)number,
                           .is_rms = (guint8)is_rms,
                           .rows = rows,
                           .width = head_dim,
                           .epsilon = 1e-5f,
                           .per_line = heads,
                           .ld = ld,
                           .gradient = NUMBER_FP32};
  Case c = case_new(KERNEL_NORM_FORWARD, "%s of heads %s, head_dim %d", is_rms ? "rms" : "layer", number_name(number),
                    (int)head_dim);
  Case back = case_new(KERNEL_NORM_BACKWARD, "%s of heads %s, head_dim %d", is_rms ? "rms" : "layer",
                       number_name(number), (int)head_dim);
  c.kernel.norm = back.kernel.norm = task;
  NormKernel *t = &c.kernel.norm;
  case_in(&c, &t->x, number, lines * ld, -2, 3);
  case_in(&c, &t->weight, number, head_dim, 0.5, 1.5);
  case_out(&c, &t->y, number, lines * ld, 4, 5);
  case_out(&c, &t->kept, number, rows * head_dim, 0, 0);
  case_out(&c, &t->mean, NUMBER_FP32, rows, 0, 0);
  case_out(&c, &t->rstd, NUMBER_FP32, rows, 0, 0);
  case_compare(&c, comparison);
  t = &back.kernel.norm;
  case_in(&back, &t->weight, number, head_dim, 0.5, 1.5);
  case_in(&back, &t->dy, number, lines * ld, -1, 1);
  case_in(&back, &t->kept, number, rows * head_dim, -2, 3);
  case_in(&back, &t->mean, NUMBER_FP32, rows, 0.2, 0.7);
  case_in(&back, &t->rstd, NUMBER_FP32, rows, 0.5, 1);
  case_out(&back, &t->dx, number, lines * ld, 4, 5);
  case_out(&back, &t->dweight, NUMBER_FP32, head_dim, -1, 1);
  case_compare(&back, comparison);
}

/* Parts of rows, of which there are two columns elsewhere for each here: their sums, and norms with sums of all. */
static void part_norm(Comparison *comparison, Number number, gint64 width, gboolean is_rms) {
  const gint64 rows = 11, ld = 2 * width;
  const KernelKind kinds[] = {KERNEL_NORM_SUMS, KERNEL_NORM_SUMS_BACKWARD, KERNEL_NORM_FORWARD, KERNEL_NORM_BACKWARD};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++) {
    const gboolean is_back = i % 2 == 1, is_norm = i >= 2;
    Case c =
        case_new(kinds[i], "%s of parts %s, %d columns", is_rms ? "rms" : "layer", number_name(number), (int)width);
    NormKernel *t = &c.kernel.norm;
    *t = (NormKernel){.number = (guint8)number,
                      .is_rms = (guint8)is_rms,
                      .rows = rows,
                      .width = width,
                      .epsilon = 1e-5f,
                      .per_line = 1,
                      .ld = ld,
                      .whole_width = 3 * width,
                      .gradient = NUMBER_FP32};
    case_in(&c, &t->weight, number, width, 0.5, 1.5);
    for (int s = 0; s < (is_rms ? 1 : 2); s++)
      (is_norm ? case_in : case_out)(&c, &t->sums[s], NUMBER_FP32, rows, s == 0 ? 5 * width : -width, 9 * width);
    if (is_back) {
      case_in(&c, &t->dy, number, rows * ld, -1, 1);
      case_in(&c, &t->kept, number, rows * width, -2, 3);
      case_in(&c, &t->mean, NUMBER_FP32, rows, 0.2, 0.7);
      case_in(&c, &t->rstd, NUMBER_FP32, rows, 0.5, 1);
    } else {
      case_in(&c, &t->x, number, rows * ld, -2, 3);
    }
    if (is_norm && is_back) {
      case_out(&c, &t->dx, number, rows * ld, 4, 5);
      case_out(&c, &t->dweight, NUMBER_FP32, width, -1, 1);
    } else if (is_norm) {
      case_out(&c, &t->y, number, rows * ld, 4, 5);
      case_out(&c, &t->kept, number, rows * width, 0, 0);
      case_out(&c, &t->mean, NUMBER_FP32, rows, 0, 0);
      case_out(&c, &t->rstd, NUMBER_FP32, rows, 0, 0);
    }
    case_compare(&c, comparison);
  }
}

void compare_norms(Comparison *comparison, Number number) {
  for (int is_rms = 0; is_rms < 2; is_rms++) {
    norm(comparison, number, NUMBER_FP32, 300, 129, is_rms);
    norm(comparison, number, number, 64, 4096, is_rms);
    fixed_norm(comparison, number, 9, is_rms ? 256 : 37);
    head_norm(comparison, number, is_rms ? 128 : 21, is_rms);
    part_norm(comparison, number, 96, is_rms);
    part_norm(comparison, number, 29, is_rms);
  }
}
