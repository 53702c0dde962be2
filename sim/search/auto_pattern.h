/* Private to auto_order: periodic orders on a V of two chunks, for a list schedule to follow (ListRule.guide). Time
 * is in slots; a period of 6 slots holds one micro-batch's F, I and W of both chunks. The four waves (F0, F1, I1, I0)
 * advance from rank to rank by a fixed number of slots each; a slower wave holds more micro-batches and leaves others
 * more room. Source: Qi et al., Pipeline Parallelism with Controllable Memory (arXiv 2405.15362) §3: building blocks
 * on a V, and their lifespans as memory. */
#pragma once
#include "order_search.h"

typedef struct {
  guint8 f0, f1, i1, i0;            /* slots from one rank to the next: out, back, out, back */
  guint8 turn_f, turn_loss, turn_i; /* slots from a wave's end to the next wave's start: F0 F1, F1 I1, I1 I0 */
  guint8 bent;                      /* slots per rank for F0 and I1 from rank `bend` on */
  int bend;                         /* a rank; n_ranks: straight */
} VPattern;

/* Appends to `patterns` (of VPattern) those in which no two waves collide on a rank and that, judging by lifespans,
 * fit the memory; straight ones before bent ones, most memory first. None unless the placement is a V of two
 * chunks. */
void v_patterns_find(const FlatProblem *flat, GArray *patterns);
/* Fills `order` with all micro-batches in the pattern's order. */
void v_pattern_fill(const FlatProblem *flat, const VPattern *pattern, FlatOrder *order);
