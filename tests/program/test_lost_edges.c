/* The verifier on generated Programs: unchanged they pass; with one wait removed, or the size of a transfer changed,
 * they are refused. */
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <string.h>

#include "lowering.h"
#include "plan.h"
#include "plan_cases.h"
#include "program_sizes.h"
#include "verify.h"

enum { N_SEEDS = 400, N_LEAST = 2, N_SIZED = 100, MOST_OPS = 250 };

/* Op `waits` waits for op `awaited`, in front of it. Where nothing else makes it wait, the Program is wrong without. */
typedef struct {
  ActionKind waits, awaited;
  int n_seen;
} Edge;

static Edge edges[] = {
    {ACTION_F, ACTION_UNSHARD},
    {ACTION_B, ACTION_UNSHARD},
    {ACTION_I, ACTION_UNSHARD},
    {ACTION_UNSHARD, ACTION_FETCH},
    {ACTION_UNSHARD, ACTION_OPTIMIZER},
    {ACTION_SYNC, ACTION_UNSHARD},
    {ACTION_SYNC, ACTION_OPTIMIZER},
    {ACTION_NORM, ACTION_W},
    {ACTION_NORM, ACTION_B},
    {ACTION_NORM, ACTION_WHOLE_GRAD},
    {ACTION_OPTIMIZER, ACTION_NORM},
    {ACTION_OPTIMIZER, ACTION_REDUCE_GRAD},
    {ACTION_OPTIMIZER, ACTION_TIED_GRAD},
    {ACTION_OPTIMIZER, ACTION_COPY_GRAD},
    {ACTION_OPTIMIZER, ACTION_WHOLE_GRAD},
    {ACTION_OPTIMIZER, ACTION_GRAD_OUT},
    {ACTION_OPTIMIZER, ACTION_STATE_READ},
    {ACTION_STATE_READ, ACTION_GRAD_OUT},
    {ACTION_REDUCE_GRAD, ACTION_B},
    {ACTION_REDUCE_GRAD, ACTION_W},
    {ACTION_GRAD_OUT, ACTION_REDUCE_GRAD},
    {ACTION_SEND_F, ACTION_F},
    {ACTION_SAVED_OUT, ACTION_F},
    {ACTION_SAVED_IN, ACTION_SAVED_OUT},
    {ACTION_B, ACTION_SAVED_IN},
    {ACTION_I, ACTION_SAVED_IN},
};

static void draw_offload(GRand *rand, Plan *plan) {
  plan->offload.optimizer = (MemoryTier)g_rand_int_range(rand, TIER_HOST, N_TIERS);
  if (plan->zero == 3)
    plan->offload.weights = (MemoryTier)g_rand_int_range(rand, TIER_GPU, N_TIERS);
  plan->offload.activations = (MemoryTier)g_rand_int_range(rand, TIER_GPU, TIER_NVME);
  if (plan->offload.optimizer == TIER_HOST && plan->offload.weights == TIER_GPU && g_rand_boolean(rand))
    plan->offload.share = 0.5;
  plan->bucket_parameters = 3000000;
}

static Plan *draw_plan(GRand *rand, Model *model) {
  Plan *plan = plan_new();
  *model = random_model(rand);
  model->n_layers = g_rand_int_range(rand, 2, 5);
  const char *const *names = schedule_names();
  const ScheduleFacts *info = schedule_find(names[g_rand_int_range(rand, 0, (int)g_strv_length((char **)names))], NULL);
  g_free(plan->schedule);
  plan->schedule = g_strdup(info->name);
  plan->tp = PICK(rand, 1, 1, 2);
  plan->pp = PICK(rand, 1, 2, 2);
  plan->dp = PICK(rand, 1, 2, 2, 4);
  plan->chunks = CLAMP(g_rand_int_range(rand, 1, 3), info->least_chunks, info->most_chunks);
  plan->gpus = plan->tp * plan->pp * plan->dp;
  model->n_layers = MAX(model->n_layers, plan->pp * plan->chunks);
  draw_sharding(rand, plan);
  plan->global_batch = plan->dp * g_rand_int_range(rand, 1, 5);
  plan->steps = g_rand_int_range(rand, 1, 3);
  plan->sequence_parallel = plan->tp > 1 && coin(rand);
  if (g_rand_int_range(rand, 0, 3) == 0)
    draw_offload(rand, plan);
  if (g_rand_int_range(rand, 0, 4) == 0 && !model->parallel_block) {
    model->experts = (ModelExperts){.n = 8, .per_token = 2, .ffn_hidden = 512, .every = 1};
    plan->ep = PICK(rand, 1, 2);
  }
  return plan;
}

typedef struct {
  Model model;
  Plan *plan;
  Workload *workload;
  Program *program, *expanded; /* NULL: the plan cannot be */
} Drawn;

static void drawn_clear(Drawn *drawn) {
  program_free(drawn->program);
  program_free(drawn->expanded);
  workload_free(drawn->workload);
  plan_free(drawn->plan);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Drawn, drawn_clear)

static void draw(guint seed, Drawn *drawn) {
  g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
  *drawn = (Drawn){.plan = NULL};
  drawn->plan = draw_plan(rand, &drawn->model);
  drawn->workload = workload_complete(&drawn->model, NULL, drawn->plan, NULL);
  g_autoptr(Order) order = drawn->workload != NULL ? method_order(drawn->workload->method, NULL) : NULL;
  if (order == NULL)
    return;
  const Lowering lowering = {.order = order, .workload = drawn->workload, .n_steps = drawn->workload->method->steps};
  g_autoptr(GError) error = NULL;
  drawn->program = lower(&lowering, NULL, NULL, &error);
  ck_assert_msg(drawn->program != NULL, "seed %u: %s", seed, error != NULL ? error->message : "");
  drawn->expanded = program_expand(drawn->program, drawn->workload);
}

