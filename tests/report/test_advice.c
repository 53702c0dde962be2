/* What a report advises: the largest parts of a step, and what would change them. */
#include <check.h>
#include <string.h>

#include "advice.h"
#include "sample_report.h"

static char *advice_text(const StepReport *report) {
  g_autoptr(GPtrArray) advice = advice_new(report);
  GString *all = g_string_new(NULL);
  for (guint i = 0; i < advice->len; i++)
    g_string_append_printf(all, "%s\n", (const char *)advice->pdata[i]);
  return g_string_free(all, FALSE);
}

START_TEST(a_large_bubble_is_met_with_numbers) {
  /* Bubble 0.4 of 2 s: twice the micro-batches leave 0.2 / (1.6 + 0.2) = 11.1 %. For 1F1B with p, m and equal stages
   * that is the closed form: (p−1)/(m+p−1) = 0.2 at p−1 = 1, m = 4; 1/9 at m = 8. */
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  g_autofree char *text = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(text, "20.0 % of the step"));
  ck_assert_ptr_nonnull(strstr(text, "16 micro-batches"));
  ck_assert_ptr_nonnull(strstr(text, "11.1 %"));
}
END_TEST

START_TEST(more_micro_batches_do_not_help_against_uneven_stages) {
  /* Of 0.4 of 2 s ranks wait 0.3 s for the fullest of them, which twice the micro-batches keep: (0.3 + 0.05) /
   * (1.6 + 0.35) = 17.9 %. */
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.uneven_s = 0.3;
  g_autofree char *text = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(text, "15.0 % as the fullest of them is longer than the others"));
  ck_assert_ptr_nonnull(strstr(text, "17.9 %"));
}
END_TEST

/* Ranks that wait 3, 1 and 2 ns: on the mean one longer than the least. */
START_TEST(what_ranks_wait_longer_than_the_fullest_is_unevenness) {
  RankBreakdown ranks[3] = {
      {.ns = {[BREAKDOWN_BUBBLE] = 3}}, {.ns = {[BREAKDOWN_BUBBLE] = 1}}, {.ns = {[BREAKDOWN_BUBBLE] = 2}}};
  const Metrics metrics = {.step_ns = 9, .ranks = ranks, .n_ranks = 3, .mean_s = {[BREAKDOWN_BUBBLE] = 2e-9}};
  StepReport report = {0};
  step_report_set_metrics(&report, &metrics);
  ck_assert_double_eq_tol(report.uneven_s, 1e-9, 1e-20);
}
END_TEST

START_TEST(what_a_framework_cannot_do_is_not_advised) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.breakdown_s[BREAKDOWN_DP] = 1.0;
  plan.overlap_grad = FALSE;
  g_autofree char *any = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(any, "--overlap-grad on"));
  plan.framework = (char *)"megatron-deepspeed";
  plan.time.data_parallel = DP_ALONE;
  g_autofree char *alone = advice_text(&report);
  ck_assert_ptr_null(strstr(alone, "--overlap-grad on"));
  ck_assert_ptr_nonnull(strstr(alone, "megatron-deepspeed runs its collectives beside nothing"));
}
END_TEST

/* Kernels run 1.5 s of 2 s at an HFU of 0.3, which is 0.4 of the peak. Where the fullest rank has twice the mean's work
 * that is 0.8 of what it does: larger products would not help. */
START_TEST(an_uneven_load_is_not_taken_for_small_products) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.breakdown_s[BREAKDOWN_COMPUTE] = 1.5;
  report.breakdown_s[BREAKDOWN_RECOMPUTE] = 0;
  report.hfu = 0.3;
  g_autofree char *even = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(even, "products are small"));
  plan.expert_load = 2;
  g_autofree char *uneven = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(uneven, "2 times the mean's work"));
  ck_assert_ptr_null(strstr(uneven, "products are small"));
}
END_TEST

