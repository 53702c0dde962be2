/* The CPU kernels against plain references in double: every format on every instruction set of this processor. Backward
 * kernels are in test_cpu_gradients.c, kernels on flat memory in test_cpu_state.c. */
#include "kernel_tensor.h"

/* ---- products ---- */

static const struct {
  gint64 batch, m, n, k;
} shapes[] = {{1, 1, 1, 1}, {1, 1, 7, 3}, {1, 5, 1, 9}, {1, 33, 17, 65}, {3, 4, 5, 6}, {1, 530, 519, 1100}};

static double element(const Tensor *tensor, gint64 start, gint64 ld, gint64 row, gint64 column, gboolean turned) {
  return tensor->x[start + (turned ? column * ld + row : row * ld + column)];
}

/* C against the definition at no more than some hundred elements. */
static void check_matmul(int test_case, MatmulKernel matmul, const Tensor *a, const Tensor *b, const Tensor *c,
                         const Tensor *bias) {
  Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = matmul};
  run_kernel(test_case, &kernel);
  gint64 step = MAX(matmul.m * matmul.n / 200, 1);
  for (gint64 i = 0; i < matmul.batch; i++) {
    for (gint64 place = 0; place < matmul.m * matmul.n; place += step) {
      gint64 row = place / matmul.n, column = place % matmul.n, at = i * matmul.stride_c + row * matmul.ldc + column;
      double want = 0;
      for (gint64 j = 0; j < matmul.k; j++)
        want += element(a, i * matmul.stride_a, matmul.lda, row, j, matmul.layout == LAYOUT_NT) *
                element(b, i * matmul.stride_b, matmul.ldb, j, column, matmul.layout == LAYOUT_TN);
      want = (double)matmul.alpha * want + (bias == NULL ? 0 : bias->x[column]) + (matmul.accumulate ? c->x[at] : 0);
      assert_near("C", at, tensor_get(c, at), want, 1.01 * number_tolerance((Number)matmul.result), 1);
    }
  }
  for (gint64 row = 0; row < matmul.m; row++) /* what lies between the rows is not C's */
    for (gint64 column = matmul.n; column < matmul.ldc; column++)
      ck_assert_double_eq(tensor_get(c, row * matmul.ldc + column), c->x[row * matmul.ldc + column]);
}

/* Operands of a product, made once for all that is asked of them. */
typedef struct {
  MatmulKernel matmul;
  Tensor a, b, bias;
} Product;

static Product product_of(int layout, int shape, Number number) {
  gint64 batch = shapes[shape].batch, m = shapes[shape].m, n = shapes[shape].n, k = shapes[shape].k;
  MatmulKernel matmul = {
      .layout = (guint8)layout, .number = (guint8)number, .batch = batch, .m = m, .n = n, .k = k, .alpha = 0.5f};
  matmul.lda = (layout == LAYOUT_NT ? m : k) + 3;
  matmul.ldb = (layout == LAYOUT_TN ? k : n) + 2;
  matmul.ldc = n + 1;
  matmul.stride_a = matmul.lda * (layout == LAYOUT_NT ? k : m);
  matmul.stride_b = matmul.ldb * (layout == LAYOUT_TN ? n : k) + 5;
  matmul.stride_c = matmul.ldc * m + 4;
  double spread = 1 / sqrt((double)k);
  Product product = {matmul, tensor_random(number, batch * matmul.stride_a, 1, 0, spread),
                     tensor_random(number, batch * matmul.stride_b, 2, 0, 1), tensor_random(number, n, 4, 0, 1)};
  product.matmul.a = product.a.data;
  product.matmul.b = product.b.data;
  return product;
}

static void product_clear(Product *product) {
  tensor_clear(&product->a);
  tensor_clear(&product->b);
  tensor_clear(&product->bias);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Product, product_clear)

/* addend: nothing, C, the bias */
static void try_matmul(int test_case, const Product *product, Number result, int addend) {
  MatmulKernel matmul = product->matmul;
  g_auto(Tensor) c = tensor_random(result, matmul.batch * matmul.stride_c, 3, 0, 1);
  matmul.result = (guint8)result;
  matmul.accumulate = addend == 1;
  matmul.c = c.data;
  matmul.bias = addend == 2 ? product->bias.data : NULL;
  check_matmul(test_case, matmul, &product->a, &product->b, &c, addend == 2 ? &product->bias : NULL);
}

