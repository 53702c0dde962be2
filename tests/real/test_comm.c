/* Communication on four ranks, on a device whose memory the host can access and on one whose memory it cannot. Inputs
 * are integers that every rank can compute for all ranks, so results are exact and each rank checks its own. */
#include "comm_fixture.h"

static const Number numbers[] = {NUMBER_FP32, NUMBER_BF16, NUMBER_FP16};
/* around the limits of exchange.c: one small message, one chunk, several chunks; odd */
static const gint64 counts[] = {1, 3, 7, 1001, 4099, 65537, 300007};

enum { IN_PLACE_OUT = 1, IN_PLACE_PART = 2 };

static int combined(const int *members, int n, gint64 i, ReduceKind reduce) {
  int result = 0;
  for (int m = 0; m < n; m++) {
    int value = value_of(members[m], i);
    result = reduce == REDUCE_SUM ? result + value : MAX(result, value);
  }
  return result;
}

typedef struct {
  Collective collective;
  ReduceKind reduce;
  Number number;
  gint64 n; /* of the whole */
  int in_place;
} Case;

/* What place i of the output must hold. */
static int expected_of(const Case *one, const int *members, int size, int rank, gint64 i) {
  gint64 part = one->n / size;
  switch (one->collective) {
  case COLLECTIVE_ALL_GATHER:
    return value_of(members[i / part], i % part);
  case COLLECTIVE_REDUCE_SCATTER:
    return combined(members, size, rank * part + i, one->reduce);
  case COLLECTIVE_BROADCAST:
    return value_of(members[0], i);
  case COLLECTIVE_ALL_TO_ALL:
    return value_of(members[i / part], rank * part + i % part);
  case COLLECTIVE_SEND_RECV:
    return value_of(members[(rank + size - 1) % size], i);
  default:
    return combined(members, size, i, one->reduce);
  }
}

/* Memory and places of one call. */
typedef struct {
  char *in_memory, *out_memory; /* the same in place */
  char *in, *out;
  gint64 n_in, n_out;
} Buffers;

static Buffers buffers_new(Ranks *ranks, const Case *one, int size, int rank) {
  gint64 bytes = kernel_element_bytes(one->number), part = one->n / size;
  Buffers b = {.n_in = one->n, .n_out = one->n};
  if (one->collective == COLLECTIVE_ALL_GATHER)
    b.n_in = part;
  if (one->collective == COLLECTIVE_REDUCE_SCATTER)
    b.n_out = part;
  b.in_memory = memory_new(ranks, one->n * bytes);
  b.out_memory = one->in_place ? b.in_memory : memory_new(ranks, one->n * bytes);
  b.in = b.in_memory;
  b.out = b.out_memory;
  if (one->in_place == IN_PLACE_PART && one->collective == COLLECTIVE_ALL_GATHER)
    b.in += rank * part * bytes;
  if (one->in_place == IN_PLACE_PART && one->collective == COLLECTIVE_REDUCE_SCATTER)
    b.out += rank * part * bytes;
  return b;
}

static void buffers_free(Ranks *ranks, const Buffers *b) {
  memory_free(ranks, b->in_memory);
  if (b->out_memory != b->in_memory)
    memory_free(ranks, b->out_memory);
}

static Buffers start_case(Ranks *ranks, CommGroup *group, DeviceStream *stream, const int *members, int size,
                          const Case *one) {
  int rank = 0;
  while (members[rank] != ranks->rank)
    rank++;
  Buffers b = buffers_new(ranks, one, size, rank);
  g_autofree char *data = g_malloc((gsize)(b.n_in * 4));
  for (gint64 i = 0; i < b.n_in; i++)
    put(one->number, data, i, value_of(ranks->rank, i));
  memory_copy(ranks, b.in, data, b.n_in * kernel_element_bytes(one->number));
  const CollectiveSpec spec = {.collective = one->collective,
                               .reduce = one->reduce,
                               .number = one->number,
                               .in = b.in,
                               .out = b.out,
                               .n = one->n};
  ranks->type->collective(group, stream, &spec);
  return b;
}

static gboolean end_case(Ranks *ranks, const int *members, int size, const Case *one, const Buffers *b) {
  int rank = 0;
  while (members[rank] != ranks->rank)
    rank++;
  gboolean is_good = queue_drain(ranks->device);
  g_autofree char *data = g_malloc((gsize)(b->n_out * 4));
  memory_copy(ranks, data, b->out, b->n_out * kernel_element_bytes(one->number));
  for (gint64 i = 0; i < b->n_out && is_good; i++)
    is_good = holds(one->number, data, i, expected_of(one, members, size, rank, i));
  buffers_free(ranks, b);
  return is_good;
}

