/* The lowering passes, by example and by property. The examples are the texts of small programs after each pass, in
 * tests/data/passes: read them along with passes.h. STEPSIM_UPDATE_GOLDEN=1 rewrites them; review the difference. */
#include "effect_chains.h"
#include "error.h"
#include "run_suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#include "case_clusters.h"
#include "lowering.h"
#include "order_run.h"
#include "passes.h"
#include "plan.h"
#include "verify.h"

/* --- examples --- */

typedef struct {
  const char *name; /* of the file */
  gboolean is_bare; /* an order alone */
  int pp, dp, n_micro_batches, zero, zero_ranks, prefetch, steps;
  gboolean overlap;
  Offload offload;
  gboolean moves_tensors; /* under ZeRO-3; more than are kept gathered */
  double bucket;          /* … in gathers of so many parameters; 0: each in one */
} Example;

static const Example examples[] = {
    {"bare-1f1b", .is_bare = TRUE, .pp = 2, .dp = 1, .n_micro_batches = 2, .steps = 2},
    {"pp2-dp2-zero1", .pp = 2, .dp = 2, .n_micro_batches = 2, .zero = 1, .steps = 1, .overlap = TRUE},
    {"pp2-dp2-zero0-late", .pp = 2, .dp = 2, .n_micro_batches = 2, .steps = 1},
    {"dp4-zero2-shards2-late", .pp = 1, .dp = 4, .n_micro_batches = 2, .zero = 2, .zero_ranks = 2, .steps = 1},
    {"dp2-zero3-prefetch1", .pp = 1, .dp = 2, .n_micro_batches = 2, .zero = 3, .prefetch = 1, .steps = 1,
     .overlap = TRUE},
    {"dp2-zero3-tensors", .pp = 1, .dp = 2, .n_micro_batches = 1, .zero = 3, .prefetch = 1, .steps = 1, .overlap = TRUE,
     .moves_tensors = TRUE},
    {"dp2-zero3-buckets", .pp = 1, .dp = 2, .n_micro_batches = 2, .zero = 3, .prefetch = 1, .steps = 1, .overlap = TRUE,
     .moves_tensors = TRUE, .bucket = 1e5},
    {"dp1-zero2-offload", .pp = 1, .dp = 1, .n_micro_batches = 2, .zero = 2, .steps = 1, .overlap = TRUE,
     .offload = {.optimizer = TIER_HOST, .activations = TIER_HOST}},
    {"dp2-zero3-offload", .pp = 1, .dp = 2, .n_micro_batches = 1, .zero = 3, .prefetch = 1, .steps = 1, .overlap = TRUE,
     .offload = {.optimizer = TIER_NVME, .weights = TIER_NVME}},
};

static char *dump_bare(const Example *example, const char *pass) {
  g_autoptr(Order) order =
      order_new(schedule_find("1f1b", NULL), (OrderShape){example->pp, 1, example->n_micro_batches, 0}, NULL);
  StageTimes times = {1, 1, 1};
  char *dump = NULL;
  g_autoptr(OrderRun) run = order_run_new(order, &times, example->steps, pass, &dump, NULL);
  ck_assert_ptr_nonnull(run);
  return dump;
}

static char *dump_plan(const Example *example, const char *pass) {
  g_autoptr(Model) model = read_model(CASES_FIXTURES "/toy.json");
  g_autoptr(Cluster) cluster = read_cluster("selene");
  g_autoptr(Plan) plan = plan_new();
  plan->pp = example->pp;
  plan->dp = example->dp;
  plan->global_batch = example->n_micro_batches * example->dp;
  plan->zero = example->zero;
  plan->zero_ranks = example->zero_ranks;
  plan->prefetch = example->prefetch;
  plan->overlap_grad = plan->overlap_param = plan->overlap_p2p = example->overlap;
  /* every piece a bucket, but not every parameter a chunk of the host's update */
  plan->bucket_parameters = offload_is_any(&example->offload) ? 300000 : 1;
  plan->steps = example->steps;
  plan->time.zero3.moves_tensors = example->moves_tensors;
  plan->time.zero3.gather_bucket = plan->time.zero3.reduce_bucket = example->bucket;
  plan->time.zero3.vectors = example->bucket > 0 ? VECTORS_KEPT : VECTORS_SHARDED;
  plan->recompute = example->moves_tensors ? RECOMPUTE_FULL : plan->recompute;
  plan->offload = example->offload;
  g_autoptr(GError) error = NULL;
  char *dump = predict_dump(model, cluster, plan, pass, &error);
  ck_assert_msg(dump != NULL, "%s", error != NULL ? error->message : "");
  return dump;
}

