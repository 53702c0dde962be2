/* Makes the records of a folded run in the order of its tape, each from earlier ones, as long as transfers do not slow
 * each other; from the first moment at which two would, a clock takes over (clock.h). */
#pragma once
#include "run_state.h"

typedef struct Follow Follow;

/* Whether a run can be followed: it is folded, its ranks are alike, transfers have no taxes, and times are short
 * enough to be added without care. */
gboolean follow_can(const Run *run);
/* `run` is borrowed; its trace is new. */
Follow *follow_new(Run *run);
void follow_free(Follow *follow);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Follow, follow_free)

/* Fills the records that have no end yet, as if no transfer slowed another. Returns the first moment at which one
 * would: a transfer begins on a way that another has not left. Some records beyond that moment are made too.
 * G_MAXINT64: there is no such moment, and all records are made. Records that end up to past_ns are final; transfers
 * that end up to rest_ns (−1: none) share no way with a later one. Neither may decrease between calls. *n_made: about
 * how many of the new records are not final. */
gint64 follow_to_conflict(Follow *follow, gint64 past_ns, gint64 rest_ns, gint32 *n_made);
/* As of the last call: leading steps whose records are final, and those that have one. */
gint32 follow_n_past(const Follow *follow);
gint32 follow_n_made(const Follow *follow);
