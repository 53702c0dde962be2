/* Communication between GPUs through NCCL: a communicator for each group, and one of two ranks for each channel
 * (nccl_group.c opens and ends them). A transfer is enqueued on its stream when the call returns. NCCL has no
 * tags: a channel's messages are received in the order sent, and mismatched lengths go undetected. */
#include "nccl_parts.h"

#include "cuda_call.h"
#include "cuda_device.h"

#include <stdlib.h>
#include <unistd.h>

static const gint64 ABORT_US = 2 * G_USEC_PER_SEC;
static const double TIMEOUT_S = 120; /* initialisation on thousands of ranks takes tens of seconds */

static NcclComm *comm_of(const CommGroup *group) {
  return (NcclComm *)group->comm;
}

static void fail_device(NcclComm *comm, GError *error) {
  cuda_device_fail(comm->device, error);
}

/* ---- opening ---- */

/* NCCL refuses two ranks of a communicator on one GPU of one host. So ranks that share a GPU claim different hosts;
 * ranks with the same turn on their GPUs claim the same one, so NVLink is still used between them. */
static gboolean prepare_environment(const NcclComm *comm, GError **error) {
  setenv("NCCL_COMM_BLOCKING", "1", TRUE);    /* not the user's choice: nothing here waits for calls in progress */
  setenv("NCCL_RUNTIME_CONNECT", "0", FALSE); /* all algorithms connect when the communicator is made */
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", FALSE); /* nccl_group.c; since NCCL 2.26 */
  if (comm->device->n_sharers <= 1)
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

static gboolean read_timeout(NcclComm *comm, GError **error) {
  const char *given = g_getenv("STEPREAL_NCCL_TIMEOUT");
  char *end = NULL;
  comm->timeout_s = given != NULL ? g_ascii_strtod(given, &end) : TIMEOUT_S;
  return given == NULL || (end != given && *end == '\0' && comm->timeout_s > 0) ||
         fail_input(error, "STEPREAL_NCCL_TIMEOUT: found \"%s\", expected seconds, more than 0", given);
}

/* All members of a communicator must give it the same bound on CTAs, so all use the smallest GPU's. */
static gboolean count_multiprocessors(NcclComm *comm, GError **error) {
  struct cudaDeviceProp properties;
  if (!CUDA_CALL(cudaGetDeviceProperties(&properties, cuda_device_ordinal(comm->device)), error))
    return FALSE;
  comm->n_multiprocessors = (int)-world_max(comm->world, -properties.multiProcessorCount);
  return TRUE;
}

/* Called by the waiting device: reports an error of any communicator. */
static gboolean watch(gpointer data, GError **error) {
  NcclComm *comm = data;
  for (guint i = 0; i < comm->groups->len; i++) {
    const NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL && !g_atomic_int_get(&comm->is_aborted) &&
        !nccl_check(comm, group->handle, nccl_state(comm, group), "a transfer under way", __FILE__, __LINE__, error))
      return FALSE;
  }
  return TRUE;
}

static void nccl_close(Comm *base);

static Comm *nccl_open(World *world, Device *device, GError **error) {
  if (device->type != &cuda_device) {
    fail_input(error, "NCCL moves data between GPUs: it needs the device \"cuda\", not \"%s\"", device->type->name);
    return NULL;
  }
  NcclComm *comm = g_new0(NcclComm, 1);
  comm->comm.type = &nccl_comm;
  comm->world = world;
  comm->device = device;
  comm->groups = g_ptr_array_new_with_free_func(g_free);
  g_mutex_init(&comm->lock);
  if (read_timeout(comm, error) && nccl_library_load(&comm->nccl, error) && prepare_environment(comm, error) &&
      count_multiprocessors(comm, error)) {
    cuda_device_set_watch(device, watch, comm);
    return &comm->comm;
  }
  nccl_close(&comm->comm);
  return NULL;
}

/* ---- transfers ---- */

