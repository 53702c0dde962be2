/* Clusters written out in a test, and their graphs. */
#pragma once
#include "route.h"
#include "topology_check.h"

#include <check.h>
#include <glib.h>
#include <string.h>

#define HEAD "name: t\nsource: made up\ngpu: h100-sxm5-80gb\ncollectives: \"2.30\"\n"

/* A node of 4 GPUs and 2 NICs on two sockets with a switch each; `scale_up` and `more` are put in. */
#define PCIE                                                                                                           \
  "  pcie:\n    bandwidth: 64 GB/s\n    efficiency: 0.5\n    sockets: [{}, {}]\n    inter_socket: 20 GB/s\n"           \
  "    switches:\n      - {socket: 0, uplink: 60 GB/s, gpus: [0, 1], nics: [0]}\n"                                     \
  "      - {socket: 1, uplink: 60 GB/s, gpus: [2, 3], nics: [1]}\n"
#define NVSWITCH "  scale_up: {kind: nvswitch, bandwidth: 400 GB/s, efficiency: 0.8, latency: 10 us}\n"
#define NICS "  nics: 2\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n"

static inline Cluster *cluster_of(const char *text) {
  GError *error = NULL;
  Cluster *cluster = cluster_parse("t.yaml", text, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "?");
  return cluster;
}

static inline Topology *topology_of(const Cluster *cluster, gint64 n_gpus) {
  GError *error = NULL;
  Topology *topology = topology_new(cluster, n_gpus, &error);
  ck_assert_msg(topology != NULL, "%s", error != NULL ? error->message : "?");
  return topology;
}

static inline int vertex_of(const Topology *topology, const char *name) {
  int vertex = topology_find_vertex(topology, name);
  ck_assert_msg(vertex >= 0, "%s is not there", name);
  return vertex;
}

static inline const TopologyLink *link_of(const Topology *topology, const char *a, const char *b) {
  int link = topology_find_link(topology, vertex_of(topology, a), vertex_of(topology, b));
  ck_assert_msg(link >= 0, "%s and %s are not linked", a, b);
  return &topology->links[link];
}

/* "node0/gpu0 node0/nvswitch node0/gpu1". Owned by the caller. */
static inline char *way_of(const Topology *topology, const Route *route) {
  GString *way = g_string_new(NULL);
  for (int i = 0; i < route->n_hops; i++) {
    g_autofree char *from = topology_vertex_name(topology, route->hops[i].from),
                    *to = topology_vertex_name(topology, route->hops[i].to);
    g_string_append_printf(way, "%s%s%s", i == 0 ? from : "", " ", to);
  }
  return g_string_free(way, FALSE);
}

static inline void assert_way(const Topology *topology, int from, int to, const char *expected) {
  GError *error = NULL;
  g_autoptr(Route) route = route_new(topology, from, to, &error);
  ck_assert_msg(route != NULL, "%s", error != NULL ? error->message : "?");
  g_autofree char *way = way_of(topology, route);
  ck_assert_str_eq(way, expected);
}
