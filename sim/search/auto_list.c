/* List scheduling. A rank that is free considers what it can run now:
 *
 *     I or F   whichever the rule prefers; an F only if it leaves memory to complete every micro-batch already begun
 *     W        if it ends before the next known arrival of an F or I, if an F waits for memory, or if the rank has
 *              idled enough
 *     nothing  until the next F or I arrives
 *
 *     rank 0  F F F F . . . I W F I W F          . idles: a W, if there were one, would fill it
 *     rank 1    F F F . I . I F W
 *
 * No deadlock. A rank starts an F of chunk k only if, after it, there is still enough memory free for what chunks k +
 * 1 … of that rank need for one more micro-batch (`need`). Suppose all ranks were stuck. No I can run, so no
 * micro-batch is past the last stage. Take the most advanced F that waits, of chunk k on some rank. No micro-batch is
 * beyond it, so that rank holds only chunks ≤ k. The last F it started was of a chunk < k (if of chunk k, its
 * micro-batch would be waiting further on), and left room for chunk k. So the F could run: a contradiction.
 *
 * With a guide, an order of F and I, the rank waits for the action whose turn it is; another F or I runs ahead of its
 * turn only during such a wait. An F ahead holds memory until its turn, so the guide up to that point must fit with
 * one more micro-batch. With a guide that does not fit, some rank runs out of memory, and the pass fails. */
#include "auto_list.h"
#include <math.h>

/* --- which rank decides next --- */

static const gint64 NEVER = G_MAXINT64;

/* A tournament tree: the winner of each pair is the one that wakes first, among equals the lower rank. */
typedef struct {
  gint64 *at;  /* [n_leaves] when a rank wakes, ns; NEVER; owned */
  int *winner; /* [2 · n_leaves] winner of node n's children, 2n and 2n + 1; from n_leaves on, the ranks themselves;
                  owned */
  int n_ranks, n_leaves;
} WakeQueue;

static inline int wake_queue_first(const WakeQueue *queue) {
  return queue->winner[1];
}

static void wake_queue_init(WakeQueue *queue, int n_ranks) {
  *queue = (WakeQueue){.n_ranks = n_ranks, .n_leaves = 1};
  while (queue->n_leaves < n_ranks)
    queue->n_leaves *= 2;
  queue->at = g_new(gint64, queue->n_leaves);
  queue->winner = g_new(int, 2 * queue->n_leaves);
}

static void wake_queue_clear(WakeQueue *queue) {
  g_free(queue->at);
  g_free(queue->winner);
  *queue = (WakeQueue){0};
}

/* All ranks wake at 0. */
static void wake_queue_start(WakeQueue *queue) {
  for (int leaf = 0; leaf < queue->n_leaves; leaf++) {
    queue->at[leaf] = leaf < queue->n_ranks ? 0 : NEVER;
    queue->winner[queue->n_leaves + leaf] = leaf;
  }
  for (int node = queue->n_leaves - 1; node >= 1; node--)
    queue->winner[node] = queue->winner[2 * node];
}

static void wake_queue_set(WakeQueue *queue, int rank, gint64 time_ns) {
  queue->at[rank] = time_ns;
  for (int node = (queue->n_leaves + rank) / 2; node >= 1; node /= 2) {
    int a = queue->winner[2 * node], b = queue->winner[2 * node + 1], before = queue->winner[node];
    queue->winner[node] = queue->at[b] < queue->at[a] ? b : a;
    if (queue->winner[node] == before && before != rank) /* then nothing changes above it either */
      return;
  }
}

/* --- the list --- */

enum { GLANCES_PER_STEP = 8 }; /* actions of a guide that can be summed up in the time of one step */

/* Micro-batches pass every action of a stage in order, so a count is a position in a queue. */
typedef struct {
  gint32 n_f, n_i, n_w; /* number done */
  gint32 quota;         /* most micro-batches between F and I */
  double ramp_holds;    /* memory of the micro-batches that arrive before the first gradient does */
} StageState;

