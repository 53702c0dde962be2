/* A GPU through the CUDA runtime. A rank's lanes are non-blocking streams, its events are CUDA events, and one host
 * thread enqueues everything; only sleep_until waits.
 *
 *   cuda_failure.c    the first failure, after which nothing new is started
 *   cuda_stream.c     streams, events, launches, copies
 *   cuda_clock.c      event times on the host's clock
 *   cuda_host_task.c  steps of the host in stream order
 *   cuda_nvml.c       the current clock */
#include "cuda_parts.h"

#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

void cuda_device_set_watch(Device *base, gboolean (*watch)(gpointer, GError **), gpointer data) {
  CudaDevice *device = (CudaDevice *)base;
  device->watch = watch;
  device->watch_data = data;
}

int cuda_device_ordinal(const Device *device) {
  return ((const CudaDevice *)device)->ordinal;
}

/* A rank has a dozen streams, some waiting for other ranks. With the default of 8 hardware queues, a waiting stream
 * would block another that shares its queue. Kernels are loaded at their first launch, as is CUDA's default: loading
 * all at the start would load the whole of cuBLASLt and NCCL, gigabytes of code for eight ranks, and not what cuDNN
 * builds for a shape. That launch can wait for the whole GPU to go idle, so it must not come while a stream waits for
 * another rank (`loads_late`, execute.c). CUDA reads these variables when it starts. */
static void prepare_environment(void) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", FALSE);
  setenv("CUDA_MODULE_LOADING", "LAZY", FALSE);
}

/* Makes sleeps of this thread, and of threads it starts, end within 1 microsecond of the deadline instead of 50. */
static void wake_in_time(void) {
#ifdef __linux__
  (void)prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
#endif
}

/* "13.0" for 13000. Owned by the caller. */
static char *version_text(int version) {
  return g_strdup_printf("%d.%d", version / 1000, version % 1000 / 10);
}

/* Distinguishes no GPU, no driver, and a driver older than the runtime linked into this program: CUDA reports the last
 * two alike. A driver runs programs built for its own or an earlier major version of CUDA
 * (docs.nvidia.com/deploy/cuda-compatibility). */
static gboolean count_gpus(int *n, GError **error) {
  int driver = 0, runtime = 0;
  const cudaError_t status = cudaGetDeviceCount(n);
  if (status == cudaSuccess && *n > 0)
    return TRUE;
  (void)cudaGetLastError();
  const gboolean is_known =
      cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&runtime) == cudaSuccess;
  if (status == cudaSuccess || status == cudaErrorNoDevice)
    return fail_impossible(error, "no CUDA device on this machine (cudaGetDeviceCount)");
  if (status != cudaErrorInsufficientDriver || !is_known)
    return CUDA_CALL(status, error);
  if (driver == 0)
    return fail_impossible(error, "no CUDA device on this machine: it has no NVIDIA driver (cudaGetDeviceCount)");
  g_autofree char *has = version_text(driver), *wants = version_text(runtime);
  return fail_impossible(
      error,
      "the NVIDIA driver is too old: it runs programs of CUDA %s and before, this one is of CUDA %s; "
      "expected a driver of CUDA %d or later, or a build by a toolkit of CUDA %d",
      has, wants, runtime / 1000, driver / 1000);
}

static gboolean choose_gpu(CudaDevice *device, int local_rank, int n_local, GError **error) {
  int n_gpus = 0;
  if (!count_gpus(&n_gpus, error))
    return FALSE;
  device->ordinal = local_rank % n_gpus;
  device->device.n_sharers = MAX(1, (n_local - device->ordinal + n_gpus - 1) / n_gpus);
  return CUDA_CALL(cudaSetDevice(device->ordinal), error);
}

/* A launcher may show each rank a GPU of its own, as number 0 for all: only the UUID tells them apart. */
static gboolean processor(int local_rank, char id[64], char name[64]) {
  int n_gpus = 0;
  struct cudaDeviceProp properties;
  prepare_environment();
  if (!count_gpus(&n_gpus, NULL) || cudaGetDeviceProperties(&properties, local_rank % n_gpus) != cudaSuccess)
    return FALSE;
  for (gsize i = 0; i < sizeof properties.uuid.bytes; i++)
    g_snprintf(id + 2 * i, 3, "%02x", (guint8)properties.uuid.bytes[i]);
  g_snprintf(name, 64, "GPU %d", local_rank % n_gpus);
  return TRUE;
}

static gboolean open_parts(CudaDevice *device, gint64 capacity_bytes, GError **error) {
  gsize free_bytes;
  if (!CUDA_CALL(cudaMemGetInfo(&free_bytes, &device->total_bytes), error) ||
      !CUDA_CALL(cudaStreamCreateWithFlags(&device->service, cudaStreamNonBlocking), error))
    return FALSE;
  device->limit_bytes = capacity_bytes;
  device->tasks = cuda_tasks_new(device, error);
  return device->tasks != NULL && cuda_clock_open(device, error);
}

/* After a failure CUDA may refuse to free things, so results are ignored here. */
static void close_device(Device *base) {
  CudaDevice *device = (CudaDevice *)base;
  if (device == NULL)
    return;
  (void)cudaSetDevice(device->ordinal);
  cuda_tasks_free(device->tasks);
  cuda_clock_close(device);
  if (device->service != NULL)
    (void)cudaStreamDestroy(device->service);
  GHashTableIter iter;
  gpointer memory;
  g_hash_table_iter_init(&iter, device->memory.bytes_of);
  while (g_hash_table_iter_next(&iter, &memory, NULL))
    (void)cudaFree(memory);
  device_memory_clear(&device->memory);
  nvml_free(device->nvml);
  g_clear_error(&device->failure);
  g_mutex_clear(&device->lock);
  g_free(device);
}

