/* Communication over MPI. A call becomes a task on the caller's stream; the device's threads step it (transfer.h).
 *
 *   host memory:   stream ──[ task: post, test, test … ]──►
 *   other memory:  stream ──[ copy to staging ][ task ][ copy from staging ]──►
 *
 * Each stream has its own staging memory. Work on a stream is serial, so one buffer as large as the largest batch is
 * enough.
 *
 * Calls between batch_begin and batch_end that share a stream become one task, whose transfers are all posted before
 * any is waited for: a rank may send and receive on one stream without its peer having to do it in the other order. */
#include "comm.h"

#ifdef HAVE_MPI

#include "error.h"
#include "mpi_call.h"
#include "mpi_transfer.h"

#include <string.h>

typedef struct {
  Comm base;
  World *world;
  Device *device;
  MPI_Comm direction[2]; /* of channels, by is_forward; MPI_COMM_NULL if there is one rank */
  GHashTable *channels;  /* the open ones: two equal channels would take each other's messages */
  gint is_aborted;       /* atomic */
  int max_tag;
  int batch_depth;
  GArray *calls;       /* of Call: the open batch */
  GHashTable *staging; /* DeviceStream* → Staging* */
} MpiComm;

typedef struct {
  DeviceStream *stream;
  TransferSpec spec;
} Call;

typedef struct {
  Device *device;
  gint64 bytes;       /* of the newest buffer */
  GPtrArray *buffers; /* outgrown ones are kept: running tasks may still use them */
} Staging;

/* One call's use of staging memory: bytes copied in before the transfer, and, behind them, out after it. */
typedef struct {
  gint64 in_bytes, out_bytes;
} Detour;

typedef struct {
  MpiComm *comm;
  guint n;
  MpiTransfer **transfers; /* NULL: done */
} Task;

/* ---- tasks ---- */

static Task *task_new(MpiComm *comm, const Call *calls, guint n) {
  Task *task = g_new0(Task, 1);
  task->comm = comm;
  task->n = n;
  task->transfers = g_new(MpiTransfer *, n);
  for (guint i = 0; i < n; i++)
    task->transfers[i] = transfer_new(&calls[i].spec);
  return task;
}

static void task_free(Task *task) {
  g_free(task->transfers);
  g_free(task);
}

/* A HostStep. After a failure the transfers are not freed: MPI may still write to their memory. */
static gboolean step_task(gpointer data, GError **error) {
  Task *task = data;
  gboolean are_done = TRUE;
  for (guint i = 0; i < task->n; i++) {
    if (task->transfers[i] == NULL)
      continue;
    gboolean is_done;
    if (!transfer_step(task->transfers[i], &is_done, error)) {
      task_free(task);
      return TRUE;
    }
    are_done = are_done && is_done;
    if (is_done) {
      g_clear_pointer(&task->transfers[i], transfer_free);
      world_progress(task->comm->world);
    }
  }
  if (are_done)
    task_free(task);
  return are_done;
}

/* A HostStep that just fails. */
static gboolean step_failure(gpointer data, GError **error) {
  g_propagate_error(error, data);
  return TRUE;
}

/* ---- staging ---- */

static void staging_free(gpointer data) {
  Staging *staging = data;
  for (guint i = 0; i < staging->buffers->len; i++)
    staging->device->type->release_host(staging->device, staging->buffers->pdata[i]);
  g_ptr_array_free(staging->buffers, TRUE);
  g_free(staging);
}

static char *staging_memory(MpiComm *comm, DeviceStream *stream, gint64 bytes, GError **error) {
  Staging *staging = g_hash_table_lookup(comm->staging, stream);
  if (staging == NULL) {
    staging = g_new0(Staging, 1);
    staging->device = comm->device;
    staging->buffers = g_ptr_array_new();
    g_hash_table_insert(comm->staging, stream, staging);
  }
  if (bytes > staging->bytes) {
    gint64 larger = MAX(bytes, 2 * staging->bytes);
    void *memory = comm->device->type->allocate_host(comm->device, larger, error);
    if (memory == NULL)
      return NULL;
    g_ptr_array_add(staging->buffers, memory);
    staging->bytes = larger;
  }
  return staging->buffers->pdata[staging->buffers->len - 1];
}

