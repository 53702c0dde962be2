/* Kernels on the processors of a rank's machine, whatever its own processor is. */
#pragma once
#include "device.h"
#include "world.h"

/* Threads that a rank has there: 1 where its processor is a core of them, else its part of all that it may use. */
int host_kernels_threads(const DeviceType *device, const World *world);
/* Runs them all, here and now: `n_threads` take one after the other. FALSE: one has failed. */
gboolean host_kernels_run(const Kernel *kernels, int n, int n_threads);
