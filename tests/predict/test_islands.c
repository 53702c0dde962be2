/* Islands of local SGD: a period of steps is what its steps are, and an outer step what the sum over islands takes. */
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "verify.h"

#include <math.h>

/* Groups of 32 GPUs, between which a GPU's part of the uplinks is a hundredth of its NIC. */
static const double uplinks = 100;
static const Cluster *far_apart(void) {
  static Cluster *cluster;
  if (cluster != NULL)
    return cluster;
  g_autoptr(GError) error = NULL;
  cluster = cluster_parse("far-apart.yaml",
                          "name: far-apart\nbase: dgx-h100\nfabric:\n  leaves: {nodes: 4}\n  tiers: [{span: 128, "
                          "oversubscription: 100, latency: 5 ms}]\n",
                          &error);
  ck_assert_msg(cluster != NULL, "%s", error != NULL ? error->message : "");
  return cluster;
}

static Prediction *predict_with(const char *options, const char *more) {
  g_autoptr(Plan) plan = plan_said("--dp 128 --global-batch 128 --seq-len 2048 --zero 2 %s%s", options, more);
  return predict_plan(&llama, far_apart(), plan);
}

static double plain_s(const Prediction *prediction) {
  return 1e-9 * (double)prediction->metrics->plain_step_ns;
}

/* What it adds to a period. */
static double outer_s(const Prediction *prediction) {
  const Metrics *metrics = prediction->metrics;
  return 1e-9 * (double)(metrics->window_ns - metrics->window * metrics->plain_step_ns);
}

/* Four islands of 32 in a ring: every GPU sends 2·3/4 of its part, 4 bytes of a 32nd of the parameters each. */
static double ring_s(double bytes) {
  const Cluster *cluster = far_apart();
  const double part = bytes * model_parameters(&llama) / 32, Bps = cluster->nic_Bps * cluster->nic_efficiency / uplinks;
  return 2 * 3 / 4.0 * part / Bps;
}

TEST(an_outer_step_takes_what_its_bytes_take_between_islands) {
  static const double bytes[] = {4, 2, 0.5};
  for (gsize i = 0; i < G_N_ELEMENTS(bytes); i++) {
    g_autofree char *more = g_strdup_printf(" --outer nesterov+bytes=%g", bytes[i]);
    g_autoptr(Prediction) prediction = predict_with("--islands 4 --local-steps 50", more);
    const double wire_s = ring_s(bytes[i]), latency_s = 6 * 5e-3; /* six steps of the ring climb to the tier */
    ck_assert_msg(outer_s(prediction) > wire_s && outer_s(prediction) < 1.05 * wire_s + 1.1 * latency_s,
                  "%g bytes: %g s, on the wire %g s", bytes[i], outer_s(prediction), wire_s);
  }
}

/* INTELLECT-1 (arXiv 2412.01152): in int8 and every hundred steps, a 400th of what gradients in fp32 are. */
TEST(rare_narrow_sums_send_a_400th) {
  g_autoptr(Prediction) rare = predict_with("--islands 4 --local-steps 100", " --outer nesterov+bytes=1");
  g_autoptr(Prediction) each = predict_with("--islands 4", " --outer mean");
  double bytes[2] = {0};
  const Prediction *const both[] = {rare, each};
  for (int k = 0; k < 2; k++) {
    const OpList *list = &both[k]->program->ranks[0];
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].action == ACTION_OUTER_SUM)
        bytes[k] += g_array_index(both[k]->program->transfers, Transfer, list->ops[i].work).bytes;
    bytes[k] /= both[k]->metrics->period;
  }
  ck_assert_double_eq_tol(bytes[1] / bytes[0], 400, 1e-6);
}

TEST(a_step_is_the_mean_over_its_period) {
  g_autoptr(Prediction) prediction = predict_with("--islands 4 --local-steps 50", "");
  ck_assert_double_eq_tol(prediction->step_time_s, plain_s(prediction) + outer_s(prediction) / 50, 1e-9);
}

