/* Resident memory over time, from hand-written effects and records. */
#include "memory_profile.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "hand_trace.h"
#include "memory_timeline.h"

/* A compute (or other) op that holds and drops activations. */
static Op with_effect(Hand *hand, Stream stream, double hold_bytes, double drop_bytes) {
  Op op = op_new(stream == STREAM_COMPUTE ? OP_COMPUTE : OP_HOST, stream, ACTION_F, 0, 0);
  Effect effect = {.hold[MEMORY_ACTIVATIONS] = hold_bytes, .drop[MEMORY_ACTIVATIONS] = drop_bytes};
  op.effect = program_effect(hand->program, &effect);
  return op;
}

static void add(Hand *hand, int rank, Stream stream, double hold_bytes, double drop_bytes, gint64 start_ns,
                gint64 end_ns) {
  hand_add(hand, rank, with_effect(hand, stream, hold_bytes, drop_bytes), 0, start_ns, end_ns);
}

typedef struct {
  gint64 time_ns[32];
  double bytes[32];
  int n;
} History;

static void note(gint64 time_ns, const MemorySample *sample, gpointer data) {
  History *history = data;
  ck_assert_int_lt(history->n, 32);
  history->time_ns[history->n] = time_ns;
  history->bytes[history->n++] = sample->bytes[MEMORY_ACTIVATIONS];
}

TEST(a_rank_starts_with_what_is_resident) {
  g_auto(Hand) hand = hand_new(1, 1);
  hand.program->ranks[0].resident[MEMORY_WEIGHTS] = 100;
  hand.program->ranks[0].resident[MEMORY_OPTIMIZER] = 400;
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand_finish(&hand));
  ck_assert_double_eq(profile->peak_bytes, 500);
  ck_assert_double_eq(profile->at_peak.bytes[MEMORY_WEIGHTS], 100);
  ck_assert_double_eq(profile->at_peak.bytes[MEMORY_OPTIMIZER], 400);
}

TEST(memory_is_held_at_the_start_and_dropped_at_the_end) {
  /* compute   [0, 10) holds 5 for good    [10, 20) holds 3 and drops 8 at 20
   * dp        [4, 15) holds 2, drops 2
   * history   0: 5   4: 7   10: 10   15: 8   20: 0 */
  g_auto(Hand) hand = hand_new(1, 1);
  add(&hand, 0, STREAM_COMPUTE, 5, 0, 0, 10);
  add(&hand, 0, STREAM_DP, 2, 2, 4, 15);
  add(&hand, 0, STREAM_COMPUTE, 3, 8, 10, 20);
  History history = {0};
  memory_profile_visit(hand_finish(&hand), 0, note, &history);
  const gint64 times[] = {0, 4, 10, 15, 20};
  const double bytes[] = {5, 7, 10, 8, 0};
  ck_assert_int_eq(history.n, 5);
  for (int i = 0; i < 5; i++) {
    ck_assert_int_eq(history.time_ns[i], times[i]);
    ck_assert_double_eq(history.bytes[i], bytes[i]);
  }
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand.trace);
  ck_assert_double_eq(profile->peak_bytes, 10);
}

/* A measured clock steps back by 2 from one op of a stream to the next: what this one holds it holds from then on. */
TEST(time_never_goes_back) {
  g_auto(Hand) hand = hand_new(1, 1);
  add(&hand, 0, STREAM_COMPUTE, 5, 5, 5, 5);
  add(&hand, 0, STREAM_COMPUTE, 3, 3, 3, 20);
  History history = {0};
  memory_profile_visit(hand_finish(&hand), 0, note, &history);
  ck_assert_int_ge(history.n, 3);
  for (int i = 1; i < history.n; i++)
    ck_assert_int_ge(history.time_ns[i], history.time_ns[i - 1]);
  ck_assert_int_eq(history.time_ns[history.n - 1], 20);
  ck_assert_double_eq(history.bytes[history.n - 1], 0);
}

TEST(at_equal_times_drops_come_first) {
  /* The dp op drops 6 at 10, just when the next compute op holds 6: never 12 at once. A compute op of no length holds
   * and drops 6 at 30: it drops first, too. */
  g_auto(Hand) hand = hand_new(1, 1);
  add(&hand, 0, STREAM_DP, 6, 6, 0, 10);
  add(&hand, 0, STREAM_COMPUTE, 6, 0, 10, 20);
  add(&hand, 0, STREAM_COMPUTE, 6, 6, 30, 30);
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand_finish(&hand));
  ck_assert_double_eq(profile->peak_bytes, 6);
}

