/* Predicts several steps in a row from one of them. A step ends with an op of each rank's host, which issues nothing
 * of the next step before (pass_optimizer.c). If everything else on the rank has ended by then, the vector T of these
 * ends alone determines what follows. A step is a function of its begin on each rank, and if it begins later
 * everywhere, it ends as much later:
 *
 *     T₁ = A(0),  T₂ = A(T₁),  T₃ = A(T₂) …        A(T + λ) = A(T) + λ
 *
 *     rank 0   │  step 1  │  step 2  │  step 3  │          if T₂ = T₁ + λ on all ranks, every later step is the same,
 *     rank 1   │  step 1    │  step 2  │  step 3  │        record by record, λ after the one before
 *
 * Transfers of two steps do not slow each other either: both ends of a send wait for each other, so at any time
 * everything that moves on a rank's ways, and on those of the ranks it exchanges data with, is of one step.
 *
 * So a program of one step is run twice, from 0 and from T₁. The second run is the plan's second step. It is also the
 * last step if the plan has two, or if T₂ = T₁ + λ. Ops are expanded as they would be in a longer list, provided that
 * what they are expanded for is known to end with its step. */
#include "predict_parts.h"

#include "offload_state.h"
#include "ops_beside.h"
#include "passes.h"
#include "timing_model.h"

/* Expands as predict_expand() does, and fills in *timing. Takes over `program`. NULL: lists of more steps would be
 * expanded differently, or expansion is impossible. */
static Program *expand_step(Program *program, const Workload *workload, const Cluster *cluster, Timing **timing) {
  g_autoptr(Program) whole = program;
  if (whole == NULL || predict_is_apart(workload, cluster))
    return whole != NULL ? predict_expand_all(g_steal_pointer(&whole), workload) : NULL;
  g_autofree gboolean *met = NULL;
  *timing = timing_model_unless_met(whole, NULL, 0, workload, cluster, &met);
  if (met == NULL)
    return g_steal_pointer(&whole);
  return ops_beside_end_with_step(whole, met)
             ? predict_expand_beside(g_steal_pointer(&whole), workload, cluster, met, NULL)
             : NULL;
}

static double count_ops(const Program *program) {
  double n_ops = 0;
  for (int rank = 0; rank < program->n_ranks; rank++)
    n_ops += program->ranks[rank].n_ops;
  return n_ops;
}

/* Whether a further step finds memory on every rank as this one found it. */
static gboolean leaves_memory(const Program *program) {
  for (int rank = 0; rank < program->n_ranks; rank++)
    if (!program_leaves_memory(program, &program->ranks[rank], 0, program->ranks[rank].n_ops))
      return FALSE;
  return TRUE;
}

/* ends_ns: [ranks] end of the last op, which is the host's. FALSE: something on a rank ends after its last op. */
static gboolean ends_with_host(const Trace *trace, gint64 *ends_ns) {
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    const gint64 *rank_ends_ns = &trace->end_ns[trace->first[rank]];
    if (list->n_ops == 0 || list->ops[list->n_ops - 1].kind != OP_HOST)
      return FALSE;
    gint64 latest_ns = 0;
    for (gint32 i = 0; i < list->n_ops; i++)
      latest_ns = MAX(latest_ns, rank_ends_ns[i]);
    ends_ns[rank] = rank_ends_ns[list->n_ops - 1];
    if (latest_ns > ends_ns[rank])
      return FALSE;
  }
  return TRUE;
}

static gboolean is_shifted(const gint64 *before_ns, const gint64 *after_ns, int n) {
  for (int rank = 1; rank < n; rank++)
    if (after_ns[rank] - before_ns[rank] != after_ns[0] - before_ns[0])
      return FALSE;
  return TRUE;
}

static gint64 latest(const gint64 *times_ns, int n) {
  gint64 latest_ns = 0;
  for (int i = 0; i < n; i++)
    latest_ns = MAX(latest_ns, times_ns[i]);
  return latest_ns;
}

/* Whether all n_steps steps fit in int64 nanoseconds. The first takes first_ns; a later one may take a little
 * longer. */
