/* The stream is held until a whole sample is queued (timed_stream.h). The start event follows other kernels, as in a
 * step, for which the device has fetched it long before it comes to it; behind the hold it would be reached with
 * nothing fetched:
 *
 *     host     hold │ passes │ record │ launch … launch │ record │ let go
 *     stream   └──────────────────── waits ─────────────────────┘ ▪▪▪▪▪▪ start ▮▮▮▮▮▮▮▮ end
 *
 * What the two events add, the edge, is subtracted. It follows from the times between the events of one kernel, T₁, and
 * of n identical ones, Tₙ:
 *
 *     kernel = (Tₙ − T₁)/(n − 1)         edge = T₁ − kernel
 *
 * An idle GPU runs at a fraction of its clock, at which all of these take longer. So a second of products comes first.
 *
 * Each launch uses another place for the second operand and the result than those before it, so that they are not in
 * cache, like a weight and its gradient. Operands are random: products of zeros draw less power and run faster. */
#include "kernel_bench.h"

#include "dense_product.h"
#include "error.h"
#include "host_machine.h"
#include "sort_doubles.h"
#include "timed_stream.h"

#include <string.h>

enum { N_REPEATS = 7, N_WARM = 2, MOST_LAUNCHES = 32, ALIGN_BYTES = 256 };
/* A pass of a few microseconds; those in front of a sample take 20 on an H200. */
enum { PASS_BYTES = 4 << 20, N_LEADING = 6 };
static const double SAMPLE_S = 2e-3, LOAD_S = 1, SHORTEST_S = 1e-5;

/* A kernel, and how its operands move from one launch to the next. */
typedef struct {
  Kernel kernel;
  gint64 b_bytes, c_bytes; /* of a product's second operand and result, or of what a pass reads and writes */
  gint64 n_places;
} Case;

typedef struct {
  TimedStream *on;
  const DeviceType *type; /* of the device, as `on` has it */
  Device *device;
  DeviceStream *stream;
  char *passed; /* memory of `pass`; NULL on the host */
  Case pass;
  double edge_s;
  gint64 n_launched; /* of kernels whose operands move */
} Bench;

static Case pass_over(void *from, void *to, gint64 bytes) {
  return (Case){
      .kernel =
          {.kind = KERNEL_CONVERT,
           .convert = {.from_number = NUMBER_FP32, .to_number = NUMBER_FP32, .n = bytes / 4, .from = from, .to = to}},
      .b_bytes = bytes,
      .c_bytes = bytes,
      .n_places = 1};
}

static gboolean bench_open(Bench *bench, World *world, const DeviceType *type, GError **error) {
  *bench = (Bench){.on = timed_stream_open(world, type, STREAM_COMPUTE, error), .type = type};
  if (bench->on == NULL)
    return FALSE;
  bench->device = bench->on->device;
  bench->stream = bench->on->stream;
  if (type->is_host_memory)
    return TRUE;
  bench->passed = type->allocate(bench->device, 2 * PASS_BYTES, error);
  if (bench->passed != NULL)
    bench->pass = pass_over(bench->passed, bench->passed + PASS_BYTES, PASS_BYTES);
  return bench->passed != NULL;
}

static void bench_close(Bench *bench) {
  if (bench->passed != NULL)
    bench->type->release(bench->device, bench->passed);
  timed_stream_close(bench->on);
}

/* --- samples --- */

static void launch_place(Bench *bench, const Case *one) {
  Kernel kernel = one->kernel;
  const gint64 place = one->n_places > 1 ? bench->n_launched++ % one->n_places : 0;
  if (kernel.kind == KERNEL_MATMUL) {
    kernel.matmul.b = (const char *)kernel.matmul.b + place * one->b_bytes;
    kernel.matmul.c = (char *)kernel.matmul.c + place * one->c_bytes;
  } else {
    kernel.convert.from = (const char *)kernel.convert.from + place * one->b_bytes;
    kernel.convert.to = (char *)kernel.convert.to + place * one->c_bytes;
  }
  bench->type->launch(bench->stream, &kernel);
}

