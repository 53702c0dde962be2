/* Small exchanges of host memory between all ranks. Nothing here blocks inside MPI: other threads of the process have
 * transfers under way, and the peers may need those before they come to this call. So every operation is posted, then
 * asked after, with the lock released in between:
 *
 *   post ─ test ─ (others) ─ test ─ (others) ─ … ─ done          mpi_wait() spins, then sleeps between tests
 *
 * Data goes in pieces, in order, each of which counts as progress: what is long on its way is not stuck. */
#include "mpi_call.h"
#include "world_state.h"

#include <string.h>

#ifdef HAVE_MPI

enum { GATHER_TAG = 1, PIECE_BYTES = 8 << 20 };

/* Ends the run on an error, which is set by then, though it may not be while arguments are evaluated. */
static void check(World *world, gboolean is_done, GError *const *error) {
  if (!is_done)
    world_fail(world, (*error)->message);
}

static int piece_of(gsize bytes, gsize offset) {
  return (int)MIN(bytes - offset, PIECE_BYTES);
}

static gboolean send_pieces(World *world, MPI_Comm comm, const void *data, gsize bytes, int to, int tag,
                            GError **error) {
  gsize offset = 0;
  do {
    MPI_Request request;
    int piece = piece_of(bytes, offset);
    MPI_TRY(world, error, MPI_Isend((const char *)data + offset, piece, MPI_BYTE, to, tag, comm, &request));
    if (!mpi_wait(world, &request, error))
      return FALSE;
    world_progress(world);
    offset += (gsize)piece;
  } while (offset < bytes);
  return TRUE;
}

static gboolean receive_pieces(World *world, MPI_Comm comm, void *data, gsize bytes, int from, int tag,
                               GError **error) {
  gsize offset = 0;
  do {
    MPI_Request request;
    int piece = piece_of(bytes, offset);
    MPI_TRY(world, error, MPI_Irecv((char *)data + offset, piece, MPI_BYTE, from, tag, comm, &request));
    if (!mpi_wait(world, &request, error))
      return FALSE;
    world_progress(world);
    offset += (gsize)piece;
  } while (offset < bytes);
  return TRUE;
}

static gboolean broadcast(World *world, void *data, gsize bytes, int root, GError **error) {
  for (gsize offset = 0; offset < bytes; offset += PIECE_BYTES) {
    MPI_Request request;
    int piece = piece_of(bytes, offset);
    MPI_TRY(world, error, MPI_Ibcast((char *)data + offset, piece, MPI_BYTE, root, world->all, &request));
    if (!mpi_wait(world, &request, error))
      return FALSE;
    world_progress(world);
  }
  return TRUE;
}

/* `sizes` [size] at the root. */
static gboolean gather_sizes(World *world, gsize bytes, gsize *sizes, GError **error) {
  guint64 own = bytes;
  g_autofree guint64 *all = g_new0(guint64, world->size);
  MPI_Request request;
  MPI_TRY(world, error, MPI_Igather(&own, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, world->all, &request));
  if (!mpi_wait(world, &request, error))
    return FALSE;
  for (int i = 0; sizes != NULL && i < world->size; i++)
    sizes[i] = (gsize)all[i];
  return TRUE;
}

static gboolean reduce_int(World *world, int *value, MPI_Op op, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Iallreduce(MPI_IN_PLACE, value, 1, MPI_INT, op, world->all, &request));
  return mpi_wait(world, &request, error);
}

static gboolean reduce_double(World *world, double *value, MPI_Op op, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Iallreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, op, world->all, &request));
  return mpi_wait(world, &request, error);
}

static gboolean meet(World *world, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Ibarrier(world->all, &request));
  return mpi_wait(world, &request, error);
}

void world_barrier(World *world) {
  g_autoptr(GError) error = NULL;
  if (world->size > 1)
    check(world, meet(world, &error), &error);
}

void world_send(World *world, const void *data, gsize bytes, int to, int tag) {
  g_autoptr(GError) error = NULL;
  g_assert(to >= 0 && to < world->size && to != world->rank);
  check(world, send_pieces(world, world->messages, data, bytes, to, tag, &error), &error);
}

void world_receive(World *world, void *data, gsize bytes, int from, int tag) {
  g_autoptr(GError) error = NULL;
  g_assert(from >= 0 && from < world->size && from != world->rank);
  check(world, receive_pieces(world, world->messages, data, bytes, from, tag, &error), &error);
}

void world_broadcast(World *world, void *data, gsize bytes, int root) {
  g_autoptr(GError) error = NULL;
  if (world->size > 1)
    check(world, broadcast(world, data, bytes, root, &error), &error);
}

/* Parts into `all` at the root. */
static gboolean gather(World *world, const void *data, gsize bytes, char *all, const gsize *sizes, GError **error) {
  if (world->rank != 0)
    return bytes == 0 || send_pieces(world, world->all, data, bytes, 0, GATHER_TAG, error);
  gsize offset = bytes;
  for (int i = 1; i < world->size; i++) {
    if (sizes[i] > 0 && !receive_pieces(world, world->all, all + offset, sizes[i], i, GATHER_TAG, error))
      return FALSE;
    offset += sizes[i];
  }
  return TRUE;
}

void *world_gather(World *world, const void *data, gsize bytes, gsize **sizes) {
  g_autoptr(GError) error = NULL;
  gboolean is_root = world->rank == 0;
  gsize *parts = is_root ? g_new0(gsize, world->size) : NULL;
  if (is_root)
    parts[0] = bytes;
  if (world->size > 1)
    check(world, gather_sizes(world, bytes, parts, &error), &error);
  gsize total = 0;
  for (int i = 0; is_root && i < world->size; i++)
    total += parts[i];
  char *all = is_root ? g_malloc(MAX(total, 1)) : NULL;
  if (is_root && bytes > 0)
    memcpy(all, data, bytes);
  if (world->size > 1)
    check(world, gather(world, data, bytes, all, parts, &error), &error);
  *sizes = parts;
  return all;
}

double world_max(World *world, double value) {
  g_autoptr(GError) error = NULL;
  if (world->size > 1)
    check(world, reduce_double(world, &value, MPI_MAX, &error), &error);
  return value;
}

gboolean world_all(World *world, gboolean value) {
  g_autoptr(GError) error = NULL;
  int all = value ? 1 : 0;
  if (world->size > 1)
    check(world, reduce_int(world, &all, MPI_MIN, &error), &error);
  return all;
}

#else /* one rank */

void world_barrier(World *world) {
}

void world_send(World *world, const void *data, gsize bytes, int to, int tag) {
  g_assert_not_reached();
}

void world_receive(World *world, void *data, gsize bytes, int from, int tag) {
  g_assert_not_reached();
}

void world_broadcast(World *world, void *data, gsize bytes, int root) {
}

void *world_gather(World *world, const void *data, gsize bytes, gsize **sizes) {
  *sizes = g_memdup2(&bytes, sizeof bytes);
  char *all = g_malloc(MAX(bytes, 1));
  if (bytes > 0)
    memcpy(all, data, bytes);
  return all;
}

double world_max(World *world, double value) {
  return value;
}

gboolean world_all(World *world, gboolean value) {
  return value;
}

#endif
