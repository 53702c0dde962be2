/* The CPU kernels with a backward side: forward against plain references in double, backward against central
 * differences of these references. The scalar differentiated is Σ dy·y with random dy. */
#include "kernel_tensor.h"

/* ---- norms ---- */

typedef struct {
  gint64 rows, width;
  gboolean is_rms;
  double epsilon;
  const double *x, *w, *shift, *dy;
} NormCase;

static double norm_sum(gpointer data) {
  const NormCase *norm = data;
  double total = 0;
  for (gint64 row = 0; row < norm->rows; row++) {
    const double *x = norm->x + row * norm->width;
    double sum = 0, squares = 0;
    for (gint64 j = 0; j < norm->width; j++)
      sum += x[j];
    double mean = norm->is_rms ? 0 : sum / (double)norm->width;
    for (gint64 j = 0; j < norm->width; j++)
      squares += (x[j] - mean) * (x[j] - mean);
    double rstd = 1 / sqrt(squares / (double)norm->width + norm->epsilon);
    for (gint64 j = 0; j < norm->width; j++)
      total += norm->dy[row * norm->width + j] * ((x[j] - mean) * rstd * norm->w[j] + norm->shift[j]);
  }
  return total;
}

static void try_norm(int test_case, gint64 rows, gint64 width, gboolean is_rms, Number gradient) {
  Number number = case_number(test_case);
  g_auto(Tensor) x = tensor_random(number, rows * width, 1, 1, 2);
  g_auto(Tensor) w = tensor_random(number, width, 2, 1, 0.5);
  g_auto(Tensor) shift = tensor_random(number, width, 3, 0, 1);
  g_auto(Tensor) y = tensor_new(number, rows * width);
  g_auto(Tensor) mean = tensor_new(NUMBER_FP32, rows);
  g_auto(Tensor) rstd = tensor_new(NUMBER_FP32, rows);
  g_auto(Tensor) dy = tensor_random(number, rows * width, 4, 0, 1);
  g_auto(Tensor) dx = tensor_random(number, rows * width, 5, 0, 1);
  g_auto(Tensor) dw = tensor_random(gradient, width, 6, 0, 1);
  g_auto(Tensor) dshift = tensor_random(gradient, width, 7, 0, 1);
  Kernel kernel = {.kind = KERNEL_NORM_FORWARD,
                   .norm = {.number = (guint8)number,
                            .is_rms = (guint8)is_rms,
                            .rows = rows,
                            .width = width,
                            .epsilon = 0.01f,
                            .x = x.data,
                            .weight = w.data,
                            .shift = shift.data,
                            .y = y.data,
                            .mean = mean.data,
                            .rstd = rstd.data,
                            .dy = dy.data,
                            .dx = dx.data,
                            .gradient = (guint8)gradient,
                            .dweight = dw.data,
                            .dshift = is_rms ? NULL : dshift.data}};
  run_kernel(test_case, &kernel);
  kernel.kind = KERNEL_NORM_BACKWARD;
  run_kernel(test_case, &kernel);
  NormCase norm = {rows, width, is_rms, 0.01, x.x, w.x, shift.x, dy.x};
  double scale = sqrt((double)rows) * 3;
  assert_gradient("dx", &dx, NULL, x.x, norm_sum, &norm, 40, 3);
  assert_gradient("dweight", &dw, dw.x, w.x, norm_sum, &norm, 20, scale);
  if (!is_rms)
    assert_gradient("dshift", &dshift, dshift.x, shift.x, norm_sum, &norm, 20, scale);
}

LOOP_TEST(norm_gradients, n_cases()) {
  const gint64 widths[] = {1, 2, 17, 200};
  for (guint i = 0; i < G_N_ELEMENTS(widths); i++)
    for (int is_rms = 0; is_rms < 2; is_rms++) {
      try_norm(_i, 1, widths[i], is_rms, case_number(_i));
      try_norm(_i, 9, widths[i], is_rms, NUMBER_FP32);
    }
}

