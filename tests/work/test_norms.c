/* Norms other than a layer's two: of q and k (Qwen3, MPT), after the embedding (BLOOM) and after the branches (Gemma 2,
 * which also caps its logits). */
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"

/* As Qwen3 has it: 2 sequences of 512 tokens; of tp 4 each rank has 4 of 16 heads and 2 of 8 kv heads of 64 columns. */
static Workload *normalised(Recompute recompute, gboolean plain) {
  Model model = llama;
  model.qk_norms = QK_NORMS_HEADS;
  g_autoptr(Plan) plan = plan_of(4, TRUE, ATTENTION_FLASH, recompute);
  plan->norm_kernel = plain ? FRAMEWORK_KERNELS_PLAIN : FRAMEWORK_KERNELS_FUSED;
  plan->memory.norm_bytes = plain ? 6 : 0;
  return workload_new(&model, plan, NULL);
}

static const double q_elements = 1024 * 256, k_elements = 1024 * 128;

TEST(norms_of_heads_read_and_write_q_and_k) {
  g_autoptr(Workload) workload = normalised(RECOMPUTE_NONE, FALSE);
  const WorkList *work = workload->work[PIECE_LAYER], *forward = &work[PHASE_F], *back = &work[PHASE_B];
  ck_assert_double_eq(find(forward, "q_norm")->bytes, 2 * 2 * q_elements);
  ck_assert_double_eq(find(forward, "k_norm")->bytes, 2 * 2 * k_elements);
  ck_assert(index_of(forward, "qkv") < index_of(forward, "q_norm"));
  ck_assert(index_of(forward, "k_norm") < index_of(forward, "rope"));
  ck_assert_double_eq(find(back, "q_norm.backward")->bytes, 3 * 2 * q_elements);
  ck_assert_double_eq(find(back, "k_norm.backward")->bytes, 3 * 2 * k_elements);
  ck_assert(index_of(back, "rope.backward") < index_of(back, "k_norm.backward"));
  ck_assert_int_eq(count(&work[PHASE_I], "q_norm.backward"), 1);
  ck_assert_int_eq(count(&work[PHASE_W], "q_norm.backward"), 0);
  g_autoptr(Workload) again = normalised(RECOMPUTE_FULL, FALSE);
  ck_assert(find(&again->work[PIECE_LAYER][PHASE_B], "q_norm")->recompute);
  g_autoptr(Workload) plain = normalised(RECOMPUTE_NONE, TRUE);
  ck_assert(find(&plain->work[PIECE_LAYER][PHASE_F], "k_norm")->is_plain);
  ck_assert_double_eq(find(&plain->work[PIECE_LAYER][PHASE_F], "k_norm")->bytes, (2 * 4 + 28) * k_elements);
}

/* Ranks of tp share two vectors of 64 a layer, and each has a gradient of its own heads. Of their own tokens, too,
 * where these are cut: with the layers' norms, and the head's. */
TEST(norms_of_heads_are_summed_over_tp) {
  for (int tp = 1; tp <= 4; tp *= 4)
    for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
      Model model = llama;
      g_autoptr(Plan) plan = plan_of(tp, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
      g_autoptr(Workload) bare = workload_new(&model, plan, NULL);
      model.qk_norms = QK_NORMS_HEADS;
      g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
      const gint64 norms = (2 * model.n_layers + 1) * model.hidden, of_heads = model.n_layers * 2 * 64;
      ck_assert_int_eq(bare->stages[0].tp_summed_parameters, tp > 1 && sequence_parallel ? norms : 0);
      ck_assert_int_eq(workload->stages[0].tp_summed_parameters,
                       tp == 1 ? 0 : (sequence_parallel ? norms : 0) + of_heads);
      ck_assert_int_eq(workload->stages[0].parameters - bare->stages[0].parameters, of_heads);
    }
}