static void hold(Bench *bench) {
  timed_stream_hold(bench->on, bench->stream);
  for (int i = 0; i < N_LEADING && bench->passed != NULL; i++)
    launch_place(bench, &bench->pass);
}

/* Device time of n launches, s; < 0 if the device failed. */
static double bench_time(Bench *bench, const Case *one, int n, gboolean is_held, GError **error) {
  if (is_held)
    hold(bench);
  bench->type->record(bench->stream, bench->on->start);
  for (int i = 0; i < n; i++)
    launch_place(bench, one);
  bench->type->record(bench->stream, bench->on->end);
  timed_stream_let_go(bench->on);
  return timed_stream_wait(bench->on, error);
}

/* Launches per sample: as many as take SAMPLE_S. A kernel's first launches, run here, are not held. */
static int launches_of(Bench *bench, const Case *one, GError **error) {
  double time_s = 0;
  for (int i = 0; i < N_WARM; i++)
    if ((time_s = bench_time(bench, one, 1, FALSE, error)) < 0)
      return -1;
  return bench->type->is_host_memory ? 1 : (int)CLAMP(SAMPLE_S / MAX(time_s, 1e-9), 1, MOST_LAUNCHES);
}

static gboolean sample_kernel(KernelTimes *times, Bench *bench, const Case *one, const WorkItem *item, GError **error) {
  const int n = launches_of(bench, one, error);
  for (int i = 0; i < N_REPEATS && n > 0; i++) {
    const double time_s = bench_time(bench, one, n, TRUE, error);
    if (time_s < 0)
      return FALSE;
    kernel_times_add(times, item, (time_s - bench->edge_s) / n);
  }
  return n > 0;
}

/* --- what events add --- */

/* Time of n launches: the mean of the middle half of many samples, which resolves less than an event's tick. */
static double typical_s(Bench *bench, const Case *one, int n, GError **error) {
  enum { N_SAMPLES = 40 };
  double samples_s[N_SAMPLES], sum_s = 0;
  for (int i = 0; i < N_SAMPLES; i++)
    if ((samples_s[i] = bench_time(bench, one, n, TRUE, error)) < 0)
      return -1;
  sort_doubles(samples_s, N_SAMPLES);
  for (int i = N_SAMPLES / 4; i < 3 * N_SAMPLES / 4; i++)
    sum_s += samples_s[i];
  return sum_s / (N_SAMPLES / 2);
}

/* Time of one kernel in a row of n, and what the events add; both at least 0. FALSE: failed. */
static gboolean take_apart(Bench *bench, const Case *one, int n, double *kernel_s, double *edge_s, GError **error) {
  if (launches_of(bench, one, error) < 0)
    return FALSE;
  const double one_s = typical_s(bench, one, 1, error), all_s = one_s < 0 ? -1 : typical_s(bench, one, n, error);
  if (all_s < 0)
    return FALSE;
  *kernel_s = CLAMP((all_s - one_s) / (n - 1), 0, one_s);
  *edge_s = one_s - *kernel_s;
  return TRUE;
}

static gboolean measure_edge(Bench *bench, GError **error) {
  double kernel_s;
  return bench->type->is_host_memory ||
         take_apart(bench, &bench->pass, MOST_LAUNCHES, &kernel_s, &bench->edge_s, error);
}

/* --- products of a grid --- */

/* Where the scales of operands in fp8 are: behind the first operand, which takes a quarter of its buffer. */
static float *fp8_scale_of(char *const buffers[3], gint64 buffer_bytes, int operand) {
  return (float *)(gpointer)(buffers[0] + buffer_bytes - ALIGN_BYTES) + operand;
}

