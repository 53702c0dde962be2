/* A flow passes through two events:
 *
 *     flows_start ──latency──► moves bytes ──at rates that change──► ends
 *                              joins its links                       leaves them
 *
 * A flow that joins or leaves a link makes it dirty. A flow that is, or becomes, alone on all its links gets the rate
 * of the narrowest at once. All other changes are solved before time is read or advances: the flows and links
 * connected to what is dirty are gathered (breadth first: link → its flows → their links …) and handed to max_min.c,
 * one connected part after another, each while it is in the cache. A flow whose rate stays the same is not touched:
 * its end stays in the queue. For one whose rate changes, the bytes so far are booked on its links and its end is
 * moved.
 *
 * Links of infinite capacity only count bytes: they connect nothing. */
#include "flow_state.h"

#include <math.h>

void flow_join_links(Flows *flows, const Flow *flow) {
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    LinkUse *use = &flows->uses[u];
    FlowLink *link = &flows->links[use->link];
    if (isinf(link->capacity_Bps))
      continue;
    use->next = link->first_use;
    use->prev = -1;
    if (use->next >= 0)
      flows->uses[use->next].prev = u;
    link->first_use = u;
    link->n_uses++;
    link->count += use->count;
  }
}

void flow_leave_links(Flows *flows, const Flow *flow) {
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    LinkUse *use = &flows->uses[u];
    FlowLink *link = &flows->links[use->link];
    if (isinf(link->capacity_Bps))
      continue;
    if (use->prev >= 0)
      flows->uses[use->prev].next = use->next;
    else
      link->first_use = use->next;
    if (use->next >= 0)
      flows->uses[use->next].prev = use->prev;
    link->count -= use->count;
    if (--link->n_uses > 0 && !link->is_dirty) {
      link->is_dirty = TRUE;
      flows->dirty_links[flows->n_dirty_links++] = use->link;
    }
  }
}

/* Books on the links the `bytes` (of one flow) moved since it was last settled. */
static void book(Flows *flows, gint32 id, double bytes) {
  const Flow *flow = &flows->flows[id];
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++)
    flows->books[flows->uses[u].link].moved_bytes += bytes * (double)flows->uses[u].count;
  if (flow->bound >= 0)
    flows->books[flow->bound].bound_flow_ticks +=
        (double)(flows->now_ticks - flow->settled_ticks) * (double)flows->parts[id].weight;
}

static void set_rate(Flows *flows, gint32 id, double rate_Bps, gint32 bound) {
  Flow *flow = &flows->flows[id];
  if (rate_Bps == flow->rate_Bps && bound == flow->bound)
    return;
  if (flow->rate_Bps > 0) {
    double bytes = flow_bytes_since_settled(flow, flows->now_ticks);
    if (flows->books != NULL)
      book(flows, id, bytes);
    flow->settled_ticks = flows->now_ticks;
    flow->remaining_bytes -= bytes;
    flow->bound = bound;
    if (rate_Bps == flow->rate_Bps)
      return;
    if (flows->queue.events[id].at == flows->next_ticks)
      flows->next_ticks = -1;
    event_queue_remove(&flows->queue, id);
  }
  flow->rate_Bps = rate_Bps;
  flow->bound = bound;
  flow_queue_event(flows, add_ticks(flows->now_ticks, ticks_of_s(flow->remaining_bytes / rate_Bps)), id);
}

/* Sets the rate of a flow if it is alone on its links; FALSE: it is not. */
static gboolean set_alone(Flows *flows, gint32 id) {
  const Flow *flow = &flows->flows[id];
  double rate_Bps = flow->cap_Bps;
  gint32 bound = -1;
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    const LinkUse *use = &flows->uses[u];
    const FlowLink *link = &flows->links[use->link];
    if (isinf(link->capacity_Bps))
      continue;
    if (link->n_uses != 1)
      return FALSE;
    double share_Bps = link->capacity_Bps / (double)use->count;
    if (share_Bps < rate_Bps || (share_Bps == rate_Bps && bound >= 0 && use->link < bound)) {
      rate_Bps = share_Bps;
      bound = use->link;
    }
  }
  set_rate(flows, id, rate_Bps, bound);
  return TRUE;
}

