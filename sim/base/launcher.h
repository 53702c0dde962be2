/* What MPI's launchers and Slurm say in the environment about the processes they start together. */
#pragma once
#include <glib.h>

/* How many the launcher says it started together with this one; 1: no launcher. */
int launcher_n_processes(void);
/* Which of them this is, as the launcher wrote it; "?" if none did. Borrowed. */
const char *launcher_rank(void);
/* INPUT if the launcher started several processes, of which an MPI called `library` (as MPI_Get_library_version()
 * has it) sees but this one: it is the launcher of another MPI, and each process would do all the work. The message
 * names the variable that says so and the launcher to use. `program` is the one to be started. */
gboolean launcher_check(const char *program, int n_seen, const char *library, GError **error);
