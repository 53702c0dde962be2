/* The orders that split the backward, turn in a V or run two pipelines: each action once, no deadlock, bubbles against
 * closed forms coded independently here, memory against each schedule's promise. Times are of one stage. The executor
 * here is independent of the engine: list order per rank, an action after its inputs, F and B of a pair as one. */
#include "error.h"
#include "order_csv.h"
#include "run_suite.h"
#include "schedules.h"
#include <check.h>
#include <string.h>

enum { MAX_RANKS = 24 };

typedef struct {
  gint64 f, i, w, pair;
} Times;

typedef struct {
  gint64 bubble; /* max over ranks of (last end − first start) − work; −1: stuck */
  gint64 makespan;
  gint64 least_work; /* over ranks */
  int held[MAX_RANKS];
} Run;

typedef struct {
  const Order *order;
  const Times *times;
  gint64 *end[2]; /* [stage · m + micro-batch] of I or B [0], of F [1]; −1: not yet */
  gint64 now[MAX_RANKS], first[MAX_RANKS], work[MAX_RANKS];
  guint at[MAX_RANKS];
} Executor;

static gint64 *end_of(const Executor *executor, gboolean forward, int stage, int micro_batch) {
  return &executor->end[forward][stage * executor->order->n_micro_batches + micro_batch];
}

/* −1: not yet. */
static gint64 input_time(const Executor *executor, const Action *action) {
  const Placement *placement = executor->order->placement;
  int s = action->stage, m = action->micro_batch;
  gboolean forward = action->kind == ACTION_F;
  if (action->kind == ACTION_W)
    return *end_of(executor, FALSE, s, m);
  if (!forward && *end_of(executor, TRUE, s, m) < 0)
    return -1;
  int from = stage_next(s, !forward, placement->n_stages, placement->n_pipes);
  return from < 0 ? 0 : *end_of(executor, forward, from, m);
}

static gint64 duration(const Times *times, const Action *action) {
  if (action->overlaps_next)
    return times->pair;
  const gint64 all[] = {
      [ACTION_F] = times->f, [ACTION_I] = times->i, [ACTION_W] = times->w, [ACTION_B] = times->i + times->w};
  return all[action->kind];
}

/* Runs the next pass, or pair, of a rank; FALSE when its inputs are not there. */
static gboolean step(Executor *executor, int rank) {
  const Action *action = &g_array_index(executor->order->actions[rank], Action, executor->at[rank]);
  int n = action->overlaps_next ? 2 : 1;
  gint64 start = executor->now[rank];
  for (int i = 0; i < n; i++) {
    gint64 input = input_time(executor, &action[i]);
    if (input < 0)
      return FALSE;
    start = MAX(start, input);
  }
  if (executor->at[rank] == 0)
    executor->first[rank] = start;
  executor->now[rank] = start + duration(executor->times, action);
  executor->work[rank] += duration(executor->times, action);
  for (int i = 0; i < n; i++)
    if (action[i].kind != ACTION_W)
      *end_of(executor, action[i].kind == ACTION_F, action[i].stage, action[i].micro_batch) = executor->now[rank];
  executor->at[rank] += n;
  return TRUE;
}

static int most_held(const GArray *actions) {
  int held = 0, most = 0;
  for (guint i = 0; i < actions->len; i++) {
    ActionKind kind = g_array_index(actions, Action, i).kind;
    held += kind == ACTION_F ? 1 : kind == ACTION_I ? 0 : -1;
    most = MAX(most, held);
  }
  return most;
}

static Run summary(const Executor *executor) {
  const Order *order = executor->order;
  Run run = {.least_work = G_MAXINT64};
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    if (executor->at[rank] < order->actions[rank]->len)
      return (Run){.bubble = -1};
    run.bubble = MAX(run.bubble, executor->now[rank] - executor->first[rank] - executor->work[rank]);
    run.makespan = MAX(run.makespan, executor->now[rank]);
    run.least_work = MIN(run.least_work, executor->work[rank]);
    run.held[rank] = most_held(order->actions[rank]);
  }
  return run;
}

