/* Times as they are typed are run exactly: whatever their decimals, their unit, and the chunks that share them. */
#include "error.h"
#include "run_suite.h"
#include "schedule_times.h"
#include "schedules.h"

#include <check.h>
#include <math.h>

/* "0.93" of 93 and 2. */
static void append_decimal(GString *text, const char *name, int digits, int n_decimals, const char *unit) {
  char number[G_ASCII_DTOSTR_BUF_SIZE];
  g_ascii_formatd(number, sizeof number, "%.6f", digits / pow(10, n_decimals));
  g_string_append_printf(text, "%s%s=%s%s", text->len > 0 ? "," : "", name, number, unit);
}

/* The makespan on a clock that counts `ticks` to the unit, in units. */
static double makespan_of(const Order *order, const StageTimes *times, double ticks) {
  g_autoptr(OrderRun) run = order_run_new(order, times, 2, NULL, NULL, NULL);
  ck_assert_ptr_nonnull(run);
  return (double)trace_end(run->trace) / ticks;
}

/* Whole numbers that all chunks divide are run as they are: digits in place of decimals give 10^decimals as much. */
TEST(decimals_make_no_rounding) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(2);
  const char *const *names = schedule_names();
  for (int i = 0; i < 400; i++) {
    const ScheduleFacts *info =
        schedule_find(names[g_rand_int_range(rand, 0, (int)g_strv_length((char **)names))], NULL);
    OrderShape shape = {.n_ranks = g_rand_int_range(rand, 1, 7), .n_micro_batches = 2 * g_rand_int_range(rand, 1, 9)};
    shape.n_chunks = CLAMP(g_rand_int_range(rand, 1, 24), info->least_chunks, info->most_chunks);
    g_autoptr(Order) order = order_new(info, shape, NULL);
    if (order == NULL)
      continue;
    const int n_passes = order->placement->n_stages / order->placement->n_ranks / order->placement->n_pipes;
    const int n_decimals = g_rand_int_range(rand, 0, 6);
    const gboolean has_unit = g_rand_boolean(rand);
    const int f = g_rand_int_range(rand, 1, 2000), b = g_rand_int_range(rand, 1, 2000),
              w = g_rand_int_range(rand, 1, 2000), send = g_rand_int_range(rand, 0, 500),
              pair = (f + b + w) * 4 / 5 + 1;
    g_autoptr(GString) text = g_string_new(NULL);
    const char *unit = has_unit ? "ms" : "";
    append_decimal(text, "F", f, n_decimals, unit);
    append_decimal(text, "I", b, n_decimals, unit);
    append_decimal(text, "W", w, n_decimals, unit);
    append_decimal(text, "send", send, n_decimals, unit);
    append_decimal(text, "FB", pair, n_decimals, unit);
    GivenTimes given;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(parse_times(text->str, &given, &error), "%s", error != NULL ? error->message : "");
    const double ticks = given_times_ticks(&given, n_passes, 2.0 * shape.n_ranks * shape.n_micro_batches);
    const StageTimes in_ticks = given_times_in(&given, ticks);
    const StageTimes whole = {.f_ns = f * n_passes,
                              .i_ns = b * n_passes,
                              .w_ns = w * n_passes,
                              .send_ns = send * n_passes,
                              .pair_ns = pair * n_passes};
    const double found = makespan_of(order, &in_ticks, has_unit ? 1e6 * ticks : ticks);
    const double expected = makespan_of(order, &whole, n_passes * pow(10, n_decimals));
    ck_assert_msg(fabs(found - expected) <= 4e-16 * expected,
                  "%s of %d ranks, %d chunks: %.17g, expected %.17g with %s", info->name, shape.n_ranks, shape.n_chunks,
                  found, expected, text->str);
  }
}

/* Times that differ too much for the clock are run as exactly as it counts. */
TEST(the_clock_does_not_overflow) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(3);
  int n_whole = 0;
  for (int i = 0; i < 1000; i++) {
    const GivenTimes times = {
        .f = pow(10, g_rand_int_range(rand, -15, 9)), .i = g_rand_double(rand), .w = 1, .bare = i % 2};
    const int n_passes = g_rand_int_range(rand, 1, 9);
    const double n_in_a_row = pow(10, g_rand_int_range(rand, 0, 9)), usual = times.bare ? BARE_UNIT_NS : 1;
    const double ticks = given_times_ticks(&times, n_passes, n_in_a_row);
    ck_assert(ticks == usual || (times.f + times.i + times.w) * n_in_a_row * ticks <= exp2(53));
    n_whole += fmod(times.f * ticks, n_passes) == 0;
  }
  ck_assert_int_gt(n_whole, 100);
}

int main(void) {
  return run_tests();
}
