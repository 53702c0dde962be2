/* Each action's time follows from the previous action on its rank and from its input. After a move, the rank is
 * updated from the first action touched to where nothing changes; an action whose end changes touches the rank that
 * waits for it. Changes are logged so that they can be undone.
 *
 * Most moves make an order longer, and this shows early: an action that starts later than `latest`
 *
 *     latest start = min(latest start of the next on its rank, latest start of what takes its result − send) − duration
 *
 * makes the whole order longer. `latest` belongs to the order before the move, so it does not apply to the shifted
 * actions themselves. */
#include "order_timeline.h"
#include <string.h>

void order_timeline_init(OrderTimeline *line, const FlatProblem *flat) {
  gsize n = (gsize)flat->n_stages * (gsize)flat->n_micro_batches, n_ranks = (gsize)flat->n_ranks;
  *line = (OrderTimeline){.flat = flat,
                          .end = g_new(gint64, 6 * n),
                          .f_at = g_new(gint32, 2 * n),
                          .touched = g_new(gint32, 2 * n_ranks),
                          .at = g_new(gint32, n_ranks),
                          .queue = g_new(int, n_ranks),
                          .log = g_array_new(FALSE, FALSE, sizeof(TimeChange))};
  line->latest = line->end + 3 * n;
  line->i_at = line->f_at + n;
  line->last = line->touched + n_ranks;
}

void order_timeline_clear(OrderTimeline *line) {
  g_free(line->end);
  g_free(line->f_at);
  g_free(line->touched);
  g_free(line->at);
  g_free(line->queue);
  g_clear_pointer(&line->log, g_array_unref);
  *line = (OrderTimeline){0};
}

/* --- times --- */

static void touch(OrderTimeline *line, int rank, gint32 at) {
  if (line->touched[rank] == NOWHERE) {
    line->queue[(line->queue_first + line->n_queued++) % line->flat->n_ranks] = rank;
    line->touched[rank] = line->last[rank] = at;
    return;
  }
  line->touched[rank] = MIN(line->touched[rank], at);
  line->last[rank] = MAX(line->last[rank], at);
}

static void update_rank(OrderTimeline *line, int rank) {
  const gint32 last = line->last[rank], end_of_list = first_of(line, rank + 1);
  gint32 at = line->touched[rank];
  gint64 now = at > first_of(line, rank) ? line->end[at - 1] : 0;
  line->touched[rank] = NOWHERE;
  for (; at < end_of_list; at++) {
    const Action *action = action_at(line, at);
    gint64 start = MAX(now, input_of(line, action));
    line->n_looks++;
    now = start + duration_at(line, at);
    if (now == line->end[at]) {
      if (at >= last)
        return;
      continue;
    }
    if (start > line->latest[at] && (at < line->low || at > line->high)) {
      line->is_hopeless = TRUE;
      return;
    }
    TimeChange change = {at, line->end[at]};
    g_array_append_val(line->log, change);
    line->end[at] = now;
    gint32 consumer = consumer_of(line, action);
    if (consumer != NOWHERE && rank_at(line, consumer) != rank) /* on this rank it also waits for those between */
      touch(line, rank_at(line, consumer), consumer);
  }
}

gboolean order_timeline_update(OrderTimeline *line, gint32 low, gint32 high) {
  const int own = rank_at(line, low);
  g_array_set_size(line->log, 0);
  line->low = low;
  line->high = high;
  line->is_hopeless = FALSE;
  touch(line, own, low);
  touch(line, own, MIN(high + 1, first_of(line, own + 1) - 1));
  while (line->n_queued > 0 && !line->is_hopeless && line->n_looks < line->most_looks) {
    int rank = line->queue[line->queue_first];
    line->queue_first = (line->queue_first + 1) % line->flat->n_ranks;
    line->n_queued--;
    update_rank(line, rank);
  }
  gboolean is_complete = line->n_queued == 0 && !line->is_hopeless;
  for (; line->n_queued > 0; line->n_queued--) {
    line->touched[line->queue[line->queue_first]] = NOWHERE;
    line->queue_first = (line->queue_first + 1) % line->flat->n_ranks;
  }
  return is_complete;
}

void order_timeline_undo(OrderTimeline *line) {
  for (guint i = line->log->len; i > 0; i--) {
    const TimeChange *change = &g_array_index(line->log, TimeChange, i - 1);
    line->end[change->at] = change->end;
  }
}

