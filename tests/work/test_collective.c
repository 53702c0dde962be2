#include "collective.h"
#include "run_suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

TEST(bus_factors_are_those_of_nccl_tests) {
  /* n = 8: 2·7/8; 7/8; 1 */
  const double expected[N_COLLECTIVES] = {
      [COLLECTIVE_ALL_REDUCE] = 1.75,    [COLLECTIVE_ALL_GATHER] = 0.875, [COLLECTIVE_REDUCE_SCATTER] = 0.875,
      [COLLECTIVE_ALL_TO_ALL] = 0.875,   [COLLECTIVE_BROADCAST] = 1,      [COLLECTIVE_REDUCE] = 1,
      [COLLECTIVE_GATHER] = 0.875,       [COLLECTIVE_SCATTER] = 0.875,    [COLLECTIVE_SEND_RECV] = 1,
      [COLLECTIVE_PARAMETER_SERVER] = 8, /* the server's link carries what all eight push */
  };
  for (Collective collective = 0; collective < N_COLLECTIVES; collective++)
    ck_assert_double_eq(collective_bus_factor(collective, 8), expected[collective]);
}

TEST(ring_all_reduce_of_4_gb_sends_7_gb) {
  /* 2·(8 − 1)/8 · 4 GB */
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_ALL_REDUCE, 8, 4e9), 7e9);
}

TEST(parameter_server_takes_in_every_gradient) {
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_PARAMETER_SERVER, 128, 1e9), 128e9);
}

TEST(one_rank_alone_sends_nothing) {
  for (Collective collective = 0; collective < COLLECTIVE_PARAMETER_SERVER; collective++)
    ck_assert_double_eq(collective_sent_bytes(collective, 1, 1e9), 0);
  /* a server stands beside its only worker */
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_PARAMETER_SERVER, 1, 1e9), 1e9);
}

TEST(all_gather_and_reduce_scatter_make_an_all_reduce) {
  for (int n = 1; n <= 64; n *= 2)
    ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_ALL_GATHER, n, 64) +
                            collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, n, 64),
                        collective_sent_bytes(COLLECTIVE_ALL_REDUCE, n, 64));
}

TEST(names_list_every_collective_once) {
  const char *const *names = collective_names();
  for (Collective collective = 0; collective < N_COLLECTIVES; collective++) {
    ck_assert_str_eq(names[collective], collective_name(collective));
    for (Collective other = 0; other < collective; other++)
      ck_assert_str_ne(names[other], names[collective]);
  }
  ck_assert_ptr_null(names[N_COLLECTIVES]);
}

int main(void) {
  return run_tests();
}
