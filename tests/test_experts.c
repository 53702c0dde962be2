/* Experts and latent attention: work and volumes by closed forms, what a GPU holds of them, what a step makes of it. */
#include "error.h"

#include <check.h>
#include <math.h>

#include "engine.h"
#include "lowering.h"
#include "plan_cases.h"
#include "plan_order.h"
#include "program_text.h"
#include "timing_model.h"
#include "verify.h"

/* 8 layers, the first dense; 16 experts of 512 columns, 4 for each token, and a shared one of 768. */
static Model mixture(void) {
  Model model = llama;
  model.name = (char *)"mixture";
  model.experts =
      (ModelExperts){.n = 16, .per_token = 4, .ffn_hidden = 512, .shared_ffn_hidden = 768, .n_leading = 1, .every = 1};
  return model;
}

/* The same with latent attention: heads of 64 + 32 for Q and K, of 48 for V, made of 256 and 128 columns. */
static Model latent_mixture(void) {
  Model model = mixture();
  model.n_kv_heads = model.n_heads;
  model.head_dim = 96;
  model.latent = (ModelLatent){.kv_rank = 128, .q_rank = 256, .rope_dim = 32, .v_head_dim = 48};
  return model;
}

/* On micro-batches of 2 × 512 tokens, bf16. */
static Workload *cut_workload(const Model *model, int tp, int expert_tp, int dp, int ep, Recompute recompute) {
  g_autoptr(Plan) plan = plan_of(tp, tp > 1, ATTENTION_FLASH, recompute);
  plan->dp = dp;
  plan->ep = ep;
  plan->expert_tp = expert_tp;
  plan->gpus = tp * dp;
  return workload_new(model, plan, NULL);
}

static double flops_of(const WorkList *list, const char *prefix) {
  double flops = 0;
  for (int i = 0; i < list->n_items; i++)
    flops += g_str_has_prefix(list->items[i].name, prefix) ? list->items[i].flops : 0;
  return flops;
}

static double sent_of(const WorkList *list, Axis axis) {
  double bytes = 0;
  for (int i = 0; i < list->n_items; i++)
    bytes += list->items[i].kind == ITEM_COLLECTIVE && list->items[i].axis == axis ? list->items[i].bytes : 0;
  return bytes;
}

/* --- work --- */

/* A token meets 4 experts wherever they are: 2·3·1024·512·4 FLOPs, a shared MLP of 2·3·1024·768, a router of
 * 2·1024·16. All ranks together do that for all tokens, tp by cutting each expert or by having whole ones. */
START_TEST(ranks_share_the_work_of_experts_exactly) {
  const Model model = mixture();
  const struct {
    int tp, expert_tp, dp, ep;
  } cuts[] = {{1, 0, 1, 1}, {1, 0, 8, 8}, {1, 0, 8, 2}, {2, 0, 4, 4}, {2, 1, 4, 8}, {4, 1, 4, 4}, {4, 0, 4, 2}};
  for (gsize c = 0; c < G_N_ELEMENTS(cuts); c++) {
    g_autoptr(Workload) workload =
        cut_workload(&model, cuts[c].tp, cuts[c].expert_tp, cuts[c].dp, cuts[c].ep, RECOMPUTE_NONE);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *i = &workload->work[PIECE_LAYER][PHASE_I],
                   *w = &workload->work[PIECE_LAYER][PHASE_W], *b = &workload->work[PIECE_LAYER][PHASE_B];
    const double tokens = 2 * 512.0, tp = cuts[c].tp; /* of the tp ranks together */
    ck_assert_double_eq(tp * flops_of(f, "expert_"), tokens * 2 * 3 * 1024 * 512 * 4);
    ck_assert_double_eq(tp * flops_of(f, "shared_"), tokens * 2 * 3 * 1024 * 768);
    ck_assert_double_eq(tp * flops_of(f, "router"), tokens * 2 * 1024 * 16);
    ck_assert_double_eq(flops_of(b, "expert_"), 2 * flops_of(f, "expert_"));
    ck_assert_double_eq(flops_of(w, "expert_"), flops_of(f, "expert_"));
    ck_assert_double_eq(i->flops + w->flops, b->flops);
    ck_assert_int_eq(find(f, "expert_up")->batch, 16 / cuts[c].ep); /* one launch for all experts of the rank */
    ck_assert_int_eq(count(f, "expert_up"), 1);
  }
}
END_TEST

