/* Bubbles and micro-batches in flight of the classic schedules, against closed forms coded independently here, through
 * the whole chain: generator, lowering passes, verifier, engine, metrics.
 *
 *     p = 1 … 16 ranks, m = 1 … 128 micro-batches (all to 36, then some), v = 1 … 8 chunks, free communication
 *     F = I = W        every combination
 *     unequal times    gpipe and 1f1b: every combination; interleaved: every p and v, and the m around which its order
 *                      changes shape (see edge_counts)
 *     zero bubble …    each p, m at the edges and 128, equal and unequal times
 *
 * Millions of ops: `test_oracles K N` runs the K-th of N shares of the values of p, so that shares can run in parallel.
 */
#include "order_run.h"
#include "run_suite.h"
#include "schedules.h"

#include <stdlib.h>

enum { MAX_RANKS = 16, MAX_CHUNKS = 8, MAX_MICRO_BATCHES = 128 };

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

/* Rank 0's last gradient comes after all the last rank runs before its own last one; p in flight make rank 0 wait for
 * its first. With m ≥ p and W ≤ F: (p − 1)(F + I − W). */
static gint64 zb_h1_ns(int p, int v, int m, const Times *times) {
  int n_behind = MIN(p, m) - 1; /* W's that the last rank runs after its last I */
  return MAX((p - 1) * (times->f_ns + times->i_ns) - n_behind * times->w_ns,
             (p - MIN(p, m)) * times->f_ns + (p - 1) * times->i_ns); /* before rank 0's first I */
}

/* (p − 1)(F + I − 2W) for the times here, unless forwards run out before the first gradient is back: rank q waits for
 * it until forwards from rank q to p − 1 and gradients back to q are through. */
static gint64 zb_h2_ns(int p, int v, int m, const Times *times) {
  int n_behind = MIN(2 * p - 1, m) - 1;
  gint64 bubble_ns = (p - 1) * (times->f_ns + times->i_ns) - n_behind * times->w_ns;
  for (int q = 0; q < p; q++)
    bubble_ns = MAX(bubble_ns, (p - q - MIN(m, 2 * (p - q) - 1)) * times->f_ns + (p - 1 - q) * times->i_ns);
  return bubble_ns;
}

/* None at F = I = W from m = 2p on; else in each of the p − 1 turns half of 2(I − W) where F and W ≤ I, of 2F − I − W
 * where I ≤ W ≤ F. */
