/* The kernels of each piece and phase: their work, their order and their dependencies. */
#include "plan.h"
#include "run_suite.h"
#include "small_workloads.h"
#include <stdlib.h>

TEST(forward_costs_two_flops_per_matrix_element_and_token_plus_attention) {
  g_autoptr(Workload) workload = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const double tokens = 2 * 512;
  /* All of a layer's parameters but its two norms are matrix elements: RMSNorm holds one vector of h each. */
  const double matrices = (double)(model_layer_parameters(&llama) - 2 * llama.hidden);
  /* Causal: 512·513/2 pairs per sequence and head, 4·64 FLOPs a pair, 2 sequences, 16 heads. */
  const double attention = 512.0 * 513 / 2 * 4 * 64 * 2 * 16;
  ck_assert_double_eq(workload->work[PIECE_LAYER][PHASE_F].flops, 2 * matrices * tokens + attention);
  ck_assert_double_eq(workload->work[PIECE_HEAD][PHASE_F].flops, 2.0 * 1024 * 32768 * tokens);
  ck_assert_double_eq(workload->work[PIECE_EMBEDDING][PHASE_F].flops, 0);
}

/* Also where stages are dealt by the work of a layer, for which an outline has to list it. */
TEST(an_outline_with_lists_added_is_a_whole_workload) {
  const char *layouts[] = {"auto", "balanced"};
  for (int i = 0; i < 2; i++) {
    g_autoptr(Plan) plan =
        plan_said("--gpus 8 --tp 2 --pp 4 --global-batch 16 --seq-len 512 --pipeline-layout %s", layouts[i]);
    g_autoptr(Workload) whole = workload_complete(&gpt, NULL, plan, NULL);
    g_autoptr(Workload) outline = workload_outline(&gpt, NULL, plan, NULL);
    ck_assert(i == 1 || outline->work[PIECE_LAYER][PHASE_F].n_items == 0);
    workload_add_lists(outline);
    for (Piece piece = 0; piece < N_PIECES; piece++)
      for (Phase phase = 0; phase < N_PHASES; phase++) {
        const WorkList *a = &whole->work[piece][phase], *b = &outline->work[piece][phase];
        ck_assert_int_eq(a->n_items, b->n_items);
        for (int k = 0; k < a->n_items; k++)
          ck_assert(a->items[k].name == b->items[k].name && a->items[k].flops == b->items[k].flops &&
                    a->items[k].bytes == b->items[k].bytes && a->items[k].after == b->items[k].after);
      }
    for (int stage = 0; stage < whole->n_stages; stage++)
      ck_assert_int_eq(whole->stages[stage].parameters, outline->stages[stage].parameters);
  }
}

TEST(unfused_attention_computes_all_pairs) {
  g_autoptr(Workload) workload = workload_of(&gpt, 1, FALSE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F];
  /* 2 sequences × 16 heads of 512×512 scores over 64 columns */
  ck_assert_double_eq(find(forward, "scores")->flops, 2.0 * 32 * 512 * 512 * 64);
  ck_assert_double_eq(find(forward, "context")->flops, find(forward, "scores")->flops);
}

TEST(backward_costs_twice_the_linears_and_attention_by_its_products) {
  const Attention attentions[] = {ATTENTION_FLASH, ATTENTION_UNFUSED};
  const double factors[] = {2.5, 2}; /* flash: five products for two; unfused: four */
  for (int i = 0; i < 2; i++) {
    g_autoptr(Workload) workload = workload_of(&llama, 1, FALSE, attentions[i], RECOMPUTE_NONE);
    const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F];
    const double attention = i == 0 ? find(forward, "attention")->flops : 2 * find(forward, "scores")->flops;
    ck_assert_double_eq(workload->work[PIECE_LAYER][PHASE_B].flops,
                        2 * (forward->flops - attention) + factors[i] * attention);
  }
}

TEST(ranks_of_tensor_parallelism_share_the_flops_of_one) {
  const Model models[] = {gpt, llama, neox(), falcon()};
  for (int i = 0; i < 4; i++)
    for (Attention attention = ATTENTION_FLASH; attention <= ATTENTION_UNFUSED; attention++) {
      g_autoptr(Workload) whole = workload_of(&models[i], 1, FALSE, attention, RECOMPUTE_FULL);
      g_autoptr(Workload) cut = workload_of(&models[i], 4, FALSE, attention, RECOMPUTE_FULL);
      g_autoptr(Workload) sequence = workload_of(&models[i], 4, TRUE, attention, RECOMPUTE_FULL);
      for (Piece piece = 0; piece < N_PIECES; piece++)
        for (Phase phase = PHASE_F; phase <= PHASE_B; phase++) {
          ck_assert_double_eq(4 * cut->work[piece][phase].flops, whole->work[piece][phase].flops);
          ck_assert_double_eq(sequence->work[piece][phase].flops, cut->work[piece][phase].flops);
        }
    }
}