static Run execute(const Order *order, const Times *times) {
  gsize n_cells = (gsize)order->placement->n_stages * order->n_micro_batches;
  g_autofree gint64 *ends = g_new(gint64, 2 * n_cells);
  memset(ends, 0xff, 2 * n_cells * sizeof *ends);
  Executor executor = {.order = order, .times = times, .end = {ends, ends + n_cells}};
  for (gboolean progress = TRUE; progress;) {
    progress = FALSE;
    for (int rank = 0; rank < order->placement->n_ranks; rank++)
      while (executor.at[rank] < order->actions[rank]->len && step(&executor, rank))
        progress = TRUE;
  }
  return summary(&executor);
}

/* Each stage and micro-batch of its pipe has F, and B or I and W, once, on the stage's rank. */
static gboolean is_complete(const Order *order) {
  const Placement *placement = order->placement;
  int n_stages = placement->n_stages, m = order->n_micro_batches;
  g_autofree guint8 *seen = g_new0(guint8, (gsize)n_stages * m);
  for (int rank = 0; rank < placement->n_ranks; rank++)
    for (guint i = 0; i < order->actions[rank]->len; i++) {
      const Action *action = &g_array_index(order->actions[rank], Action, i);
      guint8 *cell = &seen[action->stage * m + action->micro_batch];
      const guint8 bits[] = {[ACTION_F] = 1, [ACTION_I] = 2, [ACTION_W] = 4, [ACTION_B] = 6};
      int pipe = action->stage / (n_stages / placement->n_pipes);
      if (placement->stage_rank[action->stage] != rank || *cell & bits[action->kind] ||
          micro_batch_pipe(action->micro_batch, m, placement->n_pipes) != pipe)
        return FALSE;
      if (action->overlaps_next && (action->kind != ACTION_F || i + 1 == order->actions[rank]->len ||
                                    action[1].kind != ACTION_B || action[1].overlaps_next))
        return FALSE;
      *cell |= bits[action->kind];
    }
  int n_full = 0;
  for (int i = 0; i < n_stages * m; i++)
    n_full += seen[i] == 7;
  return n_full == n_stages / placement->n_pipes * m;
}

static Order *make(const char *name, OrderShape shape) {
  g_autoptr(GError) error = NULL;
  Order *order = order_new(schedule_find(name, NULL), shape, &error);
  if (order == NULL)
    ck_abort_msg("%s p=%d v=%d m=%d: %s", name, shape.n_ranks, shape.n_chunks, shape.n_micro_batches, error->message);
  return order;
}

/* The schedule's own word on the bubble: exact where it says so, else never more than what happens. */
static void assert_bubble(const ScheduleFacts *schedule, OrderShape shape, const Order *order, const Times *times) {
  int n_passes = shape.n_chunks / order->placement->n_pipes; /* of a rank, per micro-batch */
  const PhaseTimes phases = {(double)times->f * n_passes, (double)times->i * n_passes, (double)times->w * n_passes,
                             (double)times->pair * n_passes};
  Bubble bubble = schedule_bubble(schedule, shape, &phases);
  Run run = execute(order, times);
  if (run.bubble < 0 || bubble.time < 0 || bubble.time > (double)run.bubble ||
      (bubble.is_exact && bubble.time != (double)run.bubble))
    ck_abort_msg("%s p=%d v=%d m=%d group=%d F=%d I=%d W=%d F&B=%d: bubble %d, %s %g", schedule->name, shape.n_ranks,
                 shape.n_chunks, shape.n_micro_batches, shape.group, (int)times->f, (int)times->i, (int)times->w,
                 (int)times->pair, (int)run.bubble, bubble.is_exact ? "closed form" : "bound", bubble.time);
}

/* --- every schedule, any counts and times --- */

static int n_schedules(void) {
  return (int)g_strv_length((char **)schedule_names());
}

