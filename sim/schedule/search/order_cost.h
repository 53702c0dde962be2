/* What an order costs, given what each stage takes and holds: times along the longest path, memory in the order run.
 *
 *     start(x) = max(end of the action before x on its rank, input of x)
 *     input    = the neighbouring stage's end, + send_ns where that stage is on another rank
 *
 * F takes its input from the stage before, I and B from the stage after (the last stage's from its own F), W from its
 * own I. B is I and W in one: its gradient leaves at its end. An F that overlaps the B after it starts and ends with
 * it, in F + I + W. */
#pragma once
#include "order.h"

/* Of one stage for one micro-batch. Memory in any one unit: F holds, I drops part of it (or, negative, adds to it what
 * W will need), W the rest: f_holds = i_drops + w_drops. */
typedef struct {
  gint64 f_ns, i_ns, w_ns; /* ≥ 0 */
  double f_holds, i_drops, w_drops;
} StageCost;

typedef struct {
  const Placement *placement; /* borrowed */
  int n_micro_batches;
  const StageCost *stages; /* [n_stages]; borrowed */
  gint64 send_ns;          /* between different ranks: delays the receiver, costs neither rank time */
  const double *cap;       /* [n_ranks] most memory held on a rank; borrowed; NULL: no limit */
  gboolean is_in_bytes;    /* memory; else in units of the caller's */
  gboolean by_makespan; /* what counts: first start to last end over all ranks (an optimizer that waits for all), else
                           the longest of the ranks' own spans */
} OrderProblem;

typedef struct {
  gint64 span_ns;     /* longest of the ranks' (last end − first start) */
  gint64 makespan_ns; /* last end − first start over all ranks */
  double *peak;       /* [n_ranks] most memory held at a time; owned */
} OrderCost;

void order_cost_clear(OrderCost *cost);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(OrderCost, order_cost_clear)

/* INPUT naming the stage or rank: counts below 1 or beyond what is addressable, negative times, memory that is not
 * finite, negative where it must not be or that does not balance, a time so long that a step overflows. */
gboolean order_problem_check(const OrderProblem *problem, GError **error);

/* Cost of any order of the problem's placement and micro-batches, in O(actions); communication it names is skipped.
 * The cap is not looked at. IMPOSSIBLE: an order of other stages or micro-batches; an action missing, twice, or on a
 * rank that does not hold its stage; a rank that waits for ever (named with its action). */
gboolean order_evaluate(const Order *order, const OrderProblem *problem, OrderCost *cost, GError **error);

/* No order of the problem costs less (span, or makespan if by_makespan). The greatest over ranks of what one rank needs
 * by itself, its work and the idle time that its memory forces on it, and of
 * ramp to a later rank's first F + that rank's F and I + ramp back + a last W. The problem must have passed
 * order_problem_check(). */
gint64 order_lower_bound(const OrderProblem *problem);
