/* The cost of an order, given what each stage takes and holds: times along the longest path, memory in list order.
 *
 *     start(x) = max(end of the previous action on its rank, input of x)
 *     input    = the neighbouring stage's end, + send_ns if that stage is on another rank
 *
 * F takes its input from the previous stage, I and B from the next one (the last stage's from its own F), W from its
 * own I. B is I and W in one: its gradient is available when it ends. An F that overlaps the B after it starts and
 * ends with it, and takes F + I + W. */
#pragma once
#include "order.h"

/* One stage and micro-batch. Memory in any one unit: F holds f_holds; I drops part of it (or if negative, adds what W
 * will need), W the rest: f_holds = i_drops + w_drops. */
typedef struct {
  gint64 f_ns, i_ns, w_ns; /* ≥ 0 */
  double f_holds, i_drops, w_drops;
} StageCost;

typedef struct {
  const Placement *placement; /* borrowed */
  int n_micro_batches;
  const StageCost *stages; /* [n_stages]; borrowed */
  gint64 send_ns;          /* between different ranks: delays the receiver, costs neither rank any time */
  const double *cap;       /* [n_ranks] memory limit per rank; borrowed; NULL: no limit */
  gboolean is_in_bytes;    /* unit of memory; else the caller's own */
  gboolean by_makespan; /* objective: first start to last end over all ranks (an optimizer that waits for all); else the
                           longest span of any rank */
} OrderProblem;

typedef struct {
  gint64 span_ns;     /* longest (last end − first start) of any rank */
  gint64 makespan_ns; /* last end − first start over all ranks */
  double *peak;       /* [n_ranks] peak memory; owned */
} OrderCost;

void order_cost_clear(OrderCost *cost);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(OrderCost, order_cost_clear)

/* INPUT naming the stage or rank: counts below 1 or beyond what is addressable, negative times, memory that is not
 * finite, is negative where it must not be, or does not balance, times so long that a step overflows. */
gboolean order_problem_check(const OrderProblem *problem, GError **error);

/* Cost of any order with the problem's placement and micro-batches, in O(actions). Communication named in the order
 * is ignored, and so is the cap. IMPOSSIBLE: the order has other stages or micro-batches; an action is missing,
 * duplicate, or on a rank that does not hold its stage; a rank waits forever (named with its action). */
gboolean order_evaluate(const Order *order, const OrderProblem *problem, OrderCost *cost, GError **error);

/* No order of the problem costs less (span, or makespan if by_makespan). The maximum over ranks of what a rank needs
 * on its own (its work, and the idle time that its memory forces on it), and of ramp to a later rank's first F + that
 * rank's F and I + ramp back + a last W. The problem must have passed order_problem_check(). */
gint64 order_lower_bound(const OrderProblem *problem);
