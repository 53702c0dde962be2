/* What a framework adds to communication: gradient reductions, tp reductions, sends between stages. */
#include "error.h"
#include "run_suite.h"

#include <check.h>

#include "collective_cost.h"
#include "plan.h"
#include "plan_cases.h"
#include "predict.h"

/* Bytes of the collectives of a kind that sum gradients. */
static double reduced_bytes(const Prediction *prediction, Collective collective) {
  const Program *program = prediction->program;
  const OpList *list = &program->ranks[0];
  double bytes = 0;
  for (int i = 0; i < list->n_ops; i++) {
    if (list->ops[i].action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, list->ops[i].work);
    bytes += transfer->collective == collective ? transfer->bytes : 0;
  }
  return bytes;
}

/* P parameters under ZeRO-1 over 4: reduce-scatters of 2·P bytes as bf16+master holds gradients; whole and in fp32 they
 * are all-reduces of 4·P, in fp16 of 2·P, and none runs beside the backward. */
TEST(whole_gradients_are_all_reduced_as_wide_as_they_are_summed) {
  const Framework sharded = {0},
                  whole = {.time = {.data_parallel = DP_ALONE, .gradients = GRADIENTS_WHOLE, .gradient_sum_bytes = 4}};
  const struct {
    const Framework *framework;
    Precision precision;
    Collective collective;
    double bytes;
  } cases[] = {{&sharded, PRECISION_BF16, COLLECTIVE_REDUCE_SCATTER, 2},
               {&whole, PRECISION_BF16, COLLECTIVE_ALL_REDUCE, 4},
               {&whole, PRECISION_FP16, COLLECTIVE_ALL_REDUCE, 2}};
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(GError) error = NULL;
    g_autoptr(Plan) plan = plan_new();
    plan->precision = cases[i].precision;
    plan_set_framework(plan, "own", cases[i].framework);
    plan->gpus = 4;
    plan->zero = 1;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
    const double parameters = (double)prediction->workload->stages[0].parameters;
    for (Collective c = 0; c < N_COLLECTIVES; c++)
      ck_assert_double_eq(reduced_bytes(prediction, c), c == cases[i].collective ? cases[i].bytes * parameters : 0);
    ck_assert_int_eq(prediction->workload->plan->overlap_grad, cases[i].framework == &sharded);
  }
}

/* gpt2 has 12 layers of 4 matrices, and one for embedding and head together, which is counted at either end: 50. Of 4
 * ranks each broadcasts a quarter of 2·P bytes, of 64 a fiftieth come from 50; and that waits for the update, whatever
 * --overlap-param says. */
TEST(owners_of_matrices_broadcast_them_after_the_update) {
  const Framework owners = {.time = {.weights = WEIGHTS_BROADCAST}};
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  for (int gpus = 4; gpus <= 64; gpus *= 16) {
    g_autoptr(Plan) plan = plan_new();
    plan_set_framework(plan, "own", &owners);
    plan->gpus = gpus;
    plan->zero = 1;
    plan->overlap_param = TRUE;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const Program *program = prediction->program;
    gboolean is_updated = FALSE;
    double bytes = 0;
    int n = 0;
    for (int i = 0; i < program->ranks[0].n_ops; i++) {
      const Op *op = &program->ranks[0].ops[i];
      is_updated = is_updated || op->action == ACTION_OPTIMIZER;
      if (op->action != ACTION_UNSHARD)
        continue;
      const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
      ck_assert_int_eq(transfer->collective, COLLECTIVE_BROADCAST);
      ck_assert(is_updated);
      bytes += transfer->bytes;
      n++;
    }
    ck_assert_int_eq(n, MIN(gpus, 50));
    ck_assert_double_eq_tol(bytes, 2 * (double)prediction->workload->stages[0].parameters, 1);
  }
}

