/* The life cycle of NCCL communicators.
 *
 * They are blocking (config.blocking = 1), as in PyTorch and nccl-tests: a non-blocking one starts and joins a thread
 * for every call, which costs the host tens of microseconds each (NCCL's src/group.cc, ncclGroupEndInternal). Only what
 * waits for other ranks' hosts, making communicators and ending them, is done by a thread that is given a time, so a
 * missing rank is an error, not a hang. A thread that does not end is left behind: the process is about to exit.
 *
 *     group_new        its id goes from the first member to the others
 *     channel_new      noted only: it waits for nobody
 *     first transfer   settle: ids of all channels, in an order that is the same on all ranks (a circle of channels,
 *                      0→1 1→2 2→0, would otherwise wait for itself); all communicators are made, one after another in
 *                      that order; all channels connect, at once for the same reason. Groups connect when they are
 *                      made.
 *
 * NCCL's kernels wait for their peers on the GPU: where more of them are to run than find room, none may ever end. With
 * NCCL_LAUNCH_ORDER_IMPLICIT (nccl_comm.c) they start in the order in which the host issues them, which is a Program's.
 * Besides, a communicator may only take so many multiprocessors (maxCTAs; a kernel's CTA takes one): the channels of
 * two neighbours together 16, whatever their number, and collectives as many as leave room for three of them beside the
 * channels of both neighbours: 32 of 132. NCCL takes no more by itself for rings: up to 32 on Hopper (src/init.cc,
 * src/graph/connect.cc; 12 found by its search on an NVSwitch, and doubled). */
#include "nccl_parts.h"

#include "cuda_call.h"
#include "cuda_device.h"

enum { ID_TAG = 32001, NEIGHBOUR_CTAS = 16, N_NEIGHBOURS = 2, N_COLLECTIVES_AT_ONCE = 3, MOST_CTAS = 32 };

gboolean nccl_check(const NcclComm *comm, ncclComm_t handle, ncclResult_t result, const char *call, const char *file,
                    int line, GError **error) {
  if (result == ncclSuccess || result == ncclInProgress)
    return TRUE;
  g_autofree char *name = g_path_get_basename(file);
  return fail_impossible(error, "rank %d: %s: %s; %s (%s:%d)", world_rank(comm->world), call,
                         comm->nccl.GetErrorString(result), comm->nccl.GetLastError(handle), name, line);
}