/* As layers multiply in fp8 (train/tensors/narrow.h): whatever the layout, with copies that lie as TN needs them. */
static void in_fp8(const WorkItem *item, char *const buffers[3], gint64 buffer_bytes, MatmulKernel *product) {
  product->layout = LAYOUT_TN;
  product->lda = product->ldb = item->k;
  product->result = item->accumulate ? NUMBER_FP32 : NUMBER_BF16;
  product->is_fast = item->layout == LAYOUT_TN;
  product->fp8_a =
      (Fp8Operand){item->layout == LAYOUT_TN ? FP8_E4M3 : FP8_E5M2, FP8_TENSOR, fp8_scale_of(buffers, buffer_bytes, 0)};
  product->fp8_b = (Fp8Operand){FP8_E4M3, FP8_TENSOR, fp8_scale_of(buffers, buffer_bytes, 1)};
}

/* A product whose operands lie in the buffers, of `buffer_bytes` each. */
static Case product_case(const WorkItem *item, char *const buffers[3], gint64 buffer_bytes, gboolean is_host) {
  const Number result = item->accumulate ? NUMBER_FP32 : (Number)item->number;
  MatmulKernel product = dense_product(item);
  product.result = (guint8)result;
  product.accumulate = item->accumulate;
  product.a = buffers[0], product.b = buffers[1], product.c = buffers[2];
  if (item->number == NUMBER_FP8)
    in_fp8(item, buffers, buffer_bytes, &product);
  Case one = {.kernel = {.kind = KERNEL_MATMUL, .matmul = product}};
  one.b_bytes = (item->k * item->n * kernel_element_bytes((Number)item->number) + ALIGN_BYTES - 1) & -ALIGN_BYTES;
  one.c_bytes = (item->m * item->n * kernel_element_bytes((Number)product.result) + ALIGN_BYTES - 1) & -ALIGN_BYTES;
  one.n_places = is_host ? 1 : MAX(buffer_bytes / MAX(one.b_bytes, one.c_bytes), 1);
  return one;
}

static void fill_random(Bench *bench, Number number, char *to, gint64 bytes, guint64 seed) {
  const gint64 columns = 4096, rows = bytes / kernel_element_bytes(number) / columns;
  const Kernel kernel = dense_random(number, rows, columns, seed, to);
  bench->type->launch(bench->stream, &kernel);
}

/* Fills half of the first buffer and all of the second with random numbers in fp8, made of those in the third. Codes of
 * e5m2 are numbers as e4m3 too, which the reverse is not. */
static void fill_fp8(Bench *bench, char *const buffers[3], gint64 bytes) {
  const gint64 columns = 4096, rows = bytes / 2 / columns;
  for (int half = 0; half < 3; half++) {
    const int operand = half > 0;
    const Kernel kernel = {.kind = KERNEL_NARROW,
                           .narrow = {.number = NUMBER_BF16,
                                      .to = NUMBER_FP8,
                                      .format = operand == 0 ? FP8_E5M2 : FP8_E4M3,
                                      .scaling = FP8_TENSOR,
                                      .batch = 1,
                                      .rows = rows,
                                      .columns = columns,
                                      .ld = columns,
                                      .x = buffers[2],
                                      .as_is = buffers[operand] + (half == 2 ? rows * columns : 0),
                                      .scales = fp8_scale_of(buffers, bytes, operand)}};
    fill_random(bench, NUMBER_BF16, buffers[2], bytes, (guint64)half + 1);
    bench->type->launch(bench->stream, &kernel);
  }
}

/* Allocates three buffers and fills two with random numbers; buffers that could not be allocated are NULL. */
static gboolean allocate_operands(Bench *bench, Number number, gint64 bytes, char *buffers[3], GError **error) {
  gboolean ok = TRUE;
  for (int i = 0; i < 3; i++) {
    buffers[i] = ok ? bench->type->allocate(bench->device, bytes, error) : NULL;
    ok = ok && buffers[i] != NULL;
  }
  if (ok && number == NUMBER_FP8)
    fill_fp8(bench, buffers, bytes);
  for (int i = 0; i < 2 && ok && number != NUMBER_FP8; i++)
    fill_random(bench, number, buffers[i], bytes, (guint64)i + 1);
  return ok;
}

