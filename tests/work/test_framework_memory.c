/* Extra memory that a framework holds, in bytes per piece. */
#include "error.h"
#include "run_suite.h"

#include <check.h>

#include "method_of.h"
#include "pieces/pieces.h"
#include "plan.h"
#include "plan_cases.h"

/* llama of small_workloads.h: 1024 tokens (2 sequences of 512), hidden 1024, 16 heads and 8 of K and V of 64, MLP 2816,
 * vocabulary 32768; 2 bytes per element. */

static const double tokens = 2 * 512, stream = 2 * 512 * 1024.0;

static Workload *workload_under(FrameworkMemory memory, int tp, gboolean sequence_parallel, Attention attention,
                                Recompute recompute) {
  g_autoptr(Plan) plan = plan_of(tp, sequence_parallel, attention, recompute);
  plan->memory = memory;
  return workload_new(&llama, plan, NULL);
}

/* What the framework adds to what a layer saves. */
static double added_to_layer(FrameworkMemory memory, int tp, gboolean sequence_parallel, Attention attention) {
  g_autoptr(Workload) bare = workload_of(&llama, tp, sequence_parallel, attention, RECOMPUTE_NONE);
  g_autoptr(Workload) run = workload_under(memory, tp, sequence_parallel, attention, RECOMPUTE_NONE);
  return run->memory[PIECE_LAYER].saved_bytes - bare->memory[PIECE_LAYER].saved_bytes;
}

TEST(plain_kernels_keep_what_fused_ones_do_not) {
  const FrameworkMemory plain = {.kernels = FRAMEWORK_KERNELS_PLAIN}, norm = {.norm_bytes = 6};
  /* silu(gate), 2816 wide, and attention's output once more, 1024 wide; of tp 4 a quarter */
  ck_assert_double_eq(added_to_layer(plain, 1, FALSE, ATTENTION_FLASH), 2 * tokens * (2816 + 1024));
  ck_assert_double_eq(added_to_layer(plain, 4, FALSE, ATTENTION_FLASH), 2 * tokens * (2816 + 1024) / 4);
  /* and the softmax in fp32: 2 sequences, 16 heads, 512² scores */
  ck_assert_double_eq(added_to_layer(plain, 1, FALSE, ATTENTION_UNFUSED),
                      2 * tokens * (2816 + 1024) + 4.0 * 2 * 16 * 512 * 512);
  /* two norms; tp does not cut them, sequence parallelism does */
  ck_assert_double_eq(added_to_layer(norm, 4, FALSE, ATTENTION_FLASH), 2 * 6 * stream);
  ck_assert_double_eq(added_to_layer(norm, 4, TRUE, ATTENTION_FLASH), 2 * 6 * stream / 4);
}

/* Among plain kernels an RMSNorm is operations that keep 6 bytes more for each of a layer's two inputs, a LayerNorm is
 * one kernel. */
TEST(a_layer_norm_is_one_kernel_among_plain_ones) {
  Model model = llama;
  double saved[2][2];
  for (int has_layer_norm = 0; has_layer_norm < 2; has_layer_norm++)
    for (int keeps = 0; keeps < 2; keeps++) {
      g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
      plan->norm_kernel = FRAMEWORK_KERNELS_PLAIN;
      plan->memory = (FrameworkMemory){.kernels = FRAMEWORK_KERNELS_PLAIN, .norm_bytes = 6 * keeps};
      model.norm = has_layer_norm ? NORM_LAYERNORM : NORM_RMSNORM;
      g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
      saved[has_layer_norm][keeps] = workload->memory[PIECE_LAYER].saved_bytes;
    }
  ck_assert_double_eq(saved[0][1] - saved[0][0], 2 * 6 * stream);
  ck_assert_double_eq(saved[1][1], saved[1][0]);
}

