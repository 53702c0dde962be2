/* The order in which a space too large to try is sampled. */
#include <check.h>

#include "run_suite.h"
#include "sweep_setup.h"

TEST(a_shuffle_has_every_number_once) {
  const gint64 sizes[] = {1, 2, 3, 4, 5, 16, 17, 1000, 4097};
  for (gsize i = 0; i < G_N_ELEMENTS(sizes); i++) {
    const Shuffle shuffle = shuffle_of(sizes[i], 7);
    g_autofree guint8 *seen = g_new0(guint8, sizes[i]);
    int n_wrong = 0;
    for (gint64 position = 0; position < sizes[i]; position++) {
      const gint64 number = shuffle_at(&shuffle, position);
      n_wrong += number < 0 || number >= sizes[i] || seen[number]++ != 0;
    }
    ck_assert_int_eq(n_wrong, 0);
  }
}

TEST(a_sample_spreads_over_a_space_of_any_size_and_follows_its_seed) {
  /* 4,096 numbers below 2^62 in 16 equal parts: 256 expected in each, 16 the standard deviation; 6 of them allowed */
  const gint64 n = G_GINT64_CONSTANT(1) << 62;
  const Shuffle shuffle = shuffle_of(n, 1), same = shuffle_of(n, 1), other = shuffle_of(n, 2);
  int parts[16] = {0}, n_same = 0, n_other = 0;
  for (gint64 position = 0; position < 4096; position++) {
    const gint64 number = shuffle_at(&shuffle, position);
    parts[number >> 58]++;
    n_same += number == shuffle_at(&same, position);
    n_other += number == shuffle_at(&other, position);
  }
  for (int i = 0; i < 16; i++)
    ck_assert(parts[i] > 256 - 96 && parts[i] < 256 + 96);
  ck_assert_int_eq(n_same, 4096);
  ck_assert_int_le(n_other, 1);
}

int main(void) {
  return run_tests();
}
