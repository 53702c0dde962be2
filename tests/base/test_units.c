#include "error.h"
#include "run_suite.h"
#include "units.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <string.h>

static double parse(const char *text, UnitKind kind) {
  double value = -1;
  g_autoptr(GError) error = NULL;
  gboolean parsed = units_parse(text, kind, &value, &error);
  ck_assert_msg(parsed, "%s", error == NULL ? "" : error->message);
  return value;
}

static void assert_refused(const char *text, UnitKind kind, const char *part) {
  double value = 42;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(!units_parse(text, kind, &value, &error), "was read: %s", text);
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_msg(strstr(error->message, part) != NULL, "\"%s\" is not in: %s", part, error->message);
  ck_assert_double_eq(value, 42);
}

static void assert_format(double value, UnitKind kind, const char *expected) {
  g_autofree char *text = units_format(value, kind);
  ck_assert_str_eq(text, expected);
}

TEST(decimal_and_binary_prefixes_differ) {
  ck_assert_double_eq(parse("80 GB", UNIT_BYTES), 80e9);
  ck_assert_double_eq(parse("80 GiB", UNIT_BYTES), 80.0 * (1u << 30));
  ck_assert_double_eq(parse("1.5 TB", UNIT_BYTES), 1.5e12);
  ck_assert_double_eq(parse("16KiB", UNIT_BYTES), 16384);
}

TEST(small_b_is_bits) {
  /* 400e9 bits / 8 */
  ck_assert_double_eq(parse("400 Gb/s", UNIT_BYTES_PER_SECOND), 50e9);
  ck_assert_double_eq(parse("450 GB/s", UNIT_BYTES_PER_SECOND), 450e9);
  ck_assert_double_eq(parse("8 b/s", UNIT_BYTES_PER_SECOND), 1);
}

TEST(other_kinds_have_their_units) {
  ck_assert_double_eq_tol(parse("1.2 us", UNIT_SECONDS), 1.2e-6, 1e-18);
  ck_assert_double_eq(parse("2 min", UNIT_SECONDS), 120);
  ck_assert_double_eq(parse("989 TFLOP/s", UNIT_FLOPS_PER_SECOND), 989e12);
  ck_assert_double_eq(parse("989 TFLOPS", UNIT_FLOPS_PER_SECOND), 989e12);
  ck_assert_double_eq(parse("1.98 GHz", UNIT_HERTZ), 1.98e9);
  ck_assert_double_eq(parse("2.50 $/h", UNIT_DOLLARS_PER_HOUR), 2.5);
}

TEST(space_around_number_and_unit_is_free) {
  ck_assert_double_eq(parse("  80\t GB  ", UNIT_BYTES), 80e9);
  ck_assert_double_eq(parse("8e1GB", UNIT_BYTES), 80e9);
  ck_assert_double_eq(parse(".5 GB", UNIT_BYTES), 0.5e9);
  ck_assert_double_eq(parse("0 GB", UNIT_BYTES), 0);
}

TEST(a_bare_number_is_refused) {
  assert_refused("80", UNIT_BYTES, "without a unit, expected one of B, kB");
  assert_refused("1e9", UNIT_BYTES_PER_SECOND, "without a unit");
}

TEST(a_wrong_unit_suggests_the_nearest) {
  assert_refused("80 Gib", UNIT_BYTES, "did you mean \"GiB\"?");
  assert_refused("80 GB/s", UNIT_BYTES, "found unit \"GB/s\"");
  assert_refused("80 GB", UNIT_BYTES_PER_SECOND, "found unit \"GB\"");
  assert_refused("3 sec", UNIT_SECONDS, "found unit \"sec\"");
}

TEST(what_is_no_finite_number_is_refused) {
  const char *bad[] = {"",        " ",      "GB",       "-1 GB",    "+1 GB", "nan GB", "inf GB", "1e999 GB",
                       "0x10 GB", "1,5 GB", "1.2.3 GB", "1e308 TB", "--",    ".",      "e5 GB"};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++)
    assert_refused(bad[i], UNIT_BYTES, "expected");
  assert_refused(NULL, UNIT_BYTES, "expected");
}

TEST(counts_take_decimal_multiples) {
  const struct {
    const char *text;
    double value;
  } good[] = {{"7e9", 7e9}, {"7B", 7e9}, {"70 B", 70e9}, {"124M", 124e6}, {"1.5T", 1.5e12}, {"4k", 4e3}, {"12", 12}};
  for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
    double value = 0;
    ck_assert(units_parse_count(good[i].text, &value, NULL));
    ck_assert_double_eq(value, good[i].value);
  }
  const char *bad[] = {"", "0", "-7B", "7b", "7GB", "seven", "inf", "nan", "1e300T", "7 B B", NULL};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    double value = 42;
    g_autoptr(GError) error = NULL;
    ck_assert(!units_parse_count(bad[i], &value, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_double_eq(value, 42);
  }
}

