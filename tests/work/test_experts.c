/* Experts and latent attention: work and volumes by closed forms, and a GPU's memory. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>

#include "expert_cases.h"
#include "local_sizes.h"
#include "method_of.h"
#include "plan.h"

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
TEST(ranks_share_the_work_of_experts_exactly) {
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

/* Model FLOPs count what the lists of one GPU do, with no cut: attention's backward does 6·d + 4·v FLOPs a pair where
 * the convention counts twice the forward's 2·(d + v), so it is left out. */
TEST(model_flops_are_the_sum_of_the_lists) {
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

/* Per token, with h 1024, 16 heads, ranks 256 and 128: Q 1024·256 + 256·16·96; K and V 1024·(128 + 32) + 128·16·(64 +
 * 48); out 16·48·1024; each FLOP count twice the elements. A pair of query and key 2·(96 + 48) FLOPs in each of 16
 * heads, back 6·96 + 4·48. */
TEST(latent_attention_has_its_products) {
  const Model model = latent_mixture();
  g_autoptr(Workload) workload = cut_workload(&model, 1, 0, 1, 1, RECOMPUTE_NONE);
  const WorkList *f = &workload->work[PIECE_DENSE_LAYER][PHASE_F], *b = &workload->work[PIECE_DENSE_LAYER][PHASE_B];
  const double tokens = 2 * 512.0, pairs = 2 * 16 * 512.0 * 513 / 2;
  ck_assert_double_eq(flops_of(f, "q_"), 2 * tokens * (1024 * 256 + 256 * 16 * 96));
  ck_assert_double_eq(flops_of(f, "kv_"), 2 * tokens * (1024 * (128 + 32) + 128 * 16 * (64 + 48)));
  ck_assert_double_eq(flops_of(f, "attn_out"), 2 * tokens * 16 * 48 * 1024);
  ck_assert_double_eq(find(f, "attention")->flops, pairs * 2 * (96 + 48));
  ck_assert_double_eq(find(b, "attention.backward")->flops, pairs * (6 * 96 + 4 * 48));
  ck_assert_int_lt(work_item_v_dim(find(f, "attention")), find(f, "attention")->k);
}

/* Unfused, all pairs are multiplied: S = Q·Kᵀ and dQ, dK in the width of Q and K, P·V, dV and dP in that of V. */
TEST(unfused_latent_attention_multiplies_values_in_their_width) {
  const Model model = latent_mixture();
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_UNFUSED, RECOMPUTE_NONE);
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
  const double pairs = 2 * 16 * 512.0 * 512;
  ck_assert_double_eq(find(f, "scores")->flops, pairs * 2 * 96);
  ck_assert_double_eq(find(f, "context")->flops, pairs * 2 * 48);
  ck_assert_double_eq(find(b, "context.dv")->flops, pairs * 2 * 48);
  ck_assert_double_eq(find(b, "context.dp")->flops, pairs * 2 * 48);
  ck_assert_double_eq(find(b, "scores.dq")->flops, pairs * 2 * 96);
  ck_assert_double_eq(find(b, "scores.dk")->flops, pairs * 2 * 96);
  /* K and Q of 16 heads of 96, V and the output of 16 heads of 48, 2 bytes each, beside the scores */
  ck_assert_double_eq(find(f, "scores")->bytes, 2 * (pairs + 2 * 512.0 * 2 * 16 * 96));
  ck_assert_double_eq(find(f, "context")->bytes, 2 * (pairs + 2 * 512.0 * 2 * 16 * 48));
}

/* Every other layer sees 128 keys: the mean of s(s + 1)/2 and 128·129/2 + (s − 128)·128 pairs, in work and model FLOPs.
 */
TEST(layers_in_turns_have_the_mean_of_their_pairs) {
  Model model = mixture(), all = mixture();
  model.window = 128, model.windowed_share = 0.5;
  g_autoptr(Workload) mixed = cut_workload(&model, 1, 0, 1, 1, RECOMPUTE_NONE);
  g_autoptr(Workload) whole = cut_workload(&all, 1, 0, 1, 1, RECOMPUTE_NONE);
  const double pairs = 512.0 * 513 / 2, windowed = 128.0 * 129 / 2 + (512 - 128) * 128.0;
  const double share = (pairs + windowed) / 2 / pairs;
  const WorkList *lists[] = {mixed->work[PIECE_LAYER], whole->work[PIECE_LAYER]};
  ck_assert_double_eq_tol(find(&lists[0][PHASE_F], "attention")->flops,
                          share * find(&lists[1][PHASE_F], "attention")->flops, 1);
  ck_assert_double_lt(workload_model_flops(mixed), workload_model_flops(whole));
}