static int compare_items(gconstpointer a, gconstpointer b) {
  const WorkItem *x = a, *y = b;
  const int by_name = strcmp(x->name, y->name);
  return by_name != 0           ? by_name
         : x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes)
                                : x->recompute - y->recompute;
}

/* The items of `first` and `second` sorted, without their dependencies. */
static GArray *sorted_items(const WorkList *first, const WorkList *second) {
  GArray *items = g_array_new(FALSE, FALSE, sizeof(WorkItem));
  for (int list = 0; list < 2; list++) {
    const WorkList *work = list == 0 ? first : second;
    for (int i = 0; work != NULL && i < work->n_items; i++)
      g_array_append_val(items, work->items[i]);
  }
  g_array_sort(items, compare_items);
  return items;
}

TEST(full_backward_has_exactly_the_kernels_of_its_halves) {
  for (int i = 0; i < N_COMBINATIONS; i++) {
    g_autoptr(Workload) workload = combination(i);
    for (Piece piece = 0; piece < N_PIECES; piece++) {
      const WorkList *work = workload->work[piece];
      g_autoptr(GArray) halves = sorted_items(&work[PHASE_I], &work[PHASE_W]);
      g_autoptr(GArray) whole = sorted_items(&work[PHASE_B], NULL);
      ck_assert_int_eq(halves->len, whole->len);
      for (guint j = 0; j < whole->len; j++)
        ck_assert_int_eq(compare_items(&g_array_index(halves, WorkItem, j), &g_array_index(whole, WorkItem, j)), 0);
      ck_assert_double_eq(work[PHASE_B].flops, work[PHASE_I].flops + work[PHASE_W].flops);
      ck_assert_double_eq(work[PHASE_W].recompute_flops, 0);
    }
  }
}

static void check_list(const WorkList *list) {
  double flops = 0, recompute_flops = 0;
  for (int i = 0; i < list->n_items; i++) {
    const WorkItem *item = &list->items[i];
    const gboolean on_tp = item->kind == ITEM_COLLECTIVE;
    ck_assert_ptr_nonnull(item->name);
    ck_assert_double_gt(item->bytes, 0);
    ck_assert_int_ge(item->after, -1);
    ck_assert_int_lt(item->after, i);
    if (item->after >= 0)
      ck_assert_int_ne(list->items[item->after].kind == ITEM_COLLECTIVE, on_tp);
    if (item->kind == ITEM_MATMUL)
      ck_assert_double_eq(item->flops, 2.0 * item->batch * item->m * item->n * item->k);
    flops += item->flops;
    recompute_flops += item->recompute ? item->flops : 0;
  }
  ck_assert_double_eq(list->flops, flops);
  ck_assert_double_eq(list->recompute_flops, recompute_flops);
}

TEST(items_depend_on_earlier_ones_of_the_other_stream) {
  for (int i = 0; i < N_COMBINATIONS; i++) {
    g_autoptr(Workload) workload = combination(i);
    for (Piece piece = 0; piece < N_PIECES; piece++)
      for (Phase phase = PHASE_F; phase <= PHASE_B; phase++)
        check_list(&workload->work[piece][phase]);
  }
}

static void assert_collectives(const Workload *workload, Phase phase, int all_reduce, int all_gather,
                               int reduce_scatter) {
  const WorkList *list = &workload->work[PIECE_LAYER][phase];
  ck_assert_int_eq(count(list, "tp.all_reduce"), all_reduce);
  ck_assert_int_eq(count(list, "tp.all_gather"), all_gather);
  ck_assert_int_eq(count(list, "tp.reduce_scatter"), reduce_scatter);
}

