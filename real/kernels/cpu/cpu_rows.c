/* Norms and softmax: kernels that need a sum over a row before they can write it. A row is read twice, the second
 * time from cache:
 *
 *      x [width]  ──▶ Σ, Σ(x − mean)²  ──▶ y = (x − mean)·rstd·w + shift
 *
 * Norm backward, with x̂ = (x − mean)·rstd and g = dy·w (J. Ba et al., arXiv 1607.06450; RMSNorm arXiv 1910.07467):
 *
 *      dx = rstd·(g − ⟨g⟩ − x̂·⟨g·x̂⟩)      RMSNorm: mean = 0 and no ⟨g⟩
 *      dw += Σ_rows dy·x̂,  dshift += Σ_rows dy
 *
 * The weight gradients are summed over the rows in fp32 and added once to the existing ones. */
#include "cpu_math.h"
#include "cpu_number.h"

#include <math.h>

static float sum_of(const float *x, gint64 n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (gint64 j = 0; j < n; j++)
    sum += x[j];
  return sum;
}

static float squares_about(const float *x, float mean, gint64 n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (gint64 j = 0; j < n; j++)
    sum += (x[j] - mean) * (x[j] - mean);
  return sum;
}

CPU_KERNEL(norm_sums) {
  const NormKernel *norm = &kernel->norm;
  float *buffer = cpu_scratch_floats(scratch, norm->width);
  for (gint64 row = 0; row < norm->rows; row++) {
    const float *x = row_in(norm->x, (Number)norm->number, norm_row_at(norm, row), norm->width, buffer);
    norm->sums[0][row] = squares_about(x, 0, norm->width);
    if (!norm->is_rms)
      norm->sums[1][row] = sum_of(x, norm->width);
  }
}

/* Of a whole row; x holds all of it or a part. */
typedef struct {
  float mean, rstd;
} RowMoments;

static RowMoments row_moments(const NormKernel *norm, gint64 row, const float *x) {
  if (norm->whole_width > 0) {
    const float n = (float)norm->whole_width, mean = norm->is_rms ? 0 : norm->sums[1][row] / n;
    return (RowMoments){mean, 1.0f / sqrtf(fmaxf(norm->sums[0][row] / n - mean * mean, 0) + norm->epsilon)};
  }
  const float n = (float)norm->width, mean = norm->is_rms ? 0 : sum_of(x, norm->width) / n;
  return (RowMoments){mean, 1.0f / sqrtf(squares_about(x, mean, norm->width) / n + norm->epsilon)};
}

/* The norm's weight; ones if it has none. `buffer`: [width] */
static const float *norm_weight(const NormKernel *norm, float *buffer) {
  if (norm->weight != NULL)
    return row_in(norm->weight, (Number)norm->number, 0, norm->width, buffer);
  for (gint64 j = 0; j < norm->width; j++)
    buffer[j] = 1;
  return buffer;
}

CPU_KERNEL(norm_forward) {
  const NormKernel *norm = &kernel->norm;
  Number number = (Number)norm->number;
  gint64 width = norm->width;
  float *buffer = cpu_scratch_floats(scratch, 4 * width);
  const float *weight = norm_weight(norm, buffer);
  const float *shift = NULL;
  if (norm->shift != NULL)
    shift = row_in(norm->shift, number, 0, width, buffer + width);
  for (gint64 row = 0; row < norm->rows; row++) {
    const gint64 at = norm_row_at(norm, row);
    if (norm->kept != NULL)
      memcpy(element_of(norm->kept, number, row * width), const_element_of(norm->x, number, at),
             (gsize)(width * kernel_element_bytes(number)));
    const float *x = row_in(norm->x, number, at, width, buffer + 2 * width);
    float *y = row_out(norm->y, number, at, buffer + 3 * width);
    const RowMoments moments = row_moments(norm, row, x);
    const float mean = moments.mean, rstd = moments.rstd;
    if (shift == NULL) {
#pragma omp simd
      for (gint64 j = 0; j < width; j++)
        y[j] = (x[j] - mean) * rstd * weight[j];
    } else {
#pragma omp simd
      for (gint64 j = 0; j < width; j++)
        y[j] = (x[j] - mean) * rstd * weight[j] + shift[j];
    }
    row_close(norm->y, number, at, width, y);
    if (!norm->is_rms)
      norm->mean[row] = mean;
    norm->rstd[row] = rstd;
  }
}

typedef struct {
  float g, gx; /* Σ g, Σ g·x̂ */
} NormSums;

static NormSums norm_sums(const float *dy, const float *weight, const float *x, float mean, float rstd, gint64 width) {
  float g = 0, gx = 0;
#pragma omp simd reduction(+ : g, gx)
  for (gint64 j = 0; j < width; j++) {
    float scaled = dy[j] * weight[j];
    g += scaled;
    gx += scaled * (x[j] - mean);
  }
  return (NormSums){g, gx * rstd};
}

/* The input that forward read. */
static const float *norm_input(const NormKernel *norm, gint64 row, float *buffer) {
  const Number number = (Number)norm->number;
  return norm->kept != NULL ? row_in(norm->kept, number, row * norm->width, norm->width, buffer)
                            : row_in(norm->x, number, norm_row_at(norm, row), norm->width, buffer);
}

