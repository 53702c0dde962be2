#include "held.h"

gint32 engine_held_by_others(const Engine *engine, const Rank *state, gint32 op) {
  const gboolean has_others = state->tasks[op].flags & TASK_AFTER_OTHERS; /* else its op need not be looked at */
  const gint32 *after = has_others ? state->list->ops[op].after : NULL;
  for (int i = 1; has_others && i < OP_MAX_AFTER && after[i] >= 0; i++)
    if (!has_record_of_end(engine, state, after[i]))
      return after[i];
  gint32 barrier = state->list->barrier != NULL ? state->list->barrier[op] : -1;
  return barrier >= 0 && !has_record_of_end(engine, state, barrier) ? barrier : -1;
}