static gboolean can_be_counted(gint64 first_ns, int n_steps) {
  return 2.0 * n_steps * (double)first_ns < (double)G_MAXINT64;
}

/* The prediction gets the trace and engine of the last step and the memory of the first. FALSE: one step does not
 * determine `n_steps`. */
static gboolean run_twice(Prediction *prediction, Simulation *simulation, int n_steps) {
  const int n_ranks = prediction->program->n_ranks;
  g_autofree gint64 *first_ns = g_new(gint64, n_ranks), *second_ns = g_new(gint64, n_ranks);
  const gint64 before_us = g_get_monotonic_time();
  EngineStats first_stats;
  g_autoptr(Trace) first = engine_run(simulation, &first_stats);
  if (!ends_with_host(first, first_ns) || !can_be_counted(latest(first_ns, n_ranks), n_steps))
    return FALSE;
  simulation->begin_ns = first_ns;
  prediction->trace = engine_run(simulation, &prediction->engine);
  prediction->trace->since_ns = latest(first_ns, n_ranks);
  prediction->wall_s = (double)(g_get_monotonic_time() - before_us) * 1e-6;
  if (!ends_with_host(prediction->trace, second_ns) || first_stats.n_events != prediction->engine.n_events ||
      (n_steps > 2 && !is_shifted(first_ns, second_ns, n_ranks)) ||
      !engine_add_steps(simulation, first, n_steps, &prediction->engine))
    return FALSE;
  prediction->memory = memory_profile_new(first);
  return TRUE;
}

/* `workload` has one step of `n_steps`. NULL: what the others do is unknown. */
static Prediction *predict_one(const Workload *workload, PlanOrder *choice, const Cluster *cluster, int n_steps) {
  g_autoptr(Prediction) prediction = g_new0(Prediction, 1);
  prediction->cluster = cluster;
  prediction->program =
      expand_step(predict_lower(workload, choice, cluster, NULL, NULL, NULL), workload, cluster, &prediction->timing);
  if (prediction->program == NULL || !leaves_memory(prediction->program) ||
      !predict_may_record(prediction->program, workload, n_steps * count_ops(prediction->program)))
    return NULL;
  if (prediction->timing == NULL)
    prediction->timing = timing_model(prediction->program, workload, cluster);
  Simulation simulation = {.program = prediction->program,
                           .timing = prediction->timing,
                           .layout = &workload->layout,
                           .folded = TRUE,
                           .eager_bytes = cluster->eager_bytes,
                           .contended = workload->plan->contention};
  if (simulation_has_eager_sends(&simulation) || !run_twice(prediction, &simulation, n_steps))
    return NULL;
  return g_steal_pointer(&prediction);
}

/* The orders of auto and of a file are made for the plan with all its steps, so they are excluded. */
static gboolean may_be_one(const Workload *workload, const PlanOrder *choice, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  return plan->steps > 1 && choice->info != NULL && !offload_is_any(&plan->offload) && predict_may_expand(workload) &&
         predict_is_folded_plainly(workload, cluster);
}

Prediction *predict_step_records(Workload *workload, PlanOrder *choice, const Cluster *cluster, GError **error) {
  g_autoptr(Workload) owned = workload;
  if (may_be_one(workload, choice, cluster)) {
    const int n_steps = workload->plan->steps;
    workload->plan->steps = 1;
    Prediction *prediction = predict_one(workload, choice, cluster, n_steps);
    workload->plan->steps = n_steps;
    if (prediction != NULL) {
      prediction->workload = g_steal_pointer(&owned);
      return prediction;
    }
  }
  return predict_records(g_steal_pointer(&owned), choice, cluster, error);
}

MemoryProfile *predict_memory(Prediction *prediction) {
  MemoryProfile *last = memory_profile_new(prediction->trace), *before = g_steal_pointer(&prediction->memory);
  if (before == NULL)
    return last;
  memory_profile_add_later(before, last, prediction->trace->n_ranks);
  memory_profile_free(last);
  return before;
}
