/* List scheduling. A rank that is free looks at what it could run now:
 *
 *     I or F   whichever the rule prefers; an F only if it leaves memory for every micro-batch begun to come back
 *     W        where it ends before the next F or I known to come, where memory is short for an F that waits,
 *              or where the rank has idled enough
 *     nothing  until the next F or I comes
 *
 *     rank 0  F F F F . . . I W F I W F          . idles: a W, were there one, would fill it
 *     rank 1    F F F . I . I F W
 *
 * No deadlock. A rank starts an F of chunk k only if, after it, what chunks k + 1 … of that rank need for one more
 * micro-batch is still free (`need`). Suppose all were stuck. No I could run, so no micro-batch is past the last stage;
 * take the most advanced F that waits, of chunk k on some rank. Nothing stands beyond it, so that rank holds chunks
 * ≤ k only; the last F it started was of a chunk < k (of chunk k, its micro-batch would wait further on), and left room
 * for chunk k. So the F could run. */
#include "auto_list.h"
#include <string.h>

static const gint64 NEVER = G_MAXINT64;

/* Per stage: micro-batches pass every action of a stage in order, so a count is a place in a queue. */
typedef struct {
  gint32 n_f, n_i, n_w; /* done */
  gint32 quota;         /* most micro-batches with F done and I not */
} StageState;

typedef struct {
  gint64 now;   /* free from */
  gint64 first; /* −1: nothing yet */
  gint64 idle;  /* since its first start */
  double held;
  int n_w_pending;
  guint8 waits; /* sleeps until `wake`, or until something comes */
  Action *next; /* where its next action is written */
} RankState;

struct ListScheduler {
  const FlatProblem *flat;
  const ListRule *rule;
  StageState *stages; /* [n_stages] */
  RankState *ranks;   /* [n_ranks] */
  gint64 *f_comes;    /* [n_stages · m] when an input is there; NEVER while unknown */
  gint64 *i_comes;
  gint64 *wake; /* [n_leaves] when a rank next decides; NEVER */
  int *winner;  /* [2 · n_leaves] tournament over `wake`: of equals the lower rank */
  int n_leaves;
};

ListScheduler *list_scheduler_new(const FlatProblem *flat) {
  ListScheduler *list = g_new0(ListScheduler, 1);
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches;
  list->flat = flat;
  list->stages = g_new(StageState, flat->n_stages);
  list->ranks = g_new(RankState, flat->n_ranks);
  list->f_comes = g_new(gint64, 2 * n);
  list->i_comes = list->f_comes + n;
  for (list->n_leaves = 1; list->n_leaves < flat->n_ranks;)
    list->n_leaves *= 2;
  list->wake = g_new(gint64, list->n_leaves);
  list->winner = g_new(int, 2 * list->n_leaves);
  return list;
}

void list_scheduler_free(ListScheduler *list) {
  if (list == NULL)
    return;
  g_free(list->stages);
  g_free(list->ranks);
  g_free(list->f_comes);
  g_free(list->wake);
  g_free(list->winner);
  g_free(list);
}

/* --- who decides next --- */

static void set_wake(ListScheduler *list, int rank, gint64 time) {
  list->wake[rank] = time;
  for (int node = (list->n_leaves + rank) / 2; node >= 1; node /= 2) {
    int a = list->winner[2 * node], b = list->winner[2 * node + 1];
    list->winner[node] = list->wake[b] < list->wake[a] ? b : a;
  }
}

static void start_tournament(ListScheduler *list) {
  for (int leaf = 0; leaf < list->n_leaves; leaf++) {
    list->wake[leaf] = leaf < list->flat->n_ranks ? 0 : NEVER;
    list->winner[list->n_leaves + leaf] = leaf;
  }
  for (int node = list->n_leaves - 1; node >= 1; node--)
    list->winner[node] = list->winner[2 * node];
}

/* Something comes to `rank` at `time`: if it sleeps longer, it sleeps no longer. */
static void announce(ListScheduler *list, int rank, gint64 time) {
  if (list->ranks[rank].waits && time < list->wake[rank])
    set_wake(list, rank, time);
}

/* --- running an action --- */

static void run_f(ListScheduler *list, int stage, gint64 end) {
  const FlatProblem *flat = list->flat;
  gsize m = (gsize)flat->n_micro_batches, j = (gsize)list->stages[stage].n_f++;
  list->ranks[flat->rank_of[stage]].held += flat->stages[stage].f_holds;
  if (stage + 1 == flat->n_stages) {
    list->i_comes[(gsize)stage * m + j] = end;
    return;
  }
  gint64 comes = end + flat->wire_ns[stage + 1];
  list->f_comes[(gsize)(stage + 1) * m + j] = comes;
  announce(list, flat->rank_of[stage + 1], comes);
}

static void run_i(ListScheduler *list, int stage, gint64 end) {
  const FlatProblem *flat = list->flat;
  gsize m = (gsize)flat->n_micro_batches, j = (gsize)list->stages[stage].n_i++;
  RankState *rank = &list->ranks[flat->rank_of[stage]];
  rank->held -= flat->stages[stage].i_drops;
  rank->n_w_pending++;
  if (stage == 0)
    return;
  gint64 comes = end + flat->wire_ns[stage];
  list->i_comes[(gsize)(stage - 1) * m + j] = comes;
  announce(list, flat->rank_of[stage - 1], comes);
}

