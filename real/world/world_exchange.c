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
#include <time.h>

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

/* To the peer, or from it. */
static gboolean move_pieces(World *world, MPI_Comm comm, gboolean is_send, void *data, gsize bytes, int peer, int tag,
                            GError **error) {
  gsize offset = 0;
  do {
    MPI_Request request;
    const int piece = piece_of(bytes, offset);
    char *at = (char *)data + offset;
    if (is_send)
      MPI_TRY(world, error, MPI_Isend(at, piece, MPI_BYTE, peer, tag, comm, &request));
    else
      MPI_TRY(world, error, MPI_Irecv(at, piece, MPI_BYTE, peer, tag, comm, &request));
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

/* One value, in place. */
static gboolean reduce(World *world, void *value, MPI_Datatype type, MPI_Op op, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Iallreduce(MPI_IN_PLACE, value, 1, type, op, world->all, &request));
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
  check(world, move_pieces(world, world->messages, TRUE, (void *)data, bytes, to, tag, &error), &error);
}

void world_receive(World *world, void *data, gsize bytes, int from, int tag) {
  g_autoptr(GError) error = NULL;
  g_assert(from >= 0 && from < world->size && from != world->rank);
  check(world, move_pieces(world, world->messages, FALSE, data, bytes, from, tag, &error), &error);
}

void world_broadcast(World *world, void *data, gsize bytes, int root) {
  g_autoptr(GError) error = NULL;
  if (world->size > 1)
    check(world, broadcast(world, data, bytes, root, &error), &error);
}

/* Parts into `all` at the root. */
static gboolean gather(World *world, const void *data, gsize bytes, char *all, const gsize *sizes, GError **error) {
  if (world->rank != 0)
    return bytes == 0 || move_pieces(world, world->all, TRUE, (void *)data, bytes, 0, GATHER_TAG, error);
  gsize offset = bytes;
  for (int i = 1; i < world->size; i++) {
    if (sizes[i] > 0 && !move_pieces(world, world->all, FALSE, all + offset, sizes[i], i, GATHER_TAG, error))
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
    check(world, reduce(world, &value, MPI_DOUBLE, MPI_MAX, &error), &error);
  return value;
}

gboolean world_all(World *world, gboolean value) {
  g_autoptr(GError) error = NULL;
  int all = value ? 1 : 0;
  if (world->size > 1)
    check(world, reduce(world, &all, MPI_INT, MPI_MIN, &error), &error);
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

/* --- clocks ------------------------------------------------------------------------------------------------------- */

/* Cristian's algorithm (Distributed Computing 3, 1989): rank 0 answers with its time; the answer of the shortest round
 * trip is the least disturbed, and it was given in the middle of that trip, within half of it.
 *
 *   rank r   t0 ────────────► │ ──────────► t1        offset = root − (t0 + t1) / 2
 *   rank 0                  root
 *
 * Ranks take turns, so that no answer waits behind another rank's question. */

enum { N_TRIPS = 20, TAG = 32000 };

static gint64 now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (gint64)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void answer(World *world, int rank) {
  for (int i = 0; i < N_TRIPS; i++) {
    gint64 time_ns;
    world_receive(world, &time_ns, sizeof time_ns, rank, TAG);
    time_ns = now_ns();
    world_send(world, &time_ns, sizeof time_ns, rank, TAG);
  }
}

static gint64 ask(World *world) {
  gint64 best_trip_ns = G_MAXINT64, offset_ns = 0;
  for (int i = 0; i < N_TRIPS; i++) {
    gint64 before_ns = now_ns(), root_ns;
    world_send(world, &before_ns, sizeof before_ns, 0, TAG);
    world_receive(world, &root_ns, sizeof root_ns, 0, TAG);
    gint64 trip_ns = now_ns() - before_ns;
    if (trip_ns >= best_trip_ns)
      continue;
    best_trip_ns = trip_ns;
    offset_ns = root_ns - (before_ns + trip_ns / 2);
  }
  return offset_ns;
}

gint64 world_clock_offset_measured(World *world) {
  gint64 offset_ns = 0;
  for (int rank = 1; rank < world_size(world); rank++) {
    if (world_rank(world) == 0)
      answer(world, rank);
    else if (world_rank(world) == rank)
      offset_ns = ask(world);
    world_barrier(world);
  }
  return offset_ns;
}

gint64 world_clock_offset(World *world) {
  return world_n_local(world) == world_size(world) ? 0 : world_clock_offset_measured(world);
}
