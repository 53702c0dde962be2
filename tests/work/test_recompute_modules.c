/* Selective recompute by modules: what is recomputed, what is no longer kept, what is refused. */
#include "error.h"
#include "run_suite.h"

#include "expert_cases.h"
#include "plan.h"

/* latent_mixture() on one GPU: T = 2 × 512 tokens, hidden 1024, 16 heads of 96 (Q, K) and 48 (V), made of 256 and 128
 * columns and 32 rotated; 4 · T rows of experts of 512 columns, a shared one of 768, an MLP of 2816. fp8: inputs of
 * linears have 1 byte an element, all else 2. */
enum { TOKENS = 2 * 512, HIDDEN = 1024, ALL_MODULES = (1 << N_RECOMPUTE_MODULES) - 1 };

static Workload *repeating(const Model *model, guint modules, Precision precision) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, modules != 0 ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE);
  plan->recompute_modules = modules;
  plan->precision = precision;
  return workload_new(model, plan, NULL);
}

/* Names of what a list makes again, in order; owned by the caller. */
static char *again_of(const WorkList *list) {
  GString *names = g_string_new(NULL);
  for (int i = 0; i < list->n_items; i++)
    if (list->items[i].recompute)
      g_string_append_printf(names, "%s%s", names->len > 0 ? " " : "", list->items[i].name);
  return g_string_free(names, FALSE);
}

/* --- names --- */

TEST(modules_are_read_with_either_mark_between_them) {
  guint modules = 0;
  ck_assert(recompute_modules_parse("--x", "layernorm+moe_act", &modules, NULL));
  ck_assert_uint_eq(modules, MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MOE_ACT));
  ck_assert(recompute_modules_parse("--x", "moe_act, mlp", &modules, NULL));
  g_autofree char *text = recompute_modules_text(modules, " ");
  ck_assert_str_eq(text, "moe_act mlp");
  g_autofree char *all = recompute_modules_text(ALL_MODULES, ",");
  guint back = 0;
  ck_assert(recompute_modules_parse("--x", all, &back, NULL));
  ck_assert_uint_eq(back, ALL_MODULES);
}

TEST(names_that_are_none_are_refused) {
  static const struct {
    const char *text, *says;
  } wrong[] = {{"laernorm", "did you mean \"layernorm\""},
               {"moe_act+moe_act", "moe_act stands twice"},
               {"mlp,,moe", "found \"\""},
               {"", "found nothing"}};
  for (gsize i = 0; i < G_N_ELEMENTS(wrong); i++) {
    guint modules;
    g_autoptr(GError) error = NULL;
    ck_assert(!recompute_modules_parse("--recompute-modules", wrong[i].text, &modules, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_INPUT));
    ck_assert_msg(strstr(error->message, wrong[i].says) != NULL, "%s", error->message);
  }
}

TEST(without_names_selective_reruns_attentions_core) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  ck_assert_uint_eq(plan_recompute_modules(plan), MODULE_BIT(MODULE_CORE_ATTN));
  plan->recompute_modules = MODULE_BIT(MODULE_MLP);
  ck_assert_uint_eq(plan_recompute_modules(plan), MODULE_BIT(MODULE_MLP));
  plan->recompute = RECOMPUTE_FULL;
  ck_assert_uint_eq(plan_recompute_modules(plan), 0);
}

/* --- refusals --- */

