/* Flows against hand-computed times and shares, and against a plain solver on random sets. */
#include "flows.h"
#include "network_platforms.h"
#include "routes.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Links without vertices that matter: link l has capacity Bps[l], no latency. */
static Network *links_new(const double *Bps, int n) {
  Network *network = network_new();
  network_add_vertex(network, "a", NET_GPU, 0);
  network_add_vertex(network, "b", NET_GPU, 0);
  for (int i = 0; i < n; i++)
    g_assert(network_add_link(network, 0, 1, &(NetCable){"l", Bps[i], 0, 1, DUPLEX_ONE_WAY}, NULL) == i);
  return network;
}

static void start(Flows *flows, gint64 now_ns, guint64 tag, double bytes, int n_links, const gint32 *links) {
  flows_start(
      flows, ticks_of_ns(now_ns),
      &(FlowRequest){.route = {links, n_links, 0}, .weight = 1, .bytes = bytes, .cap_Bps = INFINITY, .tag = tag});
}

/* Of the flow of this tag, which is below MOST_TAGS; −1: none is under way. */
static double rate_of(const Flows *flows, guint64 tag) {
  enum { MOST_TAGS = 64 };
  double rates_Bps[MOST_TAGS];
  ck_assert_uint_lt(tag, MOST_TAGS);
  rates_Bps[tag] = -1;
  flows_rates(flows, rates_Bps, tag + 1);
  return rates_Bps[tag];
}

/* The next flow to end is `tag`, at `end_ns` exactly. */
static void assert_next_end(Flows *flows, guint64 tag, double end_ns) {
  while (flows_advance(flows, flows_next(flows)) == 0)
    ck_assert(flows_n_active(flows) > 0);
  ck_assert_int_eq(flows_ended(flows)[0].tag, tag);
  ck_assert_double_eq_tol((double)flows_ended(flows)[0].end_ticks / TICKS_PER_NS, end_ns, 1.0 / TICKS_PER_NS);
}

#define LINKS(...)                                                                                                     \
  (G_N_ELEMENTS(((const gint32[]){__VA_ARGS__}))), (const gint32[]) {                                                  \
    __VA_ARGS__                                                                                                        \
  }

TEST(bytes_follow_the_latency) {
  g_autoptr(Network) network = crossbar_new(2, 1e9, 3e-6, FALSE);
  g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
  g_autoptr(Flows) flows = flows_new(network);
  NetRoute route = routes_get(routes, routes_find(routes, 0, 1, 0, NULL));
  FlowRequest request = {.route = route, .weight = 1, .bytes = 5000, .cap_Bps = INFINITY, .tag = 7};
  flows_start(flows, ticks_of_ns(100), &request);
  /* 100 + 2 · 3,000 + 5,000 B at 1 B/ns */
  assert_next_end(flows, 7, 11100);
  request.bytes = 0;
  flows_start(flows, ticks_of_ns(12000), &request);
  assert_next_end(flows, 7, 18000);
  ck_assert_int_eq(flows_next(flows), TICKS_NEVER);
}

/* Links A 10 B/ns (flows 1, 2) and B 12 B/ns (2, 3, 4): B gives 4 to each of its, A the other 6 to flow 1. */
TEST(shares_are_max_min_fair) {
  g_autoptr(Network) network = links_new((const double[]){10e9, 12e9}, 2);
  g_autoptr(Flows) flows = flows_new_with_loads(network);
  start(flows, 0, 1, 1200, LINKS(0));
  start(flows, 0, 2, 400, LINKS(0, 1));
  start(flows, 0, 3, 800, LINKS(1));
  start(flows, 0, 4, 800, LINKS(1));
  flows_advance(flows, 0);
  ck_assert_double_eq(rate_of(flows, 1), 6e9);
  ck_assert_double_eq(rate_of(flows, 2), 4e9);
  ck_assert_double_eq(rate_of(flows, 3), 4e9);
  ck_assert_double_eq(rate_of(flows, 9), -1);
  /* 2 ends at 100; then 3 and 4 have 6 each and 400 left: 166.7; 1 has 10 and 600 left: 160 */
  assert_next_end(flows, 2, 100);
  assert_next_end(flows, 1, 160);
  assert_next_end(flows, 3, 100 + 400 / 6.0);
  ck_assert_int_eq(flows_ended(flows)[1].tag, 4);
  /* over 166.7 ns: A moved 1,200 + 400, B 400 + 800 + 800 */
  ck_assert_double_eq_tol(flows_link_load(flows, 0).moved_bytes, 1600, 1e-6);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).moved_bytes, 2000, 1e-6);
  /* A bound flow 1 for 160 ns; B flow 2 for 100, 3 and 4 for 166.7 each */
  ck_assert_double_eq_tol(flows_link_load(flows, 0).bound_flow_s, 160e-9, 1e-12);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).bound_flow_s, (100 + 1000 / 3.0) * 1e-9, 1e-12);
}

