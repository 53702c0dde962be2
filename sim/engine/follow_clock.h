/* The clock of records that follow from one another in a course, for where transfers slow each other (follow.h). */
#pragma once
#include "follow.h"

typedef struct FollowClock FollowClock;

/* At the beginning of time. */
FollowClock *follow_clock_new(Follow *follow, const Simulation *simulation);
void follow_clock_free(FollowClock *clock);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(FollowClock, follow_clock_free)

/* Records that end at now_ns, a conflict, or later are made anew: until transfers are at rest after n_least events or
 * more (FALSE), or to the end of the run (TRUE). n_least 0: to the end, without a look at rest. */
gboolean follow_clock_run(FollowClock *clock, gint64 now_ns, guint64 n_least);
/* After a turn that came to rest: what ends up to then stands for good. */
gint64 follow_clock_past_ns(const FollowClock *clock);
/* And up to then transfers have ended that share with none after it. */
gint64 follow_clock_rest_ns(const FollowClock *clock);
guint64 follow_clock_n_events(const FollowClock *clock);