static inline void gather_link(Flows *flows, gint32 id) {
  FlowLink *link = &flows->links[id];
  if (link->seen == flows->epoch || link->n_uses == 0)
    return;
  link->seen = flows->epoch;
  flows->part_links[flows->n_part_links++] = id;
}

/* Of the links that a flow has to itself only the narrowest can bind it: the others are left out. */
static void gather_flow(Flows *flows, gint32 id) {
  const Flow *flow = &flows->flows[id];
  if (flows->parts[id].seen == flows->epoch)
    return;
  flows->parts[id].seen = flows->epoch;
  flows->part_flows[flows->n_part_flows++] = id;
  double least_Bps = INFINITY;
  gint32 narrowest = -1;
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    const LinkUse *use = &flows->uses[u];
    const FlowLink *link = &flows->links[use->link];
    if (link->n_uses != 1) {
      gather_link(flows, use->link);
      continue;
    }
    double share_Bps = link->capacity_Bps / (double)use->count;
    if (share_Bps < least_Bps || (share_Bps == least_Bps && use->link < narrowest)) {
      least_Bps = share_Bps;
      narrowest = use->link;
    }
  }
  if (narrowest >= 0)
    gather_link(flows, narrowest);
}

/* Solves everything connected to the part so far: one link or one flow, or nothing if that was already in a part of
 * this moment. */
static void solve_part(Flows *flows) {
  for (gint32 i = 0; i < flows->n_part_links; i++) /* n_part_links grows meanwhile */
    for (gint32 u = flows->links[flows->part_links[i]].first_use; u >= 0; u = flows->uses[u].next)
      gather_flow(flows, flows->uses[u].flow);
  if (flows->n_part_flows > 0) {
    max_min_solve(flows);
    flows->stats.n_solves++;
    flows->stats.n_rates += flows->n_part_flows;
  }
  for (gint32 i = 0; i < flows->n_part_flows; i++) {
    gint32 id = flows->part_flows[i];
    set_rate(flows, id, flows->parts[id].new_rate_Bps, flows->parts[id].new_bound);
  }
  flows->n_part_flows = flows->n_part_links = 0;
}

static void count_solved(Flows *flows, gint32 id) {
  flows->parts[id].seen = flows->epoch;
  flows->stats.n_rates++;
}

/* Two flows that share links with nobody else need no part. FALSE: this is not such a pair. */
static gboolean solve_pair(Flows *flows, gint32 id) {
  const gint32 pair[] = {id, max_min_solve_pair(flows, id)};
  if (pair[1] < 0)
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS(pair); i++) {
    count_solved(flows, pair[i]);
    set_rate(flows, pair[i], flows->parts[pair[i]].new_rate_Bps, flows->parts[pair[i]].new_bound);
  }
  flows->stats.n_solves++;
  return TRUE;
}

/* Solves for those that remain after a flow left the link. */
static void solve_left(Flows *flows, gint32 id) {
  const FlowLink *link = &flows->links[id];
  const gint32 first = link->n_uses > 0 ? flows->uses[link->first_use].flow : -1;
  if (first < 0 || flows->parts[first].seen == flows->epoch)
    return;
  if (link->n_uses == 1 && set_alone(flows, first)) {
    count_solved(flows, first);
    flows->stats.n_solves++;
  } else if (link->n_uses > 2 || !solve_pair(flows, first)) {
    gather_link(flows, id);
    solve_part(flows);
  }
}

/* Solves what changed at this moment. A flow that had met others when it began to move still meets them if nobody
 * left. */
