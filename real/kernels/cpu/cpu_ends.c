/* The two ends of the model: word and position tables, and the loss.
 *
 * Backward of a table adds many rows to few. Tokens are first sorted by word, so that the rows of one word are summed
 * in fp32 and added to the table once, whatever the table's number format, and always in token order:
 *
 *      token   7 2 7 7 2           (2: rows 1, 4)   dtable[2] += dout[1] + dout[4]
 *      sorted  2 2 7 7 7           (7: rows 0,2,3)  dtable[7] += dout[0] + dout[2] + dout[3]
 *
 * The loss is split into four kernels so that tensor-parallel ranks can exchange maxima and sums between them (M.
 * Shoeybi et al., arXiv 1909.08053 §3). */
#include "cpu_math.h"
#include "cpu_number.h"

#include <math.h>
#include <stdlib.h>

static void multiply_row(const float *row, float factor, gint64 width, float *to) {
#pragma omp simd
  for (gint64 j = 0; j < width; j++)
    to[j] = factor * row[j];
}

/* `buffer`: two rows. */
static void embed_multiplied(const EmbeddingKernel *task, gint64 word, gint64 t, float *buffer) {
  const Number number = (Number)task->number;
  const gint64 width = task->width;
  float *out = row_out(task->out, number, t * width, buffer + width);
  multiply_row(row_in(task->table, number, word * width, width, buffer), task->factor, width, out);
  row_close(task->out, number, t * width, width, out);
}

CPU_KERNEL(embedding_forward) {
  const EmbeddingKernel *task = &kernel->embedding;
  Number number = (Number)task->number;
  gint64 width = task->width;
  gsize row_bytes = (gsize)(width * kernel_element_bytes(number));
  float *buffer = cpu_scratch_floats(scratch, 2 * width);
  for (gint64 t = 0; t < task->tokens; t++) {
    gint64 word = task->token[t] - task->first_word;
    void *out = element_of(task->out, number, t * width);
    if (word < 0 || word >= task->n_words)
      memset(out, 0, row_bytes);
    else if (task->factor == 1)
      memcpy(out, const_element_of(task->table, number, word * width), row_bytes);
    else
      embed_multiplied(task, word, t, buffer);
  }
}

static int compare_places(const void *a, const void *b) {
  guint64 left = *(const guint64 *)a, right = *(const guint64 *)b;
  return (left > right) - (left < right);
}

/* Pairs (word, token index) of the tokens whose words are here, ascending; returns how many. */
static gint64 sort_tokens(const EmbeddingKernel *task, guint64 *places) {
  gint64 n = 0;
  for (gint64 t = 0; t < task->tokens; t++) {
    gint64 word = task->token[t] - task->first_word;
    if (word >= 0 && word < task->n_words)
      places[n++] = (guint64)word << 32 | (guint64)t;
  }
  qsort(places, (gsize)n, sizeof *places, compare_places);
  return n;
}

static void add_row(float *sum, const float *row, gint64 width) {
#pragma omp simd
  for (gint64 j = 0; j < width; j++)
    sum[j] += row[j];
}

CPU_KERNEL(embedding_backward) {
  const EmbeddingKernel *task = &kernel->embedding;
  gint64 width = task->width;
  g_assert(task->tokens <= G_MAXUINT32);
  float *sum = cpu_scratch_floats(scratch, 2 * width + 2 * task->tokens), *buffer = sum + width;
  guint64 *places = (guint64 *)(void *)(sum + 2 * width); /* an even count of floats: aligned */
  gint64 n = sort_tokens(task, places);
  for (gint64 i = 0; i < n;) {
    guint64 word = places[i] >> 32;
    memset(sum, 0, (gsize)width * sizeof(float));
    for (; i < n && places[i] >> 32 == word; i++)
      add_row(sum, row_in(task->dout, (Number)task->number, (gint64)(guint32)places[i] * width, width, buffer), width);
    if (task->factor != 1)
      multiply_row(sum, task->factor, width, sum);
    row_add(task->dtable, (Number)task->gradient, (gint64)word * width, width, sum, buffer);
  }
}

