/* Memory of each pipeline rank over a step, as a picture: one lane per rank, its height the memory held. */
#pragma once
#include "picture.h"
#include "time_unit.h"
#include "trace.h"

/* `cap`, in the unit of the trace's effects, is drawn as a line in every lane; 0: none. `reserved` is added below
 * what each rank holds, at all times; 0: nothing. `scale` converts that unit to `unit_name`: 1e-9 and "GB" for
 * bytes. INPUT as gnuplot_run(), or if nothing takes any time. */
typedef struct {
  const char *title, *unit_name;
  double scale, cap, reserved;
} MemoryTimelineLook;
gboolean memory_timeline_write(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look, const char *file,
                               GError **error);
/* The same, not drawn yet. Owned by the caller. */
Picture *memory_timeline_picture(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look);
