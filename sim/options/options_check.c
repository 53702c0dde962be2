/* Options against the given model: those without meaning for them are refused. */
#include <string.h>

#include "error.h"
#include "options.h"
#include "order_read.h"
#include "plan_order.h"

/* Whether the schedule is an order from a file that runs pairs as one. A file that cannot be read is reported where
 * it is needed. */
static gboolean has_pairs(const char *schedule) {
  const char *file = plan_order_file(schedule);
  g_autoptr(Order) order = file != NULL ? order_read_csv(file, NULL) : NULL;
  for (int rank = 0; order != NULL && rank < order->placement->n_ranks; rank++)
    for (guint i = 0; i < order->actions[rank]->len; i++)
      if (g_array_index(order->actions[rank], Action, i).overlaps_next)
        return TRUE;
  return FALSE;
}

/* Checks only what was asked for; a framework's default has no effect if there are no such pairs. */
static gboolean check_turns(const Plan *plan, GError **error) {
  const char *schedule = plan->schedule != NULL ? plan->schedule : plan->chunks > 1 ? "interleaved" : "1f1b";
  const gboolean is_dualpipe = g_str_has_prefix(schedule, "dualpipe");
  if (plan->overlap_experts == 0 && plan->ep > 1 && (is_dualpipe || has_pairs(schedule)))
    return fail_impossible(error,
                           "--overlap-experts off: schedule %s runs a forward and a backward as one, which hide each "
                           "other's exchanges; expected it left out, or another schedule",
                           schedule);
  if (plan->overlap_experts > 0 && plan_gathers_tokens(plan) && !is_dualpipe)
    return fail_impossible(error,
                           "--overlap-experts on with --expert-dispatch all_gather: rounds of a forward and a backward "
                           "hide exchanges of other kinds alone; expected all_to_all or deepep");
  const gboolean has_rounds = plan->pp == 1 || (strcmp(schedule, "interleaved") == 0 && plan->chunks != 1);
  if (plan->overlap_experts <= 0 || is_dualpipe || has_rounds || plan->time.expert_overlap == EXPERT_OVERLAP_ROUNDS)
    return TRUE;
  return fail_impossible(error,
                         "--overlap-experts on: schedule %s with pp %d%s has no rounds of a forward and a backward; "
                         "expected interleaved%s, or pp 1",
                         schedule, plan->pp, plan->chunks == 1 ? " and 1 chunk" : "",
                         plan->chunks == 1 ? " with chunks" : "");
}

static gboolean check_experts(const Plan *plan, const Model *model, GError **error) {
  if (model_has_experts(model))
    return check_turns(plan, error);
  if (plan->expert_dispatch > DISPATCH_ALL_TO_ALL && plan->time.expert_dispatch != plan->expert_dispatch)
    return fail_input(error,
                      "--expert-dispatch %s says how tokens reach their experts: model %s has none; expected it "
                      "left out, or all_to_all",
                      expert_dispatch_names()[plan->expert_dispatch], model->name);
  if (plan->overlap_experts > 0 && plan->time.expert_overlap != EXPERT_OVERLAP_ROUNDS)
    return fail_input(error,
                      "--overlap-experts on hides exchanges with experts: model %s has none; expected it left out",
                      model->name);
  if (plan->cuda_graphs == CUDA_GRAPHS_ROUTER || plan->cuda_graphs == CUDA_GRAPHS_ATTENTION)
    return fail_input(
        error,
        "--cuda-graphs %s says what of layers with experts is replayed: model %s has none; expected none or "
        "full",
        cuda_graphs_names()[plan->cuda_graphs], model->name);
  return TRUE;
}

gboolean plan_options_check_model(const Plan *plan, const Model *model, GError **error) {
  const gboolean is_asked_for =
      plan->norm_kernel == FRAMEWORK_KERNELS_PLAIN && plan->time.kernels != FRAMEWORK_KERNELS_PLAIN;
  if (!is_asked_for || model->norm == NORM_RMSNORM)
    return check_experts(plan, model, error);
  return fail_input(error,
                    "--norm-kernel plain says how an RMSNorm runs: model %s has LayerNorms, one kernel each; expected "
                    "it left out, or fused",
                    model->name);
}