TEST(a_layer_has_the_collectives_of_megatron) {
  g_autoptr(Workload) alone = workload_of(&gpt, 1, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  assert_collectives(alone, PHASE_F, 0, 0, 0);
  g_autoptr(Workload) tensor = workload_of(&gpt, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  assert_collectives(tensor, PHASE_F, 2, 0, 0);
  assert_collectives(tensor, PHASE_B, 2, 0, 0);
  assert_collectives(tensor, PHASE_W, 0, 0, 0);
  /* Sequence parallelism: both region borders twice forward; backward gathers two gradients and two saved inputs. */
  g_autoptr(Workload) sequence = workload_of(&gpt, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  assert_collectives(sequence, PHASE_F, 0, 2, 2);
  assert_collectives(sequence, PHASE_I, 0, 2, 2);
  assert_collectives(sequence, PHASE_W, 0, 2, 0);
  /* The full buffer is b·s·h in 2 bytes whoever holds which part of it. */
  ck_assert_double_eq(find(&sequence->work[PIECE_LAYER][PHASE_F], "tp.all_gather")->bytes, 2.0 * 512 * 1024 * 2);
  ck_assert_double_eq(find(&tensor->work[PIECE_LAYER][PHASE_F], "tp.all_reduce")->bytes, 2.0 * 512 * 1024 * 2);
}

TEST(a_parallel_block_reduces_once) {
  const Model one_norm = falcon(), two_norms = neox();
  g_autoptr(Workload) shared = workload_of(&one_norm, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  assert_collectives(shared, PHASE_F, 1, 0, 0);
  assert_collectives(shared, PHASE_B, 1, 0, 0);
  g_autoptr(Workload) apart = workload_of(&two_norms, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  assert_collectives(apart, PHASE_F, 1, 0, 0);
  assert_collectives(apart, PHASE_B, 2, 0, 0); /* each norm needs its own gradient */
}

TEST(forward_waits_for_each_collective) {
  g_autoptr(Workload) workload = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F];
  const int reduce = index_of(forward, "tp.all_reduce");
  ck_assert_int_eq(forward->items[reduce].after, index_of(forward, "attn_out"));
  ck_assert_int_eq(find(forward, "residual")->after, reduce);
}

TEST(the_sum_of_an_input_gradient_runs_beside_the_weight_gradient) {
  g_autoptr(Workload) workload = workload_of(&llama, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *backward = &workload->work[PIECE_LAYER][PHASE_B];
  const int reduce = index_of(backward, "mlp_up.dgrad") + 1, weights = index_of(backward, "mlp_up.wgrad");
  ck_assert_str_eq(backward->items[reduce].name, "tp.all_reduce");
  ck_assert_int_eq(backward->items[reduce].after, reduce - 1);
  ck_assert_int_eq(backward->items[weights].after, -1);
  ck_assert_str_eq(backward->items[weights + 1].name, "norm.backward");
  ck_assert_int_eq(backward->items[weights + 1].after, reduce);
}

TEST(the_saved_input_is_gathered_beside_the_input_gradient) {
  g_autoptr(Workload) workload = workload_of(&llama, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *backward = &workload->work[PIECE_LAYER][PHASE_B];
  const int dgrad = index_of(backward, "qkv.dgrad"), weights = index_of(backward, "qkv.wgrad");
  ck_assert_str_eq(backward->items[dgrad - 1].name, "tp.all_gather");
  ck_assert_int_eq(backward->items[dgrad].after, -1);
  ck_assert_str_eq(backward->items[dgrad + 1].name, "tp.reduce_scatter");
  ck_assert_int_eq(backward->items[weights].after, dgrad - 1);
  ck_assert_int_eq(backward->items[weights + 1].after, dgrad + 1);
}

TEST(full_recompute_runs_the_layer_again_before_its_gradient) {
  g_autoptr(Workload) workload = workload_of(&gpt, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_FULL);
  const WorkList *work = workload->work[PIECE_LAYER];
  ck_assert_double_eq(work[PHASE_B].recompute_flops, work[PHASE_F].flops);
  for (int i = 0; i < work[PHASE_B].n_items; i++)
    ck_assert_int_eq(work[PHASE_B].items[i].recompute, i < work[PHASE_F].n_items); /* collectives too */
  ck_assert_double_eq(workload->work[PIECE_HEAD][PHASE_B].recompute_flops, 0);
}

TEST(selective_recompute_repeats_unfused_attention_only) {
  g_autoptr(Workload) unfused = workload_of(&gpt, 1, FALSE, ATTENTION_UNFUSED, RECOMPUTE_SELECTIVE);
  const WorkList *work = unfused->work[PIECE_LAYER];
  ck_assert_double_eq(work[PHASE_B].recompute_flops, 2 * find(&work[PHASE_F], "scores")->flops);
  g_autoptr(Workload) flash = workload_of(&gpt, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  g_autoptr(Workload) none = workload_of(&gpt, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(flash->work[PIECE_LAYER][PHASE_B].recompute_flops, 0);
  ck_assert_double_eq(flash->memory[PIECE_LAYER].saved_bytes, none->memory[PIECE_LAYER].saved_bytes);
}

TEST(products_move_each_operand_once) {
  g_autoptr(Workload) workload = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  /* 1024 tokens; n = (16 + 2·8)·64 = 2048; k = 1024; 2 bytes each: A 1024·1024, B 1024·2048, C 1024·2048. */
  const double mega = 1024 * 1024;
  ck_assert_double_eq(find(&workload->work[PIECE_LAYER][PHASE_F], "qkv")->bytes, 2 * (1 + 2 + 2) * mega);
  ck_assert_double_eq(find(&workload->work[PIECE_LAYER][PHASE_B], "qkv.dgrad")->bytes, 2 * (2 + 2 + 1) * mega);
  /* default recipe: gradients in 2 bytes, read and written */
  const WorkItem *weights = find(&workload->work[PIECE_LAYER][PHASE_B], "qkv.wgrad");
  ck_assert_double_eq(weights->bytes, 2 * (2 + 1) * mega + 2 * 2 * 2 * mega);
  ck_assert_int_eq(weights->accumulate, TRUE);
  ck_assert_int_eq(weights->layout, LAYOUT_NT);
  ck_assert_int_eq(weights->m, 2048);
  ck_assert_int_eq(weights->n, 1024);
  ck_assert_int_eq(weights->k, 1024);
}

static double bytes_of(const Workload *workload, Piece piece, Phase phase, const char *name) {
  return find(&workload->work[piece][phase], name)->bytes;
}

TEST(memory_bound_kernels_move_each_tensor_once) {
  /* 1024 tokens (256 per rank where the sequence is cut by 4), h 1024; 2 bytes per element, 1 per element of a mask. */
  g_autoptr(Workload) cut = workload_of(&gpt, 4, TRUE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
  const double stream = 256.0 * 1024, ffn = 1024.0 * 4096 / 4, scores = 2 * 4 * 512.0 * 512;
  /* round the scores: O made contiguous; dQ and dK scaled, then dQ, dK and dV joined, of 4 heads of 64 */
  const double heads = 1024.0 * 256, copied = (2 + 2) * heads, copied_backward = (2 + 2) * (2 + 3) * heads;
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_F, "norm"), (2 + 2) * stream);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "norm.backward"), (2 + 2 + 2) * stream);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_F, "residual"), (2 + 2 + 2 + 1) * stream);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "residual.grad"), (2 + 2 + 2) * stream);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "dropout.backward"), (2 + 1 + 2) * stream);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_F, "gelu"), (2 + 2) * ffn);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "gelu.backward"), (2 + 2 + 2) * ffn);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_F, "softmax"), (2 + 2) * scores + copied);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_F, "dropout"), (2 + 2 + 1) * scores);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "softmax.backward"), (2 + 2 + 2) * scores + copied_backward);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "mlp_up.bias_grad"), 2 * ffn);
  ck_assert_double_eq(bytes_of(cut, PIECE_LAYER, PHASE_B, "mlp_down.bias_grad"), 2 * stream);

  Model alibi = gpt; /* its slopes spread over the scores, and read with Q·Kᵀ; backward knows nothing of them */
  alibi.positions = POSITIONS_ALIBI;
  g_autoptr(Workload) sloped = workload_of(&alibi, 4, TRUE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
  ck_assert_double_eq(bytes_of(sloped, PIECE_LAYER, PHASE_F, "softmax"), (2 + 2 + 2 + 2) * scores + copied);
  ck_assert_int_eq(find(&sloped->work[PIECE_LAYER][PHASE_F], "softmax")->n_launches, 2);
  ck_assert_double_eq(bytes_of(sloped, PIECE_LAYER, PHASE_B, "softmax.backward"),
                      (2 + 2 + 2) * scores + copied_backward);
  ck_assert_int_eq(find(&sloped->work[PIECE_LAYER][PHASE_B], "softmax.backward")->n_launches, 1);

  /* gate and up f each in, their product out; backward reads all three and writes two */
  g_autoptr(Workload) gated = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(bytes_of(gated, PIECE_LAYER, PHASE_F, "silu_mul"), 2 * 3 * 1024.0 * 2816);
  ck_assert_double_eq(bytes_of(gated, PIECE_LAYER, PHASE_B, "silu_mul.backward"), 2 * 5 * 1024.0 * 2816);
  /* Q of 16 heads and K of 8, in and out; attention reads Q K V (32 heads' worth) and writes 16, and one fp32 a row */
  ck_assert_double_eq(bytes_of(gated, PIECE_LAYER, PHASE_F, "rope"), 2 * 2 * 1024.0 * 24 * 64);
  ck_assert_double_eq(bytes_of(gated, PIECE_LAYER, PHASE_F, "attention"), 1024.0 * (2 * 48 * 64 + 4 * 16));
  /* Q K V O dO in (64 heads), dQ dK dV out (32) */
  ck_assert_double_eq(bytes_of(gated, PIECE_LAYER, PHASE_B, "attention.backward"), 1024.0 * (2 * 96 * 64 + 4 * 16));
}

