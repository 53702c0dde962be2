/* Private to communication over MPI: a transfer between host memories, as a state machine stepped until it is done, and
 * what it is made of. Nothing here blocks, so one thread can run many transfers. */
#pragma once
#include "reduce.h"
#include "world_state.h"

/* The ranks of a group, or the two ends of a channel. */
typedef struct {
  CommGroup base;
  World *world;
  gint *is_aborted;    /* atomic, of the communication as a whole */
  MPI_Comm comm;       /* a group's own (MPI_COMM_NULL for one member); shared by all channels of a direction */
  int rank, size;      /* within it */
  int peer;            /* channel: the other end, a global rank; −1 for a group */
  int max_tag;         /* largest tag this MPI carries */
  gboolean is_channel; /* `comm` is not its own */
  gint64 key;          /* of a channel */
  guint n_issued;      /* transfers so far, by the thread that issues */
  gint n_started;      /* atomic: transfers start in the order issued, whatever streams they are on */
  gpointer scratch;    /* atomic: memory of a finished collective, reused by the next */
} MpiGroup;

typedef enum { TRANSFER_SEND, TRANSFER_RECEIVE, TRANSFER_COLLECTIVE } TransferKind;

/* One transfer. All buffers are in host memory. */
typedef struct {
  TransferKind kind;
  MpiGroup *group;
  guint ticket; /* place in the order of the group */
  int tag;      /* SEND, RECEIVE */
  Collective collective;
  ReduceKind reduce;
  Element element;
  const void *in; /* SEND, COLLECTIVE */
  void *out;      /* RECEIVE, COLLECTIVE */
  gint64 n;       /* bytes of a message, elements of a collective */
} TransferSpec;

/* --- requests: sends and receives started one by one, then tested together ---------------------------------------
 *
 * The caller owns the buffers; until all are done they must live, and those being sent must not change. Any thread may
 * call, but only one at a time per set. Errors are MPI's, with call, rank and line, as mpi_fail() fills them. */

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

/* --- a collective of a group --- */

typedef struct Exchange Exchange;

Exchange *exchange_new(const TransferSpec *spec); /* copied */
gboolean exchange_step(Exchange *exchange, gboolean *is_done, GError **error);
void exchange_free(Exchange *exchange);
/* Frees MpiGroup.scratch, where exchanges keep memory. NULL is fine. */
void exchange_scratch_free(gpointer scratch);

/* --- a message or a collective --- */

typedef struct MpiTransfer MpiTransfer;

MpiTransfer *transfer_new(const TransferSpec *spec);
/* Advances as far as possible without waiting. FALSE: it failed. */
gboolean transfer_step(MpiTransfer *transfer, gboolean *is_done, GError **error);
/* Only for a transfer that is done or was never stepped: MPI may still write to any other's memory. */
void transfer_free(MpiTransfer *transfer);
