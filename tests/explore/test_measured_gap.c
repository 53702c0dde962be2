/* What would make a predicted step as long as a measured one: the change put into a run is recovered. */
#include "error.h"
#include "measured_gap.h"
#include "run_suite.h"
#include "what_if.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "case_clusters.h"
#include "plan_with.h"

static const GapCost *find_cost(const MeasuredGap *gap, const char *name) {
  for (guint i = 0; i < gap->costs->len; i++)
    if (strcmp(gap_cost_name(&g_array_index(gap->costs, GapCost, i)), name) == 0)
      return &g_array_index(gap->costs, GapCost, i);
  return NULL;
}

/* A run whose products, sends … take k times as long is explained by these, k times as long: what was put in comes out,
 * to what a thousandth of the step is of the cost. */
TEST(the_cost_that_made_a_step_longer_explains_it) {
  g_auto(Case) drawn = llama_case(4, 4, 4, 32, 2048);
  drawn.plan->overlap_grad = FALSE;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  static const struct {
    WhatIf what;
    double times;
  } made[] = {{WHAT_IF_AT_PEAK, 1.5}, {WHAT_IF_FREE_TP, 3}, {WHAT_IF_FREE_DP, 5}, {WHAT_IF_FREE_TP, 0.5}};
  for (gsize i = 0; i < G_N_ELEMENTS(made); i++) {
    g_autoptr(Metrics) changed = what_if_times(prediction, 1u << made[i].what, made[i].times);
    const double measured_s = 1e-9 * (double)changed->step_ns, gap_s = measured_s - prediction->step_time_s;
    ck_assert_double_gt(fabs(gap_s), 0.005 * prediction->step_time_s);
    g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, drawn.plan, measured_s, 2);
    const GapCost *cost = find_cost(gap, what_if_cost_name(made[i].what));
    ck_assert_ptr_nonnull(cost);
    ck_assert_double_eq_tol(cost->step_time_s, measured_s, 0.0006 * measured_s);
    ck_assert_double_eq_tol(cost->times, made[i].times, 0.001 * measured_s / fabs(gap_s) * fabs(made[i].times - 1));
    for (guint k = 1; k < gap->costs->len; k++) /* the least change first, what is not enough last */
      ck_assert(!isnan(g_array_index(gap->costs, GapCost, k - 1).times) ||
                isnan(g_array_index(gap->costs, GapCost, k).times));
  }
}

/* Ranks run apart: one that computes 1.4 times as long is found again, and is what `--slow-rank 0=1.4` predicts. */
TEST(a_slow_rank_explains_the_step_it_made) {
  g_auto(Case) drawn = llama_case(2, 1, 2, 8, 2048);
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  g_autoptr(Plan) slow = plan_copy(drawn.plan);
  const SlowRank rank = {.rank = 0, .factor = 1.4};
  g_array_append_val(slow->slow_ranks, rank);
  slow->fold = FALSE;
  g_autoptr(Prediction) measured = predict(&llama, clusters[0], slow, NULL);
  ck_assert_double_gt(measured->step_time_s, 1.2 * prediction->step_time_s);
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, drawn.plan, measured->step_time_s, 1);
  const GapCost *cost = find_cost(gap, "kernels of one GPU");
  ck_assert_ptr_nonnull(cost);
  ck_assert_double_eq_tol(cost->times, 1.4, 0.002);
  g_autoptr(GString) text = g_string_new(NULL);
  measured_gap_text(text, gap);
  ck_assert_ptr_nonnull(strstr(text->str, "(--slow-rank 0=1.4)"));
}

TEST(the_option_that_made_a_step_longer_is_all_of_the_difference) {
  g_autoptr(Plan) plan = plan_with("dp=8 zero=3 seq-len=2048 global-batch=8");
  g_autoptr(Plan) other = plan_copy(plan);
  other->overlap_param = FALSE;
  g_autoptr(Prediction) prediction = predict(&llama, clusters[1], plan, NULL);
  g_autoptr(Prediction) measured = predict(&llama, clusters[1], other, NULL);
  ck_assert_double_gt(measured->step_time_s, 1.005 * prediction->step_time_s);
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, plan, measured->step_time_s, 1);
  const GapOption *first = &g_array_index(gap->options, GapOption, 0);
  ck_assert_str_eq(first->option, "--overlap-param");
  ck_assert_str_eq(first->value, "off");
  ck_assert_double_eq(first->step_time_s, measured->step_time_s);
  for (guint i = 0; i < gap->options->len; i++) /* none that makes it shorter */
    ck_assert_double_gt(g_array_index(gap->options, GapOption, i).step_time_s, prediction->step_time_s);
  g_autoptr(MeasuredGap) none = measured_gap_new(prediction, plan, prediction->step_time_s, 1);
  ck_assert_uint_eq(none->costs->len + none->options->len, 0);
}

