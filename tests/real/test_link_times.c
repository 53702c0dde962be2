/* How transfers between ranks are timed, on a device and a communication of known times: two ranks, each with its own
 * clock, advanced by the work on its streams. A transfer by itself, in repeat i:
 *
 *     rank 0            start ├──────────────┤ end          two seconds late
 *     rank 1    start ├───────────────────┤ end             half a second early
 *     time                    ├──────────────┤              of_transfer_s() + i · STEP_S; warm-up: half a second less
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

enum { N_REPEATS = 9, N_WARM = 2, LEAST = 1 << 10, MOST = 1 << 14, EAGER = 1 << 12 };
static const double SECOND = 1e9, STEP_S = 0.25, PRODUCT_S = 1, COLLECTIVE_S = 4;
static const double precision_s = 0.02; /* clocks of ranks are compared in earnest */

static World *world;
static LinkTimes measured; /* on rank 0 */

typedef enum { WORK_RECORD, WORK_PRODUCT, WORK_TRANSFER } WorkKind;

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
  int n_alike;       /* so many of its kind in a row */
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

/* From the own start to the own end of a transfer that is alone. */
static double alone_s(const KnownWork *work) {
  known->n_alike = work->op == known->last && work->bytes == known->last_bytes ? known->n_alike + 1 : 0;
  known->last = work->op;
  known->last_bytes = work->bytes;
  const int repeat = known->n_alike - N_WARM;
  const double time_s = of_transfer_s(work->op, work->bytes) + (repeat < 0 ? -0.5 : repeat * STEP_S);
  return world_rank(world) == 0 ? time_s : time_s + 2 - 0.5;
}

static double work_s(const KnownWork *work, int n_products, int n_transfers) {
  if (work->kind == WORK_RECORD)
    return 0;
  if (work->kind == WORK_PRODUCT)
    return n_transfers > 0 ? 1.5 * PRODUCT_S : PRODUCT_S;
  if (n_transfers == 1)
    return alone_s(work);
  return n_products > 0 ? 2 * COLLECTIVE_S : COLLECTIVE_S;
}

/* Runs all that there is. */
static void run(void) {
  double at_s[N_STREAMS];
  const int n_products = count(WORK_PRODUCT), n_transfers = count(WORK_TRANSFER);
  for (int i = 0; i < N_STREAMS; i++)
    at_s[i] = n_transfers == 1 && world_rank(world) == 0 ? 12 : 10;
  at_s[STREAM_COMPUTE] += n_products > 0 && n_transfers > 0 ? 12 : 0;
  for (guint i = 0; i < known->work->len; i++) {
    const KnownWork *work = &g_array_index(known->work, KnownWork, i);
    at_s[work->stream] += work_s(work, n_products, n_transfers);
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

static Device *device_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error);

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

static void launch(DeviceStream *stream, const Kernel *kernel) {
  add(stream, WORK_PRODUCT, NULL, 0, 0);
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

static const DeviceType known_device = {.name = "known",
                                        .is_available = TRUE,
                                        .open = device_open,
                                        .close = device_close,
                                        .allocate = allocate,
                                        .release = release,
                                        .stream_new = stream_new,
                                        .stream_free = stream_free,
                                        .event_new = event_new,
                                        .event_free = event_free,
                                        .record = record,
                                        .event_ns = event_ns,
                                        .launch = launch,
                                        .sleep_until = sleep_until,
                                        .check = check};

static Device *device_open(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  known = g_new0(KnownDevice, 1);
  known->base.type = &known_device;
  known->work = g_array_new(FALSE, FALSE, sizeof(KnownWork));
  return &known->base;
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

/* Nine repeats, each STEP_S longer: the middle one is the fifth, the quartiles are the third and the seventh. */
START_TEST(a_transfer_lasts_from_the_last_arrival_to_the_last_end) {
  static const Collective ops[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER,
                                   COLLECTIVE_SEND_RECV};
  guint n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++)
    for (gint64 bytes = LEAST; bytes <= MOST; bytes *= 4, n++) {
      ck_assert_uint_lt(n, measured.times->len);
      const LinkTime *time = &g_array_index(measured.times, LinkTime, n);
      const double median_s = of_transfer_s(ops[i], bytes) + 4 * STEP_S;
      ck_assert_int_eq(time->op, ops[i]);
      ck_assert_int_eq(time->bytes, bytes);
      ck_assert(time->n_ranks == 2 && time->n_nodes == 1);
      ck_assert_double_eq_tol(time->median_s, median_s, precision_s);
      ck_assert_double_eq_tol(time->spread, 4 * STEP_S / median_s, precision_s);
    }
  ck_assert_uint_eq(n, measured.times->len);
}
END_TEST

START_TEST(the_largest_send_that_ends_though_nobody_receives_is_found) {
  ck_assert_int_eq(measured.eager_bytes, EAGER);
}
END_TEST

/* 32 products take 32 s, and 48 s beside all-reduces, which take 4 s alone and 8 s then. One has ended before the
 * products begin and half of the next: that half, five and another half run in that time, 24 s of such alone. So
 * products take 1.5 times as long, they twice; 16 s are lost to 24 s. */
START_TEST(products_and_collectives_side_by_side) {
  ck_assert_double_eq_tol(measured.products_beside, 1.5, 1e-9);
  ck_assert_double_eq_tol(measured.collective_beside, 2, 1e-9);
  ck_assert_double_eq_tol(measured.tax, 16.0 / 24, 1e-9);
}
END_TEST

static int check_measured(void) {
  TCase *tests = tcase_create("link_times");
  tcase_add_test(tests, a_transfer_lasts_from_the_last_arrival_to_the_last_end);
  tcase_add_test(tests, the_largest_send_that_ends_though_nobody_receives_is_found);
  tcase_add_test(tests, products_and_collectives_side_by_side);
  return run_case_here("link_times", tests);
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  world = world_open(&argc, &argv, 10, &error);
  if (world == NULL || world_size(world) != 2) {
    printf("Bail out! %s\n", error != NULL ? error->message : "expected two ranks");
    return EXIT_FAILURE;
  }
  const LinkBench bench = {.world = world,
                           .device = &known_device,
                           .comm = &known_comm,
                           .least_bytes = LEAST,
                           .most_bytes = MOST,
                           .n_repeats = N_REPEATS};
  const gboolean ok = link_times_measure(&bench, &measured, &error);
  const int status = !ok ? EXIT_FAILURE : world_rank(world) == 0 ? check_measured() : EXIT_SUCCESS;
  link_times_clear(&measured);
  return world_close(world, status);
}
