/* Unfused expert operations of frameworks: traffic and launches by closed forms, and where the host waits for them. */
#include <check.h>

#include "expert_cases.h"
#include "framework_cost.h"
#include "host_waits.h"
#include "kernel_cost.h"
#include "method_of.h"
#include "plan.h"
#include "predict.h"
#include "run_suite.h"

/* The mixture with biases and a bounded gate: 16 experts of 512 columns, h 1024. */
static Model bounded_mixture(void) {
  Model model = mixture();
  model.activation = ACTIVATION_BOUNDED_GELU;
  model.experts.has_biases = TRUE;
  return model;
}

/* Micro-batches of 2 × 512 tokens on each of 8 ranks: 4096 rows for 2 experts. */
static Plan *plan_of_operations(void) {
  Plan *plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->dp = plan->ep = plan->gpus = 8;
  plan->time.expert_operations = EXPERT_OPERATIONS_SINGLE;
  plan->time.expert_products = EXPERT_PRODUCTS_APART;
  return plan;
}

static const double rows = 4 * 2 * 512, width = 512, hidden = 1024;

/* bf16. Bound: 4 elements of each half's 512 columns, both ways 2 bytes; back one bound 3e + 2, two 4e + 6, joined 4e.
 * Bias in bf16: e + 5e, back 6e + 2e, two kernels an expert and one that joins, four back. Strided: the clamps (2 of
 * the 4), back all but the joins and 3 bytes of marks; bias × weight, e, and back the two products with weight and
 * bias, each of which reads and writes e. */
TEST(bounds_and_biases_are_operations_of_their_own) {
  const Model model = bounded_mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
  ck_assert_double_eq(find(f, "bound")->bytes, rows * 2 * width * 8);
  ck_assert_double_eq(find(f, "bound")->strided_bytes, rows * 2 * width * 4);
  ck_assert_double_eq(find(b, "bound.backward")->strided_bytes, rows * width * (8 + 11));
  ck_assert_double_eq(find(f, "bias")->strided_bytes, rows * hidden * 2);
  ck_assert_double_eq(find(b, "bias.backward")->strided_bytes, rows * hidden * 8);
  ck_assert_int_eq(find(f, "bound")->n_launches, 3);
  ck_assert_double_eq(find(b, "bound.backward")->bytes, rows * width * (8 + 14 + 8));
  ck_assert_double_eq(find(f, "bias")->bytes, rows * hidden * 12);
  ck_assert_int_eq(find(f, "bias")->n_launches, 2 * 2 + 1);
  ck_assert_double_eq(find(b, "bias.backward")->bytes, rows * hidden * 16);
  ck_assert_int_eq(find(b, "bias.backward")->n_launches, 4 * 2 + 1);
  ck_assert_int_eq(count(&workload->work[PIECE_LAYER][PHASE_W], "bias"), 0);
  ck_assert_int_eq(count(&workload->work[PIECE_DENSE_LAYER][PHASE_F], "bound"), 0);
}

/* Weights of the choice come in fp32: r is 4 bytes, and its results are converted both ways. */
TEST(weights_that_came_by_deepep_are_wider) {
  const Model model = bounded_mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  plan->expert_dispatch = DISPATCH_DEEPEP;
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
  ck_assert_double_eq(find(f, "bias")->bytes, rows * hidden * (2 + 5 * 4 + 6));
  ck_assert_double_eq(find(b, "bias.backward")->bytes, rows * hidden * (6 * 4 + 2 * 2 + 2 * 6));
  ck_assert_int_eq(find(b, "bias.backward")->n_launches, 5 * 2 + 2);
}

/* Gradients of the choice's weights: the up product's 2 × 512 columns and the gradient of 512 are read again, by a
 * kernel besides. The shared expert's activation stands before theirs, without any. */
TEST(gradients_of_the_choice_read_the_activation_again) {
  const Model model = mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  for (int single = TRUE; single >= FALSE; single--) {
    plan->time.expert_operations = single ? EXPERT_OPERATIONS_SINGLE : EXPERT_OPERATIONS_FUSED;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *b = &workload->work[PIECE_LAYER][PHASE_B];
    const WorkItem *shared = find(b, "silu_mul.backward"), *of_experts = shared;
    for (const WorkItem *item = shared; item < b->items + b->n_items; item++)
      of_experts = strcmp(item->name, shared->name) == 0 ? item : of_experts;
    ck_assert(of_experts > shared && shared->n_launches == 0);
    ck_assert_double_eq(of_experts->bytes, rows * (single ? 5 + 3 : 5) * width * 2);
    ck_assert_int_eq(of_experts->n_launches, single ? 2 : 0);
  }
}

