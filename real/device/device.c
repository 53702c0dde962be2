#include "device.h"

#include "error.h"
#include "suggest.h"

static const DeviceType *const types[] = {&cpu_device, &cuda_device, &null_device};

gint64 device_elapsed_ns(DeviceEvent *from, DeviceEvent *to) {
  const DeviceType *type = from->device->type;
  return type->elapsed_ns != NULL ? type->elapsed_ns(from, to) : type->event_ns(to) - type->event_ns(from);
}

gboolean device_wait(DeviceEvent *event, GError **error) {
  static const gint64 look_ns = 50 * 1000 * 1000;
  const DeviceType *type = event->device->type;
  while (!type->sleep_until(event, look_ns) && type->check(event->device, NULL))
    ;
  return type->check(event->device, error);
}

const DeviceType *device_find(const char *name, GError **error) {
  const char *names[G_N_ELEMENTS(types) + 1] = {NULL}; /* those built in */
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(types); i++) {
    if (!types[i]->is_available)
      continue;
    if (g_strcmp0(name, types[i]->name) == 0)
      return types[i];
    names[n++] = types[i]->name;
  }
  g_autofree char *message = suggest_message(name, names);
  fail_input(error, "no device \"%s\" was built in: %s", name, message);
  return NULL;
}
