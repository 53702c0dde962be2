/* Makes the records of a folded run in the order of its tape, each from earlier ones, as long as transfers do not slow
 * each other; from the first moment at which two would, a clock takes over (clock.h). */
#pragma once
#include "run_state.h"

/* Whether a run can be followed: it is folded, its ranks are alike, transfers have no taxes, and times are short
 * enough to be added without care. */
gboolean follow_can(const Run *run);
/* Returns the first moment at which a transfer begins on a way that another has not left: what ends before it has its
 * record. G_MAXINT64: there is no such moment, and all records are made. *n_made: the leading steps of the tape that
 * have a record. */
gint64 follow_to_conflict(const Run *run, gint32 *n_made);