TEST(gathered_inputs_are_whole_on_every_rank) {
  const FrameworkMemory memory = {.gathered = GATHERED_KEPT};
  /* inputs of qkv and mlp_up: 2 bytes per element whole, of which a quarter was counted */
  ck_assert_double_eq(added_to_layer(memory, 4, TRUE, ATTENTION_FLASH), 2 * 2 * stream * 3 / 4);
  ck_assert_double_eq(added_to_layer(memory, 4, FALSE, ATTENTION_FLASH), 0);
  /* and of the logits */
  g_autoptr(Workload) bare = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) kept = workload_under(memory, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(kept->memory[PIECE_HEAD].saved_bytes - bare->memory[PIECE_HEAD].saved_bytes, 2 * stream * 3 / 4);
}

TEST(a_loss_on_whole_logits_holds_them_on_every_rank) {
  const FrameworkMemory whole = {.logits = LOGITS_WHOLE, .logit_bytes = 20}, split = {.logit_bytes = 20};
  const FrameworkMemory replicated = {.logits = LOGITS_REPLICATED, .logit_bytes = 20};
  g_autoptr(Workload) on_each = workload_under(whole, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) local = workload_under(split, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) bare = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const double logits = tokens * 32768;
  const PieceMemory *head = &on_each->memory[PIECE_HEAD];
  /* saved: inputs of norm and product, and 4 of the 20 bytes; while backward runs the other 16, and in 16 bits what
   * came of each of the 4 ranks and the product of this one */
  ck_assert_double_eq(head->saved_bytes, 2 * 2 * stream + 4 * logits);
  ck_assert_double_eq(head->transient_bytes, (16 + 2 + 2.0 / 4) * logits);
  g_autoptr(Workload) alone = workload_under(whole, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(alone->memory[PIECE_HEAD].transient_bytes, 16 * logits); /* nothing to gather */
  g_autoptr(Workload) copied = workload_under(replicated, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(copied->memory[PIECE_HEAD].saved_bytes, head->saved_bytes);
  ck_assert_double_eq(copied->memory[PIECE_HEAD].transient_bytes, 16 * logits); /* the pieces are gone by then */
  ck_assert_double_eq(local->memory[PIECE_HEAD].transient_bytes, 16 * logits / 4);
  ck_assert_double_eq(local->memory[PIECE_HEAD].saved_bytes, bare->memory[PIECE_HEAD].saved_bytes);
  ck_assert_double_eq(bare->memory[PIECE_HEAD].transient_bytes, 2 * logits / 4);
}

TEST(gradients_that_are_not_accumulated_in_place_are_made_whole) {
  const FrameworkMemory memory = {.vocabulary_gradients = VOCABULARY_GRADIENTS_DENSE,
                                  .spare_gradients = SPARE_GRADIENTS_KEPT};
  g_autoptr(Workload) workload = workload_under(memory, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) bare = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const double matrix = 2 * 32768 / 4 * 1024.0;
  ck_assert_double_eq(workload->memory[PIECE_HEAD].transient_bytes - bare->memory[PIECE_HEAD].transient_bytes, matrix);
  ck_assert_double_eq(workload->memory[PIECE_EMBEDDING].transient_bytes, matrix);
  /* qkv, attn_out, gate and up, down */
  const double elements = 1024.0 * (1024 + 2 * 512) + 1024 * 1024 + 1024 * 2 * 2816 + 2816 * 1024;
  ck_assert_double_eq(workload->framework_bytes, 2 * elements / 4);
  ck_assert_double_eq(bare->framework_bytes, 0);
}

/* 32,001 words on 4 ranks: 63 x 512 rows, a fourth of which are 8,064; as they are 8,001 on all ranks but the last.
 * The head's product and the weights go with them. */
TEST(a_vocabulary_is_padded_unless_a_framework_has_it_as_it_is) {
  Model model = llama;
  model.vocab = 32001;
  g_autoptr(Plan) plan = plan_of(4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const LocalSizes padded = local_sizes_of(&model, method_of(plan));
  plan->memory.vocabulary = VOCABULARY_AS_IS;
  const LocalSizes bare = local_sizes_of(&model, method_of(plan));
  ck_assert_int_eq(padded.vocab_width, 8064);
  ck_assert_int_eq(bare.vocab_width, 8001);
  ck_assert_int_eq(linear_of(&bare, LINEAR_LOGITS).n, 8001);
  ck_assert_int_eq(local_piece_parameters(&padded, PIECE_HEAD) - local_piece_parameters(&bare, PIECE_HEAD), 63 * 1024);
}

/* ZeRO-3 of 8 ranks: 2 bytes of weights and 2 of gradients of 32,768 rows of 1,024, unless the head shares them. Of
 * bf16+master's moments each has 4 bytes. */
TEST(buckets_tables_and_lists_are_held_as_frameworks_have_them) {
  const FrameworkMemory memory = {.word_table = WORD_TABLE_KEPT, .bucket_bytes = 1e6, .optimizer = OPTIMIZER_LISTS};
  Model tied = llama;
  tied.tied = TRUE;
  for (int dp = 1; dp <= 8; dp += 7)
    for (int zero = 2; zero <= 3; zero++) {
      g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
      plan->gpus = plan->dp = plan->zero_ranks = dp;
      plan->zero = zero;
      plan->memory = memory;
      g_autoptr(Workload) workload = workload_new(&llama, plan, NULL), sharing = workload_new(&tied, plan, NULL);
      const double buckets = dp > 1 ? 1e6 : 0, table = dp > 1 && zero == 3 ? 4.0 * 32768 * 1024 : 0;
      ck_assert_double_eq(workload->framework_bytes, buckets + table);
      ck_assert_double_eq(sharing->framework_bytes, buckets);
      ck_assert_double_eq(workload->method->update_bytes, 4);
      plan->offload.optimizer = TIER_HOST;
      ck_assert_double_eq(method_of(plan)->update_bytes, 0);
    }
}

TEST(selective_by_products_keeps_every_other) {
  const FrameworkMemory memory = {.selective = SELECTIVE_PRODUCTS};
  g_autoptr(Workload) workload = workload_under(memory, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  g_autoptr(Workload) full = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_FULL);
  const PieceMemory *layer = &workload->memory[PIECE_LAYER];
  /* the layer's input; Q 1024, V 512, attention 1024 and its fp32 sums, the gate 2816, the MLP's output 1024 */
  const double kept = 2 * tokens * (1024 + 1024 + 512 + 1024 + 2816 + 1024) + 4 * 16 * tokens;
  ck_assert_double_eq(layer->saved_bytes, kept);
  /* what is made again is alive beside it, as with full recompute */
  ck_assert_double_eq(layer->saved_bytes + layer->transient_bytes,
                      full->memory[PIECE_LAYER].saved_bytes + full->memory[PIECE_LAYER].transient_bytes);
  /* I makes again what W reads but attention's output, which stays until then */
  const double attention = 2 * tokens * 1024;
  ck_assert_double_eq(layer->released_by_I, kept - attention);
  ck_assert_double_eq(layer->held_for_W, full->memory[PIECE_LAYER].held_for_W - attention);
}

/* Of llama, 1024 tokens: K's columns, attn_out and up again: 2·1024·(512 + 1024 + 2816) FLOPs per token, and not
 * attention; of gpt K, attn_out and mlp_down: 2·1024·(1024 + 1024 + 4096). */
TEST(what_was_not_kept_is_made_again) {
  const struct {
    const Model *model;
    double columns;
  } cases[] = {{&llama, 512 + 1024 + 2816}, {&gpt, 1024 + 1024 + 4096}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++)
    for (int tp = 1; tp <= 4; tp += 3) {
      g_autoptr(Plan) plan = plan_of(tp, tp > 1, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
      plan->memory.selective = SELECTIVE_PRODUCTS;
      g_autoptr(Workload) workload = workload_new(cases[i].model, plan, NULL);
      const double again = workload->work[PIECE_LAYER][PHASE_B].recompute_flops;
      ck_assert_double_eq(again, tokens * 2 * 1024 * cases[i].columns / tp);
      ck_assert_double_eq(workload->work[PIECE_LAYER][PHASE_I].recompute_flops, again);
      ck_assert_double_eq(workload->work[PIECE_LAYER][PHASE_W].recompute_flops, 0);
      /* the step's: 8 layers, 8 micro-batches, tp ranks */
      const double hardware = workload_hardware_flops(workload) - workload_model_flops(workload);
      ck_assert_double_eq_tol(hardware / (again * 8 * 8 * tp), 1, 1e-12);
    }
}

/* Sequence parallelism: inputs of qkv and up are gathered again, what was reduced and scattered is kept. */
TEST(what_tp_has_scattered_is_not_made_again) {
  g_autoptr(Plan) plan = plan_of(4, TRUE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  plan->memory.selective = SELECTIVE_PRODUCTS;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  const WorkList *backward = &workload->work[PIECE_LAYER][PHASE_B];
  int n_gathers = 0, n_others = 0;
  for (int i = 0; i < backward->n_items; i++)
    if (backward->items[i].recompute && backward->items[i].kind == ITEM_COLLECTIVE) {
      n_gathers += backward->items[i].collective == COLLECTIVE_ALL_GATHER;
      n_others += backward->items[i].collective != COLLECTIVE_ALL_GATHER;
    }
  ck_assert_int_eq(n_gathers, 2);
  ck_assert_int_eq(n_others, 0);
}

static Workload *recomputed_fully(const Model *model, int tp, int end) {
  g_autoptr(Plan) plan = plan_of(tp, tp > 1, ATTENTION_FLASH, RECOMPUTE_FULL);
  plan->time.recompute_end = end;
  return workload_new(model, plan, NULL);
}

static int sums_made_again(const Workload *workload) {
  const WorkList *backward = &workload->work[PIECE_LAYER][PHASE_B];
  int n = 0;
  for (int i = 0; i < backward->n_items; i++)
    n += backward->items[i].recompute && backward->items[i].kind == ITEM_COLLECTIVE &&
         backward->items[i].collective == COLLECTIVE_REDUCE_SCATTER;
  return n;
}

/* Of llama, 1024 columns out of 2816: 2·1024·2816 FLOPs per token less on tp ranks, and of two sums over them one. */
TEST(full_recompute_may_end_with_what_is_read) {
  for (int tp = 1; tp <= 4; tp += 3) {
    g_autoptr(Workload) whole = recomputed_fully(&llama, tp, RECOMPUTE_END_WHOLE);
    g_autoptr(Workload) needed = recomputed_fully(&llama, tp, RECOMPUTE_END_NEEDED);
    const double less = tokens * 2.0 * 1024 * 2816 / tp;
    const WorkList *all = &whole->work[PIECE_LAYER][PHASE_B], *read = &needed->work[PIECE_LAYER][PHASE_B];
    ck_assert_double_eq(all->recompute_flops - read->recompute_flops, less);
    ck_assert_double_eq(all->flops - read->flops, less);
    ck_assert_int_eq(all->n_items - read->n_items, tp > 1 ? 3 : 2); /* the product, its sum, the residual */
    ck_assert_int_eq(sums_made_again(whole), tp > 1 ? 2 : 0);
    ck_assert_int_eq(sums_made_again(needed), tp > 1 ? 1 : 0);
    /* the step's: 8 layers, 8 micro-batches, tp ranks */
    const double hardware = workload_hardware_flops(whole) - workload_hardware_flops(needed);
    ck_assert_double_eq_tol(hardware / (less * 8 * 8 * tp), 1, 1e-9);
  }
}

/* Dropout keeps a mask of the last product, a norm behind it the product itself. */
TEST(what_reads_the_last_product_has_it_made_again) {
  Model dropped = llama, normed = llama, behind = llama;
  dropped.dropout_rate.hidden = 0.1;
  normed.post_norms = TRUE;
  behind.norms_behind = TRUE;
  const Model *models[] = {&dropped, &normed, &behind};
  for (gsize i = 0; i < G_N_ELEMENTS(models); i++) {
    g_autoptr(Workload) whole = recomputed_fully(models[i], 1, RECOMPUTE_END_WHOLE);
    g_autoptr(Workload) needed = recomputed_fully(models[i], 1, RECOMPUTE_END_NEEDED);
    ck_assert_double_eq(whole->work[PIECE_LAYER][PHASE_B].flops, needed->work[PIECE_LAYER][PHASE_B].flops);
    ck_assert_double_eq(workload_hardware_flops(whole), workload_hardware_flops(needed));
  }
}

/* --- a whole step --- */

static Prediction *predict_under(const Cluster *cluster, FrameworkMemory memory, int pp) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->pp = pp;
  plan->gpus = pp;
  plan->memory = memory;
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(&llama, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

TEST(spare_gradients_are_buffers_of_every_rank_once) {
  g_autoptr(Cluster) cluster = read_cluster("selene");
  const FrameworkMemory memory = {.spare_gradients = SPARE_GRADIENTS_KEPT}, none = {0};
  g_autoptr(Prediction) bare = predict_under(cluster, none, 2), run = predict_under(cluster, memory, 2);
  const double spare = run->workload->framework_bytes;
  ck_assert_double_gt(spare, 0);
  for (int rank = 0; rank < 2; rank++)
    ck_assert_double_eq(run->memory->rank_peak[rank], bare->memory->rank_peak[rank] + spare);
  ck_assert_double_eq(run->memory->at_peak.bytes[MEMORY_BUFFERS], bare->memory->at_peak.bytes[MEMORY_BUFFERS] + spare);
  ck_assert_int_eq(run->metrics->step_ns, bare->metrics->step_ns);
}

TEST(fragmentation_is_lost_on_every_rank) {
  g_autoptr(Cluster) cluster = read_cluster("selene");
  const FrameworkMemory memory = {.fragmentation_bytes = 2e9}, none = {0};
  g_autoptr(Prediction) bare = predict_under(cluster, none, 2), run = predict_under(cluster, memory, 2);
  for (int rank = 0; rank < 2; rank++)
    ck_assert_double_eq(run->memory->rank_peak[rank], bare->memory->rank_peak[rank] + 2e9);
}

/* The embedding's gradient comes when the layers of its micro-batch have given back what they saved: on a first stage
 * with other micro-batches in flight, or alone, it must not be added to the peak at the start of a backward. Here one
 * layer of four saves less than the gradient takes, and four save more. */
TEST(the_embeddings_gradient_comes_after_the_layers_are_done) {
  g_autoptr(Cluster) cluster = read_cluster("selene");
  const FrameworkMemory memory = {.vocabulary_gradients = VOCABULARY_GRADIENTS_DENSE}, none = {0};
  g_autoptr(Prediction) bare = predict_under(cluster, none, 2), run = predict_under(cluster, memory, 2);
  const PieceMemory *pieces = run->workload->memory;
  const double layers = 4 * pieces[PIECE_LAYER].saved_bytes, gradient = pieces[PIECE_EMBEDDING].transient_bytes;
  ck_assert_double_gt(gradient, pieces[PIECE_LAYER].transient_bytes);
  ck_assert_double_lt(gradient - layers, pieces[PIECE_LAYER].transient_bytes);
  ck_assert_double_eq(run->memory->rank_peak[0], bare->memory->rank_peak[0]);
  g_autoptr(Prediction) thin = predict_under(cluster, memory, 8), thin_bare = predict_under(cluster, none, 8);
  const double excess = gradient - pieces[PIECE_LAYER].saved_bytes - pieces[PIECE_LAYER].transient_bytes;
  ck_assert_double_gt(excess, 0);
  ck_assert_double_eq(thin->memory->rank_peak[0], thin_bare->memory->rank_peak[0] + excess);
}

int main(void) {
  return run_tests();
}
