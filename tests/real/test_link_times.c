/* How transfers between ranks are timed, on devices and a communication of known times: two ranks, each with its own
 * clock, advanced by the work on its streams. A transfer by itself, in repeat i:
 *
 *     rank 0            start ├──────────────┤ end          two seconds late
 *     rank 1    start ├───────────────────┤ end             half a second early
 *     time                    ├──────────────┤              of_transfer_s() + i · STEP_S; warm-up: half a second less
 *
 * One device is a GPU: on it a transfer takes LAUNCH_S longer, unless it was issued behind a hold. There, each of a row
 * takes of_transfer_s() + i · STEP_S.
 *
 * When they overlap, products of 1 s take 1.5 times as long, and collectives, which start 12 s earlier, twice as long.
 */
#include "error.h"
#include "link_times.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_REPEATS = 9, N_WARM = 2, LEAST = 1 << 10, MOST = 1 << 14, EAGER = 1 << 12, N_BESIDE_ALONE = 20 };
static const double SECOND = 1e9, STEP_S = 0.25, PRODUCT_S = 1, COLLECTIVE_S = 4, LAUNCH_S = 3;
static const double precision_s = 0.02; /* clocks of ranks are compared in earnest */

typedef enum { HOST, GPU, N_DEVICES } DeviceKind;
static World *world;
static LinkTimes measured[N_DEVICES]; /* on rank 0 */

typedef enum { WORK_RECORD, WORK_PRODUCT, WORK_TRANSFER, WORK_HOLD } WorkKind;

typedef struct {
  DeviceEvent base;
  gint64 ns; /* −1: not reached */
} KnownEvent;

typedef struct {
  DeviceStream base;
  Stream kind;
} KnownStream;

typedef struct {
  WorkKind kind;
  Stream stream;
  KnownEvent *event;
  Collective op;
  gint64 bytes;
} KnownWork;

typedef struct {
  Device base;
  GArray *work;      /* of KnownWork: since all was done */
  Collective last;   /* transfer that was alone */
  gint64 last_bytes; /* its */
  int last_row;      /* so many of it one after the other */
  int n_alike;       /* so many such rows */
  void *filled[4];   /* with random numbers */
  int n_filled;
} KnownDevice;

static KnownDevice *known;

/* --- times --- */

static double of_transfer_s(Collective op, gint64 bytes) {
  const double factor = op == COLLECTIVE_ALL_REDUCE ? 1 : op == COLLECTIVE_ALL_GATHER ? 2 : 3;
  return factor * (1 + 1e-3 * (double)bytes);
}

static int count(WorkKind kind) {
  int n = 0;
  for (guint i = 0; i < known->work->len; i++)
    n += g_array_index(known->work, KnownWork, i).kind == kind;
  return n;
}

static gboolean is_timed_row(int n_products, int n_transfers) {
  return n_products == 0 && n_transfers > 0 && n_transfers < N_BESIDE_ALONE;
}

/* Of a row of n by itself, from the own start to the own end. */
static double row_s(const KnownWork *work, int n) {
  const gboolean is_alike = work->op == known->last && work->bytes == known->last_bytes && n == known->last_row;
  known->n_alike = is_alike ? known->n_alike + 1 : 0;
  known->last = work->op;
  known->last_bytes = work->bytes;
  known->last_row = n;
  const int repeat = known->n_alike - N_WARM;
  const double launch_s = known->base.type->is_host_memory || count(WORK_HOLD) > 0 ? 0 : LAUNCH_S;
  const double time_s = n * (of_transfer_s(work->op, work->bytes) + launch_s + (repeat < 0 ? -0.5 : repeat * STEP_S));
  return world_rank(world) == 0 ? time_s : time_s + 2 - 0.5;
}

