/* Bubbles and micro-batches in flight of the classic schedules, against closed forms coded here once more, through the
 * whole chain: generator, lowering passes, verifier, engine, metrics.
 *
 *     p = 1 … 16 ranks, m = 1 … 64 micro-batches, v = 1 … 8 chunks, free communication
 *     F = I = W        every combination
 *     unequal times    gpipe and 1f1b: every combination; interleaved: every p and v, and the m around which its order
 *                      changes shape (see edge_counts)
 *
 * Millions of ops: `test_oracles K N` runs the K-th of N shares of the p, so that shares run side by side. */
#include "error.h"

#include <check.h>
#include <stdlib.h>

#include "order_run.h"

enum { MAX_RANKS = 16, MAX_CHUNKS = 8, MAX_MICRO_BATCHES = 64 };

/* Of one rank (all its chunks) and one micro-batch. 840 = lcm(1 … 8): a chunk's share of each is whole for every v. */
typedef struct {
  gint64 f_ns, i_ns, w_ns;
} Times;
enum { WHOLE_NS = 840 };
static const Times uniform = {WHOLE_NS, WHOLE_NS, WHOLE_NS};
static const Times unequal[] = {{2 * WHOLE_NS, 3 * WHOLE_NS, 1 * WHOLE_NS}, {5 * WHOLE_NS, 1 * WHOLE_NS, 2 * WHOLE_NS}};

static gint64 whole_ns(const Times *times) {
  return times->f_ns + times->i_ns + times->w_ns;
}

/* All ranks have the same work, so the longest span is that of the rank that starts first and ends last: rank 0. Its
 * last backward of the last micro-batch comes after that micro-batch went down all other ranks and up again,
 *
 *     span = m·(F + B) + (p − 1)·(F + B),  B = I + W
 *
 * gpipe: the forwards take m·F + (p − 1)·F until the last rank has them all, the backwards as long. 1f1b: the same
 * triangle of (p − 1) forwards and as many backwards, cut differently. */
static gint64 ramp_ns(int p, int v, int m, const Times *times) {
  return (p - 1) * whole_ns(times);
}

/* A chunk takes (F + B)/v, and the ramp is p − 1 chunks deep. With m < p a rank that has run the m micro-batches of one
 * chunk waits until the first of them has come round the p ranks: p − m slots, at each of the v − 1 changes of chunk,
 * once in forward and once in backward. */
static gint64 interleaved_ns(int p, int v, int m, const Times *times) {
  gint64 n_slots = p - 1;
  if (m < p)
    n_slots += (gint64)(v - 1) * (p - m);
  return n_slots * (whole_ns(times) / v);
}

/* gpipe runs all forwards first. */
static int in_flight_of_all(int p, int v, int m, int rank) {
  return m;
}

/* 1f1b: rank s has run p − s forwards when its first backward comes, and from then on one of each. */
static int in_flight_of_ramp(int p, int v, int m, int rank) {
  return MIN(p - rank, m);
}

/* In chunks: 2(p − s − 1) for the way to the last rank and back, a whole group of micro-batches for each of the earlier
 * v − 1 chunks, and the forward that precedes the first backward. Groups: ⌊m/p⌋ of as equal size as m allows. */
static int in_flight_of_interleaved(int p, int v, int m, int rank) {
  if (v == 1)
    return in_flight_of_ramp(p, v, m, rank);
  int n_groups = MAX(m / p, 1), largest_group = (m + n_groups - 1) / n_groups;
  return MIN(2 * (p - rank - 1) + (v - 1) * largest_group + 1, v * m);
}

typedef struct {
  const char *name;
  int max_chunks;
  gint64 (*bubble_ns)(int p, int v, int m, const Times *times);
  int (*in_flight)(int p, int v, int m, int rank);
} Oracle;
static const Oracle gpipe = {"gpipe", 1, ramp_ns, in_flight_of_all};
static const Oracle one_f_one_b = {"1f1b", 1, ramp_ns, in_flight_of_ramp};
static const Oracle interleaved = {"interleaved", MAX_CHUNKS, interleaved_ns, in_flight_of_interleaved};

static OrderRun *run_schedule(const char *name, int p, int v, int m, const Times *times) {
  g_autoptr(GError) error = NULL;
  g_autoptr(Order) order = order_new(schedule_find(name, NULL), (OrderShape){p, v, m, 0}, &error);
  StageTimes stage = {(double)times->f_ns, (double)times->i_ns, (double)times->w_ns};
  OrderRun *run = order != NULL ? order_run_new(order, &stage, 1, NULL, NULL, &error) : NULL;
  if (run == NULL)
    ck_abort_msg("%s p=%d v=%d m=%d: %s", name, p, v, m, error->message);
  return run;
}

