/* fp8 on the CPU: every code and rounding to the bit, against the definition of the formats (arXiv 2209.05433, Table
 * 1); copies for products, their scales and where these are; products. */
#include "kernel_tensor.h"

enum { N_CODES = 256 };

/* Values of the finite codes from 0 up: code i has values[i]; the largest is the last. */
typedef struct {
  double values[128];
  int n;
} Format;

/* e4m3: 15 exponents of 8 and one of 7 (the last mantissa is NaN); e5m2: 31 of 4 (the last exponent is ∞ and NaN). */
static Format format_of(Fp8Format format) {
  const int n_mantissas = format == FP8_E4M3 ? 8 : 4, bias = format == FP8_E4M3 ? 7 : 15;
  Format result = {.n = format == FP8_E4M3 ? 15 * 8 + 7 : 31 * 4};
  for (int code = 0; code < result.n; code++) {
    const int exponent = code / n_mantissas, mantissa = code % n_mantissas;
    const double significand = (double)mantissa / n_mantissas + (exponent > 0 ? 1 : 0);
    result.values[code] = significand * pow(2, MAX(exponent, 1) - bias);
  }
  return result;
}

/* The code of the nearest value; of two, the even one; NaN is 0x7f. */
static guint8 nearest(const Format *format, double value) {
  const double magnitude = fabs(value);
  int code = 0, above = format->n - 1;
  if (isnan(value))
    return 0x7f;
  while (above - code > 1) {
    const int middle = (code + above) / 2;
    *(format->values[middle] <= magnitude ? &code : &above) = middle;
  }
  if (magnitude >= format->values[above])
    code = above;
  else if (magnitude - format->values[code] > format->values[above] - magnitude ||
           (magnitude - format->values[code] == format->values[above] - magnitude && code % 2 == 1))
    code = above;
  return (guint8)(code | (signbit(value) ? 0x80 : 0));
}

static void run_on(int isa, const Kernel *kernel) {
  run_kernel(isa * (int)G_N_ELEMENTS(tested_numbers), kernel);
}

/* Column 0 of A holds the codes, B is 1 there: C is what the codes stand for. */
START_TEST(every_code_has_its_value) {
  enum { K = FP8_MULTIPLE };
  for (int f = 0; f < N_FP8_FORMATS; f++) {
    const Format format = format_of((Fp8Format)f);
    guint8 a[N_CODES * K] = {0}, b[K * K] = {0};
    float c[N_CODES * K];
    const float one = 1;
    for (int code = 0; code < N_CODES; code++)
      a[code * K] = (guint8)code;
    b[0] = 7 << 3;
    const Kernel kernel = {.kind = KERNEL_MATMUL,
                           .matmul = {.layout = LAYOUT_TN,
                                      .number = NUMBER_FP8,
                                      .result = NUMBER_FP32,
                                      .batch = 1,
                                      .m = N_CODES,
                                      .n = K,
                                      .k = K,
                                      .lda = K,
                                      .ldb = K,
                                      .ldc = K,
                                      .a = a,
                                      .b = b,
                                      .c = c,
                                      .alpha = 1,
                                      .fp8_a = {(guint8)f, FP8_TENSOR, &one},
                                      .fp8_b = {FP8_E4M3, FP8_TENSOR, &one}}};
    run_on(_i, &kernel);
    for (int code = 0; code < N_CODES; code++) {
      const int magnitude = code & 0x7f;
      const double sign = code & 0x80 ? -1 : 1, got = (double)c[code * K];
      if (magnitude < format.n)
        ck_assert_double_eq(got, sign * format.values[magnitude]);
      else if (f == FP8_E5M2 && magnitude == format.n)
        ck_assert(isinf(got) && (got < 0) == (sign < 0));
      else
        ck_assert(isnan(got));
    }
  }
}