/* --- traffic --- */

/* Forward sends 4 rows for each token to the experts and brings 4 back, backward both again: all-to-alls of
 * 4·tokens·1024 elements of 2 bytes, tokens those of a rank: cut by tp under sequence parallelism. Experts cut by tp
 * gather and scatter tp times as many rows. W sends nothing; full recompute sends forward's again. */
TEST(traffic_of_experts_has_its_closed_form) {
  const Model model = mixture();
  for (int tp = 1; tp <= 4; tp *= 2)
    for (int whole = 0; whole < 2; whole++) {
      g_autoptr(Workload) workload = cut_workload(&model, tp, whole ? 1 : 0, 4, 4, RECOMPUTE_NONE);
      g_autoptr(Workload) dense = cut_workload(&llama, tp, 0, 4, 1, RECOMPUTE_NONE);
      g_autoptr(Workload) again = cut_workload(&model, tp, whole ? 1 : 0, 4, 4, RECOMPUTE_FULL);
      const WorkList *lists = workload->work[PIECE_LAYER], *dense_lists = dense->work[PIECE_LAYER];
      const double rows = 4.0 * (2 * 512 / tp) * 1024 * 2, local = tp > 1 && !whole ? 2 * tp * rows : 0;
      ck_assert_double_eq(sent_of(&lists[PHASE_F], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&lists[PHASE_I], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&lists[PHASE_W], AXIS_EP), 0);
      ck_assert_double_eq(sent_of(&lists[PHASE_B], AXIS_EP), 2 * rows);
      ck_assert_double_eq(sent_of(&again->work[PIECE_LAYER][PHASE_B], AXIS_EP), 4 * rows);
      /* the shared expert gathers and scatters what the MLP did */
      ck_assert_double_eq(sent_of(&lists[PHASE_F], AXIS_TP), sent_of(&dense_lists[PHASE_F], AXIS_TP) + local);
      ck_assert_double_eq(sent_of(&lists[PHASE_B], AXIS_TP), sent_of(&dense_lists[PHASE_B], AXIS_TP) + local);
    }
}

/* In fp8 over 4 ranks, rows sent as the experts' products read them. */
static Plan *plan_that_sends_narrow_rows(void) {
  Plan *plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->dp = plan->ep = plan->gpus = 4;
  plan->precision = PRECISION_FP8;
  plan->time.expert_format = EXPERT_FORMAT_LINEAR;
  return plan;
}

/* The fullest of 4 ranks gets 1.5 times the mean: so many times the rows in products, exchanges and what is kept of
 * them (a multiple of the experts here, so nothing is rounded); router, shared expert and attention are as before. */
TEST(the_fullest_rank_has_the_plans_share_of_rows) {
  const Model model = mixture();
  for (int tp = 1; tp <= 2; tp++)
    for (int whole = 0; whole < 2; whole++) {
      g_autoptr(Workload) even = cut_workload(&model, tp, whole ? 1 : 0, 4, 4, RECOMPUTE_NONE);
      g_autoptr(Plan) plan = plan_copy(even->plan);
      plan->expert_load = 1.5;
      g_autoptr(Workload) uneven = workload_new(&model, plan, NULL);
      for (int phase = PHASE_F; phase <= PHASE_B; phase++) {
        const WorkList *before = &even->work[PIECE_LAYER][phase], *after = &uneven->work[PIECE_LAYER][phase];
        ck_assert_double_eq(flops_of(after, "expert_"), 1.5 * flops_of(before, "expert_"));
        ck_assert_double_eq(sent_of(after, AXIS_EP), 1.5 * sent_of(before, AXIS_EP));
        ck_assert_double_eq(after->flops - flops_of(after, "expert_"), before->flops - flops_of(before, "expert_"));
        ck_assert_int_eq(after->n_items, before->n_items);
      }
      ck_assert_double_eq(workload_model_flops(uneven), workload_model_flops(even));
      const LocalSizes local = local_sizes_of(&model, method_of(plan)),
                       even_cut = local_sizes_of(&model, method_of(even->plan));
      ck_assert_int_eq(2 * local.expert_rows, 3 * even_cut.expert_rows);
      ck_assert_int_eq(local.routed_tokens, even_cut.routed_tokens);
    }
}