/* The texts after each pass; owned by the caller. */
static char *story_of(const Example *example) {
  g_autoptr(GString) story = g_string_new(NULL);
  g_autofree char *before = NULL;
  for (const Pass *pass = passes(); pass->name != NULL; pass++) {
    char *dump = example->is_bare ? dump_bare(example, pass->name) : dump_plan(example, pass->name);
    gboolean is_same = g_strcmp0(before, dump) == 0;
    g_string_append_printf(story, "# after %s: %s\n%s", pass->name, pass->summary,
                           is_same ? "# nothing to do\n" : dump);
    g_free(before);
    before = dump;
  }
  return g_string_free(g_steal_pointer(&story), FALSE);
}

/* Number of the first line in which the texts differ. */
static int first_difference(const char *a, const char *b) {
  int line = 1;
  for (; *a != '\0' && *a == *b; a++, b++)
    line += *a == '\n';
  return line;
}

/* Check's loop variable _i is the example. */
LOOP_TEST(small_programs_are_lowered_as_written_down, G_N_ELEMENTS(examples)) {
  const Example *example = &examples[_i];
  g_autofree char *file = g_strconcat(CASES_FIXTURES, "/passes/", example->name, ".txt", NULL);
  g_autofree char *story = story_of(example), *golden = NULL;
  if (g_strcmp0(g_getenv("STEPSIM_UPDATE_GOLDEN"), "1") == 0)
    ck_assert(g_file_set_contents(file, story, -1, NULL));
  ck_assert_msg(g_file_get_contents(file, &golden, NULL, NULL), "%s is not there", file);
  ck_assert_msg(strcmp(story, golden) == 0,
                "%s:%d is no longer what the passes make; if that is right, run this test with STEPSIM_UPDATE_GOLDEN=1",
                file, first_difference(story, golden));
}

/* --- properties --- */

enum { N_PLANS = 200, MAX_GPUS = 64 };

static double relative_difference(double a, double b) {
  return fabs(a - b) / MAX(MAX(fabs(a), fabs(b)), 1e-300);
}

static const Effect *effect_of(const Program *program, const Op *op) {
  return &g_array_index(program->effects, Effect, op->effect);
}

static const Transfer *transfer_of(const Program *program, const Op *op) {
  return &g_array_index(program->transfers, Transfer, op->work);
}

/* Folded without contention, which takes some programs apart by itself. All is trained, as what is counted here is all
 * of a stage's. */
static Case draw_whole(guint seed) {
  Case drawn = random_case(seed, clusters, MAX_GPUS);
  drawn.plan->training = (TrainedParts){0};
  drawn.plan->contention = FALSE;
  return drawn;
}

TEST(lowered_and_expanded_programs_can_run) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    drawn.plan->steps = 1 + (int)(seed % 3);
    g_autoptr(GError) error = NULL;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autoptr(Program) expanded = program_expand(prediction->program, prediction->workload);
    g_autofree char *text = case_text(&drawn);
    ck_assert_msg(program_verify(prediction->program, &error), "%s\n%s", text, error ? error->message : "");
    ck_assert_msg(program_verify(expanded, &error), "%s\nexpanded: %s", text, error ? error->message : "");
  }
}

/* Bytes held less bytes dropped by the ops of one step, by category; and all held. */
static void sum_effects(const Program *program, int rank, int step, double left[N_MEMORY], double held[N_MEMORY]) {
  memset(left, 0, sizeof(double) * N_MEMORY);
  memset(held, 0, sizeof(double) * N_MEMORY);
  const OpList *list = &program->ranks[rank];
  for (int i = 0; i < list->n_ops; i++)
    for (int c = 0; list->ops[i].step == step && c < N_MEMORY; c++) {
      const Effect *effect = effect_of(program, &list->ops[i]);
      left[c] += effect->hold[c] - effect->drop[c];
      held[c] += effect->hold[c];
    }
}

