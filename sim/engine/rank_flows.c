/* Each rank lists the flows that move on its ways. One that meets no other there has the rate it always has alone;
 * those that meet, directly or through others, are a part, whose rates are looked up among the parts met before, and
 * otherwise worked out by flows.h. What changes at one moment is solved once all of it has happened. */
#include "rank_flows.h"

#include <string.h>

#include "event_queue.h"
#include "flows.h"

enum { MOST_KNOWN = 4096 }; /* parts that are remembered */

/* The links that a flow takes at a rank, as bits. */
typedef struct {
  gint32 rank;
  guint32 links;
} Place;

/* A flow at a rank. */
typedef struct {
  gint32 lane;
  guint32 links;
} User;

typedef struct {
  User *users; /* owned */
  gint32 n, n_slots;
} RankUsers;

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

typedef struct {
  gint64 settled_ticks;
  double rate, remaining; /* bytes, at settled_ticks */
  const Demand *demand;
  gint32 kind;
  gint32 bound, bound_alone; /* the link that sets the rate; −1: the cap, or it has no rate yet */
  gint32 n_places;
  Place own[2];     /* its places, if these are enough; a send's first */
  Place *members;   /* otherwise; owned, kept for the next */
  guint64 seen;     /* the turn in which its part was last solved */
  const Part *part; /* of `known`: the last of which it was the first flow; NULL: none */
  gboolean moves, is_changed;
} RankFlow;

