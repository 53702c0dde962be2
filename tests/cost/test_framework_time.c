/* How a framework spends time: its file's keys, what they make of kernels, collectives and pipelines. */
#include "error.h" /* ahead of Check, which has a macro fail() */

#include <check.h>
#include <math.h>
#include <string.h>

#include "collective_cost.h"
#include "framework_cost.h"
#include "kernel_cost.h"
#include "plan_cases.h"
#include "predict.h"

static gboolean parse(const char *text, FrameworkTime *time, GError **error) {
  g_autoptr(YamlFile) file = yaml_file_parse("f.yaml", text, strlen(text), error);
  ck_assert_ptr_nonnull(file);
  *time = (FrameworkTime){0};
  return framework_time_parse(yaml_file_root(file), time, error);
}

/* Every key, with another value than its default. */
static const char all_keys[] = "host:\n"
                               "  layer: {forward: 2 ms, again: 1 ms, backward: 3 ms}\n"
                               "  ends: {forward: 4 ms, backward: 5 ms}\n"
                               "  collective: 6 us\n"
                               "expert_host: {forward: 8 us, backward: 9 us, launch: 4 us, collective: 10 us}\n"
                               "step: 9 ms\n"
                               "arrival_spread: 7 us\n"
                               "kernels: plain\n"
                               "loss: fused\n"
                               "sends: synchronous\n"
                               "overlap_p2p: chunks\n"
                               "stage_tensors: split\n"
                               "tensor_parallel: fused\n"
                               "tensor_parallel_hidden: 0.5\n"
                               "tensor_parallel_format: linear\n"
                               "gate_gradients: apart\n"
                               "qkv_gradients: apart\n"
                               "tensor_parallel_input: copied\n"
                               "layer_norm: {forward: 3.5, backward: 11}\n"
                               "row_bias: apart\n"
                               "data_parallel: alone\n"
                               "gradients: whole\n"
                               "pipeline_gradients: whole\n"
                               "expert_optimizer: apart\n"
                               "weights: broadcast\n"
                               "zero3_tensors: {list_entry: 8 us, memory_passes: 3, live_parameters: 1e6}\n"
                               "gradient_sum_bytes: 4\n"
                               "gradient_sums: apart\n"
                               "gradient_passes: 3\n"
                               "buffer_passes: 2\n"
                               "gradient_scaling: apart\n"
                               "recompute_end: needed\n"
                               "norm_rate: 0.75\nattention_copies: {forward: 17, backward: 21}\n"
                               "context: blocks\n"
                               "context_exchanges: alone\n"
                               "expert_overlap: rounds\n"
                               "expert_dispatch: deepep\n"
                               "grace_expert_graphs: attention\n"
                               "expert_counts: host\n"
                               "expert_operations: single\nscaled_rotation: single\nstrided_rate: 0.5\n"
                               "expert_padding: copied\n"
                               "expert_format: linear\n"
                               "scales: blocks\n"
                               "expert_sms: 20\n"
                               "rates:\n"
                               "  hopper: {products: 0.9, attention_forward: 0.3, attention_backward: 0.2}\n";

