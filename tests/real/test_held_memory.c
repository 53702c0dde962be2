/* The memory that a stepreal rank allocates for weights, gradients, optimizer and saved activations is, to the byte,
 * what the Program says it holds; and the buffers of context-parallel attention are what PieceMemory counts. Ranks run
 * one by one, on a device that computes nothing and without the other ranks.
 *
 * Known differences, not tested here:
 *   gradients     more with the optimizer on the host: sums stay of gradients that ZeRO-2 and 3 send away after every
 *                 micro-batch
 *   activations   the space of those offloaded to the host is not freed
 *                 less for products kept under sequence parallelism: only the reduce-scattered result is kept
 *                 more if W runs apart from I under ZeRO-3: what I leaves for W is allocated at once, not layer by
 *                 layer as in the Program (up to a third more)
 *                 more if a forward alternates with a backward at expert exchanges (up to twice as much)
 *                 more for a loss that the framework fuses: it is computed unfused, its softmax kept in fp32
 *                 in fp8 more under sequence parallelism (shards that are gathered again, kept in bf16), with experts (so
 *                 is what the router reads), with biases (so are the gradients that theirs are sums of) and with norms
 *                 behind the branches (so is the stream); less of latent attention (what all heads share is not kept)
 * Dropout masks, which the Program counts, are not kept but drawn again. */
#include <check.h>

#include "executor.h"
#include "method_of.h"
#include "plan.h"
#include "plan_program.h"
#include "run_suite.h"
#include "small_workloads.h"

static World *world; /* of one rank; opened once */

/* --- a device that says how large its blocks are --- */

static GHashTable *sizes; /* block → GSIZE_TO_POINTER(bytes) */
static DeviceType counting_device;

static void *allocate_counted(Device *device, gint64 bytes, GError **error) {
  void *block = null_device.allocate(device, bytes, error);
  if (block != NULL)
    g_hash_table_insert(sizes, block, GSIZE_TO_POINTER((gsize)bytes));
  return block;
}

static Device *open_counting(int local_rank, int n_local, gint64 capacity_bytes, GError **error) {
  Device *device = null_device.open(local_rank, n_local, capacity_bytes, error);
  device->type = &counting_device;
  return device;
}

static double size_of(const void *block) {
  return (double)GPOINTER_TO_SIZE(g_hash_table_lookup(sizes, block));
}

/* --- plans --- */

typedef struct {
  const char *schedule;
  int tp, pp, chunks, dp, cp, ep, zero;
  CpComm cp_comm;
  Recompute recompute;
  int group; /* layers recomputed at once */
  gboolean is_fp32, is_fp8, sequence_parallel, has_experts, is_unfused, by_products, offloads;
  int mtp_layers;
  int q_rank; /* of latent attention; < 0: that without one; 0: none */
  int beside; /* of attention and MLP side by side, the norms; 0: one behind the other */
  guint modules;
  enum { NORMS_BEFORE, NORMS_AROUND, NORMS_BEHIND } norms; /* of the branches */
} HeldCase;