TEST(a_newcomer_slows_and_an_end_speeds_up) {
  g_autoptr(Network) network = links_new((const double[]){2e9}, 1);
  g_autoptr(Flows) flows = flows_new(network);
  start(flows, 0, 1, 1000, LINKS(0)); /* alone to 200: 400 B; then 1 B/ns */
  ck_assert_int_eq(flows_advance(flows, ticks_of_ns(200)), 0);
  start(flows, 200, 2, 300, LINKS(0));
  assert_next_end(flows, 2, 500); /* flow 1 has moved 700 */
  assert_next_end(flows, 1, 650);
}

TEST(load_of_a_link_is_read_at_any_time) {
  g_autoptr(Network) network = links_new((const double[]){2e9, 8e9}, 2);
  g_autoptr(Flows) flows = flows_new_with_loads(network);
  start(flows, 0, 1, 1000, LINKS(0, 1));
  ck_assert_int_eq(flows_advance(flows, ticks_of_ns(100)), 0);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).moved_bytes, 200, 1e-6);
  start(flows, 100, 2, 600, LINKS(1)); /* has the 6 left */
  ck_assert_int_eq(flows_advance(flows, ticks_of_ns(150)), 0);
  ck_assert_double_eq_tol(flows_link_load(flows, 0).moved_bytes, 300, 1e-6);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).moved_bytes, 600, 1e-6);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).bound_flow_s, 50e-9, 1e-15);
  ck_assert_int_eq(flows_advance(flows, ticks_of_ns(2000)), 2);
  ck_assert_double_eq_tol(flows_link_load(flows, 1).moved_bytes, 1600, 1e-6);
}

TEST(a_cap_leaves_the_rest_to_others) {
  g_autoptr(Network) network = links_new((const double[]){10e9}, 1);
  g_autoptr(Flows) flows = flows_new_with_loads(network);
  FlowRequest capped = {.route = {(const gint32[]){0}, 1, 0}, .weight = 2, .bytes = 200, .cap_Bps = 1e9, .tag = 1};
  flows_start(flows, 0, &capped); /* two flows of at most 1: 8 left for two others */
  start(flows, 0, 2, 400, LINKS(0));
  start(flows, 0, 3, 800, LINKS(0));
  assert_next_end(flows, 2, 100);
  assert_next_end(flows, 3, 150); /* 400 left at 8 */
  assert_next_end(flows, 1, 200);
  ck_assert_double_eq(flows_link_load(flows, 0).moved_bytes, 1600);
}

/* A folded run: one flow stands for 4 ranks with a NIC each (link 0) under one uplink (link 1) of 2 B/ns. */
TEST(counts_share_a_link_among_flows_that_are_alike) {
  g_autoptr(Network) network = links_new((const double[]){1e9, 2e9}, 2);
  g_autoptr(Flows) flows = flows_new_with_loads(network);
  FlowRequest folded = {.route = {(const gint32[]){0, 1}, 2, 0},
                        .counts = (const gint64[]){1, 4},
                        .weight = 1,
                        .bytes = 100,
                        .cap_Bps = INFINITY,
                        .tag = 1};
  flows_start(flows, 0, &folded);
  assert_next_end(flows, 1, 200); /* 2 / 4 = 0.5 B/ns */
  ck_assert_double_eq(flows_link_load(flows, 0).moved_bytes, 100);
  ck_assert_double_eq(flows_link_load(flows, 1).moved_bytes, 400);
}

