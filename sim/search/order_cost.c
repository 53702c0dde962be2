/* Every rank runs its list as far as its inputs allow, stops at a missing one, and is resumed by the rank that
 * produces it. Every action is looked at once when it runs and once per stop, and a rank stops at most once per
 * action, so the total is O(actions) for any order. */
#include "order_cost.h"
#include "error.h"
#include <math.h>

enum { MAX_STAGES = 1 << 16, MAX_ACTIONS = 1 << 26 };
static const double MAX_STEP_NS = 4e18; /* int64 ends at 9.2e18 */

void order_cost_clear(OrderCost *cost) {
  g_clear_pointer(&cost->peak, g_free);
}

/* --- checks of the problem --- */

static gboolean check_stage(const StageCost *cost, int stage, GError **error) {
  if (cost->f_ns < 0 || cost->i_ns < 0 || cost->w_ns < 0)
    return fail_input(error,
                      "stage %d takes %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT
                      " ns for F, I, W: times are at least 0",
                      stage, cost->f_ns, cost->i_ns, cost->w_ns);
  double f = cost->f_holds, i = cost->i_drops, w = cost->w_drops;
  if (!isfinite(f) || !isfinite(i) || !isfinite(w) || f < 0 || w < 0)
    return fail_input(error,
                      "stage %d holds %g with F and drops %g with I, %g with W: what F holds and W drops are "
                      "finite and at least 0, what I drops is finite",
                      stage, f, i, w);
  if (fabs(f - i - w) > 1e-9 * (f + fabs(i) + w))
    return fail_input(error,
                      "stage %d holds %.12g with F but drops %.12g with I and %.12g with W, %.12g in all: "
                      "a micro-batch must leave nothing behind",
                      stage, f, i, w, i + w);
  return TRUE;
}

static gboolean check_counts(const OrderProblem *problem, GError **error) {
  const Placement *placement = problem->placement;
  double n_actions = 3.0 * placement->n_stages * problem->n_micro_batches;
  if (placement->n_ranks < 1 || placement->n_stages < placement->n_ranks || problem->n_micro_batches < 1)
    return fail_input(error, "%d pipeline ranks, %d stages, %d micro-batches: at least 1 of each, a stage per rank",
                      placement->n_ranks, placement->n_stages, problem->n_micro_batches);
  if (placement->n_stages > MAX_STAGES || n_actions > MAX_ACTIONS)
    return fail_input(error, "%d stages × %d micro-batches: at most %d stages and %d actions can be scheduled",
                      placement->n_stages, problem->n_micro_batches, MAX_STAGES, MAX_ACTIONS);
  return TRUE;
}

gboolean order_problem_check(const OrderProblem *problem, GError **error) {
  if (!check_counts(problem, error))
    return FALSE;
  if (problem->send_ns < 0)
    return fail_input(error, "a send takes %" G_GINT64_FORMAT " ns: times are at least 0", problem->send_ns);
  double step_ns = 0;
  for (int stage = 0; stage < problem->placement->n_stages; stage++) {
    const StageCost *cost = &problem->stages[stage];
    if (!check_stage(cost, stage, error))
      return FALSE;
    step_ns += (double)cost->f_ns + (double)cost->i_ns + (double)cost->w_ns + 2.0 * (double)problem->send_ns;
  }
  if (step_ns * problem->n_micro_batches > MAX_STEP_NS)
    return fail_input(error,
                      "%d micro-batches take up to %.4g ns one after the other: at most %.4g ns can be scheduled",
                      problem->n_micro_batches, step_ns * problem->n_micro_batches, MAX_STEP_NS);
  for (int rank = 0; problem->cap && rank < problem->placement->n_ranks; rank++)
    if (isnan(problem->cap[rank]) || problem->cap[rank] < 0)
      return fail_input(error, "the memory of rank %d is %g: at least 0 was expected", rank, problem->cap[rank]);
  return TRUE;
}

/* --- running an order --- */

enum { NOT_YET = -1, NOBODY = -1 };

typedef struct {
  const Order *order;
  const OrderProblem *problem;
  int n_micro_batches;
  gint64 *f_end, *i_end; /* [n_stages · m]; NOT_YET */
  guint8 *done;          /* [n_stages · m] bits of ActionKind F I W seen */
  guint *at;             /* [n_ranks] next action of the list */
  gint64 *now, *first;   /* [n_ranks] */
  double *held;          /* [n_ranks] */
  gint64 *missing;       /* [n_ranks] what a stopped rank waits for: 2 · place + (0: F's end, 1: I's end); NOBODY */
  int *ready, n_ready;   /* stack of ranks to resume */
  OrderCost *cost;
} Run;

static gsize place_of(const Run *run, int stage, int micro_batch) {
  return (gsize)stage * (gsize)run->n_micro_batches + (gsize)micro_batch;
}

