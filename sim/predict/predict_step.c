/* A step of m micro-batches is first tried with few, m′: enough for the pipeline to fill and for two groups of them to
 * end alike. If the run is seen to come back to a state (steady.h) the rest follows; what it holds at most it has held
 * by then, as a group leaves memory as it found it. If not, all of them are run.
 *
 * What is of the plan is taken of all: whether tp's collectives meet others enough (timing_model.h), and whether the
 * run would be too large. */
#include "predict_parts.h"

#include "link_health.h"
#include "mixed_gpus.h"
#include "passes.h"
#include "steady.h"
#include "timing_model.h"
#include "transfer_tax.h"

/* Micro-batches that repeat; 0: not in this plan. Groups of interleaved are of equal size where it divides m. Forwards
 * and backwards that take turns at their exchanges with experts stand in other lists. */
static gint64 group_of(const PlanOrder *choice, const Plan *plan) {
  if (choice->info == NULL || plan->steps > 1 || plan->ep > 1)
    return 0;
  const gboolean is_1f1b = g_str_equal(choice->info->name, "1f1b");
  if (!is_1f1b && !g_str_equal(choice->info->name, "interleaved"))
    return 0;
  if (is_1f1b || plan->chunks == 1)
    return 1;
  const gint64 group = plan->group > 0 ? plan->group : plan->pp;
  return plan->n_micro_batches % group == 0 ? group : 0;
}

/* As a rule enough for the pipeline to fill, to settle and to repeat itself twice. */
static gint64 fewest_of(gint64 group, const Plan *plan) {
  enum { GROUPS = 4, ROUNDS = 2, MORE = 4 };
  return group > 1 ? GROUPS * group : ROUNDS * (gint64)plan->pp + MORE;
}

static gboolean is_folded_plainly(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return plan->fold && plan->jitter == 0 && (plan->slow_ranks == NULL || plan->slow_ranks->len == 0) &&
         !transfer_tax_is_stated(cluster, plan) && mixed_gpus_is_uniform(workload, cluster);
}

static void fill_step(StepPrediction *step, const Workload *workload, const Cluster *cluster, gint64 step_ns,
                      double peak_bytes) {
  const Plan *plan = workload->plan;
  *step = (StepPrediction){.step_time_s = (double)step_ns * 1e-9,
                           .peak_bytes = peak_bytes,
                           .fits = peak_bytes <= mixed_gpus_room_bytes(workload, cluster),
                           .peak_flops = plan->gpus * mixed_gpus_peak_flops(workload, cluster),
                           .hardware_flops = workload_hardware_flops(workload),
                           .gpus = plan->gpus,
                           .global_batch = plan->global_batch,
                           .n_run = plan->n_micro_batches};
}

static gint64 step_ns_of(const Trace *trace) {
  const int n_steps = trace->program->n_steps;
  return trace_end(trace) - (n_steps > 1 ? trace_step_end(trace, n_steps - 2) : 0);
}

static double count_ops(const ProgramRepeats *repeats, double n_more) {
  const Program *program = repeats->program;
  double n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops + n_more * repeats->lists[rank].n_ops;
  return n_ops;
}

/* Runs the program of fewer micro-batches. Returns what a further group takes; 0: that is not known. */
static gint64 run_fewer(const ProgramRepeats *repeats, const Workload *workload, const Cluster *cluster,
                        gboolean tp_meets, gint64 *step_ns, double *peak_bytes) {
  const Program *program = repeats->program;
  g_autoptr(Timing) timing = timing_model_meeting(program, workload, cluster, tp_meets);
  g_autofree gint16 *early_ticks = g_new0(gint16, (gsize)count_ops(repeats, 0));
  const Simulation simulation = {.program = program,
                                 .timing = timing,
                                 .layout = &workload->layout,
                                 .folded = TRUE,
                                 .eager_bytes = cluster->eager_bytes,
                                 .contended = workload->plan->contention,
                                 .early_ticks = early_ticks};
  g_autoptr(Trace) trace = engine_run(&simulation, NULL);
  const gint64 period_ns = steady_period_ns(repeats, trace, early_ticks);
  if (period_ns == 0)
    return 0;
  g_autoptr(MemoryProfile) memory = memory_profile_new(trace);
  *step_ns = step_ns_of(trace);
  *peak_bytes = memory->peak_bytes;
  return period_ns;
}