TEST(the_peak_is_the_total_and_the_first_of_equals) {
  /* Buffers 4 at 0–5, then activations 4 at 10–15: both total 4; the first is reported. */
  g_auto(Hand) hand = hand_new(1, 1);
  Op buffers = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_F, 0, 0);
  Effect effect = {.hold[MEMORY_BUFFERS] = 4, .drop[MEMORY_BUFFERS] = 4};
  buffers.effect = program_effect(hand.program, &effect);
  hand_add(&hand, 0, buffers, 0, 0, 5);
  add(&hand, 0, STREAM_COMPUTE, 4, 4, 10, 15);
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand_finish(&hand));
  ck_assert_double_eq(profile->peak_bytes, 4);
  ck_assert_double_eq(profile->at_peak.bytes[MEMORY_BUFFERS], 4);
  ck_assert_double_eq(profile->at_peak.bytes[MEMORY_ACTIVATIONS], 0);
}

TEST(the_worst_rank_is_the_first_with_the_highest_peak) {
  g_auto(Hand) hand = hand_new(3, 1);
  add(&hand, 0, STREAM_COMPUTE, 5, 5, 0, 1);
  add(&hand, 1, STREAM_COMPUTE, 9, 9, 0, 1);
  add(&hand, 2, STREAM_COMPUTE, 9, 9, 0, 1);
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand_finish(&hand));
  ck_assert_int_eq(profile->worst_rank, 1);
  ck_assert_double_eq(profile->rank_peak[0], 5);
  ck_assert_double_eq(profile->rank_peak[2], 9);
}

TEST(an_op_that_never_ran_changes_nothing) {
  g_auto(Hand) hand = hand_new(1, 1);
  add(&hand, 0, STREAM_COMPUTE, 5, 0, 0, 10);
  add(&hand, 0, STREAM_COMPUTE, 7, 7, -1, -1);
  g_autoptr(MemoryProfile) profile = memory_profile_new(hand_finish(&hand));
  ck_assert_double_eq(profile->peak_bytes, 5);
}

typedef struct {
  const Trace *trace;
  gint64 last_ns;
  double peak_bytes;
} Check;

/* What is held at `time_ns` by definition, when every record is looked at: held since start ≤ t, dropped since end ≤ t.
 */
static double held_at(const Trace *trace, gint64 time_ns) {
  double bytes = 0;
  const OpList *list = trace_list(trace, 0);
  for (int i = 0; i < list->n_ops; i++) {
    const Effect *effect = &g_array_index(trace->program->effects, Effect, list->ops[i].effect);
    bytes += trace->start_ns[i] <= time_ns ? effect->hold[MEMORY_ACTIVATIONS] : 0;
    bytes -= trace->end_ns[i] <= time_ns ? effect->drop[MEMORY_ACTIVATIONS] : 0;
  }
  return bytes;
}

static void check_order(gint64 time_ns, const MemorySample *sample, gpointer data) {
  Check *check = data;
  ck_assert_int_ge(time_ns, check->last_ns);
  check->last_ns = time_ns;
  check->peak_bytes = fmax(check->peak_bytes, sample->bytes[MEMORY_ACTIVATIONS]);
}

TEST(the_merge_agrees_with_looking_at_every_record) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(7);
  for (int round = 0; round < 500; round++) {
    g_auto(Hand) hand = hand_new(1, 1);
    gint64 free_ns[N_STREAMS] = {0};
    for (int i = 0; i < 40; i++) {
      Stream stream = (Stream)g_rand_int_range(rand, 0, N_STREAMS);
      gint64 start = free_ns[stream] + g_rand_int_range(rand, 0, 3), end = start + g_rand_int_range(rand, 0, 4);
      free_ns[stream] = end;
      add(&hand, 0, stream, g_rand_int_range(rand, 0, 4), g_rand_int_range(rand, 0, 4), start, end);
    }
    const Trace *trace = hand_finish(&hand);
    /* The balance after all changes of a moment is what counts as a peak: drops come first, so it is the highest. */
    double expected = 0;
    for (gint64 t = 0; t <= trace_end(trace); t++)
      expected = fmax(expected, held_at(trace, t));
    Check check = {.trace = trace};
    memory_profile_visit(trace, 0, check_order, &check);
    ck_assert_double_eq(check.peak_bytes, expected);
    g_autoptr(MemoryProfile) profile = memory_profile_new(trace);
    ck_assert_double_eq(profile->peak_bytes, expected);
  }
}

/* 5 GB held from 0 to 10 ns on top of 2 GB reserved, of 8 GB: lines of time and GB. */
TEST(a_picture_of_memory_counts_what_is_reserved) {
  g_auto(Hand) hand = hand_new(1, 1);
  add(&hand, 0, STREAM_COMPUTE, 5e9, 5e9, 0, 10);
  const MemoryTimelineLook look = {"m", "GB", 1e-9, 8e9, 2e9};
  g_autoptr(Picture) picture = memory_timeline_picture(hand_finish(&hand), time_unit_for(10), &look, NULL);
  ck_assert_ptr_nonnull(strstr(picture->variables->str, "cap='8'; "));
  ck_assert_msg(g_str_has_prefix(picture->data->str, "# time held\n0 2\n0 2\n0 7\n"), "%s", picture->data->str);
  ck_assert_msg(strstr(picture->data->str, "10 2\n") != NULL, "%s", picture->data->str);
}

int main(void) {
  return run_tests();
}