typedef struct {
  gint64 now;         /* when it is free */
  gint64 first;       /* its first start; −1: none yet */
  gint64 idle;        /* total since its first start */
  gint64 idle_limit;  /* above this, the span exceeds the limit */
  gint64 patience_ns; /* how long it may idle in total, for F or I that a W would delay */
  double held;
  int n_w_pending;
  guint8 waits;        /* sleeps until its wake time, or until something arrives */
  guint8 has_i;        /* has run an I */
  Action *next;        /* where to write its next action */
  const Action *guide; /* its position in the guide */
} RankState;

struct ListScheduler {
  const FlatProblem *flat;
  const ListRule *rule;
  gint64 period_ns, trip_ns; /* work of the busiest rank per micro-batch; round trip of a micro-batch */
  gint64 bound_ns;           /* lower bound of the problem */
  gint64 pace_ns;            /* of the rule */
  StageState *stages;        /* [n_stages] */
  RankState *ranks;          /* [n_ranks] */
  gint64 *f_comes;           /* [n_stages · m] when the input arrives; NEVER: not known yet */
  gint64 *i_comes;
  WakeQueue wake; /* when each rank decides next */
  gint64 n_steps;
  gboolean is_over_limit;
};

ListScheduler *list_scheduler_new(const FlatProblem *flat, gint64 bound_ns) {
  ListScheduler *list = g_new0(ListScheduler, 1);
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches;
  list->flat = flat;
  list->bound_ns = bound_ns;
  list->stages = g_new(StageState, flat->n_stages);
  list->ranks = g_new(RankState, flat->n_ranks);
  list->f_comes = g_new(gint64, 2 * n);
  list->i_comes = list->f_comes + n;
  wake_queue_init(&list->wake, flat->n_ranks);
  list->period_ns = 1;
  for (int rank = 0; rank < flat->n_ranks; rank++)
    list->period_ns = MAX(list->period_ns, flat->work_ns[rank]);
  for (int stage = 0; stage < flat->n_stages; stage++)
    list->trip_ns += flat->stages[stage].f_ns + flat->stages[stage].i_ns + 2 * flat->wire_ns[stage];
  return list;
}

void list_scheduler_free(ListScheduler *list) {
  if (list == NULL)
    return;
  g_free(list->stages);
  g_free(list->ranks);
  g_free(list->f_comes);
  wake_queue_clear(&list->wake);
  g_free(list);
}

/* Something arrives at `rank` at `time`: wakes it then if it would sleep longer. */
static void announce(ListScheduler *list, int rank, gint64 time) {
  if (list->ranks[rank].waits && time < list->wake.at[rank])
    wake_queue_set(&list->wake, rank, time);
}

/* --- running an action --- */

static gint64 *place_in(gint64 *comes, const FlatProblem *flat, int stage, gint32 micro_batch) {
  return &comes[(gsize)stage * (gsize)flat->n_micro_batches + (gsize)micro_batch];
}

static void run_f(ListScheduler *list, int stage, gint64 end) {
  const FlatProblem *flat = list->flat;
  gint32 j = list->stages[stage].n_f++;
  list->ranks[flat->rank_of[stage]].held += flat->stages[stage].f_holds;
  if (stage == 0 && list->pace_ns > 0 && j + 1 < flat->n_micro_batches)
    list->f_comes[j + 1] = end - flat->stages[0].f_ns + list->pace_ns;
  if (stage + 1 == flat->n_stages) {
    *place_in(list->i_comes, flat, stage, j) = end;
    return;
  }
  gint64 comes = end + flat->wire_ns[stage + 1];
  *place_in(list->f_comes, flat, stage + 1, j) = comes;
  announce(list, flat->rank_of[stage + 1], comes);
}

static void run_i(ListScheduler *list, int stage, gint64 end) {
  const FlatProblem *flat = list->flat;
  gint32 j = list->stages[stage].n_i++;
  RankState *rank = &list->ranks[flat->rank_of[stage]];
  rank->held -= flat->stages[stage].i_drops;
  rank->n_w_pending++;
  rank->has_i = TRUE;
  if (stage == 0)
    return;
  gint64 comes = end + flat->wire_ns[stage];
  *place_in(list->i_comes, flat, stage - 1, j) = comes;
  announce(list, flat->rank_of[stage - 1], comes);
}