/* Small times in all proportions, so that which way through the passes is longest changes. Check's _i is the
 * schedule. */
LOOP_TEST(bubble_is_the_closed_form_or_above_the_bound, n_schedules()) {
  const ScheduleFacts *schedule = schedule_find(schedule_names()[_i], NULL);
  const int n_pipes = schedule->placement == PLACEMENT_BIDIRECTIONAL ? 2 : 1;
  for (int p = n_pipes; p <= 16; p += n_pipes) {
    const int counts[] = {1, p - 1, p, 2 * p - 1, 2 * p, 3 * p + 1, 128};
    for (gsize k = 0; k < G_N_ELEMENTS(counts); k++) {
      OrderShape shape = {p, schedule->least_chunks, counts[k], 0};
      if (counts[k] < n_pipes || (counts[k] == 128 && p % 5 != 0 && p != 16))
        continue;
      g_autoptr(Order) order = make(schedule->name, shape);
      if (!is_complete(order))
        ck_abort_msg("%s p=%d m=%d is not complete", schedule->name, p, counts[k]);
      for (int f = 1; f <= 3; f++)
        for (int i = 1; i <= 3; i++)
          for (int w = 1; w <= 3; w++)
            assert_bubble(schedule, shape, order, &(Times){f, i, w, f + i + w});
    }
  }
}

/* F less B or W on the rank that has most. */
static int most_in_flight(const Order *order) {
  int most = 0;
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    int held = 0;
    for (guint i = 0; i < order->actions[rank]->len; i++) {
      const ActionKind kind = g_array_index(order->actions[rank], Action, i).kind;
      held += kind == ACTION_F ? 1 : kind == ACTION_B || kind == ACTION_W ? -1 : 0;
      most = MAX(most, held);
    }
  }
  return most;
}

static gboolean has_action(const Order *order, gboolean (*is_wanted)(const Action *action)) {
  for (int rank = 0; rank < order->placement->n_ranks; rank++)
    for (guint i = 0; i < order->actions[rank]->len; i++)
      if (is_wanted(&g_array_index(order->actions[rank], Action, i)))
        return TRUE;
  return FALSE;
}

static gboolean is_w(const Action *action) {
  return action->kind == ACTION_W;
}
static gboolean is_paired(const Action *action) {
  return action->overlaps_next;
}
static gboolean is_joined(const Action *action) {
  return action->joins_next;
}

/* What the table says of a schedule before there is an order is so in its orders. */
LOOP_TEST(facts_are_those_of_the_orders, n_schedules()) {
  const ScheduleFacts *schedule = schedule_find(schedule_names()[_i], NULL);
  const int v = schedule_default_chunks(schedule, 8);
  g_autoptr(Order) order = make(schedule->name, (OrderShape){8, v, 48, .takes_turns = schedule->has_rounds}),
                   twice = make(schedule->name, (OrderShape){8, v, 96, 0});
  ck_assert_int_eq(schedule->defers_w, has_action(order, is_w));
  ck_assert_int_eq(schedule->has_pairs, has_action(order, is_paired));
  ck_assert_int_eq(schedule->has_rounds, has_action(order, is_joined));
  ck_assert_int_eq(schedule->holds_all, most_in_flight(twice) == 96 * v);
  ck_assert(schedule->holds_all || most_in_flight(twice) <= 4 * 8 * v);
}