static Detour detour_of(const TransferSpec *spec) {
  const MpiGroup *group = spec->group;
  const gint64 bytes = spec->kind == TRANSFER_COLLECTIVE ? spec->n * element_bytes(spec->element) : spec->n;
  const gint64 part = bytes / MAX(group->size, 1);
  if (spec->kind == TRANSFER_SEND)
    return (Detour){bytes, 0};
  if (spec->kind == TRANSFER_RECEIVE)
    return (Detour){0, bytes};
  if (spec->collective == COLLECTIVE_ALL_GATHER)
    return (Detour){part, bytes};
  if (spec->collective == COLLECTIVE_REDUCE_SCATTER)
    return (Detour){bytes, part};
  if (spec->collective == COLLECTIVE_BROADCAST && group->rank != 0)
    return (Detour){0, bytes};
  return (Detour){bytes, bytes};
}

static gint64 staged_bytes(gint64 bytes) {
  return (bytes + 63) / 64 * 64;
}

/* Runs the calls of one stream through staging memory. */
static gboolean run_staged(MpiComm *comm, DeviceStream *stream, Call *calls, guint n, GError **error) {
  const DeviceType *type = comm->device->type;
  g_autofree Call *staged = g_memdup2(calls, n * sizeof *calls);
  gint64 total = 0;
  for (guint i = 0; i < n; i++)
    total += staged_bytes(detour_of(&calls[i].spec).in_bytes) + staged_bytes(detour_of(&calls[i].spec).out_bytes);
  char *memory = staging_memory(comm, stream, MAX(total, 64), error);
  if (memory == NULL)
    return FALSE;
  for (guint i = 0; i < n; i++) {
    const Detour detour = detour_of(&calls[i].spec);
    staged[i].spec.in = memory;
    staged[i].spec.out = memory + staged_bytes(detour.in_bytes);
    if (detour.in_bytes > 0)
      type->copy(stream, memory, calls[i].spec.in, detour.in_bytes);
    memory += staged_bytes(detour.in_bytes) + staged_bytes(detour.out_bytes);
  }
  type->host_task(stream, step_task, task_new(comm, staged, n));
  for (guint i = 0; i < n; i++)
    if (detour_of(&calls[i].spec).out_bytes > 0)
      type->copy(stream, calls[i].spec.out, staged[i].spec.out, detour_of(&calls[i].spec).out_bytes);
  return TRUE;
}

/* ---- calls and batches ---- */

static void run_calls(MpiComm *comm, DeviceStream *stream, Call *calls, guint n) {
  const DeviceType *type = comm->device->type;
  GError *error = NULL;
  if (type->is_host_memory)
    type->host_task(stream, step_task, task_new(comm, calls, n));
  else if (!run_staged(comm, stream, calls, n, &error))
    type->host_task(stream, step_failure, error);
}

/* Flushes stream by stream, in order of first use. */
static void flush_calls(MpiComm *comm) {
  GArray *calls = comm->calls;
  g_autofree Call *of_stream = g_new(Call, MAX(calls->len, 1));
  while (calls->len > 0) {
    DeviceStream *stream = g_array_index(calls, Call, 0).stream;
    guint n = 0, n_left = 0;
    for (guint i = 0; i < calls->len; i++) {
      Call *call = &g_array_index(calls, Call, i);
      if (call->stream == stream)
        of_stream[n++] = *call;
      else
        g_array_index(calls, Call, n_left++) = *call;
    }
    g_array_set_size(calls, n_left);
    run_calls(comm, stream, of_stream, n);
  }
}

