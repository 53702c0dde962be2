#include "collective.h"
#include "run_suite.h"
#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(bus_factors_are_those_of_nccl_tests) {
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
END_TEST

START_TEST(ring_all_reduce_of_4_gb_sends_7_gb) {
  /* 2·(8 − 1)/8 · 4 GB */
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_ALL_REDUCE, 8, 4e9), 7e9);
}
END_TEST

START_TEST(parameter_server_takes_in_every_gradient) {
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_PARAMETER_SERVER, 128, 1e9), 128e9);
}
END_TEST

START_TEST(one_rank_alone_sends_nothing) {
  for (Collective collective = 0; collective < COLLECTIVE_PARAMETER_SERVER; collective++)
    ck_assert_double_eq(collective_sent_bytes(collective, 1, 1e9), 0);
  /* a server stands beside its only worker */
  ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_PARAMETER_SERVER, 1, 1e9), 1e9);
}
END_TEST

START_TEST(all_gather_and_reduce_scatter_make_an_all_reduce) {
  for (int n = 1; n <= 64; n *= 2)
    ck_assert_double_eq(collective_sent_bytes(COLLECTIVE_ALL_GATHER, n, 64) +
                            collective_sent_bytes(COLLECTIVE_REDUCE_SCATTER, n, 64),
                        collective_sent_bytes(COLLECTIVE_ALL_REDUCE, n, 64));
}
END_TEST

START_TEST(names_list_every_collective_once) {
  const char *const *names = collective_names();
  for (Collective collective = 0; collective < N_COLLECTIVES; collective++) {
    ck_assert_str_eq(names[collective], collective_name(collective));
    for (Collective other = 0; other < collective; other++)
      ck_assert_str_ne(names[other], names[collective]);
  }
  ck_assert_ptr_null(names[N_COLLECTIVES]);
}
END_TEST

int main(void) {
  TCase *tests = tcase_create("collective");
  tcase_add_test(tests, bus_factors_are_those_of_nccl_tests);
  tcase_add_test(tests, ring_all_reduce_of_4_gb_sends_7_gb);
  tcase_add_test(tests, parameter_server_takes_in_every_gradient);
  tcase_add_test(tests, one_rank_alone_sends_nothing);
  tcase_add_test(tests, all_gather_and_reduce_scatter_make_an_all_reduce);
  tcase_add_test(tests, names_list_every_collective_once);
  return run_case("collective", tests);
}