TEST(what_a_step_holds_it_drops) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    drawn.plan->steps = 2;
    drawn.plan->fold = seed % 2 == 0;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    double total_held = 0;
    for (int rank = 0; rank < drawn.plan->pp; rank++)
      for (int step = 0; step < 2; step++) {
        double left[N_MEMORY], held[N_MEMORY];
        sum_effects(prediction->program, rank, step, left, held);
        g_autofree char *text = case_text(&drawn);
        total_held += held[MEMORY_ACTIVATIONS];
        for (int c = 0; c < N_MEMORY; c++)
          ck_assert_msg(fabs(left[c]) <= 1e-9 * held[c], "%s\nrank %d, step %d: %g of %g bytes of %s left", text, rank,
                        step, left[c], held[c], memory_category_name(c));
      }
    ck_assert_double_gt(total_held, 0);
  }
}

/* The embedding's backward is followed by that of a head that looks words up in its table: the table's gradient is held
 * from the one to its reduction behind the other. */
TEST(a_gradient_that_heads_still_add_to_is_held) {
  g_autoptr(Model) model = read_model(CASES_FIXTURES "/models/tiny-deepseek.json");
  g_autoptr(Cluster) cluster = read_cluster("selene");
  g_autoptr(Plan) plan = plan_new();
  plan->schedule = g_strdup("file:" CASES_FIXTURES "/heads-last.csv");
  plan->mtp_layers = 1;
  plan->dp = plan->global_batch = plan->zero = 2;
  g_autoptr(GError) error = NULL;
  g_autoptr(Prediction) prediction = predict(model, cluster, plan, &error);
  ck_assert_msg(prediction != NULL, "%s", error != NULL ? error->message : "");
  const Program *program = prediction->program;
  const Op *ops = program->ranks[0].ops;
  int n_tables = 0;
  for (int i = 0; i < program->ranks[0].n_ops; i++) {
    const Op *op = &ops[i];
    if (op->action != ACTION_REDUCE_GRAD)
      continue;
    const Transfer *transfer = &g_array_index(program->transfers, Transfer, op->work);
    if (transfer->n_embedding == 0 || transfer->of_experts)
      continue;
    const Op *embedding = &ops[op->after[0]], *head = &ops[op->after[1]];
    ck_assert(embedding->action == ACTION_B && embedding->stage == 0);
    ck_assert(head->action == ACTION_W && head->stage == 1);
    const Effect *holds = &g_array_index(program->effects, Effect, embedding->effect);
    const Effect *drops = &g_array_index(program->effects, Effect, op->effect);
    ck_assert_double_gt(holds->hold[MEMORY_BUFFERS], 0);
    ck_assert_double_eq(holds->hold[MEMORY_BUFFERS], drops->drop[MEMORY_BUFFERS]);
    n_tables++;
  }
  ck_assert_int_eq(n_tables, 1);
}

/* --- the table that embedding and head share --- */

/* Whether the op reads the table, or (of its gradient) adds to it. */
static gboolean is_of_table(const Program *program, const Op *op, gboolean adds) {
  if (op->kind != OP_COMPUTE || op->action > ACTION_B)
    return FALSE;
  const Work *work = &g_array_index(program->works, Work, op->work);
  const gboolean completes = op->action == ACTION_W || op->action == ACTION_B;
  const gboolean reads = op->action == ACTION_F || (op->action != ACTION_W && work->n_head > 0);
  return work->n_embedding + work->n_head > 0 && (adds ? completes : reads);
}

/* [ops] bytes in buffers while each op runs, if ops run in list order; owned by the caller. */
static double *buffers_of(const Program *program, int rank) {
  const OpList *list = &program->ranks[rank];
  double *held = g_new(double, list->n_ops), now = 0;
  for (int i = 0; i < list->n_ops; i++) {
    const Effect *effect = effect_of(program, &list->ops[i]);
    held[i] = now + effect->hold[MEMORY_BUFFERS];
    now = held[i] - effect->drop[MEMORY_BUFFERS];
  }
  return held;
}

