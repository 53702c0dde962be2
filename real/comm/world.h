/* The ranks of a run: processes started by mpirun, srun, or alone. Where ranks are, how they fail together, and how
 * their clocks compare.
 *
 * Failure. Every rank has a line on a board in memory shared by the ranks of its machine: its process, what it is doing,
 * and, when it failed, why. A monitor thread watches the board and the processes behind it: when a rank dies or fails,
 * every other one says so (own rank, what it was doing or waiting for, the rank that failed, the cause), and exits with
 * status 1 within seconds. It also ends ranks that wait for one that never starts, and runs in which nothing moves. */
#pragma once
#include <glib.h>

typedef struct World World;

/* Starts the monitor, then MPI (serialized: one thread at a time calls it). A rank that is alone needs no launcher. When
 * MPI has not come up in `start_timeout_s`, the process prints that ranks are missing and exits with status 1.
 * argc, argv may be changed by MPI. */
World *world_open(int *argc, char ***argv, double start_timeout_s, GError **error);
/* `status`: of this rank; ≠ 0 ends the others too. Returns the exit status of the process. */
int world_close(World *world, int status);

int world_rank(const World *world);
int world_size(const World *world);
int world_local_rank(const World *world); /* among the ranks on this machine */
int world_n_local(const World *world);

/* What this rank is doing, for the board: "waits for 1RECV_F0 from rank 0". Cheap: called once per op; text is cut at
 * 120 bytes. `is_waiting`: for another rank; when all ranks of the machine wait for `stall_timeout_s` the run is stuck
 * and every rank says what it waits for and exits. */
void world_say(World *world, gboolean is_waiting, const char *format, ...) G_GNUC_PRINTF(3, 4);
void world_set_stall_timeout(World *world, double stall_timeout_s);
/* This rank has failed: prints "stepreal: rank R: …", tells the others, and ends all of them. Does not return. */
G_NORETURN void world_fail(World *world, const char *message);
/* Called by the monitor thread before it ends the process after another rank's failure (to abort communicators). */
void world_on_abort(World *world, void (*abort)(gpointer data), gpointer data);

void world_barrier(World *world);
/* ns to add to this rank's CLOCK_MONOTONIC to get rank 0's; 0 on one machine. Collective: the least of some round
 * trips. */
gint64 world_clock_offset(World *world);
/* Host memory; collective. */
void world_broadcast(World *world, void *data, gsize bytes, int root);
/* `bytes` (at most 1 KiB) of host memory from members[0] to the other members (global ranks, ascending, this one among
 * them). Called by the members only, in the same order for equal pairs of ranks. members[0] does not wait for the others
 * to call: groups that form a circle may be opened in any order. FALSE with the error. */
gboolean world_share(World *world, const int *members, int n, void *data, gsize bytes, GError **error);
/* Root gets the parts of all ranks, concatenated by rank, and their sizes [size]; NULL elsewhere. Owned by the caller. */
void *world_gather(World *world, const void *data, gsize bytes, gsize **sizes);
double world_max(World *world, double value);
gboolean world_all(World *world, gboolean value); /* TRUE when it is on every rank */
