/* A rank's processor made of CPU cores: kernels run on a worker thread, everything else on a second one (cpu_worker.c);
 * memory is the host's.
 *
 *      host thread ──launch, copy, record, wait, task──▶ queue of each stream ──▶ worker ──▶ events ──▶ sleep_until()
 *
 * The host thread only pushes. Memory is zeroed, and thus touched, when it is allocated, so that page faults do not
 * slow down the first step; large blocks are aligned to huge pages. */
#include "cpu_worker.h"
#include "device_memory.h"

#include "error.h"
#include "no_memory.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { LINE_BYTES = 64, HUGE_PAGE_BYTES = 2 << 20 };

typedef struct {
  Device base;
  CpuWorkers workers;
  HostCores cores;
  DeviceMemory memory;
} CpuDevice;

static void cpu_close(Device *device) {
  if (device == NULL)
    return;
  CpuDevice *cpu = (CpuDevice *)device;
  cpu_workers_stop(&cpu->workers);
  host_cores_clear(&cpu->cores);
  device_memory_clear(&cpu->memory);
  g_free(cpu);
}

static Device *cpu_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  g_assert(local_rank >= 0 && local_rank < n_local && capacity_bytes >= 0);
  CpuDevice *cpu = g_new0(CpuDevice, 1);
  cpu->base.type = &cpu_device;
  device_memory_init(&cpu->memory, capacity_bytes > 0 ? capacity_bytes : host_available_bytes() / n_local);
  cpu->cores = host_cores(local_rank, n_local);
  if (g_getenv("OPENBLAS_NUM_THREADS") == NULL) /* the user's setting has precedence */
    cpu_kernels_set_threads(1);
  if (!cpu_workers_start(&cpu->workers, &cpu->cores, error)) {
    cpu_close(&cpu->base);
    return NULL;
  }
  return &cpu->base;
}

