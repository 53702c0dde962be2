/* Multi-token-prediction heads: their work, parameters and memory, their place, what is refused. */
#include "error.h"
#include "pieces/pieces.h"
#include "run_suite.h"

#include "expert_cases.h"
#include "lowering.h"
#include "plan.h"
#include "plan_cases.h"

/* latent_mixture() on one GPU, micro-batches of 2 × 512 tokens: hidden 1024, vocabulary 32768. */
enum { TOKENS = 2 * 512, HIDDEN = 1024, VOCAB = 32768 };

static Workload *with_heads(int n, Recompute recompute) {
  const Model model = latent_mixture();
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, recompute);
  plan->mtp_layers = n;
  return workload_new(&model, plan, NULL);
}

static double sent_for(const WorkList *list, const char *operand) {
  double bytes = 0;
  for (int i = 0; i < list->n_items; i++)
    bytes += list->items[i].kind == ITEM_COLLECTIVE && g_str_has_prefix(list->items[i].operand, operand)
                 ? list->items[i].bytes
                 : 0;
  return bytes;
}

/* --- work --- */

/* Each head adds a layer's products, logits and 2·T·h·2h for the product of its two inputs, in each phase. */
TEST(a_head_adds_a_layer_a_product_and_logits) {
  for (Recompute recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
    g_autoptr(Workload) bare = with_heads(0, recompute), one = with_heads(1, recompute), two = with_heads(2, recompute);
    for (Phase phase = PHASE_F; phase < PHASE_OPTIMIZER; phase++) {
      const double passes = phase == PHASE_B ? 2 : 1;
      const double added = bare->work[PIECE_LAYER][phase].flops + bare->work[PIECE_HEAD][phase].flops +
                           passes * 2 * TOKENS * HIDDEN * 2 * HIDDEN;
      const double head = bare->work[PIECE_HEAD][phase].flops;
      ck_assert_double_eq_tol(one->work[PIECE_HEAD][phase].flops - head, added, 1e-9 * added);
      ck_assert_double_eq_tol(two->work[PIECE_HEAD][phase].flops - head, 2 * added, 1e-9 * added);
      ck_assert_double_eq(one->work[PIECE_LAYER][phase].flops, bare->work[PIECE_LAYER][phase].flops);
    }
  }
}

/* What a head adds to the products of all ranks of tp is what one rank alone does: the product is cut by columns, as is
 * its weight. */
TEST(ranks_of_tp_share_a_head) {
  const Model model = latent_mixture();
  g_autoptr(Workload) one = with_heads(1, RECOMPUTE_NONE);
  for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
    Workload *cut[2];
    for (int n = 0; n < 2; n++) {
      g_autoptr(Plan) plan = plan_of(2, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
      plan->mtp_layers = n;
      cut[n] = workload_new(&model, plan, NULL);
    }
    const MatmulShape product = {1, TOKENS, HIDDEN / 2, 2 * HIDDEN};
    const WorkItem *item = find(&cut[1]->work[PIECE_HEAD][PHASE_F], "mtp_proj");
    ck_assert_int_eq(item->m, product.m);
    ck_assert_int_eq(item->n, product.n);
    ck_assert_int_eq(item->k, product.k);
    ck_assert_double_eq(find(&cut[1]->work[PIECE_HEAD][PHASE_W], "mtp_proj.wgrad")->flops,
                        find(&one->work[PIECE_HEAD][PHASE_W], "mtp_proj.wgrad")->flops / 2);
    /* the layer's norms and latent projections are whole on each rank, so are the head's three norms */
    const gint64 layer = cut[0]->piece_parameters[PIECE_LAYER];
    ck_assert_int_eq(cut[1]->piece_parameters[PIECE_HEAD] - cut[0]->piece_parameters[PIECE_HEAD],
                     layer + HIDDEN * HIDDEN + 3 * HIDDEN);
    workload_free(cut[0]);
    workload_free(cut[1]);
  }
}

