/* Distributes layers over stages by what they compute. */
#pragma once
#include "workload.h"

/* Redistributes the layers of a pipe's stages, layers[length], to reduce the FLOPs of the busiest rank: a greedy
 * search that moves one layer at a time. It finds the minimum in every small case that the tests enumerate, but is
 * not proven to do so always. `workload` has its work and its placement, but no stages yet. Except for the first and
 * the last, no stage loses its only layer. */
void workload_balance_layers(const Workload *workload, int length, int *layers);