LOOP_TEST(products_are_those_of_the_definition, n_cases()) {
  Number number = case_number(_i);
  for (int layout = LAYOUT_TN; layout <= LAYOUT_NT; layout++)
    for (int shape = 0; shape < (int)G_N_ELEMENTS(shapes); shape++) {
      g_auto(Product) product = product_of(layout, shape, number);
      for (int addend = 0; addend < 3; addend++) {
        try_matmul(_i, &product, number, addend);
        if (number != NUMBER_FP32 && addend < 2)
          try_matmul(_i, &product, NUMBER_FP32, addend);
      }
    }
}

/* ---- rows ---- */

static void reference_norm(const NormKernel *norm, const double *x, const double *w, const double *shift, double *y,
                           double *mean, double *rstd) {
  gint64 n = norm->width;
  for (gint64 row = 0; row < norm->rows; row++) {
    double sum = 0, squares = 0;
    for (gint64 j = 0; j < n; j++)
      sum += x[row * n + j];
    mean[row] = norm->is_rms ? 0 : sum / (double)n;
    for (gint64 j = 0; j < n; j++)
      squares += pow(x[row * n + j] - mean[row], 2);
    rstd[row] = 1 / sqrt(squares / (double)n + (double)norm->epsilon);
    for (gint64 j = 0; j < n; j++)
      y[row * n + j] = (x[row * n + j] - mean[row]) * rstd[row] * w[j] + (shift == NULL ? 0 : shift[j]);
  }
}

static void try_norm(int test_case, gint64 rows, gint64 width, gboolean is_rms, gboolean has_shift) {
  Number number = case_number(test_case);
  g_auto(Tensor) x =
      tensor_random(number, rows * width, 1, 3, 2); /* not centred: a one-pass variance would lose digits */
  g_auto(Tensor) w = tensor_random(number, width, 2, 1, 0.5);
  g_auto(Tensor) shift = tensor_random(number, width, 3, 0, 1);
  g_auto(Tensor) y = tensor_new(number, rows * width);
  g_auto(Tensor) mean = tensor_new(NUMBER_FP32, rows);
  g_auto(Tensor) rstd = tensor_new(NUMBER_FP32, rows);
  Kernel kernel = {.kind = KERNEL_NORM_FORWARD,
                   .norm = {.number = (guint8)number,
                            .is_rms = (guint8)is_rms,
                            .rows = rows,
                            .width = width,
                            .epsilon = 1e-5f,
                            .x = x.data,
                            .weight = w.data,
                            .shift = has_shift ? shift.data : NULL,
                            .y = y.data,
                            .mean = is_rms ? NULL : mean.data,
                            .rstd = rstd.data}};
  run_kernel(test_case, &kernel);
  reference_norm(&kernel.norm, x.x, w.x, has_shift ? shift.x : NULL, y.x, mean.x, rstd.x);
  if (width == 1 && !is_rms)
    return; /* nothing but rounding is left of x − mean, and rstd makes it 1/√ε larger */
  assert_tensor("y", &y, y.x, 1);
  assert_tensor("rstd", &rstd, rstd.x, 1);
  if (!is_rms)
    assert_tensor("mean", &mean, mean.x, 1);
}

LOOP_TEST(norms_are_those_of_the_definition, n_cases()) {
  const gint64 widths[] = {1, 2, 15, 16, 33, 300};
  for (guint i = 0; i < G_N_ELEMENTS(widths); i++)
    for (int flags = 0; flags < 4; flags++) {
      try_norm(_i, 1, widths[i], flags & 1, flags & 2);
      try_norm(_i, 7, widths[i], flags & 1, flags & 2);
    }
}

/* Of heads that lie side by side, or of the last columns of each. */
static void try_rope(int test_case, int stride) {
  Number number = case_number(test_case);
  enum { ROWS = 11, S = 5, HEADS = 3, D = 6, LD = 29 };
  g_auto(Tensor) x = tensor_random(number, ROWS * LD, 1, 0, 2);
  Kernel kernel = {.kind = KERNEL_ROPE,
                   .rope = {.number = (guint8)number,
                            .rows = ROWS,
                            .seq_len = S,
                            .n_heads = HEADS,
                            .head_dim = D,
                            .head_stride = stride,
                            .ld = LD,
                            .base = 10000,
                            .x = x.data}};
  g_autofree double *want = g_memdup2(x.x, ROWS * LD * sizeof(double));
  for (int row = 0; row < ROWS; row++)
    for (int head = 0; head < HEADS; head++)
      for (int j = 0; j < D / 2; j++) {
        double angle = row % S * pow(10000, -2.0 * j / D);
        int first = row * LD + head * stride + j, second = first + D / 2;
        want[first] = x.x[first] * cos(angle) - x.x[second] * sin(angle);
        want[second] = x.x[second] * cos(angle) + x.x[first] * sin(angle);
      }
  run_kernel(test_case, &kernel);
  assert_tensor("turned", &x, want, 1);
  kernel.rope.inverse = TRUE;
  run_kernel(test_case, &kernel);
  for (int i = 0; i < ROWS * LD; i++)
    assert_near("turned back", i, tensor_get(&x, i), x.x[i], 3 * number_tolerance(number), 2);
}

