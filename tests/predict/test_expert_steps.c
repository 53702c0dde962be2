/* Experts in a step: folded and unfolded, whole and expanded, over all schedules. */
#include "axis_runs.h"
#include "collective_cost.h"
#include "expert_cases.h"
#include "run_suite.h"
#include "step_report.h"

/* A random case of a model with experts, dealt out by ep where they can be. */
static Case random_mixture_case(guint seed) {
  const Model models[] = {mixture(), latent_mixture()};
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  for (guint i = 0;; i++) {
    Case drawn = random_case(seed * 1000 + i, case_clusters(), 64);
    Plan *plan = drawn.plan;
    drawn.model = models[seed % 2];
    drawn.model.n_layers = g_rand_int_range(rand, 3, 9);
    drawn.model.experts.every = g_rand_int_range(rand, 1, 3);
    plan->cp = PICK(rand, 1, 1, 2);
    plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
    plan->ep = PICK(rand, 2, 4, 8);
    plan->expert_tp = PICK(rand, 0, 1);
    plan->expert_load = PICK(rand, 4, 4, 5, 8) / 4.0;
    plan->expert_dispatch = PICK(rand, -1, DISPATCH_DEEPEP, DISPATCH_ALL_GATHER);
    plan->sequence_parallel = plan->tp > 1;
    plan->attention = ATTENTION_FLASH;
    plan->cp_comm = (CpComm)g_rand_int_range(rand, 0, N_CP_COMMS);
    drawn.model.n_next_layers = 2;
    plan->mtp_layers = PICK(rand, 0, 1, 2);
    plan->time.expert_format = g_rand_int_range(rand, 0, 2);
    plan->time.expert_counts = g_rand_int_range(rand, 0, 2);
    plan->overlap_experts = PICK(rand, -1, TRUE);
    plan->cuda_graphs = (CudaGraphs)g_rand_int_range(rand, 0, N_CUDA_GRAPHS);
    if (plan->recompute == RECOMPUTE_SELECTIVE)
      plan->recompute_modules = PICK(rand, MODULE_BIT(MODULE_MOE), MODULE_BIT(MODULE_MOE_ACT),
                                     MODULE_BIT(MODULE_MLA_UP_PROJ) | MODULE_BIT(MODULE_SHARED_EXPERTS));
    if (plan_complete(plan, &drawn.model, drawn.cluster, NULL))
      return drawn;
    case_clear(&drawn);
  }
}

TEST(folded_run_is_the_run_of_all_ranks) {
  gint64 ep_ns = 0;
  for (guint seed = 0; seed < 24; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed);
    g_autoptr(Prediction) folded = predict_case(&drawn), all = predict_unfolded(&drawn);
    assert_same_metrics(&drawn, folded, all);
    for (int rank = 0; rank < all->metrics->n_ranks; rank++)
      ep_ns += all->metrics->ranks[rank].exposed_ns[AXIS_EP];
  }
  ck_assert_int_gt(ep_ns, 0);
}

TEST(whole_ops_are_the_sum_of_their_kernels_and_collectives) {
  for (guint seed = 100; seed < 124; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed);
    drawn.plan->time.expert_counts = EXPERT_COUNTS_ON_DEVICE; /* a host waits, and turns are taken, of kernels alone */
    drawn.plan->overlap_experts = FALSE;
    assert_whole_ops_are_sums(&drawn);
  }
}

TEST(programs_are_sound_and_survive_their_text) {
  for (guint seed = 200; seed < 206; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed);
    assert_survives_its_text(&drawn, "ep axes=ep charge=ep");
  }
}

/* Both exchanges of a layer are waited for, and nothing hides them. */
TEST(exchanges_are_exposed_and_slower_links_never_shorten_the_step) {
  const Model model = mixture();
  double before_s = 0;
  for (int slower = 1; slower <= 64; slower *= 4) {
    g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
    cluster->scale_up_Bps /= slower;
    g_autoptr(Plan) plan = plan_said("--dp 8 --ep 8 --seq-len 2048 --overlap-grad off"); /* nothing else on the links */
    g_autoptr(Prediction) prediction = predict_plan(&model, cluster, plan);
    ck_assert_double_ge(prediction->step_time_s, before_s);
    gint64 exchanged_ns = 0;
    const TimedList *lists = prediction->timing->lists[PIECE_LAYER];
    for (int phase = PHASE_F; phase <= PHASE_B; phase += PHASE_B - PHASE_F)
      for (int i = 0; i < lists[phase].n_items; i++)
        exchanged_ns += lists[phase].items[i].axis == AXIS_EP ? 7 * lists[phase].items[i].duration_ns : 0;
    ck_assert_double_eq_tol(prediction->metrics->exposed_s[AXIS_EP], exchanged_ns * 1e-9, 1e-9);
    ck_assert_double_eq(prediction->metrics->hidden_s[AXIS_EP], 0);
    before_s = prediction->step_time_s;
  }
}

/* Of tp 2 and ep 8, 16 GPUs on two nodes: a gather takes as long as one over all 16, and a GPU sends 15 parts of 16 of
 * its bytes; both are ep's. Forward 4 collectives, back 3: of a token go marks of 16 experts (1 byte each), twice their
 * weights (2) and four times itself (2·h). */
