/* Records that follow from one another without a clock. Folded and without what makes ranks differ, an op's record is a
 * maximum and a sum of records before it in the Program's course (course.h), as long as transfers do not slow each
 * other. Where two transfers would share a way of a rank at the same time, this holds for what happens before: there
 * the clock takes over. */
#pragma once
#include "engine.h"

typedef struct Follow Follow;

/* NULL where records do not follow so: programs without a course, with sends that do not wait for their receive, of
 * ranks that differ, of times beyond minutes. `trace` is new. */
Follow *follow_new(const Simulation *simulation, Trace *trace);
void follow_free(Follow *follow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Follow, follow_free)

/* Fill all records that have no end yet, as if no transfer slowed another. What ends up to past_ns stands for good.
 * Returns about how many records may not. */
gint32 follow_records(Follow *follow, gint64 past_ns);
/* When the first transfer begins to share a way with one under way, of those that end after from_ns (−1: all), which
 * never grows less; G_MAXINT64: none does. */
gint64 follow_conflict_ns(Follow *follow, gint64 from_ns);
/* As many events as the clock has in all: it ends the members of a meeting by one, and so both ends of a transfer that
 * is no flow. */
guint64 follow_n_events(const Follow *follow);
