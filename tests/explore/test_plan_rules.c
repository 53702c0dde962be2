/* What a few options alone rule out, against checking the whole configuration. */
#include "planner_fixture.h"
#include "run_suite.h"

#include "plan_screen.h"

/* Nearly every axis has more than one value, and of some no value goes with all of the others. */
static const char *const spaces[] = {
    /* with experts and without */
    "model=qwen3-30b,llama-3-8b cluster=gb200-nvl72 gpus=72,144 cp=1,2 global-batch=144,96 "
    "seq-len=4096 micro-batch=1,2 schedule=1f1b,interleaved,zb-v pp=1,2,3,8 tp=1,2,3,8 ep=1,4,8 "
    "chunks=1,2,5 zero=0,3 recompute=none,selective",
    /* of 61 layers, one head that predicts a token further */
    "model=deepseek-v3 cluster=dgx-h100 gpus=64 global-batch=64,80 micro-batch=1,4 pp=1,4,16 "
    "tp=1,8 ep=1,16,64 schedule=1f1b,dualpipe chunks=1,2,4 mtp-layers=0,1,2 zero-ranks=2,4 "
    "zero=0,1 pipeline-layout=auto,embedding+loss",
    /* with one of them selective recompute is nothing for experts */
    "model=mixtral-8x7b cluster=torchtitan-h100 framework=torchtitan-eager,megatron-core gpus=16 dp=2,4 "
    "global-batch=32 micro-batch=1,16 pp=1,4 tp=1,2,4 ep=1,2,8 expert-load=1,3 "
    "recompute=none,selective,full",
};

/* What is ruled out is what the screen would have said, and nobody asks for most of what it says. */
static void compare(const char *given, gint64 every) {
  g_autoptr(Space) space = space_of(given);
  const PlannerRequest request = request_of(space);
  const PlanScreen screen = plan_screen_of(&request);
  g_autoptr(PlanRules) rules = plan_rules_new(&screen);
  g_autoptr(GHashTable) reasons = reasons_new();
  g_autoptr(SpaceReader) reader = space_reader_new(space);
  ShortOrder *kept = short_order_new();
  const PlanScreener screener = {reader, kept};
  gint64 n_left_out = 0, n_ruled_out = 0, n_ruled_impossible = 0;
  for (gint64 i = 0; i < space_count(space); i += every) {
    double number;
    const Screened says = plan_rules_ask(rules, reader, i);
    const Screened expected = plan_screen(&screen, &screener, i, &number, NULL);
    n_left_out += expected == SCREENED_SAME || expected == SCREENED_IMPOSSIBLE;
    n_ruled_out += says != SCREENED_CANDIDATE;
    n_ruled_impossible += says == SCREENED_IMPOSSIBLE;
    if (says != SCREENED_CANDIDATE)
      ck_assert_msg(says == expected, "configuration %" G_GINT64_FORMAT ": ruled %d, is %d", i, says, expected);
  }
  short_order_free(kept);
  ck_assert_int_gt(3 * n_ruled_out, 2 * n_left_out); /* or the rules are not worth it */
  plan_rules_count(rules, reasons);
  g_autoptr(GArray) collected = reasons_collect((GHashTable *const[]){reasons}, 1);
  for (guint i = 0; i < collected->len; i++)
    n_ruled_impossible -= g_array_index(collected, Reason, i).n;
  ck_assert_int_eq(n_ruled_impossible, 0); /* each has a reason */
}

LOOP_TEST(a_rule_says_what_the_whole_configuration_says, G_N_ELEMENTS(spaces)) {
  compare(spaces[_i], _i == 0 ? 11 : 1);
}

int main(void) {
  return run_tests();
}