/* A row cut between two ranks, each with its columns, weights and the sums of both. */
static void run_parts(int test_case, KernelKind sums, KernelKind norm, Kernel parts[2], gint64 rows) {
  for (int i = 0; i < 2; i++) {
    parts[i].kind = (guint8)sums;
    run_kernel(test_case, &parts[i]);
  }
  for (gint64 at = 0; at < rows; at++)
    for (int s = 0; s < (parts[0].norm.is_rms ? 1 : 2); s++)
      parts[0].norm.sums[s][at] = parts[1].norm.sums[s][at] += parts[0].norm.sums[s][at];
  for (int i = 0; i < 2; i++) {
    parts[i].kind = (guint8)norm;
    run_kernel(test_case, &parts[i]);
  }
}

/* Against the definition of the whole row: what both parts make of it, and its derivatives. */
LOOP_TEST(norms_of_parts_are_those_of_the_whole, n_cases()) {
  enum { ROWS = 5, WIDTH = 34, HALF = WIDTH / 2, N = ROWS * WIDTH };
  const Number number = case_number(_i);
  for (int is_rms = 0; is_rms < 2; is_rms++) {
    g_auto(Tensor) x = tensor_random(number, N, 1, 1, 2);
    g_auto(Tensor) w = tensor_random(number, WIDTH, 2, 1, 0.5);
    g_auto(Tensor) dy = tensor_random(number, N, 4, 0, 1);
    g_auto(Tensor) dx = tensor_random(number, N, 5, 0, 1);
    g_auto(Tensor) dw = tensor_random(NUMBER_FP32, WIDTH, 6, 0, 1);
    g_auto(Tensor) y = tensor_new(number, N);
    float sums[2][2][ROWS], mean[2][ROWS], rstd[2][ROWS];
    const double no_shift[WIDTH] = {0};
    Kernel parts[2];
    for (int i = 0; i < 2; i++) {
      const int e = kernel_element_bytes(number) * i * HALF;
      parts[i] = (Kernel){.norm = {.number = (guint8)number,
                                   .is_rms = (guint8)is_rms,
                                   .rows = ROWS,
                                   .width = HALF,
                                   .per_line = 1,
                                   .ld = WIDTH,
                                   .whole_width = WIDTH,
                                   .sums = {sums[i][0], sums[i][1]},
                                   .epsilon = 0.01f,
                                   .x = (char *)x.data + e,
                                   .weight = (char *)w.data + e,
                                   .y = (char *)y.data + e,
                                   .mean = mean[i],
                                   .rstd = rstd[i],
                                   .dy = (char *)dy.data + e,
                                   .dx = (char *)dx.data + e,
                                   .gradient = NUMBER_FP32,
                                   .dweight = (float *)dw.data + i * HALF}};
    }
    run_parts(_i, KERNEL_NORM_SUMS, KERNEL_NORM_FORWARD, parts, ROWS);
    run_parts(_i, KERNEL_NORM_SUMS_BACKWARD, KERNEL_NORM_BACKWARD, parts, ROWS);
    NormCase norm = {ROWS, WIDTH, is_rms, 0.01, x.x, w.x, no_shift, dy.x};
    double made = 0;
    for (int i = 0; i < N; i++)
      made += dy.x[i] * tensor_get(&y, i);
    assert_near("y", 0, made, norm_sum(&norm), number_tolerance(number) + 1e-6, sqrt(N));
    assert_gradient("dx", &dx, NULL, x.x, norm_sum, &norm, 40, 3);
    assert_gradient("dweight", &dw, dw.x, w.x, norm_sum, &norm, 20, sqrt(ROWS) * 3);
  }
}

/* Heads of a wider row, normalised and turned back in place: as the same rows one below the other, to the bit. What
 * lies beside them stays. */
