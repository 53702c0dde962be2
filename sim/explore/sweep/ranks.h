/* The processes of one launch (mpirun, srun): one that keeps the results, others that only try configurations. */
#pragma once
#include <glib.h>

typedef struct Ranks Ranks;

/* Processes that a launcher says this one was started with; 1: none did. Reads the environment alone. */
int ranks_launched(void);
/* Whether it is another than the first of them, which speaks for all. */
gboolean ranks_is_other(void);

/* Meet the others; MPI is loaded for this. INPUT when it is not there, IMPOSSIBLE when it fails. */
Ranks *ranks_join(GError **error);
/* Part from them; every rank must. */
void ranks_free(Ranks *ranks);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Ranks, ranks_free)

int ranks_rank(const Ranks *ranks);
int ranks_count(const Ranks *ranks);
int ranks_on_this_machine(const Ranks *ranks);

/* IMPOSSIBLE naming the call that failed. */
gboolean ranks_send(Ranks *ranks, int to, int tag, gconstpointer bytes, gsize n_bytes, GError **error);
/* A message that has come, in `bytes`; *tag −1 when there is none. */
gboolean ranks_poll(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error);
/* The same, but waits for one. */
gboolean ranks_wait(Ranks *ranks, int *from, int *tag, GByteArray *bytes, GError **error);
