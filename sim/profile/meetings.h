/* Collectives that several recorded ranks took part in: what they say of the ranks' clocks, and of who came late.
 *
 * A rank's collectives of one operation and group, in order, are those of another rank, shifted by as many as one of
 * them recorded more at its beginning or end: the shift at which their ends are equally far apart. What ends more than
 * 1 ms off that has not met. Where a file does not name groups, those on a stream of the same number are taken for one.
 * The members leave a collective together, so its ends tell how far their clocks are apart. */
#pragma once
#include "profile.h"

typedef struct {
  guint rank; /* place in the profile */
  gint32 activity;
} MeetingMember;

typedef struct {
  guint first, n; /* of the members */
} Meeting;

typedef struct {
  GArray *meetings; /* of Meeting, of at least two members; owned */
  GArray *members;  /* of MeetingMember, in the order of ranks; owned */
  gint64 n_unfit;   /* that were taken for the same, but ended at other times */
} Meetings;

Meetings *meetings_new(const Profile *profile);
void meetings_free(Meetings *meetings);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Meetings, meetings_free)

/* Sets every rank's offset_ns: the median of what the ends of its collectives with ranks already set are apart. 0 where
 * it shares none. */
void meetings_align(Profile *profile);

/* How late a rank was: the last to arrive costs the others what it came after the last but one. */
typedef struct {
  gint64 n_meetings, n_last;
  gint64 cost_ns;        /* sum over those where it was last */
  gint64 worst_ns;       /* of them */
  gint64 waited_ns;      /* sum: what it waited for the last */
  gint64 n_late_by_host; /* of n_last: issued only when the rank's stream was already free */
} RankLateness;

/* [ranks], with offsets applied, of meetings within the steps. Owned by the caller. */
RankLateness *meetings_lateness(const Profile *profile, const Meetings *meetings);