LOOP_TEST(norms_side_by_side_are_those_of_rows, n_cases()) {
  enum { LINES = 3, HEADS = 4, D = 9, LD = 50, ROWS = LINES * HEADS };
  for (int is_rms = 0; is_rms < 2; is_rms++) {
    const Number number = case_number(_i);
    g_auto(Tensor) wide = tensor_random(number, LINES * LD, 1, 1, 2);
    g_auto(Tensor) back = tensor_random(number, LINES * LD, 2, 0, 1);
    g_auto(Tensor) w = tensor_random(number, D, 3, 1, 0.5);
    g_auto(Tensor) kept = tensor_new(number, ROWS * D);
    g_auto(Tensor) x = tensor_new(number, ROWS * D);
    g_auto(Tensor) dy = tensor_new(number, ROWS * D);
    g_auto(Tensor) dw = tensor_random(NUMBER_FP32, D, 4, 0, 1);
    g_auto(Tensor) dw_wide = tensor_random(NUMBER_FP32, D, 4, 0, 1);
    g_auto(Tensor) mean = tensor_new(NUMBER_FP32, ROWS);
    g_auto(Tensor) rstd = tensor_new(NUMBER_FP32, ROWS);
    for (int i = 0; i < ROWS * D; i++) {
      const int at = i / D / HEADS * LD + i / D % HEADS * D + i % D;
      tensor_set(&x, i, wide.x[at]);
      tensor_set(&dy, i, back.x[at]);
    }
    Kernel rows = {.kind = KERNEL_NORM_FORWARD,
                   .norm = {.number = (guint8)number,
                            .is_rms = (guint8)is_rms,
                            .rows = ROWS,
                            .width = D,
                            .epsilon = 0.01f,
                            .x = x.data,
                            .weight = w.data,
                            .y = x.data,
                            .kept = kept.data,
                            .mean = mean.data,
                            .rstd = rstd.data,
                            .dy = dy.data,
                            .dx = dy.data,
                            .gradient = NUMBER_FP32,
                            .dweight = dw.data}};
    Kernel heads = rows;
    heads.norm.x = heads.norm.y = wide.data;
    heads.norm.dy = heads.norm.dx = back.data;
    heads.norm.dweight = dw_wide.data;
    heads.norm.per_line = HEADS;
    heads.norm.ld = LD;
    for (int direction = 0; direction < 2; direction++) {
      rows.kind = heads.kind = direction == 0 ? KERNEL_NORM_FORWARD : KERNEL_NORM_BACKWARD;
      run_kernel(_i, &rows);
      run_kernel(_i, &heads);
      const Tensor *dense = direction == 0 ? &x : &dy, *line = direction == 0 ? &wide : &back;
      for (int i = 0; i < LINES * LD; i++) {
        const int column = i % LD, row = i / LD * HEADS + column / D;
        const double expected = column < HEADS * D ? tensor_get(dense, row * D + column % D) : line->x[i];
        ck_assert_double_eq(tensor_get(line, i), expected);
      }
    }
    for (int i = 0; i < D; i++)
      ck_assert_double_eq(tensor_get(&dw_wide, i), tensor_get(&dw, i));
  }
}

/* ---- activations ---- */

typedef struct {
  gint64 rows, width;
  gboolean gated;
  const double *x, *dy;
} ActivationCase;

static double activation_sum(gpointer data) {
  const ActivationCase *activation = data;
  gint64 n = activation->width;
  double total = 0;
  for (gint64 i = 0; i < activation->rows * n; i++) {
    double x = activation->x[activation->gated ? i / n * 2 * n + i % n : i], y;
    if (activation->gated)
      y = x / (1 + exp(-x)) * activation->x[i / n * 2 * n + n + i % n];
    else
      y = 0.5 * x * (1 + tanh(sqrt(2 / G_PI) * (x + 0.044715 * x * x * x)));
    total += activation->dy[i] * y;
  }
  return total;
}