/* Model FLOPs count what the lists of one GPU do, with no cut: attention's backward does 6·d + 4·v FLOPs a pair where
 * the convention counts twice the forward's 2·(d + v), so it is left out. */
START_TEST(model_flops_are_the_sum_of_the_lists) {
  const Model models[] = {mixture(), latent_mixture()};
  for (gsize m = 0; m < G_N_ELEMENTS(models); m++) {
    g_autoptr(Workload) workload = cut_workload(&models[m], 1, 0, 1, 1, RECOMPUTE_NONE);
    double step = 0, attention = 0;
    const double counts[N_PIECES] = {
        [PIECE_EMBEDDING] = 1, [PIECE_DENSE_LAYER] = 1, [PIECE_LAYER] = 7, [PIECE_HEAD] = 1};
    for (int piece = 0; piece < N_PIECES; piece++) {
      const WorkList *f = &workload->work[piece][PHASE_F];
      step += counts[piece] * (f->flops - flops_of(f, "attention"));
      attention += counts[piece] * flops_of(f, "attention");
    }
    step = 8 * 3 * (step + attention); /* micro-batches; forward and twice backward */
    ck_assert_double_eq_tol(workload_model_flops(workload), step, 1e-9 * step);
  }
}
END_TEST

/* Per token, with h 1024, 16 heads, ranks 256 and 128: Q 1024·256 + 256·16·96; K and V 1024·(128 + 32) + 128·16·(64 +
 * 48); out 16·48·1024; each FLOP count twice the elements. A pair of query and key 2·(96 + 48) FLOPs in each of 16
 * heads, back 6·96 + 4·48. */
START_TEST(latent_attention_has_its_products) {
  const Model model = latent_mixture();
  g_autoptr(Workload) workload = cut_workload(&model, 1, 0, 1, 1, RECOMPUTE_NONE);
  const WorkList *f = &workload->work[PIECE_DENSE_LAYER][PHASE_F], *b = &workload->work[PIECE_DENSE_LAYER][PHASE_B];
  const double tokens = 2 * 512.0, pairs = 2 * 16 * 512.0 * 513 / 2;
  ck_assert_double_eq(flops_of(f, "q_"), 2 * tokens * (1024 * 256 + 256 * 16 * 96));
  ck_assert_double_eq(flops_of(f, "kv_"), 2 * tokens * (1024 * (128 + 32) + 128 * 16 * (64 + 48)));
  ck_assert_double_eq(flops_of(f, "attn_out"), 2 * tokens * 16 * 48 * 1024);
  ck_assert_double_eq(find(f, "attention")->flops, pairs * 2 * (96 + 48));
  ck_assert_double_eq(find(b, "attention.backward")->flops, pairs * (6 * 96 + 4 * 48));
  ck_assert(find(f, "attention")->wide_keys);
}
END_TEST

/* --- traffic --- */

/* Forward sends 4 rows for each token to the experts and brings 4 back, backward both again: all-to-alls of
 * 4·tokens·1024 elements of 2 bytes, tokens those of a rank: cut by tp under sequence parallelism. Experts cut by tp
 * gather and scatter tp times as many rows. W sends nothing; full recompute sends forward's again. */
START_TEST(traffic_of_experts_has_its_closed_form) {
  const Model model = mixture();
  for (int tp = 1; tp <= 4; tp *= 2)
    for (int whole = 0; whole < 2; whole++) {
      g_autoptr(Workload) workload = cut_workload(&model, tp, whole ? 1 : 0, 4, 4, RECOMPUTE_NONE);
      g_autoptr(Workload) dense = cut_workload(&llama, tp, 0, 4, 1, RECOMPUTE_NONE);
      g_autoptr(Workload) again = cut_workload(&model, tp, whole ? 1 : 0, 4, 4, RECOMPUTE_FULL);
      const WorkList *lists = workload->work[PIECE_LAYER], *dense_lists = dense->work[PIECE_LAYER];
      const double rows = 4.0 * (2 * 512 / tp) * 1024 * 2, cut = tp > 1 && !whole ? 2 * tp * rows : 0;
      ck_assert_double_eq(sent_of(&lists[PHASE_F], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&lists[PHASE_I], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&lists[PHASE_W], AXIS_EP), 0);
      ck_assert_double_eq(sent_of(&lists[PHASE_B], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&again->work[PIECE_LAYER][PHASE_B], AXIS_EP), 4 * rows);
      /* the shared expert gathers and scatters what the MLP did */
      ck_assert_double_eq(sent_of(&lists[PHASE_F], AXIS_TP), sent_of(&dense_lists[PHASE_F], AXIS_TP) + cut);
      ck_assert_double_eq(sent_of(&lists[PHASE_B], AXIS_TP), sent_of(&dense_lists[PHASE_B], AXIS_TP) + cut);
    }
}
END_TEST

