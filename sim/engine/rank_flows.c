/* Each rank lists the flows that move on its ways. One that meets no other there has the rate it always has alone;
 * those that meet, directly or through others, are a part, whose rates are looked up among the parts met before, and
 * otherwise worked out by flows.h. What changes at one moment is solved once all of it has happened. */
#include "rank_flows.h"

#include <string.h>

#include "event_queue.h"
#include "flows.h"

enum { MOST_KNOWN = 4096 }; /* parts that are remembered */

/* One of a rank's places, and the links that a flow takes there, as bits. */
typedef struct {
  gint32 lane;
  guint32 links;
} User;

typedef struct {
  User *users; /* owned */
  gint32 n, n_slots;
} RankUsers;

typedef struct {
  gint64 settled_ticks;
  double rate, remaining; /* bytes, at settled_ticks */
  gint32 transfer;
  gint32 bound;    /* the link that sets the rate; −1: the cap, or it has no rate yet */
  gint32 ranks[2]; /* a send's; a collective's first */
  gint32 n_ranks;  /* a collective's; 0: a send */
  gint32 *members; /* of a collective of several ranks; owned, kept for the next */
  guint64 seen;    /* the turn in which its part was last solved */
  gboolean moves;
} RankFlow;

/* A flow of a part. Parts of alike transfers between ranks as far apart, in the order of their lanes, have the same
 * rates. */
typedef struct {
  gint32 kind, ranks[2]; /* the lowest rank of the part is 0; −1: none */
} PartFlow;

typedef struct {
  double rate;
  gint32 bound; /* of the part's lowest rank as 0 */
} PartRate;

typedef struct {
  gint32 n;
  PartRate *rates; /* [n]; in the same block */
  PartFlow of[];   /* [n] */
} Part;

struct RankFlows {
  const Demand *demands;
  gint32 n_transfers, n_ranks, n_lanes;
  RankFlow *flows;  /* [lanes]; owned, as are all below */
  RankUsers *ranks; /* [ranks] */
  EventQueue queue; /* begins to move, and ends; an id is a lane */
  gint64 now_ticks;
  gint32 *ended;       /* [lanes] */
  GArray *changed;     /* of gint32: lanes of flows to be solved */
  gint32 *part;        /* [lanes] of the part being solved */
  guint64 *is_in_part; /* [lanes] bits; all 0 in between */
  gint32 n_part;
  guint64 turn;
  gint32 *kind_of;   /* [transfers]: those of one kind take the same share of the same ways; NULL: not found yet */
  GHashTable *known; /* set of Part */
  Part *looked;      /* [lanes] scratch */
};

static guint hash_part(gconstpointer key) {
  const guint64 spread = 0x9E3779B97F4A7C15u; /* 2⁶⁴ / golden ratio */
  const Part *part = key;
  guint64 hash = (guint64)part->n;
  for (gint32 i = 0; i < part->n; i++)
    hash = (hash ^ (guint64)(guint32)part->of[i].kind << 32 ^ (guint64)(guint32)part->of[i].ranks[0] << 16 ^
            (guint32)part->of[i].ranks[1]) *
           spread;
  return (guint)(hash >> 32);
}

static gboolean same_part(gconstpointer a, gconstpointer b) {
  const Part *x = a, *y = b;
  return x->n == y->n && memcmp(x->of, y->of, sizeof *x->of * (gsize)x->n) == 0;
}

RankFlows *rank_flows_new(const Demand *demands, gint32 n_transfers, gint32 n_ranks, gint32 n_lanes) {
  RankFlows *flows = g_new(RankFlows, 1);
  *flows = (RankFlows){.demands = demands,
                       .n_transfers = n_transfers,
                       .n_ranks = n_ranks,
                       .n_lanes = n_lanes,
                       .flows = g_new0(RankFlow, n_lanes),
                       .ranks = g_new0(RankUsers, n_ranks),
                       .ended = g_new(gint32, n_lanes),
                       .changed = g_array_new(FALSE, FALSE, sizeof(gint32)),
                       .part = g_new(gint32, n_lanes),
                       .is_in_part = g_new0(guint64, n_lanes / 64 + 1),
                       .known = g_hash_table_new_full(hash_part, same_part, g_free, NULL),
                       .looked = g_malloc(sizeof(Part) + sizeof(PartFlow) * (gsize)n_lanes)};
  event_queue_init(&flows->queue, (gsize)n_lanes);
  return flows;
}