/* Bytes of the table, as gathered, and of its gradient before its reduction. */
typedef struct {
  double weights, gradient;
} TableBytes;

/* The table is held while an op reads it, and what is added to its gradient until its next reduction, in list order. */
static void assert_table_is_held(const Case *drawn, const Program *program, int rank, TableBytes table) {
  const OpList *list = &program->ranks[rank];
  g_autofree double *held = buffers_of(program, rank);
  g_autofree char *text = case_text(drawn);
  gboolean is_added = FALSE;
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    is_added |= is_of_table(program, op, TRUE);
    const double least = (is_of_table(program, op, FALSE) ? table.weights : 0) + (is_added ? table.gradient : 0);
    ck_assert_msg(held[i] >= least, "%s\nrank %d, op %d: %g bytes in buffers, %g of the table", text, rank, i, held[i],
                  least);
    if (op->action == ACTION_REDUCE_GRAD && transfer_moves_table(transfer_of(program, op), drawn->model.tied))
      is_added = FALSE;
  }
}

static double most_buffers(const Program *program, int rank) {
  g_autofree double *held = buffers_of(program, rank);
  double most = 0;
  for (int i = 0; i < program->ranks[rank].n_ops; i++)
    most = MAX(most, held[i]);
  return most;
}

/* Embedding and head of a rank have one table and one gradient of it, however many micro-batches are in flight: buffers
 * hold at most that more than if each had its own, which is there only while it is used. */
TEST(a_shared_table_is_held_once) {
  int n_seen = 0;
  for (guint seed = 0; n_seen < N_PLANS; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_auto(Case) drawn = draw_whole(seed);
    draw_schedule(rand, &drawn);
    if (drawn.plan->zero < 2 || drawn.plan->zero_ranks == 1)
      continue;
    drawn.model.tied = FALSE;
    g_autoptr(Prediction) apart = predict_case(&drawn);
    drawn.model.tied = TRUE;
    g_autoptr(Prediction) shared = predict_case(&drawn);
    const double parameters = (double)shared->workload->shared_parameters;
    if (parameters == 0)
      continue;
    const TableBytes table = {drawn.plan->zero == 3 ? parameters * drawn.plan->recipe.weights : 0,
                              parameters * drawn.plan->recipe.gradients};
    g_autofree char *text = case_text(&drawn);
    for (int rank = 0; rank < drawn.plan->pp; rank++) {
      const double more = most_buffers(shared->program, rank) - most_buffers(apart->program, rank);
      ck_assert_msg(more <= table.weights + table.gradient, "%s\nrank %d: %g bytes more in buffers", text, rank, more);
      assert_table_is_held(&drawn, shared->program, rank, table);
    }
    n_seen++;
  }
}

/* Likewise the gradient of a table that heads that predict further look words up in. */
TEST(the_gradient_of_a_table_that_heads_read_is_held_until_reduced) {
  for (guint seed = 0, n_seen = 0; n_seen < N_PLANS / 4; seed++) {
    g_autoptr(GRand) rand = g_rand_new_with_seed(seed);
    g_auto(Case) drawn = draw_whole(seed);
    drawn.model.tied = drawn.model.parallel_block = FALSE;
    drawn.model.n_next_layers = drawn.plan->mtp_layers = 1;
    draw_schedule(rand, &drawn);
    g_autoptr(Prediction) prediction = predict(&drawn.model, drawn.cluster, drawn.plan, NULL);
    if (prediction == NULL || drawn.plan->zero < 2 || drawn.plan->zero_ranks == 1)
      continue;
    const double parameters = lowering_common_table(prediction->workload);
    const TableBytes table = {0, parameters * drawn.plan->recipe.gradients};
    for (int rank = 0; rank < drawn.plan->pp && parameters > 0; rank++)
      assert_table_is_held(&drawn, prediction->program, rank, table);
    n_seen += parameters > 0;
  }
}

static int order_in_flight(const GArray *actions) {
  int now = 0, peak = 0;
  for (guint i = 0; i < actions->len; i++) {
    now += g_array_index(actions, Action, i).kind == ACTION_F ? 1 : -1;
    peak = MAX(peak, now);
  }
  return peak;
}