/* Runs products for LOAD_S, as measured by the device; with more of them still running, reads its clock. A core needs
 * no load. */
static gboolean load_device(Bench *bench, Number number, double *clock_Hz, GError **error) {
  const gint64 n = 4096;
  if (bench->type->is_host_memory)
    return TRUE;
  const WorkItem item = {.kind = ITEM_MATMUL, .number = (guint8)number, .batch = 1, .m = n, .n = n, .k = n};
  char *buffers[3];
  gboolean ok = allocate_operands(bench, number, 4 * n * n, buffers, error);
  const Case one = product_case(&item, buffers, 4 * n * n, FALSE);
  for (double loaded_s = 0; loaded_s < LOAD_S && ok;) {
    const double time_s = bench_time(bench, &one, MOST_LAUNCHES, FALSE, error);
    ok = time_s >= 0;
    loaded_s += MAX(time_s, SHORTEST_S);
  }
  for (int i = 0; i < MOST_LAUNCHES && ok; i++)
    launch_place(bench, &one);
  *clock_Hz = bench->type->clock_Hz(bench->device);
  if (ok) {
    bench->type->record(bench->stream, bench->on->start);
    bench->type->record(bench->stream, bench->on->end);
    ok = timed_stream_wait(bench->on, error) >= 0;
  }
  for (int i = 0; i < 3; i++)
    bench->type->release(bench->device, buffers[i]);
  return ok;
}

static gboolean sample_grid(KernelTimes *times, Bench *bench, Number number, gint64 least, gint64 most,
                            GError **error) {
  char *buffers[3];
  const gint64 bytes = 4 * most * most;
  gboolean ok = allocate_operands(bench, number, bytes, buffers, error);
  for (gint64 m = least; ok && m <= most; m *= 4)
    for (gint64 n = least; ok && n <= most; n *= 4)
      for (gint64 k = least; ok && k <= most; k *= 4)
        for (int layout = 0; ok && layout < 3; layout++) {
          const WorkItem item = {.kind = ITEM_MATMUL,
                                 .number = (guint8)number,
                                 .layout = (guint8)layout,
                                 .accumulate = layout == LAYOUT_NT,
                                 .batch = 1,
                                 .m = m,
                                 .n = n,
                                 .k = k};
          const Case one = product_case(&item, buffers, bytes, bench->type->is_host_memory);
          ok = sample_kernel(times, bench, &one, &item, error);
        }
  for (int i = 0; i < 3; i++)
    bench->type->release(bench->device, buffers[i]);
  return ok;
}