LOOP_TEST(rope_turns_pairs_by_their_position, n_cases()) {
  try_rope(_i, 6);
  try_rope(_i, 9);
}

enum { ROWS_L = 11, S_L = 5, HEADS_L = 3, PLAIN = 5, ROTATED = 4, V_DIM = 7, LD_SHARED = 9, LD_KV = 3 * 16 + 2 };

static LatentKernel latent_task(Number number, Tensor *made, Tensor *shared, Tensor *kv) {
  char *rows = kv->data;
  return (LatentKernel){.number = (guint8)number,
                        .rows = ROWS_L,
                        .seq_len = S_L,
                        .n_heads = HEADS_L,
                        .plain_dim = PLAIN,
                        .rotated_dim = ROTATED,
                        .v_dim = V_DIM,
                        .ld_shared = LD_SHARED,
                        .ld_kv = LD_KV,
                        .base = 10000,
                        .made = made->data,
                        .shared = shared->data,
                        .k = rows,
                        .v = rows + HEADS_L * (PLAIN + ROTATED) * (number == NUMBER_FP32 ? 4 : 2)};
}

/* (cosine, sine) of pair j of a row. */
static double latent_angle(int row, int j) {
  return row % S_L * pow(10000, -2.0 * j / ROTATED);
}

/* What stands behind K and V, and beside what is shared, stays. */
LOOP_TEST(latent_parts_are_joined_to_k_and_v, n_cases()) {
  const Number number = case_number(_i);
  enum { MADE = PLAIN + V_DIM, K = PLAIN + ROTATED, HALF = ROTATED / 2 };
  g_auto(Tensor) made = tensor_random(number, ROWS_L * HEADS_L * MADE, 1, 0, 2);
  g_auto(Tensor) shared = tensor_random(number, ROWS_L * LD_SHARED, 2, 0, 2);
  g_auto(Tensor) kv = tensor_random(number, ROWS_L * LD_KV, 3, 0, 2);
  g_autofree double *want = g_memdup2(kv.x, sizeof(double) * ROWS_L * LD_KV);
  for (int row = 0; row < ROWS_L; row++)
    for (int head = 0; head < HEADS_L; head++) {
      const double *from = made.x + (row * HEADS_L + head) * MADE, *o = shared.x + row * LD_SHARED;
      double *k = want + row * LD_KV + head * K, *v = want + row * LD_KV + HEADS_L * K + head * V_DIM;
      memcpy(k, from, PLAIN * sizeof *k);
      memcpy(v, from + PLAIN, V_DIM * sizeof *v);
      for (int j = 0; j < HALF; j++) {
        const double angle = latent_angle(row, j);
        k[PLAIN + j] = o[j] * cos(angle) - o[HALF + j] * sin(angle);
        k[PLAIN + HALF + j] = o[HALF + j] * cos(angle) + o[j] * sin(angle);
      }
    }
  const Kernel kernel = {.kind = KERNEL_LATENT_JOIN, .latent = latent_task(number, &made, &shared, &kv)};
  run_kernel(_i, &kernel);
  assert_tensor("kv", &kv, want, 1);
}