START_TEST(keys_fill_the_struct) {
  FrameworkTime time;
  ck_assert(parse(all_keys, &time, NULL));
  ck_assert(time.has_host);
  ck_assert_double_eq_tol(time.layer_again_s, 1e-3, 1e-12);
  ck_assert_double_eq_tol(time.ends_backward_s, 5e-3, 1e-12);
  ck_assert_double_eq_tol(time.collective_s, 6e-6, 1e-15);
  ck_assert(time.has_expert_host);
  ck_assert(fabs(time.expert_forward_s - 8e-6) < 1e-15 && fabs(time.expert_backward_s - 9e-6) < 1e-15);
  ck_assert_double_eq_tol(time.expert_launch_s, 4e-6, 1e-15);
  ck_assert_double_eq_tol(time.expert_collective_s, 10e-6, 1e-15);
  ck_assert(fabs(time.arrival_spread_s - 7e-6) < 1e-15 && fabs(time.step_s - 9e-3) < 1e-12);
  ck_assert(time.kernels == FRAMEWORK_KERNELS_PLAIN && time.loss == LOSS_FUSED);
  ck_assert(time.sends == SENDS_SYNCHRONOUS && time.overlap_p2p == P2P_CHUNKS);
  ck_assert(time.stage_tensors == STAGE_TENSORS_SPLIT && time.gate_gradients == INPUT_GRADIENTS_APART);
  ck_assert(time.qkv_gradients == INPUT_GRADIENTS_APART && time.tensor_parallel_input == TP_INPUT_COPIED);
  ck_assert(time.layer_norm_forward == 3.5 && time.layer_norm_backward == 11 && time.row_bias == ROW_BIAS_APART);
  ck_assert(time.tensor_parallel == TP_FUSED && time.tensor_parallel_format == TP_FORMAT_LINEAR);
  ck_assert(time.data_parallel == DP_ALONE && time.gradients == GRADIENTS_WHOLE);
  ck_assert_int_eq(time.pipeline_gradients, PIPELINE_GRADIENTS_WHOLE);
  ck_assert_int_eq(time.expert_optimizer, EXPERT_OPTIMIZER_APART);
  ck_assert_int_eq(time.weights, WEIGHTS_BROADCAST);
  ck_assert(time.zero3_tensors && time.zero3_memory_passes == 3 && time.zero3_live_parameters == 1e6);
  ck_assert_double_eq_tol(time.zero3_list_entry_s, 8e-6, 1e-15);
  ck_assert(time.gradient_sum_bytes == 4 && time.gradient_passes == 3 && time.norm_rate == 0.75 &&
            time.strided_rate == 0.5);
  ck_assert(time.buffer_passes == 2 && time.gradient_scaling == GRADIENT_SCALING_APART);
  ck_assert(time.recompute_end == RECOMPUTE_END_NEEDED && time.gradient_sums == GRADIENT_SUMS_APART);
  ck_assert(time.context == CONTEXT_BLOCKS && time.context_exchanges == CONTEXT_ALONE);
  ck_assert_int_eq(time.expert_overlap, EXPERT_OVERLAP_ROUNDS);
  ck_assert_int_eq(time.expert_dispatch, DISPATCH_DEEPEP);
  ck_assert_int_eq(time.grace_expert_graphs, CUDA_GRAPHS_ATTENTION);
  ck_assert_int_eq(time.expert_counts, EXPERT_COUNTS_ON_HOST);
  ck_assert(time.expert_operations == EXPERT_OPERATIONS_SINGLE && time.scaled_rotation == ROTATION_SINGLE);
  ck_assert(time.expert_padding == EXPERT_PADDING_COPIED && time.expert_format == EXPERT_FORMAT_LINEAR);
  ck_assert(time.attention_copies_forward == 17 && time.attention_copies_backward == 21);
  ck_assert(time.scales == SCALES_BLOCKS && time.expert_sms == 20);
  ck_assert_double_eq(time.rates[ARCHITECTURE_HOPPER].attention_backward, 0.2);
  ck_assert_double_eq(time.rates[ARCHITECTURE_AMPERE].products, 0);
}
END_TEST

START_TEST(bad_files_are_refused) {
  static const struct {
    const char *text, *expected;
  } cases[] = {
      {"sneds: synchronous\n", "sends"},
      {"sends: sometimes\n", "synchronous"},
      {"arrival_spread: 5\n", "unit"},
      {"host: {collective: 1 us}\n", "layer"},
      {"expert_host: {forward: 1 us, backward: 1 us}\n", "launch"},
      {"expert_host: {forward: 1 us, backward: 1 us, launch: 0 us}\n", "launch"},
      {"expert_counts: hots\n", "host"},
      {"expert_operations: singel\n", "single"},
      {"scaled_rotation: singel\n", "single"},
      {"rates:\n  hoper: {products: 0.9}\n", "hopper"},
      {"rates:\n  hopper: {products: 1.9}\n", "products"},
      {"tensor_parallel_hidden: 0.5\n", "fused"},
      {"norm_rate: 0.5\n", "plain"},
      {"strided_rate: 1.5\n", "strided_rate"},
      {"attention_copies: {forward: 17}\n", "backward"},
      {"data_parallel: never\n", "alone"},
      {"context: ring\n", "passed"},
      {"context_exchanges: alone\n", "blocks"},
      {"zero3_tensors: {list_entry: 8 us}\n", "memory_passes"},
      {"zero3_tensors: {list_entry: 8, memory_passes: 3, live_parameters: 1e6}\n", "unit"},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    FrameworkTime time;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(!parse(cases[i].text, &time, &error), "%s was taken", cases[i].text);
    ck_assert_msg(strstr(error->message, cases[i].expected) != NULL, "%s", error->message);
    ck_assert_msg(strstr(error->message, "f.yaml:") != NULL, "%s", error->message);
  }
}
END_TEST

