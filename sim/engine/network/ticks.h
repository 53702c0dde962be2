/* Time on the network: int64 ticks of 1/4096 ns. A message of a chain starts where the one before it ended, so
 * rounding errors add up: in whole nanoseconds a ring of 2,046 steps of 1,310.72 ns would be off by 0.02 %, in ticks
 * it is within 2e-7. A duration is rounded to the nearest tick, so that flows with equal shares end together whatever
 * the last bit of their rates. An end is rounded up to nanoseconds once, by ticks_to_ns, when it leaves the network.
 * Range: 6 days. */
#pragma once
#include <glib.h>

#define TICKS_PER_NS ((gint64)4096)
#define TICKS_PER_S 4096e9
/* Nothing happens at or after this time. Three quarters of the int64 range are kept free, so that sums of two need no
 * check. */
#define TICKS_NEVER ((gint64)1 << 61)

/* seconds ≥ 0; too long or infinite becomes TICKS_NEVER */
static inline gint64 ticks_of_s(double seconds) {
  double ticks = seconds * TICKS_PER_S;
  return ticks < (double)TICKS_NEVER ? (gint64)(ticks + 0.5) : TICKS_NEVER;
}

/* ns ≥ 0; too late becomes TICKS_NEVER */
static inline gint64 ticks_of_ns(gint64 ns) {
  return ns < TICKS_NEVER / TICKS_PER_NS ? ns * TICKS_PER_NS : TICKS_NEVER;
}

/* The one place where an end is rounded: up. TICKS_NEVER becomes G_MAXINT64 ns. */
static inline gint64 ticks_to_ns(gint64 ticks) {
  return ticks < TICKS_NEVER ? (ticks + TICKS_PER_NS - 1) / TICKS_PER_NS : G_MAXINT64;
}

/* both ≤ TICKS_NEVER */
static inline gint64 add_ticks(gint64 a_ticks, gint64 b_ticks) {
  return MIN(a_ticks + b_ticks, TICKS_NEVER);
}
