/* Experts under data parallelism: gradients and parameters moved and held, sharded or whole. */
#include "error.h"
#include "run_suite.h"
#include "text_file.h"

#include <check.h>

#include "expert_cases.h"
#include "lowering.h"
#include "plan.h"

/* Sums of what is moved over dp, by whether it is of experts, and the members of its groups. */
typedef struct {
  double bytes;
  int n_members;
} MovedBytes;

static MovedBytes moved_over_dp(const Prediction *prediction, ActionKind action, gboolean of_experts) {
  MovedBytes moved = {0};
  const Program *program = prediction->program;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->kind != OP_COLLECTIVE || op->action != action)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    if ((transfer->of_experts != 0) != (of_experts != 0))
      continue;
    moved.bytes += transfer->bytes;
    moved.n_members =
        layout_group_size(&prediction->workload->layout, g_array_index(program->groups, Group, transfer->group).axes);
  }
  return moved;
}

/* 8 ranks, experts over 4 of them: 2 hold the same experts, 8 the same of all else. Gradients are 2 bytes a parameter
 * (bf16+master), weights 2; one micro-batch. Without experts in common (ep 8) only the rest is moved. */
TEST(gradients_of_experts_are_summed_over_ranks_that_have_them) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int zero = 0; zero <= 3; zero++)
    for (int ep = 4; ep <= 8; ep *= 2) {
      g_autoptr(Plan) plan = plan_new();
      plan->dp = 8, plan->ep = ep, plan->zero = zero, plan->global_batch = 8, plan->seq_len = 512;
      g_autoptr(GError) error = NULL;
      g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
      ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
      const double experts = 7.0 * 16 * 3 * 1024 * 512 / ep;
      const double others = (double)prediction->workload->stages[0].parameters - experts;
      const MovedBytes of_experts = moved_over_dp(prediction, ACTION_REDUCE_GRAD, TRUE),
                       of_others = moved_over_dp(prediction, ACTION_REDUCE_GRAD, FALSE),
                       gathered = moved_over_dp(prediction, ACTION_UNSHARD, TRUE);
      ck_assert_double_eq(of_others.bytes, 2 * others);
      ck_assert_int_eq(of_others.n_members, 8);
      ck_assert_double_eq(of_experts.bytes, ep == 4 ? 2 * experts : 0);
      ck_assert_int_eq(of_experts.n_members, ep == 4 ? 2 : 0);
      /* ZeRO-1 and -2 gather once a step, ZeRO-3 in forward and in backward */
      const double times = zero == 0 || ep == 8 ? 0 : zero == 3 ? 2 : 1;
      ck_assert_double_eq(gathered.bytes, times * 2 * experts);
    }
}

/* The one sum of gradients that the op waits for; −1 none. */
static gint32 awaited_sum(const OpList *list, const Op *op) {
  gint32 found = -1;
  for (int i = 0; i < OP_MAX_AFTER; i++)
    if (op->after[i] >= 0 && list->ops[op->after[i]].action == ACTION_REDUCE_GRAD) {
      ck_assert_int_eq(found, -1);
      found = op->after[i];
    }
  return found;
}

/* ZeRO-2, a bucket a layer, which is summed in two: its experts over 2 ranks, all else over 8. There is room for two
 * buckets: a backward fills the one that the second sum of the bucket before last has freed. */
TEST(a_bucket_is_free_behind_the_last_of_its_sums) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  g_autoptr(Plan) plan = plan_new();
  plan->dp = 8, plan->ep = 4, plan->zero = 2, plan->global_batch = 16, plan->seq_len = 512;
  plan->bucket_parameters = 1;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  const OpList *list = &prediction->program->ranks[0];
  gint32 before_last = -1, last = -1; /* the last sums of two buckets */
  gboolean begins = TRUE;             /* a bucket: the first of the three ops of a layer with experts */
  int n_buckets = 0, n_sums = 0;
  for (gint32 i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->kind == OP_COLLECTIVE && op->action == ACTION_REDUCE_GRAD) {
      last = i;
      begins = TRUE;
      n_sums++;
    }
    if (op->kind != OP_COMPUTE || op->action != ACTION_B)
      continue;
    ck_assert_int_eq(awaited_sum(list, op), begins ? before_last : -1);
    before_last = begins ? last : before_last;
    n_buckets += begins;
    begins = FALSE;
  }
  ck_assert_int_eq(n_sums, n_buckets + 2 * 7); /* two micro-batches, seven layers with experts */
}

/* 4 ranks of tp with whole experts, dealt out to 2 of them each: 2 hold the same experts and share their shards, though
 * there is one rank of dp and all else is in none. What is scattered is gathered again, experts alone: 2 bytes each. */
