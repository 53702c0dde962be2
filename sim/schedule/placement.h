/* Which pipeline rank holds which stage, and how stages follow one another.
 *
 *     loop            0 1 2 3 | 0 1 2 3         stage s on rank s mod p
 *     V               0 1 2 3 | 3 2 1 0         the second chunk comes back the way the first went
 *     bidirectional   0 1 2 3   and   3 2 1 0   two pipes: a second copy of the model runs against the first, and the
 *                                               later half of the micro-batches goes through it
 *
 * With two pipes, stages 0 … n/2 − 1 are the first copy and n/2 … n − 1 the second; stage s and stage s + n/2 hold
 * the same layers. */
#pragma once
#include <glib.h>

typedef enum { PLACEMENT_LOOP, PLACEMENT_V, PLACEMENT_BIDIRECTIONAL } PlacementShape;

typedef struct {
  int n_ranks, n_stages;
  int n_pipes;     /* 1 or 2; divides n_stages */
  int *stage_rank; /* [n_stages]; owned */
} Placement;

/* V takes any number of chunks and turns at each end; bidirectional takes 2. */
Placement *placement_new(PlacementShape shape, int n_ranks, int n_chunks);
Placement *placement_copy(const Placement *placement);
void placement_free(Placement *placement);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Placement, placement_free)

/* The stage that receives a stage's activation (forward) or gradient (backward); −1 at the end of the pipe. Called
 * for every op of a lowering, nearly always with one pipe, where no division is needed. */
static inline int stage_next(int stage, gboolean forward, int n_stages, int n_pipes) {
  int length = n_pipes == 1 ? n_stages : n_stages / n_pipes, at = n_pipes == 1 ? stage : stage % length;
  if (at == (forward ? length - 1 : 0))
    return -1;
  return stage + (forward ? 1 : -1);
}
/* Whether rank `from` sends its activation to the next rank (wrapping around), or its gradient to the previous one, as
 * is usual; otherwise on a V's second leg or in a second pipe. */
static inline gboolean sends_with_ranks(int n_ranks, gboolean forward, int from, int to) {
  return forward ? to == (from + 1) % n_ranks : from == (to + 1) % n_ranks;
}
/* The pipe a micro-batch goes through. */
int micro_batch_pipe(int micro_batch, int n_micro_batches, int n_pipes);
