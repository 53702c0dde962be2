/* Memory of each pipeline rank over a step, as a picture: one lane per rank, its height the memory held. */
#pragma once
#include "picture.h"
#include "trace.h"
#include "units.h"

/* `cap`, in the unit of the trace's effects, is drawn as a line in every lane; 0: none. `reserved` is added below
 * what each rank holds, at all times; 0: nothing. `scale` converts that unit to `unit_name`: 1e-9 and "GB" for
 * bytes. Owned by the caller; NULL with INPUT if nothing takes any time. */
typedef struct {
  const char *title, *unit_name;
  double scale, cap, reserved;
} MemoryTimelineLook;
Picture *memory_timeline_picture(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look, GError **error);
