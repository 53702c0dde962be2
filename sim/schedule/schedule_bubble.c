/* Bubbles of the orders that have a closed form for some times only; a bound that every order keeps, for the others. */
#include "generators.h"

/* Way down to the last rank, all it runs before its last I, and up again to the W that rank 0 then has left. */
static Bubble bubble_of_halved(OrderShape shape, const PhaseTimes *times, int k) {
  int p = shape.n_ranks, n_behind = MIN(shape.n_micro_batches - 1, k * (p - 1));
  double bubble = (p - 1) * (times->f + times->i) - n_behind * times->w;
  return (Bubble){MAX(bubble, 0), FALSE};
}

Bubble bubble_of_zb_h1(OrderShape shape, const PhaseTimes *times) {
  return bubble_of_halved(shape, times, 1);
}

Bubble bubble_of_zb_h2(OrderShape shape, const PhaseTimes *times) {
  return bubble_of_halved(shape, times, 2);
}

Bubble bubble_of_zb_v(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){0, FALSE};
}

Bubble bubble_of_v_half(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){0, FALSE};
}

Bubble bubble_of_v_min(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){0, FALSE};
}

Bubble bubble_of_dualpipe(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){0, FALSE};
}

Bubble bubble_of_dualpipe_v(OrderShape shape, const PhaseTimes *times) {
  return (Bubble){0, FALSE};
}
