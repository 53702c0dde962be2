/* From a plan to the Program that is run: an order, lowered, and expanded where whole pieces would not do. */
#include "predict_parts.h"

#include "auto_plan.h"
#include "error.h"
#include "lowering.h"
#include "passes.h"
#include "timing_model.h"
#include "transfer_tax.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Forwards and backwards of a layer (some 10 ops and 700 bytes each) that a folded program may expand into pieces. */
static const double MAX_LAYER_PASSES = 16e6;

/* Capacities of a scratch in lowered ops of about 165 bytes. GPT-3 175B at pp 16, m 64 under 1f1b has 6,314. */
enum { LEAST_OPS_KEPT = 1 << 18, MOST_OPS_KEPT = 1 << 20, OPS_KEPT_IN_ALL = 1 << 24 };

struct PredictScratch {
  ProgramCache *programs;
};

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

/* The few MiB that one prediction frees are reused by the next: each arena of the allocator keeps up to this much for
 * the process. Otherwise the kernel would take the pages back and clear them again for every prediction. */
static void keep_freed_memory(void) {
#ifdef __GLIBC__
  enum { MOST_BYTES_KEPT = 64 << 20, MOST_BYTES_OF_BLOCK = 32 << 20 };
  static gsize is_done;
  if (!g_once_init_enter(&is_done))
    return;
  mallopt(M_TRIM_THRESHOLD, MOST_BYTES_KEPT);
  mallopt(M_MMAP_THRESHOLD, MOST_BYTES_OF_BLOCK);
  g_once_init_leave(&is_done, 1);
#endif
}

PredictScratch *predict_scratch_new(int n_scratches) {
  keep_freed_memory();
  const int n_ops = CLAMP(OPS_KEPT_IN_ALL / MAX(n_scratches, 1), LEAST_OPS_KEPT, MOST_OPS_KEPT);
  PredictScratch *scratch = g_new(PredictScratch, 1);
  *scratch = (PredictScratch){program_cache_new((gsize)n_ops)};
  return scratch;
}

void predict_scratch_free(PredictScratch *scratch) {
  if (scratch == NULL)
    return;
  program_cache_free(scratch->programs);
  g_free(scratch);
}

ProgramCacheStats predict_scratch_programs(const PredictScratch *scratch) {
  return program_cache_stats(scratch->programs);
}

Program *predict_lower_anew(const Workload *workload, PlanOrder *choice, const Cluster *cluster, const char *dump_after,
                            char **dump, GError **error) {
  const Plan *plan = workload->plan;
  g_autoptr(Order) order =
      plan_order_is_auto(choice) ? auto_plan_order(workload, cluster, error) : plan_order_make(choice, plan, error);
  if (order == NULL)
    return NULL;
  Lowering lowering = {.order = order, .workload = workload, .n_steps = plan->steps};
  return lower(&lowering, dump_after, dump, error);
}

Program *predict_lower(PredictScratch *scratch, const Workload *workload, PlanOrder *choice, const Cluster *cluster,
                       GError **error) {
  const gboolean is_kept = scratch != NULL && choice->info != NULL && !offload_is_any(&workload->plan->offload);
  return is_kept ? program_cache_lower(scratch->programs, choice, workload,
                                       predict_first_micro_batches(choice, workload), error)
                 : predict_lower_anew(workload, choice, cluster, NULL, NULL, error);
}