static double work_s(const KnownWork *work, int n_products, int n_transfers, int i_transfer) {
  if (work->kind == WORK_PRODUCT)
    return n_transfers > 0 ? 1.5 * PRODUCT_S : PRODUCT_S;
  if (work->kind != WORK_TRANSFER)
    return 0;
  if (is_timed_row(n_products, n_transfers))
    return i_transfer == 0 ? row_s(work, n_transfers) : 0;
  return n_products > 0 ? 2 * COLLECTIVE_S : COLLECTIVE_S;
}

/* Runs all that there is. */
static void run(void) {
  double at_s[N_STREAMS];
  const int n_products = count(WORK_PRODUCT), n_transfers = count(WORK_TRANSFER);
  int i_transfer = 0;
  for (int i = 0; i < N_STREAMS; i++)
    at_s[i] = is_timed_row(n_products, n_transfers) && world_rank(world) == 0 ? 12 : 10;
  at_s[STREAM_COMPUTE] += n_products > 0 && n_transfers > 0 ? 12 : 0;
  for (guint i = 0; i < known->work->len; i++) {
    const KnownWork *work = &g_array_index(known->work, KnownWork, i);
    at_s[work->stream] += work_s(work, n_products, n_transfers, i_transfer);
    i_transfer += work->kind == WORK_TRANSFER;
    if (work->kind == WORK_RECORD)
      work->event->ns = llround(at_s[work->stream] * SECOND);
  }
  g_array_set_size(known->work, 0);
}

static void add(DeviceStream *stream, WorkKind kind, KnownEvent *event, Collective op, gint64 bytes) {
  const KnownWork work = {kind, ((KnownStream *)stream)->kind, event, op, bytes};
  g_array_append_val(known->work, work);
}

/* --- the device --- */

static void device_close(Device *device) {
  g_array_unref(known->work);
  g_clear_pointer(&known, g_free);
}

static void *allocate(Device *device, gint64 bytes, GError **error) {
  return g_malloc(1);
}

static void release(Device *device, void *memory) {
  g_free(memory);
}

static DeviceStream *stream_new(Device *device, Stream kind, GError **error) {
  KnownStream *stream = g_new0(KnownStream, 1);
  *stream = (KnownStream){{device}, kind};
  return &stream->base;
}

static void stream_free(DeviceStream *stream) {
  g_free(stream);
}

static DeviceEvent *event_new(Device *device, GError **error) {
  KnownEvent *event = g_new0(KnownEvent, 1);
  event->base.device = device;
  return &event->base;
}

static void event_free(DeviceEvent *event) {
  g_free(event);
}

static void record(DeviceStream *stream, DeviceEvent *event) {
  ((KnownEvent *)event)->ns = -1;
  add(stream, WORK_RECORD, (KnownEvent *)event, 0, 0);
}

static gint64 event_ns(DeviceEvent *event) {
  return ((KnownEvent *)event)->ns;
}

static gboolean is_filled(const void *memory) {
  for (int i = 0; i < known->n_filled; i++)
    if (known->filled[i] == memory)
      return TRUE;
  return FALSE;
}

/* Products of operands that are not random, or that lie in one place, would not compete for what the transfers need. */
static void launch(DeviceStream *stream, const Kernel *kernel) {
  if (kernel->kind == KERNEL_INIT) {
    g_assert(known->n_filled < (int)G_N_ELEMENTS(known->filled) && kernel->init.deviation > 0);
    known->filled[known->n_filled++] = kernel->init.to;
    return;
  }
  const MatmulKernel *product = &kernel->matmul;
  const LinkBeside beside = link_beside_of(known->base.type);
  g_assert(kernel->kind == KERNEL_MATMUL && product->number == beside.number && product->m == beside.m &&
           product->n == beside.n && product->k == beside.k);
  g_assert(is_filled(product->a) && is_filled(product->b) && product->a != product->b);
  add(stream, WORK_PRODUCT, NULL, 0, 0);
}

/* Lets go in its own time. */
static void host_task(DeviceStream *stream, HostStep step, gpointer data) {
  g_assert(!known->base.type->is_host_memory && !step(data, NULL));
  add(stream, WORK_HOLD, NULL, 0, 0);
}

