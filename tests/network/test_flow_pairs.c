/* Two flows that share links with no other: solved as a pair, run ahead of time, or followed separately, against the
 * general solver. */
#include "flows.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

/* Links 0 … 4 of the first flow, 1 … 5 of the second; a third flow on the last two. */
enum { N_HOPS = 5, WIDE = 6, OF_THIRD, N_LINKS };

typedef struct {
  double capacity_Bps[N_LINKS];
  gint32 links[2][N_HOPS];
  gint64 counts[2][N_HOPS];
  FlowRequest requests[2];
} PairCase;

static void draw_pair(GRand *rand, PairCase *drawn) {
  for (int l = 0; l < N_LINKS; l++)
    drawn->capacity_Bps[l] = 1e9 * g_rand_int_range(rand, 1, 12) / (l == 0 || l == 5 ? 7 : 2);
  drawn->capacity_Bps[WIDE] = 1e15;
  for (int f = 0; f < 2; f++) {
    for (int h = 0; h < N_HOPS; h++) {
      drawn->links[f][h] = f + h;
      drawn->counts[f][h] = g_rand_int_range(rand, 1, 4);
    }
    drawn->requests[f] = (FlowRequest){.route = {drawn->links[f], N_HOPS, ticks_of_ns(g_rand_int_range(rand, 1, 90))},
                                       .counts = drawn->counts[f],
                                       .weight = g_rand_int_range(rand, 1, 4),
                                       .bytes = g_rand_int_range(rand, 1, 1000),
                                       .cap_Bps = 2e8 * g_rand_int_range(rand, 1, 30),
                                       .tag = (guint64)f};
  }
}

/* The third is beside the first on a link so wide that it binds nobody: all three are one part then. The two have the
 * same rates, bit for bit, as without it, when they are a pair. */
TEST(a_pair_has_the_rates_of_a_part) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(23);
  const gint32 links_of_third[] = {WIDE, OF_THIRD};
  int n_unequal = 0;
  for (int turn = 0; turn < 2000; turn++) {
    PairCase drawn;
    double rates[2][2];
    draw_pair(rand, &drawn);
    drawn.links[0][0] = WIDE;
    drawn.counts[0][0] = 1;
    const FlowRequest third = {{links_of_third, 2, 0}, NULL, 1, 1e6, INFINITY, 2};
    for (int with_third = 0; with_third < 2; with_third++) {
      g_autoptr(Flows) flows = flows_new_on_links(drawn.capacity_Bps, N_LINKS);
      for (int f = 0; f < 2; f++) {
        drawn.requests[f].route.latency_ticks = 0;
        flows_start(flows, 0, &drawn.requests[f]);
      }
      if (with_third)
        flows_start(flows, 0, &third);
      flows_advance(flows, 0);
      flows_rates(flows, rates[with_third], 2);
      ck_assert_int_eq(flows_stats(flows).n_rates, 2 + with_third);
    }
    ck_assert(rates[0][0] == rates[1][0] && rates[0][1] == rates[1][1]);
    n_unequal += rates[0][0] != rates[0][1];
  }
  ck_assert_int_gt(n_unequal, 200); /* not all in the first round */
}

/* Until the flow of this tag ends; ends_ticks[tag] of all that do. */
static void advance_to_end(Flows *flows, guint64 tag, gint64 ends_ticks[2]) {
  while (ends_ticks[tag] < 0) {
    const gint32 n_ended = flows_advance(flows, flows_next(flows));
    for (gint32 i = 0; i < n_ended; i++)
      ends_ticks[flows_ended(flows)[i].tag] = flows_ended(flows)[i].end_ticks;
  }
}

/* The second flow again and again beside the first, run ahead and in time: all end at the same ticks. It is refused
 * where the first one ends meanwhile, and up to its own end. */
