#include "timed_stream.h"

#include "host_machine.h"

static const gint64 hold_ns = 100 * 1000 * 1000;

TimedStream *timed_stream_open(World *world, const DeviceType *type, Stream kind, GError **error) {
  TimedStream *timed = g_new0(TimedStream, 1);
  timed->type = type;
  timed->world = world;
  if ((timed->device = comm_open_device(world, type, 0, error)) != NULL &&
      (timed->stream = type->stream_new(timed->device, kind, error)) != NULL &&
      (timed->start = type->event_new(timed->device, error)) != NULL &&
      (timed->end = type->event_new(timed->device, error)) != NULL)
    return timed;
  timed_stream_close(timed);
  return NULL;
}

void timed_stream_close(TimedStream *timed) {
  if (timed == NULL)
    return;
  timed->type->event_free(timed->end);
  timed->type->event_free(timed->start);
  timed->type->stream_free(timed->stream);
  timed->type->close(timed->device);
  g_free(timed);
}

static gboolean wait_let_go(gpointer data, GError **error) {
  const TimedStream *timed = data;
  return !g_atomic_int_get(&timed->is_held) || host_now_ns() > timed->held_until_ns;
}

void timed_stream_hold(TimedStream *timed, DeviceStream *stream) {
  if (timed->type->is_host_memory)
    return;
  timed->held_until_ns = host_now_ns() + hold_ns;
  g_atomic_int_set(&timed->is_held, TRUE);
  timed->type->host_task(stream, wait_let_go, timed);
}

void timed_stream_let_go(TimedStream *timed) {
  g_atomic_int_set(&timed->is_held, FALSE);
}

double timed_stream_wait(TimedStream *timed, GError **error) {
  return device_wait(timed->end, error) ? device_elapsed_ns(timed->start, timed->end) * 1e-9 : -1;
}
