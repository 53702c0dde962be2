/* A block of elements at a time is widened, reduced over all parts in a fixed order, and rounded back:
 *
 *   parts[0]  ████ ────┐ widen
 *   parts[1]  ████ ──► accumulator (512 × fp32, in L1) ──► round ──► out
 *   parts[2]  ████ ────┘
 *
 * so that a result does not depend on which part came first, and a sum of n parts in bf16 is rounded once, not n − 1
 * times. The conversions are plain integer arithmetic without branches: compilers turn the loops into vector code. */
#include "reduce.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512 };

typedef void (*Widen)(const void *from, float *to, gint64 n);
typedef void (*Round)(const float *from, void *to, gint64 n);

static guint32 bits_of(float x) {
  guint32 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(guint32 bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void widen_bf16(const void *from, float *to, gint64 n) {
  const guint16 *x = from;
  for (gint64 i = 0; i < n; i++)
    to[i] = float_of((guint32)x[i] << 16);
}

/* Adding half of the last kept bit, and one less when that bit is even, carries exactly when rounding goes up. A NaN
 * keeps its sign and becomes quiet. */
static void round_bf16(const float *from, void *to, gint64 n) {
  guint16 *y = to;
  for (gint64 i = 0; i < n; i++) {
    guint32 x = bits_of(from[i]);
    guint32 rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16, nan = (x >> 16) | 0x40;
    y[i] = (guint16)((x & 0x7fffffff) > 0x7f800000 ? nan : rounded);
  }
}

/* Exponent and mantissa in the place fp32 has them, times 2^112 to move the bias from 15 to 127 (exact, also for
 * subnormals); infinities and NaNs get the largest exponent. */
static void widen_fp16(const void *from, float *to, gint64 n) {
  const guint16 *x = from;
  for (gint64 i = 0; i < n; i++) {
    guint32 magnitude = (guint32)(x[i] & 0x7fff) << 13, sign = (guint32)(x[i] & 0x8000) << 16;
    guint32 bits = bits_of(float_of(magnitude) * 0x1p112f);
    bits |= magnitude >= 0x0f800000 ? 0x7f800000 : 0;
    to[i] = float_of(bits | sign);
  }
}

/* Three ranges, all computed, one chosen: normal numbers round in the integer (the carry may reach infinity, rightly);
 * below 2^−14 adding ½ makes the fp32 adder round to a multiple of 2^−24; from 65520 on it is infinity or a NaN. */
static void round_fp16(const float *from, void *to, gint64 n) {
  guint16 *y = to;
  for (gint64 i = 0; i < n; i++) {
    guint32 x = bits_of(from[i]), sign = x >> 16 & 0x8000, magnitude = x & 0x7fffffff;
    guint32 normal = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
    guint32 small = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000;
    guint32 large = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    guint32 half = magnitude < 0x38800000 ? small : normal;
    y[i] = (guint16)((magnitude >= 0x477ff000 ? large : half) | sign);
  }
}

static void widen_fp32(const void *from, float *to, gint64 n) {
  memcpy(to, from, (gsize)n * sizeof *to);
}

static void round_fp32(const float *from, void *to, gint64 n) {
  memcpy(to, from, (gsize)n * sizeof *from);
}

static const struct {
  gint64 bytes;
  Widen widen;
  Round round;
} elements[N_ELEMENTS] = {
    [ELEMENT_FP32] = {4, widen_fp32, round_fp32},
    [ELEMENT_BF16] = {2, widen_bf16, round_bf16},
    [ELEMENT_FP16] = {2, widen_fp16, round_fp16},
    [ELEMENT_FP64] = {8, NULL, NULL},
};

Element element_of(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16);
  return number == NUMBER_FP32 ? ELEMENT_FP32 : number == NUMBER_BF16 ? ELEMENT_BF16 : ELEMENT_FP16;
}

gint64 element_bytes(Element element) {
  return elements[element].bytes;
}

/* A NaN on either side stays one. */
static void combine(ReduceKind kind, float *restrict to, const float *restrict x, gint64 n) {
  if (kind == REDUCE_SUM)
    for (gint64 i = 0; i < n; i++)
      to[i] += x[i];
  else
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

/* Two fp32 parts need no accumulator; this is the whole work of a pair of ranks. No restrict: out may be one of them.
 */
static void add_pair(const float *a, const float *b, float *out, gint64 n) {
  for (gint64 i = 0; i < n; i++)
    out[i] = a[i] + b[i];
}

void reduce_parts(Element element, ReduceKind kind, const void *const *parts, int n_parts, void *out, gint64 n) {
  if (element == ELEMENT_FP64) {
    reduce_doubles(kind, (const double *const *)parts, n_parts, out, n);
    return;
  }
  if (element == ELEMENT_FP32 && kind == REDUCE_SUM && n_parts == 2) {
    add_pair(parts[0], parts[1], out, n);
    return;
  }
  gint64 bytes = elements[element].bytes;
  float sum[BLOCK], wide[BLOCK];
  for (gint64 i = 0; i < n; i += BLOCK) {
    gint64 block = MIN(n - i, BLOCK);
    elements[element].widen((const char *)parts[0] + i * bytes, sum, block);
    for (int p = 1; p < n_parts; p++) {
      const char *part = (const char *)parts[p] + i * bytes;
      const float *x = wide;
      if (element == ELEMENT_FP32)
        x = (const float *)part;
      else
        elements[element].widen(part, wide, block);
      combine(kind, sum, x, block);
    }
    elements[element].round(sum, (char *)out + i * bytes, block);
  }
}
