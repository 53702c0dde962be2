/* Orders: the grammar, and the generators against closed forms. */
#include "error.h"
#include "order_csv.h"
#include "run_suite.h"
#include "schedules.h"
#include <check.h>
#include <string.h>

enum { MAX_RANKS = 16, MAX_CHUNKS = 8, MAX_MICRO_BATCHES = 64 };

/* --- a reference executor: list order per rank, F(s, m) after F(s−1, m), B(s, m) after F(s, m) and B(s+1, m) --- */

typedef struct {
  gint64 span_bubble; /* max over ranks of (last end − first start) − work; −1: stuck */
  int in_flight[MAX_RANKS];
} Reference;

typedef struct {
  gint64 f_end[MAX_RANKS * MAX_CHUNKS][MAX_MICRO_BATCHES], b_end[MAX_RANKS * MAX_CHUNKS][MAX_MICRO_BATCHES];
} Ends;

/* When the inputs of an action are there; −1: not yet. */
static gint64 input_time(const Order *order, const Ends *ends, const Action *action) {
  int s = action->stage, m = action->micro_batch;
  if (action->kind == ACTION_F)
    return s == 0 ? 0 : ends->f_end[s - 1][m];
  if (ends->f_end[s][m] < 0)
    return -1;
  return s == order->placement->n_stages - 1 ? ends->f_end[s][m] : ends->b_end[s + 1][m];
}

static int peak_in_flight(const GArray *actions) {
  int now = 0, peak = 0;
  for (guint i = 0; i < actions->len; i++) {
    now += g_array_index(actions, Action, i).kind == ACTION_F ? 1 : -1;
    peak = MAX(peak, now);
  }
  return peak;
}

static Reference reference_run(const Order *order, gint64 f, gint64 b) {
  static Ends ends; /* too large for the stack */
  memset(ends.f_end, 0xff, sizeof *ends.f_end * order->placement->n_stages);
  memset(ends.b_end, 0xff, sizeof *ends.b_end * order->placement->n_stages);
  Reference reference = {0};
  gint64 now[MAX_RANKS] = {0}, first[MAX_RANKS], work[MAX_RANKS] = {0};
  guint at[MAX_RANKS] = {0};
  gboolean progress = TRUE;
  while (progress) {
    progress = FALSE;
    for (int rank = 0; rank < order->placement->n_ranks; rank++)
      for (; at[rank] < order->actions[rank]->len; at[rank]++) {
        const Action *action = &g_array_index(order->actions[rank], Action, at[rank]);
        gint64 input = input_time(order, &ends, action), duration = action->kind == ACTION_F ? f : b;
        if (input < 0)
          break;
        gint64 start = MAX(input, now[rank]);
        if (at[rank] == 0)
          first[rank] = start;
        now[rank] = start + duration;
        work[rank] += duration;
        (action->kind == ACTION_F ? ends.f_end : ends.b_end)[action->stage][action->micro_batch] = now[rank];
        progress = TRUE;
      }
  }
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    if (at[rank] < order->actions[rank]->len)
      reference.span_bubble = -1;
    else if (reference.span_bubble >= 0)
      reference.span_bubble = MAX(reference.span_bubble, now[rank] - first[rank] - work[rank]);
    reference.in_flight[rank] = peak_in_flight(order->actions[rank]);
  }
  return reference;
}

static Order *make(const char *name, int p, int v, int m) {
  GError *error = NULL;
  const ScheduleFacts *schedule = schedule_find(name, &error);
  ck_assert_ptr_nonnull(schedule);
  Order *order = order_new(schedule, (OrderShape){p, v, m, 0}, &error);
  ck_assert_msg(order != NULL, "%s", error ? error->message : "");
  return order;
}

/* Every (stage, micro-batch) has one F and one B, on the stage's rank. (Plain comparisons in here: Check writes to a
 * file for every assertion, and millions of actions pass.) */