static void run_w(ListScheduler *list, int stage) {
  RankState *rank = &list->ranks[list->flat->rank_of[stage]];
  list->stages[stage].n_w++;
  rank->n_w_pending--;
  rank->held -= list->flat->stages[stage].w_drops;
}

static void run_action(ListScheduler *list, int rank, ActionKind kind, int stage) {
  const StageCost *cost = &list->flat->stages[stage];
  const StageState *state = &list->stages[stage];
  RankState *own = &list->ranks[rank];
  gint64 start = list->wake.at[rank];
  gint32 micro_batch = kind == ACTION_F ? state->n_f : kind == ACTION_I ? state->n_i : state->n_w;
  gint64 end = start + (kind == ACTION_F ? cost->f_ns : kind == ACTION_I ? cost->i_ns : cost->w_ns);
  *own->next++ = (Action){.stage = stage, .micro_batch = micro_batch, .kind = (guint8)kind};
  if (own->first < 0)
    own->first = start;
  else if ((own->idle += start - own->now) > own->idle_limit)
    list->is_over_limit = TRUE;
  own->now = end;
  own->waits = FALSE;
  if (kind == ACTION_F)
    run_f(list, stage, end);
  else if (kind == ACTION_I)
    run_i(list, stage, end);
  else
    run_w(list, stage);
  wake_queue_set(&list->wake, rank, end);
}

/* --- the options --- */

typedef struct {
  int f, i, w; /* stages: of the F and the I that can run now, of the W that the guide wants now; −1: none */
  gint64 f_since, i_since;
  gint64 next; /* earliest known later arrival of an F or I */
  gboolean f_lacks_memory;
} Options;

static gboolean fits(const ListScheduler *list, int rank, double adds) {
  return list->flat->cap == NULL || adds <= 0 || list->ranks[rank].held + adds <= list->flat->cap[rank];
}

static void look_at_f(const ListScheduler *list, int rank, int stage, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  const StageState *state = &list->stages[stage];
  if (state->n_f == flat->n_micro_batches || state->n_f - state->n_i >= state->quota)
    return;
  gint64 comes = *place_in(list->f_comes, flat, stage, state->n_f);
  if (comes == NEVER)
    return;
  if (!fits(list, rank, flat->need[stage]))
    options->f_lacks_memory = options->f_lacks_memory || comes <= now;
  else if (comes > now)
    options->next = MIN(options->next, comes);
  else if (options->f < 0 || !list->rule->by_arrival || comes < options->f_since) {
    options->f = stage;
    options->f_since = comes;
  }
}

static void look_at_i(const ListScheduler *list, int rank, int stage, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  const StageState *state = &list->stages[stage];
  if (state->n_i == state->n_f)
    return;
  gint64 comes = *place_in(list->i_comes, flat, stage, state->n_i);
  if (comes == NEVER || !fits(list, rank, -flat->stages[stage].i_drops)) /* a W will make room */
    return;
  if (comes > now)
    options->next = MIN(options->next, comes);
  else if (options->i < 0 || (list->rule->by_arrival && comes < options->i_since)) {
    options->i = stage;
    options->i_since = comes;
  }
}

static void look_at_all(ListScheduler *list, int rank, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  list->n_steps += flat->first_slot[rank + 1] - flat->first_slot[rank];
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++) {
    look_at_f(list, rank, flat->stage_at[slot], now, options);
    look_at_i(list, rank, flat->stage_at[slot], now, options);
  }
}

/* --- the options under a guide --- */

static gboolean is_done(const ListScheduler *list, const Action *action) {
  const StageState *state = &list->stages[action->stage];
  if (action->kind == ACTION_W)
    return !list->rule->follows_w || action->micro_batch < state->n_w;
  return action->micro_batch < (action->kind == ACTION_F ? state->n_f : state->n_i);
}

