/* What a folded run leaves out because it would only repeat: groups of micro-batches (repeats.h), each one period
 * long, the same number in every step. The run with all groups is the recorded one up to the end of a step's period;
 * then what ended in that period n_groups times more, each time one period later; then the rest of the record,
 * n_groups periods later:
 *
 *     recorded        │ A A A  B │ B │ C C │          (begin_ns, end_ns]: the second B
 *     all             │ A A A  B │ B │ B B B │ C C │
 *
 * This holds for all records of a list, including ops that started before the period and end in it. Only launches may
 * be earlier. */
#pragma once
#include "repeats.h"

/* The period of one step. At end_ns the run is in the state of begin_ns, one group later, so it would go on the same.
 */
typedef struct {
  gint64 begin_ns, end_ns;
  gint32 *n_early; /* [pipeline ranks] how many ops, from the first of the list, are issued earlier, relative to the
                      others, in what is left out and after it; every other op is issued a period later each time;
                      owned */
} OmittedPeriod;

typedef struct {
  const ProgramRepeats *repeats; /* which ops a group has; borrowed */
  gint64 n_groups;               /* left out of a step; ≥ 1 */
  int n_steps;
  OmittedPeriod periods[]; /* [steps] one after another */
} Omitted;

/* The caller fills the periods. */
Omitted *omitted_new(const ProgramRepeats *repeats, gint64 n_groups);
void omitted_free(Omitted *omitted);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Omitted, omitted_free)

static inline gint64 omitted_period_ns(const OmittedPeriod *period) {
  return period->end_ns - period->begin_ns;
}

/* Time left out of the periods that end after `since_ns`; omitted NULL: 0. */
static inline gint64 omitted_ns(const Omitted *omitted, gint64 since_ns) {
  gint64 sum_ns = 0;
  for (int step = 0; omitted != NULL && step < omitted->n_steps; step++)
    if (omitted->periods[step].end_ns > since_ns)
      sum_ns += omitted->n_groups * omitted_period_ns(&omitted->periods[step]);
  return sum_ns;
}

/* How often a record that ended at `ended_ns` occurs in the run with all groups. */
static inline gint64 omitted_times(const Omitted *omitted, gint64 ended_ns) {
  for (int step = 0; omitted != NULL && step < omitted->n_steps; step++)
    if (ended_ns > omitted->periods[step].begin_ns && ended_ns <= omitted->periods[step].end_ns)
      return 1 + omitted->n_groups;
  return 1;
}

/* How often op `i` of pipeline rank `rank`'s list, an op of step `step`, occurs in the run with all groups. Groups are
 * counted as repeats of the one that program_repeats_of() names. */
static inline gint64 omitted_op_times(const Omitted *omitted, int rank, int step, gint32 i) {
  if (omitted == NULL)
    return 1;
  const RepeatedOps *group = program_repeats_of(omitted->repeats, rank, step);
  return i >= group->first && i < group->first + group->n_ops ? 1 + omitted->n_groups : 1;
}