TEST(a_flow_run_ahead_ends_as_in_time) {
  enum { TIMES = 8 };
  g_autoptr(GRand) rand = g_rand_new_with_seed(25);
  int n_ahead = 0, n_refused = 0;
  for (int turn = 0; turn < 1000; turn++) {
    PairCase drawn;
    draw_pair(rand, &drawn);
    drawn.requests[0].bytes *= g_rand_int_range(rand, 1, 20);
    g_autoptr(Flows) ahead = flows_new_on_links(drawn.capacity_Bps, N_LINKS);
    g_autoptr(Flows) in_time = flows_new_on_links(drawn.capacity_Bps, N_LINKS);
    Flows *both[] = {ahead, in_time};
    for (int i = 0; i < 2; i++) {
      flows_start(both[i], 0, &drawn.requests[0]);
      flows_advance(both[i], drawn.requests[0].route.latency_ticks);
    }
    gint64 at_ticks = flows_now(ahead), first_ends[2] = {-1, -1}, end_ticks = 0;
    FlowsMet met[FLOWS_N_MET] = {0};
    for (int k = 0; k < TIMES && end_ticks >= 0; k++) {
      at_ticks += ticks_of_ns(g_rand_int_range(rand, 0, 50));
      drawn.requests[1].bytes = g_rand_int_range(rand, 1, 1000);
      flows_start_later(in_time, at_ticks, &drawn.requests[1]);
      first_ends[1] = -1;
      advance_to_end(in_time, 1, first_ends);
      ck_assert_int_lt(flows_run_ahead(ahead, at_ticks, &drawn.requests[1], 0, N_LINKS, first_ends[1], met), 0);
      end_ticks = flows_run_ahead(ahead, at_ticks, &drawn.requests[1], 0, N_LINKS, TICKS_NEVER, met);
      ck_assert(end_ticks >= 0 ? end_ticks == first_ends[1] && first_ends[0] < 0
                               : first_ends[0] >= 0 && first_ends[0] <= first_ends[1]);
      n_ahead += end_ticks >= 0;
      n_refused += end_ticks < 0;
      at_ticks = first_ends[1];
    }
    ck_assert_uint_eq(flows_stats(ahead).n_starts + (end_ticks < 0), flows_stats(in_time).n_starts);
    gint64 last_ends[2] = {-1, -1};
    if (end_ticks < 0)
      continue;
    ck_assert_int_eq(flows_end_alone(ahead, 0, N_LINKS, 0), flows_next(ahead));
    advance_to_end(ahead, 0, last_ends);
    advance_to_end(in_time, 0, first_ends);
    ck_assert_int_eq(last_ends[0], first_ends[0]);
  }
  ck_assert_int_gt(n_ahead, 1000);
  ck_assert_int_gt(n_refused, 100);
}

/* Not beside two, nor beside one that is on links of others or meets another there. */
TEST(a_flow_is_not_run_ahead_into_others) {
  const double capacity_Bps[] = {1e9, 1e9, 1e9};
  const gint32 links[] = {0, 1, 2};
  const FlowRequest own = {{links, 1, 1}, NULL, 1, 100, 1e9, 0}, wide = {{links, 2, 0}, NULL, 1, 1e6, 1e9, 1};
  const FlowRequest same = {{links, 1, 0}, NULL, 1, 1e6, 1e9, 2}, next = {{links + 1, 1, 0}, NULL, 1, 1e6, 1e9, 3};
  const FlowRequest *others[][2] = {{&same, &same}, {&wide, NULL}, {&wide, &next}, {&same, NULL}, {&next, NULL}};
  for (gsize i = 0; i < G_N_ELEMENTS(others); i++) {
    g_autoptr(Flows) flows = flows_new_on_links(capacity_Bps, 3);
    for (int k = 0; k < 2 && others[i][k] != NULL; k++)
      flows_start(flows, 0, others[i][k]);
    flows_advance(flows, 0);
    FlowsMet met[FLOWS_N_MET] = {0};
    const gint64 end_ticks = flows_run_ahead(flows, 0, &own, 0, 1, TICKS_NEVER, met);
    ck_assert_int_eq(end_ticks >= 0, i >= 3);
    if (i >= 3) /* 100 B at half of 1 B/ns, or at 1 B/ns, after a tick */
      ck_assert_int_eq(end_ticks, 1 + ticks_of_ns(i == 3 ? 200 : 100));
  }
}

/* Two that share more links than a pair may have are left to time: no start is counted, and whom flows of this route
 * met before stays known. */
