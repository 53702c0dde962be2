/* What a row's cells hold: numbers, words, and what these say of the plan and the model that ran. */
#pragma once
#include "framework.h"
#include "measured_rows.h"

enum { CELL_UNKNOWN = -1 };

static inline gint64 or_else(gint64 value, gint64 otherwise) {
  return value != CELL_UNKNOWN ? value : otherwise;
}

/* Above 0; NAN where the cell is empty or cannot be read. INPUT: column, found, expected. */
gboolean row_cells_quantity(const MeasuredRow *row, const char *column, double most, double *value, GError **error);

/* The plan that a row's cells say: any field of a plan may have a column, under its name in tables (plan_fields.h).
 * How the cells of fields that depend on the framework are set. */
typedef enum { ROW_PLAN_BEFORE_FRAMEWORK, ROW_PLAN_BEHIND_FRAMEWORK } RowPlanPart;

/* Sets every field of that part that has a cell and can be read; FALSE and INPUT for the first that cannot: column,
 * found, expected. The framework itself is the caller's. */
gboolean row_plan_set(const MeasuredRow *row, RowPlanPart part, Plan *plan, GError **error);
/* The cell of a field; "" if there is none. */
const char *row_plan_cell(const MeasuredRow *row, const char *field);
/* Whether it is the name of a field's column. */
gboolean row_plan_has(const char *column);
/* The cells of all fields, one per line, but of schedule and framework, which have several names each. */
void row_plan_append_run(const MeasuredRow *row, GString *run);

/* The model that a row describes, and the shipped one that it is named for: describing experts takes more numbers than
 * a row has columns, and a table may state another vocabulary than the model has. */

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
