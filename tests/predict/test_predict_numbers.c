/* A step predicted without most of its micro-batches has the numbers of the full run,
 * to the last bit: over random plans, the report, each rank's breakdown, and its memory.
 *
 * `test_predict_numbers N` draws N plans instead of the suite's few. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "few_micro_batches.h"
#include "json_report.h"
#include "long_cases.h"
#include "lowering.h"
#include "plan.h"
#include "step_of_prediction.h"

enum { N_PLANS = 1000 };

static int n_plans = N_PLANS;
static LongCases cases;

static void set_up(void) {
  long_cases_read(&cases);
}

static void tear_down(void) {
  long_cases_free(&cases);
}

/* Everything a row of a sweep has, and more. */
static char *json_of(const Prediction *prediction) {
  StepReport report = step_of_prediction(prediction, NULL);
  report.wall_s = 0; /* of the wall clock */
  return json_report_step(&report);
}

static gboolean has_same_metrics(const Metrics *a, const Metrics *b) {
  return a->step_ns == b->step_ns && a->n_ranks == b->n_ranks && a->span_ns == b->span_ns &&
         a->span_bubble_ns == b->span_bubble_ns && a->bubble_fraction == b->bubble_fraction &&
         a->bubble_overhead == b->bubble_overhead &&
         memcmp(a->ranks, b->ranks, sizeof *a->ranks * (gsize)a->n_ranks) == 0 &&
         memcmp(a->mean_s, b->mean_s, sizeof a->mean_s) == 0 &&
         memcmp(a->hidden_s, b->hidden_s, sizeof a->hidden_s) == 0 &&
         memcmp(a->exposed_s, b->exposed_s, sizeof a->exposed_s) == 0;
}

static gboolean holds_the_same(const MemoryProfile *a, const MemoryProfile *b, int n_ranks) {
  return a->worst_rank == b->worst_rank && a->peak_bytes == b->peak_bytes &&
         memcmp(&a->at_peak, &b->at_peak, sizeof a->at_peak) == 0 &&
         memcmp(a->rank_peak, b->rank_peak, sizeof *a->rank_peak * (gsize)n_ranks) == 0;
}

typedef struct {
  int n_fewer, n_all, n_expanded, n_contended, n_eager, n_launched, n_experts, n_turns, n_chained;
} Counts;

/* Returns whether it was run with fewer. */
static gboolean compare(const Case *drawn, Counts *counts) {
  g_autofree char *text = case_text(drawn);
  g_autoptr(GError) expected = NULL, found = NULL;
  g_autoptr(Prediction) whole = predict(&drawn->model, drawn->cluster, drawn->plan, &expected);
  g_autoptr(Prediction) numbers = predict_numbers(&drawn->model, drawn->cluster, drawn->plan, &found);
  ck_assert_msg((whole != NULL) == (numbers != NULL), "%s", text);
  if (whole == NULL) {
    ck_assert_str_eq(found->message, expected->message);
    return FALSE;
  }
  g_autofree char *of_whole = json_of(whole), *of_fewer = json_of(numbers);
  ck_assert_msg(strcmp(of_whole, of_fewer) == 0, "%s\nall:\n%s\nby fewer:\n%s", text, of_whole, of_fewer);
  ck_assert_msg(has_same_metrics(whole->metrics, numbers->metrics), "%s", text);
  ck_assert_msg(holds_the_same(whole->memory, numbers->memory, whole->trace->n_ranks), "%s", text);
  ck_assert_msg(numbers->tokens_per_s == whole->tokens_per_s && numbers->mfu == whole->mfu &&
                    numbers->hfu == whole->hfu && numbers->fits == whole->fits,
                "%s", text);
  const gboolean is_fewer = numbers->omitted != NULL;
  ck_assert_int_eq(is_fewer, numbers->program->n_micro_batches < whole->program->n_micro_batches);
  counts->n_fewer += is_fewer;
  counts->n_all += !is_fewer;
  counts->n_experts += is_fewer && whole->workload->plan->ep > 1;
  counts->n_turns += is_fewer && lowering_takes_turns(whole->workload);
  counts->n_chained += is_fewer && whole->program->n_steps > 1;
  counts->n_expanded += is_fewer && whole->program->expansion;
  counts->n_contended += is_fewer && whole->timing->loads != NULL;
  counts->n_eager += is_fewer && whole->workload->boundary_bytes <= (double)drawn->cluster->eager_bytes;
  counts->n_launched += is_fewer && whole->metrics->mean_s[BREAKDOWN_HOST] > 0.1 * whole->step_time_s;
  return is_fewer;
}

