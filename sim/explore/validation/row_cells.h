/* What stands in a row's cells: numbers, and words as their index. */
#pragma once
#include "measured_row.h"

enum { CELL_UNKNOWN = -1 };

/* A row's numbers and words; CELL_UNKNOWN (or NAN) where it does not say. */
typedef struct {
  gint64 layers, hidden, heads, kv_heads, ffn_hidden, vocab, experts, experts_per_token, moe_ffn_hidden;
  gint64 gated, tied, positions, mtp_layers, expert_tp;
  gint64 gpus, tp, pp, chunks, cp, ep, dp, zero, zero_ranks, micro_batch, global_batch, seq_len;
  gint64 recompute, sequence_parallel, precision, attention, norm_kernel, overlap_grad, overlap_param, expert_dispatch,
      overlap_experts, cuda_graphs, cp_comm;
  guint recompute_modules; /* 0: not said */
  double step_time_s, memory_gb;
} RowCells;

/* All that can be read; INPUT of the first cell that cannot: column, found, expected. */
gboolean row_cells_read(const MeasuredRow *row, RowCells *cells, GError **error);
/* The cell pipeline_layout as a Plan has it, owned by the caller; NULL where it is empty or wrong. */
gboolean row_cells_layout(const MeasuredRow *row, const RowCells *cells, char **layout, GError **error);
/* All of these cells that say what was run, a line each. */
void row_cells_append_run(const MeasuredRow *row, GString *run);
/* Whether a column is read here. */
gboolean row_cells_have(const char *column);

static inline gint64 or_else(gint64 value, gint64 otherwise) {
  return value != CELL_UNKNOWN ? value : otherwise;
}
