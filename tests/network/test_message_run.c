/* Message programs against closed forms and against other simulators' results. */
#include "message_run.h"
#include "network_platforms.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

typedef struct {
  Network *network;
  Routes *routes;
  Flows *flows;
  gint32 *hosts;
} Platform;

static Platform crossbar(gint32 n_hosts, double Bps, double latency_s) {
  Network *network = crossbar_new(n_hosts, Bps, latency_s, FALSE);
  Platform platform = {network, routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED), flows_new(network),
                       g_new(gint32, n_hosts)};
  for (gint32 h = 0; h < n_hosts; h++)
    platform.hosts[h] = h;
  return platform;
}

static void platform_clear(Platform *platform) {
  flows_free(platform->flows);
  routes_free(platform->routes);
  network_free(platform->network);
  g_free(platform->hosts);
}

static gint64 run_ring(gint32 n_hosts, double bytes, double Bps, double latency_s, gboolean is_folded) {
  Platform platform = crossbar(n_hosts, Bps, latency_s);
  g_autoptr(MessageProgram) program =
      message_ring_all_reduce(platform.routes, platform.hosts, n_hosts, bytes, is_folded, NULL);
  ck_assert_int_eq(message_program_n_items(program), n_hosts < 2 ? 0 : n_hosts * (is_folded ? 1 : 2 * (n_hosts - 1)));
  gint64 end_ns = message_run(program, platform.routes, platform.flows, NULL);
  platform_clear(&platform);
  return end_ns;
}

/* 2(n − 1) / n · S / B + 2(n − 1) α, with α two links of 250 ns */
static double ring_ns(gint32 n_hosts, double bytes, double Bps) {
  return 2.0 * (n_hosts - 1) / n_hosts * bytes / Bps * 1e9 + 2.0 * (n_hosts - 1) * 500;
}

TEST(ring_is_its_closed_form_step_by_step_and_folded) {
  static const gint32 sizes[] = {1, 2, 3, 5, 8, 64, 100, 256, 1024};
  static const double bytes[] = {67108864, 1e9 / 3};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++)
    for (int b = 0; b < 2; b++) {
      if (sizes[i] == 1024 && b > 0)
        continue; /* 2,095,104 messages once */
      double expected_ns = ring_ns(sizes[i], bytes[b], 50e9);
      gint64 steps_ns = run_ring(sizes[i], bytes[b], 50e9, 250e-9, FALSE);
      gint64 folded_ns = run_ring(sizes[i], bytes[b], 50e9, 250e-9, TRUE);
      /* 1e-6 of it, and up to the next whole ns */
      ck_assert_double_le(fabs((double)steps_ns - expected_ns), 1 + 1e-6 * expected_ns);
      ck_assert_double_le(fabs((double)folded_ns - expected_ns), 1 + 1e-6 * expected_ns);
      /* a step of not quite whole ticks may carry the sum over one ns */
      ck_assert_int_le(ABS(steps_ns - folded_ns), 1);
    }
}

/* The same ring of 64 MiB as other simulators have it: 2.355810, 2.705412, 2.928869, 3.704733 ms for 8, 64, 256, 1,024
 * hosts (SimGrid, ASTRA-sim and LogGOPSim all within 0.04 %), in whole us here. */
TEST(ring_ends_when_others_say) {
  ck_assert_int_eq(run_ring(8, 67108864, 50e9, 250e-9, FALSE) / 1000, 2355);
  ck_assert_int_eq(run_ring(64, 67108864, 50e9, 250e-9, FALSE) / 1000, 2705);
  ck_assert_int_eq(run_ring(256, 67108864, 50e9, 250e-9, FALSE) / 1000, 2928);
}

/* Leaves of 32 hosts with 4 spines of the hosts' speed. Neighbours in the ring: one of a leaf's hosts sends out, so the
 * uplinks do not matter. Ranks dealt out leaf by leaf: 32 flows share 4 uplinks, of which D-mod-k gives each 8, and
 * every step takes 8 times as long: 2(n − 1) (8 · S / n / B + α). */
TEST(a_ring_across_leaves_slows_by_what_max_min_says) {
  enum { N_HOSTS = 128 };
  g_autoptr(Network) tree = fat_tree_new(4, 32, 4, 50e9, 50e9, 250e-9);
  for (int is_dealt = 0; is_dealt < 2; is_dealt++) {
    g_autoptr(Routes) routes = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_BY_RAIL);
    g_autoptr(Flows) flows = flows_new_with_loads(tree);
    gint32 ranks[N_HOSTS];
    for (gint32 r = 0; r < N_HOSTS; r++)
      ranks[r] = is_dealt ? r % 4 * 32 + r / 4 : r;
    g_autoptr(MessageProgram) program = message_ring_all_reduce(routes, ranks, N_HOSTS, 64e6, FALSE, NULL);
    double expected_ns = 2.0 * (N_HOSTS - 1) * ((is_dealt ? 8 : 1) * 64e6 / N_HOSTS / 50e9 * 1e9 + 500);
    gint64 end_ns = message_run(program, routes, flows, NULL);
    ck_assert_double_le(fabs((double)end_ns / expected_ns - 1), 1e-6);
    /* the link that bounds the step: an uplink then, a host's own else */
    gint32 most = 0;
    for (gint32 l = 1; l < network_n_links(tree); l++)
      most = flows_link_load(flows, l).bound_flow_s > flows_link_load(flows, most).bound_flow_s ? l : most;
    ck_assert_int_eq(network_vertex(tree, network_link(tree, most)->a)->kind, is_dealt ? NET_SWITCH : NET_GPU);
  }
}