/* Neither in other models, nor where they are fused, nor under graphs of the whole step. */
TEST(fused_ones_are_none) {
  const Model bounded = bounded_mixture(), plain = mixture();
  for (int c = 0; c < 3; c++) {
    g_autoptr(Plan) plan = plan_of_operations();
    if (c == 1)
      plan->time.expert_operations = EXPERT_OPERATIONS_FUSED;
    if (c == 2)
      plan->cuda_graphs = CUDA_GRAPHS_FULL;
    g_autoptr(Workload) workload = workload_new(c == 0 ? &plain : &bounded, plan, NULL);
    for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
      const WorkList *list = &workload->work[PIECE_LAYER][phase];
      for (int i = 0; i < list->n_items; i++)
        ck_assert(!g_str_has_prefix(list->items[i].name, "bound") && !g_str_has_prefix(list->items[i].name, "bias") &&
                  !list->items[i].host_waits);
    }
  }
}

/* 1024 tokens of 1024 elements go out as 4096 rows in bf16, which are read as often as they are written. Those that
 * come back are multiplied by their weights (2 each way, the factor broadcast), and added up at a tenth of the rate to
 * the tokens. Backward reads and writes every row, for its product with the weight too (2), and makes the weights' own
 * gradients of the two (3), which are then added up (1). */
TEST(rows_may_be_permuted_by_single_operations) {
  const Model model = mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  for (int single = FALSE; single <= TRUE; single++) {
    plan->time.permutation_rate = single ? 0.1 : 0;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
    const double pass = 2 * hidden, tokens = rows / 4;
    ck_assert_double_eq(find(f, "permute")->bytes, pass * (single ? 2 * rows : tokens + rows));
    ck_assert_double_eq(find(f, "unpermute")->bytes, pass * (single ? 12 * rows + tokens : tokens + rows));
    ck_assert_double_eq(find(f, "unpermute")->strided_bytes, single ? pass * 2 * rows : 0);
    ck_assert_int_eq(find(f, "unpermute")->n_launches, single ? 3 : 0);
    ck_assert_double_eq(find(b, "unpermute.backward")->bytes, pass * (single ? 8 * rows : tokens + rows));
    ck_assert_double_eq(find(b, "unpermute.backward")->strided_bytes, single ? pass * 2 * rows : 0);
    ck_assert_double_eq(find(b, "permute.backward")->bytes, pass * (single ? 10 * rows + tokens : tokens + rows));
    ck_assert_double_eq(find(f, "experts.sort")->bytes, pass * 2 * rows);
  }
}

/* What came by DeepEP is permuted where it arrived, from fewer rows than the experts have. */
TEST(received_rows_may_be_permuted_by_single_operations) {
  const Model model = mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  plan->expert_dispatch = DISPATCH_DEEPEP;
  g_autoptr(Workload) fused = workload_new(&model, plan, NULL);
  plan->time.permutation_rate = 0.1;
  g_autoptr(Workload) single = workload_new(&model, plan, NULL);
  const WorkList *one = &fused->work[PIECE_LAYER][PHASE_F], *many = &single->work[PIECE_LAYER][PHASE_F];
  const double received = find(one, "experts.sort")->bytes / (2 * hidden) - rows;
  ck_assert(received > 0 && received < rows);
  ck_assert_double_eq(find(many, "experts.sort")->bytes, 2 * hidden * 2 * rows);
  ck_assert_double_eq_tol(find(many, "experts.unsort")->bytes, 2 * hidden * (12 * rows + received), 1e-3);
  ck_assert_double_eq(find(many, "unpermute")->bytes, find(one, "unpermute")->bytes);
}

/* mxfp8: 4096 rows of 1024 elements, read and written in 2 bytes, twice forward and twice back; not in bf16, nor,
 * unless the framework always does, of rows that came by DeepEP. */
TEST(rows_are_padded_for_narrow_products) {
  static const struct {
    Precision precision;
    int dispatch;
    FrameworkExpertPadding padding;
    int n;
  } cases[] = {{PRECISION_MXFP8, DISPATCH_ALL_TO_ALL, EXPERT_PADDING_COPIED, 1},
               {PRECISION_BF16, DISPATCH_ALL_TO_ALL, EXPERT_PADDING_ALWAYS, 0},
               {PRECISION_MXFP8, DISPATCH_DEEPEP, EXPERT_PADDING_COPIED, 0},
               {PRECISION_MXFP8, DISPATCH_DEEPEP, EXPERT_PADDING_ALWAYS, 1}};
  const Model model = mixture();
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    g_autoptr(Plan) plan = plan_of_operations();
    plan->precision = cases[c].precision;
    plan->expert_dispatch = cases[c].dispatch;
    plan->time.expert_padding = cases[c].padding;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *lists = workload->work[PIECE_LAYER];
    for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
      ck_assert_int_eq(count(&lists[phase], "experts.pad"), phase == PHASE_W ? 0 : cases[c].n);
      ck_assert_int_eq(count(&lists[phase], "experts.unpad"), phase == PHASE_W ? 0 : cases[c].n);
    }
    if (cases[c].n > 0)
      ck_assert_double_eq(find(&lists[PHASE_F], "experts.pad")->bytes, 2 * 2 * rows * hidden);
  }
}

