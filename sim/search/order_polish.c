/* There is a reason for a rank's length: its last action starts when it does because of the action before it on its
 * rank, or because of its input, which arrived when it did because of … back to the start. Along this chain, from the
 * end:
 *
 *     a W that the chain waits for         moves behind the chain's actions on that rank, or later into a gap, or
 *                                          earlier into a gap it nearly fits
 *     an F or I that the chain waits for   is swapped with the next action, if that could run earlier
 *
 *     rank 0  … I . . . I                          … I I
 *     rank 1  … I W I            W deferred:       … I I W
 *
 * The gaps on the rank of the chain's last action are filled, too: with a W from the rank's end, or with a later F or
 * I that could run there.
 *
 * A move is kept if the order gets shorter, or if it stays equal and the sum of the ranks' spans gets shorter; a
 * deferred W is kept even if nothing changes, since often several of them hold up the same chain. No move may exceed
 * the cap. No move can make ranks wait for each other in a cycle: an action moved earlier already had its input. */
#include "order_polish.h"
#include "order_timeline.h"

enum { SCAN = 48, MOST_GAPS = 3, LOOKS_PER_STEP = 3 };

struct OrderPolish {
  OrderTimeline line;
  gint64 total; /* sum of all ranks' spans */
};

OrderPolish *order_polish_new(const FlatProblem *flat) {
  OrderPolish *polish = g_new0(OrderPolish, 1);
  order_timeline_init(&polish->line, flat);
  return polish;
}

void order_polish_free(OrderPolish *polish) {
  if (polish == NULL)
    return;
  order_timeline_clear(&polish->line);
  g_free(polish);
}

/* --- moves --- */

/* Whether the rank's memory stays within the cap between two places. */
static gboolean fits(OrderTimeline *line, gint32 from, gint32 until) {
  int rank = rank_at(line, from);
  const FlatProblem *flat = line->flat;
  if (flat->cap == NULL)
    return TRUE;
  double held = 0;
  for (gint32 at = first_of(line, rank); at <= until; at++) {
    const Action *action = action_at(line, at);
    const StageCost *cost = &flat->stages[action->stage];
    held += action->kind == ACTION_F ? cost->f_holds : action->kind == ACTION_I ? -cost->i_drops : 0;
    if (at >= from && held > flat->cap[rank])
      return FALSE;
    held -= action->kind == ACTION_W ? cost->w_drops : 0;
  }
  line->n_looks += (until - first_of(line, rank)) / 4;
  return TRUE;
}

/* Whether to keep the order in its current state, by its objective and the sum of spans. */
static gboolean is_worth_it(OrderPolish *polish, gboolean may_tie) {
  OrderTimeline *line = &polish->line;
  gint64 total;
  order_timeline_sum_up(line, &total);
  gint64 objective = flat_objective(line->flat, line->order);
  if (objective > line->objective ||
      (objective == line->objective && (may_tie ? total > polish->total : total >= polish->total)))
    return FALSE;
  polish->total = total;
  return TRUE;
}

/* TRUE if the move was kept. */
static gboolean try_move(OrderPolish *polish, gint32 from, gint32 to, gboolean may_tie) {
  OrderTimeline *line = &polish->line;
  gint32 low = MIN(from, to), high = MAX(from, to);
  gint64 span = line->order->span_ns, makespan = line->order->makespan_ns;
  line->n_looks += high - low + line->flat->n_ranks;
  order_timeline_shift(line, from, to);
  if (fits(line, low, high)) {
    if (order_timeline_update(line, low, high) && is_worth_it(polish, may_tie)) {
      order_timeline_settle(line);
      return TRUE;
    }
    order_timeline_undo(line);
  }
  order_timeline_shift(line, to, from);
  line->order->span_ns = span;
  line->order->makespan_ns = makespan;
  return FALSE;
}

/* --- choosing moves --- */

/* The first action after `after`, within the scan limit, of this kind and stage; NOWHERE. */
static gint32 next_of(OrderTimeline *line, gint32 after, ActionKind kind, int stage) {
  gint32 end = MIN(first_of(line, rank_at(line, after) + 1), after + SCAN);
  for (gint32 at = after + 1; at < end; at++)
    if (action_at(line, at)->kind == kind && action_at(line, at)->stage == stage)
      return at;
  return NOWHERE;
}

