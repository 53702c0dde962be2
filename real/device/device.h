/* A processor that runs kernels on in-order streams: `cpu` (worker threads, OpenBLAS), `cuda`, `null` (does nothing).
 * One small table of functions each; whatever is above this header does not know which it is.
 *
 * Every call that takes a stream returns at once; the work is done later, in stream order. Work that fails makes the
 * device fail: the first error is kept and check() reports it, later work is skipped, waits still end.
 *
 * Calls are made by one host thread. Times are ns of CLOCK_MONOTONIC of this machine, on every device. */
#pragma once
#include "kernel.h"
#include "program.h"

typedef struct Device Device;
typedef struct DeviceStream DeviceStream;
typedef struct DeviceEvent DeviceEvent;

/* Called again and again until it returns TRUE (done, or failed with the error set). It must not block: pollers serve
 * several streams with one thread. Any of the device's threads may make a call, but never two at a time: tasks of all
 * streams but compute exclude each other. */
typedef gboolean (*HostStep)(gpointer data, GError **error);

typedef struct {
  const char *name;        /* "cpu", "cuda", "null" */
  gboolean is_host_memory; /* the host can read and write what allocate() returns */
  gboolean is_available;   /* built in; whether there is a processor is known by open() */

  /* `local_rank` of `n_local` ranks on this machine: which processor, or which cores. `capacity_bytes` (0: what there
   * is) bounds allocate(). */
  Device *(*open)(int local_rank, int n_local, gint64 capacity_bytes, GError **error);
  void (*close)(Device *device); /* waits for nothing: streams must have been drained or the device have failed */

  /* IMPOSSIBLE "out of memory: …" naming what was asked for, what is held and the capacity. Zeroed. */
  void *(*allocate)(Device *device, gint64 bytes, GError **error);
  void (*release)(Device *device, void *memory); /* NULL: nothing */

  /* One lane of a rank. The compute stream gets a thread (cpu) or a stream (cuda) of its own. */
  DeviceStream *(*stream_new)(Device *device, Stream stream, GError **error);
  void (*stream_free)(DeviceStream *stream); /* once its last command, an event, is done or the device has failed */

  /* An event is recorded once per use; recording again before the last use was waited for and read is a mistake. So is
   * calling wait() before record() was called: a GPU would not wait, the cpu and null devices assert. */
  DeviceEvent *(*event_new)(Device *device, GError **error);
  void (*event_free)(DeviceEvent *event);
  void (*record)(DeviceStream *stream, DeviceEvent *event); /* notes the time when the stream comes to it */
  void (*wait)(DeviceStream *stream, DeviceEvent *event);   /* later work of `stream` starts after it */
  gboolean (*is_done)(DeviceEvent *event);
  gint64 (*event_ns)(DeviceEvent *event); /* when it was reached; it must be done */

  void (*launch)(DeviceStream *stream, const Kernel *kernel);                   /* `kernel` is copied */
  void (*copy)(DeviceStream *stream, void *to, const void *from, gint64 bytes); /* any direction; pinned on cuda */
  void *(*allocate_host)(Device *device, gint64 bytes, GError **error);         /* for copies; zeroed */
  void (*release_host)(Device *device, void *memory);
  /* `step(data)` in stream order. */
  void (*host_task)(DeviceStream *stream, HostStep step, gpointer data);

  /* Sleep until `event` is done, the device failed or `timeout_ns` passed. TRUE: done. */
  gboolean (*sleep_until)(DeviceEvent *event, gint64 timeout_ns);
  /* FALSE with the first error of anything launched so far. */
  gboolean (*check)(Device *device, GError **error);
  /* Everything still queued ends without being done, as after a failure (used when another rank has failed). check()
   * then says IMPOSSIBLE "cancelled", unless something failed before. */
  void (*cancel)(Device *device);

  /* Kernels, copies and parts of them that have ended: what grows is not stuck. NULL: only events tell. */
  guint64 (*n_ended)(Device *device);

  /* For reports: "Intel Xeon …, 1 core" or "NVIDIA H200"; current clock, 0 = not known. Owned by the caller. */
  char *(*describe)(Device *device);
  double (*clock_Hz)(Device *device);
  /* What ran the stream's last fused attention, and why it was not a library: "cuDNN 9.19.0"; "" before the first. NULL
   * where there is one way only. Valid until the next is launched. */
  const char *(*attention)(const DeviceStream *stream);
  gint64 (*memory_bytes)(Device *device); /* capacity */
} DeviceType;

struct Device {
  const DeviceType *type;
};
struct DeviceStream {
  Device *device;
};
struct DeviceEvent {
  Device *device;
};

/* By name; INPUT with the valid names, also when it was not built in. */
const DeviceType *device_find(const char *name, GError **error);

extern const DeviceType cpu_device;
extern const DeviceType null_device;
extern const DeviceType cuda_device; /* is_available FALSE where it was not built */