static double step_of_tensor_parallel(FrameworkReduction how, gboolean sequence_parallel) {
  g_autoptr(Model) model = model_read("gpt3-175b", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Plan) plan = plan_new();
  model->n_layers = 2;
  plan->gpus = plan->tp = 8;
  plan->global_batch = 1;
  plan->sequence_parallel = sequence_parallel;
  plan->time.tensor_parallel.reduction = how;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction->step_time_s;
}

TEST(sums_run_beside_weight_gradients_or_alone) {
  for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++)
    ck_assert_double_lt(step_of_tensor_parallel(TP_BESIDE, sequence_parallel),
                        step_of_tensor_parallel(TP_ALONE, sequence_parallel));
}

static int n_host_waits(const Program *program) {
  int n = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++)
    n += program->ranks[0].ops[i].action == ACTION_WAIT;
  return n;
}

/* gpt2 over two nodes, a stage each, tp 4. */
static Prediction *of_two_stages(const Cluster *cluster, int stage_tensors, gboolean sequence_parallel) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Plan) plan = plan_new();
  plan->gpus = 16;
  plan->tp = 4;
  plan->pp = 2;
  plan->precision = PRECISION_FP16;
  plan->sequence_parallel = sequence_parallel;
  plan->time.stage_tensors = stage_tensors;
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

static int send_of(const Prediction *prediction) {
  int send = 0;
  while (g_array_index(prediction->program->transfers, Transfer, send).group >= 0)
    send++;
  return send;
}

static double send_s(const Prediction *prediction) {
  return (double)prediction->timing->transfers[send_of(prediction)].run_ns * 1e-9;
}

/* For which it has ways that others may want. */
static double moving_s(const Prediction *prediction) {
  return send_s(prediction) - (double)prediction->timing->loads[send_of(prediction)].latency_ns * 1e-9;
}

/* 1 sequence of 1,024 tokens of 768 in fp16. A rank of tp sends a quarter, as under sequence parallelism, where nothing
 * more is cut; but all four gather what they received, which takes nothing of the NICs. */
TEST(ranks_of_tp_send_parts_of_an_activation) {
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Prediction) whole = of_two_stages(cluster, STAGE_TENSORS_WHOLE, FALSE);
  g_autoptr(Prediction) split = of_two_stages(cluster, STAGE_TENSORS_SPLIT, FALSE);
  g_autoptr(Prediction) sequence = of_two_stages(cluster, STAGE_TENSORS_SPLIT, TRUE);
  const double bytes = 1024 * 768 * 2;
  ck_assert_double_eq(whole->workload->boundary_bytes, bytes);
  ck_assert_double_eq(split->workload->boundary_bytes, bytes / 4);
  ck_assert_double_eq(sequence->workload->boundary_bytes, bytes / 4);
  const int members[] = {0, 1, 2, 3};
  const GroupShape group = layout_shape_of(cluster, members, 4);
  const double gather_s = collective_cost(cluster, COLLECTIVE_ALL_GATHER, &group, bytes, -1).time_s;
  ck_assert_double_gt(gather_s, 1e-5);
  ck_assert_double_eq_tol(send_s(split) - send_s(sequence), gather_s, 2.1e-9);
  ck_assert_double_gt(moving_s(sequence), 1e-5);
  ck_assert_double_eq_tol(moving_s(split), moving_s(sequence), 2.1e-9);
}

/* 1f1b over 2 stages, 4 micro-batches. Rank 0 exchanges ahead of F1 (sends F0) and of B0 … B3 (receives; all but the
 * last send as well); nothing comes or goes ahead of F0, F2 and F3. */
TEST(synchronous_sends_have_the_host_wait_for_every_exchange) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  for (int sends = SENDS_ON_STREAMS; sends <= SENDS_SYNCHRONOUS; sends++) {
    g_autoptr(Plan) plan = plan_new();
    plan->gpus = 2;
    plan->pp = 2;
    plan->global_batch = 4;
    plan->time.sends = sends;
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(n_host_waits(prediction->program), sends == SENDS_SYNCHRONOUS ? 5 : 0);
  }
}

int main(void) {
  return run_tests();
}