/* Of 16 experts, 4 on each of 4 ranks, a token goes to 4. To a rank it goes but with a chance of C(12,4)/C(16,4) =
 * 495/1820, so to 4·1325/1820 ranks in place of 4 experts; held to 2 of 4 groups, a rank's experts each, it goes to the
 * ranks of both but where all 4 lie with one: C(4,4)/C(8,4) = 1/70 for either, 2·69/70 ranks. Rows go out in fp8, 1
 * byte under --precision fp8, and come back in bf16; where they are sorted each is read once, and written as often as
 * it has experts there. */
TEST(deepep_sends_a_token_once_to_each_rank) {
  Model model = mixture();
  const double tokens = 2 * 512, h = 1024, ranks[] = {4 * 1325.0 / 1820, 2 * 69.0 / 70};
  for (int limited = 0; limited < 2; limited++) {
    model.experts.n_groups = limited ? 4 : 0;
    model.experts.groups_per_token = limited ? 2 : 0;
    g_autoptr(Plan) plan = plan_that_sends_narrow_rows();
    plan->expert_dispatch = DISPATCH_DEEPEP;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
    const double rows = tokens * ranks[limited];
    ck_assert_double_eq_tol(sent_of(f, AXIS_EP), rows * h * (1 + 2), 1);
    ck_assert_double_eq_tol(sent_of(b, AXIS_EP), rows * h * (1 + 2), 1);
    ck_assert_double_eq_tol(find(f, "permute")->bytes, (tokens + rows) * h, 1);
    ck_assert_double_eq_tol(find(f, "experts.sort")->bytes, (rows + 4 * tokens) * h, 1);
    ck_assert_double_eq_tol(find(f, "experts.unsort")->bytes, 2 * (rows + 4 * tokens) * h, 1);
    ck_assert_double_eq(flops_of(f, "expert_up"), 2.0 * 4 * tokens * h * 2 * 512);
  }
}

/* 16 experts, 4 of them a token's; T = 1024 tokens of h = 1024 on a rank without tp, 512 with tp 2. All n·T of the
 * ranks that share a layer come, out with 16 weights and 16 marks each (2 + 1 bytes), and go back as sums; the ranks of
 * a tp that cuts experts share them too, in one group with those of ep. Gradients come so but for weights and marks,
 * and go back with those of the weights. Of these tokens a rank picks those of its experts (C(12,4)/C(16,4) = 495/1820
 * have none there where it has 4 of 16, none where it has all) and writes 4·T·tp rows. */
TEST(gathered_tokens_go_to_all_ranks) {
  static const struct {
    int tp, expert_tp, ep;
    double ranks, here; /* that share experts; share of all tokens that a rank picks */
  } cases[] = {{1, 0, 4, 4, 1325.0 / 1820}, {2, 0, 4, 8, 1325.0 / 1820}, {2, 0, 1, 2, 1}, {2, 1, 4, 4, 1325.0 / 1820}};
  const Model model = mixture();
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    const int tp = cases[c].tp;
    g_autoptr(Plan) plan = plan_of(tp, tp > 1, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->dp = 4, plan->gpus = tp * 4, plan->ep = cases[c].ep, plan->expert_tp = cases[c].expert_tp;
    g_autoptr(Workload) others = workload_new(&model, plan, NULL);
    plan->expert_dispatch = DISPATCH_ALL_GATHER;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *b = &workload->work[PIECE_LAYER][PHASE_B];
    const double tokens = 2 * 512.0 / tp, h = 1024, all = tokens * cases[c].ranks;
    const double rows = 4 * all / cases[c].ep;
    const double over_ep = cases[c].ep > 1 ? all : 0;
    ck_assert_double_eq(sent_of(f, AXIS_EP), over_ep * (2 * 2 * h + 3 * 16));
    ck_assert_double_eq(sent_of(b, AXIS_EP), over_ep * (2 * 2 * h + 2 * 16));
    const gboolean spans_tp = cases[c].ep > 1 && cases[c].ranks > cases[c].ep;
    const AxisSet axes = AXIS_BIT(AXIS_EP) | (spans_tp ? AXIS_BIT(AXIS_TP) : 0);
    for (int i = 0; i < f->n_items; i++)
      if (f->items[i].kind == ITEM_COLLECTIVE && f->items[i].axis == AXIS_EP)
        ck_assert_uint_eq(work_item_axes(&f->items[i]), axes);
    ck_assert_double_eq_tol(find(f, "permute")->bytes, 2 * (cases[c].here * all + rows) * h, 1);
    ck_assert_double_eq_tol(find(f, "unpermute")->bytes, 2 * (rows + all) * h, 1);
    ck_assert_double_eq(find(b, "unpermute.backward")->bytes, find(f, "permute")->bytes);
    ck_assert_double_eq(find(b, "permute.backward")->bytes, find(f, "unpermute")->bytes);
    ck_assert_int_eq(count(f, "experts.sort") + count(b, "experts.sort") + count(f, "ep.all_to_all"), 0);
    ck_assert_double_eq(flops_of(f, "expert_"), flops_of(&others->work[PIECE_LAYER][PHASE_F], "expert_"));
    ck_assert_int_eq(count(f, "ep.all_gather"), cases[c].ep > 1 ? 3 : 0);
    ck_assert_int_eq(count(f, "ep.reduce_scatter"), cases[c].ep > 1);
    ck_assert_int_eq(count(b, "ep.all_gather"), cases[c].ep > 1);
    ck_assert_int_eq(count(b, "ep.reduce_scatter"), cases[c].ep > 1 ? 2 : 0);
  }
}