/* The guide's next action that has not been run ahead of its turn. TRUE if it can run now. */
static gboolean look_at_guide(ListScheduler *list, int rank, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  RankState *own = &list->ranks[rank];
  const Action *end = list->rule->guide->actions + flat_first(flat, rank + 1);
  for (; own->guide < end && is_done(list, own->guide); own->guide++)
    list->n_steps++;
  if (own->guide == end)
    return FALSE;
  gboolean forward = own->guide->kind == ACTION_F;
  int stage = own->guide->stage;
  if (own->guide->kind == ACTION_W) { /* its I comes before it in the guide */
    options->w = stage;
    return TRUE;
  }
  gint64 comes = *place_in(forward ? list->f_comes : list->i_comes, flat, stage, own->guide->micro_batch);
  double adds = !forward                              ? -flat->stages[stage].i_drops
                : list->rule->guidance == GUIDE_LOOSE ? flat->need[stage]
                                                      : flat->stages[stage].f_holds;
  if (!fits(list, rank, adds))
    options->f_lacks_memory = comes <= now;
  else if (comes > now)
    options->next = comes;
  else {
    *(forward ? &options->f : &options->i) = stage;
    return TRUE;
  }
  return FALSE;
}

/* Memory to keep for the rank's chunks after `stage`: what arrives there before their first gradient does, at most an
 * equal share of the memory, less what they already hold. */
static double reserve_of(const ListScheduler *list, int rank, int stage) {
  const FlatProblem *flat = list->flat;
  double share = flat->cap[rank] / (flat->first_slot[rank + 1] - flat->first_slot[rank]), reserve = 0;
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++) {
    const StageState *state = &list->stages[flat->stage_at[slot]];
    double holds = (state->n_f - state->n_i) * flat->stages[flat->stage_at[slot]].f_holds;
    if (flat->stage_at[slot] > stage)
      reserve += MAX(0, MIN(state->ramp_holds, share) - holds);
  }
  return reserve;
}

/* What the rank would hold if it had run every W it can. */
static double held_without_w(const ListScheduler *list, int rank) {
  const FlatProblem *flat = list->flat;
  double held = list->ranks[rank].held;
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++) {
    const StageState *state = &list->stages[flat->stage_at[slot]];
    held -= (state->n_i - state->n_w) * flat->stages[flat->stage_at[slot]].w_drops;
  }
  return held;
}

/* Whether memory allows the next F of `stage` to run ahead of its turn. Sums up the guide until that turn, with one
 * more micro-batch held and each W in its place (or right after its I, if W are placed anew). */
static gboolean has_room_ahead(ListScheduler *list, int rank, int stage) {
  const FlatProblem *flat = list->flat;
  const Action *end = list->rule->guide->actions + flat_first(flat, rank + 1);
  double ahead = flat->stages[stage].f_holds;
  if (flat->cap == NULL)
    return TRUE;
  gboolean keeps = list->rule->guidance == GUIDE_RAMP || list->rule->guidance == GUIDE_RESERVE;
  if (!fits(list, rank, ahead + (keeps ? reserve_of(list, rank, stage) : 0)))
    return FALSE;
  gboolean follows_w = list->rule->follows_w;
  double held = (follows_w ? list->ranks[rank].held : held_without_w(list, rank)) + ahead;
  const Action *from = list->ranks[rank].guide, *action = from;
  gboolean has_room = TRUE;
  for (; action < end && has_room; action++) {
    const StageCost *cost = &flat->stages[action->stage];
    if (is_done(list, action))
      continue;
    if (action->kind == ACTION_F && action->stage == stage)
      break;
    held += action->kind == ACTION_F ? cost->f_holds : action->kind == ACTION_I ? -cost->i_drops : 0;
    has_room = held <= flat->cap[rank];
    held -= action->kind == (follows_w ? ACTION_W : ACTION_I) ? cost->w_drops : 0;
  }
  list->n_steps += (action - from) / GLANCES_PER_STEP;
  return has_room;
}

