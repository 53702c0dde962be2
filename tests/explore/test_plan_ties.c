/* Plans that predictions cannot tell apart, and which of them is recommended. */
#include "plan_ties.h"
#include "run_suite.h"

#include <math.h>

static const Cluster machine, other_machine;
static const Model model;

typedef struct {
  int tp, pp, zero, recompute;
  double score;
} Given;

/* Two plans' ratio is off by 10 %, a plan by 20 %. */
static PlanOutcome *outcome_of(const Given *given) {
  PlanOutcome *outcome = g_new0(PlanOutcome, 1);
  outcome->model = &model;
  outcome->cluster = &machine;
  outcome->completed = plan_new();
  outcome->completed->tp = given->tp;
  outcome->completed->pp = given->pp;
  outcome->completed->zero = given->zero;
  outcome->completed->recompute = (Recompute)given->recompute;
  outcome->capacity_bytes = 1;
  outcome->score = given->score;
  outcome->interval = (Interval){.low_s = 1 / 1.2, .high_s = 1.2, .ratio = 0.1, .basis = INTERVAL_OF_ROWS};
  return outcome;
}

static GPtrArray *outcomes_of(const Given *given, guint n) {
  GPtrArray *kept = g_ptr_array_new_with_free_func((GDestroyNotify)plan_outcome_free);
  for (guint i = 0; i < n; i++)
    g_ptr_array_add(kept, outcome_of(&given[i]));
  return kept;
}

static void assert_tied(const PlanTie *tie, guint n, const guint *ranks) {
  ck_assert_uint_eq(tie->tied->len, n);
  for (guint i = 0; i < n; i++)
    ck_assert_uint_eq(g_array_index(tie->tied, guint, i), ranks[i]);
}

/* The third has one axis where the best has two; the fourth, as simple, is 12 % behind. */
TEST(the_simplest_plan_within_the_error_of_ratios_is_recommended) {
  static const Given given[] = {{2, 4, 1, 0, 1}, {4, 2, 1, 0, 1.04}, {8, 1, 1, 0, 1.09}, {1, 1, 1, 0, 1.12}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given));
  g_auto(PlanTie) tie = plan_tie_of(kept, NULL, NULL);
  assert_tied(&tie, 3, (guint[]){0, 1, 2});
  ck_assert_uint_eq(tie.recommended, 2);
  ck_assert_double_eq(tie.width, 0.1);
}

TEST(a_plan_alone_is_recommended) {
  static const Given given[] = {{2, 4, 1, 0, 1}, {1, 1, 1, 0, 1.2}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given));
  g_auto(PlanTie) tie = plan_tie_of(kept, NULL, NULL);
  assert_tied(&tie, 1, (guint[]){0});
  ck_assert_uint_eq(tie.recommended, 0);
  ck_assert_double_eq(tie.width, 0.1);
  g_ptr_array_set_size(kept, 1);
  g_auto(PlanTie) alone = plan_tie_of(kept, NULL, NULL);
  ck_assert(isnan(alone.width));
}

/* With more recomputation and nothing else it is slower for certain; with another ZeRO stage, too, it may be faster. */
TEST(the_same_plan_with_more_recomputation_is_not_tied) {
  static const Given given[] = {
      {2, 1, 1, RECOMPUTE_NONE, 1}, {2, 1, 1, RECOMPUTE_FULL, 1.02}, {2, 1, 3, RECOMPUTE_FULL, 1.03}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given));
  g_auto(PlanTie) tie = plan_tie_of(kept, NULL, NULL);
  assert_tied(&tie, 2, (guint[]){0, 2});
}

/* What fills the GPUs so far that there is a warning is not simple. */
TEST(a_plan_that_leaves_no_memory_is_not_recommended) {
  static const Given given[] = {{2, 2, 1, 0, 1}, {1, 1, 1, 0, 1.02}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given));
  g_auto(PlanTie) roomy = plan_tie_of(kept, NULL, NULL);
  ck_assert_uint_eq(roomy.recommended, 1);
  ((PlanOutcome *)kept->pdata[1])->total_bytes = 0.97;
  g_auto(PlanTie) tight = plan_tie_of(kept, NULL, NULL);
  ck_assert_uint_eq(tight.recommended, 0);
}

/* A neighbour that is tied and simpler stands for its family; one of another family, or too far behind, does not. */
TEST(a_simpler_neighbour_stands_for_its_family) {
  static const Given given[] = {{4, 4, 1, 0, 1}, {8, 4, 1, 0, 1.02}};
  static const Given others[] = {{4, 4, 0, 0, 1.03}, {4, 4, 0, 0, 1.3}, {2, 4, 0, 0, 1.01}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given)),
                       neighbours = outcomes_of(others, G_N_ELEMENTS(others));
  for (guint i = 0; i < kept->len; i++) {
    PlanOutcome *outcome = kept->pdata[i];
    outcome->plan = plan_copy(outcome->completed);
    outcome->completed->chunks = 8;
  }
  for (guint i = 0; i < neighbours->len; i++) {
    PlanOutcome *outcome = neighbours->pdata[i];
    outcome->plan = plan_copy(outcome->completed);
    outcome->completed->chunks = 2;
  }
  g_auto(PlanTie) tie = plan_tie_of(kept, neighbours, NULL);
  ck_assert_uint_eq(tie.recommended, 0);
  ck_assert_ptr_eq(tie.plan, neighbours->pdata[0]);
  g_auto(PlanTie) alone = plan_tie_of(kept, NULL, NULL);
  ck_assert_ptr_eq(alone.plan, kept->pdata[0]);
}

/* Errors on two machines have nothing in common: half widths ln 1.2 each, √2 · ln 1.2 together. */
TEST(plans_on_different_machines_are_further_apart_before_one_is_better) {
  static const Given given[] = {{2, 2, 1, 0, 1}, {1, 1, 1, 0, 1.25}};
  g_autoptr(GPtrArray) kept = outcomes_of(given, G_N_ELEMENTS(given));
  PlanOutcome *elsewhere = kept->pdata[1];
  elsewhere->cluster = &other_machine;
  ck_assert_double_eq_tol(plan_tie_width(kept->pdata[0], elsewhere), expm1(G_SQRT2 * log(1.2)), 1e-12);
  g_auto(PlanTie) tie = plan_tie_of(kept, NULL, NULL);
  assert_tied(&tie, 2, (guint[]){0, 1});
}

int main(void) {
  return run_tests();
}
