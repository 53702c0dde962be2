/* Host time of expert layers: issuing them, replaying graphs, waiting for the routing. Also multi-token-prediction
 * heads, each of which has a layer. */
#include "framework_cost.h"
#include "run_suite.h"

#include <check.h>

#include "expert_cases.h"
#include "host_waits.h"
#include "method_of.h"
#include "plan.h"
#include "predict.h"
#include "verify.h"

/* norm, router, permute │ exchange │ up │ exchange │ residual */
enum { NORM, ROUTER, PERMUTE, DISPATCH, UP, COMBINE, RESIDUAL, N_ITEMS };

static void fill(WorkItem items[N_ITEMS]) {
  static const char *const names[] = {"norm",      "router",        "permute", "ep.all_to_all",
                                      "expert_up", "ep.all_to_all", "residual"};
  for (int i = 0; i < N_ITEMS; i++) {
    const gboolean is_exchange = i == DISPATCH || i == COMBINE;
    items[i] = (WorkItem){.name = names[i],
                          .kind = is_exchange ? ITEM_COLLECTIVE : ITEM_MEMORY,
                          .axis = is_exchange ? AXIS_EP : AXIS_TP,
                          .after = -1};
  }
}

/* A host that issues a kernel in 6 us where the framework's took 5: 1.2 times 200 and 100 us. */
TEST(each_kernel_takes_its_time_on_a_slower_host) {
  WorkItem items[N_ITEMS];
  fill(items);
  const WorkList work = {.items = items, .n_items = N_ITEMS};
  g_autoptr(Plan) plan = plan_new();
  plan->time =
      (FrameworkTime){.expert_host = {.is_stated = TRUE, .forward_s = 200e-6, .backward_s = 100e-6, .launch_s = 5e-6}};
  const LaunchTimes forward = framework_launches(method_of(plan), &work, NULL, PIECE_LAYER, PHASE_F, TRUE, 6e-6);
  const LaunchTimes backward = framework_launches(method_of(plan), &work, NULL, PIECE_LAYER, PHASE_B, TRUE, 6e-6);
  const LaunchTimes dense = framework_launches(method_of(plan), &work, NULL, PIECE_DENSE_LAYER, PHASE_F, FALSE, 6e-6);
  ck_assert_double_eq_tol(framework_launch_s(&forward, &items[UP]), 240e-6, 1e-12);
  ck_assert_double_eq_tol(framework_launch_s(&backward, &items[UP]), 120e-6, 1e-12);
  ck_assert_double_eq_tol(framework_launch_s(&forward, &items[DISPATCH]), 6e-6, 1e-12);
  ck_assert_double_eq_tol(framework_launch_s(&dense, &items[UP]), 6e-6, 1e-12);
  items[UP].recompute = TRUE; /* forward's kernels, issued in backward */
  ck_assert_double_eq_tol(framework_launch_s(&backward, &items[UP]), 240e-6, 1e-12);
}

TEST(graphs_replay_what_they_cover) {
  static const struct {
    CudaGraphs graphs;
    guint items; /* a set */
  } cases[] = {{CUDA_GRAPHS_NONE, 0},
               {CUDA_GRAPHS_ROUTER, 1u << ROUTER},
               {CUDA_GRAPHS_ATTENTION, 1u << NORM | 1u << ROUTER | 1u << PERMUTE | 1u << RESIDUAL},
               {CUDA_GRAPHS_FULL, (1u << N_ITEMS) - 1}};
  WorkItem items[N_ITEMS];
  fill(items);
  const WorkList work = {.items = items, .n_items = N_ITEMS};
  g_autoptr(Plan) plan = plan_new();
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    plan->cuda_graphs = cases[c].graphs;
    for (int i = 0; i < N_ITEMS; i++)
      ck_assert_int_eq(framework_replays(method_of(plan)->cuda_graphs, &work, i), (cases[c].items >> i) & 1);
  }
}

/* On one rank of ep nothing is sent: its experts' products alone are left out. */
TEST(graphs_replay_attention_where_nothing_is_exchanged) {
  WorkItem items[N_ITEMS];
  fill(items);
  const WorkList work = {.items = items, .n_items = N_ITEMS};
  g_autoptr(Plan) plan = plan_new();
  plan->cuda_graphs = CUDA_GRAPHS_ATTENTION;
  items[DISPATCH].kind = items[COMBINE].kind = ITEM_MEMORY;
  for (int i = 0; i < N_ITEMS; i++)
    ck_assert_int_eq(framework_replays(method_of(plan)->cuda_graphs, &work, i), i != UP);
  items[ROUTER].name = items[UP].name = "mlp_up"; /* a dense layer's */
  for (int i = 0; i < N_ITEMS; i++)
    ck_assert(!framework_replays(method_of(plan)->cuda_graphs, &work, i));
}

/* A collective takes what the framework says of it, in proportion too; as it does where it is an op of its own. */
TEST(collectives_of_experts_take_their_time) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int graphs = CUDA_GRAPHS_NONE; graphs <= CUDA_GRAPHS_FULL; graphs += CUDA_GRAPHS_FULL) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = plan->ep = 8, plan->seq_len = 512, plan->global_batch = 8, plan->cuda_graphs = graphs;
    plan->time.expert_host.is_stated = TRUE;
    plan->time.expert_host.forward_s = plan->time.expert_host.backward_s = 100e-6;
    plan->time.expert_host.launch_s = cluster->gpu.host_launch_s / 2; /* a host half as fast */
    plan->time.expert_host.collective_s = 50e-6;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const TimedList *list = &prediction->timing->lists[PIECE_LAYER][PHASE_F];
    const gint64 expected_ns = graphs == CUDA_GRAPHS_FULL ? 0 : 100000;
    int n_items = 0, n_ops = 0;
    for (int i = 0; i < list->n_items; i++)
      if (list->items[i].is_collective) {
        ck_assert_int_eq(list->items[i].launch_ns, expected_ns);
        n_items++;
      }
    for (guint i = 0; i < prediction->program->transfers->len; i++)
      if (g_array_index(prediction->program->transfers, Transfer, i).is_item) {
        ck_assert_int_eq(prediction->timing->transfers[i].host_ns, expected_ns);
        n_ops++;
      }
    ck_assert(n_items == 2 && n_ops > 0);
  }
}

