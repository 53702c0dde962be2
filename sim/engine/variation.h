/* What makes ranks differ: a rank's speed factor and the seeded jitter of each of its compute ops. */
#pragma once
#include <glib.h>

/* A sample of a normal distribution with mean 0 and standard deviation 1, cut at ±3. A pure function of its
 * arguments, in integer arithmetic: the same on every machine and in whatever order ops run. */
double variation_normal(guint64 seed, int rank, int op);

/* run' = round(run · factor), at least 0. The host issues as fast as before, so the tail grows by as much as the
 * run. */
void variation_scale(double factor, gint64 *run_ns, gint64 *tail_ns);
