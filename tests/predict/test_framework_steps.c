/* What frameworks do in each step besides kernels: ZeRO-3 with lists of tensors, host time between steps. */
#include "collective_cost.h"
#include "plan_cases.h"
#include "run_suite.h"

/* The plan under a framework of its own. */
static Plan *under(FrameworkTime time, Plan *plan) {
  const Framework own = {.time = time};
  plan_set_framework(plan, "own", &own);
  return plan;
}

/* gpt2 on A100s; takes the plan over. */
static Prediction *predict_gpt2(Plan *plan) {
  g_autoptr(Plan) taken = plan;
  return predict_plan(shipped_model("gpt2"), shipped_cluster("vtrain-a100"), taken);
}

static double moved_bytes(const Program *program, ActionKind action, int *n_calls) {
  double bytes = 0;
  *n_calls = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->kind != OP_COLLECTIVE || op->action != action)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    bytes += transfer->bytes;
    *n_calls += transfer->n_calls;
  }
  return bytes;
}

/* Megatron-Bridge's recipes for models with experts: tokens by DeepEP, exchanges not overlapped; attention replayed
 * where a Grace launches kernels. What is said stays, and models without experts have nothing of it. */
TEST(recipes_fill_what_a_plan_of_experts_leaves_open) {
  static const struct {
    const char *model, *cluster;
    int said, graphs;
    Recompute recompute;
    guint modules;
  } cases[] = {
      {"mixtral-8x7b", "gb200-nvl72", -1, CUDA_GRAPHS_ATTENTION},
      {"mixtral-8x7b", "gb200-nvl72", -1, CUDA_GRAPHS_NONE, RECOMPUTE_FULL},
      {"mixtral-8x7b", "gb200-nvl72", -1, CUDA_GRAPHS_NONE, RECOMPUTE_SELECTIVE, MODULE_BIT(MODULE_MOE)},
      {"mixtral-8x7b", "gb200-nvl72", -1, CUDA_GRAPHS_ATTENTION, RECOMPUTE_SELECTIVE, MODULE_BIT(MODULE_LAYERNORM)},
      {"mixtral-8x7b", "gb300-nvl72", CUDA_GRAPHS_NONE, CUDA_GRAPHS_NONE},
      {"mixtral-8x7b", "dgx-b200", -1, CUDA_GRAPHS_NONE},
      {"llama-3-8b", "gb200-nvl72", -1, CUDA_GRAPHS_NONE}};
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    const Model *model = shipped_model(cases[c].model);
    g_autoptr(Plan) plan = plan_said("--framework megatron-bridge --gpus 8 --ep %d", model_has_experts(model) ? 8 : 1);
    plan->cuda_graphs = cases[c].said;
    plan->recompute = cases[c].recompute;
    plan->recompute_modules = cases[c].modules;
    ck_assert(plan_complete(plan, model, shipped_cluster(cases[c].cluster), NULL));
    ck_assert_int_eq(plan->cuda_graphs, cases[c].graphs);
    ck_assert_int_eq(plan->expert_dispatch, DISPATCH_DEEPEP);
    ck_assert(!plan_takes_turns(plan));
  }
  g_autoptr(Plan) alone = plan_new();
  ck_assert(plan_complete(alone, shipped_model("mixtral-8x7b"), shipped_cluster("gb200-nvl72"), NULL));
  ck_assert_int_eq(alone->cuda_graphs, CUDA_GRAPHS_NONE);
  ck_assert_int_eq(alone->expert_dispatch, DISPATCH_ALL_TO_ALL);
}

/* Its recipes in mxfp8 for a Grace: the step replayed whole and exchanges hidden, where there are rounds to hide them
 * in; not where a module is made again, in other formats, on other hosts, or against what the plan says. */
