/* Every sample starts at a barrier, so that ranks compete for links and memory as they do in a step:
 *
 *     copies of rank 0 alone  │ in out │ …          link
 *     copies of all           │ in out │ …          links
 *     a pass over two vectors │ · │ · │ …           memory
 *     AdamW on vectors        │ ·· │ ·· │ …         update
 *
 * Each rank takes the median of its samples; the slowest rank counts. Kernels run as the host optimizer runs them:
 * split into parts that a rank's threads share (host_optimizer.h). */
#include "host_times.h"

#include "error.h"
#include "host_machine.h"
#include "host_optimizer.h"
#include "sort_doubles.h"
#include "timed_stream.h"

#include <string.h>

/* Vectors of 32 MiB in fp32: more than a core's share of any cache in 2026. */
enum { N_ELEMENTS = 8 << 20, N_PARTS = N_ELEMENTS / HOST_OPTIMIZER_PART, N_SAMPLES = 7, COPY_BYTES = 64 << 20 };

typedef enum { VECTOR_WEIGHT, VECTOR_MASTER, VECTOR_GRADIENT, VECTOR_M, VECTOR_V, N_VECTORS } Vector;

typedef struct {
  World *world;
  TimedStream *on;
  void *on_host, *on_device; /* [COPY_BYTES] */
  void *vectors[N_VECTORS];  /* [N_ELEMENTS] each */
  int n_threads;
} HostBench;

static gboolean host_open(HostBench *host, World *world, const DeviceType *type, GError **error) {
  *host = (HostBench){.world = world,
                      .on = timed_stream_open(world, type, STREAM_COPY, error),
                      .n_threads = host_kernels_threads(type, world)};
  if (host->on == NULL || (host->on_device = type->allocate(host->on->device, COPY_BYTES, error)) == NULL ||
      (host->on_host = type->allocate_host(host->on->device, COPY_BYTES, error)) == NULL)
    return FALSE;
  for (int i = 0; i < N_VECTORS; i++)
    if ((host->vectors[i] = type->allocate_host(host->on->device, N_ELEMENTS * (gint64)sizeof(float), error)) == NULL)
      return FALSE;
  return TRUE;
}

static void host_close(HostBench *host) {
  if (host->on == NULL)
    return;
  for (int i = 0; i < N_VECTORS; i++)
    host->on->type->release_host(host->on->device, host->vectors[i]);
  host->on->type->release_host(host->on->device, host->on_host);
  host->on->type->release(host->on->device, host->on_device);
  timed_stream_close(host->on);
}

/* Median of this rank's samples; at least a nanosecond. */
static double median_s(double *samples_s) {
  sort_doubles(samples_s, N_SAMPLES);
  return MAX(samples_s[N_SAMPLES / 2], 1e-9);
}

/* --- copies --- */

/* Time of one copy, s; < 0: the device has failed. */
static double copy_s(HostBench *host, void *to, const void *from, GError **error) {
  TimedStream *on = host->on;
  on->type->record(on->stream, on->start);
  on->type->copy(on->stream, to, from, COPY_BYTES);
  on->type->record(on->stream, on->end);
  return timed_stream_wait(on, error);
}

/* Copy rate of the slowest copying rank in its slower direction; ranks that do not copy only wait. 0: failed. */
static double copy_Bps(HostBench *host, gboolean copies, GError **error) {
  double in_s[N_SAMPLES] = {0}, out_s[N_SAMPLES] = {0};
  for (int i = 0; i < N_SAMPLES; i++) {
    world_barrier(host->world);
    if (copies && ((in_s[i] = copy_s(host, host->on_device, host->on_host, error)) < 0 ||
                   (out_s[i] = copy_s(host, host->on_host, host->on_device, error)) < 0))
      return 0;
  }
  return COPY_BYTES / world_max(host->world, MAX(median_s(in_s), median_s(out_s)));
}

static gboolean measure_copies(HostBench *host, HostTimes *times, GError **error) {
  const double alone_Bps = copy_Bps(host, world_local_rank(host->world) == 0, error);
  const double each_Bps = alone_Bps > 0 ? copy_Bps(host, TRUE, error) : 0;
  times->link_Bps = alone_Bps;
  times->links_Bps = each_Bps * world_n_local(host->world);
  return each_Bps > 0;
}

/* --- processors --- */

