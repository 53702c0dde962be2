/* Tokens of all ranks, on a rank that has some of the experts (expert_kernels.h). Choice c = t·k + i of a rank's
 * tokens is expert (c + shift) mod E and that expert's row c/E, so the row determines the token. Two ranks with two
 * tokens each, one of two experts per token, on the rank with expert 1:
 *
 *      rank, token    0 0   0 1   1 0   1 1
 *      choice           0     1     0     1
 *      row of 1               0           1        rows [rank][T·k/E] of each own expert */
#include "cpu_math.h"
#include "cpu_number.h"

CPU_KERNEL(spread) {
  const GatheredKernel *task = &kernel->gathered;
  const gint64 n = task->n_experts;
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < task->tokens; t++) {
    float *dense = row_out(task->dense, (Number)task->number, t * n, buffer);
    for (gint64 e = 0; e < n; e++) {
      const gint64 i = gathered_nth_choice(task, t, e), choice = t * task->per_token + i;
      task->chosen[t * n + e] = i < task->per_token;
      dense[e] = i < task->per_token ? task->weights[e * gathered_rows_each(task) + choice / n] : 0;
    }
    row_close(task->dense, (Number)task->number, t * n, n, dense);
  }
}

CPU_KERNEL(collect) {
  const GatheredKernel *task = &kernel->gathered;
  const gint64 n = task->n_experts;
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < task->tokens; t++) {
    const float *dense = row_in(task->dense, (Number)task->number, t * n, n, buffer);
    for (gint64 i = 0; i < task->per_token; i++) {
      const gint64 choice = t * task->per_token + i, expert = gathered_expert(task, choice);
      task->weights[expert * gathered_rows_each(task) + choice / n] = dense[expert];
    }
  }
}

static void pick_row(const GatheredKernel *task, gint64 own, gint64 source, gint64 nth) {
  const Number number = (Number)task->number;
  const gint64 n = task->n_experts, expert = task->first + own;
  const gint64 token = gathered_choice(task, expert, nth) / task->per_token, from = source * task->tokens + token;
  const gint64 row = (own * task->sources + source) * gathered_rows_each(task) + nth;
  const gsize bytes = (gsize)(task->width * kernel_element_bytes(number));
  const gboolean is_chosen =
      task->chosen == NULL || task->chosen[source * task->chosen_bytes + token * n + expert] != 0;
  void *to = element_of(task->rows, number, row * task->width);
  if (is_chosen)
    memcpy(to, const_element_of(task->all_tokens, number, from * task->width), bytes);
  else
    memset(to, 0, bytes);
  if (task->chosen != NULL) {
    float buffer;
    const float *weight = row_in(task->dense, number, from * n + expert, 1, &buffer);
    task->row_weights[row] = is_chosen ? *weight : 0;
  }
}

CPU_KERNEL(pick) {
  const GatheredKernel *task = &kernel->gathered;
  (void)scratch;
  for (gint64 own = 0; own < task->n_own; own++)
    for (gint64 source = 0; source < task->sources; source++)
      for (gint64 nth = 0; nth < gathered_rows_each(task); nth++)
        pick_row(task, own, source, nth);
}

static void put_token(const GatheredKernel *task, gint64 source, gint64 token, float *sum) {
  const Number number = (Number)task->number;
  const gint64 width = task->width, to = source * task->tokens + token;
  float *buffer = sum + width;
  memset(sum, 0, (gsize)width * sizeof *sum);
  for (gint64 i = 0; i < task->per_token; i++) {
    const gint64 at = gathered_own_row(task, source, token, i);
    if (at < 0)
      continue;
    const float *row = row_in(task->rows, number, at * width, width, buffer);
#pragma omp simd
    for (gint64 j = 0; j < width; j++)
      sum[j] += row[j];
  }
  numbers_round(sum, width, number, element_of(task->all_tokens, number, to * width));
}

static void put_weights(const GatheredKernel *task, gint64 source, gint64 token, float *buffer) {
  const gint64 n = task->n_experts, first = (source * task->tokens + token) * n;
  float *dense = row_out(task->dense, (Number)task->number, first, buffer);
  memset(dense, 0, (gsize)n * sizeof *dense);
  for (gint64 i = 0; i < task->per_token; i++) {
    const gint64 at = gathered_own_row(task, source, token, i);
    if (at >= 0)
      dense[gathered_expert(task, token * task->per_token + i)] = task->row_weights[at];
  }
  row_close(task->dense, (Number)task->number, first, n, dense);
}

CPU_KERNEL(put) {
  const GatheredKernel *task = &kernel->gathered;
  float *floats = cpu_scratch_floats(scratch, MAX(2 * task->width, task->n_experts));
  for (gint64 source = 0; source < task->sources; source++)
    for (gint64 token = 0; token < task->tokens; token++) {
      put_token(task, source, token, floats);
      if (task->dense != NULL)
        put_weights(task, source, token, floats);
    }
}
