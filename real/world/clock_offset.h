/* The offset between this machine's clock and rank 0's. */
#pragma once
#include "world.h"

/* ns to add to CLOCK_MONOTONIC here to get rank 0's, measured even if rank 0 is on the same machine. Collective.
 * Error: at most half the shortest round trip. */
gint64 clock_offset_to_root(World *world);