/* All ranks run the kernels at once, `bytes` each. Returns B/s summed over a machine's ranks; 0: failed. */
static double run_Bps(HostBench *host, const Kernel *kernels, double bytes, GError **error) {
  double samples_s[N_SAMPLES];
  if (!host_kernels_run(kernels, N_PARTS, host->n_threads))
    return fail_impossible(error, "a kernel on the host has failed");
  for (int i = 0; i < N_SAMPLES; i++) {
    world_barrier(host->world);
    const gint64 before_ns = host_now_ns();
    host_kernels_run(kernels, N_PARTS, host->n_threads);
    samples_s[i] = (double)(host_now_ns() - before_ns) * 1e-9;
  }
  return bytes * world_n_local(host->world) / world_max(host->world, median_s(samples_s));
}

static void *part_of(const HostBench *host, Vector vector, int part, Number number) {
  return (char *)host->vectors[vector] + (gint64)part * HOST_OPTIMIZER_PART * kernel_element_bytes(number);
}

static Kernel pass_part(const HostBench *host, int part) {
  return (Kernel){.kind = KERNEL_CONVERT,
                  .convert = {.from_number = NUMBER_FP32,
                              .to_number = NUMBER_FP32,
                              .n = HOST_OPTIMIZER_PART,
                              .from = part_of(host, VECTOR_M, part, NUMBER_FP32),
                              .to = part_of(host, VECTOR_V, part, NUMBER_FP32)}};
}

static Kernel update_part(const HostBench *host, int part, Number number) {
  AdamKernel adam = {.number = (guint8)number,
                     .gradient = (guint8)number,
                     .n = HOST_OPTIMIZER_PART,
                     .weight = part_of(host, VECTOR_WEIGHT, part, number),
                     .gradients = part_of(host, VECTOR_GRADIENT, part, number),
                     .m = part_of(host, VECTOR_M, part, NUMBER_FP32),
                     .v = part_of(host, VECTOR_V, part, NUMBER_FP32),
                     .lr = 1e-3F,
                     .beta1 = 0.9F,
                     .beta2 = 0.95F,
                     .epsilon = 1e-8F,
                     .correction1 = 1,
                     .correction2 = 1};
  if (number != NUMBER_FP32)
    adam.master = part_of(host, VECTOR_MASTER, part, NUMBER_FP32);
  return (Kernel){.kind = KERNEL_ADAM, .adam = adam};
}

/* Everything is read and written once, except the gradient, which is only read: as in workload_optimizer_item(). */
static double update_bytes(Number number) {
  const double element = (double)kernel_element_bytes(number), moments = 2.0 * 2 * sizeof(float);
  const double weights = number == NUMBER_FP32 ? 2 * element : 2 * sizeof(float) + element;
  return N_ELEMENTS * (element + moments + weights);
}

static gboolean measure_processors(HostBench *host, Number number, HostTimes *times, GError **error) {
  Kernel passes[N_PARTS], updates[N_PARTS];
  for (int part = 0; part < N_PARTS; part++) {
    passes[part] = pass_part(host, part);
    updates[part] = update_part(host, part, number);
  }
  const double pass_Bps = run_Bps(host, passes, 2.0 * sizeof(float) * N_ELEMENTS, error);
  times->update_Bps = pass_Bps > 0 ? run_Bps(host, updates, update_bytes(number), error) : 0;
  times->memory_Bps = MAX(MAX(pass_Bps, times->update_Bps), MAX(times->link_Bps, times->links_Bps));
  return times->update_Bps > 0;
}

/* Machines may differ in ranks and memory. */
static void take_least(World *world, HostTimes *times) {
  double *const values[] = {&times->link_Bps, &times->links_Bps, &times->memory_Bps, &times->update_Bps,
                            &times->memory_bytes};
  for (gsize i = 0; i < G_N_ELEMENTS(values); i++)
    *values[i] = -world_max(world, -*values[i]);
}

gboolean host_times_measure(World *world, const DeviceType *device, Number number, HostTimes *times, GError **error) {
  HostBench host;
  *times = (HostTimes){.memory_bytes = (double)host_available_bytes()};
  const gboolean ok = host_open(&host, world, device, error) && measure_copies(&host, times, error) &&
                      measure_processors(&host, number, times, error);
  if (ok)
    take_least(world, times);
  host_close(&host);
  return ok;
}
