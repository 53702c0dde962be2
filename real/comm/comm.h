/* How ranks exchange what is in device memory: `mpi` (host memory, staged where the device's is not), `nccl`, `null`
 * (one rank, or timing alone: moves nothing). One small table of functions each.
 *
 * Calls with a stream return at once; the transfer happens later in stream order. A transfer that fails makes the
 * device fail, with a message that names the call. */
#pragma once
#include "device.h"
#include "world.h"

typedef struct Comm Comm;
typedef struct CommGroup CommGroup;

typedef enum { REDUCE_SUM, REDUCE_MAX } ReduceKind;

/* One collective call. ALL_REDUCE: in[n] → out[n]. ALL_GATHER: in[n / size] → out[n], member i's part at i·n/size.
 * REDUCE_SCATTER: in[n] → out[n / size]. BROADCAST: from member 0. ALL_TO_ALL: in[n] → out[n], where part i of `in`, of
 * n/size, goes to member i and part i of `out` comes from it. SEND_RECV: in[n] → out[n] of the next member, the last
 * one's to the first: a ring's step. In place as NCCL has it: out = in, or the own part of the other; ALL_TO_ALL and
 * SEND_RECV not. */
typedef struct {
  Collective collective;
  ReduceKind reduce; /* of those that reduce */
  Number number;     /* FP32, BF16 or FP16 */
  const void *in;
  void *out;
  gint64 n; /* elements of the whole buffer; a multiple of the group's size where it is cut */
} CollectiveSpec;

typedef struct {
  const char *name; /* "mpi", "nccl", "null" */
  gboolean is_available;

  Comm *(*open)(World *world, Device *device, GError **error); /* collective over all ranks */
  void (*close)(Comm *comm);
  /* Give up: transfers under way end, later ones fail. Never blocks for long. */
  void (*abort)(Comm *comm);

  /* `members`: global ranks, ascending, this one among them. Collective over the members, who all call in the same
   * order; blocks until they do, so not while transfers are under way. A group of one moves nothing but copies where
   * input and output differ. Calls on a group start in the order they are made, on whatever streams. */
  CommGroup *(*group_new)(Comm *comm, const int *members, int n, GError **error);
  void (*group_free)(CommGroup *group);

  /* `spec` is read before it returns. */
  void (*collective)(CommGroup *group, DeviceStream *stream, const CollectiveSpec *spec);
  /* All-reduces `n` doubles in device memory, in place: losses and norms. */
  void (*all_reduce_doubles)(CommGroup *group, DeviceStream *stream, double *values, int n);

  /* Point to point along one direction of the pipeline: a Channel joins two ranks for one Stream (SEND_F and RECV_F are
   * the two ends of one). Both ends call channel_new, in the same order for equal pairs; waits for nobody. One channel
   * per (from, to, is_forward) at a time. A receive whose tag or length is not what was sent fails and says both. */
  CommGroup *(*channel_new)(Comm *comm, int from, int to, gboolean is_forward, GError **error);
  void (*send)(CommGroup *channel, DeviceStream *stream, int tag, const void *data, gint64 bytes);
  void (*receive)(CommGroup *channel, DeviceStream *stream, int tag, void *data, gint64 bytes);

  /* Between them, calls are one (ncclGroupStart, ncclGroupEnd). May nest. */
  void (*batch_begin)(Comm *comm);
  void (*batch_end)(Comm *comm);
} CommType;

struct Comm {
  const CommType *type;
};
struct CommGroup {
  Comm *comm;
};

/* Opens `type` in the world, which from then on aborts it before it ends this process because of another rank; one at a
 * time. NULL is fine to stop. */
Comm *comm_start(const CommType *type, World *world, Device *device, GError **error);
void comm_stop(Comm *comm, World *world);

const CommType *comm_find(const char *name, GError **error);
const char *const *comm_names(void);

extern const CommType mpi_comm;
extern const CommType nccl_comm;
extern const CommType null_comm;