TEST(embedding_gathers_rows_and_scatters_a_dense_gradient) {
  g_autoptr(Workload) workload = workload_of(&gpt, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const double tokens = 1024.0 * 1024, stream = tokens / 4, table = 51200.0 * 1024 / 4;
  ck_assert_double_eq(bytes_of(workload, PIECE_EMBEDDING, PHASE_F, "embedding"), (2 + 2) * tokens);
  ck_assert_double_eq(bytes_of(workload, PIECE_EMBEDDING, PHASE_F, "positions"), (2 + 2 + 2) * stream);
  ck_assert_double_eq(bytes_of(workload, PIECE_EMBEDDING, PHASE_F, "dropout"), (2 + 2 + 1) * stream);
  /* reads the gradient, reads and writes rows; zeroes the table's gradient, then adds it to the main one (2 bytes) */
  ck_assert_double_eq(bytes_of(workload, PIECE_EMBEDDING, PHASE_W, "embedding.wgrad"),
                      (2 + 2 + 2) * tokens + (2 + 2 + 2 + 2) * table);
  ck_assert_int_eq(count(&workload->work[PIECE_EMBEDDING][PHASE_F], "tp.reduce_scatter"), 1);
  ck_assert_int_eq(count(&workload->work[PIECE_EMBEDDING][PHASE_I], "tp.all_gather"), 1);
}

static double bytes_or_none(const Workload *workload, Piece piece, Phase phase, const char *name) {
  return count(&workload->work[piece][phase], name) > 0 ? bytes_of(workload, piece, phase, name) : 0;
}

/* Granite drops of the probabilities alone, which flash attention does without a mask: what a residual adds and the
 * embedding are as without dropout. Each rate has kernels of its own and a mask of a byte per element. */
TEST(what_has_a_rate_is_dropped_alone) {
  const struct {
    DropoutRates rates;
    double layer, scores, embedding; /* bytes per element of the kernels that drop */
    double residual, saved_of_embedding;
  } cases[] = {{{0}, 0, 0, 0, 2 + 2 + 2, 0},
               {{.attention = 0.1}, 0, 2 + 2 + 1, 0, 2 + 2 + 2, 0},
               {{.embedding = 0.1}, 0, 0, 2 + 2 + 1, 2 + 2 + 2, 1},
               {{.hidden = 0.1}, 2 + 1 + 2, 0, 0, 2 + 2 + 2 + 1, 0}};
  const double stream = 256.0 * 1024, scores = 2 * 4 * 512.0 * 512;
  for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
    Model model = gpt;
    model.dropout_rate = cases[i].rates;
    g_autoptr(Workload) unfused = workload_of(&model, 4, TRUE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
    g_autoptr(Workload) flash = workload_of(&model, 4, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
    ck_assert_double_eq(bytes_or_none(unfused, PIECE_LAYER, PHASE_F, "dropout"), cases[i].scores * scores);
    ck_assert_double_eq(bytes_or_none(flash, PIECE_LAYER, PHASE_B, "dropout.backward"), cases[i].layer * stream);
    ck_assert_double_eq(bytes_of(flash, PIECE_LAYER, PHASE_F, "residual"), cases[i].residual * stream);
    ck_assert_double_eq(bytes_or_none(flash, PIECE_EMBEDDING, PHASE_F, "dropout"), cases[i].embedding * stream);
    ck_assert_double_eq(bytes_or_none(flash, PIECE_EMBEDDING, PHASE_I, "dropout.backward"),
                        cases[i].embedding * stream);
    ck_assert_double_eq(flash->memory[PIECE_EMBEDDING].saved_bytes, cases[i].saved_of_embedding * stream);
  }
}

TEST(loss_agrees_on_three_numbers_per_token) {
  g_autoptr(Workload) workload = workload_of(&gpt, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkList *forward = &workload->work[PIECE_HEAD][PHASE_F];
  ck_assert_int_eq(count(forward, "tp.all_reduce"), 3);
  ck_assert_double_eq(find(forward, "tp.all_reduce")->bytes, 4 * 1024);
  /* per logit: convert 2 → 4 and read 4; three passes of 4 + 4, 4 + 4, 4; 4 + 4; backward 4 + 4, then 4 → 2 */
  const double logits = 1024.0 * 51200 / 4;
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.max"), 10 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.exp"), 20 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.softmax"), 8 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_B, "loss.backward"), 14 * logits);
}

/* Read for maximum and sum, read once more and its gradient written over it, that read and written; of 4 and then 2
 * bytes per logit there are the 2 of the gradient alone. The three numbers are agreed on as before. */
TEST(a_fused_loss_leaves_the_gradient_where_the_logits_were) {
  g_autoptr(Workload) plain = workload_of(&gpt, 4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Plan) plan = plan_copy(plain->plan);
  plan->time.loss = LOSS_FUSED;
  g_autoptr(Workload) fused = workload_new(&gpt, plan, NULL);
  const double logits = 1024.0 * 51200 / 4;
  ck_assert_double_eq(bytes_of(fused, PIECE_HEAD, PHASE_F, "loss.max"), 2 * logits);
  ck_assert_double_eq(bytes_of(fused, PIECE_HEAD, PHASE_F, "loss.exp") +
                          bytes_of(fused, PIECE_HEAD, PHASE_F, "loss.softmax"),
                      4 * logits);
  ck_assert_double_eq(bytes_of(fused, PIECE_HEAD, PHASE_B, "loss.backward"), 4 * logits);
  ck_assert_int_eq(count(&fused->work[PIECE_HEAD][PHASE_F], "tp.all_reduce"), 3);
  const PieceMemory *before = &plain->memory[PIECE_HEAD], *after = &fused->memory[PIECE_HEAD];
  ck_assert_double_eq(before->saved_bytes - after->saved_bytes, 2 * logits);
  ck_assert_double_eq(before->transient_bytes - after->transient_bytes, 2 * logits);
}

/* PyTorch's cross_entropy on each of 4 ranks, whose logits they gather: per logit of all words 2 → 4 and three reads
 * and a write of 4; back what takes as long as 32 bytes, 4 → 2. It keeps 4 and makes 4 + 4 + 2, and holds the 2 of the
 * logits. */
TEST(a_plain_loss_is_computed_from_all_logits) {
  g_autoptr(Plan) plan = plan_of(4, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.loss = LOSS_PLAIN;
  plan->memory.logits = LOGITS_REPLICATED;
  g_autoptr(Workload) workload = workload_new(&gpt, plan, NULL);
  const WorkList *forward = &workload->work[PIECE_HEAD][PHASE_F];
  const double logits = 1024.0 * 51200, stream = 2 * 1024.0 * 1024;
  ck_assert_int_eq(count(forward, "tp.all_reduce"), 0);
  ck_assert_double_eq(find(forward, "tp.all_gather")->bytes, 2 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.max"), 10 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.exp"), 4 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.softmax"), 8 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_B, "loss.backward"), 38 * logits);
  ck_assert_double_eq(workload->memory[PIECE_HEAD].saved_bytes, 2 * stream + 4 * logits);
  ck_assert_double_eq(workload->memory[PIECE_HEAD].transient_bytes, 12 * logits);
}

/* 51,200 words are 50 streams of 1,024: of 1,024 tokens a chunk has 21, rounded up to 32. 31 of 32 chunks read the
 * weights, and read and write their gradient, beside the products: 3 · 2 bytes; backward reads and writes both
 * gradients once more. No logits are kept: the gradient of the weights is, and a chunk's logits are made, with one
 * matrix more. */
TEST(a_chunked_loss_keeps_the_gradients_of_its_product) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->time.loss = LOSS_CHUNKED;
  g_autoptr(Workload) workload = workload_new(&gpt, plan, NULL);
  const double logits = 1024.0 * 51200, stream = 2 * 1024.0 * 1024, matrix = 51200.0 * 1024;
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.max") +
                          bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.exp") +
                          bytes_of(workload, PIECE_HEAD, PHASE_F, "loss.softmax"),
                      3 * 2 * logits);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_B, "loss.backward"), 2 * stream);
  ck_assert_double_eq(bytes_of(workload, PIECE_HEAD, PHASE_B, "loss.sums"), (31 * 3 + 2) * 2 * matrix);
  ck_assert_int_eq(count(&workload->work[PIECE_HEAD][PHASE_I], "loss.sums"), 0);
  const PieceMemory *memory = &workload->memory[PIECE_HEAD];
  ck_assert_double_eq(memory->saved_bytes, 2 * stream + 2 * matrix);
  ck_assert_double_eq(memory->transient_bytes, 2 * logits / 32 + 2 * matrix);
}

