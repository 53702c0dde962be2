/* Where the members of a collective meet. A group of the Program is many groups of ranks (its instances); each instance
 * has a few slots, one per collective it can have open at a time:
 *
 *   all members run the same list      a slot per stream: streams are in order and a collective ends for all members at
 *                                      once, so at most one is open on each
 *   members on several pipeline ranks  a slot per collective of the group, counted along each list: these lists may put
 *                                      the k-th on different streams, and such collectives are few */
#pragma once
#include "trace.h"

typedef struct {
  gint64 end_ns;    /* latest arrival + run so far */
  gint32 n_arrived; /* members there */
  gint32 last;      /* latest to arrive, as the caller counts them; −1 none */
} Meeting;

typedef struct {
  gboolean spans_pp;
  gint32 n_members, n_slots;
  gint32 n_in_list;                 /* spans_pp: collectives numbered so far in the list at hand */
  gint32 slot_of_stream[N_STREAMS]; /* else: −1 none yet */
  gsize base;                       /* first meeting of instance 0 */
  gint32 *instance;                 /* [recorded ranks]; owned */
} MeetingGroup;

typedef struct {
  MeetingGroup *groups; /* [program groups]; owned */
  Meeting *meetings;    /* owned */
  int n_groups;
  gsize n_meetings;
} Meetings;

/* In this order: init; for each op list begin it and number its collectives; finish, which makes room. */
void meetings_init(Meetings *meetings, const Program *program);
void meetings_begin_list(Meetings *meetings);
gint32 meetings_number(Meetings *meetings, gint32 group, Stream stream); /* slot of the list's next collective */
void meetings_finish(Meetings *meetings, const Trace *trace);
void meetings_clear(Meetings *meetings);

static inline Meeting *meetings_at(const Meetings *meetings, int rank, gint32 group_index, gint32 slot,
                                   gint32 *n_members) {
  const MeetingGroup *group = &meetings->groups[group_index];
  *n_members = group->n_members;
  return &meetings->meetings[group->base + (gsize)group->instance[rank] * group->n_slots + slot];
}