static gboolean run_case(Ranks *ranks, CommGroup *group, const int *members, int size, const Case *one) {
  Buffers b = start_case(ranks, group, ranks->streams[0], members, size, one);
  return end_case(ranks, members, size, one, &b);
}

static const int everyone[] = {0, 1, 2, 3};

static void test_collective(Ranks *ranks, const char *name, Collective collective, ReduceKind reduce, int in_place) {
  gboolean is_cut = collective == COLLECTIVE_ALL_GATHER || collective == COLLECTIVE_REDUCE_SCATTER ||
                    collective == COLLECTIVE_ALL_TO_ALL;
  gboolean is_good = TRUE;
  for (gsize c = 0; c < G_N_ELEMENTS(counts); c++)
    /* long ones are cut by bytes: fp16 as bf16 */
    for (gsize k = 0; k < (counts[c] > 5000 ? 2 : G_N_ELEMENTS(numbers)); k++) {
      Case one = {collective, reduce, numbers[k], is_cut ? 4 * counts[c] : counts[c], in_place};
      is_good = run_case(ranks, ranks->all, everyone, 4, &one) && is_good;
    }
  report(ranks, name, is_good);
}

static void test_collectives(Ranks *ranks) {
  test_collective(ranks, "all_reduce adds up", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, 0);
  test_collective(ranks, "all_reduce in place", COLLECTIVE_ALL_REDUCE, REDUCE_SUM, IN_PLACE_OUT);
  test_collective(ranks, "all_reduce takes the largest", COLLECTIVE_ALL_REDUCE, REDUCE_MAX, IN_PLACE_OUT);
  test_collective(ranks, "all_gather concatenates", COLLECTIVE_ALL_GATHER, REDUCE_SUM, 0);
  test_collective(ranks, "all_gather from the own part of the output", COLLECTIVE_ALL_GATHER, REDUCE_SUM,
                  IN_PLACE_PART);
  test_collective(ranks, "reduce_scatter adds up", COLLECTIVE_REDUCE_SCATTER, REDUCE_SUM, 0);
  test_collective(ranks, "reduce_scatter into the own part of the input", COLLECTIVE_REDUCE_SCATTER, REDUCE_SUM,
                  IN_PLACE_PART);
  test_collective(ranks, "broadcast from member 0", COLLECTIVE_BROADCAST, REDUCE_SUM, 0);
  test_collective(ranks, "broadcast in place", COLLECTIVE_BROADCAST, REDUCE_SUM, IN_PLACE_OUT);
  test_collective(ranks, "all_to_all turns members and parts round", COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, 0);
  test_collective(ranks, "send_recv hands on to the next member", COLLECTIVE_SEND_RECV, REDUCE_SUM, 0);
}

/* Parts longer than what exchange.c sends in one message where nothing is reduced. */
static void test_long_parts(Ranks *ranks) {
  Case gather = {COLLECTIVE_ALL_GATHER, REDUCE_SUM, NUMBER_FP32, 4 * 1100003, 0};
  Case broadcast = {COLLECTIVE_BROADCAST, REDUCE_SUM, NUMBER_FP32, 5000011, 0};
  gboolean is_good = run_case(ranks, ranks->all, everyone, 4, &gather);
  report(ranks, "all_gather and broadcast of 18 MB", run_case(ranks, ranks->all, everyone, 4, &broadcast) && is_good);
  Case swap = {COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, NUMBER_FP32, 4 * 1100003, 0};
  Case ring = {COLLECTIVE_SEND_RECV, REDUCE_SUM, NUMBER_BF16, 5000011, 0};
  is_good = run_case(ranks, ranks->all, everyone, 4, &swap);
  report(ranks, "all_to_all of 18 MB, send_recv of 10 MB", run_case(ranks, ranks->all, everyone, 4, &ring) && is_good);
}

static guint32 random_bits(int rank, gint64 i) {
  return kernel_random(42, (guint64)(rank * 1000003 + i));
}

static float random_value(int rank, gint64 i) {
  return ((float)random_bits(rank, i) - 0x1p31f) * 0x1p-20f;
}