TEST(random_counts_and_times_keep_every_promise) {
  g_autoptr(GRand) random = g_rand_new_with_seed(20);
  for (int n = 0; n < 1500; n++) {
    const ScheduleFacts *schedule = schedule_find(schedule_names()[n % n_schedules()], NULL);
    OrderShape shape = {g_rand_int_range(random, 1, MAX_RANKS + 1),
                        g_rand_int_range(random, 1, 1 + MIN(4, schedule->most_chunks)), g_rand_int_range(random, 1, 80),
                        0};
    shape.n_chunks = MAX(shape.n_chunks, schedule->least_chunks);
    if (schedule->placement == PLACEMENT_BIDIRECTIONAL) {
      shape.n_ranks += shape.n_ranks % 2;
      shape.n_micro_batches = MAX(shape.n_micro_batches, 2);
    }
    g_autoptr(Order) order = make(schedule->name, shape);
    if (!is_complete(order))
      ck_abort_msg("%s p=%d v=%d m=%d is not complete", schedule->name, shape.n_ranks, shape.n_chunks,
                   shape.n_micro_batches);
    Times times = {g_rand_int_range(random, 1, 1000), g_rand_int_range(random, 1, 1000),
                   g_rand_int_range(random, 1, 1000), 0};
    times.pair =
        g_rand_int_range(random, (gint32)MAX(times.f, times.i + times.w), (gint32)(times.f + times.i + times.w + 1));
    assert_bubble(schedule, shape, order, &times);
    times.pair = g_rand_int_range(random, 1, 4000); /* what no pair takes is no reason for a wrong bound */
    assert_bubble(schedule, shape, order, &times);
  }
}

/* --- the published forms, spelled out --- */

static void assert_time(const char *what, int p, int m, gint64 found, gint64 expected) {
  if (found != expected)
    ck_abort_msg("%s p=%d m=%d: %d, expected %d", what, p, m, (int)found, (int)expected);
}

static gint64 bubble_of(const char *name, int p, int v, int m, gint64 f, gint64 i, gint64 w, gint64 pair) {
  g_autoptr(Order) order = make(name, (OrderShape){p, v, m, 0});
  return execute(order, &(Times){f, i, w, pair}).bubble;
}

/* arXiv 2401.10241, table 1 and §6; (7, 5, 4) and (6, 7, 5) have F + I ≥ 2W. zb-v is free of bubbles at F = I = W. */
TEST(zero_bubble_orders_have_the_papers_bubbles) {
  for (int p = 1; p <= 16; p++)
    for (int m = 2 * p; m <= 128; m += 7) {
      assert_time("zb-h1", p, m, bubble_of("zb-h1", p, 1, m, 7, 5, 4, 0), (p - 1) * (7 + 5 - 4));
      assert_time("zb-h1", p, m, bubble_of("zb-h1", p, 1, m, 6, 7, 5, 0), (p - 1) * (6 + 7 - 5));
      assert_time("zb-h2", p, m, bubble_of("zb-h2", p, 1, m, 7, 5, 4, 0), (p - 1) * (7 + 5 - 2 * 4));
      assert_time("zb-h2", p, m, bubble_of("zb-h2", p, 1, m, 6, 7, 5, 0), (p - 1) * (6 + 7 - 2 * 5));
      assert_time("zb-v", p, m, bubble_of("zb-v", p, 2, m, 3, 3, 3, 0), 0);
    }
}

/* DualPipe's (p/2 − 1)(F&B + B − 3W), B = I + W, at F = 4, I = 5, W = 3: with pairs that gain nothing (12) it is the
 * bubble on spans; with pairs of 10 it is the whole time less the work of the ranks with the most pairs. */
TEST(dualpipe_has_the_published_bubble) {
  for (int half = 1; half <= 8; half++)
    for (int m = 4 * half; m <= 128; m += 14) {
      gint64 turns = half - 1;
      assert_time("dualpipe", 2 * half, m, bubble_of("dualpipe", 2 * half, 2, m, 4, 5, 3, 12), turns * (12 + 8 - 9));
      assert_time("dualpipe-v", half, m, bubble_of("dualpipe-v", half, 2, m, 4, 5, 3, 12), turns * (12 + 8 - 9));
      g_autoptr(Order) order = make("dualpipe", (OrderShape){2 * half, 2, m, 0});
      Run run = execute(order, &(Times){4, 5, 3, 10});
      assert_time("dualpipe makespan", 2 * half, m, run.makespan - run.least_work, turns * (10 + 8 - 9));
    }
}

