/* Streams and events of the cuda device. A failed call fails the device; after that nothing is launched. */
#include "cuda_parts.h"
#include "program.h"

static CudaDevice *device_of(const DeviceStream *stream) {
  return (CudaDevice *)stream->device;
}

static cudaStream_t handle_of(const DeviceStream *stream) {
  return ((const CudaStream *)stream)->handle;
}

cudaStream_t cuda_stream_handle(const DeviceStream *stream) {
  return handle_of(stream);
}

const char *cuda_stream_attention(const DeviceStream *stream, gboolean *fell_back) {
  return cuda_attention_backend(((const CudaStream *)stream)->lane, fell_back);
}

/* A CUDA call; an error fails the device. */
#define DEVICE_CALL(device, call)                                                                                      \
  G_STMT_START {                                                                                                       \
    GError *call_error = NULL;                                                                                         \
    if (!CUDA_CALL(call, &call_error))                                                                                 \
      cuda_device_fail(&(device)->device, call_error);                                                                 \
  }                                                                                                                    \
  G_STMT_END

/* Communication has high priority: its few blocks should not wait behind a matrix product's thousands. */
DeviceStream *cuda_stream_new(Device *base, Stream lane, GError **error) {
  CudaDevice *device = (CudaDevice *)base;
  int least = 0, greatest = 0;
  if (!CUDA_CALL(cudaSetDevice(device->ordinal), error) ||
      !CUDA_CALL(cudaDeviceGetStreamPriorityRange(&least, &greatest), error))
    return NULL;
  CudaStream *stream = g_new0(CudaStream, 1);
  stream->stream.device = base;
  const int priority = stream_info(lane)->is_communication ? greatest : least;
  if (CUDA_CALL(cudaStreamCreateWithPriority(&stream->handle, cudaStreamNonBlocking, priority), error)) {
    stream->lane = cuda_lane_new(stream->handle);
    stream->queue = cuda_queue_new(device->tasks, stream->handle, error);
    if (stream->queue != NULL)
      return &stream->stream;
  }
  cuda_stream_free(&stream->stream);
  return NULL;
}

/* FALSE: still busy after two seconds, which happens after a failure. */
static gboolean becomes_idle(cudaStream_t handle) {
  for (int i = 0; i < 2000 && cudaStreamQuery(handle) == cudaErrorNotReady; i++)
    g_usleep(1000);
  return cudaStreamQuery(handle) != cudaErrorNotReady;
}

void cuda_stream_free(DeviceStream *base) {
  if (base == NULL)
    return;
  CudaStream *stream = (CudaStream *)base;
  (void)cudaSetDevice(device_of(base)->ordinal);
  cuda_queue_release(stream->queue);
  if (stream->handle != NULL && becomes_idle(stream->handle)) { /* else its memory is kept until the process ends */
    cuda_queue_free(stream->queue);
    cuda_lane_free(stream->lane);
    (void)cudaStreamDestroy(stream->handle);
  }
  g_free(stream);
}

DeviceEvent *cuda_event_new(Device *base, GError **error) {
  CudaEvent *event = g_new0(CudaEvent, 1);
  event->event.device = base;
  if (CUDA_CALL(cudaSetDevice(((CudaDevice *)base)->ordinal), error) &&
      CUDA_CALL(cudaEventCreateWithFlags(&event->handle, cudaEventDefault), error)) /* with timing */
    return &event->event;
  g_free(event);
  return NULL;
}

void cuda_event_free(DeviceEvent *base) {
  if (base == NULL)
    return;
  (void)cudaEventDestroy(((CudaEvent *)base)->handle);
  g_free(base);
}

void cuda_stream_record(DeviceStream *stream, DeviceEvent *event) {
  CudaDevice *device = device_of(stream);
  if (cuda_device_enter(device))
    DEVICE_CALL(device, cudaEventRecord(((CudaEvent *)event)->handle, handle_of(stream)));
}

void cuda_stream_wait(DeviceStream *stream, DeviceEvent *event) {
  CudaDevice *device = device_of(stream);
  if (cuda_device_enter(device))
    DEVICE_CALL(device, cudaStreamWaitEvent(handle_of(stream), ((CudaEvent *)event)->handle, 0));
}

void cuda_stream_launch(DeviceStream *stream, const Kernel *kernel) {
  CudaDevice *device = device_of(stream);
  GError *error = NULL;
  if (cuda_device_enter(device) && !cuda_kernel_run(((CudaStream *)stream)->lane, kernel, &error))
    cuda_device_fail(&device->device, error);
}

void cuda_stream_copy(DeviceStream *stream, void *to, const void *from, gint64 bytes) {
  CudaDevice *device = device_of(stream);
  if (bytes > 0 && cuda_device_enter(device))
    DEVICE_CALL(device, cudaMemcpyAsync(to, from, (gsize)bytes, cudaMemcpyDefault, handle_of(stream)));
}

gboolean cuda_event_is_done(DeviceEvent *base) {
  CudaDevice *device = (CudaDevice *)base->device;
  if (!cuda_device_enter(device))
    return TRUE; /* waits end */
  const cudaError_t status = cudaEventQuery(((CudaEvent *)base)->handle);
  if (status != cudaErrorNotReady)
    DEVICE_CALL(device, status);
  return status != cudaErrorNotReady;
}

gint64 cuda_event_ns(DeviceEvent *base) {
  CudaDevice *device = (CudaDevice *)base->device;
  return cuda_device_enter(device) ? cuda_clock_event_ns(device, ((CudaEvent *)base)->handle) : host_now_ns();
}

gint64 cuda_event_elapsed_ns(DeviceEvent *from, DeviceEvent *to) {
  CudaDevice *device = (CudaDevice *)from->device;
  float ms = 0.0f;
  if (cuda_device_enter(device))
    DEVICE_CALL(device, cudaEventElapsedTime(&ms, ((CudaEvent *)from)->handle, ((CudaEvent *)to)->handle));
  return (gint64)((double)ms * 1e6 + 0.5);
}

/* Calls `watch`, on behalf of a wait. */
static void ask_watch(CudaDevice *device) {
  GError *error = NULL;
  if (device->watch != NULL && !device->watch(device->watch_data, &error))
    cuda_device_fail(&device->device, error);
}

/* Polls: without pause at first, as the event is often near, then with sleeps of 1/256 of the time waited so far. So a
 * long step costs the host little, and its end is noticed soon. */
gboolean cuda_event_sleep_until(DeviceEvent *base, gint64 timeout_ns) {
  CudaDevice *device = (CudaDevice *)base->device;
  const gint64 start = host_now_ns(), watch_ns = 10 * 1000 * 1000, close_ns = 50 * 1000, longest_us = 1000;
  gint64 watched = start;
  while (!cuda_event_is_done(base)) {
    const gint64 now = host_now_ns();
    if (now - start > timeout_ns)
      return FALSE;
    if (now - watched > watch_ns) {
      ask_watch(device);
      watched = now;
    }
    if (now - start < close_ns)
      continue;
    g_usleep((gulong)CLAMP((now - start) / 256 / 1000, 10, longest_us));
  }
  if (g_atomic_int_get(&device->has_failed))
    return FALSE;
  cuda_clock_refresh(device);
  return TRUE;
}
