/* Gradients that a framework sums separately: weight gradients by a kernel of their own, with the bytes that product
 * and kernel move; input gradients of separate linears, reduced over tp and added up, with the copies of such linears;
 * and the copies of ZeRO-3. */
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"

static Workload *summing(FrameworkGradientSums how, double gradient_bytes, gint64 n_micro_batches) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.gradient_sums = how;
  plan->recipe.gradients = gradient_bytes;
  plan->n_micro_batches = n_micro_batches;
  plan->global_batch = plan->micro_batch * n_micro_batches;
  return workload_new(&llama, plan, NULL);
}

/* 1024 tokens; n = (16 + 2·8)·64 = 2048; k = 1024; 2 bytes each. The product reads n·t and t·k and writes n·k; its
 * kernel reads that and the sum, of 4 bytes, and writes the sum: 2 + 4 + 4 bytes for each of n·k. */
TEST(the_product_writes_and_a_kernel_adds) {
  g_autoptr(Workload) apart = summing(GRADIENT_SUMS_APART, 4, 8);
  const double mega = 1024 * 1024;
  const WorkList *work = &apart->work[PIECE_LAYER][PHASE_W];
  const WorkItem *product = find(work, "qkv.wgrad");
  ck_assert_int_eq(product->accumulate, FALSE);
  ck_assert_int_eq(product->layout, LAYOUT_NT);
  ck_assert_double_eq(product->bytes, 2 * (2 + 1 + 2) * mega);
  ck_assert_double_eq(product->result_bytes, 0);
  ck_assert_double_eq(product->behind_bytes, (2 + 4 + 4) * 2 * mega);
  ck_assert_double_eq(find(&apart->work[PIECE_HEAD][PHASE_W], "logits.wgrad")->behind_bytes, 10.0 * 32768 * 1024);
}

TEST(a_product_that_adds_itself_has_no_such_kernel) {
  g_autoptr(Workload) fused = summing(GRADIENT_SUMS_FUSED, 4, 8);
  const WorkItem *product = find(&fused->work[PIECE_LAYER][PHASE_W], "qkv.wgrad");
  ck_assert_double_eq(product->behind_bytes, 0);
  ck_assert_int_eq(product->accumulate, TRUE);
  ck_assert_double_eq(product->result_bytes, 2 * 4 * 2048.0 * 1024);
}