/* `n_more` groups are left out of `program`, which is taken over. FALSE: nothing is known of them. */
static gboolean extend(Program *program, const Workload *workload, const Cluster *cluster, gint64 group, gint64 n_more,
                       gboolean may_expand, StepPrediction *step) {
  g_autoptr(Program) whole = program;
  g_autoptr(ProgramRepeats) repeats = program_repeats_new(whole, (int)group);
  if (repeats == NULL)
    return FALSE;
  const gboolean is_apart = predict_is_apart(workload, cluster);
  g_autofree gboolean *met = workload->plan->contention && !is_apart
                                 ? timing_model_met_by_tp_in(repeats, (double)n_more, workload, cluster)
                                 : NULL;
  g_autoptr(Program) expanded = NULL;
  if (is_apart || met != NULL) {
    g_clear_pointer(&repeats, program_repeats_free);
    if (is_apart)
      expanded = program_expand(whole, workload);
    else if (may_expand)
      expanded = predict_expand_beside(g_steal_pointer(&whole), workload, cluster, met, NULL);
    repeats = expanded != NULL ? program_repeats_new(expanded, (int)group) : NULL;
  }
  if (repeats == NULL || !predict_may_record(repeats->program, workload, count_ops(repeats, (double)n_more)))
    return FALSE;
  if (is_apart) /* collectives of cp, which those of tp may meet, are transfers of the expanded program alone */
    met = timing_model_met_by_tp_in(repeats, (double)n_more, workload, cluster);
  gint64 step_ns;
  double peak_bytes;
  const gint64 period_ns = run_fewer(repeats, workload, cluster, met != NULL, &step_ns, &peak_bytes);
  if (period_ns == 0 || period_ns > (G_MAXINT64 - step_ns) / n_more)
    return FALSE;
  fill_step(step, workload, cluster, step_ns + n_more * period_ns, peak_bytes);
  return TRUE;
}

/* `n_more` groups are left out. FALSE: it takes more. */
static gboolean step_without(PredictScratch *scratch, Workload *workload, PlanOrder *choice, const Cluster *cluster,
                             gint64 group, gint64 n_more, StepPrediction *step) {
  Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches;
  const gboolean may_expand = predict_may_expand(workload);
  plan->n_micro_batches = all - n_more * group;
  Program *program = predict_lower(scratch, workload, choice, cluster, NULL);
  const gboolean is_known = program != NULL && extend(program, workload, cluster, group, n_more, may_expand, step);
  plan->n_micro_batches = all;
  return is_known;
}

/* By fewer micro-batches: as few as may be, then half as many more. FALSE: it takes all. */
static gboolean step_by_fewer(PredictScratch *scratch, Workload *workload, PlanOrder *choice, const Cluster *cluster,
                              StepPrediction *step) {
  const Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches, group = group_of(choice, plan);
  if (group == 0 || !is_folded_plainly(workload, cluster))
    return FALSE;
  const gint64 fewest = fewest_of(group, plan), tries[] = {fewest, fewest + fewest / 2};
  for (gsize i = 0; i < G_N_ELEMENTS(tries); i++) {
    const gint64 n_more = (all - tries[i]) / group;
    if (4 * n_more * group < all) /* what may be spared is not worth the risk */
      return FALSE;
    if (step_without(scratch, workload, choice, cluster, group, n_more, step))
      return TRUE;
  }
  return FALSE;
}

static gboolean step_of_settled(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                                StepPrediction *step, GError **error) {
  g_auto(PlanOrder) choice = {0};
  g_autoptr(Workload) workload = predict_workload(model, cluster, plan, &choice, error);
  if (workload == NULL)
    return FALSE;
  if (step_by_fewer(scratch, workload, &choice, cluster, step))
    return TRUE;
  g_autoptr(Prediction) prediction = predict_records(scratch, g_steal_pointer(&workload), &choice, cluster, error);
  if (prediction == NULL)
    return FALSE;
  g_autoptr(MemoryProfile) memory = memory_profile_new(prediction->trace);
  fill_step(step, prediction->workload, cluster, step_ns_of(prediction->trace), memory->peak_bytes);
  return TRUE;
}

gboolean predict_step(PredictScratch *scratch, const Model *model, const Cluster *cluster, const Plan *plan,
                      StepPrediction *step, GError **error) {
  Cluster *worn;
  const Cluster *used = predict_cluster(cluster, plan, &worn, error);
  g_autoptr(Plan) settled = used != NULL ? predict_settled(scratch, model, used, plan, error) : NULL;
  const gboolean is_known = settled != NULL && step_of_settled(scratch, model, used, settled, step, error);
  link_health_cluster_free(worn);
  return is_known;
}
