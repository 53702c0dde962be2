/* What no order can beat. Two reasons a step takes as long as it does:
 *
 *   one rank       m micro-batches of all its work; and before its first I comes back it can run no more forwards than
 *                  its memory has room for, so it idles the rest of that trip.
 *   a round trip   a rank's first F, the ramp to a later rank, all of that rank's F and I (every F there starts after
 * the ramp, and of the last I there the gradient has yet to come back), the ramp back, and a last W.
 *
 * With several chunks the round trip goes from the first stage of a rank to the first of another, and back to the
 * former; what the other rank does in between is all F and I of all its chunks, less what it may do before the first
 * stage's first F (nothing) and after its last I on that stage (nothing but W: the first stage's last I is its last).
 */
#include "order_cost.h"

static gint64 wire_ns(const OrderProblem *problem, int stage) {
  const int *rank_of = problem->placement->stage_rank;
  return rank_of[stage] != rank_of[stage + 1] ? problem->send_ns : 0;
}

/* The first stage of each rank: its first F is the rank's first action, its last I the last but W. */
static int *first_stages(const Placement *placement) {
  int *first = g_new(int, placement->n_ranks);
  for (int stage = placement->n_stages - 1; stage >= 0; stage--)
    first[placement->stage_rank[stage]] = stage;
  return first;
}

static gint64 work_of(const OrderProblem *problem, int rank, gboolean with_w) {
  gint64 work = 0;
  for (int stage = 0; stage < problem->placement->n_stages; stage++)
    if (problem->placement->stage_rank[stage] == rank)
      work += problem->stages[stage].f_ns + problem->stages[stage].i_ns + (with_w ? problem->stages[stage].w_ns : 0);
  return work * problem->n_micro_batches;
}

gint64 order_lower_bound(const OrderProblem *problem) {
  const Placement *placement = problem->placement;
  g_autofree int *first = first_stages(placement);
  gint64 bound = 0;
  for (int rank = 0; rank < placement->n_ranks; rank++)
    bound = MAX(bound, work_of(problem, rank, TRUE));
  for (int from = 0; placement->n_pipes == 1 && from < placement->n_ranks; from++) {
    gint64 ramp = problem->stages[first[from]].w_ns;
    int from_stage = first[from];
    for (int stage = from_stage; stage < placement->n_stages; stage++) {
      int rank = placement->stage_rank[stage];
      if (first[rank] == stage)
        bound = MAX(bound, ramp + work_of(problem, rank, FALSE));
      if (stage + 1 < placement->n_stages)
        ramp += problem->stages[stage].f_ns + problem->stages[stage].i_ns + 2 * wire_ns(problem, stage);
    }
  }
  return bound;
}
