/* Cristian's algorithm (Distributed Computing 3, 1989): rank 0 answers with its time; the answer of the shortest round
 * trip is the least disturbed, and it was given in the middle of that trip, within half of it.
 *
 *   rank r   t0 ────────────► │ ──────────► t1        offset = root − (t0 + t1) / 2
 *   rank 0                  root
 *
 * Ranks take turns, so that no answer waits behind another rank's question. */
#include "clock_offset.h"

#include <time.h>

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

gint64 clock_offset_to_root(World *world) {
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
  return world_n_local(world) == world_size(world) ? 0 : clock_offset_to_root(world);
}
