/* Communication between GPUs through NCCL: a communicator for each group, and one of two ranks for each channel.
 *
 * Communicators are non-blocking (config.blocking = 0): a call that would wait for other ranks answers "in progress"
 * and is asked about until a deadline, so that a missing rank is an error and not a hang.
 *
 *     group_new, channel_new     id from the first member through the world; initialisation starts
 *     first transfer  (settle)   all initialisations end; all channels connect, at once: one after another could wait
 * in a circle (0→1, 1→2, 2→0). Groups connect when they are initialised transfer                   is on the stream
 * when the call returns
 *
 * So groups and channels are opened before the first transfer, or by all ranks between the same two. */
#include "comm.h"
#include "cuda_call.h"
#include "cuda_device.h"

#include <nccl.h>
#include <stdlib.h>
#include <unistd.h>

static const gint64 TIMEOUT_US = 120 * G_USEC_PER_SEC; /* initialisation on thousands of ranks takes tens of seconds */
static const gint64 ABORT_US = 2 * G_USEC_PER_SEC;

typedef struct {
  Comm comm;
  World *world;
  Device *device;
  GPtrArray *groups; /* of NcclGroup, owned */
  guint n_settled;   /* the first ones of groups: initialised and connected */
  GPtrArray *batch;  /* of NcclGroup: used in the batch that is open */
  int depth;         /* of batches */
  GMutex lock;       /* held while a communicator is asked for its state, and to abort them */
  gint is_aborted;   /* atomic */
} NcclComm;

typedef struct {
  CommGroup group;
  ncclComm_t handle; /* NULL: a group of one */
  int n, own;        /* members; which one this rank is */
  gboolean is_channel, is_sender;
} NcclGroup;

#define NCCL_CALL(comm, call, error) nccl_check((comm), NULL, (call), #call, __LINE__, (error))

static NcclComm *comm_of(const CommGroup *group) {
  return (NcclComm *)group->comm;
}

static gboolean nccl_check(const NcclComm *comm, ncclComm_t handle, ncclResult_t result, const char *call, int line,
                           GError **error) {
  if (result == ncclSuccess || result == ncclInProgress)
    return TRUE;
  return fail_impossible(error, "rank %d: %s: %s; %s (nccl_comm.c:%d)", world_rank(comm->world), call,
                         ncclGetErrorString(result), ncclGetLastError(handle), line);
}

static void fail_device(NcclComm *comm, GError *error) {
  cuda_device_fail(comm->device, error);
}

/* Its state now; ncclInternalError once aborted, when there is nothing left to ask. */
static ncclResult_t ask_state(NcclComm *comm, const NcclGroup *group) {
  ncclResult_t state = ncclInternalError;
  g_mutex_lock(&comm->lock);
  if (!g_atomic_int_get(&comm->is_aborted)) {
    const ncclResult_t result = ncclCommGetAsyncError(group->handle, &state);
    if (result != ncclSuccess)
      state = result;
  }
  g_mutex_unlock(&comm->lock);
  return state;
}

/* Until the group's last call is no longer in progress. `what` names it for the error. */
static gboolean await(NcclComm *comm, const NcclGroup *group, const char *what, GError **error) {
  const gint64 start = g_get_monotonic_time();
  ncclResult_t state;
  while ((state = ask_state(comm, group)) == ncclInProgress) {
    const gint64 waited = g_get_monotonic_time() - start;
    if (waited > TIMEOUT_US)
      return fail_impossible(error, "rank %d: NCCL %s of %d ranks has not ended after %d s", world_rank(comm->world),
                             what, group->n, (int)(TIMEOUT_US / G_USEC_PER_SEC));
    if (cuda_device_has_failed(comm->device))
      return fail_impossible(error, "rank %d: NCCL %s given up: the device has failed", world_rank(comm->world), what);
    if (waited > 100)
      g_usleep(20);
  }
  if (g_atomic_int_get(&comm->is_aborted))
    return fail_impossible(error, "rank %d: NCCL %s aborted", world_rank(comm->world), what);
  return nccl_check(comm, group->handle, state, what, __LINE__, error);
}