/* Products may be found faster than they are, to where the GPU's peak ends it: no further, and that is said. */
TEST(a_shorter_step_is_explained_down_to_the_peak) {
  g_auto(Case) drawn = llama_case(1, 1, 1, 8, 1024);
  drawn.plan->micro_batch = 2;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  g_autoptr(Metrics) faster = what_if_times(prediction, 1u << WHAT_IF_AT_PEAK, 0.9);
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, drawn.plan, 1e-9 * (double)faster->step_ns, 1);
  const GapCost *cost = find_cost(gap, "products and attention");
  ck_assert_double_eq_tol(cost->times, 0.9, 0.002);
  g_autoptr(Metrics) at_peak = what_if_times(prediction, 1u << WHAT_IF_AT_PEAK, 0);
  g_autoptr(MeasuredGap) beyond = measured_gap_new(prediction, drawn.plan, 0.9e-9 * (double)at_peak->step_ns, 1);
  cost = find_cost(beyond, "products and attention");
  ck_assert(isnan(cost->times));
  ck_assert_double_eq(cost->tried, 0);
  ck_assert_double_eq_tol(cost->step_time_s, 1e-9 * (double)at_peak->step_ns, 1e-12);
  g_autoptr(GString) text = g_string_new(NULL);
  measured_gap_text(text, beyond);
  ck_assert_ptr_nonnull(strstr(text->str, "not enough: at the peak the step is still"));
}

/* Without recomputation the step is the measured one, and the GPU too small for it. */
TEST(what_does_not_fit_was_not_measured) {
  g_autoptr(Plan) plan = plan_with("seq-len=8192 micro-batch=32 global-batch=32 recompute=full");
  g_autoptr(Plan) other = plan_copy(plan);
  other->recompute = RECOMPUTE_NONE;
  other->recompute_layers = 0;
  g_autoptr(Prediction) prediction = predict(&llama, clusters[1], plan, NULL);
  g_autoptr(Prediction) measured = predict(&llama, clusters[1], other, NULL);
  ck_assert(prediction->fits && !measured->fits);
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, plan, measured->step_time_s, 1);
  for (guint i = 0; i < gap->options->len; i++)
    ck_assert_str_ne(g_array_index(gap->options, GapOption, i).option, "--recompute");
}

/* A rank of ep that has 1.7 times the mean of the rows is found; one has at most all of them. */
TEST(the_fullest_experts_explain_the_step_they_made) {
  g_auto(Case) drawn = llama_case(1, 1, 4, 16, 2048);
  drawn.model.experts = (ModelExperts){.n = 8, .per_token = 2, .ffn_hidden = 4096, .every = 1};
  drawn.plan->ep = 4;
  g_autoptr(Prediction) prediction = predict_case(&drawn);
  g_autoptr(Plan) full = plan_copy(drawn.plan);
  full->expert_load = 1.7;
  g_autoptr(Prediction) measured = predict(&drawn.model, drawn.cluster, full, NULL);
  ck_assert_double_gt(measured->step_time_s, 1.02 * prediction->step_time_s);
  g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, drawn.plan, measured->step_time_s, 2);
  const GapCost *cost = find_cost(gap, "rows of the fullest expert rank");
  ck_assert_ptr_nonnull(cost);
  ck_assert_double_eq_tol(cost->times, 1.7, 0.03);
  g_autoptr(GString) text = g_string_new(NULL);
  measured_gap_text(text, gap);
  ck_assert_ptr_nonnull(strstr(text->str, "× as many (--expert-load 1."));
  g_autoptr(MeasuredGap) far = measured_gap_new(prediction, drawn.plan, 40 * measured->step_time_s, 1);
  cost = find_cost(far, "rows of the fullest expert rank");
  ck_assert(isnan(cost->times));
  ck_assert_double_eq(cost->tried, 4);
}

/* The number behind an option. */
static double number_behind(const char *text, const char *option) {
  const char *at = strstr(text, option);
  return at != NULL ? g_ascii_strtod(at + strlen(option), NULL) : NAN;
}

/* Rows of experts fill waves of tiles: the step jumps, and may miss the measured one with any number of rows. What is
 * printed is what that number of rows is predicted to take; if that is not the measured step, it is said. */