ncclComm_t nccl_take_handle(NcclGroup *group) {
  ncclComm_t handle = g_atomic_pointer_get(&group->handle);
  return g_atomic_pointer_compare_and_exchange(&group->handle, handle, NULL) ? handle : NULL;
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

/* ---- calls that wait for other ranks ---- */

/* Done by a thread. `n_done`: steps, for the deadline. */
typedef struct {
  NcclComm *comm;
  gboolean (*work)(NcclComm *comm, gint *n_done, GError **error);
  gint n_done, is_over; /* atomic */
  gboolean ok;
  GError *error;
} Job;

static gpointer run_job(gpointer data) {
  Job *job = data;
  job->ok = CUDA_CALL(cudaSetDevice(cuda_device_ordinal(job->comm->device)), &job->error) &&
            job->work(job->comm, &job->n_done, &job->error);
  g_atomic_int_set(&job->is_over, TRUE);
  return NULL;
}

/* FALSE with the error: it is not over, and never will be. */
static gboolean await_job(const Job *job, const char *what, GError **error) {
  const NcclComm *comm = job->comm;
  const int rank = world_rank(comm->world);
  gint64 since_us = g_get_monotonic_time();
  for (gint n_done = 0; !g_atomic_int_get(&job->is_over);) {
    const gint64 now_us = g_get_monotonic_time();
    if (g_atomic_int_get(&job->n_done) != n_done)
      since_us = now_us;
    n_done = g_atomic_int_get(&job->n_done);
    if ((double)(now_us - since_us) > comm->timeout_s * G_USEC_PER_SEC)
      return fail_impossible(error,
                             "rank %d: NCCL: %s has not moved for %g s: another rank is missing, or needs longer "
                             "(STEPREAL_NCCL_TIMEOUT, seconds)",
                             rank, what, comm->timeout_s);
    if (cuda_device_has_failed(comm->device))
      return fail_impossible(error, "rank %d: NCCL: %s given up: the device has failed", rank, what);
    if (g_atomic_int_get(&comm->is_aborted))
      return fail_impossible(error, "rank %d: NCCL: %s aborted", rank, what);
    g_usleep(200);
  }
  return TRUE;
}

/* `what` names the work in the error. */
static gboolean run_with_deadline(NcclComm *comm, const char *what,
                                  gboolean (*work)(NcclComm *comm, gint *n_done, GError **error), GError **error) {
  Job *job = g_new0(Job, 1);
  *job = (Job){.comm = comm, .work = work};
  GThread *thread = g_thread_new("nccl", run_job, job);
  if (!await_job(job, what, error)) {
    comm->is_left = TRUE;
    g_thread_unref(thread);
    return FALSE;
  }
  g_thread_join(thread);
  const gboolean ok = job->ok;
  if (job->error != NULL)
    g_propagate_error(error, job->error);
  g_free(job);
  return ok;
}

/* ---- opening ---- */

/* Gets the id from the first member. */
static gboolean share_id(NcclComm *comm, NcclGroup *group, const int *members, GError **error) {
  if (!CUDA_CALL(cudaSetDevice(cuda_device_ordinal(comm->device)), error) ||
      (group->own == 0 && !NCCL_CALL(comm, GetUniqueId(&group->id), error)))
    return FALSE;
  if (group->own > 0)
    world_receive(comm->world, &group->id, sizeof group->id, members[0], ID_TAG);
  for (int i = 1; group->own == 0 && i < group->n; i++)
    world_send(comm->world, &group->id, sizeof group->id, members[i], ID_TAG);
  return TRUE;
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
  const int for_each = (comm->n_multiprocessors - N_NEIGHBOURS * NEIGHBOUR_CTAS) / N_COLLECTIVES_AT_ONCE;
  group->most_ctas = CLAMP(for_each, 1, MOST_CTAS);
  if (n > 1 && !share_id(comm, group, members, error)) {
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

/* The group is seen by others only once it is complete. */
static gboolean make_communicator(NcclComm *comm, NcclGroup *group, GError **error) {
  ncclComm_t handle = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  config.maxCTAs = group->most_ctas;
  if (!NCCL_CALL(comm, CommInitRankConfig(&handle, group->n, group->id, group->own, &config), error))
    return FALSE;
  g_atomic_pointer_set(&group->handle, handle);
  return TRUE;
}

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

/* Waits until the streams are idle. Polls, so that a device that fails ends it. */
static gboolean await_streams(const NcclComm *comm, const GPtrArray *streams, GError **error) {
  for (guint i = 0; i < streams->len; i++) {
    cudaError_t status;
    while ((status = cudaStreamQuery(g_ptr_array_index(streams, i))) == cudaErrorNotReady) {
      if (cuda_device_has_failed(comm->device) || g_atomic_int_get(&comm->is_aborted))
        return fail_impossible(error, "rank %d: NCCL: channels do not connect", world_rank(comm->world));
      g_usleep(50);
    }
    if (!CUDA_CALL(status, error))
      return FALSE;
  }
  return TRUE;
}

static gboolean connect_channels(NcclComm *comm, const GPtrArray *channels, GError **error) {
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

/* Those opened from `first` on that have or will have a communicator. Two ranks have those that both are members of in
 * the same order: groups as opened, or channels by their ranks and, among equal ones, as opened (the sort is stable).
 */
static GPtrArray *in_order(const NcclComm *comm, guint first, gboolean of_channels) {
  GPtrArray *found = g_ptr_array_new();
  for (guint i = first; i < comm->groups->len; i++) {
    NcclGroup *group = g_ptr_array_index(comm->groups, i);
    if (group->is_channel == of_channels && group->n > 1)
      g_ptr_array_add(found, group);
  }
  if (of_channels)
    g_ptr_array_sort(found, compare_ends);
  return found;
}

/* Both ends of a channel count the same. */
static void share_ctas(const GPtrArray *channels) {
  for (guint i = 0; i < channels->len; i++) {
    NcclGroup *channel = g_ptr_array_index(channels, i);
    int n_alike = 0;
    for (guint j = 0; j < channels->len; j++)
      n_alike += compare_ends(&g_ptr_array_index(channels, i), &g_ptr_array_index(channels, j)) == 0;
    channel->most_ctas = MAX(NEIGHBOUR_CTAS / n_alike, 1);
  }
}

/* Work of a Job. */
static gboolean make_communicators(NcclComm *comm, gint *n_done, GError **error) {
  for (int of_channels = 0; of_channels < 2; of_channels++) {
    g_autoptr(GPtrArray) groups = in_order(comm, comm->n_settled, of_channels);
    for (guint i = 0; i < groups->len; i++, g_atomic_int_inc(n_done))
      if (!make_communicator(comm, g_ptr_array_index(groups, i), error))
        return FALSE;
  }
  g_autoptr(GPtrArray) channels = in_order(comm, comm->n_settled, TRUE);
  return connect_channels(comm, channels, error);
}

gboolean nccl_settle(NcclComm *comm, GError **error) {
  if (comm->n_settled == comm->groups->len)
    return TRUE;
  g_autoptr(GPtrArray) channels = in_order(comm, comm->n_settled, TRUE);
  share_ctas(channels);
  for (guint i = 0; i < channels->len; i++) {
    NcclGroup *channel = g_ptr_array_index(channels, i);
    if (!share_id(comm, channel, channel->ends, error))
      return FALSE;
  }
  if (!run_with_deadline(comm, "initialisation of communicators", make_communicators, error))
    return FALSE;
  comm->n_settled = comm->groups->len;
  return TRUE;
}

/* ---- ending ---- */

/* Work of a Job. */
static gboolean end_communicators(NcclComm *comm, gint *n_done, GError **error) {
  for (int of_channels = 0; of_channels < 2; of_channels++) {
    g_autoptr(GPtrArray) groups = in_order(comm, 0, of_channels);
    for (guint i = 0; i < groups->len; i++, g_atomic_int_inc(n_done)) {
      ncclComm_t handle = nccl_take_handle(g_ptr_array_index(groups, i));
      if (handle != NULL && !NCCL_CALL(comm, CommDestroy(handle), error))
        return FALSE;
    }
  }
  return TRUE;
}

gboolean nccl_finish_all(NcclComm *comm) {
  return comm->groups->len == 0 || run_with_deadline(comm, "end of communicators", end_communicators, NULL);
}
