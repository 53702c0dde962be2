/* Terms that attention adds to scores by position: ALiBi and sliding windows. */
#pragma once
#include "host_device.h"

#include <glib.h>

#include <math.h>

/* What is applied to a causal score besides q·k, by the distance of the key from its query.
 *   ALiBi (arXiv 2108.12409)  head h's scores get −alibi_slope(heads, first_head + h)·distance
 *   window (arXiv 2004.05150) keys `window` and more before the query are masked */
typedef struct {
  gint64 alibi_heads, first_head; /* heads of the whole model (0: no ALiBi); the model's index of head 0 here */
  gint64 window;                  /* keys that a query sees, including its own; 0: all before it */
} ScoreRule;

/* Positions of rows that are one or two pieces of a sequence: row i is at i + (i < half ? early : late). All 0: row i
 * is at position i. */
typedef struct {
  gint64 half, early, late;
} RowPositions;

/* The slope of a head. With n = 2^k heads, head i has 2^(−8·(i+1)/n). Otherwise the first 2^k heads have those slopes
 * and the rest take every other slope of 2^(k+1) heads (arXiv 2108.12409 §3, and the authors' code for other numbers
 * of heads). 0 without ALiBi. */
HOST_DEVICE float alibi_slope(const ScoreRule *rule, gint64 head_here) {
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

/* The first key that a query sees. Both are indices in order of position, from the start of the sequence. */
HOST_DEVICE gint64 first_seen(const ScoreRule *rule, gint64 query) {
  return rule->window > 0 && query >= rule->window ? query + 1 - rule->window : 0;
}

HOST_DEVICE gint64 row_position(const RowPositions *rows, gint64 row) {
  return row + (row < rows->half ? rows->early : rows->late);
}
