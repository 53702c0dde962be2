/* Transfers between two ranks are timed through the cuda device and NCCL, both emulated: behind holds, in rows, and
 * beside products of random numbers. What the times mean is tested by tests/real/test_link_times.c. */
#include "link_times.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 1 << 10, MOST = 1 << 12, N_SIZES = 2, N_OPS = 4 };

static LinkTimes measured; /* on rank 0 */

TEST(every_transfer_has_its_times) {
  ck_assert_uint_eq(measured.times->len, N_OPS * N_SIZES);
  for (guint i = 0; i < measured.times->len; i++) {
    const LinkTime *time = &g_array_index(measured.times, LinkTime, i);
    ck_assert_double_gt(time->median_s, 0);
    ck_assert_double_gt(time->once_s, 0);
  }
  ck_assert_double_gt(measured.products_beside, 0);
  ck_assert_double_gt(measured.collective_beside, 0);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  World *world = world_open(&argc, &argv, 30, &error);
  if (world == NULL || world_size(world) != 2) {
    printf("Bail out! %s\n", error != NULL ? error->message : "expected two ranks");
    return EXIT_FAILURE;
  }
  const LinkBench bench = {.world = world,
                           .device = &cuda_device,
                           .comm = &nccl_comm,
                           .least_bytes = LEAST,
                           .most_bytes = MOST,
                           .beside = {NUMBER_BF16, 64, 64, 32, 1 << 14},
                           .n_repeats = 2};
  if (!link_times_measure(&bench, &measured, &error))
    world_fail(world, error->message);
  const int status = world_rank(world) == 0 ? run_case_here("emulated links", listed_tests()) : EXIT_SUCCESS;
  link_times_clear(&measured);
  return world_close(world, status);
}
