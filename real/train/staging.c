#include "staging.h"

#include <string.h>

/* A copy with `staging` as one end. */
static gboolean copy_now(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes,
                         GError **error) {
  const DeviceType *type = device->type;
  DeviceEvent *copied = type->event_new(device, error);
  if (copied == NULL)
    return FALSE;
  type->copy(stream, to, from, bytes);
  type->record(stream, copied);
  const gboolean is_done = device_wait(copied, error);
  type->event_free(copied);
  return is_done;
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
