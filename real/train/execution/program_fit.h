/* Does a Program that was read from a file belong to this model under this plan? The verifier proves that a Program can
 * run, but not that the layers, kernels and shards it names are there. */
#pragma once
#include "program.h"

/* `program`: verified, with the workload's stages, before it is expanded: no op has more layers than its stage.
 * IMPOSSIBLE naming the first that has. */
gboolean program_layers_fit(const Program *program, const Workload *workload, GError **error);

/* `program`: expanded, verified, with the workload's stages. IMPOSSIBLE naming the first op that asks for what the
 * workload has not. */
gboolean program_fits(const Program *program, const Workload *workload, GError **error);