/* FALSE: transfers are not possible (any more). */
static gboolean enter(NcclComm *comm) {
  GError *error = NULL;
  if (cuda_device_has_failed(comm->device))
    return FALSE;
  if (g_atomic_int_get(&comm->is_aborted))
    fail_impossible(&error, "rank %d: NCCL was aborted", world_rank(comm->world));
  else if (CUDA_CALL(cudaSetDevice(cuda_device_ordinal(comm->device)), &error) && nccl_settle(comm, &error))
    return TRUE;
  fail_device(comm, error);
  return FALSE;
}

/* After a call on the group, which is enqueued now or, within a batch, when the batch ends. */
static void leave(NcclComm *comm, NcclGroup *group, ncclResult_t result, const char *call, int line) {
  GError *error = NULL;
  if (!nccl_check(comm, group->handle, result, call, __FILE__, line, &error))
    fail_device(comm, error);
  world_progress(comm->world);
}

#define NCCL_TRANSFER(comm, group, call) leave((comm), (group), (comm)->nccl.call, "nccl" #call, __LINE__)

static ncclDataType_t data_type(Number number) {
  g_assert(number == NUMBER_FP32 || number == NUMBER_BF16 || number == NUMBER_FP16);
  return number == NUMBER_FP32 ? ncclFloat32 : number == NUMBER_BF16 ? ncclBfloat16 : ncclFloat16;
}

/* Issues `n_pairs` send/receive pairs as one NCCL group: the k-th sends to the member k places after this one and
 * receives from the one k places before, wrapping around. Member m's part of `in` and `out` is at m·stride. */
static void swap(NcclGroup *group, DeviceStream *stream, const char *in, char *out, gsize bytes, gsize stride,
                 int n_pairs) {
  NcclComm *comm = comm_of(&group->group);
  cudaStream_t s = cuda_stream_handle(stream);
  ncclResult_t result = comm->nccl.GroupStart();
  for (int k = 1; result == ncclSuccess && k <= n_pairs; k++) {
    const int to = (group->own + k) % group->n, from = (group->own + group->n - k) % group->n;
    result = comm->nccl.Send(in + (gsize)to * stride, bytes, ncclInt8, to, group->handle, s);
    if (result == ncclSuccess)
      result = comm->nccl.Recv(out + (gsize)from * stride, bytes, ncclInt8, from, group->handle, s);
  }
  const ncclResult_t end = comm->nccl.GroupEnd();
  leave(comm, group, result == ncclSuccess ? end : result, "ncclSend, ncclRecv", __LINE__);
}

static void all_to_all(NcclGroup *group, DeviceStream *stream, const char *in, char *out, gsize bytes) {
  const gsize part = bytes / (gsize)group->n, own = (gsize)group->own * part;
  comm_of(&group->group)->device->type->copy(stream, out + own, in + own, (gint64)part);
  swap(group, stream, in, out, part, part, group->n - 1);
}

static void nccl_collective(CommGroup *base, DeviceStream *stream, const CollectiveSpec *spec) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  const void *in = spec->in;
  void *out = spec->out;
  const gsize all = (gsize)spec->n, part = all / (gsize)group->n;
  const gsize bytes = all * (gsize)kernel_element_bytes(spec->number);
  if (group->n == 1) {
    if (in != out)
      comm->device->type->copy(stream, out, in, (gint64)bytes);
    return;
  }
  if (!enter(comm))
    return;
  const ncclRedOp_t operation = spec->reduce == REDUCE_MAX ? ncclMax : ncclSum;
  const ncclDataType_t type = data_type(spec->number);
  cudaStream_t s = cuda_stream_handle(stream);
  switch (spec->collective) {
  case COLLECTIVE_ALL_REDUCE:
    NCCL_TRANSFER(comm, group, AllReduce(in, out, all, type, operation, group->handle, s));
    break;
  case COLLECTIVE_ALL_GATHER:
    NCCL_TRANSFER(comm, group, AllGather(in, out, part, type, group->handle, s));
    break;
  case COLLECTIVE_REDUCE_SCATTER:
    NCCL_TRANSFER(comm, group, ReduceScatter(in, out, part, type, operation, group->handle, s));
    break;
  case COLLECTIVE_BROADCAST:
    NCCL_TRANSFER(comm, group, Broadcast(in, out, all, type, 0, group->handle, s));
    break;
  case COLLECTIVE_ALL_TO_ALL:
    all_to_all(group, stream, in, out, bytes);
    break;
  case COLLECTIVE_SEND_RECV:
    swap(group, stream, in, out, bytes, 0, 1);
    break;
  default:
    g_assert_not_reached();
  }
}

