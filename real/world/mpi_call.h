/* How MPI is called here: through one macro, under the world's lock, errors as GErrors. Nothing where the project is
 * built without MPI. */
#pragma once
#include "world_state.h"

#ifdef HAVE_MPI

/* Runs `call` and leaves the function with FALSE and *error filled (call, rank, line, MPI's words) when it fails. Never
 * around a call that waits for another rank's transfer: the lock is held meanwhile. */
#define MPI_TRY(world, error, call)                                                                                    \
  do {                                                                                                                 \
    g_mutex_lock(&(world)->mpi_lock);                                                                                  \
    int mpi_code_ = (call);                                                                                            \
    g_mutex_unlock(&(world)->mpi_lock);                                                                                \
    if (mpi_code_ != MPI_SUCCESS)                                                                                      \
      return mpi_fail((world), (error), mpi_code_, #call, __FILE__, __LINE__);                                         \
  } while (0)

/* Fills *error; always FALSE. */
gboolean mpi_fail(World *world, GError **error, int code, const char *call, const char *file, int line);

/* Until a posted operation is done, with the lock released and the core left to others between looks: spins for 50 µs,
 * then sleeps for 20 µs … 1 ms. FALSE: it failed. */
gboolean mpi_wait(World *world, MPI_Request *request, GError **error);

/* Collective over the ranks of `original`. MPI_Comm_dup would hold the lock, and its core, until all others have come:
 * with more ranks than cores each of its rounds would last until the system takes the core away. */
gboolean mpi_duplicate(World *world, MPI_Comm original, MPI_Comm *copy, GError **error);

/* A communicator of these n ranks of the world, to be duplicated. Collective over them the first time, when it holds
 * the lock until all of them have come, as MPI has no other way; after that it is the one of then. The world's own. */
gboolean mpi_part(World *world, const int *members, int n, MPI_Comm *part, GError **error);
void mpi_parts_free(World *world);

#endif
