/* Every rank times a transfer by the events around it. A barrier before each makes the ranks arrive at about the same
 * time; the transfer lasts from the last start to the last end:
 *
 *     rank 0    start ├──────────────────┤ end
 *     rank 1         start ├─────────────────┤ end
 *     time                 ├─────────────────┤
 *
 * On a GPU the host would still launch the transfer after its start event, and a step's host is ahead. So MOST_QUEUED
 * are issued in a row, as nccl-tests does, behind a hold (timed_stream.h), and the time is divided by their number.
 * Fewer of long ones. One by itself is timed too, and kept apart. On CPU cores transfers are work of the host, and only
 * that is timed.
 *
 * Groups are neighbouring ranks: 2, 4, … and all. All groups of a size run at once, as in a training step. */
#include "link_times.h"

#include "dense_product.h"
#include "error.h"
#include "sort_doubles.h"
#include "timed_stream.h"

#include <string.h>

enum { N_WARM = 2, MOST_QUEUED = 20, LEAST_QUEUED = 2 };
static const double QUEUE_S = 0.1; /* as many as take this long, if that is fewer */

/* --- state --- */

typedef struct {
  const LinkBench *bench;
  LinkTimes *times;
  TimedStream *on;
  Device *device; /* and its stream for products, as `on` has them */
  DeviceStream *compute;
  DeviceStream *collectives, *sends, *receives;
  Comm *comm;
  char *in, *out;
  char *operands[3]; /* of the products: A, B, C */
  gint64 clock_offset_ns;
} Links;

static gboolean make_streams(Links *links, GError **error) {
  const DeviceType *type = links->bench->device;
  DeviceStream **const streams[] = {&links->collectives, &links->sends, &links->receives};
  const Stream kinds[] = {STREAM_DP, STREAM_SEND_F, STREAM_RECV_F};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if ((*streams[i] = type->stream_new(links->device, kinds[i], error)) == NULL)
      return FALSE;
  return TRUE;
}

static void close_links(Links *links) {
  const DeviceType *type = links->bench->device;
  type->release(links->device, links->in);
  type->release(links->device, links->out);
  for (int i = 0; i < 3; i++)
    type->release(links->device, links->operands[i]);
  comm_stop(links->comm, links->bench->world);
  DeviceStream *const streams[] = {links->collectives, links->sends, links->receives};
  for (gsize i = 0; i < G_N_ELEMENTS(streams); i++)
    type->stream_free(streams[i]);
  timed_stream_close(links->on);
}

/* Tells the world that it waits if that takes longer than usual; overlapping kernels that end count as progress. */
static gboolean wait_for(const Links *links, DeviceEvent *event, GError **error) {
  const DeviceType *type = links->bench->device;
  World *world = links->bench->world;
  guint64 n_ended = type->n_ended != NULL ? type->n_ended(links->device) : 0;
  while (!type->sleep_until(event, G_GINT64_CONSTANT(100000000))) {
    if (!type->check(links->device, error))
      return FALSE;
    world_say(world, RANK_WAITS, "waits for the other ranks in a transfer that is measured");
    const guint64 n_now = type->n_ended != NULL ? type->n_ended(links->device) : 0;
    if (n_now != n_ended)
      world_progress(world);
    n_ended = n_now;
  }
  world_say(world, RANK_BUSY, "between transfers that are measured");
  return type->check(links->device, error);
}

static gboolean wait_end(const Links *links, GError **error) {
  return wait_for(links, links->on->end, error);
}

/* --- opening --- */

static gint64 most_bytes(const LinkBench *bench) {
  return MAX(bench->most_bytes, bench->beside.bytes);
}

/* Random numbers: zeros draw less power, and on the host their pages may all be one. */
static void fill_random(const Links *links, Number number, char *to, gint64 rows, gint64 columns, guint64 seed) {
  const Kernel kernel = dense_random(number, rows, columns, seed, to);
  links->bench->device->launch(links->compute, &kernel);
}

static gboolean allocate_operands(Links *links, GError **error) {
  const LinkBeside *beside = &links->bench->beside;
  for (int i = 0; i < 3; i++) {
    const gint64 rows = i == 1 ? beside->n : beside->m, columns = i == 2 ? beside->n : beside->k;
    links->operands[i] =
        links->bench->device->allocate(links->device, rows * columns * kernel_element_bytes(beside->number), error);
    if (links->operands[i] == NULL)
      return FALSE;
    if (i < 2)
      fill_random(links, beside->number, links->operands[i], rows, columns, (guint64)i + 1);
  }
  return TRUE;
}

