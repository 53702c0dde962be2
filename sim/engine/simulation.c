/* What is known of a run before it starts. */
#include "engine.h"

gboolean simulation_has_eager_sends(const Simulation *simulation) {
  const GArray *transfers = simulation->program->transfers;
  for (guint i = 0; i < transfers->len; i++) {
    const Transfer *transfer = &g_array_index(transfers, Transfer, i);
    if (transfer->group < 0 && transfer->bytes <= (double)simulation->eager_bytes)
      return TRUE;
  }
  return FALSE;
}
