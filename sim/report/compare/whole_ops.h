/* The ops of a trace read from a file, in one form shared by folded and unfolded runs: if an action of a pipeline
 * rank has several records (runs of kernels between tensor-parallel collectives, layers of ZeRO-3), they become one
 * op from the first start to the last end. */
#pragma once
#include "chrome_read.h"

typedef struct {
  gint64 start_ns, end_ns;
  /* When the last partner of a send, receive or collective had started, clamped to [start_ns, end_ns]: before that
   * the op waits, after it data moves. start_ns for an op without partners, and for a buffered send whose receive
   * started after the send had ended. */
  gint64 ready_ns;
  GQuark name; /* "0F3" for compute, else the slice's */
  GQuark kind; /* "F", "send", "tp", … the slice's category */
  gint32 step, stage, micro_batch, rank;
  gint32 peer; /* for a receive, index of its send; for a send, of its receive; −1: unknown, and for all others */
  gint32 last; /* for a collective, index of the member that arrived last; −1 for all others */
  guint8 stream, action;
} WholeOp;

typedef struct {
  int n_ranks;        /* recorded */
  GArray *ops;        /* of WholeOp: ranks ascending, each in the order of its first records */
  gsize *first;       /* [n_ranks + 1] */
  GArray *inner;      /* of WholeOp: collectives inside compute, not among `ops` */
  gsize *inner_first; /* [n_ranks + 1] */
} WholeOps;

WholeOps *whole_ops_new(const ChromeTrace *trace);
void whole_ops_free(WholeOps *ops);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WholeOps, whole_ops_free)

static inline const WholeOp *whole_op_at(const WholeOps *ops, gsize index) {
  return &g_array_index(ops->ops, WholeOp, index);
}

/* Time the op itself took, from the moment everyone it needs was there. */
gint64 whole_op_moving_ns(const WholeOp *op);