static void call(MpiComm *comm, DeviceStream *stream, TransferSpec spec) {
  spec.ticket = spec.group->n_issued++;
  Call one = {stream, spec};
  g_array_append_val(comm->calls, one);
  if (comm->batch_depth == 0)
    flush_calls(comm);
}

static void comm_batch_begin(Comm *base) {
  ((MpiComm *)base)->batch_depth++;
}

static void comm_batch_end(Comm *base) {
  MpiComm *comm = (MpiComm *)base;
  g_assert(comm->batch_depth > 0);
  if (--comm->batch_depth == 0)
    flush_calls(comm);
}

/* ---- requests ---- */

/* For a group of one, which already has all the data. */
static void copy_alone(const MpiGroup *group, DeviceStream *stream, const void *in, void *out, gint64 bytes) {
  const MpiComm *comm = (const MpiComm *)group->base.comm;
  if (in != out && bytes > 0)
    comm->device->type->copy(stream, out, in, bytes);
}

static void comm_collective(CommGroup *base, DeviceStream *stream, const CollectiveSpec *spec) {
  MpiGroup *group = (MpiGroup *)base;
  const TransferSpec transfer = {
      .kind = TRANSFER_COLLECTIVE,
      .group = group,
      .collective = spec->collective,
      .reduce = spec->reduce,
      .element = element_of(spec->number),
      .in = spec->in,
      .out = spec->out,
      .n = spec->n,
  };
  if (group->size == 1)
    copy_alone(group, stream, spec->in, spec->out, spec->n * element_bytes(transfer.element));
  else
    call((MpiComm *)base->comm, stream, transfer);
}

static void comm_all_reduce_doubles(CommGroup *base, DeviceStream *stream, double *values, int n) {
  MpiGroup *group = (MpiGroup *)base;
  TransferSpec spec = {
      .kind = TRANSFER_COLLECTIVE,
      .group = group,
      .collective = COLLECTIVE_ALL_REDUCE,
      .reduce = REDUCE_SUM,
      .element = ELEMENT_FP64,
      .in = values,
      .out = values,
      .n = n,
  };
  if (group->size > 1)
    call((MpiComm *)base->comm, stream, spec);
}

static void comm_send(CommGroup *channel, DeviceStream *stream, int tag, const void *data, gint64 bytes) {
  TransferSpec spec = {.kind = TRANSFER_SEND, .group = (MpiGroup *)channel, .tag = tag, .in = data, .n = bytes};
  call((MpiComm *)channel->comm, stream, spec);
}

static void comm_receive(CommGroup *channel, DeviceStream *stream, int tag, void *data, gint64 bytes) {
  TransferSpec spec = {.kind = TRANSFER_RECEIVE, .group = (MpiGroup *)channel, .tag = tag, .out = data, .n = bytes};
  call((MpiComm *)channel->comm, stream, spec);
}

/* ---- groups and channels ---- */

static MpiGroup *group_alloc(MpiComm *comm) {
  MpiGroup *group = g_new0(MpiGroup, 1);
  group->base.comm = &comm->base;
  group->world = comm->world;
  group->is_aborted = &comm->is_aborted;
  group->comm = MPI_COMM_NULL;
  group->max_tag = comm->max_tag;
  group->peer = -1;
  group->size = 1;
  return group;
}

static void comm_group_free(CommGroup *base) {
  MpiGroup *group = (MpiGroup *)base;
  if (group == NULL)
    return;
  g_mutex_lock(&group->world->mpi_lock);
  if (group->comm != MPI_COMM_NULL && !group->is_channel && !g_atomic_int_get(group->is_aborted))
    MPI_Comm_free(&group->comm);
  g_mutex_unlock(&group->world->mpi_lock);
  if (group->is_channel)
    g_hash_table_remove(((MpiComm *)base->comm)->channels, &group->key);
  exchange_scratch_free(group->scratch);
  g_free(group);
}

static gboolean are_all(const World *world, const int *members, int n) {
  for (int i = 0; i < n; i++)
    if (members[i] != i)
      return FALSE;
  return n == world->size;
}

