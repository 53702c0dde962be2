/* Routes: shortest by the requested order, avoiding dead links, chosen by their rule. */
#include "error.h"
#include "network_platforms.h"
#include "routes.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

static gint32 join(Network *network, gint32 a, gint32 b, double latency_s, double factor) {
  GError *error = NULL;
  gint32 link = network_add_link(network, a, b, &(NetCable){NULL, 1e9, latency_s, factor, DUPLEX_FULL}, &error);
  g_assert_no_error(error);
  return link;
}

static char *text_of(Routes *routes, gint32 from, gint32 to) {
  GError *error = NULL;
  gint32 route = routes_find(routes, from, to, 0, &error);
  g_assert_no_error(error);
  return routes_text(routes, route);
}

static void assert_route(Routes *routes, gint32 from, gint32 to, const char *expected) {
  g_autofree char *text = text_of(routes, from, to);
  ck_assert_str_eq(text, expected);
}

static void assert_no_route(Routes *routes, gint32 from, gint32 to, const char *expected) {
  g_autoptr(GError) error = NULL;
  ck_assert_int_eq(routes_find(routes, from, to, 0, &error), -1);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, expected));
}

/* Two nodes of two GPUs and two NICs behind a PCIe switch, a leaf per rail, a spine. */
typedef struct {
  Network *network;
  gint32 gpu[4], nic[4], pcie[2], leaf[2], spine;
} Rails;

static gint32 add(Network *network, const char *name, int number, NetKind kind, gint32 node) {
  g_autofree char *full = g_strdup_printf("%s%d", name, number);
  return network_add_vertex(network, full, kind, node);
}

/* GPU to its NIC: 2 links of 1 us through the switch. `dead_uplink`: of NIC 0. */
static Rails rails_new(gboolean is_uplink_dead) {
  Rails rails = {network_new()};
  for (int i = 0; i < 4; i++)
    rails.gpu[i] = add(rails.network, "gpu", i, NET_GPU, i / 2);
  for (int i = 0; i < 4; i++)
    rails.nic[i] = add(rails.network, "nic", i, NET_NIC, i / 2);
  for (int i = 0; i < 2; i++) {
    rails.pcie[i] = add(rails.network, "pcie", i, NET_SWITCH, i);
    rails.leaf[i] = add(rails.network, "leaf", i, NET_SWITCH, NETWORK_FABRIC);
  }
  rails.spine = add(rails.network, "spine", 0, NET_SWITCH, NETWORK_FABRIC);
  for (int i = 0; i < 4; i++) {
    join(rails.network, rails.gpu[i], rails.pcie[i / 2], 1e-6, 1);
    join(rails.network, rails.pcie[i / 2], rails.nic[i], 1e-6, 1);
    join(rails.network, rails.nic[i], rails.leaf[i % 2], 1e-6, is_uplink_dead && i == 0 ? 0 : 1);
  }
  for (int i = 0; i < 2; i++)
    join(rails.network, rails.leaf[i], rails.spine, 1e-6, 1);
  return rails;
}