void rank_flows_free(RankFlows *flows) {
  if (flows == NULL)
    return;
  for (gint32 lane = 0; lane < flows->n_lanes; lane++)
    g_free(flows->flows[lane].members);
  for (gint32 rank = 0; rank < flows->n_ranks; rank++)
    g_free(flows->ranks[rank].users);
  g_free(flows->flows);
  g_free(flows->ranks);
  event_queue_clear(&flows->queue);
  g_free(flows->ended);
  g_array_unref(flows->changed);
  g_free(flows->part);
  g_free(flows->is_in_part);
  g_free(flows->kind_of);
  g_hash_table_unref(flows->known);
  g_free(flows->looked);
  g_free(flows);
}

/* --- begins --- */

static RankFlow *begin(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, gint32 n_ranks) {
  const Demand *demand = &flows->demands[transfer];
  RankFlow *flow = &flows->flows[lane];
  flow->rate = 0;
  flow->remaining = demand->bytes;
  flow->transfer = transfer;
  flow->bound = -1;
  flow->n_ranks = n_ranks;
  flow->moves = FALSE;
  event_queue_add(&flows->queue, add_ticks(at_ticks, demand->latency_ticks), lane);
  return flow;
}

void rank_flows_send(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, gint32 from, gint32 to) {
  RankFlow *flow = begin(flows, at_ticks, lane, transfer, 0);
  flow->ranks[0] = from;
  flow->ranks[1] = to;
}

void rank_flows_collective(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks) {
  RankFlow *flow = begin(flows, at_ticks, lane, transfer, n_ranks);
  flow->ranks[0] = ranks[0];
  if (n_ranks == 1)
    return;
  if (flow->members == NULL)
    flow->members = g_new(gint32, flows->n_ranks);
  memcpy(flow->members, ranks, sizeof *ranks * (gsize)n_ranks);
}

/* --- where a flow is --- */

static inline gint32 n_places(const RankFlow *flow) {
  return flow->n_ranks == 0 ? 2 : flow->n_ranks;
}

/* The rank of a place, and the links there, as bits. */
static inline gint32 place_at(const RankFlows *flows, const RankFlow *flow, gint32 i, guint32 *links) {
  const Demand *demand = &flows->demands[flow->transfer];
  if (flow->n_ranks == 0) {
    *links = i == 0 ? demand->out : demand->out << 1;
    return flow->ranks[i];
  }
  *links = demand->out | demand->out << 1;
  return flow->n_ranks == 1 ? flow->ranks[0] : flow->members[i];
}

static inline void change(RankFlows *flows, gint32 lane) {
  g_array_append_val(flows->changed, lane);
}

/* Whether it meets others there. */
static gboolean join(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  guint32 met = 0;
  for (gint32 i = 0; i < n_places(flow); i++) {
    guint32 links;
    RankUsers *at = &flows->ranks[place_at(flows, flow, i, &links)];
    if (at->n == at->n_slots) {
      at->n_slots = MAX(2 * at->n_slots, 4);
      at->users = g_renew(User, at->users, at->n_slots);
    }
    for (gint32 u = 0; u < at->n; u++)
      met |= at->users[u].links & links;
    at->users[at->n++] = (User){lane, links};
  }
  return met != 0;
}

/* Those that it met there change. */
static void leave(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  for (gint32 i = 0; i < n_places(flow); i++) {
    guint32 links;
    RankUsers *at = &flows->ranks[place_at(flows, flow, i, &links)];
    gint32 n_left = 0;
    for (gint32 u = 0; u < at->n; u++) {
      const User user = at->users[u];
      if (user.lane == lane)
        continue;
      at->users[n_left++] = user;
      if (user.links & links)
        change(flows, user.lane);
    }
    at->n = n_left;
  }
}

