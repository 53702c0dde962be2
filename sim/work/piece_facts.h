/* What a method does with a piece: whether it is trained, whether it is recomputed. */
#pragma once
#include "method.h"
#include "piece.h"

/* Whether some of a piece's parameters are trained; whether backward passes through it to something that is. */
gboolean piece_trains(const Method *method, Piece piece);
gboolean piece_passes_back(const Method *method, Piece piece);
/* Whether the output layer's matrix is. */
gboolean logits_train(const Model *model, const Method *method);
/* Whether full recompute makes a layer of this kind again. */
gboolean piece_recomputes(const Method *method, Piece piece);
/* Whether a head that predicts a further token recomputes its layer: where all layers are recomputed alike. */
gboolean head_recomputes(const Method *method);
