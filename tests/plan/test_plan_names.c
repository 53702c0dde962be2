/* Rank orders and other choices of a plan, by name. */
#include "error.h"
#include "plan.h"
#include "run_suite.h"

#include <check.h>

TEST(rank_orders_name_each_axis_once) {
  g_autoptr(Plan) plan = plan_new();
  ck_assert(plan_parse_order(plan, "pp-dp-tp-cp-ep", NULL));
  ck_assert_int_eq(plan->order[0], AXIS_PP);
  ck_assert_int_eq(plan->order[4], AXIS_EP);
  const char *bad[] = {"", "tp", "tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-pp-tp", "tp,cp,ep,dp,pp", "-----", NULL};
  for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
    g_autoptr(GError) error = NULL;
    ck_assert(!plan_parse_order(plan, bad[i], &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_int_eq(plan->order[0], AXIS_PP);
  }
}

TEST(choices_are_parsed_by_name) {
  ck_assert_int_eq(parse_choice("recompute", "full", recompute_names(), NULL), RECOMPUTE_FULL);
  ck_assert_int_eq(parse_choice("attention", "unfused", attention_names(), NULL), ATTENTION_UNFUSED);
  ck_assert_int_eq(parse_choice("flops", "6n", flops_convention_names(), NULL), FLOPS_6N);
  ck_assert_str_eq(axis_name(AXIS_PP), "pp");
  g_autoptr(GError) error = NULL;
  ck_assert_int_eq(parse_choice("recompute", "selectiv", recompute_names(), &error), -1);
  ck_assert_str_eq(
      error->message,
      "recompute: found \"selectiv\", expected one of none, selective, full, block, every, sqrt; did you mean "
      "\"selective\"?");
  ck_assert_int_eq(parse_choice("recompute", NULL, recompute_names(), NULL), -1);
}

int main(void) {
  return run_tests();
}