static gboolean may_go_ahead(ListScheduler *list, int rank, int stage, gint64 now, gint64 until) {
  const FlatProblem *flat = list->flat;
  const StageState *state = &list->stages[stage];
  if (flat->stages[stage].f_ns > until - now || state->n_f == flat->n_micro_batches ||
      *place_in(list->f_comes, flat, stage, state->n_f) > now)
    return FALSE;
  if (list->rule->guidance == GUIDE_LOOSE)
    return TRUE;
  return (list->rule->guidance != GUIDE_RAMP || !list->ranks[rank].has_i) && has_room_ahead(list, rank, stage);
}

/* While the guide waits until `options->next`: considers everything else that ends before that. */
static void look_around_guide(ListScheduler *list, int rank, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  gint64 until = options->next;
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++) {
    int stage = flat->stage_at[slot];
    if (may_go_ahead(list, rank, stage, now, until))
      look_at_f(list, rank, stage, now, options);
    if (flat->stages[stage].i_ns <= until - now)
      look_at_i(list, rank, stage, now, options);
  }
}

/* --- choosing --- */

/* The W to run: among those that end by `limit`, of the oldest micro-batch, and among equals the furthest down the
 * pipe; −1: none. */
static int choose_w(const ListScheduler *list, int rank, gint64 now, gint64 limit) {
  const FlatProblem *flat = list->flat;
  int best = -1;
  for (int slot = flat->first_slot[rank + 1] - 1; slot >= flat->first_slot[rank]; slot--) {
    int stage = flat->stage_at[slot];
    const StageState *state = &list->stages[stage];
    if (state->n_w < state->n_i && flat->stages[stage].w_ns <= limit - now &&
        (best < 0 || state->n_w < list->stages[best].n_w))
      best = stage;
  }
  return best;
}

static Options look(ListScheduler *list, int rank, gint64 now) {
  const ListRule *rule = list->rule;
  Options options = {-1, -1, -1, 0, 0, NEVER, FALSE};
  int first_stage = list->flat->stage_at[list->flat->first_slot[rank]];
  gboolean in_tail = rule->frees_tail && list->stages[first_stage].n_f == list->flat->n_micro_batches;
  list->n_steps++;
  if (rule->guide == NULL || in_tail)
    look_at_all(list, rank, now, &options);
  else if (!look_at_guide(list, rank, now, &options) && rule->guidance != GUIDE_STRICT)
    look_around_guide(list, rank, now, &options);
  return options;
}

/* The F that a rank out of patience runs, although it delays the one whose turn it is; −1: none. */
static int f_to_run_instead(ListScheduler *list, int rank, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  const RankState *own = &list->ranks[rank];
  if (!own->has_i || list->rule->guide == NULL || list->rule->guidance == GUIDE_STRICT || options->next == NEVER ||
      own->idle + options->next - own->now <= own->patience_ns)
    return -1;
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++)
    if (may_go_ahead(list, rank, flat->stage_at[slot], now, NEVER))
      look_at_f(list, rank, flat->stage_at[slot], now, options);
  return options->f;
}

static void decide(ListScheduler *list, int rank) {
  RankState *own = &list->ranks[rank];
  gint64 now = list->wake.at[rank];
  Options options = look(list, rank, now);
  if (options.f >= 0 && (options.i < 0 || list->rule->forward_first)) {
    run_action(list, rank, ACTION_F, options.f);
    return;
  }
  if (options.i >= 0) {
    run_action(list, rank, ACTION_I, options.i);
    return;
  }
  if (options.w >= 0) {
    run_action(list, rank, ACTION_W, options.w);
    return;
  }
  if (own->n_w_pending > 0) {
    gboolean may_wait =
        options.next < NEVER && !options.f_lacks_memory && own->idle + options.next - own->now <= own->patience_ns;
    int stage = choose_w(list, rank, now, may_wait ? options.next : NEVER);
    if (stage >= 0) {
      run_action(list, rank, ACTION_W, stage);
      return;
    }
  }
  int ahead = f_to_run_instead(list, rank, now, &options);
  if (ahead >= 0) {
    run_action(list, rank, ACTION_F, ahead);
    return;
  }
  own->waits = TRUE;
  wake_queue_set(&list->wake, rank, options.next);
}

