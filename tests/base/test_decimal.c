/* Decimals are those of printf() and strtod(), whose rounding is exact. */
#include "decimal.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

static void check_text(double value) {
  char text[DECIMAL_BYTES], expected[DECIMAL_BYTES];
  ck_assert_str_eq(decimal_text(text, value), g_ascii_dtostr(expected, sizeof expected, value));
}

static void check_fixed(double value, int n_behind) {
  char text[DECIMAL_BYTES], expected[DECIMAL_BYTES];
  g_snprintf(expected, sizeof expected, "%.*f", n_behind, value);
  ck_assert_str_eq(decimal_fixed(text, value, n_behind), expected);
}

static void check_round(double value, int n_digits) {
  g_autofree char *text = g_strdup_printf("%.*e", n_digits - 1, value);
  ck_assert_double_eq(decimal_round(value, n_digits), g_ascii_strtod(text, NULL));
}

static void check(double value) {
  check_text(value);
  for (int n = 1; n <= 15; n++)
    check_round(value, n);
  for (int n_behind = 0; n_behind <= 6 && fabs(value) < 1e9; n_behind++)
    check_fixed(value, n_behind);
}

/* Ties, powers of ten and of two and what is next to them, the ends of the range. */
TEST(whole_numbers_and_ties_are_rounded_as_printf_does) {
  static const double values[] = {0,   -0.0, 0.5,  1.5,  2.5,    0.125,  0.375,   12345.5, 12346.5,
                                  1e9, 1e15, 1e16, 1e17, 1e300,  1e-300, 5e-324,  0.09996, 999.96,
                                  9.5, 99.5, 0.25, -2.5, -99.95, 0.0001, 0.00005, 65504,   1048576.5};
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++)
    check(values[i]);
  for (int power = -330; power < 300; power++) {
    const double ten = pow(10, power), two = ldexp(1, power);
    check(ten);
    check(nextafter(ten, 0));
    check(nextafter(ten, INFINITY));
    check(two);
    check(nextafter(two, 0));
  }
  check_text(INFINITY);
  check_text(NAN);
}

/* Of all magnitudes, some with few digits. */
TEST(random_numbers_are_rounded_as_printf_does) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (int i = 0; i < 3000; i++) {
    const double value = g_rand_double_range(rand, -1, 1) * pow(10, g_rand_double_range(rand, -6, 19));
    check(value);
    check(round(value * 8) / 8);
    check(rint(value));
  }
}

int main(void) {
  return run_tests();
}