TEST(narrow_formats_convert_the_operands_of_the_layers) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->precision = PRECISION_FP8;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F];
  ck_assert_int_eq(index_of(forward, "mlp_down"), index_of(forward, "mlp_down.cast") + 1);
  ck_assert_int_eq(find(forward, "mlp_down")->number, NUMBER_FP8);
  ck_assert_int_eq(find(forward, "attention")->number, NUMBER_BF16);
  ck_assert_int_eq(find(&workload->work[PIECE_HEAD][PHASE_F], "logits")->number, NUMBER_BF16);
  /* read 1024×2816 in 2 bytes twice, for the scale and to convert, write it in 1 byte twice */
  ck_assert_double_eq(find(forward, "mlp_down.cast")->bytes, 1024.0 * 2816 * 6);
  g_autoptr(Workload) wide = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_int_eq(count(&wide->work[PIECE_LAYER][PHASE_F], "mlp_down.cast"), 0);
  /* the linears' inputs are kept in 1 byte instead of 2, but flash keeps its output as it was */
  const double inputs = 1024.0 * (1024 + 1024 + 1024 + 2816), output = 1024.0 * 1024 * 2;
  ck_assert_double_eq(wide->memory[PIECE_LAYER].saved_bytes - workload->memory[PIECE_LAYER].saved_bytes,
                      inputs - output);
}

