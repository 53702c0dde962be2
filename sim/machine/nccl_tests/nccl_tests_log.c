/* The log that both readers fill. Every time comes with a bandwidth, so the two are checked against each other: a
 * time in other units is noticed. */
#include "nccl_tests_parts.h"

#include <math.h>
#include <string.h>

#include "error.h"
#include "measured_links.h"
#include "suggest.h"

/* Programs in the order of operations in measured_op_names(); none measures a parameter server. */
static const char *const programs[] = {
    "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "alltoall_perf", "broadcast_perf",
    "reduce_perf",     "gather_perf",     "scatter_perf",        "sendrecv_perf", NULL};
G_STATIC_ASSERT(G_N_ELEMENTS(programs) == N_MEASURED_OPS);

static void table_free(gpointer data) {
  NcclTestsTable *table = data;
  g_array_unref(table->points);
  g_free(table);
}

NcclTestsLog *nccl_tests_new(const char *file) {
  NcclTestsLog *log = g_new0(NcclTestsLog, 1);
  log->file = g_strdup(file);
  log->tables = g_ptr_array_new_with_free_func(table_free);
  return log;
}

void nccl_tests_free(NcclTestsLog *log) {
  if (log == NULL)
    return;
  g_free(log->file);
  g_free(log->version);
  g_clear_pointer(&log->tables, g_ptr_array_unref);
  g_free(log);
}

NcclTestsTable *nccl_tests_add_table(NcclTestsLog *log, int line) {
  NcclTestsTable *table = g_new(NcclTestsTable, 1);
  *table = (NcclTestsTable){.line = line, .op = -1, .points = g_array_new(FALSE, FALSE, sizeof(NcclTestsPoint))};
  g_ptr_array_add(log->tables, table);
  return table;
}

gboolean nccl_tests_op(const NcclTestsLog *log, int line, const char *program, int *op, GError **error) {
  g_autofree char *name = g_path_get_basename(program);
  for (int i = 0; programs[i] != NULL; i++)
    if (strcmp(programs[i], name) == 0) {
      *op = i;
      return TRUE;
    }
  g_autofree char *valid = suggest_message(name, programs);
  return fail_input(error, "%s:%d: found the program \"%.80s\", %s", log->file, line, name, valid);
}

gboolean nccl_tests_add_point(const NcclTestsLog *log, NcclTestsTable *table, int line, double bytes, double time_us,
                              double algbw_GBps, double busbw_GBps, GError **error) {
  if (bytes == 0)
    return TRUE; /* nccl-tests measures size 0, too; it says nothing about bandwidth */
  if (!(bytes > 0 && bytes <= 1e15 && time_us > 0 && time_us <= 1e10 && algbw_GBps >= 0 && busbw_GBps >= 0 &&
        isfinite(algbw_GBps) && isfinite(busbw_GBps)))
    return fail_input(error, "%s:%d: found %g us for %g bytes at %g and %g GB/s, expected times above 0", log->file,
                      line, time_us, bytes, algbw_GBps, busbw_GBps);
  double by_time_GBps = bytes / time_us * 1e-3;
  double rounding_GBps = 0.011 + 0.02 * by_time_GBps; /* both are printed with at most 2 decimals */
  if (fabs(by_time_GBps - algbw_GBps) > rounding_GBps)
    return fail_input(error,
                      "%s:%d: found an algbw of %g GB/s, expected %.4g GB/s, as %.0f bytes took %g us; are times in "
                      "us and bandwidths in GB/s?",
                      log->file, line, algbw_GBps, by_time_GBps, bytes, time_us);
  NcclTestsPoint point = {bytes, time_us * 1e-6, algbw_GBps * 1e9, busbw_GBps * 1e9, line};
  g_array_append_val(table->points, point);
  return TRUE;
}
