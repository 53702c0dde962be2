/* The items of a layer's experts, in place of the MLP's.
 *
 *     norm2 → router → scores → choice: places and weights
 *     norm2 → permute → (exchange over ep) → (gather over tp) → (sort) → rows     on the way to experts: OUT
 *     rows → expert_up → up → activation · weight → expert_down →
 *            (unsort) → (scatter over tp) → (exchange over ep) → unpermute        on the way back: BACK
 *
 * The plan determines which of the steps in brackets there are (with all-gather dispatch, gathered_items.c replaces
 * them). Each step reads what the previous one wrote, and the last one OUT writes where the layer keeps it. Backward
 * goes the same ways: the gradients of what came BACK go OUT, and those of what went OUT come BACK. The routing
 * weights are applied with the activation, so each weight goes OUT with its row and its gradient comes BACK with the
 * row's: four bytes per row, in the same batch.
 *
 * Which experts a token goes to does not depend on its scores but on its position (RouteKernel), so that every rank
 * sends as many rows as the Program says, whatever the plan. The weights do depend on the scores, so the router
 * learns. The assignment is shifted from layer to layer, so that a token can meet any expert.
 *
 * The shared expert uses the MLP's items, tensors and roles. If it has a gate, that is also applied with its
 * activation: σ(norm2·g) per token, computed by every tp rank for all tokens. */
#include "item_parts.h"

typedef enum { OUT, BACK } Way;
/* OUT: permuted, exchanged, gathered, sorted; BACK: computed, unsorted, scattered, exchanged. */
typedef enum { BEGUN, FIRST, SECOND, THIRD } Step;

/* --- the ways ----------------------------------------------------------------------------------------------------- */

static gboolean has_step(const LocalSizes *local, Way way, Step step) {
  const gboolean sorts = local->n_experts > 1 && local_n_sources(local) > 1;
  if (local->method->gathers_tokens)
    return step == BEGUN || (way == BACK && step == THIRD);
  switch (step) {
  case BEGUN:
    return TRUE;
  case FIRST:
    return way == OUT ? local->method->ep > 1 : sorts;
  case SECOND:
    return local->method->expert_tp > 1;
  default:
    return way == OUT ? sorts : local->method->ep > 1;
  }
}

static Step last_step(const LocalSizes *local, Way way) {
  Step step = THIRD;
  while (!has_step(local, way, step))
    step--;
  return step;
}

static Step step_before(const LocalSizes *local, Way way, Step step) {
  do
    step--;
  while (!has_step(local, way, step));
  return step;
}

/* Number of steps up to this one; its parity selects the buffer. */
static int count_steps(const LocalSizes *local, Way way, Step step) {
  int n = 0;
  for (Step s = BEGUN; s <= step; s++)
    n += has_step(local, way, s);
  return n;
}

static char *rows_at(const ItemCall *call, Way way, Step step) {
  const LocalSizes *local = item_local_sizes(call);
  if (way == OUT && step == last_step(local, OUT))
    return call->is_backward ? item_gradients(call).d_rows : item_saved(call).experts.rows;
  return item_memory(call)->experts.rows[count_steps(local, way, step) & 1];
}

/* Buffers of the weights OUT and of their gradients BACK. */
static float *columns_at(const ItemCall *call, Way way, Step step) {
  const LocalSizes *local = item_local_sizes(call);
  if (way == OUT && step == BEGUN)
    return item_saved(call).experts.weights;
  if (way == OUT && step == last_step(local, OUT))
    return item_saved(call).experts.row_weights;
  return item_memory(call)->experts.columns[count_steps(local, way, step) & 1];
}

static gboolean has_columns(const ItemCall *call, Way way) {
  return (way == BACK) == call->is_backward;
}

static void swap_blocks(const ItemCall *call, guint8 number, gint64 width, const void *from, void *to, Way way) {
  const LocalSizes *local = item_local_sizes(call);
  const gint64 sources = local_n_sources(local), own = local->n_experts;
  const Kernel kernel = {.kind = KERNEL_SWAP_BLOCKS,
                         .swap_blocks = {.number = number,
                                         .outer = way == OUT ? sources : own,
                                         .inner = way == OUT ? own : sources,
                                         .block = local->expert_rows / (sources * own) * width,
                                         .from = from,
                                         .to = to}};
  item_launch(call, &kernel);
}