TEST(recipes_replay_steps_in_mxfp8) {
  static const struct {
    const char *cluster;
    Precision precision;
    Recompute recompute;
    int chunks, graphs, overlap; /* said; -1: left open */
    int expected_graphs, expected_overlap;
  } cases[] = {
      {"gb200-nvl72", PRECISION_MXFP8, RECOMPUTE_NONE, 2, -1, -1, CUDA_GRAPHS_FULL, 1},
      {"gb300-nvl72", PRECISION_MXFP8, RECOMPUTE_NONE, 1, -1, -1, CUDA_GRAPHS_FULL, 0},
      {"gb200-nvl72", PRECISION_MXFP8, RECOMPUTE_NONE, 2, -1, 0, CUDA_GRAPHS_FULL, 0},
      {"gb200-nvl72", PRECISION_MXFP8, RECOMPUTE_NONE, 2, CUDA_GRAPHS_NONE, -1, CUDA_GRAPHS_NONE, 0},
      {"gb200-nvl72", PRECISION_MXFP8, RECOMPUTE_SELECTIVE, 2, -1, -1, CUDA_GRAPHS_ATTENTION, 0},
      {"gb200-nvl72", PRECISION_BF16, RECOMPUTE_NONE, 2, -1, -1, CUDA_GRAPHS_ATTENTION, 0},
      {"dgx-b200", PRECISION_MXFP8, RECOMPUTE_NONE, 2, -1, -1, CUDA_GRAPHS_NONE, 0},
      {"dgx-b300", PRECISION_MXFP8, RECOMPUTE_NONE, 2, -1, -1, CUDA_GRAPHS_NONE, 0},
      {"dgx-b300", PRECISION_MXFP8, RECOMPUTE_NONE, 2, CUDA_GRAPHS_FULL, 1, CUDA_GRAPHS_FULL, 1},
  };
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    g_autoptr(Plan) plan = plan_said("--framework megatron-bridge --precision %s --gpus 16 --ep 8 --pp 2 --chunks %d",
                                     precision_info(cases[c].precision)->name, cases[c].chunks);
    plan->recompute = cases[c].recompute;
    plan->cuda_graphs = cases[c].graphs;
    plan->overlap_experts = cases[c].overlap;
    ck_assert(plan_complete(plan, shipped_model("mixtral-8x7b"), shipped_cluster(cases[c].cluster), NULL));
    ck_assert_int_eq(plan->cuda_graphs, cases[c].expected_graphs);
    ck_assert_int_eq(plan->overlap_experts, cases[c].expected_overlap);
  }
}

/* gpt2 has 12 layers of 4 matrices. Forward gathers the table (1), the layers (48) and the head's norm (1), which has
 * no matrix; backward the norm (1), the layers once, or twice where they are more than the framework keeps, and the
 * positions (1). Gradients go as they were gathered: norm, layers, table. A recomputed layer that is gathered twice is
 * another 2 bytes of each of its parameters. */
TEST(zero3_moves_each_matrix_in_a_collective_of_its_own) {
  double gathered[2];
  for (int exceeds = 0; exceeds < 2; exceeds++) {
    const FrameworkTime lists = {.zero3.moves_tensors = TRUE, .zero3.live_parameters = exceeds ? 1 : 1e9};
    g_autoptr(Prediction) prediction = predict_gpt2(under(lists, plan_said("--gpus 4 --zero 3 --recompute full")));
    int n_gathers, n_reductions;
    gathered[exceeds] = moved_bytes(prediction->program, ACTION_UNSHARD, &n_gathers);
    const double reduced = moved_bytes(prediction->program, ACTION_REDUCE_GRAD, &n_reductions);
    ck_assert_int_eq(n_gathers, (1 + 48 + 1) + (1 + 48 * (1 + exceeds) + 1));
    ck_assert_int_eq(n_reductions, 1 + 48 + 1);
    ck_assert_double_eq(reduced, prediction->workload->method->gradient_sum_bytes *
                                     (double)prediction->workload->stages[0].parameters);
    if (exceeds)
      ck_assert_double_eq(gathered[1] - gathered[0],
                          2. * 12 * (double)prediction->workload->piece_parameters[PIECE_LAYER]);
  }
}

static int count_calls(const Program *program, ActionKind action, Collective collective, gboolean of_lists) {
  int n = 0;
  for (gint32 i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->action != action || op->kind != OP_COLLECTIVE)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    n += transfer->collective != collective ? 0 : of_lists ? transfer->n_listed : transfer->n_calls;
  }
  return n;
}

