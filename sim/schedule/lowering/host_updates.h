/* What a Program says to update on the host against what there is to update. */
#pragma once
#include "program.h"
#include "workload.h"

/* Where the Program updates on the host, the parts of each rank's update are, in every step, of all parameters that the
 * rank owns under the workload's plan. Ranks and stages as the workload's. IMPOSSIBLE naming rank and step. */
gboolean host_updates_check(const Program *program, const Workload *workload, GError **error);