/* A large send that is looked at for a short while alone is not done by then. */
static gboolean sleep_until(DeviceEvent *event, gint64 timeout_ns) {
  const KnownWork *first = known->work->len > 0 ? &g_array_index(known->work, KnownWork, 0) : NULL;
  if (timeout_ns < 50 * 1000 * 1000 && first != NULL && first->kind == WORK_TRANSFER && first->bytes > EAGER)
    return FALSE;
  if (((KnownEvent *)event)->ns < 0)
    run();
  return TRUE;
}

static gboolean check(Device *device, GError **error) {
  return TRUE;
}

#define KNOWN_DEVICE(is_host)                                                                                          \
  {                                                                                                                    \
    .name = "known", .is_available = TRUE, .is_host_memory = (is_host), .open = (is_host) ? open_host : open_gpu,      \
    .close = device_close, .allocate = allocate, .release = release, .stream_new = stream_new,                         \
    .stream_free = stream_free, .event_new = event_new, .event_free = event_free, .record = record,                    \
    .event_ns = event_ns, .launch = launch, .host_task = host_task, .sleep_until = sleep_until, .check = check         \
  }
static Device *open_host(int local_rank, int n_local, gint64 capacity_bytes, GError **error);
static Device *open_gpu(int local_rank, int n_local, gint64 capacity_bytes, GError **error);
static const DeviceType known_devices[N_DEVICES] = {[HOST] = KNOWN_DEVICE(TRUE), [GPU] = KNOWN_DEVICE(FALSE)};

static Device *open_known(DeviceKind kind) {
  known = g_new0(KnownDevice, 1);
  known->base.type = &known_devices[kind];
  known->work = g_array_new(FALSE, FALSE, sizeof(KnownWork));
  return &known->base;
}

static Device *open_host(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  return open_known(HOST);
}

static Device *open_gpu(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  return open_known(GPU);
}

/* --- the communication --- */

static Comm *comm_open(World *of, Device *device, GError **error);

static void comm_close(Comm *comm) {
  g_free(comm);
}

static void comm_abort(Comm *comm) {
}

static CommGroup *group_new(Comm *comm, const int *members, int n, GError **error) {
  CommGroup *group = g_new0(CommGroup, 1);
  group->comm = comm;
  return group;
}

static CommGroup *channel_new(Comm *comm, int from, int to, gboolean is_forward, GError **error) {
  return group_new(comm, NULL, 2, error);
}

static void group_free(CommGroup *group) {
  g_free(group);
}

static void collective(CommGroup *group, DeviceStream *stream, const CollectiveSpec *spec) {
  add(stream, WORK_TRANSFER, NULL, spec->collective, 4 * spec->n);
}

static void send_bytes(CommGroup *channel, DeviceStream *stream, int tag, const void *data, gint64 bytes) {
  add(stream, WORK_TRANSFER, NULL, COLLECTIVE_SEND_RECV, bytes);
}

static void receive_bytes(CommGroup *channel, DeviceStream *stream, int tag, void *data, gint64 bytes) {
  add(stream, WORK_TRANSFER, NULL, COLLECTIVE_SEND_RECV, bytes);
}

static const CommType known_comm = {.name = "known",
                                    .is_available = TRUE,
                                    .open = comm_open,
                                    .close = comm_close,
                                    .abort = comm_abort,
                                    .group_new = group_new,
                                    .group_free = group_free,
                                    .collective = collective,
                                    .channel_new = channel_new,
                                    .send = send_bytes,
                                    .receive = receive_bytes};

static Comm *comm_open(World *of, Device *device, GError **error) {
  Comm *comm = g_new0(Comm, 1);
  comm->type = &known_comm;
  return comm;
}

/* --- what came of it --- */

