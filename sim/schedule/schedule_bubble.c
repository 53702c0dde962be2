/* Bubbles of orders that split the backward or run in both directions. F, I, W are for one rank and one micro-batch;
 * p ranks, m micro-batches.
 *
 * For one order and given counts, every start time is the longest of many paths through the passes, and each path is
 * a sum of times; a rank's first pass has only one path, the forwards before it. So the bubble is the maximum of
 * certain linear forms in F, I, W. A form that equals the bubble in some open range of times is one of these, hence a
 * lower bound for all times. The forms, and the ranges where they are exact, were found by running the orders over a
 * grid of times; tests/program/test_schedules.c repeats the check.
 *
 *     zb-h1       (p − 1)(F + I) − (n − 1)W, n = min(m, p)             rank p − 1 defers n − 1 W's past its last I
 *                 max(0, p − m)F + (p − 1)I                             rank 0 waits for its first I
 *                 The larger one is exact for any m and times; (p − 1)(F + I − W) where W ≤ F and m ≥ p.
 *     zb-h2       the same with n = min(m, 2p − 1), and any rank q may be the one that waits:
 *                 (p − q − n_q)F + (p − 1 − q)I, n_q = min(m, 2(p − q) − 1).
 *                 Exact where 2W ≤ F + I or F ≤ I; (p − 1)(F + I − 2W) where that is not negative and m ≥ 2p − 1.
 *     zb-v        m ≥ 2p: (p − 1)/2 times the largest of I − F, 2(I − W), 2F − I − W.
 *                 Exact where F and W ≤ I, and where I ≤ W ≤ F; so 0 at F = I = W.
 *     v-half      F = I = W: (p − 1)F/2 for p ≤ 3; from p = 4 on (3p − 7)F/2 for even and (3p − 8)F/2 for odd p;
 *                 exact for m ≥ (p + 5)/2. 1f1b's is 3(p − 1)F.
 *     v-min       F = I = W: (4p − 7)F/2 for p = 2 mod 3, (4p − 9)F/2 for others (0 for p = 1);
 *                 exact for m ≥ (p + 8)/3.
 *     dualpipe    m even and ≥ 2p, any times with F, I + W ≤ F&B ≤ F + I + W:
 *                 (p/2 − 1)(2 F&B − min(F, I) − min(I, W) − 2W). If F, W ≤ I and pairs gain nothing:
 *                 (p/2 − 1)(F&B + B − 3W), as published. For F&B < F + B the published form is the span of all ranks,
 *                 from the first start to the last end, less the work of the ranks that have the most pairs.
 *     dualpipe-v  the same for p/2 → p ranks and m ≥ 2p, with times per chunk, half of the rank's.
 *
 * Elsewhere, a bound for any order: a rank that holds the first stage spans a micro-batch's path through all stages
 * and back, p(F + I), and the W after it; its work is at most m(F + I + W). If a pair takes a time other than the sum
 * of its parts, F and I on that path take at least min(F, F&B) and min(I, F&B), W at least the rest of F&B, and the
 * work is at most m times the larger of F&B and F + I + W. */
#include "generators.h"

/* Bound for any order on a V or two pipes. */
static double round_trip(OrderShape shape, const PhaseTimes *times, double last_w) {
  double whole = times->f + times->i + times->w;
  return MAX(0, shape.n_ranks * (times->f + times->i) + last_w - shape.n_micro_batches * whole);
}

static Bubble bubble_of_halved(OrderShape shape, const PhaseTimes *times, int k, gboolean is_exact) {
  int p = shape.n_ranks, m = shape.n_micro_batches;
  double bubble = (p - 1) * (times->f + times->i) - MIN(m - 1, k * (p - 1)) * times->w;
  for (int rank = 0; rank < p; rank++) {
    int n_ahead = MIN(m, k * (p - 1 - rank) + 1);
    bubble = MAX(bubble, (p - rank - n_ahead) * times->f + (p - 1 - rank) * times->i);
  }
  return (Bubble){bubble, is_exact};
}

