/* When ops were issued follows from the ends of the ops of the host alone. Where ranks run ahead nobody asks meanwhile,
 * so these records are made at the end, in the order in which they lie, and the clock touches a cold line less an op.
 */
#include "engine_state.h"

void engine_record_issues(const Engine *engine) {
  for (gint32 rank = 0; rank < engine->trace->n_ranks; rank++) {
    const Rank *state = &engine->ranks[rank];
    for (gint32 op = 0; op < state->list->n_tasks; op++)
      state->issue_ns[op] = engine_issue_of(state, op, &state->tasks[op]);
  }
}
