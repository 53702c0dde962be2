#include "mpi_call.h"
#include "mpi_transfer.h"

void request_set_init(RequestSet *set, int capacity) {
  set->n = 0;
  set->capacity = capacity;
  set->requests = g_new(MPI_Request, capacity);
  set->statuses = g_new(MPI_Status, capacity);
}

void request_set_clear(RequestSet *set) {
  g_free(set->requests);
  g_free(set->statuses);
}

gboolean request_set_send(RequestSet *set, MpiGroup *group, const void *data, gint64 bytes, int to, int tag,
                          GError **error) {
  g_assert(set->n < set->capacity && bytes >= 0 && bytes <= G_MAXINT);
  MPI_TRY(group->world, error, MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, group->comm, &set->requests[set->n]));
  set->n++;
  return TRUE;
}

gboolean request_set_receive(RequestSet *set, MpiGroup *group, void *data, gint64 bytes, int from, int tag,
                             GError **error) {
  g_assert(set->n < set->capacity && bytes >= 0 && bytes <= G_MAXINT);
  MPI_TRY(group->world, error, MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, group->comm, &set->requests[set->n]));
  set->n++;
  return TRUE;
}

gboolean request_set_test(RequestSet *set, MpiGroup *group, gboolean *is_done, GError **error) {
  World *world = group->world;
  int flag = 0;
  g_mutex_lock(&world->mpi_lock);
  int code = MPI_Testall(set->n, set->requests, &flag, set->statuses);
  g_mutex_unlock(&world->mpi_lock);
  *is_done = flag != 0;
  if (code == MPI_SUCCESS) {
    set->n = *is_done ? 0 : set->n;
    return TRUE;
  }
  for (int i = 0; code == MPI_ERR_IN_STATUS && i < set->n; i++)
    if (set->statuses[i].MPI_ERROR != MPI_SUCCESS && set->statuses[i].MPI_ERROR != MPI_ERR_PENDING)
      code = set->statuses[i].MPI_ERROR;
  return mpi_fail(world, error, code, "MPI_Testall", __FILE__, __LINE__);
}
