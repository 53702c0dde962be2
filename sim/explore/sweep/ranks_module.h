/* The MPI functions of a sweep, as one table in a module of its own: a program not started by a launcher never loads
 * MPI. */
#pragma once
#include <glib.h>

typedef struct {
  int rank, n_ranks;
  int n_neighbours;   /* ranks on this machine, this one included */
  char library[1024]; /* as MPI calls itself; what is longer is left out */
} RanksPlace;

/* Functions return NULL, or an error message owned by the caller. All calls come from one thread. */
typedef struct {
  char *(*begin)(RanksPlace *place);
  char *(*send)(int to, int tag, const void *bytes, int n_bytes);
  /* A received message: *tag < 0 if there is none, else `bytes` is set to it. */
  char *(*poll)(int *from, int *tag, GByteArray *bytes);
  char *(*end)(void);
} RanksModule;

/* Name of the table in the module, and of the module's file. */
#define RANKS_MODULE_SYMBOL "ranks_module"
#define RANKS_MODULE_FILE "stepsim-ranks.so"