TEST(a_program_holds_as_many_micro_batches_as_its_order) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    drawn.plan->fold = seed % 2 == 0;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    const Plan *plan = drawn.plan;
    g_autoptr(Order) order = order_new(schedule_find(plan->schedule, NULL),
                                       (OrderShape){plan->pp, plan->chunks, (int)plan->n_micro_batches, 0}, NULL);
    g_autofree int *peak = g_new(int, plan->pp);
    metrics_in_flight(prediction->trace, peak);
    for (int rank = 0; rank < plan->pp; rank++)
      ck_assert_int_eq(peak[rank], order_in_flight(order->actions[rank]));
  }
}

static double total_flops(const Program *program, int rank) {
  const OpList *list = &program->ranks[rank];
  double flops = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE)
      flops += g_array_index(program->works, Work, list->ops[i].work).flops;
  return flops;
}

TEST(expanding_keeps_work_and_memory) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    drawn.plan->contention = FALSE; /* which expands some programs by itself */
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    g_autoptr(Program) expanded = program_expand(prediction->program, prediction->workload);
    g_autofree char *text = case_text(&drawn);
    for (int rank = 0; rank < drawn.plan->pp; rank++) {
      double flops = total_flops(prediction->program, rank), flops_after = total_flops(expanded, rank);
      ck_assert_msg(relative_difference(flops, flops_after) < 1e-12, "%s\nrank %d: %g and %g FLOPs", text, rank, flops,
                    flops_after);
      double left[N_MEMORY], held[N_MEMORY], left_after[N_MEMORY], held_after[N_MEMORY];
      sum_effects(prediction->program, rank, 0, left, held);
      sum_effects(expanded, rank, 0, left_after, held_after);
      for (int c = 0; c < N_MEMORY; c++)
        ck_assert_msg(relative_difference(held[c], held_after[c]) < 1e-12, "%s\nrank %d: %g and %g bytes of %s", text,
                      rank, held[c], held_after[c], memory_category_name(c));
    }
  }
}

/* Unfused attention is counted in full, as the convention of Megatron's papers has it; the vocabularies need no
 * padding; so the products of all ranks are the model's. */
TEST(a_program_does_the_model_s_products) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    drawn.plan->attention = ATTENTION_UNFUSED;
    drawn.plan->recompute = RECOMPUTE_NONE;
    drawn.plan->recompute_modules = 0;
    drawn.plan->recompute_layers = 0;
    drawn.plan->flops = FLOPS_MEGATRON;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    double flops = 0, expected = workload_model_flops(prediction->workload);
    for (int rank = 0; rank < drawn.plan->pp; rank++)
      flops += total_flops(prediction->program, rank) * drawn.plan->tp * drawn.plan->dp;
    g_autofree char *text = case_text(&drawn);
    ck_assert_msg(relative_difference(flops, expected) < 1e-9, "%s\n%g FLOPs, the model's %g", text, flops, expected);
  }
}

/* Bytes of a rank's ops with that action and collective. */
static double total_bytes(const Program *program, int rank, ActionKind action, Collective collective) {
  const OpList *list = &program->ranks[rank];
  double bytes = 0;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COLLECTIVE && list->ops[i].action == action &&
        transfer_of(program, &list->ops[i])->collective == collective)
      bytes += transfer_of(program, &list->ops[i])->bytes;
  return bytes;
}

static double rank_parameters(const Workload *workload, int rank) {
  gint64 parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank)
      parameters += workload->stages[stage].parameters;
  return (double)parameters;
}

static void assert_bytes(const Case *drawn, const char *what, double bytes, double expected) {
  if (relative_difference(bytes, expected) > 1e-9) {
    g_autofree char *text = case_text(drawn);
    ck_abort_msg("%s\n%s: %.0f bytes, expected %.0f", text, what, bytes, expected);
  }
}

/* Every parameter has one gradient. With S shards and R = dp/S copies of them:
 *
 *     ZeRO-0      all-reduce of g bytes each, once a step
 *     ZeRO-1      reduce-scatter of g each over the shards, then all-reduce of g/S each over the copies
 *     ZeRO-2, 3   the same for every micro-batch */