TEST(infinite_links_bound_nothing) {
  g_autoptr(Network) network = links_new((const double[]){INFINITY, 1e9}, 2);
  g_autoptr(Flows) flows = flows_new_with_loads(network);
  start(flows, 0, 1, 1000, LINKS(0)); /* ends at once */
  start(flows, 0, 2, 1000, LINKS(0, 1));
  start(flows, 0, 3, 1e30, LINKS(1)); /* later than time goes */
  assert_next_end(flows, 1, 0);
  assert_next_end(flows, 2, 2000); /* half of link 1 */
  ck_assert_double_eq(flows_link_load(flows, 0).moved_bytes, 2000);
  ck_assert_int_eq(flows_next(flows), TICKS_NEVER);
  ck_assert_int_eq(flows_n_active(flows), 1);
}

TEST(a_shared_cable_has_one_capacity_both_ways) {
  for (int is_shared = 0; is_shared < 2; is_shared++) {
    g_autoptr(Network) network = crossbar_new(2, 1e9, 0, is_shared);
    g_autoptr(Routes) routes = routes_new(network, ROUTE_BY_LATENCY, ROUTE_HASHED);
    g_autoptr(Flows) flows = flows_new(network);
    for (gint32 from = 0; from < 2; from++) {
      NetRoute route = routes_get(routes, routes_find(routes, from, 1 - from, 0, NULL));
      flows_start(flows, 0,
                  &(FlowRequest){.route = route, .weight = 1, .bytes = 1000, .cap_Bps = INFINITY, .tag = from});
    }
    assert_next_end(flows, 0, is_shared ? 2000 : 1000);
    ck_assert_int_eq(flows_ended(flows)[1].tag, 1);
  }
}

TEST(what_ends_together_is_told_in_the_order_of_starts) {
  g_autoptr(Network) network = links_new((const double[]){1e9, 1e9}, 2);
  g_autoptr(Flows) flows = flows_new(network);
  for (guint64 tag = 0; tag < 100; tag++) /* 50 on each link, so each at 1 / 50 B/ns */
    start(flows, 0, 1000 - tag, 10, LINKS(tag % 2));
  assert_next_end(flows, 1000, 500);
  for (guint64 i = 0; i < 100; i++)
    ck_assert_int_eq(flows_ended(flows)[i].tag, 1000 - i);
}

TEST(an_end_is_rounded_up_once) {
  ck_assert_int_eq(ticks_to_ns(ticks_of_ns(5)), 5);
  ck_assert_int_eq(ticks_to_ns(ticks_of_ns(5) + 1), 6);
  ck_assert_int_eq(ticks_to_ns(TICKS_NEVER), G_MAXINT64);
  ck_assert_int_eq(ticks_of_ns(G_MAXINT64), TICKS_NEVER);
  ck_assert_int_eq(ticks_of_s(INFINITY), TICKS_NEVER);
  /* 0.1 B/ns: 30 ns three times over, whatever 1 / 0.1 is in binary */
  g_autoptr(Network) network = links_new((const double[]){1e8}, 1);
  g_autoptr(Flows) flows = flows_new(network);
  for (int i = 0; i < 3; i++) {
    start(flows, 30 * i, i, 3, LINKS(0));
    assert_next_end(flows, i, 30 * (i + 1));
  }
  ck_assert_int_eq(ticks_to_ns(flows_ended(flows)[0].end_ticks), 90);
}

/* --- random sets --- */

enum { N_LINKS = 12, MAX_HOPS = 5, N_FLOWS = 40 };

typedef struct {
  gint32 links[MAX_HOPS];
  gint64 counts[MAX_HOPS];
  int n_links;
  FlowRequest request;
} RandomFlow;

static Network *random_links(GRand *rand) {
  double Bps[N_LINKS];
  for (int i = 0; i < N_LINKS; i++)
    Bps[i] = 1e9 * g_rand_int_range(rand, 1, 9);
  return links_new(Bps, N_LINKS);
}

