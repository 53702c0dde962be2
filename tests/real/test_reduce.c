/* Reductions of every stored format against independent rounding: frexp and nearbyint on doubles. */
#include "reduce.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Value of a format with `mantissa_bits` after the point and exponents from `min_exponent` (of the smallest normal). */
typedef struct {
  Element element;
  int mantissa_bits, min_exponent, max_exponent;
} Format;

static const Format bf16 = {ELEMENT_BF16, 7, -126, 127}, fp16 = {ELEMENT_FP16, 10, -14, 15};

static double decode(const Format *format, guint16 bits) {
  int mantissa = bits & ((1 << format->mantissa_bits) - 1);
  int exponent = (bits & 0x7fff) >> format->mantissa_bits;
  int top = (1 << (15 - format->mantissa_bits)) - 1;
  double sign = bits >> 15 ? -1 : 1;
  if (exponent == top)
    return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
  int scale = (exponent == 0 ? format->min_exponent : exponent - 1 + format->min_exponent) - format->mantissa_bits;
  return sign * ldexp(mantissa + (exponent == 0 ? 0 : 1 << format->mantissa_bits), scale);
}

/* Nearest value of the format, ties to even. */
static double round_to(const Format *format, double x) {
  if (x == 0 || isnan(x) || isinf(x))
    return x;
  int exponent;
  frexp(x, &exponent); /* x = 0.1… · 2^exponent */
  int last = MAX(exponent - 1, format->min_exponent) - format->mantissa_bits;
  double rounded = ldexp(nearbyint(ldexp(x, -last)), last);
  double largest = ldexp(2 - ldexp(1, -format->mantissa_bits), format->max_exponent);
  return fabs(rounded) > largest ? copysign((double)INFINITY, x) : rounded;
}

static void check_pair(const Format *format, guint16 a, guint16 b, CpuScratch *scratch) {
  guint16 sum;
  const void *parts[] = {&a, &b};
  reduce_parts(format->element, REDUCE_SUM, parts, 2, &sum, 1, scratch);
  double expected = round_to(format, (double)((float)decode(format, a) + (float)decode(format, b)));
  double found = decode(format, sum);
  ck_assert_msg(isnan(expected) ? isnan(found) : expected == found, "%04x + %04x: %04x = %g, not %g", a, b, sum, found,
                expected);
}

static void check_format(const Format *format) {
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  for (guint32 bits = 0; bits < 0x10000; bits++) {
    guint16 value = (guint16)bits, same;
    const void *parts[] = {&value};
    reduce_parts(format->element, REDUCE_SUM, parts, 1, &same, 1, scratch);
    if (isnan(decode(format, value)))
      ck_assert(isnan(decode(format, same)));
    else
      ck_assert_uint_eq(value, same);
    for (guint32 k = 0; k < 8; k++)
      check_pair(format, value, (guint16)kernel_random(7, bits * 8 + k), scratch);
  }
}

TEST(bf16_sums_round_to_nearest_even) {
  check_format(&bf16);
}

TEST(fp16_sums_round_to_nearest_even) {
  check_format(&fp16);
}

/* Longer than a block of the accumulator, into one of the parts, in every format and kind. */
TEST(parts_are_reduced_in_place) {
  enum { N = 5000 };
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  float parts[3][N];
  double wide[3][N];
  for (int p = 0; p < 3; p++)
    for (int i = 0; i < N; i++)
      wide[p][i] = parts[p][i] = (float)((i * 13 + p * 7) % 29 - 14);
  const void *narrow_parts[] = {parts[0], parts[1], parts[2]}, *wide_parts[] = {wide[0], wide[1], wide[2]};
  reduce_parts(ELEMENT_FP32, REDUCE_MAX, narrow_parts, 3, parts[1], N, scratch);
  reduce_parts(ELEMENT_FP64, REDUCE_SUM, wide_parts, 3, wide[2], N, scratch);
  for (int i = 0; i < N; i++) {
    int a = i * 13 % 29 - 14, b = (i * 13 + 7) % 29 - 14, c = (i * 13 + 14) % 29 - 14;
    ck_assert(parts[1][i] == (float)MAX(a, MAX(b, c)));
    ck_assert(wide[2][i] == a + b + c);
  }
}

TEST(nan_is_not_lost) {
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  float nan_value = NAN, one = 1, result;
  const void *first[] = {&nan_value, &one}, *second[] = {&one, &nan_value};
  reduce_parts(ELEMENT_FP32, REDUCE_MAX, first, 2, &result, 1, scratch);
  ck_assert(isnan(result));
  reduce_parts(ELEMENT_FP32, REDUCE_MAX, second, 2, &result, 1, scratch);
  ck_assert(isnan(result));
}

int main(void) {
  return run_tests();
}
