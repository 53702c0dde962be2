/* The ranks of a run: processes started by mpirun or srun, or a single one without a launcher. Covers placement,
 * failure handling and clock offsets.
 *
 * Failure. Every rank has a line on a status table in memory shared by the ranks of its machine: its process, what it
 * is doing and, if it failed, why. A monitor thread watches the status table and the processes behind it. When a rank
 * dies or fails, every other rank reports it (own rank, what it was doing or waiting for, the rank that failed, the
 * cause) and exits with status 1 within seconds. The monitor also ends ranks waiting for one that never starts, and
 * runs that make no progress, for example because a rank is stopped. SIGTERM and SIGINT end a rank the same way, with
 * status 143 and 130. Ranks on other machines are not on the status table: the launcher ends those (and MPI_Abort is
 * tried).
 *
 * If MPI fails in a function that exchanges data, the run ends as in world_fail(). Call these functions from one
 * thread only; device threads may use MPI concurrently (mpi_call.h). */
#pragma once
#include <glib.h>

/* What kind of work a rank is doing, for stall detection. */
typedef enum {
  RANK_BUSY,     /* work of unknown length: reading, comparing, writing */
  RANK_COMPUTES, /* in an op; each kernel that ends counts as progress */
  RANK_WAITS,    /* for another rank */
} RankActivity;

typedef struct World World;

/* Starts the monitor, then MPI (MPI_THREAD_SERIALIZED). Without a launcher it starts neither. If MPI is not up within
 * `start_timeout_s`, the process prints that ranks are missing and exits with status 1. MPI may change argc and argv.
 * Call it first, before starting threads or using GPUs: under a launcher it forks (death_reporter.h). */
World *world_open(int *argc, char ***argv, double start_timeout_s, GError **error);
/* `status`: this rank's exit status; ≠ 0 ends the other ranks too, 0 waits for them to close. Returns the exit status
 * of the process. NULL is fine. */
int world_close(World *world, int status);

/* For output printed before a world exists: TRUE on the one rank that should print it. */
gboolean world_is_first_launched(void);

int world_rank(const World *world);
int world_size(const World *world);
int world_local_rank(const World *world); /* among the ranks on this machine */
int world_n_local(const World *world);

/* Collective: finds out which ranks share a processor. `id` is the same on ranks that use the same one, NULL if this
 * rank has its own; `name` is the user's name for it, at most 63 bytes. */
void world_find_sharers(World *world, const char *id, const char *name);
/* Ranks that use this rank's processor, itself included; 0: unknown, as world_find_sharers() was not called. */
int world_n_sharers(const World *world);
/* The same for the processor, of all ranks', that most share; `*name` is borrowed. */
int world_most_sharers(const World *world, const char **name);

/* Publishes on the status table what this rank is doing: the name of an op, "0F3", or, while it waits for another rank,
 * a phrase, "waits for 1RECV_F0 from rank 0". Cheap: called once per op, by one thread; text is cut at 120 bytes.
 *
 * The run is stuck when no rank of the machine is busy (RANK_BUSY) and there is no progress for `stall_timeout_s`,
 * if every rank is waiting or stopped (SIGSTOP, a debugger), or for `kernel_timeout_s`, if one is computing. 0, the
 * default, means no limit. Every rank that still can then reports which rank the others wait for, at which op, and
 * where it is itself, and exits. Functions that synchronise with other ranks publish their waits themselves. */
void world_say(World *world, RankActivity activity, const char *format, ...) G_GNUC_PRINTF(3, 4);
void world_set_stall_timeouts(World *world, double stall_timeout_s, double kernel_timeout_s);
/* Reports progress (a transfer or a kernel ended), which resets the stall timeouts. Any thread. */
void world_progress(World *world);
/* This rank has failed: prints "stepreal: rank R: …", notifies the others and ends them all. Does not return. */
G_NORETURN void world_fail(World *world, const char *message);
/* Sets a callback that the monitor thread runs before it ends the process because of another rank or a signal (to
 * abort communicators: comm_start()); abandoned after 3 s. NULL removes it; once this returns, no call is in flight.
 */
void world_on_abort(World *world, void (*abort)(gpointer data), gpointer data);

void world_barrier(World *world);
/* ns to add to this rank's CLOCK_MONOTONIC to get rank 0's; 0 on one machine. Collective; taken from the shortest of
 * several round trips. */
gint64 world_clock_offset(World *world);
/* The same, measured even if rank 0 is on the same machine. Error: at most half the shortest round trip. */
gint64 world_clock_offset_measured(World *world);
/* Host memory; both sides block. For data exchanged before communicators exist: NCCL's ids. Messages between two
 * ranks with the same tag (0 … 32767) arrive in order; both sides must pass the same number of bytes. */
void world_send(World *world, const void *data, gsize bytes, int to, int tag);
void world_receive(World *world, void *data, gsize bytes, int from, int tag);
/* Host memory; collective. */
void world_broadcast(World *world, void *data, gsize bytes, int root);
/* Root gets the data of all ranks, concatenated in rank order, and their sizes [size]; other ranks get NULL. Owned by
 * the caller. */
void *world_gather(World *world, const void *data, gsize bytes, gsize **sizes);
double world_max(World *world, double value);
gboolean world_all(World *world, gboolean value); /* TRUE if it is TRUE on every rank */
