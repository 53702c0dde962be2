/* Counter-based randomness: hash (seed, rank, op, word) instead of drawing from a stream. Hash: Steele, Lea, Flood,
 * "Fast splittable pseudorandom number generators", OOPSLA 2014 (splitmix64's finaliser). Normal: the sum of 12
 * independent uniforms has variance 1 and is close enough to normal for the precision of any jitter. */
#include "variation.h"

#include "saturate.h"
#include "splitmix.h"

#include <math.h>

double variation_normal(guint64 seed, int rank, int op) {
  guint64 state = splitmix(seed) ^ ((guint64)(guint32)rank << 32 | (guint32)op);
  gint64 sum = 0;
  for (int word = 0; word < 3; word++) {
    state = splitmix(state);
    for (int part = 0; part < 4; part++)
      sum += state >> 16 * part & 0xffff;
  }
  /* 12 uniforms on 0 … 65535: mean 6 · 65535, variance 65536² − 1 */
  double sample = (double)(sum - 6 * 65535) / 65536.0;
  return CLAMP(sample, -3.0, 3.0);
}

void variation_scale(double factor, gint64 *run_ns, gint64 *tail_ns) {
  double scaled_ns = round(*run_ns * factor);
  gint64 run_ns_before = *run_ns;
  *run_ns = scaled_ns < 9.2e18 ? MAX((gint64)scaled_ns, 0) : G_MAXINT64;
  gint64 growth_ns = *run_ns - run_ns_before;
  *tail_ns = growth_ns > 0 ? add_ns(*tail_ns, growth_ns) : MAX(*tail_ns + growth_ns, 0);
}