Bubble bubble_of_zb_h1(OrderShape shape, const PhaseTimes *times) {
  return bubble_of_halved(shape, times, 1, TRUE);
}

Bubble bubble_of_zb_h2(OrderShape shape, const PhaseTimes *times) {
  return bubble_of_halved(shape, times, 2, 2 * times->w <= times->f + times->i || times->f <= times->i);
}

Bubble bubble_of_zb_v(OrderShape shape, const PhaseTimes *times) {
  double f = times->f, i = times->i, w = times->w;
  if (shape.n_ranks == 1)
    return (Bubble){0, TRUE};
  if (shape.n_micro_batches < 2 * shape.n_ranks)
    return (Bubble){round_trip(shape, times, w / 2), FALSE};
  double per_turn = MAX(MAX(i - f, 2 * (i - w)), MAX(2 * f - i - w, 0));
  return (Bubble){(shape.n_ranks - 1) * per_turn / 2, (f <= i && w <= i) || (i <= w && w <= f)};
}

/* A bubble of `slots` idle slots of one chunk, where F = I = W. */
static Bubble bubble_of_slots(OrderShape shape, const PhaseTimes *times, int slots, int least_m) {
  if (shape.n_ranks == 1)
    return (Bubble){0, TRUE};
  if (times->f == times->i && times->i == times->w && shape.n_micro_batches >= least_m)
    return (Bubble){slots * times->f / 2, TRUE};
  return (Bubble){round_trip(shape, times, times->w / 2), FALSE};
}

Bubble bubble_of_v_half(OrderShape shape, const PhaseTimes *times) {
  int p = shape.n_ranks;
  return bubble_of_slots(shape, times, p <= 3 ? p - 1 : 3 * p - 7 - p % 2, (p + 5) / 2);
}

Bubble bubble_of_v_min(OrderShape shape, const PhaseTimes *times) {
  int p = shape.n_ranks;
  return bubble_of_slots(shape, times, p % 3 == 2 ? 4 * p - 7 : 4 * p - 9, (p + 8) / 3);
}

/* `half` ranks from an end to where the directions meet; times per stage. */
static double bubble_of_pairs(int half, const PhaseTimes *stage) {
  double hidden = MIN(stage->f, stage->i) + MIN(stage->i, stage->w) + 2 * stage->w;
  return MAX(0, (half - 1) * (2 * stage->pair - hidden));
}

/* F&B is at least as long as either part, and at most as long as both: the formula above needs this. */
static gboolean are_pairs_plain(const PhaseTimes *times) {
  return times->pair >= MAX(times->f, times->i + times->w) && times->pair <= times->f + times->i + times->w;
}

/* As round_trip(); `last` is the fraction of a rank's W that comes after the last I. */
static double round_trip_in_pairs(OrderShape shape, const PhaseTimes *times, double last) {
  double pair = times->pair, whole = times->f + times->i + times->w;
  double way = shape.n_ranks * (MIN(times->f, pair) + MIN(times->i, pair)) + last * CLAMP(pair - times->i, 0, times->w);
  return MAX(0, way - shape.n_micro_batches * MAX(whole, pair));
}

Bubble bubble_of_dualpipe(OrderShape shape, const PhaseTimes *times) {
  if (shape.n_micro_batches % 2 != 0 || shape.n_micro_batches < 2 * shape.n_ranks || !are_pairs_plain(times))
    return (Bubble){round_trip_in_pairs(shape, times, 1), FALSE};
  return (Bubble){bubble_of_pairs(shape.n_ranks / 2, times), TRUE};
}

Bubble bubble_of_dualpipe_v(OrderShape shape, const PhaseTimes *times) {
  const PhaseTimes chunk = {times->f / 2, times->i / 2, times->w / 2, times->pair / 2};
  if (shape.n_ranks > 1 && (shape.n_micro_batches < 2 * shape.n_ranks || !are_pairs_plain(times)))
    return (Bubble){round_trip_in_pairs(shape, times, 0.5), FALSE};
  return (Bubble){bubble_of_pairs(shape.n_ranks, &chunk), TRUE};
}
