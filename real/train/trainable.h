/* Can stepreal train this model under this plan? It must have the kernels, number formats and memory for it;
 * simulation needs less. */
#pragma once
#include "workload.h"

/* Checks what both single kernels and whole runs need. IMPOSSIBLE naming the first thing in the model or the plan
 * that is not supported. */
gboolean trainable_check(const Workload *workload, GError **error);
/* Checks what a whole run needs in addition, even with a verified Program: IMPOSSIBLE with the reason. */
gboolean trainable_check_run(const Workload *workload, GError **error);