/* ---- opening ---- */

/* NCCL refuses two ranks of a communicator on one GPU of one host. Ranks that share a GPU say that they are on
 * different hosts, those with equal turns on their GPUs on the same: between these NVLink is still used. */
static gboolean prepare_environment(const NcclComm *comm, GError **error) {
  setenv("NCCL_RUNTIME_CONNECT", "0", FALSE); /* all algorithms connect when the communicator is made */
  if (cuda_device_n_sharers(comm->device) <= 1)
    return TRUE;
  int n_gpus = 1;
  if (!CUDA_CALL(cudaGetDeviceCount(&n_gpus), error))
    return FALSE;
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  g_autofree char *id = g_strdup_printf("%s-%d", host, world_local_rank(comm->world) / n_gpus);
  setenv("NCCL_HOSTID", id, FALSE);
  return TRUE;
}

/* For the device, while it waits: an error of any communicator. */
static gboolean watch(gpointer data, GError **error) {
  NcclComm *comm = data;
  for (guint i = 0; i < comm->groups->len; i++) {
    const NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL && !g_atomic_int_get(&comm->is_aborted) &&
        !nccl_check(comm, group->handle, ask_state(comm, group), "a transfer under way", __LINE__, error))
      return FALSE;
  }
  return TRUE;
}

static void close_comm(Comm *base);

static Comm *open_comm(World *world, Device *device, GError **error) {
  if (device->type != &cuda_device) {
    fail_input(error, "NCCL moves data between GPUs: it needs the device \"cuda\", not \"%s\"", device->type->name);
    return NULL;
  }
  NcclComm *comm = g_new0(NcclComm, 1);
  comm->comm.type = &nccl_comm;
  comm->world = world;
  comm->device = device;
  comm->groups = g_ptr_array_new_with_free_func(g_free);
  comm->batch = g_ptr_array_new();
  g_mutex_init(&comm->lock);
  if (prepare_environment(comm, error)) {
    cuda_device_set_watch(device, watch, comm);
    return &comm->comm;
  }
  close_comm(&comm->comm);
  return NULL;
}

/* Starts the initialisation; settle() waits for it. */
static gboolean start_group(NcclComm *comm, NcclGroup *group, const int *members, GError **error) {
  ncclUniqueId id = {{0}};
  if (!CUDA_CALL(cudaSetDevice(cuda_device_ordinal(comm->device)), error) ||
      (group->own == 0 && !NCCL_CALL(comm, ncclGetUniqueId(&id), error)) ||
      !world_share(comm->world, members, group->n, &id, sizeof id, error))
    return FALSE;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return NCCL_CALL(comm, ncclCommInitRankConfig(&group->handle, group->n, id, group->own, &config), error);
}

static NcclGroup *add_group(NcclComm *comm, const int *members, int n, GError **error) {
  NcclGroup *group = g_new0(NcclGroup, 1);
  group->group.comm = &comm->comm;
  group->n = n;
  group->own = -1;
  for (int i = 0; i < n; i++)
    if (members[i] == world_rank(comm->world))
      group->own = i;
  g_assert(group->own >= 0);
  if (n > 1 && !start_group(comm, group, members, error)) {
    g_free(group);
    return NULL;
  }
  g_ptr_array_add(comm->groups, group);
  return group;
}

static CommGroup *group_new(Comm *base, const int *members, int n, GError **error) {
  return (CommGroup *)add_group((NcclComm *)base, members, n, error);
}

static CommGroup *channel_new(Comm *base, int from, int to, gboolean is_forward, GError **error) {
  const int members[2] = {MIN(from, to), MAX(from, to)};
  g_assert(from != to);
  NcclGroup *group = add_group((NcclComm *)base, members, 2, error);
  if (group == NULL)
    return NULL;
  group->is_channel = TRUE;
  group->is_sender = from == world_rank(((NcclComm *)base)->world);
  return &group->group;
}

