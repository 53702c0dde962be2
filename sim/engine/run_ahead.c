/* For long stretches a rank alternates between kernels and the collectives between them. Nothing else begins or ends
 * on its ways, though one other transfer may be under way throughout:
 *
 *     compute   ███   ███   ███   ███   ███
 *     tp           ▒▒    ▒▒    ▒▒    ▒▒       each as far from the last, whatever other ranks do
 *     dp        ░░░░░░░░░░░░░░░░░░░░░░░░░░░
 *
 * Here collectives need not wait until the flows' clock reaches them: each is ended at once (flows_run_ahead()), and
 * the rank goes on. For that we must know how long the rank stays undisturbed, which follows from what its other
 * streams are doing:
 *
 *     held by a kernel or collective    until that op has ended
 *     held by another stream            as long as that stream is busy
 *     a transfer under way              until it takes its ways; after that, until its end if nothing slows it
 *     waiting for its partner           until the kernel that the partner waits for has ended: at the earliest
 *                                       after the sum of the kernels up to it
 *
 * All of these are lower bounds and remain so. Only for runs of a folded program in which each collective has one
 * member. */
#include "engine_state.h"

#include "held.h"

static gint64 *sum_kernels(const Engine *engine, const TaskList *list) {
  gint64 *sums_ns = g_new(gint64, list->n_tasks + 1), sum_ns = 0;
  for (gint32 i = 0; i < list->n_tasks; i++) {
    sums_ns[i] = sum_ns;
    if (list->tasks[i].kind == OP_COMPUTE)
      sum_ns = add_ns(sum_ns, engine->timing->works[list->tasks[i].work].run_ns);
  }
  sums_ns[list->n_tasks] = sum_ns;
  return sums_ns;
}

/* Whether some sends complete without their receiver. */
static gboolean has_eager_sends(const Simulation *simulation) {
  const GArray *transfers = simulation->program->transfers;
  for (guint i = 0; i < transfers->len; i++) {
    const Transfer *transfer = &g_array_index(transfers, Transfer, i);
    if (transfer->group < 0 && transfer->bytes <= (double)simulation->eager_bytes)
      return TRUE;
  }
  return FALSE;
}

void engine_undisturbed_init(Engine *engine) {
  if (engine->contention == NULL || !engine->runs_ahead || !engine->trace->folded || engine->is_varied ||
      engine->taxed != NULL || has_eager_sends(engine->simulation))
    return;
  const int n_ranks = engine->trace->n_ranks;
  engine->undisturbed = g_new(Undisturbed, n_ranks);
  engine->kernels_ns = g_new(gint64 *, n_ranks);
  for (int rank = 0; rank < n_ranks; rank++) {
    engine->undisturbed[rank] = (Undisturbed){.stream = -1};
    engine->kernels_ns[rank] = sum_kernels(engine, &engine->lists[rank]);
  }
}

void engine_undisturbed_clear(Engine *engine) {
  for (int rank = 0; engine->undisturbed != NULL && rank < engine->trace->n_ranks; rank++)
    g_free(engine->kernels_ns[rank]);
  g_free(engine->kernels_ns);
  g_free(engine->undisturbed);
}

/* The earliest end of kernel `op` of a rank, which has not ended: the kernels up to it run without a gap. */
static gint64 earliest_end(const Engine *engine, gint32 rank, gint32 op) {
  const Lane *compute = &engine->lanes[rank * LANES_PER_RANK + STREAM_COMPUTE];
  const gint64 *sums_ns = engine->kernels_ns[rank];
  return add_ns(compute->last_end_ns, sums_ns[op + 1] - sums_ns[compute->head]);
}

/* The earliest time at which an op that has not started may be ready. */
static gint64 earliest_ready(const Engine *engine, gint32 rank, gint32 op) {
  const Rank *state = &engine->ranks[rank];
  const Lane *compute = &engine->lanes[rank * LANES_PER_RANK + STREAM_COMPUTE];
  const gint32 *after = state->list->ops[op].after;
  gint32 kernel = -1;
  for (int i = 0; i < OP_MAX_AFTER && after[i] >= 0; i++)
    if (state->tasks[after[i]].stream == STREAM_COMPUTE)
      kernel = MAX(kernel, after[i]);
  return kernel >= 0 && compute->head >= 0 && compute->head <= kernel ? earliest_end(engine, rank, kernel) : 0;
}

/* The time before which a send or receive that has started changes nothing. */
static gint64 undisturbed_beside_transfer(const Engine *engine, gint32 lane, const Task *task) {
  const gint32 rank = lane_rank(lane), partner_rank = rank + task->peer_offset;
  const Task *partner = &engine->ranks[partner_rank].tasks[task->match];
  const gint32 partner_lane = partner_rank * LANES_PER_RANK + partner->stream;
  const gint32 send_lane = task->kind == OP_SEND ? lane : partner_lane;
  const gint32 transfer = task->kind == OP_SEND ? task->work : partner->work;
  const Lane *at = &engine->lanes[partner_lane];
  if (at->head == task->match && engine->begin_ns[send_lane] >= 0)
    return contention_undisturbed_until_ns(engine->contention, engine->begin_ns[send_lane], send_lane, transfer, rank);
  return earliest_ready(engine, partner_rank, task->match);
}

static gint64 undisturbed_beside_busy(const Engine *engine, gint32 lane) {
  const gint32 rank = lane_rank(lane), op = engine->lanes[lane].head;
  const Rank *state = &engine->ranks[rank];
  const Task *task = &state->tasks[op];
  if (state->end_ns[op] >= 0)
    return state->end_ns[op];
  if (task->kind == OP_SEND || task->kind == OP_RECV)
    return undisturbed_beside_transfer(engine, lane, task);
  if (engine->begin_ns[lane] < 0) /* other members are still to arrive */
    return 0;
  return contention_undisturbed_until_ns(engine->contention, engine->begin_ns[lane], lane, task->work, rank);
}

