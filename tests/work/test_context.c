/* Context parallelism: volumes and work by closed forms, and a GPU's memory. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "plan.h"
#include "small_workloads.h"

static const CpComm all_comms[] = {CP_RING, CP_ALL_GATHER, CP_ULYSSES};

/* llama on micro-batches of 2 × 512 tokens; 16 heads of 64, 8 of keys and values, bf16, cut by tp and cp. */
static Workload *cut_workload_of(const Model *model, int tp, int cp, CpComm comm, Recompute recompute) {
  g_autoptr(Plan) plan = plan_of(tp, FALSE, ATTENTION_FLASH, recompute);
  plan->cp = cp;
  plan->gpus = tp * cp;
  plan->cp_comm = comm;
  return workload_new(model, plan, NULL);
}

static Workload *cut_workload(int tp, int cp, CpComm comm, Recompute recompute) {
  return cut_workload_of(&llama, tp, cp, comm, recompute);
}

typedef struct {
  double sent_bytes, attention_flops, matmul_flops;
  int n_collectives, n_attention;
} Totals;

/* Of one list: what a GPU sends over cp, and what it computes. */
static Totals totals_of(const WorkList *list, int cp) {
  Totals totals = {0};
  for (int i = 0; i < list->n_items; i++) {
    const WorkItem *item = &list->items[i];
    if (item->kind == ITEM_COLLECTIVE && item->axis == AXIS_CP) {
      totals.n_collectives++;
      totals.sent_bytes += collective_sent_bytes((Collective)item->collective, cp, item->bytes);
    }
    if (item->kind == ITEM_ATTENTION) {
      totals.n_attention++;
      totals.attention_flops += item->flops;
    }
    totals.matmul_flops += item->kind == ITEM_MATMUL ? item->flops : 0;
  }
  return totals;
}

/* K and V of one GPU's tokens: 2 tensors × 2 sequences × 512/cp tokens × (8 heads/tp × 64) columns × 2 bytes; Q and O
 * have 16 heads. A ring sends K and V cp−1 times forward; backward these and their gradients. An all-gather of cp·KV
 * sends (cp−1)/cp of it, and the gathers and the reduce-scatter of backward as much each. All-to-alls send (cp−1)/cp of
 * Q, K, V and O, backward of their gradients. */
TEST(traffic_has_its_closed_form) {
  for (int cp = 2; cp <= 8; cp *= 2)
    for (int tp = 1; tp <= 2 && cp * tp <= 8; tp++)
      for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
        g_autoptr(Workload) workload = cut_workload(tp, cp, all_comms[c], RECOMPUTE_NONE);
        const double kv = 2.0 * 2 * (512 / cp) * (8 / tp * 64) * 2, q = 2 * kv / 2;
        const double forward = all_comms[c] == CP_ULYSSES ? (2 * q + kv) * (cp - 1) / cp : kv * (cp - 1);
        const double backward = all_comms[c] == CP_ULYSSES ? forward : 2 * forward;
        const Totals f = totals_of(&workload->work[PIECE_LAYER][PHASE_F], cp),
                     i = totals_of(&workload->work[PIECE_LAYER][PHASE_I], cp),
                     w = totals_of(&workload->work[PIECE_LAYER][PHASE_W], cp),
                     b = totals_of(&workload->work[PIECE_LAYER][PHASE_B], cp);
        ck_assert_double_eq_tol(f.sent_bytes, forward, 1e-6 * forward);
        ck_assert_double_eq_tol(b.sent_bytes, backward, 1e-6 * backward);
        ck_assert_double_eq(i.sent_bytes, b.sent_bytes);
        ck_assert_double_eq(w.sent_bytes, 0);
        const int steps[] = {[CP_RING] = cp - 1, [CP_ALL_GATHER] = 1, [CP_ULYSSES] = 2};
        ck_assert_int_eq(f.n_collectives, steps[all_comms[c]]);
        ck_assert_int_eq(f.n_attention, all_comms[c] == CP_RING ? cp : 1);
      }
}

/* Ulysses with fewer K and V heads than cp ranks: each is repeated, so that every rank has one, before it is sent. Of
 * llama's 8 heads, 16 of Q, of which tp takes its part: cp ranks send (cp−1)/cp of 2 sequences × 512/cp tokens × 64
 * columns × 2 bytes for each head of Q, of O, and of K and V a head for each rank; backward their gradients. A copy
 * reads K and V once and writes a head for each rank, backward reads these and writes their sums. */