/* The gradient of what all heads share is summed over them, and turned back. */
LOOP_TEST(gradients_of_k_and_v_are_split_to_latent_parts, n_cases()) {
  const Number number = case_number(_i);
  enum { MADE = PLAIN + V_DIM, K = PLAIN + ROTATED, HALF = ROTATED / 2 };
  g_auto(Tensor) made = tensor_random(number, ROWS_L * HEADS_L * MADE, 1, 0, 2);
  g_auto(Tensor) shared = tensor_random(number, ROWS_L * LD_SHARED, 2, 0, 2);
  g_auto(Tensor) kv = tensor_random(number, ROWS_L * LD_KV, 3, 0, 2);
  g_autofree double *want = g_new(double, ROWS_L *HEADS_L *MADE);
  g_autofree double *want_shared = g_memdup2(shared.x, sizeof(double) * ROWS_L * LD_SHARED);
  for (int row = 0; row < ROWS_L; row++) {
    double sums[ROTATED] = {0}, *o = want_shared + row * LD_SHARED;
    for (int head = 0; head < HEADS_L; head++) {
      const double *k = kv.x + row * LD_KV + head * K, *v = kv.x + row * LD_KV + HEADS_L * K + head * V_DIM;
      double *to = want + (row * HEADS_L + head) * MADE;
      memcpy(to, k, PLAIN * sizeof *k);
      memcpy(to + PLAIN, v, V_DIM * sizeof *v);
      for (int j = 0; j < ROTATED; j++)
        sums[j] += k[PLAIN + j];
    }
    for (int j = 0; j < HALF; j++) {
      const double angle = latent_angle(row, j);
      o[j] = sums[j] * cos(angle) + sums[HALF + j] * sin(angle);
      o[HALF + j] = sums[HALF + j] * cos(angle) - sums[j] * sin(angle);
    }
  }
  const Kernel kernel = {.kind = KERNEL_LATENT_SPLIT, .latent = latent_task(number, &made, &shared, &kv)};
  run_kernel(_i, &kernel);
  assert_tensor("made", &made, want, 1);
  assert_tensor("shared", &shared, want_shared, 6);
}

TEST(rope_remakes_its_angles_for_another_base) {
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  float x[2] = {1, 0}, y[4] = {1, 2, 1, 2};
  Kernel one = {
      .kind = KERNEL_ROPE,
      .rope = {.rows = 1, .seq_len = 1, .n_heads = 1, .head_dim = 2, .head_stride = 2, .ld = 2, .base = 10, .x = x}};
  Kernel other = {
      .kind = KERNEL_ROPE,
      .rope = {.rows = 2, .seq_len = 2, .n_heads = 1, .head_dim = 2, .head_stride = 2, .ld = 2, .base = 10, .x = y}};
  ck_assert(cpu_kernel_run(&one, scratch, NULL) && cpu_kernel_run(&other, scratch, NULL));
  ck_assert_float_eq(x[0], 1);
  ck_assert_float_eq(y[0], 1);
  assert_near("y", 2, (double)y[2], cos(1) - 2 * sin(1), 1e-6, 1);
}

/* ---- one element at a time ---- */

static double sigmoid(double x) {
  return 1 / (1 + exp(-x));
}

static double gelu(double x) {
  return 0.5 * x * (1 + tanh(sqrt(2 / G_PI) * (x + 0.044715 * x * x * x)));
}

LOOP_TEST(activations_are_those_of_the_definition, n_cases()) {
  Number number = case_number(_i);
  const gint64 widths[] = {1, 15, 64, 77};
  for (guint i = 0; i < G_N_ELEMENTS(widths); i++) {
    gint64 n = widths[i], rows = 3;
    g_auto(Tensor) x = tensor_random(number, rows * 2 * n, 1, 0, 8);
    g_auto(Tensor) y = tensor_new(number, rows * n);
    for (gint64 j = 0; j < MIN(n, 8); j++) /* far out, too */
      tensor_set(&x, j, (double[]){0, 50, -50, 200, -200, 1000, -1000, -10.6}[j]);
    Kernel kernel = {.kind = KERNEL_ACTIVATION_FORWARD,
                     .activation = {.number = (guint8)number, .rows = rows, .width = n, .x = x.data, .y = y.data}};
    for (gint64 j = 0; j < rows * n; j++)
      y.x[j] = gelu(x.x[j]);
    run_kernel(_i, &kernel);
    assert_tensor("gelu", &y, y.x, 1);
    kernel.activation.gated = TRUE;
    for (gint64 j = 0; j < rows * n; j++) {
      double gate = x.x[j / n * 2 * n + j % n], up = x.x[j / n * 2 * n + n + j % n];
      y.x[j] = gate * sigmoid(gate) * up;
    }
    run_kernel(_i, &kernel);
    assert_tensor("silu", &y, y.x, 1);
  }
}