static void solve_dirty(Flows *flows) {
  gint32 n_left = 0;
  for (gint32 i = 0; i < flows->n_dirty_flows; i++) {
    const gint32 id = flows->dirty_flows[i];
    if ((flows->n_dirty_links == 0 && flows->flows[id].has_met) || !set_alone(flows, id))
      flows->dirty_flows[n_left++] = id;
  }
  flows->n_dirty_flows = n_left;
  flows->epoch++;
  for (gint32 i = 0; i < flows->n_dirty_links; i++) {
    solve_left(flows, flows->dirty_links[i]);
    flows->links[flows->dirty_links[i]].is_dirty = FALSE;
  }
  for (gint32 i = 0; i < flows->n_dirty_flows; i++) {
    const gint32 id = flows->dirty_flows[i];
    if (flows->parts[id].seen == flows->epoch || solve_pair(flows, id))
      continue;
    gather_flow(flows, id);
    solve_part(flows);
  }
  flows->n_dirty_flows = flows->n_dirty_links = 0;
}

gint64 flows_next(Flows *flows) {
  if (flows_is_dirty(flows))
    solve_dirty(flows);
  if (flows->next_ticks < 0)
    flows->next_ticks = MIN(event_queue_next(&flows->queue), TICKS_NEVER);
  return flows->next_ticks;
}

gint32 flow_new(Flows *flows, const FlowRequest *request) {
  g_assert(request->weight >= 1 && request->bytes >= 0 && request->cap_Bps > 0);
  if (flows->free_flow < 0)
    flow_slots_add(flows);
  gint32 id = flows->free_flow, n = request->route.n_links, first = flow_slots_take_uses(flows, n);
  Flow *flow = &flows->flows[id];
  flows->free_flow = flow->first_use;
  *flow = (Flow){.remaining_bytes = request->bytes,
                 .cap_Bps = request->cap_Bps,
                 .tag = request->tag,
                 .sequence = flows->stats.n_starts++,
                 .first_use = first,
                 .n_uses = n,
                 .bound = -1,
                 .phase = FLOW_LATENT};
  if (flows->books != NULL)
    flows->parts[id].weight = request->weight;
  for (gint32 h = 0; h < n; h++) {
    gint64 count = request->counts != NULL ? request->counts[h] : 1;
    flows->uses[first + h] = (LinkUse){count * request->weight, request->route.links[h], id, -1, -1};
    g_assert(count >= 1 && flows->links[request->route.links[h]].capacity_Bps > 0);
  }
  flows->n_active++;
  return id;
}

static void add_flow(Flows *flows, gint64 at_ticks, const FlowRequest *request) {
  flow_queue_event(flows, add_ticks(at_ticks, request->route.latency_ticks), flow_new(flows, request));
}

void flows_start(Flows *flows, gint64 now_ticks, const FlowRequest *request) {
  g_assert(now_ticks >= flows->now_ticks);
  if (now_ticks > flows->now_ticks) {
    g_assert(now_ticks <= flows_next(flows));
    flows->now_ticks = now_ticks;
  }
  add_flow(flows, now_ticks, request);
}

void flows_start_later(Flows *flows, gint64 at_ticks, const FlowRequest *request) {
  g_assert(at_ticks >= flows->now_ticks && request->route.latency_ticks > 0);
  add_flow(flows, at_ticks, request);
}

static void end_flow(Flows *flows, gint32 id) {
  Flow *flow = &flows->flows[id];
  if (flows->n_ended == flows->n_ended_slots) {
    flows->n_ended_slots = MAX(2 * flows->n_ended_slots, 64);
    flows->ended = g_renew(FlowEnd, flows->ended, flows->n_ended_slots);
  }
  if (flows->books != NULL)
    book(flows, id, flow->remaining_bytes);
  flows->ended[flows->n_ended++] = (FlowEnd){flow->tag, flow->sequence, flows->now_ticks};
  flow_slots_release(flows, id);
}

static gboolean is_unbounded(const Flows *flows, const Flow *flow) {
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++)
    if (!isinf(flows->links[flows->uses[u].link].capacity_Bps))
      return FALSE;
  return isinf(flow->cap_Bps);
}

/* Whether the flow cannot end at the moment at which it begins to move. Then its rate when alone may be set at once,
 * while its links are in the cache; a flow that joins one of them at the same moment brings it into a part. */
static inline gboolean outlasts_now(const Flow *flow) {
  return ticks_of_s(flow->remaining_bytes / flow->cap_Bps) > 0;
}

