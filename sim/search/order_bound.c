/* What no order can beat, seen from rank a with first stage s:
 *
 *   on its own     m micro-batches of all its work. Before its first I arrives, a round trip after its first F, it
 *                  can only run forwards, as many as its memory holds; it idles for the rest of that trip.
 *   a round trip   its first F, the ramp to the first stage of a later rank b, all of b's F and I, the ramp back,
 *                  a last W. Nothing of b can run before the ramp; and b's last action other than W is an I of its
 *                  first stage, since the gradient of any other stage of b still has to pass that stage.
 *   all ranks      if the makespan counts, the same seen from rank b: the ramp from the pipe's start, b's work, and
 *                  if W is shorter than the ramp back, the ramp back. */
#include "order_cost.h"
#include <math.h>

static gint64 wire_ns(const OrderProblem *problem, int stage) {
  const int *rank_of = problem->placement->stage_rank;
  return rank_of[stage] != rank_of[stage + 1] ? problem->send_ns : 0;
}

/* Per rank. */
typedef struct {
  int first, last;         /* stages */
  gint64 f_ns, i_ns, w_ns; /* all its stages, per micro-batch */
  double f_ns_per_memory;  /* longest forward time per unit of memory; infinite if some stage holds nothing */
} RankWork;

static RankWork *rank_works(const OrderProblem *problem) {
  const Placement *placement = problem->placement;
  RankWork *works = g_new0(RankWork, placement->n_ranks);
  for (int stage = placement->n_stages - 1; stage >= 0; stage--) {
    RankWork *work = &works[placement->stage_rank[stage]];
    const StageCost *cost = &problem->stages[stage];
    work->last = MAX(work->last, stage);
    work->first = stage;
    work->f_ns += cost->f_ns;
    work->i_ns += cost->i_ns;
    work->w_ns += cost->w_ns;
    if (cost->f_ns > 0)
      work->f_ns_per_memory = MAX(work->f_ns_per_memory, (double)cost->f_ns / cost->f_holds);
  }
  return works;
}

/* Idle time before the first I, which arrives `trip_ns` after the first F. */
static gint64 idle_in_ramp(const OrderProblem *problem, const RankWork *work, int rank, gint64 trip_ns) {
  double busy_ns = (double)work->f_ns * problem->n_micro_batches;
  if (problem->cap != NULL && isfinite(work->f_ns_per_memory))
    busy_ns = MIN(busy_ns, ceil(work->f_ns_per_memory * problem->cap[rank] * (1 + 1e-9)));
  return MAX(0, trip_ns - (gint64)busy_ns);
}

gint64 order_lower_bound(const OrderProblem *problem) {
  const Placement *placement = problem->placement;
  gint64 m = problem->n_micro_batches, bound = 0;
  g_autofree RankWork *works = rank_works(problem);
  for (int rank = 0; rank < placement->n_ranks; rank++)
    bound = MAX(bound, m * (works[rank].f_ns + works[rank].i_ns + works[rank].w_ns));
  if (placement->n_pipes > 1)
    return bound;
  for (int rank = 0; rank < placement->n_ranks; rank++) {
    const RankWork *own = &works[rank];
    gint64 ramp_ns = 0, trip_ns = 0;
    for (int stage = own->first; stage < placement->n_stages; stage++) {
      const StageCost *cost = &problem->stages[stage];
      const RankWork *other = &works[placement->stage_rank[stage]];
      if (other->first == stage)
        bound = MAX(bound, ramp_ns + m * (other->f_ns + other->i_ns) + problem->stages[own->first].w_ns);
      gint64 there_ns = stage + 1 < placement->n_stages ? wire_ns(problem, stage) : 0;
      ramp_ns += cost->f_ns + cost->i_ns + 2 * there_ns;
      trip_ns += cost->f_ns + there_ns + (stage > own->last ? cost->i_ns : 0) + (stage >= own->last ? there_ns : 0);
    }
    bound = MAX(bound, m * (own->f_ns + own->i_ns + own->w_ns) + idle_in_ramp(problem, own, rank, trip_ns));
  }
  gint64 out_ns = 0, back_ns = 0;
  for (int stage = 0; problem->by_makespan && stage < placement->n_stages; stage++) {
    const RankWork *other = &works[placement->stage_rank[stage]];
    if (other->first == stage) {
      gint64 busy_ns = m * (other->f_ns + other->i_ns);
      bound = MAX(bound, out_ns + busy_ns + MAX(m * other->w_ns, back_ns + problem->stages[0].w_ns));
    }
    gint64 there_ns = stage + 1 < placement->n_stages ? wire_ns(problem, stage) : 0;
    out_ns += problem->stages[stage].f_ns + there_ns;
    back_ns += problem->stages[stage].i_ns + there_ns;
  }
  return bound;
}
