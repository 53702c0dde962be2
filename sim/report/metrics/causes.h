/* What each op of a trace waited for: the record that ended, or that came, last before it could go on. */
#pragma once
#include "trace.h"

/* [records] the record that let op i of rank r go on, at first[r] + i:
 *
 *     its partner's, or the last member's that came to a collective, if that came after the op itself was ready
 *     else, of the ops that it follows on its rank (its `after`, the op before on its stream), the one that ended last
 *     if the host issued it later than that: the op that kept the host until then
 *     −1: nothing but the host's own time
 *
 * Following it from the end of a step backwards gives the critical path. Owned by the caller. INPUT or IMPOSSIBLE as
 * program_match(). */
gint64 *causes_of(const Trace *trace, GError **error);

/* Whether each record is on that path: from the last record to end, back to the begin of the last step. [records];
 * owned by the caller. */
guint8 *causes_critical(const Trace *trace, const gint64 *causes);