static gboolean is_complete(const Order *order) {
  static guint8 seen[MAX_RANKS * MAX_CHUNKS][MAX_MICRO_BATCHES];
  memset(seen, 0, sizeof *seen * order->placement->n_stages);
  for (int rank = 0; rank < order->placement->n_ranks; rank++) {
    if (order->actions[rank]->len !=
        2u * order->placement->n_stages / order->placement->n_ranks * order->n_micro_batches)
      return FALSE;
    for (guint i = 0; i < order->actions[rank]->len; i++) {
      const Action *action = &g_array_index(order->actions[rank], Action, i);
      guint8 bit = action->kind == ACTION_F ? 1 : 2;
      if (order->placement->stage_rank[action->stage] != rank || seen[action->stage][action->micro_batch] & bit)
        return FALSE;
      seen[action->stage][action->micro_batch] |= bit;
    }
  }
  return TRUE;
}

static void assert_bubble_is_the_closed_form(const ScheduleFacts *schedule, int p, int v, int m, gint64 f, gint64 b) {
  g_autoptr(Order) order = order_new(schedule, (OrderShape){p, v, m, 0}, NULL);
  /* f, b are of one chunk, so of a whole rank v·f, v·b */
  const PhaseTimes times = {(double)(v * f), (double)(v * b), 0, (double)(v * (f + b))};
  double bound = schedule_bubble(schedule, (OrderShape){p, v, m, 0}, &times).time;
  Reference reference = reference_run(order, f, b);
  if (!is_complete(order) || (double)reference.span_bubble != bound)
    ck_abort_msg("%s p=%d v=%d m=%d F=%d B=%d: bubble %" G_GINT64_FORMAT ", closed form %g", schedule->name, p, v, m,
                 (int)f, (int)b, reference.span_bubble, bound);
}

/* Primes as F and B, so that no stall hides behind a common divisor; and the usual B = 2F. */
static const gint64 durations[][2] = {{1, 2}, {7, 3}};

TEST(gpipe_and_1f1b_have_exactly_the_ramp_as_bubble) {
  const ScheduleFacts *gpipe = schedule_find("gpipe", NULL), *one = schedule_find("1f1b", NULL);
  for (int p = 1; p <= MAX_RANKS; p++)
    for (int m = 1; m <= MAX_MICRO_BATCHES; m++)
      for (gsize i = 0; i < G_N_ELEMENTS(durations); i++) {
        assert_bubble_is_the_closed_form(gpipe, p, 1, m, durations[i][0], durations[i][1]);
        assert_bubble_is_the_closed_form(one, p, 1, m, durations[i][0], durations[i][1]);
      }
  /* (p − 1)(F + B) = 3 · (1 + 2), spelled out once without the function under test */
  g_autoptr(Order) order = make("1f1b", 4, 1, 8);
  ck_assert_int_eq(reference_run(order, 1, 2).span_bubble, 9);
}

/* Rounds of a micro-batch's forward and the backward of the one before it: m of them hold one more than 1f1b, but for
 * the lone one of m = 1. On several ranks nothing changes. */
TEST(a_lone_rank_takes_turns_between_neighbouring_micro_batches) {
  const ScheduleFacts *schedule = schedule_find("1f1b", NULL);
  for (int p = 1; p <= 2; p++)
    for (int m = 1; m <= 4; m++) {
      g_autoptr(Order) order = order_new(schedule, (OrderShape){p, 1, m, .takes_turns = TRUE}, NULL);
      ck_assert_int_eq(peak_in_flight(order->actions[0]), p == 1 ? MIN(m, 2) : MIN(m, p));
      for (guint i = 0; i < order->actions[0]->len; i++) {
        const Action *action = &g_array_index(order->actions[0], Action, i);
        ck_assert_int_eq(action->joins_next, p == 1 && action->kind == ACTION_F && action->micro_batch > 0);
        if (action->joins_next) {
          ck_assert_int_eq(action[1].kind, ACTION_B);
          ck_assert_int_eq(action[1].micro_batch, action->micro_batch - 1);
        }
      }
    }
}

