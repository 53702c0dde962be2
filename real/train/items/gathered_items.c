/* MoE with all-gather dispatch (--expert-dispatch all_gather), instead of the two-way exchange of expert_items.c:
 *
 *     choice → chosen experts (bytes), their weights ┐
 *     norm2 ─────────────────────────────────────────┴ gathered → picked → rows → … → rows → put → summed, scattered
 *
 * In backward the tokens' gradients are gathered and picked; the results are summed and scattered together with the
 * weights' gradients. A shared expert's gradient is summed with the others at the end: its own sum item, which comes
 * before the gather, does nothing. */
#include "item_parts.h"

typedef enum { OWN, OF_ALL } Whose;

/* A task with everything set except rows and weights, which are for picking or putting. */
static GatheredKernel gathered(const ItemCall *call, Whose whose) {
  const LocalSizes *local = item_local_sizes(call);
  const ExpertScratch *experts = &item_memory(call)->experts;
  return (GatheredKernel){.number = (guint8)item_number(call),
                          .sources = local_n_sources(local),
                          .tokens = local->split_tokens,
                          .n_experts = local->model->experts.n,
                          .per_token = local->model->experts.per_token,
                          .shift = item_expert_shift(call),
                          .first = call->trainer->parameters->first_expert,
                          .n_own = local->n_experts,
                          .width = local->model->hidden,
                          .chosen_bytes = experts->chosen_bytes,
                          .chosen = (guint8 *)experts->chosen[whose],
                          .dense = experts->dense[whose],
                          .all_tokens = experts->all_tokens};
}

static void launch(const ItemCall *call, KernelKind kind, const GatheredKernel *task) {
  const Kernel kernel = {.kind = (guint8)kind, .gathered = *task};
  item_launch(call, &kernel);
}

/* Forward prepares the choice for the others afterwards; backward first collects the weights' gradients from them. */
static void run_choice(const ItemCall *call) {
  const gboolean is_backward = call->argument;
  GatheredKernel task = gathered(call, OWN);
  task.weights = is_backward ? item_expert_weight_gradients(call) : item_saved(call).experts.weights;
  if (is_backward)
    launch(call, KERNEL_COLLECT, &task);
  item_expert_choice(call);
  if (!is_backward)
    launch(call, KERNEL_SPREAD, &task);
}

static void run_pick(const ItemCall *call) {
  GatheredKernel task = gathered(call, OF_ALL);
  task.rows = item_expert_rows(call, TRUE);
  task.row_weights = item_saved(call).experts.row_weights;
  if (call->is_backward)
    task.chosen = NULL;
  launch(call, KERNEL_PICK, &task);
}

static void run_put(const ItemCall *call) {
  GatheredKernel task = gathered(call, OF_ALL);
  task.rows = item_expert_rows(call, FALSE);
  task.row_weights = item_expert_row_gradients(call);
  if (!call->is_backward)
    task.dense = NULL;
  launch(call, KERNEL_PUT, &task);
}

static gint64 all_elements(const ItemCall *call, gint64 width) {
  return local_n_sources(item_local_sizes(call)) * item_local_sizes(call)->split_tokens * width;
}

static void gather_tokens(const ItemCall *call, const char *from) {
  item_collective(call, item_number(call), from, item_memory(call)->experts.all_tokens,
                  all_elements(call, item_local_sizes(call)->model->hidden));
}

/* In this order: the chosen experts (bytes, sent as words), their weights, the tokens. */
static void run_gather(const ItemCall *call) {
  const ExpertScratch *experts = &item_memory(call)->experts;
  if (call->occurrence == 0)
    item_collective(call, NUMBER_FP32, experts->chosen[OWN], experts->chosen[OF_ALL],
                    local_n_sources(item_local_sizes(call)) * experts->chosen_bytes / (gint64)sizeof(float));
  else if (call->occurrence == 1)
    item_collective(call, item_number(call), experts->dense[OWN], experts->dense[OF_ALL],
                    all_elements(call, item_local_sizes(call)->model->experts.n));
  else
    gather_tokens(call, item_saved(call).norm2);
}

static void run_gradient_gather(const ItemCall *call) {
  gather_tokens(call, item_branch_gradient(call));
}

/* Tokens; in backward then the weights' gradients, too. */
static void run_scatter(const ItemCall *call) {
  const ExpertScratch *experts = &item_memory(call)->experts;
  if (call->occurrence == 0)
    item_collective(call, item_number(call), experts->all_tokens, item_expert_sum(call),
                    all_elements(call, item_local_sizes(call)->model->hidden));
  else
    item_collective(call, item_number(call), experts->dense[OF_ALL], experts->dense[OWN],
                    all_elements(call, item_local_sizes(call)->model->experts.n));
}

const ItemKernel gathered_kernels[] = {
    {"router.choice", run_choice, FALSE},
    {"router.backward", run_choice, TRUE},
    {"permute", run_pick, 0},
    {"unpermute.backward", run_pick, 0},
    {"unpermute", run_put, 0},
    {"permute.backward", run_put, 0},
    {NULL, NULL, 0},
};

const ItemKernel gathered_collectives[] = {
    {"permute", run_gather, 0},
    {"unpermute.backward", run_gradient_gather, 0},
    {"unpermute", run_scatter, 0},
    {"permute.backward", run_scatter, 0},
    {NULL, NULL, 0},
};