/* All of a period's steps are run: they take as long as the one that stands for them says. */
TEST(steps_run_one_by_one_take_as_long) {
  static const char *const plans[] = {"--islands 4 --local-steps 6", "--islands 2 --local-steps 6 --tp 2 --dp 64",
                                      "--islands 2 --local-steps 6 --pp 2 --dp 64 --zero 1",
                                      "--islands 4 --local-steps 6 --outer mean+delay=2",
                                      "--islands 4 --local-steps 12 --outer nesterov+fragments=2+delay=3"};
  for (gsize i = 0; i < G_N_ELEMENTS(plans); i++) {
    g_autoptr(Prediction) few = predict_with(plans[i], "");
    g_autoptr(Prediction) all = predict_with(plans[i], " --steps 7");
    const int period = all->metrics->period;
    const double run_s = 1e-9 * (double)(trace_end(all->trace) - trace_step_end(all->trace, 0));
    ck_assert_int_eq(period, 6);
    ck_assert_msg(fabs(run_s - period * few->step_time_s) < 1e-6, "%s: %.9f s, of the mean %.9f s", plans[i], run_s,
                  period * few->step_time_s);
    ck_assert_int_eq(few->metrics->step_ns, all->metrics->step_ns);
  }
}

TEST(what_ranks_are_charged_sums_to_the_mean_step) {
  g_autoptr(Prediction) prediction = predict_with("--islands 4 --local-steps 7 --pp 2 --dp 64", "");
  for (int rank = 0; rank < prediction->metrics->n_ranks; rank++) {
    gint64 sum_ns = 0;
    for (int kind = 0; kind < N_BREAKDOWN; kind++)
      sum_ns += prediction->metrics->ranks[rank].ns[kind];
    ck_assert_int_eq(sum_ns, prediction->metrics->step_ns);
  }
}

/* A sum that is shorter than the steps beside it costs what updating does; of a longer one, the rest. */
TEST(a_sum_beside_steps_costs_what_is_left_of_it) {
  g_autoptr(Prediction) alone = predict_with("--islands 4 --local-steps 50", "");
  g_autoptr(Prediction) beside = predict_with("--islands 4 --local-steps 50", " --outer nesterov+delay=1");
  const double step_s = plain_s(alone), sum_s = outer_s(alone);
  const double left_s = MAX(sum_s - step_s, 0);
  ck_assert_double_gt(sum_s, 1.5 * step_s);
  ck_assert_msg(fabs(outer_s(beside) - left_s) < 0.05 * sum_s, "%g s, of %g s beside %g s", outer_s(beside), sum_s,
                step_s);
  g_autoptr(Prediction) hidden = predict_with("--islands 4 --local-steps 48", " --outer nesterov+fragments=8+delay=2");
  ck_assert_double_lt(outer_s(hidden), 0.01 * step_s);
}

TEST(islands_sum_gradients_among_themselves) {
  g_autoptr(Prediction) apart = predict_with("--islands 4 --local-steps 1000000", "");
  g_autoptr(Plan) plan = plan_said("--dp 32 --global-batch 32 --seq-len 2048 --zero 2");
  g_autoptr(Prediction) alone = predict_plan(&llama, far_apart(), plan);
  ck_assert_double_eq_tol(plain_s(apart), alone->step_time_s, 1e-8);
}

/* Anchor and momentum in fp32, of a 32nd each. */
TEST(the_outer_state_is_shared_out_within_an_island) {
  g_autoptr(Prediction) islands = predict_with("--islands 4 --local-steps 50", "");
  g_autoptr(Prediction) mean = predict_with("--islands 4 --local-steps 50", " --outer mean");
  g_autoptr(Plan) plan = plan_said("--dp 32 --global-batch 32 --seq-len 2048 --zero 2");
  g_autoptr(Prediction) alone = predict_plan(&llama, far_apart(), plan);
  const double part = model_parameters(&llama) / 32;
  const double more =
      islands->program->ranks[0].resident[MEMORY_OPTIMIZER] - alone->program->ranks[0].resident[MEMORY_OPTIMIZER];
  ck_assert_double_eq_tol(more, 8 * part, 2);
  ck_assert_double_eq_tol(islands->program->ranks[0].resident[MEMORY_OPTIMIZER] -
                              mean->program->ranks[0].resident[MEMORY_OPTIMIZER],
                          4 * part, 2);
}

