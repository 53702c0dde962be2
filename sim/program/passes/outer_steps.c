/* Outer steps of islands (outer_step.h). Behind the optimizer of the last of a period's steps, each rank sums the
 * difference of its part of the parameters with the ranks in its place in the other islands, takes the outer step for
 * that part, and gathers the rest where ranks of its island hold copies of it:
 *
 *     compute   … | B | OPTIMIZER |                | OUTER_STEP |                | F of the next step
 *     dp                          | OUTER_SUM      |            | OUTER_GATHER   |
 *
 * The part: the rank's ZeRO shard; of parameters that several ranks of the island hold, one part for each, so that an
 * island sends every parameter once. With a delay the sum starts at the begin of a step and runs beside so many, on the
 * stream copy_out:
 *
 *     compute   | F … B | OPTIMIZER | F … B | OPTIMIZER | OUTER_STEP | …        delay 2
 *     copy_out  | OUTER_SUM                       |
 *
 * Periods are counted back from the last step, which ends one. */
#include "lowering.h"

static double trained_of(const Workload *workload, int rank, gboolean of_experts) {
  double parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank) {
      const StageWork *work = &workload->stages[stage];
      parameters += (double)(of_experts ? work->trained_experts : work->trained - work->trained_experts);
    }
  return parameters;
}

double lowering_outer_parameters(const Workload *workload, int rank) {
  double parameters = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (workload->placement->stage_rank[stage] == rank)
      parameters += workload_outer_parameters(workload, stage);
  return parameters;
}

/* A gather of a rank's parts. */
typedef struct {
  Group group;
  double parameters; /* all that it brings together */
} Gather;

/* Returns how many (0..2). */
static int find_gathers(const Workload *workload, int rank, Gather gathers[2]) {
  const Group experts = {.name = "expert_dp",
                         .axes = AXIS_BIT_EXPERT_SHARD | AXIS_BIT_DP_REPLICA,
                         .pp_first = -1,
                         .pp_last = -1,
                         .charge = AXIS_DP};
  int n = 0;
  if (zero_shards_optimizer(workload->method->zero)) {
    if (lowering_replicas(workload) > 1)
      gathers[n++] = (Gather){dp_group(workload, AXIS_BIT_DP_REPLICA), optimizer_parameters(workload, rank)};
    return n;
  }
  if (workload->method->data_ranks > 1)
    gathers[n++] = (Gather){dp_group(workload, AXIS_BIT(AXIS_DP)), trained_of(workload, rank, FALSE)};
  if (lowering_expert_copies(workload) > 1 && trained_of(workload, rank, TRUE) > 0)
    gathers[n++] = (Gather){experts, trained_of(workload, rank, TRUE)};
  return n;
}

typedef struct {
  Program *program;
  const Workload *workload;
  int rank;
  double parameters; /* of a fragment */
  OpEditor editor;
  gint32 optimizer; /* new index of the latest; −1: none */
  gint32 sum;       /* of the sum under way; −1: none */
} Outer;

static const Method *method_of(const Outer *outer) {
  return outer->workload->method;
}

static gint32 transfer_of(const Outer *outer, const Group *group, Collective collective, double bytes) {
  const Transfer transfer = {.group = program_group(outer->program, group),
                             .source = -1,
                             .target = -1,
                             .collective = (guint8)collective,
                             .bytes = bytes};
  return program_transfer(outer->program, &transfer);
}

static gint32 effect_of(const Outer *outer, gboolean holds) {
  Effect effect = {0};
  (holds ? effect.hold : effect.drop)[MEMORY_BUFFERS] = sizeof(float) * outer->parameters;
  return program_effect(outer->program, &effect);
}

