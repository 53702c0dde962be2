/* Layers of stages by what they compute. */
#pragma once
#include "workload.h"

/* Deal out the layers of a pipe's stages anew, layers[length], to make the FLOPs of the busiest rank small: a greedy
 * search that moves one layer at a time. It finds the least there is in every small case that the tests enumerate; it
 * is not proven to do so always. `workload` has its work and its placement, no stages yet. Never more stages without a
 * layer than before, but the first and the last. */
void workload_balance_layers(const Workload *workload, int length, int *layers);
