/* What happened: one record per rank and op. Written by the engine in virtual time and by stepreal in wall-clock time;
 * reports read nothing else.
 *
 * Records are dense: op i of rank r is record first[r] + i. A record's start is when the op was ready on its rank (a
 * collective's or a send's kernel is there, waiting for its partners, from then on), its end when it was done. */
#pragma once
#include "layout.h"
#include "timing.h"

typedef struct {
  const Program *program; /* borrowed; outlives the trace */
  const Timing *timing;   /* borrowed; NULL for measured traces. Lets reports look inside whole compute ops */
  int n_ranks;            /* recorded ranks: pipeline ranks when folded, else every global rank */
  gboolean folded;
  Layout layout;             /* of the run; folded: recorded rank r stands for all ranks with pp = r */
  int *pipeline_rank;        /* [n_ranks]; owned */
  gsize *first;              /* [n_ranks + 1] first record of each rank; owned */
  gint64 *start_ns, *end_ns; /* owned; −1 = never ran */
  gint64 *issue_ns;          /* when the host began to issue the op; owned */
  gint64 since_ns;           /* the first step follows one that ended then; 0: none */
} Trace;

/* Arrays sized for the program on one representative per pipeline rank (folded) or on all of layout's ranks. `layout`
 * may be NULL when folded. */
Trace *trace_new(const Program *program, const Layout *layout, gboolean folded);
void trace_free(Trace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trace, trace_free)

const OpList *trace_list(const Trace *trace, int rank);
gint64 trace_end(const Trace *trace);                /* latest end of any record; 0 when empty */
gint64 trace_step_end(const Trace *trace, int step); /* latest end of any op of steps ≤ step */
/* When the step before the last had ended on all ranks; 0: there was none. */
gint64 trace_last_step_begin(const Trace *trace);
/* The first rank of the plan that recorded rank `rank` stands for; itself where no layout is known. */
int trace_first_rank(const Trace *trace, int rank);
/* Recorded rank that holds the partner pipeline rank `pp` of recorded rank `rank` (same other coordinates). */
int trace_partner(const Trace *trace, int rank, int pp);
