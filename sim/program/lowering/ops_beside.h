/* Finds compute ops that may overlap with transfers of some kinds, whatever the durations: those that neither must
 * have ended before such a transfer starts nor must start after it ends.
 *
 *     compute  | F0 | F1 | B0 |  B1  |  optimizer
 *     dp                      | sum  |               waits for B0; the optimizer waits for it: may overlap with B1
 */
#pragma once
#include "program.h"

typedef struct {
  gboolean **is_beside; /* [pipeline ranks][ops of the list]; owned */
  double n_pieces;      /* pieces in the ops found that are not expanded yet, over all lists */
  int n_ranks;
} OpsBeside;

/* `marked`: [transfers], those of interest. A send of at most eager_bytes may arrive before its receive starts. */
OpsBeside *ops_beside_new(const Program *program, const gboolean *marked, gint64 eager_bytes);
void ops_beside_free(OpsBeside *beside);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OpsBeside, ops_beside_free)
