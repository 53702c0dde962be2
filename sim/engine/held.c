#include "held.h"

gint32 engine_held_by_others(const Engine *engine, const Rank *state, gint32 op) {
  const gint32 *after = state->list->ops[op].after;
  for (int i = 1; i < OP_MAX_AFTER && after[i] >= 0; i++)
    if (!has_record_of_end(engine, state, after[i]))
      return after[i];
  gint32 barrier = state->list->barrier != NULL ? state->list->barrier[op] : -1;
  return barrier >= 0 && !has_record_of_end(engine, state, barrier) ? barrier : -1;
}
