/* Private to devices: counts the bytes held against a capacity. For one thread. */
#pragma once
#include <glib.h>

typedef struct {
  gint64 capacity_bytes, held_bytes;
  GHashTable *bytes_of; /* block → gint64* */
  char place[48];       /* " (CUDA device 0)": for messages; "": only one is meant */
} DeviceMemory;

void device_memory_init(DeviceMemory *memory, gint64 capacity_bytes);
void device_memory_clear(DeviceMemory *memory); /* does not free blocks still held */
/* Whether a block about to be allocated fits; if not, IMPOSSIBLE "out of memory: …". */
gboolean device_memory_fits(const DeviceMemory *memory, gint64 bytes, GError **error);
void device_memory_hold(DeviceMemory *memory, void *block, gint64 bytes);
/* Stops counting the block; returns its bytes. */
gint64 device_memory_drop(DeviceMemory *memory, void *block);
/* Sets the error for a block that fits but that the system refuses. Returns NULL. */
void *device_memory_refused(const DeviceMemory *memory, gint64 bytes, GError **error);