static void check_refused(const Model *model, Recompute recompute, guint modules, gboolean by_products,
                          const char *says) {
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, recompute);
  g_autoptr(GError) error = NULL;
  plan->recompute_modules = modules;
  plan->memory.selective = by_products ? SELECTIVE_PRODUCTS : SELECTIVE_SCORES;
  ck_assert(!plan_complete(plan, model, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_msg(strstr(error->message, says) != NULL, "%s", error->message);
}

TEST(what_a_model_does_not_have_is_not_made_again) {
  const Model mixed = mixture(), beside = neox();
  Model all_experts = mixture(), unshared = mixture();
  all_experts.experts.n_leading = 0;
  unshared.experts.shared_ffn_hidden = 0;
  const Recompute selective = RECOMPUTE_SELECTIVE;
  check_refused(&mixed, selective, MODULE_BIT(MODULE_MLA_UP_PROJ), FALSE, "mla_up_proj: model mixture has no latent");
  check_refused(&llama, selective, MODULE_BIT(MODULE_MOE_ACT), FALSE, "moe_act: model llama has no experts");
  check_refused(&llama, selective, MODULE_BIT(MODULE_MOE), FALSE, "moe: model llama has no experts");
  check_refused(&unshared, selective, MODULE_BIT(MODULE_SHARED_EXPERTS), FALSE, "has no shared expert");
  check_refused(&all_experts, selective, MODULE_BIT(MODULE_MLP), FALSE, "experts in every layer");
  check_refused(&beside, selective, MODULE_BIT(MODULE_LAYERNORM), FALSE, "beside attention");
  check_refused(&beside, selective, MODULE_BIT(MODULE_MLP), FALSE, "beside attention");
}

TEST(modules_that_clash_are_refused) {
  const Model mixed = mixture();
  const guint norm = MODULE_BIT(MODULE_LAYERNORM), moe = MODULE_BIT(MODULE_MOE);
  check_refused(&mixed, RECOMPUTE_NONE, norm, FALSE, "layernorm needs --recompute selective: found none");
  check_refused(&mixed, RECOMPUTE_FULL, norm, FALSE, "found full");
  check_refused(&mixed, RECOMPUTE_SELECTIVE, moe | MODULE_BIT(MODULE_MOE_ACT), FALSE, "moe and moe_act clash");
  check_refused(&mixed, RECOMPUTE_SELECTIVE, moe | MODULE_BIT(MODULE_SHARED_EXPERTS), FALSE, "shared_experts clash");
  check_refused(&llama, RECOMPUTE_SELECTIVE, norm, TRUE, "keeps every other product");
}

/* --- work --- */

/* Each module's kernels, as backward lists them; in fp8, so with the conversions of what products read. */
TEST(a_module_lists_its_forward_again) {
  static const struct {
    RecomputeModule module;
    Piece piece;
    const char *again;
  } cases[] = {
      {MODULE_CORE_ATTN, PIECE_LAYER, ""},
      {MODULE_LAYERNORM, PIECE_LAYER, "norm shared_up.cast norm kv_down.cast q_down.cast"},
      {MODULE_LAYERNORM, PIECE_DENSE_LAYER, "norm mlp_up.cast norm kv_down.cast q_down.cast"},
      {MODULE_MLA_UP_PROJ, PIECE_LAYER, "q_norm kv_norm q_up.cast q_up kv_up.cast kv_up rope kv_join"},
      {MODULE_MOE_ACT, PIECE_LAYER, "silu_mul expert_down.cast"},
      {MODULE_MOE_ACT, PIECE_DENSE_LAYER, ""},
      {MODULE_SHARED_EXPERTS, PIECE_LAYER, "shared_up.cast shared_up silu_mul shared_down.cast shared_down"},
      {MODULE_MLP, PIECE_DENSE_LAYER, "mlp_up.cast mlp_up silu_mul mlp_down.cast mlp_down"},
      {MODULE_MLP, PIECE_LAYER, ""},
      {MODULE_MOE, PIECE_LAYER,
       "router router.choice permute expert_up.cast expert_up silu_mul expert_down.cast expert_down "
       "unpermute shared_up.cast shared_up silu_mul shared_down.cast shared_down experts.sum"},
  };
  const Model model = latent_mixture();
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Workload) workload = repeating(&model, MODULE_BIT(cases[i].module), PRECISION_FP8);
    g_autofree char *b = again_of(&workload->work[cases[i].piece][PHASE_B]),
                    *in = again_of(&workload->work[cases[i].piece][PHASE_I]),
                    *w = again_of(&workload->work[cases[i].piece][PHASE_W]);
    ck_assert_str_eq(b, cases[i].again);
    ck_assert_str_eq(in, b);
    ck_assert_str_eq(w, "");
  }
}

/* Sets that a model with all of them may have. */
static gboolean is_possible(guint modules) {
  const guint inside = MODULE_BIT(MODULE_MOE_ACT) | MODULE_BIT(MODULE_SHARED_EXPERTS);
  return modules != 0 && ((modules & MODULE_BIT(MODULE_MOE)) == 0 || (modules & inside) == 0);
}

