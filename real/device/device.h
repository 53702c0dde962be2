/* A processor that runs kernels on in-order streams: `cpu` (worker threads, OpenBLAS), `cuda`, `null` (does nothing).
 * Each is a small table of functions; code above this header does not know which one it uses.
 *
 * Every call that takes a stream returns at once; the work is done later, in stream order. If work fails, the device
 * fails: check() reports the first error, later work is skipped, and waits still end.
 *
 * Calls are made by one host thread. Times are ns of CLOCK_MONOTONIC of this machine, on every device. */
#pragma once
#include "kernel.h"
#include "program.h"

typedef struct Device Device;
typedef struct DeviceStream DeviceStream;
typedef struct DeviceEvent DeviceEvent;

/* Called repeatedly until it returns TRUE (done, or failed with the error set). It must not block: one thread polls
 * several streams. Any of the device's threads may call it, but never two at a time: tasks of all streams except
 * compute are mutually exclusive. */
typedef gboolean (*HostStep)(gpointer data, GError **error);

typedef struct {
  const char *name;        /* "cpu", "cuda", "null" */
  gboolean is_host_memory; /* the host can read and write what allocate() returns */
  gboolean is_available;   /* built in; open() finds out whether there is a processor */
  gboolean loads_late;     /* the first launch of a kernel, by shape, may wait until all streams are idle */

  /* Identifies the processor that open() selects, for finding out which ranks share it: the same id on all of them, and
   * "GPU 0". FALSE: it cannot be told. NULL: no two ranks get the same. */
  gboolean (*processor)(int local_rank, char id[64], char name[64]);
  /* `local_rank` of the `n_local` ranks on this machine selects the processor or cores. `capacity_bytes` limits
   * allocate(); 0: all of the memory. */
  Device *(*open)(int local_rank, int n_local, gint64 capacity_bytes, GError **error);
  void (*close)(Device *device); /* waits for nothing: streams must have been drained or the device have failed */

  /* Zeroed. On failure IMPOSSIBLE "out of memory: …" with the bytes requested, the bytes held and the capacity. */
  void *(*allocate)(Device *device, gint64 bytes, GError **error);
  void (*release)(Device *device, void *memory); /* NULL: nothing */

  /* One lane of a rank. The compute stream gets a thread (cpu) or a stream (cuda) of its own. */
  DeviceStream *(*stream_new)(Device *device, Stream stream, GError **error);
  void (*stream_free)(DeviceStream *stream); /* once its last command, an event, is done or the device has failed */

  /* Record an event once per use. It is an error to record it again before the previous use was waited for and read,
   * or to call wait() before record(): a GPU would not wait; the cpu and null devices assert. */
  DeviceEvent *(*event_new)(Device *device, GError **error);
  void (*event_free)(DeviceEvent *event); /* NULL: nothing, here and in stream_free and release_host */
  void (*record)(DeviceStream *stream, DeviceEvent *event); /* takes the time when the stream reaches it */
  void (*wait)(DeviceStream *stream, DeviceEvent *event);   /* later work of `stream` starts after it */
  gboolean (*is_done)(DeviceEvent *event);
  gint64 (*event_ns)(DeviceEvent *event); /* when it was reached; it must be done */
  /* From one event to a later one of the same stream, both done. Free of the error of a mapping to the host's clock.
   * NULL: event_ns has no such error. */
  gint64 (*elapsed_ns)(DeviceEvent *from, DeviceEvent *to);

  void (*launch)(DeviceStream *stream, const Kernel *kernel);                   /* `kernel` is copied */
  void (*copy)(DeviceStream *stream, void *to, const void *from, gint64 bytes); /* any direction; pinned on cuda */
  void *(*allocate_host)(Device *device, gint64 bytes, GError **error);         /* for copies; zeroed */
  void (*release_host)(Device *device, void *memory);
  /* Runs `step(data)` in stream order. */
  void (*host_task)(DeviceStream *stream, HostStep step, gpointer data);

  /* Sleeps until `event` is done, the device has failed or `timeout_ns` has passed. TRUE: done. */
  gboolean (*sleep_until)(DeviceEvent *event, gint64 timeout_ns);
  /* FALSE with the first error of anything launched so far. */
  gboolean (*check)(Device *device, GError **error);
  /* Skips everything still queued, as after a failure (used when another rank has failed). check() then reports
   * IMPOSSIBLE "cancelled", unless something failed before. */
  void (*cancel)(Device *device);

  /* Number of kernels and copies, or parts of them, that have ended; a stuck device's stays constant. NULL: progress
   * shows only in events. */
  guint64 (*n_ended)(Device *device);

  /* For reports: "Intel Xeon …, 1 core" or "NVIDIA H200"; current clock, 0 = unknown. Owned by the caller. */
  char *(*describe)(Device *device);
  double (*clock_Hz)(Device *device);
  /* The implementation of the stream's fused attention so far, "cuDNN 9.19.0", and if not a library, why; "" before the
   * first. `*fell_back`: some was not by the library that is wanted for it. NULL if the device has only one. Valid
   * until the next call. */
  const char *(*attention)(const DeviceStream *stream, gboolean *fell_back);
  gint64 (*memory_bytes)(Device *device); /* capacity */
} DeviceType;

struct Device {
  const DeviceType *type;
  int n_sharers; /* ranks that use this processor, this one included; whoever opens it corrects it: open() can only
                    infer it from how many ranks and processors there are */
};
struct DeviceStream {
  Device *device;
};
struct DeviceEvent {
  Device *device;
};

/* The time from one event to a later one of the same stream, by the best means the device has. */
gint64 device_elapsed_ns(DeviceEvent *from, DeviceEvent *to);
/* Waits until the event is done. FALSE with the error if the device fails. */
gboolean device_wait(DeviceEvent *event, GError **error);

/* Finds a device type by name. INPUT, with the valid names, if it is unknown or was not built in. */
const DeviceType *device_find(const char *name, GError **error);

/* What every type has, of one all of whose functions are called PREFIX_NAME. */
#define DEVICE_FUNCTIONS(prefix)                                                                                       \
  .open = prefix##_open, .close = prefix##_close, .allocate = prefix##_allocate, .release = prefix##_release,          \
  .stream_new = prefix##_stream_new, .stream_free = prefix##_stream_free, .event_new = prefix##_event_new,             \
  .event_free = prefix##_event_free, .record = prefix##_record, .wait = prefix##_wait, .is_done = prefix##_is_done,    \
  .event_ns = prefix##_event_ns, .launch = prefix##_launch, .copy = prefix##_copy,                                     \
  .allocate_host = prefix##_allocate_host, .release_host = prefix##_release_host, .host_task = prefix##_host_task,     \
  .sleep_until = prefix##_sleep_until, .check = prefix##_check, .cancel = prefix##_cancel,                             \
  .describe = prefix##_describe, .clock_Hz = prefix##_clock_Hz, .memory_bytes = prefix##_memory_bytes

extern const DeviceType cpu_device;
extern const DeviceType null_device;
extern const DeviceType cuda_device; /* is_available FALSE where it was not built */
