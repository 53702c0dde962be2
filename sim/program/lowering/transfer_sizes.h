/* Sizes of a Program's transfers under a plan. */
#pragma once
#include "program.h"
#include "workload.h"

/* Checks that every send, every collective of a layer and every collective for UNSHARD, REDUCE_GRAD, TIED_GRAD,
 * COPY_GRAD, WHOLE_GRAD or NORM has the kind and bytes (to
 * 1e-9) that the workload's plan calls for, and a FETCH those of the shard that its UNSHARD gathers. Ranks and stages
 * must be the workload's, works and transfers among its pieces and items; other copies between GPU and host are not
 * checked. IMPOSSIBLE naming rank and op, what it moves and what was expected. */
gboolean transfer_sizes_check(const Program *program, const Workload *workload, GError **error);
