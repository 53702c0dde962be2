/* Communication between ranks on device memory. Back ends, each a small table of functions: `mpi` (host memory; other
 * device memory is staged through it), `nccl`, `null` (one rank, or timing only: moves nothing).
 *
 * Calls with a stream return at once; the transfer happens later in stream order. A failed transfer puts the
 * device in the failed state, with a message that names the call. */
#pragma once
#include "device.h"
#include "world.h"

typedef struct Comm Comm;
typedef struct CommGroup CommGroup;

typedef enum { REDUCE_SUM, REDUCE_MAX } ReduceKind;

/* One collective call. ALL_REDUCE: in[n] → out[n]. ALL_GATHER: in[n / size] → out[n], member i's part at i·n/size.
 * REDUCE_SCATTER: in[n] → out[n / size]. BROADCAST: from member 0. ALL_TO_ALL: in[n] → out[n]; part i of `in`
 * (n/size elements) goes to member i, and part i of `out` comes from it. SEND_RECV: in[n] → out[n] of the next
 * member, wrapping around: one step of a ring. In-place calls follow NCCL: out = in, or one buffer is this member's
 * part of the other. ALL_TO_ALL and SEND_RECV cannot run in place. */
typedef struct {
  Collective collective;
  ReduceKind reduce; /* reducing collectives only */
  Number number;     /* FP32, BF16 or FP16 */
  const void *in;
  void *out;
  gint64 n; /* elements of the whole buffer; a multiple of the group's size if it is split */
} CollectiveSpec;

typedef struct {
  const char *name; /* "mpi", "nccl", "null" */
  gboolean is_available;

  Comm *(*open)(World *world, Device *device, GError **error); /* collective over all ranks */
  void (*close)(Comm *comm);
  /* Ends transfers in flight; later ones fail. Never blocks for long. */
  void (*abort)(Comm *comm);

  /* `members`: global ranks, ascending, including this one. Collective: all members must create their groups in the
   * same order. Blocks until they do, so do not call it with transfers in flight. A group of one only copies, if
   * input and output differ. Calls on a group start in the order they are made, whatever streams they are on. */
  CommGroup *(*group_new)(Comm *comm, const int *members, int n, GError **error);
  void (*group_free)(CommGroup *group);

  /* `spec` need not outlive the call. */
  void (*collective)(CommGroup *group, DeviceStream *stream, const CollectiveSpec *spec);
  /* All-reduces `n` doubles in device memory, in place: losses and norms. */
  void (*all_reduce_doubles)(CommGroup *group, DeviceStream *stream, double *values, int n);

  /* Point to point along one direction of the pipeline: a channel joins two ranks for one Stream (SEND_F and RECV_F
   * are its two ends). Both ends call channel_new, in the same order for equal pairs; it does not block. One channel
   * per (from, to, is_forward) at a time. A receive whose tag or length differs from the send's fails and reports
   * both. */
  CommGroup *(*channel_new)(Comm *comm, int from, int to, gboolean is_forward, GError **error);
  void (*send)(CommGroup *channel, DeviceStream *stream, int tag, const void *data, gint64 bytes);
  void (*receive)(CommGroup *channel, DeviceStream *stream, int tag, void *data, gint64 bytes);

  /* Calls in between are issued as one (ncclGroupStart, ncclGroupEnd). May nest. */
  void (*batch_begin)(Comm *comm);
  void (*batch_end)(Comm *comm);
} CommType;

struct Comm {
  const CommType *type;
};
struct CommGroup {
  Comm *comm;
};

/* Collective: finds out which ranks share a processor (world.h). */
void comm_find_sharers(World *world, const DeviceType *device);
/* Opens this rank's processor, whose sharers are set if they have been found. */
Device *comm_open_device(World *world, const DeviceType *type, gint64 capacity_bytes, GError **error);

/* Opens `type` and registers it with the world, which aborts it before ending this process because of another rank.
 * One at a time. comm_stop(NULL) is fine. */
Comm *comm_start(const CommType *type, World *world, Device *device, GError **error);
void comm_stop(Comm *comm, World *world);

const CommType *comm_find(const char *name, GError **error);
const char *const *comm_names(void);

/* Of a back end all of whose functions are called PREFIX_NAME. */
#define COMM_FUNCTIONS(prefix)                                                                                         \
  .open = prefix##_open, .close = prefix##_close, .abort = prefix##_abort, .group_new = prefix##_group_new,            \
  .group_free = prefix##_group_free, .collective = prefix##_collective,                                                \
  .all_reduce_doubles = prefix##_all_reduce_doubles, .channel_new = prefix##_channel_new, .send = prefix##_send,       \
  .receive = prefix##_receive, .batch_begin = prefix##_batch_begin, .batch_end = prefix##_batch_end

extern const CommType mpi_comm;
extern const CommType nccl_comm;
extern const CommType null_comm;