/* What the first micro-batch left is the sum, but for its format. */
TEST(a_lone_micro_batch_adds_only_to_a_wider_sum) {
  g_autoptr(Workload) same = summing(GRADIENT_SUMS_APART, 2, 1), wider = summing(GRADIENT_SUMS_APART, 4, 1);
  ck_assert_double_eq(find(&same->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->behind_bytes, 0);
  ck_assert_double_gt(find(&wider->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->behind_bytes, 0);
  ck_assert_int_eq(find(&same->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->accumulate, FALSE);
  /* of two one is added, of eight seven: 2 + 2 + 2 bytes for each of n·k */
  g_autoptr(Workload) two = summing(GRADIENT_SUMS_APART, 2, 2), eight = summing(GRADIENT_SUMS_APART, 2, 8);
  const double all_bytes = (2 + 2 + 2) * 2048.0 * 1024;
  ck_assert_double_eq(find(&two->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->behind_bytes, all_bytes / 2);
  ck_assert_double_eq(find(&eight->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->behind_bytes, all_bytes * 7 / 8);
}

/* In bf16 a framework may say what a micro-batch's gradient costs to add, the first's too, whatever is held; in fp16 it
 * is added as it is held. */
TEST(a_framework_says_what_adding_a_gradient_takes) {
  const double elements = 2048.0 * 1024;
  for (int fp16 = 0; fp16 <= 1; fp16++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->precision = fp16 ? PRECISION_FP16 : PRECISION_BF16;
    plan->recipe.gradients = 2;
    plan->n_micro_batches = 2;
    plan->time.gradient_sums = GRADIENT_SUMS_APART;
    plan->time.gradient_add_bytes = 18;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    const double expected_bytes = fp16 ? (2 + 2 + 2) * elements / 2 : 18 * elements;
    ck_assert_double_eq(find(&workload->work[PIECE_LAYER][PHASE_W], "qkv.wgrad")->behind_bytes, expected_bytes);
  }
}

static double exchanged_bytes(const Workload *workload, Phase phase, const char *operand) {
  const WorkList *work = &workload->work[PIECE_LAYER][phase];
  for (int i = 0; i < work->n_items; i++)
    if (work->items[i].kind == ITEM_COLLECTIVE && g_strcmp0(work->items[i].operand, operand) == 0)
      return work->items[i].bytes;
  return 0;
}

static double summed_operand_bytes(const Workload *workload, const char *operand) {
  return exchanged_bytes(workload, PHASE_I, operand);
}

static double summed_bytes(const Model *model, int how, gboolean sequence_parallel) {
  g_autoptr(Plan) plan = plan_of(4, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.linears.gate = how;
  g_autoptr(Workload) workload = workload_new(model, plan, NULL);
  return summed_operand_bytes(workload, "mlp_up.dgrad");
}

/* 1024 tokens, h 1024, 2 bytes each: once for the product of both, twice where each has its own. Under sequence
 * parallelism the gradient of what was gathered once is scattered once. */
TEST(a_gate_may_be_summed_over_tp_by_itself) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  ck_assert_double_eq(summed_bytes(&llama, LINEARS_TOGETHER, FALSE), stream_bytes);
  ck_assert_double_eq(summed_bytes(&llama, LINEARS_APART, FALSE), 2 * stream_bytes);
  ck_assert_double_eq(summed_bytes(&llama, LINEARS_APART, TRUE), stream_bytes);
  ck_assert_double_eq(summed_bytes(&gpt, LINEARS_APART, FALSE), stream_bytes);
}

static double behind_bytes(const Workload *workload, Phase phase, const char *name) {
  return find(&workload->work[PIECE_LAYER][phase], name)->behind_bytes;
}

/* Of three linears: two kernels, each of which reads two gradients and writes one, beside the sums of all over tp; of a
 * gate's two: one. They are as wide as the hidden size and have the tokens of all ranks under sequence parallelism. */
TEST(gradients_of_linears_apart_are_added_up) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  for (int tp = 1; tp <= 4; tp *= 2) {
    g_autoptr(Plan) plan = plan_of(tp, tp == 4, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->time.linears.gate = plan->time.linears.qkv = LINEARS_APART;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "qkv.dgrad"), 2 * 3 * stream_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_up.dgrad"), 3 * stream_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_down.dgrad"), 0);
    ck_assert_double_eq(behind_bytes(workload, PHASE_F, "qkv"), 0);
    ck_assert_double_eq(summed_operand_bytes(workload, "qkv.dgrad"), tp == 1 ? 0 : (tp == 2 ? 3 : 1) * stream_bytes);
    plan->time.linears.gate = plan->time.linears.qkv = LINEARS_TOGETHER;
    g_autoptr(Workload) together = workload_new(&llama, plan, NULL);
    ck_assert_double_eq(behind_bytes(together, PHASE_I, "qkv.dgrad"), 0);
    ck_assert_double_eq(behind_bytes(together, PHASE_I, "mlp_up.dgrad"), 0);
  }
}

/* Where the norm's backward reads three gradients in place of their sum: two reads more, of a gate's two one. Before a
 * reduction over tp under sequence parallelism (tp 4 here): three or two reads, and the sum written; without (tp 2) tp
 * reduces each, and the sum is behind that. What is one product has no sum. */
TEST(what_reads_a_sum_of_gradients_may_make_it) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  for (int tp = 1; tp <= 4; tp *= 2) {
    g_autoptr(Plan) plan = plan_of(tp, tp == 4, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->time.linears.gate = plan->time.linears.qkv = LINEARS_APART;
    plan->time.linears.input_gradient_sums = INPUT_GRADIENT_SUMS_FUSED;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "qkv.dgrad"), (tp < 4 ? 2 : 4) * stream_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_up.dgrad"), (tp < 4 ? 1 : 3) * stream_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_down.dgrad"), 0);
    plan->time.linears.gate = LINEARS_TOGETHER;
    g_autoptr(Workload) together = workload_new(&llama, plan, NULL);
    ck_assert_double_eq(behind_bytes(together, PHASE_I, "mlp_up.dgrad"), 0);
  }
}

/* Read and written: for q, k and v each, for gate and up each, and the gradient of what attention and MLP make. Under
 * sequence parallelism what is gathered is a tensor of the linear's own already. */
TEST(linears_may_copy_what_they_read_where_tp_cuts_without_sequence_parallelism) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  for (int tp = 1; tp <= 4; tp *= 2) {
    g_autoptr(Plan) plan = plan_of(tp, tp == 4, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->time.linears.gate = plan->time.linears.qkv = LINEARS_APART;
    plan->time.tensor_parallel.input = TP_INPUT_COPIED;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    const double copied_bytes = tp == 2 ? 2 * stream_bytes : 0;
    ck_assert_double_eq(behind_bytes(workload, PHASE_F, "qkv"), 3 * copied_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_F, "mlp_up"), 2 * copied_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_F, "attn_out"), 0);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "attn_out.dgrad"), copied_bytes);
    ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_down.dgrad"), copied_bytes);
  }
}