TEST(gathered_tokens_take_one_collective_over_tp_and_ep) {
  const Model model = mixture();
  const Cluster *cluster = shipped_cluster("dgx-h100");
  g_autoptr(Plan) plan = plan_said("--tp 2 --dp 8 --ep 8 --seq-len 2048 --global-batch 8 --sequence-parallel on "
                                   "--expert-dispatch all_gather");
  g_autoptr(Prediction) prediction = predict_plan(&model, cluster, plan);
  int members[16];
  for (int i = 0; i < 16; i++)
    members[i] = i;
  const GroupShape all = layout_shape_of(cluster, members, 16);
  const double tokens = 8 * 2048.0, h = 1024;
  const WorkList *work = &prediction->workload->work[PIECE_LAYER][PHASE_F];
  const TimedItem *items = prediction->timing->lists[PIECE_LAYER][PHASE_F].items;
  int n = 0;
  for (int i = 0; i < work->n_items; i++) {
    if (work->items[i].axis != AXIS_EP || work->items[i].kind != ITEM_COLLECTIVE)
      continue;
    const double expected_s =
        collective_cost(cluster, work->items[i].collective, &all, work->items[i].bytes, -1).time_s;
    ck_assert_double_eq_tol(items[i].duration_ns * 1e-9, expected_s, 2e-9);
    n++;
  }
  ck_assert_int_eq(n, 4);
  StepReport traffic = {0};
  step_report_set_traffic(&traffic, prediction->program, prediction->workload);
  const StageLayers *stage = &prediction->workload->stages[0].layers;
  ck_assert_double_eq(traffic.traffic_bytes[AXIS_EP],
                      (stage->n_layers - stage->n_dense) * tokens * 15 / 16 * (4 * 2 * h + 16 * (1 + 2 * 2)));
}

/* A dualpipe, a dualpipe-v or an interleaved of a random case. */
static gboolean draw_pairs(Case *drawn, guint seed) {
  static const char *const names[] = {"dualpipe", "dualpipe-v", "interleaved"};
  Plan *plan = drawn->plan;
  plan->pp = 4;
  plan->chunks = 0;
  plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
  plan->global_batch = plan->micro_batch * plan->dp * (16 + 2 * (seed % 3));
  plan->zero_ranks = 0;
  drawn->model.n_layers = 8;
  plan_say(plan, "--schedule %s", names[seed % 3]);
  if (seed % 3 == 2) { /* rounds of a framework, which waits for its transfers or does not */
    plan->chunks = 2;
    plan->overlap_experts = TRUE;
    plan->overlap_p2p = seed % 2;
  }
  g_autoptr(Prediction) prediction = predict(&drawn->model, drawn->cluster, plan, NULL);
  return prediction != NULL;
}

/* Pairs are taken in turns under every ZeRO stage: the program is still proved, representatives still stand for all
 * ranks, and exchanges run beside the other's kernels. */
TEST(pairs_hide_each_other_s_exchanges) {
  double hidden_s[3] = {0};
  int n_cases = 0;
  for (guint seed = 400; seed < 430; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed);
    if (!draw_pairs(&drawn, seed))
      continue;
    g_autoptr(Prediction) folded = predict_case(&drawn), all = predict_unfolded(&drawn);
    g_autoptr(GError) error = NULL;
    CASE_ASSERT(&drawn, program_verify(folded->program, &error), "%s", error->message);
    assert_same_metrics(&drawn, folded, all);
    hidden_s[seed % 3] += folded->metrics->hidden_s[AXIS_EP];
    n_cases++;
  }
  ck_assert_int_gt(n_cases, 10);
  for (int k = 0; k < 3; k++)
    ck_assert_double_gt(hidden_s[k], 0);
}

/* Only rounds take turns. Breadth first, the gradient that the first backward of a rank waits for is made from what the
 * last forward in front of it sends. */
TEST(pairs_that_wait_for_each_other_take_no_turns) {
  static const char *const schedules[] = {"interleaved", "looped-bfs"};
  const Model model = mixture();
  for (int s = 0; s < 2; s++)
    for (int n_micro_batches = 1; n_micro_batches <= 9; n_micro_batches++) {
      g_autoptr(Plan) plan = plan_said("--pp 4 --chunks 2 --dp 2 --ep 2 --seq-len 512 --global-batch %d "
                                       "--overlap-p2p on --schedule %s",
                                       2 * n_micro_batches, schedules[s]);
      plan->time.expert_overlap = EXPERT_OVERLAP_ROUNDS;
      const Case pairs = {.model = model, .cluster = shipped_cluster("dgx-h100"), .plan = plan};
      assert_survives_its_text(&pairs, "ep axes=ep");
      g_autoptr(Prediction) prediction = predict_case(&pairs);
      /* rank 3 warms up with m + 1 of its 2·m forwards; the round behind them, of micro-batches 1 and 0, needs m > 1 */
      ck_assert_int_eq(prediction->metrics->hidden_s[AXIS_EP] > 0, s == 0 && n_micro_batches > 1);
    }
}