/* The last W of a stage before `end`, provided that from `gap` on each W of the stage can move up to the previous
 * one's place; NOWHERE. */
static gint32 last_w_to_spare(OrderTimeline *line, gint32 gap, gint32 end, int stage) {
  gint32 place = gap, found = NOWHERE;
  for (gint32 at = gap; at < end; at++) {
    const Action *action = action_at(line, at);
    if (action->kind != ACTION_W || action->stage != stage)
      continue;
    if (*timeline_place(line, ACTION_I, stage, action->micro_batch) >= place)
      return NOWHERE;
    place = found = at;
  }
  line->n_looks += (end - gap) / 4;
  return found;
}

/* A W has moved: renumbers the W's of its stage in between, so that micro-batches are in order again. */
static void rename_w(OrderTimeline *line, gint32 from, gint32 to) {
  Action *actions = line->order->actions;
  gint32 moved = actions[to].micro_batch;
  for (gint32 n = 0; n <= ABS(to - from); n++) {
    Action *action = &actions[from < to ? from + n : from - n];
    if (action->kind != ACTION_W || action->stage != actions[to].stage)
      continue;
    gint32 own = action->micro_batch;
    action->micro_batch = moved;
    moved = own;
  }
}

static gboolean move_w(OrderPolish *polish, gint32 from, gint32 to, gboolean may_tie) {
  if (!try_move(polish, from, to, may_tie))
    return FALSE;
  rename_w(&polish->line, from, to);
  return TRUE;
}

/* Whether a W put into the gap before `gap` would delay the action there enough to lengthen the step through other
 * ranks. */
static gboolean delays_others(OrderTimeline *line, gint32 gap, gint64 w_ns) {
  const Action *action = action_at(line, gap);
  gint32 consumer = consumer_of(line, action);
  gint64 end = line->end[gap - 1] + w_ns + duration_at(line, gap);
  line->n_looks++;
  return consumer != NOWHERE && end > line->end[gap] && end + wire_after(line, action) > line->latest[consumer];
}

/* Moves the last W of a stage before `end` into the gap before `gap`; TRUE if that was kept. */
static gboolean bring_w(OrderPolish *polish, gint32 gap, gint32 end, int stage) {
  OrderTimeline *line = &polish->line;
  if (delays_others(line, gap, line->flat->stages[stage].w_ns))
    return FALSE;
  gint32 from = last_w_to_spare(line, gap, end, stage);
  return from != NOWHERE && move_w(polish, from, gap, FALSE);
}

/* Fills the gap before `at` with a W from the end, or with a later action that could run there. */
static gboolean fill_gap(OrderPolish *polish, gint32 at) {
  OrderTimeline *line = &polish->line;
  const FlatProblem *flat = line->flat;
  int rank = rank_at(line, at), first_slot = flat->first_slot[rank], n_slots = flat->first_slot[rank + 1] - first_slot;
  gint64 end_of_gap = start_at(line, at);
  for (int slot = first_slot; slot < first_slot + n_slots; slot++)
    if (bring_w(polish, at, first_of(line, rank + 1), flat->stage_at[slot]))
      return TRUE;
  for (int n = 0; n < 2 * n_slots; n++) {
    gint32 from = next_of(line, at, n < n_slots ? ACTION_F : ACTION_I, flat->stage_at[first_slot + n % n_slots]);
    if (from != NOWHERE && input_of(line, action_at(line, from)) < end_of_gap && try_move(polish, from, at, FALSE))
      return TRUE;
  }
  return FALSE;
}

/* The W at `at` delays the chain up to `until`: moves it behind that, into the next large enough gap, or to the
 * end. */
static gboolean put_w_off(OrderPolish *polish, gint32 at, gint32 until) {
  OrderTimeline *line = &polish->line;
  gint32 end_of_list = first_of(line, rank_at(line, at) + 1), gap = until + 1;
  gint64 w_ns = duration_at(line, at);
  while (gap < end_of_list && start_at(line, gap) - line->end[gap - 1] < w_ns)
    gap++;
  line->n_looks += gap - until;
  return (gap - 1 > until && move_w(polish, at, gap - 1, TRUE)) || move_w(polish, at, until, TRUE) ||
         (gap < end_of_list && move_w(polish, at, end_of_list - 1, TRUE));
}