/* A few bytes over a channel that was not used yet, on a stream of its own: streams of several channels are free to run
 * in any order. Called within one NCCL group for all channels. */
static gboolean start_connecting(NcclComm *comm, const NcclGroup *group, void *memory, cudaStream_t *stream,
                                 GError **error) {
  const int peer = 1 - group->own;
  if (!CUDA_CALL(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), error))
    return FALSE;
  return group->is_sender
             ? NCCL_CALL(comm, ncclSend(memory, 4, ncclInt8, peer, group->handle, *stream), error)
             : NCCL_CALL(comm, ncclRecv((char *)memory + 128, 4, ncclInt8, peer, group->handle, *stream), error);
}

/* Until what was put on the streams has run; polled, so that it can end without them. */
static gboolean await_streams(const NcclComm *comm, const GPtrArray *streams, GError **error) {
  const gint64 start = g_get_monotonic_time();
  for (guint i = 0; i < streams->len; i++) {
    cudaError_t status;
    while ((status = cudaStreamQuery(g_ptr_array_index(streams, i))) == cudaErrorNotReady) {
      if (g_get_monotonic_time() - start > TIMEOUT_US || cuda_device_has_failed(comm->device))
        return fail_impossible(error, "rank %d: NCCL channels do not connect", world_rank(comm->world));
      g_usleep(50);
    }
    if (!CUDA_CALL(status, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean connect_channels(NcclComm *comm, GPtrArray *channels, GError **error) {
  void *memory = NULL;
  if (channels->len == 0)
    return TRUE;
  if (!CUDA_CALL(cudaMalloc(&memory, 256), error))
    return FALSE;
  g_autoptr(GPtrArray) streams = g_ptr_array_new();
  gboolean ok = NCCL_CALL(comm, ncclGroupStart(), error);
  for (guint i = 0; ok && i < channels->len; i++) {
    cudaStream_t stream = NULL;
    ok = start_connecting(comm, g_ptr_array_index(channels, i), memory, &stream, error);
    if (stream != NULL)
      g_ptr_array_add(streams, stream);
  }
  ok = NCCL_CALL(comm, ncclGroupEnd(), ok ? error : NULL) && ok;
  for (guint i = 0; ok && i < channels->len; i++)
    ok = await(comm, g_ptr_array_index(channels, i), "connection of a channel", error);
  ok = ok && await_streams(comm, streams, error);
  for (guint i = 0; ok && i < streams->len; i++)
    (void)cudaStreamDestroy(g_ptr_array_index(streams, i));
  if (ok) /* else something may still be using it: it is left to the process's end */
    (void)cudaFree(memory);
  return ok;
}

/* Brings what was opened since the last time into use. */
static gboolean settle(NcclComm *comm, GError **error) {
  if (comm->n_settled == comm->groups->len)
    return TRUE;
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  for (guint i = comm->n_settled; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL && !await(comm, group, "initialisation", error))
      return FALSE;
    if (group->is_channel)
      g_ptr_array_add(channels, group);
  }
  if (!connect_channels(comm, channels, error))
    return FALSE;
  comm->n_settled = comm->groups->len;
  return TRUE;
}

/* ---- transfers ---- */

/* FALSE: nothing can be transferred (any more). */
static gboolean enter(NcclComm *comm) {
  GError *error = NULL;
  if (cuda_device_has_failed(comm->device))
    return FALSE;
  if (g_atomic_int_get(&comm->is_aborted))
    fail_impossible(&error, "rank %d: NCCL was aborted", world_rank(comm->world));
  else if (CUDA_CALL(cudaSetDevice(cuda_device_ordinal(comm->device)), &error) && settle(comm, &error))
    return TRUE;
  fail_device(comm, error);
  return FALSE;
}

/* After a call on the group: on its stream now, or when the batch ends. */
static void leave(NcclComm *comm, NcclGroup *group, ncclResult_t result, const char *call, int line) {
  GError *error = NULL;
  if (!nccl_check(comm, group->handle, result, call, line, &error) ||
      (comm->depth == 0 && result == ncclInProgress && !await(comm, group, call, &error)))
    fail_device(comm, error);
  else if (comm->depth > 0)
    g_ptr_array_add(comm->batch, group);
}

#define NCCL_TRANSFER(comm, group, call) leave((comm), (group), (call), #call, __LINE__)

static ncclDataType_t data_type(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16);
  return number == NUMBER_FP32 ? ncclFloat32 : number == NUMBER_BF16 ? ncclBfloat16 : ncclFloat16;
}

static void collective(CommGroup *base, DeviceStream *stream, Collective kind, ReduceKind reduce, Number number,
                       const void *in, void *out, gint64 n) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  if (group->handle == NULL) {
    if (in != out)
      comm->device->type->copy(stream, out, in, n * kernel_element_bytes(number));
    return;
  }
  if (!enter(comm))
    return;
  const ncclRedOp_t operation = reduce == REDUCE_MAX ? ncclMax : ncclSum;
  const ncclDataType_t type = data_type(number);
  const gsize all = (gsize)n, part = (gsize)(n / group->n);
  cudaStream_t s = cuda_stream_handle(stream);
  switch (kind) {
  case COLLECTIVE_ALL_REDUCE:
    NCCL_TRANSFER(comm, group, ncclAllReduce(in, out, all, type, operation, group->handle, s));
    break;
  case COLLECTIVE_ALL_GATHER:
    NCCL_TRANSFER(comm, group, ncclAllGather(in, out, part, type, group->handle, s));
    break;
  case COLLECTIVE_REDUCE_SCATTER:
    NCCL_TRANSFER(comm, group, ncclReduceScatter(in, out, part, type, operation, group->handle, s));
    break;
  case COLLECTIVE_BROADCAST:
    NCCL_TRANSFER(comm, group, ncclBroadcast(in, out, all, type, 0, group->handle, s));
    break;
  default:
    g_assert_not_reached();
  }
}

static void all_reduce_doubles(CommGroup *base, DeviceStream *stream, double *values, int n) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  if (group->handle != NULL && enter(comm))
    NCCL_TRANSFER(
        comm, group,
        ncclAllReduce(values, values, (gsize)n, ncclDouble, ncclSum, group->handle, cuda_stream_handle(stream)));
}

