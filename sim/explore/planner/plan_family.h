/* Families of plans: those that differ in what is a matter of tuning. A search shows the best of each.
 *
 *     tp 4, pp 4 × 10 chunks ─┐
 *     tp 4, pp 4 ×  5 chunks ─┴ one family    tp 4, pp 1, ZeRO-3   another    tp 8, pp 4 × 5 chunks   a third
 *
 * A family has the same model, cluster, GPUs, tp, pp, cp and ep, whether weights are sharded (ZeRO-3), and the
 * schedule, 1f1b and interleaved being one. Chunks, layout, micro-batch, recomputation, sequence parallelism, ZeRO-0 to
 * 2, over how many ranks it shards, and what overlaps are neighbours' differences, unless the user asked for several
 * values. */
#pragma once
#include "space.h"

/* A text that is equal for plans of one family. `compared`: names of axes that also set families apart,
 * NULL-terminated. Owned by the caller. */
char *plan_family_key(const Model *model, const Cluster *cluster, const Plan *plan, const char *const *compared);
/* Axes of the space that were given several values. Call before others are filled. NULL-terminated; owned by the
 * caller. */
GStrv plan_family_compared(const Space *space);