/* Sent once for each of 2 groups in place of each of 4 experts: half the rows; in fp8 on the way out, which under
 * --precision fp8 is 1 byte, and in bf16 back. A model without groups sends what it did. */
START_TEST(a_framework_sends_fewer_and_narrower_rows) {
  Model model = mixture();
  for (int limited = 0; limited < 2; limited++) {
    model.experts.groups_per_token = limited ? 2 : 0;
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->dp = plan->ep = plan->gpus = 4;
    plan->precision = PRECISION_FP8;
    plan->time.expert_rows = ROWS_PER_GROUP;
    plan->time.expert_format = EXPERT_FORMAT_LINEAR;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const double rows = (limited ? 2 : 4) * 2 * 512.0 * 1024;
    ck_assert_double_eq(sent_of(&workload->work[PIECE_LAYER][PHASE_F], AXIS_EP), rows * (1 + 2));
    ck_assert_double_eq(sent_of(&workload->work[PIECE_LAYER][PHASE_B], AXIS_EP), rows * (1 + 2));
    ck_assert_double_eq(flops_of(&workload->work[PIECE_LAYER][PHASE_F], "expert_up"),
                        2.0 * 4 * 2 * 512 * 1024 * 2 * 512);
  }
}
END_TEST

/* Rows cut by tp are gathered when they have come: the gather names the exchange, the experts name the gather. */
START_TEST(rows_are_gathered_over_tp_behind_the_exchange) {
  const Model model = mixture();
  g_autoptr(Workload) workload = cut_workload(&model, 2, 0, 4, 4, RECOMPUTE_NONE);
  const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F];
  const int exchange = index_of(f, "ep.all_to_all"), sort = index_of(f, "experts.sort");
  const WorkItem *gather = &f->items[exchange + 1];
  ck_assert(gather->kind == ITEM_COLLECTIVE && gather->axis == AXIS_TP);
  ck_assert_int_eq(gather->after, exchange);
  ck_assert_int_eq(f->items[sort].after, exchange + 1);
  ck_assert_str_eq(f->items[f->items[exchange].after].name, "permute");
}
END_TEST

/* --- what is held --- */

/* A layer's experts: 16·3·1024·512 parameters; the shared one, router, attention (16 + 2·8 + 16 heads of 64) and norms
 * besides. ep and tp cut the experts, tp all but router and norms, and what of experts is the same on several ranks is
 * cut by these under ZeRO, not by all of dp. */