static gboolean make_communicator(MpiGroup *group, const int *members, int n, GError **error) {
  World *world = group->world;
  MPI_Comm original = world->all;
  if (!are_all(world, members, n) && !mpi_part(world, members, n, &original, error))
    return FALSE;
  if (!mpi_duplicate(world, original, &group->comm, error))
    return FALSE;
  MPI_TRY(world, error, MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN));
  MPI_TRY(world, error, MPI_Comm_rank(group->comm, &group->rank));
  MPI_TRY(world, error, MPI_Comm_size(group->comm, &group->size));
  return TRUE;
}

static CommGroup *comm_group_new(Comm *base, const int *members, int n, GError **error) {
  MpiGroup *group = group_alloc((MpiComm *)base);
  if (n == 1 || make_communicator(group, members, n, error))
    return &group->base;
  comm_group_free(&group->base);
  return NULL;
}

static CommGroup *comm_channel_new(Comm *base, int from, int to, gboolean is_forward, GError **error) {
  MpiComm *comm = (MpiComm *)base;
  int rank = world_rank(comm->world);
  g_assert((rank == from) != (rank == to));
  gint64 key = ((gint64)from * world_size(comm->world) + to) * 2 + (is_forward != FALSE);
  if (!g_hash_table_add(comm->channels, g_memdup2(&key, sizeof key))) {
    fail_impossible(error, "two %s channels from rank %d to rank %d", is_forward ? "forward" : "backward", from, to);
    return NULL;
  }
  MpiGroup *channel = group_alloc(comm);
  channel->comm = comm->direction[is_forward != FALSE];
  channel->is_channel = TRUE;
  channel->key = key;
  channel->peer = rank == from ? to : from;
  return &channel->base;
}

/* ---- the communication as a whole ---- */

static void comm_close(Comm *base) {
  MpiComm *comm = (MpiComm *)base;
  if (comm == NULL)
    return;
  g_mutex_lock(&comm->world->mpi_lock);
  for (int i = 0; i < 2; i++)
    if (comm->direction[i] != MPI_COMM_NULL && !g_atomic_int_get(&comm->is_aborted))
      MPI_Comm_free(&comm->direction[i]);
  g_mutex_unlock(&comm->world->mpi_lock);
  g_hash_table_unref(comm->staging);
  g_hash_table_unref(comm->channels);
  g_array_unref(comm->calls);
  g_free(comm);
}

static gboolean make_channels(MpiComm *comm, GError **error) {
  World *world = comm->world;
  int *limit, has_limit;
  if (!world->has_mpi)
    return TRUE;
  MPI_TRY(world, error, MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &limit, &has_limit));
  comm->max_tag = has_limit ? *limit : 32767;
  for (int i = 0; i < 2; i++)
    if (!mpi_duplicate(world, world->all, &comm->direction[i], error))
      return FALSE;
  return TRUE;
}

/* Collective over all ranks. */
static Comm *comm_open(World *world, Device *device, GError **error) {
  MpiComm *comm = g_new0(MpiComm, 1);
  comm->base.type = &mpi_comm;
  comm->world = world;
  comm->device = device;
  comm->direction[0] = comm->direction[1] = MPI_COMM_NULL;
  comm->channels = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
  comm->calls = g_array_new(FALSE, FALSE, sizeof(Call));
  comm->staging = g_hash_table_new_full(NULL, NULL, NULL, staging_free);
  if (make_channels(comm, error))
    return &comm->base;
  comm_close(&comm->base);
  return NULL;
}

static void comm_abort(Comm *base) {
  g_atomic_int_set(&((MpiComm *)base)->is_aborted, TRUE);
}

const CommType mpi_comm = {.name = "mpi", .is_available = TRUE, COMM_FUNCTIONS(comm)};

#else

const CommType mpi_comm = {.name = "mpi", .is_available = FALSE};

#endif