TEST(ulysses_repeats_key_heads_for_the_ranks) {
  static const struct {
    int tp, cp, kv_heads; /* of all ranks of tp */
  } cases[] = {{1, 16, 8}, {2, 8, 8}, {1, 4, 1}, {4, 4, 2}, {1, 16, 4}};
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    Model model = llama;
    model.n_kv_heads = cases[c].kv_heads;
    const int tp = cases[c].tp, cp = cases[c].cp, kv_heads = MAX(1, cases[c].kv_heads / tp);
    g_autoptr(Workload) workload = cut_workload_of(&model, tp, cp, CP_ULYSSES, RECOMPUTE_NONE);
    const double head = 2.0 * (512 / cp) * 64 * 2, sent = (2.0 * 16 / tp + 2 * cp) * head * (cp - 1) / cp;
    const WorkList *forward = &workload->work[PIECE_LAYER][PHASE_F], *backward = &workload->work[PIECE_LAYER][PHASE_B];
    ck_assert_double_eq_tol(totals_of(forward, cp).sent_bytes, sent, 1e-6 * sent);
    ck_assert_double_eq_tol(totals_of(backward, cp).sent_bytes, sent, 1e-6 * sent);
    ck_assert_double_eq(find(forward, "attention.kv_repeat")->bytes, 2 * (kv_heads + cp) * head);
    ck_assert_double_eq(find(backward, "attention.dkv_sum")->bytes, 2 * (kv_heads + cp) * head);
  }
}

/* Attention's FLOPs and all products are those of one rank, cut by cp; one key head is read by each rank. Saved are K
 * and V of cp heads in place of kv_heads; so is what attention's backward has in buffers, twice, but for the own
 * gradients. One layer of 2·512/16 tokens, e = 2: a head is 64·64·2 = 8 KiB; dO, dQ, dK and dV are 16 + 16 + 2·8 of
 * them, dO of a head a rank 16, and twice 16 + 2·16. */
TEST(repeated_key_heads_are_held_and_add_no_work) {
  Model narrow = llama;
  narrow.ffn_hidden = 128;
  g_autoptr(Workload) ring = cut_workload_of(&narrow, 1, 16, CP_RING, RECOMPUTE_NONE),
                      repeated = cut_workload_of(&narrow, 1, 16, CP_ULYSSES, RECOMPUTE_NONE);
  const double head = 8 * 1024;
  ck_assert_double_eq(repeated->memory[PIECE_LAYER].saved_bytes - ring->memory[PIECE_LAYER].saved_bytes,
                      (16 + 2 * 16 - 2 * 8) * head); /* attention's output of some heads, and copies */
  ck_assert_double_eq(repeated->memory[PIECE_LAYER].transient_bytes, (16 + 16 + 16 + 16 + 2 * (16 + 32)) * head);
  for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
    const Totals a = totals_of(&ring->work[PIECE_LAYER][phase], 16),
                 b = totals_of(&repeated->work[PIECE_LAYER][phase], 16);
    ck_assert_double_eq(a.attention_flops, b.attention_flops);
    ck_assert_double_eq(a.matmul_flops, b.matmul_flops);
  }
}

/* PyTorch's ring: K and V of all 16 heads are gathered (forward: (cp−1)/cp of cp·KV each rank sends), backward again,
 * and their gradients in fp32 sent cp times. The ranks do the ring's attention all the same, in cp blocks. */