/* A forward a1 x1 c1 and a backward a2 x2 c2 of one layer each, or t2 a2 x2 c2: x are exchanges between kernels a and
 * c, t is a collective of tp in front of them. Ops wait for the one before and have their place as tag. */
static Program *pair_of(gboolean begins_with_tp) {
  Program *program = program_new(1, 2, 2);
  program->expansion = EXPANSION_ALL;
  const Work kernel = {.phase = PHASE_F, .piece = PIECE_LAYER, .stage = -1},
             back = {.phase = PHASE_B, .piece = PIECE_LAYER, .stage = -1};
  const Group group = {.name = "ep", .axes = AXIS_BIT(AXIS_EP), .pp_first = -1, .pp_last = -1, .charge = AXIS_EP};
  Transfer exchange = {.source = -1, .target = -1, .collective = COLLECTIVE_ALL_TO_ALL, .bytes = 1};
  exchange.group = program_group(program, &group);
  const gint32 works[2] = {program_work(program, &kernel), program_work(program, &back)};
  const gint32 transfer = program_transfer(program, &exchange);
  const Stream streams[] = {STREAM_COMPUTE, STREAM_EP, STREAM_COMPUTE, STREAM_TP,
                            STREAM_COMPUTE, STREAM_EP, STREAM_COMPUTE};
  const int n_ops = begins_with_tp ? 7 : 6;
  Op *ops = g_new(Op, n_ops);
  for (int i = 0; i < n_ops; i++) {
    const gboolean is_back = i >= 3;
    const Stream stream = streams[i + (is_back && !begins_with_tp)];
    const gboolean is_kernel = stream == STREAM_COMPUTE;
    ops[i] = op_new(is_kernel ? OP_COMPUTE : OP_COLLECTIVE, stream, is_back ? ACTION_B : ACTION_F, is_back, is_back);
    ops[i].work = is_kernel ? works[is_back] : transfer;
    ops[i].overlapped = TRUE;
    ops[i].tag = i;
    if (i % 3 > 0 || i > 3)
      op_add_after(&ops[i], i - 1);
  }
  program->ranks[0].ops = ops;
  program->ranks[0].n_ops = n_ops;
  return program;
}

static void assert_turns(gboolean begins_with_tp, const int *order, const int *after) {
  g_autoptr(Program) program = pair_of(begins_with_tp);
  program_interleave(program);
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    ck_assert_int_eq(program->ranks[0].ops[i].tag, order[i]);
    ck_assert_int_eq(program->ranks[0].ops[i].after[0], after[i]);
  }
}

/* On a lone rank a forward begins when all that the backward beside it needs is there. What a layer's
 * forward saves comes as what a layer's backward has read goes: of 32 layers one or two are there twice, not all. */
TEST(a_forward_holds_what_the_backward_beside_it_drops) {
  double held[2];
  for (int overlaps = 0; overlaps < 2; overlaps++) {
    g_autoptr(Plan) plan = plan_said("--gpus 8 --ep 8 --zero 1 --global-batch 32 --seq-len 4096");
    plan->overlap_experts = overlaps;
    g_autoptr(Prediction) prediction = predict_plan(shipped_model("mixtral-8x7b"), shipped_cluster("dgx-h100"), plan);
    held[overlaps] = prediction->memory->at_peak.bytes[MEMORY_ACTIVATIONS];
  }
  ck_assert_double_gt(held[1], held[0]);
  ck_assert_double_lt(held[1], (1 + 3.0 / 32) * held[0]);
}

/* Taken in turns they are a1 x1 a2 x2 c1 c2, and c2, behind which products are sent, is the last. */
TEST(a_pair_takes_turns_at_exchanges) {
  assert_turns(FALSE, (int[]){0, 1, 3, 4, 2, 5}, (int[]){-1, 0, -1, 2, 1, 3});
}

/* a1 x1 t2 a2 x2 c1 c2: what a backward begins with stays in front of it, and a2 waits for it. */
TEST(a_backward_of_a_pair_begins_with_its_collective) {
  assert_turns(TRUE, (int[]){0, 1, 3, 4, 5, 2, 6}, (int[]){-1, 0, -1, 2, 3, 1, 4});
}

/* Every schedule runs layers with experts, those that do W apart too. */
TEST(all_schedules_run_experts) {
  const Model model = mixture();
  const char *const schedules[] = {"gpipe",  "1f1b",     "zb-h1",      "zb-h2", "zb-v",
                                   "v-half", "dualpipe", "dualpipe-v", "auto"};
  for (gsize s = 0; s < G_N_ELEMENTS(schedules); s++) {
    g_autoptr(Plan) plan =
        plan_said("--pp 4 --dp 4 --ep 4 --seq-len 512 --zero 1 --global-batch 32 --schedule %s", schedules[s]);
    g_autoptr(Prediction) prediction = predict_plan(&model, shipped_cluster("dgx-h100"), plan);
    ck_assert_double_gt(prediction->metrics->exposed_s[AXIS_EP] + prediction->metrics->hidden_s[AXIS_EP], 0);
  }
}

int main(void) {
  return run_tests();
}