static void launch_product(const Links *links) {
  const LinkBeside *beside = &links->bench->beside;
  const Kernel kernel = {.kind = KERNEL_MATMUL,
                         .matmul = {.layout = LAYOUT_TN,
                                    .number = (guint8)beside->number,
                                    .result = (guint8)beside->number,
                                    .batch = 1,
                                    .m = beside->m,
                                    .n = beside->n,
                                    .k = beside->k,
                                    .lda = beside->k,
                                    .ldb = beside->k,
                                    .ldc = beside->n,
                                    .a = links->operands[0],
                                    .b = links->operands[1],
                                    .c = links->operands[2],
                                    .alpha = 1}};
  links->bench->device->launch(links->compute, &kernel);
}

/* Products run once before ranks communicate: a first launch may wait until the whole GPU is idle. */
static gboolean open_links(Links *links, const LinkBench *bench, LinkTimes *times, GError **error) {
  *links = (Links){.bench = bench, .times = times};
  links->on = timed_stream_open(bench->world, bench->device, STREAM_COMPUTE, error);
  if (links->on == NULL)
    return FALSE;
  links->device = links->on->device;
  links->compute = links->on->stream;
  if (!make_streams(links, error))
    return FALSE;
  links->in = bench->device->allocate(links->device, most_bytes(bench), error);
  links->out = links->in ? bench->device->allocate(links->device, most_bytes(bench), error) : NULL;
  links->clock_offset_ns = world_clock_offset(bench->world);
  if (links->out == NULL || !allocate_operands(links, error))
    return FALSE;
  if (!bench->device->is_host_memory)
    fill_random(links, NUMBER_FP32, links->in, most_bytes(bench) / 4 / 256, 256, 3);
  launch_product(links);
  bench->device->record(links->compute, links->on->end);
  return wait_end(links, error) && (links->comm = comm_start(bench->comm, bench->world, links->device, error)) != NULL;
}

/* --- times over all ranks --- */

/* `own`: start and end of each repeat on this rank. Returns, on rank 0, each from last start to last end, sorted, s. */
static double *spans_of_all(const Links *links, const gint64 *own, int n) {
  World *world = links->bench->world;
  g_autofree gsize *sizes = NULL;
  g_autofree gint64 *all = world_gather(world, own, 2 * sizeof *own * (gsize)n, &sizes);
  if (all == NULL)
    return NULL;
  double *spans_s = g_new(double, n);
  for (int i = 0; i < n; i++) {
    gint64 start_ns = 0, end_ns = 0;
    for (int rank = 0; rank < world_size(world); rank++) {
      start_ns = MAX(start_ns, all[(rank * n + i) * 2]);
      end_ns = MAX(end_ns, all[(rank * n + i) * 2 + 1]);
    }
    spans_s[i] = MAX(end_ns - start_ns, 1) * 1e-9;
  }
  sort_doubles(spans_s, (gsize)n);
  return spans_s;
}

/* --- transfers --- */

/* A transfer that is timed. Of a rank that has no part in it, `group` is NULL. */
typedef struct {
  Collective op; /* SEND_RECV: a send from each even rank to the odd rank after it */
  CommGroup *group;
  int n_ranks;
  gint64 bytes;
} Timed;

static gboolean is_sender(const Links *links) {
  return world_rank(links->bench->world) % 2 == 0;
}

static DeviceStream *stream_of(const Links *links, const Timed *timed) {
  return timed->op != COLLECTIVE_SEND_RECV ? links->collectives : is_sender(links) ? links->sends : links->receives;
}

static void launch_transfer(const Links *links, const Timed *timed) {
  const CommType *type = links->comm->type;
  DeviceStream *stream = stream_of(links, timed);
  const CollectiveSpec spec = {.collective = timed->op,
                               .number = NUMBER_FP32,
                               .in = links->in,
                               .out = links->out,
                               .n = timed->bytes / (gint64)sizeof(float)};
  if (timed->op != COLLECTIVE_SEND_RECV)
    type->collective(timed->group, stream, &spec);
  else if (timed->group != NULL && is_sender(links))
    type->send(timed->group, stream, 0, links->in, timed->bytes);
  else if (timed->group != NULL)
    type->receive(timed->group, stream, 0, links->out, timed->bytes);
}