TEST(whole_numbers_take_binary_multiples) {
  const struct {
    const char *text;
    gint64 value;
  } cases[] = {{"0", 0},        {"-3", -3},       {"8192", 8192},  {"32Ki", 32768},
               {"2.5Ki", 2560}, {"1Mi", 1048576}, {"1e6", 1000000}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    gint64 value = 0;
    ck_assert_msg(units_parse_whole(cases[i].text, -10, G_MAXINT64, &value, NULL), "%s", cases[i].text);
    ck_assert_int_eq(value, cases[i].value);
  }
  const struct {
    const char *text, *says;
  } refused[] = {{"32k", "expected a whole number below 1048577: 32000, or 32768 (32Ki)"},
                 {"4M", ": 4000000, or 4194304 (4Mi)"},
                 {"1.5", "found \"1.5\", expected a whole number below 1048577"},
                 {"2Mi", "below 1048577"},
                 {"1e30", "below 1048577"},
                 {"0x10", "expected a whole number"},
                 {"8 Ki", "expected a whole number"},
                 {" 8", "expected a whole number"},
                 {"1,024", "expected a whole number"},
                 {"", "expected a whole number"}};
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++) {
    g_autoptr(GError) error = NULL;
    gint64 value = 7;
    ck_assert_msg(!units_parse_whole(refused[i].text, -10, 1 << 20, &value, &error), "%s", refused[i].text);
    ck_assert_msg(strstr(error->message, refused[i].says) != NULL, "%s", error->message);
    ck_assert_int_eq(value, 7);
  }
}

TEST(counts_are_shown_as_they_are_read) {
  const struct {
    double count;
    const char *text;
  } cases[] = {{15e12, "15T"},          {1.314e6, "1.314M"}, {375300, "375.3k"}, {9999, "9999"}, {99996, "100k"},
               {0.25, "0.25"},          {7e9, "7B"},         {999960, "1M"},     {0, "0"},       {2.579e16, "25790T"},
               {1.2345e22, "1.234e+22"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autofree char *text = units_format_count(cases[i].count);
    ck_assert_str_eq(text, cases[i].text);
    double again = 0;
    ck_assert(units_parse_count(text, &again, NULL) == (cases[i].count > 0));
    ck_assert_double_le(fabs(again - cases[i].count), 1e-3 * cases[i].count);
  }
}

TEST(a_percentage_of_nothing_has_no_sign) {
  ck_assert(!signbit(units_percent(-4e-5)) && !signbit(units_percent(-0.0)));
  ck_assert_double_eq(units_percent(-6e-5), -0.01);
  ck_assert_double_eq_tol(units_percent(0.12345), 12.35, 1e-12);
}

TEST(half_a_unit_of_bytes_may_be_either) {
  double value;
  g_autoptr(GError) error = NULL;
  ck_assert(!units_parse("1M", UNIT_BYTES, &value, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "MB (powers of 1000) or MiB (of 1024)"));
}

TEST(four_digits_and_the_fitting_prefix_are_shown) {
  assert_format(80e9, UNIT_BYTES, "80.00 GB");
  assert_format(1.234e-3, UNIT_SECONDS, "1.234 ms");
  assert_format(450e9, UNIT_BYTES_PER_SECOND, "450.0 GB/s");
  assert_format(395.1e12, UNIT_FLOPS_PER_SECOND, "395.1 TFLOP/s");
  assert_format(1.98e9, UNIT_HERTZ, "1.980 GHz");
  assert_format(2.5, UNIT_DOLLARS_PER_HOUR, "2.500 $/h");
  assert_format(90, UNIT_SECONDS, "1.500 min");
  assert_format(1e-5, UNIT_SECONDS, "10.00 us");
  assert_format(1e-4, UNIT_SECONDS, "100.0 us");
  assert_format(-80e9, UNIT_BYTES, "-80.00 GB");
}

TEST(rounding_up_moves_to_the_next_prefix) {
  assert_format(999.94e3, UNIT_BYTES, "999.9 kB");
  assert_format(999.96e3, UNIT_BYTES, "1.000 MB");
  assert_format(9.9996e9, UNIT_BYTES, "10.00 GB");
}

TEST(odd_values_are_shown_too) {
  assert_format(0, UNIT_BYTES, "0 B");
  assert_format(0, UNIT_SECONDS, "0 s");
  assert_format(0.5, UNIT_BYTES, "0.5000 B");
  assert_format(2e-10, UNIT_SECONDS, "0.2000 ns");
  assert_format(5000e12, UNIT_BYTES, "5000 TB");
  assert_format(INFINITY, UNIT_BYTES, "inf B");
  const double extremes[] = {NAN, DBL_MAX, -DBL_MAX, DBL_MIN, 1e-320};
  for (size_t i = 0; i < G_N_ELEMENTS(extremes); i++) {
    g_autofree char *text = units_format(extremes[i], UNIT_SECONDS);
    ck_assert_int_lt(strlen(text), 32);
  }
}

/* What is shown reads back to four digits. */
TEST(formatting_and_parsing_are_inverse) {
  for (double value = 1.2345e-9; value < 1e20; value *= 3.7) {
    g_autofree char *time = units_format(value, UNIT_SECONDS);
    g_autofree char *rate = units_format(value, UNIT_BYTES_PER_SECOND);
    ck_assert_double_eq_tol(parse(time, UNIT_SECONDS) / value, 1, 6e-3);
    if (value > 1)
      ck_assert_double_eq_tol(parse(rate, UNIT_BYTES_PER_SECOND) / value, 1, 6e-4);
  }
}

TEST(megabytes_of_noise_are_refused) {
  gsize length = 10 << 20;
  g_autofree char *nines = g_strnfill(length, '9');
  g_autofree char *letters = g_strnfill(length, 'x');
  g_autofree char *unit = g_strconcat("1 ", letters, NULL);
  assert_refused(nines, UNIT_BYTES, "expected");
  assert_refused(letters, UNIT_BYTES, "expected");
  assert_refused(unit, UNIT_BYTES, "expected one of");
}

int main(void) {
  return run_tests();
}
