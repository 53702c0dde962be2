/* Host memory and CPU speed, as ranks that offload see them: copies between host and device memory, and AdamW on the
 * host. All ranks of a machine measure at the same time, as in a training step. */
#pragma once
#include "device.h"
#include "world.h"

/* B/s, and bytes; with several machines, each field is the smallest of any machine. */
typedef struct {
  double link_Bps;     /* one rank copies, the others wait; the slower direction */
  double links_Bps;    /* sum over a machine's ranks when all copy at once; the slower direction */
  double memory_Bps;   /* bytes read and written by all cores together: the fastest of passes, updates and copies */
  double update_Bps;   /* model state read and written by AdamW on all cores, counted as stepsim counts it */
  double memory_bytes; /* host memory available now */
} HostTimes;

/* Collective over the world; all ranks get the same result. `number`: format of the updated weights, which have an
 * fp32 master copy unless they are FP32. Allocates 0.2 GB per rank. IMPOSSIBLE if that fails or the device fails. */
gboolean host_times_measure(World *world, const DeviceType *device, Number number, HostTimes *times, GError **error);
