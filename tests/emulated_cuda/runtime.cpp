/* The part of the CUDA runtime that real/ calls, on the host, except memory (memory.cpp). A stream is a thread with a
 * queue as long as a GPU's; an event counts how often it was recorded and reached. */
#include "emulated.h"

#include <cuda.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t MOST_PENDING = 1024; /* of a stream: who launches more waits */
constexpr size_t FUNCTION_SHARED_BYTES = 48 << 10, MOST_SHARED_BYTES = 227 << 10;
constexpr auto PATIENCE = std::chrono::seconds(60);

int64_t now_ns(void) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::mutex stream_lock;
std::set<cudaStream_t> streams;
std::map<const void *, size_t> shared_limits; /* by kernel */
std::set<const void *> launched;              /* kernels */

thread_local cudaError_t last_error = cudaSuccess;
thread_local int current_device = 0;

/* Of what takes a known time (emulated_put_kernel()). */
struct Times {
  bool are_known;
  int64_t event_ns, drift_ns;
};

const Times &known_times(void) {
  static const Times times = [] {
    const char *wanted = getenv("EMULATED_CUDA_TIMES");
    char *end = nullptr;
    const int64_t event_ns = wanted != nullptr ? strtoll(wanted, &end, 10) : 0;
    return Times{wanted != nullptr, event_ns, end != nullptr && *end == ',' ? strtoll(end + 1, nullptr, 10) : 0};
  }();
  return times;
}

std::atomic<int64_t> n_streams{0}; /* made so far */

/* What the host asked about has come: now it would read, were it to read what it must not. Events come by thousands,
 * and to close memory costs as much as a kernel: each 16th time. */
cudaError_t has_come(void) {
  static std::atomic<unsigned> n_times{0};
  if (n_times++ % 16 == 0)
    emulated_close_memory();
  return cudaSuccess;
}

} // namespace

cudaError_t emulated_answer(cudaError_t status) {
  if (status != cudaSuccess && status != cudaErrorNotReady)
    last_error = status;
  return status;
}

struct CUstream_st {
  int64_t ns = 0; /* what its work has taken so far; of its own thread */
  std::mutex lock;
  std::condition_variable wake, has_room;
  std::deque<std::function<void()>> queue;
  bool is_busy = false, is_closing = false;

  bool is_idle(void) {
    std::lock_guard<std::mutex> guard(lock);
    return queue.empty() && !is_busy;
  }
};

struct CUevent_st {
  std::mutex lock;
  std::condition_variable wake;
  uint64_t n_recorded = 0, n_done = 0;
  int64_t ns = 0;
  cudaStream_t stream = nullptr; /* the last that came to it, and its own time then */
  int64_t stream_ns = 0;
  bool has_timing = true;
};

namespace {

void run_stream(CUstream_st *stream) {
  emulated_is_stream = true;
  std::unique_lock<std::mutex> guard(stream->lock);
  for (;;) {
    stream->wake.wait(guard, [&] { return stream->is_closing || !stream->queue.empty(); });
    if (stream->queue.empty())
      break;
    auto work = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->has_room.notify_one();
    stream->is_busy = true;
    guard.unlock();
    work();
    guard.lock();
    stream->is_busy = false;
  }
  guard.unlock();
  delete stream;
}

} // namespace

void emulated_await_all_streams(const char *who) {
  const auto start = std::chrono::steady_clock::now();
  emulated_await([=] {
    if (std::chrono::steady_clock::now() - start > PATIENCE)
      emulated_fail((std::string(who) + " waits for a stream that does not end").c_str());
    std::lock_guard<std::mutex> guard(stream_lock);
    return std::all_of(streams.begin(), streams.end(), [](cudaStream_t stream) { return stream->is_idle(); });
  });
}

std::atomic<int> emulated_n_communicating{0};

void emulated_load(const char *what) {
  if (emulated_n_communicating > 0)
    emulated_fail((std::string(what) + " is launched for the first time while ranks communicate").c_str());
}

void emulated_fail(const char *what) {
  fprintf(stderr, "emulated CUDA: %s\n", what);
  abort();
}

void emulated_put(cudaStream_t stream, std::function<void()> work) {
  if (stream == nullptr)
    emulated_fail("the default stream is not used here");
  std::unique_lock<std::mutex> guard(stream->lock);
  stream->has_room.wait(guard, [=] { return stream->queue.size() < MOST_PENDING; });
  stream->queue.push_back(std::move(work));
  stream->wake.notify_one();
}

