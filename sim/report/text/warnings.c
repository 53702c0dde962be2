#include "warnings.h"

#include "far_gathers.h"

char *warning_of_memory(double used_share) {
  if (!(used_share > MEMORY_WARNED_ABOVE && used_share <= 1))
    return NULL;
  return g_strdup_printf("%.1f %% of a GPU's memory is taken: next to nothing is left for fragments of the allocator "
                         "and for what the prediction gets wrong; plan and sweep leave room with --memory-margin 5%%",
                         100 * used_share);
}

GPtrArray *warnings_new(const Plan *plan, int gpus_per_node, double used_share) {
  GPtrArray *warnings = g_ptr_array_new_with_free_func(g_free);
  char *const all[] = {warning_of_memory(used_share), far_gathers_warning(plan, gpus_per_node)};
  for (gsize i = 0; i < G_N_ELEMENTS(all); i++)
    if (all[i] != NULL)
      g_ptr_array_add(warnings, all[i]);
  return warnings;
}

GPtrArray *warnings_of_step(const StepReport *report) {
  const double used_bytes = report->peak_bytes + report->reserved_bytes;
  return warnings_new(report->plan, report->cluster != NULL ? report->cluster->gpus_per_node : 0,
                      report->capacity_bytes > 0 ? used_bytes / report->capacity_bytes : 0);
}
