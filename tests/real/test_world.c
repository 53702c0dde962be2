/* Exchanges through the world itself, on any number of ranks, and on one without a launcher. */
#include "world.h"
#include "world_state.h"

#include <stdio.h>
#include <string.h>

static int n_tests;

static void report(World *world, const char *name, gboolean is_good) {
  gboolean all = world_all(world, is_good);
  if (world_rank(world) == 0)
    printf("%s %d - %s\n", all ? "ok" : "not ok", ++n_tests, name);
  fflush(stdout);
}

static void test_places(World *world) {
  int n_local = world_n_local(world);
  report(world, "every rank has a place on its machine",
         world_rank(world) < world_size(world) && world_local_rank(world) < n_local && n_local <= world_size(world));
}

/* Longer than MPI's eager messages; another root each time. */
static void test_broadcast(World *world) {
  enum { N = 1000003 };
  g_autofree char *data = g_malloc(N);
  gboolean is_good = TRUE;
  for (int root = 0; root < world_size(world); root++) {
    memset(data, world_rank(world) == root ? 'a' + root : '-', N);
    world_broadcast(world, data, N, root);
    is_good = is_good && data[0] == 'a' + root && data[N - 1] == 'a' + root;
  }
  report(world, "broadcast from any rank", is_good);
}

/* Rank r gives 100000·r bytes of 'a' + r: rank 0 nothing. */
static void test_gather(World *world) {
  gsize own = 100000 * (gsize)world_rank(world), *sizes, offset = 0;
  g_autofree char *data = g_malloc(own + 1);
  memset(data, 'a' + world_rank(world), own);
  g_autofree char *all = world_gather(world, data, own, &sizes);
  gboolean is_good = (all != NULL) == (world_rank(world) == 0) && (sizes != NULL) == (world_rank(world) == 0);
  for (int r = 0; sizes != NULL && r < world_size(world); r++) {
    is_good = is_good && sizes[r] == 100000 * (gsize)r && (r == 0 || all[offset] == 'a' + r) &&
              (r == 0 || all[offset + sizes[r] - 1] == 'a' + r);
    offset += sizes[r];
  }
  g_free(sizes);
  report(world, "gather concatenates parts of any length", is_good);
}

/* Ranks that send what takes long, as records of a check, are not stuck: 33 MiB of each other rank come to the root in
 * pieces of 8 MiB at most, each of which moves what the monitor looks at; a broadcast's to all. */
static void test_long_transfers_progress(World *world) {
  enum { N = 33 << 20, N_PIECES = 5 };
  g_autofree char *data = g_malloc0(N);
  gsize *sizes;
  guint64 before = status_total_progress(world->statuses);
  g_free(world_gather(world, data, N, &sizes));
  g_free(sizes);
  const int n_others = world_size(world) - 1, n_received = world_rank(world) == 0 ? n_others : n_others > 0;
  gboolean is_good = status_total_progress(world->statuses) - before >= (guint64)n_received * N_PIECES;
  world_barrier(world);
  before = status_total_progress(world->statuses);
  world_broadcast(world, data, N, 0);
  is_good = is_good && (n_others == 0 || status_total_progress(world->statuses) - before >= N_PIECES);
  report(world, "what is long on its way counts as progress, piece by piece", is_good);
}

static void test_reductions(World *world) {
  int last = world_size(world) - 1;
  report(world, "max and all",
         world_max(world, -1.5 * world_rank(world)) == 0 && world_all(world, TRUE) &&
             !world_all(world, world_rank(world) != last));
}

/* Round the ring, tags in the order sent. */
static void test_messages(World *world) {
  int size = world_size(world), rank = world_rank(world);
  gboolean is_good = TRUE;
  for (int root = 0; root < size && size > 1; root++)
    for (int tag = 0; tag < 3; tag++) {
      int value = root * 10 + tag, got = -1, next = (root + 1) % size;
      if (rank == root)
        world_send(world, &value, sizeof value, next, tag);
      if (rank == next)
        world_receive(world, &got, sizeof got, root, tag);
      is_good = is_good && (rank != next || got == value);
    }
  world_barrier(world);
  report(world, "messages between ranks", is_good);
}

/* One machine has one clock: what is measured must be near nothing, within the time that a rank may be put to sleep. */
static void test_clock(World *world) {
  gint64 offset_ns = world_clock_offset_measured(world);
  report(world, "the measured clock offset is less than 5 ms on one clock",
         ABS(offset_ns) < 5000000 && (world_rank(world) != 0 || offset_ns == 0));
  report(world, "ranks of one machine are not corrected",
         world_n_local(world) < world_size(world) || world_clock_offset(world) == 0);
}

/* Even ranks share one processor; then each has its own, all by the same name; then none can tell. */
static void test_sharers(World *world) {
  const int rank = world_rank(world), n_even = (world_size(world) + 1) / 2;
  const char *name;
  gboolean is_good = world_n_sharers(world) == 0;
  g_autofree char *own = g_strdup_printf("GPU-%d", rank);
  world_find_sharers(world, rank % 2 == 0 ? "GPU-0" : own, rank % 2 == 0 ? "GPU 0" : "GPU 1");
  is_good = is_good && world_n_sharers(world) == (rank % 2 == 0 ? n_even : 1);
  is_good = is_good && world_most_sharers(world, &name) == n_even && strcmp(name, "GPU 0") == 0;
  world_find_sharers(world, own, "GPU 0");
  is_good = is_good && world_n_sharers(world) == 1 && world_most_sharers(world, &name) == 1;
  world_find_sharers(world, NULL, "");
  report(world, "ranks that share a processor are found by what it is, not by its name",
         is_good && world_n_sharers(world) == 1 && world_most_sharers(world, &name) == 1);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  World *world = world_open(&argc, &argv, 60, &error);
  if (world == NULL) {
    printf("Bail out! %s\n", error->message);
    return 1;
  }
  test_places(world);
  test_broadcast(world);
  test_gather(world);
  test_long_transfers_progress(world);
  test_reductions(world);
  test_messages(world);
  test_clock(world);
  test_sharers(world);
  if (world_rank(world) == 0)
    printf("1..%d\n", n_tests);
  return world_close(world, 0);
}
