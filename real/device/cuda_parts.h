/* Private to the cuda device, shared by its files. */
#pragma once
#include "cuda_call.h"
#include "cuda_device.h"
#include "cuda_kernels.h"
#include "device_memory.h"
#include "host_machine.h"

typedef struct CudaTasks CudaTasks;
typedef struct CudaQueue CudaQueue;
typedef struct Nvml Nvml;

/* A GPU event and its time on the host's clock. */
typedef struct {
  cudaEvent_t event;
  gint64 ns;
} CudaAnchor;

typedef struct {
  Device device;
  int ordinal;
  gsize total_bytes;  /* of the GPU's memory */
  gint64 limit_bytes; /* of allocate(); 0: this rank's share of the memory */
  DeviceMemory memory;
  cudaStream_t service;  /* for zeroing memory and for anchors; always idle otherwise */
  CudaAnchor anchors[2]; /* from opening the device, and from the latest wait */
  CudaTasks *tasks;
  Nvml *nvml;      /* NULL until asked */
  GMutex lock;     /* protects the fields below */
  GError *failure; /* the first */
  gint has_failed; /* atomic: failed or cancelled */
  gboolean (*watch)(gpointer data, GError **error);
  gpointer watch_data;
} CudaDevice;

typedef struct {
  DeviceStream stream;
  cudaStream_t handle;
  CudaLane *lane;
  CudaQueue *queue; /* of host tasks */
} CudaStream;

typedef struct {
  DeviceEvent event;
  cudaEvent_t handle;
} CudaEvent;

/* Makes this device's GPU current in the calling thread, as CUDA calls need. FALSE if that fails, which also fails the
 * device, or if the device has failed already. */
gboolean cuda_device_enter(CudaDevice *device);

/* cuda_clock.c */
gboolean cuda_clock_open(CudaDevice *device, GError **error);
void cuda_clock_close(CudaDevice *device);
void cuda_clock_refresh(CudaDevice *device); /* takes the latest anchor anew if it is old */
gint64 cuda_clock_event_ns(CudaDevice *device, cudaEvent_t event);

/* cuda_stream.c: members of DeviceType */
DeviceStream *cuda_stream_new(Device *device, Stream stream, GError **error);
void cuda_stream_free(DeviceStream *stream);
DeviceEvent *cuda_event_new(Device *device, GError **error);
void cuda_event_free(DeviceEvent *event);
void cuda_stream_record(DeviceStream *stream, DeviceEvent *event);
void cuda_stream_wait(DeviceStream *stream, DeviceEvent *event);
gboolean cuda_event_is_done(DeviceEvent *event);
gint64 cuda_event_ns(DeviceEvent *event);
gint64 cuda_event_elapsed_ns(DeviceEvent *from, DeviceEvent *to);
void cuda_stream_launch(DeviceStream *stream, const Kernel *kernel);
void cuda_stream_copy(DeviceStream *stream, void *to, const void *from, gint64 bytes);
gboolean cuda_event_sleep_until(DeviceEvent *event, gint64 timeout_ns);

/* cuda_host_task.c */
CudaTasks *cuda_tasks_new(CudaDevice *device, GError **error);
void cuda_tasks_free(CudaTasks *tasks);
CudaQueue *cuda_queue_new(CudaTasks *tasks, cudaStream_t stream, GError **error);
/* Drops the queue's tasks and lets the stream run past them. The queue can be freed once the stream is idle. */
void cuda_queue_release(CudaQueue *queue);
void cuda_queue_free(CudaQueue *queue);
void cuda_stream_host_task(DeviceStream *stream, HostStep step, gpointer data);

/* cuda_nvml.c; the clock is 0 if unknown. */
Nvml *nvml_new(int ordinal);
void nvml_free(Nvml *nvml);
double nvml_clock_Hz(const Nvml *nvml);