struct RankFlows {
  const Demand *demands;
  gint32 n_ranks, n_lanes;
  RankFlow *flows;  /* [lanes]; owned, as are all below */
  RankUsers *ranks; /* [ranks] */
  EventQueue queue; /* begins to move, and ends; an id is a lane */
  gint64 now_ticks;
  gint32 *ended;   /* [lanes] */
  gint32 *changed; /* [lanes]: flows to be solved */
  gint32 *part;    /* [lanes]: the part being solved */
  gint32 n_changed, n_part;
  guint64 *is_in_part; /* [lanes] bits; all 0 in between */
  guint64 turn;
  gint32 *kind_of;   /* [transfers]: those of one kind take the same share of the same ways */
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

static gboolean take_alike(const Demand *a, const Demand *b) {
  return a->n_ways == b->n_ways && a->cap == b->cap &&
         memcmp(a->link, b->link, sizeof *a->link * (gsize)a->n_ways) == 0 &&
         memcmp(a->count, b->count, sizeof *a->count * (gsize)a->n_ways) == 0;
}

static gint32 *find_kinds(const Demand *demands, gint32 n_transfers) {
  g_autofree gint32 *firsts = g_new(gint32, n_transfers); /* the first transfer of each kind */
  gint32 *kind_of = g_new(gint32, n_transfers), n_kinds = 0;
  for (gint32 i = 0; i < n_transfers; i++) {
    gint32 kind = 0;
    while (kind < n_kinds && !take_alike(&demands[firsts[kind]], &demands[i]))
      kind++;
    if (kind == n_kinds)
      firsts[n_kinds++] = i;
    kind_of[i] = kind;
  }
  return kind_of;
}

RankFlows *rank_flows_new(const Demand *demands, gint32 n_transfers, gint32 n_ranks, gint32 n_lanes) {
  RankFlows *flows = g_new(RankFlows, 1);
  *flows = (RankFlows){.demands = demands,
                       .n_ranks = n_ranks,
                       .n_lanes = n_lanes,
                       .flows = g_new0(RankFlow, n_lanes),
                       .ranks = g_new0(RankUsers, n_ranks),
                       .ended = g_new(gint32, n_lanes),
                       .changed = g_new(gint32, n_lanes),
                       .part = g_new(gint32, n_lanes),
                       .is_in_part = g_new0(guint64, n_lanes / 64 + 1),
                       .kind_of = find_kinds(demands, n_transfers),
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
  g_free(flows->changed);
  g_free(flows->part);
  g_free(flows->is_in_part);
  g_free(flows->kind_of);
  g_hash_table_unref(flows->known);
  g_free(flows->looked);
  g_free(flows);
}

/* --- begins --- */

static inline const Place *places_of(const RankFlow *flow) {
  return flow->n_places <= (gint32)G_N_ELEMENTS(flow->own) ? flow->own : flow->members;
}

/* `first`: of its ranks, at which its narrowest way binds when it is alone. */
static inline void begin(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, gint32 first, int direction) {
  const Demand *demand = &flows->demands[transfer];
  RankFlow *flow = &flows->flows[lane];
  flow->rate = 0;
  flow->remaining = demand->bytes;
  flow->demand = demand;
  flow->kind = flows->kind_of[transfer];
  flow->bound = -1;
  flow->bound_alone = demand->narrowest >= 0 ? first * LINKS_PER_RANK + demand->narrowest + direction : -1;
  flow->moves = FALSE;
  event_queue_add(&flows->queue, add_ticks(at_ticks, demand->latency_ticks), lane);
}

void rank_flows_send(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, gint32 from, gint32 to) {
  RankFlow *flow = &flows->flows[lane];
  const guint32 out = flows->demands[transfer].out;
  flow->n_places = 2;
  flow->own[0] = (Place){from, out};
  flow->own[1] = (Place){to, out << 1};
  begin(flows, at_ticks, lane, transfer, MIN(from, to), from < to ? OUT : IN);
}

void rank_flows_collective(RankFlows *flows, gint64 at_ticks, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks) {
  RankFlow *flow = &flows->flows[lane];
  const guint32 out = flows->demands[transfer].out;
  gint32 first = ranks[0];
  flow->n_places = n_ranks;
  if (n_ranks > (gint32)G_N_ELEMENTS(flow->own) && flow->members == NULL)
    flow->members = g_new(Place, flows->n_ranks);
  Place *places = n_ranks <= (gint32)G_N_ELEMENTS(flow->own) ? flow->own : flow->members;
  for (gint32 i = 0; i < n_ranks; i++) {
    places[i] = (Place){ranks[i], out | out << 1};
    first = MIN(first, ranks[i]);
  }
  begin(flows, at_ticks, lane, transfer, first, OUT);
}

/* --- where a flow is --- */

static inline void change(RankFlows *flows, gint32 lane) {
  if (flows->flows[lane].is_changed)
    return;
  flows->flows[lane].is_changed = TRUE;
  flows->changed[flows->n_changed++] = lane;
}

/* Whether it meets others there. */
static inline gboolean join(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  const Place *places = places_of(flow);
  guint32 met = 0;
  for (gint32 i = 0; i < flow->n_places; i++) {
    RankUsers *at = &flows->ranks[places[i].rank];
    if (at->n == at->n_slots) {
      at->n_slots = MAX(2 * at->n_slots, 4);
      at->users = g_renew(User, at->users, at->n_slots);
    }
    for (gint32 u = 0; u < at->n; u++)
      met |= at->users[u].links & places[i].links;
    at->users[at->n++] = (User){lane, places[i].links};
  }
  return met != 0;
}

/* Those that it met there change. */
static inline void leave(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  const Place *places = places_of(flow);
  for (gint32 i = 0; i < flow->n_places; i++) {
    RankUsers *at = &flows->ranks[places[i].rank];
    gint32 n_left = 0;
    for (gint32 u = 0; u < at->n; u++) {
      const User user = at->users[u];
      if (user.lane == lane)
        continue;
      at->users[n_left++] = user;
      if (user.links & places[i].links)
        change(flows, user.lane);
    }
    at->n = n_left;
  }
}

/* --- rates --- */

static inline void set_rate(RankFlows *flows, gint32 lane, double rate, gint32 bound) {
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

static void set_alone(RankFlows *flows, gint32 lane) {
  const RankFlow *flow = &flows->flows[lane];
  set_rate(flows, lane, flow->demand->alone, flow->bound_alone);
}

static inline void add_to_part(RankFlows *flows, gint32 lane) {
  flows->flows[lane].seen = flows->turn;
  flows->part[flows->n_part++] = lane;
}

/* In the order of their lanes. */
static inline void sort_part(RankFlows *flows) {
  enum { FEW = 8 };
  gint32 *part = flows->part;
  if (flows->n_part <= FEW) {
    for (gint32 p = 1; p < flows->n_part; p++) {
      const gint32 lane = part[p];
      gint32 at = p;
      for (; at > 0 && part[at - 1] > lane; at--)
        part[at] = part[at - 1];
      part[at] = lane;
    }
    return;
  }
  for (gint32 p = 0; p < flows->n_part; p++)
    flows->is_in_part[part[p] / 64] |= G_GUINT64_CONSTANT(1) << part[p] % 64;
  for (gint32 word = 0, n = 0; n < flows->n_part; word++) {
    for (guint64 bits = flows->is_in_part[word]; bits != 0; bits &= bits - 1)
      part[n++] = word * 64 + __builtin_ctzll(bits);
    flows->is_in_part[word] = 0;
  }
}

/* The flows that meet this one, directly or through others. */
static inline void gather(RankFlows *flows, gint32 lane) {
  flows->n_part = 0;
  add_to_part(flows, lane);
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    const Place *places = places_of(flow);
    for (gint32 i = 0; i < flow->n_places; i++) {
      const RankUsers *at = &flows->ranks[places[i].rank];
      for (gint32 u = 0; u < at->n; u++)
        if (at->users[u].links & places[i].links && flows->flows[at->users[u].lane].seen != flows->turn)
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
    const Place *places = places_of(flow);
    for (gint32 i = 0; i < flow->n_places; i++)
      for (guint32 links = places[i].links; links != 0; links &= links - 1) {
        const gint32 link = places[i].rank * LINKS_PER_RANK + __builtin_ctz(links);
        g_array_append_val(all, link);
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
  const Place *places = places_of(flow);
  g_autofree gint32 *numbers = g_new(gint32, all->len);
  g_autofree gint64 *counts = g_new(gint64, all->len);
  gint32 n = 0;
  for (gint32 i = 0; i < flow->n_places; i++)
    for (guint32 links = places[i].links, number; links != 0; links &= links - 1) {
      const gint32 own = __builtin_ctz(links), link = places[i].rank * LINKS_PER_RANK + own;
      g_array_binary_search((GArray *)all, &link, compare_numbers, &number);
      numbers[n] = (gint32)number;
      counts[n++] = count_on(flow->demand, own);
    }
  const FlowRequest request = {.route = {.links = numbers, .n_links = n},
                               .counts = counts,
                               .weight = 1,
                               .bytes = G_MAXINT32,
                               .cap_Bps = flow->demand->cap,
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

/* Fills in `looked`; returns the lowest rank. A collective of several ranks is not told by a PartFlow: *is_told. */
static inline gint32 look_up(RankFlows *flows, gboolean *is_told) {
  Part *looked = flows->looked;
  gint32 lowest = G_MAXINT32;
  looked->n = flows->n_part;
  *is_told = TRUE;
  for (gint32 p = 0; p < flows->n_part; p++) {
    const RankFlow *flow = &flows->flows[flows->part[p]];
    const Place *places = places_of(flow);
    const gboolean is_send = flow->n_places == 2 && places[0].links != places[1].links;
    *is_told &= is_send || flow->n_places == 1;
    for (gint32 i = 0; i < flow->n_places; i++)
      lowest = MIN(lowest, places[i].rank);
    looked->of[p] = (PartFlow){flow->kind, {places[0].rank, is_send ? places[1].rank : -1}};
  }
  for (gint32 p = 0; p < flows->n_part; p++) {
    looked->of[p].ranks[0] -= lowest;
    looked->of[p].ranks[1] -= looked->of[p].ranks[1] >= 0 ? lowest : 0;
  }
  return lowest;
}

static Part *part_new(const RankFlows *flows, gint32 rank) {
  const gsize n = (gsize)flows->n_part, of_bytes = (sizeof(Part) + sizeof(PartFlow) * n + 7) / 8 * 8;
  Part *part = g_malloc(of_bytes + sizeof(PartRate) * n);
  memcpy(part, flows->looked, sizeof(Part) + sizeof(PartFlow) * n);
  part->rates = (PartRate *)(void *)((char *)part + of_bytes);
  work_out(flows, rank, part->rates);
  return part;
}

static void keep(RankFlows *flows, Part *part) {
  if (g_hash_table_size(flows->known) == MOST_KNOWN) {
    g_hash_table_remove_all(flows->known);
    for (gint32 lane = 0; lane < flows->n_lanes; lane++)
      flows->flows[lane].part = NULL;
  }
  g_hash_table_add(flows->known, part);
}

/* The part looked for, whose lowest rank this is; of the parts known if it could be looked for. */
static const Part *find_part(RankFlows *flows, gint32 rank) {
  const Part **last = &flows->flows[flows->part[0]].part;
  if (*last != NULL && same_part(*last, flows->looked))
    return *last;
  *last = g_hash_table_lookup(flows->known, flows->looked);
  if (*last == NULL) {
    Part *made = part_new(flows, rank);
    keep(flows, made);
    *last = made;
  }
  return *last;
}

/* The part that flow `lane` is in. */
static void solve(RankFlows *flows, gint32 lane) {
  gboolean is_told;
  gather(flows, lane);
  if (flows->n_part == 1) {
    set_alone(flows, lane);
    return;
  }
  const gint32 rank = look_up(flows, &is_told);
  g_autofree Part *made = is_told ? NULL : part_new(flows, rank);
  const Part *part = is_told ? find_part(flows, rank) : made;
  for (gint32 p = 0; p < flows->n_part; p++) {
    const PartRate *rate = &part->rates[p];
    set_rate(flows, flows->part[p], rate->rate, rate->bound < 0 ? -1 : rate->bound + rank * LINKS_PER_RANK);
  }
}

static void solve_changed(RankFlows *flows) {
  flows->turn++;
  for (gint32 i = 0; i < flows->n_changed; i++) {
    const gint32 lane = flows->changed[i];
    flows->flows[lane].is_changed = FALSE;
    if (flows->flows[lane].moves && flows->flows[lane].seen != flows->turn)
      solve(flows, lane);
  }
  flows->n_changed = 0;
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
  if (join(flows, lane) || flow->demand->alone_ticks == 0)
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
      if (!(flows->queue.used & 1) && flows->n_changed > 0)
        solve_changed(flows);
    } while (flows->queue.used & 1); /* more is due now */
  }
  return n_ended;
}