LOOP_TEST(activation_gradients, n_cases()) {
  Number number = case_number(_i);
  for (int gated = 0; gated < 2; gated++) {
    enum { ROWS = 3, N = 37 };
    gint64 in_width = gated ? 2 * N : N;
    g_auto(Tensor) x = tensor_random(number, ROWS * in_width, 1, 0, 6);
    g_auto(Tensor) dy = tensor_random(number, ROWS * N, 2, 0, 1);
    g_auto(Tensor) dx = tensor_new(number, ROWS * in_width);
    tensor_set(&x, 3, 30);
    tensor_set(&x, 4, -30); /* e^30³ is beyond fp32: 0 and 1 must come out, not NaN */
    Kernel kernel = {.kind = KERNEL_ACTIVATION_BACKWARD,
                     .activation = {.number = (guint8)number,
                                    .gated = (guint8)gated,
                                    .rows = ROWS,
                                    .width = N,
                                    .x = x.data,
                                    .dy = dy.data,
                                    .dx = dx.data}};
    run_kernel(_i, &kernel);
    ActivationCase activation = {ROWS, N, gated, x.x, dy.x};
    assert_gradient("dx", &dx, NULL, x.x, activation_sum, &activation, 0, 3);
    kernel.activation.dx = x.data; /* in place */
    run_kernel(_i, &kernel);
    for (int i = 0; i < ROWS * in_width; i++)
      ck_assert_double_eq(tensor_get(&x, i), tensor_get(&dx, i));
  }
}

/* ---- sums down the columns ---- */

LOOP_TEST(bias_gradients_are_added, n_cases()) {
  for (int gradient = 0; gradient < 3; gradient++)
    for (gint64 rows = 1; rows < 8; rows += 3) {
      enum { N = 35 };
      g_auto(Tensor) dy = tensor_random(case_number(_i), rows * N, 1, 0, 1);
      g_auto(Tensor) out = tensor_random(tested_numbers[gradient], N, 2, 0, 1);
      Kernel kernel = {.kind = KERNEL_BIAS_GRADIENT,
                       .bias_gradient = {.number = (guint8)dy.number,
                                         .gradient = (guint8)out.number,
                                         .rows = rows,
                                         .width = N,
                                         .dy = dy.data,
                                         .out = out.data}};
      for (gint64 i = 0; i < rows * N; i++)
        out.x[i % N] += dy.x[i];
      run_kernel(_i, &kernel);
      assert_tensor("out", &out, out.x, 2);
    }
}

/* One word 3000 times: added one by one, a bf16 gradient would stand still at 256. */
LOOP_TEST(embedding_gradients_are_summed_before_they_are_rounded, n_cases()) {
  for (int gradient = 0; gradient < 3; gradient++) {
    enum { T = 3040, N = 7, FIRST = 5, WORDS = 9 };
    g_auto(Tensor) dout = tensor_random(case_number(_i), T * N, 1, 1, 0.5);
    g_auto(Tensor) dtable = tensor_random(tested_numbers[gradient], WORDS * N, 2, 0, 1);
    gint32 tokens[T];
    for (int t = 0; t < T; t++) {
      tokens[t] = t % 76 == 0 ? t / 76 % 20 : FIRST + 3;
      for (int j = 0; j < N && tokens[t] >= FIRST && tokens[t] < FIRST + WORDS; j++)
        dtable.x[(tokens[t] - FIRST) * N + j] += (gradient + 1) * dout.x[t * N + j];
    }
    Kernel kernel = {.kind = KERNEL_EMBEDDING_BACKWARD,
                     .embedding = {.number = (guint8)dout.number,
                                   .gradient = (guint8)dtable.number,
                                   .tokens = T,
                                   .width = N,
                                   .first_word = FIRST,
                                   .n_words = WORDS,
                                   .token = tokens,
                                   .factor = (float)(gradient + 1),
                                   .dout = dout.data,
                                   .dtable = dtable.data}};
    run_kernel(_i, &kernel);
    for (int i = 0; i < WORDS * N; i++) /* 3000 additions in fp32 */
      assert_near("dtable", i, tensor_get(&dtable, i), dtable.x[i], number_tolerance(dtable.number) + 3e-5, 1);
  }
}

