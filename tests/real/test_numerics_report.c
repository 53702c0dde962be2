/* The bounds and the verdict of a numerics check. */
#include <check.h>
#include <math.h>
#include <string.h>

#include "method_of.h"
#include "numerics.h"
#include "plan.h"
#include "run_suite.h"

static CheckReport report_of(const Plan *plan, double loss, double reference) {
  CheckReport report = {0};
  check_report_init(&report, 1, method_of(plan));
  report.steps[0].loss = loss;
  report.steps[0].reference_loss = reference;
  check_report_judge(&report);
  return report;
}

static Plan *plan_of_tokens(Precision precision, gint64 sequences, gint64 seq_len) {
  Plan *plan = plan_new();
  plan->precision = precision;
  plan->global_batch = sequences;
  plan->seq_len = seq_len;
  return plan;
}

/* bf16 allows 2e-4 of a mean over 256 tokens and more; over 16, a 16th of them, √16 times as much. */
TEST(losses_of_few_tokens_may_differ_more) {
  g_autoptr(Plan) many = plan_of_tokens(PRECISION_BF16, 8, 512), usual = plan_of_tokens(PRECISION_BF16, 8, 32),
                  few = plan_of_tokens(PRECISION_BF16, 1, 16);
  const Plan *const plans[] = {many, usual, few};
  const double bounds[] = {2e-4, 2e-4, 8e-4};
  for (int i = 0; i < 3; i++) {
    CheckReport within = report_of(plans[i], 5 * (1 + 0.99 * bounds[i]), 5),
                beyond = report_of(plans[i], 5 * (1 + 1.01 * bounds[i]), 5);
    ck_assert(within.is_passed);
    ck_assert(!beyond.is_passed);
    check_report_clear(&within);
    check_report_clear(&beyond);
  }
}

/* The loss is off, but as off while nothing waits: that is no sign of something that is not waited for. */
TEST(a_timed_run_is_compared_with_the_checked_one) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP32, 8, 32);
  CheckReport report = report_of(plan, 5.1, 5);
  const double same = 5.1, other = 5;
  g_autoptr(GString) text = g_string_new(NULL);
  check_timed_losses(&report, &same);
  check_report_print(&report, text);
  ck_assert_double_eq(report.timed_loss_error, 0);
  ck_assert(!report.is_passed);
  ck_assert_ptr_null(strstr(text->str, "is not waited for"));
  check_timed_losses(&report, &other);
  check_report_print(&report, text);
  ck_assert_ptr_nonnull(strstr(text->str, "is not waited for"));
  check_report_clear(&report);
}

/* Of a step that is skipped only the loss is compared: a run of such says nothing of gradients. */
TEST(a_run_whose_steps_are_all_skipped_shows_nothing) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP16, 8, 32);
  CheckReport report = report_of(plan, 5, 5);
  ck_assert(report.is_passed);
  report.steps[0].is_skipped = TRUE;
  check_report_judge(&report);
  ck_assert(!report.is_passed);
  g_autoptr(GString) text = g_string_new(NULL);
  check_report_print(&report, text);
  ck_assert_ptr_nonnull(strstr(text->str, "all steps were skipped"));
  check_report_clear(&report);
}

/* What can be wrong with a check, at random; all that is, is said, and only then it fails. */
TEST(a_check_that_fails_says_why) {
  static const char *const words[] = {"numbers are on no rank",          "the loss is off",
                                      "gradients are off, layers.0",     "updates are off, layers.1",
                                      "the loss's scale, 8 here",        "something is not waited for",
                                      "in fp32: step 0: the loss is off"};
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP16, 8, 32), exact = plan_of_tokens(PRECISION_FP32, 8, 32);
  for (guint wrong = 0; wrong < 1 << G_N_ELEMENTS(words); wrong++) {
    CheckReport report = report_of(plan, wrong & 2 ? 6 : 5, 5);
    report.n_missing = wrong & 1;
    check_report_note_gradient(&report, 0, "layers.0", wrong & 4 ? NAN : 0, 0);
    report.steps[0].update_error = wrong & 8 ? 1 : 0;
    g_strlcpy(report.steps[0].update_worst, "layers.1", sizeof report.steps[0].update_worst);
    report.steps[0].scales_differ = (wrong & 16) != 0;
    report.steps[0].scale = 8;
    report.in_fp32 = g_new(CheckReport, 1);
    *report.in_fp32 = report_of(exact, wrong & 64 ? 6 : 5, 5);
    const double timed = report.steps[0].loss * (wrong & 32 ? 2 : 1);
    check_timed_losses(&report, &timed);
    ck_assert_int_eq(report.is_passed, wrong == 0);
    g_autoptr(GPtrArray) reasons = check_report_reasons(&report);
    g_ptr_array_add(reasons, NULL);
    g_autofree char *all = g_strjoinv("\n", (char **)reasons->pdata);
    for (guint i = 0; i < G_N_ELEMENTS(words); i++) /* in fp32 a loss is off in the same words */
      ck_assert_msg((strstr(all, words[i]) != NULL) == ((wrong >> i & 1) != 0 || (i == 1 && (wrong & 64) != 0)),
                    "%u: %s", wrong, all);
    check_report_clear(&report);
  }
}

