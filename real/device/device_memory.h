/* Private to devices whose memory is the host's: what is held, against a capacity. One thread calls. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 capacity_bytes, held_bytes;
  GHashTable *bytes_of; /* block → gint64* */
} DeviceMemory;

void device_memory_init(DeviceMemory *memory, gint64 capacity_bytes);
void device_memory_clear(DeviceMemory *memory); /* does not free blocks still held */
/* Count a block that is about to be had; IMPOSSIBLE "out of memory: …" when it does not fit. */
gboolean device_memory_fits(const DeviceMemory *memory, gint64 bytes, GError **error);
void device_memory_hold(DeviceMemory *memory, void *block, gint64 bytes);
/* Bytes of the block, which is held no longer. */
gint64 device_memory_drop(DeviceMemory *memory, void *block);
/* The error of a block that fits but that the system does not give. Returns NULL. */
void *device_memory_refused(const DeviceMemory *memory, gint64 bytes, GError **error);
