/* Speed of the fp32 kernels on one core, and the cost of passing an event between a rank's two threads. Products in
 * GFLOP/s, memory-bound kernels in GB/s of compulsory traffic (each byte once); best of several runs. Operands are far
 * larger than the caches. Optional argument: an instruction set (plain, avx2, avx512) instead of the best. */
#include "cpu_kernels.h"
#include "device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { MiB = 1 << 20, POOL_FLOATS = 64 * MiB, MIN_RUNS = 3, BUDGET_US = 300000 };

typedef struct {
  CpuScratch *scratch;
  float *pool;
} Bench;

/* The n-th block of the pool: operands that do not overlap. */
static float *block(const Bench *bench, int n) {
  return bench->pool + (gsize)n * (POOL_FLOATS / 8);
}

/* Of this thread on its core: kernels run in it alone, and others' use of the machine is not theirs. */
static double core_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double best_s(const Bench *bench, const Kernel *kernel) {
  double best = 1e9;
  gint64 begin_us = g_get_monotonic_time();
  for (int run = 0; run < MIN_RUNS || g_get_monotonic_time() - begin_us < BUDGET_US; run++) {
    double start_s = core_s();
    gboolean ran = cpu_kernel_run(kernel, bench->scratch, NULL);
    g_assert(ran);
    double end_s = core_s();
    best = MIN(best, end_s - start_s);
  }
  return best;
}

/* Numbers of that format around 0, in the first four blocks. */
static void fill_pool(const Bench *bench, Number number) {
  gint64 n = (gint64)POOL_FLOATS / 2 * (4 / kernel_element_bytes(number));
  Kernel init = {.kind = KERNEL_INIT,
                 .init = {.number = (guint8)number,
                          .rows = 1,
                          .columns = n,
                          .whole_rows = 1,
                          .whole_width = n,
                          .deviation = 0.5f,
                          .to = bench->pool}};
  gboolean ran = cpu_kernel_run(&init, bench->scratch, NULL);
  g_assert(ran);
}

static void bench_matmul(const Bench *bench, Number number, gint64 m, gint64 n, gint64 k) {
  const char *layouts[] = {"TN", "NN", "NT"};
  fill_pool(bench, number);
  for (int layout = 0; layout < 3; layout++) {
    Kernel kernel = {.kind = KERNEL_MATMUL,
                     .matmul = {.layout = (guint8)layout,
                                .number = (guint8)number,
                                .result = (guint8)number,
                                .batch = 1,
                                .m = m,
                                .n = n,
                                .k = k,
                                .lda = layout == LAYOUT_NT ? m : k,
                                .ldb = layout == LAYOUT_TN ? k : n,
                                .ldc = n,
                                .a = block(bench, 0),
                                .b = block(bench, 2),
                                .c = block(bench, 4),
                                .alpha = 1}};
    double s = best_s(bench, &kernel);
    printf("matmul %s %-4s %5d x %5d x %5d  %8.3f ms %8.1f GFLOP/s\n", layouts[layout], number_name(number), (int)m,
           (int)n, (int)k, s * 1e3, 2e-9 * (double)(m * n * k) / s);
  }
}

/* FLOP counted as causal: forward 2, backward 5 products of s²/2 by head_dim. */
static void bench_flash(const Bench *bench, gint64 s, gint64 heads, gint64 kv_heads, gint64 d) {
  gint64 ld = (heads + 2 * kv_heads) * d;
  float *qkv = block(bench, 0), *dqkv = block(bench, 2);
  Kernel kernel = {.kind = KERNEL_FLASH_FORWARD,
                   .flash = {.number = NUMBER_FP32,
                             .sequences = 1,
                             .seq_len = s,
                             .n_heads = heads,
                             .n_kv_heads = kv_heads,
                             .head_dim = d,
                             .scale = 0.1f,
                             .ld_qkv = ld,
                             .ld_o = heads * d,
                             .q = qkv,
                             .k = qkv + heads * d,
                             .v = qkv + (heads + kv_heads) * d,
                             .o = block(bench, 4),
                             .lse = block(bench, 5),
                             .d_o = block(bench, 6),
                             .dq = dqkv,
                             .dk = dqkv + heads * d,
                             .dv = dqkv + (heads + kv_heads) * d}};
  for (; kernel.kind <= KERNEL_FLASH_BACKWARD; kernel.kind++) {
    double seconds = best_s(bench, &kernel), n_products = kernel.kind == KERNEL_FLASH_FORWARD ? 2 : 5;
    printf("%-14s s %5d, %2d/%2d heads of %3d  %8.3f ms %8.1f GFLOP/s\n", kernel_name((KernelKind)kernel.kind), (int)s,
           (int)heads, (int)kv_heads, (int)d, seconds * 1e3,
           n_products * 1e-9 * (double)heads * (double)(s * s) * (double)d / seconds);
  }
}

