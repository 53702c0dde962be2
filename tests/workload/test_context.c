/* Context parallelism: volumes and work by closed forms, what it leaves a GPU to hold, what a step makes of it. */
#include "error.h"

#include <check.h>
#include <math.h>

#include "axis_runs.h"
#include "plan_cases.h"

static const CpComm all_comms[] = {CP_RING, CP_ALL_GATHER, CP_ULYSSES};

/* llama on micro-batches of 2 × 512 tokens; 16 heads of 64, 8 of keys and values, bf16, cut by tp and cp. */
static Workload *cut_workload(int tp, int cp, CpComm comm, Recompute recompute) {
  g_autoptr(Plan) plan = plan_of(tp, FALSE, ATTENTION_FLASH, recompute);
  plan->cp = cp;
  plan->gpus = tp * cp;
  plan->cp_comm = comm;
  return workload_new(&llama, plan, NULL);
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
START_TEST(traffic_has_its_closed_form) {
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
END_TEST

/* PyTorch's ring: K and V of all 16 heads are gathered (forward: (cp−1)/cp of cp·KV each rank sends), backward again,
 * and their gradients in fp32 sent cp times. The ranks do the ring's attention all the same, in cp blocks. */
START_TEST(pytorch_gathers_all_heads_and_passes_gradients_in_fp32) {
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
END_TEST

/* Of exchanges that run beside nothing every one is exposed: the next kernel waits for it. */
START_TEST(exchanges_beside_nothing_are_waited_for_at_once) {
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
END_TEST

/* Whatever way it is cut, the ranks of cp together do the model's products and causal attention, no more and no less:
 * s(s+1)/2 + (cp−1)·s²/2 = S(S+1)/(2·cp) pairs a rank, with S = cp·s. */
START_TEST(ranks_share_the_work_exactly) {
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
END_TEST

/* Every tensor that is saved has a row per token of the rank. Ulysses saves attention's output of some heads beside
 * that of all: in all 2 · 512 tokens × 8 heads on a rank of tp × 64 columns × 2 bytes. */
START_TEST(activations_are_divided_by_cp_and_parameters_are_not) {
  const double output = 2.0 * 512 * 8 * 64 * 2;
  for (int recompute = 0; recompute < N_RECOMPUTES; recompute++) {
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
END_TEST

/* With few MLP columns the buffers of attention are the widest thing of backward. One layer of 4 sequences' worth, tp
 * 1, cp 4: T = 2·128 tokens; q = 1024 columns, K and V 1024 together, e = 2: a tensor of T·1024 elements is 512 KiB.
 * dO, dQ, and dK and dV together are 3 tensors, and
 *     ring         two blocks of K and V, two of dK and dV, a part of dQ     4 + 1
 *     all-gather   K and V of all tokens, twice, and their gradients         3·4
 *     Ulysses      dO of some heads; dQ, dK, dV packed and as they come      1 + 2·2 */
START_TEST(buffers_of_the_exchange_are_held_while_backward_runs) {
  static const double tensors[] = {[CP_RING] = 8, [CP_ALL_GATHER] = 15, [CP_ULYSSES] = 8};
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    Model narrow = llama;
    narrow.ffn_hidden = 128;
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->cp = plan->gpus = 4;
    plan->cp_comm = all_comms[c];
    g_autoptr(Workload) workload = workload_new(&narrow, plan, NULL);
    ck_assert_double_eq(workload->memory[PIECE_LAYER].transient_bytes, tensors[all_comms[c]] * 512 * 1024);
  }
}
END_TEST

/* Bytes that memory-bound kernels of attention move. KV is K and V of a GPU's tokens, q as many bytes of Q, of O, and,
 * here, of KV: 2 sequences × 512/cp tokens × 16 heads × 64 columns × 2 bytes; L the log-sum-exps, 4 bytes a head and
 * token. Copies read and write.
 *     ring         pack 2KV, keep 2KV, cp−1 merges 3(q + L); backward pack 2KV, clear KV/2, cp−1 sums 3q and 3KV
 *     all-gather   pack 2KV, order 2·cp·KV; backward the same, clear cp·KV, order 2·cp·KV, unpack 2KV
 *     Ulysses      pack and unpack 2(q + KV) and 2q; backward the same */
START_TEST(copies_around_transfers_have_their_closed_form) {
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
END_TEST

START_TEST(full_recompute_communicates_again) {
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    g_autoptr(Workload) kept = cut_workload(1, 4, all_comms[c], RECOMPUTE_NONE),
                        again = cut_workload(1, 4, all_comms[c], RECOMPUTE_FULL);
    const double f = totals_of(&kept->work[PIECE_LAYER][PHASE_F], 4).sent_bytes,
                 b = totals_of(&kept->work[PIECE_LAYER][PHASE_B], 4).sent_bytes;
    ck_assert_double_eq(totals_of(&again->work[PIECE_LAYER][PHASE_B], 4).sent_bytes, f + b);
    ck_assert_double_eq(totals_of(&again->work[PIECE_LAYER][PHASE_F], 4).sent_bytes, f);
  }
}
END_TEST

/* Under sequence parallelism tp gathers the input once more beside the input gradient: both follow what the
 * reduce-scatter brings of the gradients of K and V, which is put beside that of Q. */
START_TEST(the_input_gradient_waits_for_that_of_keys_and_values) {
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
END_TEST

/* --- times --- */

static Plan *plan_on(int tp, int cp, CpComm comm) {
  Plan *plan = plan_of(tp, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->cp = cp;
  plan->gpus = tp * cp;
  plan->cp_comm = comm;
  plan->seq_len = 8192;
  plan->global_batch = 0;
  return plan;
}

/* Times of the pieces of llama under `plan` on `cluster`. */
static Timing *time_pieces(const Cluster *cluster, const Plan *plan, Workload **workload) {
  g_autoptr(Program) program = program_new(1, 1, 1);
  *workload = workload_new(&llama, plan, NULL);
  return timing_model(program, *workload, cluster);
}

static gint64 named_ns(const TimedList *list, const char *name, int nth) {
  for (int i = 0; i < list->n_items; i++)
    if (strcmp(list->items[i].name, name) == 0 && nth-- == 0)
      return list->items[i].duration_ns;
  ck_abort_msg("no %s", name);
}

/* Forward with attention a₀ to the own keys, then a₁ with its merge to the others', over transfers of t:
 *
 *     cp        |   t   |   t   |   t   |
 *     compute   | a₀ |··| a₁ |··| a₁ |··| a₁ |
 *
 * Before all this K and V are packed; a₁ of the second block has the copy that keeps it. Transfer k+1 is issued before
 * attention k, after attention k−1 has freed its buffer: block k is there at T(k) = max(T(k−1), A(k−2)) + t, and A(k) =
 * max(A(k−1), T(k)) + a₁ is the end of attention to it. Exposed is what attention waits. Links of different speeds:
 * from all hidden to all but hidden. */
START_TEST(a_ring_is_exposed_where_a_transfer_is_longer_than_attention) {
  int n_hidden = 0, n_exposed = 0;
  for (int slower = 1; slower <= 4096; slower *= 4)
    for (int cp = 2; cp <= 8; cp *= 2) {
      g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
      cluster->scale_up_Bps /= slower;
      g_autoptr(Plan) plan = plan_on(1, cp, CP_RING);
      g_autoptr(Workload) workload = NULL;
      g_autoptr(Timing) timing = time_pieces(cluster, plan, &workload);
      const TimedList *list = &timing->lists[PIECE_LAYER][PHASE_F];
      const gint64 t = named_ns(list, "cp.send_recv", 0), own = named_ns(list, "attention", 0);
      const gint64 other = named_ns(list, "attention", 1) + named_ns(list, "attention.merge", 0);
      gint64 arrived = t, freed = 0, ended = own, exposed = 0;
      for (int k = 1; k < cp; k++) {
        exposed += MAX(arrived - ended, 0);
        const gint64 before = ended;
        ended = MAX(ended, arrived) + other + (k == 1 ? named_ns(list, "attention.kv_keep", 0) : 0);
        freed = before;
        arrived = MAX(arrived, freed) + t;
      }
      ck_assert_int_eq(list->charged[CHARGE_CP], exposed);
      ck_assert_int_eq(list->hidden_ns[AXIS_CP] + list->charged[CHARGE_CP], (cp - 1) * t);
      n_hidden += exposed == 0;
      n_exposed += exposed > 0;
    }
  ck_assert_int_gt(n_hidden, 0);
  ck_assert_int_gt(n_exposed, 3);
}
END_TEST

/* All that the other two send is waited for. */
START_TEST(gathers_and_exchanges_are_exposed) {
  for (gsize c = 1; c < G_N_ELEMENTS(all_comms); c++) {
    g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
    g_autoptr(Plan) plan = plan_on(1, 4, all_comms[c]);
    g_autoptr(Workload) workload = NULL;
    g_autoptr(Timing) timing = time_pieces(cluster, plan, &workload);
    for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
      const TimedList *list = &timing->lists[PIECE_LAYER][phase];
      gint64 sum_ns = 0;
      for (int i = 0; i < list->n_items; i++)
        sum_ns += list->items[i].is_collective ? list->items[i].duration_ns : 0;
      ck_assert_int_eq(list->charged[CHARGE_CP], sum_ns);
      ck_assert_int_eq(list->hidden_ns[AXIS_CP], 0);
      ck_assert((sum_ns > 0) == (phase != PHASE_W));
    }
  }
}
END_TEST

/* --- steps --- */

/* A random case whose sequences are cut. */
static Case random_cut_case(guint seed, Cluster *const *clusters) {
  for (guint i = 0;; i++) {
    Case drawn = random_case(seed * 1000 + i, clusters, 32);
    Plan *plan = drawn.plan;
    plan->cp = seed % 3 == 0 ? 4 : 2;
    plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
    plan->cp_comm = all_comms[seed % G_N_ELEMENTS(all_comms)];
    plan->attention = ATTENTION_FLASH;
    plan->zero_ranks = 0;
    if (plan_complete(plan, &drawn.model, drawn.cluster, NULL))
      return drawn;
    case_clear(&drawn);
  }
}

/* The run of representatives is the run of all ranks, to the nanosecond; the fullest rank is the same. (That a
 * breakdown sums to its step is asserted wherever one is made.) */
START_TEST(folded_run_is_the_run_of_all_ranks) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  gint64 cp_ns = 0;
  int n_not_first = 0;
  for (guint seed = 0; seed < 30; seed++) {
    g_auto(Case) drawn = random_cut_case(seed, clusters);
    g_autofree char *text = case_text(&drawn);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    g_autoptr(Plan) unfolded = plan_copy(drawn.plan);
    unfolded->fold = FALSE;
    g_autoptr(Prediction) all = predict_on(&drawn, drawn.cluster, unfolded);
    ck_assert_msg(folded->metrics->step_ns == all->metrics->step_ns, "%s --cp %d --cp-comm %s", text, drawn.plan->cp,
                  cp_comm_names()[drawn.plan->cp_comm]);
    ck_assert_int_eq(folded->memory->worst_first, all->memory->worst_first);
    n_not_first += all->memory->worst_first > 0;
    for (int rank = 0; rank < all->metrics->n_ranks; rank++) {
      const RankBreakdown *a = &folded->metrics->ranks[all->trace->pipeline_rank[rank]],
                          *b = &all->metrics->ranks[rank];
      if (memcmp(a->ns, b->ns, sizeof a->ns) != 0 || memcmp(a->hidden_ns, b->hidden_ns, sizeof a->hidden_ns) != 0)
        ck_abort_msg("%s --cp %d --cp-comm %s: rank %d", text, drawn.plan->cp, cp_comm_names()[drawn.plan->cp_comm],
                     rank);
      cp_ns += b->exposed_ns[AXIS_CP] + b->hidden_ns[AXIS_CP];
    }
  }
  ck_assert_int_gt(cp_ns, 0);
  ck_assert_int_gt(n_not_first, 0);
  free_case_clusters(clusters);
}
END_TEST

START_TEST(whole_ops_are_the_sum_of_their_kernels_and_collectives) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  for (guint seed = 100; seed < 130; seed++) {
    g_auto(Case) drawn = random_cut_case(seed, clusters);
    g_autofree char *text = case_text(&drawn);
    assert_whole_ops_are_sums(&drawn, text);
  }
  free_case_clusters(clusters);
}
END_TEST

START_TEST(programs_are_sound_and_survive_their_text) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  for (guint seed = 200; seed < 206; seed++) {
    g_auto(Case) drawn = random_cut_case(seed, clusters);
    assert_survives_its_text(&drawn, "cp axes=cp charge=cp");
  }
  free_case_clusters(clusters);
}
END_TEST

static Prediction *predict_plan(const Cluster *cluster, const Plan *plan) {
  g_autoptr(GError) error = NULL;
  Prediction *prediction = predict(&llama, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  return prediction;
}

/* The ranks of cp see other tokens of the same sequences with the same parameters: to gradients and shards they are
 * what more ranks of dp are. 2 × 2 of them send what 4 of dp send, and hold what these hold of the state. */
START_TEST(gradients_and_shards_span_dp_and_cp) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  for (int zero = 0; zero <= 3; zero++) {
    g_autoptr(Plan) cut = plan_on(1, 2, CP_RING);
    cut->dp = 2, cut->gpus = 4, cut->zero = zero, cut->global_batch = 4, cut->bucket_parameters = 1;
    g_autoptr(Plan) alone = plan_copy(cut);
    alone->cp = 1, alone->dp = 4, alone->global_batch = 8;
    g_autoptr(Prediction) a = predict_plan(cluster, cut), b = predict_plan(cluster, alone);
    for (int category = MEMORY_WEIGHTS; category <= MEMORY_OPTIMIZER; category++)
      ck_assert_double_eq(a->program->ranks[0].resident[category], b->program->ranks[0].resident[category]);
    double moved[2] = {0};
    int n_groups[2] = {0};
    const Prediction *both[] = {a, b};
    for (int k = 0; k < 2; k++)
      for (guint i = 0; i < both[k]->program->transfers->len; i++) {
        const Transfer *transfer = &g_array_index(both[k]->program->transfers, Transfer, i);
        if (transfer->group < 0 || transfer->is_item)
          continue;
        const Group *group = &g_array_index(both[k]->program->groups, Group, transfer->group);
        if (group->charge != AXIS_DP)
          continue;
        ck_assert_int_eq(layout_group_size(&both[k]->workload->layout, group->axes), 4);
        moved[k] += transfer->bytes;
        n_groups[k]++;
      }
    ck_assert_int_gt(n_groups[0], 0);
    ck_assert_int_eq(n_groups[0], n_groups[1]);
    ck_assert_double_eq(moved[0], moved[1]);
  }
}
END_TEST

/* Ranks 0 … 7 of a node: with tp 4 and cp 2 a group of cp stays on it, with tp 8 its members are on two nodes. */
START_TEST(groups_of_cp_use_the_links_they_lie_on) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  for (int tp = 4; tp <= 8; tp *= 2) {
    g_autoptr(Plan) plan = plan_on(tp, 2, CP_RING);
    g_autoptr(Prediction) prediction = predict_plan(cluster, plan);
    int n = 0;
    for (guint i = 0; i < prediction->program->transfers->len; i++) {
      const Transfer *transfer = &g_array_index(prediction->program->transfers, Transfer, i);
      if (!transfer->is_item || transfer->collective != COLLECTIVE_SEND_RECV)
        continue;
      n++;
      const WayLoad *load = &prediction->timing->loads[i];
      ck_assert_int_eq(load->share[0], tp == 4 ? TIMING_WHOLE_WAY : 0);
      ck_assert_int_eq(load->share[1], tp == 4 ? 0 : TIMING_WHOLE_WAY);
    }
    ck_assert_int_gt(n, 0);
    ck_assert_double_gt(prediction->metrics->exposed_s[AXIS_CP] + prediction->metrics->hidden_s[AXIS_CP], 0);
  }
}
END_TEST

START_TEST(slower_links_of_cp_never_shorten_the_step) {
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    double before_s = 0;
    for (int slower = 1; slower <= 256; slower *= 4) {
      g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
      cluster->scale_up_Bps /= slower;
      g_autoptr(Plan) plan = plan_on(1, 8, all_comms[c]);
      g_autoptr(Prediction) prediction = predict_plan(cluster, plan);
      ck_assert_double_ge(prediction->step_time_s, before_s);
      if (slower == 256)
        ck_assert_double_gt(prediction->metrics->exposed_s[AXIS_CP], 0.3 * prediction->step_time_s);
      before_s = prediction->step_time_s;
    }
  }
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("context");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, traffic_has_its_closed_form);
  tcase_add_test(tcase, pytorch_gathers_all_heads_and_passes_gradients_in_fp32);
  tcase_add_test(tcase, exchanges_beside_nothing_are_waited_for_at_once);
  tcase_add_test(tcase, ranks_share_the_work_exactly);
  tcase_add_test(tcase, activations_are_divided_by_cp_and_parameters_are_not);
  tcase_add_test(tcase, buffers_of_the_exchange_are_held_while_backward_runs);
  tcase_add_test(tcase, copies_around_transfers_have_their_closed_form);
  tcase_add_test(tcase, full_recompute_communicates_again);
  tcase_add_test(tcase, the_input_gradient_waits_for_that_of_keys_and_values);
  tcase_add_test(tcase, a_ring_is_exposed_where_a_transfer_is_longer_than_attention);
  tcase_add_test(tcase, gathers_and_exchanges_are_exposed);
  tcase_add_test(tcase, folded_run_is_the_run_of_all_ranks);
  tcase_add_test(tcase, whole_ops_are_the_sum_of_their_kernels_and_collectives);
  tcase_add_test(tcase, programs_are_sound_and_survive_their_text);
  tcase_add_test(tcase, gradients_and_shards_span_dp_and_cp);
  tcase_add_test(tcase, groups_of_cp_use_the_links_they_lie_on);
  tcase_add_test(tcase, slower_links_of_cp_never_shorten_the_step);
  Suite *suite = suite_create("context");
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failures = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failures != 0;
}
