/* The CPU kernels on flat memory: formats and their rounding, optimizer, seeded initial values. Every format
 * on every instruction set of this processor. */
#include "kernel_tensor.h"

/* ---- formats ---- */

LOOP_TEST(every_half_is_widened_exactly, n_cases()) {
  Number number = case_number(_i);
  if (number == NUMBER_FP32)
    return;
  g_autofree guint16 *halves = g_new(guint16, 65536);
  g_autofree float *wide = g_new(float, 65536);
  for (int i = 0; i < 65536; i++)
    halves[i] = (guint16)i;
  Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = (guint8)number, .to_number = NUMBER_FP32, .n = 65536, .from = halves, .to = wide}};
  run_kernel(_i, &kernel);
  for (int i = 0; i < 65536; i++)
    assert_near("widened", i, (double)wide[i], half_decode(number, halves[i]), 0, 0);
}

/* Between each two neighbouring halves: the middle, which goes to the even one, and the fp32 on either side of it. */
LOOP_TEST(rounding_is_to_nearest_even, n_cases()) {
  Number number = case_number(_i);
  if (number == NUMBER_FP32)
    return;
  enum { N = 3 * 0x7f80 };
  int most = number == NUMBER_BF16 ? 0x7f7f : 0x7bff; /* the largest finite */
  g_autofree float *wide = g_new0(float, N);
  g_autofree guint16 *got = g_new0(guint16, N), *want = g_new0(guint16, N);
  for (int i = 0; i < most; i++) {
    float middle = (float)((half_decode(number, (guint16)i) + half_decode(number, (guint16)(i + 1))) / 2);
    float values[] = {nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
    for (int j = 0; j < 3; j++) {
      wide[3 * i + j] = i % 5 == 0 ? -values[j] : values[j];
      int up = j == 2 || (j == 1 && i % 2 == 1);
      want[3 * i + j] = (guint16)((i + up) | (i % 5 == 0 ? 0x8000 : 0));
    }
  }
  Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = NUMBER_FP32, .to_number = (guint8)number, .n = N, .from = wide, .to = got}};
  run_kernel(_i, &kernel);
  for (int i = 0; i < N; i++)
    if (got[i] != want[i] && wide[i] != 0)
      ck_abort_msg("%g became %#x, expected %#x", (double)wide[i], got[i], want[i]);
}

LOOP_TEST(what_is_not_finite_stays_so_when_rounded, n_cases()) {
  Number number = case_number(_i);
  guint32 quiet_low_bits = 0x7f800001, negative_nan = 0xffc00000; /* a NaN that truncation would make ∞ */
  float values[4] = {INFINITY, -INFINITY};
  memcpy(&values[2], &quiet_low_bits, 4);
  memcpy(&values[3], &negative_nan, 4);
  g_auto(Tensor) got = tensor_new(number, 4);
  Kernel kernel = {
      .kind = KERNEL_CONVERT,
      .convert = {.from_number = NUMBER_FP32, .to_number = (guint8)number, .n = 4, .from = values, .to = got.data}};
  run_kernel(_i, &kernel);
  ck_assert_double_eq(tensor_get(&got, 0), INFINITY);
  ck_assert_double_eq(tensor_get(&got, 1), -INFINITY);
  ck_assert(isnan(tensor_get(&got, 2)) && isnan(tensor_get(&got, 3)));
}

LOOP_TEST(convert_can_add, n_cases()) {
  Number number = case_number(_i);
  for (int from = 0; from < 3; from++) {
    g_auto(Tensor) a = tensor_random(tested_numbers[from], 5001, 1, 0, 2);
    g_auto(Tensor) b = tensor_random(number, 5001, 2, 0, 2);
    for (gint64 i = 0; i < a.n; i++)
      b.x[i] += a.x[i];
    Kernel kernel = {.kind = KERNEL_CONVERT,
                     .convert = {.from_number = (guint8)a.number,
                                 .to_number = (guint8)number,
                                 .accumulate = TRUE,
                                 .n = a.n,
                                 .from = a.data,
                                 .to = b.data}};
    run_kernel(_i, &kernel);
    assert_tensor("sum", &b, b.x, 1);
  }
}

LOOP_TEST(fill_zeroes_its_bytes_only, n_cases()) {
  char bytes[67];
  memset(bytes, 7, sizeof bytes);
  Kernel kernel = {.kind = KERNEL_FILL, .fill = {.bytes = 65, .to = bytes + 1}};
  run_kernel(_i, &kernel);
  ck_assert_int_eq(bytes[0], 7);
  for (int i = 1; i < 66; i++)
    ck_assert_int_eq(bytes[i], 0);
  ck_assert_int_eq(bytes[66], 7);
}

/* ---- state ---- */

