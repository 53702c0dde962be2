/* flows.h for folded runs, where a flow is on one rank's ways or two, and meets few others there. The results are the
 * same, bit for bit; it takes a fraction of the time. A flow is named by the lane whose transfer it is. */
#pragma once
#include "demand.h"
#include "ticks.h"

typedef struct RankFlows RankFlows;

/* `demands`: [n_transfers], borrowed. Lanes and ranks from 0. */
RankFlows *rank_flows_new(const Demand *demands, gint32 n_transfers, gint32 n_ranks, gint32 n_lanes);
void rank_flows_free(RankFlows *flows);

/* At rank_flows_now() or later; without a latency before anything else is due. */
void rank_flows_send(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, gint32 from, gint32 to);
void rank_flows_collective(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks);
gint64 rank_flows_now(const RankFlows *flows);
/* Advances to the next end, if that is not beyond until_ticks (TICKS_NEVER: whenever it is). Returns how many flows end
 * then, and their lanes; valid until the next call. 0: none ends by then. */
gint32 rank_flows_advance(RankFlows *flows, gint64 until_ticks, const gint32 **lanes);