/* Over all ranks, in place. */
static void sum_over_all(Ranks *ranks, Number number, void *data, gint64 n) {
  const CollectiveSpec spec = {.collective = COLLECTIVE_ALL_REDUCE, .number = number, .in = data, .out = data, .n = n};
  ranks->type->collective(ranks->all, ranks->streams[0], &spec);
}

/* Sums of fp32 depend on their order: here it is the members'. */
static void test_order_of_sums(Ranks *ranks) {
  enum { N = 100003 };
  float *data = memory_new(ranks, N * 4);
  g_autofree float *values = g_new(float, N);
  for (gint64 i = 0; i < N; i++)
    values[i] = random_value(ranks->rank, i);
  memory_copy(ranks, data, values, N * 4);
  sum_over_all(ranks, NUMBER_FP32, data, N);
  gboolean is_good = queue_drain(ranks->device);
  memory_copy(ranks, values, data, N * 4);
  for (gint64 i = 0; i < N; i++) {
    float sum = random_value(0, i);
    for (int r = 1; r < 4; r++)
      sum += random_value(r, i);
    is_good = is_good && memcmp(&sum, &values[i], 4) == 0;
  }
  memory_free(ranks, data);
  report(ranks, "sums are made in member order, bit for bit", is_good);
}

/* 256 + 1 + 1 + 1 = 259 lies between bf16's 258 and 260 and goes to the even one; rounding after each addition would
 * stay at 256. */
static void test_rounds_once(Ranks *ranks) {
  guint16 value = ranks->rank == 0 ? 0x4380 : 0x3f80, *data = memory_new(ranks, 2);
  memory_copy(ranks, data, &value, 2);
  sum_over_all(ranks, NUMBER_BF16, data, 1);
  gboolean is_good = queue_drain(ranks->device);
  memory_copy(ranks, &value, data, 2);
  memory_free(ranks, data);
  report(ranks, "a sum in bf16 is rounded once", is_good && value == 0x4382);
}

static void test_doubles(Ranks *ranks) {
  double values[] = {1 + ranks->rank, 0.5, -3e100}, *data = memory_new(ranks, sizeof values);
  memory_copy(ranks, data, values, sizeof values);
  ranks->type->all_reduce_doubles(ranks->all, ranks->streams[0], data, 3);
  gboolean is_good = queue_drain(ranks->device);
  memory_copy(ranks, values, data, sizeof values);
  memory_free(ranks, data);
  report(ranks, "doubles add up", is_good && values[0] == 10 && values[1] == 2 && values[2] == -12e100);
}

/* Rows and columns of the 2×2 layout at the same time, on two streams. */
static void test_two_axes(Ranks *ranks) {
  int row[] = {ranks->rank & 2, (ranks->rank & 2) + 1}, column[] = {ranks->rank & 1, (ranks->rank & 1) + 2};
  Case one = {COLLECTIVE_ALL_REDUCE, REDUCE_SUM, NUMBER_FP32, 200001, 0};
  Case other = {COLLECTIVE_REDUCE_SCATTER, REDUCE_SUM, NUMBER_BF16, 2 * 70001, IN_PLACE_PART};
  Buffers a = start_case(ranks, ranks->row, ranks->streams[0], row, 2, &one);
  Buffers b = start_case(ranks, ranks->column, ranks->streams[1], column, 2, &other);
  gboolean is_good = end_case(ranks, row, 2, &one, &a);
  report(ranks, "groups of two axes at once", end_case(ranks, column, 2, &other, &b) && is_good);
}

/* The second collective is on a stream that odd ranks step first: it waits for its turn. */
static void test_order_in_a_group(Ranks *ranks) {
  int first = ranks->rank % 2, n = 10;
  Case cases[] = {{COLLECTIVE_ALL_REDUCE, REDUCE_SUM, NUMBER_FP32, 300007, 0},
                  {COLLECTIVE_ALL_REDUCE, REDUCE_SUM, NUMBER_BF16, 5, 0},
                  {COLLECTIVE_ALL_GATHER, REDUCE_SUM, NUMBER_FP32, 40004, 0},
                  {COLLECTIVE_SEND_RECV, REDUCE_SUM, NUMBER_FP32, 50021, 0},
                  {COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, NUMBER_BF16, 60004, 0}};
  Buffers b[10];
  for (int i = 0; i < n; i++)
    b[i] = start_case(ranks, ranks->all, ranks->streams[(first + i) % 2], everyone, 4, &cases[i % 5]);
  gboolean is_good = TRUE;
  for (int i = 0; i < n; i++)
    is_good = end_case(ranks, everyone, 4, &cases[i % 5], &b[i]) && is_good;
  report(ranks, "collectives of a group keep their order on several streams", is_good);
}

