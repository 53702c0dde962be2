/* Times flat orders: like order_cost.c, but without checks, which lists of F, I and W made here do not need. */
#include "order_search.h"

enum { NOBODY = -1 };
static const gint64 NOT_YET = -1;

void flat_timer_init(FlatTimer *timer, const FlatProblem *flat) {
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches, n_ranks = (gsize)flat->n_ranks;
  *timer = (FlatTimer){.f_end = g_new(gint64, 2 * n), .now = g_new(gint64, 3 * n_ranks)};
  timer->i_end = timer->f_end + n;
  timer->missing = timer->now + n_ranks;
  timer->first = timer->missing + n_ranks;
  timer->at = g_new(gsize, n_ranks);
  timer->ready = g_new(int, n_ranks);
}

void flat_timer_clear(FlatTimer *timer) {
  g_free(timer->f_end);
  g_free(timer->now);
  g_free(timer->at);
  g_free(timer->ready);
  *timer = (FlatTimer){0};
}

/* Runs one rank as far as its inputs allow. Returns `n_ready`, increased by the ranks it wakes. */
static int run_rank(const FlatProblem *flat, FlatTimer *timer, const FlatOrder *order, int rank, gint64 *first,
                    int n_ready) {
  gint64 n = (gint64)flat->n_stages * flat->n_micro_batches, m = flat->n_micro_batches;
  gsize end_of_list = flat_first(flat, rank + 1), at = timer->at[rank];
  gint64 now = timer->now[rank];
  for (; at < end_of_list; at++) {
    const Action *action = &order->actions[at];
    const StageCost *cost = &flat->stages[action->stage];
    if (action->kind == ACTION_W) {
      now += cost->w_ns;
      continue;
    }
    gboolean forward = action->kind == ACTION_F;
    int stage = action->stage;
    gint64 place = stage * m + action->micro_batch, input = 0;
    gboolean at_end = stage == (forward ? 0 : flat->n_stages - 1);
    gint64 source = at_end ? (forward ? -1 : place) : forward ? place - m : n + place + m;
    if (source >= 0) {
      input = timer->f_end[source];
      if (input == NOT_YET) {
        timer->missing[rank] = source;
        break;
      }
      input += at_end ? 0 : flat->wire_ns[forward ? stage : stage + 1];
    }
    now = MAX(now, input);
    if (*first == NOT_YET)
      *first = now;
    now += forward ? cost->f_ns : cost->i_ns;
    gint64 result = forward ? place : n + place;
    timer->f_end[result] = now;
    int to = forward ? stage + 1 : stage - 1;
    if (to >= 0 && to < flat->n_stages && timer->missing[flat->rank_of[to]] == result) {
      timer->missing[flat->rank_of[to]] = NOBODY;
      timer->ready[n_ready++] = flat->rank_of[to];
    }
  }
  timer->at[rank] = at;
  timer->now[rank] = now;
  return n_ready;
}

double flat_order_peak(const FlatProblem *flat, const FlatOrder *order, int rank) {
  double held = 0, peak = 0;
  for (gsize at = flat_first(flat, rank); at < flat_first(flat, rank + 1); at++) {
    const StageCost *cost = &flat->stages[order->actions[at].stage];
    held += order->actions[at].kind == ACTION_F ? cost->f_holds : 0;
    held -= order->actions[at].kind == ACTION_I ? cost->i_drops : 0;
    peak = MAX(peak, held);
    held -= order->actions[at].kind == ACTION_W ? cost->w_drops : 0;
  }
  return peak;
}

gboolean flat_order_time(const FlatProblem *flat, FlatTimer *timer, FlatOrder *order) {
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches;
  gint64 *first = timer->first;
  for (gsize i = 0; i < 2 * n; i++)
    timer->f_end[i] = NOT_YET;
  int n_ready = 0;
  for (int rank = flat->n_ranks - 1; rank >= 0; rank--) {
    timer->at[rank] = flat_first(flat, rank);
    timer->now[rank] = 0;
    timer->missing[rank] = first[rank] = NOT_YET;
    timer->ready[n_ready++] = rank;
  }
  while (n_ready > 0) {
    int rank = timer->ready[n_ready - 1];
    n_ready = run_rank(flat, timer, order, rank, &first[rank], n_ready - 1);
  }
  gint64 earliest = G_MAXINT64, last = 0;
  order->span_ns = 0;
  order->excess = 0;
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    if (timer->at[rank] < flat_first(flat, rank + 1))
      return FALSE;
    order->span_ns = MAX(order->span_ns, timer->now[rank] - first[rank]);
    earliest = MIN(earliest, first[rank]);
    last = MAX(last, timer->now[rank]);
    if (flat->cap)
      order->excess = MAX(order->excess, flat_order_peak(flat, order, rank) - flat->cap[rank]);
  }
  order->makespan_ns = last - earliest;
  return TRUE;
}

/* Appends an action of a rank; `passed` counts earlier ones per stage and kind. */
static Action *add_renumbered(Action *out, gint32 (*passed)[ACTION_W + 1], int stage, ActionKind kind) {
  *out = (Action){.stage = stage, .micro_batch = passed[stage][kind]++, .kind = (guint8)kind};
  return out + 1;
}

void flat_order_of(const FlatProblem *flat, const Order *order, FlatOrder *into) {
  g_autofree gint32(*passed)[ACTION_W + 1] = g_malloc0(sizeof *passed * (gsize)flat->n_stages);
  Action *out = into->actions;
  for (int rank = 0; rank < flat->n_ranks; rank++)
    for (guint at = 0; at < order->actions[rank]->len; at++) {
      const Action *action = &g_array_index(order->actions[rank], Action, at);
      if (action->kind == ACTION_B) {
        out = add_renumbered(out, passed, action->stage, ACTION_I);
        out = add_renumbered(out, passed, action->stage, ACTION_W);
      } else if (action_info(action->kind)->is_compute)
        out = add_renumbered(out, passed, action->stage, action->kind);
    }
}

void flat_order_in_sequence(const FlatProblem *flat, FlatOrder *order) {
  Action *out = order->actions;
  for (int rank = 0; rank < flat->n_ranks; rank++)
    for (int m = 0; m < flat->n_micro_batches; m++) {
      for (int slot = flat->first_slot[rank]; slot < flat->first_slot[rank + 1]; slot++)
        *out++ = (Action){flat->stage_at[slot], m, ACTION_F, FALSE};
      for (int slot = flat->first_slot[rank + 1] - 1; slot >= flat->first_slot[rank]; slot--) {
        *out++ = (Action){flat->stage_at[slot], m, ACTION_I, FALSE};
        *out++ = (Action){flat->stage_at[slot], m, ACTION_W, FALSE};
      }
    }
}