/* A layer of gpt2 has 7,087,872 parameters in 4 matrices and 8 vectors (two norms' scales and biases, four biases).
 * A bucket of 2 million is filled three times by it in gathers, which need a list of all 4; one of 1 million would be
 * by each of the 4, which then need none. Embedding (twice, its positions in backward) and head are a gather of their
 * own, of one matrix or none, without a list. Gradients fill a bucket of 4 million twice; the head's are its norm's 2
 * vectors, and the table's come from the list of one matrix. */
TEST(zero3_fills_buckets) {
  for (int small = 0; small < 2; small++) {
    const FrameworkTime buckets = {.zero3.moves_tensors = TRUE,
                                   .zero3.live_parameters = 1e9,
                                   .zero3.gather_bucket = small ? 1e6 : 2e6,
                                   .zero3.reduce_bucket = 4e6,
                                   .zero3.vectors = VECTORS_KEPT};
    g_autoptr(Prediction) prediction = predict_gpt2(under(buckets, plan_said("--gpus 4 --zero 3")));
    const Program *program = prediction->program;
    ck_assert_int_eq(count_calls(program, ACTION_UNSHARD, COLLECTIVE_ALL_GATHER, FALSE),
                     2 * (12 * (small ? 4 : 3) + 2));
    ck_assert_int_eq(count_calls(program, ACTION_UNSHARD, COLLECTIVE_ALL_GATHER, TRUE), small ? 0 : 2 * 12 * 4);
    ck_assert_int_eq(count_calls(program, ACTION_REDUCE_GRAD, COLLECTIVE_REDUCE_SCATTER, FALSE), 12 * 2 + 2);
    ck_assert_int_eq(count_calls(program, ACTION_REDUCE_GRAD, COLLECTIVE_REDUCE_SCATTER, TRUE),
                     12 * (4 + 8) + 1 + 2 + 1);
    ck_assert_int_eq(count_calls(program, ACTION_KEPT, COLLECTIVE_ALL_GATHER, FALSE), 12 * 8 + 2);
  }
}

/* A layer gathered twice, its experts by themselves, is in one buffer: what is held at the peak is no more than where
 * each is gathered once. */
TEST(gathered_twice_is_held_once) {
  for (int buckets = 0; buckets < 2; buckets++) {
    double held[2];
    for (int exceeds = 0; exceeds < 2; exceeds++) {
      const FrameworkTime time = {.zero3.moves_tensors = TRUE,
                                  .zero3.live_parameters = exceeds ? 1 : 1e15,
                                  .zero3.gather_bucket = buckets ? 1e8 : 0,
                                  .zero3.reduce_bucket = buckets ? 1e8 : 0};
      g_autoptr(Plan) plan = under(time, plan_said("--gpus 16 --ep 4 --zero 3 --recompute full --seq-len 128"));
      g_autoptr(Prediction) prediction = predict_plan(shipped_model("mixtral-8x7b"), shipped_cluster("selene"), plan);
      held[exceeds] = prediction->memory->at_peak.bytes[MEMORY_BUFFERS];
    }
    ck_assert_double_gt(held[1], 0);
    ck_assert_double_le(held[1], held[0]);
  }
}

/* The host has waited for a micro-batch's backward before it gathers for the next one: its first gather begins when
 * nothing is being computed any more. Without buckets' waits, as without a framework, it is gathered ahead. */
TEST(no_gather_reaches_over_the_end_of_a_backward) {
  for (int waits = 0; waits < 2; waits++) {
    const FrameworkTime time = {.zero3.moves_tensors = waits,
                                .zero3.live_parameters = 1e9,
                                .zero3.gather_bucket = waits ? 1e6 : 0,
                                .zero3.reduce_bucket = waits ? 4e6 : 0};
    g_autoptr(Prediction) prediction =
        predict_gpt2(under(time, plan_said("--gpus 4 --zero 3 --prefetch 1 --global-batch 8")));
    const OpList *list = &prediction->program->ranks[0];
    gint32 last = -1, first = -1; /* of the first micro-batch's backward; the second's gather */
    for (gint32 i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      if (op->action == ACTION_B && op->micro_batch == 0 && op->kind == OP_COMPUTE)
        last = i;
      if (op->action == ACTION_UNSHARD && op->micro_batch == 1 && first < 0)
        first = i;
    }
    ck_assert_int_ge(last, 0);
    ck_assert_int_ge(first, 0);
    ck_assert_int_eq(first > last, waits);
  }
}