TEST(experts_in_shards_over_tp_are_gathered) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  const double experts = 7.0 * 16 * 3 * 1024 * 512 / 2;
  for (int zero = 1; zero <= 3; zero++)
    for (int overlap = 0; overlap < 2; overlap++) {
      g_autoptr(Plan) plan = plan_new();
      plan->tp = 4, plan->dp = 1, plan->ep = 2, plan->expert_tp = 1, plan->zero = zero, plan->seq_len = 512;
      plan->sequence_parallel = TRUE, plan->overlap_param = overlap, plan->global_batch = 1;
      g_autoptr(GError) error = NULL;
      g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
      ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
      const MovedBytes reduced = moved_over_dp(prediction, ACTION_REDUCE_GRAD, TRUE),
                       gathered = moved_over_dp(prediction, ACTION_UNSHARD, TRUE);
      ck_assert_double_eq(reduced.bytes, 2 * experts);
      ck_assert_double_eq(gathered.bytes, (zero == 3 ? 2 : 1) * 2 * experts);
      ck_assert_int_eq(gathered.n_members, 2);
      ck_assert_double_eq(moved_over_dp(prediction, ACTION_REDUCE_GRAD, FALSE).bytes, 0);
      ck_assert_double_eq(moved_over_dp(prediction, ACTION_UNSHARD, FALSE).bytes, 0);
    }
}

/* An order may say itself where gradients are reduced: those of whole experts over tp too, with one rank of dp. */
TEST(an_order_that_reduces_reduces_experts_over_tp) {
  static const char rows[] = "0F0,0B0,0REDUCE_GRAD\n1F0,1B0,1REDUCE_GRAD\n";
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  char *path = text_file_new(".csv", rows, -1);
  g_autoptr(Plan) plan = plan_new();
  plan->tp = 4, plan->pp = 2, plan->ep = 2, plan->expert_tp = 1, plan->sequence_parallel = TRUE;
  plan->global_batch = 1, plan->seq_len = 512;
  plan->schedule = g_strconcat("file:", path, NULL);
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
  text_file_drop(path);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  /* 3 of stage 0's 4 layers have experts, 8 of which are this rank's; 2 bytes a parameter */
  const MovedBytes moved = moved_over_dp(prediction, ACTION_REDUCE_GRAD, TRUE);
  ck_assert_double_eq(moved.bytes, 2 * 3.0 * 8 * 3 * 1024 * 512);
  ck_assert_int_eq(moved.n_members, 2);
}

/* 16 ranks, shards over 8 of them, experts over the same 8: of these each rank has all of its own, one of 2 copies. All
 * else is scattered after each of 4 micro-batches; experts' gradients add up where they are, and are summed once. */
TEST(gradients_that_are_not_in_shards_are_summed_once) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int zero = 1; zero <= 3; zero++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 16, plan->ep = plan->zero_ranks = 8, plan->zero = zero, plan->global_batch = 64, plan->seq_len = 512;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const double experts = 7.0 * 16 * 3 * 1024 * 512 / 8;
    const double others = (double)prediction->workload->stages[0].parameters - experts;
    const MovedBytes of_experts = moved_over_dp(prediction, ACTION_REDUCE_GRAD, TRUE);
    ck_assert_double_eq(of_experts.bytes, 2 * experts);
    ck_assert_int_eq(of_experts.n_members, 2);
    /* whole over the shards, an eighth over the copies */
    ck_assert_double_eq_tol(moved_over_dp(prediction, ACTION_REDUCE_GRAD, FALSE).bytes,
                            (zero == 1 ? 1 : 4) * 2 * others * (1 + 1.0 / 8), 1);
  }
}

/* Most that one op holds in buffers. */
static double most_held(const Program *program) {
  double most = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++)
    most = MAX(most, g_array_index(program->effects, Effect, program->ranks[0].ops[i].effect).hold[MEMORY_BUFFERS]);
  return most;
}

/* ZeRO-2 holds a whole gradient until it is in shards, 2 bytes a parameter, here of all layers at once. That of experts
 * which no other rank has (8 ranks, ep 8) is added to where it stays. */
TEST(gradients_that_are_not_in_shards_need_no_buffer) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int ep = 4; ep <= 8; ep *= 2) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 8, plan->ep = ep, plan->zero = 2, plan->global_batch = 8, plan->seq_len = 512;
    plan->overlap_grad = FALSE, plan->bucket_parameters = (gint64)1 << 40;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const StageWork *stage = &prediction->workload->stages[0];
    const double in_shards = (double)stage->parameters - (ep == 8 ? (double)stage->expert_parameters : 0);
    ck_assert_double_eq(most_held(prediction->program), 2 * in_shards);
  }
}

/* What ZeRO-3 gathers is let go: at the end of a step nothing more is held than at its beginning. */
TEST(gathered_experts_are_let_go) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int zero = 0; zero <= 3; zero++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 8, plan->ep = 2, plan->zero = zero, plan->global_batch = 16, plan->seq_len = 512;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const Program *program = prediction->program;
    double held[N_MEMORY] = {0};
    for (int i = 0; i < program->ranks[0].n_ops; i++) {
      const Effect *effect = &g_array_index(program->effects, Effect, program->ranks[0].ops[i].effect);
      for (int category = 0; category < N_MEMORY; category++)
        held[category] += effect->hold[category] - effect->drop[category];
    }
    for (int category = 0; category < N_MEMORY; category++)
      ck_assert_double_eq_tol(held[category], 0, 1);
  }
}

int main(void) {
  return run_tests();
}