/* NCCL has no tags: what is sent over a channel is received in the same order. */
static void send_data(CommGroup *base, DeviceStream *stream, int tag, const void *data, gint64 bytes) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  g_assert(group->is_channel && group->is_sender);
  if (enter(comm))
    NCCL_TRANSFER(comm, group,
                  ncclSend(data, (gsize)bytes, ncclInt8, 1 - group->own, group->handle, cuda_stream_handle(stream)));
}

static void receive_data(CommGroup *base, DeviceStream *stream, int tag, void *data, gint64 bytes) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  g_assert(group->is_channel && !group->is_sender);
  if (enter(comm))
    NCCL_TRANSFER(comm, group,
                  ncclRecv(data, (gsize)bytes, ncclInt8, 1 - group->own, group->handle, cuda_stream_handle(stream)));
}

static void batch_begin(Comm *base) {
  NcclComm *comm = (NcclComm *)base;
  GError *error = NULL;
  if (comm->depth == 0 && !enter(comm))
    return; /* nothing will be transferred in it */
  if (NCCL_CALL(comm, ncclGroupStart(), &error))
    comm->depth++;
  else
    fail_device(comm, error);
}

static void batch_end(Comm *base) {
  NcclComm *comm = (NcclComm *)base;
  GError *error = NULL;
  if (comm->depth == 0)
    return;
  gboolean ok = NCCL_CALL(comm, ncclGroupEnd(), &error);
  if (--comm->depth > 0 && ok)
    return;
  for (guint i = 0; ok && i < comm->batch->len; i++)
    ok = await(comm, g_ptr_array_index(comm->batch, i), "batch", &error);
  if (comm->depth == 0)
    g_ptr_array_set_size(comm->batch, 0);
  if (!ok)
    fail_device(comm, error);
}

