/* Parameter servers: pushes and pulls take what the links between workers and servers allow, and workers wait for each
 * other as far as they are told to. */
#include "plan_cases.h"
#include "program_text.h"
#include "run_suite.h"
#include "server_cost.h"
#include "verify.h"

#include <math.h>

static const char memory[] = "+memory=10000GB/s"; /* which holds nobody up */

static Prediction *predict_with(const char *options, const char *servers) {
  g_autoptr(Plan) plan = plan_said("--dp 16 --seq-len 512 --global-batch 64 --parameter-servers %s%s%s%s", servers,
                                   memory, *options != '\0' ? " " : "", options);
  return predict_plan(&llama, shipped_cluster("dgx-h100"), plan);
}

static double first_s(const Prediction *prediction, ActionKind action, double *bytes) {
  const OpList *list = &prediction->program->ranks[0];
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].action == action) {
      *bytes = g_array_index(prediction->program->transfers, Transfer, list->ops[i].work).bytes;
      return 1e-9 * (double)prediction->timing->transfers[list->ops[i].work].run_ns;
    }
  ck_abort_msg("no %s", action_info(action)->name);
}

/* 16 ranks, each with its NIC; a server has the eight of a node: with one of them, or two, the servers' links are the
 * narrower ones or as wide, with more, those of the ranks. */
TEST(pushes_and_pulls_take_what_the_narrower_side_allows) {
  const Cluster *cluster = shipped_cluster("dgx-h100");
  const double nic_Bps = cluster->nic_efficiency * cluster->nic_Bps;
  for (int n = 1; n <= 4; n++) {
    g_autofree char *servers = g_strdup_printf("%d", n);
    g_autoptr(Prediction) prediction = predict_with("", servers);
    double bytes, seconds = first_s(prediction, ACTION_PUSH, &bytes);
    const double Bps = MIN(nic_Bps, n * 8 * nic_Bps / 16);
    ck_assert_double_eq_tol(seconds, cluster->nic_latency_s + bytes / Bps, 2e-9);
    seconds = first_s(prediction, ACTION_PULL, &bytes);
    ck_assert_double_eq_tol(seconds, cluster->nic_latency_s + bytes / Bps, 2e-9);
  }
}

/* With one server of 100 Gb/s, a step takes what all gradients take to go there, and what no push hides: the first
 * bucket's forward and backward, the last one's pull. */
TEST(the_server_s_link_bounds_a_step) {
  g_autoptr(Prediction) ample = predict_with("", "16");
  g_autoptr(Prediction) narrow = predict_with("", "1+nic=100Gb/s");
  const double Bps = shipped_cluster("dgx-h100")->nic_efficiency * 12.5e9;
  const double pushed_s = 16 * 2 * model_parameters(&llama) / Bps;
  double bytes;
  const double pull_s = first_s(narrow, ACTION_PULL, &bytes);
  ck_assert_double_gt(pushed_s, 2 * ample->step_time_s);
  ck_assert_double_gt(narrow->step_time_s, pushed_s);
  ck_assert_double_lt(narrow->step_time_s, pushed_s + ample->step_time_s + 2 * pull_s);
}

/* Jiang et al., OSDI 2020, §4.1: with as many servers as nodes, all in one direction at once, M/B; on the n nodes
 * themselves 2(n − 1)/n · M/B, like an all-reduce. Here of eight GPUs that have summed first. */
TEST(servers_on_the_workers_nodes_take_as_long_as_an_all_reduce) {
  const Cluster *cluster = shipped_cluster("dgx-h100");
  const double node_Bps = 8 * cluster->nic_efficiency * cluster->nic_Bps, moved = 2 * model_parameters(&llama);
  g_autoptr(Prediction) apart = predict_with("", "2+local=8"), inside = predict_with("", "workers+local=8");
  double bytes;
  const double push_s = first_s(apart, ACTION_PUSH, &bytes) - cluster->nic_latency_s;
  ck_assert_double_eq_tol(push_s / bytes, 8 / node_Bps, 1e-3 * 8 / node_Bps);
  const double inside_s = first_s(inside, ACTION_PUSH, &bytes) - cluster->nic_latency_s;
  ck_assert_double_eq_tol(inside_s / bytes, 8 / node_Bps / 2, 1e-3 * 8 / node_Bps); /* half of it leaves the node */
  const ServerUse use = server_use(inside->workload, cluster, 1);
  ck_assert_double_eq_tol(use.network, 2 * (2 - 1) / 2.0 * moved / node_Bps, 1e-6);
}

/* Workers that differ in nothing meet the servers as folded ones do. */
TEST(ranks_apart_take_as_long_as_folded_ones) {
  static const char *const servers[] = {"2", "1", "2+async", "1+async=1", "2+local=8", "workers+local=8+async"};
  for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
    g_autoptr(Prediction) folded = predict_with("", servers[i]);
    g_autoptr(Prediction) apart = predict_with("--fold off", servers[i]);
    ck_assert_msg(fabs(apart->step_time_s / folded->step_time_s - 1) < 1e-6, "%s: %.9f s, folded %.9f s", servers[i],
                  apart->step_time_s, folded->step_time_s);
  }
}

