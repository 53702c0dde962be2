/* The contents of a row's cells: numbers, and words as their index. */
#pragma once
#include "measured_rows.h"

enum { CELL_UNKNOWN = -1 };

/* A row's numbers and words; CELL_UNKNOWN (or NAN) if it does not say. */
typedef struct {
  gint64 layers, hidden, heads, kv_heads, ffn_hidden, vocab, experts, experts_per_token, moe_ffn_hidden;
  gint64 gated, tied, positions, mtp_layers, expert_tp;
  gint64 gpus, tp, pp, chunks, cp, ep, dp, zero, zero_ranks, micro_batch, global_batch, seq_len;
  gint64 recompute, sequence_parallel, precision, attention, norm_kernel, overlap_grad, overlap_param, expert_dispatch,
      overlap_experts, cuda_graphs, cp_comm;
  guint recompute_modules; /* 0: not stated */
  double step_time_s, memory_gb;
} RowCells;

/* Reads everything that can be read; INPUT for the first cell that cannot: column, found, expected. */
gboolean row_cells_read(const MeasuredRow *row, RowCells *cells, GError **error);
/* The cell pipeline_layout as a Plan has it, owned by the caller; NULL if it is empty or wrong. */
gboolean row_cells_layout(const MeasuredRow *row, const RowCells *cells, char **layout, GError **error);
/* The cells that say what was run, one per line. */
void row_cells_append_run(const MeasuredRow *row, GString *run);
/* Whether this module reads a column. */
gboolean row_cells_have(const char *column);

static inline gint64 or_else(gint64 value, gint64 otherwise) {
  return value != CELL_UNKNOWN ? value : otherwise;
}