/* Over tp, besides what a layer, the embedding's sum and the logits send, of 2 bytes: the columns made, T·h; under
 * sequence parallelism the product's input, T·2h, in forward and for W, its gradient back, T·2h, and the gradient of
 * the layer's tokens, T·h; else that of the input, T·2h. */
TEST(a_cut_head_gathers_columns) {
  const Model model = latent_mixture();
  for (int sequence_parallel = 0; sequence_parallel < 2; sequence_parallel++) {
    g_autoptr(Plan) plan = plan_of(2, sequence_parallel, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->mtp_layers = 1;
    g_autoptr(Workload) workload = workload_new(&model, plan, NULL);
    const double stream = 2.0 * TOKENS * HIDDEN;
    const WorkList *lists = workload->work[PIECE_HEAD];
    ck_assert_double_eq(sent_for(&lists[PHASE_F], "mtp_proj"), stream * (sequence_parallel ? 3 : 1));
    ck_assert_double_eq(sent_for(&lists[PHASE_I], "mtp_proj"), stream * (sequence_parallel ? 3 : 2));
    ck_assert_double_eq(sent_for(&lists[PHASE_W], "mtp_proj"), stream * (sequence_parallel ? 2 : 0));
    ck_assert_double_eq(sent_for(&lists[PHASE_B], "mtp_proj"), stream * (sequence_parallel ? 5 : 2));
  }
}

TEST(its_kernels_follow_the_models_own_loss) {
  g_autoptr(Workload) workload = with_heads(1, RECOMPUTE_NONE);
  const WorkList *f = &workload->work[PIECE_HEAD][PHASE_F], *b = &workload->work[PIECE_HEAD][PHASE_B];
  ck_assert_int_eq(count(f, "logits"), 2);
  ck_assert_int_eq(count(f, "embedding"), 1);
  ck_assert_int_eq(count(f, "expert_up"), 1);
  ck_assert_int_lt(index_of(f, "loss.softmax"), index_of(f, "embedding"));
  ck_assert_int_lt(index_of(f, "mtp_proj"), index_of(f, "expert_up"));
  ck_assert_int_lt(index_of(b, "expert_up.dgrad"), index_of(b, "mtp_proj.dgrad"));
  ck_assert_int_lt(index_of(b, "mtp_proj.wgrad"), index_of(b, "embedding.wgrad"));
}

/* What the k-th head, and the layer it has, lists is marked so; backward begins with the last. The gradient that it
 * leaves of what it has read is added to that of the loss before: read twice 2·T·h, written once, of 2 bytes. */
TEST(kernels_say_whose_they_are) {
  g_autoptr(Workload) workload = with_heads(2, RECOMPUTE_FULL);
  const WorkList *f = &workload->work[PIECE_HEAD][PHASE_F], *b = &workload->work[PIECE_HEAD][PHASE_B];
  for (int i = 1; i < f->n_items; i++)
    ck_assert(f->items[i].mtp == f->items[i - 1].mtp || f->items[i].mtp == f->items[i - 1].mtp + 1);
  ck_assert_int_eq(find(f, "logits")->mtp, 0);
  ck_assert_int_eq(f->items[f->n_items - 1].mtp, 2);
  for (int i = 1; i < b->n_items; i++)
    ck_assert(b->items[i].mtp == b->items[i - 1].mtp || b->items[i].mtp == b->items[i - 1].mtp - 1);
  ck_assert_int_eq(b->items[0].mtp, 2);
  ck_assert_int_eq(b->items[b->n_items - 1].mtp, 0);
  ck_assert_int_eq(count(b, "mtp.grad_sum"), 2);
  ck_assert_double_eq(find(b, "mtp.grad_sum")->bytes, 3 * 2.0 * TOKENS * HIDDEN);
  ck_assert_int_eq(count(&workload->work[PIECE_HEAD][PHASE_W], "mtp.grad_sum"), 0);
}

/* What the lists of one GPU do in a step is what the model is said to, in either way to count attention: kernels do
 * what a causal mask leaves; backward of attention makes scores again, and is left out here. */
TEST(model_flops_are_those_of_the_products) {
  g_autoptr(Workload) bare = with_heads(0, RECOMPUTE_NONE), one = with_heads(1, RECOMPUTE_NONE);
  const double forward = one->work[PIECE_HEAD][PHASE_F].flops - bare->work[PIECE_HEAD][PHASE_F].flops;
  const double added = workload_model_flops(one) - workload_model_flops(bare);
  ck_assert_double_eq_tol(added, 3 * 8 * forward, 1e-9 * added);
  g_autoptr(Workload) again = with_heads(1, RECOMPUTE_FULL);
  const double listed =
      8 * (again->work[PIECE_HEAD][PHASE_B].recompute_flops + again->work[PIECE_DENSE_LAYER][PHASE_B].recompute_flops +
           7 * again->work[PIECE_LAYER][PHASE_B].recompute_flops);
  const double counted = workload_hardware_flops(again) - workload_model_flops(again);
  ck_assert_double_eq_tol(listed, counted, 1e-9 * counted);
}

/* --- parameters and memory --- */

TEST(a_head_holds_a_layer_a_product_and_three_norms) {
  g_autoptr(Workload) bare = with_heads(0, RECOMPUTE_NONE), two = with_heads(2, RECOMPUTE_NONE);
  const gint64 layer = bare->piece_parameters[PIECE_LAYER];
  ck_assert_int_eq(two->piece_parameters[PIECE_HEAD] - bare->piece_parameters[PIECE_HEAD],
                   2 * (layer + 2 * HIDDEN * HIDDEN + 3 * HIDDEN));
  ck_assert_int_eq(two->expert_parameters[PIECE_HEAD], 2 * bare->expert_parameters[PIECE_LAYER]);
  ck_assert_int_eq(two->stages[0].expert_parameters - bare->stages[0].expert_parameters,
                   2 * bare->expert_parameters[PIECE_LAYER]);
}

/* As much as a layer and a head keep, and in bf16 the embedding's row and the product's input, 2 and 4 bytes of T·h. */
TEST(a_head_keeps_what_a_layer_and_a_loss_do) {
  g_autoptr(Workload) bare = with_heads(0, RECOMPUTE_NONE), one = with_heads(1, RECOMPUTE_NONE);
  const PieceMemory *head = &bare->memory[PIECE_HEAD], *layer = &bare->memory[PIECE_LAYER];
  ck_assert_double_eq(one->memory[PIECE_HEAD].saved_bytes,
                      2 * head->saved_bytes + layer->saved_bytes + 6.0 * TOKENS * HIDDEN);
  ck_assert_double_eq(one->memory[PIECE_HEAD].released_by_I,
                      2 * head->released_by_I + layer->released_by_I + 2.0 * TOKENS * HIDDEN);
}

static Workload *in_a_pipeline(int pp, PlacementShape shape, int chunks, gboolean tied) {
  Model model = latent_mixture();
  model.tied = tied;
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  plan->mtp_layers = 1;
  plan->pp = plan->gpus = pp;
  plan->chunks = chunks;
  g_autoptr(Placement) placement = placement_new(shape, pp, chunks);
  return workload_new(&model, plan, placement);
}

TEST(the_embedding_is_copied_where_it_is_not) {
  const gint64 table = (gint64)VOCAB * HIDDEN;
  g_autoptr(Workload) loop = in_a_pipeline(2, PLACEMENT_LOOP, 1, FALSE), v = in_a_pipeline(2, PLACEMENT_V, 2, FALSE),
                      tied = in_a_pipeline(2, PLACEMENT_LOOP, 1, TRUE);
  ck_assert_int_eq(loop->tied_parameters, table); /* two gradients to be summed */
  ck_assert_int_eq(v->tied_parameters, 0);
  ck_assert_int_eq(loop->piece_parameters[PIECE_HEAD] - v->piece_parameters[PIECE_HEAD], table);
  ck_assert_int_eq(tied->piece_parameters[PIECE_HEAD], v->piece_parameters[PIECE_HEAD]); /* it is the head's */
  ck_assert_int_eq(tied->tied_parameters, table);
}

/* --- refusals --- */

TEST(heads_that_a_model_does_not_have_are_refused) {
  Model model = latent_mixture();
  static const struct {
    int n_has, n_asked;
    const char *says;
  } cases[] = {{0, 1, "has 0 multi-token"}, {1, 2, "has 1 multi-token"}};
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    g_autoptr(GError) error = NULL;
    model.n_next_layers = cases[i].n_has;
    plan->mtp_layers = cases[i].n_asked;
    ck_assert(!plan_complete(plan, &model, NULL, &error));
    ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
    ck_assert_msg(strstr(error->message, cases[i].says) != NULL, "%s", error->message);
  }
}

