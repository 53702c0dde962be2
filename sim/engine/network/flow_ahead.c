/* Runs a flow to its end in one call, while time stands still for all others. It shares its links with at most one
 * other flow, which shares links with nobody else. So only the rates of these two matter: before, during and after
 * their meeting. The other flow's bytes are settled at the two moments at which its rate changes, as if time had
 * passed.
 *
 *     the other    ═══════╤═══════════╤═══════►      settled at both, its end queued anew
 *     this one     latency└── bytes ──┘ */
#include "flow_state.h"

#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

/* The flow on the links of the route; NOBODY or SEVERAL. */
static gint32 find_beside(const Flows *flows, const NetRoute *route) {
  gint32 beside = NOBODY;
  for (gint32 h = 0; h < route->n_links; h++) {
    const FlowLink *link = &flows->links[route->links[h]];
    if (link->n_uses == 0)
      continue;
    const gint32 id = flows->uses[link->first_use].flow;
    if (link->n_uses > 1 || (beside >= 0 && id != beside))
      return SEVERAL;
    beside = id;
  }
  return beside;
}

/* Whether nobody else is on the flow's links, and all of these are among first … end − 1. */
static gboolean is_alone_among(const Flows *flows, const Flow *flow, gint32 first, gint32 end) {
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    const gint32 link = flows->uses[u].link;
    if (link < first || link >= end || flows->links[link].n_uses > 1)
      return FALSE;
  }
  return TRUE;
}

static double rate_alone_Bps(const Flows *flows, const FlowRequest *request) {
  double rate_Bps = request->cap_Bps;
  for (gint32 h = 0; h < request->route.n_links; h++) {
    const gint64 count = (request->counts != NULL ? request->counts[h] : 1) * request->weight;
    rate_Bps = MIN(rate_Bps, flows->links[request->route.links[h]].capacity_Bps / (double)count);
  }
  return rate_Bps;
}

/* Solves the pair by adding the new flow to its links and removing it again. NULL: the two are not a pair; nothing
 * has changed. */
static const FlowsMet *meet(Flows *flows, const FlowRequest *request, FlowsMet met[FLOWS_N_MET]) {
  const gint32 id = flow_new(flows, request);
  flow_join_links(flows, &flows->flows[id]);
  const gint32 other = max_min_solve_pair(flows, id);
  if (other >= 0) {
    memmove(&met[1], &met[0], sizeof *met * (FLOWS_N_MET - 1));
    met[0] = (FlowsMet){TRUE, flows->flows[other].tag, flows->parts[id].new_rate_Bps, flows->parts[other].new_rate_Bps,
                        flows->parts[other].new_bound};
  }
  flow_leave_links(flows, &flows->flows[id]);
  for (gint32 i = 0; i < flows->n_dirty_links; i++)
    flows->links[flows->dirty_links[i]].is_dirty = FALSE;
  flows->n_dirty_links = 0;
  flow_slots_release(flows, id);
  flows->stats.n_starts--;
  return other >= 0 ? met : NULL;
}

static const FlowsMet *find_met(Flows *flows, const FlowRequest *request, gint32 beside, FlowsMet met[FLOWS_N_MET]) {
  for (int i = 0; i < FLOWS_N_MET; i++)
    if (met[i].is_known && met[i].other == flows->flows[beside].tag)
      return &met[i];
  return meet(flows, request, met);
}

/* The end of a flow under way if its rate changes to rate_Bps at at_ticks. */
static gint64 end_with(const Flows *flows, gint32 id, gint64 at_ticks, double rate_Bps) {
  const Flow *flow = &flows->flows[id];
  if (rate_Bps == flow->rate_Bps)
    return flows->queue.events[id].at;
  const double left_bytes = flow->remaining_bytes - flow_bytes_since_settled(flow, at_ticks);
  return add_ticks(at_ticks, ticks_of_s(left_bytes / rate_Bps));
}

static void settle(Flow *flow, gint64 at_ticks) {
  flow->remaining_bytes -= flow_bytes_since_settled(flow, at_ticks);
  flow->settled_ticks = at_ticks;
}

/* Flow `beside` shares links from begin_ticks to end_ticks, and then has them to itself again. */
static void share(Flows *flows, gint32 beside, gint64 begin_ticks, gint64 end_ticks, const FlowsMet *met) {
  Flow *flow = &flows->flows[beside];
  const double alone_Bps = flow->rate_Bps;
  g_assert(flow->settled_ticks <= begin_ticks);
  if (met->other_rate_Bps == alone_Bps && met->other_bound == flow->bound)
    return;
  settle(flow, begin_ticks);
  flow->rate_Bps = met->other_rate_Bps;
  settle(flow, end_ticks);
  flow->rate_Bps = alone_Bps;
  if (met->other_rate_Bps == alone_Bps) /* its end in the queue still holds */
    return;
  if (flows->queue.events[beside].at == flows->next_ticks)
    flows->next_ticks = -1;
  event_queue_remove(&flows->queue, beside);
  flow_queue_event(flows, add_ticks(end_ticks, ticks_of_s(flow->remaining_bytes / alone_Bps)), beside);
}

gint64 flows_run_ahead(Flows *flows, gint64 at_ticks, const FlowRequest *request, gint32 first, gint32 end,
                       gint64 until_ticks, FlowsMet met[FLOWS_N_MET]) {
  g_assert(at_ticks >= flows->now_ticks && request->route.latency_ticks > 0 && flows->books == NULL);
  g_assert(!flows_is_dirty(flows));
  const gint64 begin_ticks = add_ticks(at_ticks, request->route.latency_ticks);
  const gint32 beside = find_beside(flows, &request->route);
  if (beside == SEVERAL || ticks_of_s(request->bytes / request->cap_Bps) == 0)
    return -1;
  gint64 end_ticks = add_ticks(begin_ticks, ticks_of_s(request->bytes / rate_alone_Bps(flows, request)));
  if (end_ticks >= until_ticks)
    return -1;
  if (beside != NOBODY) {
    if (!is_alone_among(flows, &flows->flows[beside], first, end) || flows->queue.events[beside].at <= begin_ticks)
      return -1;
    const FlowsMet *pair = find_met(flows, request, beside, met);
    if (pair == NULL)
      return -1;
    end_ticks = add_ticks(begin_ticks, ticks_of_s(request->bytes / pair->rate_Bps));
    if (end_ticks >= until_ticks || end_with(flows, beside, begin_ticks, pair->other_rate_Bps) <= end_ticks)
      return -1;
    share(flows, beside, begin_ticks, end_ticks, pair);
  }
  flows->stats.n_starts++;
  flows->stats.n_events += 2;
  return end_ticks;
}

gint64 flows_end_alone(const Flows *flows, gint32 first, gint32 end, guint64 tag) {
  g_assert(!flows_is_dirty(flows));
  for (gint32 link = first; link < end; link++)
    for (gint32 u = flows->links[link].first_use; u >= 0; u = flows->uses[u].next) {
      const gint32 id = flows->uses[u].flow;
      if (flows->flows[id].tag == tag)
        return is_alone_among(flows, &flows->flows[id], first, end) ? flows->queue.events[id].at : -1;
    }
  return -1;
}