/* --- rates --- */

static void set_rate(RankFlows *flows, gint32 lane, double rate, gint32 bound) {
  RankFlow *flow = &flows->flows[lane];
  const double before = flow->rate;
  if (rate == before && bound == flow->bound)
    return;
  flow->bound = bound;
  if (before > 0) {
    const double bytes = before * ((double)(flows->now_ticks - flow->settled_ticks) / TICKS_PER_S);
    flow->settled_ticks = flows->now_ticks;
    flow->remaining -= MIN(bytes, flow->remaining);
    if (rate == before)
      return;
    event_queue_remove(&flows->queue, lane);
  }
  flow->rate = rate;
  event_queue_add(&flows->queue, add_ticks(flows->now_ticks, ticks_of_s(flow->remaining / rate)), lane);
}

/* The narrowest way binds, at the first of the flow's ranks. */
static void set_alone(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  const Demand *demand = &flows->demands[flow->transfer];
  gint32 bound = -1;
  if (demand->narrowest >= 0) {
    gint32 first = 0;
    guint32 links;
    for (gint32 i = 1; i < n_places(flow); i++)
      if (place_at(flows, flow, i, &links) < place_at(flows, flow, first, &links))
        first = i;
    const gint32 rank = place_at(flows, flow, first, &links);
    bound = rank * LINKS_PER_RANK + demand->narrowest + (flow->n_ranks == 0 && first == 1 ? IN : OUT);
  }
  set_rate(flows, lane, demand->alone, bound);
}

static inline void add_to_part(RankFlows *flows, gint32 lane) {
  flows->flows[lane].seen = flows->turn;
  flows->part[flows->n_part++] = lane;
  flows->is_in_part[lane / 64] |= G_GUINT64_CONSTANT(1) << lane % 64;
}

/* In the order of their lanes. */
static void sort_part(RankFlows *flows) {
  flows->n_part = 0;
  for (gint32 word = 0; word <= flows->n_lanes / 64; word++) {
    for (guint64 bits = flows->is_in_part[word]; bits != 0; bits &= bits - 1)
      flows->part[flows->n_part++] = word * 64 + __builtin_ctzll(bits);
    flows->is_in_part[word] = 0;
  }
}

/* The flows that meet this one, directly or through others. */
static void gather(RankFlows *flows, gint32 lane) {
  flows->n_part = 0;
  add_to_part(flows, lane);
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    for (gint32 i = 0; i < n_places(flow); i++) {
      guint32 links;
      const RankUsers *at = &flows->ranks[place_at(flows, flow, i, &links)];
      for (gint32 u = 0; u < at->n; u++)
        if (at->users[u].links & links && flows->flows[at->users[u].lane].seen != flows->turn)
          add_to_part(flows, at->users[u].lane);
    }
  }
  sort_part(flows);
}

static gint32 compare_numbers(gconstpointer a, gconstpointer b) {
  const gint32 x = *(const gint32 *)a, y = *(const gint32 *)b;
  return (x > y) - (x < y);
}

/* All links of the part's flows, each once, in ascending order; gint32. Owned by the caller. */
static GArray *links_of_part(const RankFlows *flows) {
  GArray *all = g_array_new(FALSE, FALSE, sizeof(gint32));
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    for (gint32 i = 0; i < n_places(flow); i++) {
      guint32 links;
      const gint32 rank = place_at(flows, flow, i, &links);
      for (; links != 0; links &= links - 1) {
        const gint32 link = rank * LINKS_PER_RANK + __builtin_ctz(links);
        g_array_append_val(all, link);
      }
    }
  }
  g_array_sort(all, compare_numbers);
  guint n = 0;
  for (guint i = 0; i < all->len; i++)
    if (n == 0 || g_array_index(all, gint32, n - 1) != g_array_index(all, gint32, i))
      g_array_index(all, gint32, n++) = g_array_index(all, gint32, i);
  g_array_set_size(all, n);
  return all;
}