TEST(pytorch_gathers_all_heads_and_passes_gradients_in_fp32) {
  for (int cp = 2; cp <= 8; cp *= 2) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->cp = plan->gpus = cp;
    plan->time.context = CONTEXT_BLOCKS;
    g_autoptr(Workload) blocks = workload_new(&llama, plan, NULL);
    g_autoptr(Workload) ring = cut_workload(1, cp, CP_RING, RECOMPUTE_NONE);
    const double kv = 2.0 * 2 * (512 / cp) * (16 * 64);
    const WorkList *forward = &blocks->work[PIECE_LAYER][PHASE_F], *backward = &blocks->work[PIECE_LAYER][PHASE_B];
    const Totals f = totals_of(forward, cp), b = totals_of(backward, cp);
    ck_assert_double_eq_tol(f.sent_bytes, (cp - 1) * 2 * kv, 1e-6 * kv);
    ck_assert_double_eq_tol(b.sent_bytes, (cp - 1) * 2 * kv + cp * 4 * kv, 1e-6 * kv);
    ck_assert(f.n_collectives == 1 && b.n_collectives == 1 + cp && f.n_attention == cp && b.n_attention == cp);
    ck_assert_double_eq(f.attention_flops, totals_of(&ring->work[PIECE_LAYER][PHASE_F], cp).attention_flops);
    ck_assert_double_eq(b.attention_flops, totals_of(&ring->work[PIECE_LAYER][PHASE_B], cp).attention_flops);
  }
}

/* Of exchanges that run beside nothing every one is exposed: the next kernel waits for it. */
TEST(exchanges_beside_nothing_are_waited_for_at_once) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->cp = plan->gpus = 4;
  plan->time.context = CONTEXT_BLOCKS;
  plan->time.context_exchanges = CONTEXT_ALONE;
  g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
  for (int phase = PHASE_F; phase <= PHASE_B; phase += PHASE_B - PHASE_F) {
    const WorkList *list = &workload->work[PIECE_LAYER][phase];
    for (int i = 0; i + 1 < list->n_items; i++)
      if (list->items[i].kind == ITEM_COLLECTIVE && list->items[i].axis == AXIS_CP)
        ck_assert_int_eq(list->items[i + 1].after, i);
  }
}

/* Whatever way it is cut, the ranks of cp together do the model's products and causal attention, no more and no less:
 * s(s+1)/2 + (cp−1)·s²/2 = S(S+1)/(2·cp) pairs a rank, with S = cp·s. */
TEST(ranks_share_the_work_exactly) {
  g_autoptr(Workload) whole = cut_workload(1, 1, CP_RING, RECOMPUTE_NONE);
  for (int cp = 2; cp <= 8; cp *= 2)
    for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
      g_autoptr(Workload) cut = cut_workload(1, cp, all_comms[c], RECOMPUTE_NONE);
      for (int piece = 0; piece < N_PIECES; piece++)
        for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
          const Totals all = totals_of(&whole->work[piece][phase], 1), part = totals_of(&cut->work[piece][phase], cp);
          ck_assert_double_eq(part.attention_flops * cp, all.attention_flops);
          ck_assert_double_eq(part.matmul_flops * cp, all.matmul_flops);
        }
      ck_assert_double_eq(workload_model_flops(cut), workload_model_flops(whole));
    }
}

/* Every tensor that is saved has a row per token of the rank. Ulysses saves attention's output of some heads beside
 * that of all: in all 2 · 512 tokens × 8 heads on a rank of tp × 64 columns × 2 bytes. */
TEST(activations_are_divided_by_cp_and_parameters_are_not) {
  const double output = 2.0 * 512 * 8 * 64 * 2;
  for (int recompute = 0; recompute <= RECOMPUTE_FULL; recompute++) {
    g_autoptr(Workload) whole = cut_workload(2, 1, CP_RING, (Recompute)recompute);
    for (int cp = 2; cp <= 4; cp *= 2)
      for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
        g_autoptr(Workload) cut = cut_workload(2, cp, all_comms[c], (Recompute)recompute);
        for (int piece = 0; piece < N_PIECES; piece++) {
          const gboolean is_layer = piece == PIECE_LAYER || piece == PIECE_DENSE_LAYER;
          const double more = is_layer && all_comms[c] == CP_ULYSSES && recompute != RECOMPUTE_FULL ? output : 0;
          ck_assert_double_eq(cut->memory[piece].saved_bytes * cp, whole->memory[piece].saved_bytes + more);
          ck_assert_double_eq(cut->memory[piece].released_by_I * cp, whole->memory[piece].released_by_I + more);
          ck_assert_double_eq(cut->memory[piece].held_for_W * cp, whole->memory[piece].held_for_W);
          ck_assert_int_eq(cut->piece_parameters[piece], whole->piece_parameters[piece]);
        }
        ck_assert_double_eq(cut->boundary_bytes * cp, whole->boundary_bytes);
      }
  }
}

