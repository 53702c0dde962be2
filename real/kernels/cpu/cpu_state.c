/* Weights, gradients and optimizer state: one pass over flat memory, in chunks that stay in L1 while they are
 * widened, updated and rounded:
 *
 *      weight, gradient  ──widen──▶ [CHUNK] fp32 ──▶ Adam ──round──▶ weight, gradient
 *      master, m, v      ─────────── in place ───────────▶ */
#include "cpu_number.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 2048 }; /* elements: 8 KiB of fp32, so four chunks fit in 48 KiB */

CPU_KERNEL(sum_squares) {
  const SumSquaresKernel *task = &kernel->sum_squares;
  float *buffer = cpu_scratch_floats(scratch, CHUNK);
  double sum = 0;
  for (gint64 first = 0; first < task->n; first += CHUNK) {
    gint64 n = MIN(CHUNK, task->n - first);
    const float *x = row_in(task->x, (Number)task->gradient, first, n, buffer);
    double part = 0;
#pragma omp simd reduction(+ : part)
    for (gint64 i = 0; i < n; i++)
      part += (double)x[i] * (double)x[i];
    sum += part;
  }
  *task->sum += sum;
}

/* One chunk in fp32: p is the master, or the weight itself. */
static void adam_chunk(const AdamKernel *adam, float scale, gint64 n, float *p, const float *gradient, float *m,
                       float *v) {
  const LossScale *step = adam->scale;
  float beta1 = adam->beta1, beta2 = adam->beta2, lr = adam->lr, epsilon = adam->epsilon, decay = adam->decay;
  float per_c1 = 1.0f / (step != NULL ? (float)(1 - step->power1) : adam->correction1);
  float per_c2 = 1.0f / (step != NULL ? (float)(1 - step->power2) : adam->correction2);
#pragma omp simd
  for (gint64 i = 0; i < n; i++) {
    float g = gradient[i] * scale;
    float mean = beta1 * m[i] + (1.0f - beta1) * g;
    float square = beta2 * v[i] + (1.0f - beta2) * g * g;
    m[i] = mean;
    v[i] = square;
    p[i] -= lr * (mean * per_c1 / (sqrtf(square * per_c2) + epsilon) + decay * p[i]);
  }
}

CPU_KERNEL(adam) {
  const AdamKernel *adam = &kernel->adam;
  Number number = (Number)adam->number, gradient = (Number)adam->gradient;
  if (adam->norm_squared != NULL && !isfinite(*adam->norm_squared)) {
    /* the step is skipped, or the reader of the norm ends the run; the weights do not change */
    if (adam->scale != NULL && loss_scale_skips(adam->scale, *adam->norm_squared))
      memset(adam->gradients, 0, (gsize)(adam->n * kernel_element_bytes(gradient)));
    return;
  }
  float scale = adam_gradient_factor(adam);
  float *buffer = cpu_scratch_floats(scratch, 2 * CHUNK);
  for (gint64 first = 0; first < adam->n; first += CHUNK) {
    gint64 n = MIN(CHUNK, adam->n - first);
    const float *g = row_in(adam->gradients, gradient, first, n, buffer);
    if (adam->master != NULL) {
      adam_chunk(adam, scale, n, adam->master + first, g, adam->m + first, adam->v + first);
      numbers_round(adam->master + first, n, number, element_of(adam->weight, number, first));
    } else {
      float *p = row_open(adam->weight, number, first, n, buffer + CHUNK);
      adam_chunk(adam, scale, n, p, g, adam->m + first, adam->v + first);
      row_close(adam->weight, number, first, n, p);
    }
    memset(element_of(adam->gradients, gradient, first), 0, (gsize)(n * kernel_element_bytes(gradient)));
  }
}

/* One chunk, p in fp32. */
static void outer_chunk(const OuterKernel *outer, gint64 first, gint64 n, float *p) {
  float *anchor = outer->anchor + first, *m = outer->m + first, *sum = outer->sum + first;
  const float share = outer->share, lr = outer->lr, factor = outer->factor;
#pragma omp simd
  for (gint64 i = 0; i < n; i++) {
    if (outer->is_before) {
      sum[i] = anchor[i] - p[i];
      continue;
    }
    const float d = share * sum[i], mean = factor * m[i] + d;
    m[i] = mean;
    anchor[i] -= lr * (d + factor * mean);
    p[i] = anchor[i];
  }
}

CPU_KERNEL(outer) {
  const OuterKernel *outer = &kernel->outer;
  const Number number = (Number)outer->number;
  float *buffer = cpu_scratch_floats(scratch, CHUNK);
  for (gint64 first = 0; first < outer->n; first += CHUNK) {
    const gint64 n = MIN(CHUNK, outer->n - first);
    if (outer->master != NULL) {
      outer_chunk(outer, first, n, outer->master + first);
      if (!outer->is_before)
        numbers_round(outer->master + first, n, number, element_of(outer->weight, number, first));
      continue;
    }
    float *p = row_open(outer->weight, number, first, n, buffer);
    outer_chunk(outer, first, n, p);
    if (!outer->is_before)
      row_close(outer->weight, number, first, n, p);
  }
}

CPU_KERNEL(loss_scale) {
  const LossScaleKernel *task = &kernel->loss_scale;
  *task->to = loss_scale_next(task->from, *task->norm_squared, task->beta1, task->beta2);
}

CPU_KERNEL(convert) {
  const ConvertKernel *task = &kernel->convert;
  Number from = (Number)task->from_number, to = (Number)task->to_number;
  float *buffer = cpu_scratch_floats(scratch, 2 * CHUNK);
  if (from == to && !task->accumulate) {
    memmove(task->to, task->from, (gsize)(task->n * kernel_element_bytes(to)));
    return;
  }
  for (gint64 first = 0; first < task->n; first += CHUNK) {
    gint64 n = MIN(CHUNK, task->n - first);
    const float *values = row_in(task->from, from, first, n, buffer);
    if (task->accumulate)
      row_add(task->to, to, first, n, values, buffer + CHUNK);
    else
      numbers_round(values, n, to, element_of(task->to, to, first));
  }
}

CPU_KERNEL(fill) {
  memset(kernel->fill.to, 0, (gsize)kernel->fill.bytes);
}

/* u − ½ = (r − 2^31) / 2^32 exactly; the rest in double, so that the fp32 result is the same with and without FMA. */
static void random_row(const InitKernel *init, guint64 first_index, float *row) {
  double mean = (double)init->mean, scale = (double)init->deviation * 3.4641016151377544 * 0x1p-32; /* √12 */
  guint64 seed = init->seed;
#pragma omp simd
  for (gint64 j = 0; j < init->columns; j++) {
    gint32 centred = (gint32)(kernel_random(seed, first_index + (guint64)j) ^ 0x80000000u);
    row[j] = (float)(mean + scale * (double)centred);
  }
}

CPU_KERNEL(init) {
  const InitKernel *init = &kernel->init;
  Number number = (Number)init->number;
  float *buffer = cpu_scratch_floats(scratch, init->columns);
  for (gint64 i = 0; i < init->rows; i++) {
    gint64 row = init->first_row + i;
    float *out = row_out(init->to, number, i * init->ld, buffer);
    if (row < init->whole_rows)
      random_row(init, (guint64)(row * init->whole_width + init->first_column), out);
    else
      memset(out, 0, (gsize)init->columns * sizeof(float));
    row_close(init->to, number, i * init->ld, init->columns, out);
  }
}
