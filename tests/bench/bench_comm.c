/* Messages and collectives through the device's streams, compared with plain blocking MPI calls. One line per
 * operation and size, as nccl-tests prints them: algbw = bytes / time, busbw = algbw times what every link must carry
 * (collective_bus_factor). Best of N_ROUNDS; the slowest rank counts.
 *
 *   mpirun -n 2 build/tests/bench_comm [LARGEST_BYTES] */
#include "collective.h"
#include "comm.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROUNDS = 5, MAX_CALLS = 200 };

typedef struct {
  World *world;
  Device *device;
  DeviceStream *stream;
  Comm *comm;
  CommGroup *all, *channel; /* channel: rank 0 to 1 */
  DeviceEvent *start, *end;
  char *in, *out;
} Bench;

typedef struct {
  Collective collective;
  Number number;
} Operation;

static const Operation operations[] = {
    {COLLECTIVE_SEND_RECV, NUMBER_FP32},      {COLLECTIVE_ALL_REDUCE, NUMBER_FP32},
    {COLLECTIVE_ALL_REDUCE, NUMBER_BF16},     {COLLECTIVE_ALL_GATHER, NUMBER_FP32},
    {COLLECTIVE_REDUCE_SCATTER, NUMBER_FP32}, {COLLECTIVE_BROADCAST, NUMBER_FP32},
};

static void must(Bench *bench, gboolean is_good, GError *error) {
  if (!is_good)
    world_fail(bench->world, error->message);
}

static void call(Bench *bench, const Operation *op, gint64 bytes) {
  const CollectiveSpec spec = {.collective = op->collective,
                               .number = op->number,
                               .in = op->collective == COLLECTIVE_BROADCAST ? bench->out : bench->in,
                               .out = bench->out,
                               .n = bytes / kernel_element_bytes(op->number)};
  if (op->collective != COLLECTIVE_SEND_RECV)
    mpi_comm.collective(bench->all, bench->stream, &spec);
  else if (world_rank(bench->world) == 0)
    mpi_comm.send(bench->channel, bench->stream, 0, bench->in, bytes);
  else if (world_rank(bench->world) == 1)
    mpi_comm.receive(bench->channel, bench->stream, 0, bench->out, bytes);
}

