/* Checks that a Program's updates on the host cover all parameters. */
#pragma once
#include "program.h"
#include "workload.h"

/* If the Program updates on the host: in every step, the parts of each rank's update must add up to all parameters
 * that the rank owns under the workload's plan. Ranks and stages must be the workload's. IMPOSSIBLE naming rank and
 * step. */
gboolean host_updates_check(const Program *program, const Workload *workload, GError **error);
