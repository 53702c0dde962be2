/* A step predicted without most of its micro-batches, by a Program lowered for another plan of the same structure, has
 * the numbers of the full run, to the last bit: over random plans, the report, each rank's breakdown, and its memory.
 *
 * `test_predict_numbers N` draws N plans instead of the suite's few. */
#include "few_micro_batches.h"
#include "json_report.h"
#include "long_cases.h"
#include "lowering.h"
#include "run_suite.h"
#include "step_of_prediction.h"

#include <stdlib.h>

enum { N_PLANS = 1000 };

static int n_plans = N_PLANS;
static Predictor *predictor; /* NULL: nothing is remembered */

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

/* Predicted just before, with sequences of another length and other micro-batches; twice, as ops are kept the second
 * time that they are made. NULL: that cannot be. */
static Prediction *predict_alike(const Case *drawn) {
  g_autoptr(Plan) plan = plan_copy(drawn->plan);
  plan->seq_len = plan->seq_len > 1 ? plan->seq_len / 2 : 512;
  plan->micro_batch *= 2;
  plan->global_batch *= 2;
  prediction_free(predict_numbers(predictor, &drawn->model, drawn->cluster, plan, NULL));
  return predict_numbers(predictor, &drawn->model, drawn->cluster, plan, NULL);
}

/* The same ops, kept from one to the other. */
static gboolean are_kept(const Prediction *a, const Prediction *b) {
  return a != NULL && a->program->pattern != NULL && a->program->pattern == b->program->pattern;
}

typedef struct {
  int n_fewer, n_all, n_kept, n_expanded, n_contended, n_eager, n_launched, n_experts, n_turns, n_chained;
} Counts;

/* Returns whether it was run with fewer. */
static gboolean compare(const Case *drawn, Counts *counts) {
  g_autoptr(GError) expected = NULL, found = NULL;
  g_autoptr(Prediction) whole = predict(&drawn->model, drawn->cluster, drawn->plan, &expected);
  g_autoptr(Prediction) before = predict_alike(drawn);
  g_autoptr(Prediction) numbers = predict_numbers(predictor, &drawn->model, drawn->cluster, drawn->plan, &found);
  CASE_ASSERT(drawn, (whole != NULL) == (numbers != NULL), "one of them cannot be");
  if (whole == NULL) {
    ck_assert_str_eq(found->message, expected->message);
    return FALSE;
  }
  g_autofree char *of_whole = json_of(whole), *of_fewer = json_of(numbers);
  CASE_ASSERT(drawn, strcmp(of_whole, of_fewer) == 0, "all:\n%s\nby fewer:\n%s", of_whole, of_fewer);
  CASE_ASSERT(drawn, has_same_metrics(whole->metrics, numbers->metrics), "other metrics");
  CASE_ASSERT(drawn, holds_the_same(whole->memory, numbers->memory, whole->trace->n_ranks), "other memory");
  CASE_ASSERT(drawn,
              numbers->tokens_per_s == whole->tokens_per_s && numbers->mfu == whole->mfu &&
                  numbers->hfu == whole->hfu && numbers->fits == whole->fits,
              "other rates");
  const gboolean is_fewer = numbers->omitted != NULL;
  ck_assert_int_eq(is_fewer, numbers->program->n_micro_batches < whole->program->n_micro_batches);
  counts->n_fewer += is_fewer;
  counts->n_all += !is_fewer;
  counts->n_kept += are_kept(before, numbers);
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
  g_autoptr(Predictor) kept = predictor = predictor_new();
  for (int seed = 0; seed < n_plans; seed++) {
    g_auto(Case) drawn = long_case((guint)seed);
    compare(&drawn, &counts);
  }
  predictor = NULL;
  g_print("# %d by fewer, %d of them expanded, %d with loads on links, %d with small sends, %d bound by launches, %d "
          "with experts, %d of them in turns, %d of several steps; %d by all; ops of %d kept from others\n",
          counts.n_fewer, counts.n_expanded, counts.n_contended, counts.n_eager, counts.n_launched, counts.n_experts,
          counts.n_turns, counts.n_chained, counts.n_all, counts.n_kept);
  ck_assert_int_gt(counts.n_kept, n_plans / 2);
  ck_assert_int_gt(counts.n_fewer, n_plans / 3);
  ck_assert_int_gt(counts.n_expanded, n_plans / 20);
  ck_assert_int_gt(counts.n_contended, n_plans / 20);
  ck_assert_int_gt(counts.n_eager, n_plans / 50);
  ck_assert_int_gt(counts.n_launched, n_plans / 50);
  ck_assert_int_gt(counts.n_experts, n_plans / 50);
  ck_assert_int_gt(counts.n_chained, n_plans / 30);
}

/* What is run of steps of large models. The last is of 20 minutes: as many times as it is left out, the run would be of
 * days, too long for transfers to slow each other; with what is left out it is not. */
static const struct {
  const char *model, *cluster, *plan;
  int n_micro_batches, n_run;
} large[] = {
    /* three groups of pp: one fills the pipeline, and the first rank does 1 3/4 in turn before forwards run out */
    {"megatron-175b", "selene",
     "--tp 8 --pp 8 --dp 2 --chunks 4 --schedule interleaved --sequence-parallel on --global-batch 128", 64, 24},
    /* stages of one layer and of two: p + 3 */
    {"gpt3-175b", "selene", "--tp 8 --dp 3 --pp 64 --zero 2 --seq-len 2048 --global-batch 1536", 512, 67},
    /* p + 2 + 3 p / 4, as it takes 18 */
    {"gpt3-175b", "selene", "--tp 8 --dp 16 --pp 12 --zero 2 --seq-len 2048 --global-batch 1536", 96, 23},
    /* four rounds and three, as it takes 16 */
    {"llama-3-70b", "dgx-h100", "--tp 8 --dp 16 --pp 4 --zero 3 --seq-len 8192 --global-batch 1024", 64, 19},
    /* six groups of four */
    {"llama-3-70b", "dgx-h100",
     "--tp 8 --dp 16 --pp 4 --chunks 4 --schedule interleaved --zero 3 --seq-len 8192 --global-batch 1024", 64, 24},
    /* p + 2 */
    {"megatron-175b", "selene", "--tp 8 --pp 16 --micro-batch 8 --recompute full --global-batch 8192", 1024, 18},
};

LOOP_TEST(large_models_come_back_to_a_state, G_N_ELEMENTS(large)) {
  g_auto(Case) drawn = {.model = *shipped_model(large[_i].model),
                        .cluster = shipped_cluster(large[_i].cluster),
                        .plan = plan_said("%s", large[_i].plan)};
  Counts counts = {0};
  ck_assert(compare(&drawn, &counts));
  g_autoptr(Prediction) numbers = predict_numbers(NULL, &drawn.model, drawn.cluster, drawn.plan, NULL);
  ck_assert_int_eq(numbers->workload->plan->n_micro_batches, large[_i].n_micro_batches);
  ck_assert_int_eq(numbers->program->n_micro_batches, large[_i].n_run);
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
    g_auto(Case) drawn = long_case(seed);
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
  return run_tests();
}
