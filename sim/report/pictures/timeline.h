/* A picture of the step: per pipeline rank, a lane with its compute stream and thin lanes below it with its
 * communication. Drawn by plots/timeline.gp. */
#pragma once
#include "picture.h"
#include "trace.h"
#include "units.h"

/* The time axis is in `unit`, which for the relative times of bare orders is not a unit of time. A terminal of that
 * many columns gets the drawing of draw_schedule(); 0: none is made. Owned by the caller; NULL with INPUT if nothing
 * takes any time, or a send of the program has no receive. */
Picture *timeline_picture(const Trace *trace, TimeUnit unit, const char *title, int columns, GError **error);
