/* What is sure to have ended when an op starts. Order here has the executors' meaning: by streams, events and the
 * host, not only by list position. One pass over a rank's list gives every op a vector clock: for each stream, the
 * latest op that must have ended when it starts,
 *
 *     clock(op) = max over d of (clock(d), d itself),   d in { op before it on its stream, its `after`, last host op }
 *
 * and an op is sure to come after x if clock(op)[stream of x] ≥ x. Clocks are computed up to an op only when its own
 * `after` does not answer a question, which is rare in Programs made by the passes. */
#pragma once
#include "program.h"

enum { N_CLOCKS = (N_STREAMS + 3) & ~3 }; /* rounded up to whole vector registers */

typedef struct {
  gint32 ended[N_CLOCKS]; /* per stream, the latest op known to have ended; −1 none */
} Clock;

typedef struct {
  const Op *ops; /* of the current rank */
  Clock *clocks; /* [ops of the longest list]; the first n_set are set; owned */
  gint32 n_set;
  gint32 latest[N_STREAMS]; /* latest op before n_set on each stream; −1 none */
} Clocks;

/* Returns the number of ops of the longest list. */
int clocks_init(Clocks *clocks, const Program *program);
void clocks_clear(Clocks *clocks);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Clocks, clocks_clear)
/* Turns to a rank's list. */
void clocks_begin(Clocks *clocks, const OpList *list);
gboolean clocks_tell(Clocks *clocks, gint32 i, gint32 earlier);

/* Whether op `earlier`, in front of op i in the list, is sure to have ended when i starts. An op that waits for a
 * later op of a stream also waits for the earlier ones. */
static inline gboolean clocks_has_ended(Clocks *clocks, gint32 i, gint32 earlier) {
  const Op *ops = clocks->ops, *op = &ops[i];
  const guint8 stream = ops[earlier].stream;
  if (op->stream == stream)
    return TRUE;
  for (int k = 0; k < OP_MAX_AFTER && op->after[k] >= 0; k++)
    if (op->after[k] >= earlier && ops[op->after[k]].stream == stream)
      return TRUE;
  return clocks_tell(clocks, i, earlier);
}
