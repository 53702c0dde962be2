/* Random numbers determined by a seed and a position, the same on every device, and the dropout that uses them. */
#pragma once
#include "host_device.h"

#include <glib.h>

/* Counter-based: the n-th number of a seed, uniform in [0, 2^32). The same on every device (SplitMix64's finalizer:
 * Steele, Lea, Flood, OOPSLA 2014). */
HOST_DEVICE guint32 kernel_random(guint64 seed, guint64 n) {
  guint64 z = seed + (n + 1) * G_GUINT64_CONSTANT(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * G_GUINT64_CONSTANT(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * G_GUINT64_CONSTANT(0x94D049BB133111EB);
  return (guint32)((z ^ (z >> 31)) >> 32);
}

/* Dropout (Srivastava et al., JMLR 15, 2014) with kept elements scaled up during training. Whether an element is
 * dropped depends on its position in the whole tensor, so every way of sharding the tensor drops the same elements,
 * and so does backward. */
typedef struct {
  guint64 seed;
  float rate; /* 0 … 1; 0: nothing is dropped */
} Dropout;

/* The factor for element n: 0 with probability `rate`, else 1/(1 − rate). */
HOST_DEVICE float dropout_factor(const Dropout *dropout, guint64 n) {
  const guint64 dropped = (guint64)((double)dropout->rate * 4294967296.0);
  return kernel_random(dropout->seed, n) < dropped ? 0.0f : 1.0f / (1.0f - dropout->rate);
}

/* Dropout of attention probabilities. first_sequence: the step's index of the first sequence here; first_head: the
 * model's index of the first head here; length: tokens of a whole sequence. */
typedef struct {
  Dropout dropout;
  gint64 first_sequence, n_heads, first_head, length;
} ScoreDropout;

/* Random-number position of a query's row of probabilities. For a key, add the key's position. */
HOST_DEVICE guint64 score_row_place(const ScoreDropout *drop, gint64 sequence, gint64 head, gint64 position) {
  const gint64 matrix = (drop->first_sequence + sequence) * drop->n_heads + drop->first_head + head;
  return ((guint64)matrix * (guint64)drop->length + (guint64)position) * (guint64)drop->length;
}
