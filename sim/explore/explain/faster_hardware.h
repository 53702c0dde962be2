/* What faster parts would gain: the plan predicted again on the cluster with one kind of part made twice as fast. */
#pragma once
#include "predict.h"

enum { FASTER_TIMES = 2 };

typedef struct {
  const char *what; /* static: "GPU memory twice as fast" */
  double step_time_s;
} FasterStep;

/* Only parts that the step uses. NICs are doubled together with their PCIe, but not the uplinks above them; where
 * PCIe is a node's scale-up network, it is doubled with its switches, uplinks and the links between sockets. Links
 * of a cluster whose collectives were measured or fitted, and GPU parts whose kernels were measured, are left out:
 * how fast better ones would be is not known. `plan` as passed to predict(). Of FasterStep; owned by the caller;
 * empty if the cluster's file can no longer be found. */
GArray *faster_hardware_new(const Prediction *prediction, const Plan *plan);
