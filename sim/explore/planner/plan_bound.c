/* A compute op takes its work's run_ns or longer, whatever the rest of the step does, and ops of a rank's compute
 * stream run one after the other. So
 *
 *     step ≥ Σ over stages of a rank, over micro-batches, F + B     B = I + W at once, or the two apart if shorter
 *
 * for every rank, but for exchanges with experts where a pass may spend them beside another: the fullest one counts.
 * Where a backward is one op (B) and a step ends before the next begins, no rank starts before a forward came down to
 * its first stage s, and what follows its last backward goes up from there:
 *
 *     step ≥ Σ_{stages before s} F  +  the rank's work  +  Σ_{stages before s} B
 *
 * which on equal stages is (m + (p − 1)/v)·(F + B), all there is to 1f1b and interleaved but communication.
 *
 * Where stages run on into the next step without waiting for each other, the step is the distance between two ends of
 * steps: that of the rank which ended the first of the two is at least its own work, and which rank that is, is not
 * known. There the emptiest one counts. */
#include "plan_bound.h"

#include "lowering.h"
#include "plan.h"
#include "program.h"
#include "schedules.h"
#include "timing_model.h"

/* What is known of a workload before its Program. */
typedef struct {
  const Timing *timing;
  gboolean hides_exchanges;
} Known;

/* Exchanges with experts. */
static gint64 exchanges_ns(const Timing *timing, const Work *work) {
  int counts[N_PIECES];
  gint64 sum_ns = 0;
  work_pieces(work, counts);
  for (int piece = 0; piece < N_PIECES; piece++)
    sum_ns += counts[piece] * timing->lists[piece][work->phase].split.charged_ns[CHARGE_EP];
  return sum_ns;
}

static gint64 run_ns(const Known *known, const StageLayers *layers, Phase phase) {
  const Work work = {.phase = phase,
                     .n_embedding = layers->has_embedding,
                     .n_head = layers->has_head,
                     .n_layers = layers->n_layers,
                     .n_dense = layers->n_dense,
                     .piece = -1,
                     .first_item = -1,
                     .last_item = -1,
                     .stage = -1};
  const gint64 hidden_ns = known->hides_exchanges ? exchanges_ns(known->timing, &work) : 0;
  return timing_of_work(known->timing, &work).run_ns - hidden_ns;
}

/* Of one micro-batch in one stage. */
typedef struct {
  gint64 forward_ns, backward_ns;
} StageTimes;

static StageTimes stage_times(const Known *known, const StageLayers *layers) {
  gint64 apart_ns = run_ns(known, layers, PHASE_I) + run_ns(known, layers, PHASE_W);
  return (StageTimes){run_ns(known, layers, PHASE_F), MIN(run_ns(known, layers, PHASE_B), apart_ns)};
}

static gboolean ranks_differ(const Plan *plan, const Cluster *cluster) {
  return plan->jitter > 0 || plan->slow_ranks->len > 0 || cluster_other_gpus(cluster, plan->gpus) > 0;
}

/* A forward and a backward may run as one, or take turns (pass interleave): kernels of one stand beside exchanges of
 * the other. Nowhere else do they, as what follows a pass waits for its end. */
static gboolean hides_exchanges(const Workload *workload) {
  return plan_schedule(workload->plan)->defers_w || lowering_takes_turns(workload);
}

/* Of all micro-batches on a rank. */
static gint64 work_ns(const Workload *workload, const StageTimes *stages, int rank) {
  const Placement *placement = workload->placement;
  gint64 n_micro_batches = workload->plan->n_micro_batches / placement->n_pipes; /* each pipe has its part of them */
  gint64 sum_ns = 0;
  for (int stage = 0; stage < workload->n_stages; stage++)
    if (placement->stage_rank[stage] == rank)
      sum_ns += n_micro_batches * (stages[stage].forward_ns + stages[stage].backward_ns);
  return sum_ns;
}

/* A rank's work, down to it and up from it; stages 0 … p − 1 are the first ones of their ranks. */
static gint64 filled_and_drained_ns(const Workload *workload, const StageTimes *stages) {
  gint64 before_ns = 0, most_ns = 0;
  for (int rank = 0; rank < workload->plan->pp; rank++) {
    most_ns = MAX(most_ns, before_ns + work_ns(workload, stages, rank));
    before_ns += stages[rank].forward_ns + stages[rank].backward_ns;
  }
  return most_ns;
}

static gint64 bound_ns(const Workload *workload, const StageTimes *stages) {
  const Plan *plan = workload->plan;
  if (!plan_schedule(plan)->defers_w && plan->steps == 1) /* steps do not run into each other */
    return filled_and_drained_ns(workload, stages);
  gint64 least_ns = G_MAXINT64, most_ns = 0;
  for (int rank = 0; rank < plan->pp; rank++) {
    gint64 rank_ns = work_ns(workload, stages, rank);
    least_ns = MIN(least_ns, rank_ns);
    most_ns = MAX(most_ns, rank_ns);
  }
  return plan->steps > 1 ? least_ns : most_ns;
}

gint64 plan_bound_step_ns(const Workload *workload, const Cluster *cluster) {
  const Plan *plan = workload->plan;
  if (ranks_differ(plan, cluster))
    return 0;
  g_autoptr(Program) nothing = program_new(plan->pp, workload->n_stages, (int)plan->n_micro_batches);
  g_autoptr(Timing) timing = timing_model(nothing, workload, cluster, NULL);
  const Known known = {timing, hides_exchanges(workload)};
  g_autofree StageTimes *stages = g_new(StageTimes, workload->n_stages);
  for (int stage = 0; stage < workload->n_stages; stage++)
    stages[stage] = stage_times(&known, &workload->stages[stage].layers);
  return bound_ns(workload, stages);
}