static void assert_reduced_once(const Case *drawn, const Prediction *prediction) {
  const Plan *plan = drawn->plan;
  const Workload *workload = prediction->workload;
  int shards = plan->zero > 0 ? plan->zero_ranks : 1, copies = plan->dp / shards;
  for (int rank = 0; rank < plan->pp; rank++) {
    const Program *program = prediction->program;
    double gradients = rank_parameters(workload, rank) * plan->recipe.gradients;
    gradients *= plan->zero >= 2 ? (double)workload->plan->n_micro_batches / workload->placement->n_pipes : 1;
    assert_bytes(drawn, "reduce-scatter", total_bytes(program, rank, ACTION_REDUCE_GRAD, COLLECTIVE_REDUCE_SCATTER),
                 shards > 1 ? gradients : 0);
    assert_bytes(drawn, "all-reduce", total_bytes(program, rank, ACTION_REDUCE_GRAD, COLLECTIVE_ALL_REDUCE),
                 copies > 1 ? gradients / shards : 0);
  }
}

TEST(every_gradient_is_reduced_once) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    assert_reduced_once(&drawn, prediction);
  }
}

/* The k-th sum over copies of a rank's list; NULL when there are no more. */
static const Op *copy_sum(const OpList *list, int k) {
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].action == ACTION_COPY_GRAD && k-- == 0)
      return &list->ops[i];
  return NULL;
}

/* Rank r holds stage r of one pipe and p + (p − 1 − r) of the other, rank p − 1 − r the copies of both: stages
 * p − 1 − r and p + r. So each rank has two sums, g/S bytes for each of its parameters in all, and the k-th on both
 * ranks are of stages that differ by p. A pipe's micro-batches are half of all (ZeRO-2, 3: as many reductions). */
TEST(both_copies_of_a_stage_are_summed_once) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    Plan *plan = drawn.plan;
    const int p = plan->pp;
    if (p % 2 != 0)
      continue;
    plan->chunks = 2;
    g_free(plan->schedule);
    plan->schedule = g_strdup("dualpipe");
    plan->global_batch = plan->micro_batch * plan->dp * 2 * p;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    const Program *program = prediction->program;
    assert_reduced_once(&drawn, prediction);
    for (int rank = 0; rank < p; rank++) {
      double gradients = rank_parameters(prediction->workload, rank) * plan->recipe.gradients;
      assert_bytes(&drawn, "copies", total_bytes(program, rank, ACTION_COPY_GRAD, COLLECTIVE_ALL_REDUCE),
                   gradients / (plan->zero > 0 ? plan->zero_ranks : 1));
      for (int k = 0; k < 2; k++) {
        const Op *own = copy_sum(&program->ranks[rank], k), *other = copy_sum(&program->ranks[p - 1 - rank], k);
        ck_assert(own != NULL && other != NULL && abs(own->stage - other->stage) == p && own->work == other->work);
      }
    }
  }
}

/* ZeRO-1 and 2 once a step, ZeRO-3 for every forward and every backward. */
TEST(every_parameter_is_gathered_once_a_pass) {
  for (guint seed = 0; seed < N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    const Plan *plan = drawn.plan;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    double n_passes = plan->zero == 3 ? 2.0 * (double)plan->n_micro_batches : 1;
    for (int rank = 0; rank < plan->pp; rank++) {
      double weights = rank_parameters(prediction->workload, rank) * plan->recipe.weights;
      assert_bytes(&drawn, "all-gather", total_bytes(prediction->program, rank, ACTION_UNSHARD, COLLECTIVE_ALL_GATHER),
                   plan->zero > 0 && plan->zero_ranks > 1 ? n_passes * weights : 0);
    }
  }
}

/* The gather an op waits for; −1 none. */
static gint32 gather_of(const OpList *list, const Op *op) {
  for (int i = 0; i < OP_MAX_AFTER && op->after[i] >= 0; i++)
    if (list->ops[op->after[i]].action == ACTION_UNSHARD)
      return op->after[i];
  return -1;
}

