/* The CPU kernels on unusual input: NaN, ∞, large scores, unaligned rows, formats they do not support. */
#include "kernel_tensor.h"

/* ---- what is not finite ---- */

enum { ODD_ROWS = 5, ODD_N = 37 }; /* NaN or ∞ is put into row 2, column 20 */

/* x [rows][n] → y [rows][n], everything else 1. */
static Kernel odd_kernel(KernelKind kind, Number number, const Tensor *x, const Tensor *ones, Tensor *y, Tensor *rstd) {
  guint8 n = (guint8)number;
  switch (kind) {
  case KERNEL_NORM_FORWARD:
    return (Kernel){.kind = kind,
                    .norm = {.number = n,
                             .is_rms = TRUE,
                             .rows = ODD_ROWS,
                             .width = ODD_N,
                             .x = x->data,
                             .weight = ones->data,
                             .y = y->data,
                             .rstd = rstd->data}};
  case KERNEL_ACTIVATION_FORWARD:
    return (Kernel){.kind = kind,
                    .activation = {.number = n, .rows = ODD_ROWS, .width = ODD_N, .x = x->data, .y = y->data}};
  case KERNEL_ADD:
    return (Kernel){
        .kind = kind,
        .add = {.number = n, .rows = ODD_ROWS, .width = ODD_N, .a = x->data, .b = ones->data, .out = y->data}};
  case KERNEL_CONVERT:
    return (Kernel){.kind = kind,
                    .convert = {.from_number = n,
                                .to_number = n,
                                .accumulate = TRUE,
                                .n = ODD_ROWS * ODD_N,
                                .from = x->data,
                                .to = y->data}};
  case KERNEL_MATMUL:
    return (Kernel){.kind = kind,
                    .matmul = {.layout = LAYOUT_NN,
                               .number = n,
                               .result = n,
                               .batch = 1,
                               .m = ODD_ROWS,
                               .n = ODD_N,
                               .k = ODD_N,
                               .lda = ODD_N,
                               .ldb = ODD_N,
                               .ldc = ODD_N,
                               .a = x->data,
                               .b = ones->data,
                               .c = y->data,
                               .alpha = 1}};
  default:
    g_assert_not_reached();
  }
}

/* Where NaN comes out: in its own element, or in its row. */
LOOP_TEST(nan_and_infinity_come_through, n_cases()) {
  const struct {
    KernelKind kind;
    gboolean spoils_row;
  } kinds[] = {{KERNEL_NORM_FORWARD, TRUE},
               {KERNEL_MATMUL, TRUE},
               {KERNEL_ACTIVATION_FORWARD, FALSE},
               {KERNEL_ADD, FALSE},
               {KERNEL_CONVERT, FALSE}};
  for (guint i = 0; i < G_N_ELEMENTS(kinds); i++)
    for (int is_infinite = 0; is_infinite < 2; is_infinite++) {
      Number number = case_number(_i);
      g_auto(Tensor) x = tensor_random(number, ODD_ROWS * ODD_N, 1, 0, 1);
      g_auto(Tensor) ones = tensor_random(number, ODD_N * ODD_N, 1, 1, 0);
      g_auto(Tensor) y = tensor_new(number, ODD_ROWS * ODD_N);
      g_auto(Tensor) rstd = tensor_new(NUMBER_FP32, ODD_ROWS);
      tensor_set(&x, 2 * ODD_N + 20, is_infinite ? INFINITY : NAN);
      Kernel kernel = odd_kernel(kinds[i].kind, number, &x, &ones, &y, &rstd);
      run_kernel(_i, &kernel);
      for (int j = 0; j < ODD_ROWS * ODD_N; j++) {
        gboolean is_there = kinds[i].spoils_row ? j / ODD_N == 2 : j == 2 * ODD_N + 20;
        double got = tensor_get(&y, j);
        if (kinds[i].kind == KERNEL_NORM_FORWARD && is_infinite) /* others of the row are divided by ∞ */
          is_there = j == 2 * ODD_N + 20;
        if (is_there ? isfinite(got) : !isfinite(got))
          ck_abort_msg("%s: %g in row %d, column %d", kernel_name(kinds[i].kind), got, j / ODD_N, j % ODD_N);
      }
    }
}

/* A NaN in key 20: queries before its tile's end may be spared or not, those from 20 on are not. */
LOOP_TEST(nan_comes_through_attention, n_cases()) {
  enum { S = 150, D = 4 };
  g_auto(Tensor) qkv = tensor_random(case_number(_i), S * D, 1, 0, 1);
  g_auto(Tensor) o = tensor_new(case_number(_i), S * D);
  float lse[S];
  tensor_set(&qkv, 20 * D + 1, NAN);
  Kernel kernel = {.kind = KERNEL_FLASH_FORWARD,
                   .flash = {.number = (guint8)qkv.number,
                             .sequences = 1,
                             .seq_len = S,
                             .n_heads = 1,
                             .n_kv_heads = 1,
                             .head_dim = D,
                             .v_head_dim = D,
                             .scale = 0.5f,
                             .ld_qkv = D,
                             .ld_o = D,
                             .q = qkv.data,
                             .k = qkv.data,
                             .v = qkv.data,
                             .o = o.data,
                             .lse = lse}};
  run_kernel(_i, &kernel);
  for (int i = 20 * D; i < S * D; i++)
    ck_assert(isnan(tensor_get(&o, i)));
}

