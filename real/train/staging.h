/* Synchronous copies between host and device, for use before the first op, between steps and after the last. */
#pragma once
#include "device.h"

/* Allocates device memory and fills it with `bytes` of `from`. */
gboolean staging_upload(Device *device, DeviceStream *stream, const void *from, gint64 bytes, void **to,
                        GError **error);
/* Both require that every stream is idle. */
gboolean staging_write(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error);
gboolean staging_read(Device *device, DeviceStream *stream, void *to, const void *from, gint64 bytes, GError **error);
