/* What transfers cost the kernels they overlap, computed by hand. Times in nanoseconds. */
#include "engine_fixture.h"
#include "method_of.h"
#include "plan_cases.h"
#include "run_suite.h"
#include "tax.h"
#include "transfer_tax.h"

/* The end of a kernel of [start_ns, end_ns) beside [100, 150). */
static gint64 end_beside(double tax, gint64 start_ns, gint64 end_ns) {
  g_auto(TaxedTime) time = {.n_spans = 0};
  tax_add(&time, tax_span(100, 150, tax));
  return tax_begin_kernel(&time, start_ns, end_ns);
}

TEST(a_kernel_loses_the_tax_of_the_part_it_runs_beside) {
  ck_assert_int_eq(end_beside(1, 0, 100), 100);   /* ended before */
  ck_assert_int_eq(end_beside(1, 150, 190), 190); /* begins after */
  ck_assert_int_eq(end_beside(1, 0, 120), 170);   /* stands still for 50 */
  ck_assert_int_eq(end_beside(1, 130, 140), 160); /* … for the 20 that are left */
  ck_assert_int_eq(end_beside(2, 0, 120), 220);
  ck_assert_int_eq(end_beside(0.5, 0, 120), 140); /* 20 left at half the rate */
  ck_assert_int_eq(end_beside(0.5, 0, 200), 225); /* 25 of 50 lost */
  ck_assert_int_eq(end_beside(0, 0, 200), 200);
}

TEST(transfers_that_overlap_count_once) {
  g_auto(TaxedTime) time = {.n_spans = 0};
  tax_add(&time, tax_span(10, 30, 1));
  tax_add(&time, tax_span(15, 25, 1));
  tax_add(&time, tax_span(20, 50, 1));
  ck_assert_int_eq(tax_begin_kernel(&time, 0, 20), 60); /* 10 before, then still from 10 to 50, 10 more */
  tax_add(&time, tax_span(40, 150, 0.5));
  ck_assert_int_eq(tax_end_of_kernel(&time), 70);          /* the 10 at half the rate */
  ck_assert_int_eq(tax_begin_kernel(&time, 0, 50), 130);   /* 40 left at 50 */
  ck_assert_int_eq(tax_begin_kernel(&time, 60, 106), 151); /* all but the last 1 in 150 − 60 = 2 · 45 */
}

enum { N_DRAWN = 12, SPAN_END = 64 };

/* When a kernel of [start_ns, start_ns + run_ns) ends beside all of `spans`, a nanosecond after the other. Taxes are in
 * quarters: sums are exact. */
static gint64 end_step_by_step(const TaxSpan *spans, gint64 start_ns, gint64 run_ns) {
  double left = (double)run_ns;
  gint64 at_ns = start_ns;
  for (; left > 0; at_ns++) {
    gint64 tax = 0;
    for (int i = 0; i < N_DRAWN; i++)
      if (spans[i].from_ns <= at_ns && at_ns < spans[i].to_ns)
        tax = MAX(tax, spans[i].tax);
    left -= 1 - (double)tax / (double)TAX_WHOLE;
  }
  return at_ns;
}

/* Whatever the order in which transfers are known, and whether before the kernel or after, it ends as by the largest
 * tax of each moment. */
TEST(the_order_in_which_transfers_are_known_does_not_matter) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(1);
  for (int round = 0; round < 2000; round++) {
    TaxSpan spans[N_DRAWN];
    g_auto(TaxedTime) before = {.n_spans = 0}, after = {.n_spans = 0};
    const gint64 start_ns = g_rand_int_range(rand, 0, SPAN_END), run_ns = g_rand_int_range(rand, 0, SPAN_END);
    tax_begin_kernel(&after, start_ns, start_ns + run_ns);
    for (int i = 0; i < N_DRAWN; i++) {
      const gint64 from_ns = g_rand_int_range(rand, 0, SPAN_END);
      spans[i] =
          tax_span(from_ns, g_rand_int_range(rand, (gint32)from_ns, SPAN_END + 1), 0.25 * g_rand_int_range(rand, 0, 6));
      tax_add(&after, spans[i]);
    }
    for (int i = N_DRAWN - 1; i >= 0; i--)
      tax_add(&before, spans[i]);
    const gint64 expected_ns = end_step_by_step(spans, start_ns, run_ns);
    ck_assert_int_eq(tax_end_of_kernel(&after), expected_ns);
    ck_assert_int_eq(tax_begin_kernel(&before, start_ns, start_ns + run_ns), expected_ns);
  }
}

