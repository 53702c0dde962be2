#include "flow_list.h"

#include <math.h>
#include <string.h>

FlowList flow_list_new(void) {
  return (FlowList){g_array_new(FALSE, FALSE, sizeof(int)), g_array_new(FALSE, FALSE, sizeof(guint))};
}

void flow_list_clear(FlowList *list) {
  g_clear_pointer(&list->hops, g_array_unref);
  g_clear_pointer(&list->ends, g_array_unref);
}

void flow_list_empty(FlowList *list) {
  g_array_set_size(list->hops, 0);
  g_array_set_size(list->ends, 0);
}

gboolean flow_list_add_route(FlowList *list, const Topology *topology, Route *route) {
  for (int i = 0; route != NULL && i < route->n_hops; i++) {
    const int hop = 2 * route->hops[i].link + (route->hops[i].from != topology->links[route->hops[i].link].a);
    g_array_append_val(list->hops, hop);
  }
  const gboolean is_there = route != NULL;
  route_free(route);
  return is_there;
}

void flow_list_end(FlowList *list) {
  g_array_append_val(list->ends, list->hops->len);
}

const int *flow_list_get(const FlowList *list, int flow, int *n_hops) {
  const guint first = flow > 0 ? g_array_index(list->ends, guint, flow - 1) : 0;
  *n_hops = (int)(g_array_index(list->ends, guint, flow) - first);
  return &g_array_index(list->hops, int, first);
}

double flow_list_hop_Bps(const Topology *topology, int hop) {
  return topology_link_left_Bps(&topology->links[hop / 2]);
}

void flow_list_count_passes(const FlowList *list, const Topology *topology, int *passes) {
  memset(passes, 0, sizeof *passes * 2 * (gsize)topology->n_links);
  for (guint i = 0; i < list->hops->len; i++)
    passes[g_array_index(list->hops, int, i)]++;
}

double flow_list_rate_Bps(const FlowList *list, const Topology *topology, const int *passes, int flow, int *limit) {
  int n_hops;
  const int *hops = flow_list_get(list, flow, &n_hops);
  double least_Bps = INFINITY;
  for (int i = 0; i < n_hops; i++) {
    const double Bps = flow_list_hop_Bps(topology, hops[i]) / passes[hops[i]];
    if (Bps < least_Bps) {
      least_Bps = Bps;
      *limit = hops[i];
    }
  }
  return least_Bps;
}

double flow_list_slowest_Bps(const FlowList *list, const Topology *topology, int *passes, int *limit) {
  double least_Bps = INFINITY;
  *limit = -1;
  flow_list_count_passes(list, topology, passes);
  for (guint i = 0; i < list->ends->len; i++) {
    int own_limit = -1;
    const double Bps = flow_list_rate_Bps(list, topology, passes, (int)i, &own_limit);
    if (Bps < least_Bps) {
      least_Bps = Bps;
      *limit = own_limit;
    }
  }
  return least_Bps;
}
