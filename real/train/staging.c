#include "staging.h"

#include <string.h>

static const gint64 look_ns = 50 * 1000 * 1000;

/* A copy with `staging` as one end. */
static gboolean copy_now(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes,
                         GError **error) {
  const DeviceType *type = device->type;
  DeviceEvent *copied = type->event_new(device, error);
  if (copied == NULL)
    return FALSE;
  type->copy(stream, to, from, bytes);
  type->record(stream, copied);
  while (!type->sleep_until(copied, look_ns) && type->check(device, error))
    ;
  type->event_free(copied);
  return type->check(device, error);
}

gboolean staging_write(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error) {
  void *staging = device->type->allocate_host(device, bytes, error);
  if (staging == NULL)
    return FALSE;
  memcpy(staging, from, (gsize)bytes);
  const gboolean is_there = copy_now(device, stream, to, staging, bytes, error);
  device->type->release_host(device, staging);
  return is_there;
}

gboolean staging_upload(Device *device, DeviceStream *stream, const void *from, gint64 bytes, void **to,
                        GError **error) {
  *to = device->type->allocate(device, bytes, error);
  return *to != NULL && staging_write(device, stream, *to, from, bytes, error);
}

gboolean staging_read(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error) {
  void *staging = device->type->allocate_host(device, bytes, error);
  if (staging == NULL)
    return FALSE;
  const gboolean is_there = copy_now(device, stream, staging, from, bytes, error);
  memcpy(to, staging, (gsize)bytes);
  device->type->release_host(device, staging);
  return is_there;
}