static void run_action(ListScheduler *list, int rank, ActionKind kind, int stage) {
  const StageCost *cost = &list->flat->stages[stage];
  StageState *state = &list->stages[stage];
  RankState *own = &list->ranks[rank];
  gint64 start = list->wake[rank];
  gint32 micro_batch = kind == ACTION_F ? state->n_f : kind == ACTION_I ? state->n_i : state->n_w;
  gint64 end = start + (kind == ACTION_F ? cost->f_ns : kind == ACTION_I ? cost->i_ns : cost->w_ns);
  *own->next++ = (Action){.stage = stage, .micro_batch = micro_batch, .kind = (guint8)kind};
  if (own->first < 0)
    own->first = start;
  else
    own->idle += start - own->now;
  own->now = end;
  own->waits = FALSE;
  if (kind == ACTION_F)
    run_f(list, stage, end);
  else if (kind == ACTION_I)
    run_i(list, stage, end);
  else {
    state->n_w++;
    own->n_w_pending--;
    own->held -= cost->w_drops;
  }
  set_wake(list, rank, end);
}

/* --- choosing --- */

/* What a rank could run: of F and of I the best that is there, and when the next one comes. */
typedef struct {
  int f, i; /* stages; −1: none now */
  gint64 f_since, i_since;
  gint64 next; /* the earliest F or I known to come later */
  gboolean f_lacks_memory;
} Options;

static void look_at_f(const ListScheduler *list, int rank, int stage, gint64 now, Options *options) {
  const FlatProblem *flat = list->flat;
  const StageState *state = &list->stages[stage];
  if (state->n_f == flat->n_micro_batches || state->n_f - state->n_i >= state->quota)
    return;
  gint64 comes = list->f_comes[(gsize)stage * (gsize)flat->n_micro_batches + (gsize)state->n_f];
  if (comes == NEVER)
    return;
  if (flat->cap && list->ranks[rank].held + flat->need[stage] > flat->cap[rank]) {
    options->f_lacks_memory = options->f_lacks_memory || comes <= now;
    return;
  }
  if (comes > now)
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
  gint64 comes = list->i_comes[(gsize)stage * (gsize)flat->n_micro_batches + (gsize)state->n_i];
  if (comes == NEVER)
    return;
  if (flat->cap && list->ranks[rank].held - flat->stages[stage].i_drops > flat->cap[rank])
    return; /* a W gives room */
  if (comes > now)
    options->next = MIN(options->next, comes);
  else if (options->i < 0 || (list->rule->by_arrival && comes < options->i_since)) {
    options->i = stage;
    options->i_since = comes;
  }
}

/* The W to run: the first in the order of the pipe's end that is done by `limit`; −1: none is. */
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

static void decide(ListScheduler *list, int rank) {
  const FlatProblem *flat = list->flat;
  const ListRule *rule = list->rule;
  RankState *own = &list->ranks[rank];
  gint64 now = list->wake[rank];
  Options options = {-1, -1, 0, 0, NEVER, FALSE};
  for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++) {
    look_at_f(list, rank, flat->stage_at[slot], now, &options);
    look_at_i(list, rank, flat->stage_at[slot], now, &options);
  }
  if (options.f >= 0 && (options.i < 0 || rule->forward_first)) {
    run_action(list, rank, ACTION_F, options.f);
    if (options.f == 0 && rule->pace_ns > 0 && list->stages[0].n_f < flat->n_micro_batches)
      list->f_comes[list->stages[0].n_f] = now + rule->pace_ns;
    return;
  }
  if (options.i >= 0) {
    run_action(list, rank, ACTION_I, options.i);
    return;
  }
  if (own->n_w_pending > 0) {
    gboolean may_wait =
        options.next < NEVER && !options.f_lacks_memory && own->idle + options.next - own->now <= rule->idle_budget_ns;
    int stage = choose_w(list, rank, now, may_wait ? options.next : NEVER);
    if (stage >= 0) {
      run_action(list, rank, ACTION_W, stage);
      return;
    }
  }
  own->waits = TRUE;
  set_wake(list, rank, options.next);
}

/* --- a whole pass --- */

/* Least number of micro-batches that keep a stage busy: its round trip to the last stage and back, in periods of the
 * busiest rank. */
static void set_quotas(ListScheduler *list, double depth) {
  const FlatProblem *flat = list->flat;
  gint64 period = 1, trip = 0;
  for (int rank = 0; rank < flat->n_ranks; rank++)
    period = MAX(period, flat->work_ns[rank]);
  for (int stage = flat->n_stages - 1; stage >= 0; stage--) {
    trip += flat->stages[stage].f_ns + flat->stages[stage].i_ns;
    double quota = depth > 0 ? depth * (double)trip / (double)period + 1 - 1e-6 : G_MAXINT32;
    list->stages[stage].quota = (gint32)CLAMP(quota, 1, G_MAXINT32);
    trip += 2 * flat->wire_ns[stage];
  }
}

static void start(ListScheduler *list, const ListRule *rule, FlatOrder *order) {
  const FlatProblem *flat = list->flat;
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches;
  list->rule = rule;
  memset(list->stages, 0, sizeof(StageState) * (gsize)flat->n_stages);
  set_quotas(list, rule->depth);
  for (int rank = 0; rank < flat->n_ranks; rank++)
    list->ranks[rank] = (RankState){.first = -1, .next = order->actions + flat_first(flat, rank)};
  for (gsize i = 0; i < 2 * n; i++)
    list->f_comes[i] = NEVER;
  for (int m = 0; m < flat->n_micro_batches; m++)
    list->f_comes[m] = 0;
  start_tournament(list);
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

gboolean list_schedule(ListScheduler *list, const ListRule *rule, FlatOrder *order) {
  start(list, rule, order);
  while (list->wake[list->winner[1]] != NEVER)
    decide(list, list->winner[1]);
  return sum_up(list, order);
}
