/* The numbers below n in a random order that is computed, not stored: draws without replacement from spaces of any
 * size, the same for the same seed. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 n;
  guint64 seed;
  int half_bits; /* (computed) of the smallest square power of two ≥ n */
} Shuffle;

Shuffle shuffle_of(gint64 n, guint64 seed);
/* The number at `position` (both from 0 to n − 1); every number occurs at exactly one position. */
gint64 shuffle_at(const Shuffle *shuffle, gint64 position);