/* The W at `at` delays the chain: moves it into an earlier gap, even one that is slightly too short. */
static gboolean bring_w_forward(OrderPolish *polish, gint32 at) {
  OrderTimeline *line = &polish->line;
  gint32 first = MAX(first_of(line, rank_at(line, at)), at - SCAN), n_tried = 0;
  for (gint32 gap = at - 1; gap > first && n_tried < MOST_GAPS; gap--) {
    line->n_looks++;
    if (start_at(line, gap) == line->end[gap - 1])
      continue;
    n_tried++;
    if (bring_w(polish, gap, at + 1, action_at(line, at)->stage))
      return TRUE;
  }
  return FALSE;
}

/* Swaps two F or I, if only the first holds up the second. */
static gboolean change_places(OrderPolish *polish, gint32 at) {
  OrderTimeline *line = &polish->line;
  const Action *a = action_at(line, at), *b = action_at(line, at + 1);
  if (b->kind == ACTION_W || (a->stage == b->stage && (a->kind == b->kind || a->micro_batch == b->micro_batch)) ||
      input_of(line, b) >= start_at(line, at + 1))
    return FALSE;
  return try_move(polish, at + 1, at, FALSE);
}

/* The action at `at` holds up the next one, from which the chain continues on this rank up to `until`. */
static gboolean let_by(OrderPolish *polish, gint32 at, gint32 until) {
  if (action_at(&polish->line, at)->kind == ACTION_W)
    return put_w_off(polish, at, until) || bring_w_forward(polish, at);
  return change_places(polish, at);
}

/* Follows the chain that determines the step's length, from the end back; only moves actions that start by *until_ns.
 * TRUE if a move was kept; its time is in *until_ns. */
static gboolean walk_chain(OrderPolish *polish, gint64 *until_ns) {
  OrderTimeline *line = &polish->line;
  gint64 total;
  int longest = order_timeline_sum_up(line, &total);
  const gint32 last = first_of(line, longest + 1) - 1; /* swaps within the final stretch of the chain gain nothing */
  gint32 at = last, until = last;
  while (line->n_looks < line->most_looks) {
    const Action *action = action_at(line, at);
    const gint64 start = start_at(line, at);
    const gint32 source = source_of(line, action);
    line->n_looks++;
    if (source != NOWHERE && input_of(line, action) == start) {
      until = rank_at(line, source) == rank_at(line, at) ? until : source;
      at = source;
      continue;
    }
    if (at == first_of(line, rank_at(line, at)))
      return FALSE;
    at--;
    if (start <= *until_ns && until != last && let_by(polish, at, until)) {
      *until_ns = start;
      return TRUE;
    }
  }
  return FALSE;
}

/* Visits the gaps of the rank that determines the step's length, from *until_ns back; TRUE if a move was kept. */
static gboolean walk_gaps(OrderPolish *polish, gint64 *until_ns) {
  OrderTimeline *line = &polish->line;
  gint64 total;
  int longest = order_timeline_sum_up(line, &total);
  for (gint32 at = first_of(line, longest + 1) - 1; at > first_of(line, longest) && line->n_looks < line->most_looks;
       at--) {
    const gint64 start = start_at(line, at);
    line->n_looks++;
    if (start > *until_ns || start == line->end[at - 1] || !fill_gap(polish, at))
      continue;
    *until_ns = start;
    return TRUE;
  }
  return FALSE;
}

/* --- the whole --- */

gboolean order_polish_run(OrderPolish *polish, FlatTimer *timer, gint64 bound_ns, gint64 most_steps, FlatOrder *order,
                          gint64 *n_steps) {
  OrderTimeline *line = &polish->line;
  gboolean has_changed = FALSE, moved = order_timeline_take_up(line, timer, order, most_steps * LOOKS_PER_STEP);
  if (moved)
    order_timeline_sum_up(line, &polish->total);
  while (moved) {
    gint64 chain_until_ns = G_MAXINT64, gaps_until_ns = G_MAXINT64;
    moved = FALSE;
    while (line->objective > bound_ns && (walk_chain(polish, &chain_until_ns) || walk_gaps(polish, &gaps_until_ns)))
      moved = has_changed = TRUE;
  }
  *n_steps += line->n_looks / LOOKS_PER_STEP;
  return has_changed;
}
