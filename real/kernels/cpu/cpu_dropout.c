/* Dropout of rows and of attention probabilities. No masks are stored: what is dropped follows from the positions. */
#include "cpu_number.h"

CPU_KERNEL(drop_add) {
  const DropAddKernel *task = &kernel->drop_add;
  const Number number = (Number)task->number;
  const gint64 width = task->width;
  float *buffer = cpu_scratch_floats(scratch, 4 * width);
  const float *bias = task->bias != NULL ? row_in(task->bias, number, 0, width, buffer) : NULL;
  for (gint64 row = 0; row < task->rows; row++) {
    const guint64 place = token_place(&task->places, row) * (guint64)width;
    const float *a = task->a != NULL ? row_in(task->a, number, row * width, width, buffer + width) : NULL;
    const float *b = row_in(task->b, number, row * width, width, buffer + 2 * width);
    float *out = row_out(task->out, number, row * width, buffer + 3 * width);
    for (gint64 j = 0; j < width; j++) {
      const float branch = bias != NULL ? b[j] + bias[j] : b[j];
      const float kept = dropout_factor(&task->dropout, place + (guint64)j) * branch;
      out[j] = a != NULL ? a[j] + kept : kept;
    }
    row_close(task->out, number, row * width, width, out);
  }
}

CPU_KERNEL(drop_scores) {
  const DropScoresKernel *task = &kernel->drop_scores;
  const Number number = (Number)task->number;
  const gint64 n = task->seq_len;
  float *buffer = cpu_scratch_floats(scratch, 2 * n);
  for (gint64 row = 0; row < task->matrices * n; row++) {
    const gint64 matrix = row / n;
    const guint64 place = score_row_place(&task->drop, matrix / task->n_heads, matrix % task->n_heads, row % n);
    const float *from = row_in(task->from, number, row * n, n, buffer);
    float *to = row_out(task->to, number, row * n, buffer + n);
    for (gint64 j = 0; j < n; j++)
      to[j] = dropout_factor(&task->drop.dropout, place + (guint64)j) * from[j];
    row_close(task->to, number, row * n, n, to);
  }
}
