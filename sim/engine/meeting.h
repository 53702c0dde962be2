/* Where the members of a collective meet. A group of the Program is many groups of ranks (its instances); each instance
 * has a few slots, one per collective it can have open at a time:
 *
 *   all members run the same list     a slot per stream: streams are in order and a collective ends for all members at
 *                                     once, so at most one is open on each
 *   members on several pipeline ranks a slot per collective of the group, counted along each list: these lists may put
 *                                     the k-th on different streams, and such collectives are few */
#pragma once
#include "task.h"

typedef struct {
  gint64 end_ns;    /* latest arrival + run so far */
  gint32 n_arrived; /* members there */
  gint32 last;      /* latest to arrive, as the caller counts them; −1 none */
} Meeting;

typedef struct {
  gint32 n_members, n_slots;
  gsize base;       /* first meeting of instance 0 */
  gint32 *instance; /* [recorded ranks]; owned */
} MeetingGroup;

typedef struct {
  MeetingGroup *groups; /* [program groups]; owned */
  Meeting *meetings;    /* owned */
  int n_groups;
} Meetings;

/* Also sets group and slot of the collective tasks in `lists`. */
void meetings_init(Meetings *meetings, const Trace *trace, TaskList *lists);
void meetings_clear(Meetings *meetings);

static inline Meeting *meetings_at(const Meetings *meetings, int rank, const Task *task, gint32 *n_members) {
  const MeetingGroup *group = &meetings->groups[task->group];
  *n_members = group->n_members;
  return &meetings->meetings[group->base + (gsize)group->instance[rank] * group->n_slots + task->slot];
}