static gint64 count_on(const Demand *demand, gint32 link) {
  int i = 0;
  while (demand->link[i] != (link & ~IN))
    i++;
  return demand->count[i];
}

/* Starts flow `p` of the part among others like it, on links numbered by `all`. */
static void start_apart(const RankFlows *flows, gint32 p, const GArray *all, Flows *apart) {
  const RankFlow *flow = &flows->flows[flows->part[p]];
  const Demand *demand = &flows->demands[flow->transfer];
  g_autofree gint32 *numbers = g_new(gint32, all->len);
  g_autofree gint64 *counts = g_new(gint64, all->len);
  gint32 n = 0;
  for (gint32 i = 0; i < n_places(flow); i++) {
    guint32 links, number;
    const gint32 rank = place_at(flows, flow, i, &links);
    for (; links != 0; links &= links - 1) {
      const gint32 own = __builtin_ctz(links), link = rank * LINKS_PER_RANK + own;
      g_array_binary_search((GArray *)all, &link, compare_numbers, &number);
      numbers[n] = (gint32)number;
      counts[n++] = count_on(demand, own);
    }
  }
  const FlowRequest request = {.route = {.links = numbers, .n_links = n},
                               .counts = counts,
                               .weight = 1,
                               .bytes = G_MAXINT32,
                               .cap_Bps = demand->cap,
                               .tag = (guint64)p};
  flows_start(apart, 0, &request);
}

/* rates[p], of flow p of the part, whose lowest rank is `rank`. */
static void work_out(const RankFlows *flows, gint32 rank, PartRate *rates) {
  const guint64 n = (guint64)flows->n_part;
  g_autoptr(GArray) all = links_of_part(flows);
  g_autofree double *capacity = g_new(double, MAX(all->len, n));
  g_autofree gint32 *bounds = g_new(gint32, n);
  for (guint i = 0; i < all->len; i++)
    capacity[i] = WAY_CAPACITY;
  g_autoptr(Flows) apart = flows_new_on_links(capacity, (gint32)all->len);
  for (gint32 p = 0; p < flows->n_part; p++)
    start_apart(flows, p, all, apart);
  flows_advance(apart, 0);
  flows_rates(apart, capacity, n); /* no longer needed */
  flows_bounds(apart, bounds, n);
  for (gint32 p = 0; p < flows->n_part; p++)
    rates[p] =
        (PartRate){capacity[p], bounds[p] < 0 ? -1 : g_array_index(all, gint32, bounds[p]) - rank * LINKS_PER_RANK};
}

static gboolean take_alike(const Demand *a, const Demand *b) {
  return a->n_ways == b->n_ways && a->cap == b->cap &&
         memcmp(a->link, b->link, sizeof *a->link * (gsize)a->n_ways) == 0 &&
         memcmp(a->count, b->count, sizeof *a->count * (gsize)a->n_ways) == 0;
}

static void find_kinds(RankFlows *flows) {
  g_autoptr(GArray) firsts = g_array_new(FALSE, FALSE, sizeof(gint32)); /* the first transfer of each kind */
  flows->kind_of = g_new(gint32, flows->n_transfers);
  for (gint32 i = 0; i < flows->n_transfers; i++) {
    guint kind = 0;
    while (kind < firsts->len && !take_alike(&flows->demands[g_array_index(firsts, gint32, kind)], &flows->demands[i]))
      kind++;
    if (kind == firsts->len)
      g_array_append_val(firsts, i);
    flows->kind_of[i] = (gint32)kind;
  }
}

/* Fills in `looked`; returns the lowest rank. */
static gint32 look_up(RankFlows *flows) {
  Part *looked = flows->looked;
  gint32 rank = G_MAXINT32;
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    guint32 links;
    for (gint32 i = 0; i < n_places(flow); i++)
      rank = MIN(rank, place_at(flows, flow, i, &links));
  }
  looked->n = flows->n_part;
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    looked->of[p] = (PartFlow){flows->kind_of[flow->transfer],
                               {flow->ranks[0] - rank, flow->n_ranks == 0 ? flow->ranks[1] - rank : -1}};
  }
  return rank;
}