/* Two islands whose sum is twice what one has moved: the outer optimizer sees that once. */
LOOP_TEST(an_outer_step_follows_its_momentum, n_cases()) {
  enum { N = 5001 };
  const Number number = case_number(_i);
  g_auto(Tensor) weight = tensor_random(number, N, 1, 0, 1);
  g_auto(Tensor) master = tensor_random(NUMBER_FP32, N, 1, 0, 1), anchor = tensor_random(NUMBER_FP32, N, 2, 0, 1),
                 m = tensor_random(NUMBER_FP32, N, 3, 0, 0.1), sum = tensor_random(NUMBER_FP32, N, 4, 0, 1);
  Kernel kernel = {.kind = KERNEL_OUTER,
                   .outer = {.number = (guint8)number,
                             .is_before = TRUE,
                             .n = N,
                             .weight = weight.data,
                             .master = master.data,
                             .anchor = anchor.data,
                             .m = m.data,
                             .sum = sum.data,
                             .share = 0.5f,
                             .lr = 0.7f,
                             .factor = 0.9f}};
  run_kernel(_i, &kernel);
  for (gint64 i = 0; i < N; i++)
    assert_near("difference", i, tensor_get(&sum, i), anchor.x[i] - master.x[i], 1e-6, 1);
  for (gint64 i = 0; i < N; i++)
    ((float *)sum.data)[i] *= 2;
  kernel.outer.is_before = FALSE;
  run_kernel(_i, &kernel);
  for (gint64 i = 0; i < N; i++) {
    const double moved = anchor.x[i] - master.x[i], mean = 0.9 * m.x[i] + moved;
    const double expected = anchor.x[i] - 0.7 * (moved + 0.9 * mean);
    assert_near("momentum", i, tensor_get(&m, i), mean, 1e-6, 1);
    assert_near("anchor", i, tensor_get(&anchor, i), expected, 1e-5, 1);
    assert_near("master copy", i, tensor_get(&master, i), expected, 1e-5, 1);
    assert_near("weight", i, tensor_get(&weight, i), expected, 0.02, 1);
  }
}

LOOP_TEST(sums_of_squares_are_added, n_cases()) {
  Number number = case_number(_i);
  g_auto(Tensor) x = tensor_random(number, 5003, 1, 0, 3);
  double sum = 7, want = 7;
  for (gint64 i = 0; i < x.n; i++)
    want += x.x[i] * x.x[i];
  Kernel kernel = {.kind = KERNEL_SUM_SQUARES,
                   .sum_squares = {.gradient = (guint8)number, .n = x.n, .x = x.data, .sum = &sum}};
  run_kernel(_i, &kernel);
  assert_near("sum", 0, sum, want, 1e-13, 1);
}

typedef struct {
  Tensor weight, master, gradient, m, v;
} State;

static State state_new(Number number, Number gradient, gint64 n) {
  State state = {tensor_random(number, n, 1, 0, 1), tensor_random(NUMBER_FP32, n, 1, 0, 1),
                 tensor_random(gradient, n, 2, 0, 1), tensor_random(NUMBER_FP32, n, 3, 0, 0.1),
                 tensor_random(NUMBER_FP32, n, 4, 0.02, 0.01)};
  return state;
}

