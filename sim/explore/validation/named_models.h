/* Shipped models, found by the model name given in a table: describing experts takes more numbers than a row has
 * columns, and a table may state another vocabulary than the model has. */
#pragma once
#include "model.h"

typedef struct NamedModels NamedModels;

/* All of models/. NULL with INPUT set if a file of models/ cannot be read. */
NamedModels *named_models_read(GError **error);
void named_models_free(NamedModels *models);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NamedModels, named_models_free)

/* The model whose name is a prefix of `name` (comparing letters and digits only; the longest if several match) and
 * which has this hidden size and these heads. NULL: none. Borrowed. */
const Model *named_models_find(const NamedModels *models, const char *name, gint64 hidden, gint64 n_heads);
