/* The processes of one launch (mpirun, srun). They take work from a common counter and send what they find to the
 * first, which keeps it. MPI's calls are one table in a module of its own, which a program that no launcher started
 * never loads. */
#pragma once
#include <glib.h>

typedef struct {
  int rank, n_ranks;
  int n_neighbours;   /* ranks on this machine, this one included */
  char library[1024]; /* as MPI calls itself; what is longer is left out */
  gpointer counter;   /* the module's own */
} RanksPlace;

enum { RANKS_PROBLEM_BYTES = 1024 }; /* what is longer is cut */

/* Functions return NULL, or an error message owned by the caller. All calls come from one thread. */
typedef struct {
  char *(*begin)(RanksPlace *place);
  /* Collective: `bytes` of the first rank become everyone's. */
  char *(*share)(GByteArray *bytes);
  /* Collective: `own` of every rank, in rank order. */
  char *(*gather)(const char own[RANKS_PROBLEM_BYTES], char (*all)[RANKS_PROBLEM_BYTES]);
  /* Add to the counter common to all, which begins at 0; *before is its value before that. */
  char *(*count)(const RanksPlace *place, gint64 by, gint64 *before);
  /* To the first rank, which receives what has come from any, if anything has. */
  char *(*send)(const GByteArray *bytes);
  char *(*receive)(GByteArray *bytes, gboolean *has_come);
  /* Collective; sleeps until all ranks have come. */
  char *(*end)(RanksPlace *place);
} RanksModule;

/* Name of the table in the module, and of the module's file. */
#define RANKS_MODULE_SYMBOL "ranks_module"
#define RANKS_MODULE_FILE "stepsim-ranks.so"

typedef struct {
  RanksPlace place;
  const RanksModule *mpi;
} Ranks;

/* Join the others that a launcher started (launcher.h); loads MPI. INPUT if MPI is not there or the launcher is another
 * MPI's, IMPOSSIBLE if MPI fails. */
Ranks *ranks_join(GError **error);
/* Leave; every rank must call it. */
void ranks_free(Ranks *ranks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Ranks, ranks_free)

/* Of one of the table's functions, `problem` taken over: TRUE, or IMPOSSIBLE naming the call that failed. */
gboolean ranks_check(char *problem, GError **error);
/* Collective: TRUE if no rank has a problem (NULL: none), else INPUT with that of the lowest one. */
gboolean ranks_agree(const Ranks *ranks, const GError *problem, GError **error);
