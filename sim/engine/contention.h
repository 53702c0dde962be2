/* Transfers that share a rank's links slow each other: each is a flow (flows.h) over the ways it takes out of and into
 * its ranks, with what it takes of them alone (WayLoad) as its cap. Alone it takes its own time to the nanosecond.
 *
 * Folded, a rank's ways are those of every rank it stands for: they do the same at the same time, so their flows are
 * alike, and a rank's part of a link that several ranks have in common is the whole of its own. */
#pragma once
#include "flows.h"
#include "omitted.h"
#include "trace.h"

typedef struct Contention Contention;

/* Whether some rank has two streams of transfers with ways in common. */
gboolean contention_is_possible(const Trace *trace);
/* Whether a run may last longer than flows' time goes (days), with what it leaves out (NULL: nothing), where no compute
 * op takes more than `slowest` times its time. */
gboolean contention_is_too_long(const Trace *trace, double slowest, const Omitted *omitted);
/* The same of so many steps, each of as many ops as the program's. */
gboolean contention_is_too_long_for(const Trace *trace, int n_steps);
/* NULL: no rank has two streams of transfers with ways in common, so none can be slowed; or the run may last longer
 * than flows' time goes (days). `slowest`: no compute op takes more than so many times its time. */
Contention *contention_new(const Trace *trace, double slowest);
void contention_free(Contention *contention);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Contention, contention_free)

/* No transfer is under way. */
gboolean contention_is_idle(const Contention *contention);
/* Whether a transfer (Program.transfers) is on any link: others take their own time and are not begun here. */
gboolean contention_takes(const Contention *contention, gint32 transfer);

/* Whether it waits before it takes its ways: then its begin may be told ahead of time. */
gboolean contention_may_begin_ahead(const Contention *contention, gint32 transfer);

/* A transfer begins at begin_ns; it is known by `lane`, of which one is under way at most. A send
 * between two recorded ranks; or a collective with these. Not before contention_now_ns(), nor after
 * contention_next_ns() unless it may begin ahead. */
void contention_send(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 from, gint32 to);
void contention_collective(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks);
/* Up to when all has happened. */
gint64 contention_now_ns(const Contention *contention);
/* When something happens next; G_MAXINT64: nothing does. */
gint64 contention_next_ns(Contention *contention);

typedef struct {
  gint32 lane;
  gint16 early_ticks; /* by how much it ended before */
  gint64 end_ns;      /* rounded up */
} TransferEnd;

/* A collective of one rank from its begin to its end at once, where but for it no transfer begins to take ways of the
 * rank or ends there before until_ns, as far as it goes. Its lane and end in *ended. FALSE: it is not as simple, or too
 * long; it has not begun then. Only of those that may begin ahead. */
gboolean contention_run_ahead(Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer, gint32 rank,
                              gint64 until_ns, TransferEnd *ended);
/* Of a transfer that began at begin_ns: no change on ways comes of it before then, its end among them. */
gint64 contention_quiet_until_ns(const Contention *contention, gint64 begin_ns, gint32 lane, gint32 transfer,
                                 gint32 rank);

/* A collective of one rank followed apart from all other flows (alone.c): two of them at most, which have the rank's
 * ways to themselves. */
typedef struct {
  gint32 transfer; /* −1: none is under way, and nothing else here means anything */
  FlowApart flow;
} ApartTransfer;

/* Only of those that may begin ahead. */
ApartTransfer contention_begin_apart(const Contention *contention, gint64 begin_ns, gint32 transfer);
/* One that has begun with the others, to be followed apart; transfer −1: none. FALSE: it, or some other, is not alone
 * on the rank's ways; nothing has changed. */
gboolean contention_take_out(Contention *contention, gint32 lane, gint32 transfer, gint32 rank, ApartTransfer *apart);
/* Back among the others: none of these may begin or end on the rank's ways before what has happened to it. */
void contention_put_back(Contention *contention, gint32 lane, gint32 rank, const ApartTransfer *apart);
/* The first of the two, which waits for its latency, up to its end, if that comes before until_ticks and nothing
 * happens to the other one up to then: its end in *ended, but for the lane. FALSE: at most it has begun to move. */
gboolean contention_end_apart(Contention *contention, ApartTransfer pair[2], gint64 until_ticks, TransferEnd *ended);
/* When something happens to one of the two next; TICKS_NEVER: to none. */
gint64 contention_next_apart_ticks(const ApartTransfer pair[2]);
/* All of it that happens at that moment. Of those that end then the transfer is −1, and *ended has their end, but for
 * the lane; of the others ended->end_ns is −1. */
void contention_advance_apart(Contention *contention, ApartTransfer pair[2], gint64 now_ticks, TransferEnd ended[2]);

/* Advance to contention_next_ns(). Returns the transfers that ended, in the order of (end, start): *n_ended of them,
 * until the next call. */
const TransferEnd *contention_advance(Contention *contention, gint32 *n_ended);
