/* The state of flows and links, private to flow_slots.c, max_min.c and flows.c. */
#pragma once
#include "event_queue.h"
#include "flows.h"

/* Thousands of flows begin and end at one moment, and their state outgrows the caches. So every event of a flow
 * touches one cache line for the flow, one for each of its links, and half a line for its use of each link. Rarely
 * needed fields are kept elsewhere. */
enum { FLOW_LINE_BYTES = 64, FLOW_USE_BYTES = 32 };

/* A flow on a link. The uses of one flow are adjacent, in the order of its route; those of one link form a chain. */
typedef struct {
  _Alignas(FLOW_USE_BYTES) gint64 count; /* counts × weight */
  gint32 link, flow;
  gint32 next, prev; /* in the chain of the same link; −1 */
} LinkUse;

typedef enum { FLOW_FREE, FLOW_LATENT, FLOW_MOVING } FlowPhase;

typedef struct {
  _Alignas(FLOW_LINE_BYTES) double rate_Bps; /* of one */
  double remaining_bytes;                    /* at settled_ticks */
  double cap_Bps;
  gint64 settled_ticks;
  guint64 tag, sequence;
  gint32 first_use, n_uses; /* first_use: the next free flow while FLOW_FREE */
  gint32 bound;             /* the link that sets the rate; −1: the cap, or the flow has no rate yet */
  guint8 phase;             /* FlowPhase */
  guint8 has_met;           /* another flow was on one of its links when it began to move */
} Flow;

/* More fields of a flow, used while a part is solved. */
typedef struct {
  double new_rate_Bps; /* (computed by max_min) −1: not yet */
  guint64 seen;        /* epoch in which its rate was last worked out */
  gint64 weight;
  gint32 new_bound;
} FlowPart;

typedef struct {
  _Alignas(FLOW_LINE_BYTES) double capacity_Bps;
  gint64 count; /* Σ of the counts of its uses */
  gint32 first_use, n_uses;
  guint64 seen;
  /* used while a part is solved */
  double left_Bps;
  gint64 open;  /* Σ of the counts of flows without a rate */
  gint64 taken; /* Σ of the counts of flows given a rate in this round */
  gboolean is_dirty;
} FlowLink;
G_STATIC_ASSERT(sizeof(Flow) == FLOW_LINE_BYTES && sizeof(FlowLink) == FLOW_LINE_BYTES);
G_STATIC_ASSERT(sizeof(LinkUse) == FLOW_USE_BYTES);

/* What a link has carried, up to when each of its flows was last settled. */
typedef struct {
  double moved_bytes;
  double bound_flow_ticks;
} LinkBooks;

typedef struct {
  double share_Bps;
  gint32 link; /* ~flow: the share is that flow's cap */
} LinkShare;

struct Flows {
  gint64 now_ticks;
  Flow *flows;     /* [n_flow_slots] */
  FlowPart *parts; /* [n_flow_slots] */
  gint32 n_flow_slots, free_flow, n_active;
  LinkUse *uses; /* [n_use_slots]; free blocks are chained through the `next` of their first use */
  gint32 n_use_slots, n_uses;
  GArray *free_uses; /* gint32: [length of block] the first free block; −1 */
  FlowLink *links;   /* [network links] */
  LinkBooks *books;  /* [network links]; NULL: none are kept */
  gint32 n_links;
  EventQueue queue;  /* an id is a flow */
  gint64 next_ticks; /* earliest event; −1: to be looked up */
  FlowEnd *ended;    /* [n_ended_slots] */
  gint32 n_ended, n_ended_slots;
  FlowsStats stats;

  /* what changed at the present moment: solved when time is read or advances */
  gint32 *dirty_flows; /* [n_flow_slots]: flows that began to move */
  gint32 *dirty_links; /* [n_links]: links that a flow left */
  gint32 n_dirty_flows, n_dirty_links;

  /* the part being solved */
  guint64 epoch;
  gint32 *part_flows;           /* [n_flow_slots] */
  gint32 *part_links, *touched; /* [n_links] */
  LinkShare *heap;              /* [n_links + n_flow_slots] */
  gint32 n_part_flows, n_part_links, n_touched, n_heap;
};

/* Adds room for more flows; there must be none free. */
void flow_slots_add(Flows *flows);
/* Takes a block of n adjacent uses. Returns the first; 0 when n is 0. */
gint32 flow_slots_take_uses(Flows *flows, gint32 n);
/* Frees the flow's slot and uses. */
void flow_slots_release(Flows *flows, gint32 id);

/* Whether changes of the present moment are still to be solved. TRUE only inside flows_advance(), between the events
 * of one moment: it returns with all rates and ends as they stand once every flow that ended then has left. */
static inline gboolean flows_is_dirty(const Flows *flows) {
  return flows->n_dirty_flows + flows->n_dirty_links > 0;
}

static inline void flow_queue_event(Flows *flows, gint64 at_ticks, gint32 id) {
  event_queue_add(&flows->queue, at_ticks, id);
  if (flows->next_ticks >= 0)
    flows->next_ticks = MIN(flows->next_ticks, at_ticks);
}

static inline double flow_bytes_since_settled(const Flow *flow, gint64 at_ticks) {
  double bytes = flow->rate_Bps * ((double)(at_ticks - flow->settled_ticks) / TICKS_PER_S);
  return MIN(bytes, flow->remaining_bytes);
}

/* A new flow in its latency; no event is queued for it. */
gint32 flow_new(Flows *flows, const FlowRequest *request);
/* Links of infinite capacity only count bytes. */
void flow_join_links(Flows *flows, const Flow *flow);
/* Links that still carry other flows become dirty. */
void flow_leave_links(Flows *flows, const Flow *flow);

/* Computes new_rate_Bps and new_bound of the flows of the part (part_flows, part_links). */
void max_min_solve(Flows *flows);
/* The same for flow `first` and one other, if each shares links with the other and with nobody else. Returns the
 * other; −1: this is not so. */
gint32 max_min_solve_pair(Flows *flows, gint32 first);