/* 100 transfers of 5 every 10 beside one kernel of 1000: it loses half of each. */
TEST(a_long_kernel_loses_to_all_transfers_beside_it) {
  g_auto(TaxedTime) time = {.n_spans = 0};
  tax_begin_kernel(&time, 0, 1000);
  for (int i = 0; i < 100; i++)
    tax_add(&time, tax_span(10 * i, 10 * i + 5, 0.5));
  ck_assert_int_eq(tax_end_of_kernel(&time), 1250);
}

/* The same 100, and then one known late, from 10 to 1010: at 1010 the kernel has done 2.5 + 5 + 500 of its 1000, as the
 * short ones cost it nothing more than the long one. */
TEST(a_long_transfer_known_late_counts_once_beside_short_ones) {
  g_auto(TaxedTime) time = {.n_spans = 0};
  tax_begin_kernel(&time, 0, 1000);
  for (int i = 0; i < 100; i++)
    tax_add(&time, tax_span(10 * i, 10 * i + 5, 0.5));
  tax_add(&time, tax_span(10, 1010, 0.5));
  ck_assert_int_eq(tax_end_of_kernel(&time), 1503); /* 1010 + 492.5, up */
}

static Trace *run_taxed(Hand *hand, double tax) {
  double taxes[4];
  g_assert(hand->program->transfers->len <= G_N_ELEMENTS(taxes));
  for (gsize i = 0; i < G_N_ELEMENTS(taxes); i++)
    taxes[i] = tax;
  hand->timing.taxes = taxes;
  Trace *trace = run_folded(hand);
  hand->timing.taxes = NULL;
  return trace;
}

/* Two kernels of 20 and 30, a collective of 25 from the end of the first on; a third kernel waits for it:
 *
 *     compute   | 20 |  30 beside it      |   5 |
 *     dp             |  25  |                                            */
TEST(kernels_beside_a_collective_end_later) {
  g_auto(Hand) hand = hand_of(1);
  const int first = hand_compute(&hand, 0, hand_kernel(20));
  const int collective = hand_collective(&hand, 0, STREAM_DP, dp_group, hand_kernel(25));
  hand_after(&hand, 0, collective, first);
  const int beside = hand_compute(&hand, 0, hand_kernel(30));
  const int last = hand_compute(&hand, 0, hand_kernel(5));
  hand_after(&hand, 0, last, collective);
  const double taxes[] = {0, 0.2, 1};
  const gint64 ends[] = {50, 55, 75}; /* 20 + 30, + 0.2·25, + 25 */
  for (gsize i = 0; i < G_N_ELEMENTS(taxes); i++) {
    g_autoptr(Trace) trace = run_taxed(&hand, taxes[i]);
    ASSERT_RECORD(trace, 0, collective, 20, 45);
    ASSERT_RECORD(trace, 0, beside, 20, ends[i]);
    ASSERT_RECORD(trace, 0, last, ends[i], ends[i] + 5);
  }
}

/* Two collectives begin together beside a kernel of 40: of 20, at half a tax, and of 10, free. It loses 10, in
 * whatever order they stand. */
TEST(a_free_transfer_does_not_hide_one_that_is_not) {
  for (int free_first = 0; free_first < 2; free_first++) {
    g_auto(Hand) hand = hand_of(1);
    for (int i = 0; i < 2; i++)
      hand_collective(&hand, 0, i == 0 ? STREAM_TP : STREAM_DP, dp_group, hand_kernel(i == free_first ? 20 : 10));
    const int kernel = hand_compute(&hand, 0, hand_kernel(40));
    ck_assert_int_eq(hand.transfers->len, 2);
    double taxes[2];
    for (int i = 0; i < 2; i++)
      taxes[i] = g_array_index(hand.transfers, OpTime, i).run_ns == 20 ? 0.5 : 0;
    hand.timing.taxes = taxes;
    g_autoptr(Trace) trace = run_folded(&hand);
    ASSERT_RECORD(trace, 0, kernel, 0, 50);
  }
}

/* A collective that begins in the middle of a kernel moves the end that was already known: rank 1's kernel of 40 has
 * run 10 when rank 0 sends for 20. */