void emulated_put_kernel(cudaStream_t stream, int64_t lasts_ns, std::function<void()> work) {
  emulated_put(stream, known_times().are_known ? [=] { stream->ns += lasts_ns; } : work);
}

void emulated_launch(const char *name, const void *function, dim3 grid, dim3 block, size_t shared_bytes,
                     cudaStream_t stream, void (*run)(const void *), const void *data, size_t bytes) {
  const uint64_t threads = (uint64_t)block.x * block.y * block.z;
  size_t limit = FUNCTION_SHARED_BYTES;
  {
    std::lock_guard<std::mutex> guard(stream_lock);
    const auto found = shared_limits.find(function);
    limit = found == shared_limits.end() ? limit : std::max(limit, found->second);
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > INT32_MAX || grid.y > 65535 || grid.z > 65535 ||
      threads == 0 || threads > 1024 || block.z > 64 || shared_bytes > limit) {
    fprintf(stderr,
            "emulated CUDA: kernel %s: %u × %u × %u blocks of %u × %u × %u threads with %zu bytes are refused\n", name,
            grid.x, grid.y, grid.z, block.x, block.y, block.z, shared_bytes);
    last_error = cudaErrorInvalidConfiguration;
    return;
  }
  bool is_new;
  {
    std::lock_guard<std::mutex> guard(stream_lock);
    is_new = launched.insert(function).second;
  }
  if (is_new)
    emulated_load(name);
  std::vector<std::max_align_t> copy(bytes / sizeof(std::max_align_t) + 1);
  memcpy(copy.data(), data, bytes);
  const int64_t lasts_ns = 5000 + 100 * (int64_t)grid.x * grid.y * grid.z;
  emulated_put_kernel(stream, lasts_ns,
                      [=] { emulated_run_grid(name, grid, block, shared_bytes, [&] { run(copy.data()); }); });
}