static Part *part_new(const RankFlows *flows, gint32 rank) {
  const gsize n = (gsize)flows->n_part, of_bytes = (sizeof(Part) + sizeof(PartFlow) * n + 7) / 8 * 8;
  Part *part = g_malloc(of_bytes + sizeof(PartRate) * n);
  memcpy(part, flows->looked, sizeof(Part) + sizeof(PartFlow) * n);
  part->rates = (PartRate *)(void *)((char *)part + of_bytes);
  work_out(flows, rank, part->rates);
  return part;
}

static gboolean is_of_many_ranks(const RankFlows *flows) {
  for (gint32 p = 0; p < flows->n_part; p++)
    if (flows->flows[flows->part[p]].n_ranks > 1)
      return TRUE;
  return FALSE;
}

/* The part that flow `lane` is in. A collective of several ranks is not told by a PartFlow. */
static void solve(RankFlows *flows, gint32 lane) {
  gather(flows, lane);
  if (flows->n_part == 1) {
    set_alone(flows, lane);
    return;
  }
  if (flows->kind_of == NULL)
    find_kinds(flows);
  const gint32 rank = look_up(flows);
  const gboolean is_kept = !is_of_many_ranks(flows);
  const Part *part = is_kept ? g_hash_table_lookup(flows->known, flows->looked) : NULL;
  g_autofree Part *made = part == NULL ? part_new(flows, rank) : NULL;
  part = part != NULL ? part : made;
  for (gint32 p = 0; p < flows->n_part; p++) {
    const PartRate *rate = &part->rates[p];
    set_rate(flows, flows->part[p], rate->rate, rate->bound < 0 ? -1 : rate->bound + rank * LINKS_PER_RANK);
  }
  if (made == NULL || !is_kept)
    return;
  if (g_hash_table_size(flows->known) == MOST_KNOWN)
    g_hash_table_remove_all(flows->known);
  g_hash_table_add(flows->known, g_steal_pointer(&made));
}

static void solve_changed(RankFlows *flows) {
  flows->turn++;
  for (guint i = 0; i < flows->changed->len; i++) {
    const gint32 lane = g_array_index(flows->changed, gint32, i);
    if (flows->flows[lane].moves && flows->flows[lane].seen != flows->turn)
      solve(flows, lane);
  }
  g_array_set_size(flows->changed, 0);
}

/* --- time --- */

gint64 rank_flows_now(const RankFlows *flows) {
  return flows->now_ticks;
}

/* TRUE: the flow of the lane ends; otherwise it begins to move. One that is alone, and does not end at once, needs no
 * solving; others that join it at this moment bring it into a part. */
static gboolean happens(RankFlows *flows, gint32 lane) {
  RankFlow *flow = &flows->flows[lane];
  if (flow->moves) {
    flow->moves = FALSE;
    leave(flows, lane);
    return TRUE;
  }
  flow->settled_ticks = flows->now_ticks;
  if (flow->remaining == 0)
    return TRUE;
  flow->moves = TRUE;
  if (join(flows, lane) || flows->demands[flow->transfer].alone_ticks == 0)
    change(flows, lane);
  else
    set_alone(flows, lane);
  return FALSE;
}

gint32 rank_flows_advance(RankFlows *flows, gint64 until_ticks, const gint32 **lanes) {
  enum { MOST_AT_ONCE = 16 };
  gint32 due[MOST_AT_ONCE], n_ended = 0;
  *lanes = flows->ended;
  while (n_ended == 0 && (until_ticks == TICKS_NEVER || event_queue_next(&flows->queue) <= until_ticks)) {
    do {
      const int n_due = event_queue_take_due(&flows->queue, due, MOST_AT_ONCE);
      if (n_due == 0)
        return 0;
      flows->now_ticks = flows->queue.now;
      for (int i = 0; i < n_due; i++)
        if (happens(flows, due[i]))
          flows->ended[n_ended++] = due[i];
      if (!(flows->queue.used & 1) && flows->changed->len > 0)
        solve_changed(flows);
    } while (flows->queue.used & 1); /* more is due now */
  }
  return n_ended;
}