TEST(a_running_kernel_ends_later_when_a_transfer_begins) {
  g_auto(Hand) hand = hand_of(2);
  const int before = hand_compute(&hand, 0, hand_kernel(10));
  const int send = hand_send(&hand, 0, 1, 0, 1 << 20, hand_kernel(20));
  hand_after(&hand, 0, send, before);
  const int receive = hand_receive(&hand, 1, 0, 0, 1 << 20, hand_kernel(20));
  const int kernel = hand_compute(&hand, 1, hand_kernel(40));
  const int behind = hand_compute(&hand, 1, hand_kernel(1));
  g_autoptr(Trace) trace = run_taxed(&hand, 0.5);
  ASSERT_RECORD(trace, 1, receive, 0, 30);
  ASSERT_RECORD(trace, 1, kernel, 0, 50); /* 40 + 0.5·20 */
  ASSERT_RECORD(trace, 1, behind, 50, 51);
}

/* One representative per pipeline rank is still enough, and a tax never shortens a step. */
TEST(folded_taxed_run_is_the_run_of_all_ranks) {
  for (guint seed = 0; seed < 40; seed++) {
    g_auto(Case) drawn = random_case(seed, case_clusters(), 32);
    Cluster *cluster = (Cluster *)drawn.cluster;
    cluster->transfer_tax = (TransferTax){{0}, FALSE};
    g_autoptr(Prediction) untaxed = predict_case(&drawn);
    /* by channels, or another one for each kind of link */
    cluster->transfer_tax = (TransferTax){{0.3, 0.2, 0.1}, seed % 2 == 0};
    g_autoptr(Prediction) folded = predict_case(&drawn), all = predict_unfolded(&drawn);
    assert_same_metrics(&drawn, folded, all);
    ck_assert_int_ge(folded->metrics->step_ns, untaxed->metrics->step_ns);
  }
}

static void assert_tax(double tax, double expected) {
  ck_assert_double_eq_tol(tax, expected, 1e-12);
}

TEST(a_transfer_costs_what_its_links_or_its_channels_do) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  int gpus[16];
  for (int i = 0; i < 16; i++)
    gpus[i] = i;
  const int pair[] = {0, 8};
  const GroupShape node = layout_shape_of(cluster, gpus, 8), nodes = layout_shape_of(cluster, gpus, 16),
                   lone = layout_shape_of(cluster, pair, 2);
  const double bytes = 256 << 20;
  const CollectiveCost inside = collective_cost(cluster, COLLECTIVE_ALL_GATHER, &node, bytes, ALGORITHM_RING),
                       beyond = collective_cost(cluster, COLLECTIVE_ALL_GATHER, &nodes, bytes, ALGORITHM_RING),
                       alone = collective_cost(cluster, COLLECTIVE_ALL_GATHER, &lone, bytes, ALGORITHM_RING);
  ck_assert(!transfer_tax_is_stated(cluster));
  assert_tax(collective_tax(cluster, &beyond), 0);
  assert_tax(collective_tax(cluster, &inside), 0);
  cluster->transfer_tax = (TransferTax){.of_link = {[LINK_NVLINK] = 0.15, [LINK_NET] = 0.02}};
  ck_assert(transfer_tax_is_stated(cluster));
  assert_tax(collective_tax(cluster, &inside), 0.15);
  assert_tax(collective_tax(cluster, &beyond), cluster->transfer_tax.of_link[beyond.link]);
  assert_tax(collective_tax(cluster, &alone), 0.02);
  assert_tax(send_tax(cluster, 0, 7), 0.15);
  assert_tax(send_tax(cluster, 0, 8), 0.02);
  /* of 132 SMs: 24 channels inside, two for each of 8 NICs, two for each of the two of a lone NIC; a send has 50 GB/s
   * over 14, rounded up */
  cluster->transfer_tax = (TransferTax){.by_channels = TRUE};
  ck_assert(transfer_tax_is_stated(cluster));
  assert_tax(collective_tax(cluster, &inside), 24.0 / 132);
  assert_tax(collective_tax(cluster, &beyond), 16.0 / 132);
  assert_tax(collective_tax(cluster, &alone), 4.0 / 132);
  assert_tax(send_tax(cluster, 0, 8), 4.0 / 132);
}

int main(void) {
  return run_tests();
}