START_TEST(every_shipped_framework_is_read) {
  g_auto(GStrv) names = framework_names();
  ck_assert_uint_ge(g_strv_length(names), 6);
  for (char **name = names; *name != NULL; name++) {
    Framework framework;
    g_autoptr(GError) error = NULL;
    ck_assert_msg(framework_read(*name, &framework, &error), "%s", error != NULL ? error->message : "");
  }
}
END_TEST

/* Expected largest of n standard normal numbers: 0.5642, 1.4236, 2.5076 for n = 2, 8, 100 (Harter 1961, tables); Blom's
 * formula is within 5 %. */
START_TEST(the_last_rank_is_as_late_as_order_statistics_say) {
  const FrameworkTime time = {.arrival_spread_s = 1};
  ck_assert_double_eq(framework_lateness_s(&time, 1), 0);
  ck_assert_double_eq_tol(framework_lateness_s(&time, 2), 0.5642, 0.03);
  ck_assert_double_eq_tol(framework_lateness_s(&time, 8), 1.4236, 0.03);
  ck_assert_double_eq_tol(framework_lateness_s(&time, 100), 2.5076, 0.03);
}
END_TEST

START_TEST(a_fused_collective_shows_what_is_not_hidden) {
  const FrameworkTime fused = {.tensor_parallel = TP_FUSED, .tensor_parallel_hidden = 0.75};
  const FrameworkTime alone = {.tensor_parallel = TP_ALONE};
  ck_assert_double_eq_tol(framework_collective_s(&fused, 8e-3, 4), 2e-3, 1e-15);
  ck_assert_double_eq_tol(framework_collective_s(&alone, 8e-3, 4), 8e-3, 1e-15);
}
END_TEST