char *kernel_bench_grid_text(Number number, gint64 least, gint64 most) {
  return g_strdup_printf("grid %s, %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT, number_name(number), least, most);
}

gboolean kernel_bench_grid(KernelTimes *times, Number number, gint64 least, gint64 most, World *world,
                           const DeviceType *device, GError **error) {
  Bench bench;
  double clock_Hz;
  gboolean ok = bench_open(&bench, world, device, error);
  bench.edge_s = kernel_times_edge_s(times);
  ok = ok && load_device(&bench, number, &clock_Hz, error) && sample_grid(times, &bench, number, least, most, error);
  bench_close(&bench);
  return ok;
}

/* --- the device --- */

/* Host time per launch, and the shortest kernel time, from many launches of a kernel that does almost nothing. */
static gboolean measure_launches(Bench *bench, double *launch_s, double *kernel_s, GError **error) {
  enum { N_LAUNCHES = 1000 };
  char *buffer = bench->type->allocate(bench->device, 2 * ALIGN_BYTES, error);
  if (buffer == NULL)
    return FALSE;
  const Case nothing = pass_over(buffer, buffer + ALIGN_BYTES, ALIGN_BYTES);
  double edge_s;
  gboolean ok = take_apart(bench, &nothing, MOST_LAUNCHES, kernel_s, &edge_s, error);
  const gint64 before_ns = host_now_ns();
  for (int i = 0; i < N_LAUNCHES && ok; i++)
    launch_place(bench, &nothing);
  *launch_s = (double)(host_now_ns() - before_ns) * 1e-9 / N_LAUNCHES;
  ok = ok && bench_time(bench, &nothing, 1, FALSE, error) >= 0;
  bench->type->release(bench->device, buffer);
  return ok;
}

gboolean kernel_bench_edge(World *world, const DeviceType *device, Number number, char **device_name, double *edge_s,
                           double *least_s, GError **error) {
  Bench bench;
  double clock_Hz, launch_s;
  gboolean ok = bench_open(&bench, world, device, error);
  *least_s = 0;
  if (ok && !device->is_host_memory)
    ok = load_device(&bench, number, &clock_Hz, error) && measure_edge(&bench, error) &&
         measure_launches(&bench, &launch_s, least_s, error);
  if (ok && device_name != NULL)
    *device_name = device->describe(bench.device);
  *edge_s = bench.edge_s;
  bench_close(&bench);
  return ok;
}

static gboolean sample_pass(KernelTimes *times, Bench *bench, const Case *pass, const char *name, GError **error) {
  const WorkItem item = {.kind = ITEM_MEMORY, .name = name, .bytes = 2.0 * pass->b_bytes};
  return sample_kernel(times, bench, pass, &item, error);
}

/* On a GPU twice: over the whole of the buffers in turn, and over one place, which stays in its cache if it fits. */
static gboolean measure_memory(KernelTimes *times, Bench *bench, GError **error) {
  const gint64 most = MIN(G_GINT64_CONSTANT(256) << 20, bench->type->memory_bytes(bench->device) / 8);
  char *from = bench->type->allocate(bench->device, most, error);
  char *to = from ? bench->type->allocate(bench->device, most, error) : NULL;
  const gboolean is_host = bench->type->is_host_memory;
  gboolean ok = to != NULL;
  if (ok && !is_host)
    fill_random(bench, NUMBER_FP32, from, most, 1);
  for (gint64 bytes = 64 << 10; ok && bytes <= most; bytes *= 4) {
    Case pass = pass_over(from, to, bytes);
    ok = is_host || sample_pass(times, bench, &pass, "memory.cached", error);
    pass.n_places = is_host ? 1 : most / bytes;
    ok = ok && sample_pass(times, bench, &pass, "memory", error);
  }
  bench->type->release(bench->device, from);
  bench->type->release(bench->device, to);
  return ok;
}

gboolean kernel_bench_device(KernelTimes *times, Number number, World *world, const DeviceType *device,
                             DeviceFacts *facts, GError **error) {
  Bench bench;
  memset(facts, 0, sizeof *facts);
  gboolean ok = bench_open(&bench, world, device, error);
  bench.edge_s = kernel_times_edge_s(times);
  if (ok) {
    facts->device_name = device->describe(bench.device);
    facts->is_host_memory = device->is_host_memory;
    facts->memory_bytes = (double)device->memory_bytes(bench.device);
    ok = load_device(&bench, number, &facts->clock_Hz, error) &&
         measure_launches(&bench, &facts->launch_s, &facts->kernel_s, error) && measure_memory(times, &bench, error) &&
         measure_edge(&bench, error);
    facts->edge_s = bench.edge_s;
    if (device->is_host_memory)
      facts->clock_Hz = device->clock_Hz(bench.device);
  }
  bench_close(&bench);
  return ok;
}

/* Events tell times to half a microsecond at worst; the mean of many samples repeats to a tenth. */
static const double MOST_EDGE_SPREAD_S = 0.3e-6;

gboolean kernel_bench_edges_agree(double least_s, double most_s, GError **error) {
  return most_s - least_s <= MOST_EDGE_SPREAD_S ||
         fail_impossible(error,
                         "the events around a kernel added %.3g us at one time and %.3g us at another, while kernels "
                         "were timed; expected the same to %.1g us, as that is how wrong their times are: does another "
                         "program use the GPU, or does its clock change?",
                         least_s * 1e6, most_s * 1e6, MOST_EDGE_SPREAD_S * 1e6);
}