static void happen(Flows *flows, gint32 id) {
  Flow *flow = &flows->flows[id];
  flows->stats.n_events++;
  if (flow->phase == FLOW_MOVING) {
    flow_leave_links(flows, flow);
    end_flow(flows, id);
    return;
  }
  flow->settled_ticks = flows->now_ticks;
  if (flow->remaining_bytes == 0 || is_unbounded(flows, flow)) {
    end_flow(flows, id);
    return;
  }
  flow->phase = FLOW_MOVING;
  flow_join_links(flows, flow);
  if (!outlasts_now(flow))
    flows->dirty_flows[flows->n_dirty_flows++] = id;
  else if (!set_alone(flows, id)) {
    flow->has_met = TRUE;
    flows->dirty_flows[flows->n_dirty_flows++] = id;
  }
}

/* Sorts flows that ended together by sequence: an end that was moved by a change of rate was queued late. Shell's
 * sort, as it needs no memory and the input is nearly always sorted. */
static void sort_ended(FlowEnd *ended, gint64 n) {
  gint64 gap = 0;
  for (gint64 i = 1; i < n && gap == 0; i++)
    if (ended[i - 1].sequence > ended[i].sequence)
      gap = MAX(n * 5 / 11, 1);
  for (; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
    for (gint64 i = gap; i < n; i++) {
      FlowEnd moving = ended[i];
      gint64 at = i;
      for (; at >= gap && ended[at - gap].sequence > moving.sequence; at -= gap)
        ended[at] = ended[at - gap];
      ended[at] = moving;
    }
}

gint32 flows_advance(Flows *flows, gint64 to_ticks) {
  g_assert(to_ticks >= flows->now_ticks);
  flows->n_ended = 0;
  for (gint64 at_ticks; (at_ticks = flows_next(flows)) <= to_ticks && at_ticks < TICKS_NEVER;) {
    gint32 n_before = flows->n_ended;
    flows->now_ticks = at_ticks;
    do {
      happen(flows, event_queue_take(&flows->queue));
    } while (flows->queue.used & 1);
    flows->next_ticks = -1;
    if (flows->n_ended > n_before)
      sort_ended(flows->ended + n_before, flows->n_ended - n_before);
  }
  flows->now_ticks = to_ticks;
  return flows->n_ended;
}

const FlowEnd *flows_ended(const Flows *flows) {
  return flows->ended;
}

gint64 flows_now(const Flows *flows) {
  return flows->now_ticks;
}

gint32 flows_n_active(const Flows *flows) {
  return flows->n_active;
}

void flows_rates(const Flows *flows, double *rates_Bps, guint64 n) {
  g_assert(!flows_is_dirty(flows));
  for (gint32 f = 0; f < flows->n_flow_slots; f++)
    if (flows->flows[f].phase != FLOW_FREE && flows->flows[f].tag < n)
      rates_Bps[flows->flows[f].tag] = flows->flows[f].rate_Bps;
}

void flows_bounds(const Flows *flows, gint32 *bounds, guint64 n) {
  for (gint32 f = 0; f < flows->n_flow_slots; f++)
    if (flows->flows[f].phase != FLOW_FREE && flows->flows[f].tag < n)
      bounds[flows->flows[f].tag] = flows->flows[f].bound;
}

LinkLoad flows_link_load(const Flows *flows, gint32 id) {
  g_assert(flows->books != NULL);
  LinkLoad load = {flows->books[id].moved_bytes, flows->books[id].bound_flow_ticks};
  for (gint32 u = flows->links[id].first_use; u >= 0; u = flows->uses[u].next) {
    const Flow *flow = &flows->flows[flows->uses[u].flow];
    load.moved_bytes += flow_bytes_since_settled(flow, flows->now_ticks) * (double)flows->uses[u].count;
    if (flow->bound == id)
      load.bound_flow_s +=
          (double)(flows->now_ticks - flow->settled_ticks) * (double)flows->parts[flows->uses[u].flow].weight;
  }
  load.bound_flow_s /= TICKS_PER_S;
  return load;
}

FlowsStats flows_stats(const Flows *flows) {
  return flows->stats;
}
