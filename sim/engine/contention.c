/* A flow's rate is counted in thousandths of its widest share: with s_w its share of way w and s its largest,
 *
 *     cap = s,   bytes = (run − latency) · s,   on way w it counts s_w · 1000 / s times, of a capacity of 1000 · 1000
 *
 * so that flows are given equal parts of the way that is full in the bytes of that way. */
#include "contention.h"

#include "flows.h"
#include "ticks.h"

enum { OUT, IN, N_DIRECTIONS, LINKS_PER_RANK = TIMING_MAX_WAYS * N_DIRECTIONS };

struct Contention {
  const Timing *timing; /* borrowed */
  Flows *flows;
  GArray *links;  /* of gint32: of the flow being made */
  GArray *counts; /* of gint64 */
  GArray *ended;  /* of TransferEnd */
};

/* Ways that the op takes at its rank, out and in, as bits. */
static guint ways_of(const Program *program, const Timing *timing, const Op *op) {
  if (op->kind != OP_SEND && op->kind != OP_RECV && op->kind != OP_COLLECTIVE)
    return 0;
  guint ways = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    if (timing->loads[op->work].share[way] > 0)
      ways |= (op->kind != OP_RECV ? 1u << (way * N_DIRECTIONS + OUT) : 0) |
              (op->kind != OP_SEND ? 1u << (way * N_DIRECTIONS + IN) : 0);
  return ways;
}

static gboolean can_meet(const Program *program, const Timing *timing, int rank) {
  guint taken[N_STREAMS] = {0};
  const OpList *list = &program->ranks[rank];
  for (int i = 0; i < list->n_ops; i++)
    taken[list->ops[i].stream] |= ways_of(program, timing, &list->ops[i]);
  guint all = 0;
  for (int stream = 0; stream < N_STREAMS; stream++) {
    if (all & taken[stream])
      return TRUE;
    all |= taken[stream];
  }
  return FALSE;
}

/* As if everything ran one after another, and every transfer beside one on each other stream. */
static double longest_run_ns(const Trace *trace, double slowest) {
  const Timing *timing = trace->timing;
  double longest_ns = 0;
  for (int rank = 0; rank < trace->program->n_ranks; rank++) {
    const OpList *list = &trace->program->ranks[rank];
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      const OpTime *time = op->kind == OP_COMPUTE ? &timing->works[op->work]
                           : op->kind == OP_HOST  ? &timing->host_sync
                                                  : &timing->transfers[op->work];
      double factor = op->kind == OP_COMPUTE ? slowest : N_STREAMS;
      longest_ns += factor * (double)time->run_ns + (double)time->tail_ns + (double)time->host_ns;
    }
  }
  return longest_ns;
}

Contention *contention_new(const Trace *trace, double slowest) {
  gboolean is_needed = FALSE;
  for (int rank = 0; rank < trace->program->n_ranks && !is_needed; rank++)
    is_needed = trace->timing->loads != NULL && can_meet(trace->program, trace->timing, rank);
  if (!is_needed || longest_run_ns(trace, slowest) * TICKS_PER_NS >= (double)TICKS_NEVER)
    return NULL;
  gint32 n_links = trace->n_ranks * LINKS_PER_RANK;
  g_autofree double *capacity = g_new(double, n_links);
  for (gint32 i = 0; i < n_links; i++)
    capacity[i] = (double)TIMING_WHOLE_WAY * TIMING_WHOLE_WAY;
  Contention *contention = g_new(Contention, 1);
  *contention = (Contention){.timing = trace->timing,
                             .flows = flows_new_on_links(capacity, n_links),
                             .links = g_array_new(FALSE, FALSE, sizeof(gint32)),
                             .counts = g_array_new(FALSE, FALSE, sizeof(gint64)),
                             .ended = g_array_new(FALSE, FALSE, sizeof(TransferEnd))};
  return contention;
}

void contention_free(Contention *contention) {
  if (contention == NULL)
    return;
  flows_free(contention->flows);
  g_array_unref(contention->links);
  g_array_unref(contention->counts);
  g_array_unref(contention->ended);
  g_free(contention);
}

static int widest_share(const WayLoad *load) {
  int widest = 0;
  for (int way = 0; way < TIMING_MAX_WAYS; way++)
    widest = MAX(widest, load->share[way]);
  return widest;
}

static void add_ways(Contention *contention, const WayLoad *load, gint32 rank, int direction) {
  int widest = widest_share(load);
  for (int way = 0; way < TIMING_MAX_WAYS; way++) {
    if (load->share[way] == 0)
      continue;
    gint32 link = rank * LINKS_PER_RANK + way * N_DIRECTIONS + direction;
    gint64 count = MAX(1, (gint64)load->share[way] * TIMING_WHOLE_WAY / widest);
    g_array_append_val(contention->links, link);
    g_array_append_val(contention->counts, count);
  }
}

static void begin(Contention *contention) {
  g_array_set_size(contention->links, 0);
  g_array_set_size(contention->counts, 0);
}

static void start(Contention *contention, gint64 now_ns, gint32 lane, gint32 transfer) {
  const WayLoad *load = &contention->timing->loads[transfer];
  gint64 run_ns = contention->timing->transfers[transfer].run_ns, latency_ns = MIN(load->latency_ns, run_ns);
  double cap = widest_share(load), bytes = cap * 1e-9 * (double)(run_ns - latency_ns);
  if (cap == 0) { /* on no link: time passes */
    latency_ns = run_ns;
    cap = 1;
  }
  const FlowRequest request = {.route = {.links = (const gint32 *)(void *)contention->links->data,
                                         .n_links = (gint32)contention->links->len,
                                         .latency_ticks = ticks_of_ns(latency_ns)},
                               .counts = (const gint64 *)(void *)contention->counts->data,
                               .weight = 1,
                               .bytes = bytes,
                               .cap_Bps = cap,
                               .tag = (guint64)lane};
  flows_start(contention->flows, ticks_of_ns(now_ns), &request);
}

void contention_send(Contention *contention, gint64 now_ns, gint32 lane, gint32 transfer, gint32 from, gint32 to) {
  const WayLoad *load = &contention->timing->loads[transfer];
  begin(contention);
  add_ways(contention, load, from, OUT);
  add_ways(contention, load, to, IN);
  start(contention, now_ns, lane, transfer);
}

void contention_collective(Contention *contention, gint64 now_ns, gint32 lane, gint32 transfer, const gint32 *ranks,
                           gint32 n_ranks) {
  const WayLoad *load = &contention->timing->loads[transfer];
  begin(contention);
  for (gint32 i = 0; i < n_ranks; i++)
    for (int direction = OUT; direction < N_DIRECTIONS; direction++)
      add_ways(contention, load, ranks[i], direction);
  start(contention, now_ns, lane, transfer);
}

gint64 contention_next_ns(Contention *contention) {
  return ticks_to_ns(flows_next(contention->flows));
}

const TransferEnd *contention_advance(Contention *contention, gint32 *n_ended) {
  *n_ended = flows_advance(contention->flows, flows_next(contention->flows));
  const FlowEnd *ended = flows_ended(contention->flows);
  g_array_set_size(contention->ended, *n_ended);
  for (gint32 i = 0; i < *n_ended; i++)
    g_array_index(contention->ended, TransferEnd, i) =
        (TransferEnd){(gint32)ended[i].tag, ticks_to_ns(ended[i].end_ticks)};
  return (const TransferEnd *)(void *)contention->ended->data;
}
