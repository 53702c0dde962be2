/* Activations, residual additions and bias gradients: elementwise, or a sum down the columns. Memory-bound, except
 * for the exponentials of the activations.
 *
 * gelu's tanh form is a sigmoid, ½(1 + tanh u) = σ(2u), so both activations are x·σ(something):
 *
 *      gelu(x) = x·σ(2u),  2u = √(8/π)·(x + 0.044715·x³)         (arXiv 1606.08415)
 *      gated:  [g | u] → silu(g)·u,  silu(g) = g·σ(g)            (arXiv 2002.05202) */
#include "cpu_math.h"
#include "cpu_number.h"

#include <math.h>

#define GELU_SCALE 1.5957691216057308f /* √(8/π) */
#define GELU_CUBE 0.044715f

static void gelu(const float *x, float *y, gint64 n) {
#pragma omp simd
  for (gint64 j = 0; j < n; j++)
    y[j] = x[j] * fast_sigmoid(GELU_SCALE * (x[j] + GELU_CUBE * x[j] * x[j] * x[j]));
}

static void gelu_backward(const float *x, const float *dy, float *dx, gint64 n) {
#pragma omp simd
  for (gint64 j = 0; j < n; j++) {
    float value = x[j], square = value * value;
    float share = fast_sigmoid(GELU_SCALE * (value + GELU_CUBE * value * square));
    float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * square);
    dx[j] = dy[j] * (share + value * share * (1.0f - share) * slope);
  }
}

static void swiglu(const float *gate, const float *up, float *y, gint64 n) {
#pragma omp simd
  for (gint64 j = 0; j < n; j++)
    y[j] = gate[j] * fast_sigmoid(gate[j]) * up[j];
}

/* dx [2n]: the gate's gradient, then up's; may alias gate and up. */
static void swiglu_backward(const float *gate, const float *up, const float *dy, float *dx, gint64 n) {
#pragma omp simd
  for (gint64 j = 0; j < n; j++) {
    float g = gate[j], u = up[j], share = fast_sigmoid(g);
    dx[j] = dy[j] * u * share * (1.0f + g * (1.0f - share));
    dx[n + j] = dy[j] * g * share;
  }
}

/* Multiplies by the row's factor, if rows have one. */
static void scale_row(const float *scale, gint64 row, float *x, gint64 n) {
  if (scale == NULL)
    return;
#pragma omp simd
  for (gint64 j = 0; j < n; j++)
    x[j] *= scale[row];
}

static float dot(const float *a, const float *b, gint64 n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (gint64 j = 0; j < n; j++)
    sum += a[j] * b[j];
  return sum;
}

static void activate(const ActivationKernel *task, const float *x, float *y) {
  if (task->gated)
    swiglu(x, x + task->width, y, task->width);
  else
    gelu(x, y, task->width);
}

CPU_KERNEL(activation_forward) {
  const ActivationKernel *task = &kernel->activation;
  Number number = (Number)task->number;
  gint64 width = task->width, in_width = task->gated ? 2 * width : width;
  float *buffer = cpu_scratch_floats(scratch, in_width + width);
  for (gint64 row = 0; row < task->rows; row++) {
    const float *x = row_in(task->x, number, row * in_width, in_width, buffer);
    float *y = row_out(task->y, number, row * width, buffer + in_width);
    activate(task, x, y);
    scale_row(task->scale, row, y, width);
    row_close(task->y, number, row * width, width, y);
  }
}

CPU_KERNEL(activation_backward) {
  const ActivationKernel *task = &kernel->activation;
  Number number = (Number)task->number;
  gint64 width = task->width, in_width = task->gated ? 2 * width : width;
  float *buffer = cpu_scratch_floats(scratch, 2 * in_width + 2 * width), *y = buffer + 2 * in_width + width;
  for (gint64 row = 0; row < task->rows; row++) {
    const float *x = row_in(task->x, number, row * in_width, in_width, buffer);
    const float *dy = row_in(task->dy, number, row * width, width, buffer + in_width);
    float *dx = row_out(task->dx, number, row * in_width, buffer + in_width + width);
    if (task->scale != NULL) {
      activate(task, x, y);
      task->dscale[row] = dot(dy, y, width);
    }
    if (task->gated)
      swiglu_backward(x, x + width, dy, dx, width);
    else
      gelu_backward(x, dy, dx, width);
    scale_row(task->scale, row, dx, in_width);
    row_close(task->dx, number, row * in_width, in_width, dx);
  }
}

