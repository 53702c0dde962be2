/* A Feistel network is a bijection on numbers of 2·b bits whatever its round function is; where it leads beyond n it
 * is walked on, at most a few steps, as 4^b < 4·n: which is a bijection on numbers below n (Black and Rogaway,
 * "Ciphers with arbitrary finite domains", CT-RSA 2002, cycle walking). Rounds are mixed by SplitMix64's finaliser
 * (Steele, Lea and Flood, OOPSLA 2014). */
#include "sample.h"

#include "splitmix.h"

enum { N_ROUNDS = 6 };

Shuffle shuffle_of(gint64 n, guint64 seed) {
  g_assert(n >= 1);
  Shuffle shuffle = {.n = n, .seed = splitmix(seed), .half_bits = 1};
  while ((((guint64)n - 1) >> shuffle.half_bits >> shuffle.half_bits) != 0)
    shuffle.half_bits++;
  return shuffle;
}

static guint64 permute(const Shuffle *shuffle, guint64 x) {
  const guint64 mask = (G_GUINT64_CONSTANT(1) << shuffle->half_bits) - 1;
  guint64 left = x >> shuffle->half_bits, right = x & mask;
  for (int round = 0; round < N_ROUNDS; round++) {
    const guint64 next = left ^ (splitmix(right ^ splitmix(shuffle->seed + (guint64)round)) & mask);
    left = right;
    right = next;
  }
  return left << shuffle->half_bits | right;
}

gint64 shuffle_at(const Shuffle *shuffle, gint64 position) {
  guint64 x = (guint64)position;
  do
    x = permute(shuffle, x);
  while (x >= (guint64)shuffle->n);
  return (gint64)x;
}
