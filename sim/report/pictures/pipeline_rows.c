/* A stage's chunk is its rank among the stages its pipeline rank computes, lowest stage first: with interleaving over p
 * ranks, rank r holds r, r + p, r + 2p …, that is chunks 0, 1, 2 …; other placements need no rule of their own. */
#include "pipeline_rows.h"

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