extern "C" {

const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess                     ? "no error"
         : error == cudaErrorMemoryAllocation     ? "out of memory"
         : error == cudaErrorInvalidConfiguration ? "invalid configuration argument"
         : error == cudaErrorNotReady             ? "device not ready"
                                                  : "invalid argument";
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

/* EMULATED_CUDA_DRIVER=12040: one of CUDA 12.4, which a program of CUDA 13 cannot use; 0: none. */
static int driver_version(void) {
  const char *wanted = getenv("EMULATED_CUDA_DRIVER");
  return wanted != nullptr ? atoi(wanted) : CUDART_VERSION;
}

cudaError_t cudaGetDeviceCount(int *n) {
  *n = driver_version() / 1000 >= CUDART_VERSION / 1000;
  return *n > 0 ? cudaSuccess : emulated_answer(cudaErrorInsufficientDriver);
}

cudaError_t cudaDriverGetVersion(int *version) {
  *version = driver_version();
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device != 0)
    return emulated_answer(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  memset(properties, 0, sizeof *properties);
  snprintf(properties->name, sizeof properties->name, "emulated GPU");
  properties->totalGlobalMem = EMULATED_TOTAL_BYTES;
  properties->multiProcessorCount = EMULATED_MULTIPROCESSORS;
  return cudaSuccess;
}

/* EMULATED_CUDA_CAPABILITY=80: a GPU of compute capability 8.0; 9.0 if not set. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  const char *wanted = getenv("EMULATED_CUDA_CAPABILITY");
  const int capability = wanted != nullptr ? atoi(wanted) : 90;
  if (attribute != cudaDevAttrComputeCapabilityMajor && attribute != cudaDevAttrComputeCapabilityMinor)
    return emulated_answer(cudaErrorInvalidValue);
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? capability / 10 : capability % 10;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *id, int length, int device) {
  snprintf(id, (size_t)length, "0000:00:00.0");
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream) {
  emulated_check_memory(memory, bytes, false, "cudaMemsetAsync");
  const size_t n = known_times().are_known ? std::min(bytes, EMULATED_FILLED_BYTES) : bytes; /* no kernel wrote to it */
  emulated_put(stream, [=] { memset(memory, value, n); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  emulated_check_memory(to, bytes, true, "cudaMemcpyAsync");
  emulated_check_memory(from, bytes, true, "cudaMemcpyAsync");
  emulated_put(stream, [=] { memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_step, const void *from, size_t from_step, size_t bytes, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes > to_step || bytes > from_step)
    return emulated_answer(cudaErrorInvalidPitchValue);
  emulated_check_memory(to, to_step * (rows - 1) + bytes, true, "cudaMemcpy2DAsync");
  emulated_check_memory(from, from_step * (rows - 1) + bytes, true, "cudaMemcpy2DAsync");
  emulated_put(stream, [=] {
    for (size_t row = 0; row < rows; row++)
      memcpy((char *)to + row * to_step, (const char *)from + row * from_step, bytes);
  });
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
  if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || (size_t)value > MOST_SHARED_BYTES)
    return emulated_answer(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> guard(stream_lock);
  shared_limits[function] = (size_t)value;
  return cudaSuccess;
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  if (flags != cudaStreamNonBlocking)
    emulated_fail("a stream that waits for the default stream");
  *stream = new CUstream_st;
  n_streams++;
  std::lock_guard<std::mutex> guard(stream_lock);
  streams.insert(*stream);
  std::thread(run_stream, *stream).detach();
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  {
    std::lock_guard<std::mutex> guard(stream_lock);
    if (streams.erase(stream) == 0)
      return emulated_answer(cudaErrorInvalidResourceHandle);
  }
  std::lock_guard<std::mutex> guard(stream->lock);
  stream->is_closing = true; /* ends after what is on it */
  stream->wake.notify_one();
  return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream->is_idle() ? has_come() : cudaErrorNotReady;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  emulated_await([=] { return stream->is_idle(); });
  emulated_close_memory();
  return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->has_timing = !(flags & cudaEventDisableTiming);
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) { /* kept: a stream may still come to it */
  return event == nullptr ? emulated_answer(cudaErrorInvalidResourceHandle) : cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  uint64_t number;
  {
    std::lock_guard<std::mutex> guard(event->lock);
    number = ++event->n_recorded;
  }
  emulated_put(stream, [=] {
    std::lock_guard<std::mutex> guard(event->lock);
    event->n_done = std::max(event->n_done, number);
    event->ns = now_ns();
    event->stream = stream;
    event->stream_ns = stream->ns += known_times().event_ns + known_times().drift_ns * n_streams;
    event->wake.notify_all();
  });
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  uint64_t number;
  {
    std::lock_guard<std::mutex> guard(event->lock);
    number = event->n_recorded;
  }
  emulated_put(stream, [=] {
    std::unique_lock<std::mutex> guard(event->lock);
    event->wake.wait(guard, [&] { return event->n_done >= number; });
  });
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  std::lock_guard<std::mutex> guard(event->lock);
  return event->n_done == event->n_recorded ? has_come() : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to) {
  const cudaEvent_t events[] = {from, to};
  for (cudaEvent_t event : events) {
    std::lock_guard<std::mutex> guard(event->lock);
    if (event->n_recorded == 0 || !event->has_timing)
      return emulated_answer(cudaErrorInvalidResourceHandle);
    if (event->n_done != event->n_recorded)
      return cudaErrorNotReady;
  }
  const bool is_known = known_times().are_known && from->stream == to->stream;
  *ms = (float)((double)(is_known ? to->stream_ns - from->stream_ns : to->ns - from->ns) / 1e6);
  return cudaSuccess;
}

/* ---- the driver's ---- */

static CUresult write_value(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned flags) {
  emulated_put(stream, [=] { __atomic_store_n((cuuint32_t *)to, value, __ATOMIC_SEQ_CST); });
  return CUDA_SUCCESS;
}

static CUresult wait_value(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags) {
  if (flags != CU_STREAM_WAIT_VALUE_GEQ)
    return CUDA_ERROR_INVALID_VALUE;
  emulated_put(stream, [=] {
    emulated_await([=] { return (int32_t)(__atomic_load_n((cuuint32_t *)at, __ATOMIC_SEQ_CST) - value) >= 0; });
  });
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *result) {
  *function = strcmp(name, "cuStreamWriteValue32") == 0  ? (void *)write_value
              : strcmp(name, "cuStreamWaitValue32") == 0 ? (void *)wait_value
                                                         : nullptr;
  *result = *function == nullptr ? cudaDriverEntryPointSymbolNotFound : cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
}