LOOP_TEST(position_gradients_are_added, n_cases()) {
  enum { N = 5, S = 4, FIRST = 6 };
  for (int rows = 1; rows < 12; rows += 5)
    for (int gradient = 0; gradient < 3; gradient++) {
      g_auto(Tensor) dx = tensor_random(case_number(_i), rows * N, 1, 0, 1);
      g_auto(Tensor) dtable = tensor_random(tested_numbers[gradient], S * N, 2, 0, 1);
      Kernel kernel = {.kind = KERNEL_POSITIONS_BACKWARD,
                       .positions = {.number = (guint8)dx.number,
                                     .gradient = (guint8)dtable.number,
                                     .rows = rows,
                                     .width = N,
                                     .first_row = FIRST,
                                     .seq_len = S,
                                     .dx = dx.data,
                                     .dtable = dtable.data}};
      for (int i = 0; i < rows * N; i++)
        dtable.x[(FIRST + i / N) % S * N + i % N] += dx.x[i];
      run_kernel(_i, &kernel);
      assert_tensor("dtable", &dtable, dtable.x, 2);
    }
}

/* ---- the loss ---- */

typedef struct {
  gint64 tokens, words, width; /* width: of the padded vocabulary */
  const double *logits;
  const gint32 *target;
  double scale;
} LossCase;

static double loss_sum(gpointer data) {
  const LossCase *loss = data;
  double total = 0;
  for (gint64 t = 0; t < loss->tokens; t++) {
    double sum = 0;
    for (gint64 j = 0; j < loss->words; j++)
      sum += exp(loss->logits[t * loss->width + j]);
    total += log(sum) - loss->logits[t * loss->width + loss->target[t]];
  }
  return loss->scale * total;
}

enum { LOSS_T = 5, LOSS_WORDS = 41, LOSS_SHARD = 22, LOSS_SHARDS = 3 }; /* the third shard is all padding */

typedef struct {
  Tensor logits, dlogits;
  float row_max[LOSS_T], row_sum[LOSS_T], row_target[LOSS_T], probabilities[LOSS_T * LOSS_SHARD];
  double loss;
  Kernel kernel;
} LossShard;

static void run_shards(int test_case, LossShard *shards, KernelKind kind) {
  for (int i = 0; i < LOSS_SHARDS; i++) {
    shards[i].kernel.kind = kind;
    run_kernel(test_case, &shards[i].kernel);
  }
}

/* What the tensor-parallel ranks exchange. */
static void exchange(LossShard *shards, gsize offset, gboolean is_max) {
  for (int t = 0; t < LOSS_T; t++) {
    float all = is_max ? -INFINITY : 0;
    for (int i = 0; i < LOSS_SHARDS; i++) {
      float value = ((float *)(void *)((char *)&shards[i] + offset))[t];
      all = is_max ? fmaxf(all, value) : all + value;
    }
    for (int i = 0; i < LOSS_SHARDS; i++)
      ((float *)(void *)((char *)&shards[i] + offset))[t] = all;
  }
}

/* The shards' scales are made of other factors; each is a quarter in all. */
static void cut_logits(const Tensor *whole, const gint32 *target, LossShard *shards) {
  static const LossScale doubled = {.scale = 2};
  for (int i = 0; i < LOSS_SHARDS; i++) {
    LossShard *shard = &shards[i];
    shard->logits = tensor_new(whole->number, LOSS_T * LOSS_SHARD);
    shard->dlogits = tensor_random(whole->number, LOSS_T * LOSS_SHARD, 9, 0, 1);
    for (int j = 0; j < LOSS_T * LOSS_SHARD; j++)
      tensor_set(&shard->logits, j,
                 whole->x[j / LOSS_SHARD * LOSS_SHARDS * LOSS_SHARD + i * LOSS_SHARD + j % LOSS_SHARD]);
    shard->loss = 3;
    shard->kernel.loss = (LossKernel){.number = (guint8)whole->number,
                                      .tokens = LOSS_T,
                                      .width = LOSS_SHARD,
                                      .first_word = i * LOSS_SHARD,
                                      .n_words = LOSS_WORDS,
                                      .target = target,
                                      .logits = shard->logits.data,
                                      .row_max = shard->row_max,
                                      .row_sum = shard->row_sum,
                                      .row_target = shard->row_target,
                                      .probabilities = shard->probabilities,
                                      .loss = &shard->loss,
                                      .loss_scale = 0.25,
                                      .gradient_scale = i == 0 ? 0.25f : 0.125f,
                                      .scale = i == 0 ? NULL : &doubled,
                                      .dlogits = shard->dlogits.data};
  }
}