CPU_KERNEL(cap_forward) {
  const CapKernel *task = &kernel->cap;
  Number number = (Number)task->number;
  gint64 width = task->width;
  float *buffer = cpu_scratch_floats(scratch, 2 * width);
  for (gint64 row = 0; row < task->rows; row++) {
    const float *x = row_in(task->x, number, row * width, width, buffer);
    float *y = row_out(task->y, number, row * width, buffer + width);
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      y[j] = task->cap * fast_tanh(x[j] / task->cap);
    row_close(task->y, number, row * width, width, y);
  }
}

CPU_KERNEL(cap_backward) {
  const CapKernel *task = &kernel->cap;
  Number number = (Number)task->number;
  gint64 width = task->width;
  float *buffer = cpu_scratch_floats(scratch, 3 * width);
  for (gint64 row = 0; row < task->rows; row++) {
    const float *y = row_in(task->y, number, row * width, width, buffer);
    const float *dy = row_in(task->dy, number, row * width, width, buffer + width);
    float *dx = row_out(task->dx, number, row * width, buffer + 2 * width);
#pragma omp simd
    for (gint64 j = 0; j < width; j++) {
      const float share = y[j] / task->cap;
      dx[j] = dy[j] * (1.0f - share * share);
    }
    row_close(task->dx, number, row * width, width, dx);
  }
}

CPU_KERNEL(add) {
  const AddKernel *add = &kernel->add;
  Number number = (Number)add->number;
  gint64 width = add->width;
  float *buffer = cpu_scratch_floats(scratch, 3 * width);
  const float *bias = add->bias == NULL ? NULL : row_in(add->bias, number, 0, width, buffer);
  for (gint64 row = 0; row < add->rows; row++) {
    const float *a = row_in(add->a, number, row * width, width, buffer + width);
    const float *b = row_in(add->b, number, row * width, width, buffer + 2 * width);
    float *out = row_out(add->out, number, row * width, buffer + width);
    if (bias == NULL) {
#pragma omp simd
      for (gint64 j = 0; j < width; j++)
        out[j] = a[j] + b[j];
    } else {
#pragma omp simd
      for (gint64 j = 0; j < width; j++)
        out[j] = a[j] + b[j] + bias[j];
    }
    row_close(add->out, number, row * width, width, out);
  }
}

static void move_row(const MoveKernel *move, gint64 a_at, gint64 b_at, gint64 out_at, float *buffer) {
  Number number = (Number)move->number;
  gint64 width = move->width;
  const gsize bytes = (gsize)(width * kernel_element_bytes(number));
  void *to = element_of(move->out, number, out_at);
  if (move->a == NULL) {
    memset(to, 0, bytes);
  } else if (move->b == NULL) {
    memmove(to, const_element_of(move->a, number, a_at), bytes);
  } else {
    const float *a = row_in(move->a, number, a_at, width, buffer);
    const float *b = row_in(move->b, number, b_at, width, buffer + width);
    float *out = row_out(move->out, number, out_at, buffer + 2 * width);
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      out[j] = a[j] + b[j];
    row_close(move->out, number, out_at, width, out);
  }
}

CPU_KERNEL(move) {
  const MoveKernel *move = &kernel->move;
  float *buffer = cpu_scratch_floats(scratch, 3 * move->width);
  for (gint64 block = 0; block < move->batch; block++)
    for (gint64 row = 0; row < move->rows; row++)
      move_row(move, block * move->stride_a + row * move->ld_a, block * move->stride_b + row * move->ld_b,
               block * move->stride_out + row * move->ld_out, buffer);
}

/* Four rows at a time: a quarter of the memory traffic to the sums, and a shorter chain of roundings. */
CPU_KERNEL(bias_gradient) {
  const BiasGradientKernel *task = &kernel->bias_gradient;
  Number number = (Number)task->number;
  gint64 width = task->width, row = 0;
  float *sum = cpu_scratch_floats(scratch, 5 * width), *buffer = sum + width;
  memset(sum, 0, (gsize)width * sizeof(float));
  for (; row + 4 <= task->rows; row += 4) {
    const float *dy[4];
    for (int i = 0; i < 4; i++)
      dy[i] = row_in(task->dy, number, (row + i) * width, width, buffer + i * width);
    const float *a = dy[0], *b = dy[1], *c = dy[2], *d = dy[3];
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      sum[j] += (a[j] + b[j]) + (c[j] + d[j]);
  }
  for (; row < task->rows; row++) {
    const float *dy = row_in(task->dy, number, row * width, width, buffer);
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      sum[j] += dy[j];
  }
  row_add(task->out, (Number)task->gradient, 0, width, sum, buffer);
}
