/* Two flows that share links with no other, solved as a pair, against the general solver. */
#include "flows.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

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

int main(void) {
  return run_tests();
}
