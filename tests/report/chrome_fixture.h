/* Traces written to a file and read back, in the test's own folder. */
#pragma once
#include "chrome_read.h"
#include "chrome_trace.h"
#include "error.h"
#include "text_file.h"
#include <check.h>
#include <glib/gstdio.h>

static char *folder; /* this run's; removed at the end */

static inline ChromeTrace *read_text(const char *text, gssize length, GError **error) {
  g_autofree char *file = g_build_filename(folder, "read.json", NULL);
  ck_assert(g_file_set_contents(file, text, length, NULL));
  ChromeTrace *trace = chrome_read(file, error);
  g_unlink(file);
  return trace;
}

static inline char *text_of(const Trace *trace) {
  g_autofree char *file = g_build_filename(folder, "written.json", NULL);
  ck_assert(chrome_trace_write(trace, file, NULL));
  char *text = text_file_read(file);
  g_unlink(file);
  return text;
}

static inline ChromeTrace *read_back(const Trace *trace) {
  g_autofree char *text = text_of(trace);
  g_autoptr(GError) error = NULL;
  ChromeTrace *read = read_text(text, -1, &error);
  ck_assert_msg(read != NULL, "%s", error ? error->message : "");
  return read;
}
