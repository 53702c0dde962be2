/* Every rank times a transfer by the events around it. A barrier before each makes the ranks arrive at about the same
 * time; the transfer lasts from the last start to the last end:
 *
 *     rank 0    start ├──────────────────┤ end
 *     rank 1         start ├─────────────────┤ end
 *     time                 ├─────────────────┤
 *
 * Groups are neighbouring ranks: 2, 4, … and all. All groups of a size run at once, as in a training step. */
#include "link_times.h"

#include "error.h"
#include "sort_doubles.h"

#include <string.h>

enum { N_WARM = 2 };

/* --- state --- */

typedef struct {
  const LinkBench *bench;
  LinkTimes *times;
  Device *device;
  Comm *comm;
  DeviceStream *compute, *collectives, *sends, *receives;
  DeviceEvent *start, *end;
  char *in, *out;
  gint64 clock_offset_ns;
} Links;

static gboolean make_streams(Links *links, GError **error) {
  const DeviceType *type = links->bench->device;
  DeviceStream **const streams[] = {&links->compute, &links->collectives, &links->sends, &links->receives};
  const Stream kinds[] = {STREAM_COMPUTE, STREAM_DP, STREAM_SEND_F, STREAM_RECV_F};
  for (gsize i = 0; i < G_N_ELEMENTS(kinds); i++)
    if ((*streams[i] = type->stream_new(links->device, kinds[i], error)) == NULL)
      return FALSE;
  links->start = type->event_new(links->device, error);
  links->end = links->start ? type->event_new(links->device, error) : NULL;
  return links->end != NULL;
}

static gboolean open_links(Links *links, const LinkBench *bench, LinkTimes *times, GError **error) {
  *links = (Links){.bench = bench, .times = times};
  links->device = bench->device->open(world_local_rank(bench->world), world_n_local(bench->world), 0, error);
  if (links->device == NULL || (links->comm = comm_start(bench->comm, bench->world, links->device, error)) == NULL ||
      !make_streams(links, error))
    return FALSE;
  links->in = bench->device->allocate(links->device, bench->most_bytes, error);
  links->out = links->in ? bench->device->allocate(links->device, bench->most_bytes, error) : NULL;
  links->clock_offset_ns = world_clock_offset(bench->world);
  return links->out != NULL;
}