/* The host makes a list of 4 tensors for each of a layer's 4 matrices: 16 entries of 100 us before its gather is
 * issued, 1.6 ms on 12 layers' three moves in all: forward and backward each wait for theirs. */
TEST(lists_of_tensors_take_the_host) {
  double step_s[2];
  for (int costs = 0; costs < 2; costs++) {
    const FrameworkTime lists = {
        .zero3.moves_tensors = TRUE, .zero3.live_parameters = 1, .zero3.list_entry_s = costs ? 100e-6 : 0};
    g_autoptr(Prediction) prediction = predict_gpt2(under(lists, plan_said("--gpus 4 --zero 3")));
    step_s[costs] = prediction->step_time_s;
  }
  const double layers_s = 12 * 16 * 100e-6;
  ck_assert_double_ge(step_s[1] - step_s[0], 2 * layers_s);
  ck_assert_double_le(step_s[1] - step_s[0], 3 * layers_s + 6 * 4 * 100e-6);
}

/* What a list moves passes through memory so often: each gather and each reduction of a layer's tensors takes that much
 * longer, and no other transfer does. Without passes a kernel of no bytes is left, so the latencies are the same. */
TEST(lists_of_tensors_pass_through_memory) {
  const Cluster *cluster = shipped_cluster("vtrain-a100");
  FrameworkTime lists = {.zero3.moves_tensors = TRUE, .zero3.live_parameters = 1};
  g_autoptr(Prediction) none = predict_gpt2(under(lists, plan_said("--gpus 4 --zero 3")));
  lists.zero3.memory_passes = 3;
  g_autoptr(Prediction) three = predict_gpt2(under(lists, plan_said("--gpus 4 --zero 3")));
  const GArray *transfers = three->program->transfers;
  const int gpus[] = {0, 1, 2, 3};
  const GroupShape shape = layout_shape_of(cluster, gpus, 4);
  int n_lists = 0;
  for (guint i = 0; i < transfers->len; i++) {
    const Transfer *transfer = &g_array_index(transfers, Transfer, i);
    const gint64 longer_ns = three->timing->transfers[i].run_ns - none->timing->transfers[i].run_ns;
    const double passes_s = 3 * transfer->bytes / (cluster->gpu.hbm_Bps * cluster->gpu.hbm_efficiency);
    n_lists += transfer->n_calls > 0;
    ck_assert_double_eq_tol((double)longer_ns, transfer->n_calls > 0 ? passes_s * 1e9 : 0, 2);
    if (transfer->n_calls == 0)
      continue;
    /* as many calls of a part each, one behind the other */
    const CollectiveCost each =
        collective_cost(cluster, transfer->collective, &shape, transfer->bytes / transfer->n_calls, -1);
    const double calls_s = transfer->n_calls * each.time_s + cluster->gpu.kernel_latency_s;
    ck_assert_double_eq_tol((double)none->timing->transfers[i].run_ns, calls_s * 1e9, 2);
    ck_assert_double_eq_tol((double)none->timing->loads[i].latency_ns,
                            MIN(transfer->n_calls * each.latency_s, calls_s) * 1e9, 2);
  }
  ck_assert_int_ge(n_lists, 4); /* gathers and reductions: of layers and of ends */
}

/* The host's time between steps is in every step once, whatever is in it, and is the host's. */
TEST(time_between_steps_is_in_each_of_them) {
  for (int n_steps = 1; n_steps <= 3; n_steps += 2)
    for (int pp = 1; pp <= 2; pp++) {
      double step_s[2], host_s[2];
      for (int costs = 0; costs < 2; costs++) {
        const FrameworkTime slow = {.step_s = costs ? 10e-3 : 0};
        g_autoptr(Prediction) prediction =
            predict_gpt2(under(slow, plan_said("--gpus 2 --pp %d --steps %d --global-batch 4", pp, n_steps)));
        step_s[costs] = prediction->step_time_s;
        host_s[costs] = prediction->metrics->mean_s[BREAKDOWN_HOST];
      }
      ck_assert_double_eq_tol(step_s[1] - step_s[0], 10e-3, 1e-4);
      ck_assert_double_eq_tol(host_s[1] - host_s[0], 10e-3, 1e-4);
    }
}