START_TEST(experts_are_held_in_shares_of_their_own) {
  const Model model = mixture();
  const gint64 experts = 16 * 3 * 1024 * 512, router = 16 * 1024, norms = 2 * 1024;
  const gint64 others = 3 * 1024 * 768 + 1024 * (16 + 2 * 8 + 16) * 64;
  ck_assert_int_eq(model_layer_parameters(&model), experts + others + router + norms);
  const struct {
    int tp, expert_tp, dp, ep;
  } cuts[] = {{1, 0, 8, 1}, {1, 0, 8, 4}, {1, 0, 8, 8}, {2, 0, 8, 4}, {2, 1, 8, 4}, {4, 1, 2, 8}};
  for (gsize c = 0; c < G_N_ELEMENTS(cuts); c++) {
    const int tp = cuts[c].tp, dp = cuts[c].dp, ep = cuts[c].ep, by = cuts[c].expert_tp == 1 ? 1 : tp;
    g_autoptr(Workload) workload = cut_workload(&model, tp, cuts[c].expert_tp, dp, ep, RECOMPUTE_NONE);
    const gint64 held = experts / ep / by;
    ck_assert_int_eq(workload->expert_parameters[PIECE_LAYER], held);
    ck_assert_int_eq(workload->piece_parameters[PIECE_LAYER], held + others / tp + router + norms);
    ck_assert_int_eq(workload->expert_parameters[PIECE_DENSE_LAYER], 0);
    const int copies = tp * dp / (ep * by);
    ck_assert_int_eq(workload->layout.n_expert_shards, copies);
    ck_assert_int_eq(layout_group_size(&workload->layout, AXIS_BIT_EXPERT_SHARD), copies);
    /* bf16+master: 2 + 2 bytes, and 12 of the optimizer; 7 of 8 layers */
    const double alone = (double)workload->stages[0].parameters - 7.0 * (double)held;
    const StateBytes whole = workload_stage_state(workload, 0, 0), first = workload_stage_state(workload, 0, 1),
                     third = workload_stage_state(workload, 0, 3);
    ck_assert_double_eq(whole.optimizer_bytes, 12 * (alone + 7.0 * (double)held));
    ck_assert_double_eq_tol(first.optimizer_bytes, 12 * (alone / dp + 7.0 * (double)held / copies), 1);
    ck_assert_double_eq(first.weights_bytes, whole.weights_bytes);
    ck_assert_double_eq_tol(third.weights_bytes, 2 * (alone / dp + 7.0 * (double)held / copies), 1);
  }
}
END_TEST

/* Of one layer of T = 1,024 tokens, 4,096 rows: of the dense layer's tensors the MLP's fall away (2·T·2816 bytes twice
 * for I, once for W), and there come for W rows of 1,024 and of 512 columns and T of 768; for I rows of 1,024 and T of
 * 1,536, router and weights: (2 + 5)·T·16 + 4 bytes a row. */
START_TEST(activations_of_experts_are_their_tensors) {
  const Model model = mixture();
  g_autoptr(Workload) workload = cut_workload(&model, 1, 0, 8, 8, RECOMPUTE_NONE);
  const PieceMemory *dense = &workload->memory[PIECE_DENSE_LAYER], *experts = &workload->memory[PIECE_LAYER];
  const double t = 1024, rows = 4096;
  const double for_w = 2 * (rows * (1024 + 512) + t * 768), dense_for_w = 2 * t * 2816;
  const double for_i = 2 * (rows * 1024 + t * 1536) + 7 * t * 16 + 4 * rows, dense_for_i = 2 * t * 2 * 2816;
  ck_assert_double_eq(experts->saved_bytes - dense->saved_bytes, for_w + for_i - dense_for_w - dense_for_i);
  ck_assert_double_eq(experts->released_by_I - dense->released_by_I, for_i - dense_for_i);
}
END_TEST

/* --- steps --- */

/* A random case of a model with experts, dealt out by ep where they can be. */
static Case random_mixture_case(guint seed, Cluster *const *clusters) {
  const Model models[] = {mixture(), latent_mixture()};
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  for (guint i = 0;; i++) {
    Case drawn = random_case(seed * 1000 + i, clusters, 64);
    Plan *plan = drawn.plan;
    drawn.model = models[seed % 2];
    drawn.model.n_layers = g_rand_int_range(rand, 3, 9);
    drawn.model.experts.every = g_rand_int_range(rand, 1, 3);
    plan->cp = PICK(rand, 1, 1, 2);
    plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
    plan->ep = PICK(rand, 2, 4, 8);
    plan->expert_tp = PICK(rand, 0, 1);
    plan->sequence_parallel = plan->tp > 1;
    plan->attention = ATTENTION_FLASH;
    plan->cp_comm = (CpComm)g_rand_int_range(rand, 0, N_CP_COMMS);
    if (plan_complete(plan, &drawn.model, drawn.cluster, NULL))
      return drawn;
    case_clear(&drawn);
  }
}

static char *mixture_text(const Case *drawn) {
  g_autofree char *text = case_text(drawn);
  return g_strdup_printf("%s --ep %d --expert-tp %d, experts in every layer of %d", text, drawn->plan->ep,
                         drawn->plan->expert_tp, (int)drawn->model.experts.every);
}