static void close_links(Links *links) {
  const DeviceType *type = links->bench->device;
  type->release(links->device, links->in);
  type->release(links->device, links->out);
  comm_stop(links->comm, links->bench->world);
  type->event_free(links->start);
  type->event_free(links->end);
  DeviceStream *const streams[] = {links->compute, links->collectives, links->sends, links->receives};
  for (gsize i = 0; i < G_N_ELEMENTS(streams); i++)
    type->stream_free(streams[i]);
  type->close(links->device);
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
  return wait_for(links, links->end, error);
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

static void note_time(const Links *links, Collective op, int n_ranks, gint64 bytes, const double *sorted_s, int n) {
  const LinkTime time = {.op = op,
                         .n_ranks = n_ranks,
                         .n_nodes =
                             (n_ranks + world_n_local(links->bench->world) - 1) / world_n_local(links->bench->world),
                         .bytes = bytes,
                         .median_s = sorted_s[n / 2],
                         .spread = (sorted_s[3 * n / 4] - sorted_s[n / 4]) / sorted_s[n / 2]};
  g_array_append_val(links->times->times, time);
}

/* --- collectives --- */

static void launch_collective(const Links *links, CommGroup *group, Collective op, gint64 n) {
  const CollectiveSpec spec = {.collective = op, .number = NUMBER_FP32, .in = links->in, .out = links->out, .n = n};
  links->comm->type->collective(group, links->collectives, &spec);
}

static gboolean time_collective(const Links *links, CommGroup *group, Collective op, int n_ranks, gint64 bytes,
                                GError **error) {
  const DeviceType *type = links->bench->device;
  const int n = links->bench->n_repeats;
  const gint64 elements = MAX(1, bytes / 4 / n_ranks) * n_ranks;
  g_autofree gint64 *own = g_new(gint64, 2 * n);
  for (int i = -N_WARM; i < n; i++) {
    world_barrier(links->bench->world);
    type->record(links->collectives, links->start);
    launch_collective(links, group, op, elements);
    type->record(links->collectives, links->end);
    if (!wait_end(links, error))
      return FALSE;
    if (i >= 0) {
      own[2 * i] = type->event_ns(links->start) + links->clock_offset_ns;
      own[2 * i + 1] = type->event_ns(links->end) + links->clock_offset_ns;
    }
  }
  g_autofree double *spans_s = spans_of_all(links, own, n);
  if (spans_s != NULL)
    note_time(links, op, n_ranks, elements * 4, spans_s, n);
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
    for (gint64 bytes = links->bench->least_bytes; bytes <= links->bench->most_bytes; bytes *= 4)
      if (!time_collective(links, group, ops[i], n_ranks, bytes, error))
        return FALSE;
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

/* Each even rank sends to the odd rank after it. */
static gboolean send_once(const Links *links, CommGroup *channel, gint64 bytes, gint64 *own, GError **error) {
  const DeviceType *type = links->bench->device;
  const gboolean sends = world_rank(links->bench->world) % 2 == 0;
  DeviceStream *stream = sends ? links->sends : links->receives;
  world_barrier(links->bench->world);
  type->record(stream, links->start);
  if (channel != NULL && sends)
    links->comm->type->send(channel, stream, 0, links->in, bytes);
  else if (channel != NULL)
    links->comm->type->receive(channel, stream, 0, links->out, bytes);
  type->record(stream, links->end);
  if (!wait_end(links, error))
    return FALSE;
  own[0] = type->event_ns(links->start) + links->clock_offset_ns;
  own[1] = type->event_ns(links->end) + links->clock_offset_ns;
  return TRUE;
}

static gboolean time_sends(const Links *links, CommGroup *channel, GError **error) {
  const int n = links->bench->n_repeats;
  g_autofree gint64 *own = g_new(gint64, 2 * (gsize)(n + N_WARM));
  say(links, "sends");
  for (gint64 bytes = links->bench->least_bytes; bytes <= links->bench->most_bytes; bytes *= 4) {
    for (int i = 0; i < n + N_WARM; i++)
      if (!send_once(links, channel, bytes, own + 2 * i, error))
        return FALSE;
    g_autofree double *spans_s = spans_of_all(links, own + 2 * N_WARM, n);
    if (spans_s != NULL)
      note_time(links, COLLECTIVE_SEND_RECV, 2, bytes, spans_s, n);
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
    type->record(links->sends, links->end);
    ended = type->sleep_until(links->end, DELAY_US * G_GINT64_CONSTANT(500));
  } else {
    g_usleep(DELAY_US);
    if (channel != NULL)
      links->comm->type->receive(channel, links->receives, 0, links->out, bytes);
    type->record(links->receives, links->end);
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

enum { BESIDE_SIZE = 512, N_BESIDE = 32, MAX_BESIDE = 1000, MOST_TAX = 10 };

static void launch_products(const Links *links) {
  const Kernel kernel = {.kind = KERNEL_MATMUL,
                         .matmul = {.layout = LAYOUT_TN,
                                    .number = NUMBER_FP32,
                                    .result = NUMBER_FP32,
                                    .batch = 1,
                                    .m = BESIDE_SIZE,
                                    .n = BESIDE_SIZE,
                                    .k = BESIDE_SIZE,
                                    .lda = BESIDE_SIZE,
                                    .ldb = BESIDE_SIZE,
                                    .ldc = BESIDE_SIZE,
                                    .a = links->in,
                                    .b = links->in,
                                    .c = links->in + 4 * BESIDE_SIZE * BESIDE_SIZE,
                                    .alpha = 1}};
  for (int i = 0; i < N_BESIDE; i++)
    links->bench->device->launch(links->compute, &kernel);
}

/* Time of N_BESIDE products on this rank while `n_collectives` all-reduces of `n` elements run back to back, the end of
 * each recorded in `ends`, s; −1: failed. */
static double time_products(const Links *links, CommGroup *group, gint64 n, DeviceEvent *const *ends, int n_collectives,
                            GError **error) {
  const DeviceType *type = links->bench->device;
  world_barrier(links->bench->world);
  for (int i = 0; i < n_collectives; i++) {
    launch_collective(links, group, COLLECTIVE_ALL_REDUCE, n);
    type->record(links->collectives, ends[i]);
  }
  type->record(links->compute, links->start);
  launch_products(links);
  type->record(links->compute, links->end);
  for (int i = 0; i < n_collectives; i++)
    if (!wait_for(links, ends[i], error))
      return -1;
  if (!wait_end(links, error))
    return -1;
  return (type->event_ns(links->end) - type->event_ns(links->start)) * 1e-9;
}

/* How many of the collectives overlapped the products; the first and the last may count in part. Issuing takes the host
 * a while, so some may have ended before the products began. */
static double count_beside(const Links *links, DeviceEvent *const *ends, int n) {
  const DeviceType *type = links->bench->device;
  const gint64 start_ns = type->event_ns(links->start), end_ns = type->event_ns(links->end);
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

/* Time of one all-reduce in a row of several, with nothing else running, s. */
static double time_alone(const Links *links, CommGroup *group, gint64 n, GError **error) {
  enum { N_ALONE = 20 };
  const DeviceType *type = links->bench->device;
  world_barrier(links->bench->world);
  type->record(links->collectives, links->start);
  for (int i = 0; i < N_ALONE; i++)
    launch_collective(links, group, COLLECTIVE_ALL_REDUCE, n);
  type->record(links->collectives, links->end);
  if (!wait_end(links, error))
    return -1;
  return (type->event_ns(links->end) - type->event_ns(links->start)) * 1e-9 / N_ALONE;
}

enum { MOST_SIDE_BY_SIDE = 7 };

typedef struct {
  double products, collective, tax;
} SideBySide;

static gboolean compare_once(const Links *links, CommGroup *group, gint64 n, DeviceEvent *const *ends,
                             SideBySide *result, GError **error) {
  World *world = links->bench->world;
  const double each_s = time_alone(links, group, n, error);
  const double alone_s = each_s < 0 ? -1 : time_products(links, group, n, ends, 0, error);
  if (alone_s < 0)
    return FALSE;
  /* enough to last until the products end, even if they slow down */
  const int n_long = (int)CLAMP(2 * world_max(world, alone_s) / world_max(world, each_s), 4, MAX_BESIDE);
  const double beside_s = time_products(links, group, n, ends, n_long, error);
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
  const gint64 n = MIN(links->bench->most_bytes, 1 << 20) / 4 / n_ranks * n_ranks;
  DeviceEvent *ends[MAX_BESIDE];
  SideBySide results[MOST_SIDE_BY_SIDE];
  const int n_compared = MIN(links->bench->n_repeats, MOST_SIDE_BY_SIDE);
  gboolean ok = TRUE;
  say(links, "products beside an all_reduce");
  for (int i = 0; i < MAX_BESIDE; i++)
    ends[i] = type->event_new(links->device, error);
  for (int i = 0; i < n_compared && ok; i++)
    ok = compare_once(links, group, n, ends, &results[i], error);
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