static void test_group_of_one(Ranks *ranks) {
  int self[] = {ranks->rank};
  Case gather = {COLLECTIVE_ALL_GATHER, REDUCE_SUM, NUMBER_FP16, 1001, 0};
  Case ring = {COLLECTIVE_SEND_RECV, REDUCE_SUM, NUMBER_FP32, 1001, 0};
  Case swap = {COLLECTIVE_ALL_TO_ALL, REDUCE_SUM, NUMBER_BF16, 1001, 0};
  Case reduce = {COLLECTIVE_ALL_REDUCE, REDUCE_SUM, NUMBER_FP32, 1001, IN_PLACE_OUT};
  gboolean is_good = run_case(ranks, ranks->self, self, 1, &gather);
  is_good = run_case(ranks, ranks->self, self, 1, &ring) && run_case(ranks, ranks->self, self, 1, &swap) && is_good;
  report(ranks, "a group of one copies", run_case(ranks, ranks->self, self, 1, &reduce) && is_good);
}

/* ---- messages ---- */

typedef struct {
  CommGroup *to_next, *from_previous, *to_previous, *from_next;
} Ring;

/* Forward to the next rank, backward to the one before, both round the end; every rank begins with another pair. */
static Ring ring_new(Ranks *ranks) {
  int rank = ranks->rank, next = (rank + 1) % 4, previous = (rank + 3) % 4;
  Ring ring;
  ring.to_next = ranks->type->channel_new(ranks->comm, rank, next, TRUE, NULL);
  ring.to_previous = ranks->type->channel_new(ranks->comm, rank, previous, FALSE, NULL);
  ring.from_next = ranks->type->channel_new(ranks->comm, next, rank, FALSE, NULL);
  ring.from_previous = ranks->type->channel_new(ranks->comm, previous, rank, TRUE, NULL);
  return ring;
}

static void ring_free(Ranks *ranks, Ring *ring) {
  ranks->type->group_free(ring->to_next);
  ranks->type->group_free(ring->to_previous);
  ranks->type->group_free(ring->from_next);
  ranks->type->group_free(ring->from_previous);
}

enum { N_MESSAGES = 12 };

static gint64 message_length(int k) {
  return 3 + (k * 37777) % 200000;
}

static int message_tag(int k) {
  return k * 31 % 7 + (k % 3) * 1000003; /* interleaved, some above the 32767 that every MPI carries */
}

static void test_ring(Ranks *ranks, Ring *ring) {
  float *out[2][N_MESSAGES], *in[2][N_MESSAGES];
  gboolean is_good = TRUE;
  for (int k = 0; k < N_MESSAGES; k++)
    for (int d = 0; d < 2; d++) {
      gint64 n = message_length(k);
      g_autofree float *data = g_new(float, n);
      for (gint64 i = 0; i < n; i++)
        data[i] = (float)(ranks->rank * 1000 + k * 10 + d) + (float)(i % 5) * 0.125f;
      out[d][k] = memory_new(ranks, n * 4);
      in[d][k] = memory_new(ranks, n * 4);
      memory_copy(ranks, out[d][k], data, n * 4);
      ranks->type->send(d ? ring->to_next : ring->to_previous, ranks->streams[d], message_tag(k), out[d][k], n * 4);
      ranks->type->receive(d ? ring->from_previous : ring->from_next, ranks->streams[2 + d], message_tag(k), in[d][k],
                           n * 4);
    }
  is_good = queue_drain(ranks->device);
  for (int k = 0; k < N_MESSAGES; k++)
    for (int d = 0; d < 2; d++) {
      gint64 n = message_length(k);
      int from = (ranks->rank + (d ? 3 : 1)) % 4;
      g_autofree float *data = g_new(float, n);
      memory_copy(ranks, data, in[d][k], n * 4);
      for (gint64 i = 0; i < n && is_good; i++)
        is_good = data[i] == (float)(from * 1000 + k * 10 + d) + (float)(i % 5) * 0.125f;
      memory_free(ranks, out[d][k]);
      memory_free(ranks, in[d][k]);
    }
  report(ranks, "messages both ways round a ring, with interleaved tags", is_good);
}

