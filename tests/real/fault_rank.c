/* A rank that fails on request, for test_faults.sh. It loops over all_reduces and messages on its streams and prints
 * what it does:
 *
 *   fault_rank [--rank R] [--fail-after N | --close-after N | --stall | --compute | --wrong-tag | --bad-call] …
 *
 * `--rank`: the rank that fails; the others only loop. */
#include "comm.h"
#include "queue_device.h"

#include <stdio.h>
#include <unistd.h>

typedef struct {
  int fail_after, close_after, rank;
  gboolean stalls, computes, expects_other_tag, calls_badly;
  double start_timeout_s, stall_timeout_s, kernel_timeout_s;
} Fault;

typedef struct {
  World *world;
  Comm *comm;
  CommType aloud;
  Device *device;
  DeviceStream *stream, *sends, *receives;
  CommGroup *all, *to_next, *from_previous, *silent;
  float *values, *message;
} Rank;

enum { N_VALUES = 300000, N_MESSAGE = 100000 };

static gboolean parse(int argc, char **argv, Fault *fault, GError **error) {
  GOptionEntry entries[] = {
      {"fail-after", 0, 0, G_OPTION_ARG_INT, &fault->fail_after, "this rank fails after N loops", "N"},
      {"close-after", 0, 0, G_OPTION_ARG_INT, &fault->close_after, "this rank closes with status 3 after N loops", "N"},
      {"stall", 0, 0, G_OPTION_ARG_NONE, &fault->stalls, "this rank waits for what nobody sends", NULL},
      {"compute", 0, 0, G_OPTION_ARG_NONE, &fault->computes, "this rank computes for ever", NULL},
      {"wrong-tag", 0, 0, G_OPTION_ARG_NONE, &fault->expects_other_tag, "this rank expects another tag", NULL},
      {"bad-call", 0, 0, G_OPTION_ARG_NONE, &fault->calls_badly, "this rank calls MPI with a tag below 0", NULL},
      {"rank", 0, 0, G_OPTION_ARG_INT, &fault->rank, "which rank does it", "R"},
      {"start-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &fault->start_timeout_s, "", "S"},
      {"stall-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &fault->stall_timeout_s, "", "S"},
      {"kernel-timeout", 0, 0, G_OPTION_ARG_DOUBLE, &fault->kernel_timeout_s, "", "S"},
      {NULL},
  };
  g_autoptr(GOptionContext) context = g_option_context_new(NULL);
  g_option_context_add_main_entries(context, entries, NULL);
  return g_option_context_parse(context, &argc, &argv, error);
}

/* mpi's, which takes a moment, as NCCL's does, and a line that says so. */
static void abort_aloud(Comm *comm) {
  g_usleep(30 * 1000);
  g_printerr("stepreal: aborts its transfers\n");
  mpi_comm.abort(comm);
}

static gboolean open_rank(Rank *rank, GError **error) {
  int size = world_size(rank->world), self = world_rank(rank->world);
  int next = (self + 1) % size, previous = (self + size - 1) % size;
  g_autofree int *members = g_new(int, size);
  for (int i = 0; i < size; i++)
    members[i] = i;
  rank->device = queue_open(&queue_host_device);
  rank->stream = queue_stream_new(rank->device, STREAM_TP, error);
  rank->sends = queue_stream_new(rank->device, STREAM_SEND_F, error);
  rank->receives = queue_stream_new(rank->device, STREAM_RECV_F, error);
  rank->values = g_new0(float, N_VALUES);
  rank->message = g_new0(float, N_MESSAGE);
  if ((rank->comm = comm_start(&mpi_comm, rank->world, rank->device, error)) == NULL)
    return FALSE;
  rank->aloud = mpi_comm;
  rank->aloud.abort = abort_aloud;
  rank->comm->type = &rank->aloud;
  rank->all = mpi_comm.group_new(rank->comm, members, size, error);
  rank->to_next = mpi_comm.channel_new(rank->comm, self, next, TRUE, error);
  rank->from_previous = mpi_comm.channel_new(rank->comm, previous, self, TRUE, error);
  rank->silent = mpi_comm.channel_new(rank->comm, previous, self, FALSE, error); /* its other end is never made */
  return rank->all != NULL && rank->silent != NULL && rank->to_next != NULL && rank->from_previous != NULL;
}

static void drain(Rank *rank) {
  if (!queue_drain(rank->device))
    world_fail(rank->world, ((QueueDevice *)rank->device)->error->message);
}

static void loop(Rank *rank, const Fault *fault, int i) {
  gboolean is_faulty = world_rank(rank->world) == fault->rank;
  world_say(rank->world, RANK_COMPUTES, "0F%d", i);
  if (is_faulty && fault->fail_after > 0 && i == fault->fail_after)
    world_fail(rank->world, "0F3: cublasLtMatmul: made up");
  if (is_faulty && fault->calls_badly)
    world_send(rank->world, &i, sizeof i, 0, -7);
  while (is_faulty && fault->computes)
    g_usleep(1000);
  const CollectiveSpec spec = {.collective = COLLECTIVE_ALL_REDUCE,
                               .number = NUMBER_FP32,
                               .in = rank->values,
                               .out = rank->values,
                               .n = N_VALUES};
  mpi_comm.collective(rank->all, rank->stream, &spec);
  mpi_comm.send(rank->to_next, rank->sends, i % 7, rank->message, N_MESSAGE);
  mpi_comm.receive(rank->from_previous, rank->receives, is_faulty && fault->expects_other_tag ? 77 : i % 7,
                   rank->message, N_MESSAGE);
  if (is_faulty && fault->stalls)
    mpi_comm.receive(rank->silent, rank->receives, 0, rank->message, 4);
  world_say(rank->world, RANK_WAITS, "waits for 1RECV_F%d from rank %d", i, 1 - MIN(1, world_rank(rank->world)));
  drain(rank);
}

int main(int argc, char **argv) {
  Fault fault = {.start_timeout_s = 30};
  Rank rank = {0};
  g_autoptr(GError) error = NULL;
  if (!parse(argc, argv, &fault, &error) ||
      (rank.world = world_open(&argc, &argv, fault.start_timeout_s, &error)) == NULL) {
    g_printerr("%s\n", error->message);
    return 2;
  }
  world_set_stall_timeouts(rank.world, fault.stall_timeout_s, fault.kernel_timeout_s);
  if (!open_rank(&rank, &error))
    world_fail(rank.world, error->message);
  world_barrier(rank.world);
  if (world_rank(rank.world) == 0)
    g_printerr("running\n");
  gboolean is_closer = fault.close_after > 0 && world_rank(rank.world) == fault.rank;
  for (int i = 1; !is_closer || i <= fault.close_after; i++)
    loop(&rank, &fault, i);
  return world_close(rank.world, 3);
}
