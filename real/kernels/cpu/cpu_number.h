/* Private to the CPU kernels: rows of elements as fp32, whatever format they are stored in. fp32 rows are used in
 * place; others are widened into a buffer and rounded back (to nearest, ties to even; NaN stays NaN, overflow becomes
 * ∞):
 *
 *      const float *x = row_in(base, number, first, n, buffer);     fp32: &base[first]      else: buffer, filled
 *      float *y = row_out(base, number, first, buffer);             fp32: &base[first]      else: buffer, not filled
 *      row_close(base, number, first, n, y);                        fp32: nothing           else: rounds buffer → base
 *
 * `first` and `n` count elements. */
#pragma once
#include "cpu_isa.h"

void numbers_widen(const void *from, Number number, gint64 n, float *to);
void numbers_round(const float *from, gint64 n, Number number, void *to);

/* to = scale·from, of fp8; and from scale·from to it. */
void fp8_widen(const guint8 *from, Fp8Format format, gint64 n, float scale, float *to);
void fp8_round(const float *from, gint64 n, float scale, Fp8Format format, guint8 *to);

const float *row_in(const void *base, Number number, gint64 first, gint64 n, float *buffer);
float *row_out(void *base, Number number, gint64 first, float *buffer);
/* For updating in place: row_out() with the current values. */
float *row_open(void *base, Number number, gint64 first, gint64 n, float *buffer);
void row_close(void *base, Number number, gint64 first, gint64 n, const float *row);
/* base[first + i] += values[i]; `buffer` [n] must not be `values`. */
void row_add(void *base, Number number, gint64 first, gint64 n, const float *values, float *buffer);

static inline const void *const_element_of(const void *base, Number number, gint64 index) {
  return (const char *)base + index * kernel_element_bytes(number);
}
static inline void *element_of(void *base, Number number, gint64 index) {
  return (char *)base + index * kernel_element_bytes(number);
}