/* Start and end of `n_queued` in a row on this rank, on rank 0's clock. */
static gboolean run_row(const Links *links, const Timed *timed, int n_queued, gint64 own[2], GError **error) {
  const DeviceType *type = links->bench->device;
  DeviceStream *stream = stream_of(links, timed);
  world_barrier(links->bench->world);
  if (n_queued > 1)
    timed_stream_hold(links->on, stream);
  type->record(stream, links->on->start);
  for (int i = 0; i < n_queued; i++)
    launch_transfer(links, timed);
  type->record(stream, links->on->end);
  timed_stream_let_go(links->on);
  if (!wait_end(links, error))
    return FALSE;
  own[0] = type->event_ns(links->on->start) + links->clock_offset_ns;
  own[1] = type->event_ns(links->on->end) + links->clock_offset_ns;
  return TRUE;
}

typedef struct {
  double median_s, spread; /* of one in the row */
} RowTime;

/* The same on all ranks. */
static gboolean time_rows(const Links *links, const Timed *timed, int n_queued, RowTime *time, GError **error) {
  const int n = links->bench->n_repeats;
  g_autofree gint64 *own = g_new(gint64, 2 * (gsize)(n + N_WARM));
  for (int i = 0; i < n + N_WARM; i++)
    if (!run_row(links, timed, n_queued, own + 2 * i, error))
      return FALSE;
  g_autofree double *spans_s = spans_of_all(links, own + 2 * N_WARM, n);
  *time = (RowTime){0};
  if (spans_s != NULL)
    *time = (RowTime){spans_s[n / 2] / n_queued, (spans_s[3 * n / 4] - spans_s[n / 4]) / spans_s[n / 2]};
  time->median_s = world_max(links->bench->world, time->median_s);
  return TRUE;
}

static gboolean time_transfer(const Links *links, const Timed *timed, GError **error) {
  const int n_local = world_n_local(links->bench->world);
  RowTime once, row;
  if (!time_rows(links, timed, 1, &once, error))
    return FALSE;
  const int n_queued = (int)CLAMP(QUEUE_S / once.median_s, LEAST_QUEUED, MOST_QUEUED);
  row = once;
  if (!links->bench->device->is_host_memory && !time_rows(links, timed, n_queued, &row, error))
    return FALSE;
  const LinkTime time = {.op = timed->op,
                         .n_ranks = timed->n_ranks,
                         .n_nodes = (timed->n_ranks + n_local - 1) / n_local,
                         .bytes = timed->bytes,
                         .median_s = row.median_s,
                         .spread = row.spread,
                         .once_s = once.median_s};
  if (world_rank(links->bench->world) == 0)
    g_array_append_val(links->times->times, time);
  return TRUE;
}

static void say(const Links *links, const char *format, ...) G_GNUC_PRINTF(2, 3);
static void say(const Links *links, const char *format, ...) {
  if (links->bench->progress == NULL || world_rank(links->bench->world) != 0)
    return;
  va_list arguments;
  va_start(arguments, format);
  g_autofree char *text = g_strdup_vprintf(format, arguments);
  va_end(arguments);
  links->bench->progress(text, links->bench->progress_data);
}

static gboolean time_group(const Links *links, CommGroup *group, int n_ranks, GError **error) {
  static const Collective ops[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER};
  for (gsize i = 0; i < G_N_ELEMENTS(ops); i++) {
    say(links, "%s over %d ranks", collective_name(ops[i]), n_ranks);
    for (gint64 bytes = links->bench->least_bytes; bytes <= links->bench->most_bytes; bytes *= 4) {
      const Timed timed = {ops[i], group, n_ranks, MAX(1, bytes / 4 / n_ranks) * n_ranks * 4};
      if (!time_transfer(links, &timed, error))
        return FALSE;
    }
  }
  return TRUE;
}

static gboolean time_groups(const Links *links, GError **error) {
  const int n_ranks = world_size(links->bench->world), rank = world_rank(links->bench->world);
  for (int n = 2; n <= n_ranks; n = n < n_ranks && 2 * n > n_ranks ? n_ranks : 2 * n) {
    if (n_ranks % n != 0)
      continue;
    g_autofree int *members = g_new(int, n);
    for (int i = 0; i < n; i++)
      members[i] = rank / n * n + i;
    CommGroup *group = links->comm->type->group_new(links->comm, members, n, error);
    if (group == NULL || !time_group(links, group, n, error))
      return FALSE;
    links->comm->type->group_free(group);
  }
  return TRUE;
}

/* --- sends --- */

