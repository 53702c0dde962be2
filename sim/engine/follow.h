/* Records that follow from one another without a clock. Folded and without what makes ranks differ, an op's record is a
 * maximum and a sum of records before it in the Program's course (course.h), as long as transfers do not slow each
 * other. Where two transfers would share a way of a rank at the same time, this holds for what happens before: there
 * a clock of its own takes over (follow_clock.h). */
#pragma once
#include "engine.h"

typedef struct Follow Follow;

/* NULL where records do not follow so: programs without a course, with sends that do not wait for their receive, of
 * ranks that differ, of times beyond minutes. `trace` is new. */
Follow *follow_new(const Simulation *simulation, Trace *trace);
void follow_free(Follow *follow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Follow, follow_free)

/* Fill records that have no end yet, as if no transfer slowed another, up to the first moment at which one would: when
 * a transfer begins to share a way with one under way. That moment is the result, and some records beyond it are made;
 * G_MAXINT64: there is none, and all are. What ends up to past_ns stands for good, and transfers that end up to rest_ns
 * (−1: none do) share with none after it; neither ever grows less. *n_made: about how many records may not stand. */
gint64 follow_to_conflict(Follow *follow, gint64 past_ns, gint64 rest_ns, gint32 *n_made);
/* Records that stand for good, as of the last call of follow_to_conflict(). */
guint64 follow_n_past(const Follow *follow);
/* As many events as the clock of engine.c has in all: it ends the members of a meeting by one, and so both ends of a
 * transfer that is no flow. */
guint64 follow_n_events(const Follow *follow);
