/* What ranks exchange through the world itself, on any number of ranks; also alone, without a launcher. */
#include "clock_offset.h"
#include "comm.h"
#include "queue_device.h"

#include <stdio.h>

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
  gint64 offset_ns = clock_offset_to_root(world);
  report(world, "the measured clock offset is less than 5 ms on one clock",
         ABS(offset_ns) < 5000000 && (world_rank(world) != 0 || offset_ns == 0));
  report(world, "ranks of one machine are not corrected",
         world_n_local(world) < world_size(world) || world_clock_offset(world) == 0);
}

/* Rank 0 of an imagined group of four: its own part is where it belongs, the rest untouched. */
static void test_null_comm(World *world) {
  GError *error = NULL;
  Device *device = queue_open(&queue_host_device);
  DeviceStream *stream = queue_stream_new(device, STREAM_DP, &error);
  Comm *comm = null_comm.open(world, device, &error);
  int members[4];
  for (int i = 0; i < 4; i++)
    members[i] = world_rank(world) + i - 1; /* member 1 */
  CommGroup *group = null_comm.group_new(comm, members, 4, &error);
  CommGroup *channel = null_comm.channel_new(comm, 0, 1, TRUE, &error);
  float part[2] = {1, 2}, whole[8] = {0}, shard[2] = {0}, sum[2] = {0};
  null_comm.collective(group, stream, COLLECTIVE_ALL_GATHER, REDUCE_SUM, NUMBER_FP32, part, whole, 8);
  null_comm.collective(group, stream, COLLECTIVE_REDUCE_SCATTER, REDUCE_SUM, NUMBER_FP32, whole, shard, 8);
  null_comm.collective(group, stream, COLLECTIVE_ALL_REDUCE, REDUCE_SUM, NUMBER_FP32, part, sum, 2);
  null_comm.send(channel, stream, 0, part, 8);
  null_comm.receive(channel, stream, 0, part, 8);
  gboolean is_good = queue_drain(device) && whole[2] == 1 && whole[3] == 2 && whole[0] == 0 && whole[4] == 0;
  report(world, "the null communication copies the own part",
         is_good && shard[0] == 1 && shard[1] == 2 && sum[1] == 2 && part[0] == 1);
  null_comm.group_free(group);
  null_comm.group_free(channel);
  null_comm.close(comm);
  queue_close(device);
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
  test_reductions(world);
  test_messages(world);
  test_clock(world);
  test_null_comm(world);
  if (world_rank(world) == 0)
    printf("1..%d\n", n_tests);
  return world_close(world, 0);
}
