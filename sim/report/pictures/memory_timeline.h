/* Memory of each pipeline rank over a step, as a picture: a lane per rank, the height what it holds. */
#pragma once
#include "picture.h"
#include "time_unit.h"
#include "trace.h"

/* `cap` in the unit of the trace's effects, drawn as a line in every lane; 0: none. `reserved` lies under what each
 * rank holds, all the time; 0: nothing. `scale` turns that unit into `unit_name`: 1e-9 and "GB" for bytes. INPUT as
 * gnuplot_run(), or when nothing takes any time. */
typedef struct {
  const char *title, *unit_name;
  double scale, cap, reserved;
} MemoryTimelineLook;
gboolean memory_timeline_write(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look, const char *file,
                               GError **error);
/* The same, not drawn yet. Owned by the caller. */
Picture *memory_timeline_picture(const Trace *trace, TimeUnit unit, const MemoryTimelineLook *look);