/* OUT reorders rows from by-rank to by-expert, BACK the reverse. */
static void run_sort(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Way way = (Way)call->argument;
  const Step step = way == OUT ? THIRD : FIRST, before = step_before(local, way, step);
  swap_blocks(call, item_number(call), local->model->hidden, rows_at(call, way, before), rows_at(call, way, step), way);
  if (has_columns(call, way))
    swap_blocks(call, NUMBER_FP32, 1, columns_at(call, way, before), columns_at(call, way, step), way);
}

/* An all-to-all over ep, or a gather or a scatter over tp; `rows` of the whole buffer. */
static void travel(const ItemCall *call, Way way, Step step, gint64 rows) {
  const LocalSizes *local = item_local_sizes(call);
  const CommType *comm = call->trainer->comm->type;
  const Step before = step_before(local, way, step);
  comm->batch_begin(call->trainer->comm);
  item_collective(call, item_number(call), rows_at(call, way, before), rows_at(call, way, step),
                  rows * local->model->hidden);
  if (has_columns(call, way))
    item_collective(call, NUMBER_FP32, columns_at(call, way, before), columns_at(call, way, step), rows);
  comm->batch_end(call->trainer->comm);
}

static void run_travel(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const Way way = (Way)call->argument;
  if (call->item->axis == AXIS_EP)
    travel(call, way, way == OUT ? FIRST : THIRD, local->routed_tokens);
  else
    travel(call, way, SECOND, local->expert_rows);
}

/* --- choice, permutation, sums ------------------------------------------------------------------------------------ */

gint64 item_expert_shift(const ItemCall *call) {
  const StageLayers *layers = &call->trainer->workload->stages[call->stage].layers;
  return (layers->first_layer + call->layer) % item_local_sizes(call)->model->experts.n;
}

float *item_expert_weight_gradients(const ItemCall *call) {
  return columns_at(call, BACK, last_step(item_local_sizes(call), BACK));
}

void item_expert_choice(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  const gboolean backward = call->argument;
  const gint64 n = local->model->experts.n;
  const Kernel kernel = {.kind = backward ? KERNEL_ROUTE_BACKWARD : KERNEL_ROUTE_FORWARD,
                         .route = {.number = item_number(call),
                                   .tokens = local->split_tokens,
                                   .n_experts = n,
                                   .per_token = local->model->experts.per_token,
                                   .shift = item_expert_shift(call),
                                   .factor = item_factor(local->model->factors.experts),
                                   .scores = item_memory(call)->experts.scores,
                                   .place = item_saved(call).experts.place,
                                   .weights = item_saved(call).experts.weights,
                                   .dweights = item_expert_weight_gradients(call),
                                   .dscores = item_gradients(call).d_scores}};
  item_launch(call, &kernel);
}

static void permute(const ItemCall *call, KernelKind kind, const char *from, char *to) {
  const LocalSizes *local = item_local_sizes(call);
  const Kernel kernel = {.kind = (guint8)kind,
                         .permute = {.number = item_number(call),
                                     .tokens = local->split_tokens,
                                     .per_token = local->model->experts.per_token,
                                     .width = local->model->hidden,
                                     .place = item_saved(call).experts.place,
                                     .from = from,
                                     .to = to}};
  item_launch(call, &kernel);
}

static void run_permute(const ItemCall *call) {
  permute(call, KERNEL_PERMUTE, call->is_backward ? item_branch_gradient(call) : item_saved(call).norm2,
          rows_at(call, OUT, BEGUN));
}

/* Where a branch's sum over tp is written, and read by the residual or the norm's backward. */
static char *branch(const ItemCall *call) {
  return (char *)item_reduced(call);
}

char *item_expert_sum(const ItemCall *call) {
  const gboolean is_summed = call->is_backward || item_local_sizes(call)->shared_width > 0;
  return is_summed ? item_memory(call)->experts.sums[0] : branch(call);
}

char *item_expert_rows(const ItemCall *call, gboolean is_out) {
  return rows_at(call, is_out ? OUT : BACK, BEGUN);
}

float *item_expert_row_gradients(const ItemCall *call) {
  return columns_at(call, BACK, BEGUN);
}

static void run_unpermute(const ItemCall *call) {
  permute(call, KERNEL_UNPERMUTE, rows_at(call, BACK, last_step(item_local_sizes(call), BACK)), item_expert_sum(call));
}