START_TEST(rates_are_of_the_gpu_generation) {
  FrameworkTime time = {0};
  time.rates[ARCHITECTURE_HOPPER] =
      (FrameworkRates){.products = 0.5, .weight_gradients = 0.7, .attention_forward = 0.3};
  Gpu gpu = {.architecture = ARCHITECTURE_HOPPER,
             .under_load = 0.8,
             .attention_forward = 0.6,
             .attention_backward = 0.4,
             .attention_ramp_forward = 300,
             .attention_ramp_backward = 300};
  gpu.under_load_of[NUMBER_FP8] = 0.6;
  Gpu reached = framework_gpu(&time, &gpu);
  ck_assert_double_eq_tol(reached.under_load, 0.4, 1e-15);
  ck_assert_double_eq_tol(reached.under_load_of[NUMBER_FP8], 0.3, 1e-15);
  ck_assert_double_eq(reached.under_load_of[NUMBER_BF16], 0);
  ck_assert_double_eq(reached.weight_gradient_rate, 0.7);
  ck_assert_double_eq(reached.attention_forward, 0.3);
  ck_assert_double_eq(reached.attention_backward, 0.4);
  ck_assert_double_eq(reached.attention_ramp_forward, 0); /* the rate is of other kernels than the GPU file's */
  ck_assert_double_eq(reached.attention_ramp_backward, 300);
  gpu.attention_of_generation = 0.5; /* a part with less power: of the framework's rate, not of its own */
  reached = framework_gpu(&time, &gpu);
  ck_assert_double_eq_tol(reached.attention_forward, 0.15, 1e-15);
  ck_assert_double_eq(reached.attention_backward, 0.4);
  gpu.architecture = ARCHITECTURE_AMPERE;
  ck_assert_double_eq(framework_gpu(&time, &gpu).under_load, 0.8);
  ck_assert_double_eq(framework_gpu(&time, &gpu).attention_ramp_forward, 300);
}
END_TEST

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
START_TEST(whole_gradients_are_all_reduced_as_wide_as_they_are_summed) {
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
END_TEST

/* gpt2 has 12 layers of 4 matrices, and one for embedding and head together, which is counted at either end: 50. Of 4
 * ranks each broadcasts a quarter of 2·P bytes, of 64 a fiftieth come from 50; and that waits for the update, whatever
 * --overlap-param says. */
START_TEST(owners_of_matrices_broadcast_them_after_the_update) {
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
END_TEST

/* A norm is fused or not as the framework has it, or as the plan asks; bytes go by the rate. */
START_TEST(a_plain_norm_goes_by_its_own_rate) {
  Plan *plan = plan_new();
  ck_assert(!plan_has_plain_norm(plan));
  plan->time.kernels = FRAMEWORK_KERNELS_PLAIN;
  ck_assert(plan_has_plain_norm(plan));
  plan->norm_kernel = FRAMEWORK_KERNELS_FUSED;
  ck_assert(!plan_has_plain_norm(plan));
  plan_free(plan);
  const FrameworkTime time = {.norm_rate = 0.5};
  Gpu gpu = {.hbm_Bps = 1e12, .hbm_efficiency = 1, .under_load = 1};
  const Gpu reached = framework_gpu(&time, &gpu);
  const WorkItem norm = {.kind = ITEM_MEMORY, .bytes = 1e9, .is_plain = TRUE},
                 other = {.kind = ITEM_MEMORY, .bytes = 1e9};
  ck_assert_double_eq_tol(kernel_cost_s(&reached, &norm, NULL), 2e-3, 1e-12);
  ck_assert_double_eq_tol(kernel_cost_s(&reached, &other, NULL), 1e-3, 1e-12);
  ck_assert_double_eq_tol(kernel_cost_s(&gpu, &norm, NULL), 1e-3, 1e-12);
}
END_TEST

/* gpt2 on one GPU, one micro-batch, with a host far slower than its kernels: the step is the host's time. 12 layers,
 * embedding and head: forward 2·1 + 12·10 ms, backward 2·1 + 12·20 ms, with full recompute 12·5 ms more. */
static double host_bound_step_s(Recompute recompute, guint modules, Attention attention, int tp) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Plan) plan = plan_new();
  Framework slow = {.time = {.has_host = TRUE,
                             .layer_forward_s = 10e-3,
                             .layer_again_s = 5e-3,
                             .layer_backward_s = 20e-3,
                             .ends_forward_s = 1e-3,
                             .ends_backward_s = 1e-3}};
  plan_set_framework(plan, "slow", &slow);
  plan->gpus = plan->tp = tp;
  plan->global_batch = 1;
  plan->seq_len = 128;
  plan->attention = attention;
  plan->recompute = recompute;
  plan->recompute_modules = modules;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction->step_time_s;
}

START_TEST(a_step_of_small_kernels_takes_the_hosts_time) {
  double plain_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_FLASH, 1),
         again_s = host_bound_step_s(RECOMPUTE_FULL, 0, ATTENTION_FLASH, 1);
  ck_assert_double_eq_tol(plain_s, 0.364, 0.01); /* and the last kernels and the optimizer */
  ck_assert_double_eq_tol(again_s - plain_s, 0.060, 0.001);
  /* the MLP has 3 of a layer's 10 kernels */
  const double mlp_s = host_bound_step_s(RECOMPUTE_SELECTIVE, MODULE_BIT(MODULE_MLP), ATTENTION_FLASH, 1);
  ck_assert_double_eq_tol(mlp_s - plain_s, 0.018, 0.001);
  /* attention as products has 4 of 13: scores, softmax, dropout, context */
  const double unfused_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 1),
               core_s = host_bound_step_s(RECOMPUTE_SELECTIVE, 0, ATTENTION_UNFUSED, 1);
  ck_assert_double_eq_tol(core_s - unfused_s, 12 * 4.0 / 13 * 5e-3, 0.001);
}
END_TEST

/* Of 12 heads a rank of two has 6, no groups of four: the softmax is five operations of PyTorch, each as long to issue
 * as one of the layer's 13 kernels forward, 25 backward: 12 layers · (4/13 · 10 ms + 4/25 · 20 ms). */