CPU_KERNEL(positions_forward) {
  const PositionsKernel *task = &kernel->positions;
  Number number = (Number)task->number;
  gint64 width = task->width;
  float *buffer = cpu_scratch_floats(scratch, 2 * width);
  for (gint64 row = 0; row < task->rows; row++) {
    gint64 position = sequence_position(task->pieces, (task->first_row + row) % task->seq_len, task->seq_len);
    const float *shift = row_in(task->table, number, position * width, width, buffer);
    row_add(task->x, number, row * width, width, shift, buffer + width);
  }
}

CPU_KERNEL(positions_backward) {
  const PositionsKernel *task = &kernel->positions;
  gint64 width = task->width;
  float *sum = cpu_scratch_floats(scratch, 2 * width), *buffer = sum + width;
  for (gint64 first = 0; first < MIN(task->rows, task->seq_len); first++) {
    memset(sum, 0, (gsize)width * sizeof(float));
    for (gint64 row = first; row < task->rows; row += task->seq_len) /* all rows of one position */
      add_row(sum, row_in(task->dx, (Number)task->number, row * width, width, buffer), width);
    gint64 position = sequence_position(task->pieces, (task->first_row + first) % task->seq_len, task->seq_len);
    row_add(task->dtable, (Number)task->gradient, position * width, width, sum, buffer);
  }
}

CPU_KERNEL(loss_max) {
  const LossKernel *loss = &kernel->loss;
  gint64 n = loss_words(loss);
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < loss->tokens; t++) {
    const float *logits = row_in(loss->logits, (Number)loss->number, t * loss->width, n, buffer);
    loss->row_max[t] = row_max(logits, 1, n); /* ignores NaN, which comes back with the exponentials */
  }
}

CPU_KERNEL(loss_exp) {
  const LossKernel *loss = &kernel->loss;
  gint64 n = loss_words(loss);
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < loss->tokens; t++) {
    const float *logits = row_in(loss->logits, (Number)loss->number, t * loss->width, n, buffer);
    float *p = loss->probabilities + t * loss->width, most = loss->row_max[t], sum = 0;
    gint64 target = loss->target[t] - loss->first_word;
    loss->row_target[t] = target >= 0 && target < n ? logits[target] - most : 0;
#pragma omp simd reduction(+ : sum)
    for (gint64 j = 0; j < n; j++) {
      float e = fast_exp(logits[j] - most);
      p[j] = e;
      sum += e;
    }
    memset(p + n, 0, (gsize)(loss->width - n) * sizeof(float));
    loss->row_sum[t] = sum;
  }
}

CPU_KERNEL(loss_softmax) {
  const LossKernel *loss = &kernel->loss;
  double sum = 0;
  for (gint64 t = 0; t < loss->tokens; t++) {
    float *p = loss->probabilities + t * loss->width, share = 1.0f / loss->row_sum[t];
#pragma omp simd
    for (gint64 j = 0; j < loss->width; j++)
      p[j] *= share;
    if (loss->target[t] >= 0)
      sum += log((double)loss->row_sum[t]) - (double)loss->row_target[t];
  }
  *loss->loss += loss->loss_scale * sum;
}

CPU_KERNEL(loss_backward) {
  const LossKernel *loss = &kernel->loss;
  Number number = (Number)loss->number;
  gint64 width = loss->width;
  float *buffer = cpu_scratch_floats(scratch, width);
  const float counted = loss->gradient_scale * (loss->scale != NULL ? (float)loss->scale->scale : 1);
  for (gint64 t = 0; t < loss->tokens; t++) {
    const float scale = loss->target[t] >= 0 ? counted : 0;
    const float *p = loss->probabilities + t * width;
    float *dlogits = row_out(loss->dlogits, number, t * width, buffer);
    gint64 target = loss->target[t] - loss->first_word;
    gboolean is_here = target >= 0 && target < loss_words(loss);
    float at_target = is_here ? scale * (p[target] - 1.0f) : 0; /* read first: dlogits may alias p */
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      dlogits[j] = scale * p[j];
    if (is_here)
      dlogits[target] = at_target;
    row_close(loss->dlogits, number, t * width, width, dlogits);
  }
}