static void add_sum(Outer *outer, int step) {
  const Group group = {
      .name = "dp_island", .axes = AXIS_BIT_DP_ISLAND, .pp_first = -1, .pp_last = -1, .charge = AXIS_DP};
  const gboolean is_beside = method_of(outer)->outer.delay > 0;
  Op op = op_new(OP_COLLECTIVE, is_beside ? STREAM_COPY_OUT : STREAM_DP, ACTION_OUTER_SUM, -1, -1);
  op.step = step;
  op.work = transfer_of(outer, &group, COLLECTIVE_ALL_REDUCE, method_of(outer)->outer.bytes * outer->parameters);
  op.effect = effect_of(outer, TRUE);
  op_add_after(&op, outer->optimizer);
  outer->sum = op_editor_add(&outer->editor, &op);
}

static gint32 add_step(Outer *outer, int step) {
  const Work work = {.phase = PHASE_OPTIMIZER,
                     .is_outer = TRUE,
                     .stage = -1,
                     .piece = -1,
                     .first_item = -1,
                     .last_item = -1,
                     .owner = outer->rank,
                     .parameters = outer->parameters};
  Op op = op_new(OP_COMPUTE, STREAM_COMPUTE, ACTION_OUTER_STEP, -1, -1);
  op.step = step;
  op.work = program_work(outer->program, &work);
  op.effect = effect_of(outer, FALSE);
  op_add_after(&op, outer->sum);
  outer->sum = -1;
  return op_editor_add(&outer->editor, &op);
}

/* Returns the last; `after` if there is none. */
static gint32 add_gathers(Outer *outer, int step, gint32 after) {
  const Recipe *recipe = &method_of(outer)->recipe;
  const double bytes = recipe->master > 0 ? recipe->master : recipe->weights;
  Gather gathers[2];
  const int n = find_gathers(outer->workload, outer->rank, gathers);
  for (int i = 0; i < n; i++) {
    Op op = op_new(OP_COLLECTIVE, STREAM_DP, ACTION_OUTER_GATHER, -1, -1);
    op.step = step;
    op.work = transfer_of(outer, &gathers[i].group, COLLECTIVE_ALL_GATHER,
                          bytes * gathers[i].parameters / method_of(outer)->outer.fragments);
    op_add_after(&op, after);
    after = op_editor_add(&outer->editor, &op);
  }
  return after;
}

/* Whether a period's outer step is taken at the end of the step; and whether it has begun by then. */
static gboolean ends_period(const Outer *outer, int step) {
  const Method *method = method_of(outer);
  return (outer->program->n_steps - 1 - step) % method->outer_period == 0 && step + 1 >= method->outer.delay;
}

/* The next op waits for all that came before it on its streams, and the host's next step for what is behind the
 * optimizer. */
static void copy_op(Outer *outer, const OpList *list, int index) {
  const Op *op = &list->ops[index];
  const int delay = method_of(outer)->outer.delay;
  if (delay > 0 && (index == 0 || list->ops[index - 1].step < op->step) &&
      op->step + delay <= outer->program->n_steps && ends_period(outer, op->step + delay - 1))
    add_sum(outer, op->step);
  gint32 last = op_editor_copy(&outer->editor, index);
  if (op->action != ACTION_OPTIMIZER)
    return;
  outer->optimizer = last;
  if (ends_period(outer, op->step)) {
    if (delay == 0)
      add_sum(outer, op->step);
    last = add_gathers(outer, op->step, add_step(outer, op->step));
  }
  op_editor_set_moved(&outer->editor, index, last);
}

void add_outer_steps(Program *program, const Lowering *lowering) {
  const Workload *workload = lowering->workload;
  if (workload == NULL || workload->method->islands == 1)
    return;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    OpList *list = &program->ranks[rank];
    Outer outer = {.program = program,
                   .workload = workload,
                   .rank = rank,
                   .parameters = lowering_outer_parameters(workload, rank) / workload->method->outer.fragments,
                   .optimizer = -1,
                   .sum = -1};
    op_editor_init(&outer.editor, list);
    for (int i = 0; i < list->n_ops; i++)
      copy_op(&outer, list, i);
    op_editor_finish(&outer.editor);
  }
}