static void assert_taken(const Drawn *drawn, const Program *program, guint seed) {
  g_autoptr(GError) error = NULL;
  const gboolean is_taken =
      program_verify_given(program, &error) && program_sizes_check(program, drawn->workload, &error);
  ck_assert_msg(is_taken, "seed %u: %s", seed, error != NULL ? error->message : "");
}

/* Whether something makes op i wait for op `source` of the list all the same: backwards from i, what has to have ended.
 */
static gboolean waits_anyway(const OpList *list, gint32 i, gint32 source) {
  g_autofree gboolean *has_ended = g_new0(gboolean, i + 1);
  has_ended[i] = TRUE;
  for (gint32 k = i; k > source; k--) {
    if (!has_ended[k])
      continue;
    gboolean has_stream = FALSE, has_host = FALSE;
    for (gint32 before = k - 1; before >= source && !(has_stream && has_host); before--) {
      const gboolean is_before = !has_stream && list->ops[before].stream == list->ops[k].stream;
      const gboolean is_host = !has_host && list->ops[before].stream == STREAM_HOST;
      has_ended[before] |= is_before || is_host;
      has_stream |= is_before;
      has_host |= is_host;
    }
    for (int a = 0; a < OP_MAX_AFTER && list->ops[k].after[a] >= 0; a++)
      has_ended[list->ops[k].after[a]] = TRUE;
  }
  return has_ended[source];
}

static Edge *edge_of(const OpList *list, const Op *op, gint32 source) {
  for (gsize i = 0; op->kind != OP_COLLECTIVE || op->action > ACTION_B ? i < G_N_ELEMENTS(edges) : FALSE; i++)
    if (edges[i].waits == op->action && edges[i].awaited == list->ops[source].action)
      return &edges[i];
  return NULL;
}

static void assert_missed(Program *program, int rank, gint32 i, int a, guint seed) {
  const OpList *list = &program->ranks[rank];
  Op *op = &list->ops[i];
  const Op kept = *op;
  const gint32 source = kept.after[a];
  Edge *edge = edge_of(list, op, source);
  if (edge == NULL)
    return;
  for (int k = a; k + 1 < OP_MAX_AFTER; k++)
    op->after[k] = kept.after[k + 1];
  op->after[OP_MAX_AFTER - 1] = -1;
  if (!waits_anyway(list, i, source)) {
    edge->n_seen++;
    if (program_verify(program, NULL))
      ck_abort_msg("seed %u: rank %d, op %d (%s) does not wait for op %d (%s), and is taken", seed, rank, i,
                   action_info(op->action)->name, source, action_info(list->ops[source].action)->name);
  }
  *op = kept;
}

TEST(every_wait_is_missed) {
  for (guint seed = 0; seed < N_SEEDS; seed++) {
    g_auto(Drawn) drawn;
    draw(seed, &drawn);
    Program *program = drawn.program;
    if (program == NULL)
      continue;
    assert_taken(&drawn, program, seed);
    assert_taken(&drawn, drawn.expanded, seed);
    for (int rank = 0; rank < program->n_ranks; rank++)
      for (gint32 i = 0; program->ranks[rank].n_ops <= MOST_OPS && i < program->ranks[rank].n_ops; i++)
        for (int a = 0; a < OP_MAX_AFTER && program->ranks[rank].ops[i].after[a] >= 0; a++)
          assert_missed(program, rank, i, a, seed);
  }
  for (gsize i = 0; i < G_N_ELEMENTS(edges); i++)
    ck_assert_msg(edges[i].n_seen >= N_LEAST, "%s waits for %s %d times", action_info(edges[i].waits)->name,
                  action_info(edges[i].awaited)->name, edges[i].n_seen);
}

/* Between GPUs, and of weights to them. */
static gboolean is_sized(const Op *op) {
  return op->kind == OP_SEND || (op->kind == OP_COLLECTIVE && op->stream < STREAM_COPY) || op->action == ACTION_FETCH;
}

static void assert_sized(const Drawn *drawn, Program *program, guint seed) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    for (gint32 i = 0; i < program->ranks[rank].n_ops; i++) {
      const Op *op = &program->ranks[rank].ops[i];
      if (!is_sized(op))
        continue;
      Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work), kept = *transfer;
      transfer->bytes *= 1.01;
      ck_assert_msg(kept.bytes == 0 || !program_sizes_check(program, drawn->workload, NULL),
                    "seed %u: rank %d, op %d (%s) moves more than it should, and is taken", seed, rank, i,
                    action_info(op->action)->name);
      *transfer = kept;
      transfer->collective = kept.collective == COLLECTIVE_ALL_REDUCE ? COLLECTIVE_ALL_GATHER : COLLECTIVE_ALL_REDUCE;
      ck_assert_msg(kept.group < 0 || op->action == ACTION_FETCH ||
                        !program_sizes_check(program, drawn->workload, NULL),
                    "seed %u: rank %d, op %d (%s) is of another kind, and is taken", seed, rank, i,
                    action_info(op->action)->name);
      *transfer = kept;
    }
}

TEST(every_transfer_is_of_its_kind_and_size) {
  for (guint seed = 0; seed < N_SIZED; seed++) {
    g_auto(Drawn) drawn;
    draw(seed, &drawn);
    if (drawn.program == NULL || drawn.program->ranks[0].n_ops > MOST_OPS)
      continue;
    assert_sized(&drawn, drawn.program, seed);
    if (drawn.expanded->ranks[0].n_ops <= MOST_OPS)
      assert_sized(&drawn, drawn.expanded, seed);
  }
}

int main(void) {
  return run_tests();
}
