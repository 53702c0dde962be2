/* The processes of one launch (mpirun, srun): the first keeps the results, the others only try configurations. */
#pragma once
#include <glib.h>

typedef struct Ranks Ranks;

/* Join the others that a launcher started (launcher.h); loads MPI. INPUT if MPI is not there or the launcher is another
 * MPI's, IMPOSSIBLE if MPI fails. */
Ranks *ranks_join(GError **error);
/* Leave; every rank must call it. */
void ranks_free(Ranks *ranks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Ranks, ranks_free)

int ranks_rank(const Ranks *ranks);
int ranks_count(const Ranks *ranks);
int ranks_on_this_machine(const Ranks *ranks);

/* IMPOSSIBLE naming the call that failed. */
gboolean ranks_send(Ranks *ranks, int to, int tag, gconstpointer bytes, gsize n_bytes, GError **error);
/* A received message, in `bytes`; *tag −1 if there is none. */
gboolean ranks_poll(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error);
/* The same, but blocks until one arrives. */
gboolean ranks_wait(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error);