static void call_plain(Bench *bench, const Operation *op, gint64 bytes) {
  int n = (int)(bytes / 4), size = world_size(bench->world), rank = world_rank(bench->world);
  switch (op->collective) {
  case COLLECTIVE_ALL_REDUCE:
    MPI_Allreduce(bench->in, bench->out, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    break;
  case COLLECTIVE_ALL_GATHER:
    MPI_Allgather(bench->in, n / size, MPI_FLOAT, bench->out, n / size, MPI_FLOAT, MPI_COMM_WORLD);
    break;
  case COLLECTIVE_REDUCE_SCATTER:
    MPI_Reduce_scatter_block(bench->in, bench->out, n / size, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    break;
  case COLLECTIVE_BROADCAST:
    MPI_Bcast(bench->out, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
    break;
  default:
    if (rank == 0)
      MPI_Send(bench->in, n, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
    else if (rank == 1)
      MPI_Recv(bench->out, n, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
}

static double round_s(Bench *bench, const Operation *op, gint64 bytes, int n_calls) {
  g_autoptr(GError) error = NULL;
  const DeviceType *type = bench->device->type;
  world_barrier(bench->world);
  type->record(bench->stream, bench->start);
  for (int i = 0; i < n_calls; i++)
    call(bench, op, bytes);
  type->record(bench->stream, bench->end);
  gboolean is_done = type->sleep_until(bench->end, G_MAXINT64 / 2);
  must(bench, type->check(bench->device, &error) && is_done, error);
  return (double)(type->event_ns(bench->end) - type->event_ns(bench->start)) / 1e9 / n_calls;
}

static double plain_round_s(Bench *bench, const Operation *op, gint64 bytes, int n_calls) {
  world_barrier(bench->world);
  double start_s = MPI_Wtime();
  for (int i = 0; i < n_calls; i++)
    call_plain(bench, op, bytes);
  return (MPI_Wtime() - start_s) / n_calls;
}

static void measure(Bench *bench, const Operation *op, gint64 bytes) {
  int n_calls = (int)CLAMP((64 << 20) / bytes, 4, MAX_CALLS);
  double best_s = G_MAXDOUBLE, plain_s = G_MAXDOUBLE;
  gboolean has_plain = op->number == NUMBER_FP32; /* MPI has no bf16 */
  for (int i = 0; i < N_ROUNDS; i++) {
    best_s = MIN(best_s, world_max(bench->world, round_s(bench, op, bytes, n_calls)));
    if (has_plain)
      plain_s = MIN(plain_s, world_max(bench->world, plain_round_s(bench, op, bytes, n_calls)));
  }
  double factor =
      op->collective == COLLECTIVE_SEND_RECV ? 1 : collective_bus_factor(op->collective, world_size(bench->world));
  double algbw_Bps = (double)bytes / best_s;
  if (world_rank(bench->world) != 0)
    return;
  printf("%-15s %5s %10" G_GINT64_FORMAT " %11.1f %9.2f %9.2f", collective_name(op->collective),
         op->number == NUMBER_FP32 ? "fp32" : "bf16", bytes, best_s * 1e6, algbw_Bps / 1e9, algbw_Bps * factor / 1e9);
  if (has_plain)
    printf(" %11.1f %9.2f %7.2f", plain_s * 1e6, (double)bytes / plain_s * factor / 1e9, plain_s / best_s);
  printf("\n");
  fflush(stdout);
}

static void bench_open(Bench *bench, gint64 largest_bytes) {
  g_autoptr(GError) error = NULL;
  int size = world_size(bench->world), rank = world_rank(bench->world);
  g_autofree int *members = g_new(int, size);
  for (int i = 0; i < size; i++)
    members[i] = i;
  bench->device = cpu_device.open(world_local_rank(bench->world), world_n_local(bench->world), 0, &error);
  must(bench, bench->device != NULL, error);
  const DeviceType *type = bench->device->type;
  must(bench, (bench->stream = type->stream_new(bench->device, STREAM_DP, &error)) != NULL, error);
  must(bench, (bench->comm = mpi_comm.open(bench->world, bench->device, &error)) != NULL, error);
  must(bench, (bench->all = mpi_comm.group_new(bench->comm, members, size, &error)) != NULL, error);
  if (rank < 2)
    must(bench, (bench->channel = mpi_comm.channel_new(bench->comm, 0, 1, TRUE, &error)) != NULL, error);
  must(bench, (bench->start = type->event_new(bench->device, &error)) != NULL, error);
  must(bench, (bench->end = type->event_new(bench->device, &error)) != NULL, error);
  must(bench, (bench->in = type->allocate(bench->device, largest_bytes, &error)) != NULL, error);
  must(bench, (bench->out = type->allocate(bench->device, largest_bytes, &error)) != NULL, error);
}

static void bench_close(Bench *bench) {
  const DeviceType *type = bench->device->type;
  mpi_comm.group_free(bench->all);
  mpi_comm.group_free(bench->channel);
  mpi_comm.close(bench->comm);
  type->event_free(bench->start);
  type->event_free(bench->end);
  type->release(bench->device, bench->in);
  type->release(bench->device, bench->out);
  type->stream_free(bench->stream);
  type->close(bench->device);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  Bench bench = {0};
  bench.world = world_open(&argc, &argv, 60, &error);
  if (bench.world == NULL || world_size(bench.world) < 2) {
    fprintf(stderr, "bench_comm: %s\n", error != NULL ? error->message : "at least two ranks");
    return 1;
  }
  gint64 largest_bytes = argc > 1 ? g_ascii_strtoll(argv[1], NULL, 10) : 64 << 20;
  bench_open(&bench, largest_bytes);
  if (world_rank(bench.world) == 0)
    printf("%d ranks\n%-15s %5s %10s %11s %9s %9s %11s %9s %7s\n", world_size(bench.world), "operation", "type",
           "bytes", "time us", "algbw GB", "busbw GB", "plain us", "busbw GB", "faster");
  for (gsize i = 0; i < G_N_ELEMENTS(operations); i++)
    for (gint64 bytes = 1024; bytes <= largest_bytes; bytes *= 4)
      measure(&bench, &operations[i], bytes);
  bench_close(&bench);
  return world_close(bench.world, 0);
}