static float float_of_bits(guint32 bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Rounds rows of 16 numbers, of which the first is ∞, so that the scale is 1. */
static void assert_rounded(int isa, Fp8Format f, const float *x, gint64 n) {
  const Format format = format_of(f);
  g_autofree guint8 *codes = g_malloc0((gsize)n);
  float scale = 0;
  const Kernel kernel = {.kind = KERNEL_NARROW,
                         .narrow = {.number = NUMBER_FP32,
                                    .to = NUMBER_FP8,
                                    .format = (guint8)f,
                                    .scaling = FP8_TENSOR,
                                    .batch = 1,
                                    .rows = n / 16,
                                    .columns = 16,
                                    .ld = 16,
                                    .x = x,
                                    .as_is = codes,
                                    .scales = &scale}};
  run_on(isa, &kernel);
  ck_assert_float_eq(scale, 1);
  for (gint64 i = 0; i < n; i++)
    if (codes[i] != nearest(&format, (double)x[i]))
      ck_abort_msg("format %d: %a is 0x%02x, expected 0x%02x", f, (double)x[i], codes[i],
                   nearest(&format, (double)x[i]));
}

/* Every number of bf16, random bits, and what lies beside and halfway between neighbouring codes. */
START_TEST(numbers_become_the_nearest_code) {
  enum { N_RANDOM = 1 << 16, N_BF16 = 1 << 16, N_EDGES = 128 * 2 * 6, N = (N_RANDOM + N_BF16 + N_EDGES) / 256 * 256 };
  g_autofree float *x = g_new0(float, N_RANDOM + N_BF16 + N_EDGES);
  for (int f = 0; f < N_FP8_FORMATS; f++) {
    const Format format = format_of((Fp8Format)f);
    int n = 0;
    for (int i = 0; i + 1 < format.n; i++)
      for (int is_middle = 0; is_middle < 2; is_middle++) {
        const double at = is_middle ? (format.values[i] + format.values[i + 1]) / 2 : format.values[i];
        for (int sign = -1; sign <= 1; sign += 2)
          for (int side = -1; side <= 1; side++)
            x[n++] = (float)sign * (side == 0 ? (float)at : nextafterf((float)at, side < 0 ? 0 : INFINITY));
      }
    for (guint32 bits = 0; bits < N_BF16; bits++)
      x[n++] = float_of_bits(bits << 16);
    for (int i = 0; n < N; i++)
      x[n++] = float_of_bits(kernel_random(5, (guint64)i));
    x[0] = INFINITY;
    assert_rounded(_i, (Fp8Format)f, x, N);
  }
}

/* The largest power of two that leaves a magnitude within the format. */
static double expected_scale(double magnitude, const Format *format) {
  double scale = pow(2, 126);
  if (magnitude == 0)
    return 1;
  while (scale * magnitude > format->values[format->n - 1])
    scale /= 2;
  return scale;
}

typedef struct {
  gint64 rows, columns, first_row, first_column, n_rows, n_columns; /* of a matrix: elements that share a scale */
} Region;

static Region region_of(Fp8Scaling scaling, gint64 rows, gint64 columns, gint64 row, gint64 column) {
  Region r = {rows, columns, 0, 0, rows, columns};
  if (scaling == FP8_TENSOR)
    return r;
  const gint64 height = scaling == FP8_ROWS ? 1 : 128;
  r.first_row = row / height * height;
  r.first_column = column / 128 * 128;
  r.n_rows = MIN(height, rows - r.first_row);
  r.n_columns = MIN(128, columns - r.first_column);
  return r;
}

/* As cuBLASLt's documentation has it, "Scaling factors layouts". */
static gint64 place_of_scale(Fp8Scaling scaling, gint64 rows, gint64 columns, gint64 row, gint64 column) {
  const gint64 l = (columns + 127) / 128, l4 = (l + 3) / 4 * 4;
  return scaling == FP8_TENSOR ? 0
         : scaling == FP8_ROWS ? (column / 128) * rows + row
                               : (row / 128) * l4 + column / 128;
}

/* A copy: element (row, column) of it is x's; `stride` apart in each direction. */
static void assert_copy(Fp8Format f, Fp8Scaling scaling, const double *x, const gint64 stride[2], gint64 rows,
                        gint64 columns, const guint8 *codes, const float *scales) {
  const Format format = format_of(f);
  for (gint64 row = 0; row < rows; row++)
    for (gint64 column = 0; column < columns; column++) {
      const Region r = region_of(scaling, rows, columns, row, column);
      const float inverse = scales[place_of_scale(scaling, rows, columns, row, column)];
      if (row == r.first_row && column == r.first_column) {
        double most = 0;
        for (gint64 i = 0; i < r.n_rows; i++)
          for (gint64 j = 0; j < r.n_columns; j++)
            most = fmax(most, fabs(x[(r.first_row + i) * stride[0] + (r.first_column + j) * stride[1]]));
        ck_assert_double_eq(1 / (double)inverse, expected_scale(most, &format));
      }
      const double value = x[row * stride[0] + column * stride[1]];
      ck_assert_uint_eq(codes[row * columns + column], nearest(&format, value / (double)inverse));
    }
}

/* Both copies, of sizes that are not multiples of a block, with rows of very different sizes. */
START_TEST(copies_hold_what_products_sum_over) {
  enum { ROWS = 144, COLUMNS = 272, LD = COLUMNS + 8, N = ROWS * COLUMNS };
  g_auto(Tensor) x = tensor_random(NUMBER_BF16, ROWS * LD, 3, 0, 1);
  g_autofree double *dense = g_new(double, N);
  for (gint64 row = 0; row < ROWS; row++)
    for (gint64 column = 0; column < LD; column++) {
      const gint64 at = row * LD + column;
      tensor_set(&x, at, row == 17 ? 0 : x.x[at] * pow(2, (double)(row % 40) - 20));
      if (column < COLUMNS)
        dense[row * COLUMNS + column] = x.x[at];
    }
  guint8 *as_is = g_malloc(N), *turned = g_malloc(N);
  float scales[ROWS * 4], turned_scales[COLUMNS * 4];
  for (int f = 0; f < N_FP8_FORMATS; f++)
    for (int scaling = FP8_TENSOR; scaling <= FP8_BLOCKS; scaling++) {
      const Kernel kernel = {.kind = KERNEL_NARROW,
                             .narrow = {.number = NUMBER_BF16,
                                        .to = NUMBER_FP8,
                                        .format = (guint8)f,
                                        .scaling = (guint8)scaling,
                                        .batch = 1,
                                        .rows = ROWS,
                                        .columns = COLUMNS,
                                        .ld = LD,
                                        .x = x.data,
                                        .as_is = as_is,
                                        .turned = turned,
                                        .scales = scales,
                                        .turned_scales = turned_scales}};
      run_on(_i, &kernel);
      assert_copy((Fp8Format)f, (Fp8Scaling)scaling, dense, (gint64[]){COLUMNS, 1}, ROWS, COLUMNS, as_is, scales);
      assert_copy((Fp8Format)f, (Fp8Scaling)scaling, dense, (gint64[]){1, COLUMNS}, COLUMNS, ROWS, turned,
                  turned_scales);
    }
  g_free(as_is);
  g_free(turned);
}

/* A shard's scale may be larger than the whole tensor's: that changes only numbers that were near the smallest. */
TEST(a_shard_holds_the_same_numbers) {
  enum { N = 4096 };
  for (int f = 0; f < N_FP8_FORMATS; f++) {
    const Format format = format_of((Fp8Format)f);
    const double smallest_normal = f == FP8_E4M3 ? 0x1p-6 : 0x1p-14;
    for (guint64 i = 0; i < N; i++) {
      const double most = pow(2, kernel_random(1, i) / 0x1p28 - 8), less = most * kernel_random(2, i) / 0x1p32;
      const double x = less * (kernel_random(3, i) / 0x1p31 - 1);
      const double whole = (double)fp8_scale((float)most, f), shard = (double)fp8_scale((float)less, f);
      ck_assert_double_ge(shard, whole);
      if (fabs(whole * x) >= smallest_normal)
        ck_assert_double_eq(format.values[nearest(&format, whole * x) & 0x7f] / whole,
                            format.values[nearest(&format, shard * x) & 0x7f] / shard);
    }
  }
}

typedef struct {
  Fp8Format format;
  Fp8Scaling scaling;
  gint64 rows, columns;
  guint8 *codes;
  float *scales;
} Operand;

enum { BATCH = 2 };

static Operand operand_new(Fp8Format format, Fp8Scaling scaling, gint64 rows, gint64 columns, guint64 seed) {
  const gint64 n_scales = (scaling == FP8_TENSOR ? 1 : BATCH) * fp8_n_scales(scaling, rows, columns);
  Operand operand = {format, scaling, rows, columns, g_malloc((gsize)(BATCH * rows * columns)), g_new(float, n_scales)};
  const int n = format_of(format).n;
  for (gint64 i = 0; i < BATCH * rows * columns; i++) {
    const guint32 random = kernel_random(seed, (guint64)i);
    operand.codes[i] = (guint8)(random % (guint32)n | (random & 0x80000000 ? 0x80 : 0));
  }
  for (gint64 i = 0; i < n_scales; i++)
    operand.scales[i] = (float)pow(2, (double)(kernel_random(seed + 1, (guint64)i) % 8));
  return operand;
}

static void operand_clear(Operand *operand) {
  g_free(operand->codes);
  g_free(operand->scales);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Operand, operand_clear)

static double operand_get(const Operand *o, const Format *format, gint64 matrix, gint64 row, gint64 column) {
  const guint8 code = o->codes[(matrix * o->rows + row) * o->columns + column];
  const gint64 of_matrix = o->scaling == FP8_TENSOR ? 0 : matrix * fp8_n_scales(o->scaling, o->rows, o->columns);
  const double scale = (double)o->scales[of_matrix + place_of_scale(o->scaling, o->rows, o->columns, row, column)];
  return (code & 0x80 ? -1 : 1) * format->values[code & 0x7f] * scale;
}

/* Sums are in fp32: errors are relative to the sum of the terms' sizes. */
START_TEST(products_undo_the_scales) {
  enum { M = 48, N = 144, K = 272 };
  static const struct {
    Fp8Format a, b;
    Fp8Scaling scaling_a, scaling_b;
  } cases[] = {{FP8_E4M3, FP8_E4M3, FP8_TENSOR, FP8_TENSOR},
               {FP8_E5M2, FP8_E4M3, FP8_TENSOR, FP8_TENSOR},
               {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_BLOCKS},
               {FP8_E4M3, FP8_E4M3, FP8_ROWS, FP8_ROWS}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Format format_a = format_of(cases[i].a), format_b = format_of(cases[i].b);
    g_auto(Operand) a = operand_new(cases[i].a, cases[i].scaling_a, M, K, 10);
    g_auto(Operand) b = operand_new(cases[i].b, cases[i].scaling_b, N, K, 20);
    g_auto(Tensor) c = tensor_random(NUMBER_FP32, BATCH * M * N, 5, 0, 1);
    const Kernel kernel = {.kind = KERNEL_MATMUL,
                           .matmul = {.layout = LAYOUT_TN,
                                      .number = NUMBER_FP8,
                                      .result = NUMBER_FP32,
                                      .accumulate = TRUE,
                                      .batch = BATCH,
                                      .m = M,
                                      .n = N,
                                      .k = K,
                                      .lda = K,
                                      .ldb = K,
                                      .ldc = N,
                                      .stride_a = M * K,
                                      .stride_b = N * K,
                                      .stride_c = M * N,
                                      .a = a.codes,
                                      .b = b.codes,
                                      .c = c.data,
                                      .alpha = 2,
                                      .fp8_a = {(guint8)a.format, (guint8)a.scaling, a.scales},
                                      .fp8_b = {(guint8)b.format, (guint8)b.scaling, b.scales}}};
    run_on(_i, &kernel);
    for (gint64 at = 0; at < BATCH * M * N; at++) {
      const gint64 matrix = at / (M * N), row = at / N % M, column = at % N;
      double sum = c.x[at], size = 0;
      for (gint64 k = 0; k < K; k++) {
        const double term =
            2 * operand_get(&a, &format_a, matrix, row, k) * operand_get(&b, &format_b, matrix, column, k);
        sum += term;
        size += fabs(term);
      }
      assert_near("product", at, tensor_get(&c, at), sum, 1e-6, size);
    }
  }
}

int main(void) {
  const int n = (int)g_strv_length((char **)(gsize)cpu_kernels_isa_names());
  tcase_add_loop_test(listed_tests(), every_code_has_its_value, 0, n);
  tcase_add_loop_test(listed_tests(), numbers_become_the_nearest_code, 0, n);
  tcase_add_loop_test(listed_tests(), copies_hold_what_products_sum_over, 0, n);
  tcase_add_loop_test(listed_tests(), products_undo_the_scales, 0, n);
  return run_kernel_case("cpu_fp8", listed_tests());
}