static void bench_memory(const Bench *bench, const char *detail, Kernel kernel, double bytes) {
  double s = best_s(bench, &kernel);
  printf("%-20s %-12s %8.3f ms %8.1f GB/s\n", kernel_name((KernelKind)kernel.kind), detail, s * 1e3, bytes * 1e-9 / s);
}

enum { ROWS = 4096, WIDTH = 1024, ELEMENTS = ROWS * WIDTH }; /* 16 MiB an operand */

static void bench_rows(const Bench *bench) {
  double one = 4.0 * ELEMENTS;
  float *a = block(bench, 0), *b = block(bench, 1), *c = block(bench, 2), *small = block(bench, 7);
  NormKernel norm = {.rows = ROWS,
                     .width = WIDTH,
                     .epsilon = 1e-5f,
                     .x = a,
                     .weight = small,
                     .shift = small + WIDTH,
                     .y = b,
                     .mean = small + 2 * WIDTH,
                     .rstd = small + 2 * WIDTH + ROWS,
                     .dy = b,
                     .dx = c,
                     .dweight = small + 4 * ROWS,
                     .dshift = small + 5 * ROWS};
  bench_memory(bench, "layer", (Kernel){.kind = KERNEL_NORM_FORWARD, .norm = norm}, 2 * one);
  bench_memory(bench, "layer", (Kernel){.kind = KERNEL_NORM_BACKWARD, .norm = norm}, 3 * one);
  norm.is_rms = TRUE;
  bench_memory(bench, "rms", (Kernel){.kind = KERNEL_NORM_FORWARD, .norm = norm}, 2 * one);
  bench_memory(bench, "rms", (Kernel){.kind = KERNEL_NORM_BACKWARD, .norm = norm}, 3 * one);
  RopeKernel rope = {
      .rows = ROWS, .seq_len = 2048, .n_heads = WIDTH / 64, .head_dim = 64, .ld = WIDTH, .base = 1e4, .x = a};
  bench_memory(bench, "d 64", (Kernel){.kind = KERNEL_ROPE, .rope = rope}, 2 * one);
  SoftmaxKernel softmax = {.matrices = 4, .seq_len = 1024, .scale = 1, .scores = a, .dscores = b};
  bench_memory(bench, "causal 1024", (Kernel){.kind = KERNEL_SOFTMAX_FORWARD, .softmax = softmax}, 1.5 * one);
  bench_memory(bench, "causal 1024", (Kernel){.kind = KERNEL_SOFTMAX_BACKWARD, .softmax = softmax}, 2 * one);
  ActivationKernel gelu = {.rows = ROWS, .width = WIDTH, .x = a, .y = b, .dy = b, .dx = c};
  bench_memory(bench, "gelu", (Kernel){.kind = KERNEL_ACTIVATION_FORWARD, .activation = gelu}, 2 * one);
  bench_memory(bench, "gelu", (Kernel){.kind = KERNEL_ACTIVATION_BACKWARD, .activation = gelu}, 3 * one);
  ActivationKernel silu = {.gated = TRUE, .rows = ROWS, .width = WIDTH, .x = a, .y = c, .dy = c, .dx = block(bench, 3)};
  bench_memory(bench, "silu", (Kernel){.kind = KERNEL_ACTIVATION_FORWARD, .activation = silu}, 3 * one);
  bench_memory(bench, "silu", (Kernel){.kind = KERNEL_ACTIVATION_BACKWARD, .activation = silu}, 5 * one);
  AddKernel add = {.rows = ROWS, .width = WIDTH, .a = a, .b = b, .bias = small, .out = c};
  bench_memory(bench, "bias", (Kernel){.kind = KERNEL_ADD, .add = add}, 3 * one);
  BiasGradientKernel bias = {.rows = ROWS, .width = WIDTH, .dy = a, .out = small};
  bench_memory(bench, "", (Kernel){.kind = KERNEL_BIAS_GRADIENT, .bias_gradient = bias}, one);
}