static Workload *gathering(const Model *model, gboolean sequence_parallel, int format) {
  g_autoptr(Plan) plan = plan_of(4, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->precision = PRECISION_FP8;
  plan->time.tensor_parallel.format = format;
  return workload_new(model, plan, NULL);
}

static double gathered(const WorkList *list, const char *operand) {
  for (int i = 0; i < list->n_items; i++)
    if (list->items[i].kind == ITEM_COLLECTIVE && list->items[i].collective == COLLECTIVE_ALL_GATHER &&
        strcmp(list->items[i].operand, operand) == 0)
      return list->items[i].bytes;
  ck_abort_msg("no gather for %s", operand);
}

/* 1,024 tokens of h = 1024 over 4 ranks, fp8: each reads its 256 tokens twice in 2 bytes and writes them in 1, before
 * they are gathered in 1 byte in place of 2; the other orientation, for W, is made of what came: read and written in 1.
 * So are the gradients of row-parallel outputs; what enters those (1,024 × 704) is converted where it is made. Sums
 * stay in 2 bytes. */
TEST(ranks_convert_their_tokens_before_they_are_gathered) {
  g_autoptr(Workload) workload = gathering(&llama, TRUE, TP_FORMAT_LINEAR);
  const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *i = &workload->work[PIECE_LAYER][PHASE_I],
                 *w = &workload->work[PIECE_LAYER][PHASE_W];
  const double stream = 1024.0 * 1024;
  ck_assert_double_eq(find(f, "qkv.cast")->bytes, 5 * stream / 4);
  ck_assert_int_eq(index_of(f, "tp.all_gather"), index_of(f, "qkv.cast") + 1);
  ck_assert_int_eq(index_of(f, "qkv"), index_of(f, "qkv.cast") + 2);
  ck_assert_double_eq(gathered(f, "mlp_up"), stream);
  ck_assert_double_eq(gathered(w, "mlp_up.wgrad"), stream);
  ck_assert_double_eq(find(w, "mlp_up.turn")->bytes, 2 * stream);
  ck_assert_double_eq(find(f, "mlp_down.cast")->bytes, 6.0 * 1024 * 704);
  ck_assert_double_eq(find(f, "tp.reduce_scatter")->bytes, 2 * stream);
  ck_assert_double_eq(find(i, "mlp_down.grad_cast")->bytes, 5 * stream / 4);
  ck_assert_double_eq(gathered(i, "mlp_down.dgrad"), stream);
  ck_assert(index_of(i, "mlp_down.grad_cast") < index_of(i, "mlp_down.dgrad"));
  ck_assert_double_eq(find(w, "attn_out.turn")->bytes, 2 * stream);
  ck_assert_int_eq(count(w, "mlp_down.turn") + count(w, "qkv.turn"), 2);
}

/* Without sequence parallelism nothing is gathered; branches side by side read what is gathered once; the output layer
 * and the embedding stay wide. */
TEST(gathers_stay_wide_where_no_layer_converts_for_itself) {
  const Model side_by_side = falcon();
  const struct {
    const Model *model;
    gboolean sequence_parallel;
  } cases[] = {{&llama, FALSE}, {&side_by_side, TRUE}};
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    g_autoptr(Workload) narrow = gathering(cases[c].model, cases[c].sequence_parallel, TP_FORMAT_LINEAR);
    g_autoptr(Workload) wide = gathering(cases[c].model, cases[c].sequence_parallel, TP_FORMAT_ELEMENT);
    for (int phase = 0; phase < N_PHASES; phase++) {
      const WorkList *a = &narrow->work[PIECE_LAYER][phase], *b = &wide->work[PIECE_LAYER][phase];
      ck_assert_int_eq(a->n_items, b->n_items);
      for (int i = 0; i < a->n_items; i++)
        ck_assert_double_eq(a->items[i].bytes, b->items[i].bytes);
    }
  }
  g_autoptr(Workload) workload = gathering(&llama, TRUE, TP_FORMAT_LINEAR);
  ck_assert_double_eq(gathered(&workload->work[PIECE_HEAD][PHASE_F], "logits"), 2 * 1024.0 * 1024);
  ck_assert_double_eq(gathered(&workload->work[PIECE_EMBEDDING][PHASE_B], "embedding.wgrad"), 2 * 1024.0 * 1024);
}

