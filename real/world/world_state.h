/* What a World is made of, for the files of this folder and those of comm/ that call MPI (mpi_call.h). */
#pragma once
#include "monitor.h"
#include "witness.h"
#include "world.h"

#ifdef HAVE_MPI
#include <mpi.h>
#endif

/* Most bytes of one MPI message: counts are ints, and some transports stumble already below 2^31. */
#define WORLD_MESSAGE_BYTES ((gsize)1 << 30)

struct World {
  int rank, size, local_rank, n_local;
  gboolean has_mpi; /* FALSE: alone */
  Monitor *monitor;
  Witness *witness; /* at work at the first rank of a machine; NULL without a launcher */
  Board *board;     /* of the ranks of this machine; of this one alone when they cannot share memory */
  int line;         /* this rank's on it */
  GMutex mpi_lock;  /* one thread at a time is inside MPI */
#ifdef HAVE_MPI
  MPI_Comm all;      /* collectives of this module, and what other modules make their communicators from */
  MPI_Comm messages; /* world_send, world_receive */
  GArray *parts;     /* communicators of some ranks (mpi_part), in the order they were made; NULL: none yet */
#endif
};
