/* Moving tokens to experts and back, and the weights of both. Tokens are assigned to experts by position
 * (RouteKernel), so that all experts get the same number of rows. Four tokens with two of four experts each, shift 0:
 *
 *      token      0     1     2     3
 *      choices    0 1   2 3   0 1   2 3
 *      row        0 2   4 6   1 3   5 7          rows 0 1 are expert 0's, 2 3 expert 1's …
 *
 * A token's weights are f·softmax of its k scores:  dscore_i = w_i·(dw_i − Σ_j w_j·dw_j/f). */
#include "cpu_math.h"
#include "cpu_number.h"

#include <math.h>

static gint64 expert_at(const RouteKernel *route, gint64 choice) {
  return (choice + route->shift) % route->n_experts;
}

static gint64 row_at(const RouteKernel *route, gint64 choice) {
  const gint64 rows_each = route->tokens * route->per_token / route->n_experts;
  return expert_at(route, choice) * rows_each + choice / route->n_experts;
}

CPU_KERNEL(route_forward) {
  const RouteKernel *route = &kernel->route;
  const gint64 k = route->per_token, n = route->n_experts;
  g_assert(k >= 1 && k <= n && route->factor > 0 && route->shift >= 0 && route->tokens * k % n == 0);
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < route->tokens; t++) {
    const float *scores = row_in(route->scores, (Number)route->number, t * n, n, buffer);
    float most = scores[expert_at(route, t * k)], sum = 0;
    for (gint64 i = 1; i < k; i++)
      most = fmaxf(most, scores[expert_at(route, t * k + i)]);
    for (gint64 i = 0; i < k; i++)
      sum += expf(scores[expert_at(route, t * k + i)] - most);
    for (gint64 i = 0; i < k; i++) {
      const gint64 row = row_at(route, t * k + i);
      route->place[t * k + i] = (gint32)row;
      route->weights[row] = route->factor * expf(scores[expert_at(route, t * k + i)] - most) / sum;
    }
  }
}

CPU_KERNEL(route_backward) {
  const RouteKernel *route = &kernel->route;
  const gint64 k = route->per_token, n = route->n_experts;
  float *buffer = cpu_scratch_floats(scratch, n);
  for (gint64 t = 0; t < route->tokens; t++) {
    const gint32 *place = route->place + t * k;
    float *dscores = row_out(route->dscores, (Number)route->number, t * n, buffer), sum = 0;
    memset(dscores, 0, (gsize)n * sizeof *dscores);
    for (gint64 i = 0; i < k; i++)
      sum += route->weights[place[i]] * route->dweights[place[i]];
    for (gint64 i = 0; i < k; i++)
      dscores[expert_at(route, t * k + i)] =
          route->weights[place[i]] * (route->dweights[place[i]] - sum / route->factor);
    row_close(route->dscores, (Number)route->number, t * n, n, dscores);
  }
}

CPU_KERNEL(permute) {
  const PermuteKernel *task = &kernel->permute;
  const Number number = (Number)task->number;
  const gsize row_bytes = (gsize)(task->width * kernel_element_bytes(number));
  (void)scratch;
  for (gint64 t = 0; t < task->tokens; t++)
    for (gint64 i = 0; i < task->per_token; i++)
      memcpy(element_of(task->to, number, task->place[t * task->per_token + i] * task->width),
             const_element_of(task->from, number, t * task->width), row_bytes);
}

CPU_KERNEL(unpermute) {
  const PermuteKernel *task = &kernel->permute;
  const Number number = (Number)task->number;
  const gint64 width = task->width;
  float *sum = cpu_scratch_floats(scratch, 2 * width), *buffer = sum + width;
  for (gint64 t = 0; t < task->tokens; t++) {
    const gint32 *place = task->place + t * task->per_token;
    memset(sum, 0, (gsize)width * sizeof *sum);
    for (gint64 i = 0; i < task->per_token; i++) {
      const float *row = row_in(task->from, number, place[i] * width, width, buffer);
#pragma omp simd
      for (gint64 j = 0; j < width; j++)
        sum[j] += row[j];
    }
    numbers_round(sum, width, number, element_of(task->to, number, t * width));
  }
}

CPU_KERNEL(swap_blocks) {
  const SwapBlocksKernel *task = &kernel->swap_blocks;
  const Number number = (Number)task->number;
  const gsize block_bytes = (gsize)(task->block * kernel_element_bytes(number));
  (void)scratch;
  for (gint64 o = 0; o < task->outer; o++)
    for (gint64 i = 0; i < task->inner; i++)
      memcpy(element_of(task->to, number, (i * task->outer + o) * task->block),
             const_element_of(task->from, number, (o * task->inner + i) * task->block), block_bytes);
}

CPU_KERNEL(gate_forward) {
  const GateKernel *task = &kernel->gate;
  const float *logit =
      row_in(task->logit, (Number)task->number, 0, task->n, cpu_scratch_floats(scratch, MAX(task->n, 1)));
#pragma omp simd
  for (gint64 i = 0; i < task->n; i++)
    task->gate[i] = fast_sigmoid(logit[i]);
}

CPU_KERNEL(gate_backward) {
  const GateKernel *task = &kernel->gate;
  float *dlogit = row_out(task->dlogit, (Number)task->number, 0, cpu_scratch_floats(scratch, MAX(task->n, 1)));
#pragma omp simd
  for (gint64 i = 0; i < task->n; i++)
    dlogit[i] = task->dgate[i] * task->gate[i] * (1.0f - task->gate[i]);
  row_close(task->dlogit, (Number)task->number, 0, task->n, dlogit);
}