void order_timeline_shift(OrderTimeline *line, gint32 from, gint32 to) {
  Action *actions = line->order->actions, moved = actions[from];
  gint64 *end = line->end, moved_end = end[from];
  gint32 source = from < to ? from + 1 : to, target = from < to ? from : to + 1;
  gsize n = (gsize)ABS(to - from);
  memmove(&actions[target], &actions[source], sizeof(Action) * n);
  memmove(&end[target], &end[source], sizeof(gint64) * n);
  actions[to] = moved;
  end[to] = moved_end;
  for (gint32 at = MIN(from, to); at <= MAX(from, to); at++)
    if (actions[at].kind != ACTION_W)
      *timeline_place(line, actions[at].kind, actions[at].stage, actions[at].micro_batch) = at;
}

static gint64 span_of(const OrderTimeline *line, int rank) {
  return line->end[first_of(line, rank + 1) - 1] - start_at(line, first_of(line, rank));
}

int order_timeline_sum_up(OrderTimeline *line, gint64 *total) {
  const FlatProblem *flat = line->flat;
  FlatOrder *order = line->order;
  gint64 first = G_MAXINT64, last = G_MININT64;
  int longest = 0, latest = 0;
  order->span_ns = -1;
  *total = 0;
  for (int rank = 0; rank < flat->n_ranks; rank++) {
    gint64 span = span_of(line, rank), end = line->end[first_of(line, rank + 1) - 1];
    *total += span;
    longest = span > order->span_ns ? rank : longest;
    latest = end > last ? rank : latest;
    order->span_ns = MAX(order->span_ns, span);
    first = MIN(first, end - span);
    last = MAX(last, end);
  }
  order->makespan_ns = last - first;
  return flat->by_makespan ? latest : longest;
}

/* --- latest starts --- */

/* Works back from a rank's last action as far as the users of its results are known. Returns `n_ready`, increased by
 * the ranks that can continue. */
static int settle_rank(OrderTimeline *line, int rank, int n_ready) {
  gint32 first = first_of(line, rank), at = line->at[rank];
  gint64 end = line->flat->by_makespan ? line->objective : start_at(line, first) + line->objective;
  if (at + 1 < first_of(line, rank + 1))
    end = line->latest[at + 1];
  for (; at >= first; at--) {
    const Action *action = action_at(line, at);
    gint32 consumer = consumer_of(line, action), source = source_of(line, action);
    if (consumer != NOWHERE) {
      int to = rank_at(line, consumer);
      if (to != rank && line->at[to] >= consumer)
        break;
      end = MIN(end, line->latest[consumer] - wire_after(line, action));
    }
    end -= duration_at(line, at);
    line->latest[at] = end;
    int from = source != NOWHERE ? rank_at(line, source) : rank;
    if (from != rank && line->at[from] == source)
      line->queue[n_ready++] = from;
  }
  line->at[rank] = at;
  return n_ready;
}

/* Every rank starts at its last action, a W, and is resumed when what it then waits for is known. */
void order_timeline_settle(OrderTimeline *line) {
  int n_ready = 0;
  line->objective = flat_objective(line->flat, line->order);
  for (int rank = 0; rank < line->flat->n_ranks; rank++) {
    line->at[rank] = first_of(line, rank + 1) - 1;
    line->queue[n_ready++] = rank;
  }
  while (n_ready > 0) {
    int rank = line->queue[n_ready - 1];
    n_ready = settle_rank(line, rank, n_ready - 1);
  }
  line->n_looks += 2 * first_of(line, line->flat->n_ranks);
}

gboolean order_timeline_take_up(OrderTimeline *line, FlatTimer *timer, FlatOrder *order, gint64 most_looks) {
  gint32 n = (gint32)flat_first(line->flat, line->flat->n_ranks);
  line->order = order;
  if (!flat_order_time(line->flat, timer, order))
    return FALSE;
  for (gint32 at = 0; at < n; at++) {
    const Action *action = action_at(line, at);
    gsize place = (gsize)action->stage * (gsize)line->flat->n_micro_batches + (gsize)action->micro_batch;
    if (action->kind == ACTION_W)
      line->end[at] = line->end[at - 1] + duration_at(line, at); /* its I is earlier in the list */
    else {
      *timeline_place(line, action->kind, action->stage, action->micro_batch) = at;
      line->end[at] = (action->kind == ACTION_F ? timer->f_end : timer->i_end)[place];
    }
  }
  for (int rank = 0; rank < line->flat->n_ranks; rank++)
    line->touched[rank] = NOWHERE;
  line->queue_first = line->n_queued = 0;
  line->n_looks = n;
  order_timeline_settle(line);
  line->most_looks = line->n_looks + most_looks;
  return TRUE;
}