static gboolean is_same_item(const WorkItem *a, const WorkItem *b) {
  return strcmp(a->name, b->name) == 0 && a->flops == b->flops && a->bytes == b->bytes && a->kind == b->kind;
}

/* Without what is made again a list is what it is without recompute, and nothing is made again but what forward made.
 */
static gboolean only_repeats(const WorkList *list, const WorkList *bare, const WorkList *forward) {
  int n = 0;
  for (int i = 0; i < list->n_items; i++) {
    const WorkItem *item = &list->items[i];
    gboolean is_known = FALSE;
    for (int f = 0; item->recompute && f < forward->n_items; f++)
      is_known |= is_same_item(item, &forward->items[f]);
    if (item->recompute ? !is_known : n >= bare->n_items || !is_same_item(item, &bare->items[n++]))
      return FALSE;
  }
  return n == bare->n_items;
}

TEST(sets_of_modules_add_repeats_and_nothing_else) {
  const Model model = latent_mixture();
  for (Precision precision = PRECISION_BF16; precision <= PRECISION_FP8; precision++) {
    g_autoptr(Workload) bare = repeating(&model, 0, precision);
    for (guint modules = 0; modules <= ALL_MODULES; modules++) {
      if (!is_possible(modules))
        continue;
      g_autoptr(Workload) workload = repeating(&model, modules, precision);
      gboolean ok = TRUE;
      for (Piece piece = 0; piece < N_PIECES; piece++)
        for (Phase phase = PHASE_F; phase < PHASE_OPTIMIZER; phase++)
          ok &= only_repeats(&workload->work[piece][phase], &bare->work[piece][phase], &bare->work[piece][PHASE_F]);
      ck_assert_msg(ok, "modules %x", modules);
    }
  }
}

/* In a step of 8 micro-batches. */
static double listed_again(const Workload *workload, int n_dense, int n_other) {
  return 8 * (n_dense * workload->work[PIECE_DENSE_LAYER][PHASE_B].recompute_flops +
              n_other * workload->work[PIECE_LAYER][PHASE_B].recompute_flops +
              workload->work[PIECE_HEAD][PHASE_B].recompute_flops);
}

/* What one GPU's lists make again in a step is what HFU counts above MFU: of 1 dense layer and 7 others. */
TEST(flops_made_again_are_those_of_the_lists) {
  const Model model = latent_mixture();
  for (guint modules = 1; modules <= ALL_MODULES; modules++) {
    if (!is_possible(modules))
      continue;
    g_autoptr(Workload) workload = repeating(&model, modules, PRECISION_BF16);
    const double listed = listed_again(workload, 1, 7);
    const double counted = workload_hardware_flops(workload) - workload_model_flops(workload);
    ck_assert_msg(fabs(listed - counted) <= 1e-9 * counted, "modules %x: %g, %g", modules, listed, counted);
  }
}

/* Two heads further have a layer with experts each, of which the same modules are made again. */
TEST(modules_of_heads_further_are_made_again_too) {
  Model model = latent_mixture();
  model.n_next_layers = 2;
  for (guint module = MODULE_BIT(0); module <= ALL_MODULES; module <<= 1) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
    plan->recompute_modules = module;
    plan->mtp_layers = 2;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const double listed = listed_again(workload, 1, 7);
    const double counted = workload_hardware_flops(workload) - workload_model_flops(workload);
    ck_assert_msg(fabs(listed - counted) <= 1e-9 * counted, "module %x: %g, %g", module, listed, counted);
  }
}

/* Under a framework that checkpoints attention's core whatever its kernel is: 7 other layers and a dense one, 8 times.
 */
TEST(a_framework_may_run_flash_attention_again) {
  const Model model = latent_mixture();
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  ck_assert(plan_recomputes_nothing(plan));
  plan->memory.selective = SELECTIVE_CORE;
  ck_assert(!plan_recomputes_nothing(plan));
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  const WorkList *work = workload->work[PIECE_LAYER];
  g_autofree char *again = again_of(&work[PHASE_B]), *of_weights = again_of(&work[PHASE_W]);
  ck_assert_str_eq(again, "attention");
  ck_assert_str_eq(of_weights, "");
  const double counted = workload_hardware_flops(workload) - workload_model_flops(workload);
  ck_assert_double_gt(counted, 0);
  ck_assert_double_eq_tol(counted, 8 * 8 * work[PHASE_B].recompute_flops, 1e-9 * counted);
  plan->memory.selective = SELECTIVE_SCORES;
  g_autoptr(Workload) bare = workload_new(&model, plan, NULL);
  ck_assert_double_eq(bare->memory[PIECE_LAYER].saved_bytes, workload->memory[PIECE_LAYER].saved_bytes);
}