TEST(interleaved_bubble_is_exact_for_any_number_of_micro_batches) {
  const ScheduleFacts *schedule = schedule_find("interleaved", NULL);
  for (int p = 1; p <= MAX_RANKS; p++)
    for (int v = 1; v <= MAX_CHUNKS; v++)
      for (int m = 1; m <= MAX_MICRO_BATCHES; m++)
        for (gsize i = 0; i < G_N_ELEMENTS(durations); i++)
          assert_bubble_is_the_closed_form(schedule, p, v, m, durations[i][0], durations[i][1]);
}

TEST(interleaved_closed_form_holds_by_hand) {
  /* m = 5 ≥ p = 4: (p−1)(F+B)/v with F + B of a rank = 2·(1+2): 3·6/2 = 9, though 4 does not divide 5 */
  g_autoptr(Order) odd = make("interleaved", 4, 2, 5);
  ck_assert_int_eq(reference_run(odd, 1, 2).span_bubble, 9);
  /* m = 2 < p = 4: each of the v−1 chunk changes stalls p−m slots each way: ((p−1) + 1·2)·(1+2) = 15 */
  g_autoptr(Order) few = make("interleaved", 4, 2, 2);
  ck_assert_int_eq(reference_run(few, 1, 2).span_bubble, 15);
}

TEST(in_flight_micro_batches_are_the_known_ones) {
  for (int p = 1; p <= 8; p++)
    for (int m = 1; m <= 20; m++) {
      g_autoptr(Order) gpipe = make("gpipe", p, 1, m);
      g_autoptr(Order) one = make("1f1b", p, 1, m);
      Reference all = reference_run(gpipe, 1, 2), few = reference_run(one, 1, 2);
      for (int s = 0; s < p; s++) {
        ck_assert_int_eq(all.in_flight[s], m);
        ck_assert_int_eq(few.in_flight[s], MIN(p - s, m));
      }
    }
}

TEST(interleaved_holds_no_more_than_its_warm_up) {
  /* p = 4, v = 3, m = 11: ⌊11/4⌋ = 2 groups of 6 and 5, so rank r holds 2(p−r−1) + (v−1)·6 chunks and the one of the
   * forward that precedes the first backward; m = 8 (groups of 4) is Megatron's 2(p−r−1) + (v−1)·p + 1 */
  g_autoptr(Order) uneven = make("interleaved", 4, 3, 11);
  g_autoptr(Order) even = make("interleaved", 4, 3, 8);
  Reference a = reference_run(uneven, 1, 2), b = reference_run(even, 1, 2);
  for (int r = 0; r < 4; r++) {
    ck_assert_int_eq(a.in_flight[r], 2 * (4 - r - 1) + 2 * 6 + 1);
    ck_assert_int_eq(b.in_flight[r], 2 * (4 - r - 1) + 2 * 4 + 1);
  }
}

TEST(interleaved_is_megatrons_order_when_ranks_divide_micro_batches) {
  /* p = 2, v = 2, m = 4. Rank 0 holds stages 0 and 2; warm-up 2·1 + 1·2 = 4 forwards: 0F0 0F1 2F0 2F1; then F B pairs,
   * forwards 0F2 0F3 2F2 2F3, backwards chunk-reversed 2B0 2B1 0B0 0B1; then the backwards left. Rank 1 holds 1 and 3
   * and warms up with 2. */
  g_autoptr(Order) order = make("interleaved", 2, 2, 4);
  g_autofree char *csv = order_to_csv(order);
  ck_assert_str_eq(csv, "0F0,0F1,2F0,2F1,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,2B2,2B3,0B2,0B3\n"
                        "1F0,1F1,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,1B2,1B3\n");
}

static Order *make_in_turns(int p, int v, int m) {
  Order *order = order_new(schedule_find("interleaved", NULL), (OrderShape){p, v, m, .takes_turns = TRUE}, NULL);
  ck_assert_ptr_nonnull(order);
  return order;
}