TEST(heads_of_another_kind_are_told_but_not_trained) {
  Model model = latent_mixture();
  g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
  g_autoptr(GError) error = NULL;
  model.n_next_layers = plan->mtp_layers = 1;
  model.other_next_layers = TRUE;
  ck_assert(!plan_complete(plan, &model, NULL, &error));
  ck_assert(g_error_matches(error, STEPSIM_ERROR, STEPSIM_ERROR_IMPOSSIBLE));
  ck_assert_ptr_nonnull(strstr(error->message, "not one more layer of its last kind"));
}

/* Of rank 0. `table`: bytes of its gradient that go with the heads'. */
static void assert_head_sums(const Prediction *prediction, int n_expected, double table) {
  const Program *program = prediction->program;
  const Workload *workload = prediction->workload;
  int n_sums = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &program->ranks[0].ops[i];
    if (op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    if (transfer->n_head == 0 || transfer->of_experts)
      continue;
    const Part part = {0, transfer->n_layers, 1, 0, transfer->n_dense};
    const double own = part_parameters(workload, &part) - part_expert_parameters(workload, &part);
    ck_assert_int_eq(transfer->n_tables, table > 0 ? 2 : 1);
    ck_assert_double_eq(transfer->bytes, own * workload->method->gradient_sum_bytes + table);
    n_sums++;
  }
  ck_assert_int_eq(n_sums, n_expected);
}

