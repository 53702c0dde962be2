/* Flows over routes, in virtual time: first the latency, then bytes at a max-min fair rate.
 *
 * Max-min fair: no flow can be given more without taking from one that has no more than it. With r_f the rate of flow
 * f, k_fl how often it counts on link l, C_l the capacity and c_f a cap:
 *
 *     Σ_f k_fl · r_f ≤ C_l,   r_f ≤ c_f,   and each flow is at its cap or crosses a full link that has no higher rate
 *
 * (Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2). Rates change only when a flow starts to move bytes or
 * ends, and then only those of the flows that are joined to it by links, directly or through others. What changes at
 * one moment is solved once. The result does not depend on what happened before: bit for bit it is what solving all
 * anew would give.
 *
 * A flow may stand for several that are alike (folded runs): `weight` flows on the same route, and per link how many
 * of the alike ones cross it (`counts`). All of them have the rate of the one. Exact where they are alike.
 *
 * Times are ticks (ticks.h). Nothing allocates once as many flows have been under way as ever will be. */
#pragma once
#include "network.h"

typedef struct Flows Flows;

typedef struct {
  NetRoute route;       /* links are copied; latency_ticks is the flow's own, so it may be several times the
                           route's */
  const gint64 *counts; /* [route.n_links] ≥ 1: alike flows on each link; NULL: 1 on each */
  gint64 weight;        /* ≥ 1; counts × weight < 2^40 */
  double bytes;         /* ≥ 0, of one */
  double cap_Bps;       /* > 0, of one; INFINITY: none */
  guint64 tag;          /* the caller's */
} FlowRequest;

typedef struct {
  guint64 tag;
  guint64 sequence; /* of its start: 0, 1, … */
  gint64 end_ticks;
} FlowEnd;

typedef struct {
  guint64 n_starts, n_events; /* events: latencies over and flows ended */
  guint64 n_solves;           /* solves of a component of more than one flow */
  guint64 n_rates;            /* rates computed in these */
} FlowsStats;

/* On the links of a network, with the capacities that they have now. _with_loads keeps books for flows_link_load()
 * too. _on_links needs no network: only the capacities of its links, ≥ 0, which are copied. */
Flows *flows_new(const Network *network);
Flows *flows_new_with_loads(const Network *network);
Flows *flows_new_on_links(const double *capacity_Bps, gint32 n_links);
void flows_free(Flows *flows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Flows, flows_free)

/* A flow starts. now_ticks lies between the time last advanced to and flows_next(). A flow ends as soon as its
 * latency is over if it has 0 bytes, or if it has no cap and all its links are infinite. Its route has no dead
 * links. */
void flows_start(Flows *flows, gint64 now_ticks, const FlowRequest *request);
/* Schedules a flow, which must have a latency, to start at `at_ticks`: now or later, even after flows_next(). Time
 * does not advance. */
void flows_start_later(Flows *flows, gint64 at_ticks, const FlowRequest *request);
/* The time of the next event, which need not be the end of a flow; TICKS_NEVER: none is left. */
gint64 flows_next(Flows *flows);
/* Advances time to `to_ticks`. Returns how many flows ended on the way. A caller who starts flows when others end
 * must not advance beyond flows_next(). */
gint32 flows_advance(Flows *flows, gint64 to_ticks);
/* The flows that ended then, ordered by (end, sequence); valid until the next flows_advance(). */
const FlowEnd *flows_ended(const Flows *flows);

gint64 flows_now(const Flows *flows); /* the present, in ticks */
gint32 flows_n_active(const Flows *flows);
/* rates_Bps[tag] = the rate of one (not times its weight), 0 while in its latency, of all flows under way whose tags
 * are below n; the others stay as they are. */
void flows_rates(const Flows *flows, double *rates_Bps, guint64 n);
/* Likewise the link that sets each rate; −1: the cap. */
void flows_bounds(const Flows *flows, gint32 *bounds, guint64 n);

/* What a link of a network has done up to the present. Utilisation over time: the difference of moved_bytes between
 * two presents over capacity × time. The link that bounds a step is the one with the most bound_flow_s. */
typedef struct {
  double moved_bytes;  /* of all flows, weights and counts included */
  double bound_flow_s; /* Σ over flows of the time during which this link set their rate, times weight */
} LinkLoad;
/* With flows_new_with_loads() only. */
LinkLoad flows_link_load(const Flows *flows, gint32 link);
FlowsStats flows_stats(const Flows *flows);
