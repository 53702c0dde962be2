/* The pieces that a model is cut into, in the order in which a forward runs those of one stage.
 *
 *     embedding | dense layers | layers | head         DENSE: without experts, in a model that has some
 *     of either   FROZEN  FROZEN_APART  ·  APART       FROZEN: nothing in it is trained; APART: recomputed in another
 *                                                      way than the rest of its stage (workload.c)
 *
 * Layers of one kind are equal. Where kinds take turns in a model, those of a stage stand in this order instead. */
#pragma once
#include <glib.h>

typedef enum {
  PIECE_EMBEDDING,
  PIECE_FROZEN_DENSE,
  PIECE_FROZEN_DENSE_APART,
  PIECE_DENSE_LAYER,
  PIECE_DENSE_APART,
  PIECE_FROZEN_LAYER,
  PIECE_FROZEN_LAYER_APART,
  PIECE_LAYER,
  PIECE_LAYER_APART,
  PIECE_HEAD,
  N_PIECES
} Piece;

enum { LAYER_APART = 1, LAYER_NOT_FROZEN = 2, N_LAYER_KINDS = 4 }; /* bits of a layer's number, counted from 0 */

static inline gboolean piece_is_layer(Piece piece) {
  return piece > PIECE_EMBEDDING && piece < PIECE_HEAD;
}

static inline gboolean piece_is_dense(Piece piece) {
  return piece_is_layer(piece) && piece <= PIECE_DENSE_APART;
}

static inline gboolean piece_is_apart(Piece piece) {
  return piece_is_layer(piece) && (((int)piece - 1) & LAYER_APART) != 0;
}

static inline gboolean piece_is_frozen(Piece piece) {
  return piece_is_layer(piece) && (((int)piece - 1) & LAYER_NOT_FROZEN) == 0;
}

/* LAYER or DENSE_LAYER for any such layer; EMBEDDING and HEAD as they are. */
static inline Piece piece_family(Piece piece) {
  return !piece_is_layer(piece) ? piece : piece_is_dense(piece) ? PIECE_DENSE_LAYER : PIECE_LAYER;
}

static inline Piece piece_of_layer(gboolean is_dense, gboolean is_frozen, gboolean is_apart) {
  return (Piece)((is_dense ? PIECE_FROZEN_DENSE : PIECE_FROZEN_LAYER) + (is_frozen ? 0 : LAYER_NOT_FROZEN) +
                 (is_apart ? LAYER_APART : 0));
}

/* By piece, how many layers are FROZEN or APART; the others' places are 0. */
typedef struct {
  gint32 n[N_PIECES];
} OtherLayers;

/* Counts of the layers' pieces, `n_dense` of `n_layers` being without experts. */
static inline void count_layers(int n_layers, int n_dense, const OtherLayers *others, int counts[N_PIECES]) {
  int n_others[2] = {0, 0};
  for (int piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++) {
    counts[piece] = others->n[piece];
    n_others[piece_is_dense((Piece)piece)] += others->n[piece];
  }
  counts[PIECE_DENSE_LAYER] = n_dense - n_others[TRUE];
  counts[PIECE_LAYER] = n_layers - n_dense - n_others[FALSE];
}

static inline gboolean others_equal(const OtherLayers *a, const OtherLayers *b) {
  for (int piece = PIECE_EMBEDDING + 1; piece < PIECE_HEAD; piece++)
    if (a->n[piece] != b->n[piece])
      return FALSE;
  return TRUE;
}
