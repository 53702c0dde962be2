#include "launcher.h"

#include <string.h>

#include "error.h"

/* Where launchers write how many processes there are, and which this is. */
static const struct {
  const char *count, *rank, *name;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "Open MPI's launcher"}, /* PRRTE too */
    {"PMI_SIZE", "PMI_RANK", "MPICH's launcher"},                            /* Intel's, Cray's */
    {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MVAPICH's launcher"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "srun"},
    {"FLUX_JOB_SIZE", "FLUX_TASK_RANK", "Flux"},
    {NULL, "PMIX_RANK", "a PMIx launcher"},
};

/* What starts the ranks of an MPI, by a word of its name. */
static const struct {
  const char *library, *launcher;
} own_launchers[] = {
    {"Open MPI", "mpirun of Open MPI (mpirun.openmpi where several are installed)"},
    {"Intel", "mpirun of Intel MPI"},
    {"MVAPICH", "mpirun_rsh or mpiexec of MVAPICH"},
    {"MPICH", "mpirun of MPICH (mpirun.mpich or mpiexec.hydra where several are installed)"},
    {"", "that MPI's mpirun"},
};

/* −1: not there. */
static gint64 environment_number(const char *name) {
  const char *text = name != NULL ? g_getenv(name) : NULL;
  gint64 value;
  return text != NULL && g_ascii_string_to_signed(text, 10, 0, G_MAXINT, &value, NULL) ? value : -1;
}

/* The first that says it started several; −1: none. */
static int find_launcher(void) {
  for (gsize i = 0; i < G_N_ELEMENTS(launchers); i++)
    if (environment_number(launchers[i].count) > 1 && environment_number(launchers[i].rank) >= 0)
      return (int)i;
  return -1;
}

int launcher_n_processes(void) {
  const int found = find_launcher();
  return found < 0 ? 1 : (int)environment_number(launchers[found].count);
}

const char *launcher_rank(void) {
  const int found = find_launcher();
  for (gsize i = 0; found < 0 && i < G_N_ELEMENTS(launchers); i++)
    if (g_getenv(launchers[i].rank) != NULL)
      return g_getenv(launchers[i].rank);
  return found < 0 ? "?" : g_getenv(launchers[found].rank);
}

/* Whether some launcher says that there are so many: a launcher may be started by another. */
static gboolean is_said(int n_processes) {
  for (gsize i = 0; i < G_N_ELEMENTS(launchers); i++)
    if (environment_number(launchers[i].count) == n_processes)
      return TRUE;
  return FALSE;
}

gboolean launcher_check(const char *program, int n_seen, const char *library, GError **error) {
  const int found = find_launcher();
  if (found < 0 || n_seen > 1 || is_said(n_seen))
    return TRUE;
  gsize own = 0;
  while (strstr(library, own_launchers[own].library) == NULL)
    own++;
  return fail_input(error,
                    "%s started %s processes (%s), but each is alone for the MPI that this %s is built with; start "
                    "them with %s%s",
                    launchers[found].name, g_getenv(launchers[found].count), launchers[found].count, program,
                    own_launchers[own].launcher,
                    strcmp(launchers[found].name, "srun") == 0 ? ", or with srun --mpi=pmi2 or --mpi=pmix" : "");
}
