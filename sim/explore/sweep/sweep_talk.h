/* The messages between the ranks of a sweep. Private to the sweep.
 *
 *     first rank                        others
 *     SETUP facts, or nothing   ──►
 *                               ◄──     READY, or what is wrong there
 *     GO, what is done          ──►                 or nothing: do not go
 *                               ◄──     WANT        requests one range
 *     RANGE first, n            ──►                 no range: there are no more
 *                               ◄──     ROWS        of ranges tried
 *     STOP                      ──►                 at any time, once: start nothing new
 *                               ◄──     BYE         the last message; STOP follows, unless it was sent before */
#pragma once
#include "ranks.h"
#include "sweep_facts.h"
#include "sweep_pool.h"

typedef enum { TAG_SETUP, TAG_READY, TAG_GO, TAG_WANT, TAG_RANGE, TAG_ROWS, TAG_STOP, TAG_BYE } SweepTag;

/* What every rank's threads are given. Borrows from the arguments; `done`: indices, ascending. */
SweepProblem sweep_problem(const SweepSetup *setup, const SweepTable *table);
SweepPositions sweep_positions(const SweepSetup *setup, const GArray *done);

void facts_pack(const GArray *facts, GByteArray *bytes);
GArray *facts_unpack(const GByteArray *bytes);
/* INPUT naming the first that differs. */
gboolean facts_check_equal(const GArray *mine, const GArray *theirs, GError **error);
