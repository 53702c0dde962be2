/* A file that begins with a brace is read as JSON. */
#include "nccl_tests_parts.h"

#include <string.h>

#include "data_path.h"
#include "error.h"

static gboolean check_tables(const NcclTestsLog *log, GError **error) {
  if (log->tables->len == 0)
    return fail_input(
        error, "%s:1: found no table of nccl-tests, expected one with the columns size, time, algbw, busbw", log->file);
  for (guint i = 0; i < log->tables->len; i++) {
    const NcclTestsTable *table = g_ptr_array_index(log->tables, i);
    if (table->points->len == 0)
      return fail_input(error, "%s:%d: found a run without measured times; is the log cut off?", log->file,
                        table->line);
  }
  return TRUE;
}

NcclTestsLog *nccl_tests_read(const char *file, GError **error) {
  gsize length = 0;
  g_autofree char *text = data_file_read(file, &length, error);
  if (text == NULL)
    return NULL;
  if (strlen(text) != length) {
    fail_input(error, "%s:1: found a zero byte, expected a log of nccl-tests", file);
    return NULL;
  }
  g_autoptr(NcclTestsLog) log = nccl_tests_new(file);
  gboolean is_json = text[strspn(text, " \t\r\n")] == '{';
  gboolean ok = is_json ? nccl_tests_read_json(log, error) : nccl_tests_read_text(log, text, error);
  return ok && check_tables(log, error) ? g_steal_pointer(&log) : NULL;
}