LOOP_TEST(nan_comes_through_loss_and_norm, n_cases()) {
  enum { N = 50 };
  g_auto(Tensor) logits = tensor_random(case_number(_i), N, 1, 0, 1);
  tensor_set(&logits, 33, NAN);
  gint32 target = 4;
  float row_max, row_sum, row_target, p[N];
  double loss = 0, sum = 0;
  Kernel kernel = {.loss = {.number = (guint8)logits.number,
                            .tokens = 1,
                            .width = N,
                            .n_words = N,
                            .target = &target,
                            .logits = logits.data,
                            .row_max = &row_max,
                            .row_sum = &row_sum,
                            .row_target = &row_target,
                            .probabilities = p,
                            .loss = &loss,
                            .loss_scale = 1}};
  for (kernel.kind = KERNEL_LOSS_MAX; kernel.kind <= KERNEL_LOSS_SOFTMAX; kernel.kind++)
    run_kernel(_i, &kernel);
  ck_assert(isnan(loss) && isnan(p[0]));
  kernel = (Kernel){.kind = KERNEL_SUM_SQUARES,
                    .sum_squares = {.gradient = (guint8)logits.number, .n = N, .x = logits.data, .sum = &sum}};
  run_kernel(_i, &kernel);
  ck_assert(isnan(sum));
}

/* The same numbers 4 bytes further on: sums must not depend on where vectors happen to start. */
LOOP_TEST(results_do_not_depend_on_alignment, n_cases()) {
  enum { ROWS = 3, N = 1003 };
  g_autofree float *memory = g_new0(float, 4 * ROWS * N + 64);
  float rstd[2][ROWS];
  for (int shift = 0; shift < 2; shift++) {
    float *x = memory + 16 + shift, *y = x + ROWS * N + 16, *w = y + ROWS * N + 16;
    for (int i = 0; i < ROWS * N; i++)
      x[i] = (float)kernel_random(1, (guint64)i);
    Kernel kernel = {
        .kind = KERNEL_NORM_FORWARD,
        .norm = {.is_rms = TRUE, .rows = ROWS, .width = N, .x = x, .weight = w, .y = y, .rstd = rstd[shift]}};
    run_kernel(_i, &kernel);
  }
  ck_assert_mem_eq(rstd[0], rstd[1], sizeof rstd[0]);
}

/* Scores of ±700 after scaling: the softmax is one key per row, and nothing overflows on the way. */
LOOP_TEST(flash_attention_survives_large_scores, n_cases()) {
  enum { S = 200, D = 4 };
  g_auto(Tensor) qkv = tensor_random(NUMBER_FP32, S * 3 * D, 1, 0, 40);
  float *x = qkv.data, *o = g_new(float, S *D), *lse = g_new(float, S), *dx = g_new(float, S * 3 * D);
  Kernel kernel = {.kind = KERNEL_FLASH_FORWARD,
                   .flash = {.number = NUMBER_FP32,
                             .sequences = 1,
                             .seq_len = S,
                             .n_heads = 1,
                             .n_kv_heads = 1,
                             .head_dim = D,
                             .v_head_dim = D,
                             .scale = 0.5f,
                             .ld_qkv = 3 * D,
                             .ld_dq = 3 * D,
                             .ld_dkv = 3 * D,
                             .ld_o = D,
                             .q = x,
                             .k = x + D,
                             .v = x + 2 * D,
                             .o = o,
                             .lse = lse,
                             .d_o = o,
                             .dq = dx,
                             .dk = dx + D,
                             .dv = dx + 2 * D}};
  run_kernel(_i, &kernel);
  kernel.kind = KERNEL_FLASH_BACKWARD;
  run_kernel(_i, &kernel);
  for (int i = 0; i < S * D; i++)
    ck_assert(isfinite(o[i]) && fabsf(o[i]) <= 40.001f);
  for (int i = 0; i < S * 3 * D; i++)
    ck_assert(isfinite(dx[i]));
  g_free(o);
  g_free(lse);
  g_free(dx);
}

/* ---- all kernels ---- */

TEST(other_formats_are_refused) {
  Kernel kernel = {.kind = KERNEL_CONVERT, .convert = {.from_number = NUMBER_FP32, .to_number = NUMBER_FP4}};
  g_autoptr(CpuScratch) scratch = cpu_scratch_new();
  g_autoptr(GError) error = NULL;
  ck_assert(!cpu_kernel_run(&kernel, scratch, &error));
  ck_assert_str_eq(error->message, "kernel convert: found elements of fp4, expected fp32, bf16 or fp16");
}

int main(void) {
  return run_kernel_case("cpu_odd_values", listed_tests());
}
