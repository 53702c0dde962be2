/* Requests of MPI that are waited for together: sends and receives are begun one by one, then all of them tested until
 * they are done. What is sent from and received into is the caller's, and must live and, of sends, stay as it is until
 * then. All functions may be called from any thread, one at a time for a set. Errors are those of MPI, with call, rank
 * and line, as mpi_fail() fills them. */
#pragma once
#include "transfer_spec.h"

typedef struct {
  int n, capacity;       /* requests begun and not yet seen done; at most as many */
  MPI_Request *requests; /* [capacity] */
  MPI_Status *statuses;  /* [capacity]; those of the last requests, once they are done */
} RequestSet;

/* Empty. */
void request_set_init(RequestSet *set, int capacity);
/* Frees the arrays, not requests: those that run on are MPI's. Takes a zeroed set. */
void request_set_clear(RequestSet *set);
/* Begins to send `bytes` (at most G_MAXINT, MPI's count) to rank `to` of the group's communicator. The set is not full.
 * FALSE with the error set: MPI did not take it, and the set is as before. */
gboolean request_set_send(RequestSet *set, MpiGroup *group, const void *data, gint64 bytes, int to, int tag,
                          GError **error);
/* The same of a receive of at most `bytes` from rank `from`; how many came is in its status. */
gboolean request_set_receive(RequestSet *set, MpiGroup *group, void *data, gint64 bytes, int from, int tag,
                             GError **error);
/* Whether all have ended; does not wait. Then the set is empty again, for the next. Nothing begun: done. FALSE with the
 * first failed request's error set, whatever *is_done is. */
gboolean request_set_test(RequestSet *set, MpiGroup *group, gboolean *is_done, GError **error);
