/* Waiting for MPI without holding its lock, saying what it found wrong, and communicators of some of the ranks. */
#include "mpi_call.h"

#include "error.h"

enum { SPIN_US = 50, MIN_SLEEP_US = 20, MAX_SLEEP_US = 1000, SAY_US = 50 * 1000 };

gboolean mpi_fail(World *world, GError **error, int code, const char *call, const char *file, int line) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int bytes;
  g_mutex_lock(&world->mpi_lock);
  MPI_Error_string(code, text, &bytes);
  g_mutex_unlock(&world->mpi_lock);
  g_autofree char *name = g_path_get_basename(file);
  return fail_impossible(error, "%s on rank %d (%s:%d): %s", call, world->rank, name, line, g_strstrip(text));
}

/* What the status table says of a rank that meets others outside of ops. */
static void say_meeting(World *world, gboolean is_worth_it, RankActivity activity) {
  if (is_worth_it && world->statuses != NULL)
    status_say(world->statuses, world->line, activity,
               activity == RANK_WAITS ? "waits for the other ranks between ops" : "between ops");
}

gboolean mpi_wait(World *world, MPI_Request *request, GError **error) {
  gint64 start_us = g_get_monotonic_time();
  gulong sleep_us = MIN_SLEEP_US;
  gboolean has_said = FALSE;
  for (;;) {
    int is_done;
    MPI_TRY(world, error, MPI_Test(request, &is_done, MPI_STATUS_IGNORE));
    if (is_done) {
      say_meeting(world, has_said, RANK_BUSY);
      return TRUE;
    }
    const gint64 waited_us = g_get_monotonic_time() - start_us;
    if (waited_us < SPIN_US) {
      g_thread_yield();
      continue;
    }
    say_meeting(world, !has_said && waited_us > SAY_US, RANK_WAITS);
    has_said = has_said || waited_us > SAY_US;
    g_usleep(sleep_us);
    sleep_us = MIN(2 * sleep_us, MAX_SLEEP_US);
  }
}

gboolean mpi_duplicate(World *world, MPI_Comm original, MPI_Comm *copy, GError **error) {
  MPI_Request request;
  MPI_TRY(world, error, MPI_Comm_idup(original, copy, &request));
  return mpi_wait(world, &request, error);
}

typedef struct {
  GBytes *members; /* ints */
  MPI_Comm comm;
} Part;

static gboolean make_part(World *world, const int *members, int n, MPI_Comm *part, GError **error) {
  MPI_Group everyone, some;
  MPI_TRY(world, error, MPI_Comm_group(world->all, &everyone));
  MPI_TRY(world, error, MPI_Group_incl(everyone, n, members, &some));
  MPI_TRY(world, error, MPI_Comm_create_group(world->all, some, 0, part));
  MPI_TRY(world, error, MPI_Group_free(&everyone));
  MPI_TRY(world, error, MPI_Group_free(&some));
  return TRUE;
}

gboolean mpi_part(World *world, const int *members, int n, MPI_Comm *part, GError **error) {
  g_autoptr(GBytes) key = g_bytes_new(members, (gsize)n * sizeof *members);
  if (world->parts == NULL)
    world->parts = g_array_new(FALSE, FALSE, sizeof(Part));
  for (guint i = 0; i < world->parts->len; i++) {
    const Part *known = &g_array_index(world->parts, Part, i);
    if (g_bytes_equal(known->members, key)) {
      *part = known->comm;
      return TRUE;
    }
  }
  say_meeting(world, TRUE, RANK_WAITS);
  if (!make_part(world, members, n, part, error))
    return FALSE;
  say_meeting(world, TRUE, RANK_BUSY);
  Part made = {g_steal_pointer(&key), *part};
  g_array_append_val(world->parts, made);
  return TRUE;
}

void mpi_parts_free(World *world) {
  for (guint i = 0; world->parts != NULL && i < world->parts->len; i++) {
    Part *part = &g_array_index(world->parts, Part, i);
    g_bytes_unref(part->members);
    MPI_Comm_free(&part->comm);
  }
  g_clear_pointer(&world->parts, g_array_unref);
}