START_TEST(the_largest_part_comes_first) {
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.breakdown_s[BREAKDOWN_COMPUTE] = 0.2;
  report.breakdown_s[BREAKDOWN_TP] = 1.0;
  report.breakdown_s[BREAKDOWN_DP] = 0.4;
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert(g_str_has_prefix(advice->pdata[0], "tensor parallelism: 50.0 %"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--sequence-parallel on"));
  plan.sequence_parallel = TRUE;
  report.domain_gpus = 2; /* tp 4 leaves the domain */
  g_autofree char *text = advice_text(&report);
  ck_assert_ptr_null(strstr(text, "--sequence-parallel on"));
  ck_assert_ptr_nonnull(strstr(text, "beyond the 2 GPUs"));
}
END_TEST

START_TEST(exposed_exchange_with_experts_is_named_with_its_reach) {
  /* experts cut by tp 4, over 4 ranks of dp: 16 ranks next to each other, on domains of 8 */
  Plan plan = sample_plan();
  plan.ep = 4;
  StepReport report = sample_report(&plan);
  report.breakdown_s[BREAKDOWN_EP] = 1.0;
  report.domain_gpus = 8;
  g_autofree char *text = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(text, "experts: 50.0 %"));
  ck_assert_ptr_nonnull(strstr(text, "beyond the 8 GPUs"));
  ck_assert_ptr_nonnull(strstr(text, "--schedule dualpipe"));
  plan.expert_tp = 1; /* whole ones: 4 ranks */
  plan.schedule = (char *)"dualpipe-v";
  g_autofree char *inside = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(inside, "experts: 50.0 %"));
  ck_assert_ptr_null(strstr(inside, "beyond"));
  ck_assert_ptr_null(strstr(inside, "--schedule dualpipe"));
}
END_TEST

START_TEST(exposed_exchange_of_keys_is_named_with_its_reach) {
  /* tp 4 × cp 4 = 16 ranks next to each other, on domains of 8 */
  Plan plan = sample_plan();
  plan.cp = 4;
  plan.cp_comm = CP_ALL_GATHER;
  StepReport report = sample_report(&plan);
  report.breakdown_s[BREAKDOWN_CP] = 1.0;
  report.domain_gpus = 8;
  g_autofree char *text = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(text, "context parallelism: 50.0 %"));
  ck_assert_ptr_nonnull(strstr(text, "(cp 4, all_gather)"));
  ck_assert_ptr_nonnull(strstr(text, "tp × cp = 16 reaches beyond the 8 GPUs"));
  ck_assert_ptr_nonnull(strstr(text, "--cp-comm ring"));
  plan.cp_comm = CP_RING;
  report.domain_gpus = 16;
  g_autofree char *fitting = advice_text(&report);
  ck_assert_ptr_nonnull(strstr(fitting, "(cp 4, ring)"));
  ck_assert_ptr_null(strstr(fitting, "beyond"));
  ck_assert_ptr_null(strstr(fitting, "--cp-comm ring"));
}
END_TEST

START_TEST(memory_that_does_not_fit_comes_before_all) {
  /* 30 + 2 GB on 24: 8 too many. Over dp 2, ZeRO-1 halves 12 GB of optimizer state; ZeRO-2 also 4 GB of gradients. */
  Plan plan = sample_plan();
  StepReport report = sample_report(&plan);
  report.capacity_bytes = 24e9;
  report.fits = FALSE;
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert(g_str_has_prefix(advice->pdata[0], "memory: does not fit, 8.0 GB too many on rank 1."));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--zero 1 saves 6.0 GB"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--zero 2 saves 8.0 GB"));
  ck_assert_ptr_nonnull(strstr(advice->pdata[0], "--micro-batch 1 saves 4.5 GB")); /* half of 9 GB of activations */
}
END_TEST

START_TEST(options_already_taken_are_not_advised) {
  Plan plan = sample_plan();
  plan.zero = 3;
  plan.recompute = RECOMPUTE_FULL;
  plan.micro_batch = 1;
  plan.sequence_parallel = TRUE;
  StepReport report = sample_report(&plan);
  report.capacity_bytes = 24e9;
  report.fits = FALSE;
  g_autoptr(GPtrArray) advice = advice_new(&report);
  ck_assert_ptr_null(strstr(advice->pdata[0], "--zero"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--recompute"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--micro-batch"));
  ck_assert_ptr_null(strstr(advice->pdata[0], "--sequence-parallel"));
}
END_TEST

int main(void) {
  Suite *suite = suite_create("advice");
  TCase *tcase = tcase_create("rules");
  tcase_add_test(tcase, a_large_bubble_is_met_with_numbers);
  tcase_add_test(tcase, more_micro_batches_do_not_help_against_uneven_stages);
  tcase_add_test(tcase, what_ranks_wait_longer_than_the_fullest_is_unevenness);
  tcase_add_test(tcase, what_a_framework_cannot_do_is_not_advised);
  tcase_add_test(tcase, an_uneven_load_is_not_taken_for_small_products);
  tcase_add_test(tcase, the_largest_part_comes_first);
  tcase_add_test(tcase, exposed_exchange_with_experts_is_named_with_its_reach);
  tcase_add_test(tcase, exposed_exchange_of_keys_is_named_with_its_reach);
  tcase_add_test(tcase, memory_that_does_not_fit_comes_before_all);
  tcase_add_test(tcase, options_already_taken_are_not_advised);
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
