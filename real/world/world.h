/* The ranks of a run: processes started by mpirun, srun, or alone. Where ranks are, how they fail together, and how
 * their clocks compare.
 *
 * Failure. Every rank has a line on a board in memory shared by the ranks of its machine: its process, what it is
 * doing, and, when it failed, why. A monitor thread watches the board and the processes behind it: when a rank dies or
 * fails, every other one says so (own rank, what it was doing or waiting for, the rank that failed, the cause), and
 * exits with status 1 within seconds. It also ends ranks that wait for one that never starts, and runs in which nothing
 * moves, as when a rank is stopped. SIGTERM and SIGINT end a rank the same way, with status 143 and 130. Ranks on other
 * machines are not on the board: the launcher ends those (and MPI_Abort is tried).
 *
 * The functions that exchange data end the run as world_fail() does when MPI fails. They are called by one thread; the
 * threads of a device may use MPI beside it (mpi_call.h). */
#pragma once
#include "activity.h"

#include <glib.h>

typedef struct World World;

/* Starts the monitor, then MPI (serialized: one thread at a time calls it), unless no launcher is in sight: a rank that
 * is alone needs neither. When MPI has not come up in `start_timeout_s`, the process prints that ranks are missing and
 * exits with status 1. argc, argv may be changed by MPI. To be called first: under a launcher it forks (witness.h),
 * before threads and GPUs. */
World *world_open(int *argc, char ***argv, double start_timeout_s, GError **error);
/* `status`: of this rank; ≠ 0 ends the others too. 0 waits for the others to close. Returns the exit status of the
 * process. NULL is fine. */
int world_close(World *world, int status);

/* For what is printed without a world, by all ranks alike: TRUE on the one that prints it. */
gboolean world_is_first_launched(void);

int world_rank(const World *world);
int world_size(const World *world);
int world_local_rank(const World *world); /* among the ranks on this machine */
int world_n_local(const World *world);

/* What this rank is doing, for the board: the name of an op, "0F3"; or, where it waits for another rank, a phrase,
 * "waits for 1RECV_F0 from rank 0". Cheap: called once per op, by one thread; text is cut at 120 bytes.
 *
 * The run is stuck when no rank of the machine is busy (activity.h) and nothing moves: for `stall_timeout_s` where all
 * wait, but for such as are stopped (SIGSTOP, a debugger); for `kernel_timeout_s` where one computes. 0, as at first:
 * for ever. Every rank that can then says which one the others wait for, at which op, and where it is itself, and
 * exits. Functions that meet other ranks say that they wait by themselves. */
void world_say(World *world, RankActivity activity, const char *format, ...) G_GNUC_PRINTF(3, 4);
void world_set_stall_timeouts(World *world, double stall_timeout_s, double kernel_timeout_s);
/* Something was transferred, or computed: a run in which this is called is not stuck. Any thread. */
void world_progress(World *world);
/* This rank has failed: prints "stepreal: rank R: …", tells the others, and ends all of them. Does not return. */
G_NORETURN void world_fail(World *world, const char *message);
/* Called before the process is ended because of another rank or a signal, by the monitor thread (to abort
 * communicators: comm_start()); cut off when it takes longer than 3 s. NULL: nothing any more; when this returns, no
 * call is under way. */
void world_on_abort(World *world, void (*abort)(gpointer data), gpointer data);

void world_barrier(World *world);
/* ns to add to this rank's CLOCK_MONOTONIC to get rank 0's; 0 on one machine. Collective: the least of some round
 * trips. */
gint64 world_clock_offset(World *world);
/* Host memory; both wait for the other. For what is exchanged before communicators exist: NCCL's ids. Messages between
 * two ranks with one tag (0 … 32767) arrive in order; both sides say the same number of bytes. */
void world_send(World *world, const void *data, gsize bytes, int to, int tag);
void world_receive(World *world, void *data, gsize bytes, int from, int tag);
/* Host memory; collective. */
void world_broadcast(World *world, void *data, gsize bytes, int root);
/* Root gets the parts of all ranks, concatenated by rank, and their sizes [size]; NULL elsewhere. Owned by the caller.
 */
void *world_gather(World *world, const void *data, gsize bytes, gsize **sizes);
double world_max(World *world, double value);
gboolean world_all(World *world, gboolean value); /* TRUE when it is on every rank */