TEST(interleaved_in_turns_warms_up_with_one_more) {
  /* as above, of 5 and 3 forwards: no round has both passes of one micro-batch through one stage */
  g_autoptr(Order) order = make_in_turns(2, 2, 4);
  g_autofree char *csv = order_to_csv(order);
  ck_assert_str_eq(csv, "0F0,0F1,2F0,2F1,0F2,0F3,2B0,2F2,2B1,2F3,0B0,0B1,2B2,2B3,0B2,0B3\n"
                        "1F0,1F1,3F0,3F1,3B0,1F2,3B1,1F3,1B0,3F2,1B1,3F3,3B2,3B3,1B2,1B3\n");
  /* p = 4, v = 3, m = 8 holds one more of each rank than without turns */
  g_autoptr(Order) longer = make_in_turns(4, 3, 8);
  for (int r = 0; r < 4; r++)
    ck_assert_int_eq(peak_in_flight(longer->actions[r]), 2 * (4 - r - 1) + 2 * 4 + 2);
}

/* Whether the order reaches its end where both of a round begin together, when the inputs of both are there. */
static gboolean can_run_in_turns(const Order *order) {
  static Ends ends;
  memset(ends.f_end, 0xff, sizeof *ends.f_end * order->placement->n_stages);
  memset(ends.b_end, 0xff, sizeof *ends.b_end * order->placement->n_stages);
  guint at[MAX_RANKS] = {0}, n_left = 0;
  for (int rank = 0; rank < order->placement->n_ranks; rank++)
    n_left += order->actions[rank]->len;
  for (gboolean progress = TRUE; progress;) {
    progress = FALSE;
    for (int rank = 0; rank < order->placement->n_ranks; rank++) {
      const GArray *actions = order->actions[rank];
      const guint n = at[rank] < actions->len && g_array_index(actions, Action, at[rank]).joins_next ? 2 : 1;
      gboolean is_ready = at[rank] < actions->len;
      for (guint i = at[rank]; is_ready && i < at[rank] + n; i++)
        is_ready = input_time(order, &ends, &g_array_index(actions, Action, i)) >= 0;
      for (guint i = 0; is_ready && i < n; i++) {
        const Action *action = &g_array_index(actions, Action, at[rank]++);
        (action->kind == ACTION_F ? ends.f_end : ends.b_end)[action->stage][action->micro_batch] = 0;
        n_left--;
      }
      progress = progress || is_ready;
    }
  }
  return n_left == 0;
}

/* Neither of a round waits for the other, nor for what the other leads to on other ranks. Without the forward more it
 * does where the last rank's first backward is of the forward just before it. The bubble stays. */
TEST(rounds_of_interleaved_can_take_turns) {
  const ScheduleFacts *schedule = schedule_find("interleaved", NULL);
  for (int p = 1; p <= 8; p++)
    for (int v = 2; v <= 4; v++)
      for (int m = 1; m <= 4 * p; m++) {
        g_autoptr(Order) order = make_in_turns(p, v, m);
        g_autoptr(Order) plain = make("interleaved", p, v, m);
        const PhaseTimes times = {v, 2 * v, 0, 3 * v};
        const double bubble = schedule_bubble(schedule, (OrderShape){p, v, m, .takes_turns = TRUE}, &times).time;
        if (!is_complete(order) || !can_run_in_turns(order) || can_run_in_turns(plain) ||
            (double)reference_run(order, 1, 2).span_bubble != bubble)
          ck_abort_msg("p=%d v=%d m=%d", p, v, m);
      }
}

