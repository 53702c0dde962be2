/* CSV files from text, for tests. */
#pragma once
#include "error.h" /* ahead of Check, which has a macro fail() */
#include "measured_rows.h"

#include <check.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

/* A file of its own; to be removed and freed with drop_file(). */
static inline char *make_file(const char *text, gsize length) {
  g_autofree char *path = NULL;
  int fd = g_file_open_tmp("stepsim-test-XXXXXX.csv", &path, NULL);
  ck_assert_int_ge(fd, 0);
  close(fd);
  ck_assert(g_file_set_contents_full(path, text, (gssize)length, G_FILE_SET_CONTENTS_NONE, 0600, NULL));
  return g_steal_pointer(&path);
}

static inline void drop_file(char *path) {
  g_unlink(path);
  g_free(path);
}

static inline MeasuredRows *read_rows(const char *text, gsize length, GError **error) {
  char *path = make_file(text, length);
  MeasuredRows *rows = measured_rows_read(&path, 1, TRUE, error);
  drop_file(path);
  return rows;
}

static inline MeasuredRows *rows_of(const char *text) {
  g_autoptr(GError) error = NULL;
  MeasuredRows *rows = read_rows(text, strlen(text), &error);
  ck_assert_msg(rows != NULL, "%s", error == NULL ? "no message" : error->message);
  return rows;
}

static inline const MeasuredRow *nth_row(const MeasuredRows *rows, guint i) {
  ck_assert_uint_lt(i, rows->rows->len);
  return &g_array_index(rows->rows, MeasuredRow, i);
}
