#include "comm.h"

#include "error.h"
#include "suggest.h"

static const CommType *const types[] = {&mpi_comm, &nccl_comm, &null_comm};

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