/* Two pipes: a rank has the embedding of some micro-batches and the heads of others, whose gradients of the table that
 * they look tokens up in go with their own buckets where each micro-batch is reduced by itself; in one sum of all,
 * under ZeRO-1, they are in the embedding's. Of 200 words the table has 256 rows, of 500 it has 512. */
TEST(heads_reduce_the_table_where_micro_batches_are_reduced_apart) {
  static const gint64 vocab[] = {200, 500}, rows[] = {256, 512};
  g_autoptr(Model) model = read_model(CASES_FIXTURES "/models/tiny-deepseek.json");
  g_autoptr(Cluster) cluster = read_cluster("selene");
  for (int i = 0; i < 6; i++) {
    g_autoptr(Plan) plan = plan_new();
    plan->schedule = g_strdup("dualpipe");
    plan->pp = plan->dp = 2;
    plan->mtp_layers = 1;
    plan->global_batch = 16;
    plan->zero = 1 + i / 2;
    model->vocab = vocab[i % 2];
    g_autoptr(Prediction) prediction = predict(model, cluster, plan, NULL);
    ck_assert_ptr_nonnull(prediction);
    const double table = (double)rows[i % 2] * (double)model->hidden * prediction->workload->method->gradient_sum_bytes;
    assert_head_sums(prediction, plan->zero >= 2 ? 4 : 1, plan->zero >= 2 ? table : 0);
  }
}

int main(void) {
  return run_tests();
}