/* With few MLP columns the buffers of attention are the widest thing of backward. One layer of 4 sequences' worth, tp
 * 1, cp 4: T = 2·128 tokens; q = 1024 columns, K and V 1024 together, e = 2: a tensor of T·1024 elements is 512 KiB.
 * dO, dQ, and dK and dV together are 3 tensors, and
 *     ring         two blocks of K and V, two of dK and dV, a part of dQ     4 + 1
 *     all-gather   K and V of all tokens, twice, and their gradients         3·4
 *     Ulysses      dO of some heads; dQ, dK, dV packed and as they come      1 + 2·2 */
TEST(buffers_of_the_exchange_are_held_while_backward_runs) {
  static const double tensors[] = {[CP_RING] = 8, [CP_ALL_GATHER] = 15, [CP_ULYSSES] = 8};
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    Model narrow = llama;
    narrow.ffn_hidden = 128;
    g_autoptr(Workload) workload = cut_workload_of(&narrow, 1, 4, all_comms[c], RECOMPUTE_NONE);
    ck_assert_double_eq(workload->memory[PIECE_LAYER].transient_bytes, tensors[all_comms[c]] * 512 * 1024);
  }
}

/* A framework that attends block by block has K and V for as many heads as Q, 2048 columns: in these tensors O is 1,
 * what is gathered of all ranks and this one's 4·2 + 2, the sums in fp32 and what a block adds to them 3·(2 + 1), and
 * dK and dV in fp32 as they go and come 2·2·2. */
TEST(blocks_hold_what_they_gather_and_their_sums) {
  Model narrow = llama;
  narrow.ffn_hidden = 128;
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->cp = plan->gpus = 4;
  plan->time.context = CONTEXT_BLOCKS;
  g_autoptr(Workload) workload = workload_new(&narrow, plan, NULL);
  ck_assert_double_eq(workload->memory[PIECE_LAYER].transient_bytes, (1 + 10 + 9 + 8) * 512 * 1024);
}

/* Bytes that memory-bound kernels of attention move. KV is K and V of a GPU's tokens, q as many bytes of Q, of O, and,
 * here, of KV: 2 sequences × 512/cp tokens × 16 heads × 64 columns × 2 bytes; L the log-sum-exps, 4 bytes a head and
 * token. Copies read and write.
 *     ring         pack 2KV, keep 2KV, cp−1 merges 3(q + L); backward pack 2KV, clear KV/2, cp−1 sums 3q and 3KV
 *     all-gather   pack 2KV, order 2·cp·KV; backward the same, clear cp·KV, order 2·cp·KV, unpack 2KV
 *     Ulysses      pack and unpack 2(q + KV) and 2q; backward the same */
TEST(copies_around_transfers_have_their_closed_form) {
  for (int cp = 2; cp <= 8; cp *= 2)
    for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
      g_autoptr(Workload) workload = cut_workload(1, cp, all_comms[c], RECOMPUTE_NONE);
      const double kv = 2.0 * (512 / cp) * 16 * 64 * 2, q = kv, sums = 4.0 * 2 * (512 / cp) * 16;
      const double expected[N_CP_COMMS][2] = {
          [CP_RING] = {4 * kv + (cp - 1) * 3 * (q + sums), 2.5 * kv + (cp - 1) * 3 * (q + kv)},
          [CP_ALL_GATHER] = {2 * kv + 2 * cp * kv, 4 * kv + 5 * cp * kv},
          [CP_ULYSSES] = {2 * (2 * (q + kv) + 2 * q), 2 * (2 * (q + kv) + 2 * q)},
      };
      for (int backward = 0; backward < 2; backward++) {
        const WorkList *list = &workload->work[PIECE_LAYER][backward ? PHASE_B : PHASE_F];
        double bytes = 0;
        for (int i = 0; i < list->n_items; i++)
          if (list->items[i].kind == ITEM_MEMORY && g_str_has_prefix(list->items[i].name, "attention."))
            bytes += list->items[i].bytes;
        ck_assert_double_eq(bytes, expected[all_comms[c]][backward]);
      }
    }
}