static void draw_flow(GRand *rand, RandomFlow *flow, guint64 tag) {
  flow->n_links = g_rand_int_range(rand, 1, MAX_HOPS);
  for (int h = 0; h < flow->n_links; h++) { /* each link once: a stride that N_LINKS does not divide */
    flow->links[h] = h == 0 ? g_rand_int_range(rand, 0, N_LINKS) : (flow->links[h - 1] + 5) % N_LINKS;
    flow->counts[h] = g_rand_int_range(rand, 1, 4);
  }
  flow->request =
      (FlowRequest){.route = {flow->links, flow->n_links, g_rand_int_range(rand, 0, 3) * 4096},
                    .counts = flow->counts,
                    .weight = g_rand_int_range(rand, 1, 4),
                    .bytes = g_rand_int_range(rand, 1, 10000),
                    .cap_Bps = g_rand_int_range(rand, 0, 3) == 0 ? 2e8 * g_rand_int_range(rand, 1, 5) : INFINITY,
                    .tag = tag};
}

/* What all flows use of a link when those that rise (rate < 0) are at `level`, or at their cap. */
static double used_Bps(const RandomFlow *flows, const double *rates, int n, gint32 link, double level) {
  double sum = 0;
  for (int f = 0; f < n; f++)
    for (int h = 0; h < flows[f].n_links; h++)
      if (flows[f].links[h] == link)
        sum += (rates[f] >= 0 ? rates[f] : MIN(level, flows[f].request.cap_Bps)) * flows[f].counts[h] *
               flows[f].request.weight;
  return sum;
}

/* Raise the level of all by bisection until a link is full; those on full links and at their caps stay; again. */
static void solve_plainly(const Network *network, const RandomFlow *flows, int n, double *rates) {
  for (int f = 0; f < n; f++)
    rates[f] = -1;
  for (int n_rising = n; n_rising > 0;) {
    double low = 0, high = 16e9;
    for (int turn = 0; turn < 100; turn++) {
      double level = (low + high) / 2;
      gboolean fits = TRUE;
      for (gint32 l = 0; l < N_LINKS; l++)
        fits = fits && used_Bps(flows, rates, n, l, level) <= network_link(network, l)->capacity_Bps;
      *(fits ? &low : &high) = level;
    }
    gboolean is_full[N_LINKS];
    for (gint32 l = 0; l < N_LINKS; l++)
      is_full[l] = used_Bps(flows, rates, n, l, low * (1 + 1e-9)) > network_link(network, l)->capacity_Bps;
    for (int f = 0; f < n; f++) {
      gboolean stays = rates[f] < 0 && flows[f].request.cap_Bps <= low * (1 + 1e-9);
      for (int h = 0; rates[f] < 0 && h < flows[f].n_links; h++)
        stays = stays || is_full[flows[f].links[h]];
      if (stays) {
        rates[f] = MIN(low, flows[f].request.cap_Bps);
        n_rising--;
      }
    }
  }
}

TEST(rates_are_those_of_a_plain_solver) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(21);
  for (int turn = 0; turn < 200; turn++) {
    g_autoptr(Network) network = random_links(rand);
    g_autoptr(Flows) flows = flows_new(network);
    RandomFlow set[N_FLOWS];
    double rates[N_FLOWS];
    int n = g_rand_int_range(rand, 1, N_FLOWS);
    for (int f = 0; f < n; f++) {
      draw_flow(rand, &set[f], f);
      set[f].request.route.latency_ticks = 0;
      flows_start(flows, 0, &set[f].request);
    }
    flows_advance(flows, 0);
    solve_plainly(network, set, n, rates);
    for (int f = 0; f < n; f++)
      if (!(fabs(rate_of(flows, f) / rates[f] - 1) < 1e-8))
        ck_abort_msg("turn %d, flow %d of %d: %g, expected %g", turn, f, n, rate_of(flows, f), rates[f]);
  }
}

/* Flows come and go; at each end, the rates of those under way are those of a fresh start of the same set, bit for bit.
 * Those in their latency are left out of it. */
