/* The model that a row describes, and the shipped one that it is named for: describing experts takes more numbers than
 * a row has columns, and a table may state another vocabulary than the model has. */
#pragma once
#include "framework.h"
#include "row_cells.h"

/* Every model of models/: GPtrArray of Model, owned by the caller. NULL with INPUT set if a file cannot be read. */
GPtrArray *shipped_models_read(GError **error);
/* The one whose name is a prefix of `name` (comparing letters and digits only; the longest if several match) and which
 * has this hidden size and these heads. NULL: none. Borrowed. */
const Model *shipped_models_find(const GPtrArray *models, const char *name, gint64 hidden, gint64 n_heads);

/* What columns say of it; CELL_UNKNOWN where they do not. */
typedef struct {
  gint64 layers, hidden, heads, kv_heads, ffn_hidden, vocab, experts, experts_per_token, moe_ffn_hidden;
  gint64 gated, tied, positions;
} ModelCells;

/* Reads everything that can be read; INPUT for the first cell that cannot: column, found, expected. */
gboolean model_cells_read(const MeasuredRow *row, ModelCells *cells, GError **error);
/* Whether it is the name of such a column. */
gboolean model_cells_have(const char *column);
/* The cells, one per line. */
void model_cells_append_run(const MeasuredRow *row, GString *run);

/* For a run of `framework` (NULL: none that is described) on row->shipped where that says more, with `seq_len` tokens
 * per sequence (0: unknown). Owned by the caller; sets row->unused_vocab if it takes the vocabulary of the model that
 * the row is named for (measured_rows.h). NULL and IMPOSSIBLE for what is not modelled. */
Model *row_model_new(MeasuredRow *row, const ModelCells *cells, const Framework *framework, gint64 seq_len,
                     GError **error);
