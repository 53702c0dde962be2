/* Collective times from latencies and bandwidths fitted on the machine. */
#include "run_suite.h"
#include "toy_cluster.h"

/* The toy with a fit of all-reduces on the 8 GPUs of a node. */
static FittedLinks *fit_of(double alpha_s, double busbw_Bps) {
  FittedLinks *fitted = g_new0(FittedLinks, 1);
  fitted->collectives = g_array_new(FALSE, FALSE, sizeof(FittedCollective));
  FittedCollective fit = {COLLECTIVE_ALL_REDUCE, 8, 1, -1, PROTOCOL_SIMPLE, alpha_s, busbw_Bps};
  g_array_append_val(fitted->collectives, fit);
  return fitted;
}

TEST(a_fit_goes_before_the_model) {
  Cluster cluster = toy_cluster();
  g_autoptr(FittedLinks) fitted = fit_of(80e-6, 100e9);
  cluster.fitted = fitted;
  /* 80 us + 1.75·400 MB / 100 GB/s */
  CollectiveCost cost = cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, -1);
  assert_close(cost.time_s, 7080e-6);
  ck_assert_int_eq(cost.source, COST_INTERPOLATED);
  /* a second row with less latency and bandwidth: 20 us + 1.75·S / 50 GB/s takes over below 3.43 MB */
  FittedCollective low = {COLLECTIVE_ALL_REDUCE, 8, 1, -1, PROTOCOL_LL128, 20e-6, 50e9};
  g_array_append_val(fitted->collectives, low);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, MB, -1).time_s, 55e-6);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 3.4 * MB, -1).protocol, PROTOCOL_LL128);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 3.5 * MB, -1).protocol, PROTOCOL_SIMPLE);
  /* not for other operations, groups over nodes, or an algorithm that was not fitted */
  assert_close(cost_of(&cluster, COLLECTIVE_BROADCAST, 8, 1, 400 * MB, -1).time_s, 2029e-6);
  ck_assert_int_eq(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 16, 1, 400 * MB, -1).source, COST_MODELLED);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_TREE).time_s, 65e-6 + 4000e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 8, 1, 400 * MB, ALGORITHM_RING).time_s, 7080e-6);
}

TEST(a_fit_follows_the_model_to_other_groups) {
  Cluster cluster = toy_cluster();
  /* The model's 8 ranks: 50 us + 1.75·S / 200 GB/s; its 4: 8 + 6·3 = 26 us + 1.5·S / 200 GB/s. A fit of 80 us has 30
   * more than its steps, which stay: 56 us; half the rate stays half: 1.5·400 MB / 100 GB/s. */
  g_autoptr(FittedLinks) slow_start = fit_of(80e-6, 100e9);
  cluster.fitted = slow_start;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 4, 1, 400 * MB, -1).time_s, 56e-6 + 6000e-6);
  /* a fit of 25 us is half of the model's latency: so are the 26 us */
  g_autoptr(FittedLinks) quick_start = fit_of(25e-6, 100e9);
  cluster.fitted = quick_start;
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 4, 1, 400 * MB, -1).time_s, 13e-6 + 6000e-6);
  assert_close(cost_of(&cluster, COLLECTIVE_ALL_REDUCE, 4, 1, 0, -1).time_s, 13e-6);
}

int main(void) {
  return run_tests();
}