TEST(rails_are_kept_where_nics_are_equally_near) {
  Rails rails = rails_new(FALSE);
  g_autoptr(Routes) routes = routes_new(rails.network, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
  assert_route(routes, rails.gpu[0], rails.gpu[1], "gpu0>pcie0, pcie0>gpu1");
  assert_route(routes, rails.gpu[0], rails.gpu[2],
               "gpu0>pcie0, pcie0>nic0, nic0>leaf0, leaf0>nic2, nic2>pcie1, pcie1>gpu2");
  assert_route(routes, rails.gpu[1], rails.gpu[3],
               "gpu1>pcie0, pcie0>nic1, nic1>leaf1, leaf1>nic3, nic3>pcie1, pcie1>gpu3");
  /* either rail is equally short: the source decides */
  assert_route(routes, rails.gpu[1], rails.gpu[2],
               "gpu1>pcie0, pcie0>nic1, nic1>leaf1, leaf1>nic3, nic3>pcie1, pcie1>gpu2");
  network_free(rails.network);
}

TEST(dead_links_are_on_no_route) {
  Rails rails = rails_new(TRUE);
  g_autoptr(Routes) routes = routes_new(rails.network, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
  assert_route(routes, rails.gpu[0], rails.gpu[2],
               "gpu0>pcie0, pcie0>nic1, nic1>leaf1, leaf1>nic3, nic3>pcie1, pcie1>gpu2");
  network_free(rails.network);
}

TEST(no_way_is_an_error_that_names_both_ends) {
  g_autoptr(Network) network = network_new();
  gint32 a = add(network, "a", 0, NET_GPU, 0), b = add(network, "b", 0, NET_GPU, 0),
         c = add(network, "c", 0, NET_GPU, 1);
  join(network, a, b, 0, 0);
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  assert_no_route(routes, a, b, "from a0 to b0");
  assert_no_route(routes, a, c, "from a0 to c0");
  g_autoptr(GError) error = NULL;
  ck_assert_int_eq(routes_find(routes, a, 3, 0, &error), -1);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "expected 0 … 2"));
}

TEST(a_gpu_passes_nothing_on) {
  g_autoptr(Network) network = network_new();
  gint32 a = add(network, "a", 0, NET_GPU, 0), b = add(network, "b", 0, NET_GPU, 0),
         c = add(network, "c", 0, NET_GPU, 0);
  gint32 host = add(network, "host", 0, NET_HOST, 0);
  join(network, a, b, 1e-9, 1); /* the short way from a to c leads through b */
  join(network, b, c, 1e-9, 1);
  join(network, a, host, 1e-6, 1);
  join(network, c, host, 1e-6, 1);
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  assert_route(routes, a, c, "a0>host0, host0>c0");
  assert_route(routes, a, b, "a0>b0");
}

TEST(latency_or_hops_come_first_as_asked) {
  g_autoptr(Network) network = network_new();
  gint32 a = add(network, "a", 0, NET_GPU, 0), b = add(network, "b", 0, NET_GPU, 0);
  gint32 s = add(network, "s", 0, NET_SWITCH, 0);
  join(network, a, b, 5e-6, 1); /* 1 hop of 5 us, or 2 of 1 us */
  join(network, a, s, 1e-6, 1);
  join(network, s, b, 1e-6, 1);
  g_autoptr(Routes) by_latency = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  g_autoptr(Routes) by_hops = routes_new(network, ROUTE_BY_HOPS, ROUTE_HASHED);
  assert_route(by_latency, a, b, "a0>s0, s0>b0");
  assert_route(by_hops, a, b, "a0>b0");
  ck_assert_int_eq(routes_get(by_latency, 0).latency_ticks, 2000 * TICKS_PER_NS);
}

/* A node's two GPUs joined by a slow link inside, a fast way over the leaf. */
TEST(a_way_over_the_fabric_may_be_shorter_than_inside) {
  g_autoptr(Network) network = network_new();
  gint32 a = add(network, "a", 0, NET_GPU, 0), b = add(network, "b", 0, NET_GPU, 0);
  gint32 leaf = add(network, "leaf", 0, NET_SWITCH, NETWORK_FABRIC);
  join(network, a, b, 9e-6, 1);
  join(network, a, leaf, 1e-6, 1);
  join(network, b, leaf, 1e-6, 1);
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  assert_route(routes, a, b, "a0>leaf0, leaf0>b0");
  assert_route(routes, leaf, b, "leaf0>b0");
  assert_route(routes, a, leaf, "a0>leaf0");
  assert_route(routes, a, a, "");
}