/* Of a step that only one side skips the other's gradients are not finite: it is said who, and nothing is compared. */
TEST(a_step_that_one_side_skips_is_named) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP16, 8, 32);
  static const char *const says[] = {"the one rank skips, and the ranks do not, the step at the loss's scale 1024",
                                     "the ranks skip, and the one rank does not, the step at the loss's scale 1024"};
  for (int of_ranks = 0; of_ranks < 2; of_ranks++) {
    CheckReport report = report_of(plan, 5, 5);
    CheckedStep *step = &report.steps[0];
    step->is_skipped = of_ranks;
    step->skips_differ = step->scales_differ = TRUE;
    step->scale = 1024;
    check_report_judge(&report);
    ck_assert(!report.is_passed);
    g_autoptr(GString) text = g_string_new(NULL);
    check_report_print(&report, text);
    ck_assert_ptr_nonnull(strstr(text->str, says[of_ranks]));
    ck_assert_ptr_null(strstr(text->str, "nan"));
    check_report_clear(&report);
  }
}

/* What rounding does to a loss widens its bound, but to a hundredth at most, and not by a step that is skipped. */
TEST(rounding_widens_a_loss_only_so_far) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_BF16, 8, 32);
  CheckReport report = report_of(plan, 5.04, 5);
  check_report_note_exact_loss(&report, 0, 4.98); /* 0.4 %, three times that 1.2 % */
  check_report_judge(&report);
  ck_assert(report.is_passed);
  report.steps[0].loss = 5.055; /* 1.1 % */
  check_report_judge(&report);
  ck_assert(!report.is_passed);
  report.loss_rounding = 0;
  report.steps[0].is_skipped = TRUE;
  check_report_note_exact_loss(&report, 0, 1);
  ck_assert_double_eq(report.loss_rounding, 0);
  check_report_clear(&report);
}

/* A vocabulary of one word has nothing to be wrong about. */
TEST(no_loss_is_as_good_as_no_loss) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP32, 8, 32);
  CheckReport none = report_of(plan, 0, 0), some = report_of(plan, 0.1, 0);
  const double nothing = 0;
  check_timed_losses(&none, &nothing);
  ck_assert(none.is_passed);
  ck_assert(!some.is_passed);
  check_report_clear(&none);
  check_report_clear(&some);
}

static gboolean is_equal(Precision precision, double error, double rounding) {
  g_autoptr(Plan) plan = plan_of_tokens(precision, 8, 32);
  CheckReport report = report_of(plan, 5, 5);
  check_report_note_gradient(&report, 0, "layers.0.q.weight", error, rounding);
  check_report_judge(&report);
  const gboolean is_passed = report.is_passed;
  check_report_clear(&report);
  return is_passed;
}

/* bf16 allows 8e-2 and, where that is more, three times what rounding does, but no more than a half. */
TEST(gradients_may_be_off_by_what_rounding_does) {
  ck_assert(is_equal(PRECISION_BF16, 0.079, 0) && !is_equal(PRECISION_BF16, 0.081, 0));
  ck_assert(is_equal(PRECISION_BF16, 0.079, 0.01) && !is_equal(PRECISION_BF16, 0.081, 0.01));
  ck_assert(is_equal(PRECISION_BF16, 0.299, 0.1) && !is_equal(PRECISION_BF16, 0.301, 0.1));
  ck_assert(is_equal(PRECISION_BF16, 0.499, 0.4) && !is_equal(PRECISION_BF16, 0.501, 0.4));
  ck_assert(!is_equal(PRECISION_BF16, NAN, 0.4));
  ck_assert(is_equal(PRECISION_FP32, 0.99e-5, 0) && !is_equal(PRECISION_FP32, 1.01e-5, 0));
}