/* ---- ending ---- */

typedef struct {
  NcclComm *comm;
  gint is_done; /* atomic */
  gint n_holders;
} Abort;

static void abort_unref(Abort *job) {
  if (g_atomic_int_dec_and_test(&job->n_holders))
    g_free(job);
}

static gpointer abort_all(gpointer data) {
  Abort *job = data;
  NcclComm *comm = job->comm;
  (void)cudaSetDevice(cuda_device_ordinal(comm->device));
  for (guint i = 0; i < comm->groups->len; i++) {
    const NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL)
      (void)ncclCommAbort(group->handle);
  }
  g_atomic_int_set(&job->is_done, TRUE);
  abort_unref(job);
  return NULL;
}

/* In a thread of its own, given two seconds: ncclCommAbort waits for calls under way in other threads. Any thread. */
static void abort_comm(Comm *base) {
  NcclComm *comm = (NcclComm *)base;
  g_mutex_lock(&comm->lock);
  const gboolean is_first = !g_atomic_int_get(&comm->is_aborted);
  g_atomic_int_set(&comm->is_aborted, TRUE);
  g_mutex_unlock(&comm->lock);
  if (!is_first)
    return;
  Abort *job = g_new0(Abort, 1);
  *job = (Abort){comm, FALSE, 2};
  g_thread_unref(g_thread_new("nccl abort", abort_all, job));
  const gint64 start = g_get_monotonic_time();
  while (!g_atomic_int_get(&job->is_done) && g_get_monotonic_time() - start < ABORT_US)
    g_usleep(1000);
  abort_unref(job);
}

/* All are told to finish before any is waited for: each waits for its other members. */
static gboolean finish_all(NcclComm *comm) {
  gboolean ok = TRUE;
  for (guint i = 0; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL)
      ok = NCCL_CALL(comm, ncclCommFinalize(group->handle), NULL) && ok;
  }
  for (guint i = 0; ok && i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    ok = group->handle == NULL || await(comm, group, "end", NULL);
  }
  for (guint i = 0; ok && i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL)
      ok = NCCL_CALL(comm, ncclCommDestroy(g_steal_pointer(&group->handle)), NULL) && ok;
  }
  return ok;
}

static void close_comm(Comm *base) {
  if (base == NULL)
    return;
  NcclComm *comm = (NcclComm *)base;
  cuda_device_set_watch(comm->device, NULL, NULL);
  if (!g_atomic_int_get(&comm->is_aborted) &&
      (cuda_device_has_failed(comm->device) || !settle(comm, NULL) || !finish_all(comm)))
    abort_comm(base);
  if (g_atomic_int_get(&comm->is_aborted))
    return; /* the aborting thread may still look at it */
  g_ptr_array_unref(comm->groups);
  g_ptr_array_unref(comm->batch);
  g_mutex_clear(&comm->lock);
  g_free(comm);
}

/* Communicators end together, with the Comm: ending one alone would wait for its other members. */
static void group_free(CommGroup *group) {
}

const CommType nccl_comm = {
    .name = "nccl",
    .is_available = TRUE,
    .open = open_comm,
    .close = close_comm,
    .abort = abort_comm,
    .group_new = group_new,
    .group_free = group_free,
    .collective = collective,
    .all_reduce_doubles = all_reduce_doubles,
    .channel_new = channel_new,
    .send = send_data,
    .receive = receive_data,
    .batch_begin = batch_begin,
    .batch_end = batch_end,
};