static Device *open_device(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  prepare_environment();
  wake_in_time();
  CudaDevice *device = g_new0(CudaDevice, 1);
  device->device.type = &cuda_device;
  device_memory_init(&device->memory, 0);
  g_mutex_init(&device->lock);
  if (choose_gpu(device, local_rank, n_local, error) && open_parts(device, capacity_bytes, error))
    return &device->device;
  close_device(&device->device);
  return NULL;
}

/* By default an equal share of the GPU's memory for each rank on it. */
static gint64 capacity_of(const CudaDevice *device) {
  return device->limit_bytes > 0 ? device->limit_bytes : (gint64)device->total_bytes / device->device.n_sharers;
}

static void *allocate(Device *base, gint64 bytes, GError **error) {
  CudaDevice *device = (CudaDevice *)base;
  device->memory.capacity_bytes = capacity_of(device); /* how many share it may have been found out since */
  g_snprintf(device->memory.place, sizeof device->memory.place, " (CUDA device %d, shared by %d)", device->ordinal,
             device->device.n_sharers);
  if (!device_memory_fits(&device->memory, bytes, error) || !CUDA_CALL(cudaSetDevice(device->ordinal), error))
    return NULL;
  void *memory = NULL;
  const cudaError_t status = cudaMalloc(&memory, (gsize)MAX(bytes, 1));
  if (status == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    return device_memory_refused(&device->memory, bytes, error);
  }
  if (!CUDA_CALL(status, error))
    return NULL;
  if (!CUDA_CALL(cudaMemsetAsync(memory, 0, (gsize)bytes, device->service), error) ||
      !CUDA_CALL(cudaStreamSynchronize(device->service), error)) {
    (void)cudaFree(memory);
    return NULL;
  }
  device_memory_hold(&device->memory, memory, bytes);
  return memory;
}

static void release(Device *base, void *memory) {
  CudaDevice *device = (CudaDevice *)base;
  if (memory == NULL)
    return;
  device_memory_drop(&device->memory, memory);
  (void)cudaSetDevice(device->ordinal);
  (void)cudaFree(memory);
}

static void *allocate_host(Device *base, gint64 bytes, GError **error) {
  void *memory = NULL;
  if (!CUDA_CALL(cudaSetDevice(((CudaDevice *)base)->ordinal), error) ||
      !CUDA_CALL(cudaHostAlloc(&memory, (gsize)MAX(bytes, 1), cudaHostAllocPortable), error))
    return NULL;
  return memset(memory, 0, (gsize)bytes);
}

static void release_host(Device *base, void *memory) {
  if (memory == NULL)
    return;
  (void)cudaSetDevice(((CudaDevice *)base)->ordinal);
  (void)cudaFreeHost(memory);
}

/* Kernel errors are reported by whatever call comes next: here cudaStreamQuery of the idle service stream. */
static gboolean check(Device *base, GError **error) {
  CudaDevice *device = (CudaDevice *)base;
  if (cuda_device_enter(device)) {
    GError *found = NULL;
    const cudaError_t status = cudaStreamQuery(device->service);
    if (!CUDA_CALL(status == cudaErrorNotReady ? cudaSuccess : status, &found))
      cuda_device_fail(base, found);
  }
  g_mutex_lock(&device->lock);
  const gboolean is_well = device->failure == NULL;
  if (!is_well)
    g_propagate_error(error, g_error_copy(device->failure));
  g_mutex_unlock(&device->lock);
  return is_well;
}

/* Running kernels end by themselves; streams that wait for the host are released. */
static void cancel(Device *base) {
  GError *error = NULL;
  fail_impossible(&error, "cancelled");
  cuda_device_fail(base, error);
}

static char *describe(Device *base) {
  CudaDevice *device = (CudaDevice *)base;
  struct cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, device->ordinal) != cudaSuccess)
    return g_strdup("CUDA device");
  g_autofree char *memory = units_format((double)properties.totalGlobalMem, UNIT_BYTES);
  return g_strdup_printf("%s, %d SMs, %s", properties.name, properties.multiProcessorCount, memory);
}

static double clock_Hz(Device *base) {
  CudaDevice *device = (CudaDevice *)base;
  if (device->nvml == NULL)
    device->nvml = nvml_new(device->ordinal);
  return nvml_clock_Hz(device->nvml);
}

static gint64 memory_bytes(Device *base) {
  return capacity_of((CudaDevice *)base);
}

const DeviceType cuda_device = {
    .name = "cuda",
    .is_host_memory = FALSE,
    .is_available = TRUE,
    .loads_late = TRUE,
    .processor = processor,
    .open = open_device,
    .close = close_device,
    .allocate = allocate,
    .release = release,
    .stream_new = cuda_stream_new,
    .stream_free = cuda_stream_free,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .record = cuda_stream_record,
    .wait = cuda_stream_wait,
    .is_done = cuda_event_is_done,
    .event_ns = cuda_event_ns,
    .elapsed_ns = cuda_event_elapsed_ns,
    .launch = cuda_stream_launch,
    .copy = cuda_stream_copy,
    .allocate_host = allocate_host,
    .release_host = release_host,
    .host_task = cuda_stream_host_task,
    .sleep_until = cuda_event_sleep_until,
    .check = check,
    .cancel = cancel,
    .describe = describe,
    .clock_Hz = clock_Hz,
    .attention = cuda_stream_attention,
    .memory_bytes = memory_bytes,
};