/* 4 layers, all with experts, of 2 micro-batches on 8 ranks. Kernels that take the host 1 ms each and the GPU less: the
 * step is as long as it takes to issue them, some 2 · 4 · (forward + backward) ms, and longer where the host waits 2 ·
 * 4 times for the choice of experts. A graph of all takes both away. */
TEST(a_host_that_counts_waits_for_every_choice) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  Model model = mixture();
  model.n_layers = 4;
  model.experts.every = 1;
  model.experts.n_leading = 0;
  double step_s[2];
  for (int counts = EXPERT_COUNTS_ON_DEVICE; counts <= EXPERT_COUNTS_ON_HOST; counts++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = plan->ep = 8, plan->seq_len = 512, plan->global_batch = 16;
    plan->time.expert_host.is_stated = TRUE;
    plan->time.expert_host.forward_s = plan->time.expert_host.backward_s = 1e-3;
    plan->time.expert_host.launch_s = cluster->gpu.host_launch_s;
    plan->time.expert_counts = counts;
    g_autoptr(Plan) replayed = plan_copy(plan);
    replayed->cuda_graphs = CUDA_GRAPHS_FULL;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    g_autoptr(Prediction) graph = predict(&model, cluster, replayed, NULL);
    ck_assert(prediction != NULL && graph != NULL);
    ck_assert_int_eq(n_host_waits(prediction->program) - n_host_waits(graph->program), 8 * counts);
    int n_kernels = 0;
    const TimedList *lists = prediction->timing->lists[PIECE_LAYER];
    for (int phase = PHASE_F; phase <= PHASE_B; phase += PHASE_B - PHASE_F)
      for (int i = 0; i < lists[phase].n_items; i++)
        n_kernels += !lists[phase].items[i].is_collective;
    ck_assert_double_ge(prediction->step_time_s, 2 * 4 * n_kernels * 1e-3);
    ck_assert_double_le(prediction->step_time_s, 2 * 4 * n_kernels * 1e-3 * 1.1);
    ck_assert_double_lt(graph->step_time_s, prediction->step_time_s / 4);
    step_s[counts] = prediction->step_time_s;
  }
  ck_assert_double_gt(step_s[EXPERT_COUNTS_ON_HOST], step_s[EXPERT_COUNTS_ON_DEVICE]);
}

/* Without a pipeline neighbouring micro-batches hide each other's exchanges, and two are held in place of one. */
TEST(a_lone_rank_hides_exchanges_beside_its_neighbour) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  double exposed_s[2], step_s[2], peak_bytes[2];
  for (int overlap = FALSE; overlap <= TRUE; overlap++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = plan->ep = 8, plan->seq_len = 2048, plan->global_batch = 32;
    plan->overlap_experts = overlap;
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "");
    exposed_s[overlap] = prediction->metrics->exposed_s[AXIS_EP];
    step_s[overlap] = prediction->step_time_s;
    peak_bytes[overlap] = prediction->memory->peak_bytes;
  }
  ck_assert_double_lt(exposed_s[TRUE], exposed_s[FALSE] / 2);
  ck_assert_double_lt(step_s[TRUE], step_s[FALSE]);
  ck_assert_double_gt(peak_bytes[TRUE], peak_bytes[FALSE]);
}

/* A layer 8 ms forward and 20 ms backward, an end 1 ms and 3 ms, in equal parts over 4 kernels. A head further is a
 * layer and an end. */
TEST(heads_that_predict_further_take_the_host_a_layer_and_an_end_each) {
  const FrameworkTime times = {.host = {.is_stated = TRUE,
                                        .layer_forward_s = 8e-3,
                                        .layer_backward_s = 20e-3,
                                        .ends_forward_s = 1e-3,
                                        .ends_backward_s = 3e-3}};
  WorkItem items[4] = {{.kind = ITEM_MEMORY}, {.kind = ITEM_MEMORY}, {.kind = ITEM_MEMORY}, {.kind = ITEM_MEMORY}};
  const WorkList work = {.items = items, .n_items = 4};
  for (int n_mtp = 0; n_mtp <= 2; n_mtp++) {
    g_autoptr(Plan) plan = plan_new();
    plan->time = times;
    plan->mtp_layers = n_mtp;
    const LaunchTimes forward = framework_launches(method_of(plan), &work, NULL, PIECE_HEAD, PHASE_F, FALSE, 1e-6);
    const LaunchTimes backward = framework_launches(method_of(plan), &work, NULL, PIECE_HEAD, PHASE_B, FALSE, 1e-6);
    const LaunchTimes weights = framework_launches(method_of(plan), &work, NULL, PIECE_HEAD, PHASE_W, FALSE, 1e-6);
    ck_assert_double_eq_tol(4 * forward.kernel_s, 1e-3 + n_mtp * 9e-3, 1e-12);
    ck_assert_double_eq_tol(4 * backward.kernel_s, 3e-3 + n_mtp * 23e-3, 1e-12);
    ck_assert_double_eq_tol(weights.kernel_s, backward.kernel_s / 2, 1e-12);
  }
}

int main(void) {
  return run_tests();
}
