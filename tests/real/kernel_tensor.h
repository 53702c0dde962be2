/* Tensors of a Number with the doubles they stand for, kernels run on a chosen instruction set, and comparison of
 * kernel results with references in double. Conversions here are plain arithmetic, independent of the kernels'. */
#pragma once
#include "cpu_kernels.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

typedef struct {
  Number number;
  gint64 n;
  void *data; /* as stored */
  double *x;  /* what is stored, before a kernel changes it; references compute on these */
} Tensor;

/* 2^e and frexp's exponent, except for subnormal doubles, which the formats here never need. Millions of numbers are
 * made with them, and the library's functions took half of a test's time. */
static inline double power_of_two(int e) {
  const guint64 bits = (guint64)(e + 1023) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

static inline int exponent_of(double value) {
  guint64 bits;
  memcpy(&bits, &value, sizeof bits);
  return (int)(bits >> 52 & 0x7ff) - 1022;
}

/* Rounds to ±m·2^e with `digits` bits of m and no exponent below `least`, as the format does: to nearest even. */
static inline double round_to(double value, int digits, int least, double most) {
  if (value == 0 || !isfinite(value))
    return value;
  double unit = power_of_two(MAX(exponent_of(value) - digits, least));
  double rounded = nearbyint(value / unit) * unit;
  return fabs(rounded) > most ? copysign(INFINITY, value) : rounded;
}

static inline double number_round(Number number, double value) {
  if (number == NUMBER_BF16)
    return round_to((double)(float)value, 8, -133, 0x1.FEp127);
  if (number == NUMBER_FP16)
    return round_to((double)(float)value, 11, -24, 65504);
  return (double)(float)value;
}

static inline double half_decode(Number number, guint16 half) {
  int mantissa_bits = number == NUMBER_BF16 ? 7 : 10, bias = number == NUMBER_BF16 ? 127 : 15;
  int all_ones = number == NUMBER_BF16 ? 255 : 31;
  int exponent = (half & 0x7fff) >> mantissa_bits, mantissa = half & ((1 << mantissa_bits) - 1);
  double sign = half & 0x8000 ? -1 : 1;
  if (exponent == all_ones)
    return mantissa == 0 ? sign * INFINITY : NAN;
  if (exponent == 0)
    return sign * mantissa * power_of_two(1 - bias - mantissa_bits);
  return sign * (mantissa + (1 << mantissa_bits)) * power_of_two(exponent - bias - mantissa_bits);
}

/* `value` must be representable. */
static inline guint16 half_encode(Number number, double value) {
  int mantissa_bits = number == NUMBER_BF16 ? 7 : 10, bias = number == NUMBER_BF16 ? 127 : 15;
  int all_ones = number == NUMBER_BF16 ? 255 : 31;
  int sign = signbit(value) ? 0x8000 : 0;
  if (isnan(value))
    return (guint16)(sign | all_ones << mantissa_bits | 1 << (mantissa_bits - 1));
  if (isinf(value))
    return (guint16)(sign | all_ones << mantissa_bits);
  int exponent = MAX(exponent_of(value) - 1, 1 - bias);
  int whole = (int)(fabs(value) * power_of_two(mantissa_bits - exponent)); /* with the leading 1, when normal */
  gboolean is_normal = whole >> mantissa_bits != 0;
  return (guint16)(sign | (is_normal ? exponent + bias : 0) << mantissa_bits | (whole & ((1 << mantissa_bits) - 1)));
}

static inline double tensor_get(const Tensor *tensor, gint64 i) {
  g_assert(i >= 0 && i < tensor->n);
  if (tensor->number == NUMBER_FP32)
    return (double)((const float *)tensor->data)[i];
  return half_decode(tensor->number, ((const guint16 *)tensor->data)[i]);
}

static inline void tensor_set(Tensor *tensor, gint64 i, double value) {
  g_assert(i >= 0 && i < tensor->n);
  tensor->x[i] = number_round(tensor->number, value);
  if (tensor->number == NUMBER_FP32)
    ((float *)tensor->data)[i] = (float)value;
  else
    ((guint16 *)tensor->data)[i] = half_encode(tensor->number, tensor->x[i]);
}

static inline Tensor tensor_new(Number number, gint64 n) {
  gsize bytes = (gsize)n * (number == NUMBER_FP32 ? 4 : 2);
  return (Tensor){number, n, g_malloc0(MAX(bytes, 1)), g_new0(double, n)};
}

/* Uniform in mean ± spread, then rounded. */
static inline Tensor tensor_random(Number number, gint64 n, guint64 seed, double mean, double spread) {
  Tensor tensor = tensor_new(number, n);
  for (gint64 i = 0; i < n; i++)
    tensor_set(&tensor, i, mean + spread * (kernel_random(seed, (guint64)i) * 0x1p-31 - 1));
  return tensor;
}

static inline void tensor_clear(Tensor *tensor) {
  g_free(tensor->data);
  g_free(tensor->x);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Tensor, tensor_clear)

/* Loop tests run over formats and instruction sets, numbered by case i. */
static const Number tested_numbers[] = {NUMBER_FP32, NUMBER_BF16, NUMBER_FP16};

static inline int n_cases(void) {
  return (int)(G_N_ELEMENTS(tested_numbers) * g_strv_length((char **)(gsize)cpu_kernels_isa_names()));
}
static inline Number case_number(int i) {
  return tested_numbers[i % (int)G_N_ELEMENTS(tested_numbers)];
}

static inline void run_kernel(int test_case, const Kernel *kernel) {
  g_autoptr(GError) error = NULL;
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  const char *isa = cpu_kernels_isa_names()[test_case / (int)G_N_ELEMENTS(tested_numbers)];
  ck_assert(cpu_scratch_use_isa(scratch, isa));
  gboolean ran = cpu_kernel_run(kernel, scratch, &error);
  ck_assert_msg(ran, "%s", error == NULL ? "" : error->message);
}

/* Relative error of one rounding to the format; for fp32, of some hundred additions. */
static inline double number_tolerance(Number number) {
  return number == NUMBER_BF16 ? 0x1p-8 : number == NUMBER_FP16 ? 0x1p-11 : 4e-6;
}

/* |got − want| ≤ tolerance·max(|want|, scale); both NaN, or the same infinity, is equal. */
static inline void assert_near(const char *what, gint64 i, double got, double want, double tolerance, double scale) {
  if ((isnan(got) && isnan(want)) || got == want)
    return;
  double error = fabs(got - want), bound = tolerance * fmax(fabs(want), scale);
  if (error <= bound) /* ahead of Check's macros, which write to a file each time */
    return;
  ck_abort_msg("%s[%d]: %.9g, expected %.9g, off by %.3g > %.3g", what, (int)i, got, want, error, bound);
}

/* `scale`: size of the terms that the values are sums of, below which fp32 errors do not shrink with the value. */
static inline void assert_tensor(const char *what, const Tensor *got, const double *want, double scale) {
  for (gint64 i = 0; i < got->n; i++) {
    double absolute = got->number == NUMBER_FP32 ? scale : fmax(scale * 1e-3, 6e-8);
    assert_near(what, i, tensor_get(got, i), want[i], 1.01 * number_tolerance(got->number), absolute);
  }
}

/* Central difference of `sum` in x[i]: x is one of the arrays that `sum` computes on. */
static inline double slope_at(double (*sum)(gpointer data), gpointer data, double *x) {
  double before = *x, h = 1e-5 * fmax(1, fabs(before));
  *x = before + h;
  double above = sum(data);
  *x = before - h;
  double below = sum(data);
  *x = before;
  return (above - below) / (2 * h);
}

/* Compares the gradient that a backward kernel left in `got` with central differences in x, at up to `n_samples`
 * elements spread over it (0: all). `old` (may be NULL): the contents before "+=". In formats other than fp32, kernels
 * start from rounded forward results, so the error is of the size of the terms, not of their sum. */
static inline void assert_gradient(const char *what, const Tensor *got, const double *old, double *x,
                                   double (*sum)(gpointer data), gpointer data, gint64 n_samples, double scale) {
  gint64 step = n_samples == 0 ? 1 : MAX(got->n / n_samples, 1);
  double absolute = got->number == NUMBER_FP32 ? scale : scale * 0.1;
  for (gint64 i = 0; i < got->n; i += step)
    assert_near(what, i, tensor_get(got, i), (old == NULL ? 0 : old[i]) + slope_at(sum, data, &x[i]),
                2 * number_tolerance(got->number) + 1e-6, absolute);
}

static inline int run_kernel_case(const char *name, TCase *tcase) {
  cpu_kernels_set_threads(1);
  tcase_set_timeout(tcase, 60);
  return run_case(name, tcase);
}