/* Nine repeats, each STEP_S longer: the middle one is the fifth, the quartiles are the third and the seventh. In a row
 * of two the first of two ranks is as late and the other as early as in a row of one, which does not count. */
LOOP_TEST(a_transfer_lasts_from_the_last_arrival_to_the_last_end, N_DEVICES) {
  static const Collective ops[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                   COLLECTIVE_SEND_RECV};
  const GArray *times = measured[_i].times;
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
    for (gint64 bytes = LEAST; bytes <= MOST; bytes *= 4, n++) {
      ck_assert_uint_lt(n, times->len);
      const LinkTime *time = &g_array_index(times, LinkTime, n);
      const double median_s = of_transfer_s(ops[i], bytes) + 4 * STEP_S;
      ck_assert_int_eq(time->op, ops[i]);
      ck_assert_int_eq(time->bytes, bytes);
      ck_assert(time->n_ranks == 2 && time->n_nodes == 1);
      ck_assert_double_eq_tol(time->median_s, median_s, precision_s);
      ck_assert_double_eq_tol(time->spread, 4 * STEP_S / median_s, precision_s);
      ck_assert_double_eq_tol(time->once_s, median_s + (_i == GPU ? LAUNCH_S : 0), precision_s);
    }
  ck_assert_uint_eq(n, times->len);
}

LOOP_TEST(the_largest_send_that_ends_though_nobody_receives_is_found, N_DEVICES) {
  ck_assert_int_eq(measured[_i].eager_bytes, EAGER);
}

/* 32 products take 32 s, and 48 s beside all-reduces, which take 4 s alone and 8 s then. One has ended before the
 * products begin and half of the next: that half, five and another half run in that time, 24 s of such alone. So
 * products take 1.5 times as long, they twice; 16 s are lost to 24 s. */
LOOP_TEST(products_and_collectives_side_by_side, N_DEVICES) {
  ck_assert_double_eq_tol(measured[_i].products_beside, 1.5, 1e-9);
  ck_assert_double_eq_tol(measured[_i].collective_beside, 2, 1e-9);
  ck_assert_double_eq_tol(measured[_i].tax, 16.0 / 24, 1e-9);
}

/* On an H200, of 790 TFLOP/s and 141 GB at 4.8 TB/s, behind a link of 450 GB/s (datasheet): a product of 0.7 ms that
 * fills it, and does not find its operands in the L2 cache of 50 MB; an all-reduce of about 0.3 ms. */
TEST(products_and_transfers_fill_a_gpu) {
  const LinkBeside beside = link_beside_of(&known_devices[GPU]);
  ck_assert_int_eq(beside.number, NUMBER_BF16);
  ck_assert_double_ge(2.0 * beside.m * beside.n * beside.k, 5e11);
  ck_assert_int_ge(2 * beside.k * (beside.m + beside.n), 50000000);
  ck_assert_int_ge(beside.bytes, 64 << 20);
}

static int check_measured(void) {
  return run_case_here("link_times", listed_tests());
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  world = world_open(&argc, &argv, 10, &error);
  if (world == NULL || world_size(world) != 2) {
    printf("Bail out! %s\n", error != NULL ? error->message : "expected two ranks");
    return EXIT_FAILURE;
  }
  gboolean ok = TRUE;
  for (int kind = 0; kind < N_DEVICES && ok; kind++) {
    const DeviceType *device = &known_devices[kind];
    const LinkBench bench = {.world = world,
                             .device = device,
                             .comm = &known_comm,
                             .least_bytes = LEAST,
                             .most_bytes = MOST,
                             .beside = link_beside_of(device),
                             .n_repeats = N_REPEATS};
    ok = link_times_measure(&bench, &measured[kind], &error);
  }
  const int status = !ok ? EXIT_FAILURE : world_rank(world) == 0 ? check_measured() : EXIT_SUCCESS;
  for (int kind = 0; kind < N_DEVICES; kind++)
    link_times_clear(&measured[kind]);
  return world_close(world, status);
}
