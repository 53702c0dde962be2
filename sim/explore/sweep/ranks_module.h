/* What MPI does for a sweep, as one table of functions in a module of its own: a program that was not started by a
 * launcher never loads MPI. */
#pragma once
#include <glib.h>

typedef struct {
  int rank, n_ranks;
  int n_neighbours; /* ranks on this machine, this one included */
} RanksPlace;

/* Functions return NULL, or what went wrong; owned by the caller. They are called by one thread. */
typedef struct {
  char *(*begin)(RanksPlace *place);
  char *(*send)(int to, int tag, const void *bytes, int n_bytes);
  /* A message that has come: *tag < 0 when there is none. `bytes` is set to it. */
  char *(*poll)(int *from, int *tag, GByteArray *bytes);
  char *(*end)(void);
} RanksModule;

/* Name of the table in the module, and of the module's file. */
#define RANKS_MODULE_SYMBOL "ranks_module"
#define RANKS_MODULE_FILE "stepsim-ranks.so"
