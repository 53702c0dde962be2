/* All MPI calls go through one macro, which takes the world's lock and turns errors into GErrors. Empty in a build
 * without MPI. */
#pragma once
#include "world_state.h"

#ifdef HAVE_MPI

/* Runs `call`; on failure fills *error (call, rank, line, MPI's message) and returns FALSE from the enclosing
 * function. Never use it for a call that blocks on another rank's transfer: the lock is held throughout. */
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

/* Waits for a posted operation, releasing the lock and yielding the core between polls: spins for 50 µs, then sleeps
 * 20 µs … 1 ms at a time. FALSE: it failed. */
gboolean mpi_wait(World *world, MPI_Request *request, GError **error);

/* Collective over the ranks of `original`. Unlike MPI_Comm_dup, does not hold the lock and the core until all other
 * ranks arrive: with more ranks than cores, each round of that would last until the scheduler preempts it. */
gboolean mpi_duplicate(World *world, MPI_Comm original, MPI_Comm *copy, GError **error);

/* A communicator of these n ranks of the world, for the caller to duplicate. The first call for a set of ranks is
 * collective over them and holds the lock until all have arrived, as MPI offers no alternative; later calls return
 * the same communicator. Owned by the world. */
gboolean mpi_part(World *world, const int *members, int n, MPI_Comm *part, GError **error);
void mpi_parts_free(World *world);

#endif
