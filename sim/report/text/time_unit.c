/* Decimal steps of a thousand, as people read them. */
#include "time_unit.h"

TimeUnit time_unit_for(gint64 span_ns) {
  static const TimeUnit units[] = {{"s", 1e9}, {"ms", 1e6}, {"us", 1e3}, {"ns", 1}};
  guint i = 0;
  while (i + 1 < G_N_ELEMENTS(units) && (double)span_ns < units[i].ns)
    i++;
  return units[i];
}
