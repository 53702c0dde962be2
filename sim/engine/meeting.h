/* Where the members of a collective meet. A group of the Program is many groups of ranks (its instances). Each
 * instance has a few slots, one per collective that can be open at a time:
 *
 *   all members run the same list      one slot per stream: a stream is in order and a collective ends for all its
 *                                      members at once, so at most one is open on each
 *   members on several pipeline ranks  one slot per collective of the group, counted along each list: the lists may
 *                                      put the k-th on different streams, and such collectives are few */
#pragma once
#include "tape.h"
#include "trace.h"

typedef struct {
  gint64 end_ns;    /* latest (arrival + run) so far */
  gint32 n_arrived; /* members that have arrived */
  gint32 last;      /* latest to arrive, in the caller's numbering; −1 none */
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

void meetings_init(Meetings *meetings, const Trace *trace, const Tape *tape);
void meetings_clear(Meetings *meetings);

/* `slot`: the stream, or the number of the collective in its list among those of its group (Tape.match). Not of a group
 * of alike ranks in a folded run, where nobody else arrives. */
static inline Meeting *meetings_at(const Meetings *meetings, int rank, gint32 group_index, gint32 slot,
                                   gint32 *n_members) {
  const MeetingGroup *group = &meetings->groups[group_index];
  *n_members = group->n_members;
  return &meetings->meetings[group->base + (gsize)group->instance[rank] * group->n_slots + slot];
}
