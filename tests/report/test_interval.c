/* How far off a prediction may be, by the shipped errors: whose it takes, and how it is said. */
#include "cluster.h"
#include "interval.h"
#include "run_suite.h"
#include "text_file.h"

#include <math.h>

static Interval found(const Cluster *cluster, const char *framework, int n_gpus, gboolean has_experts) {
  const IntervalCase predicted = {cluster, framework, n_gpus, has_experts, 10};
  g_autoptr(GError) error = NULL;
  Interval interval;
  ck_assert_msg(interval_find(&predicted, &interval, &error), "%s", error != NULL ? error->message : "");
  ck_assert_double_le(interval.low_s, 10);
  ck_assert_double_ge(interval.high_s, 10);
  ck_assert_double_lt(interval.low_s, interval.high_s);
  return interval;
}

static Cluster *cluster_of(const char *text) {
  g_autoptr(GError) error = NULL;
  Cluster *cluster = cluster_parse("mine.yaml", text, &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

static double width(const Interval *interval) {
  return log(interval->high_s / interval->low_s);
}

/* dgx-h100 with nemo has well over a hundred published steps over several domains, in a domain and with experts fewer;
 * it has none with internevo. */
TEST(steps_of_the_same_machine_and_framework_come_first) {
  g_autoptr(Cluster) cluster = cluster_read("dgx-h100", NULL);
  const Interval seen = found(cluster, "nemo", 64, FALSE), near = found(cluster, "nemo", 8, FALSE),
                 experts = found(cluster, "nemo", 64, TRUE), first_look = found(cluster, "internevo", 64, FALSE),
                 undescribed = found(cluster, NULL, 64, FALSE);
  ck_assert_int_eq(seen.basis, INTERVAL_OF_ROWS);
  ck_assert_int_gt(seen.n_rows, 100);
  ck_assert_int_eq(near.basis, INTERVAL_OF_ROWS);
  ck_assert_int_lt(near.n_rows, seen.n_rows);
  ck_assert_int_eq(experts.basis, INTERVAL_OF_ROWS);
  ck_assert_int_lt(experts.n_rows, near.n_rows);
  ck_assert_int_eq(first_look.basis, INTERVAL_FIRST_LOOK);
  ck_assert_int_eq(undescribed.basis, INTERVAL_UNDESCRIBED);
  ck_assert_double_lt(width(&seen), width(&first_look));
  ck_assert_double_lt(width(&first_look), width(&undescribed));
  ck_assert_double_gt(seen.ratio, 0); /* and plans of one machine have most of their error in common: */
  ck_assert_double_lt(seen.ratio, first_look.high_s / 10 - 1);
}

/* A file over a shipped one is another machine, with the same GPUs. */
TEST(a_file_over_a_shipped_one_is_seen_for_the_first_time) {
  g_autoptr(Cluster) mine = cluster_of("base: dgx-h100\nname: dgx-h100\n");
  const Interval interval = found(mine, "nemo", 64, FALSE);
  ck_assert_int_eq(interval.basis, INTERVAL_FIRST_LOOK);
}

/* ln(measured / predicted) is within 0.05 four times of five; the ratio of two plans then within √2 · 0.05. */
TEST(a_clusters_own_runs_narrow_it) {
  g_autoptr(Cluster) mine = cluster_of("base: dgx-h100\nname: mine\nas_run: {error: 0.05}\n");
  const Interval interval = found(mine, "nemo", 64, FALSE);
  ck_assert_int_eq(interval.basis, INTERVAL_OF_RUNS);
  ck_assert_double_eq_tol(interval.low_s, 10 * exp(-0.05), 1e-12);
  ck_assert_double_eq_tol(interval.high_s, 10 * exp(0.05), 1e-12);
  ck_assert_double_le(interval.ratio, expm1(G_SQRT2 * 0.05));
}

/* No published step has an L40S. */
TEST(a_gpu_without_published_steps_is_as_far_off_as_no_framework) {
  g_autoptr(Cluster) known = cluster_read("dgx-h100", NULL), unknown = cluster_read("l40s-pcie", NULL);
  const Interval interval = found(unknown, "nemo", 8, FALSE), undescribed = found(known, NULL, 8, FALSE);
  ck_assert_int_eq(interval.basis, INTERVAL_NEW_GPU);
  ck_assert_double_eq(interval.high_s, undescribed.high_s);
}

TEST(it_is_said_in_three_digits_and_one_unit_where_both_ends_have_it) {
  static const struct {
    double low_s, high_s;
    const char *text;
  } cases[] = {{11.5, 13.4, "11.5 to 13.4 s"}, {0.9123, 1.1, "912 ms to 1.1 s"}, {100.4, 123.4, "1.67 to 2.05 min"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    const Interval interval = {.low_s = cases[i].low_s, .high_s = cases[i].high_s, .basis = INTERVAL_OF_RUNS};
    g_autoptr(GString) text = g_string_new(NULL);
    interval_append_range(text, &interval);
    ck_assert_str_eq(text->str, cases[i].text);
  }
  g_autoptr(GString) measured = g_string_new(NULL);
  interval_append(measured, &(Interval){0}); /* of a step that was measured */
  ck_assert_str_eq(measured->str, "");
}

int main(void) {
  return run_tests();
}
