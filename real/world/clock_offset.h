/* How far this machine's clock is from rank 0's. */
#pragma once
#include "world.h"

/* ns to add to CLOCK_MONOTONIC here to get rank 0's, measured whatever machine rank 0 is on. Collective. Good to half
 * the least round trip. */
gint64 clock_offset_to_root(World *world);
