/* The World struct, shared by this folder and the files of comm/ that call MPI (mpi_call.h). */
#pragma once
#include "death_reporter.h"
#include "monitor.h"
#include "world.h"

#ifdef HAVE_MPI
#include <mpi.h>
#endif

/* Largest MPI message: counts are ints, and some transports fail even below 2^31. */
#define WORLD_MESSAGE_BYTES ((gsize)1 << 30)

struct World {
  int rank, size, local_rank, n_local;
  int n_sharers, most_sharers; /* 0: not known */
  char most_shared[64];        /* the name of the processor that most ranks share */
  gboolean has_mpi;            /* FALSE: a single rank without MPI */
  Monitor *monitor;
  DeathReporter *reporter; /* active on the first rank of each machine; NULL without a launcher */
  StatusTable *statuses;   /* covers the ranks of this machine, or only this one if they cannot share memory */
  int line;                /* this rank's line on the status table */
  GMutex mpi_lock;         /* one thread at a time is inside MPI */
#ifdef HAVE_MPI
  MPI_Comm all;      /* for this module's collectives; other modules derive their communicators from it */
  MPI_Comm messages; /* world_send, world_receive */
  GArray *parts;     /* sub-communicators (mpi_part) in creation order; NULL: none yet */
#endif
};
