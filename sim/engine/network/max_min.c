/* Progressive filling: the rates of all flows of the part rise together until a link is full or a flow is at its cap.
 * Those flows keep their rate, the others rise further.
 *
 *     share of a link = what is left of it / how many of its flows still rise      the least share is filled next
 *
 *     link A, 10 B/s: flows 1 2        round 1: A has 5, B has 4 → 2, 3, 4 get 4
 *     link B, 12 B/s: flows 2 3 4      round 2: A has (10 − 4) / 1 → 1 gets 6
 *
 * A cap is a share too, in the same heap. Shares only grow as filling goes on, so the heap is repaired lazily: the
 * share on top is brought up to date, and used if it is still the least. What a round takes from a link is added up
 * as integer counts and subtracted once, so neither the order of flows nor other parts change a bit of the result.
 *
 * Two flows that share links with nobody else, such as two transfers of one rank, are filled in at most two rounds
 * without a heap, with the same result to the bit. */
#include "flow_state.h"

#include <math.h>

/* A link that both flows of a pair use. */
typedef struct {
  gint32 link;
  gint64 count[2];
} SharedLink;

enum { MOST_SHARED = 16 };

typedef struct {
  gint32 flows[2];
  LinkShare own[2]; /* the narrowest of the links that a flow has to itself; INFINITY: it has none */
  SharedLink shared[MOST_SHARED];
  gint32 n_shared;
} Pair;

/* Branch-free: which child is the lesser cannot be predicted. */
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

/* Brings the share that is filled next to the top of the heap, up to date; FALSE: no share has flows that still
 * rise. */
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
    if (link->seen != flows->epoch) /* not gathered: it cannot bind */
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

/* Fixes the flows at the least cap that still rise. Of equal shares flows come before links, so these are on top. */
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

/* The other use of a link that has two. */
static inline const LinkUse *other_use(const Flows *flows, const FlowLink *link, gint32 use) {
  return &flows->uses[link->first_use != use ? link->first_use : flows->uses[use].next];
}

static inline void narrow(LinkShare *own, const FlowLink *link, const LinkUse *use) {
  const LinkShare share = {link->capacity_Bps / (double)use->count, use->link};
  if (is_before(share, *own))
    *own = share;
}

/* Examines the links of the pair's flow `i`; the first finds the second. FALSE: other flows are on them too. */
static gboolean look_at_links(const Flows *flows, Pair *pair, int i) {
  const Flow *flow = &flows->flows[pair->flows[i]];
  for (gint32 u = flow->first_use; u < flow->first_use + flow->n_uses; u++) {
    const LinkUse *use = &flows->uses[u];
    const FlowLink *link = &flows->links[use->link];
    if (link->n_uses == 1)
      narrow(&pair->own[i], link, use);
    if (link->n_uses < 2) /* 0: infinite */
      continue;
    const LinkUse *other = other_use(flows, link, u);
    if (link->n_uses > 2 || other->flow == use->flow || pair->n_shared == MOST_SHARED)
      return FALSE;
    if (i == 0 && pair->n_shared == 0)
      pair->flows[1] = other->flow;
    if (other->flow != pair->flows[1 - i])
      return FALSE;
    if (i == 0)
      pair->shared[pair->n_shared++] = (SharedLink){use->link, {use->count, other->count}};
  }
  return pair->n_shared > 0;
}

static inline LinkShare lesser(LinkShare a, LinkShare b) {
  return is_before(b, a) ? b : a;
}

/* What limits flow `i` of the pair, apart from the links it shares. */
static LinkShare own_share(const Flows *flows, const Pair *pair, int i) {
  const LinkShare cap = {flows->flows[pair->flows[i]].cap_Bps, ~pair->flows[i]};
  return isinf(cap.share_Bps) ? pair->own[i] : lesser(pair->own[i], cap);
}

static inline void settle(Flows *flows, gint32 id, double rate_Bps, gint32 link) {
  flows->parts[id].new_rate_Bps = rate_Bps;
  flows->parts[id].new_bound = link < 0 ? -1 : link;
}

/* The first round filled flow `full` to `level_Bps`: the other one rises further. */
static void fill_other(Flows *flows, const Pair *pair, int full, double level_Bps) {
  const int i = 1 - full;
  LinkShare least = own_share(flows, pair, i);
  for (gint32 s = 0; s < pair->n_shared; s++) {
    const SharedLink *shared = &pair->shared[s];
    const double capacity_Bps = flows->links[shared->link].capacity_Bps;
    const double left_Bps = MAX(capacity_Bps - level_Bps * (double)shared->count[full], 0.0);
    const double before_Bps = capacity_Bps / (double)(shared->count[0] + shared->count[1]);
    const double share_Bps = left_Bps / (double)shared->count[i];
    least = lesser(least, (LinkShare){MAX(share_Bps, before_Bps), shared->link});
  }
  settle(flows, pair->flows[i], MAX(least.share_Bps, level_Bps), least.link);
}

gint32 max_min_solve_pair(Flows *flows, gint32 first) {
  const LinkShare none = {INFINITY, G_MAXINT32};
  Pair pair = {.flows = {first, -1}, .own = {none, none}};
  if (!look_at_links(flows, &pair, 0) || !look_at_links(flows, &pair, 1))
    return -1;
  const LinkShare own[] = {own_share(flows, &pair, 0), own_share(flows, &pair, 1)};
  LinkShare shared = none;
  for (gint32 s = 0; s < pair.n_shared; s++) {
    const gint64 count = pair.shared[s].count[0] + pair.shared[s].count[1];
    const double share_Bps = flows->links[pair.shared[s].link].capacity_Bps / (double)count;
    shared = lesser(shared, (LinkShare){share_Bps, pair.shared[s].link});
  }
  const int full = is_before(own[1], own[0]);
  if (is_before(shared, own[full])) {
    settle(flows, pair.flows[0], shared.share_Bps, shared.link);
    settle(flows, pair.flows[1], shared.share_Bps, shared.link);
    return pair.flows[1];
  }
  settle(flows, pair.flows[full], own[full].share_Bps, own[full].link);
  fill_other(flows, &pair, full, own[full].share_Bps);
  return pair.flows[1];
}
