/* A step of m micro-batches is first tried with few, m′: enough for the pipeline to fill and to repeat once. If the
 * run is seen to return to a state (steady.h), the rest follows. Its peak memory has been reached by then too, as a
 * group leaves memory as it found it. Otherwise all micro-batches are run.
 *
 * Decisions that depend on the whole plan are made for all micro-batches: whether tp's collectives meet other
 * transfers enough (timing_model.h), and whether the run would be too large. */
#include "predict_parts.h"

#include "mixed_gpus.h"
#include "passes.h"
#include "steady.h"
#include "timing_model.h"
#include "transfer_tax.h"

/* Whether the run is folded, its ranks are alike and its transfers have no taxes: then what repeats takes the same
 * time each time. */
static gboolean is_folded_plainly(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return plan->fold && plan->jitter == 0 && (plan->slow_ranks == NULL || plan->slow_ranks->len == 0) &&
         !transfer_tax_is_stated(cluster, plan) && mixed_gpus_is_uniform(workload, cluster);
}

/* The ops of all micro-batches, where `n_more` groups are omitted from every step. */
static double count_ops(const ProgramRepeats *repeats, double n_more) {
  const Program *program = repeats->program;
  double n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++) {
    n_ops += program->ranks[rank].n_ops;
    for (int step = 0; step < program->n_steps; step++)
      n_ops += n_more * program_repeats_of(repeats, rank, step)->n_ops;
  }
  return n_ops;
}

/* Whether all times fit in int64 nanoseconds. */
static gboolean can_be_counted(const Omitted *omitted, gint64 end_ns) {
  double sum_ns = (double)end_ns;
  for (int step = 0; step < omitted->n_steps; step++)
    sum_ns += (double)omitted->n_groups * (double)omitted_period_ns(&omitted->periods[step]);
  return sum_ns < (double)G_MAXINT64;
}

/* Runs `prediction`'s program. FALSE: what `n_more` more groups add is unknown. */
static gboolean run_fewer(Prediction *prediction, const Workload *workload, gint64 n_more, gboolean tp_meets) {
  const Program *program = prediction->program;
  if (prediction->timing == NULL)
    prediction->timing = timing_model_meeting(program, workload, prediction->cluster, tp_meets);
  g_autofree gint16 *early_ticks = g_new0(gint16, (gsize)count_ops(prediction->repeats, 0));
  const Simulation simulation = {.program = program,
                                 .timing = prediction->timing,
                                 .layout = &workload->layout,
                                 .folded = TRUE,
                                 .eager_bytes = prediction->cluster->eager_bytes,
                                 .contended = workload->plan->contention,
                                 .early_ticks = early_ticks};
  const gint64 before_us = g_get_monotonic_time();
  prediction->trace = engine_run(&simulation, &prediction->engine);
  prediction->wall_s = (double)(g_get_monotonic_time() - before_us) * 1e-6;
  prediction->omitted = steady_omitted(prediction->repeats, n_more, prediction->trace, early_ticks);
  return prediction->omitted != NULL && can_be_counted(prediction->omitted, trace_end(prediction->trace)) &&
         engine_add_omitted(&simulation, prediction->trace, prediction->omitted, &prediction->engine);
}

/* Expands the program where that of all micro-batches would be expanded. FALSE: how it repeats is unknown. */
static gboolean prepare(Prediction *prediction, const Workload *workload, int group, gint64 n_more, gboolean may_expand,
                        gboolean *tp_meets) {
  const Cluster *cluster = prediction->cluster;
  prediction->repeats = program_repeats_new(prediction->program, group);
  if (prediction->repeats == NULL)
    return FALSE;
  const gboolean is_apart = predict_is_apart(workload, cluster);
  g_autofree gboolean *met = NULL;
  if (!is_apart)
    prediction->timing =
        timing_model_unless_met(prediction->program, prediction->repeats, (double)n_more, workload, cluster, &met);
  *tp_meets = met != NULL;
  if (!is_apart && met == NULL)
    return TRUE;
  if (!is_apart && !may_expand)
    return FALSE;
  g_clear_pointer(&prediction->repeats, program_repeats_free);
  g_autoptr(Program) whole = g_steal_pointer(&prediction->program);
  prediction->program = is_apart ? predict_expand_all(g_steal_pointer(&whole), workload)
                                 : predict_expand_beside(g_steal_pointer(&whole), workload, cluster, met, NULL);
  if (prediction->program != NULL)
    prediction->repeats = program_repeats_new(prediction->program, group);
  if (prediction->repeats == NULL)
    return FALSE;
  if (is_apart) { /* collectives of cp, which those of tp may meet, are transfers only in the expanded program */
    met = timing_model_met_by_tp_in(prediction->repeats, (double)n_more, workload, cluster);
    *tp_meets = met != NULL;
  }
  return TRUE;
}

/* `workload` has the micro-batches of all but `n_more` groups. NULL: what these add is unknown. */
static Prediction *predict_without(const Workload *workload, PlanOrder *choice, const Cluster *cluster, gint64 group,
                                   gint64 n_more, gboolean may_expand) {
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  gboolean tp_meets = FALSE;
  prediction->cluster = cluster;
  prediction->program = predict_lower(workload, choice, cluster, NULL, NULL, NULL);
  if (prediction->program == NULL || !prepare(prediction, workload, (int)group, n_more, may_expand, &tp_meets) ||
      !predict_may_record(prediction->program, workload, count_ops(prediction->repeats, (double)n_more)) ||
      !run_fewer(prediction, workload, n_more, tp_meets))
    return NULL;
  return g_steal_pointer(&prediction);
}

/* With metrics if asked for. NULL: more micro-batches are needed. */
static Prediction *try_without(Workload *workload, PlanOrder *choice, const Cluster *cluster, gint64 group,
                               gint64 n_more, gboolean with_metrics) {
  Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches;
  const gboolean may_expand = predict_may_expand(workload);
  plan->n_micro_batches = all - n_more * group;
  g_autoptr(Prediction) prediction = predict_without(workload, choice, cluster, group, n_more, may_expand);
  plan->n_micro_batches = all;
  if (prediction != NULL && with_metrics)
    prediction->metrics = metrics_new_with(prediction->trace, prediction->omitted);
  return prediction != NULL && with_metrics && prediction->metrics == NULL ? NULL : g_steal_pointer(&prediction);
}

/* Tries the fewest first. */
Prediction *predict_fewer(Workload *workload, PlanOrder *choice, const Cluster *cluster, gboolean with_metrics) {
  const Plan *plan = workload->plan;
  const gint64 all = plan->n_micro_batches, group = plan_order_group(choice, plan);
  if (group == 0 || !is_folded_plainly(workload, cluster))
    return NULL;
  PredictTry tries[PREDICT_MOST_TRIES];
  const int n_tries = predict_tries(group, workload, tries);
  for (int i = 0; i < n_tries; i++) {
    const gint64 n_more = (all - tries[i].n) / group;
    if ((double)(n_more * group) < tries[i].least_spared * (double)all) /* would not save enough */
      return NULL;
    Prediction *prediction = try_without(workload, choice, cluster, group, n_more, with_metrics);
    if (prediction != NULL)
      return prediction;
  }
  return NULL;
}