/* Breadth first over v chunks: the ramp of p − 1 chunks, down and up. */
TEST(looped_bfs_has_a_chunks_ramp) {
  for (int p = 1; p <= 16; p++)
    for (int v = 1; v <= 4; v++)
      assert_time("looped-bfs", p, 2 * p, bubble_of("looped-bfs", p, v, 2 * p, 2, 3, 4, 0), (p - 1) * (2 + 3 + 4));
}

/* What the zero-bubble authors' own scheduler takes at p = 8, m = 32, 10 ms per chunk, in units of 10 ms: 1f1b 117,
 * zb-1p 103, zb-2p 103 with a span of 96; on V's, with two such chunks per rank, 199 with a span of 192 (the work: no
 * bubble), v-half 209, v-min 219. */
TEST(no_slower_than_the_zero_bubble_authors_scheduler) {
  static const struct {
    const char *name;
    int v, makespan, bubble;
  } peers[] = {
      {"zb-h1", 1, 103, 7}, {"zb-h2", 1, 103, 0}, {"zb-v", 2, 199, 0}, {"v-half", 2, 209, 17}, {"v-min", 2, 219, 27}};
  for (gsize k = 0; k < G_N_ELEMENTS(peers); k++) {
    g_autoptr(Order) order = make(peers[k].name, (OrderShape){8, peers[k].v, 32, 0});
    Run run = execute(order, &(Times){1, 1, 1, 0});
    ck_assert_msg(run.bubble <= peers[k].bubble, "%s: %d", peers[k].name, (int)run.bubble);
    ck_assert_msg(run.makespan <= peers[k].makespan, "%s: %d", peers[k].name, (int)run.makespan);
  }
}

/* --- memory --- */

/* Stages' worth held by every rank, where there are micro-batches enough (at least 2p): zb-h1 p, zb-h2 2p − 1, zb-v 2p
 * (of half a rank each), dualpipe p + 1, dualpipe-v 2p + 1. */
TEST(ranks_hold_what_the_schedule_promises) {
  for (int p = 2; p <= 16; p += 2)
    for (int m = 2; m <= 3 * p; m++) {
      const struct {
        const char *name;
        int v, held, least_m; /* exactly so many from least_m micro-batches on, else at most */
      } promises[] = {{"zb-h1", 1, p, 1},
                      {"zb-h2", 1, 2 * p - 1, 1},
                      {"zb-v", 2, 2 * p, 2 * p},
                      {"v-half", 2, p + 3, 6 * p},
                      {"v-min", 2, 2 * (p / 3) + 4, 6 * p},
                      {"dualpipe", 2, p + 1, 2 * p},
                      {"dualpipe-v", 2, 2 * p + 1, 2 * p}};
      for (gsize k = 0; k < G_N_ELEMENTS(promises); k++) {
        g_autoptr(Order) order = make(promises[k].name, (OrderShape){p, promises[k].v, m, 0});
        Run run = execute(order, &(Times){1, 1, 1, 3});
        int most = MIN(promises[k].held, promises[k].v * m);
        for (int rank = 0; rank < p; rank++)
          if (run.held[rank] > most || (m >= promises[k].least_m && run.held[rank] < most))
            ck_abort_msg("%s p=%d m=%d: rank %d holds %d, not %d", promises[k].name, p, m, rank, run.held[rank], most);
      }
    }
}

/* --- form --- */

TEST(zb_h1_is_the_papers_figure) {
  /* p = 3, m = 4: rank r warms up with 2 − r forwards, and W is r micro-batches behind I */
  g_autoptr(Order) order = make("zb-h1", (OrderShape){3, 1, 4, 0});
  g_autofree char *csv = order_to_csv(order);
  ck_assert_str_eq(csv, "0F0,0F1,0F2,0I0,0W0,0F3,0I1,0W1,0I2,0W2,0I3,0W3\n"
                        "1F0,1F1,1I0,1F2,1I1,1W0,1F3,1I2,1W1,1I3,1W2,1W3\n"
                        "2F0,2I0,2F1,2I1,2F2,2I2,2W0,2F3,2I3,2W1,2W2,2W3\n");
}