/* A loss may be off by three times what rounding does; the report says how much that is, and when it is too much. */
TEST(a_report_says_what_rounding_does) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_BF16, 8, 32);
  CheckReport report = report_of(plan, 5.0025, 5); /* 5e-4 */
  ck_assert(!report.is_passed);
  report.knows_rounding = TRUE;
  report.loss_rounding = 2e-4;
  check_report_note_gradient(&report, 0, "layers.0.q.weight", 0.2, 0.1);
  check_report_judge(&report);
  ck_assert(report.is_passed);
  g_autoptr(GString) right = g_string_new(NULL), wrong = g_string_new(NULL);
  check_report_print(&report, right);
  ck_assert_ptr_nonnull(strstr(right->str, "or 3 times what rounding does: one rank's gradients are up to 0.1 off"));
  ck_assert_ptr_null(strstr(right->str, "too much to tell"));
  check_report_note_gradient(&report, 0, "layers.0.k.weight", 0.7, 0.2);
  check_report_judge(&report);
  check_report_print(&report, wrong);
  ck_assert_ptr_nonnull(strstr(wrong->str, "that is too much to tell right from wrong: --precision fp32 tells"));
  check_report_clear(&report);
}

/* A gradient that is 1 % off passes in bf16; where it is as far off in fp32, the Program is wrong. */
/* What fp8 does to one rank has bounds of its own: conversions that are wrong are so on all ranks alike. */
TEST(fp8_is_near_bf16) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_FP8, 8, 32);
  static const struct {
    double mean, loss; /* of the gradients' errors; of the run in bf16 */
    gboolean is_near;
  } cases[] = {{0.49, 5, TRUE}, {0.51, 5, FALSE}, {0.1, 5 * (1 + 1.9e-3), TRUE}, {0.1, 5 * (1 + 2.1e-3), FALSE}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    CheckReport report = report_of(plan, 5, 5);
    g_autoptr(GString) text = g_string_new(NULL);
    report.knows_rounding = TRUE;
    check_report_note_rounding(&report, 0.05);
    check_report_note_rounding(&report, cases[i].mean);
    check_report_note_exact_loss(&report, 0, cases[i].loss);
    check_report_judge(&report);
    ck_assert_int_eq(report.is_passed, cases[i].is_near);
    check_report_print(&report, text);
    ck_assert_int_eq(strstr(text->str, "one rank against bf16: near") != NULL, cases[i].is_near);
    check_report_clear(&report);
  }
}

TEST(what_bf16_lets_pass_is_seen_in_fp32) {
  g_autoptr(Plan) plan = plan_of_tokens(PRECISION_BF16, 8, 32), exact = plan_of_tokens(PRECISION_FP32, 8, 32);
  const double errors[] = {1e-7, 1e-2};
  for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
    CheckReport report = report_of(plan, 5, 5);
    report.in_fp32 = g_new(CheckReport, 1);
    *report.in_fp32 = report_of(exact, 5, 5);
    check_report_note_gradient(&report, 0, "layers.0.q.weight", 1e-2, 0);
    check_report_note_gradient(report.in_fp32, 0, "layers.0.q.weight", errors[is_wrong], 0);
    check_report_judge(report.in_fp32);
    check_report_judge(&report);
    ck_assert_int_eq(report.is_passed, !is_wrong);
    g_autoptr(GString) text = g_string_new(NULL);
    check_report_print(&report, text);
    const char *in_fp32 = strstr(text->str, "the same Program in fp32");
    ck_assert_ptr_nonnull(in_fp32);
    ck_assert_int_eq(strstr(in_fp32, "NOT EQUAL") != NULL, is_wrong);
    check_report_clear(&report);
    ck_assert_ptr_null(report.in_fp32);
  }
}

int main(void) {
  return run_tests();
}
