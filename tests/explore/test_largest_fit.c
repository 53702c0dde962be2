/* The largest micro-batch and the longest sequences that fit, compared with trying all sizes one by one. */
#include "error.h"
#include "largest_fit.h"
#include "run_suite.h"

#include <check.h>

#include "case_clusters.h"
#include "plan_with.h"

static Model *model; /* 8 billion parameters: a GPU's memory holds a few sequences of them */

static void read_llama(void) {
  set_up();
  model = read_model("llama-3-8b");
}

static void free_llama(void) {
  tear_down();
  model_free(model);
}

static gboolean fits(const Cluster *cluster, const Plan *plan) {
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
  return prediction != NULL && prediction->fits;
}

/* The largest value of `size` from `step` on, in steps of it up to 64, at which the plan fits; 0: none. */
static gint64 largest_tried(const Cluster *cluster, Plan *plan, gint64 *size, gint64 step) {
  const gint64 asked = *size;
  gint64 most = 0;
  for (int i = 1; i <= 64; i++) {
    *size = i * step;
    if (fits(cluster, plan))
      most = *size;
  }
  *size = asked;
  return most;
}

static LargestFit largest_of(const Cluster *cluster, const Plan *plan, double capacity_bytes) {
  g_autoptr(Plan) completed = plan_copy(plan);
  ck_assert(plan_complete(completed, model, cluster, NULL));
  return largest_fit(model, cluster, plan, completed, capacity_bytes);
}

/* Without a pipeline a micro-batch is held whole; in one, as many as there are stages; chunks and ZeRO-3 add buffers.
 */
TEST(nothing_larger_fits_and_nothing_smaller_is_said) {
  static const struct {
    int tp, cp, pp, zero;
    gint64 global_batch;
  } cases[] = {{2, 1, 1, 3, 0}, {1, 1, 4, 1, 0}, {2, 1, 2, 1, 64}, {1, 2, 1, 2, 96}};
  const Cluster *cluster = clusters[1];
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_new();
    plan->tp = cases[i].tp;
    plan->cp = cases[i].cp;
    plan->pp = cases[i].pp;
    plan->gpus = 8;
    plan->zero = cases[i].zero;
    plan->global_batch = cases[i].global_batch;
    plan->micro_batch = 1;
    plan->seq_len = 2048;
    const LargestFit largest = largest_of(cluster, plan, cluster->gpu.hbm_bytes);
    ck_assert_int_eq(largest.seq_step, 1024);
    ck_assert_int_gt(largest.micro_batch, 1);
    ck_assert_int_eq(largest.micro_batch, largest_tried(cluster, plan, &plan->micro_batch, 1));
    ck_assert_int_gt(largest.seq_len, 2048);
    ck_assert_int_eq(largest.seq_len, largest_tried(cluster, plan, &plan->seq_len, 1024));
  }
}

/* The capacity counts, not the cluster's; and slow ranks hold no memory. */
TEST(what_a_gpu_has_is_what_was_asked) {
  g_autoptr(Plan) plan = plan_with("gpus=8 zero=1 micro-batch=1 seq-len=2048");
  const Cluster *cluster = clusters[1];
  const LargestFit whole = largest_of(cluster, plan, cluster->gpu.hbm_bytes);
  const LargestFit more = largest_of(cluster, plan, 2 * cluster->gpu.hbm_bytes);
  ck_assert_int_gt(more.micro_batch, whole.micro_batch);
  ck_assert_int_gt(more.seq_len, whole.seq_len);
  const LargestFit none = largest_of(cluster, plan, 10e9);
  ck_assert_int_eq(none.micro_batch, 0);
  ck_assert_int_eq(none.seq_len, 0);
  const SlowRank slow = {.rank = 3, .factor = 2};
  g_array_append_val(plan->slow_ranks, slow);
  plan->fold = FALSE;
  const LargestFit uneven = largest_of(cluster, plan, cluster->gpu.hbm_bytes);
  ck_assert_int_eq(uneven.micro_batch, whole.micro_batch);
  ck_assert_int_eq(uneven.seq_len, whole.seq_len);
}

/* Three ranks of tp cut sequences of 3 · 1,024 tokens; 2 · cp · tp = 24 divides 1,024 · 3 as well. */
TEST(lengths_are_those_that_cp_and_tp_cut) {
  g_autoptr(Plan) plan = plan_new(), completed = plan_new();
  completed->tp = 3;
  completed->cp = 4;
  completed->micro_batch = 1;
  const LargestFit largest = largest_fit(model, clusters[1], plan, completed, clusters[1]->gpu.hbm_bytes);
  ck_assert_int_eq(largest.seq_step, 3072);
  completed->tp = 8; /* 2 · 8 · 128 is more than 1,024 */
  completed->cp = 128;
  ck_assert_int_eq(largest_fit(model, clusters[1], plan, completed, clusters[1]->gpu.hbm_bytes).seq_step, 2048);
}

/* 64 sequences over 8 ranks of dp are 8 for each; gpt2 has 1,024 positions. Both fit 80 GB many times. */
TEST(what_memory_does_not_bound_is_told) {
  g_autoptr(Model) small = read_model("gpt2");
  g_autoptr(Plan) plan = plan_with("gpus=8 global-batch=64");
  g_autoptr(Plan) completed = plan_copy(plan);
  ck_assert(plan_complete(completed, small, clusters[1], NULL));
  const LargestFit largest = largest_fit(small, clusters[1], plan, completed, 80e9);
  ck_assert_int_eq(largest.micro_batch, 8);
  ck_assert_int_eq(largest.micro_batch_bound, LARGEST_BY_BATCH);
  ck_assert_int_eq(largest.seq_len, 1024);
  ck_assert_int_eq(largest.seq_len_bound, LARGEST_BY_PLAN);
  const LargestFit by_memory = largest_fit(small, clusters[1], plan, completed, 6e9);
  ck_assert_int_lt(by_memory.micro_batch, 8);
  ck_assert_int_eq(by_memory.micro_batch_bound, LARGEST_BY_MEMORY);
}

/* 16,777,216 tokens are 16,384 steps of 1,024, and 5,461⅓ of the 3,072 that three ranks of cp cut. */
TEST(nothing_longer_than_the_most_is_tried) {
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = 8;
  const LargestFit largest = largest_of(clusters[1], plan, 1e24);
  ck_assert_int_eq(largest.seq_len, LARGEST_FIT_MOST);
  ck_assert_int_eq(largest.seq_len_bound, LARGEST_TRIED);
  plan->gpus = 24;
  plan->seq_len = 3072;
  plan->cp = 3;
  ck_assert_int_eq(largest_of(clusters[1], plan, 1e24).seq_len, 5461 * 3072);
}

int main(void) {
  tcase_add_unchecked_fixture(listed_tests(), read_llama, free_llama);
  return run_tests();
}
