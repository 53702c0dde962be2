/* From a plan to the Program that is run: an order, lowered, and expanded where whole pieces would not do. */
#include "predict_parts.h"

#include "auto_plan.h"
#include "error.h"
#include "lowering.h"
#include "passes.h"
#include "timing_model.h"
#include "transfer_tax.h"

/* Forwards and backwards of a layer (some 10 ops and 700 bytes each) that a folded program may expand into pieces. */
static const double MAX_LAYER_PASSES = 16e6;

gboolean predict_may_expand(const Workload *workload) {
  const Plan *plan = workload->plan;
  return 2.0 * (double)workload->model->n_layers * (double)plan->n_micro_batches * plan->steps <= MAX_LAYER_PASSES;
}

/* Whether the host waits inside a piece: only an op made of single items has that wait. */
static gboolean makes_host_wait(const Workload *workload) {
  for (int piece = 0; piece < N_PIECES; piece++)
    for (int phase = 0; phase < N_PHASES; phase++) {
      const WorkList *list = &workload->work[piece][phase];
      for (int i = 0; i < list->n_items; i++)
        if (list->items[i].host_waits)
          return TRUE;
    }
  return FALSE;
}

gboolean predict_is_apart(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return !plan->fold || transfer_tax_is_stated(cluster, plan) || plan->cp > 1 || plan->ep > 1 ||
         (plan_has_expert_operations(plan) && makes_host_wait(workload));
}

Program *predict_expand_all(Program *program, const Workload *workload) {
  g_autoptr(Program) whole = program;
  return program_expand(whole, workload);
}

Program *predict_expand_beside(Program *program, const Workload *workload, const Cluster *cluster, const gboolean *met,
                               GError **error) {
  g_autoptr(Program) whole = program;
  g_autoptr(OpsBeside) beside = ops_beside_new(whole, met, cluster->eager_bytes);
  const Plan *plan = workload->plan;
  if (beside->n_pieces > MAX_LAYER_PASSES) {
    fail_impossible(error,
                    "collectives of tp %d share links with other transfers, and of %" G_GINT64_FORMAT
                    " layers × %" G_GINT64_FORMAT
                    " micro-batches × steps %d more run beside these than the %.0f that are followed one by one; use "
                    "fewer micro-batches or steps, or --contention off",
                    plan->tp, workload->model->n_layers, plan->n_micro_batches, plan->steps, MAX_LAYER_PASSES);
    return NULL;
  }
  if (beside->n_pieces > 0)
    return program_expand_beside(whole, workload, beside);
  whole->expansion = EXPANSION_BESIDE;
  return g_steal_pointer(&whole);
}

Program *predict_expand(Program *program, const Workload *workload, const Cluster *cluster, Timing **timing,
                        GError **error) {
  g_autoptr(Program) whole = program;
  *timing = NULL;
  if (whole->expansion == EXPANSION_ALL)
    return g_steal_pointer(&whole);
  if (predict_is_apart(workload, cluster))
    return predict_expand_all(g_steal_pointer(&whole), workload);
  g_autofree gboolean *met = NULL;
  *timing = timing_model_unless_met(whole, NULL, 0, workload, cluster, &met);
  return met != NULL ? predict_expand_beside(g_steal_pointer(&whole), workload, cluster, met, error)
                     : g_steal_pointer(&whole);
}

Program *predict_lower(const Workload *workload, PlanOrder *choice, const Cluster *cluster, const char *dump_after,
                       char **dump, GError **error) {
  const Plan *plan = workload->plan;
  g_autoptr(Order) order =
      plan_order_is_auto(choice) ? auto_plan_order(workload, cluster, error) : plan_order_make(choice, plan, error);
  if (order == NULL)
    return NULL;
  Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  return lower(&lowering, dump_after, dump, error);
}
