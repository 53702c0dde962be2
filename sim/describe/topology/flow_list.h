/* Flows over the links of a topology, and what the slowest of them gets when all go at once. */
#pragma once
#include "route.h"

/* Runs of `hops`, each a flow. */
typedef struct {
  GArray *hops; /* of int: 2·link + (against its direction); owned */
  GArray *ends; /* of guint: where each flow's hops end; owned */
} FlowList;

FlowList flow_list_new(void);
void flow_list_clear(FlowList *list);
void flow_list_empty(FlowList *list);
/* Take a route, which is freed, into the flow under way. FALSE: it is NULL. */
gboolean flow_list_add_route(FlowList *list, const Topology *topology, Route *route);
/* The flow under way is complete. */
void flow_list_end(FlowList *list);
/* The links of a flow; borrowed, until the list grows. */
const int *flow_list_get(const FlowList *list, int flow, int *n_hops);

/* What is left of the link of a hop. INFINITY: not stated. */
double flow_list_hop_Bps(const Topology *topology, int hop);
/* `passes` [2·links]: how many flows pass each hop. */
void flow_list_count_passes(const FlowList *list, const Topology *topology, int *passes);
/* What a link has left is dealt out evenly to all that pass it; a flow gets the least of that on its way.
 * `limit`: the hop that limits it, left as it is where none does. INFINITY: nothing on its way has a stated
 * bandwidth. */
double flow_list_rate_Bps(const FlowList *list, const Topology *topology, const int *passes, int flow, int *limit);
/* The same of the slowest flow, after counting. `limit` −1: none does. */
double flow_list_slowest_Bps(const FlowList *list, const Topology *topology, int *passes, int *limit);