START_TEST(the_host_issues_each_operation_of_a_softmax_that_cannot_be_fused) {
  double fused_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 1);
  double single_s = host_bound_step_s(RECOMPUTE_NONE, 0, ATTENTION_UNFUSED, 2);
  ck_assert_double_eq_tol(single_s - fused_s, 0.0753, 0.001);
}
END_TEST

/* gpt2 has 124,439,808 parameters, their gradients 2 bytes each. */
START_TEST(passes_over_the_gradients_take_the_time_of_their_bytes) {
  g_autoptr(Model) model = model_read("gpt2", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  double step_s[2];
  for (int i = 0; i < 2; i++) {
    g_autoptr(Plan) plan = plan_new();
    plan->gpus = plan->global_batch = 1;
    plan->time.gradient_passes = 3 * i;
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
    step_s[i] = prediction->step_time_s;
  }
  const double bytes = 3 * 2 * 124439808.0, rate_Bps = cluster->gpu.hbm_Bps * cluster->gpu.hbm_efficiency;
  ck_assert_double_eq_tol((step_s[1] - step_s[0]) / (bytes / rate_Bps), 1, 0.02);
}
END_TEST

static double step_of_tensor_parallel(FrameworkTensorParallel how, gboolean sequence_parallel) {
  g_autoptr(Model) model = model_read("gpt3-175b", NULL);
  g_autoptr(Cluster) cluster = cluster_read("vtrain-a100", NULL);
  g_autoptr(Plan) plan = plan_new();
  model->n_layers = 2;
  plan->gpus = plan->tp = 8;
  plan->global_batch = 1;
  plan->sequence_parallel = sequence_parallel;
  plan->time.tensor_parallel = how;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction->step_time_s;
}

START_TEST(sums_may_run_beside_under_sequence_parallelism_alone) {
  for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
    const double alone_s = step_of_tensor_parallel(TP_ALONE, sequence_parallel),
                 beside_s = step_of_tensor_parallel(TP_BESIDE, sequence_parallel),
                 step_s = step_of_tensor_parallel(TP_BESIDE_WITH_SP, sequence_parallel);
    ck_assert_double_lt(beside_s, alone_s);
    ck_assert_double_eq(step_s, sequence_parallel ? beside_s : alone_s);
  }
}
END_TEST

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
START_TEST(ranks_of_tp_send_parts_of_an_activation) {
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
END_TEST

/* 1f1b over 2 stages, 4 micro-batches. Rank 0 exchanges ahead of F1 (sends F0) and of B0 … B3 (receives; all but the
 * last send as well); nothing comes or goes ahead of F0, F2 and F3. */
START_TEST(synchronous_sends_have_the_host_wait_for_every_exchange) {
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
END_TEST

int main(void) {
  TCase *cases = tcase_create("framework_time");
  tcase_add_test(cases, keys_fill_the_struct);
  tcase_add_test(cases, bad_files_are_refused);
  tcase_add_test(cases, every_shipped_framework_is_read);
  tcase_add_test(cases, the_last_rank_is_as_late_as_order_statistics_say);
  tcase_add_test(cases, a_fused_collective_shows_what_is_not_hidden);
  tcase_add_test(cases, rates_are_of_the_gpu_generation);
  tcase_add_test(cases, a_step_of_small_kernels_takes_the_hosts_time);
  tcase_add_test(cases, passes_over_the_gradients_take_the_time_of_their_bytes);
  tcase_add_test(cases, sums_may_run_beside_under_sequence_parallelism_alone);
  tcase_add_test(cases, the_host_issues_each_operation_of_a_softmax_that_cannot_be_fused);
  tcase_add_test(cases, ranks_of_tp_send_parts_of_an_activation);
  tcase_add_test(cases, synchronous_sends_have_the_host_wait_for_every_exchange);
  tcase_add_test(cases, whole_gradients_are_all_reduced_as_wide_as_they_are_summed);
  tcase_add_test(cases, owners_of_matrices_broadcast_them_after_the_update);
  tcase_add_test(cases, a_plain_norm_goes_by_its_own_rate);
  Suite *suite = suite_create("framework_time");
  suite_add_tcase(suite, cases);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int n_failed = srunner_ntests_failed(runner);
  srunner_free(runner);
  return n_failed != 0;
}