static void bench_ends(const Bench *bench) {
  double one = 4.0 * ELEMENTS;
  float *a = block(bench, 0), *b = block(bench, 1), *c = block(bench, 2), *small = block(bench, 7);
  g_autofree gint32 *tokens = g_new(gint32, ROWS);
  double loss = 0;
  for (int i = 0; i < ROWS; i++)
    tokens[i] = (gint32)(kernel_random(1, (guint64)i) % ROWS);
  EmbeddingKernel embedding = {.tokens = ROWS,
                               .width = WIDTH,
                               .n_words = ROWS,
                               .token = tokens,
                               .factor = 1,
                               .table = a,
                               .out = b,
                               .dout = b,
                               .dtable = c};
  bench_memory(bench, "", (Kernel){.kind = KERNEL_EMBEDDING_FORWARD, .embedding = embedding}, 2 * one);
  bench_memory(bench, "", (Kernel){.kind = KERNEL_EMBEDDING_BACKWARD, .embedding = embedding}, 3 * one);
  PositionsKernel positions = {.rows = ROWS, .width = WIDTH, .seq_len = 1024, .table = a, .x = b, .dx = b, .dtable = c};
  bench_memory(bench, "", (Kernel){.kind = KERNEL_POSITIONS_FORWARD, .positions = positions}, 2.25 * one);
  bench_memory(bench, "", (Kernel){.kind = KERNEL_POSITIONS_BACKWARD, .positions = positions}, 1.5 * one);
  enum { TOKENS = 128, WORDS = ELEMENTS / TOKENS };
  LossKernel cross = {.tokens = TOKENS,
                      .width = WORDS,
                      .n_words = WORDS,
                      .target = tokens,
                      .logits = a,
                      .row_max = small,
                      .row_sum = small + TOKENS,
                      .row_target = small + 2 * TOKENS,
                      .probabilities = b,
                      .loss = &loss,
                      .loss_scale = 1,
                      .gradient_scale = 1,
                      .dlogits = c};
  bench_memory(bench, "32k words", (Kernel){.kind = KERNEL_LOSS_MAX, .loss = cross}, one);
  bench_memory(bench, "32k words", (Kernel){.kind = KERNEL_LOSS_EXP, .loss = cross}, 2 * one);
  bench_memory(bench, "32k words", (Kernel){.kind = KERNEL_LOSS_SOFTMAX, .loss = cross}, 2 * one);
  bench_memory(bench, "32k words", (Kernel){.kind = KERNEL_LOSS_BACKWARD, .loss = cross}, 2 * one);
}

static void bench_state(const Bench *bench) {
  double one = 4.0 * ELEMENTS, sum = 0;
  float *a = block(bench, 0), *b = block(bench, 1), *c = block(bench, 2), *d = block(bench, 3);
  SumSquaresKernel squares = {.n = ELEMENTS, .x = a, .sum = &sum};
  bench_memory(bench, "", (Kernel){.kind = KERNEL_SUM_SQUARES, .sum_squares = squares}, one);
  AdamKernel adam = {.n = ELEMENTS,
                     .weight = a,
                     .gradients = b,
                     .m = c,
                     .v = d,
                     .lr = 1e-6f,
                     .beta1 = 0.9f,
                     .beta2 = 0.95f,
                     .epsilon = 1e-8f,
                     .correction1 = 1,
                     .correction2 = 1};
  bench_memory(bench, "fp32", (Kernel){.kind = KERNEL_ADAM, .adam = adam}, 8 * one);
  adam.number = NUMBER_BF16;
  adam.master = block(bench, 4);
  bench_memory(bench, "bf16+master", (Kernel){.kind = KERNEL_ADAM, .adam = adam}, 8.5 * one);
  ConvertKernel convert = {.from_number = NUMBER_FP32, .to_number = NUMBER_BF16, .n = ELEMENTS, .from = a, .to = b};
  bench_memory(bench, "fp32 to bf16", (Kernel){.kind = KERNEL_CONVERT, .convert = convert}, 1.5 * one);
  convert.to_number = NUMBER_FP16;
  bench_memory(bench, "fp32 to fp16", (Kernel){.kind = KERNEL_CONVERT, .convert = convert}, 1.5 * one);
  convert.to_number = NUMBER_FP32;
  convert.accumulate = TRUE;
  bench_memory(bench, "fp32 add", (Kernel){.kind = KERNEL_CONVERT, .convert = convert}, 3 * one);
  bench_memory(bench, "", (Kernel){.kind = KERNEL_FILL, .fill = {.bytes = 4 * ELEMENTS, .to = a}}, one);
  InitKernel init = {
      .rows = ROWS, .columns = WIDTH, .ld = WIDTH, .whole_rows = ROWS, .whole_width = WIDTH, .deviation = 1, .to = a};
  bench_memory(bench, "", (Kernel){.kind = KERNEL_INIT, .init = init}, one);
}

typedef struct {
  Device *device;
  DeviceStream *compute, *send;
  char *place;
} Rank;

static Rank rank_open(int n_local) {
  g_autoptr(GError) error = NULL;
  Device *device = cpu_device.open(0, n_local, 0, &error);
  g_assert_no_error(error);
  return (Rank){device, cpu_device.stream_new(device, STREAM_COMPUTE, NULL),
                cpu_device.stream_new(device, STREAM_SEND_F, NULL), cpu_device.describe(device)};
}

static void rank_close(Rank *rank) {
  cpu_device.stream_free(rank->compute);
  cpu_device.stream_free(rank->send);
  cpu_device.close(rank->device);
  g_free(rank->place);
}

