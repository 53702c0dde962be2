/* Groups of micro-batches that a step of a program runs one after another, each as the one before:
 *
 *     list     A A A │ B B B │ B B B │ B B B │ C C        a group is q micro-batches
 *
 * Schedules that go in turn, one forward and one backward, make such lists: with k·q more micro-batches a list is the
 * same with k more of B in every step. */
#pragma once
#include "program.h"

struct RepeatedOps {
  gint32 first, end; /* ops first … end − 1 of the list are like those n_ops further on, micro-batches apart */
  gint32 n_ops;      /* of a group */
  gint32 same_until; /* up to here lists of more groups are the same, and so are all batches that begin */
};

typedef struct {
  const Program *program; /* borrowed */
  int n_micro_batches;    /* of a group: q */
  RepeatedOps *lists;     /* [pipeline ranks][steps]; owned */
} ProgramRepeats;

/* Whether ops first … first + n_ops − 1 of a list hold nothing when they have ended that they did not find, to the last
 * byte. */
gboolean program_leaves_memory(const Program *program, const OpList *list, gint32 first, gint32 n_ops);

/* NULL: a step of a list has no group that at least half of another follows which is like it, op for op, with what each
 * waits for, or a group does not leave memory as it found it. Of an order whose schedule goes in turn. */
ProgramRepeats *program_repeats_new(const Program *program, int n_micro_batches);
void program_repeats_free(ProgramRepeats *repeats);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ProgramRepeats, program_repeats_free)

/* What the list of a pipeline rank repeats in a step. */
static inline const RepeatedOps *program_repeats_of(const ProgramRepeats *repeats, int rank, int step) {
  return &repeats->lists[rank * repeats->program->n_steps + step];
}