/* When the input of an action arrives; NOT_YET, with *key naming what is missing. */
static gint64 input_of(const Run *run, const Action *action, gint64 *key) {
  const Placement *placement = run->problem->placement;
  gsize place = place_of(run, action->stage, action->micro_batch);
  gboolean forward = action->kind == ACTION_F;
  if (action->kind == ACTION_W || (!forward && run->f_end[place] == NOT_YET)) {
    *key = 2 * (gint64)place + (action->kind == ACTION_W);
    return action->kind == ACTION_W ? run->i_end[place] : NOT_YET;
  }
  int from = stage_next(action->stage, !forward, placement->n_stages, placement->n_pipes);
  if (from < 0)
    return forward ? 0 : run->f_end[place];
  gsize source = place_of(run, from, action->micro_batch);
  gint64 end = forward ? run->f_end[source] : run->i_end[source];
  *key = 2 * (gint64)source + !forward;
  gboolean crosses = placement->stage_rank[from] != placement->stage_rank[action->stage];
  return end == NOT_YET ? NOT_YET : end + (crosses ? run->problem->send_ns : 0);
}

static void wake(Run *run, int rank, gint64 key) {
  if (rank != NOBODY && run->missing[rank] == key) {
    run->missing[rank] = NOBODY;
    run->ready[run->n_ready++] = rank;
  }
}

/* The action has ended: wakes the rank that waits for its result. */
static void publish(Run *run, const Action *action, gint64 end) {
  const Placement *placement = run->problem->placement;
  gsize place = place_of(run, action->stage, action->micro_batch);
  if (action->kind == ACTION_W)
    return;
  gboolean forward = action->kind == ACTION_F;
  (forward ? run->f_end : run->i_end)[place] = end;
  int to = stage_next(action->stage, forward, placement->n_stages, placement->n_pipes);
  wake(run, to < 0 ? NOBODY : placement->stage_rank[to], 2 * (gint64)place + !forward);
}

static gint64 duration_of(const Run *run, const Action *action) {
  const StageCost *cost = &run->problem->stages[action->stage];
  switch (action->kind) {
  case ACTION_F:
    return cost->f_ns;
  case ACTION_I:
    return cost->i_ns;
  case ACTION_W:
    return cost->w_ns;
  default:
    return cost->i_ns + cost->w_ns;
  }
}

/* F holds memory from its start, I and W drop it at their end. */
static void account(Run *run, int rank, const Action *action) {
  const StageCost *cost = &run->problem->stages[action->stage];
  double *held = &run->held[rank], *peak = &run->cost->peak[rank];
  if (action->kind == ACTION_F)
    *held += cost->f_holds;
  if (action->kind == ACTION_I || action->kind == ACTION_B)
    *held -= cost->i_drops;
  *peak = MAX(*peak, *held);
  if (action->kind == ACTION_W || action->kind == ACTION_B)
    *held -= cost->w_drops;
}

static gboolean refuse_action(const Run *run, int rank, const Action *action, const char *what, GError **error) {
  g_autoptr(GString) name = g_string_new(NULL);
  action_print(action, name);
  return fail_impossible(error, "rank %d, action %u (%s): %s", rank, run->at[rank], name->str, what);
}

/* Each action must belong to the rank, and occur only once. */
static gboolean check_action(Run *run, int rank, const Action *action, GError **error) {
  const Placement *placement = run->problem->placement;
  if (action->stage < 0 || action->stage >= placement->n_stages || action->micro_batch < 0 ||
      action->micro_batch >= run->n_micro_batches)
    return refuse_action(run, rank, action, "no such stage or micro-batch", error);
  if (placement->stage_rank[action->stage] != rank)
    return refuse_action(run, rank, action, "its stage is on another rank", error);
  int length = placement->n_stages / placement->n_pipes;
  if (action->stage / length != micro_batch_pipe(action->micro_batch, run->n_micro_batches, placement->n_pipes))
    return refuse_action(run, rank, action, "its micro-batch goes through the other pipe", error);
  int bits = action->kind == ACTION_B ? 1 << ACTION_I | 1 << ACTION_W : 1 << action->kind;
  guint8 *done = &run->done[place_of(run, action->stage, action->micro_batch)];
  if (*done & bits)
    return refuse_action(run, rank, action, "is done a second time", error);
  *done |= (guint8)bits;
  return TRUE;
}

/* How many actions from *at on run as one: 2 for an F overlapped with a B. First moves *at past communication. 0: end
 * of the list. */
static int next_actions(const GArray *actions, guint *at) {
  while (*at < actions->len && !action_info(g_array_index(actions, Action, *at).kind)->is_compute)
    ++*at;
  if (*at == actions->len)
    return 0;
  const Action *action = &g_array_index(actions, Action, *at);
  return action->overlaps_next && *at + 1 < actions->len && action_info(action[1].kind)->is_compute ? 2 : 1;
}

