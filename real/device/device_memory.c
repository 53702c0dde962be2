/* A table from block to size, and the sum of the sizes. */
#include "device_memory.h"

#include "error.h"
#include "units.h"

void device_memory_init(DeviceMemory *memory, gint64 capacity_bytes) {
  *memory = (DeviceMemory){.capacity_bytes = capacity_bytes,
                           .bytes_of = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free)};
}

void device_memory_clear(DeviceMemory *memory) {
  g_clear_pointer(&memory->bytes_of, g_hash_table_unref);
}

static void explain(const DeviceMemory *memory, gint64 bytes, const char *why, GError **error) {
  g_autofree char *asked = units_format((double)bytes, UNIT_BYTES);
  g_autofree char *held = units_format((double)memory->held_bytes, UNIT_BYTES);
  g_autofree char *capacity = units_format((double)memory->capacity_bytes, UNIT_BYTES);
  fail_impossible(error, "out of memory: %s asked for, %s held, capacity %s%s%s", asked, held, capacity, why,
                  memory->place);
}

gboolean device_memory_fits(const DeviceMemory *memory, gint64 bytes, GError **error) {
  g_assert(bytes >= 0);
  if (bytes <= memory->capacity_bytes - memory->held_bytes)
    return TRUE;
  explain(memory, bytes, "", error);
  return FALSE;
}

void *device_memory_refused(const DeviceMemory *memory, gint64 bytes, GError **error) {
  explain(memory, bytes, ", but the system gives no more", error);
  return NULL;
}

void device_memory_hold(DeviceMemory *memory, void *block, gint64 bytes) {
  gboolean is_new = g_hash_table_insert(memory->bytes_of, block, g_memdup2(&bytes, sizeof bytes));
  g_assert(is_new);
  memory->held_bytes += bytes;
}

gint64 device_memory_drop(DeviceMemory *memory, void *block) {
  const gint64 *found = g_hash_table_lookup(memory->bytes_of, block);
  g_assert(found != NULL); /* else it is another device's, or released twice */
  gint64 bytes = *found;
  memory->held_bytes -= bytes;
  g_hash_table_remove(memory->bytes_of, block);
  return bytes;
}