TEST(norms_of_heads_keep_what_they_read) {
  g_autoptr(Workload) bare = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) fused = normalised(RECOMPUTE_NONE, FALSE), plain = normalised(RECOMPUTE_NONE, TRUE);
  const double elements = q_elements + k_elements, stream = 1024.0 * 1024 / 4;
  const PieceMemory *without = &bare->memory[PIECE_LAYER], *with = &fused->memory[PIECE_LAYER];
  ck_assert_double_eq(with->saved_bytes - without->saved_bytes, 2 * elements);
  ck_assert_double_eq(with->released_by_I - without->released_by_I, 2 * elements);
  /* a framework's 6 bytes per element, of these and of the two norms of the stream */
  ck_assert_double_eq(plain->memory[PIECE_LAYER].saved_bytes - with->saved_bytes, 6 * (elements + 2 * stream));
  ck_assert_double_eq(fused->memory[PIECE_DENSE_LAYER].saved_bytes, with->saved_bytes);
}

static int all_reduces(const WorkList *list, const char *operand, double bytes) {
  int n = 0;
  for (int i = 0; i < list->n_items; i++)
    n += list->items[i].kind == ITEM_COLLECTIVE && strcmp(list->items[i].operand, operand) == 0 &&
         list->items[i].axis == AXIS_TP && list->items[i].collective == COLLECTIVE_ALL_REDUCE &&
         list->items[i].bytes == bytes;
  return n;
}

/* Of all heads together, as many weights as columns, whose gradients tp sums; and of each row of q and of k one number
 * in 4 bytes, of what other ranks have of it, 1024 rows. Weights of each head's own are as many, and nothing is summed.
 */
TEST(norms_of_all_heads_move_as_much) {
  Model model = llama;
  model.qk_norms = QK_NORMS_WHOLE;
  g_autoptr(Workload) bare = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) workload = workload_of(&model, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(find(&workload->work[PIECE_LAYER][PHASE_F], "q_norm")->bytes, 2 * 2 * q_elements);
  ck_assert_int_eq(model_layer_parameters(&model) - model_layer_parameters(&llama), (16 + 8) * 64);
  ck_assert_double_eq(workload->memory[PIECE_LAYER].saved_bytes - bare->memory[PIECE_LAYER].saved_bytes,
                      2 * (q_elements + k_elements));
  ck_assert_int_eq(workload->stages[0].tp_summed_parameters, model.n_layers * (16 + 8) * 64);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F], *back = &workload->work[PIECE_LAYER][PHASE_B];
  const double sums = 4 * 1024 * 2;
  ck_assert_double_eq(find(forward, "qk_norm.sums")->bytes, 2 * (q_elements + k_elements) + sums);
  ck_assert_double_eq(find(back, "qk_norm.sums.backward")->bytes, 2 * 2 * (q_elements + k_elements) + sums);
  ck_assert_int_eq(all_reduces(forward, "qk_norm.sums", sums), 1);
  ck_assert_int_eq(all_reduces(back, "qk_norm.sums.backward", sums), 1);
  model.qk_norms = QK_NORMS_OWN;
  g_autoptr(Workload) own = workload_of(&model, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_int_eq(own->stages[0].tp_summed_parameters, workload->stages[0].tp_summed_parameters);
  ck_assert_int_eq(own->work[PIECE_LAYER][PHASE_F].n_items, forward->n_items - 2);
  ck_assert_int_eq(own->work[PIECE_LAYER][PHASE_B].n_items, back->n_items - 2);
}

/* 1024 tokens of 1024 columns in 2 bytes, a quarter of the tokens on each rank of tp under sequence parallelism; a
 * scale and a shift. */
TEST(a_norm_behind_the_word_table_reads_and_keeps_its_input) {
  Model model = gpt;
  model.dropout_rate = (DropoutRates){0};
  g_autoptr(Workload) bare = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  model.embedding_norm = TRUE;
  g_autoptr(Workload) workload = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *work = workload->work[PIECE_EMBEDDING];
  const double stream = 1024.0 * 1024 / 4;
  ck_assert_double_eq(find(&work[PHASE_F], "embedding_norm")->bytes, 2 * 2 * stream);
  ck_assert_double_eq(find(&work[PHASE_I], "embedding_norm.backward")->bytes, 3 * 2 * stream);
  ck_assert_int_eq(count(&work[PHASE_W], "embedding_norm.backward"), 0);
  ck_assert(index_of(&work[PHASE_F], "embedding") < index_of(&work[PHASE_F], "embedding_norm"));
  const PieceMemory *with = &workload->memory[PIECE_EMBEDDING], *without = &bare->memory[PIECE_EMBEDDING];
  ck_assert_double_eq(with->saved_bytes - without->saved_bytes, 2 * stream);
  ck_assert_double_eq(with->released_by_I - without->released_by_I, 2 * stream);
  ck_assert_int_eq(workload->stages[0].tp_summed_parameters - bare->stages[0].tp_summed_parameters, 2 * 1024);
  ck_assert_int_eq(workload->stages[0].parameters - bare->stages[0].parameters, 2 * 1024);
}