/* The backward of an embedding whose matrix the head has gathered, and that has no positions. */
static gboolean needs_no_gather(const Case *drawn, const Program *program, const Op *op) {
  const Work *work = &g_array_index(program->works, Work, op->work);
  return op->action == ACTION_B && work->n_embedding > 0 && work->n_layers + work->n_head == 0 && drawn->model.tied &&
         drawn->model.positions != POSITIONS_LEARNED && drawn->plan->pp == 1;
}

/* Each F, I and B piece waits for its own gather, the k-th for the k-th; and that waits for piece k − w − 1, w the
 * window. So it may run beside the w pieces before its own, and at most w + 1 gathered pieces are held. */
static void assert_window(const Case *drawn, const Program *program, int rank, int window) {
  g_autofree char *text = case_text(drawn);
  const OpList *list = &program->ranks[rank];
  g_autoptr(GArray) gathers = g_array_new(FALSE, FALSE, sizeof(int)), users = g_array_new(FALSE, FALSE, sizeof(int));
  for (int i = 0; i < list->n_ops; i++) {
    const Op *op = &list->ops[i];
    if (op->action == ACTION_UNSHARD)
      g_array_append_val(gathers, i);
    else if (op->kind == OP_COMPUTE && op->action <= ACTION_B && !needs_no_gather(drawn, program, op))
      g_array_append_val(users, i);
  }
  ck_assert_msg(gathers->len == users->len, "%s\n%d gathers for %d pieces", text, (int)gathers->len, (int)users->len);
  for (int k = 0; k < (int)users->len; k++) {
    int gather = g_array_index(gathers, int, k), user = g_array_index(users, int, k);
    ck_assert_msg(gather_of(list, &list->ops[user]) == gather, "%s\nop %d does not wait for its gather", text, user);
    gint32 opens = k > window ? g_array_index(users, int, k - window - 1) : -1;
    ck_assert_msg(list->ops[gather].after[0] == opens && list->ops[gather].after[1] < 0,
                  "%s\ngather %d waits for %d, expected %d", text, gather, list->ops[gather].after[0], opens);
  }
}

TEST(zero_3_gathers_no_further_ahead_than_its_window) {
  int n_seen = 0;
  for (guint seed = 0; seed < 4 * N_PLANS; seed++) {
    g_auto(Case) drawn = draw_whole(seed);
    if (drawn.plan->zero < 3 || drawn.plan->zero_ranks == 1)
      continue;
    g_autoptr(Prediction) prediction = predict_case(&drawn);
    for (int rank = 0; rank < drawn.plan->pp; rank++)
      assert_window(&drawn, prediction->program, rank, drawn.plan->overlap_param ? drawn.plan->prefetch : 0);
    n_seen++;
  }
  ck_assert_int_gt(n_seen, N_PLANS / 4);
}

/* bf16's 2 bytes, summed in 4. Copied into the reduction's buffer a layer's gradients are held in its format; the
 * head's are made when its logits have gone. */
TEST(copied_gradients_are_held_as_they_are_reduced) {
  for (int copied = 0; copied < 2; copied++) {
    g_autoptr(Plan) plan = plan_of(1, FALSE, ATTENTION_FLASH, RECOMPUTE_NONE);
    plan->gpus = plan->dp = plan->zero_ranks = 8;
    plan->zero = 3;
    plan->time.gradient_sum_bytes = 4;
    plan->time.zero3.buffers = copied ? ZERO3_BUFFERS_COPIED : ZERO3_BUFFERS_SHARED;
    g_autoptr(Workload) workload = workload_new(&llama, plan, NULL);
    const Part layers = {.n_layers = 2}, head = {.n_head = 1};
    ck_assert_double_eq(effect_gradient_bytes(workload, &layers, FALSE),
                        (copied ? 4.0 : 2.0) * 2 * (double)workload->piece_parameters[PIECE_LAYER]);
    ck_assert_double_eq(effect_gradient_bytes(workload, &head, FALSE),
                        2.0 * (double)workload->piece_parameters[PIECE_HEAD]);
  }
}

int main(void) {
  TCase *tcase = listed_tests();
  tcase_add_checked_fixture(tcase, set_up, tear_down);
  return run_case("passes", tcase);
}