static void state_clear(State *state) {
  tensor_clear(&state->weight);
  tensor_clear(&state->master);
  tensor_clear(&state->gradient);
  tensor_clear(&state->m);
  tensor_clear(&state->v);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(State, state_clear)

static Kernel adam_kernel(State *state, gboolean has_master, const double *norm_squared) {
  return (Kernel){.kind = KERNEL_ADAM,
                  .adam = {.number = (guint8)state->weight.number,
                           .gradient = (guint8)state->gradient.number,
                           .n = state->weight.n,
                           .weight = state->weight.data,
                           .master = has_master ? state->master.data : NULL,
                           .gradients = state->gradient.data,
                           .m = state->m.data,
                           .v = state->v.data,
                           .norm_squared = norm_squared,
                           .max_norm = 1.5f,
                           .lr = 0.1f,
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .epsilon = 1e-8f,
                           .decay = 0.01f,
                           .correction1 = 0.1f,
                           .correction2 = 0.05f}};
}

static void try_adam(int test_case, Number gradient, gboolean has_master, const double *norm_squared) {
  g_auto(State) state = state_new(case_number(test_case), gradient, 4099);
  Kernel kernel = adam_kernel(&state, has_master, norm_squared);
  run_kernel(test_case, &kernel);
  double clip = norm_squared == NULL ? 1 : MIN(1, 1.5 / sqrt(*norm_squared));
  for (gint64 i = 0; i < state.weight.n; i++) {
    double g = clip * state.gradient.x[i], p = has_master ? state.master.x[i] : state.weight.x[i];
    state.m.x[i] = 0.9 * state.m.x[i] + 0.1 * g;
    state.v.x[i] = 0.95 * state.v.x[i] + 0.05 * g * g;
    p -= 0.1 * (state.m.x[i] / 0.1 / (sqrt(state.v.x[i] / 0.05) + 1e-8) + 0.01 * p);
    state.master.x[i] = has_master ? p : state.master.x[i];
    state.weight.x[i] = p;
    ck_assert_double_eq(tensor_get(&state.gradient, i), 0);
  }
  assert_tensor("m", &state.m, state.m.x, 0.1);
  assert_tensor("v", &state.v, state.v.x, 0.01);
  assert_tensor("master", &state.master, state.master.x, 1);
  assert_tensor("weight", &state.weight, state.weight.x, 1);
}

LOOP_TEST(adam_is_that_of_the_definition, n_cases()) {
  const double large = 9, small = 0.25; /* norms 3 and ½ against a limit of 1.5 */
  for (int gradient = 0; gradient < 3; gradient++)
    for (int has_master = 0; has_master < 2; has_master++) {
      try_adam(_i, tested_numbers[gradient], has_master, NULL);
      try_adam(_i, tested_numbers[gradient], has_master, &large);
      try_adam(_i, tested_numbers[gradient], has_master, &small);
    }
}

static void assert_unmoved(const State *state) {
  for (gint64 i = 0; i < state->weight.n; i++) {
    ck_assert_double_eq(tensor_get(&state->weight, i), state->weight.x[i]);
    ck_assert_double_eq(tensor_get(&state->master, i), state->master.x[i]);
    ck_assert_double_eq(tensor_get(&state->m, i), state->m.x[i]);
    ck_assert_double_eq(tensor_get(&state->v, i), state->v.x[i]);
  }
}

LOOP_TEST(adam_leaves_everything_when_the_norm_is_not_finite, n_cases()) {
  const double norms[] = {NAN, INFINITY};
  for (int i = 0; i < 2; i++) {
    g_auto(State) state = state_new(case_number(_i), NUMBER_FP32, 100);
    Kernel kernel = adam_kernel(&state, TRUE, &norms[i]);
    run_kernel(_i, &kernel);
    assert_unmoved(&state);
  }
}

/* ---- the loss's scale ---- */

static LossScale next_scale(int test_case, LossScale step, double norm_squared) {
  LossScale next = {0};
  Kernel kernel = {
      .kind = KERNEL_LOSS_SCALE,
      .loss_scale = {.from = &step, .norm_squared = &norm_squared, .beta1 = 0.9, .beta2 = 0.95, .to = &next}};
  run_kernel(test_case, &kernel);
  return next;
}

/* Two steps make a window: 1024 ×∞ 512 · 512 · 1024 ×∞ 512 · 512: what comes before a skip does not count after it. */
LOOP_TEST(the_scale_halves_at_an_overflow_and_doubles_after_a_window, n_cases()) {
  const double norms[] = {INFINITY, 4, 4, NAN, 4, INFINITY, 4}, scales[] = {512, 512, 1024, 512, 512, 256, 256};
  LossScale step = {.scale = 1024, .window = 2, .power1 = 0.9, .power2 = 0.95};
  int n_made = 0, n_skipped = 0;
  for (int i = 0; i < (int)G_N_ELEMENTS(norms); i++) {
    const gboolean is_skipped = !isfinite(norms[i]);
    ck_assert_int_eq(loss_scale_skips(&step, norms[i]), is_skipped);
    step = next_scale(_i, step, norms[i]);
    n_made += !is_skipped;
    n_skipped += is_skipped;
    ck_assert_double_eq(step.scale, scales[i]);
    ck_assert_double_eq(step.n_skipped, n_skipped);
    ck_assert_double_eq_tol(step.power1, pow(0.9, n_made + 1), 1e-15); /* a skipped step is none of Adam's */
    ck_assert_double_eq_tol(step.power2, pow(0.95, n_made + 1), 1e-15);
  }
}

LOOP_TEST(the_lowest_scale_and_a_constant_one_skip_nothing, n_cases()) {
  const LossScale lowest = {.scale = 1, .window = 2}, constant = {.scale = 1024};
  ck_assert(!loss_scale_skips(&lowest, INFINITY) && !loss_scale_skips(&constant, NAN));
  ck_assert_double_eq(next_scale(_i, lowest, INFINITY).scale, 1);
  LossScale step = constant;
  for (int i = 0; i < 5; i++)
    step = next_scale(_i, step, i % 2 == 0 ? 1 : INFINITY);
  ck_assert(step.scale == 1024 && step.n_skipped == 0);
  /* 1.5 halves to 1, not below; 2^126 is the last that doubling leaves a float and its inverse */
  ck_assert_double_eq(next_scale(_i, (LossScale){.scale = 1.5, .window = 1}, NAN).scale, 1);
  ck_assert_double_eq(next_scale(_i, (LossScale){.scale = 0x1p126, .window = 1}, 1).scale, 0x1p126);
}

/* Gradients, and the norm with them, 64 times what they are: the same step as without. */
LOOP_TEST(adam_divides_by_the_scale, n_cases()) {
  const double norm = 9, scaled_norm = 9 * 64.0 * 64.0;
  const LossScale scale = {.scale = 64, .window = 2, .power1 = 0.9, .power2 = 0.95};
  g_auto(State) plain = state_new(case_number(_i), NUMBER_FP32, 100),
                scaled = state_new(case_number(_i), NUMBER_FP32, 100);
  for (int i = 0; i < 100; i++)
    tensor_set(&scaled.gradient, i, 64 * scaled.gradient.x[i]);
  Kernel kernel = adam_kernel(&plain, TRUE, &norm);
  run_kernel(_i, &kernel);
  kernel = adam_kernel(&scaled, TRUE, &scaled_norm);
  kernel.adam.scale = &scale;
  kernel.adam.correction1 = kernel.adam.correction2 = NAN; /* the scale's powers are taken */
  run_kernel(_i, &kernel);
  for (int i = 0; i < 100; i++) {
    assert_near("master", i, tensor_get(&scaled.master, i), tensor_get(&plain.master, i), 1e-6, 1);
    assert_near("m", i, tensor_get(&scaled.m, i), tensor_get(&plain.m, i), 1e-6, 0.1);
    assert_near("v", i, tensor_get(&scaled.v, i), tensor_get(&plain.v, i), 1e-6, 0.01);
  }
}

LOOP_TEST(adam_skips_a_step_but_zeroes_its_gradients, n_cases()) {
  const double norm = INFINITY;
  const LossScale above = {.scale = 64, .window = 2}, lowest = {.scale = 1, .window = 2};
  for (int is_lowest = 0; is_lowest < 2; is_lowest++) {
    g_auto(State) state = state_new(case_number(_i), NUMBER_FP16, 100);
    Kernel kernel = adam_kernel(&state, TRUE, &norm);
    kernel.adam.scale = is_lowest ? &lowest : &above;
    run_kernel(_i, &kernel);
    assert_unmoved(&state);
    for (int j = 0; j < 100; j++) /* with the lowest scale the host is to find what is not finite */
      ck_assert_double_eq(tensor_get(&state.gradient, j), is_lowest ? state.gradient.x[j] : 0);
  }
}

static Tensor init_shard(int test_case, gint64 first_row, gint64 rows, gint64 first_column, gint64 columns, gint64 ld) {
  enum { WHOLE_ROWS = 20, WHOLE_WIDTH = 37 };
  Tensor tensor = tensor_new(case_number(test_case), rows * ld);
  Kernel kernel = {.kind = KERNEL_INIT,
                   .init = {.number = (guint8)tensor.number,
                            .rows = rows,
                            .columns = columns,
                            .ld = ld,
                            .first_row = first_row,
                            .first_column = first_column,
                            .whole_rows = WHOLE_ROWS,
                            .whole_width = WHOLE_WIDTH,
                            .seed = 42,
                            .mean = 0.25f,
                            .deviation = 0.5f,
                            .to = tensor.data}};
  run_kernel(test_case, &kernel);
  return tensor;
}

LOOP_TEST(shards_hold_the_numbers_of_the_whole, n_cases()) {
  g_auto(Tensor) whole = init_shard(_i, 0, 24, 0, 37, 37);
  g_auto(Tensor) shard = init_shard(_i, 7, 16, 11, 13, 15);
  for (int row = 0; row < 16; row++)
    for (int column = 0; column < 15; column++) {
      double want = column < 13 ? tensor_get(&whole, (row + 7) * 37 + column + 11) : 0;
      ck_assert_double_eq(tensor_get(&shard, row * 15 + column), want);
      ck_assert_int_eq(want == 0, column >= 13 || row + 7 >= 20); /* padding: rows from 20 on */
    }
  for (int i = 0; i < 20 * 37; i++) {
    double u = kernel_random(42, (guint64)i) * 0x1p-32;
    assert_near("init", i, tensor_get(&whole, i), 0.25 + 0.5 * sqrt(12) * (u - 0.5),
                1.01 * number_tolerance(whole.number), 0);
  }
}

/* SplitMix64 with seed 0, as published: the first outputs are e220a8397b1dcdaf and 6e789e6aa1b965f4. */
TEST(random_numbers_are_the_published_ones) {
  ck_assert_uint_eq(kernel_random(0, 0), 0xe220a839);
  ck_assert_uint_eq(kernel_random(0, 1), 0x6e789e6a);
}

int main(void) {
  return run_kernel_case("cpu_state", listed_tests());
}
