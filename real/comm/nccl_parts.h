/* Private to the NCCL back end, shared by its two files: nccl_group.c opens and ends communicators, nccl_comm.c
 * transfers over them. */
#pragma once
#include "comm.h"
#include "nccl_library.h"

typedef struct {
  Comm comm;
  NcclLibrary nccl;
  World *world;
  Device *device;
  int n_multiprocessors; /* of the rank's GPU that has fewest */
  GPtrArray *groups;     /* of NcclGroup, owned */
  guint n_settled;       /* so many at the start of `groups` are ready for transfers */
  int depth;             /* nesting of batches */
  double timeout_s;      /* for a communicator to be made, or to end */
  gboolean is_left;      /* to a thread that waits for other ranks, and still reads it */
  GMutex lock;           /* held to query a communicator's state and to abort communicators */
  gint is_aborted;       /* atomic */
} NcclComm;

typedef struct {
  CommGroup group;
  ncclComm_t handle; /* atomic; NULL: a group of one, or not settled yet */
  ncclUniqueId id;
  int n, own;    /* number of members; this rank's index */
  int most_ctas; /* multiprocessors that its kernels may take */
  gboolean is_channel, is_sender;
  int ends[2]; /* of a channel: its ranks, ascending */
} NcclGroup;

/* All NCCL calls, nccl##call, go through this macro: TRUE for success and "in progress" (which a call that is under way
 * in another thread is), else FALSE with an error that names rank, call, NCCL's message and line. `handle` NULL: not
 * about one communicator. */
#define NCCL_CALL(comm, call, error)                                                                                   \
  nccl_check((comm), NULL, (comm)->nccl.call, "nccl" #call, __FILE__, __LINE__, (error))
gboolean nccl_check(const NcclComm *comm, ncclComm_t handle, ncclResult_t result, const char *call, const char *file,
                    int line, GError **error);

/* Its communicator, for who ends it: one caller gets it, any other NULL. */
ncclComm_t nccl_take_handle(NcclGroup *group);
/* A communicator's current state; ncclInternalError once aborted, when it can no longer be queried. */
ncclResult_t nccl_state(NcclComm *comm, const NcclGroup *group);

CommGroup *nccl_group_new(Comm *comm, const int *members, int n, GError **error);
CommGroup *nccl_channel_new(Comm *comm, int from, int to, gboolean is_forward, GError **error);
/* Makes the groups and channels opened since the last call ready for transfers. */
gboolean nccl_settle(NcclComm *comm, GError **error);
/* Ends all communicators, together with their other members. */
gboolean nccl_finish_all(NcclComm *comm);