/* 2 experts of the rank: a kernel for each where blocks have scales, four where a tensor has one; what a layer converts
 * for its attention is one. Each expert's product is a call of cuBLAS, which takes as long as two launches, in bf16,
 * too; other products are one launch. The time of a product is that of all experts at once. */
TEST(each_expert_is_launched_by_itself) {
  static const struct {
    Precision precision;
    CudaGraphs graphs;
    FrameworkExpertProducts products;
    int n_conversions, n_products;
  } cases[] = {{PRECISION_MXFP8, CUDA_GRAPHS_NONE, EXPERT_PRODUCTS_APART, 2, 4},
               {PRECISION_FP8, CUDA_GRAPHS_NONE, EXPERT_PRODUCTS_APART, 8, 4},
               {PRECISION_BF16, CUDA_GRAPHS_NONE, EXPERT_PRODUCTS_APART, 0, 4},
               {PRECISION_FP8, CUDA_GRAPHS_FULL, EXPERT_PRODUCTS_APART, 1, 1},
               {PRECISION_FP8, CUDA_GRAPHS_NONE, EXPERT_PRODUCTS_TOGETHER, 1, 1}};
  g_autoptr(Cluster) cluster = read_cluster("dgx-b200");
  const Model model = mixture();
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    g_autoptr(Plan) plan = plan_of_operations();
    plan->precision = cases[c].precision;
    plan->cuda_graphs = cases[c].graphs;
    plan->time.expert_products = cases[c].products;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
    const WorkItem *products[] = {find(f, "expert_up"), find(b, "expert_down.dgrad"), find(b, "expert_up.wgrad")};
    for (gsize p = 0; p < G_N_ELEMENTS(products); p++) {
      WorkItem one = *products[p];
      one.n_launches = 1;
      ck_assert_int_eq(products[p]->n_launches, cases[c].n_products);
      ck_assert_double_eq(kernel_cost_s(&cluster->gpu, products[p], NULL), kernel_cost_s(&cluster->gpu, &one, NULL));
    }
    ck_assert_int_eq(find(f, "qkv")->n_launches, 1);
    if (cases[c].n_conversions == 0)
      continue;
    ck_assert_int_eq(find(f, "expert_up.cast")->n_launches, cases[c].n_conversions);
    ck_assert_int_eq(find(b, "expert_down.grad_cast")->n_launches, cases[c].n_conversions);
    ck_assert_int_eq(find(f, "qkv.cast")->n_launches, 1);
  }
}

/* mxfp8, the rank's 2 experts of 1024 × (2·512): each of the up product's three products reads its operands in 2 bytes
 * and writes them in 1 and 1/32 for scales: R·h and R·2w of rows and, in two of the three, 2·h·2w of weights. Dense
 * layers convert once. */
TEST(each_product_of_experts_may_convert_its_operands) {
  const Model model = mixture();
  g_autoptr(Plan) plan = plan_of_operations();
  plan->precision = PRECISION_MXFP8;
  g_autoptr(Workload) once = workload_new(&model, plan, NULL);
  plan->time.expert_conversions = EXPERT_CONVERSIONS_EACH;
  g_autoptr(Workload) each = workload_new(&model, plan, NULL);
  const WorkList *f = &each->work[PIECE_LAYER][PHASE_F], *b = &each->work[PIECE_LAYER][PHASE_B];
  const WorkList *once_f = &once->work[PIECE_LAYER][PHASE_F], *once_b = &once->work[PIECE_LAYER][PHASE_B];
  const double narrow = 1 + 1.0 / 32, weights = 2 * hidden * 2 * width, input = rows * hidden,
               gradient = rows * 2 * width;
  ck_assert_double_eq(find(f, "expert_up.cast")->bytes, (2 + narrow) * (input + weights));
  ck_assert_double_eq(find(b, "expert_up.grad_cast")->bytes, (2 + narrow) * (gradient + weights));
  ck_assert_double_eq(find(b, "expert_up.wgrad")->behind_bytes, (2 + narrow) * (input + gradient));
  ck_assert_double_eq(find(once_f, "expert_up.cast")->bytes, (2 + 2 * narrow) * input);
  ck_assert_double_eq(find(once_b, "expert_up.grad_cast")->bytes, (2 + 2 * narrow) * gradient);
  ck_assert_double_eq(find(once_b, "expert_up.wgrad")->behind_bytes, 0);
  ck_assert_double_eq(find(b, "qkv.wgrad")->behind_bytes, find(once_b, "qkv.wgrad")->behind_bytes);
  ck_assert_double_eq(find(f, "qkv.cast")->bytes, find(once_f, "qkv.cast")->bytes);
}

