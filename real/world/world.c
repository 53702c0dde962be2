/* Opening and closing the world of ranks.
 *
 *   monitor ──► MPI_Init ──► who is on this machine ──► status table: the first makes it, the others open it ──► watch
 *      └── "other ranks did not start" ──────────────────────────────────────────────────────────────────┘
 *
 * A process that no launcher started is a world of one and leaves MPI alone: it starts at once, and says nothing. */
#include "world_state.h"

#include "end_message.h"
#include "error.h"
#include "launcher.h"
#include "mpi_call.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

/* What launchers put in the environment: MPICH, Slurm and Cray (PMI), OpenMPI and PRRTE, Intel, MVAPICH, Spectrum,
 * Flux. A wrong hit only starts MPI for one rank. */
static gboolean has_launcher(void) {
  static const char *const prefixes[] = {"PMI_", "PMIX_", "OMPI_", "PRTE_", "SLURM_PROCID", "HYDI_",    "I_MPI_",
                                         "MV2_", "PALS_", "ALPS_", "JSM_",  "MPI_LOCAL",    "FLUX_TASK"};
  g_auto(GStrv) names = g_listenv();
  for (char **name = names; *name != NULL; name++)
    for (gsize i = 0; i < G_N_ELEMENTS(prefixes); i++)
      if (g_str_has_prefix(*name, prefixes[i]))
        return TRUE;
  return FALSE;
}

#ifdef HAVE_MPI
/* Where UCX cannot read another process's memory (its module cma is missing, or the container forbids it), it sends
 * large messages by TCP between ranks of one machine too, and MPI_Finalize of MPICH 4.0.2 over UCX 1.13.1 then waits
 * for ever: the last rank no longer answers the first. Seen on 2026-11-22: two ranks (pp 2) of what pack-gpu.sh packs,
 * which has no module cma, under UCX_TLS=all have equal numbers and do not end; without TCP they do. Ranks that are all
 * on one machine do without it, unless the user has set UCX_TLS: where shared memory is of no use either, nothing else
 * is left. Read by UCX when MPI starts; MPICH's launcher says how many of its ranks are here. */
static void keep_to_shared_memory(void) {
  const char *all = g_getenv("PMI_SIZE"), *local = g_getenv("MPI_LOCALNRANKS");
  if (all != NULL && g_strcmp0(all, local) == 0)
    g_setenv("UCX_TLS", "^tcp", FALSE);
}

/* A rank that crashes is to be dead at once, which the others notice and say. UCX (1.13.1) has a handler in place that
 * prints a backtrace first, for which it takes locks: of 12 ranks that were sent SIGSEGV in training (dp 2) on
 * 2026-11-23 one waited there for itself for ever, and the other rank for it. It is taken away unless the user has
 * asked for what it does; others' handlers, a sanitizer's among them, stay. */
static void crash_at_once(void) {
  static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  if (g_getenv("UCX_HANDLE_ERRORS") != NULL || g_getenv("UCX_ERROR_SIGNALS") != NULL)
    return;
  for (gsize i = 0; i < G_N_ELEMENTS(crashes); i++) {
    struct sigaction now;
    Dl_info owner;
    if (sigaction(crashes[i], NULL, &now) == 0 && dladdr((const void *)now.sa_sigaction, &owner) != 0 &&
        strstr(owner.dli_fname, "/libucs.") != NULL)
      signal(crashes[i], SIG_DFL);
  }
}