static gboolean time_sends(const Links *links, CommGroup *channel, GError **error) {
  say(links, "sends");
  for (gint64 bytes = links->bench->least_bytes; bytes <= links->bench->most_bytes; bytes *= 4) {
    const Timed timed = {COLLECTIVE_SEND_RECV, channel, 2, bytes};
    if (!time_transfer(links, &timed, error))
      return FALSE;
  }
  return TRUE;
}

/* Does a send of `bytes` complete although its receive is posted late? All ranks get the same answer. */
static gboolean is_eager(const Links *links, CommGroup *channel, gint64 bytes, gboolean *eager, GError **error) {
  enum { DELAY_US = 20000 };
  const DeviceType *type = links->bench->device;
  const int rank = world_rank(links->bench->world);
  gboolean ended = TRUE;
  world_barrier(links->bench->world);
  if (channel != NULL && rank % 2 == 0) {
    links->comm->type->send(channel, links->sends, 0, links->in, bytes);
    type->record(links->sends, links->on->end);
    ended = type->sleep_until(links->on->end, DELAY_US * G_GINT64_CONSTANT(500));
  } else {
    g_usleep(DELAY_US);
    if (channel != NULL)
      links->comm->type->receive(channel, links->receives, 0, links->out, bytes);
    type->record(links->receives, links->on->end);
  }
  *eager = world_all(links->bench->world, ended);
  return wait_end(links, error);
}

static gboolean find_eager(const Links *links, CommGroup *channel, GError **error) {
  for (gint64 bytes = 1 << 10; bytes <= MIN(links->bench->most_bytes, 1 << 22); bytes *= 2) {
    gboolean eager = FALSE;
    if (!is_eager(links, channel, bytes, &eager, error))
      return FALSE;
    if (!eager)
      break;
    links->times->eager_bytes = bytes;
  }
  return TRUE;
}

static gboolean measure_sends(const Links *links, GError **error) {
  const int rank = world_rank(links->bench->world), first = rank / 2 * 2;
  CommGroup *channel = NULL;
  if (first + 1 < world_size(links->bench->world) &&
      (channel = links->comm->type->channel_new(links->comm, first, first + 1, TRUE, error)) == NULL)
    return FALSE;
  const gboolean ok = time_sends(links, channel, error) && find_eager(links, channel, error);
  if (ok && channel != NULL)
    links->comm->type->group_free(channel);
  return ok;
}

/* --- side by side --- */

enum { N_BESIDE = 32, MAX_BESIDE = 1000, MOST_TAX = 10 };

LinkBeside link_beside_of(const DeviceType *device) {
  return device->is_host_memory ? (LinkBeside){NUMBER_FP32, 512, 512, 512, 1 << 20}
                                : (LinkBeside){NUMBER_BF16, 8192, 8192, 4096, 64 << 20};
}

/* Time of N_BESIDE products on this rank while `n_collectives` all-reduces run back to back, the end of each recorded
 * in `ends`, s; −1: failed. */
static double time_products(const Links *links, const Timed *all_reduce, DeviceEvent *const *ends, int n_collectives,
                            GError **error) {
  const DeviceType *type = links->bench->device;
  world_barrier(links->bench->world);
  for (int i = 0; i < n_collectives; i++) {
    launch_transfer(links, all_reduce);
    type->record(links->collectives, ends[i]);
  }
  type->record(links->compute, links->on->start);
  for (int i = 0; i < N_BESIDE; i++)
    launch_product(links);
  type->record(links->compute, links->on->end);
  for (int i = 0; i < n_collectives; i++)
    if (!wait_for(links, ends[i], error))
      return -1;
  if (!wait_end(links, error))
    return -1;
  return device_elapsed_ns(links->on->start, links->on->end) * 1e-9;
}

/* How many of the collectives overlapped the products; the first and the last may count in part. Issuing takes the host
 * a while, so some may have ended before the products began. */
static double count_beside(const Links *links, DeviceEvent *const *ends, int n) {
  const DeviceType *type = links->bench->device;
  const gint64 start_ns = type->event_ns(links->on->start), end_ns = type->event_ns(links->on->end);
  gint64 before_ns = start_ns;
  double n_beside = 0;
  for (int i = 0; i < n && before_ns < end_ns; i++) {
    const gint64 ns = type->event_ns(ends[i]);
    const gint64 beside_ns = MIN(ns, end_ns) - MAX(before_ns, start_ns);
    if (beside_ns > 0)
      n_beside += (double)beside_ns / (double)(ns - before_ns);
    before_ns = ns;
  }
  return n_beside;
}

