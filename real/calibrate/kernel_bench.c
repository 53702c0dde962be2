/* A GPU starts on a stream while the host is still filling it, and overtakes the host if kernels are small. So the
 * stream is held until a whole sample is queued:
 *
 *     host     hold │ record │ launch … launch │ record │ let go
 *     stream   └─────────────── waits ──────────────────┘ start ▮▮▮▮▮▮▮▮ end
 *
 * and what the two events add, the edge, is subtracted. It follows from the times between the events of one kernel, T₁,
 * and of n identical ones, Tₙ:
 *
 *     kernel = (Tₙ − T₁)/(n − 1)         edge = T₁ − kernel
 *
 * The host lets go after HOLD_NS in any case: a kernel's first launch may wait for the device.
 *
 * Each launch of a sample uses another place for the second operand and the result, so that they are not in cache, like
 * a weight and its gradient. Operands are random: products of zeros draw less power and run faster. */
#include "kernel_bench.h"

#include "dense_product.h"
#include "error.h"
#include "sort_doubles.h"

#include <string.h>
#include <time.h>

enum { N_REPEATS = 7, N_WARM = 2, MOST_LAUNCHES = 32, HOLD_NS = 100000000, ALIGN_BYTES = 256 };
static const double SAMPLE_S = 2e-3;

/* A device with one stream. */
typedef struct {
  const DeviceType *type;
  Device *device;
  DeviceStream *stream;
  DeviceEvent *start, *end;
  double edge_s;
  gint is_held; /* atomic */
  gint64 held_until_ns;
} Bench;

/* A kernel, and how its operands move from one launch to the next. */
typedef struct {
  Kernel kernel;
  gint64 b_bytes, c_bytes; /* of a product's operands */
  int n_places;
} Case;

static gint64 now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (gint64)now.tv_sec * 1000000000 + now.tv_nsec;
}

static gboolean bench_open(Bench *bench, World *world, const DeviceType *type, GError **error) {
  *bench = (Bench){.type = type, .device = type->open(world_local_rank(world), world_n_local(world), 0, error)};
  if (bench->device == NULL || (bench->stream = type->stream_new(bench->device, STREAM_COMPUTE, error)) == NULL ||
      (bench->start = type->event_new(bench->device, error)) == NULL)
    return FALSE;
  bench->end = type->event_new(bench->device, error);
  return bench->end != NULL;
}

static void bench_close(Bench *bench) {
  if (bench->end != NULL)
    bench->type->event_free(bench->end);
  if (bench->start != NULL)
    bench->type->event_free(bench->start);
  if (bench->stream != NULL)
    bench->type->stream_free(bench->stream);
  if (bench->device != NULL)
    bench->type->close(bench->device);
}

/* --- samples --- */

static gboolean wait_let_go(gpointer data, GError **error) {
  Bench *bench = data;
  return !g_atomic_int_get(&bench->is_held) || now_ns() > bench->held_until_ns;
}

static void hold(Bench *bench) {
  if (bench->type->is_host_memory)
    return;
  bench->held_until_ns = now_ns() + HOLD_NS;
  g_atomic_int_set(&bench->is_held, TRUE);
  bench->type->host_task(bench->stream, wait_let_go, bench);
}

static void launch_place(Bench *bench, const Case *one, int launch) {
  Kernel kernel = one->kernel;
  if (kernel.kind == KERNEL_MATMUL) {
    kernel.matmul.b = (const char *)kernel.matmul.b + launch % one->n_places * one->b_bytes;
    kernel.matmul.c = (char *)kernel.matmul.c + launch % one->n_places * one->c_bytes;
  }
  bench->type->launch(bench->stream, &kernel);
}

/* Waits for the end event. Returns the time from the start event, s; < 0 if the device failed. */
static double bench_elapsed_s(Bench *bench, GError **error) {
  while (!bench->type->sleep_until(bench->end, G_GINT64_CONSTANT(100000000)))
    if (!bench->type->check(bench->device, error))
      return -1;
  if (!bench->type->check(bench->device, error))
    return -1;
  return (bench->type->event_ns(bench->end) - bench->type->event_ns(bench->start)) * 1e-9;
}

