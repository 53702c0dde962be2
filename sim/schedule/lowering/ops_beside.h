/* Compute ops that transfers of some kinds may be under way beside, whatever anything takes: those of a list that
 * neither have ended before such a transfer starts nor start after it ended.
 *
 *     compute  | F0 | F1 | B0 |  B1  |  optimizer
 *     dp                      | sum  |               it waits for B0, the optimizer for it: it runs beside B1
 */
#pragma once
#include "program.h"

typedef struct {
  gboolean **is_beside; /* [pipeline ranks][ops of its list]; owned */
  double n_pieces;      /* in the ops that are and are not cut yet, over all lists */
  int n_ranks;
} OpsBeside;

/* `marked`: [program's transfers]. A send of at most eager_bytes may arrive before its receive starts. */
OpsBeside *ops_beside_new(const Program *program, const gboolean *marked, gint64 eager_bytes);
/* Whether such transfers are known to have ended before any op of a further step starts, which comes behind its
 * list's last op, one of the host. */
gboolean ops_beside_end_with_step(const Program *program, const gboolean *marked);
void ops_beside_free(OpsBeside *beside);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(OpsBeside, ops_beside_free)
