/* Prefetches into the cache what the engine will touch soon. Private to the engine. */
#pragma once
#include "engine_state.h"

/* The op that its stream examines next: other ranks have their turns first, and its cache lines would be cold by
 * then. */
static inline void prefetch(const Rank *state, gint32 next) {
  __builtin_prefetch(&state->tasks[next]);
  __builtin_prefetch(&state->end_ns[next]);
  __builtin_prefetch(&state->start_ns[next]);
}

static inline void prefetch_lanes(const Engine *engine, gint32 lane) {
  const char *first_lane = (const char *)&engine->lanes[first_lane_of(lane)];
  for (gsize byte = 0; byte < LANES_PER_RANK * sizeof(Lane); byte += CACHE_LINE_BYTES)
    __builtin_prefetch(first_lane + byte);
  __builtin_prefetch(&engine->ranks[lane_rank(lane)]);
}

/* The op after the head, and what it waits for. */
static inline void prefetch_next(const Engine *engine, gint32 lane) {
  const Rank *state = &engine->ranks[lane_rank(lane)];
  gint32 head = engine->lanes[lane].head, next = head >= 0 ? state->tasks[head].next : -1;
  if (next < 0)
    return;
  prefetch(state, next);
  if (state->tasks[next].after >= 0)
    __builtin_prefetch(&state->end_ns[state->tasks[next].after]);
}

/* Two ends that are due together usually belong to two ranks, both cold. First prefetch what locates the next op of
 * each, then the ops themselves, so that the misses overlap. */
static inline void prefetch_ends(const Engine *engine, const gint32 *lanes, int n) {
  for (int i = 0; i < n; i++)
    prefetch_lanes(engine, lanes[i]);
  for (int i = 0; i < n; i++)
    prefetch_next(engine, lanes[i]);
}

/* The record of the head, which is about to end, and what prefetch_next() fetches. */
static inline void prefetch_head(const Engine *engine, gint32 lane) {
  __builtin_prefetch(&engine->ranks[lane_rank(lane)].end_ns[engine->lanes[lane].head]);
  prefetch_next(engine, lane);
}

/* Many transfers end at once, each on other ranks: prefetch those that will be taken a few turns from now. */
static inline void prefetch_ended(const Engine *engine) {
  enum { FAR = 8, NEAR = 4 };
  if (engine->n_ended > FAR)
    prefetch_lanes(engine, engine->ended[engine->n_ended - 1 - FAR]);
  if (engine->n_ended > NEAR)
    prefetch_next(engine, engine->ended[engine->n_ended - 1 - NEAR]);
}
