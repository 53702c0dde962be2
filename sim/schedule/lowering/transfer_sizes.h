/* What the transfers of a Program move under a plan. */
#pragma once
#include "program.h"
#include "workload.h"

/* Transfer.bytes of a send, or of a collective for UNSHARD, REDUCE_GRAD, TIED_GRAD, COPY_GRAD, WHOLE_GRAD or NORM.
 * `of`: the stage of COPY_GRAD, and of an UNSHARD that owners broadcast (else −1); the pipeline rank of WHOLE_GRAD. */
double transfer_size(const Workload *workload, const Program *program, const Transfer *transfer, ActionKind action,
                     int of);

/* Every send, every collective of a layer and of those above is of the kind and bytes (to 1e-9) that it has under the
 * workload's plan, and a FETCH of the shard that the UNSHARD behind it gathers. Ranks and stages as the workload's,
 * works and transfers among its pieces and items; other copies between GPU and host are not looked at. IMPOSSIBLE
 * naming rank and op, what it moves and what is expected. */
gboolean transfer_sizes_check(const Program *program, const Workload *workload, GError **error);
