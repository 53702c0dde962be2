/* Whether a Program from elsewhere moves and updates as much as its plan calls for. */
#pragma once
#include "program.h"
#include "workload.h"

/* Every send, every collective of a layer and every collective for UNSHARD, REDUCE_GRAD, TIED_GRAD, COPY_GRAD,
 * WHOLE_GRAD or NORM must have the kind and bytes (to 1e-9) that the workload's plan calls for, and a FETCH those of
 * the shard that its UNSHARD gathers; other copies between GPU and host are not checked. If the Program updates on the
 * host, the parts of each rank's update must add up, in every step, to all parameters that the rank owns. Ranks and
 * stages must be the workload's, works and transfers among its pieces and items. IMPOSSIBLE naming rank and op or step,
 * what is there and what was expected. */
gboolean program_sizes_check(const Program *program, const Workload *workload, GError **error);
