/* The weight matrices of a piece on one GPU, as they are multiplied: q, k and v in one, and gate and up. */
#include "pieces.h"

static void add_layer(const LocalSizes *local, Piece piece, gboolean of_experts, int rank, LowRank *sum) {
  LinearKind kinds[N_LINEARS];
  const int n = layer_linears(local, piece, kinds);
  for (int i = 0; i < n; i++) {
    const Linear linear = linear_of(local, kinds[i]);
    if ((kinds[i] == LINEAR_EXPERT_UP || kinds[i] == LINEAR_EXPERT_DOWN) == of_experts)
      low_rank_add(sum, (double)linear.group, (double)linear.n, (double)linear.k, rank);
  }
}

LowRank local_low_rank(const LocalSizes *local, Piece piece, gboolean of_experts, int rank) {
  const Model *model = local->model;
  LowRank sum = {0};
  if (piece_is_layer(piece))
    add_layer(local, piece_family(piece), of_experts, rank, &sum);
  else if (!of_experts)
    low_rank_add(&sum, 1, (double)local->vocab_width, (double)model->hidden, rank);
  if (piece == PIECE_EMBEDDING && !of_experts && model->positions == POSITIONS_LEARNED)
    low_rank_add(&sum, 1, (double)model->max_positions, (double)model->hidden, rank);
  return sum;
}