/* Memory passes of one name in a list, whether they are done again. */
static int passes_named(const WorkList *list, const char *name, gboolean again) {
  int n = 0;
  for (int i = 0; i < list->n_items; i++)
    n += strcmp(list->items[i].name, name) == 0 && (list->items[i].recompute != FALSE) == again;
  return n;
}

/* Attention that is run again reads a rank's own keys again, so the second forward is the one that replaces them. */
TEST(of_two_forwards_the_second_keeps_the_first_block) {
  for (int again = 0; again < 2; again++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
    plan->cp = plan->gpus = 4;
    plan->cp_comm = CP_RING;
    plan->memory.selective = again ? SELECTIVE_CORE : SELECTIVE_SCORES;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
    ck_assert_int_eq(passes_named(f, "attention.kv_keep", FALSE), again ? 0 : 1);
    ck_assert_int_eq(passes_named(b, "attention.kv_keep", TRUE), again ? 1 : 0);
    ck_assert_int_eq(passes_named(b, "attention.merge", TRUE), again ? 3 : 0);
  }
}

TEST(full_recompute_communicates_again) {
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    g_autoptr(Workload) kept = cut_workload(1, 4, all_comms[c], RECOMPUTE_NONE),
                        again = cut_workload(1, 4, all_comms[c], RECOMPUTE_FULL);
    const double f = totals_of(&kept->work[PIECE_LAYER][PHASE_F], 4).sent_bytes,
                 b = totals_of(&kept->work[PIECE_LAYER][PHASE_B], 4).sent_bytes;
    ck_assert_double_eq(totals_of(&again->work[PIECE_LAYER][PHASE_B], 4).sent_bytes, f + b);
    ck_assert_double_eq(totals_of(&again->work[PIECE_LAYER][PHASE_F], 4).sent_bytes, f);
  }
}

/* cp 2, pieces of 128 queries, a window of 100 keys: the first piece's see 100·101/2 + 28·100 = 7850, all others'
 * 128·100 = 12800 each. Rank 0 has the first and the last, rank 1, which is the fullest, two others: 25600, of 2
 * sequences and 16 heads, 4·64 FLOPs a pair. A ring has no windows. */
TEST(with_a_window_every_rank_is_the_fullest) {
  Model model = llama;
  model.window = 100;
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->cp = plan->gpus = 2;
  plan->cp_comm = CP_ALL_GATHER;
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  const WorkItem *attention = find(&workload->work[PIECE_LAYER][PHASE_F], "attention");
  ck_assert(attention->windowed);
  ck_assert_double_eq(attention->flops, 2.0 * 16 * 25600 * 4 * 64);
  model.window = 200; /* longer than a piece: 128·129/2 = 8256; 72 see 129 … 200, 56 more 200: 23044; then 25600 */
  g_autoptr(Workload) wider = workload_new(&model, plan, NULL);
  ck_assert_double_eq(find(&wider->work[PIECE_LAYER][PHASE_F], "attention")->flops,
                      2.0 * 16 * (23044 + 25600) * 4 * 64);
}

/* Under sequence parallelism tp gathers the input once more beside the input gradient: both follow what the
 * reduce-scatter brings of the gradients of K and V, which is put beside that of Q. */
TEST(the_input_gradient_waits_for_that_of_keys_and_values) {
  for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
    g_autoptr(Plan) plan = plan_of(2, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->cp = 2;
    plan->gpus = 4;
    plan->cp_comm = CP_ALL_GATHER;
    g_autoptr(Workload) workload = workload_new(&gpt, plan, NULL);
    const WorkList *list = &workload->work[PIECE_LAYER][PHASE_B];
    int scatter = list->n_items - 1;
    while (scatter >= 0 && strcmp(list->items[scatter].name, "cp.reduce_scatter") != 0)
      scatter--;
    ck_assert_int_ge(scatter, 0);
    const int unpack = scatter + 1, next = scatter + 2;
    ck_assert_str_eq(list->items[unpack].name, "attention.dkv_unpack");
    ck_assert_int_eq(list->items[unpack].after, scatter);
    ck_assert_int_eq(list->items[next].kind == ITEM_COLLECTIVE, sequence_parallel);
    if (sequence_parallel)
      ck_assert_int_eq(list->items[next].after, unpack);
  }
}

int main(void) {
  return run_tests();
}
