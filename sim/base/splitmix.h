/* SplitMix64's finaliser: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#pragma once
#include <glib.h>

/* The generator's output from state `x`: a bijection that scatters neighbouring numbers. */
static inline guint64 splitmix(guint64 x) {
  x += G_GUINT64_CONSTANT(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT(0x94d049bb133111eb);
  return x ^ (x >> 31);
}