/* --- a whole pass --- */

/* ramp_holds: while a micro-batch goes from a stage to the last one and back, the rank runs forwards, and that many
 * more arrive before the first gradient. quota: `depth` times the micro-batches that keep the stage busy for that
 * long. */
static void set_stages(ListScheduler *list, double depth) {
  const FlatProblem *flat = list->flat;
  gint64 trip = 0;
  for (int stage = flat->n_stages - 1; stage >= 0; stage--) {
    const StageCost *cost = &flat->stages[stage];
    int rank = flat->rank_of[stage];
    gint64 forwards_ns = 1;
    for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++)
      forwards_ns += flat->stages[flat->stage_at[slot]].f_ns;
    double n_ramp = 1 + floor((double)(trip + cost->i_ns) / (double)forwards_ns);
    trip += cost->f_ns + cost->i_ns;
    double quota = depth > 0 ? floor(depth * (double)trip / (double)list->period_ns + 1 - 1e-6) : G_MAXINT32;
    list->stages[stage] =
        (StageState){.quota = (gint32)CLAMP(quota, 1, G_MAXINT32), .ramp_holds = n_ramp * cost->f_holds};
    trip += 2 * flat->wire_ns[stage];
  }
}

/* The idle time that a step as short as the bound leaves the rank, or a part of it; or more. */
static gint64 patience_of(const ListScheduler *list, const ListRule *rule, int rank) {
  double least = (double)(list->bound_ns - list->flat->work_ns[rank] * list->flat->n_micro_batches);
  double patience = rule->patience < 0 ? (1 + rule->patience) * least : least + rule->patience * (double)list->trip_ns;
  return (gint64)MIN(patience, (double)(G_MAXINT64 / 4));
}

double list_patience_for(const ListScheduler *list, gint64 span_ns) {
  return MAX(0, (double)(span_ns - list->bound_ns) / (double)list->trip_ns);
}

static void start(ListScheduler *list, const ListRule *rule, gint64 limit_ns, FlatOrder *order) {
  const FlatProblem *flat = list->flat;
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches;
  list->rule = rule;
  list->pace_ns = (gint64)(rule->pace * (double)list->period_ns);
  set_stages(list, rule->depth);
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    gsize first = flat_first(flat, rank);
    list->ranks[rank] = (RankState){.first = -1,
                                    .idle_limit = limit_ns - flat->work_ns[rank] * flat->n_micro_batches,
                                    .patience_ns = patience_of(list, rule, rank),
                                    .next = order->actions + first,
                                    .guide = rule->guide ? rule->guide->actions + first : NULL};
  }
  for (gsize i = 0; i < 2 * n; i++)
    list->f_comes[i] = NEVER;
  for (int m = 0; m < flat->n_micro_batches; m++)
    list->f_comes[m] = 0;
  list->n_steps = 0;
  list->is_over_limit = FALSE;
  wake_queue_start(&list->wake);
}

static gboolean sum_up(const ListScheduler *list, FlatOrder *order) {
  const FlatProblem *flat = list->flat;
  gint64 first = NEVER, last = 0;
  order->span_ns = 0;
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    const RankState *own = &list->ranks[rank];
    if (own->next != order->actions + flat_first(flat, rank + 1))
      return FALSE;
    order->span_ns = MAX(order->span_ns, own->now - own->first);
    first = MIN(first, own->first);
    last = MAX(last, own->now);
  }
  order->makespan_ns = last - first;
  order->excess = 0;
  return TRUE;
}

gboolean list_schedule(ListScheduler *list, const ListRule *rule, gint64 limit_ns, FlatOrder *order, gint64 *n_steps) {
  start(list, rule, limit_ns, order);
  for (int rank; list->wake.at[rank = wake_queue_first(&list->wake)] != NEVER && !list->is_over_limit;)
    decide(list, rank);
  *n_steps += list->n_steps;
  return !list->is_over_limit && sum_up(list, order);
}
