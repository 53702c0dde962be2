/* Flows over routes, in virtual time: first the latency, then bytes at a max-min fair rate.
 *
 * Max-min fair: no flow can be given more without taking from one that has no more than it. With r_f the rate of flow
 * f, k_fl how often it counts on link l, C_l the capacity and c_f a cap:
 *
 *     Σ_f k_fl · r_f ≤ C_l,   r_f ≤ c_f,   and each flow is at its cap or crosses a full link that has no higher rate
 *
 * (Bertsekas and Gallager, Data Networks, 2nd ed., 6.5.2). Rates change only when a flow starts to move bytes or ends,
 * and then only those of the flows that are joined to it by links, directly or through others. What changes at one
 * moment is solved once. The result does not depend on what happened before: bit for bit it is what solving all anew
 * would give.
 *
 * A flow may stand for several that are alike (folded runs): `weight` flows on the same route, and per link how many of
 * the alike ones cross it (`counts`). All of them have the rate of the one. Exact where they are alike.
 *
 * Times are ticks (ticks.h). Nothing allocates once as many flows have been under way as ever will be. */
#pragma once
#include "network.h"

typedef struct Flows Flows;

typedef struct {
  NetRoute route;       /* links are copied; latency_ticks is the flow's own, so it may be several times the route's */
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
  guint64 n_solves;           /* of a component of more than one flow */
  guint64 n_rates;            /* rates worked out in these */
} FlowsStats;

/* On the links of a network as it stands now; the same with flows_link_load(); or on links of these capacities (≥ 0,
 * copied) and no network. */
Flows *flows_new(const Network *network);
Flows *flows_new_with_loads(const Network *network);
Flows *flows_new_on_links(const double *capacity_Bps, gint32 n_links);
void flows_free(Flows *flows);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Flows, flows_free)

/* A flow starts. now_ticks must not be before what was advanced to, nor after flows_next. A flow of 0 bytes, or whose
 * links are all infinite and has no cap, ends with its latency. No dead links on its route. */
void flows_start(Flows *flows, gint64 now_ticks, const FlowRequest *request);
/* A flow with a latency will start at `at_ticks`, the present or later, and that may be after flows_next. The present
 * stays. */
void flows_start_later(Flows *flows, gint64 at_ticks, const FlowRequest *request);
/* When something happens next (not always an end); TICKS_NEVER: nothing does. */
gint64 flows_next(Flows *flows);
/* Time moves on to `to_ticks`, which becomes the present. Returns how many flows ended. To start others when a flow
 * ends, advance to flows_next only. */
gint32 flows_advance(Flows *flows, gint64 to_ticks);
/* Those, in the order of (end, sequence); until the next flows_advance. */
const FlowEnd *flows_ended(const Flows *flows);

/* What a flow of some route has beside another one, where the two meet nobody else: of the others that it met last.
 * Zeroed: nothing is known. */
typedef struct {
  gboolean is_known;
  guint64 other; /* tag */
  double rate_Bps, other_rate_Bps;
  gint32 other_bound;
} FlowsMet;
enum { FLOWS_N_MET = 2 };

/* A flow with a latency from its start at `at_ticks`, the present or later, to its end at once, as if it had been
 * started and time had moved on: on links first … end − 1, if none but it begins to move bytes there or ends before
 * until_ticks. One flow that has no other links may be under way on them, beside it or not. `met`: of this route; kept,
 * as flows of one tag have the same links, counts and cap. Returns when it ends; −1: not before until_ticks, or it is
 * not as simple; then nothing has changed. */
gint64 flows_run_ahead(Flows *flows, gint64 at_ticks, const FlowRequest *request, gint32 first, gint32 end,
                       gint64 until_ticks, FlowsMet met[FLOWS_N_MET]);
/* When the flow of this tag ends if it stays alone, as it is, on its links, one of which is among first … end − 1; −1:
 * there is none that is so. */
gint64 flows_end_alone(const Flows *flows, gint32 first, gint32 end, guint64 tag);

/* A flow that its caller follows, apart from all others. */
typedef struct {
  gint64 at_ticks; /* when it begins to move (`moves` FALSE), or ends */
  gboolean moves;
  gint32 bound; /* the link that sets its rate; −1: the cap */
  double rate_Bps;
  double remaining_bytes; /* at settled_ticks, which may lie ahead of the present */
  gint64 settled_ticks;
} FlowApart;

/* No flow moves on links first … end − 1. */
gboolean flows_are_free(const Flows *flows, gint32 first, gint32 end);
/* The flow of this tag, the only one that moves on these links, if it does yet, and on no others: it is no longer known
 * here. FALSE: it is not so, and nothing has changed. */
gboolean flows_take_out(Flows *flows, gint32 first, gint32 end, guint64 tag, FlowApart *apart);
/* One that moves alone on its links, or has yet to begin: no other may begin or end on them before settled_ticks. Not
 * with loads. */
void flows_put_back(Flows *flows, const FlowRequest *request, const FlowApart *apart);
/* What two flows have beside each other, and what binds them, where nobody else is on their links. FALSE: they have no
 * link in common, and each has what it has alone. */
gboolean flows_rates_of_two(Flows *flows, const FlowRequest requests[2], double rates_Bps[2], gint32 bounds[2]);

gint64 flows_now(const Flows *flows); /* the present, in ticks */
gint32 flows_n_active(const Flows *flows);
/* rates_Bps[tag] = the rate of one (not times its weight), 0 while in its latency, of all flows under way whose tags
 * are below n; the others stay as they are. */
void flows_rates(const Flows *flows, double *rates_Bps, guint64 n);

/* What a link of a network has done up to the present. Utilisation over time: the difference of moved_bytes between two
 * presents over capacity × time. The link that bounds a step is the one with the most bound_flow_s. */
typedef struct {
  double moved_bytes;  /* of all flows, weights and counts included */
  double bound_flow_s; /* Σ over flows of the time during which this link set their rate, times weight */
} LinkLoad;
/* With flows_new_with_loads() only. */
LinkLoad flows_link_load(const Flows *flows, gint32 link);
FlowsStats flows_stats(const Flows *flows);
