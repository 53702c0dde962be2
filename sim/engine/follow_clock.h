/* The clock that makes the records of a course where transfers slow each other (follow.h). */
#pragma once
#include "follow.h"

typedef struct FollowClock FollowClock;

/* Starts at time 0. */
FollowClock *follow_clock_new(Follow *follow, const Simulation *simulation);
void follow_clock_free(FollowClock *clock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FollowClock, follow_clock_free)

/* Makes anew the records that end at now_ns (a conflict) or later. Stops when transfers come to rest after at least
 * n_least events (FALSE), or at the end of the run (TRUE). n_least 0: runs to the end without testing for rest. */
gboolean follow_clock_run(FollowClock *clock, gint64 now_ns, guint64 n_least);
/* After a turn that came to rest: records that end up to this time are final. */
gint64 follow_clock_past_ns(const FollowClock *clock);
/* After a turn that came to rest: transfers that end up to this time share no way with a later one. */
gint64 follow_clock_rest_ns(const FollowClock *clock);
guint64 follow_clock_n_events(const FollowClock *clock);