LOOP_TEST(the_loss_over_shards_and_its_gradient, n_cases()) {
  enum { WIDTH = LOSS_SHARD * LOSS_SHARDS };
  const gint32 target[LOSS_T] = {0, 21, 22, 40, 7};
  g_auto(Tensor) logits = tensor_random(case_number(_i), LOSS_T * WIDTH, 1, 3, 5);
  static LossShard shards[LOSS_SHARDS];
  cut_logits(&logits, target, shards);
  run_shards(_i, shards, KERNEL_LOSS_MAX);
  exchange(shards, G_STRUCT_OFFSET(LossShard, row_max), TRUE);
  run_shards(_i, shards, KERNEL_LOSS_EXP);
  exchange(shards, G_STRUCT_OFFSET(LossShard, row_sum), FALSE);
  exchange(shards, G_STRUCT_OFFSET(LossShard, row_target), FALSE);
  run_shards(_i, shards, KERNEL_LOSS_SOFTMAX);
  run_shards(_i, shards, KERNEL_LOSS_BACKWARD);
  LossCase loss = {LOSS_T, LOSS_WORDS, WIDTH, logits.x, target, 0.25};
  for (int i = 0; i < LOSS_SHARDS; i++) {
    assert_near("loss", i, shards[i].loss, 3 + loss_sum(&loss), 1e-6, 1);
    for (int j = 0; j < LOSS_T * LOSS_SHARD; j++) {
      double *x = &logits.x[j / LOSS_SHARD * WIDTH + i * LOSS_SHARD + j % LOSS_SHARD];
      assert_near("dlogits", j, tensor_get(&shards[i].dlogits, j), slope_at(loss_sum, &loss, x),
                  1.1 * number_tolerance(logits.number), logits.number == NUMBER_FP32 ? 0.25 : 1e-4);
    }
    tensor_clear(&shards[i].logits);
    tensor_clear(&shards[i].dlogits);
  }
}

/* ---- caps ---- */

enum { CAP_ROWS = 3, CAP_WIDTH = 37, CAP_N = CAP_ROWS * CAP_WIDTH };
static const double cap = 4;

typedef struct {
  const double *x, *dy;
} CapCase;

static double cap_sum(gpointer data) {
  const CapCase *c = data;
  double sum = 0;
  for (int i = 0; i < CAP_N; i++)
    sum += c->dy[i] * cap * tanh(c->x[i] / cap);
  return sum;
}

/* Elements from 0 to three caps; in bf16 and fp16 the slope is that of what was rounded. */
LOOP_TEST(a_cap_and_its_gradient, n_cases()) {
  const Number number = case_number(_i);
  g_auto(Tensor) x = tensor_random(number, CAP_N, 1, 0, 3.5);
  g_auto(Tensor) y = tensor_new(number, CAP_N);
  g_auto(Tensor) dy = tensor_random(number, CAP_N, 2, 0, 1);
  g_auto(Tensor) dx = tensor_random(number, CAP_N, 3, 0, 1);
  tensor_set(&x, 0, 0);
  tensor_set(&x, 1, 1e-3);
  Kernel kernel = {.kind = KERNEL_CAP_FORWARD,
                   .cap = {.number = (guint8)number,
                           .rows = CAP_ROWS,
                           .width = CAP_WIDTH,
                           .cap = (float)cap,
                           .x = x.data,
                           .y = y.data,
                           .dy = dy.data,
                           .dx = dx.data}};
  run_kernel(_i, &kernel);
  for (int i = 0; i < CAP_N; i++)
    assert_near("y", i, tensor_get(&y, i), cap * tanh(x.x[i] / cap), 1.1 * number_tolerance(number), 1e-3);
  kernel.kind = KERNEL_CAP_BACKWARD;
  run_kernel(_i, &kernel);
  CapCase c = {x.x, dy.x};
  assert_gradient("dx", &dx, NULL, x.x, cap_sum, &c, CAP_N, 3);
}

int main(void) {
  return run_kernel_case("cpu_gradients", listed_tests());
}