TEST(looped_bfs_runs_chunk_after_chunk) {
  g_autoptr(Order) order = make("looped-bfs", (OrderShape){2, 2, 2, 0});
  g_autofree char *csv = order_to_csv(order);
  ck_assert_str_eq(csv, "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n");
}

/* m/2 − p + r + 1 times two pairs in the steady part and p/2 − r − 1 after it, on the r-th rank from an end. */
TEST(dualpipe_overlaps_forward_and_backward) {
  enum { P = 8, M = 24 };
  g_autoptr(Order) order = make("dualpipe", (OrderShape){P, 2, M, 0});
  for (int rank = 0; rank < P; rank++) {
    int n_pairs = 0, from_end = MIN(rank, P - 1 - rank);
    for (guint i = 0; i < order->actions[rank]->len; i++)
      n_pairs += g_array_index(order->actions[rank], Action, i).overlaps_next;
    ck_assert_int_eq(n_pairs, 2 * (M / 2 - P + from_end + 1) + P / 2 - from_end - 1);
  }
}

/* Groups given: a larger one holds more, 2(p − r − 1) + (v − 1)·group + 1 chunks, for the same bubble, (p − 1)(F + I +
 * W) of a chunk; also where the last group is a smaller one, of p micro-batches at least. */
TEST(interleaved_takes_a_group) {
  const ScheduleFacts *schedule = schedule_find("interleaved", NULL);
  const Times times = {2, 3, 1, 6};
  for (int p = 2; p <= 8; p++)
    for (int group = p; group <= 3 * p; group++)
      for (int m = group; m <= 3 * group; m++) {
        OrderShape shape = {p, 3, m, group};
        if (m % group != 0 && m % group < p)
          continue;
        g_autoptr(Order) order = make("interleaved", shape);
        Run run = execute(order, &times);
        if (!is_complete(order) || (m > group && run.held[0] != 2 * (p - 1) + 2 * group + 1))
          ck_abort_msg("p=%d m=%d group=%d: rank 0 holds %d", p, m, group, run.held[0]);
        assert_time("interleaved", p, m, run.bubble, (p - 1) * 6);
        assert_bubble(schedule, shape, order, &times);
      }
}

TEST(counts_a_schedule_cannot_take_are_refused_with_the_reason) {
  static const struct {
    const char *name;
    OrderShape shape;
    const char *says;
  } cases[] = {{"dualpipe", {3, 2, 8, 0}, "needs an even number of pipeline ranks"},
               {"dualpipe", {1, 2, 8, 0}, "found 1 pipeline ranks"},
               {"dualpipe", {4, 2, 1, 0}, "needs at least 2 micro-batches, one from each end"},
               {"dualpipe", {4, 1, 8, 0}, "has 2 chunks"},
               {"dualpipe-v", {4, 3, 8, 0}, "has 2 chunks"},
               {"zb-v", {4, 1, 8, 0}, "has 2 chunks"},
               {"v-half", {4, 4, 8, 0}, "has 2 chunks"},
               {"v-min", {4, 2, 0, 0}, "at least 1"},
               {"zb-h1", {4, 2, 8, 0}, "one chunk"},
               {"zb-h2", {4, 1, 8, 4}, "no groups"},
               {"interleaved", {4, 2, 8, 3}, "groups of at least as many micro-batches"},
               {"interleaved", {4, 3, 5, 4}, "a last group of at least as many micro-batches"}};
  for (gsize k = 0; k < G_N_ELEMENTS(cases); k++) {
    g_autoptr(GError) error = NULL;
    ck_assert_ptr_null(order_new(schedule_find(cases[k].name, NULL), cases[k].shape, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, cases[k].says) != NULL, "%s", error->message);
  }
}

int main(void) {
  return run_tests();
}
