/* A device of this rank with a stream, and two events between which work on it is timed.
 *
 * A GPU starts on a stream while the host is still filling it, and overtakes the host if kernels are small. So streams
 * are held until all that is timed is queued:
 *
 *     host     hold │ record │ work … work │ record │ let go
 *     stream   └───────────── waits ────────────────┘ start ▮▮▮▮▮▮▮▮ end */
#pragma once
#include "comm.h"

typedef struct {
  const DeviceType *type;
  World *world;
  Device *device;
  DeviceStream *stream;
  DeviceEvent *start, *end;
  gint is_held; /* atomic */
  gint64 held_until_ns;
} TimedStream;

/* On the heap, as a hold may outlast a failure. */
TimedStream *timed_stream_open(World *world, const DeviceType *type, Stream kind, GError **error);
void timed_stream_close(TimedStream *timed); /* NULL is fine */
/* Holds a stream of the device until let_go, or for 0.1 s: a kernel's first launch may wait for the device. On the
 * host, where work is not issued ahead, does nothing. The last hold must be over. */
void timed_stream_hold(TimedStream *timed, DeviceStream *stream);
void timed_stream_let_go(TimedStream *timed);
/* Waits for the end event. Returns the time from the start event, s; < 0 if the device failed. */
double timed_stream_wait(TimedStream *timed, GError **error);