TEST(a_change_solved_in_part_is_the_whole_solved_anew) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(22);
  int n_compared = 0;
  for (int turn = 0; turn < 20; turn++) {
    g_autoptr(Network) network = random_links(rand);
    g_autoptr(Flows) flows = flows_new(network);
    RandomFlow set[N_FLOWS];
    int n_started = 0;
    gint64 now_ticks = 0;
    while (n_started < N_FLOWS || flows_n_active(flows) > 0) {
      gint64 next_ticks = flows_next(flows);
      if (n_started < N_FLOWS && g_rand_int_range(rand, 0, 2) == 0) {
        draw_flow(rand, &set[n_started], n_started);
        flows_start(flows, next_ticks < TICKS_NEVER ? next_ticks : now_ticks, &set[n_started].request);
        n_started++;
        continue;
      }
      if (next_ticks == TICKS_NEVER)
        continue;
      flows_advance(flows, next_ticks);
      now_ticks = next_ticks;
      g_autoptr(Flows) anew = flows_new(network);
      for (int f = n_started; f-- > 0;) /* the other way round */
        if (rate_of(flows, f) > 0) {
          FlowRequest request = set[f].request;
          request.route.latency_ticks = 0;
          flows_start(anew, 0, &request);
        }
      flows_advance(anew, 0);
      for (int f = 0; f < n_started; f++)
        if (rate_of(flows, f) > 0) {
          n_compared++;
          if (rate_of(flows, f) != rate_of(anew, f))
            ck_abort_msg("turn %d, flow %d: %.17g, anew %.17g", turn, f, rate_of(flows, f), rate_of(anew, f));
        }
    }
  }
  ck_assert_int_gt(n_compared, 1000);
}

/* Each flow of weight w beside w single ones: the same ends to the tick, the same bytes on every link. */
TEST(a_weight_is_as_many_single_flows) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(23);
  for (int turn = 0; turn < 100; turn++) {
    g_autoptr(Network) network = random_links(rand);
    g_autoptr(Flows) weighted = flows_new_with_loads(network), single = flows_new_with_loads(network);
    RandomFlow set[N_FLOWS];
    gint64 ends_ticks[N_FLOWS];
    int n = g_rand_int_range(rand, 1, N_FLOWS), n_wrong = 0;
    for (int f = 0; f < n; f++) {
      draw_flow(rand, &set[f], f);
      flows_start(weighted, 0, &set[f].request);
      FlowRequest one = set[f].request;
      one.weight = 1;
      for (gint64 i = 0; i < set[f].request.weight; i++)
        flows_start(single, 0, &one);
    }
    ck_assert_int_eq(flows_advance(weighted, TICKS_NEVER - 1), n);
    for (int i = 0; i < n; i++)
      ends_ticks[flows_ended(weighted)[i].tag] = flows_ended(weighted)[i].end_ticks;
    int n_single = flows_advance(single, TICKS_NEVER - 1);
    for (int i = 0; i < n_single; i++)
      n_wrong += flows_ended(single)[i].end_ticks != ends_ticks[flows_ended(single)[i].tag];
    for (gint32 l = 0; l < N_LINKS; l++) {
      LinkLoad a = flows_link_load(weighted, l), b = flows_link_load(single, l);
      n_wrong +=
          fabs(a.moved_bytes - b.moved_bytes) > 1e-6 || fabs(a.bound_flow_s - b.bound_flow_s) > 1e-9 * a.bound_flow_s;
    }
    ck_assert_int_eq(n_wrong, 0);
  }
}