TEST(the_printed_load_of_experts_makes_the_step_it_stands_for) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(4);
  int n_near = 0, n_jumps = 0;
  for (int i = 0; i < 40; i++) {
    g_auto(Case) drawn = llama_case(1, 1, PICK(rand, 2, 4, 8), 16, PICK(rand, 256, 512, 1024));
    const int ep = drawn.plan->ep = drawn.plan->dp;
    drawn.model.experts = (ModelExperts){.n = 16, .per_token = 2, .ffn_hidden = PICK(rand, 2048, 4096), .every = 1};
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    const double measured_s = prediction->step_time_s * g_rand_double_range(rand, 1.01, 1 + 0.1 * ep);
    g_autoptr(MeasuredGap) gap = measured_gap_new(prediction, drawn.plan, measured_s, 1);
    const GapCost *cost = find_cost(gap, "rows of the fullest expert rank");
    if (cost == NULL || isnan(cost->times))
      continue;
    g_autofree char *option = gap_cost_option(cost);
    g_autoptr(Plan) full = plan_copy(drawn.plan);
    full->expert_load = number_behind(option, "--expert-load ");
    ck_assert_double_eq(full->expert_load, cost->times);
    g_autoptr(Prediction) found = predict(&drawn.model, drawn.cluster, full, NULL);
    ck_assert_double_eq(found->step_time_s, cost->step_time_s);
    g_autoptr(GString) text = g_string_new(NULL);
    measured_gap_text(text, gap);
    g_autofree char *time = units_format(found->step_time_s, UNIT_SECONDS),
                    *said = g_strdup_printf("(%s) makes it %s, the nearest found\n", option, time);
    const gboolean is_near = fabs(found->step_time_s / measured_s - 1) < 0.0005;
    ck_assert_msg(is_near == (strstr(text->str, said) == NULL), "%g, measured %g%s", found->step_time_s, measured_s,
                  text->str);
    n_near += is_near;
    n_jumps += !is_near;
  }
  ck_assert_int_gt(n_near, 5);
  ck_assert_int_gt(n_jumps, 2);
}

/* Of 40 % MFU, 400 TFLOP/s and 1,000 tokens/s a GPU that take 10 s, four fifths take 10 / 0.8 = 12.5 s, whichever of
 * them is known. */
TEST(a_step_follows_from_what_logs_print_in_its_place) {
  Plan *plan = plan_new();
  const StepReport predicted = {.plan = plan,
                                .step_time_s = 10,
                                .mfu = 0.4,
                                .peak_flops = 1e15,
                                .tflops_per_gpu = 400,
                                .tokens_per_s_per_gpu = 1000,
                                .tokens_per_s = 64000};
  static const struct {
    const char *text, *origin;
  } given[] = {{"12.5s", NULL},
               {"32%", "32.00 % MFU of 1.000 PFLOP/s, model FLOPs by convention \"causal\""},
               {"32 %", "32.00 % MFU of 1.000 PFLOP/s, model FLOPs by convention \"causal\""},
               {"320 TFLOP/s", "320.0 TFLOP/s per GPU, model FLOPs by convention \"causal\""},
               {"320 TFLOP/s/GPU", "320.0 TFLOP/s per GPU, model FLOPs by convention \"causal\""},
               {"320 TFLOPs", "320.0 TFLOP/s per GPU, model FLOPs by convention \"causal\""},
               {"800 tokens/s/GPU", "800 tokens/s per GPU"},
               {"51.2k tokens/s", "51200 tokens/s"}};
  for (gsize i = 0; i < G_N_ELEMENTS(given); i++) {
    MeasuredStep measured;
    ck_assert(measured_step_parse(given[i].text, &measured, NULL));
    ck_assert_double_eq_tol(measured_step_time_s(&measured, &predicted), 12.5, 1e-9);
    g_autofree char *origin = measured_step_origin(&measured, &predicted);
    ck_assert_pstr_eq(origin, given[i].origin);
  }
  plan_free(plan);
}

TEST(a_step_that_nothing_can_have_is_refused) {
  static const char *const refused[] = {"0s", "0%", "100.1%", "0 TFLOP/s", "0 TFLOPS", "0 tokens/s"};
  MeasuredStep measured;
  for (gsize i = 0; i < G_N_ELEMENTS(refused); i++)
    ck_assert_msg(!measured_step_parse(refused[i], &measured, NULL), "%s", refused[i]);
  ck_assert(measured_step_parse("100%", &measured, NULL));
  ck_assert_double_eq(measured.value, 1);
  ck_assert(measured_step_parse("375 TFLOPS", &measured, NULL));
  ck_assert_int_eq(measured.kind, MEASURED_FLOPS);
  ck_assert_double_eq(measured.value, 375e12);
}

int main(void) {
  tcase_add_checked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
