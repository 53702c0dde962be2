/* Private to order_polish: an order with the times of all its actions, kept current while single actions move. */
#pragma once
#include "order_search.h"

enum { NOWHERE = -1 };

/* An action's end before a move. */
typedef struct {
  gint32 at;
  gint64 end;
} TimeChange;

/* Places are indices into the order's actions. */
typedef struct {
  const FlatProblem *flat;
  FlatOrder *order;           /* borrowed; its span_ns and makespan_ns are kept current */
  gint64 *end, *latest;       /* [actions] end, and latest start that does not lengthen the order; one block; owned */
  gint32 *f_at, *i_at;        /* [n_stages · m] place of each F and I; one block; owned */
  gint64 objective;           /* of the order for which `latest` was computed */
  gint64 n_looks, most_looks; /* actions looked at so far, and their limit */
  /* While times are updated: */
  gint32 *touched, *last; /* [n_ranks] first and last action to update; one block; NOWHERE: none; owned */
  gint32 *at;             /* [n_ranks] position of a rank while `latest` is computed; owned */
  int *queue;             /* [n_ranks] ranks to update, a ring; owned */
  int queue_first, n_queued;
  gint32 low, high;     /* range of the current move */
  gboolean is_hopeless; /* the order got longer */
  GArray *log;          /* of TimeChange, oldest first; owned */
} OrderTimeline;

void order_timeline_init(OrderTimeline *line, const FlatProblem *flat);
void order_timeline_clear(OrderTimeline *line);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(OrderTimeline, order_timeline_clear)

/* Takes up an order to be changed; FALSE if it cannot run to its end. */
gboolean order_timeline_take_up(OrderTimeline *line, FlatTimer *timer, FlatOrder *order, gint64 most_looks);
/* Moves the action at `from` to `to`, on the same rank, and shifts those between; each keeps its end. */
void order_timeline_shift(OrderTimeline *line, gint32 from, gint32 to);
/* Updates times after a shift within `low` … `high`, on one rank. FALSE if the order gets longer or the looks run
 * out: then call order_timeline_undo() and shift back. */
gboolean order_timeline_update(OrderTimeline *line, gint32 low, gint32 high);
void order_timeline_undo(OrderTimeline *line);
/* Recomputes `latest` for the current order. */
void order_timeline_settle(OrderTimeline *line);
/* Fills in the order's lengths; *total is the sum of all ranks' spans. Returns the rank that determines the
 * objective. */
int order_timeline_sum_up(OrderTimeline *line, gint64 *total);

/* --- places --- */

static inline const Action *action_at(const OrderTimeline *line, gint32 at) {
  return &line->order->actions[at];
}
static inline int rank_at(const OrderTimeline *line, gint32 at) {
  return line->flat->rank_of[action_at(line, at)->stage];
}
static inline gint32 first_of(const OrderTimeline *line, int rank) {
  return (gint32)flat_first(line->flat, rank);
}
static inline gint64 duration_at(const OrderTimeline *line, gint32 at) {
  const Action *action = action_at(line, at);
  const StageCost *cost = &line->flat->stages[action->stage];
  return action->kind == ACTION_F ? cost->f_ns : action->kind == ACTION_I ? cost->i_ns : cost->w_ns;
}
static inline gint64 start_at(const OrderTimeline *line, gint32 at) {
  return line->end[at] - duration_at(line, at);
}
/* The place of the F or I of a stage and micro-batch. */
static inline gint32 *timeline_place(const OrderTimeline *line, ActionKind kind, int stage, int micro_batch) {
  return &(kind == ACTION_F ? line->f_at : line->i_at)[stage * line->flat->n_micro_batches + micro_batch];
}

/* The place of the action whose result this one takes; NOWHERE. */
static inline gint32 source_of(const OrderTimeline *line, const Action *action) {
  if (action->kind == ACTION_W || (action->kind == ACTION_F && action->stage == 0))
    return NOWHERE;
  if (action->kind == ACTION_F)
    return *timeline_place(line, ACTION_F, action->stage - 1, action->micro_batch);
  if (action->stage + 1 == line->flat->n_stages)
    return *timeline_place(line, ACTION_F, action->stage, action->micro_batch);
  return *timeline_place(line, ACTION_I, action->stage + 1, action->micro_batch);
}
/* The place of the action that takes this one's result; NOWHERE. */
static inline gint32 consumer_of(const OrderTimeline *line, const Action *action) {
  if (action->kind == ACTION_W || (action->kind == ACTION_I && action->stage == 0))
    return NOWHERE;
  if (action->kind == ACTION_I)
    return *timeline_place(line, ACTION_I, action->stage - 1, action->micro_batch);
  if (action->stage + 1 == line->flat->n_stages)
    return *timeline_place(line, ACTION_I, action->stage, action->micro_batch);
  return *timeline_place(line, ACTION_F, action->stage + 1, action->micro_batch);
}
/* When its input arrives. */
static inline gint64 input_of(const OrderTimeline *line, const Action *action) {
  gint32 source = source_of(line, action);
  return source == NOWHERE ? 0 : line->end[source] + line->flat->wire_ns[action->stage + (action->kind == ACTION_I)];
}
/* Time for its result to reach the rank that uses it. */
static inline gint64 wire_after(const OrderTimeline *line, const Action *action) {
  return line->flat->wire_ns[action->stage + (action->kind == ACTION_F)];
}