/* compute → send → compute …, all queued beforehand behind a wait; per hand-over. */
static void bench_hand_over(Rank *rank) {
  enum { N = 20000 };
  g_autofree DeviceEvent **events = g_new(DeviceEvent *, N);
  gint64 push_us = g_get_monotonic_time();
  for (int i = 0; i < N; i++) {
    events[i] = cpu_device.event_new(rank->device, NULL);
    DeviceStream *from = i % 2 == 0 ? rank->compute : rank->send, *to = i % 2 == 0 ? rank->send : rank->compute;
    cpu_device.record(from, events[i]);
    cpu_device.wait(to, events[i]);
  }
  push_us = g_get_monotonic_time() - push_us;
  cpu_device.sleep_until(events[N - 1], G_MAXINT64);
  DeviceEvent *end = cpu_device.event_new(rank->device, NULL);
  cpu_device.record(rank->compute, end);
  cpu_device.sleep_until(end, G_MAXINT64);
  double half = (double)(cpu_device.event_ns(events[N - 1]) - cpu_device.event_ns(events[N / 2]));
  printf("event hand-over                  %8.2f us (pushing two commands: %.2f us)\n", half / (N - N / 2) * 1e-3,
         (double)push_us / N);
  cpu_device.event_free(end);
  for (int i = 0; i < N; i++)
    cpu_device.event_free(events[i]);
}

static gboolean until_set(gpointer data, GError **error) {
  return atomic_load((atomic_int *)data);
}

/* The same kernels alone, and beside a message that is asked for all the time. */
static void bench_polling(Rank *rank, const Bench *bench) {
  double s[2];
  for (int polls = 0; polls < 2; polls++) {
    atomic_int is_over = 0;
    Kernel kernel = {.kind = KERNEL_MATMUL,
                     .matmul = {.layout = LAYOUT_TN,
                                .batch = 1,
                                .m = 512,
                                .n = 512,
                                .k = 512,
                                .lda = 512,
                                .ldb = 512,
                                .ldc = 512,
                                .a = block(bench, 0),
                                .b = block(bench, 1),
                                .c = block(bench, 2),
                                .alpha = 1}};
    DeviceEvent *start = cpu_device.event_new(rank->device, NULL), *end = cpu_device.event_new(rank->device, NULL);
    if (polls)
      cpu_device.host_task(rank->send, until_set, &is_over);
    cpu_device.record(rank->compute, start);
    for (int i = 0; i < 300; i++)
      cpu_device.launch(rank->compute, &kernel);
    cpu_device.record(rank->compute, end);
    cpu_device.sleep_until(end, G_MAXINT64);
    s[polls] = (double)(cpu_device.event_ns(end) - cpu_device.event_ns(start)) * 1e-9;
    atomic_store(&is_over, 1);
    DeviceEvent *last = cpu_device.event_new(rank->device, NULL);
    cpu_device.record(rank->send, last);
    cpu_device.sleep_until(last, G_MAXINT64);
    cpu_device.event_free(start);
    cpu_device.event_free(end);
    cpu_device.event_free(last);
  }
  printf("kernels beside a polled message  %8.1f %% slower (%.3f s, %.3f s)\n", 100 * (s[1] / s[0] - 1), s[0], s[1]);
}

int main(int argc, char **argv) {
  Bench bench = {cpu_scratch_new(), g_new(float, POOL_FLOATS)};
  cpu_kernels_set_threads(1);
  if (argc > 1 && !cpu_scratch_use_isa(bench.scratch, argv[1]))
    g_error("no instruction set \"%s\" here", argv[1]);
  for (gsize i = 0; i < POOL_FLOATS; i++)
    bench.pool[i] = (float)kernel_random(1, i) * 0x1p-32f;
  bench_matmul(&bench, NUMBER_FP32, 1024, 1024, 1024);
  bench_matmul(&bench, NUMBER_FP32, 2048, 4096, 1024);
  bench_matmul(&bench, NUMBER_FP32, 128, 768, 256);
  bench_matmul(&bench, NUMBER_BF16, 1024, 1024, 1024);
  fill_pool(&bench, NUMBER_FP32);
  bench_flash(&bench, 512, 12, 12, 64);
  bench_flash(&bench, 2048, 8, 2, 128);
  bench_rows(&bench);
  bench_ends(&bench);
  bench_state(&bench);
  for (int n_local = 1; n_local <= 2; n_local++) { /* all cores of the machine; half of them */
    Rank rank = rank_open(n_local);
    printf("-- %s\n", rank.place);
    bench_hand_over(&rank);
    bench_polling(&rank, &bench);
    rank_close(&rank);
  }
  g_free(bench.pool);
  cpu_scratch_free(bench.scratch);
  return 0;
}
