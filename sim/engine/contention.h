/* Transfers that share a rank's links slow each other down. Each transfer is a flow (flows.h) over the ways it takes
 * out of and into its ranks, capped at what it takes of them when alone (WayLoad). A transfer that is alone takes its
 * own time to the nanosecond.
 *
 * Folded, a rank's ways stand for those of every rank it represents: these do the same thing at the same time, so
 * their flows are alike. Of a link that several ranks share, each rank's part is treated as a link of its own. */
#pragma once
#include "flows.h"
#include "omitted.h"
#include "trace.h"

typedef struct Contention Contention;

/* Whether some rank has two streams of transfers with ways in common. */
gboolean contention_is_possible(const Trace *trace);
/* Whether the run, together with what it omits (NULL: nothing), may exceed the time range of flows (days). No compute
 * op takes more than `slowest` times its time. */
gboolean contention_is_too_long(const Trace *trace, double slowest, const Omitted *omitted);
/* NULL if no transfer can be slowed (no rank has two streams of transfers with ways in common) or if the run may
 * exceed the time range of flows (days). `slowest`: no compute op takes more than this many times its time. */
Contention *contention_new(const Trace *trace, double slowest);
void contention_free(Contention *contention);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Contention, contention_free)

/* Whether a transfer (Program.transfers) uses any link. The others take their own time and are not begun here. */
gboolean contention_takes(const Contention *contention, gint32 transfer);

/* Whether the transfer has a latency before it takes its ways: its begin may then be announced ahead of time. */
gboolean contention_may_begin_ahead(const Contention *contention, gint32 transfer);

/* Begin a transfer at begin_ns: a send between two recorded ranks, or a collective of these ranks. `lane` identifies
 * it; a lane has at most one transfer under way. begin_ns is not before the last event, and ≤ contention_next_ns()
 * unless the transfer may begin ahead. */
void contention_send(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 from, gint32 to);
void contention_collective(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks);
/* The time of the next event; G_MAXINT64: none. */
gint64 contention_next_ns(Contention *contention);

typedef struct {
  gint32 lane;
  gint16 early_ticks; /* how long before end_ns it ended */
  gint64 end_ns;      /* rounded up */
} TransferEnd;

/* Run a collective of one rank from begin to end in one call. The caller guarantees that no other transfer starts to
 * take the rank's ways, or ends on them, before until_ns. Fills *ended with the lane and the end. FALSE: the case is
 * not that simple, or the collective ends too late; it has not begun. Only for transfers that may begin ahead. */
gboolean contention_run_ahead(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 rank,
                              gint64 until_ns, TransferEnd *ended);
/* The time before which a transfer that began at begin_ns changes nothing on its ways; its end counts as a change. */
gint64 contention_undisturbed_until_ns(const Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer,
                                       gint32 rank);

/* A collective of one rank, followed apart from all other flows (run_alone.c). There are at most two, and they have the
 * rank's ways to themselves. */
typedef struct {
  gint32 transfer; /* −1: none is under way, and the other fields mean nothing */
  FlowApart flow;
} ApartTransfer;

/* Only for transfers that may begin ahead. */
ApartTransfer contention_begin_apart(const Contention *contention, gint64 begin_ns, gint32 transfer);
/* Take out a transfer that began among the others, to follow it apart; transfer −1: none. FALSE: this transfer or
 * another one shares the rank's ways; nothing has changed. */
gboolean contention_take_out(Contention *contention, gint32 lane, gint32 transfer, gint32 rank, ApartTransfer *apart);
/* Put it back among the others. None of them may begin or end on the rank's ways before the time this transfer has
 * reached. */
void contention_put_back(Contention *contention, gint32 lane, gint32 rank, const ApartTransfer *apart);
/* Run the first of the two, which is in its latency, to its end if that comes before until_ticks and nothing happens
 * to the other one until then. *ended gets its end, without the lane. FALSE: it has not ended, though it may have
 * begun to move. */
gboolean contention_end_apart(Contention *contention, ApartTransfer pair[2], gint64 until_ticks, TransferEnd *ended);
/* The time of the next event of either; TICKS_NEVER: none. */
gint64 contention_next_apart_ticks(const ApartTransfer pair[2]);
/* Process everything that happens to the two at now_ticks. For one that ends then, transfer becomes −1 and *ended
 * gets its end, without the lane; for the other, ended->end_ns is −1. */
void contention_advance_apart(Contention *contention, ApartTransfer pair[2], gint64 now_ticks, TransferEnd ended[2]);

/* Advance to contention_next_ns(). Returns the *n_ended transfers that ended, ordered by (end, start); valid until
 * the next call. */
const TransferEnd *contention_advance(Contention *contention, gint32 *n_ended);