/* --- memory --- */

/* Bytes that `modules` drop of a layer. */
static double dropped(guint modules, Piece piece, FrameworkMemory framework) {
  const Model model = latent_mixture();
  g_autoptr(Workload) bare = repeating(&model, 0, PRECISION_FP8);
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_SELECTIVE);
  plan->recompute_modules = modules;
  plan->precision = PRECISION_FP8;
  plan->memory = framework;
  g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
  return bare->memory[piece].saved_bytes - workload->memory[piece].saved_bytes;
}

TEST(what_is_made_again_is_not_kept) {
  const FrameworkMemory none = {0};
  const guint norm = MODULE_BIT(MODULE_LAYERNORM);
  const double stream = (double)TOKENS * HIDDEN, q = 16 * 96, v = 16 * 48, rows = 4 * TOKENS;
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_CORE_ATTN), PIECE_LAYER, none), 0);
  ck_assert_double_eq(dropped(norm, PIECE_LAYER, none), 2 * stream);
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MLA_UP_PROJ), PIECE_LAYER, none),
                      2 * TOKENS * (q + q + v) + TOKENS * (256 + 128));
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MOE_ACT), PIECE_LAYER, none), rows * 512);
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_SHARED_EXPERTS), PIECE_LAYER, none), TOKENS * 768 * (1 + 2 * 2));
  /* The MLP's input stays in 2 bytes where the product's had 1, unless the norm makes it again. */
  const double mlp = TOKENS * 2816.0 * (1 + 2 * 2);
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MLP), PIECE_DENSE_LAYER, none), mlp - stream);
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MLP) | norm, PIECE_DENSE_LAYER, none), mlp + 2 * stream);
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MLP), PIECE_LAYER, none), 0);
  /* Rows and both inputs, scores and table of the router (2 + 5 bytes each), a weight of 4 bytes a row. */
  const double moe = rows * (HIDDEN + 512 + 2 * 2 * 512 + 4) + TOKENS * 768 * 5.0 + TOKENS * 16 * 7.0;
  ck_assert_double_eq(dropped(MODULE_BIT(MODULE_MOE), PIECE_LAYER, none), moe - stream);
}

/* What I makes again and W needs waits for W; the rest goes with I. */
TEST(bytes_dropped_are_there_while_backward_runs) {
  const Model model = latent_mixture();
  g_autoptr(Workload) bare = repeating(&model, 0, PRECISION_FP8);
  const PieceMemory *before = &bare->memory[PIECE_LAYER];
  for (guint modules = 1; modules <= ALL_MODULES; modules++) {
    if (!is_possible(modules))
      continue;
    g_autoptr(Workload) workload = repeating(&model, modules, PRECISION_FP8);
    const PieceMemory *after = &workload->memory[PIECE_LAYER];
    const double saved = before->saved_bytes - after->saved_bytes;
    const double of_I = before->released_by_I - after->released_by_I, of_W = after->held_for_W - before->held_for_W;
    ck_assert_double_eq(of_I + of_W, saved);
    const double again = after->transient_bytes - before->transient_bytes;
    ck_assert_msg(again >= 0 && again <= saved + 1e-6 && 2 * again >= saved, "modules %x", modules);
  }
}

/* 4 rows a token of 2 · 512 columns and the shared expert's 2 · 768 in one byte in place of two. */
TEST(a_framework_may_keep_inputs_of_activations_in_another_format) {
  const FrameworkMemory narrow = {.activation_input_bytes = 1};
  const guint core = MODULE_BIT(MODULE_CORE_ATTN);
  ck_assert_double_eq(dropped(core, PIECE_LAYER, narrow), TOKENS * (4 * 2 * 512.0 + 2 * 768));
  ck_assert_double_eq(dropped(core, PIECE_DENSE_LAYER, narrow), 0);
}

int main(void) {
  return run_tests();
}
