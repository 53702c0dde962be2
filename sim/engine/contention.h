/* Transfers that share a rank's links slow each other down. Each transfer is a flow (flows.h) over the ways it takes
 * out of and into its ranks, capped at what it takes of them when alone (WayLoad). A transfer that is alone takes its
 * own time to the nanosecond.
 *
 * Folded, a rank's ways stand for those of every rank it represents: these do the same thing at the same time, so
 * their flows are alike. Of a link that several ranks share, each rank's part is treated as a link of its own. */
#pragma once
#include "omitted.h"
#include "trace.h"

typedef struct Contention Contention;

/* [program transfers] The ways that each takes, as bits; NULL: no rank has two streams of transfers with ways in
 * common. Owned by the caller. */
guint *contention_ways(const Trace *trace);
/* Whether the run, together with what it omits (NULL: nothing), may exceed the time range of flows (days). No compute
 * op takes more than `slowest` times its time. */
gboolean contention_is_too_long(const Trace *trace, double slowest, const Omitted *omitted);
/* For a trace whose transfers have ways in common, and that is not too long; of so many lanes. */
Contention *contention_new(const Trace *trace, gint32 n_lanes);
void contention_free(Contention *contention);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Contention, contention_free)

/* Whether the transfer has a latency before it takes its ways: its begin may then be announced ahead of time. */
gboolean contention_may_begin_ahead(const Contention *contention, gint32 transfer);

/* Begin a transfer that takes ways at begin_ns: a send between two recorded ranks, or a collective of these ranks.
 * `lane` identifies it; a lane has at most one transfer under way. begin_ns is not before the last end, and
 * not after the next event unless the transfer may begin ahead. */
void contention_send(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 from, gint32 to);
void contention_collective(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks);
typedef struct {
  gint32 lane;
  gint16 early_ticks; /* how long before end_ns it ended */
  gint64 end_ns;      /* rounded up */
} TransferEnd;

/* Advance to the next end of transfers, unless it is beyond until_ns. Returns the *n_ended that end then, valid until
 * the next call. */
const TransferEnd *contention_advance(Contention *contention, gint64 until_ns, gint32 *n_ended);