/* Device time of n launches, s; < 0 if the device failed. */
static double bench_time(Bench *bench, const Case *one, int n, gboolean is_held, GError **error) {
  if (is_held)
    hold(bench);
  bench->type->record(bench->stream, bench->start);
  for (int i = 0; i < n; i++)
    launch_place(bench, one, i);
  bench->type->record(bench->stream, bench->end);
  g_atomic_int_set(&bench->is_held, FALSE);
  return bench_elapsed_s(bench, error);
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

static Case pass_over(void *from, void *to, gint64 bytes) {
  return (Case){
      .kernel =
          {.kind = KERNEL_CONVERT,
           .convert = {.from_number = NUMBER_FP32, .to_number = NUMBER_FP32, .n = bytes / 4, .from = from, .to = to}},
      .n_places = 1};
}

/* Uses a pass of a few microseconds. */
static gboolean measure_edge(Bench *bench, GError **error) {
  const gint64 bytes = 4 << 20;
  if (bench->type->is_host_memory)
    return TRUE;
  char *buffer = bench->type->allocate(bench->device, 2 * bytes, error);
  if (buffer == NULL)
    return FALSE;
  const Case pass = pass_over(buffer, buffer + bytes, bytes);
  double kernel_s;
  const gboolean ok = take_apart(bench, &pass, MOST_LAUNCHES, &kernel_s, &bench->edge_s, error);
  bench->type->release(bench->device, buffer);
  return ok;
}

/* --- products of a grid --- */

/* A product whose operands lie in the buffers, of `buffer_bytes` each. */
static Case product_case(const WorkItem *item, char *const buffers[3], gint64 buffer_bytes) {
  const Number result = item->accumulate ? NUMBER_FP32 : (Number)item->number;
  MatmulKernel product = dense_product(item);
  product.result = (guint8)result;
  product.accumulate = item->accumulate;
  product.a = buffers[0], product.b = buffers[1], product.c = buffers[2];
  Case one = {.kernel = {.kind = KERNEL_MATMUL, .matmul = product}};
  one.b_bytes = (item->k * item->n * kernel_element_bytes((Number)item->number) + ALIGN_BYTES - 1) & -ALIGN_BYTES;
  one.c_bytes = (item->m * item->n * kernel_element_bytes(result) + ALIGN_BYTES - 1) & -ALIGN_BYTES;
  one.n_places = (int)CLAMP(buffer_bytes / MAX(one.b_bytes, one.c_bytes), 1, MOST_LAUNCHES);
  return one;
}

static void fill_random(Bench *bench, Number number, char *to, gint64 bytes, guint64 seed) {
  const gint64 columns = 4096, rows = bytes / kernel_element_bytes(number) / columns;
  const Kernel kernel = {.kind = KERNEL_INIT,
                         .init = {.number = (guint8)number,
                                  .rows = rows,
                                  .columns = columns,
                                  .ld = columns,
                                  .whole_rows = rows,
                                  .whole_width = columns,
                                  .seed = seed,
                                  .deviation = 1,
                                  .to = to}};
  bench->type->launch(bench->stream, &kernel);
}

/* Allocates three buffers and fills two with random numbers; buffers that could not be allocated are NULL. */
static gboolean allocate_operands(Bench *bench, Number number, gint64 bytes, char *buffers[3], GError **error) {
  gboolean ok = TRUE;
  for (int i = 0; i < 3; i++) {
    buffers[i] = ok ? bench->type->allocate(bench->device, bytes, error) : NULL;
    ok = ok && buffers[i] != NULL;
  }
  for (int i = 0; i < 2 && ok; i++)
    fill_random(bench, number, buffers[i], bytes, (guint64)i + 1);
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
          const Case one = product_case(&item, buffers, bytes);
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
  const gboolean ok = bench_open(&bench, world, device, error) && measure_edge(&bench, error) &&
                      sample_grid(times, &bench, number, least, most, error);
  bench_close(&bench);
  return ok;
}

/* --- the device --- */

/* Host time per launch, and the shortest kernel time, from many launches of a kernel that does almost nothing. */
static gboolean measure_launches(Bench *bench, DeviceFacts *facts, GError **error) {
  enum { N_LAUNCHES = 1000 };
  char *buffer = bench->type->allocate(bench->device, 2 * ALIGN_BYTES, error);
  if (buffer == NULL)
    return FALSE;
  const Case nothing = pass_over(buffer, buffer + ALIGN_BYTES, ALIGN_BYTES);
  double edge_s;
  gboolean ok = take_apart(bench, &nothing, MOST_LAUNCHES, &facts->kernel_s, &edge_s, error);
  const gint64 before_ns = now_ns();
  for (int i = 0; i < N_LAUNCHES && ok; i++)
    launch_place(bench, &nothing, i);
  facts->launch_s = (double)(now_ns() - before_ns) * 1e-9 / N_LAUNCHES;
  ok = ok && bench_time(bench, &nothing, 1, FALSE, error) >= 0;
  bench->type->release(bench->device, buffer);
  return ok;
}

gboolean kernel_bench_edge(World *world, const DeviceType *device, char **device_name, double *edge_s, double *least_s,
                           GError **error) {
  Bench bench;
  DeviceFacts facts = {0};
  const gboolean ok = bench_open(&bench, world, device, error) && measure_edge(&bench, error) &&
                      (device->is_host_memory || measure_launches(&bench, &facts, error));
  if (ok && device_name != NULL)
    *device_name = device->describe(bench.device);
  *edge_s = bench.edge_s;
  *least_s = facts.kernel_s;
  bench_close(&bench);
  return ok;
}

static gboolean measure_memory(KernelTimes *times, Bench *bench, GError **error) {
  const gint64 most = MIN(G_GINT64_CONSTANT(256) << 20, bench->type->memory_bytes(bench->device) / 8);
  char *from = bench->type->allocate(bench->device, most, error);
  char *to = from ? bench->type->allocate(bench->device, most, error) : NULL;
  gboolean ok = to != NULL;
  for (gint64 bytes = 64 << 10; ok && bytes <= most; bytes *= 4) {
    const Case pass = pass_over(from, to, bytes);
    const WorkItem item = {.kind = ITEM_MEMORY, .name = "memory", .bytes = 2.0 * bytes};
    ok = sample_kernel(times, bench, &pass, &item, error);
  }
  bench->type->release(bench->device, from);
  bench->type->release(bench->device, to);
  return ok;
}

/* The clock under load: read after one second of products, with more of them still running. */
static gboolean measure_clock(Bench *bench, Number number, DeviceFacts *facts, GError **error) {
  const gint64 n = 4096, until_ns = now_ns() + G_GINT64_CONSTANT(1000000000);
  const WorkItem item = {.kind = ITEM_MATMUL, .number = (guint8)number, .batch = 1, .m = n, .n = n, .k = n};
  char *buffers[3];
  gboolean ok = TRUE;
  if (!bench->type->is_host_memory) {
    ok = allocate_operands(bench, number, 4 * n * n, buffers, error);
    const Case one = product_case(&item, buffers, 4 * n * n);
    while (ok && now_ns() < until_ns)
      ok = bench_time(bench, &one, MOST_LAUNCHES, FALSE, error) >= 0;
    for (int i = 0; i < MOST_LAUNCHES && ok; i++) /* the GPU is at work while its clock is read */
      launch_place(bench, &one, i);
  }
  facts->clock_Hz = bench->type->clock_Hz(bench->device);
  if (bench->type->is_host_memory)
    return TRUE;
  if (ok) {
    bench->type->record(bench->stream, bench->start);
    bench->type->record(bench->stream, bench->end);
    ok = bench_elapsed_s(bench, error) >= 0;
  }
  for (int i = 0; i < 3; i++)
    bench->type->release(bench->device, buffers[i]);
  return ok;
}

gboolean kernel_bench_device(KernelTimes *times, Number number, World *world, const DeviceType *device,
                             DeviceFacts *facts, GError **error) {
  Bench bench;
  memset(facts, 0, sizeof *facts);
  gboolean ok = bench_open(&bench, world, device, error);
  if (ok) {
    facts->device_name = device->describe(bench.device);
    facts->is_host_memory = device->is_host_memory;
    facts->memory_bytes = (double)device->memory_bytes(bench.device);
    ok = measure_edge(&bench, error) && measure_launches(&bench, facts, error) &&
         measure_memory(times, &bench, error) && measure_clock(&bench, number, facts, error);
  }
  bench_close(&bench);
  return ok;
}