static void run_sum(const ItemCall *call) {
  item_add(call, item_memory(call)->experts.sums[0], branch(call), branch(call));
}

/* Sums the input gradients of the experts and the router, and of the shared expert. */
static void run_gradient_sum(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  char *const *sums = item_memory(call)->experts.sums;
  if (local->shared_width > 0 && local->method->gathers_tokens && call->occurrence == 0)
    return;
  if (local->shared_width == 0) {
    item_add(call, sums[0], sums[1], branch(call));
    return;
  }
  item_add(call, sums[0], sums[1], sums[0]);
  run_sum(call);
}

/* --- products ----------------------------------------------------------------------------------------------------- */

static void run_router(const ItemCall *call) {
  const Activations *activations = item_memory(call);
  Linear router = {.block = BLOCK_LAYER,
                   .weight = ROLE_ROUTER,
                   .input = item_saved(call).norm2,
                   .output = activations->experts.scores,
                   .input_gradient = activations->experts.sums[1]};
  if (call->is_backward)
    router.output_gradient = item_gradients(call).d_scores;
  item_linear(call, &router);
}

typedef enum { UP, DOWN } ExpertLinear;

/* One product per expert of the rank, as one batch. */
static void run_expert(const ItemCall *call) {
  const SavedExperts experts = item_saved(call).experts;
  const gboolean is_up = call->argument == UP;
  Linear linear = {.block = BLOCK_EXPERTS,
                   .weight = is_up ? ROLE_EXPERT_GATE : ROLE_EXPERT_DOWN,
                   .expert_stride = item_expert_elements(call),
                   .input = is_up ? experts.rows : experts.activation};
  if (call->is_backward) {
    linear.output_gradient = is_up ? item_gradients(call).d_expert_up : item_gradients(call).d_rows;
    linear.input_gradient = is_up ? rows_at(call, BACK, BEGUN) : item_memory(call)->experts.d_activation;
  } else {
    linear.output = is_up ? experts.up : rows_at(call, BACK, BEGUN);
  }
  item_linear(call, &linear);
}

/* --- activations, the shared expert's gate ------------------------------------------------------------------------ */

/* The input of the shared expert's first product, all tokens. */
static const char *whole_input(const ItemCall *call) {
  return item_local_sizes(call)->sequence_parallel ? item_memory(call)->gathered : item_saved(call).norm2;
}

/* A product with the gate's vector: (T × h)·g, or one for its backward. */
static void gate_product(const ItemCall *call, MatmulKernel matmul, gboolean is_gradient) {
  Kernel kernel = {.kind = KERNEL_MATMUL, .matmul = matmul};
  kernel.matmul.number = item_number(call);
  kernel.matmul.result =
      is_gradient ? (guint8)call->trainer->parameters->gradient_number : (guint8)call->trainer->parameters->number;
  kernel.matmul.batch = 1;
  kernel.matmul.alpha = 1;
  item_launch(call, &kernel);
}

static gboolean has_gate(const ItemCall *call) {
  return item_local_sizes(call)->model->experts.shared_gate;
}

static void run_gate(const ItemCall *call) {
  const gint64 t = item_local_sizes(call)->tokens, h = item_local_sizes(call)->model->hidden;
  gate_product(call,
               (MatmulKernel){.layout = LAYOUT_TN,
                              .m = t,
                              .n = 1,
                              .k = h,
                              .lda = h,
                              .ldb = h,
                              .ldc = 1,
                              .a = whole_input(call),
                              .b = item_weight(call, BLOCK_LAYER, ROLE_SHARED_GATE),
                              .c = item_memory(call)->experts.gate},
               FALSE);
  const Kernel kernel = {.kind = KERNEL_GATE_FORWARD,
                         .gate = {.number = item_number(call),
                                  .n = t,
                                  .logit = item_memory(call)->experts.gate,
                                  .gate = item_saved(call).experts.gate}};
  item_launch(call, &kernel);
}

static void run_gate_backward(const ItemCall *call) {
  const Kernel kernel = {.kind = KERNEL_GATE_BACKWARD,
                         .gate = {.number = item_number(call),
                                  .n = item_local_sizes(call)->tokens,
                                  .gate = item_saved(call).experts.gate,
                                  .dgate = item_memory(call)->experts.d_gate,
                                  .dlogit = item_gradients(call).d_gate}};
  item_launch(call, &kernel);
}

