/* MPI requests that are waited for together: sends and receives are started one by one, then tested together until all
 * are done. The caller owns the buffers; until then they must live, and those being sent must not change. Any thread
 * may call, but only one at a time per set. Errors are MPI's, with call, rank and line, as mpi_fail() fills them. */
#pragma once
#include "transfer_spec.h"

typedef struct {
  int n, capacity;       /* requests started and not yet seen done; the most there can be */
  MPI_Request *requests; /* [capacity] */
  MPI_Status *statuses;  /* [capacity]; of the last requests, once they are done */
} RequestSet;

/* Empty. */
void request_set_init(RequestSet *set, int capacity);
/* Frees the arrays, but not the requests: MPI keeps those still running. A zeroed set is fine. */
void request_set_clear(RequestSet *set);
/* Starts sending `bytes` (at most G_MAXINT, MPI's count) to rank `to` of the group's communicator. The set must not be
 * full. FALSE with the error set if MPI refuses; the set is then unchanged. */
gboolean request_set_send(RequestSet *set, MpiGroup *group, const void *data, gint64 bytes, int to, int tag,
                          GError **error);
/* Likewise starts receiving at most `bytes` from rank `from`; the status has the number received. */
gboolean request_set_receive(RequestSet *set, MpiGroup *group, void *data, gint64 bytes, int from, int tag,
                             GError **error);
/* Tests, without waiting, whether all requests are done; the set is then empty and can be reused. An empty set is done.
 * FALSE with the first failed request's error set, whatever *is_done is. */
gboolean request_set_test(RequestSet *set, MpiGroup *group, gboolean *is_done, GError **error);