/* What the head of a lane that has not started waits for. */
static void look_at_held(const Engine *engine, gint32 lane, Undisturbed *undisturbed) {
  const gint32 rank = lane_rank(lane), holder = engine_held_by(engine, rank, engine->lanes[lane].head);
  if (holder < 0)
    undisturbed->until_ns = 0; /* it may start at any moment */
  else if (engine->ranks[rank].tasks[holder].stream == STREAM_COMPUTE)
    undisturbed->kernel = MIN(undisturbed->kernel, holder);
  else if (engine->ranks[rank].tasks[holder].stream == undisturbed->stream)
    undisturbed->collective = MIN(undisturbed->collective, holder);
}

/* A ready head waits for the rest of its batch, whose ops are on other streams. */
static gint64 undisturbed_beside_ready(const Engine *engine, gint32 lane, guint own) {
  const Rank *state = &engine->ranks[lane_rank(lane)];
  const gint32 op = engine->lanes[lane].head, *next = state->list->next_in_batch;
  for (gint32 i = next[op]; i != op; i = next[i])
    if (own >> state->tasks[i].stream & 1)
      return 0;
  return G_MAXINT64;
}

gint64 engine_undisturbed_beside(const Engine *engine, gint32 lane, guint own) {
  switch ((LaneState)engine->lanes[lane].state) {
  case LANE_BUSY:
    return undisturbed_beside_busy(engine, lane);
  case LANE_DUE:
    return engine->queue.events[lane].at;
  default:
    return undisturbed_beside_ready(engine, lane, own);
  }
}

/* Works out *undisturbed anew. */
static void look(const Engine *engine, gint32 rank, gint32 stream, Undisturbed *undisturbed) {
  *undisturbed = (Undisturbed){G_MAXINT64, stream, NOT_AWAITED, NOT_AWAITED};
  for (gint32 other = 0; other < N_STREAMS && undisturbed->until_ns > 0; other++) {
    const gint32 lane = rank * LANES_PER_RANK + other;
    const Lane *at = &engine->lanes[lane];
    if (other == STREAM_COMPUTE || other == stream || at->head < 0)
      continue;
    if (at->state == LANE_HELD)
      look_at_held(engine, lane, undisturbed);
    else
      undisturbed->until_ns =
          MIN(undisturbed->until_ns, engine_undisturbed_beside(engine, lane, 1u << STREAM_COMPUTE | 1u << stream));
  }
}

/* Collectives of other streams (gradients or weights, say) last too long. */
static gboolean is_between_kernels(Stream stream) {
  return stream == STREAM_TP || stream == STREAM_CP || stream == STREAM_EP;
}

/* Whether *undisturbed is still valid, for collective `op` of this stream. */
static gboolean is_known(const Undisturbed *undisturbed, const Lane *compute, gint32 stream, gint32 op) {
  return undisturbed->stream == stream && op <= undisturbed->collective &&
         (undisturbed->kernel == NOT_AWAITED || (compute->head >= 0 && compute->head <= undisturbed->kernel));
}

static gboolean waits_for(const Rank *state, gint32 op, gint32 awaited) {
  const gint32 *after = state->list->ops[op].after;
  for (int i = 0; i < OP_MAX_AFTER && after[i] >= 0; i++)
    if (after[i] == awaited)
      return TRUE;
  return FALSE;
}

/* The kernel that other streams wait for may run beside collective `op`, unless the compute stream waits for `op`. */
static gint64 undisturbed_beside_kernels(const Engine *engine, gint32 rank, gint32 op, const Undisturbed *undisturbed) {
  const Lane *compute = &engine->lanes[rank * LANES_PER_RANK + STREAM_COMPUTE];
  if (undisturbed->kernel == NOT_AWAITED ||
      (compute->state == LANE_HELD && waits_for(&engine->ranks[rank], compute->head, op)))
    return G_MAXINT64;
  return earliest_end(engine, rank, undisturbed->kernel);
}

gboolean engine_run_ahead(Engine *engine, gint32 lane, const Task *task, gint64 begin_ns) {
  const gint32 rank = lane_rank(lane), op = engine->lanes[lane].head, stream = task->stream;
  const Lane *compute = &engine->lanes[rank * LANES_PER_RANK + STREAM_COMPUTE];
  const gint64 least_end_ns = add_ns(begin_ns, engine->timing->transfers[task->work].run_ns);
  Undisturbed *undisturbed = &engine->undisturbed[rank];
  if (!is_between_kernels((Stream)stream) || engine->lanes[lane].chain >= 0 ||
      !contention_may_begin_ahead(engine->contention, task->work))
    return FALSE;
  for (gboolean is_new = FALSE;; is_new = TRUE) {
    if (is_new || !is_known(undisturbed, compute, stream, op)) {
      look(engine, rank, stream, undisturbed);
      is_new = TRUE;
    }
    const gint64 until_ns = MIN(undisturbed->until_ns, undisturbed_beside_kernels(engine, rank, op, undisturbed));
    TransferEnd ended;
    if (least_end_ns < until_ns &&
        contention_run_ahead(engine->contention, begin_ns, lane, task->work, rank, until_ns, &ended)) {
      engine_end_flow(engine, &ended);
      engine->n_ahead++;
      return TRUE;
    }
    if (is_new)
      return FALSE;
  }
}