/* Zeroed memory, freed with free(); NULL: out of memory. */
static void *zeroed_block(gint64 bytes) {
  gsize alignment = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : LINE_BYTES;
  gsize rounded = ((gsize)MAX(bytes, 1) + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
  void *block = no_memory_try(alignment, rounded);
  if (block == NULL)
    return NULL;
#ifdef __linux__
  if (bytes >= HUGE_PAGE_BYTES)
    madvise(block, rounded, MADV_HUGEPAGE);
#endif
  memset(block, 0, rounded);
  return block;
}

static void *cpu_allocate(Device *device, gint64 bytes, GError **error) {
  CpuDevice *cpu = (CpuDevice *)device;
  if (!device_memory_fits(&cpu->memory, bytes, error))
    return NULL;
  void *block = zeroed_block(bytes);
  if (block == NULL)
    return device_memory_refused(&cpu->memory, bytes, error);
  device_memory_hold(&cpu->memory, block, bytes);
  return block;
}

static void cpu_release(Device *device, void *block) {
  if (block == NULL)
    return;
  device_memory_drop(&((CpuDevice *)device)->memory, block);
  free(block);
}

/* Not counted: staging is not device memory. */
static void *cpu_allocate_host(Device *device, gint64 bytes, GError **error) {
  void *block = zeroed_block(bytes);
  return block != NULL ? block : device_memory_refused(&((CpuDevice *)device)->memory, bytes, error);
}

static void cpu_release_host(Device *device, void *block) {
  free(block);
}

static DeviceStream *cpu_stream_new(Device *device, Stream kind, GError **error) {
  CpuWorkers *workers = &((CpuDevice *)device)->workers;
  CpuWorker *worker = &workers->worker[kind == STREAM_COMPUTE ? WORKER_COMPUTE : WORKER_COMMUNICATION];
  int n = atomic_load(&worker->n_streams), i = 0;
  while (i < n && worker->streams[i].is_used)
    i++;
  if (i == MAX_WORKER_STREAMS) {
    fail_impossible(error, "more than %d streams on one device", MAX_WORKER_STREAMS);
    return NULL;
  }
  CpuStream *stream = &worker->streams[i];
  stream->base.device = device;
  stream->worker = worker;
  stream->is_used = TRUE;
  if (i == n)
    atomic_store_explicit(&worker->n_streams, n + 1, memory_order_release);
  return &stream->base;
}

/* Keeps the queue: the worker may be looking at it. */
static void cpu_stream_free(DeviceStream *base) {
  if (base == NULL)
    return;
  CpuStream *stream = (CpuStream *)base;
  g_assert(cpu_stream_is_empty(stream) || atomic_load(&stream->worker->all->has_failed));
  stream->is_used = FALSE;
}

static void push(DeviceStream *stream, const CpuCommand *command) {
  cpu_stream_push((CpuStream *)stream, command);
}

static void cpu_launch(DeviceStream *stream, const Kernel *kernel) {
  push(stream, &(CpuCommand){.kind = COMMAND_LAUNCH, .kernel = *kernel});
}

static void cpu_copy(DeviceStream *stream, void *to, const void *from, gint64 bytes) {
  push(stream, &(CpuCommand){.kind = COMMAND_COPY, .copy = {to, from, bytes}});
}

static void cpu_host_task(DeviceStream *stream, HostStep step, gpointer data) {
  push(stream, &(CpuCommand){.kind = COMMAND_HOST_TASK, .task = {step, data}});
}

static DeviceEvent *cpu_event_new(Device *device, GError **error) {
  CpuEvent *event = g_new0(CpuEvent, 1);
  event->base.device = device;
  return &event->base;
}

static void cpu_event_free(DeviceEvent *event) {
  g_free(event);
}

static void cpu_record(DeviceStream *stream, DeviceEvent *base) {
  CpuEvent *event = (CpuEvent *)base;
  event->is_recorded = TRUE;
  atomic_store(&event->state, 0); /* before the push: the worker may reach it at once */
  push(stream, &(CpuCommand){.kind = COMMAND_RECORD, .event = event});
}

static void cpu_wait(DeviceStream *stream, DeviceEvent *base) {
  CpuEvent *event = (CpuEvent *)base;
  g_assert(event->is_recorded); /* a GPU would not wait at all */
  push(stream, &(CpuCommand){.kind = COMMAND_WAIT, .event = event});
}

static gboolean cpu_is_done(DeviceEvent *event) {
  return cpu_event_is_done((CpuEvent *)event);
}

static gint64 cpu_event_ns(DeviceEvent *base) {
  CpuEvent *event = (CpuEvent *)base;
  g_assert(cpu_event_is_done(event));
  return event->ns;
}

static gboolean cpu_sleep_until(DeviceEvent *base, gint64 timeout_ns) {
  return cpu_event_sleep_until(&((CpuDevice *)base->device)->workers, (CpuEvent *)base, timeout_ns);
}

static gboolean cpu_check(Device *device, GError **error) {
  return cpu_workers_check(&((CpuDevice *)device)->workers, error);
}

static void cpu_cancel(Device *device) {
  GError *error = NULL;
  fail_impossible(&error, "cancelled");
  cpu_workers_fail(&((CpuDevice *)device)->workers, error);
}

static guint64 cpu_n_ended(Device *device) {
  return atomic_load_explicit(&((CpuDevice *)device)->workers.n_ended, memory_order_relaxed);
}

static char *cpu_describe(Device *device) {
  const HostCores *cores = &((CpuDevice *)device)->cores;
  g_autofree char *name = host_processor_name();
  g_autofree char *place =
      cores->is_bound ? g_strdup_printf(", bound from core %d on", cores->first_core) : g_strdup(", not bound");
  return g_strdup_printf("%s, %d core%s%s", name, cores->n_cores, cores->n_cores == 1 ? "" : "s", place);
}

static double cpu_clock_Hz(Device *device) {
  return host_clock_Hz(((CpuDevice *)device)->cores.first_core);
}

static gint64 cpu_memory_bytes(Device *device) {
  return ((CpuDevice *)device)->memory.capacity_bytes;
}

const DeviceType cpu_device = {
    .name = "cpu",
    .is_host_memory = TRUE,
    .is_available = TRUE,
    .n_ended = cpu_n_ended,
    DEVICE_FUNCTIONS(cpu),
};
