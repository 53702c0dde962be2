/* Private to order_polish: an order with the times of all its actions, kept up to date while single actions move. */
#pragma once
#include "order_search.h"

enum { NOWHERE = -1 };

/* What an end was before a move. */
typedef struct {
  gint32 at;
  gint64 end;
} TimeChange;

/* Places are indices into the order's actions. */
typedef struct {
  const FlatProblem *flat;
  FlatOrder *order;           /* borrowed; its span_ns and makespan_ns are kept */
  gint64 *end, *latest;       /* [actions] end, and the latest start that makes the order no longer; one block; owned */
  gint32 *f_at, *i_at;        /* [n_stages · m] where an F, an I stands; one block; owned */
  gint64 objective;           /* what counts, of the order that `latest` was found for */
  gint64 n_looks, most_looks; /* actions looked at so far; may be */
  /* While times are updated: */
  gint32 *touched, *last; /* [n_ranks] first and last action to look at again; one block; NOWHERE: none; owned */
  gint32 *at;             /* [n_ranks] where a rank stands while `latest` is found; owned */
  int *queue;             /* [n_ranks] ranks to take up, a ring; owned */
  int queue_first, n_queued;
  gint32 low, high;     /* what was moved stands between */
  gboolean is_hopeless; /* the order has become longer */
  GArray *log;          /* of TimeChange, oldest first; owned */
} OrderTimeline;

void order_timeline_init(OrderTimeline *line, const FlatProblem *flat);
void order_timeline_clear(OrderTimeline *line);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(OrderTimeline, order_timeline_clear)

/* Take up an order, to be changed; FALSE when it cannot run to its end. */
gboolean order_timeline_take_up(OrderTimeline *line, FlatTimer *timer, FlatOrder *order, gint64 most_looks);
/* Take the action at `from` out and put it in at `to`, on the same rank; each keeps its end. */
void order_timeline_shift(OrderTimeline *line, gint32 from, gint32 to);
/* Times after what stands from `low` to `high`, on one rank, was shifted; FALSE when the order has become longer or the
 * looks ran out: then shift back after order_timeline_undo(). */
gboolean order_timeline_update(OrderTimeline *line, gint32 low, gint32 high);
void order_timeline_undo(OrderTimeline *line);
/* Find `latest` anew, for the order as it is. */
void order_timeline_settle(OrderTimeline *line);
/* Fill in the order's lengths; *total is all ranks' spans. Returns the rank that makes it as long as it is. */
int order_timeline_sum_up(OrderTimeline *line, gint64 *total);

/* --- where things stand --- */

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
/* Where the F or I of a stage and micro-batch stands. */
static inline gint32 *timeline_place(const OrderTimeline *line, ActionKind kind, int stage, int micro_batch) {
  return &(kind == ACTION_F ? line->f_at : line->i_at)[stage * line->flat->n_micro_batches + micro_batch];
}

/* Where the action stands whose result this one takes; NOWHERE. */
static inline gint32 source_of(const OrderTimeline *line, const Action *action) {
  if (action->kind == ACTION_W || (action->kind == ACTION_F && action->stage == 0))
    return NOWHERE;
  if (action->kind == ACTION_F)
    return *timeline_place(line, ACTION_F, action->stage - 1, action->micro_batch);
  if (action->stage + 1 == line->flat->n_stages)
    return *timeline_place(line, ACTION_F, action->stage, action->micro_batch);
  return *timeline_place(line, ACTION_I, action->stage + 1, action->micro_batch);
}
/* Where the action stands that takes this one's result; NOWHERE. */
static inline gint32 consumer_of(const OrderTimeline *line, const Action *action) {
  if (action->kind == ACTION_W || (action->kind == ACTION_I && action->stage == 0))
    return NOWHERE;
  if (action->kind == ACTION_I)
    return *timeline_place(line, ACTION_I, action->stage - 1, action->micro_batch);
  if (action->stage + 1 == line->flat->n_stages)
    return *timeline_place(line, ACTION_I, action->stage, action->micro_batch);
  return *timeline_place(line, ACTION_F, action->stage + 1, action->micro_batch);
}
/* When its input is there. */
static inline gint64 input_of(const OrderTimeline *line, const Action *action) {
  gint32 source = source_of(line, action);
  return source == NOWHERE ? 0 : line->end[source] + line->flat->wire_ns[action->stage + (action->kind == ACTION_I)];
}
/* What its result takes to get to where it is used. */
static inline gint64 wire_after(const OrderTimeline *line, const Action *action) {
  return line->flat->wire_ns[action->stage + (action->kind == ACTION_F)];
}
