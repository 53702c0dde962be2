/* Flows over the links of a topology, and the rate of the slowest when all run at once. */
#pragma once
#include "route.h"

/* Each flow is a run of consecutive `hops`. */
typedef struct {
  GArray *hops; /* of int: 2·link, + 1 against the link's direction; owned */
  GArray *ends; /* of guint: where each flow's hops end; owned */
} FlowList;

FlowList flow_list_new(void);
void flow_list_clear(FlowList *list);
void flow_list_empty(FlowList *list);
/* Append a route, which is freed, to the current flow. FALSE if it is NULL. */
gboolean flow_list_add_route(FlowList *list, const Topology *topology, Route *route);
/* Complete the current flow. */
void flow_list_end(FlowList *list);
/* The hops of a flow; borrowed, until the list grows. */
const int *flow_list_get(const FlowList *list, int flow, int *n_hops);

/* Bandwidth left of the hop's link. INFINITY: not stated. */
double flow_list_hop_Bps(const Topology *topology, int hop);
/* `passes` [2·links]: how many flows pass each hop. */
void flow_list_count_passes(const FlowList *list, const Topology *topology, int *passes);
/* Rate of a flow: each link divides what it has left evenly among the flows that pass it, and the flow gets the
 * smallest such part along its way. `limit`: the limiting hop, unchanged if none limits it. INFINITY: no link on its
 * way has a stated bandwidth. */
double flow_list_rate_Bps(const FlowList *list, const Topology *topology, const int *passes, int flow, int *limit);
/* The same for the slowest flow; counts the passes first. `limit` −1: none. */
double flow_list_slowest_Bps(const FlowList *list, const Topology *topology, int *passes, int *limit);
