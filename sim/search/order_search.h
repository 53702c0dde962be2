/* Private to the search for orders (auto_order.h): a problem and its orders as flat arrays, and the steps of the
 * search. Everything is allocated up front; nothing allocates while an order is made or timed. */
#pragma once
#include "order_cost.h"

/* A problem laid out for speed. Stages of a rank are adjacent, in pipe order. */
typedef struct {
  int n_ranks, n_stages, n_micro_batches;
  gint64 send_ns;
  const StageCost *stages; /* [n_stages]; borrowed */
  double *cap;             /* [n_ranks] with a margin for rounding; owned; NULL: no limit */
  gboolean by_makespan;
  const int *rank_of; /* [n_stages]; borrowed */
  int *first_slot;    /* [n_ranks + 1] into `stage_at`; owned */
  int *stage_at;      /* [n_stages] rank by rank; owned */
  gint64 *wire_ns;    /* [n_stages + 1] between stage s − 1 and s: 0 or send_ns; 0 at both ends; owned */
  double *need;    /* [n_stages] memory to take a micro-batch from its F here through every later chunk of the rank and
                      back; owned */
  gint64 *work_ns; /* [n_ranks] per micro-batch; owned */
} FlatProblem;

void flat_problem_init(FlatProblem *flat, const OrderProblem *problem);
void flat_problem_clear(FlatProblem *flat);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FlatProblem, flat_problem_clear)

/* F, I and W only; rank r's are actions[3 · first_slot[r] · m …). */
typedef struct {
  Action *actions; /* [3 · n_stages · n_micro_batches]; owned */
  gint64 span_ns, makespan_ns;
  double excess; /* most memory beyond the cap on any rank; 0: fits */
} FlatOrder;

void flat_order_init(FlatOrder *order, const FlatProblem *flat);
void flat_order_clear(FlatOrder *order);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FlatOrder, flat_order_clear)

/* Index of the first action of `rank` in a list that is ordered by rank. */
static inline gsize flat_first(const FlatProblem *flat, int rank) {
  return (gsize)3 * (gsize)flat->first_slot[rank] * (gsize)flat->n_micro_batches;
}
static inline gint64 flat_objective(const FlatProblem *flat, const FlatOrder *order) {
  return flat->by_makespan ? order->makespan_ns : order->span_ns;
}
/* An order that fits is better than one that does not; then the objective decides, then the other length. */
gboolean flat_order_is_better(const FlatProblem *flat, const FlatOrder *a, const FlatOrder *b);

/* Working memory for timing orders of one problem. */
typedef struct {
  gint64 *f_end, *i_end;         /* [n_stages · m]; owned, i_end within f_end's block */
  gint64 *now, *missing, *first; /* [n_ranks] free from; result it waits for; first start; owned, in one block */
  gsize *at;                     /* [n_ranks] next action; owned */
  int *ready;                    /* [n_ranks] ranks to resume; owned */
} FlatTimer;

void flat_timer_init(FlatTimer *timer, const FlatProblem *flat);
void flat_timer_clear(FlatTimer *timer);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(FlatTimer, flat_timer_clear)

/* Fills in an order's span, makespan and excess, in O(actions). FALSE if it cannot run to its end. */
gboolean flat_order_time(const FlatProblem *flat, FlatTimer *timer, FlatOrder *order);
/* Converts an order to F, I and W: B is split, overlaps are dissolved, communication is dropped, and each stage's
 * micro-batches are renumbered in the order in which they pass it. None of this makes an order longer or lets it hold
 * more. `order` must be complete. */
void flat_order_of(const FlatProblem *flat, const Order *order, FlatOrder *into);
/* One micro-batch after another: no order holds less. */
void flat_order_in_sequence(const FlatProblem *flat, FlatOrder *order);
/* Peak memory of `rank`. */
double flat_order_peak(const FlatProblem *flat, const FlatOrder *order, int rank);
