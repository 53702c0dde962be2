/* What happened: one record per rank and op. Written by the engine in virtual time and by stepreal in wall-clock
 * time; reports read nothing else.
 *
 * Records are dense: op i of rank r is record first[r] + i. A record starts when the op is ready on its rank (from
 * then on a collective's or send's kernel waits there for its partners) and ends when it is done. */
#pragma once
#include "layout.h"
#include "timing.h"

typedef struct {
  const Program *program; /* borrowed; outlives the trace */
  const Timing *timing;   /* borrowed; NULL for measured traces. Lets reports look inside whole compute ops */
  int n_ranks;            /* recorded ranks: pipeline ranks when folded, else every global rank */
  gboolean folded;
  /* [n_ranks] of ranks of dp whose micro-batches differ, which times and effects hold for a rank: blocks of Timing's,
   * and the program whose tables have its bytes; owned; NULL: all are alike */
  int *variant;
  Program *const *programs;  /* [variants]; borrowed; [0] is `program` */
  Layout whole;              /* the plan's, where one rank stands for those of tp and cp; n_ranks 0: `layout` is */
  Layout layout;             /* of the run; folded: recorded rank r stands for all ranks with pp = r */
  int *pipeline_rank;        /* [n_ranks]; owned */
  gsize *first;              /* [n_ranks + 1] first record of each rank; owned */
  gint64 *start_ns, *end_ns; /* owned; −1 = never ran */
  gint64 *issue_ns;          /* when the host began to issue the op; owned */
} Trace;

/* Arrays sized for the program, on one representative per pipeline rank (folded) or on all of layout's ranks.
 * `layout` may be NULL when folded. */
Trace *trace_new(const Program *program, const Layout *layout, gboolean folded);
void trace_free(Trace *trace);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Trace, trace_free)

static inline const OpList *trace_list(const Trace *trace, int rank) {
  return &trace->program->ranks[trace->pipeline_rank[rank]];
}
gsize trace_longest_list(const Trace *trace);        /* most ops of a rank */
gint64 trace_end(const Trace *trace);                /* latest end of any record; 0 when empty */
gint64 trace_step_end(const Trace *trace, int step); /* latest end of any op of steps ≤ step */
/* When the last step but one ended on all ranks; with a single step 0. */
gint64 trace_last_step_begin(const Trace *trace);
static inline gint32 trace_work(const Trace *trace, int rank, gint32 work) {
  return trace->variant != NULL ? work + trace->variant[rank] * (gint32)trace->program->works->len : work;
}
static inline gint32 trace_transfer(const Trace *trace, int rank, gint32 transfer) {
  return trace->variant != NULL ? transfer + trace->variant[rank] * (gint32)trace->program->transfers->len : transfer;
}
/* The program with a rank's bytes. */
static inline const Program *trace_program(const Trace *trace, int rank) {
  return trace->variant != NULL ? trace->programs[trace->variant[rank]] : trace->program;
}
/* The first of the plan's ranks that recorded rank `rank` stands for; `rank` itself if the layout is unknown. */
int trace_first_rank(const Trace *trace, int rank);
/* The recorded rank at pipeline rank `pp` with the same other coordinates as recorded rank `rank`. */
static inline int trace_partner(const Trace *trace, int rank, int pp) {
  return trace->folded ? pp : rank + (pp - trace->pipeline_rank[rank]) * trace->layout.stride[AXIS_PP];
}

/* The rows of a drawing: one recorded rank per pipeline rank, and the chunk that each of its stages is. */

typedef struct {
  int n_rows;   /* pipeline ranks */
  int n_chunks; /* most stages on one pipeline rank; ≥ 1 */
  int n_stages;
  int *recorded; /* [n_rows] lowest recorded rank that runs this op list; −1: none was recorded; owned */
  int *chunk;    /* [n_rows × n_stages] index of a stage among the rank's own; owned */
} PipelineRows;

void pipeline_rows_init(PipelineRows *rows, const Trace *trace);
void pipeline_rows_clear(PipelineRows *rows);
/* 0 for ops without a stage (stage < 0). */
int pipeline_rows_chunk(const PipelineRows *rows, int row, int stage);
