/* Progressive filling: the rates of all flows of the part rise together, until a link is full or a flow at its cap.
 * Those flows stay where they are, the others rise on.
 *
 *     share of a link = what is left of it / how many of its flows still rise      the least share is filled next
 *
 *     link A, 10 B/s: flows 1 2        round 1: A has 5, B has 4 → 2, 3, 4 get 4
 *     link B, 12 B/s: flows 2 3 4      round 2: A has (10 − 4) / 1 → 1 gets 6
 *
 * A cap is a share too, in the same heap. Shares only grow as filling goes on, so the heap of shares is mended lazily:
 * what comes out on top is brought up to date, and used if it is the least still. What a round takes from a link is
 * added up as whole counts and subtracted once: so neither the order of flows nor other parts change a bit of the
 * result. */
#include "flow_state.h"

#include <math.h>

/* Without a jump: which child is the lesser cannot be foreseen. */
static inline gboolean is_before(LinkShare a, LinkShare b) {
  return (a.share_Bps < b.share_Bps) | ((a.share_Bps == b.share_Bps) & (a.link < b.link));
}

static void sift_down(Flows *flows, gint32 at) {
  LinkShare moving = flows->heap[at];
  for (gint32 child; (child = 2 * at + 1) < flows->n_heap; at = child) {
    if (child + 1 < flows->n_heap)
      child += is_before(flows->heap[child + 1], flows->heap[child]);
    if (is_before(moving, flows->heap[child]))
      break;
    flows->heap[at] = flows->heap[child];
  }
  flows->heap[at] = moving;
}

static void drop_top(Flows *flows) {
  flows->heap[0] = flows->heap[--flows->n_heap];
  if (flows->n_heap > 0)
    sift_down(flows, 0);
}

/* What is filled next is on top of the heap, its share up to date; FALSE: nothing has flows that rise. */
static gboolean find_least(Flows *flows) {
  while (flows->n_heap > 0) {
    LinkShare *top = &flows->heap[0];
    if (top->link < 0) {
      if (flows->parts[~top->link].new_rate_Bps < 0)
        return TRUE;
      drop_top(flows);
      continue;
    }
    const FlowLink *link = &flows->links[top->link];
    if (link->open == 0) {
      drop_top(flows);
      continue;
    }
    double share_Bps = link->left_Bps / (double)link->open;
    if (share_Bps <= top->share_Bps)
      return TRUE;
    top->share_Bps = share_Bps;
    sift_down(flows, 0);
  }
  return FALSE;
}

static void give(Flows *flows, gint32 id, double rate_Bps, gint32 bound) {
  const Flow *flow = &flows->flows[id];
  flows->parts[id].new_rate_Bps = rate_Bps;
  flows->parts[id].new_bound = bound;
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    FlowLink *link = &flows->links[flows->uses[u].link];
    if (link->seen != flows->epoch) /* not gathered: never the one that binds */
      continue;
    if (link->taken == 0)
      flows->touched[flows->n_touched++] = flows->uses[u].link;
    link->taken += flows->uses[u].count;
    link->open -= flows->uses[u].count;
  }
}

static void take_from_links(Flows *flows, double level_Bps) {
  for (gint32 i = 0; i < flows->n_touched; i++) {
    FlowLink *link = &flows->links[flows->touched[i]];
    link->left_Bps = MAX(link->left_Bps - level_Bps * (double)link->taken, 0.0);
    link->taken = 0;
  }
  flows->n_touched = 0;
}

static void prepare(Flows *flows) {
  flows->n_heap = flows->n_touched = 0;
  for (gint32 i = 0; i < flows->n_part_links; i++) {
    FlowLink *link = &flows->links[flows->part_links[i]];
    link->left_Bps = link->capacity_Bps;
    link->open = link->count;
    link->taken = 0;
    flows->heap[flows->n_heap++] = (LinkShare){link->left_Bps / (double)link->open, flows->part_links[i]};
  }
  for (gint32 i = 0; i < flows->n_part_flows; i++) {
    const double cap_Bps = flows->flows[flows->part_flows[i]].cap_Bps;
    flows->parts[flows->part_flows[i]].new_rate_Bps = -1;
    if (!isinf(cap_Bps))
      flows->heap[flows->n_heap++] = (LinkShare){cap_Bps, ~flows->part_flows[i]};
  }
  for (gint32 at = flows->n_heap / 2; at-- > 0;)
    sift_down(flows, at);
}

/* The flows at the least cap that still rise. Of equal shares flows come before links, so these are on top. */
static gint32 fill_to_cap(Flows *flows, double level_Bps) {
  gint32 n_given = 0;
  while (flows->n_heap > 0 && flows->heap[0].link < 0 && flows->heap[0].share_Bps <= level_Bps) {
    const gint32 id = ~flows->heap[0].link;
    drop_top(flows);
    if (flows->parts[id].new_rate_Bps >= 0)
      continue;
    give(flows, id, level_Bps, -1);
    n_given++;
  }
  return n_given;
}

static gint32 fill_link(Flows *flows, gint32 full, double level_Bps) {
  gint32 n_given = 0;
  for (gint32 u = flows->links[full].first_use; u >= 0; u = flows->uses[u].next) {
    const gint32 id = flows->uses[u].flow;
    if (flows->parts[id].new_rate_Bps >= 0)
      continue;
    give(flows, id, level_Bps, full);
    n_given++;
  }
  return n_given;
}

void max_min_solve(Flows *flows) {
  prepare(flows);
  double level_Bps = 0;
  for (gint32 n_rising = flows->n_part_flows; n_rising > 0;) {
    gboolean is_found = find_least(flows);
    g_assert(is_found); /* a flow without a cap has a finite link, or it would not be in a part */
    level_Bps = MAX(flows->heap[0].share_Bps, level_Bps);
    gint32 link = flows->heap[0].link;
    n_rising -= link < 0 ? fill_to_cap(flows, level_Bps) : fill_link(flows, link, level_Bps);
    take_from_links(flows, level_Bps);
  }
}
