/* What a folded run of one step leaves out because it would be done as before: groups of micro-batches (repeats.h) that
 * each take a period. The run with all of them is the one recorded, up to end_ns; then n_groups times what ended in the
 * period before, each time a period later; then the rest of the record, n_groups periods later:
 *
 *     recorded        │ A A A  B │ B │ C C │          (begin_ns, end_ns]: the second B
 *     all             │ A A A  B │ B │ B B B │ C C │
 *
 * So do all records of a list, ops that started before the period and end in it too. Launches alone may be earlier. */
#pragma once
#include "repeats.h"

typedef struct {
  const ProgramRepeats *repeats; /* which ops a group has; borrowed */
  gint64 n_groups;               /* left out; ≥ 1 */
  gint64 begin_ns, end_ns;       /* of the period. Two of them or more have passed by end_ns, the first as the second */
  gint32 n_early[];              /* [pipeline ranks] so many ops of a list are issued earlier, relative to the rest, in
                                    what is left out and behind it; all others a period later each time */
} Omitted;

static inline gint64 omitted_period_ns(const Omitted *omitted) {
  return omitted->end_ns - omitted->begin_ns;
}

/* NULL: nothing is left out. */
static inline gint64 omitted_ns(const Omitted *omitted) {
  return omitted != NULL ? omitted->n_groups * omitted_period_ns(omitted) : 0;
}

/* How often what ended then ends in the run with all groups. */
static inline gint64 omitted_times(const Omitted *omitted, gint64 ended_ns) {
  const gboolean is_repeated = omitted != NULL && ended_ns > omitted->begin_ns && ended_ns <= omitted->end_ns;
  return is_repeated ? 1 + omitted->n_groups : 1;
}

/* How often op `i` of the list of pipeline rank `rank` is there in the run with all groups, its likes counted to one
 * group of them. */
static inline gint64 omitted_op_times(const Omitted *omitted, int rank, gint32 i) {
  if (omitted == NULL)
    return 1;
  const RepeatedOps *group = &omitted->repeats->lists[rank];
  return i >= group->first && i < group->first + group->n_ops ? 1 + omitted->n_groups : 1;
}