/* 1024 tokens of 1024 columns in 2 bytes, a quarter of them on each rank: two norms more of a scale each, which tp
 * sums the gradients of, read before the residual adds and read back first. */
TEST(norms_behind_the_branches_keep_what_they_read) {
  Model model = llama;
  g_autoptr(Workload) bare = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  model.post_norms = TRUE;
  g_autoptr(Workload) workload = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F], *back = &workload->work[PIECE_LAYER][PHASE_I];
  const double stream = 2 * 1024.0 * 1024 / 4;
  ck_assert_int_eq(count(forward, "post_norm"), 2);
  ck_assert_double_eq(find(forward, "post_norm")->bytes, 2 * stream);
  ck_assert(index_of(forward, "attn_out") < index_of(forward, "post_norm"));
  ck_assert(index_of(forward, "post_norm") < index_of(forward, "residual"));
  ck_assert_int_eq(count(back, "post_norm.backward"), 2);
  ck_assert_double_eq(find(back, "post_norm.backward")->bytes, 3 * stream);
  ck_assert(index_of(back, "post_norm.backward") < index_of(back, "mlp_down.dgrad"));
  const PieceMemory *with = &workload->memory[PIECE_LAYER], *without = &bare->memory[PIECE_LAYER];
  ck_assert_double_eq(with->saved_bytes - without->saved_bytes, 2 * stream);
  ck_assert_double_eq(with->released_by_I - without->released_by_I, 2 * stream);
  const gint64 norms = 2 * model.n_layers * model.hidden;
  ck_assert_int_eq(workload->stages[0].parameters - bare->stages[0].parameters, norms);
  ck_assert_int_eq(workload->stages[0].tp_summed_parameters - bare->stages[0].tp_summed_parameters, norms);
  ck_assert_int_eq(model_parameters(&model) - model_parameters(&llama), norms);
}

/* As many norms of as many bytes as before the branches, of which the linears read x itself: W needs it, and of what is
 * kept in full recompute, x alone, I gives nothing back. */
TEST(norms_in_the_place_behind_the_branches_leave_x_to_the_linears) {
  Model model = llama;
  model.norms_behind = TRUE;
  const double stream = 2 * 1024.0 * 1024 / 4;
  g_autoptr(Workload) before = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) behind = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *forward = &behind->work[PIECE_LAYER][PHASE_F], *back = &behind->work[PIECE_LAYER][PHASE_B];
  ck_assert_int_eq(count(forward, "norm") + count(back, "norm.backward"), 0);
  ck_assert_int_eq(count(forward, "post_norm"), 2);
  ck_assert_int_eq(count(back, "post_norm.backward"), 2);
  ck_assert_int_eq(count(back, "residual.grad"), 2);
  ck_assert_int_eq(forward->n_items, before->work[PIECE_LAYER][PHASE_F].n_items);
  ck_assert_int_eq(behind->stages[0].parameters, before->stages[0].parameters);
  ck_assert_double_eq(behind->memory[PIECE_LAYER].saved_bytes, before->memory[PIECE_LAYER].saved_bytes);
  ck_assert_double_eq(behind->memory[PIECE_LAYER].released_by_I, before->memory[PIECE_LAYER].released_by_I);
  g_autoptr(Workload) full_before = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_FULL);
  g_autoptr(Workload) full_behind = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_FULL);
  ck_assert_double_eq(full_behind->memory[PIECE_LAYER].saved_bytes, stream);
  ck_assert_double_eq(full_behind->memory[PIECE_LAYER].released_by_I, 0);
  ck_assert_double_eq(full_before->memory[PIECE_LAYER].held_for_W - full_behind->memory[PIECE_LAYER].held_for_W,
                      stream);
}

