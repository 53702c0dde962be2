/* Context parallelism in a step: hidden and exposed time of its exchanges, folded and unfolded, and the links used. */
#include "axis_runs.h"
#include "run_suite.h"

static const CpComm all_comms[] = {CP_RING, CP_ALL_GATHER, CP_ULYSSES};

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
  return timing_model(program, *workload, cluster, NULL);
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
TEST(a_ring_is_exposed_where_a_transfer_is_longer_than_attention) {
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
      ck_assert_int_eq(list->split.charged_ns[CHARGE_CP], exposed);
      ck_assert_int_eq(list->split.hidden_ns[AXIS_CP] + list->split.charged_ns[CHARGE_CP], (cp - 1) * t);
      n_hidden += exposed == 0;
      n_exposed += exposed > 0;
    }
  ck_assert_int_gt(n_hidden, 0);
  ck_assert_int_gt(n_exposed, 3);
}

/* All that the other two send is waited for. */
TEST(gathers_and_exchanges_are_exposed) {
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
      ck_assert_int_eq(list->split.charged_ns[CHARGE_CP], sum_ns);
      ck_assert_int_eq(list->split.hidden_ns[AXIS_CP], 0);
      ck_assert((sum_ns > 0) == (phase != PHASE_W));
    }
  }
}

/* --- steps --- */

/* A random case whose sequences are cut. */
static Case random_cut_case(guint seed) {
  for (guint i = 0;; i++) {
    Case drawn = random_case(seed * 1000 + i, case_clusters(), 32);
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

/* The run of representatives is the run of all ranks; the fullest rank is the same. (That a breakdown sums to its step
 * is asserted wherever one is made.) */
TEST(folded_run_is_the_run_of_all_ranks) {
  gint64 cp_ns = 0;
  int n_not_first = 0;
  for (guint seed = 0; seed < 30; seed++) {
    g_auto(Case) drawn = random_cut_case(seed);
    g_autoptr(Prediction) folded = predict_case(&drawn), all = predict_unfolded(&drawn);
    assert_same_metrics(&drawn, folded, all);
    ck_assert_int_eq(folded->memory->worst_first, all->memory->worst_first);
    n_not_first += all->memory->worst_first > 0;
    for (int rank = 0; rank < all->metrics->n_ranks; rank++)
      cp_ns += all->metrics->ranks[rank].exposed_ns[AXIS_CP] + all->metrics->ranks[rank].hidden_ns[AXIS_CP];
  }
  ck_assert_int_gt(cp_ns, 0);
  ck_assert_int_gt(n_not_first, 0);
}

TEST(whole_ops_are_the_sum_of_their_kernels_and_collectives) {
  for (guint seed = 100; seed < 130; seed++) {
    g_auto(Case) drawn = random_cut_case(seed);
    assert_whole_ops_are_sums(&drawn);
  }
}

TEST(programs_are_sound_and_survive_their_text) {
  for (guint seed = 200; seed < 206; seed++) {
    g_auto(Case) drawn = random_cut_case(seed);
    assert_survives_its_text(&drawn, "cp axes=cp charge=cp");
  }
}

/* The ranks of cp see other tokens of the same sequences with the same parameters: to gradients and shards they are
 * what more ranks of dp are. 2 × 2 of them send what 4 of dp send, and hold what these hold of the state. */
TEST(gradients_and_shards_span_dp_and_cp) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  for (int zero = 0; zero <= 3; zero++) {
    g_autoptr(Plan) cut = plan_on(1, 2, CP_RING);
    plan_say(cut, "--dp 2 --gpus 4 --zero %d --global-batch 4 --bucket 1", zero);
    g_autoptr(Plan) alone = plan_say(plan_copy(cut), "--cp 1 --dp 4 --global-batch 8");
    g_autoptr(Prediction) a = predict_plan(&llama, cluster, cut), b = predict_plan(&llama, cluster, alone);
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

/* Ranks 0 … 7 of a node: with tp 4 and cp 2 a group of cp stays on it, with tp 8 its members are on two nodes. */
TEST(groups_of_cp_use_the_links_they_lie_on) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  for (int tp = 4; tp <= 8; tp *= 2) {
    g_autoptr(Plan) plan = plan_on(tp, 2, CP_RING);
    g_autoptr(Prediction) prediction = predict_plan(&llama, cluster, plan);
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

TEST(slower_links_of_cp_never_shorten_the_step) {
  for (gsize c = 0; c < G_N_ELEMENTS(all_comms); c++) {
    double before_s = 0;
    for (int slower = 1; slower <= 256; slower *= 4) {
      g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
      cluster->scale_up_Bps /= slower;
      g_autoptr(Plan) plan = plan_on(1, 8, all_comms[c]);
      g_autoptr(Prediction) prediction = predict_plan(&llama, cluster, plan);
      ck_assert_double_ge(prediction->step_time_s, before_s);
      if (slower == 256)
        ck_assert_double_gt(prediction->metrics->exposed_s[AXIS_CP], 0.3 * prediction->step_time_s);
      before_s = prediction->step_time_s;
    }
  }
}

int main(void) {
  return run_tests();
}
