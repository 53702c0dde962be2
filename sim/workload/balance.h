/* Layers of stages by what they compute. */
#pragma once
#include "workload.h"

/* Deal the layers of a pipe's stages, layers[length], out anew, so that the rank with the most FLOPs has few: a
 * greedy search, a layer at a time, as few as may be in all small cases that were counted out (tests), not proven to be
 * so in all. `workload` has its work and its placement, no stages yet. Never more stages without a layer than before,
 * but the first and the last. */
void workload_balance_layers(const Workload *workload, int length, int *layers);