/* Nothing is kept of what they make. */
TEST(norms_behind_the_branches_are_not_made_again) {
  Model model = llama;
  model.norms_behind = TRUE;
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  plan->recompute_modules = MODULE_BIT(MODULE_LAYERNORM);
  g_autoptr(GError) error = NULL;
  ck_assert(!plan_complete(plan, &model, NULL, &error));
  ck_assert_ptr_nonnull(strstr(error->message, "recompute-modules layernorm: model"));
  ck_assert_ptr_nonnull(strstr(error->message, "behind its branches"));
}

/* One kernel each way over a rank's logits in 2 bytes, kept for backward. */
TEST(capped_logits_pass_one_kernel_more) {
  Model model = llama;
  g_autoptr(Workload) bare = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  model.capped_logits = TRUE;
  g_autoptr(Workload) workload = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *forward = &workload->work[PIECE_HEAD][PHASE_F], *back = &workload->work[PIECE_HEAD][PHASE_I];
  const double logits = find(forward, "loss.softmax")->bytes / 8; /* which it reads and writes in 4 bytes */
  ck_assert_double_eq(find(forward, "logit_cap")->bytes, 2 * 2 * logits);
  ck_assert(index_of(forward, "logits") < index_of(forward, "logit_cap"));
  ck_assert(index_of(forward, "logit_cap") < index_of(forward, "loss.max"));
  ck_assert_double_eq(find(back, "logit_cap.backward")->bytes, 3 * 2 * logits);
  ck_assert(index_of(back, "loss.backward") < index_of(back, "logit_cap.backward"));
  ck_assert(index_of(back, "logit_cap.backward") < index_of(back, "logits.dgrad"));
  ck_assert_double_eq(workload->memory[PIECE_HEAD].saved_bytes - bare->memory[PIECE_HEAD].saved_bytes, 2 * logits);
}

/* 1024 tokens of 1024 columns, in 2 bytes: PyTorch's own kernel takes more than reads and writes cannot do without; an
 * RMSNorm is another. */
TEST(a_framework_says_what_its_layer_norm_takes) {
  const double stream_bytes = 2.0 * 1024 * 1024;
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) bare = workload_new(&gpt, plan, NULL);
  ck_assert_double_eq(find(&bare->work[PIECE_LAYER][PHASE_F], "norm")->bytes, 2 * stream_bytes);
  ck_assert_double_eq(find(&bare->work[PIECE_LAYER][PHASE_B], "norm.backward")->bytes, 3 * stream_bytes);
  plan->time.layer_norm.forward = 3.5;
  plan->time.layer_norm.backward = 10.5;
  g_autoptr(Workload) longer = workload_new(&gpt, plan, NULL), other = workload_new(&llama, plan, NULL);
  ck_assert_double_eq(find(&longer->work[PIECE_LAYER][PHASE_F], "norm")->bytes, 3.5 * stream_bytes);
  ck_assert_double_eq(find(&longer->work[PIECE_LAYER][PHASE_B], "norm.backward")->bytes, 10.5 * stream_bytes);
  ck_assert_double_eq(find(&longer->work[PIECE_HEAD][PHASE_F], "final_norm")->bytes, 3.5 * stream_bytes);
  ck_assert_double_eq(find(&other->work[PIECE_LAYER][PHASE_F], "norm")->bytes, 2 * stream_bytes);
}

/* Read and written, of this rank's tokens, behind both products of a row-parallel linear with a bias. */
TEST(a_bias_may_be_added_apart) {
  g_autoptr(Plan) plan = plan_of(2, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.row_bias = ROW_BIAS_APART;
  g_autoptr(Workload) workload = workload_new(&gpt, plan, NULL), without = workload_new(&llama, plan, NULL);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F];
  ck_assert_double_eq(find(forward, "attn_out")->behind_bytes, 2 * 2.0 * 512 * 1024);
  ck_assert_double_eq(find(forward, "mlp_down")->behind_bytes, 2 * 2.0 * 512 * 1024);
  ck_assert_double_eq(find(forward, "qkv")->behind_bytes, 0);
  ck_assert_double_eq(find(&without->work[PIECE_LAYER][PHASE_F], "mlp_down")->behind_bytes, 0);
  plan->time.row_bias = ROW_BIAS_WITH_RESIDUAL;
  g_autoptr(Workload) together = workload_new(&gpt, plan, NULL);
  ck_assert_double_eq(find(&together->work[PIECE_LAYER][PHASE_F], "mlp_down")->behind_bytes, 0);
}

int main(void) {
  return run_tests();
}
