/* Flows taken out of the network and put back. The caller guarantees that nobody else uses their links meanwhile, so
 * the only rates to solve for are those of two such flows beside each other. */
#include "flow_state.h"

gboolean flows_are_free(const Flows *flows, gint32 first, gint32 end) {
  for (gint32 link = first; link < end; link++)
    if (flows->links[link].n_uses > 0)
      return FALSE;
  return TRUE;
}

/* The flow with this tag; −1: none. */
static gint32 find_tag(const Flows *flows, guint64 tag) {
  for (gint32 id = 0; id < flows->n_flow_slots; id++)
    if (flows->flows[id].phase != FLOW_FREE && flows->flows[id].tag == tag)
      return id;
  return -1;
}

/* Whether a moving flow uses only links first … end − 1, and nobody else uses them. */
static gboolean has_to_itself(const Flows *flows, gint32 id, gint32 first, gint32 end) {
  const Flow *flow = &flows->flows[id];
  gint32 n_uses = 0;
  for (gint32 link = first; link < end; link++)
    n_uses += flows->links[link].n_uses;
  if (n_uses != flow->n_uses)
    return FALSE;
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++)
    if (flows->uses[u].link < first || flows->uses[u].link >= end)
      return FALSE;
  return TRUE;
}

gboolean flows_take_out(Flows *flows, gint32 first, gint32 end, guint64 tag, FlowApart *apart) {
  const gint32 id = find_tag(flows, tag);
  g_assert(!flows_is_dirty(flows));
  if (id < 0)
    return FALSE;
  const Flow *flow = &flows->flows[id];
  const gboolean moves = flow->phase == FLOW_MOVING;
  if (moves ? !has_to_itself(flows, id, first, end) : !flows_are_free(flows, first, end))
    return FALSE;
  const gint64 at_ticks = flows->queue.events[id].at;
  *apart = (FlowApart){at_ticks, moves, flow->bound, flow->rate_Bps, flow->remaining_bytes, flow->settled_ticks};
  if (moves)
    flow_leave_links(flows, flow);
  if (at_ticks == flows->next_ticks)
    flows->next_ticks = -1;
  event_queue_remove(&flows->queue, id);
  flow_slots_release(flows, id);
  return TRUE;
}

void flows_put_back(Flows *flows, const FlowRequest *request, const FlowApart *apart) {
  g_assert(flows->books == NULL && apart->at_ticks >= flows->now_ticks);
  const gint32 id = flow_new(flows, request);
  Flow *flow = &flows->flows[id];
  flow_queue_event(flows, apart->at_ticks, id);
  if (!apart->moves)
    return;
  flow->phase = FLOW_MOVING;
  flow->bound = apart->bound;
  flow->rate_Bps = apart->rate_Bps;
  flow->remaining_bytes = apart->remaining_bytes;
  flow->settled_ticks = apart->settled_ticks;
  flow_join_links(flows, flow);
}

gboolean flows_rates_of_two(Flows *flows, const FlowRequest requests[2], double rates_Bps[2], gint32 bounds[2]) {
  const gint32 ids[] = {flow_new(flows, &requests[0]), flow_new(flows, &requests[1])};
  for (int i = 0; i < 2; i++)
    flow_join_links(flows, &flows->flows[ids[i]]);
  const gboolean is_pair = max_min_solve_pair(flows, ids[0]) == ids[1];
  for (int i = 0; i < 2; i++) {
    rates_Bps[i] = flows->parts[ids[i]].new_rate_Bps;
    bounds[i] = flows->parts[ids[i]].new_bound;
    flow_leave_links(flows, &flows->flows[ids[i]]);
    flow_slots_release(flows, ids[i]);
  }
  g_assert(is_pair == (flows->n_dirty_links > 0)); /* the first leaves what it shares to the second */
  for (gint32 i = 0; i < flows->n_dirty_links; i++)
    flows->links[flows->dirty_links[i]].is_dirty = FALSE;
  flows->n_dirty_links = 0;
  return is_pair;
}
