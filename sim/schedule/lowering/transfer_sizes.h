/* Sizes of a Program's transfers under a plan. */
#pragma once
#include "program.h"
#include "workload.h"

/* Transfer.bytes of a send, or of a collective for UNSHARD, REDUCE_GRAD, TIED_GRAD, COPY_GRAD, WHOLE_GRAD or NORM.
 * `of`: the stage of a COPY_GRAD, and of an UNSHARD broadcast by its owners (else −1); the pipeline rank of a
 * WHOLE_GRAD. */
double transfer_size(const Workload *workload, const Program *program, const Transfer *transfer, ActionKind action,
                     int of);

/* Checks that every send, every collective of a layer and every collective listed above has the kind and bytes (to
 * 1e-9) that the workload's plan calls for, and a FETCH those of the shard that its UNSHARD gathers. Ranks and stages
 * must be the workload's, works and transfers among its pieces and items; other copies between GPU and host are not
 * checked. IMPOSSIBLE naming rank and op, what it moves and what was expected. */
gboolean transfer_sizes_check(const Program *program, const Workload *workload, GError **error);