/* Everyone sends 4 MB before receiving, on one stream: only a batch gets through. */
static void test_batch(Ranks *ranks, Ring *ring) {
  enum { N = 1000000 };
  float *out = memory_new(ranks, N * 4), *in = memory_new(ranks, N * 4);
  g_autofree float *data = g_new(float, N);
  for (int i = 0; i < N; i++)
    data[i] = (float)(ranks->rank + i);
  memory_copy(ranks, out, data, N * 4);
  ranks->type->batch_begin(ranks->comm);
  ranks->type->batch_begin(ranks->comm);
  ranks->type->send(ring->to_next, ranks->streams[0], 1, out, N * 4);
  ranks->type->batch_end(ranks->comm);
  ranks->type->receive(ring->from_previous, ranks->streams[0], 1, in, N * 4);
  ranks->type->batch_end(ranks->comm);
  gboolean is_good = queue_drain(ranks->device);
  memory_copy(ranks, data, in, N * 4);
  for (int i = 0; i < N; i++)
    is_good = is_good && data[i] == (float)((ranks->rank + 3) % 4 + i);
  memory_free(ranks, out);
  memory_free(ranks, in);
  report(ranks, "a batch sends and receives on one stream", is_good);
}

/* Both ends of a channel of their own (a failure breaks it): rank 0 sends, rank 1 expects something else. */
static void test_mismatch(Ranks *ranks, const char *name, gboolean is_forward, int tag, gint64 bytes,
                          const char *words) {
  gboolean is_good = TRUE;
  QueueDevice *device = (QueueDevice *)ranks->device;
  if (ranks->rank < 2) {
    GError *error = NULL;
    CommGroup *channel = ranks->type->channel_new(ranks->comm, 0, 1, is_forward, &error);
    must(channel != NULL, ranks->world, error);
    char *data = memory_new(ranks, 64);
    if (ranks->rank == 0)
      ranks->type->send(channel, ranks->streams[0], 5, data, 16);
    else
      ranks->type->receive(channel, ranks->streams[0], tag, data, bytes);
    gboolean is_done = queue_drain(ranks->device);
    is_good = ranks->rank == 0 ? is_done : !is_done && strstr(device->error->message, words) != NULL;
    if (!is_good && device->error != NULL)
      printf("# %s\n", device->error->message);
    queue_recover(ranks->device);
    ranks->type->group_free(channel);
    memory_free(ranks, data);
  }
  report(ranks, name, is_good);
}

/* Nobody answers; after abort() the stream ends at once. */
static void test_abort(Ranks *ranks) {
  QueueDevice *device = (QueueDevice *)ranks->device;
  float *data = memory_new(ranks, 4096);
  if (ranks->rank == 0)
    sum_over_all(ranks, NUMBER_FP32, data, 1000);
  for (int i = 0; i < 100; i++)
    if (ranks->rank == 0 && ranks->device->type->is_host_memory)
      queue_step(device, (QueueStream *)ranks->streams[0]);
  ranks->type->abort(ranks->comm);
  gboolean is_done = queue_drain(ranks->device);
  report(ranks, "abort ends what is under way",
         ranks->rank != 0 || (!is_done && strstr(device->error->message, "given up") != NULL));
}

static void test_device(Ranks *ranks, const DeviceType *type) {
  ranks_open(ranks, type);
  test_collectives(ranks);
  test_long_parts(ranks);
  test_order_of_sums(ranks);
  test_rounds_once(ranks);
  test_doubles(ranks);
  test_two_axes(ranks);
  test_order_in_a_group(ranks);
  test_group_of_one(ranks);
  Ring ring = ring_new(ranks);
  test_ring(ranks, &ring);
  test_batch(ranks, &ring);
  ring_free(ranks, &ring);
  test_mismatch(ranks, "another tag is told", TRUE, 7, 16, "rank 0 sent tag 5 where tag 7 is expected");
  test_mismatch(ranks, "another length is told", FALSE, 5, 32, "rank 0 sent 16 bytes with tag 5 where 32 are expected");
  test_abort(ranks);
  ranks_close(ranks);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  Ranks ranks = {.type = &mpi_comm};
  ranks.world = world_open(&argc, &argv, 60, &error);
  must(ranks.world != NULL, ranks.world, error);
  ranks.rank = world_rank(ranks.world);
  ranks.size = world_size(ranks.world);
  if (ranks.size != 4)
    world_fail(ranks.world, "this test runs on four ranks");
  test_device(&ranks, &queue_host_device);
  test_device(&ranks, &queue_remote_device);
  if (ranks.rank == 0)
    printf("1..%d\n", ranks.n_tests);
  return world_close(ranks.world, 0);
}
