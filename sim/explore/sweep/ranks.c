/* The module is found over the program's run path. */
#include "ranks.h"

#include <dlfcn.h>

#include "error.h"
#include "launcher.h"

gboolean ranks_check(char *problem, GError **error) {
  g_autofree char *owned = problem;
  return owned == NULL || fail_impossible(error, "%s", owned);
}

Ranks *ranks_join(GError **error) {
  g_autofree Ranks *ranks = g_new0(Ranks, 1);
  gpointer library = dlopen(RANKS_MODULE_FILE, RTLD_NOW | RTLD_GLOBAL); /* MPI loads plugins that want its symbols */
  ranks->mpi = library != NULL ? dlsym(library, RANKS_MODULE_SYMBOL) : NULL;
  if (ranks->mpi == NULL) {
    fail_input(error,
               "a launcher started %d processes, which this stepsim cannot join: it was built without MPI (%s); "
               "start one, or build it where mpicc is",
               launcher_n_processes(), dlerror());
    return NULL;
  }
  const gboolean ok = ranks_check(ranks->mpi->begin(&ranks->place), error) &&
                      launcher_check("stepsim", ranks->place.n_ranks, ranks->place.library, error);
  return ok ? g_steal_pointer(&ranks) : NULL;
}

void ranks_free(Ranks *ranks) {
  if (ranks != NULL)
    g_free(ranks->mpi->end(&ranks->place)); /* the library stays: MPI has handlers that run at exit */
  g_free(ranks);
}

gboolean ranks_agree(const Ranks *ranks, const GError *problem, GError **error) {
  const int n = ranks->place.n_ranks;
  g_autofree char(*all)[RANKS_PROBLEM_BYTES] = g_malloc0_n((gsize)n, sizeof *all);
  char own[RANKS_PROBLEM_BYTES] = "";
  if (problem != NULL)
    g_strlcpy(own, problem->message, sizeof own);
  if (!ranks_check(ranks->mpi->gather(own, all), error))
    return FALSE;
  for (int rank = 0; rank < n; rank++)
    if (all[rank][0] != '\0')
      return fail_input(error, "rank %d: %s", rank, all[rank]);
  return TRUE;
}