LOOP_TEST(add_may_be_in_place_and_takes_a_bias, n_cases()) {
  Number number = case_number(_i);
  for (int has_bias = 0; has_bias < 2; has_bias++) {
    enum { ROWS = 3, N = 41 };
    g_auto(Tensor) a = tensor_random(number, ROWS * N, 1, 0, 2);
    g_auto(Tensor) b = tensor_random(number, ROWS * N, 2, 0, 2);
    g_auto(Tensor) bias = tensor_random(number, N, 3, 0, 2);
    Kernel kernel = {.kind = KERNEL_ADD,
                     .add = {.number = (guint8)number,
                             .rows = ROWS,
                             .width = N,
                             .a = a.data,
                             .b = b.data,
                             .bias = has_bias ? bias.data : NULL,
                             .out = b.data}};
    for (int i = 0; i < ROWS * N; i++)
      b.x[i] += a.x[i] + (has_bias ? bias.x[i % N] : 0);
    run_kernel(_i, &kernel);
    assert_tensor("sum", &b, b.x, 1);
  }
}

/* ---- ends ---- */

LOOP_TEST(embedding_gives_zeros_for_words_of_others, n_cases()) {
  Number number = case_number(_i);
  enum { T = 6, N = 5, FIRST = 10, WORDS = 4 };
  const gint32 tokens[T] = {10, 13, 14, 9, 0, 11};
  g_auto(Tensor) table = tensor_random(number, WORDS * N, 1, 0, 1);
  g_auto(Tensor) out = tensor_random(number, T * N, 2, 0, 1);
  for (int factor = 1; factor <= 2; factor++) { /* 2: exact in every number */
    Kernel kernel = {.kind = KERNEL_EMBEDDING_FORWARD,
                     .embedding = {.number = (guint8)number,
                                   .tokens = T,
                                   .width = N,
                                   .first_word = FIRST,
                                   .n_words = WORDS,
                                   .token = tokens,
                                   .factor = (float)factor,
                                   .table = table.data,
                                   .out = out.data}};
    run_kernel(_i, &kernel);
    for (int t = 0; t < T; t++)
      for (int j = 0; j < N; j++) {
        gboolean is_here = tokens[t] >= FIRST && tokens[t] < FIRST + WORDS;
        ck_assert_double_eq(tensor_get(&out, t * N + j), is_here ? factor * table.x[(tokens[t] - FIRST) * N + j] : 0);
      }
  }
}

LOOP_TEST(positions_go_round_from_the_first_row, n_cases()) {
  Number number = case_number(_i);
  enum { ROWS = 7, N = 3, S = 4, FIRST = 6 };
  g_auto(Tensor) table = tensor_random(number, S * N, 1, 0, 1);
  g_auto(Tensor) x = tensor_random(number, ROWS * N, 2, 0, 1);
  Kernel kernel = {.kind = KERNEL_POSITIONS_FORWARD,
                   .positions = {.number = (guint8)number,
                                 .rows = ROWS,
                                 .width = N,
                                 .first_row = FIRST,
                                 .seq_len = S,
                                 .table = table.data,
                                 .x = x.data}};
  for (int i = 0; i < ROWS * N; i++)
    x.x[i] += table.x[(FIRST + i / N) % S * N + i % N];
  run_kernel(_i, &kernel);
  assert_tensor("x", &x, x.x, 1);
}

/* e^x over all of fp32's range, against the C library's in double: 2 units in the last place where the result is
 * normal, and half the least subnormal below. */
LOOP_TEST(exponentials_are_right_to_two_last_places, n_cases()) {
  enum { N = 400000 };
  g_autofree float *x = g_new(float, N), *p = g_new(float, N);
  float most = 0, sum, target_logit;
  gint32 target = 0;
  for (int i = 0; i < N; i++)
    x[i] = -120 + 210 * (float)i / N;
  Kernel kernel = {.kind = KERNEL_LOSS_EXP,
                   .loss = {.number = NUMBER_FP32,
                            .tokens = 1,
                            .width = N,
                            .n_words = N,
                            .target = &target,
                            .logits = x,
                            .row_max = &most,
                            .row_sum = &sum,
                            .row_target = &target_logit,
                            .probabilities = p}};
  run_kernel(_i, &kernel);
  for (int i = 0; i < N; i++) {
    double want = exp((double)x[i]);
    assert_near("exp", i, (double)p[i], want > 0x1.fffffep127 ? INFINITY : want, 2 * 0x1p-23, 0x1p-126);
  }
}

int main(void) {
  return run_kernel_case("cpu_kernels", listed_tests());
}
