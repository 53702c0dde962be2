/* The model that a row describes. */
#pragma once
#include "framework.h"
#include "named_models.h"
#include "row_cells.h"

/* For a run of `framework` (NULL: none that is described). Owned by the caller; sets row->unused_vocab if it takes
 * the vocabulary of the model that the row is named for (measured_rows.h). NULL and IMPOSSIBLE for what is not
 * modelled. */
Model *row_model_new(MeasuredRow *row, const RowCells *cells, const Framework *framework, const NamedModels *named,
                     GError **error);