/* All bytes of all flows are on each of their links in the end, and no link was faster than it is. */
TEST(bytes_are_conserved_and_links_not_overrun) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(24);
  for (int turn = 0; turn < 100; turn++) {
    g_autoptr(Network) network = random_links(rand);
    g_autoptr(Flows) flows = flows_new_with_loads(network);
    double expected[N_LINKS] = {0}, before[N_LINKS] = {0};
    int n_wrong = 0;
    for (int f = 0; f < N_FLOWS; f++) {
      RandomFlow flow;
      draw_flow(rand, &flow, f);
      for (int h = 0; h < flow.n_links; h++)
        expected[flow.links[h]] += flow.request.bytes * flow.counts[h] * flow.request.weight;
      flows_start(flows, 0, &flow.request);
    }
    for (gint64 at_ns = 100; flows_n_active(flows) > 0; at_ns += 100) {
      flows_advance(flows, ticks_of_ns(at_ns));
      for (gint32 l = 0; l < N_LINKS; l++) { /* in 100 ns; a tick of each flow may end early */
        double moved = flows_link_load(flows, l).moved_bytes;
        n_wrong += moved - before[l] > network_link(network, l)->capacity_Bps * 100.05e-9 || moved < before[l] - 1e-6;
        before[l] = moved;
      }
    }
    for (gint32 l = 0; l < N_LINKS; l++)
      n_wrong += fabs(before[l] - expected[l]) > 1e-9 * expected[l];
    ck_assert_int_eq(n_wrong, 0);
  }
}

static void note_ends(Flows *flows, gint64 to_ticks, gint64 *end_ticks) {
  gint32 n_ended = flows_advance(flows, to_ticks);
  for (gint32 i = 0; i < n_ended; i++)
    end_ticks[flows_ended(flows)[i].tag] = flows_ended(flows)[i].end_ticks;
}

/* Started each at its time, or all told at the beginning, the last first: they end at the same ticks. */
TEST(a_flow_told_ahead_ends_as_one_started_at_its_time) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(24);
  for (int turn = 0; turn < 50; turn++) {
    g_autoptr(Network) network = random_links(rand);
    g_autoptr(Flows) in_time = flows_new(network), ahead = flows_new(network);
    RandomFlow set[N_FLOWS];
    gint64 at_ticks[N_FLOWS], end_ticks[2][N_FLOWS];
    for (int f = 0; f < N_FLOWS; f++) {
      draw_flow(rand, &set[f], f);
      set[f].request.route.latency_ticks += ticks_of_ns(1);
      at_ticks[f] = (f > 0 ? at_ticks[f - 1] : 0) + ticks_of_ns(g_rand_int_range(rand, 0, 200));
    }
    for (int f = 0; f < N_FLOWS; f++) {
      while (flows_next(in_time) <= at_ticks[f])
        note_ends(in_time, flows_next(in_time), end_ticks[0]);
      flows_start(in_time, at_ticks[f], &set[f].request);
      flows_start_later(ahead, at_ticks[N_FLOWS - 1 - f], &set[N_FLOWS - 1 - f].request);
    }
    while (flows_n_active(in_time) > 0)
      note_ends(in_time, flows_next(in_time), end_ticks[0]);
    while (flows_n_active(ahead) > 0)
      note_ends(ahead, flows_next(ahead), end_ticks[1]);
    for (int f = 0; f < N_FLOWS; f++)
      if (end_ticks[0][f] != end_ticks[1][f])
        ck_abort_msg("turn %d, flow %d: %" G_GINT64_FORMAT ", told ahead %" G_GINT64_FORMAT, turn, f, end_ticks[0][f],
                     end_ticks[1][f]);
  }
}

/* Flows on parts of the network that no link joins do not cost one another a solve. */
TEST(a_change_is_solved_where_it_reaches) {
  double Bps[100];
  for (int l = 0; l < 100; l++)
    Bps[l] = 1e9;
  g_autoptr(Network) network = links_new(Bps, 100);
  g_autoptr(Flows) flows = flows_new(network);
  for (gint32 l = 0; l < 100; l++) /* two flows a link; the first of each ends alone, at 2 · (100 + l) */
    for (int i = 0; i < 2; i++)
      start(flows, 0, 2 * l + i, 100 + l + 1000 * i, 1, &l);
  flows_advance(flows, 0);
  FlowsStats at_start = flows_stats(flows);
  ck_assert_int_eq(at_start.n_rates, 200);
  for (int l = 0; l < 100; l++)
    assert_next_end(flows, 2 * l, 2 * (100 + l));
  flows_next(flows);
  FlowsStats stats = flows_stats(flows);
  ck_assert_int_eq(stats.n_solves - at_start.n_solves, 100);
  ck_assert_int_eq(stats.n_rates - at_start.n_rates, 100); /* of the one flow that is left on the link */
}

int main(void) {
  return run_tests();
}
