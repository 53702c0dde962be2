/* What follow.c and clock.c share: a run's records, and when a step is ready. Private to the engine. */
#pragma once
#include "engine.h"
#include "saturate.h"
#include "tape.h"

typedef struct {
  const Simulation *simulation;
  const Tape *tape;
  const Timing *timing;
  Trace *trace;
  gssize *base;      /* [recorded ranks] record of op 0 of the tape, if the rank had it */
  gint64 *offset_ns; /* [ops] host time from the last barrier (none: from 0) to the op's issue */
  guint *ways;       /* [transfers] bits of the ways it takes; 0: none, it takes its own time */
  gboolean *eager;   /* [transfers] a send that does not wait for its receive */
  gboolean has_ways; /* some transfer takes a way */
  int stride;        /* recorded ranks from one pipeline rank to the next */
} Run;

/* The latest end of what an op of the rank waits for; *issue_ns: when the host begins to issue it. */
static G_ALWAYS_INLINE inline gint64 run_ready_ns(const Run *run, gssize base, const TapeStep *step, gint64 *issue_ns) {
  const gint64 *end_ns = run->trace->end_ns + base;
  const gint32 *awaited = &run->tape->awaited[step->first_awaited];
  gint64 ready_ns = 0;
  for (int i = 0; i < step->n_awaited; i++)
    ready_ns = MAX(ready_ns, end_ns[awaited[i]]);
  *issue_ns = run->offset_ns[step->op];
  if (step->barrier >= 0)
    *issue_ns = add_ns(*issue_ns, end_ns[step->barrier]);
  return ready_ns;
}

static inline gint64 run_transfer_start_ns(const Run *run, const TapeStep *step, gint64 ready_ns, gint64 issue_ns) {
  return MAX(ready_ns, add_ns(issue_ns, run->timing->transfers[step->work].host_ns));
}

static inline gint64 run_host_end_ns(const Run *run, const TapeStep *step, gint64 start_ns) {
  return add_ns(start_ns, timing_host_run_ns(run->timing, step->work));
}
