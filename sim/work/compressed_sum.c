/* Errors have the format of the gradients, with onebit fp32, and there each rank also has one of the part that it sums
 * for all. */
#include "compressed_sum.h"

#include <math.h>

enum { PLACE_BYTES = 4, SCALE_BYTES = 4, ONEBIT_ERROR_BYTES = 4 };

void low_rank_add(LowRank *sum, double n, double rows, double columns, int rank) {
  const double r = fmin(rank, fmin(rows, columns));
  const LowRank one = {rows * columns, r * rows, r * columns, 1};
  low_rank_add_times(sum, n, &one);
}

double compressed_values(const GradCompression *how, double elements) {
  return ceil(how->share * elements * (1 - 1e-12)); /* a tenth of 1000 is 100 */
}

/* Whole bytes of signs for each rank. */
static double sign_bytes(double elements, int n_ranks) {
  return ceil(elements / (8.0 * n_ranks)) * n_ranks;
}

static int add_call(CompressedCall *calls, int n, Collective collective, double bytes) {
  if (bytes > 0)
    calls[n++] = (CompressedCall){collective, bytes};
  return n;
}

int compressed_calls(const GradCompression *how, const CompressedSum *sum, double gradient_bytes, int n_ranks,
                     CompressedCall calls[MOST_COMPRESSED_CALLS]) {
  const double elements = sum->elements;
  int n = 0;
  switch ((CompressionKind)how->kind) {
  case COMPRESS_FP16:
  case COMPRESS_BF16:
    return add_call(calls, n, COLLECTIVE_ALL_REDUCE, 2 * elements);
  case COMPRESS_TOPK:
    n = add_call(calls, n, COLLECTIVE_ALL_GATHER, n_ranks * compressed_values(how, elements) * gradient_bytes);
    return add_call(calls, n, COLLECTIVE_ALL_GATHER, n_ranks * compressed_values(how, elements) * PLACE_BYTES);
  case COMPRESS_ONEBIT:
    n = add_call(calls, n, COLLECTIVE_ALL_TO_ALL, sign_bytes(elements, n_ranks));
    n = add_call(calls, n, COLLECTIVE_ALL_GATHER, SCALE_BYTES * n_ranks);
    n = add_call(calls, n, COLLECTIVE_ALL_GATHER, sign_bytes(elements, n_ranks));
    return add_call(calls, n, COLLECTIVE_ALL_GATHER, SCALE_BYTES * n_ranks);
  case COMPRESS_POWERSGD:
    n = add_call(calls, n, COLLECTIVE_ALL_REDUCE, gradient_bytes * (elements - sum->low_rank.elements));
    n = add_call(calls, n, COLLECTIVE_ALL_REDUCE, gradient_bytes * sum->low_rank.rows);
    return add_call(calls, n, COLLECTIVE_ALL_REDUCE, gradient_bytes * sum->low_rank.columns);
  case COMPRESS_NONE:
  case N_COMPRESSIONS:
    break;
  }
  g_assert_not_reached();
}

double compressed_sent_bytes(const GradCompression *how, const CompressedSum *sum, double gradient_bytes, int n_ranks) {
  CompressedCall calls[MOST_COMPRESSED_CALLS] = {{COLLECTIVE_ALL_REDUCE, gradient_bytes * sum->elements}};
  const int n = how->kind == COMPRESS_NONE ? 1 : compressed_calls(how, sum, gradient_bytes, n_ranks, calls);
  double sent = 0;
  for (int i = 0; i < n; i++)
    sent += collective_sent_bytes(calls[i].collective, n_ranks, calls[i].bytes);
  return sent;
}

double compressed_state_bytes(const GradCompression *how, const CompressedSum *sum, double gradient_bytes,
                              int n_ranks) {
  if (!compression_is_lossy(how) || n_ranks == 1)
    return 0;
  if (how->kind == COMPRESS_ONEBIT)
    return ONEBIT_ERROR_BYTES * (sum->elements + sum->elements / n_ranks);
  return gradient_bytes * (sum->elements + sum->low_rank.rows + sum->low_rank.columns);
}

/* A copy of what is summed, beside the error: to choose from, to take the error of, or in fewer bits; and all ranks'
 * values and places. */
double compressed_buffer_bytes(const GradCompression *how, double elements, double gradient_bytes, int n_ranks) {
  if (how->kind == COMPRESS_NONE || n_ranks == 1)
    return 0;
  if (compression_is_half(how))
    return 2 * elements;
  return gradient_bytes * elements +
         (how->kind == COMPRESS_TOPK ? n_ranks * compressed_values(how, elements) * (gradient_bytes + PLACE_BYTES) : 0);
}
