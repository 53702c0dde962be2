/* What a machine's own memory and processors do for ranks that offload: copies to and from their processors' memory,
 * and AdamW there. All ranks of a machine do the same at once, as they do in a step. */
#pragma once
#include "device.h"
#include "world.h"

/* B/s, and bytes; each the least of any machine where there are several. */
typedef struct {
  double link_Bps;     /* of one rank's copies while the others wait, the slower direction */
  double links_Bps;    /* of all ranks of a machine that copy at once, likewise */
  double memory_Bps;   /* bytes read and written by all processors at once: the most of passes, updates and copies */
  double update_Bps;   /* bytes of model state that AdamW on all of them reads and writes, as stepsim counts them */
  double memory_bytes; /* host memory that can be had now */
} HostTimes;

/* Collective over the world, the same on all ranks. `number`: of the weights that are updated; they have an fp32 master
 * copy unless they are FP32. Buffers of 0.2 GB a rank. IMPOSSIBLE when they cannot be had or the device fails. */
gboolean host_times_measure(World *world, const DeviceType *device, Number number, HostTimes *times, GError **error);
