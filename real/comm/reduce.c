/* Block by block, elements are widened, reduced over all parts in a fixed order, and rounded back:
 *
 *   parts[0]  ████ ────┐ widen
 *   parts[1]  ████ ──► accumulator (fp32, in L1) ──► round ──► out
 *   parts[2]  ████ ────┘
 *
 * So the result does not depend on which part arrived first, and a bf16 sum of n parts is rounded once, not n − 1
 * times. The CPU kernels, built for the processor's instruction set, do the widening and rounding. */
#include "reduce.h"

enum { BLOCK = 2048 };

static const struct {
  gint64 bytes;
  Number number; /* the kernels' name for it; N_NUMBERS: they have none */
} elements[N_ELEMENTS] = {
    [ELEMENT_FP32] = {4, NUMBER_FP32},
    [ELEMENT_BF16] = {2, NUMBER_BF16},
    [ELEMENT_FP16] = {2, NUMBER_FP16},
    [ELEMENT_FP64] = {8, N_NUMBERS},
};

Element element_of(Number number) {
  for (int i = 0; i < N_ELEMENTS; i++)
    if (elements[i].number == number)
      return (Element)i;
  g_assert_not_reached();
}

gint64 element_bytes(Element element) {
  return elements[element].bytes;
}

static void convert(Number from_number, const void *from, Number to_number, void *to, gboolean accumulate, gint64 n,
                    CpuScratch *scratch) {
  Kernel kernel = {.kind = KERNEL_CONVERT,
                   .convert = {(guint8)from_number, (guint8)to_number, accumulate != FALSE, n, from, to}};
  gboolean is_known = cpu_kernel_run(&kernel, scratch, NULL);
  g_assert(is_known);
}

/* A NaN on either side stays a NaN. */
static void take_larger(float *to, const float *x, gint64 n) {
  for (gint64 i = 0; i < n; i++)
    to[i] = to[i] > x[i] || to[i] != to[i] ? to[i] : x[i];
}

static void reduce_doubles(ReduceKind kind, const double *const *parts, int n_parts, double *out, gint64 n) {
  for (gint64 i = 0; i < n; i++) {
    double result = parts[0][i];
    for (int p = 1; p < n_parts; p++) {
      double x = parts[p][i];
      result = kind == REDUCE_SUM ? result + x : result > x || result != result ? result : x;
    }
    out[i] = result;
  }
}

/* Two fp32 parts need no accumulator: all that a pair of ranks has to do. */
static void add_pair(const float *a, const float *b, float *out, gint64 n) {
  for (gint64 i = 0; i < n; i++)
    out[i] = a[i] + b[i];
}

static void reduce_block(Number number, ReduceKind kind, const char *const *parts, int n_parts, gint64 offset_bytes,
                         void *out, gint64 n, CpuScratch *scratch) {
  float result[BLOCK], wide[BLOCK];
  convert(number, parts[0] + offset_bytes, NUMBER_FP32, result, FALSE, n, scratch);
  for (int p = 1; p < n_parts; p++) {
    if (kind == REDUCE_SUM) {
      convert(number, parts[p] + offset_bytes, NUMBER_FP32, result, TRUE, n, scratch);
    } else {
      convert(number, parts[p] + offset_bytes, NUMBER_FP32, wide, FALSE, n, scratch);
      take_larger(result, wide, n);
    }
  }
  convert(NUMBER_FP32, result, number, out, FALSE, n, scratch);
}

void reduce_parts(Element element, ReduceKind kind, const void *const *parts, int n_parts, void *out, gint64 n,
                  CpuScratch *scratch) {
  if (element == ELEMENT_FP64) {
    reduce_doubles(kind, (const double *const *)parts, n_parts, out, n);
    return;
  }
  if (element == ELEMENT_FP32 && kind == REDUCE_SUM && n_parts == 2) {
    add_pair(parts[0], parts[1], out, n);
    return;
  }
  gint64 bytes = element_bytes(element);
  for (gint64 i = 0; i < n; i += BLOCK)
    reduce_block(elements[element].number, kind, (const char *const *)parts, n_parts, i * bytes,
                 (char *)out + i * bytes, MIN(n - i, BLOCK), scratch);
}