/* 4 leaves of 8 hosts under 8 spines. D-mod-k: a shift by 8 sends each host of a leaf over another spine. */
TEST(a_shift_by_destination_meets_on_no_link) {
  g_autoptr(Network) tree = fat_tree_new(4, 8, 8, 1e9, 1e9, 1e-6);
  g_autoptr(Routes) routes = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
  g_autofree int *n_routes = g_new0(int, network_n_links(tree));
  for (gint32 h = 0; h < 32; h++) {
    NetRoute route = routes_get(routes, routes_find(routes, h, (h + 8) % 32, 0, NULL));
    ck_assert_int_eq(route.n_links, 4);
    for (gint32 i = 0; i < 4; i++)
      ck_assert_int_eq(++n_routes[route.links[i]], 1);
  }
}

TEST(labels_spread_over_all_equally_short_ways) {
  g_autoptr(Network) tree = fat_tree_new(2, 2, 8, 1e9, 1e9, 1e-6);
  g_autoptr(Routes) routes = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_HASHED);
  g_autoptr(Routes) again = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_HASHED);
  int n_used[8] = {0};
  for (guint label = 0; label < 256; label++) {
    gint32 id = routes_find(routes, 0, 3, label, NULL);
    NetRoute route = routes_get(routes, id), same = routes_get(again, routes_find(again, 0, 3, label, NULL));
    ck_assert_int_eq(routes_find(routes, 0, 3, label, NULL), id);
    ck_assert_int_eq(route.links[1], same.links[1]);
    gint32 spine = network_link(tree, route.links[1])->b; /* hosts 0 … 3, leaves 4, 5, spines 6 … 13 */
    n_used[spine - 6]++;
  }
  for (int s = 0; s < 8; s++) /* 32 each on average, standard deviation √(256 · 1/8 · 7/8) = 5.3: within 3 of them */
    ck_assert(n_used[s] > 16 && n_used[s] < 48);
}

enum { N_RANDOM = 14 };

/* Some vertices of three nodes and the fabric, random cables, one in five dead. */
static Network *random_network(GRand *rand) {
  Network *network = network_new();
  for (int v = 0; v < N_RANDOM; v++)
    add(network, "v", v, g_rand_int_range(rand, 0, N_NET_KINDS), g_rand_int_range(rand, -1, 3));
  for (int i = 0; i < 40; i++) {
    gint32 a = g_rand_int_range(rand, 0, N_RANDOM), b = g_rand_int_range(rand, 0, N_RANDOM);
    NetCable cable = {NULL, 1e9, g_rand_int_range(rand, 0, 4) * 1e-6, g_rand_int_range(rand, 0, 5) > 0 ? 0.5 : 0,
                      g_rand_int_range(rand, 0, 3)};
    if (a != b)
      g_assert(network_add_link(network, a, b, &cable, NULL) >= 0);
  }
  return network;
}

/* Bellman and Ford from `from`, over links that a route between two nodes may use: those of the two and the fabric. A
 * route leaves its node once: state 0 in the first node, 1 in the fabric, 2 in the last node. Cost as (ns, hops). */
static void plain_distances(const Network *network, gint32 from, gint32 to, double *best) {
  double distance[3][N_RANDOM];
  gint32 first = network_vertex(network, from)->node, last = network_vertex(network, to)->node;
  for (int s = 0; s < 3; s++)
    for (int v = 0; v < N_RANDOM; v++)
      distance[s][v] = INFINITY;
  distance[first == NETWORK_FABRIC ? 1 : 0][from] = 0;
  for (int round = 0; round < 3 * N_RANDOM; round++)
    for (int s = 0; s < 3; s++)
      for (gint32 v = 0; v < N_RANDOM; v++) {
        if (isinf(distance[s][v]) || (v != from && network_vertex(network, v)->kind == NET_GPU))
          continue;
        for (gint32 i = 0; i < network_n_links(network); i++) {
          const NetLink *link = network_link(network, i);
          gint32 to_vertex = link->a == v ? link->b : link->a;
          if (link->capacity_Bps == 0 || (link->a != v && !(link->is_both_ways && link->b == v)))
            continue;
          gint32 node = network_vertex(network, to_vertex)->node;
          int next = node == NETWORK_FABRIC ? 1 : s == 0 && node == first ? 0 : s >= 1 && node == last ? 2 : -1;
          double cost = distance[s][v] + (double)link->latency_ticks * 1024 + 1;
          if (next >= s && cost < distance[next][to_vertex])
            distance[next][to_vertex] = cost;
        }
      }
  *best = MIN(MIN(distance[0][to], distance[1][to]), distance[2][to]);
}

