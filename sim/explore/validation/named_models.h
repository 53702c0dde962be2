/* Shipped models, found by the name that a table gives to a run's model: what experts are like has more numbers than a
 * row has columns, and a table may print another vocabulary than the model has. */
#pragma once
#include "model.h"

typedef struct NamedModels NamedModels;

/* All of models/. NULL with INPUT set where a file of models/ cannot be read. */
NamedModels *named_models_read(GError **error);
void named_models_free(NamedModels *models);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(NamedModels, named_models_free)

/* The model whose name `name` begins with, letters and digits alone compared, the longest of several; and whose hidden
 * size and heads are these. NULL: none. Borrowed. */
const Model *named_models_find(const NamedModels *models, const char *name, gint64 hidden, gint64 n_heads);
