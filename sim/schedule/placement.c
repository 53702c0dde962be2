#include "placement.h"

static int rank_of_stage(PlacementShape shape, int n_ranks, int stage) {
  int chunk = stage / n_ranks, at = stage % n_ranks;
  return shape != PLACEMENT_LOOP && chunk % 2 == 1 ? n_ranks - 1 - at : at;
}

Placement *placement_new(PlacementShape shape, int n_ranks, int n_chunks) {
  g_assert(n_ranks >= 1 && n_chunks >= 1 && (shape != PLACEMENT_BIDIRECTIONAL || n_chunks == 2));
  Placement *placement = g_new(Placement, 1);
  *placement = (Placement){.n_ranks = n_ranks,
                           .n_stages = n_ranks * n_chunks,
                           .n_pipes = shape == PLACEMENT_BIDIRECTIONAL ? 2 : 1,
                           .stage_rank = g_new(int, (gsize)n_ranks *(gsize)n_chunks)};
  for (int stage = 0; stage < placement->n_stages; stage++)
    placement->stage_rank[stage] = rank_of_stage(shape, n_ranks, stage);
  return placement;
}

Placement *placement_copy(const Placement *placement) {
  Placement *copy = g_memdup2(placement, sizeof *placement);
  copy->stage_rank = g_memdup2(placement->stage_rank, sizeof(int) * (gsize)placement->n_stages);
  return copy;
}

void placement_free(Placement *placement) {
  if (placement == NULL)
    return;
  g_free(placement->stage_rank);
  g_free(placement);
}

int micro_batch_pipe(int micro_batch, int n_micro_batches, int n_pipes) {
  return n_pipes == 1 ? 0 : (int)((gint64)micro_batch * n_pipes / n_micro_batches);
}