/* --zero 0: four ranks have a quarter each, and gather the rest. */
TEST(parts_of_copies_are_gathered) {
  g_autoptr(Plan) plan = plan_said("--dp 8 --islands 2 --local-steps 2 --global-batch 8 --seq-len 512 --steps 2");
  g_autoptr(Prediction) prediction = predict_plan(&llama, shipped_cluster("dgx-h100"), plan);
  double sum = 0, gather = 0;
  const OpList *list = &prediction->program->ranks[0];
  for (int i = 0; i < list->n_ops; i++) {
    if (list->ops[i].kind != OP_COLLECTIVE)
      continue;
    const double bytes = g_array_index(prediction->program->transfers, Transfer, list->ops[i].work).bytes;
    sum += list->ops[i].action == ACTION_OUTER_SUM ? bytes : 0;
    gather += list->ops[i].action == ACTION_OUTER_GATHER ? bytes : 0;
  }
  ck_assert_double_eq_tol(sum, 4 * model_parameters(&llama) / 4, 1);
  ck_assert_double_eq_tol(gather, 4 * model_parameters(&llama), 1);
}

TEST(ranks_apart_take_as_long_as_folded_ones) {
  static const char *const plans[] = {"--dp 8 --zero 1", "--dp 4 --tp 2 --zero 3", "--dp 4 --pp 2"};
  for (gsize i = 0; i < G_N_ELEMENTS(plans); i++)
    for (int delay = 0; delay < 2; delay++) {
      g_autoptr(Plan) plan =
          plan_said("%s --islands 2 --local-steps 4 --outer mean+delay=%d --seq-len 512", plans[i], delay);
      g_autoptr(Prediction) folded = predict_plan(&llama, shipped_cluster("selene"), plan);
      plan->fold = FALSE;
      g_autoptr(Prediction) apart = predict_plan(&llama, shipped_cluster("selene"), plan);
      ck_assert_int_eq(folded->metrics->step_ns, apart->metrics->step_ns);
    }
}

TEST(their_program_is_proved_and_read_back) {
  g_autoptr(Prediction) prediction =
      predict_with("--islands 4 --local-steps 6 --zero 0 --pp 2 --dp 64", " --outer mean+fragments=2+delay=1");
  GError *error = NULL;
  ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "?");
  g_autofree char *text = program_to_text(prediction->program);
  g_autoptr(Program) again = program_from_text(text, "again", &error);
  ck_assert_msg(again != NULL, "%s", error != NULL ? error->message : "?");
  g_autofree char *other = program_to_text(again);
  ck_assert_str_eq(text, other);
}

/* Islands are outside everything else: consecutive ranks. */
TEST(an_island_has_consecutive_ranks) {
  g_autoptr(Prediction) prediction = predict_with("--islands 4 --local-steps 2 --pp 2 --tp 2 --dp 32", "");
  const Layout *layout = &prediction->workload->layout;
  int members[128];
  layout_group_members(layout, AXIS_BIT_DP_ISLAND, 37, members);
  ck_assert_int_eq(layout_group_size(layout, AXIS_BIT_DP_ISLAND), 4);
  for (int i = 0; i < 4; i++)
    ck_assert_int_eq(members[i], 5 + 32 * i);
  layout_group_members(layout, AXIS_BIT(AXIS_DP) | AXIS_BIT(AXIS_TP) | AXIS_BIT(AXIS_PP), 37, members);
  ck_assert_int_eq(layout_group_size(layout, AXIS_BIT(AXIS_DP) | AXIS_BIT(AXIS_TP) | AXIS_BIT(AXIS_PP)), 32);
  for (int i = 0; i < 32; i++)
    ck_assert_int_eq(members[i], 32 + i);
  for (int rank = 0; rank < layout->n_ranks; rank++) {
    const Coordinates at = layout_coordinates(layout, rank);
    ck_assert_int_eq(layout_rank(layout, &at), rank);
    ck_assert_int_eq(at.at[AXIS_DP] / 8, rank / 32);
  }
}

int main(void) {
  return run_tests();
}
