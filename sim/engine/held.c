#include "held.h"

gint32 engine_held_by_others(const Engine *engine, const Rank *state, gint32 op) {
  const gboolean has_others = state->tasks[op].flags & TASK_AFTER_OTHERS; /* otherwise its op need not be read */
  const gint32 *after = has_others ? state->list->ops[op].after : NULL;
  for (int i = 1; has_others && i < OP_MAX_AFTER && after[i] >= 0; i++)
    if (!has_record_of_end(engine, state, after[i]))
      return after[i];
  gint32 barrier = state->list->barrier != NULL ? state->list->barrier[op] : -1;
  return barrier >= 0 && !has_record_of_end(engine, state, barrier) ? barrier : -1;
}

gint64 engine_latest_end(const Rank *state, const Lane *lane) {
  const Task *task = &state->tasks[lane->head];
  gint64 latest_ns = lane->last_end_ns;
  if (task->after >= 0)
    latest_ns = MAX(latest_ns, state->end_ns[task->after]);
  if (!(task->flags & (TASK_AFTER_OTHERS | TASK_AFTER_HOST)))
    return latest_ns;
  const gint32 *after = state->list->ops[lane->head].after;
  for (int i = 1; i < OP_MAX_AFTER && after[i] >= 0; i++)
    latest_ns = MAX(latest_ns, state->end_ns[after[i]]);
  gint32 barrier = state->list->barrier != NULL ? state->list->barrier[lane->head] : -1;
  return barrier < 0 ? latest_ns : MAX(latest_ns, state->end_ns[barrier]);
}
