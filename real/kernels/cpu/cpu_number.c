/* bf16 is the upper half of an fp32, so widening is a shift and rounding is an addition that carries:
 *
 *      fp32   s eeeeeeee mmmmmmm|mmmmmmmmmmmmmmmm        + 0x7fff + (lowest kept bit)  rounds ties to even
 *      bf16   s eeeeeeee mmmmmmm
 *      fp16   s eeeee mmmmmmmmmm                         bias 15, not 127
 *
 * fp16 uses fp32 arithmetic where that rounds as needed: multiplying by 2^112 moves the exponent's bias and makes
 * subnormals normal; adding and subtracting a power of two drops the bits beyond fp16's last with correct rounding
 * (F. Giesen, "half_to_float_fast"). No branches, so that loops vectorise; no F16C, so that all processors give the
 * same result. fp8 (fp8.h) likewise, with other widths:
 *
 *      e4m3   s eeee mmm                                 bias 7, no ∞
 *      e5m2   s eeeee mm                                 bias 15: the upper half of an fp16 */
#include "cpu_number.h"

#include <string.h>

static inline guint32 bits_of(float value) {
  guint32 bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(guint32 bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline float widen_fp16(guint16 half) {
  guint32 magnitude = (guint32)(half & 0x7fff) << 13;
  float value = float_of(magnitude) * 0x1p112f; /* exact; subnormals too */
  guint32 bits = bits_of(value);
  bits = magnitude >= 0x0f800000 ? (magnitude | 0x7f800000) : bits; /* exponent all ones: ∞ and NaN */
  return float_of(bits | (guint32)(half & 0x8000) << 16);
}

static inline guint16 round_bf16(float value) {
  guint32 bits = bits_of(value);
  guint32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  guint32 quiet = bits >> 16 | 0x40; /* a NaN whose payload lies in the lower half must not become ∞ */
  return (guint16)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline guint16 round_fp16(float value) {
  guint32 bits = bits_of(value);
  guint32 sign = bits >> 16 & 0x8000;
  guint32 magnitude = bits & 0x7fffffff;
  /* normal fp16: move the bias, round at bit 13; a carry runs into the exponent as it should */
  guint32 normal = (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
  /* subnormal: fp32's adder aligns and rounds; the last place of 0.5f is 2^-24, fp16's smallest number */
  guint32 subnormal = bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f);
  guint32 half = magnitude < 0x38800000 ? subnormal : normal; /* 2^-14 */
  half = magnitude >= 0x477ff000 ? 0x7c00 : half;             /* 65520 and above round to ∞ */
  half = magnitude > 0x7f800000 ? 0x7e00 : half;
  return (guint16)(sign | half);
}

static inline float widen_e4m3(guint8 code) {
  const guint32 magnitude = code & 0x7f;
  const float value = float_of(magnitude << 20) * 0x1p120f; /* moves the bias from 7 to 127 */
  const guint32 bits = magnitude == 0x7f ? 0x7fc00000 : bits_of(value);
  return float_of(bits | (guint32)(code & 0x80) << 24);
}

/* `n_kept`: bits of the mantissa that are kept; `bias` of the exponent. Codes above `largest` become it. */
static inline guint8 round_fp8(float value, int n_kept, guint32 bias, guint32 largest) {
  const guint32 bits = bits_of(value), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  const int n_dropped = 23 - n_kept;
  const guint32 half = (1u << (n_dropped - 1)) - 1;
  const guint32 normal = (magnitude - ((127 - bias) << 23) + half + (magnitude >> n_dropped & 1)) >> n_dropped;
  /* the last place of this number is the format's smallest, 2^(1 − bias − n_kept) */
  const float adder = float_of((127 + 1 - bias + (guint32)n_dropped) << 23);
  const guint32 subnormal = bits_of(float_of(magnitude) + adder) - bits_of(adder);
  guint32 code = magnitude < (127 + 1 - bias) << 23 ? subnormal : normal;
  code = code > largest ? largest : code; /* ∞ too */
  return (guint8)(magnitude > 0x7f800000 ? 0x7f : sign | code);
}

void fp8_widen(const guint8 *from, Fp8Format format, gint64 n, float scale, float *to) {
  if (format == FP8_E4M3) {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = scale * widen_e4m3(from[i]);
  } else {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = scale * widen_fp16((guint16)(from[i] << 8));
  }
}

void fp8_round(const float *from, gint64 n, float scale, Fp8Format format, guint8 *to) {
  if (format == FP8_E4M3) {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = round_fp8(scale * from[i], 3, 7, 0x7e);
  } else {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = round_fp8(scale * from[i], 2, 15, 0x7b);
  }
}

void numbers_widen(const void *from, Number number, gint64 n, float *to) {
  if (number == NUMBER_FP32) {
    memcpy(to, from, (gsize)n * sizeof(float));
    return;
  }
  const guint16 *half = from;
  if (number == NUMBER_BF16) {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = float_of((guint32)half[i] << 16);
  } else {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      to[i] = widen_fp16(half[i]);
  }
}

void numbers_round(const float *from, gint64 n, Number number, void *to) {
  if (number == NUMBER_FP32) {
    memcpy(to, from, (gsize)n * sizeof(float));
    return;
  }
  guint16 *half = to;
  if (number == NUMBER_BF16) {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      half[i] = round_bf16(from[i]);
  } else {
#pragma omp simd
    for (gint64 i = 0; i < n; i++)
      half[i] = round_fp16(from[i]);
  }
}

const float *row_in(const void *base, Number number, gint64 first, gint64 n, float *buffer) {
  const void *row = const_element_of(base, number, first);
  if (number == NUMBER_FP32)
    return row;
  numbers_widen(row, number, n, buffer);
  return buffer;
}

float *row_out(void *base, Number number, gint64 first, float *buffer) {
  return number == NUMBER_FP32 ? element_of(base, number, first) : buffer;
}

float *row_open(void *base, Number number, gint64 first, gint64 n, float *buffer) {
  float *row = row_out(base, number, first, buffer);
  if (number != NUMBER_FP32)
    numbers_widen(const_element_of(base, number, first), number, n, row);
  return row;
}

void row_close(void *base, Number number, gint64 first, gint64 n, const float *row) {
  if (number != NUMBER_FP32)
    numbers_round(row, n, number, element_of(base, number, first));
}

void row_add(void *base, Number number, gint64 first, gint64 n, const float *values, float *buffer) {
  float *sum = row_open(base, number, first, n, buffer);
#pragma omp simd
  for (gint64 i = 0; i < n; i++)
    sum[i] += values[i];
  row_close(base, number, first, n, sum);
}
