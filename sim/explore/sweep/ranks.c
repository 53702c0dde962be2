/* MPI is in a module that is loaded when a launcher started several processes, found over the program's run path. */
#include "ranks.h"

#include <dlfcn.h>

#include "error.h"
#include "launcher.h"
#include "ranks_module.h"

enum { POLL_US = 200 };

struct Ranks {
  void *library;
  const RanksModule *module;
  RanksPlace place;
};

/* Takes over `problem`. */
static gboolean check(char *problem, GError **error) {
  g_autofree char *owned = problem;
  return owned == NULL || fail_impossible(error, "%s", owned);
}

Ranks *ranks_join(GError **error) {
  Ranks *ranks = g_new0(Ranks, 1);
  ranks->library = dlopen(RANKS_MODULE_FILE, RTLD_NOW | RTLD_GLOBAL); /* MPI loads plugins that want its symbols */
  ranks->module = ranks->library != NULL ? dlsym(ranks->library, RANKS_MODULE_SYMBOL) : NULL;
  if (ranks->module == NULL) {
    fail_input(error,
               "a launcher started %d processes, which this stepsim cannot join: it was built without MPI (%s); "
               "start one, or build it where mpicc is",
               launcher_n_processes(), dlerror());
    g_free(ranks);
    return NULL;
  }
  if (check(ranks->module->begin(&ranks->place), error) &&
      launcher_check("stepsim", ranks->place.n_ranks, ranks->place.library, error))
    return ranks;
  g_free(ranks);
  return NULL;
}

void ranks_free(Ranks *ranks) {
  if (ranks == NULL)
    return;
  g_free(ranks->module->end());
  g_free(ranks); /* the library stays: MPI has handlers that run at exit */
}

int ranks_rank(const Ranks *ranks) {
  return ranks->place.rank;
}

int ranks_count(const Ranks *ranks) {
  return ranks->place.n_ranks;
}

int ranks_on_this_machine(const Ranks *ranks) {
  return ranks->place.n_neighbours;
}

gboolean ranks_send(Ranks *ranks, int to, int tag, gconstpointer bytes, gsize n_bytes, GError **error) {
  g_assert(n_bytes <= G_MAXINT);
  return check(ranks->module->send(to, tag, bytes, (int)n_bytes), error);
}

gboolean ranks_poll(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error) {
  return check(ranks->module->poll(from, tag, bytes), error);
}

gboolean ranks_wait(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error) {
  for (;;) {
    if (!ranks_poll(ranks, from, tag, bytes, error))
      return FALSE;
    if (*tag >= 0)
      return TRUE;
    g_usleep(POLL_US);
  }
}