/* 1 GB at 1 TB/s, of which 0.6 at half of that. */
TEST(strided_operations_go_by_their_own_rate) {
  const FrameworkTime time = {.strided_rate = 0.5};
  const Gpu gpu = {.hbm_Bps = 1e12, .hbm_efficiency = 1, .under_load = 1}, reached = framework_gpu(&time, &gpu);
  const WorkItem item = {.kind = ITEM_MEMORY, .bytes = 1e9, .strided_bytes = 0.6e9};
  ck_assert_double_eq_tol(kernel_cost_s(&reached, &item, NULL), 1.6e-3, 1e-12);
  ck_assert_double_eq_tol(kernel_cost_s(&gpu, &item, NULL), 1e-3, 1e-12);
}

/* The first of a row of operations takes the host what a kernel takes, each further one what a launch takes: also where
 * only the host time of a whole layer is stated, 300 us, which the further ones would otherwise multiply. */
TEST(further_operations_take_a_launch_each) {
  g_autoptr(Plan) plan = plan_new();
  plan->time =
      (FrameworkTime){.expert_host = {.is_stated = TRUE, .forward_s = 200e-6, .backward_s = 100e-6, .launch_s = 5e-6}};
  const WorkItem item = {.name = "bias", .kind = ITEM_MEMORY, .n_launches = 5, .after = -1};
  WorkItem items[] = {item};
  const WorkList work = {.items = items, .n_items = 1};
  const LaunchTimes of_experts = framework_launches(method_of(plan), &work, NULL, PIECE_LAYER, PHASE_F, TRUE, 5e-6);
  const LaunchTimes dense = framework_launches(method_of(plan), &work, NULL, PIECE_DENSE_LAYER, PHASE_F, FALSE, 5e-6);
  ck_assert_double_eq_tol(framework_launch_s(&of_experts, &item), 220e-6, 1e-12);
  const WorkItem inside = {.kind = ITEM_MEMORY, .n_launches = 5, .is_inside = TRUE, .after = -1};
  ck_assert_double_eq_tol(framework_launch_s(&of_experts, &inside), 25e-6, 1e-12); /* the module is the product's */
  ck_assert_double_eq_tol(framework_launch_s(&dense, &item), 25e-6, 1e-12);
  plan->time = (FrameworkTime){.host = {.is_stated = TRUE, .layer_forward_s = 300e-6}};
  const LaunchTimes of_layer = framework_launches(method_of(plan), &work, NULL, PIECE_LAYER, PHASE_F, TRUE, 5e-6);
  ck_assert_double_eq_tol(framework_launch_s(&of_layer, &item), 320e-6, 1e-12);
}

/* 7 layers with experts and 2 micro-batches: the host waits at 14 bounds, and at 28 where the activation is made again
 * in backward. A host of 100 us a kernel has then lost what it was ahead, and the step takes longer than by the
 * operations' own time. */
TEST(the_host_waits_at_every_bound) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = bounded_mixture();
  for (int again = FALSE; again <= TRUE; again++) {
    g_autoptr(Plan) plan = plan_of_operations();
    plan->seq_len = 4096, plan->micro_batch = 1, plan->global_batch = 16;
    plan->recompute = again ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    plan->recompute_modules = again ? MODULE_BIT(MODULE_MOE_ACT) : 0;
    plan->time.expert_host.is_stated = TRUE;
    plan->time.expert_host.forward_s = plan->time.expert_host.backward_s = 100e-6;
    plan->time.expert_host.launch_s = cluster->gpu.host_launch_s;
    g_autoptr(Plan) fused = plan_copy(plan);
    fused->time.expert_operations = EXPERT_OPERATIONS_FUSED;
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) single = predict(&model, cluster, plan, &error);
    ck_assert_msg(single != NULL, "%s", error != NULL ? error->message : "");
    g_autoptr(Prediction) none = predict(&model, cluster, fused, NULL);
    g_autoptr(Plan) whole = plan_copy(plan), unfolded = plan_copy(plan);
    whole->ep = unfolded->ep = 1, unfolded->fold = FALSE;
    g_autoptr(Prediction) folded = predict(&model, cluster, whole, NULL);
    g_autoptr(Prediction) apart = predict(&model, cluster, unfolded, NULL);
    ck_assert_int_gt(n_host_waits(folded->program), 0);
    ck_assert_double_eq(folded->step_time_s, apart->step_time_s);
    ck_assert_int_eq(n_host_waits(single->program) - n_host_waits(none->program), again ? 28 : 14);
    ck_assert_double_gt(single->step_time_s, none->step_time_s);
  }
}

int main(void) {
  return run_tests();
}
