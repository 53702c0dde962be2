/* Inside the NCCL communication: what its two files share. nccl_group.c opens and ends communicators, nccl_comm.c
 * transfers over them. */
#pragma once
#include "comm.h"
#include "nccl_library.h"

typedef struct {
  Comm comm;
  NcclLibrary nccl;
  World *world;
  Device *device;
  GPtrArray *groups; /* of NcclGroup, owned */
  guint n_settled;   /* the first ones of groups: ready for transfers */
  GPtrArray *batch;  /* of NcclGroup: used in the batch that is open */
  int depth;         /* of batches */
  GMutex lock;       /* held while a communicator is asked for its state, and to abort them */
  gint is_aborted;   /* atomic */
} NcclComm;

typedef struct {
  CommGroup group;
  ncclComm_t handle; /* NULL: a group of one, or a channel that is not settled yet */
  int n, own;        /* members; which one this rank is */
  gboolean is_channel, is_sender;
  int ends[2]; /* of a channel: its ranks, ascending */
} NcclGroup;

/* The one way NCCL is called, nccl##call: TRUE for success and "in progress", else FALSE with the error that names
 * rank, call, what NCCL says, and line. `handle` NULL: not of one communicator. */
#define NCCL_CALL(comm, call, error)                                                                                   \
  nccl_check((comm), NULL, (comm)->nccl.call, "nccl" #call, __FILE__, __LINE__, (error))
gboolean nccl_check(const NcclComm *comm, ncclComm_t handle, ncclResult_t result, const char *call, const char *file,
                    int line, GError **error);

/* A communicator's state now; ncclInternalError once aborted, when there is nothing left to ask. */
ncclResult_t nccl_state(NcclComm *comm, const NcclGroup *group);
/* Until the group's last call is no longer in progress. `what` names it for the error. */
gboolean nccl_await(NcclComm *comm, const NcclGroup *group, const char *what, GError **error);

CommGroup *nccl_group_new(Comm *comm, const int *members, int n, GError **error);
CommGroup *nccl_channel_new(Comm *comm, int from, int to, gboolean is_forward, GError **error);
/* Brings what was opened since the last time into use. */
gboolean nccl_settle(NcclComm *comm, GError **error);
/* Ends all communicators together with their other members. */
gboolean nccl_finish_all(NcclComm *comm);
