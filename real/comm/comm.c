#include "comm.h"

#include "error.h"
#include "suggest.h"

static const CommType *const types[] = {&mpi_comm, &nccl_comm, &null_comm};

static void abort_comm(gpointer data) {
  Comm *comm = data;
  comm->type->abort(comm);
}

void comm_find_sharers(World *world, const DeviceType *device) {
  char id[64] = "", name[64] = "";
  const gboolean is_known = device->processor != NULL && device->processor(world_local_rank(world), id, name);
  world_find_sharers(world, is_known ? id : NULL, name);
}

/* What the ranks found out replaces what the device inferred. */
static void set_sharers(const World *world, Device *device) {
  if (world_n_sharers(world) > 0)
    device->n_sharers = world_n_sharers(world);
}

Device *comm_open_device(World *world, const DeviceType *type, gint64 capacity_bytes, GError **error) {
  Device *device = type->open(world_local_rank(world), world_n_local(world), capacity_bytes, error);
  if (device != NULL)
    set_sharers(world, device);
  return device;
}

Comm *comm_start(const CommType *type, World *world, Device *device, GError **error) {
  set_sharers(world, device);
  Comm *comm = type->open(world, device, error);
  if (comm != NULL)
    world_on_abort(world, abort_comm, comm);
  return comm;
}

void comm_stop(Comm *comm, World *world) {
  if (comm == NULL)
    return;
  world_on_abort(world, NULL, NULL);
  comm->type->close(comm);
}

const char *const *comm_names(void) {
  static const char *names[G_N_ELEMENTS(types) + 1];
  gsize n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(types); i++)
    if (types[i]->is_available)
      names[n++] = types[i]->name;
  names[n] = NULL;
  return names;
}

const CommType *comm_find(const char *name, GError **error) {
  for (gsize i = 0; i < G_N_ELEMENTS(types); i++)
    if (types[i]->is_available && g_strcmp0(name, types[i]->name) == 0)
      return types[i];
  g_autofree char *message = suggest_message(name, comm_names());
  fail_input(error, "no communication \"%s\" was built in: %s", name, message);
  return NULL;
}