TEST(a_flow_that_is_refused_leaves_nothing_behind) {
  enum { N_SHARED = 40 };
  double capacity_Bps[N_SHARED];
  gint32 links[N_SHARED];
  for (int l = 0; l < N_SHARED; l++) {
    capacity_Bps[l] = 1e9;
    links[l] = l;
  }
  const FlowRequest under_way = {{links, N_SHARED, 0}, NULL, 1, 1e6, 1e9, 1},
                    own = {{links, N_SHARED, 1}, NULL, 1, 100, 1e9, 0};
  g_autoptr(Flows) flows = flows_new_on_links(capacity_Bps, N_SHARED);
  flows_start(flows, 0, &under_way);
  flows_advance(flows, 0);
  FlowsMet met[FLOWS_N_MET] = {{TRUE, 7, 1, 2, 3}, {TRUE, 8, 4, 5, 6}}, before[FLOWS_N_MET];
  memcpy(before, met, sizeof met);
  ck_assert_int_lt(flows_run_ahead(flows, 0, &own, 0, N_SHARED, TICKS_NEVER, met), 0);
  ck_assert_mem_eq(met, before, sizeof met);
  ck_assert_uint_eq(flows_stats(flows).n_starts, 1);
  ck_assert_int_eq(flows_n_active(flows), 1);
  ck_assert_int_eq(flows_next(flows), ticks_of_ns(1000000)); /* as it was */
}

/* A flow that leaves, in its latency or moving, and comes back ends as if it had stayed. What two have beside each
 * other is what they are given in time. */
TEST(a_flow_that_comes_back_goes_on_as_it_was) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(27);
  for (int turn = 0; turn < 1000; turn++) {
    PairCase drawn;
    FlowApart apart;
    draw_pair(rand, &drawn);
    g_autoptr(Flows) flows = flows_new_on_links(drawn.capacity_Bps, N_LINKS);
    const gboolean moves = turn % 2 == 0;
    flows_start(flows, 0, &drawn.requests[1]);
    if (moves)
      flows_advance(flows, drawn.requests[1].route.latency_ticks);
    const gint64 next_ticks = flows_next(flows);
    ck_assert(flows_are_free(flows, 0, N_LINKS) == !moves);
    ck_assert(!flows_take_out(flows, 0, N_LINKS, 0, &apart) && flows_take_out(flows, 0, N_LINKS, 1, &apart));
    ck_assert(apart.moves == moves && apart.at_ticks == next_ticks && flows_n_active(flows) == 0);
    ck_assert(flows_are_free(flows, 0, N_LINKS) && flows_next(flows) == TICKS_NEVER);
    flows_put_back(flows, &drawn.requests[1], &apart);
    ck_assert(flows_next(flows) == next_ticks && flows_are_free(flows, 0, N_LINKS) == !moves);
    gint64 ends_ticks[2] = {-1, -1};
    advance_to_end(flows, 1, ends_ticks);
    ck_assert(ends_ticks[1] >= next_ticks && (!moves || ends_ticks[1] == next_ticks));
  }
}

TEST(two_apart_have_the_rates_that_they_are_given_in_time) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(29);
  for (int turn = 0; turn < 1000; turn++) {
    PairCase drawn;
    FlowApart apart;
    double rates_Bps[2], apart_Bps[2];
    gint32 bounds[2];
    draw_pair(rand, &drawn);
    g_autoptr(Flows) flows = flows_new_on_links(drawn.capacity_Bps, N_LINKS);
    ck_assert(flows_rates_of_two(flows, drawn.requests, apart_Bps, bounds) && flows_are_free(flows, 0, N_LINKS));
    for (int f = 0; f < 2; f++) {
      drawn.requests[f].route.latency_ticks = 0;
      drawn.requests[f].bytes = 1e9;
      flows_start(flows, 0, &drawn.requests[f]);
    }
    flows_advance(flows, 0);
    flows_rates(flows, rates_Bps, 2);
    ck_assert(rates_Bps[0] == apart_Bps[0] && rates_Bps[1] == apart_Bps[1]);
    ck_assert(!flows_take_out(flows, 0, N_LINKS, 1, &apart)); /* the other is on its links */
  }
}

int main(void) {
  return run_tests();
}
