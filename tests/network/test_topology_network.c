/* Clusters as networks: the same links, and the effect of contention on data-parallel groups. */
#include "flows.h"
#include "routes.h"
#include "run_suite.h"
#include "topology_fixture.h"
#include "topology_network.h"

#include <math.h>

static Network *network_made(const Topology *topology) {
  g_autoptr(GError) error = NULL;
  Network *network = network_of_topology(topology, &error);
  g_assert_no_error(error);
  return network;
}

/* Shipped clusters, the ways between the GPUs of the first two nodes and all: hop by hop the link of both ends, what is
 * left of it and its latency. */
TEST(hops_are_links_of_the_network) {
  static const char *const names[] = {"dgx-h100", "a100-pcie", "dgx-1-v100", "gb200-nvl72", "llama3-h100", "selene"};
  for (gsize c = 0; c < G_N_ELEMENTS(names); c++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Cluster) cluster = cluster_read(names[c], &error);
    g_assert_no_error(error);
    g_autoptr(Topology) topology = topology_of(cluster, cluster->domain_gpus * 2);
    g_autoptr(Network) network = network_made(topology);
    int n_wrong = 0, n_hops = 0;
    for (int from = 0; from < topology->n_gpus; from += 3)
      for (int to = 0; to < topology->n_gpus; to++) {
        g_autoptr(Route) route = route_new(topology, from, to, NULL);
        for (int h = 0; route != NULL && h < route->n_hops; h++, n_hops++) {
          const NetLink *link = network_link(network, network_link_of_hop(topology, &route->hops[h]));
          const TopologyLink *told = &topology->links[route->hops[h].link];
          double left_Bps = topology_link_left_Bps(told);
          n_wrong += link->a != route->hops[h].from || link->b != route->hops[h].to;
          n_wrong += isinf(left_Bps) ? !isinf(link->capacity_Bps) : fabs(link->capacity_Bps / left_Bps - 1) > 1e-12;
          n_wrong += link->latency_ticks != ticks_of_s(told->latency_s);
        }
      }
    ck_assert_int_gt(n_hops, 0);
    ck_assert_int_eq(n_wrong, 0);
  }
}

/* Every GPU reaches every other by shortest routes too. */
TEST(shortest_routes_join_all_gpus) {
  static const char *const names[] = {"dgx-h100", "a100-pcie", "gb200-nvl72", "selene"};
  for (gsize c = 0; c < G_N_ELEMENTS(names); c++) {
    g_autoptr(Cluster) cluster = cluster_read(names[c], NULL);
    g_autoptr(Topology) topology = topology_of(cluster, cluster->domain_gpus * 2);
    g_autoptr(Network) network = network_made(topology);
    g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
    int n_missing = 0;
    for (int from = 0; from < topology->n_gpus; from++)
      for (int to = 0; to < topology->n_gpus; to++)
        n_missing += routes_find(routes, from, to, 0, NULL) < 0;
    ck_assert_int_eq(n_missing, 0);
  }
}

/* Every GPU sends to the one `apart` ranks on at once, `bytes` each. Returns the last end, ns. */
static double exchange_ns(const Topology *topology, const Network *network, int apart, double bytes) {
  g_autoptr(Flows) flows = flows_new(network);
  for (int from = 0; from < topology->n_gpus; from++) {
    g_autoptr(Route) route = route_new(topology, from, (from + apart) % topology->n_gpus, NULL);
    gint32 links[16];
    ck_assert_int_le(route->n_hops, 16);
    for (int h = 0; h < route->n_hops; h++)
      links[h] = network_link_of_hop(topology, &route->hops[h]);
    flows_start(flows, 0,
                &(FlowRequest){
                    .route = {links, route->n_hops, 0}, .weight = 1, .bytes = bytes, .cap_Bps = INFINITY, .tag = from});
  }
  gint64 last_ticks = 0;
  while (flows_next(flows) < TICKS_NEVER) {
    gint64 at_ticks = flows_next(flows);
    last_ticks = flows_advance(flows, at_ticks) > 0 ? at_ticks : last_ticks;
  }
  ck_assert_int_eq(flows_n_active(flows), 0);
  return (double)last_ticks / TICKS_PER_NS;
}

/* Nodes of 4 GPUs with a NIC each, 45 of 50 GB/s reached; pods of 16 GPUs, 1:7 above. Between nodes of a pod each GPU
 * has its NIC: 45 B/ns. Between the two pods 16 share 16 · 50 / 7 · 0.9: 45 / 7 each. */
TEST(an_exchange_across_pods_is_seven_times_as_long_at_1_to_7) {
  g_autoptr(Cluster) cluster = cluster_of(
      HEAD "node:\n  gpus: 4\n" NVSWITCH "  nics: 4\n  nic: {bandwidth: 50 GB/s, efficiency: 0.9, latency: 20 us}\n"
           "fabric: {tiers: [{span: 16, oversubscription: 1}, {span: 32, oversubscription: 7}]}\n");
  g_autoptr(Topology) topology = topology_of(cluster, 32);
  g_autoptr(Network) network = network_made(topology);
  double across_ns = exchange_ns(topology, network, 16, 45e6);
  ck_assert_double_eq_tol(across_ns, 7e6, 1);
  /* to the next node: 4 of a pod's 16 leave it and share its 16 · 45 / 7: 25.7 each; the others have all 45 */
  ck_assert_double_eq_tol(exchange_ns(topology, network, 4, 45e6), 1.75e6, 1);
  g_autoptr(Topology) pod = topology_of(cluster, 16);
  g_autoptr(Network) inside = network_made(pod);
  ck_assert_double_eq_tol(exchange_ns(pod, inside, 4, 45e6), 1e6, 1);
}

int main(void) {
  return run_tests();
}
