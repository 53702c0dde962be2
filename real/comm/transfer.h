/* One transfer between host memories, as a state machine that is stepped until it is done: nothing here blocks, so that
 * one thread can carry many. Messages and collectives share what a group of ranks needs. */
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
  gint n_started;      /* atomic: they start in the order they were issued, whatever streams they are on */
  gpointer scratch;    /* atomic: memory of a finished collective, for the next */
} MpiGroup;

typedef enum { TRANSFER_SEND, TRANSFER_RECEIVE, TRANSFER_COLLECTIVE } TransferKind;

/* What to do. Everything is in host memory. */
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

typedef struct MpiTransfer MpiTransfer;

MpiTransfer *transfer_new(const TransferSpec *spec);
/* Goes on as far as it can without waiting. FALSE: it failed. */
gboolean transfer_step(MpiTransfer *transfer, gboolean *is_done, GError **error);
/* Only a transfer that is done or was never stepped: MPI may still write into the memory of others. */
void transfer_free(MpiTransfer *transfer);

/* Requests that are waited for together. */
typedef struct {
  int n, capacity;
  MPI_Request *requests;
  MPI_Status *statuses; /* valid once done */
} RequestSet;

void request_set_init(RequestSet *set, int capacity);
void request_set_clear(RequestSet *set);
gboolean request_set_send(RequestSet *set, MpiGroup *group, const void *data, gint64 bytes, int to, int tag,
                          GError **error);
gboolean request_set_receive(RequestSet *set, MpiGroup *group, void *data, gint64 bytes, int from, int tag,
                             GError **error);
gboolean request_set_test(RequestSet *set, MpiGroup *group, gboolean *is_done, GError **error);