static double cost_of_route(const Network *network, NetRoute route, gint32 from, gint32 to) {
  double cost = 0;
  gint32 at = from;
  for (gint32 i = 0; i < route.n_links; i++) {
    const NetLink *link = network_link(network, route.links[i]);
    ck_assert(link->capacity_Bps > 0 && (link->a == at || link->b == at));
    at = link->a == at ? link->b : link->a;
    cost += (double)link->latency_ticks * 1024 + 1;
  }
  ck_assert_int_eq(at, to);
  return cost;
}

TEST(routes_are_as_short_as_a_plain_search_finds) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(3);
  int n_found = 0, n_none = 0;
  for (int turn = 0; turn < 60; turn++) {
    g_autoptr(Network) network = random_network(rand);
    g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, turn % 2 ? ROUTE_HASHED : ROUTE_BY_RAIL);
    for (gint32 from = 0; from < N_RANDOM; from++)
      for (gint32 to = 0; to < N_RANDOM; to++) {
        double expected;
        plain_distances(network, from, to, &expected);
        gint32 route = routes_find(routes, from, to, 0, NULL);
        if ((route < 0) != !!isinf(expected))
          ck_abort_msg("turn %d: %d to %d: route %d, expected cost %g", turn, from, to, route, expected);
        double cost = route < 0 ? expected : cost_of_route(network, routes_get(routes, route), from, to);
        if (cost != expected)
          ck_abort_msg("turn %d: %d to %d costs %g, expected %g", turn, from, to, cost, expected);
        *(route < 0 ? &n_none : &n_found) += 1;
      }
  }
  ck_assert(n_found > 1000 && n_none > 1000);
}

/* 16,384 hosts, 512 leaves, 32 spines: a ring and a shift by half need two tables per leaf, not one per pair. */
TEST(routes_of_sixteen_thousand_hosts) {
  g_autoptr(Network) tree = fat_tree_new(512, 32, 32, 1e9, 1e9, 1e-6);
  g_autoptr(Routes) routes = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_HASHED);
  int n_wrong = 0;
  for (gint32 h = 0; h < 16384; h++) {
    NetRoute next = routes_get(routes, routes_find(routes, h, (h + 1) % 16384, 0, NULL));
    n_wrong += next.n_links != (h % 32 == 31 ? 4 : 2);
    NetRoute far = routes_get(routes, routes_find(routes, h, (h + 8192) % 16384, 0, NULL));
    n_wrong += far.n_links != 4;
  }
  ck_assert_int_eq(n_wrong, 0);
}

TEST(a_cable_is_passed_in_the_directions_it_has) {
  g_autoptr(Network) network = network_new();
  gint32 a = add(network, "a", 0, NET_GPU, 0), b = add(network, "b", 0, NET_GPU, 0),
         c = add(network, "c", 0, NET_GPU, 0);
  network_add_link(network, a, b, &(NetCable){NULL, 8e9, 1e-6, 0.5, DUPLEX_SHARED}, NULL);
  network_add_link(network, b, c, &(NetCable){NULL, 8e9, 1e-6, 1, DUPLEX_FULL}, NULL);
  network_add_link(network, a, c, &(NetCable){NULL, 8e9, 1e-6, 1, DUPLEX_ONE_WAY}, NULL);
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  assert_route(routes, a, b, "a0-b0");
  assert_route(routes, b, a, "a0-b0");
  assert_route(routes, b, c, "b0>c0");
  assert_route(routes, c, b, "c0>b0");
  assert_route(routes, a, c, "a0>c0");
  assert_no_route(routes, c, a, "from c0 to a0");
}

int main(void) {
  return run_tests();
}
