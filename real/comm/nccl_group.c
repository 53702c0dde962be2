/* The life cycle of NCCL communicators.
 *
 * They are non-blocking (config.blocking = 0): a call that would wait for other ranks returns "in progress" and is
 * polled until a deadline, so a missing rank is an error, not a hang.
 *
 *     group_new        its id goes from the first member to the others; initialisation starts
 *     channel_new      noted only: it waits for nobody
 *     first transfer   settle: ids of all channels, in an order that is the same on all ranks (a circle of channels,
 *                      0→1 1→2 2→0, would otherwise wait for itself); all initialisations end; all channels connect,
 *                      at once for the same reason. Groups connect when they are initialised. */
#include "nccl_parts.h"

#include "cuda_call.h"
#include "cuda_device.h"

static const gint64 TIMEOUT_US = 120 * G_USEC_PER_SEC; /* initialisation on thousands of ranks takes tens of seconds */
enum { ID_TAG = 32001 };

gboolean nccl_check(const NcclComm *comm, ncclComm_t handle, ncclResult_t result, const char *call, const char *file,
                    int line, GError **error) {
  if (result == ncclSuccess || result == ncclInProgress)
    return TRUE;
  g_autofree char *name = g_path_get_basename(file);
  return fail_impossible(error, "rank %d: %s: %s; %s (%s:%d)", world_rank(comm->world), call,
                         comm->nccl.GetErrorString(result), comm->nccl.GetLastError(handle), name, line);
}

ncclResult_t nccl_state(NcclComm *comm, const NcclGroup *group) {
  ncclResult_t state = ncclInternalError;
  g_mutex_lock(&comm->lock);
  if (!g_atomic_int_get(&comm->is_aborted)) {
    const ncclResult_t result = comm->nccl.CommGetAsyncError(group->handle, &state);
    if (result != ncclSuccess)
      state = result;
  }
  g_mutex_unlock(&comm->lock);
  return state;
}

gboolean nccl_await(NcclComm *comm, const NcclGroup *group, const char *what, GError **error) {
  const gint64 start_us = g_get_monotonic_time();
  const int rank = world_rank(comm->world);
  ncclResult_t state;
  while ((state = nccl_state(comm, group)) == ncclInProgress) {
    const gint64 waited_us = g_get_monotonic_time() - start_us;
    if (waited_us > TIMEOUT_US)
      return fail_impossible(error, "rank %d: NCCL: %s of %d ranks has not ended after %d s", rank, what, group->n,
                             (int)(TIMEOUT_US / G_USEC_PER_SEC));
    if (cuda_device_has_failed(comm->device))
      return fail_impossible(error, "rank %d: NCCL: %s given up: the device has failed", rank, what);
    if (waited_us > 100)
      g_usleep(20);
  }
  if (g_atomic_int_get(&comm->is_aborted))
    return fail_impossible(error, "rank %d: NCCL: %s aborted", rank, what);
  return nccl_check(comm, group->handle, state, what, __FILE__, __LINE__, error);
}

/* ---- opening ---- */

/* Gets the id from the first member and starts initialisation; settle() waits for that. */
static gboolean start_group(NcclComm *comm, NcclGroup *group, const int *members, GError **error) {
  ncclUniqueId id = {{0}};
  if (!CUDA_CALL(cudaSetDevice(cuda_device_ordinal(comm->device)), error) ||
      (group->own == 0 && !NCCL_CALL(comm, GetUniqueId(&id), error)))
    return FALSE;
  if (group->own > 0)
    world_receive(comm->world, &id, sizeof id, members[0], ID_TAG);
  for (int i = 1; group->own == 0 && i < group->n; i++)
    world_send(comm->world, &id, sizeof id, members[i], ID_TAG);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return NCCL_CALL(comm, CommInitRankConfig(&group->handle, group->n, id, group->own, &config), error);
}

static NcclGroup *group_alloc(NcclComm *comm, const int *members, int n) {
  NcclGroup *group = g_new0(NcclGroup, 1);
  group->group.comm = &comm->comm;
  group->n = n;
  group->own = -1;
  for (int i = 0; i < n; i++)
    if (members[i] == world_rank(comm->world))
      group->own = i;
  g_assert(group->own >= 0);
  return group;
}

CommGroup *nccl_group_new(Comm *base, const int *members, int n, GError **error) {
  NcclComm *comm = (NcclComm *)base;
  NcclGroup *group = group_alloc(comm, members, n);
  if (n > 1 && !start_group(comm, group, members, error)) {
    g_free(group);
    return NULL;
  }
  g_ptr_array_add(comm->groups, group);
  return &group->group;
}