/* Of tp 2, which cuts experts, and ep 1 or 4: tp alone sends all tokens where there is no ep, and nothing of the
 * experts where there is. The rest that tp sends is as much with an all-to-all, whose rows (4·T of each rank) are
 * gathered and scattered. With either a framework's host may wait for the counts, forward alone. */
LOOP_TEST(tp_sends_gathered_tokens_where_there_is_no_ep, 2) {
  const Model model = mixture();
  const int ep = _i == 0 ? 1 : 4;
  g_autoptr(Plan) plan = plan_of(2, TRUE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->dp = 4, plan->ep = ep, plan->gpus = 8;
  g_autoptr(Workload) exchanged = workload_new(&model, plan, NULL);
  plan->expert_dispatch = DISPATCH_ALL_GATHER;
  g_autoptr(Workload) gathered = workload_new(&model, plan, NULL);
  const WorkList *f = &gathered->work[PIECE_LAYER][PHASE_F], *rows = &exchanged->work[PIECE_LAYER][PHASE_F];
  ck_assert(!find(f, "permute")->host_waits);
  plan->time.expert_counts = EXPERT_COUNTS_ON_HOST;
  g_autoptr(Workload) counted = workload_new(&model, plan, NULL);
  ck_assert(find(&counted->work[PIECE_LAYER][PHASE_F], "permute")->host_waits);
  ck_assert(!find(&counted->work[PIECE_LAYER][PHASE_B], "unpermute.backward")->host_waits);
  const double of_tp = ep == 1 ? 2 * 512.0 : 0, h = 1024;
  ck_assert_double_eq(sent_of(f, AXIS_TP) - of_tp * (2 * 2 * h + 3 * 16),
                      sent_of(rows, AXIS_TP) - 4 * 1024.0 * 2 * 2 * h);
}

/* Beside an all-to-all, of N = 1024·ep gathered tokens of h = 1024: kept of each layer are weights (2 bytes) and
 * marks (1) of N for the rank's experts; while its backward runs, gradients of N tokens and of its R = 4·N/ep rows, in
 * place of the activation's, R·(2 + 1)·512/tp; and at all times the buffer of N that they come to. */
TEST(gathered_tokens_are_held) {
  static const struct { int tp, ep; } cases[] = {{1, 4}, {2, 4}, {2, 1}, {1, 1}};
  const Model model = mixture();
  for (gsize c = 0; c < G_N_ELEMENTS(cases); c++) {
    const int tp = cases[c].tp, ep = cases[c].ep;
    g_autoptr(Plan) plan = plan_of(tp, tp > 1, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->dp = 4, plan->gpus = tp * 4, plan->ep = ep;
    g_autoptr(Workload) others = workload_new(&model, plan, NULL);
    plan->expert_dispatch = DISPATCH_ALL_GATHER;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const PieceMemory *layer = &workload->memory[PIECE_LAYER], *other = &others->memory[PIECE_LAYER];
    const double tokens = tp * ep > 1 ? 2 * 512.0 * ep : 0, rows = 4 * 2 * 512.0, h = 1024;
    ck_assert_double_eq(layer->saved_bytes - other->saved_bytes, tokens * 3 * (16 / ep));
    ck_assert_double_eq(layer->released_by_I - other->released_by_I, tokens * 3 * (16 / ep));
    ck_assert_double_eq(layer->held_for_W, other->held_for_W);
    ck_assert_double_eq(other->transient_bytes, 2 * rows * 3 * 512 / tp);
    ck_assert_double_eq(layer->transient_bytes, tokens > 0 ? 2 * (tokens + rows) * h : other->transient_bytes);
    ck_assert_double_eq(workload->framework_bytes - others->framework_bytes, 2 * tokens * h);
    ck_assert_double_eq(workload->memory[PIECE_DENSE_LAYER].saved_bytes, others->memory[PIECE_DENSE_LAYER].saved_bytes);
  }
}

/* The framework says how tokens go, the plan goes before it; one rank sends none. */
TEST(the_plan_goes_before_the_framework_in_how_tokens_go) {
  g_autoptr(Plan) plan = plan_that_sends_narrow_rows();
  ck_assert(!plan_dispatches_once(plan));
  plan->time.expert_dispatch = DISPATCH_DEEPEP;
  ck_assert(plan_dispatches_once(plan));
  plan->expert_dispatch = DISPATCH_ALL_TO_ALL;
  ck_assert(!plan_dispatches_once(plan));
  plan->time.expert_dispatch = DISPATCH_ALL_GATHER;
  ck_assert(!plan_gathers_tokens(plan));
  plan->expert_dispatch = -1;
  ck_assert(plan_gathers_tokens(plan));
  plan->expert_dispatch = DISPATCH_DEEPEP;
  ck_assert(plan_dispatches_once(plan) && !plan_gathers_tokens(plan));
  plan->ep = 1;
  ck_assert(!plan_dispatches_once(plan));
  plan->expert_dispatch = DISPATCH_ALL_GATHER;
  ck_assert(!plan_gathers_tokens(plan)); /* but where tp cuts experts */
  plan->tp = 2;
  ck_assert(plan_gathers_tokens(plan));
  plan->expert_tp = 1;
  ck_assert(!plan_gathers_tokens(plan));
}

/* T = 1024 tokens of h = 1024, 4·T rows, fp8: tokens are read once, or with a scale for all twice, in 2 bytes and
 * written in 1 before they are permuted (T read, 4·T written) and sorted (both 4·T) in 1; the products' own conversion
 * falls away, and the orientation that W reads is made of what came. So is that of gradients. */
TEST(rows_are_converted_before_they_are_sent) {
  const Model model = mixture();
  for (int scales = SCALES_TENSOR; scales <= SCALES_BLOCKS; scales++) {
    g_autoptr(Plan) plan = plan_that_sends_narrow_rows();
    plan->time.scales = scales;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const WorkList *f = &workload->work[PIECE_LAYER][PHASE_F], *i = &workload->work[PIECE_LAYER][PHASE_I],
                   *w = &workload->work[PIECE_LAYER][PHASE_W];
    const double stream = 1024.0 * 1024, reads = scales == SCALES_TENSOR ? 2 * 2 : 2;
    const struct {
      const WorkList *list;
      const char *name;
      double bytes;
    } expected[] = {{f, "permute.cast", (reads + 1) * stream},
                    {f, "permute", 5 * stream},
                    {f, "experts.sort", 8 * stream},
                    {f, "experts.unsort", 2 * 8 * stream},
                    {f, "unpermute", 2 * 5 * stream},
                    {f, "shared_up.cast", (reads + 2) * stream},
                    {i, "unpermute.grad_cast", (reads + 1) * stream},
                    {i, "unpermute.backward", 5 * stream},
                    {i, "permute.backward", 2 * 5 * stream},
                    {w, "expert_up.turn", 2 * 4 * stream},
                    {w, "expert_down.turn", 2 * 4 * stream}};
    for (gsize e = 0; e < G_N_ELEMENTS(expected); e++)
      ck_assert_double_eq(find(expected[e].list, expected[e].name)->bytes, expected[e].bytes);
    ck_assert_int_eq(count(f, "expert_up.cast") + count(i, "expert_down.grad_cast"), 0);
    ck_assert_int_eq(count(f, "expert_down.cast") + count(i, "expert_up.grad_cast"), 2); /* made on the spot */
    ck_assert_int_lt(index_of(f, "permute.cast"), index_of(f, "permute"));
  }
}

/* Rows cut by tp are gathered when they have come: the gather names the exchange, the experts name the gather. */
TEST(rows_are_gathered_over_tp_behind_the_exchange) {
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

/* --- what is held --- */

/* A layer's experts: 16·3·1024·512 parameters; the shared one, router, attention (16 + 2·8 + 16 heads of 64) and norms
 * besides. ep and tp cut the experts, tp all but router and norms, and what of experts is the same on several ranks is
 * cut by these under ZeRO, not by all of dp. */
TEST(experts_are_held_in_shares_of_their_own) {
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

/* GPT-OSS: 2·512 and 1,024 biases of each expert, whose up products tp cuts and whose down products it does not; 16 of
 * the router, on all ranks; a sink for each of 16 heads, which tp cuts. */
TEST(biases_and_sinks_are_held_with_what_they_belong_to) {
  const Model plain = mixture();
  Model model = plain;
  model.experts.has_biases = model.has_sinks = TRUE;
  ck_assert_int_eq(model_layer_parameters(&model) - model_layer_parameters(&plain), 16 * (2 * 512 + 1024) + 16 + 16);
  ck_assert_int_eq(model_expert_parameters(&model) - model_expert_parameters(&plain), 7 * 16 * (2 * 512 + 1024));
  const struct { int tp, expert_tp, dp, ep; } cuts[] = {{1, 0, 8, 1}, {1, 0, 8, 8}, {2, 0, 8, 4}, {4, 1, 2, 8}};
  for (gsize c = 0; c < G_N_ELEMENTS(cuts); c++) {
    const int tp = cuts[c].tp, dp = cuts[c].dp, ep = cuts[c].ep, by = cuts[c].expert_tp == 1 ? 1 : tp;
    g_autoptr(Workload) without = cut_workload(&plain, tp, cuts[c].expert_tp, dp, ep, RECOMPUTE_NONE);
    g_autoptr(Workload) with = cut_workload(&model, tp, cuts[c].expert_tp, dp, ep, RECOMPUTE_NONE);
    const gint64 of_experts = 16 / ep * (2 * 512 / by + 1024), of_all = of_experts + 16 + 16 / tp;
    ck_assert_int_eq(with->expert_parameters[PIECE_LAYER] - without->expert_parameters[PIECE_LAYER], of_experts);
    ck_assert_int_eq(with->piece_parameters[PIECE_LAYER] - without->piece_parameters[PIECE_LAYER], of_all);
    ck_assert_int_eq(with->piece_parameters[PIECE_DENSE_LAYER] - without->piece_parameters[PIECE_DENSE_LAYER], 16 / tp);
    ck_assert_int_eq(with->work[PIECE_LAYER][PHASE_B].n_items, without->work[PIECE_LAYER][PHASE_B].n_items);
  }
}

/* Of one layer of T = 1,024 tokens, 4,096 rows: of the dense layer's tensors the MLP's fall away (2·T·2816 bytes twice
 * for I, once for W), and there come for W rows of 1,024 and of 512 columns and T of 768; for I rows of 1,024 and T of
 * 1,536, router and weights: (2 + 5)·T·16 + 4 bytes a row. */
TEST(activations_of_experts_are_their_tensors) {
  const Model model = mixture();
  g_autoptr(Workload) workload = cut_workload(&model, 1, 0, 8, 8, RECOMPUTE_NONE);
  const PieceMemory *dense = &workload->memory[PIECE_DENSE_LAYER], *experts = &workload->memory[PIECE_LAYER];
  const double t = 1024, rows = 4096;
  const double for_w = 2 * (rows * (1024 + 512) + t * 768), dense_for_w = 2 * t * 2816;
  const double for_i = 2 * (rows * 1024 + t * 1536) + 7 * t * 16 + 4 * rows, dense_for_i = 2 * t * 2 * 2816;
  ck_assert_double_eq(experts->saved_bytes - dense->saved_bytes, for_w + for_i - dense_for_w - dense_for_i);
  ck_assert_double_eq(experts->released_by_I - dense->released_by_I, for_i - dense_for_i);
}

int main(void) {
  return run_tests();
}