/* Time of one all-reduce in a row of several, with nothing else running, on this rank, s; −1: failed. */
static double time_alone(const Links *links, const Timed *all_reduce, GError **error) {
  gint64 own[2];
  if (!run_row(links, all_reduce, MOST_QUEUED, own, error))
    return -1;
  return device_elapsed_ns(links->on->start, links->on->end) * 1e-9 / MOST_QUEUED;
}

enum { MOST_SIDE_BY_SIDE = 7 };

typedef struct {
  double products, collective, tax;
} SideBySide;

static gboolean compare_once(const Links *links, const Timed *all_reduce, DeviceEvent *const *ends, SideBySide *result,
                             GError **error) {
  World *world = links->bench->world;
  const double each_s = time_alone(links, all_reduce, error);
  const double alone_s = each_s < 0 ? -1 : time_products(links, all_reduce, ends, 0, error);
  if (alone_s < 0)
    return FALSE;
  /* enough to last until the products end, even if they slow down */
  const int n_long = (int)CLAMP(2 * world_max(world, alone_s) / world_max(world, each_s), 4, MAX_BESIDE);
  const double beside_s = time_products(links, all_reduce, ends, n_long, error);
  if (beside_s < 0)
    return FALSE;
  const double n_beside = count_beside(links, ends, n_long);
  if (n_beside < 0.1) /* too little overlap to judge */
    *result = (SideBySide){beside_s / alone_s, 1, 0};
  else
    *result = (SideBySide){beside_s / alone_s, beside_s / (n_beside * each_s),
                           CLAMP((beside_s - alone_s) / (n_beside * each_s), 0, MOST_TAX)};
  return TRUE;
}

/* Of two middle values, the larger. */
static double median_of_field(const SideBySide *results, int n, gsize offset) {
  double values[MOST_SIDE_BY_SIDE];
  for (int i = 0; i < n; i++)
    memcpy(&values[i], (const char *)&results[i] + offset, sizeof *values);
  sort_doubles(values, (gsize)n);
  return values[n / 2];
}

static gboolean measure_beside_group(const Links *links, CommGroup *group, GError **error) {
  const DeviceType *type = links->bench->device;
  const int n_ranks = world_size(links->bench->world);
  const gint64 bytes = MAX(1, links->bench->beside.bytes / 4 / n_ranks) * n_ranks * 4;
  const Timed all_reduce = {COLLECTIVE_ALL_REDUCE, group, n_ranks, bytes};
  DeviceEvent *ends[MAX_BESIDE];
  SideBySide results[MOST_SIDE_BY_SIDE];
  const int n_compared = MIN(links->bench->n_repeats, MOST_SIDE_BY_SIDE);
  gboolean ok = TRUE;
  say(links, "products beside an all_reduce");
  for (int i = 0; i < MAX_BESIDE; i++)
    ends[i] = type->event_new(links->device, error);
  for (int i = 0; i < n_compared && ok; i++)
    ok = compare_once(links, &all_reduce, ends, &results[i], error);
  for (int i = 0; i < MAX_BESIDE; i++)
    type->event_free(ends[i]);
  if (ok) {
    links->times->products_beside = median_of_field(results, n_compared, offsetof(SideBySide, products));
    links->times->collective_beside = median_of_field(results, n_compared, offsetof(SideBySide, collective));
    links->times->tax = median_of_field(results, n_compared, offsetof(SideBySide, tax));
  }
  return ok;
}

static gboolean measure_beside(const Links *links, GError **error) {
  const int n_ranks = world_size(links->bench->world);
  g_autofree int *members = g_new(int, n_ranks);
  for (int i = 0; i < n_ranks; i++)
    members[i] = i;
  CommGroup *group = links->comm->type->group_new(links->comm, members, n_ranks, error);
  if (group == NULL || !measure_beside_group(links, group, error))
    return FALSE;
  links->comm->type->group_free(group);
  return TRUE;
}

gboolean link_times_measure(const LinkBench *bench, LinkTimes *times, GError **error) {
  *times = (LinkTimes){.times = g_array_new(FALSE, FALSE, sizeof(LinkTime))};
  if (world_size(bench->world) == 1)
    return TRUE;
  Links links;
  if (!open_links(&links, bench, times, error) || !time_groups(&links, error) || !measure_sends(&links, error) ||
      !measure_beside(&links, error))
    return FALSE;
  close_links(&links);
  return TRUE;
}

void link_times_clear(LinkTimes *times) {
  g_clear_pointer(&times->times, g_array_unref);
}