CommGroup *nccl_channel_new(Comm *base, int from, int to, gboolean is_forward, GError **error) {
  NcclComm *comm = (NcclComm *)base;
  const int ends[2] = {MIN(from, to), MAX(from, to)};
  g_assert(from != to);
  NcclGroup *group = group_alloc(comm, ends, 2);
  group->is_channel = TRUE;
  group->is_sender = from == world_rank(comm->world);
  group->ends[0] = ends[0];
  group->ends[1] = ends[1];
  g_ptr_array_add(comm->groups, group);
  return &group->group;
}

/* ---- settling ---- */

/* Sends a few bytes over a channel not used before, on its own stream, so that channels may connect in any order.
 * Called within one NCCL group for all channels. */
static gboolean start_connecting(NcclComm *comm, const NcclGroup *group, void *memory, cudaStream_t *stream,
                                 GError **error) {
  const int peer = 1 - group->own;
  if (!CUDA_CALL(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), error))
    return FALSE;
  return group->is_sender
             ? NCCL_CALL(comm, Send(memory, 4, ncclInt8, peer, group->handle, *stream), error)
             : NCCL_CALL(comm, Recv((char *)memory + 128, 4, ncclInt8, peer, group->handle, *stream), error);
}

/* Waits until the streams are idle. Polls, so that it can give up. */
static gboolean await_streams(const NcclComm *comm, const GPtrArray *streams, GError **error) {
  const gint64 start_us = g_get_monotonic_time();
  for (guint i = 0; i < streams->len; i++) {
    cudaError_t status;
    while ((status = cudaStreamQuery(g_ptr_array_index(streams, i))) == cudaErrorNotReady) {
      if (g_get_monotonic_time() - start_us > TIMEOUT_US || cuda_device_has_failed(comm->device))
        return fail_impossible(error, "rank %d: NCCL: channels do not connect", world_rank(comm->world));
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
  gboolean ok = NCCL_CALL(comm, GroupStart(), error);
  for (guint i = 0; ok && i < channels->len; i++) {
    cudaStream_t stream = NULL;
    ok = start_connecting(comm, g_ptr_array_index(channels, i), memory, &stream, error);
    if (stream != NULL)
      g_ptr_array_add(streams, stream);
  }
  ok = NCCL_CALL(comm, GroupEnd(), ok ? error : NULL) && ok;
  for (guint i = 0; ok && i < channels->len; i++)
    ok = nccl_await(comm, g_ptr_array_index(channels, i), "connection of a channel", error);
  ok = ok && await_streams(comm, streams, error);
  for (guint i = 0; ok && i < streams->len; i++)
    (void)cudaStreamDestroy(g_ptr_array_index(streams, i));
  if (ok) /* else it may still be in use: kept until the process ends */
    (void)cudaFree(memory);
  return ok;
}

static gint compare_ends(gconstpointer a, gconstpointer b) {
  const NcclGroup *x = *(NcclGroup *const *)a, *y = *(NcclGroup *const *)b;
  return x->ends[0] != y->ends[0] ? x->ends[0] - y->ends[0] : x->ends[1] - y->ends[1];
}

gboolean nccl_settle(NcclComm *comm, GError **error) {
  if (comm->n_settled == comm->groups->len)
    return TRUE;
  g_autoptr(GPtrArray) channels = g_ptr_array_new();
  for (guint i = comm->n_settled; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->is_channel)
      g_ptr_array_add(channels, group);
  }
  g_ptr_array_sort(channels, compare_ends); /* stable: equal pairs stay in opening order */
  for (guint i = 0; i < channels->len; i++) {
    NcclGroup *channel = g_ptr_array_index(channels, i);
    if (!start_group(comm, channel, channel->ends, error))
      return FALSE;
  }
  for (guint i = comm->n_settled; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL && !nccl_await(comm, group, "initialisation", error))
      return FALSE;
  }
  if (!connect_channels(comm, channels, error))
    return FALSE;
  comm->n_settled = comm->groups->len;
  return TRUE;
}

/* ---- ending ---- */

/* Starts finishing all communicators before waiting for any: each waits for its other members. */
gboolean nccl_finish_all(NcclComm *comm) {
  gboolean ok = TRUE;
  for (guint i = 0; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL && i < comm->n_settled)
      ok = NCCL_CALL(comm, CommFinalize(group->handle), NULL) && ok;
  }
  for (guint i = 0; ok && i < comm->n_settled; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    ok = group->handle == NULL || nccl_await(comm, group, "end", NULL);
  }
  for (guint i = 0; ok && i < comm->n_settled; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->handle != NULL)
      ok = NCCL_CALL(comm, CommDestroy(g_steal_pointer(&group->handle)), NULL) && ok;
  }
  return ok;
}
