#include "piece_facts.h"

gboolean piece_trains(const Method *method, Piece piece) {
  const TrainedParts *training = &method->training;
  if (piece_is_layer(piece))
    return !piece_is_frozen(piece);
  return training->rank == 0 && (training->frozen & (piece == PIECE_HEAD ? FREEZE_HEAD : FREEZE_EMBEDDING)) == 0;
}

gboolean piece_passes_back(const Method *method, Piece piece) {
  return piece == PIECE_HEAD || piece_trains(method, piece) || piece_trains(method, PIECE_EMBEDDING);
}

gboolean logits_train(const Model *model, const Method *method) {
  const gboolean is_table_frozen = model->tied && (method->training.frozen & FREEZE_EMBEDDING) != 0;
  return piece_trains(method, PIECE_HEAD) && !is_table_frozen;
}

gboolean piece_recomputes(const Method *method, Piece piece) {
  const gboolean is_kept = piece_is_apart(piece) && method->recomputes != RECOMPUTE_FULL;
  return method->recompute == RECOMPUTE_FULL && piece_is_layer(piece) && !is_kept;
}

gboolean head_recomputes(const Method *method) {
  return method->recompute == RECOMPUTE_FULL && method->recomputes == RECOMPUTE_FULL;
}