static ActivationKernel shared_activation(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  return (ActivationKernel){.rows = local->tokens,
                            .width = local->shared_width,
                            .x = item_saved(call).up,
                            .y = item_saved(call).activation,
                            .dy = item_memory(call)->d_activation,
                            .dx = item_gradients(call).d_up,
                            .scale = item_saved(call).experts.gate,
                            .dscale = item_memory(call)->experts.d_gate};
}

static ActivationKernel expert_activation(const ItemCall *call) {
  const LocalSizes *local = item_local_sizes(call);
  return (ActivationKernel){.rows = local->expert_rows,
                            .width = local->expert_width,
                            .x = item_saved(call).experts.up,
                            .y = item_saved(call).experts.activation,
                            .dy = item_memory(call)->experts.d_activation,
                            .dx = item_gradients(call).d_expert_up,
                            .scale = item_saved(call).experts.row_weights,
                            .dscale = columns_at(call, BACK, BEGUN)};
}

/* Forward runs the experts first; backward the shared expert, which also goes first in recomputation if it is
 * recomputed on its own. */
void item_expert_activation(const ItemCall *call) {
  const gboolean backward = call->argument;
  const gboolean begins_shared =
      backward || (call->item->recompute && (item_memory(call)->dropped & MODULE_BIT(MODULE_SHARED_EXPERTS)) != 0);
  const gboolean is_shared = item_local_sizes(call)->shared_width > 0 && call->occurrence == (begins_shared ? 0 : 1);
  const gboolean gates = is_shared && has_gate(call);
  if (gates && !backward)
    run_gate(call);
  Kernel kernel = {.kind = backward ? KERNEL_ACTIVATION_BACKWARD : KERNEL_ACTIVATION_FORWARD,
                   .activation = is_shared ? shared_activation(call) : expert_activation(call)};
  kernel.activation.number = item_number(call);
  kernel.activation.gated = TRUE;
  item_launch(call, &kernel);
  if (gates && backward)
    run_gate_backward(call);
}

/* In backward. */
static void run_shared_up(const ItemCall *call) {
  const gint64 t = item_local_sizes(call)->tokens, h = item_local_sizes(call)->model->hidden;
  const gboolean is_input = call->item->layout == LAYOUT_NN;
  const Linear up = {.block = BLOCK_LAYER,
                     .weight = ROLE_GATE,
                     .input = whole_input(call),
                     .output_gradient = item_gradients(call).d_up,
                     .input_gradient = item_memory(call)->partial};
  item_linear(call, &up);
  if (!has_gate(call))
    return;
  gate_product(call,
               (MatmulKernel){.layout = call->item->layout,
                              .accumulate = TRUE,
                              .m = is_input ? t : 1,
                              .n = h,
                              .k = is_input ? 1 : t,
                              .lda = 1,
                              .ldb = h,
                              .ldc = h,
                              .a = item_gradients(call).d_gate,
                              .b = is_input ? item_weight(call, BLOCK_LAYER, ROLE_SHARED_GATE) : whole_input(call),
                              .c = is_input ? item_memory(call)->partial
                                            : block_gradient(call->trainer->parameters, item_block(call, BLOCK_LAYER),
                                                             ROLE_SHARED_GATE)},
               !is_input);
}

const ItemKernel expert_kernels[] = {
    {"router", run_router, 0},
    {"router.dgrad", run_router, 0},
    {"router.wgrad", run_router, 0},
    {"router.choice", item_expert_choice, FALSE},
    {"router.backward", item_expert_choice, TRUE},
    {"permute", run_permute, 0},
    {"unpermute.backward", run_permute, 0},
    {"unpermute", run_unpermute, 0},
    {"permute.backward", run_unpermute, 0},
    {"experts.sort", run_sort, OUT},
    {"experts.unsort", run_sort, BACK},
    {"experts.sum", run_sum, 0},
    {"experts.grad_sum", run_gradient_sum, 0},
    LINEAR_KERNELS("expert_up", run_expert, UP),
    LINEAR_KERNELS("expert_down", run_expert, DOWN),
    {"shared_up.dgrad", run_shared_up, 0},
    {"shared_up.wgrad", run_shared_up, 0},
    {NULL, NULL, 0},
};

const ItemKernel expert_collectives[] = {
    {"permute", run_travel, OUT},
    {"unpermute.backward", run_travel, OUT},
    {"experts.unsort", run_travel, BACK},
    {NULL, NULL, 0},
};