CPU_KERNEL(norm_sums_backward) {
  const NormKernel *norm = &kernel->norm;
  const Number number = (Number)norm->number;
  const gint64 width = norm->width;
  float *buffer = cpu_scratch_floats(scratch, 3 * width);
  const float *weight = row_in(norm->weight, number, 0, width, buffer);
  for (gint64 row = 0; row < norm->rows; row++) {
    const float *x = norm_input(norm, row, buffer + width);
    const float *dy = row_in(norm->dy, number, norm_row_at(norm, row), width, buffer + 2 * width);
    const NormSums sums = norm_sums(dy, weight, x, norm->is_rms ? 0 : norm->mean[row], norm->rstd[row], width);
    norm->sums[0][row] = sums.gx;
    if (!norm->is_rms)
      norm->sums[1][row] = sums.g;
  }
}

CPU_KERNEL(norm_backward) {
  const NormKernel *norm = &kernel->norm;
  Number number = (Number)norm->number, gradient = (Number)norm->gradient;
  gint64 width = norm->width;
  float *buffer = cpu_scratch_floats(scratch, 6 * width);
  float *dweight = buffer, *dshift = buffer + width;
  memset(buffer, 0, (gsize)width * 2 * sizeof(float));
  const float *weight = norm_weight(norm, buffer + 2 * width);
  for (gint64 row = 0; row < norm->rows; row++) {
    const gint64 at = norm_row_at(norm, row);
    const float *x = norm_input(norm, row, buffer + 3 * width);
    const float *dy = row_in(norm->dy, number, at, width, buffer + 4 * width);
    float *dx = row_out(norm->dx, number, at, buffer + 5 * width);
    float mean = norm->is_rms ? 0 : norm->mean[row], rstd = norm->rstd[row];
    const gboolean is_part = norm->whole_width > 0;
    const float n = (float)(is_part ? norm->whole_width : width);
    NormSums sums = is_part ? (NormSums){norm->is_rms ? 0 : norm->sums[1][row], norm->sums[0][row]}
                            : norm_sums(dy, weight, x, mean, rstd, width);
    const float less = norm->is_rms ? 0 : sums.g / n, along = sums.gx / n;
#pragma omp simd
    for (gint64 j = 0; j < width; j++) {
      float normed = (x[j] - mean) * rstd, slope = dy[j];
      dweight[j] += slope * normed;
      dshift[j] += slope;
      dx[j] = rstd * (slope * weight[j] - less - normed * along);
    }
    row_close(norm->dx, number, at, width, dx);
  }
  if (norm->dweight != NULL)
    row_add(norm->dweight, gradient, 0, width, dweight, buffer + 3 * width);
  if (norm->dshift != NULL)
    row_add(norm->dshift, gradient, 0, width, dshift, buffer + 3 * width);
}

/* p[0 … n) = softmax(scale·s[0 … n)), less `slope` per position before the last; p may be s. The maximum ignores NaN,
 * which comes back with the exponentials. */
static void softmax(const float *s, float scale, float slope, gint64 n, float *p) {
  if (slope != 0) {
#pragma omp simd
    for (gint64 j = 0; j < n; j++)
      p[j] = scale * s[j] - slope * (float)(n - 1 - j);
    s = p;
    scale = 1;
  }
  float most = row_max(s, scale, n), sum = 0;
#pragma omp simd reduction(+ : sum)
  for (gint64 j = 0; j < n; j++) {
    float e = fast_exp(scale * s[j] - most);
    p[j] = e;
    sum += e;
  }
  float share = 1.0f / sum;
#pragma omp simd
  for (gint64 j = 0; j < n; j++)
    p[j] *= share;
}

CPU_KERNEL(softmax_forward) {
  const SoftmaxKernel *task = &kernel->softmax;
  Number number = (Number)task->number;
  gint64 n = task->seq_len;
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 row = 0; row < task->matrices * n; row++) {
    const gint64 end = row % n + 1, first = first_seen(&task->rule, row % n); /* keys up to the query's own */
    const float slope = task->rule.alibi_heads > 0 ? alibi_slope(&task->rule, row / n % task->n_heads) : 0;
    const float *s = row_in(task->scores, number, row * n, end, buffer);
    float *p = row_out(task->scores, number, row * n, buffer);
    softmax(s + first, task->scale, slope, end - first, p + first);
    memset(p, 0, (gsize)first * sizeof(float));
    memset(p + end, 0, (gsize)(n - end) * sizeof(float));
    row_close(task->scores, number, row * n, n, p);
  }
}

CPU_KERNEL(softmax_backward) {
  const SoftmaxKernel *task = &kernel->softmax;
  Number number = (Number)task->number;
  gint64 n = task->seq_len;
  float *buffer = cpu_scratch_floats(scratch, 2 * n);
  for (gint64 row = 0; row < task->matrices * n; row++) {
    const gint64 end = row % n + 1, first = first_seen(&task->rule, row % n);
    const float *p = row_in(task->scores, number, row * n, end, buffer);
    const float *dp = row_in(task->dscores, number, row * n, end, buffer + n);
    float *ds = row_out(task->dscores, number, row * n, buffer + n);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (gint64 j = first; j < end; j++)
      sum += p[j] * dp[j];
#pragma omp simd
    for (gint64 j = first; j < end; j++)
      ds[j] = task->scale * p[j] * (dp[j] - sum);
    memset(ds, 0, (gsize)first * sizeof(float));
    memset(ds + end, 0, (gsize)(n - end) * sizeof(float));
    row_close(task->dscores, number, row * n, n, ds);
  }
}