/* The run of representatives is the run of all ranks, to the nanosecond. */
START_TEST(folded_run_is_the_run_of_all_ranks) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  gint64 ep_ns = 0;
  for (guint seed = 0; seed < 24; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed, clusters);
    g_autofree char *text = mixture_text(&drawn);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    g_autoptr(Plan) unfolded = plan_copy(drawn.plan);
    unfolded->fold = FALSE;
    g_autoptr(Prediction) all = predict_on(&drawn, drawn.cluster, unfolded);
    ck_assert_msg(folded->metrics->step_ns == all->metrics->step_ns, "%s", text);
    for (int rank = 0; rank < all->metrics->n_ranks; rank++) {
      const RankBreakdown *a = &folded->metrics->ranks[all->trace->pipeline_rank[rank]],
                          *b = &all->metrics->ranks[rank];
      if (memcmp(a->ns, b->ns, sizeof a->ns) != 0 || memcmp(a->hidden_ns, b->hidden_ns, sizeof a->hidden_ns) != 0)
        ck_abort_msg("%s: rank %d", text, rank);
      ep_ns += b->exposed_ns[AXIS_EP];
    }
  }
  ck_assert_int_gt(ep_ns, 0);
  free_case_clusters(clusters);
}
END_TEST

static Metrics *run_program(const Case *drawn, const Workload *workload, const Program *program) {
  g_autoptr(Timing) timing = timing_model(program, workload, drawn->cluster);
  Simulation simulation = {.program = program,
                           .timing = timing,
                           .layout = &workload->layout,
                           .folded = TRUE,
                           .eager_bytes = drawn->cluster->eager_bytes};
  g_autoptr(Trace) trace = engine_run(&simulation, NULL);
  return metrics_new(trace);
}

/* Where transfers do not disturb each other, an op that is taken whole is as long as its kernels and its collectives of
 * three axes one by one, and is charged what they are. */
START_TEST(whole_ops_are_the_sum_of_their_kernels_and_collectives) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  for (guint seed = 100; seed < 124; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed, clusters);
    g_autofree char *text = mixture_text(&drawn);
    g_auto(PlanOrder) choice = {0};
    g_autoptr(Plan) plan = plan_copy(drawn.plan);
    g_autoptr(Workload) workload = plan_order_workload(&choice, &drawn.model, drawn.cluster, plan, NULL);
    g_autoptr(Order) order = plan_order_make(&choice, plan, NULL);
    const Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
    g_autoptr(Program) whole = lower(&lowering, NULL, NULL, NULL);
    g_autoptr(Program) expanded = program_expand(whole, workload);
    g_autoptr(Metrics) of_whole = run_program(&drawn, workload, whole);
    g_autoptr(Metrics) of_runs = run_program(&drawn, workload, expanded);
    ck_assert_msg(of_whole->step_ns == of_runs->step_ns, "%s: %d and %d ns", text, (int)of_whole->step_ns,
                  (int)of_runs->step_ns);
    for (int rank = 0; rank < of_whole->n_ranks; rank++)
      for (int kind = 0; kind < N_BREAKDOWN; kind++)
        if (of_whole->ranks[rank].ns[kind] != of_runs->ranks[rank].ns[kind])
          ck_abort_msg("%s: rank %d, %s %d and %d ns", text, rank, breakdown_name((BreakdownKind)kind),
                       (int)of_whole->ranks[rank].ns[kind], (int)of_runs->ranks[rank].ns[kind]);
  }
  free_case_clusters(clusters);
}
END_TEST

/* What is run is what the verifier proves, and the same again from its text. */
START_TEST(programs_are_sound_and_survive_their_text) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  for (guint seed = 200; seed < 206; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed, clusters);
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(program_verify(prediction->program, &error), "%s", error != NULL ? error->message : "");
    g_autofree char *text = program_to_text(prediction->program);
    ck_assert_ptr_nonnull(strstr(text, "ep axes=ep charge=ep"));
    Program *read = program_from_text(text, "dump", &error);
    ck_assert_msg(read != NULL, "%s", error != NULL ? error->message : "");
    g_autofree char *again = program_to_text(read);
    ck_assert(strcmp(text, again) == 0);
    g_autoptr(Prediction) same = predict_program(&drawn.model, drawn.cluster, drawn.plan, read, &error);
    ck_assert_msg(same != NULL, "%s", error != NULL ? error->message : "");
    ck_assert_int_eq(same->metrics->step_ns, prediction->metrics->step_ns);
  }
  free_case_clusters(clusters);
}
END_TEST

