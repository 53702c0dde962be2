/* Peak micro-batches in flight per rank. Compute ops run in list order, so counting needs no clock. Both an F and a
 * backward may be cut into several ops: the first op of the F adds the micro-batch, the last op of its B (or W)
 * removes it. */
#include "metrics.h"

#include <string.h>

static int peak_in_flight(const Trace *trace, int rank, gint32 *releases, gboolean *held) {
  const Program *program = trace->program;
  const OpList *list = trace_list(trace, rank);
  const gint64 *end_ns = trace->end_ns + trace->first[rank];
  gsize n_slots = (gsize)program->n_steps * program->n_stages * program->n_micro_batches;
  memset(releases, 0, n_slots * sizeof *releases);
  memset(held, 0, n_slots * sizeof *held);

  int count = 0, peak = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = 0; i < list->n_ops; i++) {
      const Op *op = &list->ops[i];
      if (op->kind != OP_COMPUTE || op->stage < 0 || op->micro_batch < 0 || end_ns[i] < 0)
        continue;
      gsize slot = ((gsize)op->step * program->n_stages + op->stage) * program->n_micro_batches + op->micro_batch;
      gboolean releases_one = op->action == ACTION_B || op->action == ACTION_W;
      if (pass == 0) {
        releases[slot] += releases_one;
      } else if (op->action == ACTION_F && !held[slot]) {
        held[slot] = TRUE;
        count++;
        peak = MAX(peak, count);
      } else if (releases_one && --releases[slot] == 0) {
        count--;
      }
    }
  }
  return peak;
}

void metrics_in_flight(const Trace *trace, int *peak) {
  const Program *program = trace->program;
  gsize n_slots = (gsize)program->n_steps * program->n_stages * program->n_micro_batches;
  g_autofree gint32 *releases = g_new(gint32, MAX(n_slots, 1));
  g_autofree gboolean *held = g_new(gboolean, MAX(n_slots, 1));
  memset(peak, 0, sizeof *peak * (gsize)program->n_ranks);
  for (int r = 0; r < trace->n_ranks; r++) {
    int pp = trace->pipeline_rank[r];
    if (peak[pp] == 0) /* ranks that run the same list have the same peak */
      peak[pp] = peak_in_flight(trace, r, releases, held);
  }
}