static void nccl_all_reduce_doubles(CommGroup *base, DeviceStream *stream, double *values, int n) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  if (group->n > 1 && enter(comm))
    NCCL_TRANSFER(comm, group,
                  AllReduce(values, values, (gsize)n, ncclDouble, ncclSum, group->handle, cuda_stream_handle(stream)));
}

static void nccl_send(CommGroup *base, DeviceStream *stream, int tag, const void *data, gint64 bytes) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  g_assert(group->is_channel && group->is_sender);
  if (enter(comm))
    NCCL_TRANSFER(comm, group,
                  Send(data, (gsize)bytes, ncclInt8, 1 - group->own, group->handle, cuda_stream_handle(stream)));
}

static void nccl_receive(CommGroup *base, DeviceStream *stream, int tag, void *data, gint64 bytes) {
  NcclGroup *group = (NcclGroup *)base;
  NcclComm *comm = comm_of(base);
  g_assert(group->is_channel && !group->is_sender);
  if (enter(comm))
    NCCL_TRANSFER(comm, group,
                  Recv(data, (gsize)bytes, ncclInt8, 1 - group->own, group->handle, cuda_stream_handle(stream)));
}

static void nccl_batch_begin(Comm *base) {
  NcclComm *comm = (NcclComm *)base;
  GError *error = NULL;
  if (comm->depth == 0 && !enter(comm))
    return; /* nothing will be transferred in it */
  if (NCCL_CALL(comm, GroupStart(), &error))
    comm->depth++;
  else
    fail_device(comm, error);
}

static void nccl_batch_end(Comm *base) {
  NcclComm *comm = (NcclComm *)base;
  GError *error = NULL;
  if (comm->depth == 0)
    return;
  comm->depth--;
  if (!NCCL_CALL(comm, GroupEnd(), &error))
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
    ncclComm_t handle = nccl_take_handle(g_ptr_array_index(comm->groups, i));
    if (handle != NULL)
      (void)comm->nccl.CommAbort(handle);
  }
  g_atomic_int_set(&job->is_done, TRUE);
  abort_unref(job);
  return NULL;
}

/* Runs in its own thread and is given two seconds: ncclCommAbort waits for calls in progress in other threads. May be
 * called from any thread. */
static void nccl_abort(Comm *base) {
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
  const gint64 start_us = g_get_monotonic_time();
  while (!g_atomic_int_get(&job->is_done) && g_get_monotonic_time() - start_us < ABORT_US)
    g_usleep(1000);
  abort_unref(job);
}

static void nccl_close(Comm *base) {
  if (base == NULL)
    return;
  NcclComm *comm = (NcclComm *)base;
  cuda_device_set_watch(comm->device, NULL, NULL);
  if (!g_atomic_int_get(&comm->is_aborted) &&
      (cuda_device_has_failed(comm->device) || !nccl_settle(comm, NULL) || !nccl_finish_all(comm)))
    nccl_abort(base);
  if (g_atomic_int_get(&comm->is_aborted) || comm->is_left)
    return; /* a thread may still look at it */
  g_ptr_array_unref(comm->groups);
  g_mutex_clear(&comm->lock);
  g_free(comm);
}

/* Communicators end together, with the Comm: ending one by itself would wait for its other members. */
static void nccl_group_free(CommGroup *group) {
}

const CommType nccl_comm = {.name = "nccl", .is_available = TRUE, COMM_FUNCTIONS(nccl)};