/* Zeros are ones where a size is meant. */
static const HeldCase cases[] = {
    {.dp = 2},
    {.dp = 2, .is_fp32 = TRUE},
    {.tp = 2},
    {.tp = 2, .sequence_parallel = TRUE},
    {.tp = 2, .sequence_parallel = TRUE, .recompute = RECOMPUTE_FULL},
    {.tp = 2, .recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MLP)},
    {.pp = 4},
    {.pp = 2, .chunks = 2, .schedule = "interleaved"},
    {.pp = 2, .chunks = 4, .schedule = "looped-bfs", .recompute = RECOMPUTE_FULL},
    {.pp = 4, .schedule = "gpipe"},
    {.pp = 4, .schedule = "zb-h1"},
    {.pp = 4, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.pp = 2, .tp = 2, .sequence_parallel = TRUE, .dp = 2, .zero = 1},
    {.pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1"},
    {.pp = 4, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1", .mtp_layers = 1},
    {.pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1", .q_rank = 384, .has_experts = TRUE},
    {.pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1", .beside = 1},
    {.pp = 2, .schedule = "zb-h1", .has_experts = TRUE},
    {.dp = 4, .zero = 1},
    {.dp = 4, .zero = 2},
    {.dp = 4, .zero = 3},
    {.dp = 2, .pp = 2, .zero = 2, .recompute = RECOMPUTE_FULL},
    {.dp = 4, .zero = 3, .is_fp32 = TRUE, .recompute = RECOMPUTE_FULL},
    {.cp = 2},
    {.cp = 4, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .cp_comm = CP_ALL_GATHER},
    {.cp = 4, .cp_comm = CP_ALL_GATHER, .zero = 1},
    {.cp = 2, .cp_comm = CP_ULYSSES},
    {.cp = 4, .cp_comm = CP_ULYSSES, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .cp_comm = CP_ULYSSES, .pp = 2, .schedule = "zb-h1"},
    {.cp = 2, .cp_comm = CP_ULYSSES, .tp = 2, .sequence_parallel = TRUE, .zero = 3},
    {.cp = 16, .cp_comm = CP_ULYSSES}, /* 8 heads of K and V */
    {.cp = 4, .cp_comm = CP_ULYSSES, .tp = 4, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .pp = 2, .dp = 2, .zero = 2},
    {.beside = 2},
    {.beside = 1, .pp = 2, .schedule = "zb-h1"},
    {.beside = 2, .pp = 4, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.beside = 1, .tp = 2, .sequence_parallel = TRUE, .dp = 2, .zero = 3},
    {.beside = 2, .tp = 2, .sequence_parallel = TRUE, .recompute = RECOMPUTE_FULL},
    {.norms = NORMS_AROUND, .dp = 2},
    {.norms = NORMS_AROUND, .tp = 2, .recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_BIT(MODULE_LAYERNORM)},
    {.norms = NORMS_AROUND, .pp = 4, .schedule = "zb-h1"},
    {.norms = NORMS_AROUND,
     .pp = 2,
     .tp = 2,
     .sequence_parallel = TRUE,
     .schedule = "zb-h1",
     .recompute = RECOMPUTE_FULL},
    {.norms = NORMS_BEHIND, .dp = 2},
    {.norms = NORMS_BEHIND, .tp = 2, .recompute = RECOMPUTE_FULL},
    {.norms = NORMS_BEHIND, .pp = 4, .schedule = "zb-h1"},
    {.norms = NORMS_BEHIND, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.norms = NORMS_BEHIND, .pp = 2, .schedule = "zb-h1", .mtp_layers = 1},
    {.norms = NORMS_BEHIND, .pp = 2, .schedule = "zb-h1", .mtp_layers = 1, .recompute = RECOMPUTE_FULL},
    {.norms = NORMS_BEHIND, .pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1"},
    {.norms = NORMS_BEHIND, .pp = 2, .tp = 2, .sequence_parallel = TRUE, .schedule = "zb-h1", .has_experts = TRUE},
    {.norms = NORMS_BEHIND, .pp = 2, .chunks = 2, .schedule = "zb-v"},
    {.mtp_layers = 1, .dp = 2, .zero = 1},
    {.mtp_layers = 2, .dp = 4, .zero = 3},
    {.mtp_layers = 2, .pp = 2, .schedule = "zb-h1"},
    {.mtp_layers = 2, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.mtp_layers = 2, .tp = 2},
    {.mtp_layers = 1, .tp = 2, .sequence_parallel = TRUE, .dp = 2, .ep = 2, .has_experts = TRUE, .zero = 1},
    {.mtp_layers = 1, .q_rank = 384, .pp = 2, .dp = 2, .zero = 3},
    {.q_rank = 384, .dp = 2, .zero = 1},
    {.q_rank = -1, .dp = 4, .zero = 3},
    {.q_rank = 384, .pp = 2, .schedule = "zb-h1"},
    {.q_rank = -1, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.q_rank = 384, .cp = 2},
    {.q_rank = -1, .cp = 2, .cp_comm = CP_ULYSSES, .zero = 1},
    {.q_rank = 384, .tp = 2},
    {.q_rank = 384, .tp = 2, .sequence_parallel = TRUE, .has_experts = TRUE, .recompute = RECOMPUTE_FULL},
    {.q_rank = -1, .tp = 2, .sequence_parallel = TRUE, .has_experts = TRUE},
    {.q_rank = 384, .dp = 2, .recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_BIT(MODULE_MLA_UP_PROJ)},
    {.q_rank = -1,
     .pp = 2,
     .schedule = "zb-h1",
     .recompute = RECOMPUTE_SELECTIVE,
     .modules = MODULE_BIT(MODULE_MLA_UP_PROJ)},
    {.dp = 2, .recompute = RECOMPUTE_FULL, .group = 2},
    {.pp = 2, .recompute = RECOMPUTE_FULL, .group = 4},
    {.pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL, .group = 2},
    {.offloads = TRUE, .dp = 2},
    {.offloads = TRUE, .dp = 2, .pp = 2, .zero = 1, .has_experts = TRUE},
    {.by_products = TRUE, .tp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.by_products = TRUE, .pp = 4, .recompute = RECOMPUTE_SELECTIVE},
    {.by_products = TRUE, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_SELECTIVE},
    {.is_unfused = TRUE, .tp = 2},
    {.is_unfused = TRUE, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.is_unfused = TRUE, .q_rank = 384, .dp = 2},
    {.is_unfused = TRUE, .q_rank = 384, .tp = 2, .sequence_parallel = TRUE, .has_experts = TRUE},
    {.is_unfused = TRUE, .q_rank = -1, .pp = 2, .schedule = "zb-h1"},
    {.is_unfused = TRUE, .q_rank = -1, .tp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.is_unfused = TRUE, .q_rank = 384, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.dp = 2, .has_experts = TRUE},
    {.dp = 4, .ep = 2, .has_experts = TRUE},
    {.dp = 4, .ep = 4, .has_experts = TRUE, .zero = 1},
    {.dp = 4, .ep = 2, .has_experts = TRUE, .zero = 3},
    {.dp = 4, .ep = 2, .has_experts = TRUE, .recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_BIT(MODULE_MOE_ACT)},
    {.dp = 4, .ep = 2, .has_experts = TRUE, .recompute = RECOMPUTE_SELECTIVE, .modules = MODULE_BIT(MODULE_MOE)},
    {.tp = 2,
     .sequence_parallel = TRUE,
     .has_experts = TRUE,
     .recompute = RECOMPUTE_SELECTIVE,
     .modules = MODULE_BIT(MODULE_LAYERNORM) | MODULE_BIT(MODULE_MOE)},
    {.pp = 2,
     .schedule = "zb-h1",
     .has_experts = TRUE,
     .recompute = RECOMPUTE_SELECTIVE,
     .modules = MODULE_BIT(MODULE_MOE_ACT)},
    {.pp = 2,
     .schedule = "zb-h1",
     .has_experts = TRUE,
     .recompute = RECOMPUTE_SELECTIVE,
     .modules = MODULE_BIT(MODULE_MOE)},
    {.pp = 2, .chunks = 2, .schedule = "zb-v"},
    {.pp = 2, .chunks = 2, .schedule = "dualpipe"},
    {.pp = 2, .chunks = 2, .dp = 2, .ep = 2, .has_experts = TRUE, .schedule = "dualpipe-v"},
    {.pp = 2, .chunks = 2, .dp = 2, .has_experts = TRUE, .schedule = "dualpipe", .zero = 1},
    {.tp = 2, .dp = 2, .ep = 2, .sequence_parallel = TRUE, .has_experts = TRUE, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .ep = 2, .has_experts = TRUE},
    {.is_fp8 = TRUE, .dp = 2},
    {.is_fp8 = TRUE, .tp = 2, .recompute = RECOMPUTE_FULL},
    {.is_fp8 = TRUE, .is_unfused = TRUE, .pp = 2, .tp = 2, .schedule = "zb-h1"},
    {.is_fp8 = TRUE, .pp = 4, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.is_fp8 = TRUE, .beside = 1, .pp = 2, .schedule = "zb-h1"},
    {.is_fp8 = TRUE, .beside = 2, .pp = 2, .schedule = "zb-h1", .recompute = RECOMPUTE_FULL},
    {.is_fp8 = TRUE, .norms = NORMS_AROUND, .pp = 4, .schedule = "zb-h1"},
    {.is_fp8 = TRUE, .cp = 2, .cp_comm = CP_ULYSSES, .pp = 2, .schedule = "zb-h1"},
    {.is_fp8 = TRUE, .cp = 2},
};

static Plan *plan_of_case(const HeldCase *c) {
  Plan *plan =
      plan_of(MAX(c->tp, 1), c->sequence_parallel, c->is_unfused ? ATTENTION_UNFUSED : ATTENTION_FLASH, c->recompute);
  plan->pp = MAX(c->pp, 1);
  plan->chunks = MAX(c->chunks, 1);
  plan->dp = MAX(c->dp, 1);
  plan->cp = MAX(c->cp, 1);
  plan->ep = MAX(c->ep, 1);
  plan->gpus = plan->tp * plan->pp * plan->dp * plan->cp;
  plan->global_batch = plan->micro_batch * plan->dp * 8;
  plan->zero = c->zero;
  plan->mtp_layers = c->mtp_layers;
  plan->cp_comm = c->cp_comm;
  plan->recompute_modules = c->modules;
  plan->recompute_layers = c->group;
  plan->offload.optimizer = c->offloads ? TIER_HOST : TIER_GPU;
  plan->memory.selective = c->by_products ? SELECTIVE_PRODUCTS : SELECTIVE_SCORES;
  plan->precision = c->is_fp32 ? PRECISION_FP32 : c->is_fp8 ? PRECISION_FP8 : PRECISION_BF16;
  if (c->is_fp32)
    ck_assert(recipe_parse("fp32", &plan->recipe, NULL));
  plan->schedule = g_strdup(c->schedule);
  return plan;
}

/* Each copy in fp8 has its scale, in a place of 256 bytes: of what the linears read, and, for W, of their gradients.
 * The branches of a parallel block have one gradient, and may read the same. */
static void count_scales(const LocalSizes *local, PieceMemory *layer) {
  const gboolean is_full = local->method->recompute == RECOMPUTE_FULL;
  const int n_inputs = local->shared_norm ? 3 : 4, n_gradients = local->model->parallel_block ? 3 : 4;
  if (!local->casts)
    return;
  layer->saved_bytes += is_full ? 0 : 256 * n_inputs;
  layer->held_for_W += 256 * (n_gradients + (is_full ? n_inputs : 0));
}

/* What PieceMemory leaves out, as too little to count, or counts otherwise, in bytes of one micro-batch: two numbers of
 * 4 bytes for each row of a norm, and three for each of the loss; of experts a place and a weight of each choice in
 * place of the router's scores and table, and no weights of rows of their own where none leave their rank. Of latent
 * attention what all heads share is kept, or made again, beside what W reads, and not given back by I. A head that
 * predicts further has the small tensors of a layer, a loss and two norms. Transient tensors are not what a slot holds.
 */
static void count_small_tensors(Workload *workload) {
  const LocalSizes local = local_sizes_of(workload->model, workload->method);
  const double split = (double)local.split_tokens, tokens = (double)local.tokens;
  PieceMemory *layer = &workload->memory[PIECE_LAYER], *head = &workload->memory[PIECE_HEAD];
  double more = 4 * 2 * (double)(local.n_norms + local.n_post_norms) * split;
  if (local.n_experts > 0 && (plan_recompute_modules(workload->plan) & MODULE_BIT(MODULE_MOE)) == 0) {
    const gboolean rows_move = workload->plan->ep > 1 || plan_expert_tp(workload->plan) > 1;
    more += 2 * 4 * (double)local.routed_tokens - (local.element_bytes + 5) * split * workload->model->experts.n;
    more -= rows_move ? 0 : 4.0 * local.expert_rows;
  }
  const ModelLatent *latent = &workload->model->latent;
  const double shared = local.element_bytes * split * latent->rope_dim;
  more += 4 * split * ((latent->kv_rank > 0) + (latent->q_rank > 0));
  if (workload->plan->recompute == RECOMPUTE_FULL || workload->method->keeps_every_other_product) {
    layer->held_for_W += shared;
  } else {
    const gboolean is_made_again = (plan_recompute_modules(workload->plan) & MODULE_BIT(MODULE_MLA_UP_PROJ)) != 0;
    layer->saved_bytes += more;
    layer->released_by_I += more - (is_made_again ? 0 : shared);
    layer->held_for_W += is_made_again ? shared : 0;
  }
  const gboolean is_full = workload->plan->recompute == RECOMPUTE_FULL;
  const double of_loss = 4 * (2 * split + 3 * tokens), further = workload->plan->mtp_layers;
  const double of_head = of_loss + further * (of_loss + 2 * 4 * 2 * split + (is_full ? 0 : more));
  head->saved_bytes += of_head;
  head->released_by_I += of_head - (is_full ? 0 : further * shared);
  head->held_for_W += is_full ? further * shared : 0;
  count_scales(&local, layer);
  for (int piece = 0; piece < N_PIECES; piece++)
    workload->memory[piece].transient_bytes = 0;
}

/* --- held and told --- */

/* Compute ops of a rank run in list order, and they alone change what activations take. */
static double most_activations(const Program *program, int pp) {
  double held = 0, most = 0;
  for (int i = 0; i < program->ranks[pp].n_ops; i++) {
    const Effect *effect = &g_array_index(program->effects, Effect, program->ranks[pp].ops[i].effect);
    held += effect->hold[MEMORY_ACTIVATIONS];
    most = MAX(most, held);
    held -= effect->drop[MEMORY_ACTIVATIONS];
  }
  ck_assert_double_eq(held, 0);
  return most;
}

/* Context parallel buffers stand one behind the other before the logits. */
static double context_bytes(const Activations *activations) {
  const ContextScratch *context = &activations->context;
  const char *first = context->kv[0] != NULL ? context->kv[0] : context->sent;
  return first != NULL ? (double)(activations->logits - first) : 0;
}

typedef struct {
  double held[N_MEMORY];
  double context; /* buffers of cp, dO and this rank's dQ, dK and dV */
} Held;

static gboolean look(Trainer *trainer, int step, gpointer data, GError **error) {
  const Parameters *parameters = trainer->parameters;
  const LocalSizes *local = &parameters->local;
  Held *held = data;
  if (step < trainer->program->n_steps)
    return TRUE;
  for (int i = 0; i < parameters->n_blocks; i++) {
    const Block *block = &parameters->blocks[i];
    held->held[MEMORY_WEIGHTS] += size_of(block->weight);
    held->held[MEMORY_GRADIENTS] += size_of(block->gradient);
    held->held[MEMORY_OPTIMIZER] += size_of(block->kept.master) + size_of(block->kept.m) + size_of(block->kept.v);
  }
  held->held[MEMORY_ACTIVATIONS] = (double)trainer->activations.most_bytes;
  held->context = context_bytes(&trainer->activations) +
                  local->element_bytes * local->tokens * (2 * local->q_width + 2 * local->kv_width);
  return TRUE;
}

static Held run_rank(const Workload *workload, const Program *program, int rank) {
  Held held = {0};
  const Execution execution = {.workload = workload,
                               .program = program,
                               .world = world,
                               .rank = rank,
                               .device = &counting_device,
                               .comm = &null_comm,
                               .capacity_bytes = G_GINT64_CONSTANT(1) << 40,
                               .training = training_default(),
                               .hook = look,
                               .hook_data = &held};
  ExecutionResult result;
  g_autoptr(GError) error = NULL;
  ck_assert_msg(execute(&execution, &result, &error), "%s", error ? error->message : "");
  execution_result_clear(&result);
  g_hash_table_remove_all(sizes);
  return held;
}

static Workload *workload_of_case(const HeldCase *c) {
  Model model = llama;
  model.n_next_layers = c->mtp_layers;
  model.parallel_block = c->beside > 0;
  model.post_norms = c->norms == NORMS_AROUND;
  model.norms_behind = c->norms == NORMS_BEHIND;
  model.capped_logits = c->norms == NORMS_AROUND; /* Gemma 2 */
  model.n_norms_per_layer = c->beside > 0 ? c->beside : 2;
  if (c->q_rank != 0) {
    model.n_kv_heads = model.n_heads;
    model.head_dim = 96;
    model.latent = (ModelLatent){.kv_rank = 256, .q_rank = MAX(c->q_rank, 0), .rope_dim = 32, .v_head_dim = 64};
  }
  if (c->has_experts)
    model.experts = (ModelExperts){.n = 16, .per_token = 4, .ffn_hidden = 704, .every = 1};
  g_autoptr(Plan) plan = plan_of_case(c);
  g_autoptr(GError) error = NULL;
  Workload *workload = workload_complete(&model, NULL, plan, &error);
  ck_assert_msg(workload != NULL, "case %d: %s", (int)(c - cases), error ? error->message : "");
  return workload;
}

LOOP_TEST(a_rank_holds_what_the_program_says, G_N_ELEMENTS(cases)) {
  const char *const names[] = {"weights", "gradients", "optimizer", "activations"};
  g_autoptr(Workload) workload = workload_of_case(&cases[_i]);
  count_small_tensors(workload);
  g_autoptr(GError) error = NULL;
  g_autoptr(Program) program = program_of_plan(workload, &error);
  ck_assert_msg(program != NULL, "case %d: %s", _i, error ? error->message : "");
  for (int rank = 0; rank < workload->plan->gpus; rank++) {
    const int pp = layout_coordinates(&workload->layout, rank).at[AXIS_PP];
    const Held held = run_rank(workload, program, rank);
    const double *resident = program->ranks[pp].resident;
    const double told[] = {[MEMORY_WEIGHTS] = resident[MEMORY_WEIGHTS],
                           [MEMORY_GRADIENTS] = resident[MEMORY_GRADIENTS],
                           [MEMORY_OPTIMIZER] = resident[MEMORY_OPTIMIZER],
                           [MEMORY_ACTIVATIONS] = most_activations(program, pp)};
    for (int category = 0; category <= MEMORY_ACTIVATIONS; category++)
      ck_assert_msg(held.held[category] == told[category], "case %d, rank %d: %.0f bytes of %s, told %.0f", _i, rank,
                    held.held[category], names[category], told[category]);
  }
}

/* With few MLP columns these are the widest thing of backward. A ring has, besides, the log-sum-exps of a block while
 * forward runs: 4 bytes for each row of each head. */
TEST(buffers_of_cp_are_as_large_as_the_program_s) {
  for (int comm = 0; comm < N_CP_COMMS; comm++)
    for (int cp = 2; cp <= 16; cp *= 2)
      for (int tp = 1; tp <= 2 && cp * tp <= 16; tp++) {
        const HeldCase c = {.cp = cp, .tp = tp, .cp_comm = (CpComm)comm};
        Model narrow = llama;
        narrow.ffn_hidden = 128;
        g_autoptr(Plan) plan = plan_of_case(&c);
        ck_assert(plan_complete(plan, &narrow, NULL, NULL));
        g_autoptr(Workload) workload = workload_new(&narrow, plan, NULL);
        g_autoptr(Program) program = program_of_plan(workload, NULL);
        const LocalSizes local = local_sizes_of(&narrow, method_of(plan));
        const double row_sums = comm == CP_RING ? 4.0 * local.sequences * local.heads * local.seq_len : 0;
        const Held held = run_rank(workload, program, plan->gpus - 1);
        ck_assert_double_eq(held.context - row_sums, workload->memory[PIECE_LAYER].transient_bytes);
      }
}

int main(int argc, char **argv) {
  g_autoptr(GError) error = NULL;
  world = world_open(&argc, &argv, 10, &error);
  if (world == NULL)
    return 2;
  sizes = g_hash_table_new(g_direct_hash, g_direct_equal);
  counting_device = null_device;
  counting_device.open = open_counting;
  counting_device.allocate = allocate_counted;
  const int failed = run_case_here("held_memory", listed_tests());
  g_hash_table_unref(sizes);
  return world_close(world, failed);
}
