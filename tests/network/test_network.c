/* Vertices and the links of their cables. */
#include "network.h"
#include "run_suite.h"

#include "error.h"

#include <check.h>
#include <math.h>
#include <string.h>

TEST(cables_that_make_no_sense_are_refused) {
  g_autoptr(Network) network = network_new();
  const gint32 a = network_add_vertex(network, "a", NET_GPU, 0);
  network_add_vertex(network, "b", NET_GPU, 0);
  static const struct {
    gint32 to;
    NetCable cable;
    const char *says;
  } cases[] = {
      {2, {"x", 1e9, 0, 1, DUPLEX_FULL}, "link x: joins vertices 0 and 2, expected 0 … 1"},
      {0, {"x", 1e9, 0, 1, DUPLEX_FULL}, "link x: joins a to itself"},
      {1, {"x", 0, 0, 1, DUPLEX_FULL}, "link x: bandwidth is 0 B/s, expected > 0"},
      {1, {"x", NAN, 0, 1, DUPLEX_FULL}, "bandwidth is nan"},
      {1, {"x", 1e9, -1, 1, DUPLEX_FULL}, "link x: latency is -1 s, expected 0 … 1"},
      {1, {"x", 1e9, INFINITY, 1, DUPLEX_FULL}, "latency is inf"},
      {1, {"x", 1e9, 0, 1.5, DUPLEX_FULL}, "link x: factor is 1.5, expected 0 (dead) … 1 (sound)"},
      {1, {NULL, 1e9, 0, NAN, DUPLEX_FULL}, "link unnamed: factor is nan"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert_int_eq(network_add_link(network, a, cases[i].to, &cases[i].cable, &error), -1);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_ptr_nonnull(strstr(error->message, cases[i].says));
  }
  ck_assert_int_eq(network_n_links(network), 0);
}

static void assert_link(const Network *network, gint32 link, const char *name, double capacity_Bps) {
  ck_assert_str_eq(network_link(network, link)->name, name);
  ck_assert_double_eq(network_link(network, link)->capacity_Bps, capacity_Bps);
}

/* 8 GB/s of which a factor of one half is left are 4 GB/s; a dead cable is there, and carries nothing. */
TEST(duplex_decides_how_many_links_a_cable_is) {
  g_autoptr(Network) network = network_new();
  const gint32 a = network_add_vertex(network, "a", NET_GPU, 0), b = network_add_vertex(network, "b", NET_GPU, 0),
               c = network_add_vertex(network, "c", NET_GPU, 0);
  ck_assert_int_eq(network_add_link(network, a, b, &(NetCable){NULL, 8e9, 1e-6, 0.5, DUPLEX_SHARED}, NULL), 0);
  ck_assert_int_eq(network_add_link(network, b, c, &(NetCable){NULL, 8e9, 1e-6, 0, DUPLEX_FULL}, NULL), 1);
  ck_assert_int_eq(network_add_link(network, a, c, &(NetCable){NULL, 8e9, 1e-6, 1, DUPLEX_ONE_WAY}, NULL), 3);
  ck_assert_int_eq(network_n_links(network), 4);
  assert_link(network, 0, "a-b", 4e9);
  assert_link(network, 1, "b>c", 0);
  assert_link(network, 2, "c>b", 0);
  assert_link(network, 3, "a>c", 8e9);
}

int main(void) {
  return run_tests();
}
