/* The communication that moves nothing, used to time the kernels of any sharding on one rank. */
#include "comm.h"
#include "queue_device.h"
#include "run_suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

static World *world; /* of one rank; opened once */

typedef struct {
  Device *device;
  DeviceStream *stream;
  Comm *comm;
  CommGroup *group; /* imagined, of four: this rank is member 1 */
} Alone;

static Alone alone_new(void) {
  GError *error = NULL;
  Alone alone = {.device = queue_open(&queue_host_device)};
  alone.stream = queue_stream_new(alone.device, STREAM_DP, &error);
  alone.comm = null_comm.open(world, alone.device, &error);
  const int members[] = {-1, 0, 1, 2};
  alone.group = null_comm.group_new(alone.comm, members, 4, &error);
  ck_assert_msg(error == NULL && alone.group != NULL, "%s", error != NULL ? error->message : "no group");
  return alone;
}

static void alone_free(Alone *alone) {
  null_comm.group_free(alone->group);
  null_comm.close(alone->comm);
  queue_close(alone->device);
}

static void carry_out(const Alone *alone, Collective collective, const void *in, void *out, gint64 n) {
  const CollectiveSpec spec = {.collective = collective, .number = NUMBER_FP32, .in = in, .out = out, .n = n};
  null_comm.collective(alone->group, alone->stream, &spec);
}

TEST(the_own_part_is_where_it_belongs_and_the_rest_untouched) {
  Alone alone = alone_new();
  const float part[2] = {1, 2};
  float whole[8] = {0}, shard[2] = {0}, sum[2] = {0};
  carry_out(&alone, COLLECTIVE_ALL_GATHER, part, whole, 8);
  carry_out(&alone, COLLECTIVE_REDUCE_SCATTER, whole, shard, 8);
  carry_out(&alone, COLLECTIVE_ALL_REDUCE, part, sum, 2);
  ck_assert(queue_drain(alone.device));
  const float gathered[8] = {0, 0, 1, 2, 0, 0, 0, 0}; /* elements 2 and 3 are member 1's */
  ck_assert_mem_eq(whole, gathered, sizeof gathered);
  ck_assert_mem_eq(shard, part, sizeof part);
  ck_assert_mem_eq(sum, part, sizeof part);
  alone_free(&alone);
}

TEST(nobody_is_waited_for_and_nothing_received) {
  Alone alone = alone_new();
  GError *error = NULL;
  CommGroup *channel = null_comm.channel_new(alone.comm, 0, 1, TRUE, &error);
  ck_assert_ptr_nonnull(channel);
  float sent[2] = {1, 2}, received[2] = {3, 4};
  null_comm.send(channel, alone.stream, 0, sent, sizeof sent);
  null_comm.receive(channel, alone.stream, 0, received, sizeof received);
  ck_assert(queue_drain(alone.device));
  ck_assert(sent[0] == 1 && sent[1] == 2 && received[0] == 3 && received[1] == 4);
  null_comm.group_free(channel);
  alone_free(&alone);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  world = world_open(&argc, &argv, 10, &error);
  if (world == NULL) {
    printf("Bail out! %s\n", error->message);
    return world_close(world, EXIT_FAILURE);
  }
  return world_close(world, run_case_here("null communication", listed_tests()));
}