/* 8 micro-batches on each pipeline, or on one stage. In shards after every one, 8 times 4 bytes of each of a stage's
 * parameters are reduced; whole, 4 once, and they are held from the first backward to the end of that reduction, which
 * makes the shards: 2 bytes over the ranks that share them are not there besides. */
TEST(gradients_of_many_micro_batches_are_summed_whole) {
  for (int zero = 2; zero <= 3; zero++)
    for (int pp = 1; pp <= 2; pp++) {
      double reduced[2], held[2];
      for (int whole = 0; whole < 2; whole++) {
        const FrameworkTime of_pipelines = {.gradient_sum_bytes = 4, .pipeline_gradients = whole},
                            of_stages = {.gradient_sum_bytes = 4, .accumulated_gradients = whole};
        Plan *plan = plan_said("--gpus 4 --pp %d --zero %d --global-batch %d", pp, zero, 8 * 4 / pp);
        g_autoptr(Prediction) prediction = predict_gpt2(under(pp > 1 ? of_pipelines : of_stages, plan));
        const double parameters = (double)prediction->workload->stages[0].parameters;
        int n_reductions;
        reduced[whole] = moved_bytes(prediction->program, ACTION_REDUCE_GRAD, &n_reductions) / (4 * parameters);
        const MemoryProfile *memory = prediction->memory;
        held[whole] = memory->at_peak.bytes[MEMORY_BUFFERS] /
                      (4 * (double)prediction->workload->stages[memory->worst_rank].parameters);
      }
      ck_assert_double_eq(reduced[0], 8);
      ck_assert_double_eq(reduced[1], 1);
      const double shard = 2.0 / 4 * pp / 4; /* of 4 bytes; 4 / pp ranks share */
      ck_assert(held[1] >= 1 - shard && held[1] < 1 - shard + held[0]);
    }
}

/* Set to 0 and looked through, 2 passes over the gradients of all of a rank's parameters, and 2 more that divide them
 * where others have such too; Adam's are in shards. From ZeRO-2 on no rank has whole ones. They take HBM's time: 4
 * passes of 2 bytes for each of 124 million parameters, 1 GB, some 0.6 ms of an A100. */
TEST(whole_gradients_are_passed_over_before_they_are_summed) {
  static const struct {
    int gpus, zero;
    double passes;
  } cases[] = {{1, 0, 2}, {4, 0, 4}, {4, 1, 4}, {4, 2, 0}, {4, 3, 0}};
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    double optimizer_s[2], bytes = 0;
    for (int passes = 0; passes < 2; passes++) {
      const FrameworkTime own = {.buffer_passes = 2 * passes, .gradient_scaling = passes};
      Plan *plan = plan_said("--gpus %d --zero %d", cases[i].gpus, cases[i].zero);
      g_autoptr(Prediction) prediction = predict_gpt2(under(own, plan));
      const double parameters = (double)prediction->workload->stages[0].parameters;
      const GArray *works = prediction->program->works;
      const Work *adam = &g_array_index(works, Work, works->len - 1);
      ck_assert_int_eq(adam->phase, PHASE_OPTIMIZER);
      ck_assert_double_eq(adam->passed, passes ? cases[i].passes * parameters : 0);
      optimizer_s[passes] = prediction->metrics->mean_s[BREAKDOWN_OPTIMIZER];
      bytes = cases[i].passes * parameters * prediction->workload->plan->recipe.gradients;
    }
    const double least_s = bytes / shipped_cluster("vtrain-a100")->gpu.hbm_Bps;
    ck_assert_double_ge(optimizer_s[1] - optimizer_s[0], least_s);
    ck_assert_double_le(optimizer_s[1] - optimizer_s[0], 1.5 * least_s);
  }
}

/* Experts over 4 ranks: two optimizers gather all other parameters each; without ep there is one for all. */
TEST(an_optimizer_of_experts_gathers_all_once_more) {
  for (int ep = 1; ep <= 4; ep *= 4)
    for (int overlaps = 0; overlaps < 2; overlaps++) {
      double gathered[2];
      for (int apart = 0; apart < 2; apart++) {
        g_autoptr(Plan) plan =
            under((FrameworkTime){.expert_optimizer = apart}, plan_said("--gpus 4 --ep %d --zero 1", ep));
        plan->overlap_param = overlaps;
        g_autoptr(Prediction) prediction =
            predict_plan(shipped_model("olmoe-1b-7b"), shipped_cluster("vtrain-a100"), plan);
        int n_gathers;
        gathered[apart] = moved_bytes(prediction->program, ACTION_UNSHARD, &n_gathers);
      }
      ck_assert_double_gt(gathered[0], 0);
      ck_assert_double_eq(gathered[1], ep > 1 && !overlaps ? 2 * gathered[0] : gathered[0]);
    }
}

