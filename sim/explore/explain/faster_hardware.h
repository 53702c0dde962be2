/* What faster parts would buy: the plan predicted again on the cluster with one kind of part twice as fast. */
#pragma once
#include "predict.h"

enum { FASTER_TIMES = 2 };

typedef struct {
  const char *what; /* static: "GPU memory twice as fast" */
  double step_time_s;
} FasterStep;

/* Parts that the step uses; NICs with the PCIe they hang on, uplinks above them left as they are; a node's PCIe, where
 * that is its scale-up, with its switches, uplinks and what joins its sockets. Links of a cluster
 * whose collectives were measured or fitted, and parts of a GPU whose kernels were measured, are left out: times of
 * faster ones are not known. `plan` as the prediction was asked for. Of FasterStep; owned by the caller; empty where
 * the cluster's file is not found again. */
GArray *faster_hardware_new(const Prediction *prediction, const Plan *plan);
