/* Can this model be trained here under this plan? What stepreal has kernels, numbers and memory for; simulating asks
 * for less. */
#pragma once
#include "workload.h"

/* Of single kernels as of whole runs: IMPOSSIBLE naming the first thing of the model or of the plan that cannot be. */
gboolean trainable_check(const Workload *workload, GError **error);
/* What a whole run needs besides, though its Program is verified: IMPOSSIBLE with the reason. */
gboolean trainable_check_run(const Workload *workload, GError **error);
