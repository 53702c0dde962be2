/* Metrics of a run that leaves groups out are those of one that has them: small traces written down by hand. */
#include "metrics.h"

#include <check.h>
#include <string.h>

#include "hand_trace.h"

enum { PERIOD_NS = 10 };

static const Group dp_group = {
    .name = "dp", .axes = AXIS_BIT(AXIS_DP), .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};

/* A group, from k·10:     compute  B 0–6
 *                         dp           reduce 4–10, which the next group waits for
 * and behind the last an optimizer of 5. Everything is issued at once, or each B just before it starts. */
static Hand run_of(int n_groups, gboolean is_late) {
  Hand hand = hand_new(1, n_groups);
  gint32 reduce = -1;
  for (int k = 0; k < n_groups; k++) {
    const gint64 at_ns = k * PERIOD_NS;
    const Op backward = hand_compute(&hand, 0, PHASE_B, ACTION_B, k);
    hand_add(&hand, 0, is_late || reduce < 0 ? backward : hand_after(backward, reduce), is_late ? at_ns : 0, at_ns,
             at_ns + 6);
    reduce = hand_add(&hand, 0, hand_collective(&hand, &dp_group, STREAM_DP, ACTION_REDUCE_GRAD, 1e6), 0, at_ns + 4,
                      at_ns + PERIOD_NS);
  }
  const gint64 end_ns = n_groups * PERIOD_NS;
  hand_add(&hand, 0, hand_after(hand_compute(&hand, 0, PHASE_OPTIMIZER, ACTION_OPTIMIZER, -1), reduce), 0, end_ns,
           end_ns + 5);
  hand_finish(&hand);
  return hand;
}

/* Three groups are left out of which each does what ended in (36, 46]: the fourth's reduction, the fifth's B. */
static Omitted *three_more(const ProgramRepeats *repeats, gint32 n_early) {
  Omitted *omitted = g_malloc0(sizeof *omitted + sizeof(gint32));
  omitted->repeats = repeats;
  omitted->n_groups = 3;
  omitted->begin_ns = 3 * PERIOD_NS + 6;
  omitted->end_ns = 4 * PERIOD_NS + 6;
  omitted->n_early[0] = n_early;
  return omitted;
}

/* NULL: not known. */
static Metrics *metrics_of_six(gboolean is_late, gint32 n_early) {
  Hand six = run_of(6, is_late);
  RepeatedOps list = {.first = 0, .end = 10, .n_ops = 2};
  const ProgramRepeats repeats = {.program = six.program, .n_micro_batches = 1, .lists = &list};
  g_autofree Omitted *omitted = three_more(&repeats, n_early);
  Metrics *metrics = metrics_new_with(six.trace, omitted);
  hand_clear(&six);
  return metrics;
}

static void check_same(const Metrics *a, const Metrics *b) {
  ck_assert_int_eq(a->step_ns, b->step_ns);
  ck_assert_int_eq(a->span_ns, b->span_ns);
  ck_assert_int_eq(a->span_bubble_ns, b->span_bubble_ns);
  for (int kind = 0; kind < N_BREAKDOWN; kind++)
    ck_assert_int_eq(a->ranks[0].ns[kind], b->ranks[0].ns[kind]);
  for (int axis = 0; axis < N_AXES; axis++)
    ck_assert_int_eq(a->ranks[0].hidden_ns[axis], b->ranks[0].hidden_ns[axis]);
  ck_assert_mem_eq(a->mean_s, b->mean_s, sizeof a->mean_s);
}

START_TEST(what_is_left_out_is_charged_as_often_as_it_comes_about) {
  /* Nine groups of 6 compute and 4 of dp, 2 of whose 6 are hidden, and 5 of the optimizer; the span is from 0 to the
   * last B's end, 86, of which 54 are work. */
  Hand nine = run_of(9, FALSE);
  g_autoptr(Metrics) expected = metrics_new(nine.trace);
  g_autoptr(Metrics) found = metrics_of_six(FALSE, 13); /* all are issued early, and nothing rests on it */
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(found->step_ns, 95);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_COMPUTE], 54);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_DP], 36);
  ck_assert_int_eq(found->ranks[0].hidden_ns[AXIS_DP], 18);
  ck_assert_int_eq(found->span_ns, 86);
  ck_assert_int_eq(found->span_bubble_ns, 32);
  check_same(expected, found);
  hand_clear(&nine);
}
END_TEST

START_TEST(what_rests_on_a_launch_is_known_only_if_launches_repeat_too) {
  Hand nine = run_of(9, TRUE);
  g_autoptr(Metrics) expected = metrics_new(nine.trace);
  g_autoptr(Metrics) found = metrics_of_six(TRUE, 0);
  ck_assert_ptr_nonnull(found);
  ck_assert_int_eq(found->ranks[0].ns[BREAKDOWN_HOST], 8 * 4); /* before each B but the first */
  check_same(expected, found);
  ck_assert_ptr_null(metrics_of_six(TRUE, 13));
  /* the first four groups are issued early: the fourth's B ended in the period before */
  ck_assert_ptr_null(metrics_of_six(TRUE, 8));
  /* the first two: all that ended before it */
  g_autoptr(Metrics) early = metrics_of_six(TRUE, 4);
  ck_assert_ptr_nonnull(early);
  check_same(expected, early);
  hand_clear(&nine);
}
END_TEST

int main(void) {
  Suite *suite = suite_create("omitted");
  TCase *tcase = tcase_create("groups");
  tcase_add_test(tcase, what_is_left_out_is_charged_as_often_as_it_comes_about);
  tcase_add_test(tcase, what_rests_on_a_launch_is_known_only_if_launches_repeat_too);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed == 0 ? 0 : 1;
}
