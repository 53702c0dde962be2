/* A processor on which everything takes no time. It shows what launching a Program costs by itself, and that nothing
 * above depends on what kernels compute. Work is done in call order, so an event is done as soon as it is recorded, and
 * host tasks are stepped to their end at once:
 *
 *      launch, copy, wait   nothing
 *      record               done, now
 *      host_task            step() … step() → TRUE
 *
 * Memory is only reserved addresses until someone writes to it. */
#include "device.h"

#include "device_memory.h"
#include "error.h"
#include "host_machine.h"

#include <sched.h>
#include <sys/mman.h>

typedef struct {
  Device base;
  DeviceMemory memory;
  GError *error; /* the first one */
} NullDevice;

typedef struct {
  DeviceEvent base;
  gboolean is_done;
  gint64 ns;
} NullEvent;

static Device *null_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  NullDevice *null = g_new0(NullDevice, 1);
  null->base.type = &null_device;
  device_memory_init(&null->memory, capacity_bytes > 0 ? capacity_bytes : host_available_bytes() / n_local);
  return &null->base;
}

static void null_close(Device *device) {
  if (device == NULL)
    return;
  NullDevice *null = (NullDevice *)device;
  device_memory_clear(&null->memory);
  g_clear_error(&null->error);
  g_free(null);
}

static void *null_allocate(Device *device, gint64 bytes, GError **error) {
  NullDevice *null = (NullDevice *)device;
  if (!device_memory_fits(&null->memory, bytes, error))
    return NULL;
  void *block =
      mmap(NULL, (gsize)MAX(bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return device_memory_refused(&null->memory, bytes, error);
  device_memory_hold(&null->memory, block, bytes);
  return block;
}

static void null_release(Device *device, void *block) {
  if (block == NULL)
    return;
  gint64 bytes = device_memory_drop(&((NullDevice *)device)->memory, block);
  munmap(block, (gsize)MAX(bytes, 1));
}

static void *null_allocate_host(Device *device, gint64 bytes, GError **error) {
  return g_malloc0((gsize)MAX(bytes, 1));
}

static void null_release_host(Device *device, void *block) {
  g_free(block);
}

static DeviceStream *null_stream_new(Device *device, Stream stream, GError **error) {
  DeviceStream *lane = g_new0(DeviceStream, 1);
  lane->device = device;
  return lane;
}

static void null_stream_free(DeviceStream *stream) {
  g_free(stream);
}

static DeviceEvent *null_event_new(Device *device, GError **error) {
  NullEvent *event = g_new0(NullEvent, 1);
  event->base.device = device;
  return &event->base;
}

static void null_event_free(DeviceEvent *event) {
  g_free(event);
}

static void null_record(DeviceStream *stream, DeviceEvent *base) {
  NullEvent *event = (NullEvent *)base;
  event->ns = host_now_ns();
  event->is_done = TRUE;
}

static void null_wait(DeviceStream *stream, DeviceEvent *event) {
  g_assert(((NullEvent *)event)->is_done); /* nobody could record it any more */
}

static gboolean null_is_done(DeviceEvent *event) {
  return ((NullEvent *)event)->is_done;
}

static gint64 null_event_ns(DeviceEvent *event) {
  g_assert(((NullEvent *)event)->is_done);
  return ((NullEvent *)event)->ns;
}

static void null_launch(DeviceStream *stream, const Kernel *kernel) {
}

static void null_copy(DeviceStream *stream, void *to, const void *from, gint64 bytes) {
}

static void null_fail(NullDevice *null, GError *error) {
  if (null->error == NULL)
    null->error = error;
  else
    g_error_free(error);
}

static void null_host_task(DeviceStream *stream, HostStep step, gpointer data) {
  NullDevice *null = (NullDevice *)stream->device;
  GError *error = NULL;
  while (null->error == NULL && !step(data, &error) && error == NULL)
    sched_yield();
  if (error != NULL)
    null_fail(null, error);
}

static gboolean null_sleep_until(DeviceEvent *event, gint64 timeout_ns) {
  return ((NullEvent *)event)->is_done;
}

static gboolean null_check(Device *device, GError **error) {
  NullDevice *null = (NullDevice *)device;
  if (null->error == NULL)
    return TRUE;
  if (error != NULL)
    *error = g_error_copy(null->error);
  return FALSE;
}

static void null_cancel(Device *device) {
  GError *error = NULL;
  fail_impossible(&error, "cancelled");
  null_fail((NullDevice *)device, error);
}

static char *null_describe(Device *device) {
  return g_strdup("no processor: kernels take no time");
}

static double null_clock_Hz(Device *device) {
  return 0;
}

static gint64 null_memory_bytes(Device *device) {
  return ((NullDevice *)device)->memory.capacity_bytes;
}

const DeviceType null_device = {
    .name = "null",
    .is_host_memory = TRUE,
    .is_available = TRUE,
    DEVICE_FUNCTIONS(null),
};