/* Programs kept from one plan to the next are those made anew: equal steps whatever was predicted before. */
START_TEST(kept_programs_serve_plans_with_experts) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  g_autoptr(PredictScratch) scratch = predict_scratch_new();
  for (guint seed = 300; seed < 330; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed, clusters);
    g_autofree char *text = mixture_text(&drawn);
    for (int k = 0; k < 2; k++) {
      g_autoptr(GError) error = NULL;
      drawn.plan->seq_len = k == 0 ? drawn.plan->seq_len : 2 * drawn.plan->seq_len;
      g_autoptr(Prediction) anew = predict_case(&drawn);
      g_autoptr(Prediction) kept = predict_with(scratch, &drawn.model, drawn.cluster, drawn.plan, &error);
      ck_assert_msg(kept != NULL, "%s: %s", text, error != NULL ? error->message : "");
      ck_assert_msg(kept->metrics->step_ns == anew->metrics->step_ns, "%s", text);
      ck_assert_msg(kept->memory->peak_bytes == anew->memory->peak_bytes, "%s", text);
    }
  }
  ck_assert_uint_gt(predict_scratch_programs(scratch).n_lent, 20);
  free_case_clusters(clusters);
}
END_TEST

/* Sums of what is moved over dp, by whether it is of experts, and the members of its groups. */
typedef struct {
  double bytes;
  int n_members;
} MovedBytes;

static MovedBytes moved_over_dp(const Prediction *prediction, ActionKind action, gboolean of_experts) {
  MovedBytes moved = {0};
  const Program *program = prediction->program;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->kind != OP_COLLECTIVE || op->action != action)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    if ((transfer->of_experts != 0) != (of_experts != 0))
      continue;
    moved.bytes += transfer->bytes;
    moved.n_members =
        layout_group_size(&prediction->workload->layout, g_array_index(program->groups, Group, transfer->group).axes);
  }
  return moved;
}

/* 8 ranks, experts over 4 of them: 2 hold the same experts, 8 the same of all else. Gradients are 2 bytes a parameter
 * (bf16+master), weights 2; one micro-batch. Without experts in common (ep 8) only the rest is moved. */
START_TEST(gradients_of_experts_are_summed_over_ranks_that_have_them) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int zero = 0; zero <= 3; zero++)
    for (int ep = 4; ep <= 8; ep *= 2) {
      g_autoptr(Plan) plan = plan_new();
      plan->dp = 8, plan->ep = ep, plan->zero = zero, plan->global_batch = 8, plan->seq_len = 512;
      g_autoptr(GError) error = NULL;
      g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
      ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
      const double experts = 7.0 * 16 * 3 * 1024 * 512 / ep;
      const double others = (double)prediction->workload->stages[0].parameters - experts;
      const MovedBytes of_experts = moved_over_dp(prediction, ACTION_REDUCE_GRAD, TRUE),
                       of_others = moved_over_dp(prediction, ACTION_REDUCE_GRAD, FALSE),
                       gathered = moved_over_dp(prediction, ACTION_UNSHARD, TRUE);
      ck_assert_double_eq(of_others.bytes, 2 * others);
      ck_assert_int_eq(of_others.n_members, 8);
      ck_assert_double_eq(of_experts.bytes, ep == 4 ? 2 * experts : 0);
      ck_assert_int_eq(of_experts.n_members, ep == 4 ? 2 : 0);
      /* ZeRO-1 and -2 gather once a step, ZeRO-3 in forward and in backward */
      const double times = zero == 0 || ep == 8 ? 0 : zero == 3 ? 2 : 1;
      ck_assert_double_eq(gathered.bytes, times * 2 * experts);
    }
}
END_TEST

