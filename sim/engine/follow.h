/* Makes records without a clock. In a folded run where nothing makes ranks differ, an op's record is a maximum and a
 * sum of earlier records in the Program's course (course.h), as long as transfers do not slow each other. This holds
 * up to the first moment at which two transfers would share a way of a rank; from there a clock takes over
 * (follow_clock.h). */
#pragma once
#include "engine.h"

typedef struct Follow Follow;

/* NULL where this does not apply: the program has no course, sends complete without their receive, ranks differ, or
 * times exceed minutes. `trace` is new. */
Follow *follow_new(const Simulation *simulation, Trace *trace);
void follow_free(Follow *follow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Follow, follow_free)

/* Fills the records that have no end yet, as if no transfer slowed another. Returns the first moment at which one
 * would: a transfer begins on a way that another has not left. Some records beyond that moment are made too.
 * G_MAXINT64: there is no such moment, and all records are made. Records that end up to past_ns are final; transfers
 * that end up to rest_ns (−1: none) share no way with a later one. Neither may decrease between calls. *n_made: about
 * how many of the new records are not final. */
gint64 follow_to_conflict(Follow *follow, gint64 past_ns, gint64 rest_ns, gint32 *n_made);
/* The number of final records at the last call of follow_to_conflict(). */
guint64 follow_n_past(const Follow *follow);
/* As many events as the clock of engine.c would take in all: it ends the members of a meeting with one event, and
 * likewise both ends of a transfer that is no flow. */
guint64 follow_n_events(const Follow *follow);
