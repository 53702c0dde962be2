/* Models with experts among the shipped ones, found by the name that a table gives to a run's model: what experts are
 * like has more numbers than a row has columns. */
#pragma once
#include "model.h"

typedef struct ExpertModels ExpertModels;

/* All of models/ that have experts. NULL with INPUT set where a file of models/ cannot be read. */
ExpertModels *expert_models_read(GError **error);
void expert_models_free(ExpertModels *models);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(ExpertModels, expert_models_free)

/* The model whose name `name` begins with, letters and digits alone compared, the longest of several; and whose hidden
 * size and heads are these. NULL: none. Borrowed. */
const Model *expert_models_find(const ExpertModels *models, const char *name, gint64 hidden, gint64 n_heads);
