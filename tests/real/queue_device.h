/* A single-threaded device for tests of communication: streams are queues, and drain() steps their heads in turn until
 * all are empty, so that transfers on several streams overlap. The host cannot access `is_remote` memory: it is
 * protected except while copy() runs. */
#pragma once
#include "device.h"

#include <string.h>
#include <sys/mman.h>

typedef struct {
  HostStep step; /* NULL: a copy */
  gpointer data;
  void *to;
  const void *from;
  gint64 bytes;
} QueueWork;

typedef struct {
  Device base;
  GPtrArray *streams;
  GHashTable *protected; /* memory → bytes */
  GError *error;         /* the first */
} QueueDevice;

typedef struct {
  DeviceStream base;
  GQueue *work;
} QueueStream;

static inline Device *queue_open(const DeviceType *type) {
  QueueDevice *device = g_new0(QueueDevice, 1);
  device->base.type = type;
  device->streams = g_ptr_array_new();
  device->protected = g_hash_table_new(NULL, NULL);
  return &device->base;
}

static inline void queue_close(Device *base) {
  QueueDevice *device = (QueueDevice *)base;
  for (guint i = 0; i < device->streams->len; i++) {
    QueueStream *stream = device->streams->pdata[i];
    g_queue_free_full(stream->work, g_free);
    g_free(stream);
  }
  g_ptr_array_free(device->streams, TRUE);
  g_hash_table_unref(device->protected);
  g_clear_error(&device->error);
  g_free(device);
}

static inline DeviceStream *queue_stream_new(Device *base, Stream kind, GError **error) {
  QueueStream *stream = g_new0(QueueStream, 1);
  stream->base.device = base;
  stream->work = g_queue_new();
  g_ptr_array_add(((QueueDevice *)base)->streams, stream);
  return &stream->base;
}

static inline void *queue_allocate(Device *device, gint64 bytes, GError **error) {
  if (device->type->is_host_memory)
    return g_malloc0((gsize)bytes + 1);
  void *memory = mmap(NULL, (gsize)bytes + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  g_assert(memory != MAP_FAILED);
  g_hash_table_insert(((QueueDevice *)device)->protected, memory, GSIZE_TO_POINTER((gsize)bytes + 1));
  return memory;
}

static inline void queue_release(Device *device, void *memory) {
  gsize bytes = GPOINTER_TO_SIZE(g_hash_table_lookup(((QueueDevice *)device)->protected, memory));
  if (bytes == 0)
    g_free(memory);
  else
    munmap(memory, bytes);
  g_hash_table_remove(((QueueDevice *)device)->protected, memory);
}

static inline void queue_protect(Device *device, int protection) {
  GHashTableIter iter;
  gpointer memory, bytes;
  g_hash_table_iter_init(&iter, ((QueueDevice *)device)->protected);
  while (g_hash_table_iter_next(&iter, &memory, &bytes))
    mprotect(memory, GPOINTER_TO_SIZE(bytes), protection);
}

static inline void *queue_allocate_host(Device *device, gint64 bytes, GError **error) {
  return g_malloc((gsize)bytes);
}

static inline void queue_release_host(Device *device, void *memory) {
  g_free(memory);
}

static inline void queue_push(DeviceStream *stream, QueueWork work) {
  g_queue_push_tail(((QueueStream *)stream)->work, g_memdup2(&work, sizeof work));
}

static inline void queue_copy(DeviceStream *stream, void *to, const void *from, gint64 bytes) {
  queue_push(stream, (QueueWork){.to = to, .from = from, .bytes = bytes});
}

static inline void queue_host_task(DeviceStream *stream, HostStep step, gpointer data) {
  queue_push(stream, (QueueWork){.step = step, .data = data});
}

/* Steps the head once. */
static inline void queue_step(QueueDevice *device, QueueStream *stream) {
  QueueWork *work = g_queue_peek_head(stream->work);
  GError *error = NULL;
  if (work->step == NULL) {
    queue_protect(&device->base, PROT_READ | PROT_WRITE);
    memmove(work->to, work->from, (gsize)work->bytes);
    queue_protect(&device->base, PROT_NONE);
  } else if (!work->step(work->data, &error)) {
    return;
  }
  if (error != NULL && device->error == NULL)
    device->error = g_steal_pointer(&error);
  g_clear_error(&error);
  g_free(g_queue_pop_head(stream->work));
}

/* Runs until all is done or something has failed. */
static inline gboolean queue_drain(Device *base) {
  QueueDevice *device = (QueueDevice *)base;
  for (gboolean is_busy = TRUE; is_busy && device->error == NULL;) {
    is_busy = FALSE;
    for (guint i = 0; i < device->streams->len && device->error == NULL; i++) {
      QueueStream *stream = device->streams->pdata[i];
      if (g_queue_is_empty(stream->work))
        continue;
      queue_step(device, stream);
      is_busy = TRUE;
    }
    g_thread_yield();
  }
  return device->error == NULL;
}

/* After a failure: drops what is still queued and makes the device usable again. */
static inline void queue_recover(Device *base) {
  QueueDevice *device = (QueueDevice *)base;
  for (guint i = 0; i < device->streams->len; i++)
    g_queue_clear_full(((QueueStream *)device->streams->pdata[i])->work, g_free);
  g_clear_error(&device->error);
}

#define QUEUE_DEVICE(is_host)                                                                                          \
  {                                                                                                                    \
    .name = "queue", .is_host_memory = (is_host), .close = queue_close, .allocate = queue_allocate,                    \
    .release = queue_release, .stream_new = queue_stream_new, .copy = queue_copy,                                      \
    .allocate_host = queue_allocate_host, .release_host = queue_release_host, .host_task = queue_host_task             \
  }
static const DeviceType queue_host_device = QUEUE_DEVICE(TRUE);
static const DeviceType queue_remote_device = QUEUE_DEVICE(FALSE);
