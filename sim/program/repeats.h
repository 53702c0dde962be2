/* Groups of micro-batches that a step of a Program repeats, each identical to the previous one:
 *
 *     list     A A A │ B B B │ B B B │ B B B │ C C        a group is q micro-batches
 *
 * Schedules with a steady state of alternating forwards and backwards (1F1B) make such lists. With k·q more
 * micro-batches the list is the same with k more B in every step. */
#pragma once
#include "program.h"

typedef struct {
  gint32 first, end; /* each of ops first … end − 1 equals the op n_ops later, but for its micro-batch */
  gint32 n_ops;      /* per group */
  gint32 same_until; /* up to this op, lists with more groups are identical; no batch straddles it */
} RepeatedOps;

typedef struct {
  const Program *program; /* borrowed */
  int n_micro_batches;    /* per group: q */
  RepeatedOps *lists;     /* [pipeline ranks][steps]; owned */
} ProgramRepeats;

/* Whether ops first … first + n_ops − 1 of a list leave resident memory exactly as they found it, to the byte. */
gboolean program_leaves_memory(const Program *program, const OpList *list, gint32 first, gint32 n_ops);

/* For an order whose schedule has a repeating steady state. NULL if in some step a list has no group followed by at
 * least half of an identical one (same ops, same dependencies), or if a group changes resident memory. */
ProgramRepeats *program_repeats_new(const Program *program, int n_micro_batches);
/* The same, but a group may change memory. */
ProgramRepeats *program_repeats_find(const Program *program, int n_micro_batches);
/* Those of a copy of their program. NULL if a group changes memory. */
ProgramRepeats *program_repeats_of_copy(const ProgramRepeats *repeats, const Program *copy);
void program_repeats_free(ProgramRepeats *repeats);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProgramRepeats, program_repeats_free)

/* The repeats of a pipeline rank's list in a step. */
static inline const RepeatedOps *program_repeats_of(const ProgramRepeats *repeats, int rank, int step) {
  return &repeats->lists[rank * repeats->program->n_steps + step];
}