/* Runs as far as the inputs allow. */
static gboolean run_rank(Run *run, int rank, GError **error) {
  const GArray *actions = run->order->actions[rank];
  int n;
  while ((n = next_actions(actions, &run->at[rank])) > 0) {
    const Action *action = &g_array_index(actions, Action, run->at[rank]);
    gint64 start = run->now[rank], duration = 0, key = 0;
    for (int i = 0; i < n; i++) {
      gboolean in_range = action[i].stage >= 0 && action[i].stage < run->problem->placement->n_stages &&
                          action[i].micro_batch >= 0 && action[i].micro_batch < run->n_micro_batches;
      gint64 input = in_range ? input_of(run, &action[i], &key) : 0;
      if (input == NOT_YET) {
        run->missing[rank] = key;
        return TRUE;
      }
      start = MAX(start, input);
      duration += in_range ? duration_of(run, &action[i]) : 0;
    }
    if (run->first[rank] == NOT_YET)
      run->first[rank] = start;
    run->now[rank] = start + duration;
    for (int i = 0; i < n; i++, run->at[rank]++) {
      if (!check_action(run, rank, &action[i], error))
        return FALSE;
      account(run, rank, &action[i]);
      publish(run, &action[i], run->now[rank]);
    }
  }
  return TRUE;
}

/* Every list must have run to its end, with no action missing. */
static gboolean check_end(Run *run, GError **error) {
  const Placement *placement = run->problem->placement;
  for (int rank = 0; rank < placement->n_ranks; rank++)
    if (run->at[rank] < run->order->actions[rank]->len)
      return refuse_action(run, rank, &g_array_index(run->order->actions[rank], Action, run->at[rank]),
                           "waits for ever for its input", error);
  const int all = 1 << ACTION_F | 1 << ACTION_I | 1 << ACTION_W;
  for (int stage = 0; stage < placement->n_stages; stage++)
    for (int m = 0; m < run->n_micro_batches; m++)
      if (stage / (placement->n_stages / placement->n_pipes) ==
              micro_batch_pipe(m, run->n_micro_batches, placement->n_pipes) &&
          run->done[place_of(run, stage, m)] != all)
        return fail_impossible(error, "rank %d: stage %d lacks F, I or W of micro-batch %d",
                               placement->stage_rank[stage], stage, m);
  return TRUE;
}

static void sum_up(const Run *run) {
  gint64 first = G_MAXINT64, last = 0;
  for (int rank = 0; rank < run->problem->placement->n_ranks; rank++) {
    if (run->first[rank] == NOT_YET)
      continue;
    run->cost->span_ns = MAX(run->cost->span_ns, run->now[rank] - run->first[rank]);
    first = MIN(first, run->first[rank]);
    last = MAX(last, run->now[rank]);
  }
  run->cost->makespan_ns = last - first;
}

static gboolean run_all(Run *run, GError **error) {
  for (int rank = run->problem->placement->n_ranks - 1; rank >= 0; rank--)
    run->ready[run->n_ready++] = rank;
  while (run->n_ready > 0)
    if (!run_rank(run, run->ready[--run->n_ready], error))
      return FALSE;
  if (!check_end(run, error))
    return FALSE;
  sum_up(run);
  return TRUE;
}

gboolean order_evaluate(const Order *order, const OrderProblem *problem, OrderCost *cost, GError **error) {
  const Placement *placement = problem->placement;
  if (!order_problem_check(problem, error))
    return FALSE;
  if (order->placement->n_ranks != placement->n_ranks || order->placement->n_stages != placement->n_stages ||
      order->placement->n_pipes != placement->n_pipes || order->n_micro_batches != problem->n_micro_batches)
    return fail_impossible(
        error, "the order has %d ranks, %d stages, %d pipes, %d micro-batches; the problem has %d, %d, %d, %d",
        order->placement->n_ranks, order->placement->n_stages, order->placement->n_pipes, order->n_micro_batches,
        placement->n_ranks, placement->n_stages, placement->n_pipes, problem->n_micro_batches);
  gsize n_ranks = (gsize)placement->n_ranks, n = (gsize)placement->n_stages * (gsize)problem->n_micro_batches;
  g_autofree gint64 *ends = g_new(gint64, 2 * n), *of_rank = g_new0(gint64, 3 * n_ranks);
  g_autofree guint8 *done = g_new0(guint8, n);
  g_autofree guint *at = g_new0(guint, n_ranks);
  g_autofree int *ready = g_new(int, n_ranks);
  g_autofree double *held = g_new0(double, n_ranks);
  for (gsize i = 0; i < 2 * n; i++)
    ends[i] = NOT_YET;
  for (gsize i = n_ranks; i < 3 * n_ranks; i++)
    of_rank[i] = NOT_YET;
  g_auto(OrderCost) found = {.peak = g_new0(double, n_ranks)};
  Run run = {order,
             problem,
             problem->n_micro_batches,
             ends,
             ends + n,
             done,
             at,
             of_rank,
             of_rank + n_ranks,
             held,
             of_rank + 2 * n_ranks,
             ready,
             0,
             &found};
  if (!run_all(&run, error))
    return FALSE;
  order_cost_clear(cost);
  *cost = found;
  found.peak = NULL;
  return TRUE;
}