/* What ZeRO-3 gathers is let go: at the end of a step nothing more is held than at its beginning. */
START_TEST(gathered_experts_are_let_go) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  for (int zero = 0; zero <= 3; zero++) {
    g_autoptr(Plan) plan = plan_new();
    plan->dp = 8, plan->ep = 2, plan->zero = zero, plan->global_batch = 16, plan->seq_len = 512;
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const Program *program = prediction->program;
    double held[N_MEMORY] = {0};
    for (int i = 0; i < program->ranks[0].n_ops; i++) {
      const Effect *effect = &g_array_index(program->effects, Effect, program->ranks[0].ops[i].effect);
      for (int category = 0; category < N_MEMORY; category++)
        held[category] += effect->hold[category] - effect->drop[category];
    }
    for (int category = 0; category < N_MEMORY; category++)
      ck_assert_double_eq_tol(held[category], 0, 1);
  }
}
END_TEST

/* Both exchanges of a layer are waited for, and nothing hides them. */
START_TEST(exchanges_are_exposed_and_slower_links_never_shorten_the_step) {
  const Model model = mixture();
  double before_s = 0;
  for (int slower = 1; slower <= 64; slower *= 4) {
    g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
    cluster->scale_up_Bps /= slower;
    g_autoptr(Plan) plan = plan_new();
    plan->dp = plan->ep = 8, plan->seq_len = 2048;
    plan->overlap_grad = FALSE; /* nothing else on the links */
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
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
END_TEST

/* A dualpipe or dualpipe-v of a random case. */
static gboolean draw_pairs(Case *drawn, guint seed) {
  Plan *plan = drawn->plan;
  plan->pp = 4;
  plan->chunks = 0;
  plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
  plan->global_batch = plan->micro_batch * plan->dp * (16 + 2 * (seed % 3));
  plan->zero_ranks = 0;
  drawn->model.n_layers = 8;
  g_free(plan->schedule);
  plan->schedule = g_strdup(seed % 2 ? "dualpipe" : "dualpipe-v");
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(&drawn->model, drawn->cluster, plan, &error);
  return prediction != NULL;
}

/* Pairs are taken in turns under every ZeRO stage: the program is still proved, representatives still stand for all
 * ranks, and exchanges run beside the other's kernels. */
START_TEST(pairs_hide_each_other_s_exchanges) {
  Cluster *clusters[N_CASE_CLUSTERS];
  read_case_clusters(clusters);
  double hidden_s = 0;
  int n_cases = 0;
  for (guint seed = 400; seed < 424; seed++) {
    g_auto(Case) drawn = random_mixture_case(seed, clusters);
    if (!draw_pairs(&drawn, seed))
      continue;
    g_autofree char *text = mixture_text(&drawn);
    g_autoptr(Prediction) folded = predict_case(&drawn);
    g_autoptr(GError) error = NULL;
    ck_assert_msg(program_verify(folded->program, &error), "%s: %s", text, error != NULL ? error->message : "");
    g_autoptr(Plan) unfolded = plan_copy(drawn.plan);
    unfolded->fold = FALSE;
    g_autoptr(Prediction) all = predict_on(&drawn, drawn.cluster, unfolded);
    ck_assert_msg(folded->metrics->step_ns == all->metrics->step_ns, "%s", text);
    hidden_s += folded->metrics->hidden_s[AXIS_EP];
    n_cases++;
  }
  ck_assert_int_gt(n_cases, 10);
  ck_assert_double_gt(hidden_s, 0);
  free_case_clusters(clusters);
}
END_TEST

/* A forward and a backward of one layer each, F: a1 x1 c1 and B: a2 x2 c2, where x are exchanges between kernels a and
 * c: taken in turns they are a1 x1 a2 x2 c1 c2, and c2, behind which products are sent, is the last. */
START_TEST(a_pair_takes_turns_at_exchanges) {
  g_autoptr(Program) program = program_new(1, 2, 2);
  program->expanded = TRUE;
  const Work kernel = {.phase = PHASE_F, .piece = PIECE_LAYER, .stage = -1},
             back = {.phase = PHASE_B, .piece = PIECE_LAYER, .stage = -1};
  const Group group = {.name = "ep", .axes = AXIS_BIT(AXIS_EP), .pp_first = -1, .pp_last = -1, .charge = AXIS_EP};
  Transfer exchange = {.source = -1, .target = -1, .collective = COLLECTIVE_ALL_TO_ALL, .bytes = 1};
  exchange.group = program_group(program, &group);
  const gint32 works[2] = {program_work(program, &kernel), program_work(program, &back)};
  const gint32 transfer = program_transfer(program, &exchange);
  Op *ops = g_new(Op, 6);
  for (int i = 0; i < 6; i++) {
    const gboolean is_exchange = i % 3 == 1, is_back = i >= 3;
    ops[i] = op_new(is_exchange ? OP_COLLECTIVE : OP_COMPUTE, is_exchange ? STREAM_EP : STREAM_COMPUTE,
                    is_back ? ACTION_B : ACTION_F, is_back, is_back);
    ops[i].work = is_exchange ? transfer : works[is_back];
    ops[i].overlapped = TRUE;
    ops[i].tag = i; /* to know it by */
    if (i % 3 > 0)
      op_add_after(&ops[i], i - 1);
  }
  program->ranks[0].ops = ops;
  program->ranks[0].n_ops = 6;
  program_interleave(program);
  const int order[] = {0, 1, 3, 4, 2, 5}, after[] = {-1, 0, -1, 2, 1, 3};
  for (int i = 0; i < 6; i++) {
    ck_assert_int_eq(program->ranks[0].ops[i].tag, order[i]);
    ck_assert_int_eq(program->ranks[0].ops[i].after[0], after[i]);
  }
}
END_TEST

/* Every schedule runs layers with experts, those that do W apart too. */
START_TEST(all_schedules_run_experts) {
  g_autoptr(Cluster) cluster = read_cluster("dgx-h100");
  const Model model = mixture();
  const char *const schedules[] = {"gpipe",  "1f1b",     "zb-h1",      "zb-h2", "zb-v",
                                   "v-half", "dualpipe", "dualpipe-v", "auto"};
  for (gsize s = 0; s < G_N_ELEMENTS(schedules); s++) {
    g_autoptr(Plan) plan = plan_new();
    g_autoptr(GError) error = NULL;
    plan->pp = plan->dp = plan->ep = 4, plan->seq_len = 512, plan->zero = 1;
    plan->global_batch = 4 * 8;
    plan->schedule = g_strdup(schedules[s]);
    g_autoptr(Prediction) prediction = predict(&model, cluster, plan, &error);
    ck_assert_msg(prediction != NULL, "%s: %s", schedules[s], error != NULL ? error->message : "");
    ck_assert_double_gt(prediction->metrics->exposed_s[AXIS_EP] + prediction->metrics->hidden_s[AXIS_EP], 0);
  }
}
END_TEST

int main(void) {
  TCase *tcase = tcase_create("experts");
  tcase_set_timeout(tcase, 120);
  tcase_add_test(tcase, ranks_share_the_work_of_experts_exactly);
  tcase_add_test(tcase, model_flops_are_the_sum_of_the_lists);
  tcase_add_test(tcase, latent_attention_has_its_products);
  tcase_add_test(tcase, traffic_of_experts_has_its_closed_form);
  tcase_add_test(tcase, a_framework_sends_fewer_and_narrower_rows);
  tcase_add_test(tcase, rows_are_gathered_over_tp_behind_the_exchange);
  tcase_add_test(tcase, experts_are_held_in_shares_of_their_own);
  tcase_add_test(tcase, activations_of_experts_are_their_tensors);
  tcase_add_test(tcase, folded_run_is_the_run_of_all_ranks);
  tcase_add_test(tcase, whole_ops_are_the_sum_of_their_kernels_and_collectives);
  tcase_add_test(tcase, programs_are_sound_and_survive_their_text);
  tcase_add_test(tcase, kept_programs_serve_plans_with_experts);
  tcase_add_test(tcase, gradients_of_experts_are_summed_over_ranks_that_have_them);
  tcase_add_test(tcase, gathered_experts_are_let_go);
  tcase_add_test(tcase, exchanges_are_exposed_and_slower_links_never_shorten_the_step);
  tcase_add_test(tcase, pairs_hide_each_other_s_exchanges);
  tcase_add_test(tcase, a_pair_takes_turns_at_exchanges);
  tcase_add_test(tcase, all_schedules_run_experts);
  Suite *suite = suite_create("experts");
  suite_add_tcase(suite, tcase);
  SRunner *runner = srunner_create(suite);
  srunner_set_tap(runner, "-");
  srunner_run_all(runner, CK_SILENT);
  int failures = srunner_ntests_failed(runner);
  srunner_free(runner);
  return failures != 0;
}
