/* Bytes between the host and the device, now: each call waits until they are there. For what is done before the first
 * op, between steps and after the last. */
#pragma once
#include "device.h"

/* New device memory with `bytes` of `from`. */
gboolean staging_upload(Device *device, DeviceStream *stream, const void *from, gint64 bytes, void **to,
                        GError **error);
/* Both: every stream must be idle. */
gboolean staging_write(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error);
gboolean staging_read(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error);