static gboolean start_mpi(World *world, int *argc, char ***argv, GError **error) {
  int provided, is_started;
  keep_to_shared_memory();
  MPI_TRY(world, error, MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &provided));
  crash_at_once(); /* now its libraries are there */
  MPI_TRY(world, error, MPI_Initialized(&is_started));
  world->has_mpi = is_started;
  if (provided < MPI_THREAD_SERIALIZED)
    return fail_impossible(error, "this MPI cannot be called from several threads (MPI_THREAD_SERIALIZED)");
  MPI_TRY(world, error, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  if (!mpi_duplicate(world, MPI_COMM_WORLD, &world->all, error) ||
      !mpi_duplicate(world, MPI_COMM_WORLD, &world->messages, error))
    return FALSE;
  MPI_TRY(world, error, MPI_Comm_rank(world->all, &world->rank));
  MPI_TRY(world, error, MPI_Comm_size(world->all, &world->size));
  char library[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length;
  MPI_TRY(world, error, MPI_Get_library_version(library, &length));
  return launcher_check("stepreal", world->size, library, error);
}

/* The status table of all ranks of the machine, whose communicator is `local`. FALSE only when MPI fails: a rank that
 * cannot open it makes all of them do without (world->status table stays NULL). */
static gboolean share_status_table(World *world, MPI_Comm local, GError **error) {
  g_autoptr(GError) mapping = NULL;
  int fd = -1;
  if (world->local_rank == 0)
    world->statuses = status_new(world->n_local, &fd, &mapping);
  gint64 where[2] = {getpid(), fd};
  MPI_TRY(world, error, MPI_Bcast(where, 2, MPI_INT64_T, 0, local));
  if (world->local_rank != 0 && where[1] >= 0)
    world->statuses = status_join(where[0], (int)where[1], world->n_local, &mapping);
  int is_shared = world->statuses != NULL, all_share;
  if (is_shared)
    status_enter(world->statuses, world->local_rank, world->rank, death_reporter_lifeline(world->reporter));
  MPI_TRY(world, error, MPI_Allreduce(&is_shared, &all_share, 1, MPI_INT, MPI_MIN, local));
  if (all_share)
    return TRUE;
  if (mapping != NULL)
    g_printerr("stepreal: rank %d: %s; failures of other ranks are left to MPI\n", world->rank, mapping->message);
  g_clear_pointer(&world->statuses, status_free);
  return TRUE;
}

static gboolean meet_neighbours(World *world, GError **error) {
  MPI_Comm local;
  MPI_TRY(world, error, MPI_Comm_split_type(world->all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local));
  MPI_TRY(world, error, MPI_Comm_rank(local, &world->local_rank));
  MPI_TRY(world, error, MPI_Comm_size(local, &world->n_local));
  world->line = world->local_rank;
  gboolean is_met = share_status_table(world, local, error);
  MPI_TRY(world, error, MPI_Comm_free(&local));
  return is_met;
}

/* The run ends by this rank's will; the status table reaches this machine only. The lock may be held by a thread that
 * waits for another rank: then the launcher has to notice. */
static void leave(gpointer data) {
  World *world = data;
  if (world->n_local == world->size)
    return;
  for (int i = 0; i < 500; i++) {
    if (g_mutex_trylock(&world->mpi_lock))
      MPI_Abort(MPI_COMM_WORLD, 1);
    g_usleep(1000);
  }
}
#else
/* A launcher's ranks would each train alone, on the same cores. */
static gboolean start_mpi(World *world, int *argc, char ***argv, GError **error) {
  const int n = launcher_n_processes();
  if (n > 1)
    return fail_impossible(error, "%d ranks were started, and this stepreal is built without MPI; expected one", n);
  return TRUE;
}

static void leave(gpointer data) {
}
#endif

static gboolean open_status_table(World *world, GError **error) {
#ifdef HAVE_MPI
  if (world->has_mpi && !meet_neighbours(world, error))
    return FALSE;
#endif
  if (world->statuses == NULL) {
    int fd;
    world->line = 0;
    world->statuses = status_new(1, &fd, error);
    if (world->statuses == NULL)
      return FALSE;
    status_enter(world->statuses, 0, world->rank, -1);
  }
  if (world->reporter != NULL && world->local_rank == 0 && status_n_lines(world->statuses) > 1)
    death_reporter_watch(world->reporter, world->statuses);
  else
    death_reporter_dismiss(world->reporter);
  monitor_watch(world->monitor, world->statuses, world->line, leave, world);
  return TRUE;
}

gboolean world_is_first_launched(void) {
  const char *rank = launcher_rank();
  return strcmp(rank, "0") == 0 || strcmp(rank, "?") == 0;
}

World *world_open(int *argc, char ***argv, double start_timeout_s, GError **error) {
  World *world = g_new0(World, 1);
  gboolean is_launched = has_launcher(), is_open = TRUE;
  world->size = world->n_local = 1;
  g_mutex_init(&world->mpi_lock);
  if (is_launched)
    world->reporter = death_reporter_start(); /* before there are threads and MPI */
  world->monitor = monitor_start(start_timeout_s, is_launched);
  if (is_launched)
    is_open = start_mpi(world, argc, argv, error);
  if (is_open && open_status_table(world, error))
    return world;
  monitor_stop(world->monitor);
  death_reporter_stop(world->reporter);
  g_mutex_clear(&world->mpi_lock);
  g_clear_pointer(&world->statuses, status_free);
  g_free(world);
  return NULL;
}

int world_close(World *world, int status) {
  if (world == NULL)
    return status;
  if (status != 0) {
    g_autofree char *failure = g_strdup_printf("it ended with status %d", status);
    monitor_announce(world->monitor, failure, TRUE);
    leave(world);
    return status; /* MPI stays open: closing it would wait for the others */
  }
  status_set_state(world->statuses, world->line, LINE_FINISHED);
#ifdef HAVE_MPI
  if (world->has_mpi) {
    mpi_parts_free(world);
    MPI_Comm_free(&world->all);
    MPI_Comm_free(&world->messages);
    MPI_Finalize();
  }
#endif
  status_set_state(world->statuses, world->line, LINE_GONE);
  monitor_stop(world->monitor);
  death_reporter_stop(world->reporter);
  status_free(world->statuses);
  g_mutex_clear(&world->mpi_lock);
  g_free(world);
  return status;
}

int world_rank(const World *world) {
  return world->rank;
}

int world_size(const World *world) {
  return world->size;
}

int world_local_rank(const World *world) {
  return world->local_rank;
}

int world_n_local(const World *world) {
  return world->n_local;
}

void world_say(World *world, RankActivity activity, const char *format, ...) {
  char text[STATUS_TEXT_BYTES + 1];
  va_list arguments;
  va_start(arguments, format);
  g_vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  status_say(world->statuses, world->line, activity, text);
}

void world_progress(World *world) {
  status_progress(world->statuses, world->line);
}

void world_set_stall_timeouts(World *world, double stall_timeout_s, double kernel_timeout_s) {
  monitor_set_stall_timeouts(world->monitor, stall_timeout_s, kernel_timeout_s);
}

void world_on_abort(World *world, void (*abort)(gpointer data), gpointer data) {
  monitor_on_abort(world->monitor, abort, data);
}

void world_fail(World *world, const char *message) {
  monitor_announce(world->monitor, message, FALSE);
  monitor_exit(world->monitor, 1);
}
