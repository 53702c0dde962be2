/* Runs kernels on the CPU cores of a rank's machine, whatever device the rank trains on. */
#pragma once
#include "device.h"
#include "world.h"

/* Threads that a rank may use for this: 1 if its device is a CPU core, else its share of the cores. */
int host_kernels_threads(const DeviceType *device, const World *world);
/* Runs all of them and waits: each of `n_threads` takes one kernel after the other. FALSE: one failed. */
gboolean host_kernels_run(const Kernel *kernels, int n, int n_threads);