static gint64 zb_v_ns(int p, int v, int m, const Times *times) {
  gint64 f_ns = times->f_ns, i_ns = times->i_ns, w_ns = times->w_ns;
  return (p - 1) * (f_ns > i_ns ? 2 * f_ns - i_ns - w_ns : MAX(2 * (i_ns - w_ns), i_ns - f_ns)) / 2;
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

static int in_flight_of_all_chunks(int p, int v, int m, int rank) {
  return v * m;
}

/* W comes `rank` micro-batches late, for the `rank` forwards fewer. */
static int in_flight_of_zb_h1(int p, int v, int m, int rank) {
  return MIN(p, m);
}

static int in_flight_of_zb_h2(int p, int v, int m, int rank) {
  return MIN(2 * p - 1, m);
}

/* Chunks of half a rank; m ≥ 2p. */
static int in_flight_of_zb_v(int p, int v, int m, int rank) {
  return 2 * p;
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

static const Oracle looped_bfs = {"looped-bfs", 4, interleaved_ns, in_flight_of_all_chunks};
static const Oracle zb_h1 = {"zb-h1", 1, zb_h1_ns, in_flight_of_zb_h1};
static const Oracle zb_h2 = {"zb-h2", 1, zb_h2_ns, in_flight_of_zb_h2};
static const Oracle zb_v = {"zb-v", 2, zb_v_ns, in_flight_of_zb_v};

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
  double bound = schedule_bubble(schedule_find(oracle->name, NULL), (OrderShape){p, v, m, 0}, &phases).time;
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
  /* beyond 2p + 1 = 33 an order only goes on as it did: primes, powers of two, multiples of many p and their neighbours
   */
  static const int sparse[] = {41, 48, 63, 64, 65, 80, 97, 112, 127, MAX_MICRO_BATCHES};
  for (int m = 1; m <= 36; m++)
    assert_oracle(oracle, p, v, m, times);
  for (gsize i = 0; i < G_N_ELEMENTS(sparse); i++)
    assert_oracle(oracle, p, v, sparse[i], times);
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

START_TEST(interleaved_bubble_is_exact) {
  for (int v = 1; v <= MAX_CHUNKS; v++)
    assert_all_micro_batches(&interleaved, _i, v, &uniform);
}

/* One micro-batch; just fewer than ranks, as many, just more; one group and two, even and uneven; many groups, as even
 * as a power of two and a prime make them. */
static int edge_counts(int p, int counts[]) {
  const int wanted[] = {1, 2, p - 1, p, p + 1, 2 * p - 1, 2 * p, 2 * p + 1, 3 * p + p / 2, 127, MAX_MICRO_BATCHES};
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

START_TEST(zero_bubble_and_breadth_first_bubbles_are_exact) {
  const Oracle *oracles[] = {&looped_bfs, &zb_h1, &zb_h2, &zb_v};
  const Times times[] = {uniform, unequal[0], unequal[1]};
  const int counts[] = {1, _i - 1, _i, 2 * _i - 1, 2 * _i, 3 * _i + 1, 128};
  for (gsize k = 0; k < G_N_ELEMENTS(oracles); k++)
    for (gsize c = 0; c < G_N_ELEMENTS(counts); c++)
      for (gsize t = 0; t < G_N_ELEMENTS(times); t++)
        if (counts[c] >= (oracles[k] == &zb_v ? 2 * _i : 1))
          assert_oracle(oracles[k], _i, oracles[k]->max_chunks, counts[c], &times[t]);
}

/* Slots of a chunk, 420 ns, at F = I = W. v-half: 3p − 7 for even and 3p − 8 for odd p (p − 1 up to p = 3); v-min:
 * 4p − 7 for p = 2 mod 3, else 4p − 9; none on one rank. Chunks held: p + 3 and 2⌊p/3⌋ + 4 at most. */
START_TEST(half_and_least_memory_cost_the_known_bubble) {
  const int slots[] = {_i <= 3 ? _i - 1 : 3 * _i - 7 - _i % 2, _i == 1 ? 0 : 4 * _i - (_i % 3 == 2 ? 7 : 9)};
  const int held[] = {_i + 3, 2 * (_i / 3) + 4};
  const char *names[] = {"v-half", "v-min"};
  for (int k = 0; k < 2; k++)
    for (int m = _i + 1; m <= 128; m += 29) {
      g_autoptr(OrderRun) run = run_schedule(names[k], _i, 2, m, &uniform);
      int peak[MAX_RANKS];
      metrics_in_flight(run->trace, peak);
      for (int rank = 0; rank < _i; rank++)
        if (peak[rank] > held[k] || run->metrics->span_bubble_ns != slots[k] * (WHOLE_NS / 2))
          ck_abort_msg("%s p=%d m=%d: bubble %d of %d slots, rank %d holds %d", names[k], _i, m,
                       (int)run->metrics->span_bubble_ns, slots[k], rank, peak[rank]);
    }
}

/* (h − 1)(F&B + B − 3W) = (h − 1)(F + 2I − W) for pairs that gain nothing, with F and W ≤ I; h ranks from an end to
 * where the directions meet: p/2 of two pipes, p (of half a rank's times) on a V. Held: 2h + 1 stages' worth. */
static void assert_dualpipe(const char *name, int p, int m, const Times *times, int half, int n_passes) {
  g_autoptr(OrderRun) run = run_schedule(name, p, 2, m, times);
  gint64 bubble_ns = (half - 1) * (times->f_ns + 2 * times->i_ns - times->w_ns) / n_passes;
  int peak[MAX_RANKS];
  metrics_in_flight(run->trace, peak);
  for (int rank = 0; rank < p; rank++)
    if (peak[rank] != 2 * half + 1 || run->metrics->span_bubble_ns != bubble_ns)
      ck_abort_msg("%s p=%d m=%d: bubble %d, closed form %d; rank %d holds %d", name, p, m,
                   (int)run->metrics->span_bubble_ns, (int)bubble_ns, rank, peak[rank]);
}

START_TEST(dualpipe_has_the_published_bubble_and_memory) {
  const Times *times[] = {&uniform, &unequal[0]};
  for (gsize t = 0; t < G_N_ELEMENTS(times); t++)
    for (int m = 2 * _i; m <= 128; m += 27) {
      assert_dualpipe("dualpipe-v", _i, m, times[t], _i, 2);
      if (_i % 2 == 0)
        assert_dualpipe("dualpipe", _i, m + m % 2, times[t], _i / 2, 1);
    }
}

TEST(one_micro_batch_on_four_ranks_idles_three_quarters) {
  /* span 4·(F + B), work F + B: 3/4; as idle over ideal, 3 */
  const char *names[] = {"gpipe", "1f1b"};
  for (gsize i = 0; i < G_N_ELEMENTS(names); i++) {
    g_autoptr(OrderRun) run = run_schedule(names[i], 4, 1, 1, &uniform);
    ck_assert_double_eq_tol(order_run_bubble_fraction(run), 0.75, 1e-12);
    ck_assert_double_eq_tol(run->metrics->bubble_fraction, 0.75, 1e-12);
    ck_assert_double_eq_tol(run->metrics->bubble_overhead, 3, 1e-12);
  }
}

TEST(bubble_by_hand) {
  /* p = 4, m = 8, F = 2·840, B = 4·840: 3 · 6 · 840 = 15120 of a span of 11 · 6 · 840 = 55440; two chunks halve it */
  g_autoptr(OrderRun) flat = run_schedule("1f1b", 4, 1, 8, &unequal[0]);
  ck_assert_int_eq(flat->metrics->span_bubble_ns, 15120);
  ck_assert_int_eq(flat->metrics->span_ns, 55440);
  g_autoptr(OrderRun) chunked = run_schedule("interleaved", 4, 2, 8, &unequal[0]);
  ck_assert_int_eq(chunked->metrics->span_bubble_ns, 7560);
}

/* Cost grows with p, so the shares take every n-th p. */
int main(int argc, char **argv) {
  const int k = argc == 3 ? atoi(argv[1]) : 0, n = argc == 3 ? atoi(argv[2]) : 1;
  const TTest *const of_ranks[] = {gpipe_and_1f1b_bubbles_are_exact,
                                   interleaved_bubble_is_exact,
                                   interleaved_bubble_is_exact_with_unequal_times,
                                   zero_bubble_and_breadth_first_bubbles_are_exact,
                                   half_and_least_memory_cost_the_known_bubble,
                                   dualpipe_has_the_published_bubble_and_memory};
  for (int p = k + 1; p <= MAX_RANKS; p += n)
    for (gsize i = 0; i < G_N_ELEMENTS(of_ranks); i++)
      tcase_add_loop_test(listed_tests(), of_ranks[i], p, p + 1);
  return run_tests();
}