/* 1F1B as actors in SimGrid 3.32 (F 10 ms, B 20 ms, 50e9 B/s, 500 ns a message): stages, micro-batches, bytes, end. */
TEST(pipeline_ends_when_simgrid_says) {
  static const struct {
    gint32 n_stages, n_micro_batches;
    double bytes;
    gint64 end_ns;
  } cases[] = {
      {8, 32, 1, 1170034001},        {8, 32, 50331648, 1238485041},    {8, 64, 1, 2130062001},
      {8, 64, 50331648, 2254884487}, {16, 128, 1, 4290134003},         {16, 128, 50331648, 4559911633},
      {64, 512, 1, 17250566011},     {64, 512, 50331648, 18390074511},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    Platform platform = crossbar(cases[i].n_stages, 50e9, 250e-9);
    PipelineSteps steps = {cases[i].n_micro_batches, 10000000, 20000000, cases[i].bytes};
    g_autoptr(MessageProgram) program =
        message_pipeline(platform.routes, platform.hosts, cases[i].n_stages, &steps, NULL);
    gint64 end_ns = message_run(program, platform.routes, platform.flows, NULL);
    /* printed there to a ns, and short of some of the 0.02 ns that each byte takes: within 1e-9 */
    ck_assert_double_le(fabs((double)end_ns / (double)cases[i].end_ns - 1), 1e-9);
    platform_clear(&platform);
  }
}

/* Free messages: (m + p − 1)(F + B), the closed form of 1F1B. */
TEST(pipeline_of_free_messages_is_its_closed_form) {
  for (gint32 p = 1; p <= 9; p += 2)
    for (gint32 m = 1; m <= 12; m++) {
      Platform platform = crossbar(p, INFINITY, 0);
      PipelineSteps steps = {m, 3, 5, 1e6};
      g_autoptr(MessageProgram) program = message_pipeline(platform.routes, platform.hosts, p, &steps, NULL);
      ck_assert_int_eq(message_run(program, platform.routes, platform.flows, NULL), (m + p - 1) * 8);
      platform_clear(&platform);
    }
}

TEST(an_item_waits_for_all_it_names) {
  Platform platform = crossbar(2, 1e9, 50e-9);
  gint32 route = routes_find(platform.routes, 0, 1, 0, NULL);
  g_autoptr(MessageProgram) program = message_program_new();
  gint64 ends_ticks[5];
  gint32 a = message_program_delay(program, 30);
  gint32 b = message_program_send(program, route, 200, 1); /* 100 + 200 */
  gint32 c = message_program_send(program, route, 50, 2); /* after a: 30 + 2 · 100, shares from 230: 50 B at half: … */
  message_program_after(program, a);
  gint32 d = message_program_delay(program, 0); /* after b and c */
  message_program_after(program, b);
  message_program_after(program, c);
  gint32 e = message_program_send(program, route, 0, 1);
  message_program_after(program, d);
  /* b has moved 130 at 230, 70 left; both at half: c ends at 330, b then has 20 left and ends at 350; e a latency later
   */
  ck_assert_int_eq(message_run(program, platform.routes, platform.flows, ends_ticks), 450);
  static const gint64 expected_ns[] = {30, 350, 330, 350, 450};
  for (gint32 i = a; i <= e; i++)
    ck_assert_int_eq(ends_ticks[i], ticks_of_ns(expected_ns[i]));
  platform_clear(&platform);
}

TEST(what_takes_longer_than_time_goes_is_said) {
  Platform platform = crossbar(2, 1, 0);
  g_autoptr(MessageProgram) program = message_program_new();
  gint64 ends_ticks[2];
  message_program_delay(program, 7);
  message_program_send(program, routes_find(platform.routes, 0, 1, 0, NULL), 1e15, 1);
  ck_assert_int_eq(message_run(program, platform.routes, platform.flows, ends_ticks), G_MAXINT64);
  ck_assert_int_eq(ends_ticks[0], ticks_of_ns(7));
  ck_assert_int_eq(ends_ticks[1], TICKS_NEVER);
  platform_clear(&platform);
}

TEST(the_same_program_twice_has_the_same_ends) {
  enum { N_HOSTS = 24 };
  gint64 ends_ticks[2][2 * (N_HOSTS - 1) * N_HOSTS];
  g_autoptr(Network) tree = fat_tree_new(4, 6, 3, 50e9, 20e9, 250e-9);
  int n_different = 0;
  for (int turn = 0; turn < 2; turn++) {
    g_autoptr(Routes) routes = routes_new(tree, ROUTE_BY_LATENCY, ROUTE_HASHED);
    g_autoptr(Flows) flows = flows_new(tree);
    gint32 ranks[N_HOSTS];
    for (gint32 r = 0; r < N_HOSTS; r++)
      ranks[r] = r * 7 % N_HOSTS;
    g_autoptr(MessageProgram) program = message_ring_all_reduce(routes, ranks, N_HOSTS, 1e6, FALSE, NULL);
    message_run(program, routes, flows, ends_ticks[turn]);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(ends_ticks[0]); i++)
    n_different += ends_ticks[0][i] != ends_ticks[1][i];
  ck_assert_int_eq(n_different, 0);
}

int main(void) {
  return run_tests();
}
