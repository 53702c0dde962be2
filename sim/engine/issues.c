/* Issue times follow from the ends of host ops alone. A run that runs ahead does not need them meanwhile, so it
 * records them at the end, in memory order, and the clock touches one cold line less per op. */
#include "engine_state.h"

void engine_record_issues(const Engine *engine) {
  for (gint32 rank = 0; rank < engine->trace->n_ranks; rank++) {
    const Rank *state = &engine->ranks[rank];
    for (gint32 op = 0; op < state->list->n_tasks; op++)
      state->issue_ns[op] = engine_issue_of(state, op, &state->tasks[op]);
  }
}
