/* What attention's scores have beside a product of query and key, by where these are. */
#pragma once
#include <glib.h>

#include <math.h>

/* What a causal score has beside the product, by the distance of a key from its query.
 *   ALiBi (arXiv 2108.12409)  head h's scores get −alibi_slope(heads, first_head + h)·distance
 *   window (arXiv 2004.05150) keys `window` and more before the query are masked */
typedef struct {
  gint64 alibi_heads, first_head; /* of the whole model; that head 0 here is. 0 heads: no ALiBi */
  gint64 window;                  /* keys a query sees, its own included; 0: all before it */
} ScoreRule;

/* Positions of rows that are one or two pieces of a sequence: row i is at i + (i < half ? early : late). Zeros: at i.
 */
typedef struct {
  gint64 half, early, late;
} RowPositions;

/* The slope of a head: of n = 2^k heads the i-th has 2^(−8·(i+1)/n); of others the first 2^k as those, the rest every
 * other of 2^(k+1) (arXiv 2108.12409 §3, and the authors' code for other numbers of heads). 0 without ALiBi. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline float
    alibi_slope(const ScoreRule *rule, gint64 head_here) {
  const gint64 head = rule->first_head + head_here;
  gint64 power = 1;
  while (2 * power <= rule->alibi_heads)
    power *= 2;
  if (rule->alibi_heads == 0)
    return 0;
  const double exponent =
      head < power ? 8.0 * (double)(head + 1) / (double)power : 4.0 * (double)(2 * (head - power) + 1) / (double)power;
  return (float)exp2(-exponent);
}

/* The first key that a query sees: both in order of position, from the sequence's begin on. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline gint64
    first_seen(const ScoreRule *rule, gint64 query) {
  return rule->window > 0 && query >= rule->window ? query + 1 - rule->window : 0;
}

#ifdef __CUDACC__
__host__ __device__
#endif
    static inline gint64
    row_position(const RowPositions *rows, gint64 row) {
  return row + (row < rows->half ? rows->early : rows->late);
}
