/* From a plan to the workload that is run: open values settled, and of auto's candidates the fastest. */
#pragma once
#include "cluster.h"
#include "workload.h"

typedef struct Plan Plan;

/* INPUT or IMPOSSIBLE as predict(). Owned by the caller. */
Workload *predict_settle(const Model *model, const Cluster *cluster, const Plan *plan, GError **error);
