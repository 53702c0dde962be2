/* The rows of a drawing: one recorded rank per pipeline rank, and the chunk that each of its stages is. */
#pragma once
#include "trace.h"

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
