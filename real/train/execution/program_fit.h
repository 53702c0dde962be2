/* Does a Program read from a file belong to this model under this plan? The verifier proves that a Program can run,
 * but not that the layers, kernels and shards it names exist. */
#pragma once
#include "program.h"

/* `program`: verified, with the workload's stages, not yet expanded: checks that no op has more layers than its
 * stage. IMPOSSIBLE naming the first that has. */
gboolean program_layers_fit(const Program *program, const Workload *workload, GError **error);

/* `program`: expanded, verified, with the workload's stages. IMPOSSIBLE naming the first op that needs something the
 * workload does not have. */
gboolean program_fits(const Program *program, const Workload *workload, GError **error);
