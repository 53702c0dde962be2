/* Flows and their uses of links occupy slots that are reused once a flow has ended. Free flows form a chain, and so
 * do free blocks of uses, one chain per length. */
#include "flow_state.h"

#include <string.h>

Flows *flows_new(const Network *network) {
  gint32 n_links = network_n_links(network);
  g_autofree double *capacity_Bps = g_new(double, n_links);
  for (gint32 i = 0; i < n_links; i++)
    capacity_Bps[i] = network_link(network, i)->capacity_Bps;
  return flows_new_on_links(capacity_Bps, n_links);
}

Flows *flows_new_with_loads(const Network *network) {
  Flows *flows = flows_new(network);
  flows->books = g_new0(LinkBooks, flows->n_links);
  return flows;
}

/* Grows an array from `had` to `have` elements; unlike g_renew() it keeps it aligned to cache lines. */
static gpointer widen(gpointer array, gsize had, gsize have, gsize size) {
  gpointer wider = g_aligned_alloc(have, size, FLOW_LINE_BYTES);
  if (had > 0)
    memcpy(wider, array, had * size);
  g_aligned_free(array);
  return wider;
}

Flows *flows_new_on_links(const double *capacity_Bps, gint32 n_links) {
  Flows *flows = g_new0(Flows, 1);
  flows->n_links = n_links;
  flows->links = g_aligned_alloc((gsize)MAX(n_links, 1), sizeof(FlowLink), FLOW_LINE_BYTES);
  for (gint32 i = 0; i < flows->n_links; i++)
    flows->links[i] = (FlowLink){.capacity_Bps = capacity_Bps[i], .first_use = -1};
  flows->dirty_links = g_new(gint32, flows->n_links);
  flows->part_links = g_new(gint32, flows->n_links);
  flows->touched = g_new(gint32, flows->n_links);
  flows->heap = g_new(LinkShare, flows->n_links);
  flows->free_uses = g_array_new(FALSE, FALSE, sizeof(gint32));
  flows->free_flow = -1;
  flows->next_ticks = TICKS_NEVER;
  event_queue_init(&flows->queue, 0);
  return flows;
}

void flows_free(Flows *flows) {
  if (flows == NULL)
    return;
  g_aligned_free(flows->flows);
  g_free(flows->parts);
  g_aligned_free(flows->uses);
  g_array_free(flows->free_uses, TRUE);
  g_aligned_free(flows->links);
  g_free(flows->books);
  event_queue_clear(&flows->queue);
  g_free(flows->ended);
  g_free(flows->dirty_flows);
  g_free(flows->dirty_links);
  g_free(flows->part_flows);
  g_free(flows->part_links);
  g_free(flows->touched);
  g_free(flows->heap);
  g_free(flows);
}

void flow_slots_add(Flows *flows) {
  gint32 had = flows->n_flow_slots, have = MAX(2 * had, 64);
  flows->flows = widen(flows->flows, (gsize)had, (gsize)have, sizeof(Flow));
  flows->parts = g_renew(FlowPart, flows->parts, have);
  flows->dirty_flows = g_renew(gint32, flows->dirty_flows, have);
  flows->part_flows = g_renew(gint32, flows->part_flows, have);
  flows->heap = g_renew(LinkShare, flows->heap, flows->n_links + have);
  event_queue_grow(&flows->queue, have);
  for (gint32 f = have; f-- > had;) {
    flows->flows[f] = (Flow){.first_use = flows->free_flow, .phase = FLOW_FREE};
    flows->parts[f] = (FlowPart){0};
    flows->free_flow = f;
  }
  flows->n_flow_slots = have;
}

gint32 flow_slots_take_uses(Flows *flows, gint32 n) {
  while (flows->free_uses->len <= (guint)n) {
    gint32 none = -1;
    g_array_append_val(flows->free_uses, none);
  }
  gint32 *free_block = &g_array_index(flows->free_uses, gint32, n), first = *free_block;
  if (n == 0)
    return 0;
  if (first >= 0) {
    *free_block = flows->uses[first].next;
    return first;
  }
  if (flows->n_uses + n > flows->n_use_slots) {
    gint32 had = flows->n_use_slots;
    flows->n_use_slots = MAX(2 * had, flows->n_uses + n + 256);
    flows->uses = widen(flows->uses, (gsize)had, (gsize)flows->n_use_slots, sizeof(LinkUse));
  }
  first = flows->n_uses;
  flows->n_uses += n;
  return first;
}

void flow_slots_release(Flows *flows, gint32 id) {
  Flow *flow = &flows->flows[id];
  if (flow->n_uses > 0) {
    gint32 *free_block = &g_array_index(flows->free_uses, gint32, flow->n_uses);
    flows->uses[flow->first_use].next = *free_block;
    *free_block = flow->first_use;
  }
  flow->phase = FLOW_FREE;
  flow->first_use = flows->free_flow;
  flows->free_flow = id;
  flows->n_active--;
}
