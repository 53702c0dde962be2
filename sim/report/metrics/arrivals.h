/* When all parties to a transfer were ready. A record starts when its own rank is ready, so only the partners'
 * records separate the time spent waiting for them from the time on the wire. Works on measured and simulated traces
 * alike. */
#pragma once
#include "trace.h"

typedef struct Arrivals Arrivals;

Arrivals *arrivals_new(const Trace *trace);
void arrivals_free(Arrivals *arrivals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arrivals, arrivals_free)

/* Fill ready_ns[i] for every op i of recorded rank `rank`. A send or receive is ready once the partner's record has
 * started too, a collective once the last member's has, everything else at its own start. Always within the op's own
 * record. */
void arrivals_of_rank(const Arrivals *arrivals, int rank, gint64 *ready_ns);
