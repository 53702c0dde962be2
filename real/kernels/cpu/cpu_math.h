/* Private to the CPU kernels: exponentials that vectorise, and sums over rows. */
#pragma once
#include <glib.h>

#include <math.h>
#include <string.h>

/* e^x to 2 ulp over the whole range, including ∞ and subnormal results; NaN stays NaN.
 *
 *      x = n·ln 2 + r, |r| ≤ ½ ln 2        e^x = 2^n · e^r
 *
 * with a polynomial for e^r (S. Moshier, Cephes, expf). n is rounded by adding 1.5·2^23, which leaves it in the low
 * bits of the sum; 2^n is applied in two halves, since 2^128 and 2^-149 are not normal fp32 numbers. */
static inline __attribute__((always_inline)) float fast_exp(float x) {
  const float round_at = 12582912.0f;
  x = x > 89.0f ? 89.0f : x; /* e^89 overflows; comparisons with NaN are false, so it passes through */
  x = x < -104.0f ? -104.0f : x;
  float shifted = x * 1.44269504088896341f + round_at;
  float n = shifted - round_at;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  guint32 bits;
  memcpy(&bits, &shifted, sizeof bits);
  gint32 whole = (gint32)(bits - 0x4b400000u); /* the bits of 1.5·2^23 */
  gint32 half = whole >> 1;
  guint32 low_bits = (guint32)(half + 127) << 23, high_bits = (guint32)(whole - half + 127) << 23;
  float low, high;
  memcpy(&low, &low_bits, sizeof low);
  memcpy(&high, &high_bits, sizeof high);
  return p * low * high;
}

/* 1 / (1 + e^−x); exact at ±∞. */
static inline __attribute__((always_inline)) float fast_sigmoid(float x) {
  return 1.0f / (1.0f + fast_exp(-x));
}

/* To 3 ulp: a polynomial near 0 (S. Moshier, Cephes, tanhf), elsewhere 1 − 2/(e^2|x| + 1). */
static inline __attribute__((always_inline)) float fast_tanh(float x) {
  float square = x * x, size = fabsf(x), p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  float far = 1.0f - 2.0f / (fast_exp(2.0f * size) + 1.0f);
  return size < 0.625f ? p * square * x + x : copysignf(far, x);
}

/* The maximum of scale·x[j], ignoring NaN; −∞ for n = 0. Lanes are explicit because not all compilers vectorise a
 * maximum that must handle NaN. */
static inline float row_max(const float *x, float scale, gint64 n) {
  enum { LANES = 16 };
  float most[LANES];
  for (int i = 0; i < LANES; i++)
    most[i] = -INFINITY;
  gint64 j = 0;
  for (; j + LANES <= n; j += LANES) {
#pragma omp simd
    for (int i = 0; i < LANES; i++)
      most[i] = scale * x[j + i] > most[i] ? scale * x[j + i] : most[i];
  }
  for (; j < n; j++)
    most[0] = scale * x[j] > most[0] ? scale * x[j] : most[0];
  for (int width = LANES / 2; width > 0; width /= 2)
    for (int i = 0; i < width; i++)
      most[i] = most[i + width] > most[i] ? most[i + width] : most[i];
  return most[0];
}