/* Under sequence parallelism over 4 ranks q, k, v, a gate and what it multiplies each gather the tokens of all, for the
 * weight gradient again, and scatter their input's gradient, of which a quarter is left to be added: two sums of three
 * passes, and one. What rows of a product gather and reduce is as it was. */
TEST(linears_may_each_exchange_over_tp_for_themselves) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  g_autoptr(Plan) plan = plan_of(4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.linears.gate = plan->time.linears.qkv = LINEARS_APART;
  plan->time.tensor_parallel.exchanges = TP_EXCHANGES_EACH;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  ck_assert_double_eq(exchanged_bytes(workload, PHASE_F, "qkv"), 3 * stream_bytes);
  ck_assert_double_eq(exchanged_bytes(workload, PHASE_F, "mlp_up"), 2 * stream_bytes);
  ck_assert_double_eq(exchanged_bytes(workload, PHASE_F, "mlp_down"), stream_bytes);
  ck_assert_double_eq(summed_operand_bytes(workload, "qkv.dgrad"), 3 * stream_bytes);
  ck_assert_double_eq(summed_operand_bytes(workload, "mlp_up.dgrad"), 2 * stream_bytes);
  ck_assert_double_eq(summed_operand_bytes(workload, "mlp_down.dgrad"), stream_bytes);
  ck_assert_double_eq(behind_bytes(workload, PHASE_I, "qkv.dgrad"), 2 * 3 * stream_bytes / 4);
  ck_assert_double_eq(behind_bytes(workload, PHASE_I, "mlp_up.dgrad"), 3 * stream_bytes / 4);
  ck_assert_double_eq(exchanged_bytes(workload, PHASE_W, "qkv.wgrad"), 3 * stream_bytes);
  ck_assert_double_eq(exchanged_bytes(workload, PHASE_W, "mlp_up.wgrad"), 2 * stream_bytes);
}

/* Of all kernels of a list. */
static double all_behind_bytes(const WorkList *list) {
  double bytes = 0;
  for (int i = 0; i < list->n_items; i++)
    bytes += list->items[i].behind_bytes;
  return bytes;
}

/* Two ranks of dp share the parameters; gathered in 2 bytes, reduced in 4. Forward copies what was gathered (2 + 2),
 * with the norm; backward that, with the forward that it makes again first, and the gradients (2 + 4), with the norm's.
 */
TEST(zero_3_may_copy_what_it_gathers_and_reduces) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_FULL);
  plan->dp = plan->gpus = 2;
  plan->zero = 3;
  plan->recipe.weights = 2;
  plan->time.gradient_sum_bytes = 4;
  plan->time.zero3.buffers = ZERO3_BUFFERS_COPIED;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  for (int piece = PIECE_LAYER; piece <= PIECE_HEAD; piece += PIECE_HEAD - PIECE_LAYER) {
    const WorkList *work = workload->work[piece];
    const double parameters = (double)workload->piece_parameters[piece];
    ck_assert_double_eq(work[PHASE_F].items[0].behind_bytes, 4 * parameters);
    ck_assert_double_eq(work[PHASE_B].items[0].behind_bytes, 4 * parameters);
    ck_assert_double_eq(work[PHASE_B].items[work[PHASE_B].n_items - 1].behind_bytes, 6 * parameters);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_F]), 4 * parameters);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_B]), 10 * parameters);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_I]), 4 * parameters);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_W]), 6 * parameters);
  }
}

/* The same ranks: a gradient, read in 2 bytes and written in 4. */
TEST(zero_3_may_copy_what_it_reduces_alone) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->dp = plan->gpus = 2;
  plan->zero = 3;
  plan->time.gradient_sum_bytes = 4;
  plan->time.zero3.buffers = ZERO3_BUFFERS_OF_GRADIENTS;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  for (int piece = PIECE_LAYER; piece <= PIECE_HEAD; piece += PIECE_HEAD - PIECE_LAYER) {
    const WorkList *work = workload->work[piece];
    const double parameters = (double)workload->piece_parameters[piece];
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_F]) + all_behind_bytes(&work[PHASE_I]), 0);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_B]), 6 * parameters);
    ck_assert_double_eq(all_behind_bytes(&work[PHASE_W]), 6 * parameters);
  }
}

TEST(what_lies_on_one_rank_or_is_gathered_once_is_not_copied) {
  for (int zero = 2; zero <= 3; zero++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->dp = plan->gpus = zero == 3 ? 1 : 2;
    plan->zero = zero;
    plan->time.zero3.buffers = ZERO3_BUFFERS_COPIED;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    ck_assert_double_eq(all_behind_bytes(&workload->work[PIECE_LAYER][PHASE_F]), 0);
    ck_assert_double_eq(all_behind_bytes(&workload->work[PIECE_LAYER][PHASE_B]), 0);
  }
}

int main(void) {
  return run_tests();
}