TEST(impossible_counts_are_refused_with_the_reason) {
  static const struct {
    const char *name;
    int p, v, m;
    const char *says;
  } cases[] = {{"1f1b", 4, 2, 8, "one chunk"},
               {"gpipe", 0, 1, 8, "at least 1"},
               {"gpipe", 4, 1, 0, "at least 1"},
               {"interleaved", 4, -1, 8, "at least 1"},
               {"interleaved", 100000, 2, 1, "65536"},
               {"gpipe", 4, 1, G_MAXINT, "67108864"},
               {"interleaved", G_MAXINT, G_MAXINT, G_MAXINT, "more than"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    Order *order =
        order_new(schedule_find(cases[i].name, NULL), (OrderShape){cases[i].p, cases[i].v, cases[i].m, 0}, &error);
    ck_assert_ptr_null(order);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, cases[i].says) != NULL, "%s", error->message);
  }
}

TEST(every_listed_schedule_is_found_and_a_wrong_one_gets_a_hint) {
  int n = 0;
  for (const char *const *name = schedule_names(); *name; name++, n++)
    ck_assert_str_eq(schedule_find(*name, NULL)->name, *name);
  ck_assert_int_ge(n, 3);
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(schedule_find("interleved", &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
  ck_assert_ptr_nonnull(strstr(error->message, "did you mean \"interleaved\""));
  ck_assert_ptr_null(schedule_find(NULL, NULL));
}

/* --- grammar --- */

TEST(actions_read_as_they_print) {
  static const char *const texts[] = {
      "0F3",       "1I2",        "1W2",      "0B3",       "2SEND_F1",     "12RECV_F34",
      "1SEND_B0",  "0RECV_B0",   "1UNSHARD", "1RESHARD",  "1REDUCE_GRAD", "3UNSHARD7",
      "OPTIMIZER", "0OPTIMIZER", "NORM",     "TIED_GRAD", "SYNC",         "2147483647F2147483647"};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Action action;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(action_parse(texts[i], &action, &error), "%s", texts[i]);
    g_autoptr(GString) printed = g_string_new(NULL);
    action_print(&action, printed);
    ck_assert_str_eq(printed->str, texts[i]);
  }
  Action action;
  ck_assert(action_parse("12RECV_F34", &action, NULL));
  ck_assert_int_eq(action.stage, 12);
  ck_assert_int_eq(action.kind, ACTION_RECV_F);
  ck_assert_int_eq(action.micro_batch, 34);
}

TEST(what_is_no_action_is_refused_and_leaves_the_target_alone) {
  static const char *const texts[] = {"",
                                      "F",
                                      "0F",
                                      "F0",
                                      "0f0",
                                      "0G0",
                                      "0F0x",
                                      "0 F0",
                                      "-1F0",
                                      "0F-1",
                                      "0FI0",
                                      "SEND",
                                      "0SEND_F",
                                      "99999999999F0",
                                      "0F99999999999",
                                      "0OVERLAP_F_B",
                                      "(0F1;1B0)OVERLAP_F_B",
                                      "\xff\xfe",
                                      "UNSHARDx"};
  for (gsize i = 0; i < G_N_ELEMENTS(texts); i++) {
    Action action = {.stage = 77};
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!action_parse(texts[i], &action, &error), "%s", texts[i]);
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_int_eq(action.stage, 77);
  }
  ck_assert(!action_parse(NULL, &(Action){0}, NULL));
}

/* With one chunk interleaved is 1f1b, looped-bfs gpipe; a pipeline of one rank has nothing to interleave. */
TEST(who_asks_for_chunks_by_name_gets_some) {
  static const struct {
    const char *name;
    int on_one, on_four;
  } expected[] = {{"1f1b", 1, 1},       {"gpipe", 1, 1}, {"interleaved", 1, 2},
                  {"looped-bfs", 1, 2}, {"zb-v", 2, 2},  {"dualpipe", 2, 2}};
  for (gsize i = 0; i < G_N_ELEMENTS(expected); i++) {
    const ScheduleFacts *schedule = schedule_find(expected[i].name, NULL);
    ck_assert_int_eq(schedule_default_chunks(schedule, 1), expected[i].on_one);
    ck_assert_int_eq(schedule_default_chunks(schedule, 4), expected[i].on_four);
  }
}

int main(void) {
  return run_tests();
}