/* Of 512 queries the first 100 see 1 … 100 keys, the others 100: 100·101/2 + 412·100 = 46250 pairs of 512·513/2 =
 * 131328. 16 heads of 64 columns, 2 sequences; two products of 2·64 FLOPs a pair forward, five backward. */
TEST(a_window_leaves_fewer_pairs) {
  Model model = llama;
  model.window = 100;
  g_autoptr(Workload) whole = workload_of(&llama, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(Workload) windowed = workload_of(&model, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  const WorkItem *forward = find(&windowed->work[PIECE_LAYER][PHASE_F], "attention");
  const WorkItem *back = find(&windowed->work[PIECE_LAYER][PHASE_B], "attention.backward");
  ck_assert_double_eq(forward->flops, 2.0 * 16 * 46250 * 4 * 64);
  ck_assert_double_eq(back->flops, 2.0 * 16 * 46250 * 10 * 64);
  ck_assert(forward->windowed && back->windowed);
  ck_assert_double_eq(find(&whole->work[PIECE_LAYER][PHASE_F], "attention")->flops, 2.0 * 16 * 131328 * 4 * 64);
  ck_assert_double_eq(workload_model_flops(whole) - workload_model_flops(windowed),
                      3.0 * 16 * llama.n_layers * 16 * (131328 - 46250) * 4 * 64); /* 16 sequences a step */
  model.window = 512;                                                              /* hides nothing */
  g_autoptr(Workload) wide = workload_of(&model, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(workload_model_flops(wide), workload_model_flops(whole));
  ck_assert(!find(&wide->work[PIECE_LAYER][PHASE_F], "attention")->windowed);
  model.window = 100, model.is_chunked = TRUE; /* five chunks of 100·101/2, and 12·13/2 */
  g_autoptr(Workload) chunked = workload_of(&model, 1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  ck_assert_double_eq(find(&chunked->work[PIECE_LAYER][PHASE_F], "attention")->flops, 2.0 * 16 * 25328 * 4 * 64);
}

int main(void) {
  return run_tests();
}