TEST(numbers_by_fewer_micro_batches_are_those_of_all) {
  Counts counts = {0};
  for (int seed = 0; seed < n_plans; seed++) {
    g_auto(Case) drawn = long_case(&cases, (guint)seed);
    compare(&drawn, &counts);
  }
  g_print("# %d by fewer, %d of them expanded, %d with loads on links, %d with small sends, %d bound by launches, %d "
          "with experts, %d of them in turns, %d of several steps; %d by all\n",
          counts.n_fewer, counts.n_expanded, counts.n_contended, counts.n_eager, counts.n_launched, counts.n_experts,
          counts.n_turns, counts.n_chained, counts.n_all);
  ck_assert_int_gt(counts.n_fewer, n_plans / 3);
  ck_assert_int_gt(counts.n_expanded, n_plans / 20);
  ck_assert_int_gt(counts.n_contended, n_plans / 20);
  ck_assert_int_gt(counts.n_eager, n_plans / 50);
  ck_assert_int_gt(counts.n_launched, n_plans / 50);
  ck_assert_int_gt(counts.n_experts, n_plans / 50);
  ck_assert_int_gt(counts.n_chained, n_plans / 30);
}

/* Three groups of pp micro-batches: one fills the pipeline, and the first rank does 1 3/4 of one in turn before
 * forwards run out. */
TEST(interleaved_chunks_come_back_to_a_state_within_three_groups) {
  g_autoptr(Model) model = read_model("megatron-175b");
  g_auto(Case) drawn = {.model = *model, .cluster = cases.clusters[0], .plan = plan_new()};
  Plan *plan = drawn.plan;
  plan->tp = plan->pp = 8;
  plan->gpus = 128;
  plan->chunks = 4;
  plan->global_batch = 128;
  plan->sequence_parallel = TRUE;
  g_free(plan->schedule);
  plan->schedule = g_strdup("interleaved");
  Counts counts = {0};
  ck_assert(compare(&drawn, &counts));
  g_autoptr(Prediction) numbers = predict_numbers(model, drawn.cluster, plan, NULL);
  ck_assert_int_eq(numbers->workload->plan->n_micro_batches, 64);
  ck_assert_int_eq(numbers->program->n_micro_batches, 24);
}

/* 20 minutes of 1,024 micro-batches on 16 stages: as many times as it is left out, the run would be of days, too long
 * for transfers to slow each other; with what is left out it is not. */
TEST(a_long_step_of_a_large_model_is_run_with_few_too) {
  g_autoptr(Model) model = read_model("megatron-175b");
  g_auto(Case) drawn = {.model = *model, .cluster = cases.clusters[0], .plan = plan_new()};
  Plan *plan = drawn.plan;
  plan->tp = 8;
  plan->pp = 16;
  plan->gpus = 128;
  plan->micro_batch = 8;
  plan->global_batch = 8192;
  plan->recompute = RECOMPUTE_FULL;
  g_free(plan->schedule);
  plan->schedule = g_strdup("1f1b");
  Counts counts = {0};
  ck_assert(compare(&drawn, &counts));
}

