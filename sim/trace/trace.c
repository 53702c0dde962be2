/* Records are three flat arrays over all ranks' ops. first[] has the start of each rank's records, so there is no
 * searching:
 *
 *     rank 0        rank 1        …
 *     | op 0 1 2 …  | op 0 1 2 …  |
 *     first[0]      first[1]      first[n_ranks] = number of records */
#include "trace.h"

#include <string.h>

/* All bytes 0xff: every record −1, "never ran". */
static gint64 *new_records(gsize n) {
  gint64 *records = g_new(gint64, n);
  if (n > 0)
    memset(records, 0xff, n * sizeof *records);
  return records;
}

Trace *trace_new(const Program *program, const Layout *layout, gboolean folded) {
  g_assert(folded || layout != NULL);
  g_assert(folded || layout->size[AXIS_PP] == program->n_ranks);

  Trace *trace = g_new0(Trace, 1);
  trace->program = program;
  trace->folded = folded;
  trace->n_ranks = folded ? program->n_ranks : layout->n_ranks;
  if (layout != NULL)
    trace->layout = *layout;

  trace->pipeline_rank = g_new(int, trace->n_ranks);
  trace->first = g_new(gsize, trace->n_ranks + 1);
  trace->first[0] = 0;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    trace->pipeline_rank[rank] = folded ? rank : layout_coordinates(layout, rank).at[AXIS_PP];
    trace->first[rank + 1] = trace->first[rank] + (gsize)trace_list(trace, rank)->n_ops;
  }

  gsize n_records = trace->first[trace->n_ranks];
  trace->start_ns = new_records(n_records);
  trace->end_ns = new_records(n_records);
  trace->issue_ns = new_records(n_records);
  return trace;
}

void trace_free(Trace *trace) {
  if (trace == NULL)
    return;
  g_free(trace->variant);
  g_free(trace->pipeline_rank);
  g_free(trace->first);
  g_free(trace->start_ns);
  g_free(trace->end_ns);
  g_free(trace->issue_ns);
  g_free(trace);
}

gsize trace_longest_list(const Trace *trace) {
  int n_most = 0;
  for (int pp = 0; pp < trace->program->n_ranks; pp++)
    n_most = MAX(n_most, trace->program->ranks[pp].n_ops);
  return (gsize)n_most;
}

gint64 trace_end(const Trace *trace) {
  gint64 end_ns = 0;
  for (gsize i = 0; i < trace->first[trace->n_ranks]; i++)
    end_ns = MAX(end_ns, trace->end_ns[i]);
  return end_ns;
}

gint64 trace_step_end(const Trace *trace, int step) {
  gint64 end_ns = 0;
  for (int rank = 0; rank < trace->n_ranks; rank++) {
    const OpList *list = trace_list(trace, rank);
    const gint64 *ends_ns = &trace->end_ns[trace->first[rank]];
    for (int i = 0; i < list->n_ops; i++)
      if (list->ops[i].step <= step)
        end_ns = MAX(end_ns, ends_ns[i]);
  }
  return end_ns;
}

gint64 trace_last_step_begin(const Trace *trace) {
  const int n_steps = trace->program->n_steps;
  return n_steps > 1 ? trace_step_end(trace, n_steps - 2) : 0;
}

int trace_first_rank(const Trace *trace, int rank) {
  if (trace->whole.n_ranks > 0) {
    const Coordinates of_run = layout_coordinates(&trace->layout, rank);
    return layout_rank(&trace->whole, &of_run);
  }
  if (!trace->folded || trace->layout.n_ranks == 0)
    return rank;
  const Coordinates at = {.at = {[AXIS_PP] = rank}};
  return layout_rank(&trace->layout, &at);
}

/* --- rows -------------------------------------------------------------------------------------------------------- */

/* A stage's chunk is its rank among the stages its pipeline rank computes, lowest stage first: with interleaving over p
 * ranks, rank r holds r, r + p, r + 2p …, that is chunks 0, 1, 2 …; other placements need no rule of their own. */

static void find_recorded(PipelineRows *rows, const Trace *trace) {
  for (int row = 0; row < rows->n_rows; row++)
    rows->recorded[row] = -1;
  for (int rank = trace->n_ranks - 1; rank >= 0; rank--)
    rows->recorded[trace->pipeline_rank[rank]] = rank;
}

static void number_chunks(PipelineRows *rows, int row, const OpList *list) {
  int *chunk = rows->chunk + (gsize)row * (gsize)rows->n_stages;
  for (int i = 0; i < list->n_ops; i++)
    if (list->ops[i].kind == OP_COMPUTE && list->ops[i].stage >= 0 && action_info(list->ops[i].action)->is_compute)
      chunk[list->ops[i].stage] = 1;
  int n = 0;
  for (int stage = 0; stage < rows->n_stages; stage++)
    chunk[stage] = chunk[stage] ? n++ : 0;
  rows->n_chunks = MAX(rows->n_chunks, n);
}

void pipeline_rows_init(PipelineRows *rows, const Trace *trace) {
  const Program *program = trace->program;
  *rows = (PipelineRows){.n_rows = program->n_ranks, .n_chunks = 1, .n_stages = program->n_stages};
  rows->recorded = g_new(int, program->n_ranks);
  rows->chunk = g_new0(int, (gsize)program->n_ranks *(gsize)program->n_stages);
  find_recorded(rows, trace);
  for (int row = 0; row < rows->n_rows; row++)
    number_chunks(rows, row, &program->ranks[row]);
}

void pipeline_rows_clear(PipelineRows *rows) {
  g_free(rows->recorded);
  g_free(rows->chunk);
  *rows = (PipelineRows){0};
}

int pipeline_rows_chunk(const PipelineRows *rows, int row, int stage) {
  return stage < 0 ? 0 : rows->chunk[(gsize)row * (gsize)rows->n_stages + (gsize)stage];
}
