/* Waiting for MPI without holding its lock, and saying what it found wrong. */
#include "mpi_call.h"

#include "error.h"

enum { SPIN_US = 50, MIN_SLEEP_US = 20, MAX_SLEEP_US = 1000 };

gboolean mpi_fail(World *world, GError **error, int code, const char *call, const char *file, int line) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int bytes;
  g_mutex_lock(&world->mpi_lock);
  MPI_Error_string(code, text, &bytes);
  g_mutex_unlock(&world->mpi_lock);
  g_autofree char *name = g_path_get_basename(file);
  return fail_impossible(error, "%s on rank %d (%s:%d): %s", call, world->rank, name, line, g_strstrip(text));
}

gboolean mpi_wait(World *world, MPI_Request *request, GError **error) {
  gint64 start_us = g_get_monotonic_time();
  gulong sleep_us = MIN_SLEEP_US;
  for (;;) {
    int is_done;
    MPI_TRY(world, error, MPI_Test(request, &is_done, MPI_STATUS_IGNORE));
    if (is_done)
      return TRUE;
    if (g_get_monotonic_time() - start_us < SPIN_US) {
      g_thread_yield();
      continue;
    }
    g_usleep(sleep_us);
    sleep_us = MIN(2 * sleep_us, MAX_SLEEP_US);
  }
}

gboolean mpi_duplicate(World *world, MPI_Comm original, MPI_Comm *copy, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Comm_idup(original, copy, &request));
  return mpi_wait(world, &request, error);
}
