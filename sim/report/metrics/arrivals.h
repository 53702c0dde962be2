/* When every side of a transfer was there. A record starts when its own rank is ready; what it then waits for and how
 * long the wire takes can only be told apart by looking at the partners' records. Works on measured and simulated
 * traces alike. */
#pragma once
#include "trace.h"

typedef struct Arrivals Arrivals;

Arrivals *arrivals_new(const Trace *trace);
void arrivals_free(Arrivals *arrivals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Arrivals, arrivals_free)

/* Fill ready_ns[i] for every op i of recorded rank `rank`: sends and receives, when the partner's record had started
 * too; collectives, when the last member's had; everything else, its own start. Never outside the op's own record. */
void arrivals_of_rank(const Arrivals *arrivals, int rank, gint64 *ready_ns);