/* GPT-3 175B on 1,536 GPUs of selene, Llama 3 70B on 512 of dgx-h100. */
static const struct {
  const char *model, *cluster, *schedule;
  int dp, pp, chunks, zero, n_micro_batches;
  gint64 seq_len;
  int n_run; /* of these */
} later[] = {
    {"gpt3-175b", "selene", "1f1b", 3, 64, 1, 2, 512, 2048, 67},           /* stages of one layer and of two: p + 3 */
    {"gpt3-175b", "selene", "1f1b", 16, 12, 1, 2, 96, 2048, 23},           /* p + 2 + 3 p / 4, as it takes 18 */
    {"llama-3-70b", "dgx-h100", "1f1b", 16, 4, 1, 3, 64, 8192, 19},        /* four rounds and three, as it takes 16 */
    {"llama-3-70b", "dgx-h100", "interleaved", 16, 4, 4, 3, 64, 8192, 24}, /* six groups of four */
};

LOOP_TEST(stages_that_run_ahead_come_back_to_a_state_later, G_N_ELEMENTS(later)) {
  g_autoptr(GError) error = NULL;
  g_autofree char *model_file = g_strdup_printf("models/%s.json", later[_i].model);
  g_autofree char *cluster_file = g_strdup_printf("topologies/%s.yaml", later[_i].cluster);
  g_autoptr(Model) model = model_read(model_file, &error);
  g_assert_no_error(error);
  g_autoptr(Cluster) cluster = cluster_read(cluster_file, &error);
  g_assert_no_error(error);
  g_auto(Case) drawn = {.model = *model, .cluster = cluster, .plan = plan_new()};
  Plan *plan = drawn.plan;
  g_free(plan->schedule);
  plan->schedule = g_strdup(later[_i].schedule);
  plan->tp = 8;
  plan->dp = later[_i].dp;
  plan->pp = later[_i].pp;
  plan->chunks = later[_i].chunks;
  plan->zero = later[_i].zero;
  plan->seq_len = later[_i].seq_len;
  plan->global_batch = (gint64)later[_i].n_micro_batches * later[_i].dp;
  Counts counts = {0};
  ck_assert(compare(&drawn, &counts));
  g_autoptr(Prediction) numbers = predict_numbers(&drawn.model, cluster, plan, NULL);
  ck_assert_int_eq(numbers->program->n_micro_batches, later[_i].n_run);
}

/* The most that a rank holds at a time, of stages that hold `saved` from forward to backward, and `transient` while a
 * backward runs. */
static double most_held(const GArray *actions, const double *saved, const double *transient) {
  double held = 0, most = 0;
  for (guint i = 0; i < actions->len; i++) {
    const Action *action = &g_array_index(actions, Action, i);
    if (action->kind == ACTION_F) {
      held += saved[action->stage];
      most = MAX(most, held);
    } else if (action->kind == ACTION_B) {
      most = MAX(most, held + transient[action->stage]);
      held -= saved[action->stage];
    }
  }
  return most;
}

TEST(orders_of_enough_micro_batches_hold_the_most) {
  int n_fewer = 0;
  for (guint seed = 0; seed < 300; seed++) {
    g_auto(Case) drawn = long_case(&cases, seed);
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_autoptr(Workload) workload = workload_complete(&drawn.model, drawn.cluster, drawn.plan, NULL);
    ck_assert_ptr_nonnull(workload);
    g_autoptr(Order) all = method_order(workload->method, NULL);
    const gint64 enough = few_micro_batches_of_order(workload->method);
    n_fewer += enough < workload->plan->n_micro_batches;
    method_set_micro_batches(workload->method, enough);
    g_autoptr(Order) few = method_order(workload->method, NULL);
    g_autofree double *saved = g_new(double, workload->n_stages), *transient = g_new(double, workload->n_stages);
    for (int stage = 0; stage < workload->n_stages; stage++) {
      saved[stage] = g_rand_int_range(rand, 1, 1000);
      transient[stage] = g_rand_int_range(rand, 1, 1000);
    }
    for (int rank = 0; rank < workload->plan->pp; rank++)
      ck_assert_double_eq(most_held(few->actions[rank], saved, transient),
                          most_held(all->actions[rank], saved, transient));
  }
  ck_assert_int_gt(n_fewer, 200);
}

int main(int argc, char **argv) {
  if (argc > 1)
    n_plans = atoi(argv[1]);
  tcase_add_unchecked_fixture(listed_tests(), set_up, tear_down);
  return run_tests();
}
