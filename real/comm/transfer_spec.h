/* Describes one transfer and the group or channel it uses. */
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