/* All in step with the slowest; or each at its own pace: then sixteen take 16 steps in T with Σ T/Tᵢ = 16. */
TEST(a_slow_worker_holds_up_all_or_itself) {
  g_autoptr(Prediction) all_fast = predict_with("", "16+async");
  g_autoptr(Prediction) all_slow = predict_with("--slow-rank 0..15=2", "16+async");
  g_autoptr(Prediction) sync = predict_with("--slow-rank 3=2", "16");
  g_autoptr(Prediction) bounded = predict_with("--slow-rank 3=2", "16+async=2");
  g_autoptr(Prediction) async = predict_with("--slow-rank 3=2", "16+async");
  const double expected_s = 16 / (15 / all_fast->step_time_s + 1 / all_slow->step_time_s);
  ck_assert_msg(fabs(async->step_time_s / expected_s - 1) < 0.01, "%g s, expected %g s", async->step_time_s,
                expected_s);
  ck_assert_double_lt(async->step_time_s, 0.75 * sync->step_time_s);
  ck_assert_double_eq_tol(bounded->step_time_s / all_slow->step_time_s, 1, 0.02);
}

/* The end of a rank's step `step` and its begin. */
static gint64 edge_ns(const Prediction *prediction, int rank, int step, gboolean is_end) {
  const Trace *trace = prediction->trace;
  const OpList *list = trace_list(trace, rank);
  gint64 edge = is_end ? 0 : G_MAXINT64;
  for (int i = 0; i < list->n_ops; i++) {
    const gsize record = trace->first[rank] + (gsize)i;
    if (list->ops[i].step != step || (is_end ? list->ops[i].action != ACTION_SERVE : list->ops[i].kind != OP_COMPUTE))
      continue;
    edge = is_end ? MAX(edge, trace->end_ns[record]) : MIN(edge, trace->start_ns[record]);
  }
  return edge;
}

TEST(nobody_is_further_ahead_than_the_staleness) {
  static const int staleness[] = {0, 1, 3};
  for (gsize i = 0; i < G_N_ELEMENTS(staleness); i++) {
    g_autofree char *servers = g_strdup_printf("16+async=%d", staleness[i]);
    g_autoptr(Prediction) prediction = predict_with("--slow-rank 3=2 --steps 16", servers);
    gboolean is_reached = FALSE;
    for (int step = staleness[i] + 1; step < 16; step++) {
      const gint64 begin_ns = edge_ns(prediction, 0, step, FALSE);
      ck_assert_int_ge(begin_ns, edge_ns(prediction, 3, step - staleness[i] - 1, TRUE));
      is_reached |= begin_ns < edge_ns(prediction, 3, step - staleness[i], TRUE);
    }
    ck_assert(is_reached);
  }
}

TEST(workers_that_vary_lose_less_without_waiting) {
  g_autoptr(Prediction) sync = predict_with("--jitter 0.3 --steps 12", "16+async=0");
  g_autoptr(Prediction) async = predict_with("--jitter 0.3", "16+async");
  ck_assert_double_lt(async->step_time_s, sync->step_time_s);
}

/* Master copy and moments, of 12 bytes, are theirs; what workers push and pull is held there too. */
TEST(servers_hold_the_optimizer_s_state) {
  g_autoptr(Prediction) prediction = predict_with("", "4");
  ck_assert_double_eq(prediction->program->ranks[0].resident[MEMORY_OPTIMIZER], 0);
  ck_assert_double_eq_tol(prediction->servers.bytes, (12 + 4 + 2) * model_parameters(&llama) / 4, 1);
}

TEST(their_program_is_proved_and_read_back) {
  g_autoptr(Prediction) prediction = predict_with("--tp 2 --dp 8", "2+async=1+local=4");
  GError *error = NULL;
  ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "?");
  g_autofree char *text = program_to_text(prediction->program);
  g_autoptr(Program) again = program_from_text(text, "again", &error);
  ck_assert_msg(again != NULL, "%s", error != NULL ? error->message : "?");
  g_autofree char *other = program_to_text(again);
  ck_assert_str_eq(text, other);
}

/* Where the experts of a layer and its other weights are two buckets. */
TEST(a_program_with_experts_is_run_again) {
  static const char *const servers[] = {"3", "2+async=1", "workers+local=2"};
  for (gsize i = 0; i < G_N_ELEMENTS(servers); i++) {
    g_autoptr(Plan) plan = plan_said("--dp 4 --seq-len 512 --parameter-servers %s", servers[i]);
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("olmoe-1b-7b"), shipped_cluster("dgx-h100"), plan);
    GError *error = NULL;
    ck_assert_msg(program_verify(prediction->program, &error), "%s: %s", servers[i],
                  error != NULL ? error->message : "?");
    g_autofree char *text = program_to_text(prediction->program);
    g_autoptr(Prediction) again = predict_program(shipped_model("olmoe-1b-7b"), shipped_cluster("dgx-h100"), plan,
                                                  program_from_text(text, "again", &error), &error);
    ck_assert_msg(again != NULL, "%s: %s", servers[i], error != NULL ? error->message : "?");
    ck_assert_double_eq(again->step_time_s, prediction->step_time_s);
  }
}

int main(void) {
  return run_tests();
}
