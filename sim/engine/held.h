/* What an op still waits for on its rank. Private to the engine. */
#pragma once
#include "engine_state.h"

/* Asks the record alone, where the lane is not at hand. An end of −1 (not known) compares as the latest. */
static inline gboolean has_record_of_end(const Engine *engine, const Rank *state, gint32 op) {
  return (guint64)state->end_ns[op] <= (guint64)engine->horizon_ns;
}

/* Ops before the lane's head have ended, those after it have not; for the head itself, ask its record. */
static inline gboolean op_has_ended(const Engine *engine, const Rank *state, const Lane *lane, gint32 op) {
  if (lane->head != op)
    return lane->head < 0 || op < lane->head;
  return has_record_of_end(engine, state, op);
}

/* The latest end of everything the head waits for on its rank. */
gint64 engine_latest_end(const Rank *state, const Lane *lane);

/* The same, with a fast path for the common op that waits for at most one other. */
static inline gint64 latest_end(const Rank *state, const Lane *lane, const Task *task) {
  if (task->flags & (TASK_AFTER_OTHERS | TASK_AFTER_HOST))
    return engine_latest_end(state, lane);
  return task->after >= 0 ? MAX(lane->last_end_ns, state->end_ns[task->after]) : lane->last_end_ns;
}

/* The rare cases: an op after the first in Op.after that must end before `op` starts, or its barrier; −1: none. */
gint32 engine_held_by_others(const Engine *engine, const Rank *state, gint32 op);

/* An op that must end before `op` starts; −1: none. `lanes`: those of the rank. */
static inline gint32 held_by(const Engine *engine, const Rank *state, const Lane *lanes, gint32 op, const Task *task) {
  if (task->after >= 0 && !op_has_ended(engine, state, &lanes[task->after_stream], task->after))
    return task->after;
  if (!(task->flags & (TASK_AFTER_OTHERS | TASK_AFTER_HOST)))
    return -1;
  return engine_held_by_others(engine, state, op);
}

/* An op of the same rank that must end before `op` starts; −1: none is left. */
static inline gint32 engine_held_by(const Engine *engine, gint32 rank, gint32 op) {
  const Rank *state = &engine->ranks[rank];
  return held_by(engine, state, &engine->lanes[rank * LANES_PER_RANK], op, &state->tasks[op]);
}