/* Plain comparisons in here: Check writes to a file for every assertion. */
static void assert_oracle(const Oracle *oracle, int p, int v, int m, const Times *times) {
  g_autoptr(OrderRun) run = run_schedule(oracle->name, p, v, m, times);
  gint64 bubble_ns = oracle->bubble_ns(p, v, m, times), work_ns = m * whole_ns(times);
  const PhaseTimes phases = {(double)times->f_ns, (double)times->i_ns, (double)times->w_ns, (double)whole_ns(times)};
  double bound = schedule_find(oracle->name, NULL)->bubble((OrderShape){p, v, m, 0}, &phases).time;
  if (run->metrics->span_bubble_ns != bubble_ns || run->metrics->span_ns != work_ns + bubble_ns ||
      bound != (double)bubble_ns)
    ck_abort_msg("%s p=%d v=%d m=%d F=%d I=%d W=%d: bubble %d of a span of %d, closed form %d and %d; "
                 "the schedule's own bound is %g",
                 oracle->name, p, v, m, (int)times->f_ns, (int)times->i_ns, (int)times->w_ns,
                 (int)run->metrics->span_bubble_ns, (int)run->metrics->span_ns, (int)bubble_ns,
                 (int)(work_ns + bubble_ns), bound);
  int peak[MAX_RANKS];
  metrics_in_flight(run->trace, peak);
  for (int rank = 0; rank < p; rank++)
    if (peak[rank] != oracle->in_flight(p, v, m, rank))
      ck_abort_msg("%s p=%d v=%d m=%d: rank %d holds %d, closed form %d", oracle->name, p, v, m, rank, peak[rank],
                   oracle->in_flight(p, v, m, rank));
}

static void assert_all_micro_batches(const Oracle *oracle, int p, int v, const Times *times) {
  for (int m = 1; m <= MAX_MICRO_BATCHES; m++)
    assert_oracle(oracle, p, v, m, times);
}

/* Check's loop variable _i is p. */
START_TEST(gpipe_and_1f1b_bubbles_are_exact) {
  const Oracle *oracles[] = {&gpipe, &one_f_one_b};
  for (gsize i = 0; i < G_N_ELEMENTS(oracles); i++) {
    assert_all_micro_batches(oracles[i], _i, 1, &uniform);
    for (gsize t = 0; t < G_N_ELEMENTS(unequal); t++)
      assert_all_micro_batches(oracles[i], _i, 1, &unequal[t]);
  }
}
END_TEST

START_TEST(interleaved_bubble_is_exact) {
  for (int v = 1; v <= MAX_CHUNKS; v++)
    assert_all_micro_batches(&interleaved, _i, v, &uniform);
}
END_TEST

/* One micro-batch; just fewer than ranks, as many, just more; one group and two, even and uneven; many groups. */
static int edge_counts(int p, int counts[]) {
  const int wanted[] = {1, 2, p - 1, p, p + 1, 2 * p - 1, 2 * p, 2 * p + 1, 3 * p + p / 2};
  int n = 0;
  for (gsize i = 0; i < G_N_ELEMENTS(wanted); i++)
    if (wanted[i] >= 1 && wanted[i] <= MAX_MICRO_BATCHES)
      counts[n++] = wanted[i];
  return n;
}

START_TEST(interleaved_bubble_is_exact_with_unequal_times) {
  int counts[16], n_counts = edge_counts(_i, counts);
  for (int v = 1; v <= MAX_CHUNKS; v++)
    for (int i = 0; i < n_counts; i++)
      for (gsize t = 0; t < G_N_ELEMENTS(unequal); t++)
        assert_oracle(&interleaved, _i, v, counts[i], &unequal[t]);
}
END_TEST

START_TEST(one_micro_batch_on_four_ranks_idles_three_quarters) {
  /* span 4·(F + B), work F + B: 3/4; as idle over ideal, 3 */
  const char *names[] = {"gpipe", "1f1b"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(OrderRun) run = run_schedule(names[i], 4, 1, 1, &uniform);
    ck_assert_double_eq_tol(order_run_bubble_fraction(run), 0.75, 1e-12);
    ck_assert_double_eq_tol(run->metrics->bubble_fraction, 0.75, 1e-12);
    ck_assert_double_eq_tol(run->metrics->bubble_overhead, 3, 1e-12);
  }
}
END_TEST

START_TEST(bubble_by_hand) {
  /* p = 4, m = 8, F = 2·840, B = 4·840: 3 · 6 · 840 = 15120 of a span of 11 · 6 · 840 = 55440; two chunks halve it */
  g_autoptr(OrderRun) flat = run_schedule("1f1b", 4, 1, 8, &unequal[0]);
  ck_assert_int_eq(flat->metrics->span_bubble_ns, 15120);
  ck_assert_int_eq(flat->metrics->span_ns, 55440);
  g_autoptr(OrderRun) chunked = run_schedule("interleaved", 4, 2, 8, &unequal[0]);
  ck_assert_int_eq(chunked->metrics->span_bubble_ns, 7560);
}
END_TEST

/* Cost grows with p, so the shares take every n-th p. */
static TCase *share(int k, int n) {
  TCase *tcase = tcase_create("oracles");
  tcase_set_timeout(tcase, 300);
  for (int p = k + 1; p <= MAX_RANKS; p += n) {
    tcase_add_loop_test(tcase, gpipe_and_1f1b_bubbles_are_exact, p, p + 1);
    tcase_add_loop_test(tcase, interleaved_bubble_is_exact, p, p + 1);
    tcase_add_loop_test(tcase, interleaved_bubble_is_exact_with_unequal_times, p, p + 1);
  }
  if (k == 0) {
    tcase_add_test(tcase, one_micro_batch_on_four_ranks_idles_three_quarters);
    tcase_add_test(tcase, bubble_by_hand);
  }
  return tcase;
}

int main(int argc, char **argv) {
  int k = argc == 3 ? atoi(argv[1]) : 0, n = argc == 3 ? atoi(argv[2]) : 1;
  Suite *suite = suite_create("oracles");
  suite_add_tcase(suite, share(k, n));
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failures = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failures != 0;
}