/* Sums of chunks that are done run beside the backwards of the others, or make them wait; the optimizer must have them.
 */
TEST(whole_gradients_are_summed_beside_backward_or_before_it) {
  double steps_s[2];
  for (int overlaps = 0; overlaps < 2; overlaps++) {
    g_autoptr(Plan) plan = under((FrameworkTime){.pipeline_gradients = PIPELINE_GRADIENTS_WHOLE},
                                 plan_said("--gpus 32 --pp 2 --chunks 4 --zero 2 --global-batch 64 --seq-len 512"));
    plan->overlap_grad = overlaps;
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("llama-3-8b"), shipped_cluster("llama3-h100"), plan);
    steps_s[overlaps] = prediction->step_time_s;
  }
  ck_assert_double_lt(steps_s[1], 0.9 * steps_s[0]);
}

/* The host waits in the output layer, which only an op made of single items shows: folded or not, it is made of them.
 */
TEST(a_chunked_loss_waits_whether_ranks_are_folded_or_not) {
  double step_s[2];
  for (int fold = FALSE; fold <= TRUE; fold++) {
    g_autoptr(Plan) plan = plan_said("--framework deepspeed-transformers --loss chunked --gpus 2 --pp 2 --seq-len 1024 "
                                     "--global-batch 16 --fold %s",
                                     fold ? "on" : "off");
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("llama-3-8b"), shipped_cluster("dgx-h100"), plan);
    step_s[fold] = prediction->step_time_s;
  }
  ck_assert_double_eq(step_s[TRUE], step_s[FALSE]);
}

/* Llama 3 405B on 16,384 H100 (arXiv 2407.21783, table 4): 8k tokens, and 128k over cp 16. Each has as many
 * micro-batches as pipeline ranks, so that only one chunk's gradients are whole at a time. */
TEST(llama3_fits_the_gpus_it_was_trained_on) {
  static const char *const runs[] = {"--dp 128 --seq-len 8192 --global-batch 2048",
                                     "--dp 8 --cp 16 --cp-comm all-gather --seq-len 131072 --global-batch 128"};
  for (gsize r = 0; r < G_N_ELEMENTS(runs); r++)
    for (int zero = 1; zero <= 2; zero++) {
      g_autoptr(Plan) plan =
          plan_said("--framework llama3 --tp 8 --pp 16 --chunks 8 --sequence-parallel on --zero %d %s", zero, runs[r]);
      g_autoptr(Prediction) prediction =
          predict_plan(shipped_model("llama-3.1-405b"), shipped_cluster("llama3-h100"), plan);
      ck_assert_int_eq(prediction->fits, zero == 2);
    }
}

TEST(whole_gradients_do_not_leave_with_the_optimizer) {
  g_autoptr(Plan) plan = under((FrameworkTime){.pipeline_gradients = PIPELINE_GRADIENTS_WHOLE},
                               plan_said("--gpus 32 --pp 2 --zero 3 --offload-optimizer host"));
  g_autoptr(GError) error = NULL;
  ck_assert_ptr_null(predict(shipped_model("llama-3-8b"), shipped_cluster("llama3-h100"), plan, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "whole gradients that framework own keeps"));
}

TEST(interleaved_overlaps_its_sends_where_the_framework_does) {
  for (int chunks = 1; chunks <= 2; chunks++) {
    Plan *plan = plan_said("--gpus 2 --pp 2 --chunks %d --global-batch 4", chunks);
    plan->time.overlap_p2p = P2P_CHUNKS;
    g_autoptr(Prediction) prediction = predict_gpt2(plan);
    ck_assert_int_eq(prediction->workload->plan->overlap_p2p, chunks == 2);
  }
}

int main(void) {
  return run_tests();
}
